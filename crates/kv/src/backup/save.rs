//! Taking a backup.

use std::io::{ErrorKind, Seek, SeekFrom};
use std::ops::{Bound, ControlFlow};
use std::path::Path;

use tembo_index::{Direction, Period, Range, Value};

use super::error::BackupError;
use super::files::{beside, io, open_partial, publish};
use super::format::{Header, KIND_PART, KIND_PUT, KIND_REMOVED, KIND_WHOLE, MAGIC, VERSION};
use super::info::BackupInfo;
use super::reader::{Reader, take_entry};
use super::writer::{SoFar, Writer};
use crate::error::InKeyspace;
use crate::media::KeyspaceEntry;
use crate::tombstones::masked_range;
use crate::{Error, Snapshot, Store};

/// The name that keeps the version of a backup that is under way.
const UNDER_WAY: &str = "(backup under way)";

/// A retained version.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Since {
    /// By its number.
    Version(u64),
    /// By the name of a snapshot: mostly the one that the backup before was asked to keep.
    Name(String),
}

/// What kind of backup is wanted.
#[derive(Clone, Debug, Default)]
pub struct SaveOptions {
    /// Only what has changed since that version; `None`: everything.
    pub since: Option<Since>,
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
    path: &'p Path,
    snapshot: &'s Snapshot,
    before: Option<&'s Snapshot>,
    writer: Writer<'p>,
    progress: &'p mut dyn FnMut(u64) -> ControlFlow<()>,
}

impl Store {
    /// Writes a backup of the visible version into a file that is not there, while others write. Goes on
    /// with one that was interrupted: after any error the same call does, and the version stays kept until
    /// then, or until another backup or [`Store::abandon_save`]. One at a time. `progress` is called with how many
    /// bytes more were written. Of a store that is open [to be read](crate::Options::read_only) nothing is kept: a backup
    /// that was interrupted begins anew, unless a program that writes had begun it.
    ///
    /// Only this store is saved, and nothing else that its pool holds: each other store of the pool has backups of its own,
    /// and a heap has none ([`Store::tenants`] lists them; a copy of the closed pool file has all of them). A backup has the
    /// [identity](Store::identity) of its store.
    ///
    /// Durability point: when it returns.
    ///
    /// # Errors
    /// [`BackupError::Exists`]; [`BackupError::InTheWay`]; [`Error::NotRetained`], [`Error::NoSuchName`] of the version since which it is to be;
    /// [`Error::RolledBack`] of that version, if a rollback has taken it away, or may have: of rollbacks before the store was
    /// opened only the range of versions is known ([`Store::rolled_back`]). Take a whole backup then, or one since a name;
    /// [`Error::ReadOnly`] if its version is to be kept under a name; [`BackupError::Interrupted`] if `progress` breaks.
    pub fn save(
        &self,
        path: &Path,
        options: &SaveOptions,
        progress: &mut dyn FnMut(u64) -> ControlFlow<()>,
    ) -> Result<BackupInfo, BackupError> {
        if std::fs::symlink_metadata(path).is_ok() {
            return Err(BackupError::Exists { path: path.to_owned() });
        }
        if options.keep.is_some() {
            self.handle().shared.check_writable()?;
        }
        let before = match &options.since {
            None => None,
            Some(Since::Version(version)) => Some(self.backed_up(*version)?),
            Some(Since::Name(name)) => Some(self.snapshot_named(name)?),
        };
        let since = before.as_ref().map(Snapshot::version);
        let partial = beside(path, ".partial");
        // Before a version is kept for it.
        let mut file = open_partial(&partial)?;
        let (version, position) = match self.interrupted(&partial, since) {
            Some((version, position)) => (version, position),
            // The handle keeps it, for this process.
            None if self.is_read_only() => (self.visible(), Position::default()),
            None => (self.save_snapshot(UNDER_WAY)?, Position::default()),
        };
        let snapshot = self.snapshot_at(version)?;
        io(&partial, file.set_len(position.so_far.bytes))?;
        io(&partial, file.seek(SeekFrom::End(0)))?;
        let identity = self.identity();
        let writer = Writer::new(&partial, file, position.so_far);
        let before = before.as_ref();
        let mut saving = Saving { path, snapshot: &snapshot, before, writer, progress };
        saving.report(position.so_far.bytes)?;
        if position.so_far.bytes == 0 {
            saving.writer.header(header(identity, since.unwrap_or(0), version))?;
        }
        saving.keyspaces(position.reached)?;
        let so_far = saving.writer.finish()?;
        publish(&partial, path)?;
        if let Some(name) = &options.keep {
            self.name_snapshot(name, &snapshot)?;
        }
        if !self.is_read_only() {
            self.drop_snapshot(UNDER_WAY)?;
        }
        let (entries, bytes) = (so_far.entries, so_far.bytes);
        Ok(BackupInfo { identity, since, until: version, entries, bytes })
    }

    /// Gives up the backup that was interrupted at `path`: what there is of it goes, and nothing keeps its
    /// version any more.
    ///
    /// # Errors
    /// [`BackupError::Io`]; the store's.
    pub fn abandon_save(&self, path: &Path) -> Result<(), BackupError> {
        let partial = beside(path, ".partial");
        match std::fs::remove_file(&partial) {
            Err(error) if error.kind() != ErrorKind::NotFound => io(&partial, Err(error))?,
            _ => {}
        }
        if !self.is_read_only() {
            self.drop_snapshot(UNDER_WAY)?;
        }
        Ok(())
    }

