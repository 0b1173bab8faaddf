//! The write set: the writes of a transaction that are kept in memory.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::sync::Arc;

use tembo_index::{KeyChange, Op, Range};

use crate::read_set::is_empty;
use crate::{Direction, Error, Keyspace};

/// Approximate number of bytes that a write takes beside its key and value.
const OVERHEAD: usize = 128;

/// A write of one key.
struct Write {
    keyspace: Keyspace,
    key: Arc<[u8]>,
    /// The value. `None`: the key is removed.
    value: Option<Box<[u8]>>,
    /// The earlier write of the key, if there is one.
    before: Option<usize>,
}

/// Writes in the order in which they came. Between two savepoints each key has one.
#[derive(Default)]
pub(crate) struct WriteSet {
    log: Vec<Write>,
    /// The last write of each key.
    last: BTreeMap<Keyspace, BTreeMap<Arc<[u8]>, usize>>,
    bytes: usize,
    /// A savepoint needs the first so many writes unchanged.
    kept: usize,
}

impl WriteSet {
    pub(crate) fn is_empty(&self) -> bool {
        self.log.is_empty()
    }

    /// The approximate memory of the set, in bytes.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// The approximate memory of a write, in bytes.
    pub(crate) fn bytes_of(key: &[u8], value: Option<&[u8]>) -> usize {
        OVERHEAD + key.len() + value.map_or(0, <[u8]>::len)
    }

    /// Puts a value, or removes the key.
    pub(crate) fn set(&mut self, keyspace: Keyspace, key: &[u8], value: Option<&[u8]>) {
        let value = value.map(Box::from);
        let end = self.log.len();
        let key: Arc<[u8]> = key.into();
        let mut before = None;
        match self.last.entry(keyspace).or_default().entry(key.clone()) {
            Entry::Vacant(place) => {
                place.insert(end);
            }
            Entry::Occupied(mut place) => {
                before = Some(*place.get());
                if *place.get() < self.kept {
                    place.insert(end);
                }
            }
        }
        if let Some(at) = before
            && at >= self.kept
        {
            let old = std::mem::replace(&mut self.log[at].value, value);
            self.bytes -= old.map_or(0, |old| old.len());
            self.bytes += self.log[at].value.as_ref().map_or(0, |value| value.len());
            return;
        }
        self.bytes += WriteSet::bytes_of(&key, value.as_deref());
        self.log.push(Write { keyspace, key, value, before });
    }

    /// The last write of the key: a value, or a removal.
    pub(crate) fn get(&self, keyspace: Keyspace, key: &[u8]) -> Option<Option<&[u8]>> {
        let &at = self.last.get(&keyspace)?.get(key)?;
        Some(self.log[at].value.as_deref())
    }

    /// Some keys of a range, at most `most`.
    pub(crate) fn keys(&self, keyspace: Keyspace, range: Range<'_>, most: usize) -> Vec<Arc<[u8]>> {
        let Some(last) = self.last.get(&keyspace) else { return Vec::new() };
        if is_empty(range) {
            return Vec::new();
        }
        let keys = last.range::<[u8], _>((range.from, range.to)).map(|(key, _)| key.clone());
        match range.direction {
            Direction::Forward => keys.take(most).collect(),
            Direction::Backward => keys.rev().take(most).collect(),
        }
    }

    /// Calls the function with each key that is written, in order.
    pub(crate) fn each_key(
        &self,
        mut each: impl FnMut(Keyspace, &[u8]) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let mut all =
            self.last.iter().flat_map(|(&space, keys)| keys.keys().map(move |k| (space, k)));
        all.try_for_each(|(keyspace, key)| each(keyspace, key))
    }

