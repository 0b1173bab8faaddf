//! The durable words of the store: which versions may be used, are committed, are dead.

use tembo_index::{DeadInterval, Stamp, VERSION_MAX};
use tembo_pmem::Region;
use tembo_pool::{Object, Pool};

use crate::Error;
use crate::format::{
    DEAD_COUNT, DeadSlot, KIND_ALL, LANE_COUNT, ROOT_SIZE, SNAPSHOT_COUNT, SNAPSHOT_NAME_SIZE,
    STORE_MAGIC, SnapshotSlot, StoreRoot,
};

/// Versions by which the durable limit is raised: one fence in so many commits.
const LIMIT_STEP: u64 = 1 << 16;

/// Slots of the table of dead intervals that only an opening takes.
const KEPT_FOR_OPENING: usize = DEAD_COUNT / 2;

const LANES: u64 = LANE_COUNT as u64;

/// The lane of the one writer.
pub(crate) const LANE: u8 = 0;

/// Where the store's root lies.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ledger {
    root: Object,
}

impl Ledger {
    /// Writes and flushes the root of an empty store; the caller publishes it.
    pub(crate) fn format(region: &Region, root: Object, catalogue: Object) -> Result<(), Error> {
        for word in region.words(root.offset(), (ROOT_SIZE / 8) as usize)? {
            region.store(word, 0);
        }
        let media: &StoreRoot = region.get(root.offset())?;
        region.store(&media.catalogue, catalogue.to_bits());
        region.store(&media.version_limit, 1);
        region.store(&media.lanes[usize::from(LANE)].committed, 1);
        region.store(&media.magic, STORE_MAGIC);
        // ORDER: the root is durable before the pool's table of tenants names it.
        region.flush("kv.format.flush", root.offset(), ROOT_SIZE);
        Ok(())
    }

    pub(crate) fn open(pool: &Pool, root: Object) -> Result<Ledger, Error> {
        pool.valid(root)?;
        let ledger = Ledger { root };
        let media = ledger.media(pool.region())?;
        // A smaller object would leave a part of the root to others.
        if media.magic.load() != STORE_MAGIC || root.size() < ROOT_SIZE {
            return Err(Error::Damaged { what: "a store's root" });
        }
        let limit = media.version_limit.load();
        if limit == 0 || limit > VERSION_MAX - 2 * LIMIT_STEP {
            return Err(Error::Damaged { what: "a limit of versions" });
        }
        let lanes_sound = media.lanes.iter().all(|lane| lane.committed.load() <= limit);
        if !lanes_sound || media.lanes[usize::from(LANE)].committed.load() == 0 {
            return Err(Error::Damaged { what: "a commit word below the limit of versions" });
        }
        let dead_sound = media.dead.iter().all(|slot| {
            let (from, to, kind) = (slot.from.load(), slot.to.load(), slot.kind.load());
            kind == 0 || from <= to && to <= limit && (kind == KIND_ALL || kind <= LANES)
        });
        let names_sound = media.snapshots.iter().all(|slot| {
            let len = slot.len.load();
            len == 0 || len <= SNAPSHOT_NAME_SIZE as u64 + 1 && slot.version.load() <= limit
        });
        if !dead_sound || !names_sound || !ledger.past_is_sound(pool.region())? {
            return Err(Error::Damaged { what: "dead intervals and names below the limit" });
        }
        Ok(ledger)
    }

    /// The commit word of the one writer.
    pub(crate) fn committed(&self, region: &Region) -> Result<u64, Error> {
        Ok(self.media(region)?.lanes[usize::from(LANE)].committed.load())
    }

    pub(crate) fn root(&self) -> Object {
        self.root
    }

