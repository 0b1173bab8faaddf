//! The pool: a formatted region, its roots and its space.

use std::path::Path;
use std::sync::{Arc, Mutex};

use tembo_pmem::{Region, RegionOptions, Section, Word};

use crate::ahead::Ahead;
use crate::allocator::{Allocator, Knowledge, Lack};
use crate::class::class_for;
use crate::geometry::Layout;
use crate::growth::{SMALL_STEPS, frontier_step};
use crate::shared::Shared;
use crate::superblock::{self, Checked};
use crate::{Census, Error, Geometry, OBJECT_SIZE_MAX, Object, Sweep, Usage};

/// Lines that a raised frontier flushes beside those of the operation, while it rises by little.
const OWN_LINES: u64 = 1 + SMALL_STEPS;

/// Less than one in so many chunks is little.
const SHORT: u32 = 32;

/// How a pool is created or opened.
#[derive(Clone)]
pub struct PoolOptions {
    /// Bytes in a new pool.
    pub size: u64,
    /// The geometry of a new pool.
    pub geometry: Geometry,
    /// The region below. Its `size_max` bounds the pool's growth.
    pub region: RegionOptions,
}

impl Default for PoolOptions {
    fn default() -> Self {
        PoolOptions {
            size: 64 << 20,
            geometry: Geometry::default(),
            region: RegionOptions::default(),
        }
    }
}

/// A formatted region, open.
pub struct Pool {
    region: Region,
    shared: Arc<Shared>,
    growth: Mutex<()>,
    ahead: Ahead,
    geometry: Geometry,
    generation: u64,
    size_max: u64,
}

impl Pool {
    /// Creates a pool in a new file and opens it. The pool is durable when this returns;
    /// interrupted, there is no file of that name.
    ///
    /// # Errors
    /// [`Error::BadGeometry`]; those of the region: the file exists, the disk is full.
    pub fn create(path: &Path, options: &PoolOptions) -> Result<Pool, Error> {
        Pool::create_with(path, options, |_| Ok(()))
    }

    /// As [`create`](Pool::create); `format` puts the first objects and roots into the pool, of
    /// generation 0 and not growing, before there is a file of that name: whoever finds the file
    /// finds them. What it flushes and fences is kept. No clone of the pool may outlive it.
    ///
    /// # Errors
    /// As [`create`](Pool::create); what `format` says: then there is no file.
    pub fn create_with<E: From<Error>>(
        path: &Path,
        options: &PoolOptions,
        format: impl FnOnce(&Arc<Pool>) -> Result<(), E>,
    ) -> Result<Pool, E> {
        let made = Region::create_with(path, options.size, &options.region, |region| {
            Pool::format(&region, options.geometry)?;
            let found = superblock::check(&region)?;
            let pool = Arc::new(Pool::new(region, found));
            format(&pool).map_err(Refusal::Format)?;
            Ok(Draft(pool))
        });
        match made {
            Ok(region) => Ok(Pool::adopt(region)?),
            Err(Refusal::Pool(error)) => Err(error.into()),
            Err(Refusal::Format(error)) => Err(error),
        }
    }

    /// Opens a pool, which recovers it: its generation is raised, and what was allocated before is
    /// to be found by a [sweep](Pool::begin_sweep), for which nothing waits. Idempotent.
    ///
    /// # Errors
    /// Those of [`check_superblock`](Pool::check_superblock), [`Error::GenerationsExhausted`];
    /// those of [`Region::open`].
    pub fn open(path: &Path, options: &PoolOptions) -> Result<Pool, Error> {
        // What is refused is left as it is.
        let check = |region: &Region| superblock::check(region).map(drop);
        Pool::adopt(Region::open_checked(path, &options.region, check)?)
    }

    /// A pool in memory, which ends with it.
    ///
    /// # Errors
    /// [`Error::BadGeometry`]; too little memory.
    pub fn volatile(options: &PoolOptions) -> Result<Pool, Error> {
        Pool::volatile_with(options, |_| Ok(()))
    }

    /// As [`volatile`](Pool::volatile), with the first objects and roots from `format`.
    ///
    /// # Errors
    /// As [`volatile`](Pool::volatile); what `format` says; [`Error::Kept`].
    pub fn volatile_with<E: From<Error>>(
        options: &PoolOptions,
        format: impl FnOnce(&Arc<Pool>) -> Result<(), E>,
    ) -> Result<Pool, E> {
        let region = Region::volatile(options.size, &options.region).map_err(Error::from)?;
        Pool::format(&region, options.geometry)?;
        let pool = Arc::new(Pool::adopt(region)?);
        format(&pool)?;
        Arc::try_unwrap(pool).map_err(|_| Error::Kept.into())
    }

    /// Opens the pool in a region that is [formatted](Pool::format) already.
    ///
    /// # Errors
    /// Those of [`check_superblock`](Pool::check_superblock).
    pub fn from_region(region: Region) -> Result<Pool, Error> {
        Pool::adopt(region)
    }

