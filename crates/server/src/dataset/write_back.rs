//! Values that are written to the store later in the turn: what several commands change one after the other, the head of
//! a collection above all, is written once.
//!
//! Each is under a key of the store, and hides what is there. They are written before something reads that from the store
//! itself; they are never there beyond the transaction of the turn.

use tembo_kv::{Error, Exclusive, Keyspace};

/// So many values wait at most.
const WAITING_MAX: usize = 16;

#[derive(Default)]
struct Waiting {
    space: Option<Keyspace>,
    key: Vec<u8>,
    value: Vec<u8>,
}

impl Waiting {
    #[inline]
    fn is(&self, space: Keyspace, key: &[u8]) -> bool {
        self.key == key && self.space == Some(space)
    }
}

/// The values that wait.
#[derive(Default)]
pub(super) struct WriteBack {
    /// Those that wait come first; the others keep their memory for the next.
    places: Vec<Waiting>,
    count: usize,
}

impl WriteBack {
    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Whether no other value can wait.
    pub(super) fn is_full(&self) -> bool {
        self.count == WAITING_MAX
    }

    #[inline]
    fn find(&self, space: Keyspace, key: &[u8]) -> Option<usize> {
        self.places[..self.count].iter().position(|one| one.is(space, key))
    }

    /// The value that waits to be written under a key.
    #[inline]
    pub(super) fn get(&self, space: Keyspace, key: &[u8]) -> Option<&[u8]> {
        self.find(space, key).map(|at| &self.places[at].value[..])
    }

    /// The same, to be changed.
    pub(super) fn get_mut(&mut self, space: Keyspace, key: &[u8]) -> Option<&mut Vec<u8>> {
        self.find(space, key).map(|at| &mut self.places[at].value)
    }

    /// Whether a value waits whose key begins so.
    pub(super) fn has_prefix(&self, space: Keyspace, prefix: &[u8]) -> bool {
        let begins = |one: &Waiting| one.space == Some(space) && one.key.starts_with(prefix);
        self.places[..self.count].iter().any(begins)
    }

    /// A value is written later, in the place of one that waits; there is room for it.
    pub(super) fn put(&mut self, space: Keyspace, key: &[u8], parts: &[&[u8]]) {
        let at = self.find(space, key).unwrap_or_else(|| {
            let at = self.count;
            if at == self.places.len() {
                self.places.push(Waiting::default());
            }
            self.places[at].space = Some(space);
            key.clone_into(&mut self.places[at].key);
            self.count += 1;
            at
        });
        let value = &mut self.places[at].value;
        value.clear();
        parts.iter().for_each(|part| value.extend_from_slice(part));
    }

    /// The value is not written; whether there was one.
    pub(super) fn forget(&mut self, space: Keyspace, key: &[u8]) -> bool {
        let found = self.find(space, key);
        if let Some(at) = found {
            self.count -= 1;
            self.places.swap(at, self.count);
        }
        found.is_some()
    }

    /// None is written.
    pub(super) fn forget_all(&mut self) {
        self.count = 0;
    }

    /// Writes all of them. On an error those wait that have not been written.
    #[cold]
    pub(super) fn write(&mut self, transaction: &mut Exclusive) -> Result<(), Error> {
        while let Some(last) = self.count.checked_sub(1) {
            let Waiting { space, key, value } = &self.places[last];
            if let Some(space) = space {
                transaction.put(*space, key, value)?;
            }
            self.count = last;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use tembo_kv::{Durability, Options, Store};

    use super::*;

    #[test]
    fn what_waits_hides_the_store_until_it_is_written_once() {
        let store = Store::volatile(&Options::default()).unwrap();
        let (space, other) = (store.keyspace("a").unwrap(), store.keyspace("b").unwrap());
        let mut waiting = WriteBack::default();
        for number in 0..1000_u32 {
            waiting.put(space, b"key", &[b"value ", number.to_string().as_bytes()]);
        }
        waiting.put(other, b"key", &[b"other"]);
        waiting.put(space, b"given up", &[b"value"]);
        assert_eq!(waiting.get(space, b"key"), Some(&b"value 999"[..]));
        assert!(waiting.has_prefix(space, b"gi") && !waiting.has_prefix(other, b"gi"));
        assert!(waiting.forget(space, b"given up") && !waiting.forget(space, b"given up"));
        let mut transaction = store.exclusive().unwrap();
        waiting.write(&mut transaction).unwrap();
        assert!(waiting.is_empty());
        assert_eq!(transaction.get(space, b"key").unwrap().unwrap(), b"value 999");
        assert_eq!(transaction.get(other, b"key").unwrap().unwrap(), b"other");
        assert!(transaction.get(space, b"given up").unwrap().is_none());
        transaction.commit(Durability::Buffered).unwrap();
    }

    #[test]
    fn as_many_wait_as_have_room() {
        let store = Store::volatile(&Options::default()).unwrap();
        let space = store.keyspace("a").unwrap();
        let mut waiting = WriteBack::default();
        for number in 0..WAITING_MAX {
            assert!(!waiting.is_full());
            waiting.put(space, &[number as u8], &[b"value"]);
        }
        assert!(waiting.is_full());
        waiting.forget_all();
        assert!(waiting.is_empty() && waiting.get(space, &[0]).is_none());
    }
}
