//! What a benchmark works on, and what it consists of.

use crate::Error;
use crate::keys::Random;

/// How much of each thing a benchmark has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Form {
    /// Words in the array of words.
    pub(crate) cells: usize,
    /// Links in the array of links.
    pub(crate) heads: usize,
    /// Objects at most, about.
    pub(crate) objects: usize,
}

/// Objects that a way passes, about.
pub(super) const WAY: usize = 48;

/// See [`Memory::way`].
pub(crate) type Way<Link> = (Vec<(Link, usize)>, Option<Link>);

/// How a way goes on from an object.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Onward {
    /// Along a link.
    Link(usize),
    /// Not: the object of that number on the way, from 0 on, is what was sought.
    Found(usize),
}

/// Two arrays, and objects of `D` words and `L` links. What is done in one call of [`Store::atomic`] happens together.
pub(crate) trait Memory<const D: usize, const L: usize> {
    /// Refers to an object.
    type Link: Clone;
    type Fault;

    fn cell(&mut self, index: usize) -> Result<u64, Self::Fault>;
    fn set_cell(&mut self, index: usize, word: u64) -> Result<(), Self::Fault>;
    fn head(&mut self, index: usize) -> Result<Option<Self::Link>, Self::Fault>;
    fn set_head(&mut self, index: usize, to: Option<Self::Link>) -> Result<(), Self::Fault>;

    /// Makes an object.
    fn make(
        &mut self,
        data: [u64; D],
        links: [Option<Self::Link>; L],
    ) -> Result<Self::Link, Self::Fault>;

    /// All words of an object.
    fn data(&mut self, object: &Self::Link) -> Result<[u64; D], Self::Fault>;
    fn set_data(&mut self, object: &Self::Link, data: [u64; D]) -> Result<(), Self::Fault>;
    fn word(&mut self, object: &Self::Link, at: usize) -> Result<u64, Self::Fault>;
    fn set_word(&mut self, object: &Self::Link, at: usize, word: u64) -> Result<(), Self::Fault>;
    fn link(&mut self, object: &Self::Link, at: usize) -> Result<Option<Self::Link>, Self::Fault>;
    fn set_link(
        &mut self,
        object: &Self::Link,
        at: usize,
        to: Option<Self::Link>,
    ) -> Result<(), Self::Fault>;

    /// Goes from object to object, beginning where a link of the array leads. `next` is given the words of an object, and says which of its
    /// links is followed; `None`: that is the last one.
    fn visit(
        &mut self,
        head: usize,
        mut next: impl FnMut(&[u64; D]) -> Option<usize>,
    ) -> Result<(), Self::Fault> {
        let mut at = self.head(head)?;
        while let Some(object) = at {
            let data = self.data(&object)?;
            at = match next(&data) {
                Some(link) => self.link(&object, link)?,
                None => None,
            };
        }
        Ok(())
    }

    /// The same; the objects that were passed, each with the link that was followed, and the one for which `next` has said `None`, if there
    /// is one.
    fn way(
        &mut self,
        head: usize,
        mut next: impl FnMut(&[u64; D]) -> Option<usize>,
    ) -> Result<Way<Self::Link>, Self::Fault> {
        let (mut passed, mut at) = (Vec::with_capacity(WAY), self.head(head)?);
        while let Some(object) = at {
            let Some(link) = next(&self.data(&object)?) else { return Ok((passed, Some(object))) };
            at = self.link(&object, link)?;
            passed.push((object, link));
        }
        Ok((passed, None))
    }

    /// Goes so to an object, of which only what comes last on the way may say which one it is; `None`: the way has ended before.
    fn seek(
        &mut self,
        head: usize,
        mut next: impl FnMut(&[u64; D]) -> Onward,
    ) -> Result<Option<Self::Link>, Self::Fault> {
        let (mut passed, mut at) = (Vec::with_capacity(WAY), self.head(head)?);
        while let Some(object) = at {
            match next(&self.data(&object)?) {
                Onward::Link(link) => at = self.link(&object, link)?,
                Onward::Found(number) => {
                    passed.push(object);
                    return Ok(passed.into_iter().nth(number));
                }
            }
            passed.push(object);
        }
        Ok(None)
    }

    /// An object to which nothing refers any more. Where objects are freed by themselves it does nothing.
    fn free(&mut self, object: Self::Link) -> Result<(), Self::Fault>;
}

/// Entries by key, in a store that has a structure of its own. What is done in one call of a transaction happens together.
pub(crate) trait Keyed {
    type Fault;

    /// Whether there is an entry of that key; its value is put into `out`. `changes`: it will be changed.
    fn get(&mut self, key: u64, changes: bool, out: &mut Vec<u8>) -> Result<bool, Self::Fault>;
    fn put(&mut self, key: u64, value: &[u8]) -> Result<(), Self::Fault>;
    fn remove(&mut self, key: u64) -> Result<(), Self::Fault>;
}

/// What one thread does at once. It may be begun again, after a conflict.
pub(crate) trait Work<const D: usize, const L: usize> {
    /// Changes nothing.
    fn reads_only(&self) -> bool {
        false
    }

    /// What it answers: the same over all memories, if it is done in the same order.
    fn run<M: Memory<D, L>>(&mut self, memory: &mut M) -> Result<u64, M::Fault>;

    /// The same on entries.
    fn run_keyed<K: Keyed>(&mut self, entries: &mut K) -> Result<u64, K::Fault>;
}

/// What holds a memory.
pub(crate) trait Store<const D: usize, const L: usize>: Sync {
    /// Does all of a work: as the store promises, at once and durably.
    fn atomic<W: Work<D, L>>(&self, work: &mut W) -> Result<u64, Error>;

    /// It is filled. Before that it need not be durable.
    fn filled(&self) -> Result<(), Error> {
        Ok(())
    }
}

/// A benchmark.
pub(crate) trait Program<const D: usize, const L: usize>: Sync {
    type Work: Work<D, L>;

    fn name(&self) -> &'static str;
    fn form(&self) -> Form;
    /// Bytes that a user has put in, when it is filled.
    fn payload(&self) -> u64;
    /// How many works fill it, of which each has a number.
    fn filling(&self) -> usize;
    fn fill(&self, number: usize) -> Self::Work;
    /// A work, as chance has it; `number` counts them.
    fn work(&self, number: u64, random: &mut Random) -> Self::Work;
    /// Whether Berkeley DB's hash table does it, or its B-tree.
    fn is_hashed(&self) -> bool {
        false
    }
}

/// Numbers below `count`, a power of two, in an order without a pattern that a tree would notice: each once.
pub(super) fn scattered(number: u64, count: u64) -> u64 {
    number.wrapping_mul(0x9e37_79b9_7f4a_7c15) & (count - 1)
}
