//! How many bytes a key takes with all that is under it.

use crate::dataset::Dataset;
use crate::dataset::footprint::entry_size;
use crate::failure::Failure;
use crate::format::{ELEMENT_PREFIX_SIZE, EXPIRY_SIZE, Kind, PIECE_SIZE, Spread};

/// What is under a key, as far as its size is concerned.
struct Found {
    kind: Kind,
    /// Bytes of the value.
    size: usize,
    expires: bool,
    /// Where the elements of a collection are.
    spread: Option<Spread>,
    /// Bytes in the pieces of a large string.
    in_pieces: Option<usize>,
}

impl Dataset<'_> {
    /// Bytes that a key takes with its value, about: those of a large collection by the first `samples` of its elements, or by all
    /// of them. `None`: there is no such key.
    pub(crate) fn usage(
        &mut self,
        db: usize,
        key: &[u8],
        samples: Option<u64>,
    ) -> Result<Option<u64>, Failure> {
        let Some(value) = self.find(db, key)? else { return Ok(None) };
        let in_pieces = value.pieces()?.map(|(_, len)| len);
        let found = Found {
            kind: value.of.kind,
            size: 1 + value.payload.len(),
            expires: value.expiry_ms.is_some(),
            spread: if in_pieces.is_some() { None } else { value.spread()? },
            in_pieces,
        };
        let mut size = entry_size(key.len(), found.size);
        if found.expires {
            size += EXPIRY_SIZE as u64 + entry_size(EXPIRY_SIZE + key.len(), 0);
        }
        if let Some(len) = found.in_pieces {
            let pieces = len.div_ceil(PIECE_SIZE) as u64;
            size += len as u64 + pieces * entry_size(ELEMENT_PREFIX_SIZE + size_of::<u64>(), 0);
        }
        if let Some(spread) = found.spread {
            let samples = samples.filter(|&samples| samples <= spread.count);
            let elements = self.collection_size(db, spread, samples.unwrap_or(u64::MAX))?;
            // Of a sorted set the samples are members with their scores. Each stands in the order of scores, too.
            let is_half = found.kind == Kind::SortedSet && samples.is_some();
            size += if is_half { 2 * elements } else { elements };
        }
        Ok(Some(size))
    }
}
