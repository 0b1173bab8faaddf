//! The background thread, and the steps that it or [`Store::maintain`](crate::Store::maintain) takes.

use std::sync::Arc;
use std::thread::JoinHandle;

use tembo_index::VersionedIndex;
use tembo_pool::{Error as PoolError, GivenBack, Sparing};

use crate::background::{Phase, Wake};
use crate::counts::note_drifted;
use crate::erase::erase_batch;
use crate::ledger::{
    Ledger, begin_marking, collect_batch, collect_private, draw_owed, end_foreign, end_hint,
    end_marking, free_private, mark_all, reclaim, scrub_batch, take_over,
};
use crate::shared::Shared;
use crate::trees::Tree;
use crate::write::{Engine, PAUSE};
use crate::{Error, Progress};

/// The thread that does the background work. It is stopped and joined when this is dropped.
pub(crate) struct Background {
    engine: Arc<Engine>,
    wake: Arc<Wake>,
    /// The number of the thread.
    number: u64,
    handle: Option<JoinHandle<()>>,
}

impl Background {
    /// Starts the thread, if the system has one left.
    pub(crate) fn start(engine: &Arc<Engine>) -> Background {
        let (kept, wake) = (engine.clone(), engine.shared.wake.clone());
        let engine = engine.clone();
        let number = wake.start();
        wake.want();
        let call = wake.clone();
        engine.shared.forest.call_to_prefault(move || call.want());
        let work = move || {
            let wake = &engine.shared.wake;
            while wake.wait(number) {
                // After an error the thread tries again at the next wake.
                while !wake.has_ended(number) && matches!(step(&engine), Ok(Progress::More)) {
                    // A thread that waits for the writer's lock gets it between two steps.
                    std::thread::sleep(PAUSE);
                }
                // If another tenant is busy, it is asked again soon.
                std::thread::sleep(PAUSE);
            }
        };
        let handle = std::thread::Builder::new().name("tembo-background".into()).spawn(work).ok();
        Background { engine: kept, wake, number, handle }
    }
}

impl Drop for Background {
    fn drop(&mut self) {
        if self.engine.shared.region().is_forked() {
            // A forked child of the process does not have the thread, and would wait for it for ever.
            std::mem::forget(self.handle.take());
            return;
        }
        self.wake.stop(self.number);
        if let Some(handle) = self.handle.take() {
            // A panic of the thread has been reported by the thread.
            let _ = handle.join();
        }
    }
}

/// Takes one step: a marking, a batch of scrubbing, erasing or collection, or a hint for the next open. Before that it
/// prefaults memory and gives back private trees.
///
/// # Errors
/// [`Error::WouldDeadlock`]; damage; those of the pool.
pub(crate) fn step(engine: &Engine) -> Result<Progress, Error> {
    let shared = &engine.shared;
    shared.forest.prefault();
    give_back_private(engine)?;
    if engine.collect_beside() {
        return Ok(Progress::More);
    }
    let mut writing = engine.lock()?;
    let (_, ledger) = writing.parts();
    engine.allow_beside();
    draw_owed(shared, ledger)?;
    reclaim(shared, ledger);
    take_over(shared, ledger);
    match ledger.machine.phase() {
        Phase::Marking | Phase::WritingHint => {
            end_foreign(shared, ledger);
            let is_owed = matches!(ledger.machine.phase(), Phase::Owed);
            Ok(if is_owed { Progress::More } else { Progress::Idle })
        }
        Phase::Scrubbing(_) => scrub_batch(shared, ledger).map(|()| Progress::More),
        Phase::Owed => {
            let (mut sweep, marking) = match begin_marking(shared, ledger) {
                // Another tenant of the pool sweeps, and notifies this one when it is done.
                Err(Error::Pool(PoolError::SweepRunning)) => return Ok(Progress::Idle),
                // Another tenant is busy, perhaps by a call of this very thread. The marking is tried again later.
                Err(Error::Pool(PoolError::TenantBusy { .. })) => {
                    shared.wake.want();
                    return Ok(Progress::Idle);
                }
                begun => begun?,
            };
            drop(writing);
            // Pins that are dropped meanwhile are still marked: nothing is given back until the end.
            let found = mark_all(shared, &mut sweep, &marking);
            end_marking(shared, &mut *engine.lock()?, (&marking, sweep), found)?;
            Ok(Progress::More)
        }
        Phase::Done if shared.region().is_read_only() => Ok(Progress::Idle),
        Phase::Done | Phase::Collecting(_) => match erase_or_collect(shared, ledger)? {
            Progress::More => Ok(Progress::More),
            Progress::Idle => {
                shared.status.note_collected(shared.versions.pins.visible());
                let wanting = ledger.trees.iter().find(|tree| tree.wants_hint()).map(Tree::index);
                let Some(index) = wanting.cloned() else {
                    drop(writing);
                    return give_blocks_back(shared);
                };
                // The objects of the hint are not reachable yet, so no marking may begin.
                ledger.machine.begin_hint();
                drop(writing);
                write_hint(engine, shared, &*index)
            }
        },
    }
}

/// Gives back the space of private trees whose transactions have ended. A writer that needs the space does so meanwhile.
///
/// # Errors
/// [`Error::WouldDeadlock`].
pub(crate) fn give_back_private(engine: &Engine) -> Result<(), Error> {
    if !engine.shared.private.has_given_up() {
        return Ok(());
    }
    if engine.is_own() {
        // What is collected is not to wait for long.
        return Err(Error::WouldDeadlock);
    }
    collect_private(&engine.shared);
    let mut writing = engine.lock()?;
    let (shared, ledger) = writing.parts();
    free_private(shared, ledger);
    Ok(())
}

/// Gives blocks of free space back to the file system, if there is much of it.
fn give_blocks_back(shared: &Shared) -> Result<Progress, Error> {
    let give = || shared.pool().give_blocks_back(Sparing::Surplus);
    let mut given = give()?;
    if given == GivenBack::NotYet {
        shared.region().checkpoint()?;
        given = give()?;
    }
    // If nothing was given back this time, the thread looks again when there is other work.
    let is_more = matches!(given, GivenBack::Bytes(_) | GivenBack::Looked);
    Ok(if is_more { Progress::More } else { Progress::Idle })
}

fn erase_or_collect(shared: &Shared, ledger: &mut Ledger) -> Result<Progress, Error> {
    if erase_batch(shared, ledger)? == Progress::More
        || collect_batch(shared, ledger)? == Progress::More
    {
        return Ok(Progress::More);
    }
    note_drifted(shared, ledger)
}

/// Writes a hint, which makes the next open quick, while the writer goes on.
fn write_hint(
    engine: &Engine,
    shared: &Shared,
    index: &dyn VersionedIndex,
) -> Result<Progress, Error> {
    let mut retired = Vec::new();
    let written = index.write_hint(shared.versions.clock.last(), &mut retired);
    end_hint(&mut *engine.lock()?, &mut retired);
    match written.map_err(Error::from) {
        Ok(()) => Ok(Progress::More),
        // The next open has no hint.
        Err(Error::Full(_)) => Ok(Progress::Idle),
        Err(error) => Err(error),
    }
}
