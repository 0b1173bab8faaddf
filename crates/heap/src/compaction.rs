//! Compaction: objects are moved out of chunks that few of them share, and what refers to them is rewritten.
//!
//! ```text
//! begin    the pool says which chunks leave                           pool's evacuation
//! look     from the root and the dead-on-open list, a part at a time, beside transactions: where do pointers to
//!          what leaves stand?                                         moving.rs
//! move     alone, some objects at a time: a copy, the pointers to it, and the old place free, in one operation of the pool's log
//! again    until no chunk leaves, or nothing can be moved
//! ```
//!
//! What was looked at may have changed since. So an object is moved only if each place where a pointer to it stands is a place of a
//! pointer still, in an object that is there still, and if these are as many as the object's count says: then there is no other, not in the
//! doomed or in cycles that nothing refers to either. Uncounted are only the words by which an object and its proxy know each
//! other.
//!
//! No transaction is under way while objects move, so that no view looks at them. An object to which the program has a counted
//! pointer stays where it is, as one that has a place in the dead-on-open list: pointers of the program are right as long as they
//! live. The next compaction moves it. (Copying by parts, with the references found before: Lang and Dupont, 1987.)

use tembo_pmem::thread::lock;
use tembo_pool::Object;

use crate::Error;
use crate::arena::{Arena, Ledger};
use crate::change::Change;
use crate::format::{
    BODY, CHUNK_BEFORE, CHUNK_WORDS, HEAD, PROXY, ROOT_ROOT, TYPE_PROXY, kind_of, low_of,
};
use crate::mark::each_pointer;
use crate::moving::{Compaction, Index, Moving};
use crate::settlement::Settlement;
use crate::{proxy, tenant, upkeep};

/// Passes of a compaction, at most: the first ones empty chunks, the others fill the lowest.
const PASSES_MAX: u64 = 8;

/// Objects that one operation moves: as many as an entry of the log has checksums of.
const OBJECTS_MAX: usize = 8;

/// Pointers to an object that is moved, and its bytes, at most: so a step is bounded.
const PLACES_MAX: usize = 1 << 12;
const BYTES_MAX: u64 = 1 << 20;

/// Does a part: looks into `budget` objects, or moves as many.
pub(crate) fn step(arena: &Arena, budget: usize) -> Result<Compaction, Error> {
    if arena.pool.region().is_read_only() {
        return Err(Error::ReadOnly);
    }
    if arena.pool.usage().recovering {
        // What is free is not known.
        tenant::sweep(arena)?;
        return Ok(Compaction::default());
    }
    {
        // A sweep or a check does not begin meanwhile.
        let _beside = arena.enter();
        if arena.pool.usage().recovering {
            return Ok(Compaction::default());
        }
        let mut ledger = lock(&arena.ledger);
        match ledger.compaction.take() {
            None => return begin(arena, &mut ledger, 0, Compaction::default()),
            Some(mut found) if !found.is_moving => {
                // After an error the next step begins anew.
                look(&mut found, arena, budget)?;
                let done = found.done;
                ledger.compaction = Some(found);
                return Ok(done);
            }
            moving => ledger.compaction = moving,
        }
    }
    let _alone = arena.alone();
    if arena.pool.usage().recovering {
        // A sweep has begun meanwhile, and has noted where objects are.
        return Ok(Compaction::default());
    }
    let mut ledger = lock(&arena.ledger);
    match ledger.compaction.take() {
        Some(mut found) if found.is_moving => {
            if move_some(&mut found, arena, &mut ledger, budget)? {
                let done = found.done;
                ledger.compaction = Some(found);
                return Ok(done);
            }
            let Moving { passes, moved, done, .. } = *found;
            if moved == 0 {
                return Ok(Compaction { is_done: true, ..done });
            }
            begin(arena, &mut ledger, passes, done)
        }
        // Another thread is at it.
        other => {
            ledger.compaction = other;
            Ok(Compaction::default())
        }
    }
}

