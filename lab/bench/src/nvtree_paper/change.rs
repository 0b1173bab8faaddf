//! Insertion, update and removal (section 4.3, algorithm 2).

use super::leaf::{self, Change, Leaf};
use super::profile::Load;
use super::rebuild::Slot;
use super::{Error, NvTree};

/// Lines that appending flushes at most: two elements, and the count.
const LINES: u64 = 3;

impl NvTree {
    /// Puts a key that is not there. As in the paper it is not looked for first; if it is there all
    /// the same, its value is replaced.
    ///
    /// Durable when it returns. Two FLUSHes, unless a leaf is full.
    ///
    /// # Errors
    /// Those of the pool; damage.
    pub fn insert(&mut self, key: u64, value: u64) -> Result<(), Error> {
        if self.block.is_none() {
            return self.create_new_tree(key, value);
        }
        self.change(key, |_| Some(Change::Insert(value))).map(drop)
    }

    /// Gives a key that is there another value; false: it was not there, and nothing has changed.
    ///
    /// Durable when it returns. Two FLUSHes, unless a leaf is full.
    ///
    /// # Errors
    /// Those of the pool; damage.
    pub fn update(&mut self, key: u64, value: u64) -> Result<bool, Error> {
        self.change(key, |leaf| leaf.find(key).map(|old| Change::Update(old, value)))
    }

    /// Removes a key; false: it was not there, and nothing has changed.
    ///
    /// Durable when it returns. Two FLUSHes, unless a leaf is full.
    ///
    /// # Errors
    /// Those of the pool; damage.
    pub fn remove(&mut self, key: u64) -> Result<bool, Error> {
        self.change(key, |leaf| leaf.find(key).map(Change::Remove))
    }

    /// Changes a key as its leaf has it; false: there is nothing to change.
    #[inline]
    fn change(
        &mut self,
        key: u64,
        what: impl Fn(&Leaf<'_>) -> Option<Change>,
    ) -> Result<bool, Error> {
        loop {
            let Some(block) = &self.block else { return Ok(false) };
            let region = self.pool.region();
            let place = block.find(region, key)?;
            let leaf = Leaf::at(region, place.leaf)?;
            let Some(change) = what(&leaf) else { return Ok(false) };
            if leaf.count() + change.len() <= leaf.capacity() {
                let section = region.reserve(LINES)?;
                change.append_to(&leaf, region, key);
                drop(section);
                self.count(place, Load { reads: 0, writes: change.len() as u64 });
                return Ok(true);
            }
            if self.reshape(key, change)? {
                return Ok(true);
            }
        }
    }

    /// `CreateNewTree` (algorithm 2, line 2): one leaf, visible by the store of the head.
    fn create_new_tree(&mut self, key: u64, value: u64) -> Result<(), Error> {
        let lines = self.leaf_size / 64 + 1;
        let section = self.pool.reserve(self.leaf_size, lines)?;
        let leaf = leaf::write(&self.pool, self.leaf_size, 0, &[(key, value)])?.to_bits();
        let (region, root) = (self.pool.region(), self.root()?);
        // ORDER: the leaf is durable before the head names it.
        region.fence("nvtree_paper.create_new_tree.leaf");
        // ORDER: after the leaf, as above.
        region.commit("nvtree_paper.create_new_tree.head", &root.head, leaf);
        // ORDER: durable before the operation returns.
        region.flush("nvtree_paper.create_new_tree.flush", region.offset_of(&root.head), 8);
        // ORDER: as above.
        region.fence("nvtree_paper.create_new_tree.fence");
        drop(section);
        self.leaf_count = 1;
        self.build(vec![Slot {
            high: u64::MAX,
            leaf,
            units: 1,
            load: Load { reads: 0, writes: 1 },
        }])
    }
}
