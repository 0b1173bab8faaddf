//! What is done behind the caller's back, and what a new log costs: promises that no single crash
//! shows.

use std::path::Path;
use std::time::{Duration, Instant};

use tembo_pmem::{Error, SyncPolicy};
use tembo_sim::{Chooser, Point, Rest, SimDisk, Slip};

use super::judge::{Crash, look};
use super::life::{LOG, Life, Op, Promise, Setup};

/// How long a thread may take for what it does within milliseconds: many times what it takes on a machine
/// that is busy with something else.
const PATIENCE: Duration = Duration::from_secs(120);
/// The same where a step is missed on purpose, and it may never come: a failure is expected then.
const PATIENCE_MISSED: Duration = Duration::from_secs(3);
/// Bytes of the log's ring.
const RING: u64 = 64 << 10;
/// Sectors of its file.
const SECTORS: usize = (HEADER + RING as usize) / 512;
/// Bytes of the file before the ring.
const HEADER: usize = 4096;

/// Looks at each of them, on a disk that is as wrong as `slip` says.
pub(super) fn look_behind(slip: Option<&Slip>) -> Result<(), String> {
    let setup = |policy, background| Setup {
        policy,
        log_size: RING,
        log_initial: RING,
        mapped: false,
        background,
        emulated: false,
        slip: slip.cloned(),
    };
    has_a_whole_log(&setup(SyncPolicy::Always, false))?;
    has_a_whole_log(&setup(SyncPolicy::Always, true))?;
    extends_to_a_whole_log(&setup(SyncPolicy::Always, false))?;
    extends_to_a_whole_log(&setup(SyncPolicy::Always, true))?;
    syncs_at_intervals(&setup(SyncPolicy::Interval(Duration::from_millis(1)), true))?;
    syncs_many_extents(&setup(SyncPolicy::Os, true))
}

fn created(setup: &Setup) -> Result<Life, String> {
    let disk = SimDisk::default();
    disk.record();
    let mut life = Life::before_creation(setup, disk);
    life.create().map_err(|error: Error| format!("creating: {error}"))?;
    Ok(life)
}

/// Waits until something is so.
fn wait_for(what: &str, setup: &Setup, is_so: impl Fn() -> bool) -> Result<(), String> {
    let patience = if setup.slip.is_none() { PATIENCE } else { PATIENCE_MISSED };
    let began = Instant::now();
    while !is_so() {
        if began.elapsed() > patience {
            return Err(format!("{what} did not come"));
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    Ok(())
}

/// A log has its room when the pool's header begins to name it: a full disk is met then or never.
/// And its blocks are written, sooner or later, so that an `fdatasync` has nothing else to do.
fn has_a_whole_log(setup: &Setup) -> Result<(), String> {
    let life = created(setup)?;
    let points = life.disk.points();
    let named = points.iter().find(|point| point.step == "open.generation_write");
    has_room(named.ok_or("the pool's header never names the log")?, SECTORS)?;
    is_written(setup, &life)
}

fn has_room(point: &Point, sectors: usize) -> Result<(), String> {
    let taken = point.snapshot.after_kill().room_taken(Path::new(LOG));
    match taken < sectors {
        true => Err(format!("the log has room for {taken} sectors of {sectors}")),
        false => Ok(()),
    }
}

/// The same of a log that was extended, by more than the ballast behind it had.
fn extends_to_a_whole_log(setup: &Setup) -> Result<(), String> {
    let mut life = created(&Setup { log_size: 4 * RING, ..setup.clone() })?;
    let capacity =
        |life: &Life| life.region.as_ref().map_or(0, |region| region.report().log_capacity);
    let before = capacity(&life);
    // More lines than a ring of twice the size grants.
    life.run(Op::Section(300))?.map_err(|error| error.to_string())?;
    let after = capacity(&life);
    if before != RING || after <= 2 * RING {
        return Err(format!("the ring has {after} bytes, after {before}"));
    }
    let points = life.disk.points();
    let named = points.iter().find(|point| point.step == "log.extend_write");
    has_room(
        named.ok_or("the log's header never has the new size")?,
        (HEADER + after as usize) / 512,
    )?;
    is_written(setup, &life)
}

/// All blocks of the log are written, or will be.
fn is_written(setup: &Setup, life: &Life) -> Result<(), String> {
    let ring = life.region.as_ref().map_or(0, |region| region.report().log_capacity);
    let unwritten = || life.disk.unwritten(Path::new(LOG), HEADER..HEADER + ring as usize);
    if setup.background {
        wait_for("zeroes in the log", setup, || unwritten() == 0)
    } else if unwritten() > 0 {
        Err(format!("{} sectors of the log were never written", unwritten()))
    } else {
        Ok(())
    }
}

/// What was fenced is durable after an interval.
fn syncs_at_intervals(setup: &Setup) -> Result<(), String> {
    syncs_behind(setup, "the sync of an interval", &[Op::Group(3)], 0)
}

/// Many bytes of records that stand beside the log are durable after a while, without a policy that says so.
fn syncs_many_extents(setup: &Setup) -> Result<(), String> {
    // The extents come with the last group but one.
    syncs_behind(setup, "the sync of many extents", &[Op::Group(3), Op::Objects], 1)
}

/// What `ops` have fenced is durable after a while, but for the last `late` groups.
fn syncs_behind(setup: &Setup, what: &str, ops: &[Op], late: usize) -> Result<(), String> {
    let mut life = created(setup)?;
    for op in ops {
        life.run(*op)?.map_err(|error| error.to_string())?;
    }
    let syncs = || life.region.as_ref().map_or(0, |region| region.report().log_syncs);
    wait_for(what, setup, || syncs() > 0)?;
    let state = life.past.states.len() - 1 - late;
    let promise = Promise { power: state, ..life.promised() };
    let disk = life.disk.snapshot().after_power_loss(Chooser::new(Rest::Old));
    let setup = Setup { background: false, ..setup.clone() };
    look(&setup, &disk, &life.past, promise, Crash::Power)
        .map_err(|found| format!("after {what}: {found}"))?;
    Ok(())
}
