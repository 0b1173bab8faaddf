//! Taking a backup.

use std::fs::OpenOptions;
use std::io::{Seek, SeekFrom};
use std::ops::Bound;
use std::path::Path;

use tembo_index::{Direction, Period, VersionedIndex};

use super::format::{Header, KIND_PART, KIND_PUT, KIND_REMOVED, KIND_WHOLE, MAGIC, VERSION};
use super::reader::{Reader, take_entry};
use super::writer::{SoFar, Writer};
use super::{BackupError, BackupInfo, beside, io, publish};
use crate::format::KeyspaceEntry;
use crate::{Error, Snapshot, Store};

/// The name that keeps the version of a backup that is under way.
const UNDER_WAY: &str = "(backup under way)";

/// What kind of backup is wanted.
#[derive(Clone, Debug, Default)]
pub struct SaveOptions {
    /// Only what has changed since the version, which is retained.
    pub since: Option<u64>,
    /// The version of the backup is kept under this name, for an incremental backup that is to follow.
    pub keep: Option<String>,
}

/// Where an interrupted backup ends.
#[derive(Default)]
struct Position {
    so_far: SoFar,
    /// The keyspace that was begun, whether as a whole, and its last key.
    reached: Option<(String, u32, Option<Vec<u8>>)>,
}

/// A backup under way.
struct Saving<'s, 'p> {
    snapshot: &'s Snapshot<'s>,
    before: Option<&'s Snapshot<'s>>,
    writer: Writer<'p>,
    progress: &'p mut dyn FnMut(u64),
}

impl Store {
    /// Writes a backup of the visible version into a file that is not there, while others write. Goes on
    /// with one that was interrupted. `progress` is told how many bytes were written.
    ///
    /// Durability point: when it returns.
    ///
    /// # Errors
    /// [`BackupError::Exists`]; [`Error::NotRetained`] of the version since which it is to be.
    pub fn save(
        &self,
        path: &Path,
        options: &SaveOptions,
        progress: &mut dyn FnMut(u64),
    ) -> Result<BackupInfo, BackupError> {
        if std::fs::symlink_metadata(path).is_ok() {
            return Err(BackupError::Exists { path: path.to_owned() });
        }
        let before = options.since.map(|since| self.snapshot_at(since)).transpose()?;
        let partial = beside(path, ".partial");
        let (version, position) = match self.interrupted(&partial, options) {
            Some((version, position)) => (version, position),
            None => (self.save_snapshot(UNDER_WAY)?, Position::default()),
        };
        let snapshot = self.snapshot_at(version)?;
        let open = OpenOptions::new().write(true).create(true).truncate(false).open(&partial);
        let mut file = io(&partial, open)?;
        io(&partial, file.set_len(position.so_far.bytes))?;
        io(&partial, file.seek(SeekFrom::End(0)))?;
        let (since, identity) = (options.since.unwrap_or(0), self.identity());
        let writer = Writer::new(&partial, file, position.so_far);
        let mut saving = Saving { snapshot: &snapshot, before: before.as_ref(), writer, progress };
        (saving.progress)(position.so_far.bytes);
        if position.so_far.bytes == 0 {
            saving.writer.header(header(identity, since, version))?;
        }
        saving.keyspaces(position.reached)?;
        let so_far = saving.writer.finish()?;
        publish(&partial, path)?;
        if let Some(name) = &options.keep {
            self.name_snapshot(name, &snapshot)?;
        }
        self.drop_snapshot(UNDER_WAY)?;
        let (entries, bytes) = (so_far.entries, so_far.bytes);
        Ok(BackupInfo { identity, since: options.since, until: version, entries, bytes })
    }

