//! Reads of objects that the transaction has not touched: most of all reads, each one look at the object's words.
//!
//! The record, the head, the words and the record again are looked at in one go, and the words are copied to the stack. Whatever is not as
//! most reads find it (the transaction has changed the object, its record is owned, newer than the beginning, or a type is looked at for the
//! first time) is left to the closer look of [`access`](crate::access), which also finds the error.

use tembo_pmem::Word;

use crate::Error;
use crate::access::{Access, Company};
use crate::format::{BODY, HEAD, kind_of};
use crate::layer::Layer;
use crate::ownership::Ownership;
use crate::persist::{Persist, Reader};

/// An object's words up to those that are read, and the version under which they are.
pub(crate) struct Plain<'h> {
    pub(crate) words: &'h [Word],
    index: usize,
    version: u64,
}

impl<'h, L: Layer> Access<'h, L> {
    /// Words of an object of the type that `mark` stands for, up to `end`. `None`: it needs a closer look.
    #[inline]
    pub(crate) fn plain(&self, bits: u64, mark: u64, end: u64) -> Option<Plain<'h>> {
        if self.notes.change.has_touched(bits) || (!L::COUNTS && self.hand.is_gone(bits)) {
            return None;
        }
        let kind = self.notes.kinds.get(mark)?;
        let (mut index, mut version) = (0, 0);
        if self.company == Company::Others {
            index = Ownership::index(bits);
            version = self.arena.ownership.version(index)?;
            if version > self.start {
                return None;
            }
        }
        let words = self.arena.first_words(bits, end)?;
        (kind_of(words[HEAD].load()) == kind).then_some(Plain { words, index, version })
    }

    /// Whether the words were of one version when they were loaded. Notes that they were read.
    #[inline]
    pub(crate) fn is_plain_still(&mut self, plain: &Plain<'_>) -> bool {
        if self.company == Company::Alone {
            return true;
        }
        let is_still = self.arena.ownership.is_still(plain.index, plain.version);
        if is_still {
            self.notes.read.insert(plain.index, plain.version);
        }
        is_still
    }

    /// The value at a word of the fields of an object. `None`: it needs a closer look.
    #[inline]
    pub(crate) fn load_plain<F: Persist<'h>>(
        &mut self,
        bits: u64,
        mark: u64,
        at: u64,
    ) -> Option<Result<F, Error>> {
        self.decode_settled(bits, mark, at, None)
    }

    /// The value in a cell of a slice. `None`: it needs a closer look.
    #[inline]
    pub(crate) fn cell_plain<F: Persist<'h>>(
        &mut self,
        bits: u64,
        mark: u64,
        index: u64,
    ) -> Option<Result<F, Error>> {
        let at = index.saturating_mul(F::WORDS).saturating_add(1);
        self.decode_settled(bits, mark, at, Some(index))
    }

    /// As [`decode_plain`](Access::decode_plain), of an object that may not be one of the heap yet.
    #[inline]
    fn decode_settled<F: Persist<'h>>(
        &mut self,
        bits: u64,
        mark: u64,
        at: u64,
        cell: Option<u64>,
    ) -> Option<Result<F, Error>> {
        if L::COUNTS && !self.arena.handles.is_settled(bits) {
            return None;
        }
        self.decode_plain(bits, mark, at, cell)
    }

    /// The same of an object that is known to be one of the heap; of the cell of that index, if there is one.
    #[inline]
    pub(crate) fn decode_plain<F: Persist<'h>>(
        &mut self,
        bits: u64,
        mark: u64,
        at: u64,
        cell: Option<u64>,
    ) -> Option<Result<F, Error>> {
        match F::WORDS {
            0..=1 => self.decoded::<F, 1>(bits, mark, at, cell),
            2..=4 => self.decoded::<F, 4>(bits, mark, at, cell),
            5..=8 => self.decoded::<F, 8>(bits, mark, at, cell),
            9..=16 => self.decoded::<F, 16>(bits, mark, at, cell),
            _ => None,
        }
    }

    /// `ROOM`: words of a value at most.
    #[inline(always)]
    fn decoded<F: Persist<'h>, const ROOM: usize>(
        &mut self,
        bits: u64,
        mark: u64,
        at: u64,
        cell: Option<u64>,
    ) -> Option<Result<F, Error>> {
        let first = at.saturating_add(BODY as u64);
        let plain = self.plain(bits, mark, first.saturating_add(F::WORDS))?;
        if let Some(index) = cell
            && index >= plain.words.get(BODY)?.load()
        {
            return None;
        }
        let words = plain.words.get(first as usize..)?;
        let mut copied = [0; ROOM];
        for (to, word) in copied.iter_mut().zip(words) {
            *to = word.load();
        }
        let words = copied.get(..F::WORDS as usize)?;
        let value = F::read(&mut Reader::new(words, self.arena, L::COUNTS));
        if !self.is_plain_still(&plain) || matches!(value, Err(Error::Conflict)) {
            return Some(self.conflict());
        }
        Some(value)
    }
}
