//! Opening is recovery: constant work, whatever the size. What was in flight becomes a dead
//! interval, versions go on above the durable limit, and a survey in the background finds out what
//! is free, how many keys there are, and which nodes carry dead stamps.

use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Condvar, Mutex, RwLock};
use std::thread::JoinHandle;
use std::time::Duration;

use tembo_index::{Clock, DeadInterval, DeadIntervals, Forest, Index, IndexKind, Stamp, View};
use tembo_pmem::{Domain, Region};
use tembo_pool::{Error as PoolError, Pool, TenantEntry};

use crate::catalogue::{Catalogue, open_tree};
use crate::committer::CommitQueue;
use crate::format::ROOT_SIZE;
use crate::inner::{Current, Inner, Known};
use crate::lanes::Lanes;
use crate::ledger::{LANE, Ledger};
use crate::pins::Pins;
use crate::tenant::NEW_TENANT;
use crate::window::Window;
use crate::writer::{Tree, WriterState};
use crate::{Error, Progress};

/// Between two steps of the background.
pub(crate) const PAUSE: Duration = Duration::from_micros(50);

pub(crate) fn open(
    pool: &Arc<Pool>,
    entry: &TenantEntry,
    transaction_memory: usize,
) -> Result<Inner, Error> {
    let size_max = pool.region().report().size_max;
    let forest = Arc::new(Forest::new(pool.clone(), size_max.max(pool.region().size()))?);
    let ledger = Ledger::open(pool, entry.root)?;
    let region = pool.region();
    let section = region.reserve(64)?;
    let pending_dead = note_in_flight(ledger, region)?;
    let before = ledger.version_limit(region)?;
    let limit = ledger.raise_limit(region, before + 1)?;
    drop(section);
    let dead = ledger.dead(region)?.into_iter().chain(pending_dead).collect();
    let dead = Arc::new(DeadIntervals::new(dead));
    forest.set_dead(dead.clone());
    // Until the pins are known everything counts as needed.
    let catalogue = Catalogue::new(Index::open(forest.clone(), ledger.catalogue(region)?, 1)?);
    let view = View { version: before, dead: &dead };
    let (void, named): (Vec<_>, Vec<_>) = ledger
        .snapshots(region)?
        .into_iter()
        .partition(|&(_, version)| dead.contains(Stamp::single(version, LANE)));
    // An interrupted rollback has not come to these.
    for (name, _) in void {
        let _section = region.reserve(1)?;
        ledger.forget_snapshot(region, &name)?;
    }
    let pins = Pins::new(before);
    named.iter().for_each(|(_, version)| pins.pin(*version));
    let (window, retention) = ledger.window(region)?;
    remember(&pins, window, ledger.void(region)?, &dead);
    let window = Window::found(window, retention, before);
    forest.set_retained(pins.retained());
    let trees = trees(&forest, &catalogue, view)?;
    region.sync()?;
    let is_logged = region.domain() == Domain::Logged;
    let named = named.into_iter().collect();
    let state = WriterState { pending_dead, window, ..WriterState::new(limit, dead, trees, named) };
    let current = state.trees.iter().map(Known::of).collect();
    Ok(Inner {
        tenant: entry.clone(),
        lanes: Lanes::new(),
        gate: RwLock::new(()),
        current: RwLock::new(Current { told: 1, since: before, trees: current }),
        told: AtomicU64::new(1),
        wake: Arc::default(),
        forest,
        ledger,
        catalogue,
        pins,
        clock: Clock::new(before),
        durable: AtomicU64::new(before),
        is_logged,
        writer: Mutex::new(state),
        given_back: Condvar::new(),
        queue: CommitQueue::default(),
        transaction_memory,
    })
}

/// What is known of the past: since when it is kept, and what of it was rolled back.
fn remember(pins: &Pins, window: Option<u64>, void: Option<(u64, u64)>, dead: &DeadIntervals) {
    // Of those that no scrub has come to only the table tells.
    let unscrubbed = dead.intervals().iter().filter(|dead| dead.lane.is_none());
    let void = void.into_iter().chain(unscrubbed.map(|dead| (dead.from, dead.to)));
    pins.with_past(|past, _| {
        past.set_window(window);
        void.for_each(|(from, to)| past.rolled_back(from, to));
    });
}

/// Makes durably dead what was in flight; returns what there was no place for.
fn note_in_flight(ledger: Ledger, region: &Region) -> Result<Option<DeadInterval>, Error> {
    let mut pending = None;
    for dead in ledger.in_flight(region)? {
        if !ledger.note_dead(region, dead)? {
            // After many crashes in a row the table may be full. Then the first commit notes it, when
            // the scrub has made room; until then it is in flight as before.
            pending = Some(dead);
        }
    }
    Ok(pending)
}

/// Makes an empty store in a pool that has none; its root is published in one step.
pub(crate) fn format(pool: &Pool, kind: IndexKind) -> Result<(), Error> {
    let _section = pool.reserve(64 << 10, 256)?;
    pool.add_tenant(&NEW_TENANT, ROOT_SIZE, |region, root| {
        let cell = Index::format(pool, kind, Ledger::grouped(1))?;
        Ledger::format(region, root, cell)
    })?;
    Ok(())
}

/// The store of a pool.
///
/// # Errors
/// [`Error::Damaged`]: there is none.
pub(crate) fn find(pool: &Pool) -> Result<TenantEntry, Error> {
    match pool.tenant(NEW_TENANT.name) {
        Ok(entry) if entry.kind == NEW_TENANT.kind => Ok(entry),
        Ok(_) | Err(PoolError::NoSuchTenant { .. }) => {
            Err(Error::Damaged { what: "a store's root" })
        }
        Err(error) => Err(error.into()),
    }
}

/// The keyspaces of a view, by number.
pub(crate) fn trees(
    forest: &Arc<Forest>,
    catalogue: &Catalogue,
    view: View<'_>,
) -> Result<Vec<Tree>, Error> {
    let mut entries = catalogue.keyspaces(view)?;
    entries.sort_by_key(|(_, entry)| entry.id.get());
    let sound = entries.iter().enumerate().all(|(id, (_, entry))| entry.id.get() == id as u64);
    if !sound {
        return Err(Error::Damaged { what: "keyspaces numbered in a row" });
    }
    let open = |(name, entry)| {
        let index = Arc::new(open_tree(forest, &entry)?);
        Ok(Tree {
            name,
            index,
            entry,
            surveyed: None,
            delta: 0,
            removed: 0,
            kept_until: None,
            incarnation: 0,
        })
    };
    entries.into_iter().map(open).collect()
}

/// A thread that recovers whenever there is something to do.
pub(crate) fn spawn_recovery(inner: &Arc<Inner>) -> Option<JoinHandle<()>> {
    let (inner, wake) = (inner.clone(), inner.wake.clone());
    wake.want();
    inner.forest.call_to_prepare(move || wake.want());
    let work = move || {
        while inner.wake.wait() {
            // After an error it is tried again when somebody asks.
            while !inner.wake.is_stopped() && matches!(inner.recovery_step(), Ok(Progress::More)) {
                // Whoever waits for the writer's lock gets it between two steps.
                std::thread::sleep(PAUSE);
            }
        }
    };
    std::thread::Builder::new().name("tembo-recovery".into()).spawn(work).ok()
}