    /// The version and the whole blocks of a backup that was interrupted and can be gone on with.
    fn interrupted(&self, partial: &Path, options: &SaveOptions) -> Option<(u64, Position)> {
        let mut reader = Reader::open(partial).ok()?;
        let (since, version) = (reader.header.since.get(), reader.header.until.get());
        let is_kept =
            self.snapshots().iter().any(|(name, kept)| name == UNDER_WAY && *kept == version);
        let is_same = u128::from_le_bytes(reader.header.identity) == self.identity()
            && since == options.since.unwrap_or(0);
        if !is_kept || !is_same {
            return None;
        }
        let mut reached = None;
        // A damaged end was never finished, a trailer never named: they are written anew.
        while let Ok(Some(mut block)) = reader.next_block() {
            while let Some(entry) = take_entry(&mut block) {
                match (entry.kind, &mut reached) {
                    (KIND_WHOLE | KIND_PART, _) => {
                        let name = String::from_utf8_lossy(entry.key).into_owned();
                        reached = Some((name, entry.kind, None));
                    }
                    (_, Some((_, _, key))) => *key = Some(entry.key.to_vec()),
                    (_, None) => return None,
                }
            }
        }
        Some((version, Position { so_far: reader.so_far, reached }))
    }

    /// The identity of the pool; zero in memory.
    pub fn identity(&self) -> u128 {
        self.inner.region().report().identity
    }
}

impl Saving<'_, '_> {
    /// Every keyspace, from where an interrupted backup ends.
    fn keyspaces(
        &mut self,
        reached: Option<(String, u32, Option<Vec<u8>>)>,
    ) -> Result<(), BackupError> {
        let mut trees = self.snapshot.trees()?;
        trees.sort_by(|(a, _), (b, _)| a.cmp(b));
        let before = self.before.map(Snapshot::trees).transpose()?.unwrap_or_default();
        for (name, entry) in trees {
            let (is_begun, from) = match &reached {
                Some((last, ..)) if name < *last => continue,
                Some((last, _, key)) if name == *last => (true, key.as_deref()),
                _ => (false, None),
            };
            // A keyspace that was cleared since has another tree.
            let is_part =
                before.iter().any(|(other, tree)| *other == name && tree.cell == entry.cell);
            if !is_begun {
                let kind = if is_part { KIND_PART } else { KIND_WHOLE };
                self.writer.entry(kind, name.as_bytes(), &[])?;
            }
            match self.before.filter(|_| is_part) {
                Some(before) => self.part(entry, before.version(), from)?,
                None => self.whole(entry, from)?,
            }
        }
        Ok(())
    }

    /// All of a keyspace, behind a key.
    fn whole(&mut self, entry: KeyspaceEntry, from: Option<&[u8]>) -> Result<(), BackupError> {
        let index = self.snapshot.index_of(entry)?;
        let (writer, progress) = (&mut self.writer, &mut *self.progress);
        let mut failed = None;
        let mut visit = |key: &[u8], value: &[u8]| match writer.entry(KIND_PUT, key, value) {
            Ok(written) => {
                progress(written);
                true
            }
            Err(error) => {
                failed = Some(error);
                false
            }
        };
        let from = from.map_or(Bound::Unbounded, Bound::Excluded);
        let view = self.snapshot.view();
        index
            .range(from, Bound::Unbounded, Direction::Forward, view, &mut visit)
            .map_err(Error::from)?;
        failed.map_or(Ok(()), Err)
    }

    /// What has changed in a keyspace, behind a key.
    fn part(
        &mut self,
        entry: KeyspaceEntry,
        after: u64,
        from: Option<&[u8]>,
    ) -> Result<(), BackupError> {
        let index = self.snapshot.index_of(entry)?;
        let until = self.snapshot.version();
        let (writer, progress) = (&mut self.writer, &mut *self.progress);
        let mut failed = None;
        let mut visit = |key: &[u8], value: Option<&[u8]>| {
            let kind = if value.is_some() { KIND_PUT } else { KIND_REMOVED };
            match writer.entry(kind, key, value.unwrap_or_default()) {
                Ok(written) => {
                    progress(written);
                    true
                }
                Err(error) => {
                    failed = Some(error);
                    false
                }
            }
        };
        // The least key behind it.
        let from = from.map_or(Vec::new(), |key| [key, &[0]].concat());
        let period = Period { after, until, dead: self.snapshot.dead() };
        index.difference(period, &from, &mut visit).map_err(Error::from)?;
        failed.map_or(Ok(()), Err)
    }
}

fn header(identity: u128, since: u64, until: u64) -> Header {
    Header {
        magic: MAGIC.into(),
        version: VERSION.into(),
        reserved: 0.into(),
        identity: identity.to_le_bytes(),
        since: since.into(),
        until: until.into(),
        unused: [0; 12],
        crc: 0.into(),
    }
}
