//! An operation on the pool's log: its entries, its changes, and how it commits or aborts.

use tembo_pmem::thread::lock;
use tembo_pmem::{Region, Section, Word};
use zerocopy::IntoBytes;

use super::entry::{Found, Intent};
use super::lanes::{Lane, Log, Made};
use super::recover::{check, flush, lines, place, store};
use super::shape::{State, WORDS_BESIDE, advance, content_words};
use crate::format::{
    ENTRY_CONTENT, ENTRY_EXTENT, ENTRY_INTENT, ENTRY_REDO, ENTRY_SEAL, ENTRY_UNDO, EntryPlace,
    entry_head,
};
use crate::space::Space;
use crate::{Error, OBJECT_SIZE_MAX, Object, TenantId};

/// A change of several words that is made whole or not at all, whatever interrupts it. If it is dropped, it is taken back.
///
/// It does not keep other threads away: the caller protects the words by its own locks until the operation has ended. The
/// tenant does not stand [still](crate::Tenant::quiesce) meanwhile.
#[must_use]
pub struct Operation<'p> {
    space: &'p Space,
    made: &'p Made,
    tenant: TenantId,
    lane: Lane,
    /// The lane's entries, how many of their words are written, and the last checksum.
    entries: Vec<u64>,
    written: usize,
    chain: u32,
    undo: Vec<(u64, u64)>,
    redo: Vec<(u64, u64)>,
    intents: Vec<Intent>,
    allocated: Vec<Object>,
    freed: Vec<Object>,
    is_over: bool,
    _section: Section<'p>,
}

/// What holds when words are committed.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Ending {
    /// The operation is whole: its words are durable by its entries.
    Sealed,
    /// The words are durable where they belong, and the entries of all operations before it are void.
    Settled,
}

impl Log {
    /// Begins an operation that allocates at most `bytes` and changes words in at most `lines` lines.
    #[inline]
    pub(crate) fn begin<'p>(
        &'p self,
        space: &'p Space,
        tenant: TenantId,
        bytes: u64,
        lines: u64,
    ) -> Result<Operation<'p>, Error> {
        let made = self.made().ok_or(Error::Damaged { field: "log", word: 0 })?;
        // An entry has three words at least, and may begin in a line that was flushed before. What is changed may be
        // restored.
        let own = made.shape.words() as u64 * 2 / 3 + 4 + made.shape.lanes as u64;
        // The words of the operation before are flushed beside the entries of this one.
        let before = made.shape.words() as u64 / 2;
        let _section = space.reserve(bytes, lines * 2 + own + before)?;
        let (lane, entries) = made.take()?;
        Ok(Operation {
            space,
            made,
            tenant,
            lane,
            entries,
            written: 0,
            chain: 0,
            undo: Vec::new(),
            redo: Vec::new(),
            intents: Vec::new(),
            allocated: Vec::new(),
            freed: Vec::new(),
            is_over: false,
            _section,
        })
    }

    /// Takes over the tenant's intents that are not done and have no handle.
    pub(crate) fn unfinished<'p>(
        &'p self,
        space: &'p Space,
        tenant: TenantId,
    ) -> Result<Vec<Committed<'p>>, Error> {
        let Some(made) = self.made() else { return Ok(Vec::new()) };
        let mut taken = Vec::new();
        let mut unfinished = lock(&made.unfinished);
        for lane in std::mem::take(&mut *unfinished) {
            let state = made.shape.state(&space.region, lane)?;
            let intents = Found::read(&space.region, &made.shape, lane, state)?.intents;
            if intents.iter().any(|intent| intent.tenant == tenant) {
                taken.push(Committed { space, made, lane, number: state.number, intents });
            } else {
                unfinished.push(lane);
            }
        }
        Ok(taken)
    }
}

