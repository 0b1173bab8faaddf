//! The content of a lane, read and verified.

use tembo_pmem::{OuterChecksum, Region, Word};

use super::shape::{CONTENTS_MAX, Shape, State};
use crate::format::{
    ENTRY_CONTENT, ENTRY_EXTENT, ENTRY_INTENT, ENTRY_REDO, ENTRY_SEAL, ENTRY_UNDO, EntryPlace,
    entry_head,
};
use crate::object::REACH;
use crate::{Error, OBJECT_SIZE_MAX, TenantId};

/// Work that is still to be done after a commit. Its tenant does it, again and again until it is
/// [done](crate::Committed::done), from wherever it was interrupted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Intent {
    /// The tenant that knows what the code means.
    pub tenant: TenantId,
    /// A code for the work.
    pub code: u32,
    /// The arguments of the work.
    pub args: Vec<u64>,
}

impl Intent {
    /// The words behind the first of its entry.
    pub(super) fn words(&self) -> Vec<u64> {
        let head = u64::from(self.tenant.0) << 32 | u64::from(self.code);
        [head].into_iter().chain(self.args.iter().copied()).collect()
    }
}

/// The entries of a lane that are true.
#[derive(Debug, Default)]
pub(super) struct Found {
    /// Offsets and old words, in the order in which they were noted.
    pub(super) undo: Vec<(u64, u64)>,
    /// Offsets and new words.
    pub(super) redo: Vec<(u64, u64)>,
    pub(super) intents: Vec<Intent>,
    pub(super) is_sealed: bool,
    /// The number by which sealed operations are ordered: the lower one comes first.
    pub(super) sequence: u64,
    /// There is no entry, not even one that is void by what it names.
    pub(super) is_empty: bool,
}

impl Found {
    /// Follows the chain of checksums from the first entry as far as it holds.
    ///
    /// # Errors
    /// [`Error::Damaged`]: an entry whose checksum holds is none that an operation writes, or the entries name more than the pool has.
    pub(super) fn read(
        region: &Region,
        shape: &Shape,
        lane: usize,
        state: State,
    ) -> Result<Found, Error> {
        let words: Vec<u64> = shape.entries(region, lane)?.iter().map(Word::load).collect();
        let mut found = Found { is_empty: true, sequence: u64::MAX, ..Found::default() };
        let mut named = Named { region, checksum: shape.checksum, bytes: 0 };
        let (mut rest, mut chain) = (&words[..], 0);
        while let Some((&head, behind)) = rest.split_first() {
            let (kind, count) = (head & 0xff, (head >> 8 & 0xff_ffff) as usize);
            let Some((words, behind)) = behind.split_at_checked(count) else { break };
            let place = EntryPlace { lane, number: state.number, before: chain };
            if entry_head(shape.checksum, place, kind, words) != head {
                break;
            }
            // Also one that is void by what it names: that may come to be as the entry says, and the entry true again.
            found.is_empty = false;
            if !found.take(kind, words, &mut named)? {
                break;
            }
            (rest, chain) = (behind, (head >> 32) as u32);
        }
        Ok(found)
    }

    /// Takes what an entry says. Whether it is true: if an extent or an object was not written to its end, it is void.
    fn take(&mut self, kind: u64, words: &[u64], named: &mut Named<'_>) -> Result<bool, Error> {
        let (pairs, beside) = words.as_chunks::<2>();
        let pairs = pairs.iter().map(|&[offset, word]| (offset, word));
        match (kind, words) {
            (ENTRY_UNDO, _) if beside.is_empty() => self.undo.extend(pairs),
            (ENTRY_REDO, _) if beside.is_empty() => self.redo.extend(pairs),
            (ENTRY_SEAL, []) => self.is_sealed = true,
            (ENTRY_SEAL, &[sequence]) => (self.is_sealed, self.sequence) = (true, sequence),
            (ENTRY_EXTENT, &[offset, len, sum]) => {
                let Some(mut pairs) = named.extent(&[offset, len, sum])? else { return Ok(false) };
                self.redo.append(&mut pairs);
            }
            (ENTRY_CONTENT, _)
                if words.len().is_multiple_of(3) && words.len() <= 3 * CONTENTS_MAX =>
            {
                for range in words.as_chunks().0 {
                    if !named.is_whole(range)? {
                        return Ok(false);
                    }
                }
            }
            (ENTRY_INTENT, [head, args @ ..]) => self.intents.push(Intent {
                tenant: TenantId((head >> 32) as u8),
                code: *head as u32,
                args: args.to_vec(),
            }),
            _ => return Err(Error::Damaged { field: "entry of the log", word: kind }),
        }
        Ok(true)
    }
}

/// The ranges of the region that the entries of a lane name.
struct Named<'r> {
    region: &'r Region,
    checksum: OuterChecksum,
    /// Bytes that were looked at.
    bytes: u64,
}

impl Named<'_> {
    /// Whether a range has the checksum that an entry says it has: offset, bytes, checksum.
    ///
    /// # Errors
    /// [`Error::Damaged`]: no object has that range, or the entry's ranges together are more than objects beside each other can have.
    fn is_whole(&mut self, &[offset, len, sum]: &[u64; 3]) -> Result<bool, Error> {
        let is_possible =
            len <= OBJECT_SIZE_MAX && offset.checked_add(len).is_some_and(|end| end <= REACH);
        if !is_possible {
            let word = if len <= OBJECT_SIZE_MAX { offset } else { len };
            return Err(Error::Damaged { field: "range in the log", word });
        }
        // The pool may have been cut since: what was behind its end was nothing's.
        let Ok(bytes) = self.region.media_bytes(offset, len) else { return Ok(false) };
        self.bytes += len;
        if self.bytes > self.region.size() {
            return Err(Error::Damaged { field: "range in the log", word: len });
        }
        Ok(self.checksum.of_media(&bytes) == sum)
    }

    /// The offsets and words that an extent holds, if it is whole.
    ///
    /// # Errors
    /// As of [`is_whole`](Named::is_whole); [`Error::Damaged`]: it does not hold whole pairs.
    fn extent(&mut self, range: &[u64; 3]) -> Result<Option<Vec<(u64, u64)>>, Error> {
        if !self.is_whole(range)? {
            return Ok(None);
        }
        let &[offset, len, _] = range;
        let damaged = |word| Error::Damaged { field: "range in the log", word };
        let words = self.region.words(offset, (len / 8) as usize).map_err(|_| damaged(offset))?;
        let pairs = words.as_chunks::<2>().0;
        if !len.is_multiple_of(16) {
            return Err(damaged(len));
        }
        Ok(Some(pairs.iter().map(|[offset, word]| (offset.load(), word.load())).collect()))
    }
}
