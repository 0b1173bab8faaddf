//! The root of a store: where it lies, how it is made, and whether it is sound.

use std::sync::Arc;

use tembo_index::{Stamp, VERSION_MAX};
use tembo_pmem::Region;
use tembo_pool::{Object, Pool};

use super::format::{
    KIND_ALL, LANE_COUNT, ROOT_SIZE, SNAPSHOT_NAME_SIZE, STORE_MAGIC, StoreRoot, WINDOW_FIXED,
};
use crate::Error;

const LANES: u64 = LANE_COUNT as u64;

/// Versions by which the limit of versions is raised. So there is one fence more in so many commits.
pub(super) const LIMIT_STEP: u64 = 1 << 16;

/// The lane of the writer.
pub(crate) const LANE: u8 = 0;

/// The stamp of a version of the writer that commits with its group.
pub(crate) fn grouped(version: u64) -> Stamp {
    Stamp::grouped(version, LANE)
}

/// Where the root of a store lies.
#[derive(Clone)]
pub(crate) struct Root {
    pool: Arc<Pool>,
    object: Object,
}

impl Root {
    /// The size of a root, in bytes.
    pub(crate) const SIZE: u64 = ROOT_SIZE;

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

    /// The root at an object.
    ///
    /// # Errors
    /// [`Error::Damaged`] if what lies there is not a root, or not a sound one.
    pub(crate) fn open(pool: Arc<Pool>, object: Object) -> Result<Root, Error> {
        pool.valid(object)?;
        let root = Root { pool, object };
        let media = root.media()?;
        // A smaller object would leave a part of the root to others.
        if media.magic.load() != STORE_MAGIC || object.size() < ROOT_SIZE {
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
        if !dead_sound || !names_sound || !past_is_sound(media, limit) {
            return Err(Error::Damaged { what: "dead intervals and names below the limit" });
        }
        Ok(root)
    }

    /// The words of the root.
    pub(super) fn media(&self) -> Result<&StoreRoot, Error> {
        Ok(self.region().get(self.object.offset())?)
    }

    pub(crate) fn region(&self) -> &Region {
        self.pool.region()
    }

    /// The object that it lies in.
    pub(crate) fn object(&self) -> Object {
        self.object
    }

    /// The root cell of the catalogue.
    pub(crate) fn catalogue(&self) -> Result<Object, Error> {
        Ok(Object::from_bits(self.media()?.catalogue.load()))
    }
}

/// Whether what the root says of the window and of rollbacks is possible.
fn past_is_sound(media: &StoreRoot, limit: u64) -> bool {
    let (from, to) = (media.void_from.load(), media.void_to.load());
    let window = media.window_from.load();
    window != WINDOW_FIXED
        && window & !WINDOW_FIXED <= limit
        && media.window_count.load() <= VERSION_MAX
        && to <= limit
        && (to == 0 || from <= to)
}
