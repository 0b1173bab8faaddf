//! What a use of the layer BASE has freed: space that stays its own until it ends.
//!
//! Pointers of that layer are offsets, so a program can keep one to what it has freed. Such a pointer is harmless while the space
//! holds nothing but objects of the heap: it gives [`Error::Freed`](crate::Error::Freed), or, when another object was made in its place,
//! that object, or `WrongType`. The pool gets the space back when the use ends, and the pointers with it.

use rustc_hash::{FxHashMap, FxHashSet};
use tembo_pool::Object;

use crate::arena::Arena;

/// What was freed. Empty in the other layers.
#[derive(Default)]
pub(crate) struct Hand {
    /// Since the last checkpoint: their space holds what that checkpoint has until the next one.
    freed: Vec<u64>,
    /// No objects any more, or never committed.
    gone: FxHashSet<u64>,
    /// Proxies that were freed since the last checkpoint.
    freed_proxies: Vec<u64>,
    /// Space of proxies. A weak pointer that is left differs from one to an object only by the place it names, so nothing else gets there.
    proxies: Vec<u64>,
    /// Space for objects, by size.
    spare: FxHashMap<u64, Vec<u64>>,
    /// Some of that was used again.
    has_reused: bool,
}

impl Hand {
    /// Nothing was freed since the last checkpoint.
    pub(crate) fn is_empty(&self) -> bool {
        self.freed.is_empty()
    }

    /// Objects that were freed since the last checkpoint.
    pub(crate) fn freed(&self) -> &[u64] {
        &self.freed
    }

    /// Whether a pointer that was left may name another object than it did.
    pub(crate) fn has_reused(&self) -> bool {
        self.has_reused
    }

    pub(crate) fn is_gone(&self, bits: u64) -> bool {
        !self.gone.is_empty() && self.gone.contains(&bits)
    }

    /// Frees an object.
    pub(crate) fn free(&mut self, bits: u64) {
        self.gone.insert(bits);
        self.freed.push(bits);
    }

    /// Frees a proxy.
    pub(crate) fn free_proxy(&mut self, bits: u64) {
        self.gone.insert(bits);
        self.freed_proxies.push(bits);
    }

    /// Proxies that were freed since the last checkpoint.
    pub(crate) fn freed_proxies(&self) -> &[u64] {
        &self.freed_proxies
    }

    /// Space for an object of so many words that was freed before.
    pub(crate) fn take(&mut self, words: u64) -> Option<Object> {
        if self.spare.is_empty() {
            return None;
        }
        let size = Object::size_for(words.saturating_mul(8))?;
        let bits = self.spare.get_mut(&size)?.pop()?;
        self.gone.remove(&bits);
        self.has_reused = true;
        Some(Object::from_bits(bits))
    }

    fn spare(&mut self, bits: u64) {
        self.spare.entry(Object::from_bits(bits).size()).or_default().push(bits);
    }

    /// The checkpoint is taken: nothing on media refers to what was freed.
    pub(crate) fn settle(&mut self) {
        for bits in std::mem::take(&mut self.freed) {
            self.spare(bits);
        }
        self.proxies.append(&mut self.freed_proxies);
    }

    /// There is no checkpoint: what was made since the last one is no object, and what was freed is one still.
    pub(crate) fn take_back(&mut self, made: &[u64]) {
        for bits in self.freed.drain(..).chain(self.freed_proxies.drain(..)) {
            self.gone.remove(&bits);
        }
        for &bits in made {
            self.gone.insert(bits);
            self.spare(bits);
        }
    }

    /// The use ends.
    pub(crate) fn give_back(&mut self, arena: &Arena) {
        if self.spare.is_empty() && self.proxies.is_empty() {
            return;
        }
        let spare = std::mem::take(&mut self.spare).into_values().flatten();
        let spare = spare.chain(std::mem::take(&mut self.proxies));
        arena.pool.free_all(spare.map(Object::from_bits));
    }
}