impl<'p> Operation<'p> {
    fn region(&self) -> &'p Region {
        &self.space.region
    }

    /// Takes space for an object, as [`Pool::alloc`](crate::Pool::alloc); given back if the operation does not commit. A word that the operation
    /// changes must refer to it, and its content must be flushed before the commit.
    ///
    /// # Errors
    /// As [`Pool::alloc`](crate::Pool::alloc).
    pub fn alloc(&mut self, size: u64) -> Result<Object, Error> {
        let object = self.space.alloc(size)?;
        self.allocated.push(object);
        Ok(object)
    }

    /// Gives an object back when the operation has committed, which makes it unreachable.
    pub fn free(&mut self, object: Object) {
        self.freed.push(object);
    }

    /// Notes the old content of these words. Then the caller may store to them and flush them in place. One fence, unless all
    /// were noted before.
    ///
    /// # Errors
    /// [`Error::OperationTooLarge`], [`Error::NoSuchWord`]: nothing more is noted.
    pub fn undo(&mut self, words: &[&Word]) -> Result<(), Error> {
        let region = self.region();
        let mut new: Vec<(u64, u64)> = Vec::new();
        for word in words {
            let offset = region.offset_of(word);
            check(region, offset)?;
            if !self.undo.iter().chain(&new).any(|(known, _)| *known == offset) {
                new.push((offset, word.load()));
            }
        }
        if new.is_empty() {
            return Ok(());
        }
        self.check_room(1 + 2 * new.len())?;
        self.append(ENTRY_UNDO, &flat(&new))?;
        self.write_entries()?;
        let voided = self.made.void_applied(region)?;
        // ORDER: the old words are durable before the new ones are stored, and what was committed before is not
        // stored again.
        region.fence("pool.log.undo.fence");
        voided.done();
        self.undo.extend(new);
        Ok(())
    }

    /// [Notes](Operation::undo) the old content of a word, stores the word in place and flushes it.
    ///
    /// # Errors
    /// As [`undo`](Operation::undo); then it is not stored.
    pub fn set(&mut self, word: &Word, value: u64) -> Result<(), Error> {
        self.undo(&[word])?;
        let region = self.region();
        region.store(word, value);
        // ORDER: the word is durable before the operation commits.
        region.flush("pool.log.set.flush", region.offset_of(word), 8);
        Ok(())
    }

    /// Lets the commit store a word. Until then the word is unchanged.
    ///
    /// # Errors
    /// As [`undo`](Operation::undo).
    pub fn redo(&mut self, word: &Word, value: u64) -> Result<(), Error> {
        let head = if self.redo.is_empty() { 2 } else { 0 };
        self.check_room(2 + head)?;
        let offset = self.region().offset_of(word);
        check(self.region(), offset)?;
        self.redo.push((offset, value));
        Ok(())
    }

    /// Notes work that is to be done after the commit, whatever interrupts it.
    ///
    /// # Errors
    /// As [`undo`](Operation::undo).
    pub fn intend(&mut self, code: u32, args: &[u64]) -> Result<(), Error> {
        self.check_room(2 + args.len())?;
        self.intents.push(Intent { tenant: self.tenant, code, args: args.to_vec() });
        Ok(())
    }

    /// Commits: the change is whole from here on, and fenced when this returns. What the operation frees is given back then.
    ///
    /// # Errors
    /// Of the region only, if it is damaged.
    pub fn commit(mut self) -> Result<Committed<'p>, Error> {
        let (region, lane) = (self.region(), self.lane);
        let is_noted = !(self.undo.is_empty() && self.redo.is_empty() && self.intents.is_empty());
        let is_committed = !self.intents.is_empty();
        for intent in self.intents.clone() {
            self.append(ENTRY_INTENT, &intent.words())?;
        }
        let redo = std::mem::take(&mut self.redo);
        if !redo.is_empty() {
            if !(self.undo.is_empty() && self.allocated.is_empty()) {
                // ORDER: what was changed in place, and new objects, are durable before the seal can be.
                region.fence("pool.log.content.fence");
            }
            self.append(ENTRY_REDO, &flat(&redo))?;
            self.append(ENTRY_SEAL, &[])?;
        }
        self.write_entries()?;
        let number = lane.number + u64::from(!lane.is_fresh);
        let mut next = number;
        if is_noted {
            let voided = self.made.void_applied(region)?;
            self.is_over = true;
            // ORDER: what the operation has changed in place, and what it notes, are durable before it commits.
            region.fence("pool.log.commit.fence");
            voided.done();
            if !redo.is_empty() {
                store(region, redo.iter().copied())?;
            }
            next += u64::from(!is_committed);
            advance(region, &self.made.shape, lane.index, State { number: next, is_committed })?;
            // ORDER: the operation is committed before the caller says so, and its entries are void before another
            // changes what they name.
            region.fence("pool.log.state.fence");
        }
        self.is_over = true;
        self.space.free_all(std::mem::take(&mut self.freed));
        if !is_committed {
            self.made.give_back(lane, is_noted, next);
        }
        let intents = std::mem::take(&mut self.intents);
        Ok(Committed { space: self.space, made: self.made, lane: lane.index, number, intents })
    }

    /// Commits an operation that has noted nothing: these words, each behind its offset, which is aligned and above the superblock, are stored
    /// where they belong. What [`contents`](Self::content) name was written and flushed before by the calling thread, and
    /// is durable if the words are. However many words there are: what no lane holds goes to an extent of its own, for which the
    /// operation was begun with 16 bytes for each word.
    ///
    /// One fence; two, where the region [gives pages back](Region::gives_pages_back); three, if the operation frees something or
    /// needs an extent. The words, and the contents, are changed later by operations
    /// only: the entries of this one are void when the second operation behind it is fenced, or one that notes what was there. So space that
    /// these entries name is no other's until one is [settled](Self::commit_words_settled).
    ///
    /// # Errors
    /// [`Error::PoolFull`], [`Error::TooLarge`], [`Error::NoSuchWord`]: nothing has changed. Of the region, if it is damaged.
    #[inline]
    pub fn commit_words(self, words: &[[u64; 2]], contents: &[[u64; 3]]) -> Result<(), Error> {
        self.commit_as(Ending::Sealed, words, contents)
    }

    /// As [`commit_words`](Self::commit_words); when it returns, the entries of all operations that have committed before are void. So space that
    /// they name, and the words of this one do not, may be another's. Two fences; three, if the operation frees something or needs an extent.
    ///
    /// # Errors
    /// As [`commit_words`](Self::commit_words).
    #[inline]
    pub fn commit_words_settled(
        self,
        words: &[[u64; 2]],
        contents: &[[u64; 3]],
    ) -> Result<(), Error> {
        self.commit_as(Ending::Settled, words, contents)
    }

    fn commit_as(
        mut self,
        ending: Ending,
        words: &[[u64; 2]],
        contents: &[[u64; 3]],
    ) -> Result<(), Error> {
        debug_assert!(self.undo.is_empty() && self.redo.is_empty() && self.intents.is_empty());
        if words.is_empty() {
            return self.commit()?.done();
        }
        let (region, made, lane) = (self.region(), self.made, self.lane);
        check_all(region, words, contents)?;
        let mut lanes = made.lanes();
        if content_words(contents.len()) > 0 {
            self.append(ENTRY_CONTENT, contents.as_flattened())?;
        } else if !contents.is_empty() {
            // ORDER: contents that no entry has the checksums of are durable before the seal can be.
            region.fence("pool.log.contents.fence");
        }
        let flat = words.as_flattened();
        let extent = if self.entries.len() + flat.len() + WORDS_BESIDE > made.shape.words() {
            Some(self.append_extent(flat)?)
        } else {
            self.append(ENTRY_REDO, flat)?;
            None
        };
        self.append(ENTRY_SEAL, &[lanes.next_sequence()])?;
        self.write_entries()?;
        lanes.flush_last(region);
        lanes.void_applied(region, &made.shape)?;
        self.is_over = true;
        // ORDER: the entries and the contents are durable before the words are stored; the words of the operation before are durable, and
        // the entries of those before that are void, before the entries of that one are.
        region.fence("pool.log.seal.fence");
        lanes.free_applied();
        lanes.settle_last();
        let pairs = words.iter().map(|&[offset, word]| (offset, word));
        place(region, pairs.clone())?;
        let number = lane.number + u64::from(!lane.is_fresh);
        let has_freed = !self.freed.is_empty() || extent.is_some();
        let is_kept = !has_freed && lanes.can_keep(&made.shape);
        lanes.keep_spare(std::mem::take(&mut self.entries));
        // A page that is given back between two sections would take the words with it that are not flushed: readers would
        // see the old ones, and so would the next operation, which flushes them.
        let may_wait = ending == Ending::Sealed && !region.gives_pages_back();
        if may_wait && is_kept {
            lanes.keep_last(lane.index, number, lines(pairs));
            return Ok(());
        }
        flush(region, lines(pairs));
        lanes.void_applied(region, &made.shape)?;
        // ORDER: the words are where they belong before the entries that name them are void, and the entries of earlier operations
        // are void before what they name is given to others.
        region.fence("pool.log.settle.fence");
        lanes.free_applied();
        if is_kept {
            lanes.keep_applied(lane.index, number);
            return Ok(());
        }
        let next = State { number: number + 1, is_committed: false };
        advance(region, &made.shape, lane.index, next)?;
        // ORDER: the entries are void before what they name is given to others.
        region.fence("pool.log.void.fence");
        self.space.free_all(std::mem::take(&mut self.freed).into_iter().chain(extent));
        lanes.give(lane.index, next.number);
        Ok(())
    }

    /// Writes words to an object of their own, and an entry that has their checksum.
    fn append_extent(&mut self, words: &[u64]) -> Result<Object, Error> {
        let object = self.alloc(words.len() as u64 * 8)?;
        let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        // ORDER: the extent is true by its checksum, and durable with the entry that has it.
        self.region().write("pool.log.extent", object.offset(), &[&bytes])?;
        let content = self.content(object.offset(), &bytes);
        self.append(ENTRY_EXTENT, &content)?;
        Ok(object)
    }

    /// Bytes that were written at an offset, as [`commit_words`](Self::commit_words) asks for them.
    pub fn content(&self, offset: u64, bytes: &[u8]) -> [u64; 3] {
        [offset, bytes.len() as u64, self.made.shape.checksum.of(bytes)]
    }

    /// Takes everything back: the words have their old contents, which are fenced.
    pub fn abort(self) {}

    /// Checks whether so many more words fit, beside all that the commit will write.
    fn check_room(&self, words: usize) -> Result<(), Error> {
        let redo = if self.redo.is_empty() { 0 } else { 2 + 2 * self.redo.len() };
        let intents: usize = self.intents.iter().map(|intent| 2 + intent.args.len()).sum();
        let used = self.entries.len();
        let (words, max) = (used + redo + intents + words, self.made.shape.words());
        if words > max {
            return Err(Error::OperationTooLarge { words: words as u64, max: max as u64 });
        }
        Ok(())
    }

    /// Adds an entry to those that are to be written.
    fn append(&mut self, kind: u64, words: &[u64]) -> Result<(), Error> {
        let (region, lane) = (self.region(), self.lane);
        let number = lane.number + u64::from(!lane.is_fresh);
        if self.entries.is_empty() && !lane.is_fresh {
            advance(region, &self.made.shape, lane.index, State { number, is_committed: false })?;
            // ORDER: the number is durable before entries carry it: the next process takes another one, and what is left
            // of these can never be true in it.
            region.fence("pool.log.begin.fence");
        }
        let place = EntryPlace { lane: lane.index, number, before: self.chain };
        let head = entry_head(self.made.shape.checksum, place, kind, words);
        self.entries.push(head);
        self.entries.extend_from_slice(words);
        self.chain = (head >> 32) as u32;
        Ok(())
    }

    /// Writes and flushes the entries that were not yet written.
    fn write_entries(&mut self) -> Result<(), Error> {
        let (words, max) = (self.entries.len(), self.made.shape.words());
        if words > max {
            return Err(Error::OperationTooLarge { words: words as u64, max: max as u64 });
        }
        let entries = &self.entries[self.written..];
        if !entries.is_empty() {
            let at = self.made.shape.entry_at(self.lane.index, self.written);
            // ORDER: the entries are durable before what they stand for is changed in place.
            self.region().write("pool.log.entry", at, &[entries.as_bytes()])?;
        }
        self.written = words;
        Ok(())
    }

    /// Restores the noted words, the last one first.
    fn restore(&self) -> Result<u64, Error> {
        let lane = self.lane;
        let number = lane.number + u64::from(!lane.is_fresh);
        if self.entries.is_empty() {
            return Ok(lane.number);
        }
        store(self.region(), self.undo.iter().rev().copied())?;
        let next = State { number: number + 1, is_committed: false };
        advance(self.region(), &self.made.shape, lane.index, next)?;
        // ORDER: the entries are void before another operation changes what they name.
        self.region().fence("pool.log.abort.fence");
        Ok(next.number)
    }
}

