//! What becomes of a full leaf (section 4.4, figure 4): split, replaced, or merged with its right
//! sibling. Fresh leaves are written with the change in them, and one store to the list shows them.

use tembo_pmem::LINE;

use super::block::{Block, Located};
use super::format::capacity;
use super::leaf::{self, Change, Leaf};
use super::profile::Load;
use super::strategy::Observed;
use super::{Error, NvTree};

/// Keys and values, in key order.
type Entries = [(u64, u64)];

/// Leaves that an operation writes at most.
const LEAVES: u64 = 2;

/// A full leaf: its slots, and what is valid in it, the change included.
struct Full {
    run: Vec<Located>,
    entries: Vec<(u64, u64)>,
    size: u64,
    next: u64,
}

impl NvTree {
    /// Makes room in the full leaf of a key, and the change with it; false: there is room now, or a
    /// step towards it, and the change is still to be made.
    #[cold]
    pub(super) fn reshape(&mut self, key: u64, change: Change) -> Result<bool, Error> {
        let Some(block) = self.block else { return Ok(false) };
        let region = self.pool.region();
        let run = block.run(region, key)?;
        let leaf = Leaf::at(region, run[0].place.leaf)?;
        let mut entries = leaf.valid();
        let is_filled = 2 * entries.len() > leaf.capacity();
        let (size, next) = (leaf.size(), leaf.header.next.load());
        if is_filled && run.len() > 1 {
            let full = Full { run, entries, size, next };
            self.split_at_parents(block, &full)?;
            return Ok(false);
        }
        change.apply_to(&mut entries, key);
        let full = Full { run, entries, size, next };
        if is_filled {
            return self.split(block, &full, key, change);
        }
        let sibling = match full.run.last() {
            Some(last) => block.after(region, *last)?,
            None => None,
        };
        match sibling {
            Some(sibling) if self.can_merge(&full, sibling)? => {
                self.merge(block, &full, key, sibling)?;
            }
            _ => self.replace(block, &full)?,
        }
        self.wrote(key, change)?;
        Ok(true)
    }

    /// Two leaves for one. False: the PLN was full, and all are rebuilt first.
    fn split(
        &mut self,
        block: Block,
        full: &Full,
        key: u64,
        change: Change,
    ) -> Result<bool, Error> {
        let place = full.run[0].place;
        let count = block.pln(self.pool.region(), place.pln)?.count;
        if block.pln(self.pool.region(), place.pln)?.is_full() {
            self.rebuild()?;
            return Ok(false);
        }
        let (left, right) = full.entries.split_at(full.entries.len() / 2);
        let size = self.new_size(full, right.len());
        let leaves = self.link_two(block, full, size, (left, right))?;
        let separator = left.last().map_or(0, |entry| entry.0);
        block.split_slot(self.pool.region(), place, separator, leaves)?;
        if let Some(adaptivity) = &self.adaptivity {
            let profile = &adaptivity.profile;
            profile.split(place, count, profile.leaf(place));
        }
        self.free(place.leaf);
        self.leaf_count += 1;
        self.wrote(key, change)?;
        Ok(true)
    }

    /// Divides a leaf that several PLNs name where the first of them ends.
    fn split_at_parents(&mut self, block: Block, full: &Full) -> Result<(), Error> {
        let high = full.run[0].high;
        let middle = full.entries.partition_point(|entry| entry.0 <= high);
        let parts = full.entries.split_at(middle);
        let (left, right) = self.link_two(block, full, full.size, parts)?;
        for (at, located) in full.run.iter().enumerate() {
            block.set_leaf(
                self.pool.region(),
                located.place,
                if at == 0 { left } else { right },
            )?;
        }
        self.free(full.run[0].place.leaf);
        self.leaf_count += 1;
        Ok(())
    }

    fn link_two(
        &self,
        block: Block,
        full: &Full,
        size: u64,
        (left, right): (&Entries, &Entries),
    ) -> Result<(u64, u64), Error> {
        let section = self.pool.reserve(LEAVES * size, LEAVES * size / LINE + 1)?;
        let right = leaf::write(&self.pool, size, full.next, right)?.to_bits();
        let left = leaf::write(&self.pool, size, right, left)?.to_bits();
        self.link(block, full, left)?;
        drop(section);
        Ok((left, right))
    }

    /// The same leaf again, without what is not valid.
    fn replace(&mut self, block: Block, full: &Full) -> Result<(), Error> {
        self.link_one(block, full, full.size, full.next, &full.entries, &[])
    }

