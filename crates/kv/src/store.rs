//! The store: the face of everything else.

use std::borrow::Borrow;
use std::fmt;
use std::io::ErrorKind;
use std::path::Path;
use std::sync::Arc;

use tembo_index::{IndexKind, Op, Value, ValueRoom};
use tembo_pmem::Error as RegionError;
use tembo_pool::{Fragmentation, Pool, TenantStat};

use crate::check::{Check, check};
use crate::commit::Uncommitted;
use crate::entries::{Entries, bounds};
use crate::horizon::{Horizon, horizon};
use crate::keyspace::{check_name, check_sizes};
use crate::ledger::{publish, reclaim, set_retention};
use crate::media::WindowWords;
use crate::opened::Handle;
use crate::report::{Report, report};
use crate::version::PinKind;
use crate::{
    Change, Changes, Durability, Error, Exclusive, Isolation, Keyspace, Options, Prepared,
    Progress, Replica, Retention, Snapshot, Transaction, maintain, open, prepared, replica, retry,
    single,
};

/// A store of versioned keyspaces in one pool.
///
/// Any number of threads read ([`Store::get`], [`Store::snapshot`]) and write: single keys
/// ([`Store::put`], [`Store::remove`]), over the NV-Tree beside each other; several keys together
/// ([`Store::transaction`]); or as the one exclusive writer ([`Store::exclusive`]).
///
/// A clone is another handle of the same store, and costs next to nothing. Snapshots, transactions and all that a
/// store gives out own what they need; the store closes when the last of them is dropped.
///
/// A thread that has an [`Exclusive`] must not wait for the writer's lock, which it has itself: calls that would
/// do so return [`Error::WouldDeadlock`]. Reads, reports, names and snapshots never wait for it.
#[derive(Clone)]
pub struct Store {
    handle: Handle,
}

/// Whether the error says that nothing lies at the path.
fn is_absent(error: &Error, path: &Path) -> bool {
    matches!(error, Error::Region(RegionError::Io { path: at, source, .. })
        if at == path && source.kind() == ErrorKind::NotFound)
}

/// Why a store was not closed, and the store.
pub struct CloseError {
    store: Option<Store>,
    error: Box<Error>,
}

impl CloseError {
    /// The store, which can be closed later. `None`: it is closed, with an error.
    pub fn into_store(self) -> Option<Store> {
        self.store
    }

    /// What went wrong.
    pub fn error(&self) -> &Error {
        &self.error
    }
}

impl fmt::Debug for CloseError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.error.fmt(f)
    }
}

impl fmt::Display for CloseError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.error.fmt(f)
    }
}

impl std::error::Error for CloseError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(&*self.error)
    }
}

impl From<CloseError> for Error {
    fn from(error: CloseError) -> Error {
        *error.error
    }
}

impl Store {
    /// Makes a store in a new pool at `path`, where nothing may be.
    ///
    /// # Errors
    /// Those of the pool.
    pub fn create(path: &Path, options: &Options) -> Result<Store, Error> {
        let made =
            Pool::create_with(path, &options.pool_options(), |p| Store::format_as(p, options));
        Store::start(made?, options)
    }

    /// Opens the store at `path` to read it, as it is now: [`Options::read_only`].
    ///
    /// # Errors
    /// As of [`Store::open`].
    pub fn open_read_only(path: &Path) -> Result<Store, Error> {
        Store::open(path, &Options::default().read_only(true))
    }

    /// Opens the store at `path`. This is recovery; it does not wait for anything to be rebuilt.
    ///
    /// # Errors
    /// [`Error::Damaged`]; those of the pool.
    pub fn open(path: &Path, options: &Options) -> Result<Store, Error> {
        Store::start(Pool::open(path, &options.pool_options())?, options)
    }

    /// Opens the store at `path`, or makes it if nothing is there.
    ///
    /// # Errors
    /// As of [`Store::open`] and [`Store::create`].
    pub fn open_or_create(path: &Path, options: &Options) -> Result<Store, Error> {
        match Store::open(path, options) {
            Err(error) if is_absent(&error, path) => match Store::create(path, options) {
                // Another process has made the store meanwhile.
                Err(Error::Region(RegionError::Exists { .. })) => Store::open(path, options),
                created => created,
            },
            opened => opened,
        }
    }

