//! Making a pool of backups.

use std::path::Path;

use super::error::BackupError;
use super::files::{beside, io, publish};
use super::format::{KIND_PART, KIND_PUT, KIND_REMOVED, KIND_WHOLE};
use super::info::BackupInfo;
use super::reader::{Reader, take_entry, verify};
use crate::{Durability, Keyspace, Options, Store};

/// Bytes of a block are put in one transaction; blocks between two syncs.
const BLOCKS_A_SYNC: u32 = 64;

/// Makes a pool of a backup and the incremental ones that follow it, in order. All of them are read and
/// found sound first; the pool gets its name when it is whole. `progress` is called with how many bytes were
/// read: each is read twice.
///
/// Durability point: when it returns.
///
/// # Errors
/// [`BackupError::Exists`], [`BackupError::Damaged`], [`BackupError::NotInARow`],
/// [`BackupError::OtherPool`].
pub fn restore(
    backups: &[&Path],
    pool: &Path,
    options: &Options,
    progress: &mut dyn FnMut(u64),
) -> Result<Vec<BackupInfo>, BackupError> {
    for taken in [pool.to_owned(), beside(pool, ".log")] {
        if std::fs::symlink_metadata(&taken).is_ok() {
            return Err(BackupError::Exists { path: taken });
        }
    }
    let mut found: Vec<BackupInfo> = Vec::new();
    for path in backups {
        let info = verify(path, progress)?;
        check_row(path, &info, found.last())?;
        found.push(info);
    }
    let partial = beside(pool, ".restoring");
    let log = beside(&partial, ".log");
    for left in [&partial, &log] {
        match std::fs::remove_file(left) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => io(left, Err(error))?,
            _ => {}
        }
    }
    let store = Store::create(&partial, options)?;
    backups.iter().try_for_each(|path| apply(&store, path, progress))?;
    // A clean stop leaves nothing in the log.
    store.close().map_err(crate::Error::from)?;
    publish(&partial, pool)?;
    match std::fs::remove_file(&log) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => io(&log, Err(error))?,
        _ => {}
    }
    Ok(found)
}

/// Whether a backup follows the one before.
fn check_row(
    path: &Path,
    info: &BackupInfo,
    before: Option<&BackupInfo>,
) -> Result<(), BackupError> {
    let path = path.to_owned();
    if before.is_some_and(|before| before.identity != info.identity) {
        return Err(BackupError::OtherPool { path });
    }
    let expected = before.map_or(0, |before| before.until);
    let found = info.since.unwrap_or(0);
    if expected != found {
        return Err(BackupError::NotInARow { path, expected, found });
    }
    Ok(())
}

/// Puts what a backup says into a store.
fn apply(store: &Store, path: &Path, progress: &mut dyn FnMut(u64)) -> Result<(), BackupError> {
    let mut reader = Reader::open(path)?;
    let mut keyspace: Option<Keyspace> = None;
    loop {
        // What the reader finds wrong here was right a moment ago.
        let before = reader.so_far;
        let Some(mut block) = reader.next_block()? else { break };
        progress(block.len() as u64);
        let mut tx = None;
        while let Some(entry) = take_entry(&mut block) {
            if let KIND_WHOLE | KIND_PART = entry.kind {
                commit(tx.take())?;
                let space = store.keyspace(&String::from_utf8_lossy(entry.key))?;
                if entry.kind == KIND_WHOLE && before.bytes > 0 {
                    let mut clearing = store.exclusive()?;
                    clearing.clear(space)?;
                    clearing.commit(Durability::Buffered)?;
                }
                keyspace = Some(space);
                continue;
            }
            let space = match (entry.kind, keyspace) {
                (KIND_PUT | KIND_REMOVED, Some(space)) => space,
                _ => return Err(damaged(path, before.bytes)),
            };
            let tx = match &mut tx {
                Some(tx) => tx,
                none => none.insert(store.exclusive()?),
            };
            match entry.kind {
                KIND_PUT => tx.put(space, entry.key, entry.value)?,
                _ => tx.remove(space, entry.key)?,
            };
        }
        commit(tx)?;
        if before.blocks.is_multiple_of(BLOCKS_A_SYNC) {
            store.sync()?;
        }
    }
    reader.finish()?;
    Ok(store.sync()?)
}

fn commit(tx: Option<crate::Exclusive>) -> Result<(), BackupError> {
    match tx {
        Some(tx) => Ok(tx.commit(Durability::Buffered).map(drop)?),
        None => Ok(()),
    }
}

fn damaged(path: &Path, offset: u64) -> BackupError {
    BackupError::Damaged { path: path.to_owned(), offset, what: "entries of a keyspace" }
}