    /// Whether the right sibling is to be merged: by its number of elements, as the paper has it, for
    /// counting valid ones takes a scan.
    fn can_merge(&self, full: &Full, sibling: Located) -> Result<bool, Error> {
        let sibling = Leaf::at(self.pool.region(), sibling.place.leaf)?;
        let size = full.size.max(sibling.size());
        let few = 2 * sibling.count() <= sibling.capacity();
        Ok(few && full.entries.len() + sibling.count() <= capacity(size))
    }

    /// One leaf for two.
    fn merge(
        &mut self,
        block: Block,
        full: &Full,
        key: u64,
        sibling: Located,
    ) -> Result<(), Error> {
        let region = self.pool.region();
        let right = Leaf::at(region, sibling.place.leaf)?;
        let (size, next) = (full.size.max(right.size()), right.header.next.load());
        let entries = [full.entries.as_slice(), &right.valid()].concat();
        let right_run = block.run(region, sibling.low.map_or(key, |low| low + 1))?;
        self.link_one(block, full, size, next, &entries, &right_run)?;
        self.free(sibling.place.leaf);
        self.leaf_count -= 1;
        let (Some(last), Some(first)) = (full.run.last(), right_run.first()) else {
            return Ok(());
        };
        if last.place.pln == first.place.pln {
            let count = block.pln(self.pool.region(), last.place.pln)?.count;
            block.join_slot(self.pool.region(), last.place)?;
            if let Some(adaptivity) = &self.adaptivity {
                adaptivity.profile.join(last.place, count);
            }
        }
        Ok(())
    }

    /// Writes a leaf, links it, and lets the slots of the full one, and `others`, name it.
    fn link_one(
        &self,
        block: Block,
        full: &Full,
        size: u64,
        next: u64,
        entries: &Entries,
        others: &[Located],
    ) -> Result<(), Error> {
        let section = self.pool.reserve(size, size / LINE + 1)?;
        let leaf = leaf::write(&self.pool, size, next, entries)?.to_bits();
        self.link(block, full, leaf)?;
        for located in full.run.iter().chain(others) {
            block.set_leaf(self.pool.region(), located.place, leaf)?;
        }
        drop(section);
        self.free(full.run[0].place.leaf);
        Ok(())
    }

    /// Shows fresh leaves by one store: to the pointer of the left sibling, or to the head.
    fn link(&self, block: Block, full: &Full, leaf: u64) -> Result<(), Error> {
        let region = self.pool.region();
        let before = match full.run[0].low {
            Some(low) => &Leaf::at(region, block.find(region, low)?.leaf)?.header.next,
            None => &self.root()?.head,
        };
        if before.load() != full.run[0].place.leaf {
            let offset = region.offset_of(before);
            return Err(Error::Damaged { offset, what: "the list of leaves as the PLNs have it" });
        }
        // ORDER: fresh leaves are durable before the list leads to them.
        region.fence("nvtree_paper.link.leaves");
        // ORDER: after the leaves, as above: with one store the list leads to all of them, and no
        // longer to those that they replace.
        region.commit("nvtree_paper.link.publish", before, leaf);
        // ORDER: durable before the leaves that it led to are given to others.
        region.flush("nvtree_paper.link.flush", region.offset_of(before), 8);
        // ORDER: as above.
        region.fence("nvtree_paper.link.fence");
        Ok(())
    }

    /// The size of the two leaves of a split, each with room for `len` entries and a change.
    fn new_size(&self, full: &Full, len: usize) -> u64 {
        let Some(adaptivity) = &self.adaptivity else { return full.size };
        let profile = &adaptivity.profile;
        let leaf = profile.leaf(full.run[0].place);
        let seen = Observed { leaf, total: profile.total(), leaves: self.leaf_count };
        let size = adaptivity.strategy.new_size(full.size, seen, &adaptivity.times);
        if len + 2 <= capacity(size) { size } else { full.size }
    }

    /// Counts a change that was made in a fresh leaf.
    fn wrote(&self, key: u64, change: Change) -> Result<(), Error> {
        let Some(block) = &self.block else { return Ok(()) };
        if self.adaptivity.is_some() {
            let place = block.find(self.pool.region(), key)?;
            self.count(place, Load { reads: 0, writes: change.len() as u64 });
        }
        Ok(())
    }
}