    /// Makes a store in memory, which ends with the process.
    ///
    /// # Errors
    /// Those of the pool.
    pub fn volatile(options: &Options) -> Result<Store, Error> {
        let made = Pool::volatile_with(&options.pool_options(), |p| Store::format_as(p, options));
        Store::start(made?, options)
    }

    /// Makes an empty store in a pool that has none. This is a part of creation: if it is interrupted, the pool
    /// does not open as a store.
    ///
    /// The pool is the space itself, [`pool::Pool`](tembo_pool::Pool), and not a [`Pool`](crate::Pool) of named stores.
    ///
    /// # Errors
    /// Those of the pool.
    pub fn format(pool: &Pool, index: IndexKind) -> Result<(), Error> {
        Store::format_as(pool, &Options::new().index(index))
    }

    /// As [`format`](Store::format), with the index and the checksums that the options say.
    ///
    /// # Errors
    /// As of [`format`](Store::format).
    pub fn format_as(pool: &Pool, options: &Options) -> Result<(), Error> {
        open::format(pool, open::MAIN, (options.index_kind(), options.records())).map(drop)
    }

    /// Opens the store in an open pool. If other tenants share the pool, give a clone of its `Arc`. The pool is as of
    /// [`format`](Store::format).
    ///
    /// # Errors
    /// As of [`Store::open`].
    pub fn start(pool: impl Into<Arc<Pool>>, options: &Options) -> Result<Store, Error> {
        let pool = pool.into();
        let tenant = open::find(&pool)?;
        let handle = Handle::start(&pool, &tenant, options)?;
        Ok(Store { handle })
    }

    /// The store of a handle that is open already.
    pub(crate) fn of(handle: Handle) -> Store {
        Store { handle }
    }

    /// Stops the store cleanly. With a redo log this makes a checkpoint, so that the one file can be copied.
    /// Correctness never needs it: a store also closes when its last handle is dropped.
    ///
    /// # Errors
    /// [`Error::InUse`]: other handles are open, which it names. Everything stays usable, and
    /// [`CloseError::into_store`] gives this handle back; followers that [wait](Changes::wait) wake up. [`Error::Poisoned`] and others of a sync.
    pub fn close(self) -> Result<(), CloseError> {
        self.handle.close().map_err(|(handle, error)| {
            let store = handle.map(|handle| Store { handle });
            CloseError { store, error }
        })
    }

    /// The keyspace of that name, created if there is none. One that was created is durable when it returns.
    ///
    /// # Errors
    /// [`Error::KeyspaceName`]: the name has more than
    /// [`KEYSPACE_NAME_SIZE_MAX`](crate::KEYSPACE_NAME_SIZE_MAX) bytes; and those of a commit.
    pub fn keyspace(&self, name: &str) -> Result<Keyspace, Error> {
        let current = self.handle.shared.published.load();
        let known = current.trees.iter().zip(0..).find(|(known, _)| &*known.name == name);
        if let Some((known, id)) = known {
            return Ok(Keyspace { id, incarnation: known.incarnation });
        }
        check_name(name)?;
        self.handle.shared.check_writable()?;
        let mut writing = self.handle.lock()?;
        let (shared, ledger) = writing.parts();
        if let Some(known) = ledger.trees.by_name(name) {
            return Ok(known);
        }
        ledger.writable()?;
        let mut changes = Uncommitted::begin(shared);
        let made = changes.create(shared, ledger, name).and_then(|keyspace| {
            let version = changes.newest(shared);
            publish(shared, ledger, version, std::slice::from_mut(&mut changes))?;
            Ok(keyspace)
        });
        changes.abort(shared, ledger);
        drop(writing);
        let keyspace = made?;
        self.sync()?;
        Ok(keyspace)
    }

