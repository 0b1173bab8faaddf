//! Two threads with one structure, against two threads with a structure each.
//!
//! Both pairs have the same keys, and so about as much memory under them: what differs is that one
//! pair shares.

use std::sync::Barrier;
use std::thread;

use serde::Serialize;

use crate::clock::{Elapsed, Stopwatch};
use crate::drive::Driven;
use crate::spread::Spread;
use crate::{Error, Kind, Operation, Shared};

/// What two threads do.
pub(crate) const OPERATIONS: [Operation; 3] =
    [Operation::Insert, Operation::Lookup, Operation::Update];

/// One operation by two threads, over all rounds.
#[derive(Clone, Debug, Serialize)]
pub struct Pair {
    /// What.
    pub operation: Operation,
    /// The contender.
    pub contender: Kind,
    /// Millions of operations a second of wall time, of both threads, with one structure.
    pub wall: Spread,
    /// Thread CPU time of two with a structure each, divided by that of two with one: 1 is as fast.
    pub cpu_ratio: Spread,
    /// As `cpu_ratio`, in wall time.
    pub wall_ratio: Spread,
}

/// The same operation by two threads, apart and together.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Trial {
    pub(crate) operations: u64,
    apart: Elapsed,
    together: Elapsed,
}

impl Pair {
    pub(crate) fn of(operation: Operation, contender: Kind, trials: &[Trial]) -> Option<Pair> {
        let ratio = |time: fn(&Elapsed) -> f64| {
            Spread::of(
                trials.iter().map(|trial| time(&trial.apart) / time(&trial.together).max(1e-9)),
            )
        };
        let rate = |trial: &Trial| trial.operations as f64 / wall(&trial.together).max(1e-9) / 1e6;
        Some(Pair {
            operation,
            contender,
            wall: Spread::of(trials.iter().map(rate))?,
            cpu_ratio: ratio(|elapsed| elapsed.cpu.as_secs_f64())?,
            wall_ratio: ratio(wall)?,
        })
    }
}

fn wall(elapsed: &Elapsed) -> f64 {
    elapsed.wall.as_secs_f64()
}

/// The structures of one contender.
pub(crate) struct Structures<'s> {
    pub(crate) kind: Kind,
    /// One for each thread, each for half of the keys.
    pub(crate) apart: [&'s dyn Driven; 2],
    /// One for both.
    pub(crate) together: &'s dyn Driven,
}

impl Structures<'_> {
    /// One trial of both pairs; `None`: the contender has no such operation for two threads.
    pub(crate) fn trial(
        &self,
        operation: Operation,
        plans: &[Vec<u64>; 2],
        together_first: bool,
    ) -> Result<Option<Trial>, Error> {
        let [Some(one), Some(other)] = self.apart.map(Driven::shared) else { return Ok(None) };
        let Some(both) = self.together.shared() else { return Ok(None) };
        if !self.together.offers(operation) || operation.is_write() && !both.takes_writers() {
            return Ok(None);
        }
        let run = |shared| threads(self.kind, shared, operation, plans);
        let (apart, together) = if together_first {
            let together = run([both, both])?;
            (run([one, other])?, together)
        } else {
            (run([one, other])?, run([both, both])?)
        };
        let operations = plans.iter().map(|plan| plan.len() as u64).sum();
        Ok(Some(Trial { operations, apart, together }))
    }
}

/// Two threads that begin together: CPU time of both, wall time of the longer.
pub(crate) fn threads(
    kind: Kind,
    shared: [&dyn Shared; 2],
    operation: Operation,
    plans: &[Vec<u64>; 2],
) -> Result<Elapsed, Error> {
    let barrier = Barrier::new(2);
    let work = |shared: &dyn Shared, plan: &[u64]| {
        barrier.wait();
        let watch = Stopwatch::start();
        let right = act(shared, operation, plan)?;
        let elapsed = watch.elapsed();
        let expected = plan.len() as u64;
        if right != expected && kind != Kind::Wall {
            let (contender, operation) = (kind.name(), operation.name());
            return Err(Error::Wrong { contender, operation, expected, found: right });
        }
        Ok(elapsed)
    };
    let (one, other) = thread::scope(|scope| {
        let other = scope.spawn(|| work(shared[1], &plans[1]));
        let one = work(shared[0], &plans[0]);
        (one, other.join().unwrap_or(Err(Error::Panicked)))
    });
    let (one, other) = (one?, other?);
    Ok(Elapsed { cpu: one.cpu + other.cpu, wall: one.wall.max(other.wall) })
}

/// How many answers were right.
pub(crate) fn act(shared: &dyn Shared, operation: Operation, plan: &[u64]) -> Result<u64, Error> {
    let mut right = 0;
    for &key in plan {
        right += u64::from(match operation {
            Operation::Insert => !shared.put(key, key)?,
            Operation::Update => shared.put(key, !key)?,
            _ => shared.get(key)?.is_some(),
        });
    }
    Ok(right)
}
