//! One workload carried out, crashed at every step, and judged.

use tembo_pmem::Error;
use tembo_sim::{Failure, Fault, SimDisk, Slip};

use super::explorer::{Explorer, Stop};
use super::life::{Life, Op, Setup};
use super::workload::{Start, Trouble, Workload};
use crate::judge::quietly;

/// Steps that find a full disk full: those that may need room.
const FULL: &[&str] = &[
    "log.write",
    "log.write_blocks",
    "pool.checkpoint_write",
    "pool.bypass_write",
    "pool.run_write",
    "log.allocate",
    "log.extend_allocate",
    "log.extend_write",
    "grow.allocate",
];

/// Runs with a failure after which a workload is given up.
const FAULTS_MAX: u64 = 400;

/// What is done before anything is looked at.
const PRELUDE: &[Op] =
    &[Op::Group(9), Op::Sync, Op::Checkpoint, Op::Group(5), Op::Sync, Op::Group(2)];

/// Tries a workload, with the program as wrong as `slip` says.
pub(super) fn try_out(
    explorer: &mut Explorer<'_>,
    workload: &Workload,
    slip: Option<&Slip>,
) -> Result<(), Stop> {
    let setup = Setup {
        policy: workload.policy,
        log_size: workload.log_size,
        log_initial: workload.log_initial,
        mapped: workload.mapped,
        background: false,
        emulated: workload.emulated,
        slip: slip.cloned(),
    };
    explorer.is_deep = workload.is_deep;
    let tried = match workload.trouble {
        Trouble::None | Trouble::NoRoom | Trouble::NoRoomToCopy => {
            let mut trial = Trial { setup, workload, fault: None };
            trial.run(explorer).map(drop)
        }
        _ => try_faults(explorer, workload, &setup),
    };
    tried.map_err(|stop| stop.at(&format!("{workload:?}")))
}

/// One run for each call that may fail.
fn try_faults(explorer: &mut Explorer<'_>, workload: &Workload, setup: &Setup) -> Result<(), Stop> {
    for from in 1..FAULTS_MAX {
        let fault = match workload.trouble {
            Trouble::Once(failure) => Fault { failure, steps: Vec::new(), from, count: 1 },
            Trouble::OnceAt(step) => Fault::once(Failure::Error, step, from),
            Trouble::Dying => Fault::dying(from),
            _ => Fault { failure: Failure::Full, steps: FULL.to_vec(), from, count: u64::MAX },
        };
        let mut trial = Trial { setup: setup.clone(), workload, fault: Some(fault) };
        let hit = trial
            .run(explorer)
            .map_err(|stop| stop.at(&format!("failure {from} of {:?}", workload.trouble)))?;
        if !hit {
            return Ok(());
        }
    }
    Ok(())
}

struct Trial<'w> {
    setup: Setup,
    workload: &'w Workload,
    fault: Option<Fault>,
}

