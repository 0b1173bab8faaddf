//! A file system of a store, open.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tembo_kv::{Durability, Error as StoreError, Retention, Snapshot, Store};
use zerocopy::{FromBytes, IntoBytes};

use crate::access::Latest;
use crate::bounds::{PIECE_SIZE_MAX, PIECE_SIZE_MIN, ROOT};
use crate::diff::{self, Difference};
use crate::format::{
    DATA_SPACE, LAYER_TAG, LAYERS_VERSION, MAGIC, PieceKeys, SUPERBLOCK_TAG, Superblock,
    TREE_SPACE, VERSION, number_in,
};
use crate::inode::{FileKind, Inode};
use crate::layer::Layer;
use crate::names::New;
use crate::open_files::{OpenFiles, Unlinking};
use crate::point::Point;
use crate::records::{Changing, Layout, Records};
use crate::time::Time;
use crate::timeline::{Timeline, Written};
use crate::tree::{AnyTreeMut, Tree, TreeMut};
use crate::{Error, names, timeline};

/// Of a file, up to so many pieces are removed one by one unless another number is given.
const SINGLY_MAX: u64 = 1024;

/// Up to so many pieces are copied, and not shared, unless another number is given: that is cheaper.
const COPIED_MAX: u64 = 16;

/// Orphans that one commit removes.
const ORPHANS: usize = 64;

/// How a file system is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Format {
    /// Bytes of a piece of a file: a power of two from 512 to 65,536. A change writes each piece that it touches whole.
    pub piece_size: usize,
    /// Permissions and owner of the root.
    pub root: New,
}

impl Default for Format {
    /// Pieces of 4 KiB; a root that user 0 owns, and others read.
    fn default() -> Format {
        let (kind, umask) = (FileKind::Directory, None);
        let root = New { kind, permissions: 0o755, user: 0, group: 0, device: 0, umask };
        Format { piece_size: 4096, root }
    }
}

/// What a file system takes, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Usage {
    /// In use: by everything that is in the pool.
    pub used: u64,
    /// That may be in use: the limit, or the size of the pool.
    pub total: u64,
}

/// A file system of a store, open. A clone is another handle of it.
///
/// A store has one, and a process opens it once: which files are open, and which inode numbers are drawn, is known in one
/// place.
#[derive(Clone)]
pub struct Fs(Arc<Inner>);

struct Inner {
    store: Store,
    layout: Layout,
    open: OpenFiles,
    /// The number that the next file or layer gets.
    next: AtomicU64,
    /// Bytes that the pool may have in use; `u64::MAX`: any number.
    limit: AtomicU64,
    singly_max: AtomicU64,
    copied_max: AtomicU64,
    /// Transactions that are in progress.
    transactions: AtomicU64,
    timeline: Timeline,
}

/// Whether an error is of one inode, and says nothing of others.
fn is_damage(error: &Error) -> bool {
    matches!(error, Error::Damaged { .. } | Error::Store(StoreError::Corrupt { .. }))
}

/// Counts a transaction while it is in progress.
pub(crate) struct InProgress(Fs);

