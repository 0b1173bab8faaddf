//! The NV-Tree as its paper has it: Yang et al., "NV-Tree: a consistent and
//! workload-adaptive tree structure for non-volatile memory", IEEE Transactions on Computers 65(7),
//! 2016, sections 4 and 5. A rival, kept so that its experiments can be repeated.
//!
//! # The idea
//! Only leaves are *critical*: they alone are kept consistent, and inner nodes are rebuilt from them
//! after a crash (section 3.2). Elements of a leaf are neither sorted nor changed: an insertion appends
//! a POSITIVE element, a removal a NEGATIVE one, an update both, and one store to the leaf's count then
//! shows them (section 4.3). So each costs two FLUSHes, of the elements and of the count; a FLUSH is
//! here a flush and a fence. A full leaf is *split*, *replaced* or *merged* with its right sibling:
//! what is valid in it is copied to fresh leaves, which become visible by one store to the list
//! (section 4.4). Inner nodes lie in one block and find each other by arithmetic (`block.rs`, section
//! 4.2); when a PLN is full, all of them are built anew with one leaf in each PLN (section 4.5).
//! Sizes of leaves may follow the workload ([`Strategy`], [`Times`], section 5).
//!
//! # Where the paper is silent or wrong
//! - Its NEGATIVE element cancels a POSITIVE one of equal value, so that putting a value, removing the
//!   key and putting the value again loses it. Here the newest element of a key decides.
//! - An update that raises the count twice would lose the key in a crash between. Here it is raised
//!   by two in one store.
//! - A merge across parents is not described: keys of INs are fixed, so both PLNs name the merged leaf
//!   until the next rebuild makes one slot of both. Should it become full before, it is split where its
//!   parents meet.
//! - The left sibling of a split leaf is needed, and there is no pointer to it: it is where the greatest
//!   key below the leaf's own range belongs.
//! - An empty leaf has no maximum, from which rebuild-from-LN could make a key: it is unlinked then.
//! - An enlarged PLN would break the arithmetic on ids: it takes several ids (`block.rs`). A hot-write
//!   PLN is made one unit larger than the one that its leaf was in, rebuild after rebuild: only then
//!   does sequential insertion cost what the paper's figure 9a says.
//! - Algorithm 1 names PLNs by their ids, and "full" means without a place for one more leaf.
//!
//! Keys and values are of eight bytes. One thread at a time: the paper's "light-weight locks" are not
//! described. For the domains `flush`, `eadr` and `volatile`.

mod block;
mod change;
mod format;
mod leaf;
mod model;
mod profile;
mod rebuild;
mod recover;
mod reshape;
mod strategy;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use serde::Serialize;
use tembo_pmem::{LINE, Region};
use tembo_pool::{Object, Pool};

use self::block::{Block, Place};
use self::format::{LEAF_SIZE_MIN, ROOT_MAGIC, TreeRoot};
use self::leaf::Leaf;
pub use self::model::Times;
use self::profile::{Load, Profile};
pub use self::recover::Recovery;
pub use self::strategy::Strategy;
use crate::Error;

/// The pool's root slot that names the tree.
const ROOT_SLOT: usize = 0;

/// How a tree is made and behaves.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// Bytes in a leaf, at first or for ever; whole lines, at least three.
    pub leaf_size: u64,
    /// No leaf grows beyond so many bytes.
    pub leaf_size_max: u64,
    /// How sizes follow the workload; `None`: they do not, and PLNs are not enlarged either.
    pub strategy: Option<Strategy>,
}

impl Default for Options {
    fn default() -> Options {
        Options { leaf_size: 1024, leaf_size_max: 16 << 10, strategy: None }
    }
}

/// What following the workload needs.
struct Adaptivity {
    strategy: Strategy,
    times: Times,
    profile: Profile,
}

/// How often, and how long, inner nodes were rebuilt since the tree was opened.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct Rebuilds {
    /// Rebuilds.
    pub count: u64,
    /// Wall time of all of them, in nanoseconds.
    pub time_ns: u64,
}

/// The paper's tree. See the [module](self).
pub struct NvTree {
    pool: Arc<Pool>,
    /// Offset of the reserved position.
    root: u64,
    leaf_size: u64,
    leaf_count: u64,
    /// `None` while the tree is empty.
    block: Option<Block>,
    adaptivity: Option<Adaptivity>,
    rebuilds: Rebuilds,
}

