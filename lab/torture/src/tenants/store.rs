//! The store of the pool: keys, each with the number of the transaction that has put it.

use std::collections::BTreeMap;

use tembo_kv::{Durability, Error, Keyspace, Store};
use tembo_sim::Random;

use crate::judge::{expect, text};

const KEYS: usize = 64;
/// Every transaction puts its number here.
const LAST: &[u8] = b"last";

/// What a transaction does: it puts a key, with a value of so many bytes behind the number, or removes it.
struct Deed {
    key: usize,
    len: Option<usize>,
}

impl Deed {
    fn of(number: u64) -> Deed {
        let mut random = Random::new(number);
        let key = random.below(KEYS);
        let len = (random.below(5) > 0).then(|| random.below(500));
        Deed { key, len }
    }
}

fn name(key: usize) -> Vec<u8> {
    format!("key {key}").into_bytes()
}

fn value(number: u64, len: usize) -> Vec<u8> {
    let mut value = number.to_le_bytes().to_vec();
    value.resize(8 + len, number as u8);
    value
}

/// All that the store shows.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Content {
    /// Of the last transaction.
    pub(super) number: u64,
    /// Which transaction has put a key.
    keys: BTreeMap<usize, u64>,
}

impl Content {
    /// What it is after all transactions up to `number`.
    pub(super) fn follow(&mut self, number: u64) {
        while self.number < number {
            self.number += 1;
            let deed = Deed::of(self.number);
            match deed.len {
                Some(_) => drop(self.keys.insert(deed.key, self.number)),
                None => drop(self.keys.remove(&deed.key)),
            }
        }
    }
}

/// Makes the transaction of that number.
pub(super) fn change(store: &Store, space: Keyspace, number: u64) -> Result<(), Error> {
    let Deed { key, len } = Deed::of(number);
    let mut tx = store.exclusive()?;
    tx.put(space, LAST, &number.to_le_bytes())?;
    match len {
        Some(len) => drop(tx.put(space, &name(key), &value(number, len))?),
        None => drop(tx.remove(space, &name(key))?),
    }
    tx.commit(Durability::Strict).map(drop)
}

/// What the store shows; verifies that no value is torn.
pub(super) fn show(store: &Store, space: Keyspace) -> Result<Content, String> {
    let number = |value: &[u8]| value.first_chunk::<8>().map(|bytes| u64::from_le_bytes(*bytes));
    let get = |key: &[u8]| store.get(space, key).map_err(text);
    let mut content = Content::default();
    if let Some(last) = get(LAST)? {
        content.number = number(&last).ok_or("the last number is torn")?;
    }
    for key in 0..KEYS {
        let Some(found) = get(&name(key))? else { continue };
        let number = number(&found).ok_or("a value is torn")?;
        let wanted = Deed::of(number).len.map(|len| value(number, len));
        expect(wanted == Some(found), &format!("key {key}: a torn value, of {number}"))?;
        content.keys.insert(key, number);
    }
    Ok(content)
}
