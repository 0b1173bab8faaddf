//! All objects of a heap, from its root: for a sweep, a check and the tools.

use rustc_hash::{FxHashMap, FxHashSet};
use tembo_pool::{Marker, Object, TenantCheck, TenantError};

use crate::Error;
use crate::arena::{Arena, Ledger};
use crate::change::Change;
use crate::format::{
    BODY, CHUNK_BEFORE, CHUNK_WORDS, HEAD, PROXY, PROXY_TARGET, ROOT_DOOMED, ROOT_ORPHANS,
    ROOT_ROOT, TYPE_PROXY, kind_of, low_of,
};
use crate::proxy;
use crate::settlement::Settlement;
use crate::shape::Shape;
use crate::types::Types;

/// What a check of a pool calls the pointers that cycles hold to which nothing else refers: a name of
/// [`TenantCheck::counts`].
pub const FROM_CYCLES: &str = "pointers from cycles that nothing refers to";

/// Words that an operation of [`Content::let_cycles_go`] stores, about: fewer than a lane of the log holds.
const WORDS_MAX: usize = 16;

/// An object of a heap.
pub(crate) struct Found {
    pub(crate) bits: u64,
    pub(crate) kind: u16,
    /// How many pointers of the heap refer to it, as it says; of one that waits to be destroyed 0.
    pub(crate) count: u64,
    /// How many were found.
    pub(crate) references: u64,
    pub(crate) is_doomed: bool,
}

impl Found {
    /// How many pointers refer to it that were not found: those of cycles that nothing else refers to.
    fn lost(&self) -> u64 {
        self.count.saturating_sub(self.references)
    }
}

/// Everything that a heap has on media. Nothing changes it meanwhile.
pub(crate) struct Content {
    /// The root, types, chunks of the dead-on-open list.
    pub(crate) own: Vec<u64>,
    /// Objects, each once.
    pub(crate) objects: Vec<Found>,
}

impl Content {
    pub(crate) fn of(arena: &Arena) -> Result<Content, Error> {
        let mut own = vec![arena.root()];
        own.extend(arena.types.all().iter().map(|entry| entry.object.to_bits()));
        let mut gray: Vec<u64> = Vec::new();
        let mut chunk = arena.root_word(ROOT_ORPHANS)?;
        let mut chunks: FxHashSet<u64> = FxHashSet::default();
        while chunk != 0 {
            if !chunks.insert(chunk) {
                return Err(damaged("the dead-on-open list", chunk));
            }
            own.push(chunk);
            let slots = arena.words(chunk, CHUNK_BEFORE + 1, CHUNK_WORDS - 1)?;
            gray.extend(slots.iter().map(|word| word.load()).filter(|bits| *bits != 0));
            chunk = arena.word(chunk, CHUNK_BEFORE)?;
        }
        // An object of a cycle is counted, and may be reached by the program only.
        gray.extend(arena.handles.held());
        let mut found: FxHashMap<u64, Found> = FxHashMap::default();
        let mut doomed = arena.root_word(ROOT_DOOMED)?;
        while doomed != 0 {
            let word = arena.word(doomed, HEAD)?;
            let object = Found {
                bits: doomed,
                kind: kind_of(word),
                count: 0,
                references: 0,
                is_doomed: true,
            };
            if found.insert(doomed, object).is_some() {
                return Err(damaged("the chain of the doomed", doomed));
            }
            gray.push(doomed);
            doomed = low_of(word);
        }
        let root = arena.root_word(ROOT_ROOT)?;
        let mut seen: FxHashMap<u64, ()> = FxHashMap::default();
        if root != 0 {
            meet(arena, &mut found, root)?.references += 1;
            gray.push(root);
        }
        while let Some(bits) = gray.pop() {
            if seen.insert(bits, ()).is_some() {
                continue;
            }
            let kind = meet(arena, &mut found, bits)?.kind;
            for child in children(arena, bits, kind)? {
                meet(arena, &mut found, child)?.references += 1;
                gray.push(child);
            }
            let proxy = if kind == TYPE_PROXY { 0 } else { arena.word(bits, PROXY)? };
            if proxy != 0 {
                meet(arena, &mut found, proxy)?;
                gray.push(proxy);
            }
        }
        let mut objects: Vec<Found> = found.into_values().collect();
        objects.sort_unstable_by_key(|found| found.bits);
        Ok(Content { own, objects })
    }

    /// Counts are right but for what cycles hold, proxies and their objects know each other.
    pub(crate) fn check(&self, arena: &Arena) -> Result<(), Error> {
        let unchanged = Change::default();
        for found in &self.objects {
            if found.count < found.references {
                return Err(damaged("a count", found.bits));
            }
            proxy::other(arena, &unchanged, found.bits, found.kind)?;
        }
        Ok(())
    }

