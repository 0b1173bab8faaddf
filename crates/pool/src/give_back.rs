//! Gives blocks of free space back to the file system, some at a time.

use tembo_pmem::Region;

use crate::Error;
use crate::allocator::Allocator;
use crate::holes::{Measure, Spare};
use crate::shared::Shared;

/// Most bytes that one call gives back, for it waits for the disk.
const GIVEN_MAX: u64 = 16 << 20;
/// Bytes of the shortest free run whose blocks are given back: a file of many small pieces is slow.
const GIVEN_MIN: u64 = 1 << 20;
/// Bytes of free space that keep their blocks in a pool of any size.
const KEPT_MIN: u64 = 64 << 20;

/// Which blocks of free space are [given back](crate::Pool::give_blocks_back).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sparing {
    /// Blocks of runs of 1 MiB and more. It begins when free space with blocks exceeds 128 MiB and half of the used space, and
    /// ends when half of that is left. So a pool whose content comes and goes keeps the blocks that it needs.
    Surplus,
    /// All blocks.
    All,
}

impl Sparing {
    fn measure(self, allocator: &Allocator) -> Measure {
        let chunks = |bytes: u64| allocator.layout.chunks_for(bytes).max(1);
        let most = chunks(GIVEN_MAX);
        match self {
            Sparing::All => Measure { least: 1, most, kept: 0, begin: 0 },
            Sparing::Surplus => {
                let kept = chunks(KEPT_MIN.max(allocator.bytes / 4));
                let begin = kept.saturating_mul(2);
                Measure { least: chunks(GIVEN_MIN), most, kept, begin }
            }
        }
    }
}

/// What [`Pool::give_blocks_back`](crate::Pool::give_blocks_back) has done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GivenBack {
    /// So many bytes were given back; there may be more.
    Bytes(u64),
    /// No bytes were given back so far, but there may be some elsewhere.
    Looked,
    /// The log may still need the blocks, until the next [checkpoint](Region::checkpoint), or the file system cannot take them.
    NotYet,
    /// There is nothing to give back, or a sweep is owed or running.
    Nothing,
}

/// Gives some blocks back. Returns also whether a sweep was refused meanwhile.
pub(crate) fn give_back(
    region: &Region,
    shared: &Shared,
    sparing: Sparing,
) -> (Result<GivenBack, Error>, bool) {
    if !region.can_punch() {
        return (Ok(GivenBack::Nothing), false);
    }
    let spare = {
        let mut allocator = shared.lock();
        let measure = sparing.measure(&allocator);
        allocator.take_spare(measure)
    };
    let (start, count) = match spare {
        Spare::Chunks(start, count) => (start, count),
        Spare::More => return (Ok(GivenBack::Looked), false),
        Spare::Nothing => return (Ok(GivenBack::Nothing), false),
    };
    let (offset, bytes) = (shared.layout.start(start), shared.layout.start(count));
    let punched = region.punch(offset, bytes);
    let is_awaited = shared.lock().put_spare(start, count, matches!(punched, Ok(true)));
    let given = match punched {
        Ok(true) => Ok(GivenBack::Bytes(bytes)),
        Ok(false) => Ok(GivenBack::NotYet),
        Err(error) => Err(error.into()),
    };
    (given, is_awaited)
}