    /// The keyspaces, by number.
    pub fn keyspaces(&self) -> Vec<(String, Keyspace)> {
        let current = self.handle.shared.published.load();
        let known = current.trees.iter().zip(0..);
        known
            .map(|(known, id)| {
                (known.name.to_string(), Keyspace { id, incarnation: known.incarnation })
            })
            .collect()
    }

    /// Whether keys have an order, so that ranges of them can be read and removed: not with
    /// [`IndexKind::Hash`].
    pub fn is_ordered(&self) -> bool {
        self.handle.shared.kind().is_ordered()
    }

    /// Checks that keys have an order. Code that is built on ranges of keys calls this when it opens a store, before it writes
    /// anything.
    ///
    /// # Errors
    /// [`Error::Unordered`], unless the store [has an order](Store::is_ordered).
    pub fn check_ordered(&self) -> Result<(), Error> {
        self.handle.shared.check_order()
    }

    /// Begins a transaction: any number may be open, and none waits for another before it commits.
    ///
    /// # Errors
    /// None at present. The `Result` is for what a later release may refuse.
    pub fn transaction(&self, isolation: Isolation) -> Result<Transaction, Error> {
        Ok(Transaction::begin(&self.handle, isolation))
    }

    /// Runs `work` in a transaction and commits it. After an [`Error::Conflict`] of either it tries again in another
    /// transaction, with pauses that double up to 8 ms. So `work` may run several times; nothing of an attempt that was given
    /// up remains.
    ///
    /// Durability point: as `durability` says, capped by the region's sync policy.
    ///
    /// # Errors
    /// The last conflict, after [`ATTEMPTS_MAX`](crate::ATTEMPTS_MAX) attempts; any other error of `work` and of
    /// [`Transaction::commit`], at once.
    pub fn with_retry<T>(
        &self,
        isolation: Isolation,
        durability: Durability,
        work: impl FnMut(&mut Transaction) -> Result<T, Error>,
    ) -> Result<T, Error> {
        retry::with_retry(&self.handle, isolation, durability, work)
    }

    /// Begins the exclusive writer; waits for the one before. Dropping it without a commit leaves nothing.
    ///
    /// # Errors
    /// [`Error::WouldDeadlock`]: this thread has one already.
    pub fn exclusive(&self) -> Result<Exclusive, Error> {
        Exclusive::begin(&self.handle)
    }

    /// A snapshot of everything that is visible at this time, for as long as the handle lives.
    ///
    /// # Errors
    /// None at present. The `Result` is for what a later release may refuse.
    pub fn snapshot(&self) -> Result<Snapshot, Error> {
        Ok(Snapshot::of_visible(&self.handle, PinKind::Snapshot))
    }

    /// The store as it was at a retained version: one in the window that [`Store::retain`] keeps, one named by
    /// [`Store::save_snapshot`], one that another handle holds, or the visible one. One rolled back is what that went back to.
    ///
    /// # Errors
    /// [`Error::NotRetained`].
    pub fn snapshot_at(&self, version: u64) -> Result<Snapshot, Error> {
        Snapshot::of(&self.handle, version)
    }

    /// The store as it was when a snapshot was named.
    ///
    /// # Errors
    /// [`Error::NoSuchName`].
    pub fn snapshot_named(&self, name: &str) -> Result<Snapshot, Error> {
        self.snapshot_at(self.named(name)?)
    }

    fn named(&self, name: &str) -> Result<u64, Error> {
        let version = self.handle.shared.names.version(name);
        version.ok_or_else(|| Error::NoSuchName { name: name.into() })
    }

    /// Puts one key: a transaction of its own. True if the key was there before. One fence, where the
    /// index can change the key in place, else two.
    ///
    /// Threads do this beside each other where the index takes several writers (the NV-Tree), and one after
    /// the other where it does not. What was reported to one of them is in every snapshot that begins afterwards.
    ///
    /// A value of 512, 640, 768, 896, 1024 bytes, or any of these times a power of two, has no header over the NV-Tree,
    /// where records have checksums and at most eight bytes of the key differ from those of its neighbours: a
    /// block of 4096 bytes takes 4096 bytes.
    ///
    /// Durability point: as `durability` says, capped by the region's sync policy.
    ///
    /// # Errors
    /// As of [`Exclusive::put`] and [`Exclusive::commit`]; [`Error::WouldDeadlock`].
    pub fn put(
        &self,
        keyspace: Keyspace,
        key: &[u8],
        value: &[u8],
        durability: Durability,
    ) -> Result<bool, Error> {
        check_sizes(key, &[value])?;
        single::change(&self.handle, keyspace, Op::Put { key, value: &[value] }, durability)
    }