    /// Takes what the cycles that nothing refers to hold of the rest: their pointers are counted no more, and weak pointers to
    /// their objects give none. The space of the cycles is free then, as a sweep finds out; interrupted, it is done again.
    pub(crate) fn let_cycles_go(&self, arena: &Arena, ledger: &mut Ledger) -> Result<(), Error> {
        let all: FxHashSet<u64> = self.objects.iter().map(|found| found.bits).collect();
        ledger.candidates.keep_only(&all);
        // What it knows may be freed by the sweep.
        ledger.compaction = None;
        let mut objects = self.objects.iter().peekable();
        while objects.peek().is_some() {
            let mut change = Change::default();
            let mut settlement = Settlement::new(arena, ledger, &mut change);
            let mut result = Ok(());
            while let Some(found) = objects.next_if(|_| settlement.change.len() < WORDS_MAX) {
                result = let_go_of(&mut settlement, found, &all);
                if result.is_err() {
                    break;
                }
            }
            if let Err(error) = result {
                settlement.give_up();
                return Err(error);
            }
            settlement.make()?;
        }
        Ok(())
    }

    /// All objects' bits, with those that only the program knows.
    pub(crate) fn all(&self, arena: &Arena) -> Vec<u64> {
        let objects = self.objects.iter().map(|found| found.bits);
        self.own.iter().copied().chain(objects).chain(arena.handles.void()).collect()
    }

    pub(crate) fn mark(
        &self,
        arena: &Arena,
        marker: &mut dyn Marker,
    ) -> Result<TenantCheck, TenantError> {
        let mut check = TenantCheck::default();
        for bits in self.all(arena) {
            if !marker.mark(Object::from_bits(bits))? {
                return Err(Box::new(damaged("an object that is there twice", bits)));
            }
            check.objects += 1;
        }
        check.pending = self.objects.iter().filter(|found| found.is_doomed).count() as u64;
        let types = arena.types.count() as u64;
        let values = self.objects.iter().filter(|found| found.kind != TYPE_PROXY).count();
        let lost = self.objects.iter().map(Found::lost).sum();
        check.counts = vec![
            ("objects".into(), values as u64),
            ("types".into(), types),
            (FROM_CYCLES.into(), lost),
        ];
        Ok(check)
    }
}

/// An object loses what cycles hold of it; `all` are the objects that are no part of them.
fn let_go_of(
    settlement: &mut Settlement<'_>,
    found: &Found,
    all: &FxHashSet<u64>,
) -> Result<(), Error> {
    if found.kind == TYPE_PROXY {
        let target = settlement.change.get(settlement.arena, found.bits, PROXY_TARGET)?;
        if target != 0 && !all.contains(&target) {
            settlement.change.set(found.bits, PROXY_TARGET, 0);
        }
    }
    if found.lost() == 0 || found.is_doomed {
        return Ok(());
    }
    settlement.lower(found.bits, found.lost())
}

fn damaged(what: &'static str, bits: u64) -> Error {
    Error::Damaged { what, offset: Object::from_bits(bits).offset() }
}

fn meet<'f>(
    arena: &Arena,
    found: &'f mut FxHashMap<u64, Found>,
    bits: u64,
) -> Result<&'f mut Found, Error> {
    let word = arena.word(bits, HEAD)?;
    let kind = kind_of(word);
    let Some(words) = arena.types.words(kind) else { return Err(damaged("a type", bits)) };
    if words.saturating_mul(8) > Object::from_bits(bits).size() {
        return Err(damaged("the size of an object", bits));
    }
    let new = Found { bits, kind, count: low_of(word), references: 0, is_doomed: false };
    Ok(found.entry(bits).or_insert(new))
}

/// What an object refers to.
pub(crate) fn children(arena: &Arena, bits: u64, kind: u16) -> Result<Vec<u64>, Error> {
    let size = (Object::from_bits(bits).size() / 8) as usize;
    let words = arena.words(bits, 0, size)?;
    let word = |at: u64| Ok(words.get(at as usize).map_or(0, |word| word.load()));
    children_of(&arena.types, bits, kind, &word)
}

/// The same, of an object with these words.
pub(crate) fn children_of(
    types: &Types,
    bits: u64,
    kind: u16,
    word: &dyn Fn(u64) -> Result<u64, Error>,
) -> Result<Vec<u64>, Error> {
    let mut found = Vec::new();
    each_pointer(types, bits, kind, word, &mut |_, child| found.push(child))?;
    Ok(found)
}

/// Calls `each` with the place of each pointer in an object with these words, and with what it refers to.
pub(crate) fn each_pointer(
    types: &Types,
    bits: u64,
    kind: u16,
    word: &dyn Fn(u64) -> Result<u64, Error>,
    each: &mut dyn FnMut(u64, u64),
) -> Result<(), Error> {
    let Some(entry) = types.entry(kind) else { return Ok(()) };
    if let Shape::Slice(cell) = &entry.shape {
        let cells = word(BODY as u64)?.saturating_mul(cell.words());
        let room = Object::from_bits(bits).size() / 8 - BODY as u64 - 1;
        if cells > room {
            return Err(damaged("the length of a slice", bits));
        }
    }
    let word = |at: u64| word(at).unwrap_or_default();
    entry.shape.pointers(BODY as u64, &word, each);
    Ok(())
}