impl NvTree {
    /// Makes an empty tree in a pool that has none. Durable when it returns.
    ///
    /// # Errors
    /// Those of the pool.
    pub fn create(pool: Arc<Pool>, options: &Options) -> Result<NvTree, Error> {
        let leaf_size = options.leaf_size.next_multiple_of(LINE).max(LEAF_SIZE_MIN);
        let section = pool.reserve(LINE, 2)?;
        let slot = pool.root(ROOT_SLOT)?;
        let root = pool.alloc_into::<Error>(slot, LINE, |region, object| {
            let root: &TreeRoot = region.get(object.offset())?;
            for word in region.words(object.offset(), 8)? {
                region.store(word, 0);
            }
            region.store(&root.leaf_size, leaf_size);
            region.store(&root.magic, ROOT_MAGIC);
            // ORDER: the root is durable before the pool's slot names it.
            region.flush("nvtree_paper.create.root", object.offset(), LINE);
            Ok(())
        })?;
        drop(section);
        NvTree::new(pool, root.offset(), leaf_size, options)
    }

    fn new(pool: Arc<Pool>, root: u64, leaf_size: u64, options: &Options) -> Result<NvTree, Error> {
        let size_max = options.leaf_size_max.max(leaf_size);
        let adapt = |strategy| {
            let times = Times::measure(&pool, size_max)?;
            Ok::<_, Error>(Adaptivity { strategy, times, profile: Profile::default() })
        };
        let adaptivity = options.strategy.map(adapt).transpose()?;
        let (block, rebuilds) = (None, Rebuilds::default());
        Ok(NvTree { pool, root, leaf_size, leaf_count: 0, block, adaptivity, rebuilds })
    }

    /// The pool.
    pub fn pool(&self) -> &Arc<Pool> {
        &self.pool
    }

    /// Leaves in the list.
    pub fn leaf_count(&self) -> u64 {
        self.leaf_count
    }

    /// Rebuilds since the tree was opened.
    pub fn rebuilds(&self) -> Rebuilds {
        self.rebuilds
    }

    /// From here on sizes follow the workload, of which nothing is known yet: so that several strategies can
    /// begin with the same tree.
    ///
    /// # Errors
    /// Those of the pool.
    pub fn follow(&mut self, strategy: Strategy, leaf_size_max: u64) -> Result<(), Error> {
        let times = Times::measure(&self.pool, leaf_size_max.max(self.leaf_size))?;
        let mut profile = Profile::default();
        if let Some(block) = &self.block {
            profile.lay_out(block.shape);
        }
        self.adaptivity = Some(Adaptivity { strategy, times, profile });
        Ok(())
    }

    /// Bytes of the leaf that a key belongs to; `None`: the tree is empty.
    ///
    /// # Errors
    /// Damage.
    pub fn leaf_bytes(&self, key: u64) -> Result<Option<u64>, Error> {
        let Some(block) = &self.block else { return Ok(None) };
        let place = block.find(self.region(), key)?;
        Ok(Some(Leaf::at(self.region(), place.leaf)?.object.size()))
    }

    /// What the medium takes, if sizes follow the workload.
    pub fn times(&self) -> Option<&Times> {
        self.adaptivity.as_ref().map(|adaptivity| &adaptivity.times)
    }

    /// The value of a key.
    ///
    /// # Errors
    /// Damage.
    pub fn get(&self, key: u64) -> Result<Option<u64>, Error> {
        let Some(block) = &self.block else { return Ok(None) };
        let place = block.find(self.region(), key)?;
        self.count(place, Load { reads: 1, writes: 0 });
        Ok(Leaf::at(self.region(), place.leaf)?.find(key))
    }

    /// Visits keys and values from `from` on, in order, until `visit` returns false. Leaves are sorted
    /// as they are met, for the paper has no other order.
    ///
    /// # Errors
    /// Damage.
    pub fn scan(&self, from: u64, visit: &mut dyn FnMut(u64, u64) -> bool) -> Result<(), Error> {
        let Some(block) = &self.block else { return Ok(()) };
        let place = block.find(self.region(), from)?;
        self.count(place, Load { reads: 1, writes: 0 });
        let mut bits = place.leaf;
        while bits != 0 {
            let leaf = Leaf::at(self.region(), bits)?;
            for (key, value) in leaf.valid() {
                if key >= from && !visit(key, value) {
                    return Ok(());
                }
            }
            bits = leaf.header.next.load();
        }
        Ok(())
    }

    fn region(&self) -> &Region {
        self.pool.region()
    }

    fn root(&self) -> Result<&TreeRoot, Error> {
        Ok(self.region().get(self.root)?)
    }

    fn head(&self) -> Result<u64, Error> {
        Ok(self.root()?.head.load())
    }

    #[inline]
    fn count(&self, place: Place, load: Load) {
        if let Some(adaptivity) = &self.adaptivity {
            adaptivity.profile.add(place, load);
        }
    }

    fn free(&self, bits: u64) {
        self.pool.free(Object::from_bits(bits));
    }
}