    /// Removes one key; false if it was not there. One fence, where the index can change the key in
    /// place, else two. Several threads as in [`Store::put`].
    ///
    /// Durability point: as `durability` says, capped by the region's sync policy.
    ///
    /// # Errors
    /// As of [`Exclusive::remove`] and [`Exclusive::commit`]; [`Error::WouldDeadlock`].
    pub fn remove(
        &self,
        keyspace: Keyspace,
        key: &[u8],
        durability: Durability,
    ) -> Result<bool, Error> {
        single::change(&self.handle, keyspace, Op::Remove { key }, durability)
    }

    /// Removes the keys of a range, as [`Exclusive::remove_range`] does, and commits.
    ///
    /// Durability point: as `durability` says, capped by the region's sync policy.
    ///
    /// # Errors
    /// As of [`Exclusive::remove_range`] and [`Exclusive::commit`]; [`Error::WouldDeadlock`].
    pub fn remove_range<K: AsRef<[u8]> + ?Sized>(
        &self,
        keyspace: Keyspace,
        range: impl std::ops::RangeBounds<K>,
        durability: Durability,
    ) -> Result<(), Error> {
        let mut writer = self.exclusive()?;
        writer.remove_range(keyspace, range)?;
        writer.commit(durability).map(drop)
    }

    /// The value under `key` in the visible version, copied.
    ///
    /// # Errors
    /// As of [`Store::get_with`].
    pub fn get(&self, keyspace: Keyspace, key: &[u8]) -> Result<Option<Vec<u8>>, Error> {
        self.get_with(keyspace, key, |value| value.map(|value| value.to_vec()))
    }

