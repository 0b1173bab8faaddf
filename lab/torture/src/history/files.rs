//! Files, as histories are taken of transactions over them: a key is a file, and absent while it is empty.

use std::collections::BTreeMap;

use tembo_fs::{AnyTree, Error, FileKind, Fs, FsTransaction, New, ROOT, Set, Time};
use tembo_kv::{Durability, Error as StoreError};

use super::database::{Database, Failure, Isolation, Key, Transact, Value};
use super::record::ABSENT;

const NOW: Time = Time { seconds: 1, nanoseconds: 0 };

/// Longest file, in bytes: some have one piece, some several.
const SIZE_MAX: u64 = 1500;

/// Files of a file system, one for each key.
pub struct Files {
    fs: Fs,
    /// Their inodes, in the order of the keys.
    inodes: Vec<u64>,
}

fn broken(error: impl std::fmt::Display) -> Failure {
    Failure::Broken(error.to_string())
}

impl Files {
    /// Makes files for the keys up to `keys`.
    ///
    /// # Errors
    /// Those of the file system.
    pub fn new(fs: Fs, keys: Key) -> Result<Files, Error> {
        let new = New {
            kind: FileKind::Regular,
            permissions: 0o644,
            user: 0,
            group: 0,
            device: 0,
            umask: None,
        };
        let inodes = fs.write(NOW, Durability::Strict, |tree| {
            let name = |key: Key| format!("{key}").into_bytes();
            (0..keys).map(|key| Ok(tree.create(ROOT, &name(key), &new)?.number)).collect()
        })?;
        Ok(Files { fs, inodes })
    }

    /// What an error of the file system is to a history.
    fn failure(&self, error: Error) -> Failure {
        let Error::Store(StoreError::Conflict { version, .. }) = &error else {
            return broken(error);
        };
        let inode = self.fs.conflicting_inode(&error);
        match self.inodes.iter().position(|&other| Some(other) == inode) {
            Some(key) => Failure::Conflict { key: key as Key, version: *version },
            None => broken(error),
        }
    }

    fn inode(&self, key: Key) -> Result<u64, Failure> {
        self.inodes.get(key as usize).copied().ok_or_else(|| broken("a key without a file"))
    }
}

/// The number eight bytes long, and then as many more as the number says.
fn bytes(value: Value) -> Vec<u8> {
    let size = if value.is_multiple_of(3) { 8 + value % SIZE_MAX } else { 8 };
    value.to_le_bytes().iter().copied().cycle().take(size as usize).collect()
}

/// The number that a file holds.
fn value_in(tree: &mut AnyTree<'_>, inode: u64) -> Result<Result<Value, Failure>, Error> {
    let mut found = vec![0; SIZE_MAX as usize + 100];
    let len = tree.read(inode, 0, &mut found)?;
    found.truncate(len);
    let Some(&number) = found.first_chunk() else {
        return Ok(if len == 0 { Ok(ABSENT) } else { Err(broken("a part of a value")) });
    };
    let number = Value::from_le_bytes(number);
    let is_whole = bytes(number) == found;
    Ok(if is_whole { Ok(number) } else { Err(broken("a mixture of values")) })
}

/// A transaction over [`Files`]. What it writes it does when it commits: conflicts appear at writes.
pub struct FilesTransaction<'f> {
    files: &'f Files,
    transaction: FsTransaction,
    writes: BTreeMap<Key, Value>,
}

impl Database for Files {
    type Transaction<'d>
        = FilesTransaction<'d>
    where
        Self: 'd;

    fn begin(&self, isolation: Isolation) -> Result<FilesTransaction<'_>, Failure> {
        if isolation != Isolation::Snapshot {
            return Err(broken("transactions over files are isolated by snapshots"));
        }
        let transaction = self.fs.transaction().map_err(broken)?;
        Ok(FilesTransaction { files: self, transaction, writes: BTreeMap::new() })
    }
}

impl Transact for FilesTransaction<'_> {
    type Savepoint = BTreeMap<Key, Value>;

    fn version(&self) -> u64 {
        self.transaction.version()
    }

    fn get(&mut self, key: Key) -> Result<Value, Failure> {
        if let Some(&own) = self.writes.get(&key) {
            return Ok(own);
        }
        let inode = self.files.inode(key)?;
        self.transaction.read(|tree| value_in(&mut tree.any(), inode)).map_err(broken)?
    }

    fn range(
        &mut self,
        from: Key,
        to: Key,
        backwards: bool,
        limit: usize,
    ) -> Result<Vec<(Key, Value)>, Failure> {
        let last = to.min(self.files.inodes.len().saturating_sub(1) as Key);
        let mut keys: Vec<Key> = (from..=last).collect();
        if backwards {
            keys.reverse();
        }
        let mut entries = Vec::new();
        for key in keys {
            match self.get(key)? {
                ABSENT => {}
                value => entries.push((key, value)),
            }
            if entries.len() >= limit {
                break;
            }
        }
        Ok(entries)
    }

    fn put(&mut self, key: Key, value: Value) -> Result<(), Failure> {
        self.writes.insert(key, value);
        Ok(())
    }

    fn remove(&mut self, key: Key) -> Result<(), Failure> {
        self.writes.insert(key, ABSENT);
        Ok(())
    }

    fn savepoint(&mut self) -> BTreeMap<Key, Value> {
        self.writes.clone()
    }

    fn roll_back(&mut self, savepoint: &BTreeMap<Key, Value>) -> Result<(), Failure> {
        self.writes.clone_from(savepoint);
        Ok(())
    }

    fn commit(mut self) -> Result<u64, Failure> {
        for (&key, &value) in &self.writes {
            let inode = self.files.inode(key)?;
            let written = self.transaction.change(NOW, |tree| {
                tree.set(inode, &Set { size: Some(0), ..Set::default() })?;
                if value != ABSENT {
                    tree.write(inode, 0, &bytes(value))?;
                }
                Ok(())
            });
            written.map_err(|error| self.files.failure(error))?;
        }
        let files = self.files;
        self.transaction.commit(Durability::Strict).map_err(|error| files.failure(error))
    }
}
