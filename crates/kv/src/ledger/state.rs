//! What the writer knows.

use std::sync::{Arc, Weak};

use tembo_index::{DeadInterval, DeadIntervals, Retained, Retired, VERSION_MAX};

use super::features::Features;
use super::retire_list::RetireList;
use super::unlisted::Unlisted;
use crate::Error;
use crate::background::Machine;
use crate::media::{DeadTable, GIVEN_VERSION_MAX, Limit, Root};
use crate::shared::Shared;
use crate::tally::Tally;
use crate::trees::Directory;
use crate::version::{WRITE_SLOT_COUNT, Window};

/// Versions that write slots may draw while one of them looks whether there are enough.
pub(crate) const DRAWN_AT_ONCE: u64 = 16 * WRITE_SLOT_COUNT as u64;

/// The life of a marking by another tenant, and what it retains.
pub(super) type ForeignMarking = (Weak<()>, Arc<Retained>);

/// State of the writer, under its lock.
pub(crate) struct Ledger {
    /// The durable limit of versions.
    pub(super) limit: u64,
    /// What is dead: the same as in the forest.
    pub(crate) dead: Arc<DeadIntervals>,
    /// What was aborted since the last commit.
    pub(super) pending_dead: Option<DeadInterval>,
    /// The keyspaces.
    pub(crate) trees: Directory,
    /// Unlinked by what was committed.
    pub(crate) retired: RetireList,
    /// Objects were unlinked beside the write slots, and no version was drawn for that.
    pub(crate) owes_version: bool,
    /// The collection is on loan: see `write/beside.rs`.
    pub(crate) is_on_loan: bool,
    /// Unlinked by changes that are not committed.
    pub(crate) unlinked: Vec<Retired>,
    /// What was retained some time ago, for single changes; and how many may still use it.
    pub(crate) retained: Retained,
    pub(crate) retained_uses: u32,
    /// For what a single change adds up to.
    pub(crate) tally: Tally,
    pub(crate) machine: Machine,
    pub(crate) window: Window,
    pub(super) unlisted: Unlisted,
    /// Another tenant's sweep marks the store.
    pub(super) foreign: Option<ForeignMarking>,
    /// The store follows another: its own writes are refused, and versions are those that it is given.
    pub(crate) is_replica: bool,
    /// The feature bits of the store.
    pub(crate) features: Features,
    /// So far the entries are erased that the tombstone of a version covers.
    pub(crate) erased_to: Option<(u64, Vec<u8>)>,
    /// Something failed half-way: no more writes.
    pub(crate) is_broken: bool,
}

impl Ledger {
    /// Of a store that was opened with these keyspaces and, in earlier lives, named versions.
    pub(crate) fn new(
        limit: u64,
        (dead, pending_dead): (Arc<DeadIntervals>, Option<DeadInterval>),
        trees: Directory,
        named: Vec<u64>,
        window: Window,
    ) -> Ledger {
        Ledger {
            limit,
            dead,
            pending_dead,
            trees,
            retired: RetireList::default(),
            unlinked: Vec::new(),
            retained: Retained::default(),
            retained_uses: 0,
            tally: Tally::default(),
            machine: Machine::new(),
            window,
            unlisted: Unlisted::new(named),
            foreign: None,
            owes_version: false,
            is_on_loan: false,
            is_replica: false,
            features: Features::default(),
            erased_to: None,
            is_broken: false,
        }
    }

    /// # Errors
    /// The store takes no more writes until it is opened again.
    pub(crate) fn sound(&self) -> Result<(), Error> {
        if self.is_broken {
            return Err(Error::Damaged { what: "what an earlier operation left half done" });
        }
        Ok(())
    }

    /// # Errors
    /// As of [`sound`](Ledger::sound); [`Error::IsReplica`].
    pub(crate) fn writable(&self) -> Result<(), Error> {
        if self.is_replica { Err(Error::IsReplica) } else { self.sound() }
    }

    /// Another tenant of the pool has begun a sweep, for which this store is marked.
    pub(crate) fn is_marked_by_another(&self) -> bool {
        self.foreign.is_some()
    }

    /// The durable limit of versions.
    pub(crate) fn limit(&self) -> u64 {
        self.limit
    }

    /// What the table says that is dead, and what is pending.
    pub(super) fn intervals(&self, root: &Root) -> Result<DeadIntervals, Error> {
        let mut dead = DeadTable(root).intervals()?;
        dead.extend(self.pending_dead);
        Ok(DeadIntervals::new(dead))
    }
}

/// The next version, below the durable limit.
pub(crate) fn next_version(shared: &Shared, ledger: &mut Ledger) -> Result<u64, Error> {
    allow_next(shared, ledger)?;
    Ok(shared.versions.clock.draw())
}

/// Sees to it that what the clock draws next lies below the durable limit.
#[inline]
pub(crate) fn allow_next(shared: &Shared, ledger: &mut Ledger) -> Result<(), Error> {
    let version = shared.versions.clock.last() + 1;
    // With what write slots may draw before they look again.
    if version + DRAWN_AT_ONCE <= ledger.limit {
        return Ok(());
    }
    raise_limit(shared, ledger, version)
}

/// Makes a version that was given, above all that were drawn, the last one drawn.
///
/// # Errors
/// [`Error::VersionTooHigh`]; those of the pool.
pub(crate) fn take_version(
    shared: &Shared,
    ledger: &mut Ledger,
    version: u64,
) -> Result<(), Error> {
    if version > GIVEN_VERSION_MAX {
        return Err(Error::VersionTooHigh { version });
    }
    if version > ledger.limit {
        raise_limit(shared, ledger, version)?;
    }
    shared.versions.clock.skip_to(version);
    Ok(())
}

#[cold]
fn raise_limit(shared: &Shared, ledger: &mut Ledger, version: u64) -> Result<(), Error> {
    if version >= VERSION_MAX {
        return Err(Error::Damaged { what: "a version that is left" });
    }
    if ledger.is_replica && version <= ledger.limit {
        return Ok(());
    }
    let _section = shared.region().reserve(2)?;
    let limit = Limit(&shared.root);
    // What lies between the last commit and the limit is void after an open. A replica is given those versions again,
    // and would have to wait for the scrub.
    let raised = if ledger.is_replica { limit.set(version) } else { limit.raise(version) };
    ledger.limit = raised?;
    // After so many versions there may be something to collect, or a hint to write.
    shared.wake.want();
    Ok(())
}
