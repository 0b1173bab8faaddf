//! The lanes of the log: which are free, and how the state of a lane changes.

use std::sync::{Mutex, MutexGuard, OnceLock, TryLockError};

use tembo_pmem::Region;
use tembo_pmem::thread::lock;

use super::entry::Found;
use super::recover::flush;
use super::shape::{Shape, State, WORDS_BESIDE, advance, content_words};
use crate::format::{LOW_LOG, Superblock, seal_low};
use crate::geometry::Layout;
use crate::space::Space;
use crate::{Error, Object};

/// The log of a pool, once there is one.
#[derive(Default)]
pub(crate) struct Log {
    made: OnceLock<Made>,
    /// Held while the log is being made, when its object is not reachable.
    making: Mutex<()>,
}

/// A log that is there.
pub(super) struct Made {
    pub(super) shape: Shape,
    lanes: Mutex<Lanes>,
    /// Lanes with intents that no handle has.
    pub(super) unfinished: Mutex<Vec<usize>>,
}

/// The lanes by their use.
#[derive(Default)]
pub(super) struct Lanes {
    /// Lanes that no operation has, each with its number, and whether this process has used it.
    free: Vec<Lane>,
    /// Lanes whose words are durable in place, and whose entries are still true.
    applied: Vec<Lane>,
    /// The lane whose words were stored last and are not yet flushed.
    last: Option<Lane>,
    /// The lines of these words, in their order, some more than once.
    lines: Vec<u64>,
    /// How many operations have committed words. If two change one word, the later one has the higher number.
    sequence: u64,
    /// Room for the entries of the next operation: kept, because an allocation would cost more than most operations.
    spare: Vec<u64>,
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
        let lanes = Mutex::new(Lanes { free, ..Lanes::default() });
        let made = Made { shape, lanes, unfinished: Mutex::new(unfinished) };
        // Made once, under the lock.
        let _ = self.made.set(made);
        Ok(())
    }

    /// The log's object; none, if it was never used.
    pub(crate) fn object(&self) -> Object {
        self.made.get().map_or(Object::NONE, |made| made.shape.object)
    }

    /// A guard that a sweep holds while it begins, so that no log is made meanwhile. `None`: one is being made.
    pub(crate) fn try_still(&self) -> Option<MutexGuard<'_, ()>> {
        match self.making.try_lock() {
            Ok(guard) => Some(guard),
            Err(TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        }
    }

    /// Makes the entries of all operations void, durably. They may name objects that nothing refers to any more: at the beginning of a sweep, which
    /// gives such objects to others. While no log is being made.
    ///
    /// # Errors
    /// Of the region.
    pub(crate) fn void(&self, region: &Region) -> Result<(), Error> {
        let Some(made) = self.made() else { return Ok(()) };
        let lines = made.shape.words() as u64 / 2 + made.shape.lanes as u64;
        if made.lanes().is_void() {
            return Ok(());
        }
        let _section = region.reserve(lines)?;
        let voiding = made.void_applied(region)?;
        // ORDER: the entries are void before a sweep gives what they name to others.
        region.fence("pool.log.sweep.fence");
        voiding.done();
        Ok(())
    }

    /// Verifies that no free lane holds entries of a number that it never had: they would become true once it has that number.
    ///
    /// # Errors
    /// [`Error::Damaged`]: one does.
    pub(crate) fn check(&self, region: &Region) -> Result<(), Error> {
        let Some(made) = self.made() else { return Ok(()) };
        for lane in &lock(&made.lanes).free {
            let number = made.shape.state(region, lane.index)?.number + 1;
            let next = State { number, is_committed: false };
            if !Found::read(region, &made.shape, lane.index, next)?.is_empty {
                return Err(Error::Damaged { field: "entries of a lane of the log", word: number });
            }
        }
        Ok(())
    }

    /// How many words fit into a lane beside an entry of so many contents.
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
            space.give_up([object]);
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

/// Lanes whose entries become void with the next fence.
pub(super) struct Voiding<'m>(MutexGuard<'m, Lanes>);

impl Voiding<'_> {
    /// Notes that the fence was made: other operations may use the lanes.
    pub(super) fn done(mut self) {
        self.0.free_applied();
    }
}

