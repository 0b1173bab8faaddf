//! Blocks of free space go back to the file system, some at a time.

use tembo_pmem::Region;

use crate::Error;
use crate::allocator::Allocator;
use crate::holes::{Measure, Spare};
use crate::shared::Shared;

/// Bytes that are given back at once: the disk is asked to, and waited for.
const GIVEN_MAX: u64 = 16 << 20;
/// Bytes of the shortest free run whose blocks are given back: a file of many small pieces is slow.
const GIVEN_MIN: u64 = 1 << 20;
/// Bytes of free space that keep their blocks in a pool of any size.
const KEPT_MIN: u64 = 64 << 20;

/// Which blocks of free space are [given back](crate::Pool::give_blocks_back).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sparing {
    /// Those of runs of 1 MiB and more, when more than 128 MiB and half of what is in use has blocks and is free, until half of
    /// that is left: a pool whose content comes and goes keeps what it needs.
    Surplus,
    /// All.
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
    /// None so far; there may be some elsewhere.
    Looked,
    /// The log may still need some: a [checkpoint](Region::checkpoint) ends that. Or the file system cannot do it.
    NotYet,
    /// There is nothing to give back, or a sweep is owed or running.
    Nothing,
}

/// Gives some blocks back; and whether a sweep was refused meanwhile.
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
