//! The shape of the log: the places of its parts.

use tembo_pmem::{LINE, OuterChecksum, Region, Word};

use crate::format::{
    LANE_COMMITTED, LOG_MAGIC, LOG_MAGIC_CRC32C, LOW_LANE, LOW_SHAPE, seal_low, unseal_low,
};
use crate::geometry::Layout;
use crate::{Error, Object};

/// Greatest size of a chunk in a pool that has few lanes.
const SMALL: u64 = 64 << 10;

/// Bytes in a lane, where chunks are large enough. Not more: an operation reserves room for all of its lane.
const LANE_SIZE: u64 = 1024;

/// Most contents whose checksums an entry has: the smallest lane has room for them, an extent and a seal.
pub(super) const CONTENTS_MAX: usize = 8;

/// Words of a lane that committed words need beside themselves: the head of their entry, and a seal.
pub(super) const WORDS_BESIDE: usize = 3;

/// Words of an entry for so many contents. It is 0 if there are none.
pub(super) fn content_words(contents: usize) -> usize {
    if (1..=CONTENTS_MAX).contains(&contents) { 1 + 3 * contents } else { 0 }
}

/// The object of a log, and how it is divided.
#[derive(Clone, Copy, Debug)]
pub(super) struct Shape {
    pub(super) object: Object,
    pub(super) lanes: usize,
    /// Bytes in a lane, whole lines.
    pub(super) lane_size: u64,
    /// The checksum of entries and of what they name.
    pub(super) checksum: OuterChecksum,
}

/// A lane's number, and whether its operation is committed and its intents are still to be done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct State {
    pub(super) number: u64,
    pub(super) is_committed: bool,
}

impl Shape {
    /// Bytes of a new log, and its lanes: at most half a chunk.
    pub(super) fn for_layout(layout: Layout) -> (u64, usize) {
        let chunk = layout.chunk_size();
        let lanes = if chunk < SMALL { 4 } else { 16 };
        ((LINE + lanes * LANE_SIZE).min(chunk / 2), lanes as usize)
    }

    /// A log of so many lanes in an object.
    pub(super) fn new(object: Object, lanes: usize) -> Shape {
        let lane_size = Shape::lane_size(object.size(), lanes);
        Shape { object, lanes, lane_size, checksum: OuterChecksum::Xxh3 }
    }

    fn lane_size(size: u64, lanes: usize) -> u64 {
        (size - LINE) / lanes as u64 / LINE * LINE
    }

    /// Least number of words for entries in a lane of a log of so many bytes.
    pub(super) fn words_in(size: u64, lanes: usize) -> usize {
        ((Shape::lane_size(size, lanes) - LINE) / 8) as usize
    }

    /// Makes a new object an empty log. Durable after the next fence.
    pub(super) fn write(&self, region: &Region) -> Result<(), Error> {
        let shape = seal_low(LOW_SHAPE, self.lanes as u64);
        let first = [LOG_MAGIC.to_le_bytes(), shape.to_le_bytes()];
        let mut bytes = vec![0; self.object.size() as usize];
        bytes[..16].copy_from_slice(first.as_flattened());
        for lane in 0..self.lanes {
            let at = (LINE + lane as u64 * self.lane_size) as usize;
            let word = state_word(lane, State { number: 1, is_committed: false });
            bytes[at..at + 8].copy_from_slice(&word.to_le_bytes());
        }
        // ORDER: the empty log is durable before the superblock names it.
        region.write("pool.log.make", self.object.offset(), &[&bytes])?;
        Ok(())
    }

    /// The log in an object.
    pub(super) fn read(region: &Region, object: Object) -> Result<Shape, Error> {
        let damaged = |word| Error::Damaged { field: "log", word };
        let words = region.words(object.offset(), 2)?;
        let (magic, shape) = (words[0].load(), words[1].load());
        let checksum = match magic {
            LOG_MAGIC => OuterChecksum::Xxh3,
            LOG_MAGIC_CRC32C => OuterChecksum::Crc32c,
            _ => return Err(damaged(magic)),
        };
        let lanes = unseal_low(LOW_SHAPE, shape).ok_or(damaged(shape))?;
        if !(1..=64).contains(&lanes) || lanes * LINE * 2 + LINE > object.size() {
            return Err(damaged(shape));
        }
        Ok(Shape { checksum, ..Shape::new(object, lanes as usize) })
    }

    /// Where a lane begins.
    fn lane(&self, lane: usize) -> u64 {
        self.object.offset() + LINE + lane as u64 * self.lane_size
    }

    pub(super) fn state_at<'r>(&self, region: &'r Region, lane: usize) -> Result<&'r Word, Error> {
        Ok(&region.words(self.lane(lane), 1)?[0])
    }

    pub(super) fn state(&self, region: &Region, lane: usize) -> Result<State, Error> {
        let word = self.state_at(region, lane)?.load();
        let value = unseal_low(LOW_LANE + lane as u8, word);
        let value = value.ok_or(Error::Damaged { field: "lane of the log", word })?;
        Ok(State { number: value >> 1, is_committed: value & LANE_COMMITTED != 0 })
    }

    /// The words for entries.
    pub(super) fn entries<'r>(&self, region: &'r Region, lane: usize) -> Result<&'r [Word], Error> {
        Ok(region.words(self.lane(lane) + LINE, self.words())?)
    }

    /// The offset of a word for entries.
    pub(super) fn entry_at(&self, lane: usize, word: usize) -> u64 {
        self.lane(lane) + LINE + 8 * word as u64
    }

    /// The number of words for entries.
    pub(super) fn words(&self) -> usize {
        ((self.lane_size - LINE) / 8) as usize
    }
}

/// The word of a state.
fn state_word(lane: usize, state: State) -> u64 {
    let State { number, is_committed } = state;
    seal_low(LOW_LANE + lane as u8, number << 1 | u64::from(is_committed))
}

/// Stores a lane's state: all entries of an earlier number are void. Durable with the next fence.
pub(super) fn advance(region: &Region, shape: &Shape, lane: usize, to: State) -> Result<(), Error> {
    let word = shape.state_at(region, lane)?;
    // ORDER: after the words that the operation has changed, or restored: the caller has fenced them.
    region.commit("pool.log.state", word, state_word(lane, to));
    // ORDER: the entries are void before another operation changes what they name.
    region.flush("pool.log.state.flush", region.offset_of(word), 8);
    Ok(())
}