/// Begins a pass, if chunks leave.
fn begin(
    arena: &Arena,
    ledger: &mut Ledger,
    passes: u64,
    done: Compaction,
) -> Result<Compaction, Error> {
    upkeep::some(arena, ledger)?;
    let Some(mut found) = Moving::begin(&arena.pool, passes + 1, done) else { return Ok(done) };
    if found.chunks() == 0 || passes == PASSES_MAX {
        return Ok(Compaction { is_done: true, ..done });
    }
    found.done.stayed = 0;
    meet_all(&mut found, arena, ledger)?;
    ledger.compaction = Some(Box::new(found));
    Ok(done)
}

/// What is reachable by itself.
fn meet_all(found: &mut Moving, arena: &Arena, ledger: &Ledger) -> Result<(), Error> {
    let own = found.index.meet(arena.root(), false);
    // It is no object, and is not looked into.
    let _ = found.index.next();
    let root = arena.root_word(ROOT_ROOT)?;
    let to = if root == 0 { None } else { found.meet(root) };
    if let (Some(own), Some(to)) = (own, to) {
        found.index.refer(own, ROOT_ROOT as u64, to);
    }
    for &chunk in &ledger.chunks {
        let slots = arena.words(chunk, CHUNK_BEFORE + 1, CHUNK_WORDS - 1)?;
        slots.iter().map(|word| word.load()).filter(|bits| *bits != 0).for_each(|bits| {
            found.meet(bits);
        });
    }
    Ok(())
}

/// Looks into so many objects.
fn look(found: &mut Moving, arena: &Arena, budget: usize) -> Result<(), Error> {
    for _ in 0..budget {
        let Some((number, bits)) = found.index.next() else {
            found.is_moving = true;
            break;
        };
        found.done.looked += 1;
        let kind = kind_of(arena.word(bits, HEAD)?);
        if arena.types.words(kind).is_none() {
            let offset = Object::from_bits(bits).offset();
            return Err(Error::Damaged { what: "a type", offset });
        }
        let words = arena.words(bits, 0, (Object::from_bits(bits).size() / 8) as usize)?;
        let word = |at: u64| Ok(words.get(at as usize).map_or(0, |word| word.load()));
        each_pointer(&arena.types, bits, kind, &word, &mut |at, child| {
            if let Some(to) = found.meet(child) {
                found.index.refer(number, at, to);
            }
        })?;
        let proxy = if kind == TYPE_PROXY { 0 } else { arena.word(bits, PROXY)? };
        if proxy != 0 {
            found.meet(proxy);
        }
    }
    Ok(())
}

/// Moves so many objects; whether there may be more. After an error the index is void.
fn move_some(
    found: &mut Moving,
    arena: &Arena,
    ledger: &mut Ledger,
    budget: usize,
) -> Result<bool, Error> {
    // It makes room.
    let _relief = arena.pool.relief();
    // What is marked is known by its place.
    ledger.candidates.give_up();
    let mut left = budget;
    while left > 0 {
        let mut batch = Batch::default();
        let ended = batch.fill(found, arena, &mut left);
        batch.end(found, arena, ledger, ended.is_ok())?;
        if !ended? {
            return Ok(false);
        }
    }
    Ok(true)
}

/// What one operation moves.
#[derive(Default)]
struct Batch {
    change: Change,
    /// The objects, before and after.
    objects: Vec<[u64; 2]>,
}

