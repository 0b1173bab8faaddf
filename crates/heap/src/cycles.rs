//! The collection of cycles: of objects that refer to each other, and to which nothing else refers. Counts never free them.
//!
//! ```text
//! marking     from the root, then from what commits have noted        in parts, beside transactions
//! judging     from what the program holds; then candidates            while no transaction is under way
//!             that are not marked, and what they reach
//!             weak pointers to them give none                         operations of the log
//! taking      their pointers are emptied and counted                  in parts, beside transactions; operations of the log
//! apart       what is counted 0 then is destroyed as ever             upkeep.rs
//! ```
//!
//! An interruption loses what is in memory: the search. What is left of the cycles is free space, as a sweep finds out. (Counts with
//! local search: Bacon and Rajan 2001; here marking decides, because an object of the program's would be searched again and again.)

use rustc_hash::FxHashSet;
use tembo_pmem::thread::lock;
use tembo_pool::Object;

use crate::Error;
use crate::arena::{Arena, Ledger};
use crate::candidates::Marking;
use crate::change::Change;
use crate::format::{BODY, CHUNK_BEFORE, CHUNK_WORDS, HEAD, PROXY, ROOT_ROOT, TYPE_PROXY, kind_of};
use crate::mark::children;
use crate::settlement::Settlement;
use crate::shape::Shape;

/// Does a part: looks into `budget` objects at most. Whether all is done: no candidate is left that was one when the search began.
pub(crate) fn step(arena: &Arena, budget: usize) -> Result<bool, Error> {
    {
        // A sweep or a check, which notes what is there and changes it then, does not run meanwhile.
        let _beside = arena.enter();
        let mut ledger = lock(&arena.ledger);
        if ledger.candidates.marking.is_none() && !ledger.candidates.garbage.is_empty() {
            return take_apart(arena, &mut ledger, budget);
        }
        let searched = search(arena, &mut ledger, budget);
        if searched.is_err() {
            ledger.candidates.give_up();
        }
        match searched? {
            Search::Nothing => return Ok(true),
            Search::Marking => return Ok(false),
            Search::Marked => {}
        }
    }
    judge(arena)
}

/// How far a search has come.
enum Search {
    /// There is no candidate.
    Nothing,
    /// Marked objects are to be looked into.
    Marking,
    /// All are looked into, but for what was noted meanwhile.
    Marked,
}

/// Begins a search if none is under way, and looks into `budget` objects. After an error it has missed objects, and is void.
fn search(arena: &Arena, ledger: &mut Ledger, budget: usize) -> Result<Search, Error> {
    if ledger.candidates.marking.is_none() {
        let Some(marking) = ledger.candidates.begin() else { return Ok(Search::Nothing) };
        let root = arena.root_word(ROOT_ROOT)?;
        let is_some = |bits: &u64| *bits != 0;
        std::iter::once(root).filter(is_some).for_each(|bits| marking.mark(bits));
        for &chunk in &ledger.chunks {
            let slots = arena.words(chunk, CHUNK_BEFORE + 1, CHUNK_WORDS - 1)?;
            slots.iter().map(|w| w.load()).filter(is_some).for_each(|bits| marking.mark(bits));
        }
    }
    let Some(marking) = &mut ledger.candidates.marking else { return Ok(Search::Nothing) };
    Ok(if mark(arena, marking, budget)? { Search::Marked } else { Search::Marking })
}

/// Looks into so many objects that are marked; whether there is none left. What commits note from the first such moment on is
/// left to [`judge`]: beside transactions it may have no end.
fn mark(arena: &Arena, marking: &mut Marking, budget: usize) -> Result<bool, Error> {
    for _ in 0..budget {
        let Some(bits) = marking.next() else {
            if marking.is_late {
                return Ok(true);
            }
            marking.mark_late();
            continue;
        };
        known_children(arena, bits)?.1.into_iter().for_each(|child| marking.mark(child));
    }
    Ok(false)
}

/// The type of an object, which the heap knows, and what the object refers to.
fn known_children(arena: &Arena, bits: u64) -> Result<(u16, Vec<u64>), Error> {
    let kind = kind_of(arena.word(bits, HEAD)?);
    if arena.types.words(kind).is_none() {
        return Err(Error::Damaged { what: "a type", offset: Object::from_bits(bits).offset() });
    }
    Ok((kind, children(arena, bits, kind)?))
}

