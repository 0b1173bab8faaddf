//! What follows from a change before it is made: counts, objects that die, objects that only the program holds.
//!
//! ```text
//!                 counts of the heap     pointers of the program
//! linked          > 0                    any                      stays
//! orphan          0                      > 0                      gets a place in the dead-on-open list
//! dead            0                      0                        gets into the chain of the doomed; weak pointers give none
//! ```
//!
//! All of it is in the same operation of the pool's log as the change, with the destruction of what it dooms, as far as the operation has room.
//! The others of the doomed are destroyed by steps of their own,
//! each a bounded operation, however deep or long the structure is: a step takes the first of the chain, lowers the counts of what
//! it refers to, which may get into the chain for that, and frees it. An interrupted step has not happened; the chain is
//! on media. So destruction needs no descriptor but the log's lane. (NV-heaps §4.3.3 needs two descriptors and a recursion.)
//!
//! An operation that destroys has a fence more than others. Its own entries name no word of what it destroys, and those of the operations
//! before it are void when it is settled: so what it has destroyed may be another's at once.

use std::sync::atomic::{Ordering, fence};

use rustc_hash::FxHashSet;
use tembo_pool::{Object, Relief};

use crate::Error;
use crate::arena::{Arena, Ledger};
use crate::change::{Buffers, Change};
use crate::format::{
    BODY, CHUNK_BEFORE, CHUNK_SLOTS, CHUNK_WORDS, HEAD, PROXY, PROXY_TARGET, ROOT_DOOMED,
    ROOT_ORPHANS, TYPE_PROXY, head, kind_of, low_of,
};
use crate::hand::Hand;
use crate::keyed::Keyed;
use crate::noted::Noted;
use crate::proxy;
use crate::shape::Shape;

/// Pointers of one object that a step of destruction looks at, at most.
const POINTERS_MAX: usize = 16;

/// Words that a step stores, about and at most.
const WORDS_MAX: usize = 16;

/// Words of a commit that destroys something, at most, unless it has more without that.
const LANE_WORDS: usize = 32;

/// A change, and what follows from it. If it is dropped without [`make`](Settlement::make), as by a panic, it is not made.
pub(crate) struct Settlement<'a> {
    pub(crate) arena: &'a Arena,
    pub(crate) ledger: &'a mut Ledger,
    pub(crate) change: &'a mut Change,
    /// Objects that are free when the change is made.
    freed: Vec<Object>,
    /// Objects that got into the chain of the doomed.
    doomed: Noted,
    /// Objects that get a place in the dead-on-open list, or lose theirs.
    slots: Keyed<Option<u32>>,
    /// Places that were taken, and that are given back.
    taken: Vec<u32>,
    given: FxHashSet<u32>,
    /// Chunks that the dead-on-open list gets.
    chunks: Vec<u64>,
    /// New objects that are not needed.
    unmade: Noted,
    /// Space is to be used again, which operations name that are not void yet.
    must_note: bool,
    /// The dead-on-open list gets no chunk.
    keeps_chunks: bool,
    /// What became of the objects that it was to destroy is known.
    is_finished: bool,
    /// It may take the pool's reserve.
    _relief: Option<Relief>,
}

/// How far a settlement had come.
struct Stage {
    freed: usize,
    doomed: usize,
    taken: usize,
    slots: Keyed<Option<u32>>,
    given: FxHashSet<u32>,
}

