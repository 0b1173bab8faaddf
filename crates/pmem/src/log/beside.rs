//! What stands in the pool file and not in the log: records that are written once.
//!
//! A record that fills whole pages goes to its place in the pool file at once. The group that comes with it
//! carries an *extent*: the place, and the checksum of its bytes. Log and pool file are then synced in one round,
//! in parallel. A crash may leave the group without the bytes; then the checksum does not hold, and replay ends
//! before the group, as before one that is torn.
//!
//! ```text
//!   write:   bytes of the record ──────────────────────────► pool file, its pages
//!               └─ place and checksum ─► the thread's notes       │
//!   fence:                                  └─► group: extent     │
//!   sync:                                         fdatasync of the log, and of the pool file, in parallel
//!                                                                 │
//!   later:   a group or a header calls the group durable ─► vouched for: its checksum is not compared any more
//!
//!   replay:  the group is not vouched for ─► checksum of the pages ─ holds ──► the group counts
//!                                                                  └ differs ─► the log ends before the group
//! ```
//!
//! Replay compares the checksums of those groups only that no group and no header calls durable: of the others
//! the bytes are there, or were rightly overwritten since. So the place of an extent is overwritten under three
//! conditions, whatever is written there, and by which way:
//!
//! - What had the place before was unlinked by a group that is durable. A crash may leave the new bytes without
//!   their group: then the place must be free.
//! - If the place was that of an extent, then its group is *vouched for*: a group or a header that is durable
//!   calls it so. Else its checksum would fail on the new bytes, and replay would end before a group that is durable.
//! - The log has no lines for the place that a checkpoint has still to write: these would come over the new bytes.
//!
//! The first is looked up for the space alone ([`Frees`](crate::Frees)): that other space was freed is no reason. What a
//! thread has written in space that it then freed, and not fenced, does not become an extent: another thread may have
//! the space, and its bytes have another checksum.
//!
//! What was written and is given up before its group, no group names, and no checksum vouches for. Another thread that takes the
//! space leaves out of its groups what it finds there as it wants it. So the pool file is synced before the next group is written
//! into the log: alone, and not in parallel.
//!
//! A run of pages that does not meet them goes through the log, line by line. A large record has no room there: it
//! waits until the conditions hold ([`bypass`](super::RedoLog::bypass)). A checkpoint has a header vouch before it
//! writes the first line.

use super::voids::Voids;
use crate::extent::WrittenExtent;

/// Extents whose durability is not beyond doubt. All sequences are of groups.
#[derive(Debug, Default)]
pub(super) struct Beside {
    /// The last group with an extent; zero for none.
    last: u64,
    /// Bytes of extents appended since a sync of the pool file began.
    unsynced: u64,
    /// Of the extents that are not durable: syncs of the pool file that had failed when the first was written.
    failed_syncs: Option<u64>,
    /// Places of the extents that are not vouched for; each with the group behind its own.
    doubtful: Voids,
    /// What the last group appended calls durable, and the last one written.
    claimed: u64,
    claimed_written: u64,
    /// What is called durable by a group, or a header, that is durable.
    vouched: u64,
}

impl Beside {
    /// Of a log in which all groups up to `vouched` are called durable, and later ones have extents in `doubtful`.
    pub(super) fn new(vouched: u64, last: u64, doubtful: Voids) -> Beside {
        let (claimed, claimed_written) = (vouched, vouched);
        Beside { last, doubtful, claimed, claimed_written, vouched, ..Beside::default() }
    }

    /// Group `sequence` was appended, which calls all groups through `claim` durable.
    pub(super) fn append(&mut self, sequence: u64, claim: u64, extents: &[WrittenExtent]) {
        self.claimed = claim;
        for WrittenExtent { extent, failed_syncs } in extents {
            self.last = sequence;
            self.unsynced += extent.len;
            let failed = self.failed_syncs.get_or_insert(*failed_syncs);
            *failed = (*failed).min(*failed_syncs);
            self.doubtful.paint(extent.offset, extent.end(), sequence + 1);
        }
    }

    /// What the last group appended calls durable; to be given to [`written`](Beside::written).
    pub(super) fn claimed(&self) -> u64 {
        self.claimed
    }

    /// The groups are in the log's file up to one that calls all through `claim` durable.
    pub(super) fn written(&mut self, claim: u64) {
        self.claimed_written = claim;
    }

    /// A sync begins, of all groups written, and before it all through `durable` are durable. What the last group
    /// written calls durable; and if there are extents to be synced, the syncs of the pool file that had failed when the first of
    /// them was written.
    pub(super) fn begin_sync(&mut self, durable: u64) -> (u64, Option<u64>) {
        self.unsynced = 0;
        let failed = if self.last > durable { self.failed_syncs } else { None };
        (self.claimed_written, failed)
    }

    /// All through `durable` are durable, and the last of them calls those through `claim` durable.
    pub(super) fn end_sync(&mut self, durable: u64, claim: u64) {
        if self.last <= durable {
            self.failed_syncs = None;
        }
        self.vouch(claim);
    }

    /// Something durable calls all groups through `claim` durable.
    pub(super) fn vouch(&mut self, claim: u64) {
        if claim > self.vouched {
            self.vouched = claim;
            self.doubtful.forget(claim + 1);
        }
    }

    /// All groups through this one are called durable by something that is.
    pub(super) fn vouched(&self) -> u64 {
        self.vouched
    }

    /// Whether there is an extent that is not vouched for.
    pub(super) fn is_doubtful(&self) -> bool {
        self.last > self.vouched
    }

    /// Whether there is one in `start..end`.
    pub(super) fn is_doubtful_in(&self, start: u64, end: u64) -> bool {
        self.doubtful.newest(start, end).is_some_and(|next| next > self.vouched + 1)
    }

    /// Bytes of extents that no sync has begun to make durable.
    pub(super) fn unsynced(&self) -> u64 {
        self.unsynced
    }
}