    /// A snapshot of the version of an earlier backup. Of rollbacks by earlier processes only the hull of what they took away
    /// is known: a version in it that has no name may have been taken away, and [gets none](Store::name_snapshot) any more.
    fn backed_up(&self, version: u64) -> Result<Snapshot, Error> {
        let snapshot = self.snapshot_at(version)?;
        let shared = &self.handle().shared;
        match shared.versions.pins.with_past(|past, _| past.rollback_before(version)) {
            Some(to) if !shared.names.has(version) => Err(Error::RolledBack { version, to }),
            _ => Ok(snapshot),
        }
    }

    /// The version and the whole blocks of a backup that was interrupted and can be gone on with.
    fn interrupted(&self, partial: &Path, wanted: Option<u64>) -> Option<(u64, Position)> {
        let mut reader = Reader::open(partial).ok()?;
        let (since, version) = (reader.header.since.get(), reader.header.until.get());
        let is_kept =
            self.snapshots().iter().any(|(name, kept)| name == UNDER_WAY && *kept == version);
        let is_same = u128::from_le_bytes(reader.header.identity) == self.identity()
            && since == wanted.unwrap_or(0);
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
            let (begun, from) = match &reached {
                Some((last, ..)) if name < *last => continue,
                Some((last, kind, key)) if name == *last => (Some(*kind), key.as_deref()),
                _ => (None, None),
            };
            let kind = match begun {
                // It goes on as it was begun: a store that was opened since knows less of ranges that were erased.
                Some(kind) => kind,
                None => {
                    let kind = self.kind(&name, &entry, &before);
                    self.writer.entry(kind, name.as_bytes(), (&[][..]).into())?;
                    kind
                }
            };
            match self.before.filter(|_| kind == KIND_PART) {
                Some(before) => self.part((&name, entry), before.version(), from)?,
                None => self.whole((&name, entry), from)?,
            }
        }
        Ok(())
    }

    /// Whether a keyspace is written as a whole, or what has changed in it since the backup before.
    fn kind(&self, name: &str, entry: &KeyspaceEntry, before: &[(String, KeyspaceEntry)]) -> u32 {
        // A keyspace that was cleared since has another tree; and if a range was removed of which entries are
        // left, the difference does not say so.
        let is_part = !self.has_removed_range(entry)
            && before.iter().any(|(other, tree)| other == name && tree.cell == entry.cell);
        if is_part { KIND_PART } else { KIND_WHOLE }
    }

    /// Whether a range of the tree was removed since the backup before, and is not erased in this version.
    fn has_removed_range(&self, entry: &KeyspaceEntry) -> bool {
        let after = self.before.map_or(0, Snapshot::version);
        let until = self.snapshot.version();
        let mut removed = self.snapshot.tombstones().iter();
        removed.any(|one| one.version > after && one.is_of(entry.cell.get(), until))
    }

    /// All of a keyspace, behind a key.
    fn whole(
        &mut self,
        (name, entry): (&str, KeyspaceEntry),
        from: Option<&[u8]>,
    ) -> Result<(), BackupError> {
        let snapshot = self.snapshot;
        let index = snapshot.handle().shared.indexes.open(&entry)?;
        let mut written = Ok(());
        let mut visit = |key: &[u8], value: Value<'_>| {
            written = self.entry(KIND_PUT, key, value);
            written.is_ok()
        };
        let from = from.map_or(Bound::Unbounded, Bound::Excluded);
        let range = Range { from, to: Bound::Unbounded, direction: Direction::Forward };
        masked_range(snapshot.tombstones(), &index, range, snapshot.view(), &mut visit)
            .in_keyspace(name)?;
        written
    }

    /// What has changed in a keyspace, behind a key.
    fn part(
        &mut self,
        (name, entry): (&str, KeyspaceEntry),
        after: u64,
        from: Option<&[u8]>,
    ) -> Result<(), BackupError> {
        let snapshot = self.snapshot;
        let index = snapshot.handle().shared.indexes.open(&entry)?;
        let mut written = Ok(());
        let mut visit = |key: &[u8], value: Option<Value<'_>>| {
            let kind = if value.is_some() { KIND_PUT } else { KIND_REMOVED };
            written = self.entry(kind, key, value.unwrap_or_else(|| Value::from(&[][..])));
            written.is_ok()
        };
        let from = from.map_or(Bound::Unbounded, Bound::Excluded);
        let period = Period { after, until: snapshot.version(), dead: snapshot.dead() };
        index.difference(period, from, &mut visit).in_keyspace(name)?;
        written
    }

    fn entry(&mut self, kind: u32, key: &[u8], value: Value<'_>) -> Result<(), BackupError> {
        let written = self.writer.entry(kind, key, value)?;
        self.report(written)
    }

    fn report(&mut self, written: u64) -> Result<(), BackupError> {
        match (self.progress)(written) {
            ControlFlow::Continue(()) => Ok(()),
            ControlFlow::Break(()) => Err(BackupError::Interrupted { path: self.path.to_owned() }),
        }
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
