//! Replicas: changes of another store, made at the versions that they have there.
//!
//! # Why the versions can be the same
//! A version is never used twice, so an open goes on above the durable limit of versions: below it, single changes may
//! have been in flight, and it is not known which of them are on media. In a replica every change is grouped: what was in flight when it stopped
//! is void, and nothing but grouped entries carries such versions. So it goes on above its last commit. The version that
//! was in flight is made again, after the scrub has erased what it left: until then it is dead. The limit is raised to
//! each version that is made, no further, so that after a stop between two versions nothing is void, and nothing has
//! to be scrubbed.
//!
//! ```text
//!   primary   17   18      20   21        changes(applied)
//!              │    │       │    │
//!   replica   17   18  19  20   ✗ crash   versions between: nothing happens, or leaves are collected
//!                                21       after the scrub
//! ```
//! A background collection draws a version now and then. In a replica it is done only between two versions that are
//! given. These, and the one before a version that is far above, are committed before the next one is made: an open goes on above
//! all that readers have seen.

use std::borrow::Borrow;

use tembo_index::{Op, Place};

use crate::commit::Uncommitted;
use crate::keyspace::{check_name, check_sizes};
use crate::ledger::{Ledger, collect_below, publish, publish_empty, recover_now, take_version};
use crate::media::{CommitWord, grouped};
use crate::open::roll_back;
use crate::opened::Handle;
use crate::shared::Shared;
use crate::write::{Engine, Locked, PAUSE};
use crate::{Change, Durability, Error, Event, Keyspace};

/// An index reaches versions that lie so far above the visible one, and up to 67 million.
const REACH: u64 = 1 << 20;

/// Attempts to erase what a version that was not committed has left.
const ATTEMPTS: usize = 4;

/// A store that follows another. See [`Store::replica`](crate::Store::replica).
///
/// ```
/// use tembo_kv::{Durability, Options, Retention, Store};
/// # fn main() -> Result<(), tembo_kv::Error> {
/// let (primary, store) = (Store::volatile(&Options::default())?, Store::volatile(&Options::default())?);
/// let mut changes = primary.changes(primary.visible())?;
/// let space = primary.keyspace("colours")?;
/// primary.put(space, b"sky", b"blue", Durability::Strict)?;
///
/// let replica = store.replica()?;
/// let mut version = Vec::new();
/// while let Some(change) = changes.next()? {
///     // The changes of one version come together, and are made together.
///     if version.last().is_some_and(|last: &tembo_kv::Change| last.version < change.version) {
///         replica.apply(version[0].version, &version, Durability::Buffered)?;
///         version.clear();
///     }
///     version.push(change);
/// }
/// replica.apply(version[0].version, &version, Durability::Strict)?;
/// assert_eq!(store.get(store.keyspace("colours")?, b"sky")?, Some(b"blue".to_vec()));
/// assert_eq!(replica.applied(), primary.visible());
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Replica {
    handle: Handle,
}

impl Replica {
    /// # Errors
    /// [`Error::ReadOnly`]; [`Error::WouldDeadlock`]; [`Error::Damaged`].
    pub(crate) fn begin(handle: &Handle) -> Result<Replica, Error> {
        handle.shared.check_writable()?;
        let mut writing = handle.lock()?;
        writing.sound()?;
        writing.is_replica = true;
        drop(writing);
        Ok(Replica { handle: handle.clone() })
    }

    /// The last version that was made: the other store's [`changes`](crate::Store::changes) after it are to be applied next,
    /// after a restart too. After a rollback it is above all that was made, and below what the other store does next.
    pub fn applied(&self) -> u64 {
        self.handle.shared.versions.pins.visible()
    }

    /// As [`Store::apply_changes`](crate::Store::apply_changes).
    ///
    /// # Errors
    /// As of [`Store::apply_changes`](crate::Store::apply_changes).
    pub fn apply<C: Borrow<Change>>(
        &self,
        version: u64,
        changes: impl IntoIterator<Item = C>,
        durability: Durability,
    ) -> Result<(), Error> {
        apply(&self.handle, version, changes, durability)
    }

    /// Rolls this store back, because the other one was rolled back ([`Error::RolledBack`] says to which version).
    ///
    /// A primary that was opened again knows of its earlier rollbacks only within which versions they were: then it can
    /// name an earlier version than it went back to, and what it gives out from there is refused
    /// ([`Error::VersionTaken`]). Begin the replica anew.
    ///
    /// # Errors
    /// As of [`Store::rollback`](crate::Store::rollback): the version has to be retained here too.
    pub fn rollback(&self, version: u64) -> Result<(), Error> {
        roll_back(&self.handle, version).map(drop)
    }

    /// Promotes the store: it is a replica no longer, and takes writes of its own. Durable when it returns.
    ///
    /// # Errors
    /// Those of a commit: it is a replica as before.
    pub fn promote(self) -> Result<(), Error> {
        let mut writing = self.handle.lock_to_write()?;
        writing.sound()?;
        let (shared, ledger) = writing.parts();
        // As after an open, versions go on above the limit: below it, some may be dead until the scrub.
        shared.versions.clock.skip_to(ledger.limit());
        ledger.is_replica = false;
        let mut changes = Uncommitted::begin(shared);
        let promoted = changes.set_replica(shared, ledger, false);
        if let Err(error) = promoted.and_then(|()| commit(shared, ledger, &mut changes)) {
            changes.abort(shared, ledger);
            ledger.is_replica = true;
            return Err(error);
        }
        drop(writing);
        let shared = &self.handle.shared;
        shared.versions.sync(shared.region())
    }
}

