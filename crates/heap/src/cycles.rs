//! The collection of cycles: of objects that refer to each other, and to which nothing else refers. Counts never free them.
//!
//! ```text
//! marking     from the root, then from what the program holds         in parts, beside transactions
//! judging     candidates that are not marked, and what they reach     while no transaction is under way
//!             weak pointers to them give none                         operations of the log
//! taking      their pointers are emptied and counted                  in parts, beside transactions; operations of the log
//! apart       what is counted 0 then is destroyed as ever             upkeep.rs
//! ```
//!
//! An interruption loses what is in memory: the search. What is left of the cycles is free space, as a sweep finds out. (Counts with
//! local search: Bacon and Rajan 2001; here marking decides, because an object of the program's would be searched again and again.)

use rustc_hash::FxHashSet;
use tembo_pmem::thread::lock;

use crate::Error;
use crate::arena::{Arena, Ledger};
use crate::change::Change;
use crate::format::{BODY, CHUNK_BEFORE, CHUNK_WORDS, HEAD, PROXY, ROOT_ROOT, TYPE_PROXY, kind_of};
use crate::mark::children;
use crate::settlement::Settlement;
use crate::shape::Shape;

/// Does a part: looks into `budget` objects at most. Whether all is done: no candidate is left that was one when the search began.
pub(crate) fn step(arena: &Arena, budget: usize) -> Result<bool, Error> {
    let mut guard = lock(&arena.ledger);
    let ledger = &mut *guard;
    if ledger.candidates.marking.is_none() && ledger.candidates.garbage.is_empty() {
        let Some(marking) = ledger.candidates.begin() else { return Ok(true) };
        let root = arena.root_word(ROOT_ROOT)?;
        let is_root = |bits: &u64| *bits != 0;
        std::iter::once(root).filter(is_root).for_each(|bits| marking.mark(bits));
        for &chunk in &ledger.chunks {
            let slots = arena.words(chunk, CHUNK_BEFORE + 1, CHUNK_WORDS - 1)?;
            slots.iter().map(|w| w.load()).filter(is_root).for_each(|bits| marking.mark(bits));
        }
    }
    if ledger.candidates.marking.is_some() {
        let is_marked = mark(arena, ledger, budget);
        if !matches!(is_marked, Ok(false)) {
            drop(guard);
            is_marked?;
            return judge(arena);
        }
        return Ok(false);
    }
    take_apart(arena, ledger, budget)
}

/// Looks into so many objects that are marked; whether there is none left.
fn mark(arena: &Arena, ledger: &mut Ledger, budget: usize) -> Result<bool, Error> {
    let Some(marking) = &mut ledger.candidates.marking else { return Ok(true) };
    for _ in 0..budget {
        let Some(bits) = marking.gray.pop() else {
            if marking.is_late && marking.late.is_empty() {
                return Ok(true);
            }
            if !marking.is_late {
                marking.is_late = true;
                marking.late.extend(arena.handles.held());
            }
            std::mem::take(&mut marking.late).into_iter().for_each(|bits| marking.mark(bits));
            continue;
        };
        // What was destroyed meanwhile is marked no more.
        if marking.marked.contains_key(&bits) {
            let kind = kind_of(arena.word(bits, HEAD)?);
            children(arena, bits, kind)?.into_iter().for_each(|child| marking.mark(child));
        }
    }
    Ok(false)
}

/// All that is reachable is marked: finds what is not. No transaction is under way, so nothing can get a pointer
/// to that. Whether there is none.
fn judge(arena: &Arena) -> Result<bool, Error> {
    let _alone = arena.alone();
    let mut ledger = lock(&arena.ledger);
    if let Some(marking) = &mut ledger.candidates.marking {
        marking.late.extend(arena.handles.held());
    }
    let is_marked = mark(arena, &mut ledger, usize::MAX);
    let Some(marking) = ledger.candidates.marking.take() else { return Ok(true) };
    is_marked?;
    let mut stack: Vec<u64> = Vec::new();
    for bits in marking.judged {
        match marking.marked.get(&bits) {
            Some(true) => {}
            // The program holds it, or what refers to it.
            Some(false) => ledger.candidates.add(bits),
            None => stack.push(bits),
        }
    }
    let mut garbage: FxHashSet<u64> = FxHashSet::default();
    while let Some(bits) = stack.pop() {
        let kind = kind_of(arena.word(bits, HEAD)?);
        if kind == TYPE_PROXY || marking.marked.contains_key(&bits) || !garbage.insert(bits) {
            continue;
        }
        stack.extend(children(arena, bits, kind)?);
    }
    for &bits in &garbage {
        if arena.word(bits, PROXY)? == 0 {
            continue;
        }
        let mut change = Change::default();
        let mut settlement = Settlement::new(arena, &mut ledger, &mut change);
        let ended = settlement.end_weak(bits, kind_of(arena.word(bits, HEAD)?));
        make(settlement, ended)?;
    }
    ledger.candidates.garbage = garbage;
    Ok(ledger.candidates.garbage.is_empty())
}

/// Takes so many objects apart; whether there is none left.
fn take_apart(arena: &Arena, ledger: &mut Ledger, budget: usize) -> Result<bool, Error> {
    for _ in 0..budget {
        let Some(&bits) = ledger.candidates.garbage.iter().next() else { break };
        let mut change = Change::default();
        let mut settlement = Settlement::new(arena, ledger, &mut change);
        let taken = take_one(&mut settlement, bits);
        let is_all = matches!(taken, Ok(true));
        make(settlement, taken.map(drop))?;
        if is_all {
            ledger.candidates.garbage.remove(&bits);
        }
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
