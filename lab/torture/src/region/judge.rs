//! What must be true of a disk after a crash.

use std::io::ErrorKind;
use std::path::Path;

use tembo_pmem::{Domain, DomainRequest, Error, Region, RegionOptions};
use tembo_sim::{Chooser, Point, Random, Rest, SimDisk};

use super::life::{Life, Lossy, Op, POOL, Past, Promise, Setup, options};
use super::model::Model;

/// Operations that a recovered region must go on with.
const GO_ON: u64 = 50;

/// How a process ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Crash {
    /// It died; the system lives.
    Kill,
    /// The power was lost.
    Power,
}

/// A region that was opened after a crash, and is right so far.
pub(super) struct Found {
    region: Option<Region>,
    model: Model,
    /// Which state was found.
    pub(super) state: usize,
    /// The disk at each step of the opening, and behind it.
    pub(super) points: Vec<Point>,
}

impl Found {
    /// Whether there is no pool.
    pub(super) fn is_absent(&self) -> bool {
        self.region.is_none()
    }
}

/// Opens what a crash has left, and looks at all of it.
pub(super) fn look(
    setup: &Setup,
    disk: &SimDisk,
    past: &Past,
    promise: Promise,
    crash: Crash,
) -> Result<Found, String> {
    disk.slip(setup.slip.clone());
    disk.leave_room(None);
    disk.record();
    let region = match open(setup, disk, DomainRequest::Auto) {
        Err(error) if is_absent(&error) && !promise.exists => {
            return Ok(Found {
                region: None,
                model: Model::default(),
                state: 0,
                points: Vec::new(),
            });
        }
        Err(Error::EmulationLost { .. }) if promise.lossy != Lossy::No && crash == Crash::Power => {
            return look_at_emulation(setup, disk, past, promise);
        }
        other => other.map_err(|error| format!("opening: {error}"))?,
    };
    let points = disk.points();
    if promise.lossy == Lossy::Yes && crash == Crash::Power {
        return Err("an emulation that lost the power is opened".to_owned());
    }
    if promise.logged.is_some_and(|logged| logged != (region.domain() == Domain::Logged)) {
        return Err(format!("opened in the domain {:?}", region.domain()));
    }
    let least = if crash == Crash::Kill { promise.kill } else { promise.power };
    let (model, state) = find(&region, past, least, promise.size)?;
    Ok(Found { region: Some(region), model, state, points })
}

fn open(setup: &Setup, disk: &SimDisk, domain: DomainRequest) -> Result<Region, Error> {
    Region::open(Path::new(POOL), &RegionOptions { domain, ..options(setup, disk) })
}

fn is_absent(error: &Error) -> bool {
    matches!(error, Error::Io { source, .. } if source.kind() == ErrorKind::NotFound)
}

/// Which state a region holds.
fn find(region: &Region, past: &Past, least: usize, size: u64) -> Result<(Model, usize), String> {
    if region.size() < size {
        return Err(format!("the region has {} bytes of {size}", region.size()));
    }
    let model = Model::read(region)?;
    let state = past.states.iter().rposition(|digest| *digest == model.digest());
    match state {
        Some(state) if state >= least => Ok((model, state)),
        Some(state) => Err(format!("state {state} is found, {least} was promised")),
        None => Err(format!("no state is found; {least} or a later one was promised")),
    }
}

/// What was durable before an emulation, and not changed by it, is there when it is asked for.
fn look_at_emulation(
    setup: &Setup,
    disk: &SimDisk,
    past: &Past,
    promise: Promise,
) -> Result<Found, String> {
    let opened = open(setup, disk, DomainRequest::Flush);
    let region = opened.map_err(|error| format!("opening an emulation: {error}"))?;
    if promise.kill == promise.power {
        find(&region, past, promise.power, promise.size)?;
    }
    // What comes of it has no promise to keep.
    Ok(Found { region: None, model: Model::default(), state: promise.power, points: Vec::new() })
}

/// The region works on, and once more keeps what it promises.
pub(super) fn go_on(setup: &Setup, disk: SimDisk, found: Found, seed: u64) -> Result<(), String> {
    let mut life = match found.region {
        Some(region) => Life::with(setup, disk, region, found.model),
        None if disk.content(Path::new(POOL)).is_none() => {
            let mut life = Life::before_creation(setup, disk);
            life.create().map_err(|error| format!("creating again: {error}"))?;
            life
        }
        None => return Ok(()),
    };
    let mut random = Random::new(seed);
    for step in 0..GO_ON {
        let op = match random.below(16) {
            0 => Op::Sync,
            1 => Op::Checkpoint,
            2 if step > 25 => Op::Grow,
            more => Op::Group(1 + more as u64 % 5),
        };
        let done = life.run(op)?;
        done.map_err(|error| format!("going on, step {step}, {op:?}: {error}"))?;
    }
    let end = |error: Error| format!("going on, at the end: {error}");
    life.sync().map_err(end)?;
    life.run(Op::Checkpoint)?.map_err(end)?;
    let lose_power = |life: &Life| {
        let after = life.disk.snapshot().after_power_loss(Chooser::new(Rest::Old));
        look(setup, &after, &life.past, life.promised(), Crash::Power)
            .map_err(|what| format!("having gone on: {what}"))
    };
    if life.promised().lossy == Lossy::No {
        lose_power(&life)?;
    }
    life.run(Op::Group(3))?.map_err(end)?;
    life.finish().map_err(end)?;
    lose_power(&life).map(drop)
}