/// Marks what is left to be marked, and finds what is not reachable. No transaction is under way, so nothing can get a pointer
/// to that. Whether there is none.
fn judge(arena: &Arena) -> Result<bool, Error> {
    let _alone = arena.alone();
    let mut ledger = lock(&arena.ledger);
    match &ledger.candidates.marking {
        Some(marking) if marking.is_late => {}
        // Another thread has judged, and searches again.
        Some(_) => return Ok(false),
        None => return Ok(ledger.candidates.is_done()),
    }
    let judged = judge_alone(arena, &mut ledger);
    // After an error the candidates are judged again.
    ledger.candidates.give_up();
    judged?;
    Ok(ledger.candidates.garbage.is_empty())
}

fn judge_alone(arena: &Arena, ledger: &mut Ledger) -> Result<(), Error> {
    let Some(marking) = &mut ledger.candidates.marking else { return Ok(()) };
    marking.late.extend(arena.handles.held());
    marking.mark_late();
    mark(arena, marking, usize::MAX)?;
    let is_unmarked = |bits: &u64| !marking.is_marked(*bits);
    let mut stack: Vec<u64> = marking.judged.iter().copied().filter(is_unmarked).collect();
    let mut garbage: FxHashSet<u64> = FxHashSet::default();
    while let Some(bits) = stack.pop() {
        if marking.is_marked(bits) || garbage.contains(&bits) {
            continue;
        }
        let (kind, children) = known_children(arena, bits)?;
        if kind != TYPE_PROXY {
            garbage.insert(bits);
            stack.extend(children);
        }
    }
    for &bits in &garbage {
        if arena.word(bits, PROXY)? == 0 {
            continue;
        }
        let mut change = Change::default();
        let mut settlement = Settlement::new(arena, ledger, &mut change);
        let ended = settlement.end_weak(bits, kind_of(arena.word(bits, HEAD)?));
        make(settlement, ended)?;
    }
    ledger.candidates.judged(garbage);
    Ok(())
}

/// Takes so many objects apart; whether there is none left.
fn take_apart(arena: &Arena, ledger: &mut Ledger, budget: usize) -> Result<bool, Error> {
    for _ in 0..budget {
        let Some(&bits) = ledger.candidates.garbage.iter().next() else { break };
        let mut change = Change::default();
        let mut settlement = Settlement::new(arena, ledger, &mut change);
        let taken = take_one(&mut settlement, bits);
        let is_all = matches!(taken, Ok(true));
        let made = make(settlement, taken.map(drop));
        // What is damaged is left to a sweep: the rest is taken apart when this is called again.
        if (is_all && made.is_ok()) || matches!(made, Err(Error::Damaged { .. })) {
            ledger.candidates.garbage.remove(&bits);
        }
        made?;
    }
    let is_done = ledger.candidates.garbage.is_empty();
    crate::upkeep::some(arena, ledger)?;
    Ok(is_done)
}

/// Empties pointers of an object, and counts them; whether those were all.
fn take_one(settlement: &mut Settlement<'_>, bits: u64) -> Result<bool, Error> {
    let kind = kind_of(settlement.change.get(settlement.arena, bits, HEAD)?);
    let entry = settlement.arena.types.entry(kind);
    let is_slice = entry.is_some_and(|entry| matches!(entry.shape, Shape::Slice(_)));
    let places = if is_slice { Vec::new() } else { settlement.pointers(bits, kind)? };
    let is_all = settlement.take_apart(bits, kind)?;
    if is_all && is_slice {
        settlement.change.set(bits, BODY, 0);
    }
    if is_all {
        places.iter().for_each(|(at, _)| settlement.change.set(bits, *at as usize, 0));
    }
    Ok(is_all)
}

fn make(settlement: Settlement<'_>, result: Result<(), Error>) -> Result<(), Error> {
    match result {
        Ok(()) => settlement.make(),
        Err(error) => {
            settlement.give_up();
            Err(error)
        }
    }
}
