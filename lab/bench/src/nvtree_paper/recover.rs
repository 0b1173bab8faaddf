//! Opening (section 4.6): instantly after a clean stop, else by rebuild-from-LN.

use std::sync::Arc;

use tembo_pmem::LINE;
use tembo_pool::{Object, Pool};

use super::block::{Block, Shape};
use super::format::{LEAF_SIZE_MIN, ROOT_MAGIC, TreeRoot};
use super::leaf::Leaf;
use super::profile::Load;
use super::rebuild::Slot;
use super::{Error, NvTree, Options, ROOT_SLOT};

/// How a tree came back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Recovery {
    /// With the inner nodes of a clean stop.
    Instant,
    /// From its leaves.
    FromLeaves,
}

impl NvTree {
    /// Opens the tree in a pool; its leaves have the size that it was made with.
    ///
    /// # Errors
    /// Damage; those of the pool.
    pub fn open(pool: Arc<Pool>, options: &Options) -> Result<(NvTree, Recovery), Error> {
        let object = Object::from_bits(pool.root(ROOT_SLOT)?.load());
        pool.valid(object)?;
        let (offset, what) = (object.offset(), "the root of a tree");
        let root: &TreeRoot = pool.region().get(offset)?;
        let leaf_size = root.leaf_size.load();
        let sound = leaf_size.is_multiple_of(LINE) && leaf_size >= LEAF_SIZE_MIN;
        if root.magic.load() != ROOT_MAGIC || !sound || object.size() < LINE {
            return Err(Error::Damaged { offset, what });
        }
        let mut tree = NvTree::new(pool, offset, leaf_size, options)?;
        if tree.take_over()? {
            return Ok((tree, Recovery::Instant));
        }
        tree.rebuild_from_leaves()?;
        Ok((tree, Recovery::FromLeaves))
    }

    /// A clean stop: all INs and PLNs are flushed, and a flag says so. Nothing depends on it but the
    /// time of the next opening. Durable when it returns.
    ///
    /// # Errors
    /// Those of the pool.
    pub fn stop(self) -> Result<(), Error> {
        let Some(block) = self.block else { return Ok(()) };
        let (region, root) = (self.pool.region(), self.root()?);
        let used = block.used();
        let lines = used.iter().map(|(_, bytes)| bytes / LINE).sum::<u64>() + 2;
        let section = region.reserve(lines)?;
        for (offset, bytes) in used {
            // ORDER: the block is durable before the flag vouches for it.
            region.flush("nvtree_paper.stop.block", offset, bytes);
        }
        // ORDER: as above.
        region.fence("nvtree_paper.stop.block_fence");
        region.store(&root.block, block.object.to_bits());
        region.store(&root.units, block.shape.units);
        region.store(&root.leaves, self.leaf_count);
        // ORDER: after the block, and after the words about it, which are in the same line.
        region.commit("nvtree_paper.stop.flag", &root.clean, 1);
        // ORDER: durable before the caller learns that this was a clean stop.
        region.flush("nvtree_paper.stop.flag_flush", self.root, LINE);
        // ORDER: as above.
        region.fence("nvtree_paper.stop.flag_fence");
        drop(section);
        Ok(())
    }

    /// Takes over the block of a clean stop; false: there was none.
    fn take_over(&mut self) -> Result<bool, Error> {
        let (region, root) = (self.pool.region(), self.root()?);
        if root.clean.load() == 0 {
            return Ok(false);
        }
        let object = Object::from_bits(root.block.load());
        let shape = Shape::new(self.pool.geometry().node_size.into(), root.units.load());
        let leaf_count = root.leaves.load();
        let section = region.reserve(1)?;
        // ORDER: the flag is taken down before anything changes in the block that it vouches for.
        region.commit("nvtree_paper.open.flag", &root.clean, 0);
        // ORDER: as above.
        region.flush("nvtree_paper.open.flush", self.root, LINE);
        // ORDER: as above.
        region.fence("nvtree_paper.open.fence");
        drop(section);
        self.pool.valid(object)?;
        if shape.units == 0 || shape.bytes() > object.size() {
            return Err(Error::Damaged { offset: self.root, what: "a block of inner nodes" });
        }
        self.leaf_count = leaf_count;
        if let Some(adaptivity) = &mut self.adaptivity {
            adaptivity.profile.lay_out(shape);
        }
        self.block = Some(Block { object, shape });
        Ok(true)
    }

    /// Rebuild-from-LN: each leaf's greatest key, found by a scan of it. Empty leaves are unlinked.
    ///
    /// # Errors
    /// Damage; those of the pool.
    fn rebuild_from_leaves(&mut self) -> Result<(), Error> {
        let (mut slots, mut bits) = (Vec::<Slot>::new(), self.head()?);
        let mut before = self.root + std::mem::offset_of!(TreeRoot, head) as u64;
        let mut left = self.leaves_max();
        while bits != 0 {
            self.pool.valid(Object::from_bits(bits))?;
            let region = self.pool.region();
            let leaf = Leaf::at(region, bits)?;
            let (offset, next) = (leaf.object.offset(), leaf.header.next.load());
            let high = leaf.key_max();
            let rises = slots.last().is_none_or(|last| high.is_none_or(|high| high > last.high));
            left = left.saturating_sub(1);
            if !rises || left == 0 {
                return Err(Error::Damaged { offset, what: "a list of leaves in key order" });
            }
            match high {
                Some(high) => {
                    slots.push(Slot { high, leaf: bits, units: 1, load: Load::default() });
                    before = region.offset_of(&leaf.header.next);
                }
                None => self.unlink(before, next)?,
            }
            bits = next;
        }
        self.leaf_count = slots.len() as u64;
        let Some(last) = slots.last_mut() else { return Ok(()) };
        last.high = u64::MAX;
        self.build(slots)
    }

    /// Unlinks a leaf without elements: the word at `before` leads to it.
    fn unlink(&self, before: u64, next: u64) -> Result<(), Error> {
        let region = self.pool.region();
        let section = region.reserve(1)?;
        // ORDER: none beside the fence: the leaf holds nothing.
        region.commit("nvtree_paper.unlink.next", &region.words(before, 1)?[0], next);
        // ORDER: durable before a sweep gives the leaf to others.
        region.flush("nvtree_paper.unlink.flush", before, 8);
        // ORDER: as above.
        region.fence("nvtree_paper.unlink.fence");
        drop(section);
        Ok(())
    }

    /// Finds out which space below the pool's frontier is in use: owed since the pool was opened, and
    /// no part of recovery.
    ///
    /// # Errors
    /// Damage; a sweep is running.
    pub fn sweep(&self) -> Result<(), Error> {
        let mut sweep = self.pool.begin_sweep()?;
        let root = Object::from_bits(self.pool.root(ROOT_SLOT)?.load());
        sweep.mark(root)?;
        if let Some(block) = self.block {
            sweep.mark(block.object)?;
        }
        let (mut bits, mut left) = (self.head()?, self.leaves_max());
        while bits != 0 && left > 0 {
            sweep.mark(Object::from_bits(bits))?;
            bits = Leaf::at(self.region(), bits)?.header.next.load();
            left -= 1;
        }
        sweep.finish([])?;
        Ok(())
    }

    /// More leaves cannot be: a list that has more is a circle.
    fn leaves_max(&self) -> u64 {
        self.region().size() / LEAF_SIZE_MIN + 1
    }
}