    pub(crate) fn media<'r>(&self, region: &'r Region) -> Result<&'r StoreRoot, Error> {
        Ok(region.get(self.root.offset())?)
    }

    pub(crate) fn catalogue(&self, region: &Region) -> Result<Object, Error> {
        Ok(Object::from_bits(self.media(region)?.catalogue.load()))
    }

    pub(crate) fn version_limit(&self, region: &Region) -> Result<u64, Error> {
        Ok(self.media(region)?.version_limit.load())
    }

    /// Makes versions up to `version`, and some more, usable; returns the new limit. Durable when it
    /// returns.
    pub(crate) fn raise_limit(&self, region: &Region, version: u64) -> Result<u64, Error> {
        let word = &self.media(region)?.version_limit;
        let limit = version + LIMIT_STEP;
        // ORDER: what was in flight stays dead whatever the limit, for its lane's word has not moved.
        region.commit("kv.limit.raise", word, limit);
        // ORDER: the limit is durable before a version below it is used, so that none is used twice.
        region.flush("kv.limit.flush", region.offset_of(word), 8);
        // ORDER: as above.
        region.fence("kv.limit.fence");
        Ok(limit)
    }

    /// Publishes the grouped stamps of the one writer up to `version`. Two fences; durable (synced:
    /// later) when it returns.
    pub(crate) fn commit(&self, region: &Region, version: u64) -> Result<(), Error> {
        let word = &self.media(region)?.lanes[usize::from(LANE)].committed;
        // ORDER: every entry of the group is durable before the word that commits it.
        region.fence_flushed("kv.commit.entries");
        // ORDER: after every entry of the group, as above.
        region.commit("kv.commit.word", word, version);
        // ORDER: the word is durable before anybody is told.
        region.flush("kv.commit.flush", region.offset_of(word), 8);
        // ORDER: as above.
        region.fence("kv.commit.publish");
        Ok(())
    }

    /// What was in flight when the store was last open: grouped stamps above each lane's word.
    pub(crate) fn in_flight(&self, region: &Region) -> Result<Vec<DeadInterval>, Error> {
        let media = self.media(region)?;
        let to = media.version_limit.load();
        let lanes = (0..LANE_COUNT).map(|lane| (lane as u8, media.lanes[lane].committed.load()));
        // A lane that was never used has nothing in flight.
        let used = lanes.filter(|&(_, committed)| committed != 0 && committed < to);
        Ok(used.map(|(lane, from)| DeadInterval { from, to, lane: Some(lane) }).collect())
    }

    pub(crate) fn dead(&self, region: &Region) -> Result<Vec<DeadInterval>, Error> {
        let slots = &self.media(region)?.dead;
        Ok(slots.iter().filter_map(interval).collect())
    }

    /// Notes a dead interval. Durable when it returns; false if the table is full.
    pub(crate) fn note_dead(&self, region: &Region, dead: DeadInterval) -> Result<bool, Error> {
        let media = self.media(region)?;
        let slots = &media.dead;
        // Nobody can make room for an opening, whose intervals reach up to the limit: some is kept.
        let kept = if dead.to == media.version_limit.load() { 0 } else { KEPT_FOR_OPENING };
        let same = slots.iter().find(|slot| {
            interval(slot).is_some_and(|old| old.from == dead.from && old.lane == dead.lane)
        });
        let slot = match same {
            Some(slot) if slot.to.load() >= dead.to => return Ok(true),
            Some(slot) => slot,
            None => match slots.iter().filter(|slot| slot.kind.load() == 0).nth(kept) {
                Some(slot) => slot,
                None => return Ok(false),
            },
        };
        region.store(&slot.from, dead.from);
        region.store(&slot.to, dead.to);
        // ORDER: after from and to: same line, store order.
        region.commit("kv.dead.note", &slot.kind, dead.lane.map_or(KIND_ALL, |l| u64::from(l) + 1));
        // ORDER: dead before a later commit of the lane could make it look committed.
        region.flush("kv.dead.note.flush", region.offset_of(&slot.from), 32);
        // ORDER: as above.
        region.fence("kv.dead.note.fence");
        Ok(true)
    }

    /// Forgets intervals whose stamps have been scrubbed, with the scrub fenced. Durable sooner or
    /// later: an open scrubs again what it finds noted.
    pub(crate) fn forget_dead(
        &self,
        region: &Region,
        scrubbed: &[DeadInterval],
    ) -> Result<(), Error> {
        for slot in &self.media(region)?.dead {
            if interval(slot).is_some_and(|dead| scrubbed.contains(&dead)) {
                // ORDER: after the scrub, which was fenced: nothing carries their stamps any more. Not
                // flushed: what is still noted after a crash is harmless, and who uses the slot
                // next stores to the same line.
                region.commit("kv.dead.forget", &slot.kind, 0);
            }
        }
        Ok(())
    }

    /// The named snapshots.
    pub(crate) fn snapshots(&self, region: &Region) -> Result<Vec<(String, u64)>, Error> {
        let slots = self.media(region)?.snapshots.iter();
        Ok(slots.filter_map(|slot| Some((name(slot)?, slot.version.load()))).collect())
    }

    /// Names a version. Durable when it returns.
    pub(crate) fn name_snapshot(
        &self,
        region: &Region,
        wanted: &str,
        version: u64,
    ) -> Result<(), Error> {
        let slots = &self.media(region)?.snapshots;
        let full = Error::SnapshotName { count: SNAPSHOT_COUNT, size: SNAPSHOT_NAME_SIZE };
        if let Some(slot) = slots.iter().find(|slot| name(slot).as_deref() == Some(wanted)) {
            // ORDER: one store; the older version is kept until it is durable.
            region.commit("kv.snapshot.move", &slot.version, version);
            // ORDER: durable before the older version is given up.
            region.flush("kv.snapshot.move.flush", region.offset_of(&slot.version), 8);
        } else {
            let mut bytes = [0; SNAPSHOT_NAME_SIZE];
            let Some(place) = bytes.get_mut(..wanted.len()) else { return Err(full) };
            place.copy_from_slice(wanted.as_bytes());
            let empty = slots.iter().find(|slot| slot.len.load() == 0);
            let Some(slot) = empty else { return Err(full) };
            region.store(&slot.version, version);
            for (word, chunk) in slot.name.iter().zip(bytes.as_chunks().0) {
                region.store(word, u64::from_le_bytes(*chunk));
            }
            // ORDER: after version and name: same line, store order.
            region.commit("kv.snapshot.name", &slot.len, wanted.len() as u64 + 1);
            // ORDER: named before the caller counts on it.
            region.flush("kv.snapshot.name.flush", region.offset_of(&slot.version), 64);
        }
        // ORDER: as above.
        region.fence("kv.snapshot.fence");
        Ok(())
    }

    /// Forgets a name. Durable when it returns.
    pub(crate) fn forget_snapshot(&self, region: &Region, wanted: &str) -> Result<(), Error> {
        for slot in &self.media(region)?.snapshots {
            if name(slot).as_deref() == Some(wanted) {
                // ORDER: after a rollback's interval; the version is given up later.
                region.commit("kv.snapshot.forget", &slot.len, 0);
                // ORDER: forgotten before the version is given up.
                region.flush("kv.snapshot.forget.flush", region.offset_of(&slot.len), 8);
            }
        }
        // ORDER: as above.
        region.fence("kv.snapshot.forget.fence");
        Ok(())
    }

    /// The stamp of a version of the one writer that commits with its group.
    pub(crate) fn grouped(version: u64) -> Stamp {
        Stamp::grouped(version, LANE)
    }
}

fn interval(slot: &DeadSlot) -> Option<DeadInterval> {
    let lane = match slot.kind.load() {
        0 => return None,
        KIND_ALL => None,
        kind => Some((kind - 1) as u8),
    };
    Some(DeadInterval { from: slot.from.load(), to: slot.to.load(), lane })
}

fn name(slot: &SnapshotSlot) -> Option<String> {
    let len = slot.len.load().checked_sub(1)? as usize;
    let mut bytes = [0; SNAPSHOT_NAME_SIZE];
    for (chunk, word) in bytes.as_chunks_mut().0.iter_mut().zip(&slot.name) {
        *chunk = word.load().to_le_bytes();
    }
    Some(String::from_utf8_lossy(bytes.get(..len)?).into_owned())
}
