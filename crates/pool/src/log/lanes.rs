//! Which lanes are free, and how a lane's state goes on.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, OnceLock, TryLockError};

use tembo_pmem::Region;
use tembo_pmem::thread::lock;

use super::entry::Found;
use super::shape::{Shape, State, WORDS_BESIDE, advance, content_words};
use crate::format::{LOW_LOG, Superblock, seal_low};
use crate::geometry::Layout;
use crate::space::Space;
use crate::{Error, Object};

/// The log of a pool, once there is one.
#[derive(Default)]
pub(crate) struct Log {
    made: OnceLock<Made>,
    /// Held while the log is made: its object is not reachable then.
    making: Mutex<()>,
}

/// A log that is there.
pub(super) struct Made {
    pub(super) shape: Shape,
    /// Lanes that no operation has, each with its number, and whether this process has used it.
    free: Mutex<Vec<Lane>>,
    /// Lanes whose words are where they belong, and whose entries are true still.
    applied: Mutex<Vec<Lane>>,
    /// How many operations have committed words: of two that change one word the later has the higher number.
    sequence: AtomicU64,
    /// Lanes with intents that no handle has.
    pub(super) unfinished: Mutex<Vec<usize>>,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Lane {
    pub(super) index: usize,
    pub(super) number: u64,
    pub(super) is_fresh: bool,
}

impl Log {
    /// The log that a superblock names, recovered.
    pub(crate) fn open(space: &Space, object: Object) -> Result<Log, Error> {
        let log = Log::default();
        if object.is_none() {
            return Ok(log);
        }
        space.valid(object)?;
        let shape = Shape::read(&space.region, object)?;
        let unfinished = super::recover::recover(&space.region, &shape)?;
        log.set(&space.region, shape, unfinished)?;
        Ok(log)
    }

    fn set(&self, region: &Region, shape: Shape, unfinished: Vec<usize>) -> Result<(), Error> {
        let mut free = Vec::new();
        for index in (0..shape.lanes).rev().filter(|index| !unfinished.contains(index)) {
            let number = shape.state(region, index)?.number;
            free.push(Lane { index, number, is_fresh: false });
        }
        let (free, unfinished) = (Mutex::new(free), Mutex::new(unfinished));
        let (applied, sequence) = Default::default();
        let made = Made { shape, free, applied, sequence, unfinished };
        // Made once, under the lock.
        let _ = self.made.set(made);
        Ok(())
    }

    /// The log's object; none, if it was never used.
    pub(crate) fn object(&self) -> Object {
        self.made.get().map_or(Object::NONE, |made| made.shape.object)
    }

    /// Held while a sweep begins: no log is being made then. `None`: one is.
    pub(crate) fn try_still(&self) -> Option<MutexGuard<'_, ()>> {
        match self.making.try_lock() {
            Ok(guard) => Some(guard),
            Err(TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        }
    }

    /// No lane that is free holds entries of a number that it never had: they would be true once it has the number.
    ///
    /// # Errors
    /// [`Error::Damaged`]: one does.
    pub(crate) fn check(&self, region: &Region) -> Result<(), Error> {
        let Some(made) = self.made() else { return Ok(()) };
        for lane in lock(&made.free).iter() {
            let number = made.shape.state(region, lane.index)?.number + 1;
            let next = State { number, is_committed: false };
            if !Found::read(region, &made.shape, lane.index, next)?.is_empty {
                return Err(Error::Damaged { field: "entries of a lane of the log", word: number });
            }
        }
        Ok(())
    }

    /// How many words a lane holds, behind what an entry says of so many contents.
    pub(crate) fn room(&self, layout: Layout, contents: usize) -> usize {
        let of_new = || {
            let (size, lanes) = Shape::for_layout(layout);
            Shape::words_in(size, lanes)
        };
        let words = self.made().map_or_else(of_new, |made| made.shape.words());
        words.saturating_sub(content_words(contents) + WORDS_BESIDE) / 2
    }

    pub(super) fn made(&self) -> Option<&Made> {
        self.made.get()
    }

    /// Makes the log, unless there is one, in a pool of format version 2.
    pub(crate) fn make(&self, space: &Space) -> Result<(), Error> {
        if self.made.get().is_some() {
            return Ok(());
        }
        let _one = lock(&self.making);
        if self.made.get().is_some() {
            return Ok(());
        }
        let region = &space.region;
        let (size, lanes) = Shape::for_layout(space.layout());
        let _section = space.reserve(size, size / 64 + 2)?;
        let object = space.alloc(size)?;
        let shape = Shape::new(object, lanes);
        if let Err(error) = shape.write(region) {
            space.free(object);
            return Err(error);
        }
        let word = &Superblock::of(region)?.log;
        // ORDER: the empty log, flushed above, is durable before the superblock names it.
        region.fence("pool.log.make.fence");
        // ORDER: after the empty log, as above.
        region.commit("pool.log.publish", word, seal_low(LOW_LOG, object.to_bits()));
        // ORDER: the log is found by a recovery before it holds what a recovery needs.
        region.flush("pool.log.publish.flush", region.offset_of(word), 8);
        // ORDER: as above.
        region.fence("pool.log.publish.fence");
        self.set(region, shape, Vec::new())
    }
}

/// Lanes whose entries are void behind a fence that is to come.
pub(super) struct Voiding<'m> {
    made: &'m Made,
    voided: MutexGuard<'m, Vec<Lane>>,
}

impl Voiding<'_> {
    /// They were fenced: others may use the lanes.
    pub(super) fn done(mut self) {
        if !self.voided.is_empty() {
            lock(&self.made.free).append(&mut self.voided);
        }
    }
}

impl Made {
    pub(super) fn take(&self) -> Result<Lane, Error> {
        let lanes = self.shape.lanes as u64;
        lock(&self.free).pop().ok_or(Error::LogBusy { lanes })
    }

    /// Gives a lane back, used or not.
    pub(super) fn give_back(&self, lane: Lane, is_used: bool, number: u64) {
        let is_fresh = lane.is_fresh || is_used;
        lock(&self.free).push(Lane { number, is_fresh, ..lane });
    }

    /// Keeps a lane whose words are where they belong until an operation makes its entries void, if enough lanes are
    /// left; whether it does.
    pub(super) fn keep_applied(&self, index: usize, number: u64) -> bool {
        let is_kept = lock(&self.free).len() >= self.shape.lanes / 2;
        if is_kept {
            lock(&self.applied).push(Lane { index, number, is_fresh: true });
        }
        is_kept
    }

    /// Makes the entries of such lanes void: durable with the caller's next fence, behind which it says that this is
    /// [done](Voiding::done).
    ///
    /// Another operation waits until then. If it found no lane and went on, it could be durable before the entries of an
    /// earlier one, which it builds on, are void: these would be stored again over what it has freed and a later one has used.
    pub(super) fn void_applied(&self, region: &Region) -> Result<Voiding<'_>, Error> {
        let mut applied = lock(&self.applied);
        for lane in applied.iter_mut() {
            let number = lane.number + 1;
            advance(region, &self.shape, lane.index, State { number, is_committed: false })?;
            lane.number = number;
        }
        Ok(Voiding { made: self, voided: applied })
    }

    pub(super) fn next_sequence(&self) -> u64 {
        self.sequence.fetch_add(1, Ordering::Relaxed)
    }

    pub(super) fn give(&self, index: usize, number: u64) {
        lock(&self.free).push(Lane { index, number, is_fresh: true });
    }
}