impl<'a> Settlement<'a> {
    /// Of a change that makes room, or takes none: what is destroyed is given back, and what the log needs for a time. So it may take the
    /// pool's reserve.
    pub(crate) fn new(
        arena: &'a Arena,
        ledger: &'a mut Ledger,
        change: &'a mut Change,
    ) -> Settlement<'a> {
        Settlement::with(arena, ledger, change, Some(arena.pool.relief()))
    }

    /// Of a change that takes room, and makes none: the reserve is left to others.
    pub(crate) fn growing(
        arena: &'a Arena,
        ledger: &'a mut Ledger,
        change: &'a mut Change,
    ) -> Settlement<'a> {
        Settlement::with(arena, ledger, change, None)
    }

    fn with(
        arena: &'a Arena,
        ledger: &'a mut Ledger,
        change: &'a mut Change,
        relief: Option<Relief>,
    ) -> Settlement<'a> {
        let (freed, doomed, slots) = Default::default();
        let (taken, given, chunks, unmade) = Default::default();
        Settlement {
            arena,
            ledger,
            change,
            freed,
            doomed,
            slots,
            taken,
            given,
            chunks,
            unmade,
            must_note: false,
            keeps_chunks: false,
            is_finished: false,
            _relief: relief,
        }
    }

    fn get(&self, bits: u64, index: usize) -> Result<u64, Error> {
        self.change.get(self.arena, bits, index)
    }

    /// Changes the counts by what the transaction has added and removed.
    pub(crate) fn count(&mut self, deltas: &Keyed<i64>) -> Result<(), Error> {
        let mut zero: Vec<u64> = Vec::new();
        for (bits, &delta) in deltas.iter() {
            let (_, count) = self.add(bits, delta)?;
            if count == 0 {
                zero.push(bits);
            } else if delta > 0 && !self.change.is_fresh(bits) {
                self.clear_slot(bits);
            }
        }
        // What is new has no place in the dead-on-open list.
        let is_unlinked = |(_, words): &(u64, &[u64])| low_of(words[HEAD]) == 0;
        zero.extend(self.change.fresh().filter(is_unlinked).map(|(bits, _)| bits));
        while let Some(bits) = zero.pop() {
            if self.unmade.has(bits) {
                continue;
            }
            if !self.change.is_fresh(bits) {
                self.let_go(bits)?;
                continue;
            }
            let word = self.get(bits, HEAD)?;
            if low_of(word) == 0 && self.arena.handles.doom(bits) {
                self.drop_fresh(bits, kind_of(word), &mut zero)?;
            } else if low_of(word) == 0 {
                self.take_slot(bits)?;
            }
        }
        Ok(())
    }

    /// Changes the counts, where memory is managed by hand: frees what the program has freed, to which nothing refers, and the proxies
    /// that it cannot see. Their space is the hand's: nothing is stored there by this change.
    pub(crate) fn free_by_hand(
        &mut self,
        deltas: &Keyed<i64>,
        hand: &mut Hand,
    ) -> Result<(), Error> {
        self.must_note = !hand.is_empty();
        for &bits in hand.freed() {
            if self.change.is_fresh(bits) {
                self.change.unmake(bits);
                self.unmade.add(bits);
                continue;
            }
            let kind = kind_of(self.get(bits, HEAD)?);
            self.end(bits, kind)?;
        }
        let is_freed: FxHashSet<u64> = hand.freed().iter().copied().collect();
        for (bits, &delta) in deltas.iter().filter(|(bits, _)| !is_freed.contains(bits)) {
            if hand.is_gone(bits) {
                return Err(Error::Freed);
            }
            let (kind, count) = self.add(bits, delta)?;
            if count > 0 && delta > 0 {
                self.clear_slot(bits);
            } else if count == 0 && self.arena.handles.is_held(bits) {
                self.take_slot(bits)?;
            } else if count == 0 && kind == TYPE_PROXY {
                self.end(bits, kind)?;
                hand.free_proxy(bits);
            }
        }
        // Their space may be another tenant's next, and an older operation may still name a word of it.
        self.must_note |= !hand.freed_proxies().is_empty();
        for &bits in hand.freed().iter().chain(hand.freed_proxies()) {
            self.change.forget(bits);
        }
        Ok(())
    }

    /// An object of the heap ends, without the chain of the doomed.
    fn end(&mut self, bits: u64, kind: u16) -> Result<(), Error> {
        self.arena.handles.doom(bits);
        self.doomed.add(bits);
        self.end_weak(bits, kind)?;
        self.clear_slot(bits);
        Ok(())
    }

    /// Adds to a count; the type, and the count.
    fn add(&mut self, bits: u64, delta: i64) -> Result<(u16, u64), Error> {
        let word = self.get(bits, HEAD)?;
        let count = low_of(word).checked_add_signed(delta);
        let damaged = Error::Damaged { what: "a count", offset: Object::from_bits(bits).offset() };
        let count = count.ok_or(damaged)?;
        self.ledger.candidates.counted(bits, delta);
        if delta != 0 {
            self.change.set(bits, HEAD, head(kind_of(word), count));
        }
        Ok((kind_of(word), count))
    }

    /// A new object that nothing refers to: as if it had not been made.
    fn drop_fresh(&mut self, bits: u64, kind: u16, zero: &mut Vec<u64>) -> Result<(), Error> {
        for (_, child) in self.pointers(bits, kind)? {
            let (_, count) = self.add(child, -1)?;
            if count == 0 {
                zero.push(child);
            }
        }
        self.end_weak(bits, kind)?;
        self.change.unmake(bits);
        self.unmade.add(bits);
        Ok(())
    }

    /// An object of the heap: if its count is 0 it is an orphan, or doomed.
    fn let_go(&mut self, bits: u64) -> Result<(), Error> {
        let word = self.get(bits, HEAD)?;
        if low_of(word) != 0 || self.doomed.has(bits) {
            return Ok(());
        }
        if !self.arena.handles.doom(bits) {
            return self.take_slot(bits);
        }
        self.doomed.add(bits);
        self.clear_slot(bits);
        self.end_weak(bits, kind_of(word))?;
        let root = self.arena.root();
        let next = self.get(root, ROOT_DOOMED)?;
        self.change.set(bits, HEAD, head(kind_of(word), next));
        self.change.set(root, ROOT_DOOMED, bits);
        Ok(())
    }

    /// Weak pointers to the object give none from here on; a proxy is its object's no more.
    pub(crate) fn end_weak(&mut self, bits: u64, kind: u16) -> Result<(), Error> {
        if let Some((other, back)) = proxy::other(self.arena, self.change, bits, kind)? {
            self.change.set(other, back, 0);
            let place = if kind == TYPE_PROXY { PROXY_TARGET } else { PROXY };
            self.change.set(bits, place, 0);
        }
        Ok(())
    }

    /// The last pointer of the program to an orphan was dropped.
    pub(crate) fn drop_orphan(&mut self, bits: u64) -> Result<(), Error> {
        match self.arena.handles.slot(bits) {
            Some(_) => self.let_go(bits),
            None => Ok(()),
        }
    }

    fn place(&self, slot: u32) -> (u64, usize) {
        let (chunk, index) = (slot as usize / CHUNK_SLOTS, slot as usize % CHUNK_SLOTS);
        (self.ledger.chunks.get(chunk).copied().unwrap_or_default(), index + 1)
    }

    /// The place of an object in the dead-on-open list, when the change is made.
    fn slot(&self, bits: u64) -> Option<u32> {
        let changed = self.slots.get(bits).copied();
        changed.unwrap_or_else(|| self.arena.handles.slot(bits))
    }

    fn take_slot(&mut self, bits: u64) -> Result<(), Error> {
        if self.slot(bits).is_some() {
            return Ok(());
        }
        if let Some(slot) = self.arena.handles.slot(bits) {
            // It was to lose its place, and keeps it.
            self.slots.remove(bits);
            self.given.remove(&slot);
            let (chunk, index) = self.place(slot);
            self.change.set(chunk, index, bits);
            return Ok(());
        }
        if self.ledger.free.is_empty() {
            if self.keeps_chunks {
                // It is left to a step of its own.
                return Err(Error::Aborted);
            }
            self.add_chunk()?;
        }
        let slot = self.ledger.free.pop().unwrap_or_default();
        self.taken.push(slot);
        let (chunk, index) = self.place(slot);
        self.change.set(chunk, index, bits);
        self.slots.insert(bits, Some(slot));
        Ok(())
    }

    fn clear_slot(&mut self, bits: u64) {
        let Some(slot) = self.slot(bits) else { return };
        // It is linked, and may be so by what it refers to.
        self.ledger.candidates.add(bits);
        let (chunk, index) = self.place(slot);
        self.change.set(chunk, index, 0);
        self.given.insert(slot);
        self.slots.insert(bits, None);
    }

    fn add_chunk(&mut self) -> Result<(), Error> {
        let chunk = self.arena.take(CHUNK_WORDS as u64)?.to_bits();
        let root = self.arena.root();
        let mut words = vec![0; CHUNK_WORDS];
        words[CHUNK_BEFORE] = self.get(root, ROOT_ORPHANS)?;
        self.change.make(chunk, words);
        self.change.set(root, ROOT_ORPHANS, chunk);
        let first = (self.ledger.chunks.len() * CHUNK_SLOTS) as u32;
        self.ledger.chunks.push(chunk);
        self.ledger.free.extend((first..first + CHUNK_SLOTS as u32).rev());
        self.chunks.push(chunk);
        Ok(())
    }

    /// The chunks that were added are none.
    fn drop_chunks(&mut self) {
        if self.chunks.is_empty() {
            return;
        }
        let count = self.ledger.chunks.len() - self.chunks.len();
        self.ledger.chunks.truncate(count);
        let first = (count * CHUNK_SLOTS) as u32;
        self.taken.retain(|slot| *slot < first);
        self.ledger.free.retain(|slot| *slot < first);
        for chunk in self.chunks.drain(..) {
            self.arena.pool.free_unused(Object::from_bits(chunk));
        }
    }

    /// The pointers of an object, each with its place.
    pub(crate) fn pointers(&self, bits: u64, kind: u16) -> Result<Vec<(u64, u64)>, Error> {
        let mut found = Vec::new();
        let word = |index: u64| self.get(bits, index as usize).unwrap_or_default();
        self.arena.types.pointers(kind, &word, &mut |at, child| found.push((at, child)));
        Ok(found)
    }

    /// Destroys what waits for it, as much as one operation holds.
    pub(crate) fn destroy(&mut self) -> Result<(), Error> {
        let (root, mut seen) = (self.arena.root(), FxHashSet::default());
        let most = WORDS_MAX.min(self.arena.pool.operation_words(0) / 4);
        loop {
            let bits = self.get(root, ROOT_DOOMED)?;
            if bits == 0 || self.change.len() >= most.max(1) {
                return Ok(());
            }
            if self.destroy_first(bits)? {
                self.change.forget(bits);
                if !seen.insert(bits) {
                    let offset = Object::from_bits(bits).offset();
                    return Err(Error::Damaged { what: "the chain of the doomed", offset });
                }
            }
        }
    }

    /// Destroys the first of the chain, or a part of it; whether it is all of it.
    fn destroy_first(&mut self, bits: u64) -> Result<bool, Error> {
        let word = self.get(bits, HEAD)?;
        let is_all = self.take_apart(bits, kind_of(word))?;
        if is_all {
            // What it referred to has come before it in the chain.
            self.unchain(bits, low_of(word))?;
            self.freed.push(Object::from_bits(bits));
        }
        Ok(is_all)
    }

    /// Destroys all objects that the change dooms, if its operation has room for that; or none of them, and leaves them in the chain.
    pub(crate) fn destroy_own(&mut self) {
        if self.doomed.is_empty() {
            return;
        }
        let stage = self.begin_stage();
        // What is damaged is left to steps of its own.
        let are_destroyed = self.destroy_doomed().unwrap_or(false);
        self.end_stage(stage, are_destroyed);
    }

    /// Destroys the objects that the change dooms, as far as there is room; whether there was.
    fn destroy_doomed(&mut self) -> Result<bool, Error> {
        let (root, len) = (self.arena.root(), self.change.len());
        // So that only a change that needs an extent without that has one, for which there may be no space.
        let held = self.arena.pool.operation_words(self.change.fresh().count());
        let most = if len < LANE_WORDS { LANE_WORDS.min(len + WORDS_MAX) } else { len + WORDS_MAX };
        loop {
            let first = self.get(root, ROOT_DOOMED)?;
            if !self.doomed.has(first) {
                return Ok(self.change.len() <= held || len > held);
            }
            // What is new is written by this operation.
            if self.change.len() >= most || self.change.is_fresh(first) {
                return Ok(false);
            }
            self.destroy_first(first)?;
        }
    }

    fn begin_stage(&mut self) -> Stage {
        self.change.begin_trial();
        self.keeps_chunks = true;
        let (freed, doomed, taken) = (self.freed.len(), self.doomed.len(), self.taken.len());
        Stage { freed, doomed, taken, slots: self.slots.clone(), given: self.given.clone() }
    }

    /// What was done since then stays, or is not done.
    fn end_stage(&mut self, stage: Stage, stays: bool) {
        self.keeps_chunks = false;
        self.change.end_trial(stays);
        if stays {
            return;
        }
        self.freed.truncate(stage.freed);
        for bits in self.doomed.split_off(stage.doomed) {
            self.arena.handles.end_doom(bits, false);
        }
        self.ledger.free.extend(self.taken.drain(stage.taken..));
        (self.slots, self.given) = (stage.slots, stage.given);
    }

    /// Takes an object out of the chain, that is there behind what came in since it was the first.
    fn unchain(&mut self, bits: u64, next: u64) -> Result<(), Error> {
        let root = self.arena.root();
        let mut at = self.get(root, ROOT_DOOMED)?;
        if at == bits {
            self.change.set(root, ROOT_DOOMED, next);
            return Ok(());
        }
        for _ in 0..self.doomed.len() {
            let word = self.get(at, HEAD)?;
            if low_of(word) == bits {
                self.change.set(at, HEAD, head(kind_of(word), next));
                return Ok(());
            }
            at = low_of(word);
        }
        Err(Error::Damaged { what: "the chain of the doomed", offset: 0 })
    }

    /// Lowers the counts of what an object refers to, and takes the pointers out unless that is all of them; whether it is.
    pub(crate) fn take_apart(&mut self, bits: u64, kind: u16) -> Result<bool, Error> {
        let entry = self.arena.types.entry(kind);
        if let Some(Shape::Slice(shape)) = entry.map(|entry| &entry.shape) {
            return self.take_slice_apart(bits, shape);
        }
        let words = self.arena.types.words(kind).unwrap_or_default();
        self.check_inside(bits, words.saturating_sub(BODY as u64))?;
        let pointers = self.pointers(bits, kind)?;
        let most = self.pointers_max();
        let is_all = pointers.len() <= most;
        for (at, child) in pointers.into_iter().take(most) {
            self.lower(child, 1)?;
            if !is_all {
                self.change.set(bits, at as usize, 0);
            }
        }
        Ok(is_all)
    }

    /// Pointers of one object that a step looks at: so that most steps need no extent.
    fn pointers_max(&self) -> usize {
        (self.arena.pool.operation_words(0) / 3).clamp(1, POINTERS_MAX)
    }

    /// An object has so many words of fields.
    fn check_inside(&self, bits: u64, words: u64) -> Result<(), Error> {
        let object = Object::from_bits(bits);
        if words.saturating_add(BODY as u64).saturating_mul(8) > object.size() {
            return Err(Error::Damaged {
                what: "the length of an object",
                offset: object.offset(),
            });
        }
        Ok(())
    }

    /// A slice loses elements at its end.
    fn take_slice_apart(&mut self, bits: u64, shape: &Shape) -> Result<bool, Error> {
        let (len, words) = (self.get(bits, BODY)?, shape.words().max(1));
        if !shape.has_pointers() {
            return Ok(true);
        }
        self.check_inside(bits, len.saturating_mul(words).saturating_add(1))?;
        let first = len.saturating_sub(self.pointers_max() as u64);
        let mut found = Vec::new();
        for index in first..len {
            let word = |at: u64| self.get(bits, at as usize).unwrap_or_default();
            let at = BODY as u64 + 1 + index * words;
            shape.pointers(at, &word, &mut |_, child| found.push(child));
        }
        found.into_iter().try_for_each(|child| self.lower(child, 1))?;
        if first > 0 {
            self.change.set(bits, BODY, first);
        }
        Ok(first == 0)
    }

    /// So many pointers fewer refer to an object.
    pub(crate) fn lower(&mut self, bits: u64, by: u64) -> Result<(), Error> {
        let (_, count) = self.add(bits, -(by as i64))?;
        if count == 0 { self.let_go(bits) } else { Ok(()) }
    }

    /// An object is free when the change is made: nothing refers to it then.
    pub(crate) fn free(&mut self, bits: u64) {
        self.freed.push(Object::from_bits(bits));
    }

    /// Makes the change: durable in the sense of the next sync, or not made at all.
    ///
    /// # Errors
    /// Those of the pool: nothing has changed then.
    pub(crate) fn make(mut self) -> Result<(), Error> {
        self.store()?;
        self.finish(true);
        Ok(())
    }

    /// The change is not made.
    pub(crate) fn give_up(self) {
        drop(self);
    }

    fn finish(&mut self, is_made: bool) {
        self.is_finished = true;
        for bits in std::mem::take(&mut self.doomed).iter() {
            if is_made {
                self.ledger.remove(bits);
            }
            self.arena.handles.end_doom(bits, is_made);
        }
        for bits in self.unmade.iter() {
            self.ledger.remove(bits);
        }
        if !is_made {
            self.change.fresh().for_each(|(bits, _)| self.ledger.remove(bits));
            self.drop_chunks();
            self.ledger.free.append(&mut self.taken);
            return;
        }
        if self.ledger.candidates.marking.is_some() {
            self.change.fresh().for_each(|(bits, _)| self.ledger.candidates.made(bits));
        }
        self.ledger.free.extend(&self.given);
        for (bits, &slot) in self.slots.iter() {
            if self.arena.handles.set_slot(bits, slot) {
                self.arena.drop_later(bits);
            }
        }
    }

    /// Writes the new objects and commits.
    fn store(&mut self) -> Result<(), Error> {
        for object in &self.freed {
            // An entry that names a word of it would be stored again where it is another's.
            self.change.forget(object.to_bits());
        }
        let mut buffers = std::mem::take(&mut self.change.buffers);
        let stored = self.store_from(&mut buffers);
        self.change.buffers = buffers;
        stored
    }

    fn store_from(&mut self, buffers: &mut Buffers) -> Result<(), Error> {
        let words = &mut buffers.words;
        // What was changed there and back again need not be stored.
        let region = self.arena.pool.region();
        let is_there = |at: u64, word| region.words(at, 1).is_ok_and(|at| at[0].load() == word);
        self.change.sorted(is_there, words);
        if words.is_empty() {
            if self.change.fresh().next().is_none() && self.freed.is_empty() && !self.must_note {
                return Ok(());
            }
            // New objects that only new objects and the program refer to, or space that is used again and that operations name which are
            // true still: a word is stored that stays as it is.
            let root = Object::from_bits(self.arena.root());
            let doomed = self.arena.root_word(ROOT_DOOMED)?;
            words.push([root.offset() + 8 * ROOT_DOOMED as u64, doomed]);
        }
        self.commit(buffers)
    }

    fn commit(&mut self, buffers: &mut Buffers) -> Result<(), Error> {
        let Buffers { words, bytes, contents } = buffers;
        let (pool, id) = (&self.arena.pool, self.arena.entry.id);
        let lines: u64 = self.change.fresh().map(|(_, words)| words.len() as u64 / 8 + 2).sum();
        let extent = words.len() as u64 * 16;
        let lines = lines + words.len() as u64 + extent / 64 + 1;
        let needs_extent = words.len() > pool.operation_words(self.change.fresh().count());
        let room = if needs_extent { extent } else { 0 };
        let operation = pool.operation(id, room, lines / 2 + 1)?;
        contents.clear();
        // What they are written with releases nothing where it is not `asm!`: see `Ownership::is_still`.
        fence(Ordering::Release);
        for (bits, words) in self.change.fresh() {
            let offset = Object::from_bits(bits).offset();
            bytes.clear();
            words.iter().for_each(|word| bytes.extend_from_slice(&word.to_le_bytes()));
            // ORDER: a new object is durable, by its checksum, before the words that refer to it.
            pool.region().write("heap.object.write", offset, &[bytes])?;
            contents.push(operation.content(offset, bytes));
        }
        match self.freed.is_empty() && !self.must_note {
            true => operation.commit_words(words, contents)?,
            // Others get space that earlier operations name.
            false => operation.commit_words_settled(words, contents)?,
        }
        pool.free_all(self.freed.drain(..));
        Ok(())
    }
}

impl Drop for Settlement<'_> {
    fn drop(&mut self) {
        if !self.is_finished {
            // What was written is another's to overwrite when the ledger is unlocked, or its space is given back.
            self.arena.pool.region().hand_over();
            self.arena.pool.give_up([]);
            self.finish(false);
        }
    }
}