impl Trial<'_> {
    /// Whether the failure came about.
    fn run(&mut self, explorer: &mut Explorer<'_>) -> Result<bool, Stop> {
        let mut life = quietly(|| self.begin()).map_err(Stop::Wrong)?;
        life.disk.record();
        if matches!(self.workload.trouble, Trouble::NoRoom | Trouble::NoRoomToCopy) {
            life.disk.leave_room(Some(0));
            life.disk.copy_on_write(self.copies());
        }
        if let Some(fault) = &self.fault {
            life.disk.fail(fault.clone());
        }
        quietly(|| self.work(&mut life)).map_err(Stop::Wrong)?;
        explorer.steps.extend(life.disk.steps());
        let hits = life.disk.hits();
        let points = life.disk.points();
        life.disk.leave_room(None);
        life.disk.copy_on_write(false);
        life.disk.heal();
        drop(life.region.take());
        let points = match (&self.fault, hits) {
            // What was before the failure is tried without it.
            (Some(_), Some(hit)) => &points[hit..],
            _ => &points[..],
        };
        if self.fault.is_none() || hits.is_some() {
            explorer.crash(&self.setup, &life.past, points)?;
        }
        Ok(hits.is_some())
    }

    fn begin(&self) -> Result<Life, String> {
        let disk = if self.setup.mapped { SimDisk::mapped() } else { SimDisk::default() };
        let mut life = Life::before_creation(&self.setup, disk);
        if self.workload.start == Start::Nothing {
            return Ok(life);
        }
        let fine = |error: Error| format!("beginning: {error}");
        life.create().map_err(fine)?;
        if self.workload.start == Start::Killed {
            for op in PRELUDE {
                life.run(*op)?.map_err(fine)?;
            }
            life.run(Op::Kill)?.map_err(fine)?;
            life.run(Op::Group(3))?.map_err(fine)?;
        } else {
            life.run(Op::Close)?.map_err(fine)?;
        }
        Ok(life)
    }

    fn copies(&self) -> bool {
        self.workload.trouble == Trouble::NoRoomToCopy
    }

    /// Does all of it. What fails must say so, and must go on saying so where that is promised.
    fn work(&self, life: &mut Life) -> Result<(), String> {
        if self.workload.start == Start::Nothing
            && let Err(error) = life.create()
        {
            return self.failed(&error, life, "creating");
        }
        self.check_unfinished(life)?;
        for (index, op) in self.workload.ops.iter().enumerate() {
            if let Err(error) = life.run(*op)? {
                if self.copies() && *op == Op::Sync {
                    return Err(format!("a sync of what was begun ({index}): {error}"));
                }
                self.failed(&error, life, &format!("{op:?} ({index})"))?;
            }
            if self.copies() {
                // Another process takes what was given up.
                life.disk.leave_room(Some(0));
            }
            self.check_unfinished(life)?;
            if life.region.is_none() {
                // A life that could not open is over.
                return Ok(());
            }
        }
        self.recover(life)
    }

    /// A disk without faults has no unfinished file on it, even if it is full.
    fn check_unfinished(&self, life: &Life) -> Result<(), String> {
        match &self.fault {
            Some(fault) if fault.failure == Failure::Error => Ok(()),
            _ => life.check_unfinished(),
        }
    }

    fn failed(&self, error: &Error, life: &Life, what: &str) -> Result<(), String> {
        match (&self.fault, error) {
            (None, Error::DiskFull { .. }) if self.copies() => Ok(()),
            (None, error) => Err(format!("{what}: {error}")),
            (Some(fault), Error::DiskFull { .. }) if fault.failure == Failure::Full => Ok(()),
            (Some(fault), error) if fault.failure == Failure::Full => {
                Err(format!("{what}, on a full disk: {error}"))
            }
            (Some(_), Error::Poisoned { .. }) => is_poisoned(life),
            (Some(_), _) => Ok(()),
        }
    }

    /// A disk that was full has room again, and the region works on.
    fn recover(&self, life: &mut Life) -> Result<(), String> {
        let is_full = |fault: &Fault| fault.failure == Failure::Full;
        if !self.fault.as_ref().is_some_and(is_full) && !self.copies() {
            return Ok(());
        }
        life.disk.leave_room(None);
        life.disk.heal();
        for op in [Op::Group(2), Op::Sync, Op::Checkpoint, Op::Group(9), Op::Sync] {
            life.run(op)?.map_err(|error| format!("with room again, {op:?}: {error}"))?;
        }
        Ok(())
    }
}

/// A poisoned region promises nothing more, for good, and says so.
fn is_poisoned(life: &Life) -> Result<(), String> {
    let Some(region) = &life.region else { return Ok(()) };
    let says = |result: Result<(), Error>| matches!(result, Err(Error::Poisoned { .. }));
    let all = says(region.sync()) && says(region.reserve(1).map(drop)) && region.report().poisoned;
    if all { Ok(()) } else { Err("a poisoned region promises something".to_owned()) }
}