    /// Writes an empty pool into a region. Durable when it returns; interrupted, the region is
    /// [not a pool](Error::NotAPool), or a whole one.
    ///
    /// # Errors
    /// [`Error::BadGeometry`], also if the region is too small.
    pub fn format(region: &Region, geometry: Geometry) -> Result<(), Error> {
        superblock::format(region, geometry)
    }

    /// Reads the superblock of a region, without changing anything.
    ///
    /// # Errors
    /// [`Error::NotAPool`], [`Error::Checksum`], [`Error::NewerVersion`],
    /// [`Error::UnknownFeature`], [`Error::BadGeometry`], [`Error::Truncated`],
    /// [`Error::Damaged`]; a [region](Error::Region) too short for a superblock.
    pub fn check_superblock(region: &Region) -> Result<Checked, Error> {
        superblock::check(region)
    }

    fn adopt(region: Region) -> Result<Pool, Error> {
        let found = superblock::adopt(&region)?;
        Ok(Pool::new(region, found))
    }

    fn new(region: Region, found: Checked) -> Pool {
        let size_max = region.report().size_max;
        let layout = Layout::new(found.geometry);
        let (frontier, end) = (layout.chunk_of(found.frontier), layout.chunks_in(found.size));
        Pool {
            region,
            shared: Arc::new(Shared::new(Allocator::new(layout, frontier, end))),
            growth: Mutex::new(()),
            ahead: Ahead::new(found.frontier),
            geometry: found.geometry,
            generation: found.generation,
            size_max,
        }
    }

    /// A clean stop: everything fenced is brought into the one file, which may then be copied.
    /// Nothing else depends on it.
    ///
    /// # Errors
    /// Those of [`Region::close`]. The pool is closed in any case, as by a crash.
    pub fn close(self) -> Result<(), Error> {
        Ok(self.region.close()?)
    }

    /// The region below.
    #[inline]
    pub fn region(&self) -> &Region {
        &self.region
    }

    /// The sizes fixed at creation.
    pub fn geometry(&self) -> Geometry {
        self.geometry
    }

    /// How often the pool has been opened: raised, durably, by each open.
    pub fn generation(&self) -> u64 {
        self.generation
    }

    /// One of the [`ROOT_COUNT`](crate::ROOT_COUNT) root words; all are 0 in a new pool. Whoever stores a root stores,
    /// flushes and fences it through the region.
    ///
    /// # Errors
    /// [`Error::NoSuchRoot`].
    pub fn root(&self, slot: usize) -> Result<&Word, Error> {
        superblock::of(&self.region)?.roots.get(slot).ok_or(Error::NoSuchRoot { slot })
    }