    /// Calls `read` with the value under `key` in the visible version. A value of at most
    /// [`ValueRoom::LEN`](tembo_index::ValueRoom::LEN) bytes may be a copy; of any other the version is held as long as
    /// `read` runs: no rollback is possible in the meantime, and no space of that version is given back.
    ///
    /// # Errors
    /// [`Error::NoSuchKeyspace`]; damage.
    #[inline(always)]
    pub fn get_with<T>(
        &self,
        keyspace: Keyspace,
        key: &[u8],
        read: impl FnOnce(Option<Value<'_>>) -> T,
    ) -> Result<T, Error> {
        let shared = &self.handle.shared;
        // Readers of a CDDS B-Tree find the tree of their version.
        if shared.kind() == IndexKind::Cdds || shared.versions.long_reads.expects(keyspace) {
            return self.get_pinned(keyspace, key, read);
        }
        let mut room = ValueRoom::new();
        match shared.get_unpinned(keyspace, key, &mut room) {
            Some(value) => Ok(read(value)),
            None => self.get_pinned(keyspace, key, read),
        }
    }

    /// The values under some keys in the visible version, one for all of them, copied, in the order of the keys.
    ///
    /// # Errors
    /// As of [`Store::get_many_with`].
    pub fn get_many<K: AsRef<[u8]>>(
        &self,
        keyspace: Keyspace,
        keys: &[K],
    ) -> Result<Vec<Option<Vec<u8>>>, Error> {
        let mut values = Vec::with_capacity(keys.len());
        self.get_many_with(keyspace, keys, |value| {
            values.push(value.map(|value| value.to_vec()));
        })?;
        Ok(values)
    }

    /// Calls `read` with the value under each key, in the order of the keys. All values are of one version, the visible one,
    /// which is held until the last call has returned, as [`Store::get_with`] says. The keys are looked for together, sixteen
    /// at a time: see [`Snapshot::get_many`].
    ///
    /// # Errors
    /// As of [`Store::get_with`]: if one value cannot be read, `read` is not called.
    pub fn get_many_with<K: AsRef<[u8]>>(
        &self,
        keyspace: Keyspace,
        keys: &[K],
        mut read: impl FnMut(Option<Value<'_>>),
    ) -> Result<(), Error> {
        let reading = self.handle.shared.begin_reading();
        match reading {
            Some(reading) => {
                let keys: Vec<&[u8]> = keys.iter().map(AsRef::as_ref).collect();
                reading.get_many(keyspace, &keys)?.into_iter().for_each(read);
            }
            None => {
                self.snapshot()?.get_many(keyspace, keys)?.into_iter().for_each(&mut read);
            }
        }
        Ok(())
    }

    /// As `get_with`, with a pin.
    #[inline(never)]
    fn get_pinned<T>(
        &self,
        keyspace: Keyspace,
        key: &[u8],
        read: impl FnOnce(Option<Value<'_>>) -> T,
    ) -> Result<T, Error> {
        let shared = &self.handle.shared;
        let Some(reading) = shared.begin_reading() else {
            return Ok(read(self.snapshot()?.get(keyspace, key)?));
        };
        let value = reading.get(keyspace, key)?;
        shared.versions.long_reads.note(keyspace, value.as_ref());
        Ok(read(value))
    }

    /// The keys and values of a range in the visible version, in order, from either end. Of everything:
    /// `range::<[u8]>(keyspace, ..)`.
    ///
    /// The iterator holds that version like a snapshot.
    ///
    /// # Errors
    /// [`Error::NoSuchKeyspace`]; [`Error::Unordered`], unless it is the range of all keys; damage.
    pub fn range<K: AsRef<[u8]> + ?Sized>(
        &self,
        keyspace: Keyspace,
        range: impl std::ops::RangeBounds<K>,
    ) -> Result<Entries<'static>, Error> {
        self.handle.shared.check_range(bounds(&range))?;
        let snapshot = self.snapshot()?;
        snapshot.knows(keyspace)?;
        Ok(snapshot.into_range(keyspace, &range))
    }

    /// Names the visible version durably, in O(1): it can be read and rolled back to until the name
    /// is dropped or given to another version. Synced when it returns. Names that are Tembo's
    /// [own](crate::is_own_name) are not for programs: they may be dropped at any opening.
    ///
    /// # Errors
    /// [`Error::SnapshotName`], [`Error::Full`]: nothing has changed. [`Error::NotDurable`]: it has the name.
    pub fn save_snapshot(&self, name: &str) -> Result<u64, Error> {
        let shared = &self.handle.shared;
        shared.check_writable()?;
        // A rollback waits meanwhile, so that it finds either the name or no name.
        let gate = shared.versions.begin_snapshot();
        let version = shared.versions.pins.pin_visible(PinKind::Name);
        let before = shared.names.put(&shared.root, &shared.versions.pins, name, version)?;
        drop(gate);
        self.give_up(before);
        shared.versions.sync_beside(shared.region())?;
        Ok(version)
    }

    /// Names the version of a snapshot durably, as [`Store::save_snapshot`] does the visible one. Synced
    /// when it returns.
    ///
    /// # Errors
    /// [`Error::SnapshotName`], [`Error::Full`]: nothing has changed; so with [`Error::RolledBack`]: a rollback has taken the version away,
    /// or may have. [`Error::NotDurable`]: it has the name.
    pub fn name_snapshot(&self, name: &str, snapshot: &Snapshot) -> Result<(), Error> {
        let (shared, version) = (&self.handle.shared, snapshot.version());
        shared.check_writable()?;
        let is_named = shared.names.has(version);
        shared.versions.pins.pin_happened(version, PinKind::Name, is_named)?;
        let before = shared.names.put(&shared.root, &shared.versions.pins, name, version)?;
        self.give_up(before);
        shared.versions.sync_beside(shared.region())?;
        Ok(())
    }

    /// Drops a named snapshot; false if there was none. Synced when it returns.
    ///
    /// # Errors
    /// [`Error::Full`]: nothing has changed. [`Error::NotDurable`]: it is dropped.
    pub fn drop_snapshot(&self, name: &str) -> Result<bool, Error> {
        let shared = &self.handle.shared;
        shared.check_writable()?;
        let dropped = shared.names.forget(&shared.root, &shared.versions.pins, name)?;
        self.give_up(dropped);
        // Also if there was none: another thread may just have dropped it.
        shared.versions.sync_beside(shared.region())?;
        Ok(dropped.is_some())
    }

    /// Notes that a name has given up its version.
    fn give_up(&self, version: Option<u64>) {
        let Some(version) = version else { return };
        // If the lock is not free, the next commit gives back what only the name kept.
        if let Some(mut writing) = self.handle.try_lock() {
            let (shared, ledger) = writing.parts();
            reclaim(shared, ledger);
        }
        self.handle.shared.let_go(version);
    }

    /// The named snapshots and their versions, Tembo's [own](crate::is_own_name) included.
    pub fn snapshots(&self) -> Vec<(String, u64)> {
        self.handle.shared.names.all()
    }

    /// Keeps a window of versions readable ([`Store::snapshot_at`]), and everything that happened in it
    /// known ([`Store::changes`]). Versions before this call can be kept only if the window before has retained them.
    /// Returns the oldest version of the window.
    ///
    /// There is no clock here: to keep an hour, note now and then which version is visible,
    /// and give [`Retention::Since`] the one of an hour ago.
    ///
    /// Durability point: when it returns.
    ///
    /// # Errors
    /// [`Error::NotRetained`]: [`Retention::Since`] names a version that is not in the window before;
    /// [`Error::WouldDeadlock`], [`Error::Full`]: nothing has changed. [`Error::NotDurable`]: it is in force.
    pub fn retain(&self, retention: Retention) -> Result<u64, Error> {
        self.handle.shared.check_writable()?;
        let mut writing = self.handle.lock()?;
        let (shared, ledger) = writing.parts();
        ledger.sound()?;
        set_retention(shared, ledger, retention)?;
        drop(writing);
        Ok(self.oldest())
    }

    /// The last commit that the store was found with when it was opened. What a follower has got above it may be lost, where
    /// a crash comes before a sync or a copy of the pool is opened; single changes ([`Store::put`]) above it are not counted.
    pub fn found(&self) -> u64 {
        self.handle.shared.found
    }

    /// How often the pool has been opened: one more, durably, at each opening.
    pub fn generation(&self) -> u64 {
        self.handle.shared.pool().generation()
    }

    /// What is kept of the past.
    pub fn retention(&self) -> Retention {
        // The root was sound when the store was opened.
        WindowWords(&self.handle.shared.root).load().map_or_else(|_| Retention::Nothing, |(_, r)| r)
    }

    /// The versions above the first number, up to the second, some of which were rolled back. A follower of the changes that
    /// has gone into them has to go back or begin anew.
    pub fn rolled_back(&self) -> Option<(u64, u64)> {
        self.handle.shared.versions.pins.with_past(|past, _| past.void())
    }

    /// The oldest version of the window; the visible one, if there is none.
    pub fn oldest(&self) -> u64 {
        let pins = &self.handle.shared.versions.pins;
        pins.with_past(|past, visible| past.window().unwrap_or(visible))
    }

    /// Everything that happens after a version, in the order of versions, as far as it is durable. `after` is
    /// [`Store::oldest`] or any later version, or one after which another follower follows the changes.
    /// A follower that applies the changes to a copy of the store at `after` has the store at [`Changes::position`].
    ///
    /// # Errors
    /// [`Error::HistoryForgotten`], [`Error::RolledBack`].
    pub fn changes(&self, after: u64) -> Result<Changes, Error> {
        Changes::begin(&self.handle, after)
    }

    /// Makes these changes at a given version. They are the [`changes`](Store::changes) of that version in another store, in
    /// their order. If both stores were the same at the version before, they are the same at that version. Versions in
    /// between, at which no change was made, are skipped.
    ///
    /// All or nothing; in place, so any number of changes. They are drawn from the iterator under the writer's lock.
    /// Before a version that lies far above the visible one (a million) the one below it, at which nothing happens, is committed; it
    /// stays so if the changes are refused.
    /// [`Store::replica`] is for a store that does nothing else.
    ///
    /// Durability point: as `durability` says, capped by the region's sync policy.
    ///
    /// # Errors
    /// [`Error::VersionTaken`], [`Error::VersionTooHigh`], [`Error::Diverged`], those of [`Exclusive::put`] and of a commit,
    /// [`Error::TooManyAborts`]: nothing has changed, and the version can be tried again. [`Error::WouldDeadlock`].
    pub fn apply_changes<C: Borrow<Change>>(
        &self,
        version: u64,
        changes: impl IntoIterator<Item = C>,
        durability: Durability,
    ) -> Result<(), Error> {
        replica::apply(&self.handle, version, changes, durability)
    }

    /// Makes the store a replica: it refuses writes of its own ([`Error::IsReplica`]), and takes those of another store by
    /// [`Replica::apply`], until [`Replica::promote`]. It stays a replica when it is opened again; call this then to go on.
    ///
    /// A store that is to become a replica was just created, or is a copy of the other store (a restored backup of it) whose
    /// visible version is not above that of the backup. An empty store that was opened again goes on above the limit of
    /// versions, some 65,000, and refuses lower ones ([`Error::VersionTaken`]).
    ///
    /// Durability point: with the first changes that are applied.
    ///
    /// # Errors
    /// [`Error::WouldDeadlock`]; [`Error::Damaged`] if the store takes no more writes.
    pub fn replica(&self) -> Result<Replica, Error> {
        Replica::begin(&self.handle)
    }

    /// Takes back everything after a retained version, in O(1); synced when it returns. Void entries are scrubbed in the
    /// background. Named snapshots after that version are dropped. Transactions that were prepared in that version and not
    /// decided are prepared again; those that were prepared later are dropped, and their ids are returned.
    ///
    /// # Errors
    /// [`Error::NotRetained`]; [`Error::VersionInUse`]: a later version is being read; [`Error::WouldDeadlock`], [`Error::Full`]:
    /// nothing has changed. [`Error::NotDurable`]: it is rolled back, the ids are not returned. Damage: it is at the next open.
    pub fn rollback(&self, version: u64) -> Result<Vec<Vec<u8>>, Error> {
        open::roll_back(&self.handle, version)
    }

    /// As [`Store::rollback`], to the version of a named snapshot, which stays.
    ///
    /// # Errors
    /// [`Error::NoSuchName`], and as of [`Store::rollback`].
    pub fn rollback_to(&self, name: &str) -> Result<Vec<Vec<u8>>, Error> {
        self.rollback(self.named(name)?)
    }

    /// The transactions that are prepared and not decided, by id: those of earlier lives of the process too. Never waits
    /// for a writer.
    pub fn prepared(&self) -> Vec<Prepared> {
        self.handle.shared.held.all()
    }

    /// Commits the transaction that was prepared under `id`, by whichever handle or process; returns the version, in which
    /// its writes become visible. It cannot be in conflict.
    ///
    /// Durability point: as `durability` says, capped by the region's sync policy. All of it is durable or nothing: after a crash
    /// before that point the transaction may be prepared as before.
    ///
    /// # Errors
    /// [`Error::NoSuchPrepared`]; [`Error::Full`], [`Error::WouldDeadlock`]: it is prepared as before.
    /// [`Error::Poisoned`]: whether it is decided the next open says.
    pub fn commit_prepared(&self, id: &[u8], durability: Durability) -> Result<u64, Error> {
        prepared::commit(&self.handle, id, durability)
    }

    /// Drops the transaction that was prepared under `id`. None of its writes is made, and it holds no keys any more.
    ///
    /// Durability point: when it returns.
    ///
    /// # Errors
    /// As of [`Store::commit_prepared`].
    pub fn drop_prepared(&self, id: &[u8]) -> Result<(), Error> {
        prepared::discard(&self.handle, id, Durability::Strict).map(drop)
    }

    /// What holds the horizon back. Space that a held version needs is not given back.
    pub fn horizon(&self) -> Horizon {
        horizon(&self.handle.shared)
    }

    /// Makes the pool grow, if necessary, until so many bytes of it are free. It does not reserve them: others may take them.
    ///
    /// # Errors
    /// [`Error::Full`]: the pool may not grow so far, or the disk is full; [`Error::Poisoned`].
    pub fn spare(&self, bytes: u64) -> Result<(), Error> {
        Ok(self.handle.shared.pool().reserve(bytes, 0).map(drop)?)
    }

    /// The state of the store. Never waits for a writer.
    pub fn report(&self) -> Report {
        report(&self.handle.shared)
    }

    /// How densely the chunks of the store's pool are used. It looks at every chunk. `None`: recovery has still to find out.
    pub fn fragmentation(&self) -> Option<Fragmentation> {
        self.handle.shared.pool().fragmentation()
    }

    /// Waits for recovery, then goes through everything that a retained version reaches, verifies it, and
    /// accounts for every byte of the pool.
    ///
    /// # Errors
    /// The first damage found; [`Error::WouldDeadlock`].
    pub fn check(&self) -> Result<Check, Error> {
        check(&self.handle)
    }

    /// The name of the store in its pool.
    pub fn name(&self) -> &str {
        &self.handle.shared.tenant.name
    }

    /// All tenants of the store's pool, of any kind, including the store.
    ///
    /// # Errors
    /// [`Error::Pool`] if the table of tenants is damaged.
    pub fn tenants(&self) -> Result<Vec<TenantStat>, Error> {
        Ok(self.handle.shared.pool().stat()?)
    }

    /// Whether the store is open to be read only: [`Options::read_only`].
    pub fn is_read_only(&self) -> bool {
        self.handle.shared.region().is_read_only()
    }

    /// Finds out whether another program has removed a file of the pool since it was opened, or cut it short. Asks the system
    /// only. A store in memory has no files.
    ///
    /// # Errors
    /// [`Error::Region`] with [`pmem::Error::Removed`](tembo_pmem::Error::Removed): what is committed goes with this process,
    /// and can be saved until then by a [backup](Store::save); with
    /// [`pmem::Error::Truncated`](tembo_pmem::Error::Truncated): to go on reading ends the process, by SIGBUS.
    pub fn check_files(&self) -> Result<(), Error> {
        Ok(self.handle.shared.region().check_files()?)
    }

    /// The handle, for modules of the crate above this one.
    pub(crate) fn handle(&self) -> &Handle {
        &self.handle
    }

    /// The identity of the store: that of its pool if its name is `main`, else one made of that and the name; zero in memory.
    pub fn identity(&self) -> u128 {
        identity_of(self.handle.shared.region().report().identity, self.name())
    }

    /// Does some background work, at most `steps` small steps, on the calling thread. A store with a background
    /// thread recovers without it.
    ///
    /// # Errors
    /// [`Error::WouldDeadlock`]; damage.
    pub fn maintain(&self, steps: usize) -> Result<Progress, Error> {
        let shared = &self.handle.shared;
        if self.handle.has_background() {
            if shared.status.is_recovering() || shared.published.load().wants_hint() {
                shared.wake.want();
            }
            return Ok(Progress::Idle);
        }
        for _ in 0..steps {
            if maintain::step(&self.handle)? == Progress::Idle {
                return Ok(Progress::Idle);
            }
        }
        Ok(Progress::More)
    }
}

/// The identity of a store of that name in a pool: FNV-1a of 128 bits over both, for other names than `main`.
fn identity_of(pool: u128, name: &str) -> u128 {
    const BASIS: u128 = 0x6c62_272e_07bb_0142_62b8_2175_6295_c58d;
    const PRIME: u128 = 0x0000_0000_0100_0000_0000_0000_0000_013b;
    if pool == 0 || name == open::MAIN {
        return pool;
    }
    let bytes = pool.to_le_bytes().into_iter().chain(name.bytes());
    bytes.fold(BASIS, |hash, byte| (hash ^ u128::from(byte)).wrapping_mul(PRIME))
}