impl Drop for Operation<'_> {
    fn drop(&mut self) {
        if self.is_over {
            return;
        }
        // A lane that cannot be restored is left to the next opening.
        if let Ok(next) = self.restore() {
            let allocated = std::mem::take(&mut self.allocated);
            match self.entries.is_empty() {
                true => self.space.give_up(allocated),
                // Words that are restored, and fenced, may have referred to them.
                false => self.space.free_all(allocated),
            }
            self.made.give_back(self.lane, !self.entries.is_empty(), next);
        }
    }
}

/// An operation that has committed, and may have intents.
#[must_use]
pub struct Committed<'p> {
    space: &'p Space,
    made: &'p Made,
    lane: usize,
    number: u64,
    intents: Vec<Intent>,
}

impl Committed<'_> {
    /// The intents that are to be done, in the order in which they were noted.
    pub fn intents(&self) -> &[Intent] {
        &self.intents
    }

    /// Forgets the intents, when all are done and their effects are fenced. One fence, if there were any. Without this call
    /// [`Pool::unfinished`](crate::Pool::unfinished) finds them again.
    ///
    /// # Errors
    /// Of the region only.
    pub fn done(mut self) -> Result<(), Error> {
        if self.intents.is_empty() {
            return Ok(());
        }
        let (region, next) = (&self.space.region, self.number + 1);
        let _section = region.reserve(1)?;
        let state = State { number: next, is_committed: false };
        advance(region, &self.made.shape, self.lane, state)?;
        // ORDER: what is done is not done again when others may have changed what it names.
        region.fence("pool.log.done.fence");
        self.intents.clear();
        self.made.give(self.lane, next);
        Ok(())
    }
}

impl Drop for Committed<'_> {
    fn drop(&mut self) {
        if !self.intents.is_empty() {
            lock(&self.made.unfinished).push(self.lane);
        }
    }
}

/// Checks what an operation would commit, before it is sealed: entries that name no word would keep the pool from being opened, and
/// contents that are none would make the seal void.
fn check_all(region: &Region, words: &[[u64; 2]], contents: &[[u64; 3]]) -> Result<(), Error> {
    words.iter().try_for_each(|&[offset, _]| check(region, offset))?;
    let is_there = |&&[offset, len, _]: &&[u64; 3]| {
        len <= OBJECT_SIZE_MAX && region.media_bytes(offset, len).is_ok()
    };
    match contents.iter().find(|content| !is_there(content)) {
        Some(&[offset, ..]) => Err(Error::NoSuchWord { offset }),
        None => Ok(()),
    }
}

fn flat(pairs: &[(u64, u64)]) -> Vec<u64> {
    pairs.iter().flat_map(|&(offset, word)| [offset, word]).collect()
}
