//! Finds all leaves where there is no hint: the list is walked from many places at once.
//!
//! # The idea
//! The list leads from each leaf to anywhere in the pool, and only the header there says where to
//! next: a walk from leaf to leaf waits for memory at every one. So, where the list does not soon end, there
//! are many walks. In chunks all over the pool headers of leaves are looked for: these are *entries*, from each whose list is
//! walked up to the next entry that it comes to. A thread has some of these walks under way and takes a step
//! of one after the other, so that it waits for their ways through memory together; and there are some threads.
//! What a walk finds is a *segment*. Put together from the first leaf on, each behind the one that
//! ends where it begins, they are the list.
//!
//! # Why it is right
//! An entry need not be in the list: space that was a leaf once still looks like one. The result consists of the
//! segments to which the list comes from the first leaf on; every step in them was read in
//! a leaf that is linked. Other segments are forgotten, their errors included.
//!
//! # Why it ends
//! No walk takes more steps than there are places for leaves. The caller, which takes the leaves, verifies that their low
//! keys rise.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use tembo_pmem::prefetch;
use tembo_pool::Object;

use crate::error::damaged;
use crate::key::KeyBytes;
use crate::nvtree::format::{LEAF_MAGIC, LeafHeader};
use crate::nvtree::inner::LeafId;
use crate::nvtree::leaf::{Leaf, check};
use crate::{Error, Forest};

/// Leaves that one walk passes first. There may be no more, and the chunks to which it comes are near.
const BEGINNING: usize = 1024;
/// Least number of chunks in which entries are looked for, and most entries in each.
const CHUNKS_ASKED: u64 = 256;
const ENTRIES_PER_CHUNK: u64 = 2;
/// Walks that a thread has under way.
const ABREAST: usize = 16;
/// Bytes of a pool for which one more thread is worth it, and most threads. Where processors are busy, the wait for a
/// thread that has just begun can take longer than its share of the work.
const BYTES_PER_THREAD: u64 = 256 << 20;
const THREADS_MAX: usize = 8;
/// Leaves that are prefetched before the one that is returned.
const PREFETCHED: usize = 16;

/// Where walks begin, and what they have found.
struct Runs<'f> {
    forest: &'f Forest,
    /// The entries. The first one is the leaf with which the list goes on behind its beginning.
    entries: Vec<LeafId>,
    numbers: HashMap<LeafId, usize>,
    chunk_size: u64,
    /// Bytes of a chunk in which entries lie.
    entry_bytes: u64,
    /// The first entry from which no walk has begun.
    next: AtomicUsize,
    /// The segments, by entry.
    segments: Mutex<Vec<Option<Segment>>>,
}

/// A part of the list.
struct Segment {
    leaves: Vec<LeafId>,
    /// The entry at which the next segment begins. `None`: the list ends.
    end: Result<Option<usize>, Error>,
}

/// A walk under way.
struct Run {
    entry: usize,
    leaves: Vec<LeafId>,
    at: LeafId,
}

/// All leaves, in the order of the list from `first` on, with their low keys.
pub(crate) fn all_leaves(
    forest: &Forest,
    first: LeafId,
) -> Result<impl Iterator<Item = Result<(LeafId, KeyBytes<'_>), Error>>, Error> {
    let mut leaves = Vec::new();
    if let Some(next) = beginning(forest, first, &mut leaves)? {
        let runs = Runs::from(forest, next, &leaves)?;
        runs.run(&mut leaves)?;
    }
    Ok((0..leaves.len()).map(move |at| {
        if let Some(&next) = leaves.get(at + PREFETCHED) {
            prefetch(header(forest, next)?);
        }
        Ok((leaves[at], Leaf::at(forest, leaves[at])?.low()?))
    }))
}

/// Adds the first leaves of the list. Returns the one that comes next.
fn beginning(
    forest: &Forest,
    first: LeafId,
    leaves: &mut Vec<LeafId>,
) -> Result<Option<LeafId>, Error> {
    let mut at = Some(first);
    while let Some(leaf) = at.filter(|_| leaves.len() < BEGINNING) {
        leaves.push(leaf);
        at = next_of(forest, leaf)?;
    }
    Ok(at)
}

/// The leaf behind that one.
fn next_of(forest: &Forest, leaf: LeafId) -> Result<Option<LeafId>, Error> {
    let header = header(forest, leaf)?;
    check(header, u64::from(leaf) << forest.leaf_bits)?;
    let next = Object::from_bits(header.next.load());
    if next.is_none() { Ok(None) } else { Leaf::id_of(forest, next).map(Some) }
}

fn header(forest: &Forest, leaf: LeafId) -> Result<&LeafHeader, Error> {
    Ok(forest.region().get(u64::from(leaf) << forest.leaf_bits)?)
}