impl Batch {
    /// Takes so many objects as one operation holds; whether there may be more.
    fn fill(&mut self, found: &mut Moving, arena: &Arena, left: &mut usize) -> Result<bool, Error> {
        let words_max = arena.pool.operation_words(OBJECTS_MAX) / 2;
        while self.objects.len() < OBJECTS_MAX && *left > 0 && self.change.len() <= words_max {
            let Some((number, bits)) = found.index.pop_leaving() else { return Ok(false) };
            *left -= 1;
            let Some(places) = self.places(&found.index, arena, number, bits)? else {
                found.done.stayed += 1;
                continue;
            };
            let to = match arena.take(Object::from_bits(bits).size() / 8) {
                Ok(to) => to.to_bits(),
                Err(Error::Pool(tembo_pool::Error::PoolFull { .. })) => {
                    // What was moved until then makes room for the next pass.
                    found.done.stayed += 1;
                    return Ok(false);
                }
                Err(error) => return Err(error),
            };
            self.objects.push([bits, to]);
            found.index.moved(number, to);
            self.take(arena, bits, to, places)?;
        }
        Ok(true)
    }

    /// All places where pointers to an object stand; `None`: it is not to be moved.
    fn places(
        &self,
        index: &Index,
        arena: &Arena,
        number: u32,
        bits: u64,
    ) -> Result<Option<Vec<(u64, usize)>>, Error> {
        if arena.handles.is_held(bits) || arena.handles.slot(bits).is_some() {
            return Ok(None);
        }
        let count = low_of(self.change.get(arena, bits, HEAD)?);
        let is_small = Object::from_bits(bits).size() <= BYTES_MAX;
        if count == 0 || count > PLACES_MAX as u64 || !is_small {
            return Ok(None);
        }
        let mut places = Vec::with_capacity(count as usize);
        for (from, at) in index.places(number) {
            if self.is_pointer(arena, from, at)? && self.change.get(arena, from, at)? == bits {
                places.push((from, at));
            }
        }
        Ok((places.len() as u64 == count).then_some(places))
    }

    /// Whether a pointer stands there, or none.
    fn is_pointer(&self, arena: &Arena, bits: u64, at: usize) -> Result<bool, Error> {
        if bits == arena.root() {
            return Ok(at == ROOT_ROOT);
        }
        let kind = kind_of(self.change.get(arena, bits, HEAD)?);
        let Some(entry) = arena.types.entry(kind) else { return Ok(false) };
        let word = |at: u64| self.change.get(arena, bits, at as usize).unwrap_or_default();
        Ok(entry.shape.has_pointer_at(BODY as u64, at as u64, &word))
    }

    /// An object moves, and what refers to it is rewritten.
    fn take(
        &mut self,
        arena: &Arena,
        bits: u64,
        to: u64,
        places: Vec<(u64, usize)>,
    ) -> Result<(), Error> {
        let (count, mut words) = ((Object::from_bits(bits).size() / 8) as usize, Vec::new());
        arena.words(bits, 0, count)?;
        self.change.read(arena, bits, 0, count, &mut words)?;
        let known = proxy::other(arena, &self.change, bits, kind_of(words[HEAD]))?;
        self.change.make(to, words);
        if let Some((known, back)) = known {
            self.change.set(known, back, to);
        }
        for (from, at) in places {
            self.change.set(if from == bits { to } else { from }, at, to);
        }
        Ok(())
    }

    /// Makes the operation, or drops it.
    fn end(
        mut self,
        found: &mut Moving,
        arena: &Arena,
        ledger: &mut Ledger,
        is_whole: bool,
    ) -> Result<(), Error> {
        if self.objects.is_empty() {
            return Ok(());
        }
        let mut settlement = Settlement::new(arena, ledger, &mut self.change);
        let made = if is_whole {
            self.objects.iter().for_each(|[from, _]| settlement.free(*from));
            settlement.make()
        } else {
            settlement.give_up();
            Ok(())
        };
        if !is_whole || made.is_err() {
            let unused = self.objects.iter().map(|[_, to]| Object::from_bits(*to));
            unused.for_each(|object| arena.pool.free_unused(object));
            return made;
        }
        for &[from, to] in &self.objects {
            ledger.candidates.moved(from, to);
            found.moved += 1;
            found.done.moved += 1;
            found.done.moved_bytes += Object::from_bits(to).size();
        }
        Ok(())
    }
}
