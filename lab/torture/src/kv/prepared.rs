//! Prepared transactions, as operations. What one writes and reads is said by its id, so that a listing of ids shows
//! what a store will do.

use std::collections::BTreeSet;
use std::ops::Bound;

use tembo_kv::{Durability, Error, Isolation, Keyspace, Store, Transaction};

use super::op::{Span, Write, key, value};
use crate::judge::{expect, text};

/// The ids of prepared transactions.
pub(crate) type Ids = BTreeSet<String>;

/// What the transaction of an id writes: the second outgrows memory, the third is serialisable, the last writes what the
/// first does.
pub(crate) fn writes(id: &str) -> Vec<Write> {
    match id {
        "p" => vec![(1, Some(9)), (4, None), (6, Some(70))],
        "q" => vec![(2, Some(30)), (3, Some(90)), (7, None), (8, Some(60)), (13, Some(20))],
        "r" => vec![(9, Some(12))],
        _ => vec![(1, Some(5)), (10, Some(40))],
    }
}

/// The values that it writes are those of an operation with this serial.
pub(crate) fn serial(id: &str) -> u64 {
    100_000 * u64::from(id.as_bytes()[0])
}

/// The key, and the last key of a range from "common-prefix-10" on, that it reads, if it is serialisable.
const READ: (u8, [u8; 2]) = (0, [11, 17]);

/// Whether the transaction of an id holds a key.
fn holds(id: &str, n: u8) -> bool {
    let reads = id == "r" && (n == READ.0 || n % 3 == 2 && (READ.1[0]..=READ.1[1]).contains(&n));
    reads || writes(id).iter().any(|write| write.0 == n)
}

/// Whether one of them, but for `own`, holds a key.
pub(crate) fn is_held(ids: &Ids, own: Option<&str>, n: u8) -> bool {
    ids.iter().filter(|id| Some(id.as_str()) != own).any(|id| holds(id, n))
}

/// Whether one of them holds a key that is written.
pub(crate) fn refuses(ids: &Ids, writes: &[Write]) -> bool {
    writes.iter().any(|write| is_held(ids, None, write.0))
}

/// Whether one of them holds what lies in a range.
pub(crate) fn refuses_range(ids: &Ids, span: Span) -> bool {
    let writes = |id: &String| writes(id).iter().any(|write| span.contains(&key(write.0)));
    let (from, to) = span.bounds();
    let begins = |after: u8| match &from {
        Bound::Included(from) => *from <= key(after),
        _ => true,
    };
    let ends = |before: u8| match &to {
        Bound::Excluded(to) => key(before) < *to,
        _ => true,
    };
    let meets = begins(READ.1[1]) && ends(READ.1[0]);
    ids.iter().any(|id| writes(id) || id == "r" && (meets || span.contains(&key(READ.0))))
}

/// Whether a transaction can be prepared beside those.
pub(crate) fn can_prepare(ids: &Ids, id: &str) -> bool {
    !ids.contains(id) && !writes(id).iter().any(|write| is_held(ids, Some(id), write.0))
}

/// Whether that is the refusal of a change of a held key.
pub(crate) fn is_refusal<T>(result: &Result<T, Error>) -> bool {
    matches!(result, Err(Error::Conflict { held_by: Some(_), .. }))
}

fn begin_and_prepare(store: &Store, space: Keyspace, id: &str) -> Result<u64, Error> {
    let isolation = if id == "r" { Isolation::Serialisable } else { Isolation::Snapshot };
    let mut tx = store.transaction(isolation)?;
    if id == "r" {
        tx.get(space, &key(READ.0))?;
        let [from, to] = READ.1.map(key);
        if store.is_ordered() {
            tx.range(space, from.as_slice()..=to.as_slice())?
                .try_for_each(|read| read.map(drop))?;
        } else {
            read_each(&mut tx, space)?;
        }
    }
    for (index, (n, len)) in writes(id).into_iter().enumerate() {
        match len {
            Some(len) => tx.put(space, &key(n), &value(serial(id) + index as u64, len))?,
            None => tx.remove(space, &key(n))?,
        }
    }
    tx.prepare(id.as_bytes())
}

/// Reads the keys of the range one by one, as keys without an order are.
fn read_each(tx: &mut Transaction, space: Keyspace) -> Result<(), Error> {
    let [from, to] = READ.1;
    (from..=to).step_by(3).try_for_each(|n| tx.get(space, &key(n)).map(drop))
}

/// Prepares a transaction.
pub(crate) fn prepare(store: &Store, space: Keyspace, ids: &Ids, id: &str) -> Result<(), String> {
    match begin_and_prepare(store, space, id) {
        Ok(version) => {
            expect(can_prepare(ids, id), "what is held is not prepared again")?;
            expect(version == store.visible(), "the version in which it is prepared")
        }
        Err(Error::PreparedExists { .. }) => expect(ids.contains(id), "an id is free"),
        // One that outgrows memory learns of it before its id is looked at.
        Err(Error::Conflict { held_by: Some(_), .. }) => {
            expect(!can_prepare(ids, id), "nothing holds its keys")
        }
        Err(error) => Err(text(error)),
    }
}

/// Commits or drops one.
pub(crate) fn decide(store: &Store, ids: &Ids, id: &str, commits: bool) -> Result<(), String> {
    let decided = match commits {
        true => store.commit_prepared(id.as_bytes(), Durability::Strict).map(drop),
        false => store.drop_prepared(id.as_bytes()),
    };
    match decided {
        Ok(()) => expect(ids.contains(id), "only what is prepared is decided"),
        Err(Error::NoSuchPrepared { .. }) => expect(!ids.contains(id), "it was prepared"),
        Err(error) => Err(text(error)),
    }
}

/// Those that a listing names: each as it was prepared.
pub(crate) fn ids(listed: Vec<tembo_kv::Prepared>) -> Result<Ids, String> {
    let mut ids = Ids::new();
    for prepared in listed {
        let id = String::from_utf8(prepared.id).map_err(text)?;
        expect(prepared.writes == writes(&id).len(), "it is listed with all that it writes")?;
        expect(prepared.is_serialisable == (id == "r"), "it is listed with its isolation")?;
        ids.insert(id);
    }
    Ok(ids)
}
