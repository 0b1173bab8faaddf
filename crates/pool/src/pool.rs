//! The pool: a formatted region, its roots and its space.

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use tembo_pmem::thread::lock;
use tembo_pmem::{Region, RegionOptions, Section, Word};

use crate::format::Superblock;
use crate::give_back::{self, GivenBack, Sparing};
use crate::log::Log;
use crate::shrink;
use crate::space::Space;
use crate::superblock::{self, Access, Checked};
use crate::tenant::{self, Live, Registry};
use crate::{
    Account, Census, Committed, Error, FeatureSet, Features, Fragmentation, Geometry, Kind,
    KnownKind, Marker, NewTenant, Object, Operation, Relief, Sweep, Tenant, TenantCheck,
    TenantEntry, TenantError, TenantFeatures, TenantId, TenantStat, Usage,
};

/// How a pool is created or opened.
#[derive(Clone)]
pub struct PoolOptions {
    /// Bytes in a new pool.
    pub size: u64,
    /// The geometry of a new pool.
    pub geometry: Geometry,
    /// The region below. Its `size_max` bounds the pool's growth.
    pub region: RegionOptions,
    /// The kinds of tenants that the program knows. A pool with a tenant of another kind cannot be
    /// opened to write.
    pub kinds: Kinds,
}

/// A kind of tenant that a program knows, and how to open one that only a sweep or a check needs.
pub trait TenantKind: Send + Sync {
    /// The kind, the newest version of its format, and its features.
    fn known(&self) -> KnownKind;

    /// Opens a tenant of this kind that nothing else of the process has open, by [`Pool::open_tenant`].
    ///
    /// # Errors
    /// Those that the opening met.
    fn open(&self, pool: &Arc<Pool>, entry: &TenantEntry) -> Result<Arc<dyn Tenant>, TenantError>;
}

/// The kinds of tenants that a program knows.
#[derive(Clone, Default)]
pub struct Kinds(Vec<Arc<dyn TenantKind>>);

impl Kinds {
    /// These kinds and another one, which replaces one of the same kind.
    #[must_use]
    pub fn with(mut self, kind: Arc<dyn TenantKind>) -> Kinds {
        self.0.retain(|other| other.known().kind != kind.known().kind);
        self.0.push(kind);
        self
    }

    fn find(&self, kind: Kind) -> Option<&Arc<dyn TenantKind>> {
        self.0.iter().find(|known| known.known().kind == kind)
    }

    /// Whether a pool with this tenant can be opened.
    fn admit(&self, entry: &TenantEntry, access: Access) -> Result<(), Error> {
        let known = self.find(entry.kind).map(|kind| kind.known());
        tenant::admit(entry, known, access == Access::Write)
    }
}

impl Default for PoolOptions {
    fn default() -> Self {
        PoolOptions {
            size: 64 << 20,
            geometry: Geometry::default(),
            region: RegionOptions::default(),
            kinds: Kinds::default(),
        }
    }
}

/// What the check of a pool found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PoolCheck {
    /// The uses of all bytes.
    pub account: Account,
    /// The result of each tenant, by its name.
    pub tenants: Vec<(String, TenantCheck)>,
}

