//! The content of a lane, read and verified.

use tembo_pmem::{OuterChecksum, Region, Word};

use super::shape::{Shape, State};
use crate::format::{
    ENTRY_CONTENT, ENTRY_EXTENT, ENTRY_INTENT, ENTRY_REDO, ENTRY_SEAL, ENTRY_UNDO, EntryPlace,
    entry_head,
};
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
    pub(super) fn read(
        region: &Region,
        shape: &Shape,
        lane: usize,
        state: State,
    ) -> Result<Found, Error> {
        let words: Vec<u64> = shape.entries(region, lane)?.iter().map(Word::load).collect();
        let mut found = Found { is_empty: true, sequence: u64::MAX, ..Found::default() };
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
            let pairs = words.as_chunks::<2>().0.iter().map(|&[offset, word]| (offset, word));
            match kind {
                ENTRY_UNDO => found.undo.extend(pairs),
                ENTRY_REDO => found.redo.extend(pairs),
                ENTRY_SEAL => {
                    found.is_sealed = true;
                    found.sequence = words.first().copied().unwrap_or(u64::MAX);
                }
                // If an extent or an object was not written to its end, the entry is void.
                ENTRY_EXTENT if count == 3 => match extent(region, shape.checksum, words) {
                    Some(pairs) => found.redo.extend(pairs),
                    None => break,
                },
                ENTRY_CONTENT
                    if words.as_chunks().0.iter().all(|c| is_whole(region, shape.checksum, c)) => {}
                ENTRY_INTENT if count > 0 => found.intents.push(Intent {
                    tenant: TenantId((words[0] >> 32) as u8),
                    code: words[0] as u32,
                    args: words[1..].to_vec(),
                }),
                _ => break,
            }
            (rest, chain) = (behind, (head >> 32) as u32);
        }
        Ok(found)
    }
}

/// Whether a range of the region has the checksum that an entry says it has: offset, bytes, checksum.
fn is_whole(region: &Region, checksum: OuterChecksum, &[offset, len, sum]: &[u64; 3]) -> bool {
    let bytes = region.media_bytes(offset, len);
    // A longer range is no object's.
    len <= OBJECT_SIZE_MAX && bytes.is_ok_and(|bytes| checksum.of(&bytes.to_vec()) == sum)
}

/// The offsets and words that an extent holds, if it is whole.
fn extent(region: &Region, checksum: OuterChecksum, words: &[u64]) -> Option<Vec<(u64, u64)>> {
    let place: &[u64; 3] = words.try_into().ok()?;
    if !is_whole(region, checksum, place) {
        return None;
    }
    let words = region.words(place[0], (place[1] / 8) as usize).ok()?;
    let pairs = words.as_chunks::<2>().0;
    Some(pairs.iter().map(|[offset, word]| (offset.load(), word.load())).collect())
}
