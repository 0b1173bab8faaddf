//! Removals of ranges, as operations.

use std::ops::Bound;

use tembo_kv::{Durability, Error, Exclusive, Isolation, Keyspace, Store};

use super::op::{Op, Span, Write, key, value};
use super::optimistic::{commit_elsewhere, set};
use super::past::Map;
use super::prepared::is_refusal;
use crate::judge::{expect, text};

/// More than the greatest key in use.
const KEYS: u8 = 20;

/// What a writer does and sees, beside the model.
struct Writer {
    tx: Exclusive,
    space: Keyspace,
    map: Map,
}

impl Writer {
    fn write(&mut self, writes: &[Write], serial: u64) -> Result<(), String> {
        for (index, &(n, len)) in writes.iter().enumerate() {
            let (space, key) = (self.space, key(n));
            let (existed, expected) = match len {
                Some(len) => {
                    let value = value(serial + index as u64, len);
                    let existed = self.tx.put(space, &key, &value).map_err(text)?;
                    (existed, self.map.insert(key, value).is_some())
                }
                None => {
                    let existed = self.tx.remove(space, &key).map_err(text)?;
                    (existed, self.map.remove(&key).is_some())
                }
            };
            expect(existed == expected, "a change beneath a removed range says what was there")?;
        }
        self.look()
    }

    fn remove(&mut self, range: Span) -> Result<(), String> {
        self.tx.remove_range::<[u8]>(self.space, borrowed(&range.bounds())).map_err(text)?;
        self.map.retain(|key, _| !range.contains(key));
        self.look()
    }

    /// It sees what it has changed, and nothing else is different.
    fn look(&self) -> Result<(), String> {
        for key in (0..KEYS).map(key) {
            let found = self.tx.get(self.space, &key).map_err(text)?.map(|value| value.to_vec());
            expect(found.as_ref() == self.map.get(&key), "a writer sees what it removed")?;
        }
        Ok(())
    }
}

/// Bounds of owned keys.
fn borrowed(bounds: &(Bound<Vec<u8>>, Bound<Vec<u8>>)) -> (Bound<&[u8]>, Bound<&[u8]>) {
    (bounds.0.as_ref().map(Vec::as_slice), bounds.1.as_ref().map(Vec::as_slice))
}

/// Does `op` to a keyspace that holds this.
pub(super) fn run(
    store: &Store,
    (space, before): (Keyspace, &Map),
    op: &Op,
    serial: u64,
) -> Result<(), String> {
    let writer = || -> Result<Writer, String> {
        Ok(Writer { tx: store.exclusive().map_err(text)?, space, map: before.clone() })
    };
    match op {
        Op::RemoveRange(range) => {
            let bounds = range.bounds();
            store.remove_range::<[u8]>(space, borrowed(&bounds), Durability::Strict).map_err(text)
        }
        Op::RangeBetween(before, range, after, commits) => {
            let mut writer = writer()?;
            writer.write(before, serial)?;
            writer.remove(*range)?;
            writer.write(after, serial + 4)?;
            match commits {
                true => writer.tx.commit(Durability::Strict).map(drop).map_err(text),
                false => Ok(()),
            }
        }
        Op::RangeElsewhere(before, range, after) => {
            let mut tx = store.transaction(Isolation::Serialisable).map_err(text)?;
            set(&mut tx, space, before, serial)?;
            tx.remove_range::<[u8]>(space, borrowed(&range.bounds())).map_err(text)?;
            for key in (0..KEYS).map(key).filter(|key| range.contains(key)) {
                let found = tx.get(space, &key).map_err(text)?;
                expect(found.is_none(), "a transaction sees what it removed")?;
            }
            set(&mut tx, space, after, serial + 4)?;
            commit_elsewhere(tx)
        }
        Op::RangeTakenBack(first, range, last) => {
            let mut writer = writer()?;
            writer.write(first, serial)?;
            let saved = writer.map.clone();
            writer.tx.savepoint();
            writer.remove(*range)?;
            writer.write(&[(range.0, Some(8)), (7, None)], serial)?;
            writer.tx.rollback_to_savepoint().map_err(text)?;
            writer.map = saved;
            writer.write(last, serial)?;
            writer.tx.commit(Durability::Strict).map(drop).map_err(text)
        }
        _ => Ok(()),
    }
}

/// A range with a key that a prepared transaction holds is not removed.
pub(super) fn refused(store: &Store, space: Keyspace, range: Span) -> Result<(), String> {
    let bounds = range.bounds();
    let removed = store.remove_range::<[u8]>(space, borrowed(&bounds), Durability::Strict);
    expect(is_refusal(&removed), "a held key is not removed with its range")
}

/// Keys without an order have no ranges: each kind of writer says so, and goes on.
pub(super) fn unordered(store: &Store) -> Result<(), String> {
    let spaces = store.keyspaces();
    let Some((_, space)) = spaces.iter().find(|(name, _)| name == "x") else { return Ok(()) };
    let is_refused = |removed: Result<(), Error>| {
        expect(matches!(removed, Err(Error::Unordered)), "a range is removed without an order")
    };
    is_refused(store.remove_range::<[u8]>(*space, .., Durability::Strict))?;
    let mut exclusive = store.exclusive().map_err(text)?;
    is_refused(exclusive.remove_range::<[u8]>(*space, ..).map(drop))?;
    drop(exclusive);
    let mut optimistic = store.transaction(Isolation::Serialisable).map_err(text)?;
    is_refused(optimistic.remove_range::<[u8]>(*space, ..).map(drop))
}