impl<'f> Runs<'f> {
    /// The walks from `first` and other entries, for the list behind these leaves.
    fn from(forest: &'f Forest, first: LeafId, begun: &[LeafId]) -> Result<Runs<'f>, Error> {
        let geometry = forest.pool().geometry();
        let (chunk_size, node_size) = (geometry.chunk_size.into(), u64::from(geometry.node_size));
        let mut runs = Runs {
            forest,
            entries: vec![first],
            numbers: HashMap::from([(first, 0)]),
            chunk_size,
            entry_bytes: ENTRIES_PER_CHUNK * node_size,
            next: AtomicUsize::new(0),
            segments: Mutex::default(),
        };
        let chunk_of = |leaf: &LeafId| (u64::from(*leaf) << forest.leaf_bits) / chunk_size;
        let mut chunks: BTreeSet<u64> = begun.iter().map(chunk_of).collect();
        if (chunks.len() as u64) < CHUNKS_ASKED {
            let usage = forest.pool().usage();
            let (from, to) = (usage.data_start / chunk_size, usage.frontier / chunk_size);
            let asked = CHUNKS_ASKED.min(to - from);
            chunks.extend((0..asked).map(|number| from + number * (to - from) / asked));
        }
        let begun: HashSet<LeafId> = begun.iter().copied().collect();
        for chunk in chunks {
            let places = (0..ENTRIES_PER_CHUNK).map(|slot| slot * node_size);
            places
                .filter(|at| at + node_size <= chunk_size)
                .try_for_each(|at| runs.ask(chunk * chunk_size + at, &begun))?;
        }
        Ok(runs)
    }

    /// Makes a place an entry if it looks like a leaf and was not passed.
    fn ask(&mut self, offset: u64, begun: &HashSet<LeafId>) -> Result<(), Error> {
        let header: &LeafHeader = self.forest.region().get(offset)?;
        if let Ok(leaf) = LeafId::try_from(offset >> self.forest.leaf_bits)
            && header.shape.load() >> 32 == u64::from(LEAF_MAGIC)
            && !self.numbers.contains_key(&leaf)
            && !begun.contains(&leaf)
        {
            self.numbers.insert(leaf, self.entries.len());
            self.entries.push(leaf);
        }
        Ok(())
    }

    /// Adds the leaves of the list.
    fn run(self, leaves: &mut Vec<LeafId>) -> Result<(), Error> {
        let count = self.entries.len();
        self.segments().resize_with(count, || None);
        let share = self.forest.pool().usage().frontier / BYTES_PER_THREAD;
        let threads = match share.min(THREADS_MAX as u64) as usize {
            0 | 1 => 1,
            share => std::thread::available_parallelism().map_or(1, Into::into).min(share),
        };
        std::thread::scope(|scope| {
            for _ in 1..threads {
                // If there is no other thread, this one takes all walks.
                let _ = std::thread::Builder::new().spawn_scoped(scope, || self.run_some());
            }
            self.run_some();
        });
        let mut segments = std::mem::take(&mut *self.segments());
        let mut entry = Some(0);
        while let Some(at) = entry {
            let Some(segment) = segments.get_mut(at).and_then(Option::take) else {
                return damaged(u64::from(self.entries[at]), "a list of leaves that ends");
            };
            leaves.extend(segment.leaves);
            entry = segment.end?;
        }
        Ok(())
    }

    fn segments(&self) -> std::sync::MutexGuard<'_, Vec<Option<Segment>>> {
        self.segments.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Walks from entries as long as there are some.
    fn run_some(&self) {
        let begin = || {
            let entry = self.next.fetch_add(1, Ordering::Relaxed);
            let &at = self.entries.get(entry)?;
            Some(Run { entry, leaves: Vec::new(), at })
        };
        let mut runs: Vec<Run> = std::iter::from_fn(begin).take(ABREAST).collect();
        let mut number = 0;
        while !runs.is_empty() {
            number = if number + 1 < runs.len() { number + 1 } else { 0 };
            let Some(end) = self.step(&mut runs[number]).transpose() else { continue };
            let ended = match begin() {
                Some(begun) => std::mem::replace(&mut runs[number], begun),
                None => runs.swap_remove(number),
            };
            self.segments()[ended.entry] = Some(Segment { leaves: ended.leaves, end });
        }
    }

    /// Takes a step of a walk. Returns where the walk ends, if it does.
    fn step(&self, run: &mut Run) -> Result<Option<Option<usize>>, Error> {
        let Some(next) = next_of(self.forest, run.at)? else {
            run.leaves.push(run.at);
            return Ok(Some(None));
        };
        run.leaves.push(std::mem::replace(&mut run.at, next));
        let offset = u64::from(next) << self.forest.leaf_bits;
        if run.leaves.len() as u64 > self.forest.region().size() >> self.forest.leaf_bits {
            return damaged(offset, "a list of leaves that ends");
        }
        if offset % self.chunk_size < self.entry_bytes
            && let Some(&entry) = self.numbers.get(&next)
        {
            return Ok(Some(Some(entry)));
        }
        prefetch(header(self.forest, next)?);
        Ok(None)
    }
}
