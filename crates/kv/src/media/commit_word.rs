//! The commit word: grouped stamps of its lane count up to it.

use tembo_index::DeadInterval;

use super::format::LANE_COUNT;
use super::root::{LANE, Root};
use crate::Error;

/// The commit word of the writer.
pub(crate) struct CommitWord<'r>(pub(crate) &'r Root);

impl CommitWord<'_> {
    pub(crate) fn load(&self) -> Result<u64, Error> {
        Ok(self.0.media()?.lanes[usize::from(LANE)].committed.load())
    }

    /// Publishes the grouped stamps of the writer up to `version`. Two fences; durable (synced:
    /// later) when it returns.
    pub(crate) fn store(&self, version: u64) -> Result<(), Error> {
        let region = self.0.region();
        let word = &self.0.media()?.lanes[usize::from(LANE)].committed;
        // ORDER: every entry of the group is durable before the word that commits it.
        region.fence_flushed("kv.commit.entries");
        // ORDER: after every entry of the group, as above.
        region.commit("kv.commit.word", word, version);
        // ORDER: the word is durable before the commit is reported.
        region.flush("kv.commit.flush", region.offset_of(word), 8);
        // ORDER: as above.
        region.fence("kv.commit.publish");
        Ok(())
    }

    /// The versions that were in flight when the store was last open: grouped stamps above the word of each lane.
    pub(crate) fn in_flight(&self) -> Result<Vec<DeadInterval>, Error> {
        let media = self.0.media()?;
        let to = media.version_limit.load();
        let lanes = (0..LANE_COUNT).map(|lane| (lane as u8, media.lanes[lane].committed.load()));
        // A lane that was never used has nothing in flight.
        let used = lanes.filter(|&(_, committed)| committed != 0 && committed < to);
        Ok(used.map(|(lane, from)| DeadInterval { from, to, lane: Some(lane) }).collect())
    }
}