/// A formatted region, open.
pub struct Pool {
    pub(crate) space: Space,
    log: Log,
    found: Checked,
    kinds: Kinds,
    registry: Arc<Registry>,
    /// Held while the format's version is raised.
    raising: Mutex<()>,
    /// Whether the file is cut when the pool is closed.
    shrinks: AtomicBool,
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
    /// generation 0 and not growing, before there is a file of that name: a program that finds the file
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
            let found = superblock::check(&region, Access::Write)?;
            let pool = Arc::new(Pool::new(region, found, options.kinds.clone())?);
            format(&pool).map_err(Refusal::Format)?;
            Ok(Forming(pool))
        });
        match made {
            Ok(region) => Ok(Pool::adopt(region, options.kinds.clone())?),
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
        // A pool that is refused is not changed.
        let access = Access::of(options.region.read_only);
        let check = |region: &Region| Pool::check_to(region, &options.kinds, access).map(drop);
        let region = Region::open_checked(path, &options.region, check)?;
        Pool::adopt(region, options.kinds.clone())
    }

    /// Makes a pool in memory, which ends when it is dropped.
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
        let pool = Arc::new(Pool::adopt(region, options.kinds.clone())?);
        format(&pool)?;
        Arc::try_unwrap(pool).map_err(|_| Error::Kept.into())
    }

    /// Opens the pool in a region that is [formatted](Pool::format) already.
    ///
    /// # Errors
    /// Those of [`check_superblock`](Pool::check_superblock).
    pub fn from_region(region: Region) -> Result<Pool, Error> {
        Pool::from_region_of(region, Kinds::default())
    }

    /// As [`from_region`](Pool::from_region), for a program that knows these kinds of tenants.
    ///
    /// # Errors
    /// As [`open`](Pool::open).
    pub fn from_region_of(region: Region, kinds: Kinds) -> Result<Pool, Error> {
        Pool::adopt(region, kinds)
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
        superblock::check(region, Access::Read)
    }

    /// Checks the superblock and the table of tenants, for a program that knows these kinds.
    fn check_to(region: &Region, kinds: &Kinds, access: Access) -> Result<Checked, Error> {
        let found = superblock::check(region, access)?;
        let tenants = tenant::read(region, &found)?;
        if access == Access::Write {
            tenants.iter().try_for_each(|entry| kinds.admit(entry, access))?;
        }
        Ok(found)
    }

    fn adopt(region: Region, kinds: Kinds) -> Result<Pool, Error> {
        let found = Pool::check_to(&region, &kinds, Access::of(region.is_read_only()))?;
        let found = superblock::adopt(&region, found)?;
        Pool::new(region, found, kinds)
    }

    fn new(region: Region, found: Checked, kinds: Kinds) -> Result<Pool, Error> {
        let space = Space::new(region, &found);
        let log = Log::open(&space, found.log)?;
        let (registry, raising, shrinks) = Default::default();
        Ok(Pool { space, log, found, kinds, registry, raising, shrinks })
    }

    /// Closes the pool cleanly: everything fenced is brought into the one file, which may then be copied.
    /// Nothing else depends on it.
    ///
    /// # Errors
    /// Those of [`Region::close`]. The pool is closed in any case, as by a crash.
    pub fn close(self) -> Result<(), Error> {
        let region = self.space.region;
        if !self.shrinks.into_inner() {
            return Ok(region.close()?);
        }
        let size = shrink::lower(&region, &self.space.shared)?.unwrap_or(region.size());
        Ok(region.close_at(size)?)
    }

    /// Makes the pool give free space at its end back to the file system when it is [closed](Pool::close), if a sweep has
    /// found out by then which space is free.
    pub fn shrink_when_closed(&self) {
        self.shrinks.store(true, Ordering::Relaxed);
    }

    /// Gives blocks of free space back to the file system: at most 16 MiB of them, durably. Free space without
    /// blocks gets them when it is used again. If the disk is full then, a checkpoint of the region fails and is
    /// tried again, and operations are refused when the log has no room left.
    ///
    /// It waits for the disk, and so is for a background thread. No sweep begins meanwhile.
    ///
    /// # Errors
    /// Those of [`Region::punch`].
    pub fn give_blocks_back(&self, sparing: Sparing) -> Result<GivenBack, Error> {
        let (done, is_awaited) = give_back::give_back(self.region(), &self.space.shared, sparing);
        if is_awaited {
            self.registry.sweep_ended();
        }
        done
    }

    /// [Gives back](Pool::give_blocks_back) all blocks of space that holds nothing, where the file system can take them.
    ///
    /// # Errors
    /// Those of [`Region::punch`] and [`Region::checkpoint`].
    pub fn give_all_blocks_back(&self) -> Result<(), Error> {
        let mut is_checkpointed = false;
        loop {
            match self.give_blocks_back(Sparing::All)? {
                GivenBack::Nothing => return Ok(()),
                GivenBack::NotYet if is_checkpointed => return Ok(()),
                GivenBack::NotYet => {
                    self.region().checkpoint()?;
                    is_checkpointed = true;
                }
                GivenBack::Bytes(_) => is_checkpointed = false,
                GivenBack::Looked => {}
            }
        }
    }

    /// The region below.
    #[inline]
    pub fn region(&self) -> &Region {
        &self.space.region
    }

    /// The sizes fixed at creation.
    pub fn geometry(&self) -> Geometry {
        self.found.geometry
    }

    /// How often the pool has been opened: raised, durably, by each open.
    pub fn generation(&self) -> u64 {
        self.found.generation
    }

    /// One of the [`ROOT_COUNT`](crate::ROOT_COUNT) root words; all are 0 in a new pool. A program that stores a root stores,
    /// flushes and fences it through the region.
    ///
    /// # Errors
    /// [`Error::NoSuchRoot`].
    pub fn root(&self, slot: usize) -> Result<&Word, Error> {
        Superblock::of(&self.space.region)?.roots.get(slot).ok_or(Error::NoSuchRoot { slot })
    }

    /// Makes sure, before an operation's first store, that the pool has `bytes` to spare, growing
    /// if it can, and takes room below the waist for `lines` flushed lines.
    ///
    /// It holds the lines, not the bytes: only [`alloc`](Pool::alloc) holds space.
    ///
    /// # Errors
    /// [`Error::PoolFull`]; the region's: disk full, poisoned.
    pub fn reserve(&self, bytes: u64, lines: u64) -> Result<Section<'_>, Error> {
        self.space.reserve(bytes, lines)
    }

    /// Prefetches together the places of objects of these sizes, which will soon be taken. It is a hint.
    pub fn expect(&self, sizes: impl Iterator<Item = u64>) {
        self.space.expect(sizes);
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
        self.space.alloc(size)
    }

    /// Takes space for objects of these sizes that will be [written together](Region::write_together), for fewer where there is not
    /// enough. As [`alloc`](Pool::alloc), but no page is made ready for stores.
    pub fn alloc_together(&self, sizes: impl Iterator<Item = u64>) -> Vec<Object> {
        self.space.alloc_together(sizes)
    }

    /// Says that objects, which were [taken together](Pool::alloc_together), will be stored to where they are mapped: their pages come
    /// together, without those around them. A hint.
    pub fn will_store(&self, objects: impl Iterator<Item = Object>) {
        self.space.will_store(objects);
    }

    /// As [`alloc`](Pool::alloc), where a slot is at hand: nothing grows, no frontier is raised, and nothing is stored. So
    /// a section needs no room for it, and the pool no bytes to spare. `None`: there is none.
    #[inline]
    pub fn alloc_at_hand(&self, size: u64) -> Option<Object> {
        self.space.alloc_at_hand(size)
    }

    /// Lets the calling thread take the reserve while the relief lives, because its next operation makes room. All other
    /// threads leave the reserve free: one chunk in sixteen, at most sixteen (1 MiB of chunks of 64 KiB). So
    /// something can be removed from a full pool.
    pub fn relief(&self) -> Relief {
        Relief::begin()
    }

    /// Whether [`prefault`](Pool::prefault) has something to do.
    #[inline]
    pub fn wants_prefault(&self) -> bool {
        self.space.wants_prefault()
    }

    /// Makes large pages of the space that will be used next, in a pool in memory, and grows a large pool for
    /// it, or a pool of 64 MiB or more in a file of which less than 8 MiB are left. It is for a background thread, since a large page,
    /// and a sync of the file, take milliseconds. It is a hint: if it fails, the threads that use the space do that.
    pub fn prefault(&self) {
        self.space.prefault();
    }

    /// Bytes from the start of an object on that belong to no other: at least its size.
    #[inline]
    pub fn room(&self, object: Object) -> u64 {
        self.space.layout().room(object)
    }

    /// Gives an object's space back. The caller vouches that it is allocated, that its unlinking
    /// has been fenced, and that no reader can still hold it.
    #[inline]
    pub fn free(&self, object: Object) {
        self.space.free(object);
    }

    /// As [`free`](Pool::free), for an object to which nothing on media has referred since it was allocated: its next user has
    /// no unlinking to wait for. What the calling thread has written there it has fenced.
    #[inline]
    pub fn free_unused(&self, object: Object) {
        self.space.free_unused(object);
    }

    /// As [`free_unused`](Pool::free_unused), where nothing is fenced: what the thread has flushed is, in this space or elsewhere.
    /// Another thread, of any tenant, takes the space at once, and leaves out what it finds there as it wants it.
    pub fn give_up(&self, objects: impl IntoIterator<Item = Object>) {
        self.space.give_up(objects);
    }

    /// As [`free`](Pool::free), for many objects.
    pub fn free_all(&self, objects: impl IntoIterator<Item = Object>) {
        self.space.free_all(objects);
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
        self.space.alloc_into(slot, size, init)
    }

    /// Whether an object read from media can be one: its class exists, it lies below the frontier
    /// and where its class is placed. Whether it is allocated only its owner knows.
    ///
    /// # Errors
    /// [`Error::OutOfBounds`], [`Error::Misplaced`].
    #[inline]
    pub fn valid(&self, object: Object) -> Result<(), Error> {
        self.space.valid(object)
    }

    /// Begins a sweep: the one owed since the pool was opened, or a new one, for example after a
    /// rollback. Until it ends, new space comes only from above its limit.
    ///
    /// The tenants must be [open](Pool::open_tenants), and are marked by [`Sweep::mark_others`].
    ///
    /// # Errors
    /// [`Error::SweepRunning`], [`Error::TenantBusy`]: try again later. [`Error::TenantNotOpen`].
    pub fn begin_sweep(&self) -> Result<Sweep, Error> {
        self.sweep(None)
    }

    /// As [`begin_sweep`](Pool::begin_sweep), driven by a tenant that stands still, marks itself, and reports at the end what
    /// waits to be freed.
    ///
    /// # Errors
    /// As [`begin_sweep`](Pool::begin_sweep).
    pub fn begin_sweep_by(&self, driver: TenantId) -> Result<Sweep, Error> {
        self.sweep(Some(driver))
    }

    fn sweep(&self, driver: Option<TenantId>) -> Result<Sweep, Error> {
        let busy = || Error::TenantBusy { name: "(one that is being added or opened)".into() };
        let _unchanged = self.registry.try_change().ok_or_else(busy)?;
        let _still = self.log.try_still().ok_or_else(busy)?;
        let live = self.registry.all(self.tenants()?, driver)?;
        let shared = Arc::clone(&self.space.shared);
        let mut sweep = Sweep::begin(shared, Arc::clone(&self.registry), live)?;
        // Entries of earlier operations may name unreachable objects; entries of later ones do not.
        self.log.void(self.region())?;
        if !self.log.object().is_none() {
            sweep.mark(self.log.object())?;
        }
        Ok(sweep)
    }

    /// Begins an [operation](Operation) of a tenant on the pool's log, which is made by the first. The operation allocates at most `bytes`,
    /// and changes words in at most `lines` lines.
    ///
    /// # Errors
    /// [`Error::LogBusy`]; those of [`reserve`](Pool::reserve).
    pub fn operation(
        &self,
        tenant: TenantId,
        bytes: u64,
        lines: u64,
    ) -> Result<Operation<'_>, Error> {
        if self.log.object().is_none() {
            self.upgrade()?;
            self.log.make(&self.space)?;
        }
        self.log.begin(&self.space, tenant, bytes, lines)
    }

    /// How many words an operation of the pool's log [commits](Operation::commit_words) beside so many contents without an extent, for
    /// which it would need space.
    pub fn operation_words(&self, contents: usize) -> usize {
        self.log.room(self.space.layout(), contents)
    }

    /// Committed operations of a tenant with intents that are not [done](Committed::done), and that no thread has at hand: for its opening,
    /// which does them before anything else.
    ///
    /// # Errors
    /// [`Error::Damaged`].
    pub fn unfinished(&self, tenant: TenantId) -> Result<Vec<Committed<'_>>, Error> {
        self.log.unfinished(&self.space, tenant)
    }

    /// The tenants, by their place.
    ///
    /// # Errors
    /// [`Error::DamagedTenant`].
    pub fn tenants(&self) -> Result<Vec<TenantEntry>, Error> {
        // Nothing raises the frontier meanwhile.
        let _allocator = self.space.shared.lock();
        let found = superblock::check(&self.space.region, Access::Read)?;
        tenant::read(&self.space.region, &found)
    }

    /// The tenant of that name.
    ///
    /// # Errors
    /// [`Error::NoSuchTenant`], [`Error::DamagedTenant`].
    pub fn tenant(&self, name: &str) -> Result<TenantEntry, Error> {
        let found = self.tenants()?.into_iter().find(|entry| entry.name == name);
        found.ok_or_else(|| Error::NoSuchTenant { name: name.to_owned() })
    }

    /// Adds a tenant with a root object of `size` bytes, which `init` writes and flushes, with all that it leads to.
    /// Fenced when it returns; interrupted, the tenant is there, whole, or not at all. Two fences.
    ///
    /// Within a [section](Pool::reserve) with room for what `init` stores. A pool of format version 1 is raised to version 2 first, and
    /// older programs refuse it from then on.
    ///
    /// # Errors
    /// [`Error::TenantName`], [`Error::TenantExists`], [`Error::TooManyTenants`], [`Error::UnknownTenant`] and its like if the program could not
    /// open the pool again; those of [`alloc`](Pool::alloc) and of `init`. Then nothing is allocated for the root.
    pub fn add_tenant<E: From<Error>>(
        &self,
        new: &NewTenant<'_>,
        size: u64,
        init: impl FnOnce(&Region, Object) -> Result<(), E>,
    ) -> Result<TenantEntry, E> {
        let _changing = self.registry.change();
        let id = tenant::place(&self.tenants()?, new.name)?;
        let NewTenant { kind, name, version, features } = *new;
        let entry =
            TenantEntry { id, kind, name: name.into(), version, features, root: Object::NONE };
        self.kinds.admit(&entry, Access::Write)?;
        self.upgrade()?;
        let _section = self.space.region.reserve(2).map_err(Error::from)?;
        let root = self.alloc(size)?;
        init(&self.space.region, root).inspect_err(|_| self.give_up([root]))?;
        tenant::add(&self.space.region, id, new, root)?;
        Ok(TenantEntry { root, ..entry })
    }

    /// Sets the feature bits of a tenant's format in one step, before anything is stored that they announce. Fenced when it
    /// returns.
    ///
    /// # Errors
    /// [`Error::NoSuchTenant`]; [`Error::UnknownTenantFeature`] for what its kind does not know here.
    pub fn set_tenant_features(&self, id: TenantId, features: TenantFeatures) -> Result<(), Error> {
        let _changing = self.registry.change();
        let entry = self.tenants()?.into_iter().find(|entry| entry.id == id);
        let missing = || Error::NoSuchTenant { name: format!("number {}", id.0) };
        let entry = TenantEntry { features, ..entry.ok_or_else(missing)? };
        self.kinds.admit(&entry, Access::Write)?;
        self.upgrade()?;
        tenant::set_features(&self.space.region, id, features)
    }

    /// The feature bits in force.
    ///
    /// # Errors
    /// [`Error::Damaged`].
    pub fn features(&self) -> Result<Features, Error> {
        let _allocator = self.space.shared.lock();
        Ok(superblock::check(&self.space.region, Access::Read)?.features)
    }

    /// Sets one of the sets of feature bits, beside those of the pool's creation, in one step. Fenced when it returns. Bits that are not known here make the
    /// pool refuse the next opening.
    ///
    /// # Errors
    /// Those of the region.
    pub fn set_features(&self, set: FeatureSet, bits: u32) -> Result<(), Error> {
        let _changing = self.registry.change();
        self.upgrade()?;
        superblock::set_features(&self.space.region, set, bits)
    }

    /// Raises a pool of format version 1; the caller changes the table of tenants.
    fn upgrade(&self) -> Result<(), Error> {
        let _one = lock(&self.raising);
        superblock::upgrade(&self.space.region, || tenant::write_first(&self.space.region))
    }

    /// The open tenant of that entry, or what `make` makes of it: then it is open as long as a clone of it lives.
    /// `make` opens no other tenant, and begins no sweep. The pool does not keep the tenant open.
    ///
    /// # Errors
    /// [`Error::TenantInUse`]: it is open, as something else. [`Error::UnknownTenant`] and its like. Those of `make`.
    pub fn open_tenant<T: Tenant, E: From<Error>>(
        &self,
        entry: &TenantEntry,
        make: impl FnOnce() -> Result<Arc<T>, E>,
    ) -> Result<Arc<T>, E> {
        let _changing = self.registry.change();
        if let Some(live) = self.registry.find(entry.id) {
            let any: Arc<dyn std::any::Any + Send + Sync> = live;
            let in_use = |_| Error::TenantInUse { name: entry.name.clone() };
            return Ok(any.downcast::<T>().map_err(in_use)?);
        }
        self.kinds.admit(entry, Access::Read)?;
        let tenant = make()?;
        let live: Arc<dyn Tenant> = tenant.clone();
        self.registry.insert(entry.id, Arc::downgrade(&live));
        Ok(tenant)
    }

    /// Opens all tenants that are not open, each by its kind: for a sweep or a check, for which they are to be kept.
    ///
    /// # Errors
    /// [`Error::UnknownTenant`] and its like; [`Error::Tenant`].
    pub fn open_tenants(self: &Arc<Self>) -> Result<Vec<Arc<dyn Tenant>>, Error> {
        let open = |entry: TenantEntry| {
            if let Some(live) = self.registry.find(entry.id) {
                return Ok(live);
            }
            self.kinds.admit(&entry, Access::Read)?;
            let unknown = || Error::NoSuchTenant { name: entry.name.clone() };
            let kind = self.kinds.find(entry.kind).ok_or_else(unknown)?;
            let failed = |source| Error::Tenant { name: entry.name.clone(), source };
            kind.open(self, &entry).map_err(failed)
        };
        self.tenants()?.into_iter().map(open).collect()
    }

    /// The state of the tenants. For those that are not open it is only what the superblock has.
    ///
    /// # Errors
    /// [`Error::DamagedTenant`].
    pub fn stat(&self) -> Result<Vec<TenantStat>, Error> {
        let stat = |entry: TenantEntry| match self.registry.find(entry.id) {
            Some(live) => live.stat(),
            None => {
                TenantStat { name: entry.name, kind: entry.kind, under_way: "not open".to_owned() }
            }
        };
        Ok(self.tenants()?.into_iter().map(stat).collect())
    }

    /// Opens all tenants, lets them do what they still owe, verifies each, and accounts for every byte. Meanwhile nothing is
    /// changed.
    ///
    /// # Errors
    /// [`Error::TenantBusy`]: an operation is under way, try again. [`Error::Tenant`], [`Error::Dangling`] and others: the first damage
    /// found.
    pub fn check(self: &Arc<Self>) -> Result<PoolCheck, Error> {
        let tenants = self.open_tenants()?;
        for (entry, tenant) in self.tenants()?.iter().zip(&tenants) {
            let failed = |source| Error::Tenant { name: entry.name.clone(), source };
            tenant.settle().map_err(failed)?;
        }
        self.check_beside(None, |_| Ok::<(), Error>(())).map(|((), check)| check)
    }

    /// As [`check`](Pool::check), for tenants that are open, on behalf of one that stands still and is marked by `own`.
    ///
    /// # Errors
    /// As [`check`](Pool::check); [`Error::TenantNotOpen`]; those of `own`.
    pub fn check_by<T, E: From<Error>>(
        &self,
        driver: TenantId,
        own: impl FnOnce(&mut Census) -> Result<T, E>,
    ) -> Result<(T, PoolCheck), E> {
        self.check_beside(Some(driver), own)
    }

    fn check_beside<T, E: From<Error>>(
        &self,
        driver: Option<TenantId>,
        own: impl FnOnce(&mut Census) -> Result<T, E>,
    ) -> Result<(T, PoolCheck), E> {
        let busy = |name: &str| Error::TenantBusy { name: name.to_owned() };
        let changing = self.registry.try_change();
        let _unchanged = changing.ok_or_else(|| busy("(one that is being added or opened)"))?;
        let _still = self.log.try_still().ok_or_else(|| busy("(the pool's log)"))?;
        self.log.check(self.region())?;
        let live = self.registry.all(self.tenants()?, driver)?;
        let mut still = Vec::with_capacity(live.len());
        for Live { entry, tenant } in &live {
            let Some(stopped) = tenant.quiesce() else {
                tenant.make_way();
                return Err(busy(&entry.name).into());
            };
            still.push((entry, stopped));
        }
        let mut census = self.census();
        let result = own(&mut census)?;
        let mut tenants = Vec::with_capacity(live.len());
        for (entry, still) in &mut still {
            let failed = |source| Error::Tenant { name: entry.name.clone(), source };
            let found = still.check(&mut census as &mut dyn Marker).map_err(failed)?;
            tenants.push((entry.name.clone(), found));
        }
        let account = census.account();
        if account.dangling > 0 {
            return Err(Error::Dangling { objects: account.dangling }.into());
        }
        Ok((result, PoolCheck { account, tenants }))
    }

    /// Whether little space is left though a sweep is owed or running that may find more: the next allocation may make the
    /// pool grow because it does not wait for the sweep.
    pub fn is_short(&self) -> bool {
        self.space.is_short()
    }

    /// Whether little space is left.
    pub fn is_low(&self) -> bool {
        self.space.is_low()
    }

    /// As [`is_short`](Pool::is_short), and only chunks in use have free space.
    pub fn is_exhausted(&self) -> bool {
        self.space.is_exhausted()
    }

    /// Begins a census, for a check. It includes the pool's log.
    pub fn census(&self) -> Census {
        let size = self.space.region.size();
        let mut census = Census::begin(Arc::clone(&self.space.shared), size);
        if !self.log.object().is_none() {
            // It was checked when the pool was opened.
            let _ = census.mark(self.log.object());
        }
        census
    }

    /// How densely the pool's chunks are used. It looks at every chunk. `None`: a sweep is owed or running.
    pub fn fragmentation(&self) -> Option<Fragmentation> {
        Fragmentation::of(&self.space.shared.lock())
    }

    /// How full the pool is.
    pub fn usage(&self) -> Usage {
        self.space.usage()
    }
}

/// A pool that is being formatted.
struct Forming(Arc<Pool>);

impl AsRef<Region> for Forming {
    fn as_ref(&self) -> &Region {
        &self.0.space.region
    }
}

/// Why a creation failed: by itself, or by the caller's `format`.
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
    const fn given_to_threads<T: Send>() {}
    shared_by_threads::<Pool>();
    given_to_threads::<Sweep>();
};