impl Drop for InProgress {
    fn drop(&mut self) {
        self.0.0.transactions.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Fs {
    /// Makes a file system in a store that has none, with an empty root.
    ///
    /// Durability point: when it returns. Interrupted, there is none, and it can be made again.
    ///
    /// # Errors
    /// [`tembo_kv::Error::Unordered`]: the store's keys have no order, and it holds no file system; nothing was made.
    /// [`Error::PieceSize`]; [`Error::NameExists`] if there is one.
    pub fn format(store: &Store, format: &Format, now: Time) -> Result<Fs, Error> {
        store.check_ordered()?;
        let (size, bounds) = (format.piece_size, PIECE_SIZE_MIN..=PIECE_SIZE_MAX);
        if !size.is_power_of_two() || !bounds.contains(&size) {
            return Err(Error::PieceSize { size });
        }
        let layout = Layout {
            tree: store.keyspace(TREE_SPACE)?,
            data: store.keyspace(DATA_SPACE)?,
            piece_size: size,
            piece_keys: PieceKeys::Compact,
            singly_max: SINGLY_MAX,
            copied_max: COPIED_MAX,
            pool: store.identity() as u64,
        };
        let mut writer = store.exclusive()?;
        if writer.get(layout.tree, &[SUPERBLOCK_TAG])?.is_some() {
            return Err(Error::NameExists { directory: 0, name: TREE_SPACE.into() });
        }
        let superblock = Superblock {
            magic: MAGIC.into(),
            version: VERSION.into(),
            piece_size: (size as u32).into(),
            piece_keys: 0.into(),
            reserved: [0.into(); 3],
        };
        writer.put(layout.tree, &[SUPERBLOCK_TAG], superblock.as_bytes())?;
        let fs = Fs::of(store, layout, ROOT);
        let new = New { kind: FileKind::Directory, ..format.root };
        let root = names::new_inode(&fs.changing(now, Unlinking::Keep), None, &new);
        let root = Inode { parent: ROOT, ..root };
        Tree::new(&mut writer, layout).records().put_inode(&root)?;
        writer.commit(Durability::Strict)?;
        Ok(fs)
    }

    /// Opens the file system of a store, and removes what was unlinked and open at the last stop or crash; of that, what is damaged stays.
    ///
    /// # Errors
    /// As [`format`](Fs::format) where keys have no order; [`Error::NoFileSystem`], [`Error::NewerVersion`], [`Error::Damaged`].
    pub fn open(store: &Store) -> Result<Fs, Error> {
        store.check_ordered()?;
        let space = |wanted: &str| {
            let found = store.keyspaces().into_iter().find(|(name, _)| name == wanted);
            found.map(|(_, space)| space).ok_or(Error::NoFileSystem)
        };
        let (tree, data) = (space(TREE_SPACE)?, space(DATA_SPACE)?);
        let superblock = store.get(tree, &[SUPERBLOCK_TAG])?.ok_or(Error::NoFileSystem)?;
        let damaged = Error::Damaged { inode: 0, what: "the superblock" };
        let Ok(superblock) = Superblock::read_from_bytes(&superblock) else { return Err(damaged) };
        let (version, piece_size) =
            (superblock.version.get(), superblock.piece_size.get() as usize);
        if superblock.magic.get() != MAGIC {
            return Err(damaged);
        }
        let has_layers = version == LAYERS_VERSION;
        let keys_of = if has_layers { superblock.piece_keys.get() } else { version };
        let Some(piece_keys) = PieceKeys::of_version(keys_of) else {
            let newer = Error::NewerVersion { found: version, known: LAYERS_VERSION };
            return Err(if has_layers { damaged } else { newer });
        };
        if !piece_size.is_power_of_two() || !(PIECE_SIZE_MIN..=PIECE_SIZE_MAX).contains(&piece_size)
        {
            return Err(damaged);
        }
        let (singly_max, copied_max) = (SINGLY_MAX, COPIED_MAX);
        let pool = store.identity() as u64;
        let layout = Layout { tree, data, piece_size, piece_keys, singly_max, copied_max, pool };
        let last = Tree::new(store.snapshot()?, layout).last_number()?;
        let fs = Fs::of(store, layout, last.max(ROOT).saturating_add(1));
        if !store.is_read_only() {
            fs.remove_orphans()?;
        }
        Ok(fs)
    }

    /// As [`open`](Fs::open), or [`format`](Fs::format) if there is none.
    ///
    /// # Errors
    /// As of these.
    pub fn open_or_format(store: &Store, format: &Format, now: Time) -> Result<Fs, Error> {
        match Fs::open(store) {
            Err(Error::NoFileSystem) => Fs::format(store, format, now),
            opened => opened,
        }
    }

    fn of(store: &Store, layout: Layout, next: u64) -> Fs {
        let (open, limit) = (OpenFiles::default(), AtomicU64::new(u64::MAX));
        Fs(Arc::new(Inner {
            store: store.clone(),
            layout,
            open,
            next: next.into(),
            limit,
            singly_max: SINGLY_MAX.into(),
            copied_max: COPIED_MAX.into(),
            transactions: 0.into(),
            timeline: Timeline::default(),
        }))
    }

    /// The store, whose snapshots, rollback and backups are those of the file system.
    pub fn store(&self) -> &Store {
        &self.0.store
    }

    /// The size of a piece of a file, in bytes.
    pub fn piece_size(&self) -> usize {
        self.0.layout.piece_size
    }

    /// Bytes that the pool may have in use: beyond that what adds pieces is refused ([`Error::OverLimit`]). Not kept on media.
    pub fn set_limit(&self, bytes: u64) {
        self.0.limit.store(bytes, Ordering::Relaxed);
    }

    /// Of a file, up to so many pieces are removed one by one; more as a range, in constant time, which the background then
    /// erases. 1024 unless given.
    pub fn set_singly_max(&self, pieces: u64) {
        self.0.singly_max.store(pieces, Ordering::Relaxed);
    }

    /// Up to so many pieces are copied when a file is cloned; more are shared, in constant time. 16 unless given.
    pub fn set_copied_max(&self, pieces: u64) {
        self.0.copied_max.store(pieces, Ordering::Relaxed);
    }

    /// The inode that a conflict of two transactions is about.
    pub fn conflicting_inode(&self, error: &Error) -> Option<u64> {
        let Error::Store(tembo_kv::Error::Conflict { keyspace, key, .. }) = error else {
            return None;
        };
        match &**keyspace {
            TREE_SPACE if key.first() == Some(&LAYER_TAG) => self.owner(number_in(key)?),
            TREE_SPACE => number_in(key),
            DATA_SPACE => self.owner(self.0.layout.piece_keys.numbers(key)?.0),
            _ => None,
        }
    }

    /// The inode whose own layer has that number; `None`: it is shared.
    fn owner(&self, layer: u64) -> Option<u64> {
        match self.snapshot().ok()?.records().layer(layer).ok()? {
            Some(Layer::Own(inode)) => Some(inode),
            Some(Layer::Shared { .. }) => None,
            None => Some(layer),
        }
    }

    fn layout(&self) -> Layout {
        let singly_max = self.0.singly_max.load(Ordering::Relaxed);
        let copied_max = self.0.copied_max.load(Ordering::Relaxed);
        Layout { singly_max, copied_max, ..self.0.layout }
    }

    /// What is in use, of how much. Never waits.
    pub fn usage(&self) -> Usage {
        let report = self.0.store.report();
        let limit = self.0.limit.load(Ordering::Relaxed);
        let total = if limit == u64::MAX { report.pool_bytes } else { limit };
        Usage { used: report.used_bytes, total: total.max(report.used_bytes) }
    }

    /// Bytes that are left of the limit. `None`: there is no limit.
    pub fn left(&self) -> Option<u64> {
        let limit = self.0.limit.load(Ordering::Relaxed);
        (limit != u64::MAX).then(|| limit.saturating_sub(self.0.store.report().used_bytes))
    }

    /// The file system as it is now, for as long as the handle lives, beside any writer.
    ///
    /// # Errors
    /// Those of the store.
    pub fn snapshot(&self) -> Result<Tree<Snapshot>, Error> {
        Ok(self.tree(self.0.store.snapshot()?))
    }

    /// The file system in another snapshot of its store.
    pub fn tree(&self, snapshot: Snapshot) -> Tree<Snapshot> {
        Tree::new(snapshot, self.0.layout)
    }

    /// Single records as they are at each call.
    fn latest(&self) -> Records<Latest<'_>> {
        Records::new(Latest(&self.0.store), self.0.layout)
    }

    fn changing<'t>(&'t self, now: Time, unlinking: Unlinking<'t>) -> Changing<'t> {
        Changing {
            now,
            next: &self.0.next,
            generation: self.0.store.visible(),
            unlinking,
            left: self.left(),
            may_share: self.0.transactions.load(Ordering::Relaxed) == 0,
            orphans: BTreeSet::new(),
            is_broken: false,
        }
    }

    /// Does some changes as one commit: all or, if `work` fails, nothing. One thread at a time writes; all that is changed
    /// gets the time `now`. `work` must not call other functions of this file system that change it.
    ///
    /// Durability point: with [`Durability::Strict`] when it returns, else at the next [`sync`](Fs::sync). With
    /// [`Durability::Written`] it survives the end of the process until then.
    ///
    /// # Errors
    /// Those of `work` and of a commit: nothing has changed.
    pub fn write<T>(
        &self,
        now: Time,
        durability: Durability,
        work: impl FnOnce(&mut AnyTreeMut<'_, '_>) -> Result<T, Error>,
    ) -> Result<T, Error> {
        let mut writer = self.0.store.exclusive()?;
        let changing = self.changing(now, Unlinking::unless_open(&self.0.open));
        let mut tree = AnyTreeMut::new(&mut writer, self.layout(), changing);
        let done = work(&mut tree)?;
        tree.check_whole()?;
        let written = self.write_points(now, &mut tree)?;
        // What is removed is not opened before the commit is visible.
        let changing = tree.into_changing();
        let version = writer.commit(Durability::Buffered)?;
        drop(changing);
        self.changed(now, version);
        if let Some(written) = written {
            self.0.timeline.put(written);
        }
        self.make_durable(durability)?;
        Ok(done)
    }

    /// Makes what is visible as durable as a change is to be when it returns.
    pub(crate) fn make_durable(&self, durability: Durability) -> Result<(), Error> {
        match durability {
            Durability::Strict => self.sync(),
            Durability::Written => Ok(self.0.store.write_out()?),
            Durability::Buffered => Ok(()),
        }
    }

    /// As part of a change, puts what is known of times that are over.
    fn write_points(
        &self,
        now: Time,
        tree: &mut AnyTreeMut<'_, '_>,
    ) -> Result<Option<Written>, Error> {
        let store = &self.0.store;
        if store.retention() == Retention::Nothing {
            return Ok(None);
        }
        self.0.timeline.write(tree.tree().records(), now, store.oldest()).map(Some)
    }

    /// A change at a time has made a version.
    pub(crate) fn changed(&self, now: Time, version: u64) {
        self.0.timeline.changed(now, version);
    }

    /// Notes for later processes that the files are as they are now since the last change, or if this process has made none that they
    /// are so now: if the store keeps a window of versions, at the begin and the end of a process. Else the first change of a later
    /// second notes it.
    ///
    /// Durability point: the next [`sync`](Fs::sync).
    ///
    /// # Errors
    /// Those of a commit.
    pub fn note_time(&self, now: Time) -> Result<(), Error> {
        let store = &self.0.store;
        if store.is_read_only() || store.retention() == Retention::Nothing {
            return Ok(());
        }
        self.write(now, Durability::Buffered, |tree| {
            let known = self.0.timeline.last();
            let point = known.unwrap_or(Point { time: now, version: store.visible() });
            tree.tree().records().put_point(point)
        })
    }

    /// The points in time of which a version is known and kept, in their order.
    ///
    /// # Errors
    /// Damage.
    pub fn points(&self) -> Result<Vec<Point>, Error> {
        let mut points = timeline::all(self.snapshot()?.records())?;
        let oldest = self.0.store.oldest();
        points.retain(|point| point.version >= oldest);
        Ok(points)
    }

    /// The store as it was at a time: with no change that was made later, and with all that were made before the second of that time
    /// began, but for what was thinned.
    ///
    /// # Errors
    /// [`Error::NotKept`].
    pub fn snapshot_at(&self, time: Time) -> Result<Snapshot, Error> {
        let now = self.0.store.snapshot()?;
        if self.0.timeline.is_current_at(time) {
            return Ok(now);
        }
        let mut found = None;
        self.tree(now).records().points(Some(time), &mut |point| {
            found = Some(point);
            false
        })?;
        let waiting = self.0.timeline.waiting_at(time);
        let not_kept = Error::NotKept { time };
        let Some(point) = found.max(waiting) else { return Err(not_kept) };
        match self.0.store.snapshot_at(point.version) {
            Err(tembo_kv::Error::NotRetained { .. }) => Err(not_kept),
            found => Ok(found?),
        }
    }

    /// A transaction has begun, until the guard is dropped.
    pub(crate) fn begin_transaction(&self) -> InProgress {
        self.0.transactions.fetch_add(1, Ordering::Relaxed);
        InProgress(self.clone())
    }

    /// For transactions: what a change needs, and the layout.
    pub(crate) fn begin_change(&self, now: Time) -> (Changing<'_>, Layout) {
        (self.changing(now, Unlinking::Keep), self.layout())
    }

    /// All that was written is as durable as the store's policy promises.
    ///
    /// # Errors
    /// Those of a sync.
    pub fn sync(&self) -> Result<(), Error> {
        Ok(self.0.store.sync()?)
    }

    /// Opens an inode: it stays while it is open, even if it loses its last name.
    ///
    /// # Errors
    /// [`Error::NoSuchInode`].
    pub fn open_inode(&self, number: u64) -> Result<Inode, Error> {
        let mut open = self.0.open.lock();
        let inode = self.latest().inode(number)?;
        let uses = open.entry(number).or_default();
        uses.count += 1;
        uses.may_be_orphan |= inode.links == 0;
        Ok(inode)
    }

    /// Closes an inode that was opened as often as this. What has no name is removed with the last.
    ///
    /// # Errors
    /// Those of a commit: then the next open of the file system removes it.
    pub fn close_inode(&self, number: u64) -> Result<(), Error> {
        if self.0.open.close(number) && self.is_orphan(number)? {
            self.remove_unopened(&[number])?;
        }
        Ok(())
    }

    /// Closes inodes as [`close_inode`](Fs::close_inode) does each. Those that have no name are removed by few commits; what is damaged
    /// stays.
    ///
    /// # Errors
    /// Those of a commit: then the next open of the file system removes them.
    pub fn close_inodes(&self, numbers: &[u64]) -> Result<(), Error> {
        let closed = numbers.iter().filter(|&&number| self.0.open.close(number));
        let orphans: Vec<u64> =
            closed.copied().filter(|&number| self.is_orphan(number).unwrap_or(true)).collect();
        self.remove_sound(&orphans)
    }

    fn is_orphan(&self, number: u64) -> Result<bool, Error> {
        match self.latest().inode(number) {
            Ok(inode) => Ok(inode.links == 0),
            Err(Error::NoSuchInode { .. }) => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Those of some inodes that are open.
    pub(crate) fn open_of(&self, numbers: &BTreeSet<u64>) -> Vec<u64> {
        let open = self.0.open.lock();
        numbers.iter().copied().filter(|number| open.contains_key(number)).collect()
    }

    /// Removes those of these inodes that have no name and are not open.
    pub(crate) fn remove_unopened(&self, numbers: &[u64]) -> Result<(), Error> {
        // Before what can fail: a close looks for those that are open.
        self.0.open.note_orphans(numbers);
        for some in numbers.chunks(ORPHANS) {
            let mut writer = self.0.store.exclusive()?;
            let mut unlinking = Unlinking::unless_open(&self.0.open);
            let changing = self.changing(Time::default(), Unlinking::Keep);
            let mut tree = TreeMut::new(&mut writer, self.layout(), changing);
            for &number in some.iter().filter(|&&number| !unlinking.keeps(number)) {
                tree.remove_orphan(number)?;
            }
            writer.commit(Durability::Buffered)?;
            drop(unlinking);
        }
        Ok(())
    }

    /// Removes what has lost its last name. What is damaged stays as it is, and keeps nothing else from being removed: a check
    /// names it.
    fn remove_orphans(&self) -> Result<(), Error> {
        self.remove_sound(&self.snapshot()?.orphans()?)
    }

    /// Removes those of some inodes that have no name, are not open, and are not damaged.
    fn remove_sound(&self, orphans: &[u64]) -> Result<(), Error> {
        for some in orphans.chunks(ORPHANS) {
            match self.remove_unopened(some) {
                Err(error) if is_damage(&error) => self.remove_singly(some)?,
                removed => removed?,
            }
        }
        Ok(())
    }

    /// Removes each of some orphans that is not damaged.
    fn remove_singly(&self, orphans: &[u64]) -> Result<(), Error> {
        for &number in orphans {
            match self.remove_unopened(&[number]) {
                Err(error) if is_damage(&error) => {}
                removed => removed?,
            }
        }
        Ok(())
    }

    /// Takes back everything after a named snapshot of the store, in constant time. Synced when it returns.
    ///
    /// # Errors
    /// [`Error::Store`]: there is no such snapshot, or a later version is being read; with
    /// [`NotDurable`](tembo_kv::Error::NotDurable) it is rolled back, and durable with the next sync.
    pub fn rollback_to(&self, name: &str) -> Result<(), Error> {
        self.rolled_back(self.0.store.rollback_to(name))
    }

    /// Takes back everything after a version that is kept, as [`rollback_to`](Fs::rollback_to).
    ///
    /// # Errors
    /// [`Error::Store`]: it is not kept, or a later version is being read.
    pub fn rollback(&self, version: u64) -> Result<(), Error> {
        self.rolled_back(self.0.store.rollback(version))
    }

    /// What follows a rollback of the store.
    fn rolled_back<T>(&self, done: Result<T, StoreError>) -> Result<(), Error> {
        if matches!(done, Ok(_) | Err(StoreError::NotDurable(_))) {
            self.0.timeline.forget();
        }
        done?;
        self.remove_orphans()
    }

    /// What is different in two snapshots of the store, by path.
    ///
    /// # Errors
    /// Damage.
    pub fn differences(&self, from: &Snapshot, to: &Snapshot) -> Result<Vec<Difference>, Error> {
        diff::differences(self.0.layout, from, to)
    }
}