impl Lanes {
    /// Whether no kept lane has entries that are true.
    fn is_void(&self) -> bool {
        self.applied.is_empty() && self.last.is_none()
    }

    /// Flushes the words that were stored last, unless that was done before. They are durable with the caller's next fence.
    pub(super) fn flush_last(&mut self, region: &Region) {
        flush(region, self.lines.drain(..));
    }

    /// Notes that the [flushed](Lanes::flush_last) words are fenced.
    pub(super) fn settle_last(&mut self) {
        self.applied.extend(self.last.take());
    }

    /// Makes the entries of lanes void whose words are durable in place. Durable with the caller's next fence.
    pub(super) fn void_applied(&mut self, region: &Region, shape: &Shape) -> Result<(), Error> {
        for lane in &mut self.applied {
            let number = lane.number + 1;
            advance(region, shape, lane.index, State { number, is_committed: false })?;
            lane.number = number;
        }
        Ok(())
    }

    /// Notes that this was fenced: other operations may use the lanes.
    pub(super) fn free_applied(&mut self) {
        self.free.append(&mut self.applied);
    }

    /// Whether enough lanes are left to keep one until its entries are void.
    pub(super) fn can_keep(&self, shape: &Shape) -> bool {
        self.free.len() >= shape.lanes / 2
    }

    /// Keeps a lane whose words are durable until an operation makes its entries void.
    pub(super) fn keep_applied(&mut self, index: usize, number: u64) {
        self.applied.push(Lane { index, number, is_fresh: true });
    }

    /// Keeps a lane whose words are stored, in these lines, and not flushed. The next operation flushes them.
    pub(super) fn keep_last(
        &mut self,
        index: usize,
        number: u64,
        lines: impl Iterator<Item = u64>,
    ) {
        self.last = Some(Lane { index, number, is_fresh: true });
        self.lines.extend(lines);
    }

    pub(super) fn next_sequence(&mut self) -> u64 {
        self.sequence += 1;
        self.sequence - 1
    }

    pub(super) fn give(&mut self, index: usize, number: u64) {
        self.free.push(Lane { index, number, is_fresh: true });
    }

    /// Takes the memory for the entries of an operation back.
    pub(super) fn keep_spare(&mut self, mut entries: Vec<u64>) {
        entries.clear();
        self.spare = entries;
    }
}

impl Made {
    /// Held by an operation that commits words until that is done.
    ///
    /// Another operation waits until then. If it found no lane and went on, it could be durable before the entries of an
    /// earlier one, which it builds on, are void: these would be stored again over what it has freed and a later one has used.
    pub(super) fn lanes(&self) -> MutexGuard<'_, Lanes> {
        lock(&self.lanes)
    }

    /// Takes a lane, and memory for entries.
    pub(super) fn take(&self) -> Result<(Lane, Vec<u64>), Error> {
        let mut lanes = self.lanes();
        let busy = Error::LogBusy { lanes: self.shape.lanes as u64 };
        Ok((lanes.free.pop().ok_or(busy)?, std::mem::take(&mut lanes.spare)))
    }

    /// Gives a lane back, used or not.
    pub(super) fn give_back(&self, lane: Lane, is_used: bool, number: u64) {
        let is_fresh = lane.is_fresh || is_used;
        self.lanes().free.push(Lane { number, is_fresh, ..lane });
    }

    /// Makes the entries of all lanes void whose words are where they belong: durable with the caller's next fence, behind which it
    /// says that this is [done](Voiding::done). Until then it holds the [lanes](Made::lanes).
    pub(super) fn void_applied(&self, region: &Region) -> Result<Voiding<'_>, Error> {
        let mut lanes = self.lanes();
        if lanes.last.is_some() {
            lanes.flush_last(region);
            lanes.void_applied(region, &self.shape)?;
            // ORDER: the words that were stored last are durable before their entries are void. Earlier entries are void before
            // that: otherwise a recovery would store the earlier words alone.
            region.fence("pool.log.last.fence");
            lanes.free_applied();
            lanes.settle_last();
        }
        lanes.void_applied(region, &self.shape)?;
        Ok(Voiding(lanes))
    }

    pub(super) fn give(&self, index: usize, number: u64) {
        self.lanes().give(index, number);
    }
}