/// Makes changes at a version.
///
/// # Errors
/// [`Error::VersionTaken`], [`Error::VersionTooHigh`], [`Error::Diverged`], [`Error::WouldDeadlock`]; those of a change and of a
/// commit.
pub(crate) fn apply<C: Borrow<Change>>(
    engine: &Engine,
    version: u64,
    changes: impl IntoIterator<Item = C>,
    durability: Durability,
) -> Result<(), Error> {
    let mut writing = lock_at(engine, version)?;
    let (shared, ledger) = writing.parts();
    take_version(shared, ledger, version)?;
    commit_before(shared, ledger, version)?;
    let mut made = Uncommitted::begin_at(shared, version);
    let done = apply_each(shared, ledger, (&mut made, version), changes)
        .and_then(|()| commit(shared, ledger, &mut made));
    if let Err(error) = done {
        made.abort(shared, ledger);
        return Err(error);
    }
    drop(writing);
    engine.shared.make_version_durable(durability, version)
}

/// Commits the version that is visible while that one is made. What leaves count from then is a version that has been, also if a
/// crash comes before the commit. In it nothing happens: it is the visible one or, where that is out of reach, the one before.
fn commit_before(shared: &Shared, ledger: &mut Ledger, version: u64) -> Result<(), Error> {
    let visible = shared.versions.pins.visible();
    let before = if version - visible > REACH { version - 1 } else { visible };
    // A collection may have made versions visible that are not committed. A store that is no replica opens above all of them.
    let is_open_below = ledger.is_replica && CommitWord(&shared.root).load()? < before;
    if before > visible || is_open_below {
        publish_empty(shared, ledger, before)?;
    }
    Ok(())
}

/// Takes the writer's lock, for a version above the visible one, once an uncommitted attempt at it has left nothing.
fn lock_at(engine: &Engine, version: u64) -> Result<Locked<'_>, Error> {
    let mut writing = engine.lock_to_write()?;
    for _ in 0..ATTEMPTS {
        // A marking goes on without the lock.
        while writing.machine.is_unlocked() && writing.dead.contains(grouped(version)) {
            let is_foreign = writing.is_marked_by_another();
            drop(writing);
            if is_foreign {
                // The sweep of another tenant may go on only when this thread comes back to it.
                engine.shared.settle_others()?;
            }
            std::thread::sleep(PAUSE);
            writing = engine.lock_to_write()?;
        }
        let (shared, ledger) = writing.parts();
        ledger.sound()?;
        let visible = shared.versions.pins.visible();
        if version <= visible {
            return Err(Error::VersionTaken { version, visible });
        }
        if !ledger.dead.contains(grouped(version)) {
            if ledger.is_replica {
                collect_below(shared, ledger, version)?;
            }
            return Ok(writing);
        }
        recover_now(shared, ledger)?;
    }
    Err(Error::TooManyAborts)
}

fn commit(shared: &Shared, ledger: &mut Ledger, changes: &mut Uncommitted) -> Result<(), Error> {
    let Some(version) = changes.last() else { return Ok(()) };
    publish(shared, ledger, version, std::slice::from_mut(changes))
}

fn apply_each<C: Borrow<Change>>(
    shared: &Shared,
    ledger: &mut Ledger,
    (made, version): (&mut Uncommitted, u64),
    changes: impl IntoIterator<Item = C>,
) -> Result<(), Error> {
    if ledger.is_replica && !shared.catalogue.is_replica(made.view(shared))? {
        made.set_replica(shared, ledger, true)?;
    }
    for change in changes {
        let Change { keyspace: name, event, .. } = change.borrow();
        let known = ledger.trees.by_name(name);
        let diverged = || Error::Diverged { keyspace: name.to_string(), version };
        match (event, known) {
            (Event::Created, None) => {
                check_name(name)?;
                made.create(shared, ledger, name)?;
            }
            (Event::Cleared, Some(known)) => made.clear(shared, ledger, known)?,
            (Event::Put { key, value }, Some(known)) => {
                check_sizes(key, &[value])?;
                apply_one(shared, ledger, made, known, Op::Put { key, value: &[value] })?;
            }
            (Event::Removed { key }, Some(known)) => {
                check_sizes(key, &[])?;
                apply_one(shared, ledger, made, known, Op::Remove { key })?;
            }
            (Event::Created, Some(_)) | (_, None) => return Err(diverged()),
        }
    }
    Ok(())
}

fn apply_one(
    shared: &Shared,
    ledger: &mut Ledger,
    made: &mut Uncommitted,
    keyspace: Keyspace,
    op: Op<'_>,
) -> Result<(), Error> {
    made.apply(shared, ledger, (keyspace, Place::default()), op).map(drop)
}