    /// Calls the function with the last write of each key, in the order of keys.
    pub(crate) fn each_last(
        &self,
        mut each: impl FnMut(Keyspace, Op<'_>) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let mut all = self.last.values().flat_map(BTreeMap::values);
        all.try_for_each(|&at| self.log[at].with_op(&mut each))
    }

    /// Calls the function with the last write of each key, in groups of keys of one keyspace, in the order of keys.
    pub(crate) fn each_group(
        &self,
        group: usize,
        mut each: impl FnMut(Keyspace, &[KeyChange<'_>]) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let mut changes = Vec::new();
        for (&keyspace, last) in &self.last {
            let mut places = last.values().copied().peekable();
            while places.peek().is_some() {
                changes.clear();
                changes.extend(places.by_ref().take(group.max(1)).map(|at| {
                    let Write { key, value, .. } = &self.log[at];
                    (&**key, value.as_deref())
                }));
                each(keyspace, &changes)?;
            }
        }
        Ok(())
    }

    /// Calls `with` with the write, if there is only one.
    pub(crate) fn only<T>(&self, with: impl FnOnce(Keyspace, Op<'_>) -> T) -> Option<T> {
        match &self.log[..] {
            [write] => Some(write.with_op(with)),
            _ => None,
        }
    }

    /// Calls the function with the writes from one position to another, as they came.
    pub(crate) fn each_between(
        &self,
        (from, to): (usize, usize),
        mut each: impl FnMut(Keyspace, Op<'_>) -> Result<(), Error>,
    ) -> Result<(), Error> {
        self.log[from..to].iter().try_for_each(|write| write.with_op(&mut each))
    }

    /// A position to which `truncate` can come back.
    pub(crate) fn save(&mut self) -> usize {
        self.kept = self.log.len();
        self.kept
    }

    /// The number of writes.
    pub(crate) fn len(&self) -> usize {
        self.log.len()
    }

    /// Takes back the writes from a saved position on.
    pub(crate) fn truncate(&mut self, len: usize) {
        while self.log.len() > len
            && let Some(write) = self.log.pop()
        {
            self.bytes -= WriteSet::bytes_of(&write.key, write.value.as_deref());
            let Some(last) = self.last.get_mut(&write.keyspace) else { continue };
            match write.before {
                Some(before) => drop(last.insert(write.key, before)),
                None => drop(last.remove(&write.key)),
            }
        }
        self.kept = len;
    }

    /// Forgets all writes.
    pub(crate) fn clear(&mut self) {
        *self = WriteSet::default();
    }
}

impl Write {
    fn with_op<T>(&self, with: impl FnOnce(Keyspace, Op<'_>) -> T) -> T {
        let key = &self.key;
        match &self.value {
            Some(value) => with(self.keyspace, Op::Put { key, value: &[value] }),
            None => with(self.keyspace, Op::Remove { key }),
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    const SPACE: Keyspace = Keyspace { id: 0, incarnation: 0 };

    #[test]
    fn what_is_taken_back_was_never_there() {
        // This runs every sequence of five steps: writes of two keys, a savepoint, a return to the last savepoint.
        for sequence in 0..6usize.pow(5) {
            let mut writes = WriteSet::default();
            let mut map: BTreeMap<&[u8], Option<u8>> = BTreeMap::new();
            let mut saved = vec![(writes.save(), map.clone())];
            for step in 0..5 {
                let value = step as u8;
                let key: &[u8] = if sequence & 1 == 0 { b"a" } else { b"b" };
                match sequence / 6usize.pow(step) % 6 {
                    0 | 1 => {
                        writes.set(SPACE, key, Some(&[value]));
                        map.insert(key, Some(value));
                    }
                    2 | 3 => {
                        writes.set(SPACE, b"a", None);
                        map.insert(b"a", None);
                    }
                    4 => saved.push((writes.save(), map.clone())),
                    _ => {
                        let (len, before) = saved.last().unwrap();
                        writes.truncate(*len);
                        map = before.clone();
                    }
                }
                for key in [b"a", b"b"] {
                    let found = writes.get(SPACE, key).map(|value| value.map(|value| value[0]));
                    assert_eq!(found, map.get(&key[..]).copied(), "{sequence}");
                }
                let mut last = BTreeMap::new();
                let mut bytes = 0;
                writes
                    .each_last(|_, op| {
                        let (key, value) = match op {
                            Op::Put { key, value } => (key, Some(value[0][0])),
                            Op::Remove { key } => (key, None),
                        };
                        last.insert(key.to_vec(), value);
                        bytes += 1;
                        Ok(())
                    })
                    .unwrap();
                let expected: BTreeMap<Vec<u8>, _> =
                    map.iter().map(|(key, &value)| (key.to_vec(), value)).collect();
                assert_eq!(last, expected, "{sequence}");
                let mut grouped = BTreeMap::new();
                writes
                    .each_group(2, |_, group| {
                        assert!((1..=2).contains(&group.len()));
                        for (key, value) in group {
                            let before = grouped.insert(key.to_vec(), value.map(|value| value[0]));
                            assert_eq!(before, None);
                        }
                        Ok(())
                    })
                    .unwrap();
                assert_eq!(grouped, expected, "{sequence}");
            }
            writes.truncate(0);
            assert_eq!((writes.bytes(), writes.len()), (0, 0), "{sequence}");
        }
    }
}
