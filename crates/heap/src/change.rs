//! A change of words that is not made yet: what a transaction, or a step of destruction, would store.

use rustc_hash::FxHashMap;
use tembo_pool::Object;

use crate::Error;
use crate::arena::Arena;

/// Words of objects by their offset, and objects that nothing on media refers to yet.
#[derive(Default)]
pub(crate) struct Change {
    words: FxHashMap<u64, u64>,
    fresh: FxHashMap<u64, Vec<u64>>,
    /// Objects as newer versions of their types, where nothing can be stored. They may be larger than on media.
    shown: FxHashMap<u64, Vec<u64>>,
}

impl Change {
    /// A word as it would be.
    pub(crate) fn get(&self, arena: &Arena, bits: u64, index: usize) -> Result<u64, Error> {
        if let Some(words) = self.fresh.get(&bits).or_else(|| self.shown.get(&bits)) {
            let outside = || Error::Damaged { what: "a field", offset: 8 * index as u64 };
            return words.get(index).copied().ok_or_else(outside);
        }
        match self.words.get(&at(bits, index)) {
            Some(&word) => Ok(word),
            None => arena.word(bits, index),
        }
    }

    /// Words as they would be, one after another, behind what `to` has.
    pub(crate) fn read(
        &self,
        arena: &Arena,
        bits: u64,
        first: usize,
        count: usize,
        to: &mut Vec<u64>,
    ) -> Result<(), Error> {
        let is_whole = self.fresh.contains_key(&bits) || self.shown.contains_key(&bits);
        if is_whole || !self.words.is_empty() {
            for index in first..first + count {
                to.push(self.get(arena, bits, index)?);
            }
            return Ok(());
        }
        to.extend(arena.words(bits, first, count)?.iter().map(|word| word.load()));
        Ok(())
    }

    /// Has a word stored. Of an object that is no new one the caller has checked that the word is in it.
    pub(crate) fn set(&mut self, bits: u64, index: usize, word: u64) {
        match self.fresh.get_mut(&bits).or_else(|| self.shown.get_mut(&bits)) {
            Some(words) => {
                if let Some(place) = words.get_mut(index) {
                    *place = word;
                }
            }
            None => {
                self.words.insert(at(bits, index), word);
            }
        }
    }

    /// A new object of these words.
    pub(crate) fn make(&mut self, bits: u64, words: Vec<u64>) {
        self.fresh.insert(bits, words);
    }

    /// An object is read as these words, which are never stored.
    pub(crate) fn show(&mut self, bits: u64, words: Vec<u64>) {
        self.shown.insert(bits, words);
    }

    /// A new object is not needed.
    pub(crate) fn unmake(&mut self, bits: u64) {
        self.fresh.remove(&bits);
    }

    pub(crate) fn is_fresh(&self, bits: u64) -> bool {
        self.fresh.contains_key(&bits)
    }

    /// The new objects.
    pub(crate) fn fresh(&self) -> impl Iterator<Item = (u64, &[u64])> {
        self.fresh.iter().map(|(bits, words)| (*bits, words.as_slice()))
    }

    /// The words of an object need not be stored: it is freed.
    pub(crate) fn forget(&mut self, bits: u64) {
        let object = Object::from_bits(bits);
        let inside = object.offset()..object.offset() + object.size();
        if object.size() / 8 < self.words.len() as u64 {
            inside.step_by(8).for_each(|offset| {
                self.words.remove(&offset);
            });
        } else {
            self.words.retain(|offset, _| !inside.contains(offset));
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.words.is_empty() && self.fresh.is_empty()
    }

    /// How many words are to be stored.
    pub(crate) fn len(&self) -> usize {
        self.words.len()
    }

    /// The words that are to be stored, in the order of their offsets.
    pub(crate) fn sorted(&self) -> Vec<(u64, u64)> {
        let mut words: Vec<(u64, u64)> = self.words.iter().map(|(at, word)| (*at, *word)).collect();
        words.sort_unstable();
        words
    }
}

fn at(bits: u64, index: usize) -> u64 {
    Object::from_bits(bits).offset() + 8 * index as u64
}