    /// Makes sure, before an operation's first store, that the pool has `bytes` to spare, growing
    /// if it can, and takes room below the waist for `lines` flushed lines.
    ///
    /// It holds the lines, not the bytes: only [`alloc`](Pool::alloc) holds space.
    ///
    /// # Errors
    /// [`Error::PoolFull`]; the region's: disk full, poisoned.
    pub fn reserve(&self, bytes: u64, lines: u64) -> Result<Section<'_>, Error> {
        let step = self.layout().start(frontier_step(self.layout(), self.shared.frontier()));
        if bytes > 0 {
            self.spare(bytes)?;
        }
        Ok(self.region.reserve(lines + OWN_LINES + bytes / step)?)
    }

    /// Takes space for an object of `size` bytes (0 gives the smallest), whose content is undefined.
    /// Within a [section](Pool::reserve), because the frontier may have to be raised.
    ///
    /// The reservation is volatile: after a crash the object is allocated if something durable
    /// refers to it, and free otherwise.
    ///
    /// # Errors
    /// [`Error::PoolFull`], [`Error::TooLarge`]; the region's, when the pool has to grow.
    #[inline]
    pub fn alloc(&self, size: u64) -> Result<Object, Error> {
        let Some(class) = class_for(size) else {
            return Err(Error::TooLarge { size, max: OBJECT_SIZE_MAX });
        };
        let mut allocator = self.shared.lock();
        loop {
            let top = allocator.top();
            match allocator.take(class) {
                Ok(object) => {
                    if allocator.top() == top + 1 {
                        // A new chunk, which objects of the class will fill from now on.
                        drop(allocator);
                        self.region.prepare(self.layout().start(top), self.layout().chunk_size());
                    }
                    return Ok(object);
                }
                Err(Lack::Frontier(needed)) => self.raise_frontier(&mut allocator, needed)?,
                Err(Lack::Size(needed)) => {
                    drop(allocator);
                    self.grow_to(needed, size)?;
                    allocator = self.shared.lock();
                }
            }
        }
    }

    /// Whether [`prepare`](Pool::prepare) has something to do.
    #[inline]
    pub fn wants_to_prepare(&self) -> bool {
        self.region.is_emulated()
            && self.ahead.is_short(self.layout().start(self.shared.frontier()))
    }

    /// Of a pool in memory: makes large pages of the space that will be used next, and grows a large pool for
    /// it. For a thread that nobody waits for: a large page takes milliseconds. A hint; what cannot be is left
    /// to those who come to use the space.
    pub fn prepare(&self) {
        if self.wants_to_prepare() {
            self.ahead.prepare(self, self.layout().start(self.shared.frontier()));
        }
    }

    /// Gives an object's space back. The caller vouches that it is allocated, that its unlinking
    /// has been fenced, and that no reader can still hold it.
    #[inline]
    pub fn free(&self, object: Object) {
        self.shared.lock().give(object);
    }

    /// As [`free`](Pool::free), of many.
    pub fn free_all(&self, objects: impl IntoIterator<Item = Object>) {
        let mut allocator = self.shared.lock();
        objects.into_iter().for_each(|object| allocator.give(object));
    }

    /// Allocates an object, lets `init` write and flush its content, and publishes it in `slot`,
    /// whose word becomes the object's bits. Durable when it returns; interrupted, the object is
    /// whole and published, or free. Two fences.
    ///
    /// # Errors
    /// Those of [`alloc`](Pool::alloc) and of `init`; then nothing is allocated.
    pub fn alloc_into<E: From<Error>>(
        &self,
        slot: &Word,
        size: u64,
        init: impl FnOnce(&Region, Object) -> Result<(), E>,
    ) -> Result<Object, E> {
        let object = self.alloc(size)?;
        if let Err(error) = init(&self.region, object) {
            self.free(object);
            return Err(error);
        }
        // ORDER: the content, flushed by `init`, is durable before the slot refers to it.
        self.region.fence("pool.alloc_into.content");
        // ORDER: after the content, as above.
        self.region.commit("pool.alloc_into.publish", slot, object.to_bits());
        // ORDER: the slot is durable before the caller says that there is an object.
        self.region.flush("pool.alloc_into.flush", self.region.offset_of(slot), 8);
        // ORDER: as above.
        self.region.fence("pool.alloc_into.fence");
        Ok(object)
    }

    /// Whether an object read from media can be one: its class exists, it lies below the frontier
    /// and where its class is placed. Whether it is allocated only its owner knows.
    ///
    /// # Errors
    /// [`Error::OutOfBounds`], [`Error::Misplaced`].
    #[inline]
    pub fn valid(&self, object: Object) -> Result<(), Error> {
        self.shared.valid(object)
    }

    /// Begins a sweep: the one owed since the pool was opened, or a new one, for example after a
    /// rollback. Until it ends, new space comes only from above its limit.
    ///
    /// # Errors
    /// [`Error::SweepRunning`].
    pub fn begin_sweep(&self) -> Result<Sweep, Error> {
        Sweep::begin(Arc::clone(&self.shared))
    }

    /// Whether little space is left that needs no sweep, though a sweep is owed or running that may find
    /// more: what is asked for next may make the pool grow for want of patience.
    pub fn is_short(&self) -> bool {
        let allocator = self.shared.lock();
        let enough = u64::from(allocator.end / SHORT + 2);
        allocator.knowledge != Knowledge::Whole && allocator.spare_chunks() < enough
    }

    /// Begins a census: for a check.
    pub fn census(&self) -> Census {
        Census::begin(Arc::clone(&self.shared), self.region.size())
    }

    /// How full the pool is.
    pub fn usage(&self) -> Usage {
        Usage::of(&self.shared.lock())
    }

    pub(crate) fn shared(&self) -> &Shared {
        &self.shared
    }

    pub(crate) fn growth(&self) -> &Mutex<()> {
        &self.growth
    }

    pub(crate) fn layout(&self) -> Layout {
        self.shared.layout
    }

    pub(crate) fn size_max(&self) -> u64 {
        self.size_max
    }

    /// Sees to it that `bytes` are to spare.
    fn spare(&self, bytes: u64) -> Result<(), Error> {
        let (end, spare, free) = {
            let allocator = self.shared.lock();
            (allocator.end, allocator.spare_chunks(), allocator.free_bytes())
        };
        let missing = bytes.div_ceil(self.layout().chunk_size()).saturating_sub(spare);
        if missing == 0 {
            return Ok(());
        }
        let needed = u64::from(end).saturating_add(missing).min(u32::MAX.into());
        match self.grow_to(needed as u32, bytes) {
            // No whole chunks, but room in chunks that others share.
            Err(Error::PoolFull { .. } | Error::Region(tembo_pmem::Error::DiskFull { .. }))
                if free >= bytes =>
            {
                Ok(())
            }
            grown => grown,
        }
    }
}

/// A pool that is being formatted.
struct Draft(Arc<Pool>);

impl AsRef<Region> for Draft {
    fn as_ref(&self) -> &Region {
        &self.0.region
    }
}

/// Why a creation failed: by itself, or by what the caller wanted in the pool.
enum Refusal<E> {
    Pool(Error),
    Format(E),
}

impl<E> From<Error> for Refusal<E> {
    fn from(error: Error) -> Self {
        Refusal::Pool(error)
    }
}

impl<E> From<tembo_pmem::Error> for Refusal<E> {
    fn from(error: tembo_pmem::Error) -> Self {
        Refusal::Pool(error.into())
    }
}

const _: () = {
    const fn shared_by_threads<T: Send + Sync>() {}
    shared_by_threads::<Pool>();
    shared_by_threads::<Sweep>();
};
