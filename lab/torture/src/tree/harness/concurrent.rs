//! What several threads do to one tree at the same time. Nothing that is unlinked is given back
//! meanwhile, for readers do not register what they read.

use std::sync::atomic::AtomicU64;

use tembo_index::{
    AT_REST, Clock, Op as Change, Retained, Retired, Stamp, VersionedIndex, View, Writer,
};
use tembo_pmem::Region;

use super::super::model::{Map, Write};
use super::{COMMITTED, Harness, LANE, LIMIT, persist};
use crate::judge::text;

impl Harness {
    /// Writes in one group; what is there then.
    pub(crate) fn put_all(&mut self, writes: &[Write], serial: u64) -> Result<Map, String> {
        self.write(writes, serial, true)
    }

    /// A clock that may draw so many versions. Durable when it returns.
    pub(crate) fn allow(&mut self, versions: u64) -> Result<Clock, String> {
        let limit = self.pool.root(LIMIT).map_err(text)?;
        persist(&self.pool, limit, self.version + versions);
        Ok(Clock::new(self.version))
    }

    /// A change that commits by itself; whether the key was there.
    pub(crate) fn change_beside(
        &self,
        change: Change<'_>,
        clock: &Clock,
        retained: &Retained,
        retired: &mut Vec<Retired>,
    ) -> Result<bool, String> {
        let stamp = Stamp::single(clock.last(), LANE);
        let mut writer = Writer { stamp, dead: &self.dead, retained, retired };
        let below = AtomicU64::new(AT_REST);
        let turn = clock.ticket_of(&below, clock.last());
        let existed = self.tree.apply_single(change, &turn, &mut writer).map_err(text)?;
        existed.ok_or_else(|| "a tree whose changes commit by themselves".to_owned())
    }

    /// Puts that commit together, by one thread at a time.
    pub(crate) fn group_beside(
        &self,
        pairs: &[(Vec<u8>, Vec<u8>)],
        clock: &Clock,
        retained: &Retained,
        retired: &mut Vec<Retired>,
    ) -> Result<(), String> {
        let stamp = Stamp::grouped(clock.draw(), LANE);
        let mut writer = Writer { stamp, dead: &self.dead, retained, retired };
        for (key, value) in pairs {
            let change = Change::Put { key, value: &[value] };
            self.tree.apply(change, &mut writer).map_err(text)?;
        }
        let region = self.pool.region();
        region.fence("torture.harness.entries");
        let word = self.pool.root(COMMITTED).map_err(text)?;
        region.commit("torture.harness.commit", word, stamp.version());
        region.flush("torture.harness.commit.flush", region.offset_of(word), 8);
        region.fence("torture.harness.publish");
        Ok(())
    }

    /// What a reader of the version finds.
    pub(crate) fn get_beside(&self, key: &[u8], version: u64) -> Result<Option<Vec<u8>>, String> {
        let view = View { version, dead: &self.dead };
        Ok(self.tree.get(key, view).map_err(text)?.map(|value| value.to_vec()))
    }

    /// The last version that was there when it was opened.
    pub(crate) fn version(&self) -> u64 {
        self.version
    }

    /// All threads have ended: what they drew and unlinked.
    pub(crate) fn joined(&mut self, version: u64, retired: Vec<Retired>) {
        self.version = version;
        self.retired.extend(retired);
    }

    /// What is there.
    pub(crate) fn newest(&self) -> Result<Map, String> {
        self.map(self.version)
    }

    /// What an image shows, if it is sound and recovers to the same.
    pub(crate) fn recovered(region: Region) -> Result<Map, String> {
        let mut harness = Harness::open(region)?.ok_or("nothing is where a tree was")?;
        let state = harness.show()?;
        harness.check(&state)?;
        let after = harness.newest()?;
        if after != state.map {
            return Err(format!("recovery made {after:?} of {:?}", state.map));
        }
        Ok(after)
    }

    /// What a writer keeps: all versions, or the newest.
    pub(crate) fn retained_beside(&self, clock: &Clock, keeps_past: bool) -> Retained {
        let visible = if keeps_past { 0 } else { clock.last() };
        Retained::new(visible, Vec::new())
    }
}
