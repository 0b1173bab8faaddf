//! A transaction of the store that finds a conflict when it writes, and notes what of the old it changes.
//!
//! The store finds the conflict of two transactions when the second commits. A program looks at the errors of writes, and seldom
//! at those of a close, so it is found here at the write already if the other has committed by then. The key of its inode
//! changes with all that a file or directory has.

use std::collections::BTreeSet;

use tembo_kv::{Access, Direction, Error, Keyspace, Snapshot, Store, Transaction, Value};

use crate::access::{Bounds, Reads, Visit, With, Writes};
use crate::format::{INODE_TAG, NAME_TAG, TREE_SPACE, inode_key, name_in, number_in};

/// What of the file system as a transaction found it is not so any more.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Touched {
    /// Inodes that are there no more, or not as they were.
    pub inodes: BTreeSet<u64>,
    /// Names that stand for something else, or for nothing, or stood for nothing, each behind its directory.
    pub names: BTreeSet<(u64, Vec<u8>)>,
}

/// A transaction, and what others have done since it began.
pub(crate) struct Watched<'t> {
    pub(crate) transaction: &'t mut Transaction,
    /// What the transaction has begun with.
    pub(crate) before: &'t Snapshot,
    pub(crate) store: &'t Store,
    /// The keyspace of inodes and names.
    pub(crate) tree: Keyspace,
    pub(crate) touched: &'t mut Touched,
}

impl Watched<'_> {
    /// Notes that a key is about to change.
    ///
    /// # Errors
    /// [`Error::Conflict`]: another has changed the inode of that key.
    fn touch(&mut self, space: Keyspace, key: &[u8]) -> Result<(), Error> {
        let tag = key.first().copied();
        if space != self.tree || !matches!(tag, Some(INODE_TAG | NAME_TAG)) {
            return Ok(());
        }
        let before = self.before.get(space, key)?;
        match (tag, number_in(key), before) {
            // Of a directory that was not there, it is not known which names it had not.
            (Some(NAME_TAG), Some(directory), before)
                if before.is_some() || self.before.get(space, &inode_key(directory))?.is_some() =>
            {
                let name = name_in(key).unwrap_or_default();
                self.touched.names.insert((directory, name.to_vec()));
            }
            (_, Some(inode), Some(before)) => {
                self.touched.inodes.insert(inode);
                let is_same =
                    |now: Option<Value<'_>>| now.is_some_and(|now| now.to_vec() == before.to_vec());
                if !self.store.get_with(space, key, is_same)? {
                    return Err(self.conflict(key));
                }
            }
            _ => {}
        }
        Ok(())
    }

    fn conflict(&self, key: &[u8]) -> Error {
        Error::Conflict {
            keyspace: TREE_SPACE.into(),
            key: key.to_vec(),
            access: Access::Write,
            version: self.store.visible(),
            held_by: None,
        }
    }
}

impl Reads for Watched<'_> {
    fn get_at(&mut self, space: Keyspace, key: &[u8], with: &mut With<'_>) -> Result<(), Error> {
        self.transaction.get_at(space, key, with)
    }

    fn visit(
        &mut self,
        space: Keyspace,
        bounds: Bounds<'_>,
        direction: Direction,
        visit: &mut Visit<'_>,
    ) -> Result<(), Error> {
        Reads::visit(self.transaction, space, bounds, direction, visit)
    }
}

impl Writes for Watched<'_> {
    fn set(&mut self, space: Keyspace, key: &[u8], value: &[u8]) -> Result<(), Error> {
        self.touch(space, key)?;
        self.transaction.put(space, key, value)
    }

    fn unset(&mut self, space: Keyspace, key: &[u8]) -> Result<(), Error> {
        self.touch(space, key)?;
        self.transaction.remove(space, key)
    }

    fn unset_range(&mut self, space: Keyspace, bounds: Bounds<'_>) -> Result<(), Error> {
        self.transaction.remove_range::<[u8]>(space, bounds)
    }
}
