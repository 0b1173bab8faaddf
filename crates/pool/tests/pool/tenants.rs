//! Tenants: what the table refuses and keeps, and that a sweep gives away nothing of any of them.

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

use tembo_pmem::{Counters, DomainRequest, Observer, Region, RegionOptions};
use tembo_pool::{
    Error, FeatureSet, Geometry, Kind, Kinds, KnownKind, Marker, Marking, NewTenant, Object, Pool,
    PoolOptions, Still, TENANT_COUNT, Tenant, TenantCheck, TenantEntry, TenantError,
    TenantFeatures, TenantKind, TenantStat,
};

use crate::image;

pub(crate) const KIND: Kind = Kind::new("toy");
const SIZE: u64 = 128 << 10;

/// Where the table lies in an image, which begins behind the region's header.
const TABLE: usize = 256;

const KNOWN: KnownKind = KnownKind {
    kind: KIND,
    version: 3,
    features: TenantFeatures { may: 1, must: 1, read_only: 1 },
};

fn new(name: &str) -> NewTenant<'_> {
    NewTenant { kind: KIND, name, version: 3, features: TenantFeatures::default() }
}

struct ToyKind;

impl TenantKind for ToyKind {
    fn known(&self) -> KnownKind {
        KNOWN
    }

    fn open(&self, pool: &Arc<Pool>, entry: &TenantEntry) -> Result<Arc<dyn Tenant>, TenantError> {
        Ok(pool.open_tenant::<Toy, Error>(entry, || Ok(Toy::of(entry)))?)
    }
}

pub(crate) fn kinds() -> Kinds {
    Kinds::default().with(Arc::new(ToyKind))
}

/// A tenant with objects beside its root.
struct Toy {
    entry: TenantEntry,
    objects: Mutex<Vec<Object>>,
    /// Has to settle so often.
    unsettled: AtomicU64,
    is_damaged: AtomicBool,
    ended: AtomicU64,
    /// What it does before it stands still.
    last: Mutex<Option<Box<dyn FnOnce() + Send>>>,
}

impl Toy {
    fn of(entry: &TenantEntry) -> Arc<Toy> {
        Arc::new(Toy {
            entry: entry.clone(),
            objects: Mutex::default(),
            unsettled: AtomicU64::new(0),
            is_damaged: AtomicBool::new(false),
            ended: AtomicU64::new(0),
            last: Mutex::default(),
        })
    }

    fn add(&self, pool: &Pool, size: u64) -> Object {
        let object = pool.alloc(size).unwrap();
        self.objects.lock().unwrap().push(object);
        object
    }
}

impl Tenant for Toy {
    fn quiesce(&self) -> Option<Box<dyn Still + '_>> {
        if let Some(last) = self.last.lock().unwrap().take() {
            last();
        }
        Some(Box::new(Guard { toy: self, objects: self.objects.try_lock().ok()? }))
    }

    fn stat(&self) -> TenantStat {
        let TenantEntry { name, kind, .. } = self.entry.clone();
        TenantStat { name, kind, under_way: String::new() }
    }

    fn sweep_ended(&self) {
        self.ended.fetch_add(1, Ordering::Relaxed);
    }
}

struct Guard<'t> {
    toy: &'t Toy,
    objects: MutexGuard<'t, Vec<Object>>,
}

impl Guard<'_> {
    fn all(&self) -> Vec<Object> {
        self.objects.iter().copied().chain([self.toy.entry.root]).collect()
    }
}

impl Still for Guard<'_> {
    fn begin(&mut self, tenant: Arc<dyn Tenant>) -> Result<Box<dyn Marking>, TenantError> {
        let unsettled = self.toy.unsettled.load(Ordering::Relaxed);
        let is_damaged = self.toy.is_damaged.load(Ordering::Relaxed);
        Ok(Box::new(Marks { _tenant: tenant, objects: self.all(), unsettled, is_damaged }))
    }

    fn check(&mut self, marker: &mut dyn Marker) -> Result<TenantCheck, TenantError> {
        let mut objects = 0;
        for object in self.all() {
            objects += u64::from(marker.mark(object)?);
        }
        Ok(TenantCheck { objects, ..TenantCheck::default() })
    }
}

struct Marks {
    _tenant: Arc<dyn Tenant>,
    objects: Vec<Object>,
    unsettled: u64,
    is_damaged: bool,
}

impl Marking for Marks {
    fn mark(&mut self, marker: &mut dyn Marker) -> Result<(), TenantError> {
        if self.is_damaged {
            return Err("a damaged toy".into());
        }
        for object in &self.objects {
            marker.mark(*object)?;
        }
        Ok(())
    }

    fn settle(&mut self) -> Result<bool, TenantError> {
        self.unsettled = self.unsettled.saturating_sub(1);
        Ok(self.unsettled == 0)
    }
}

fn volatile() -> Arc<Pool> {
    observed(None)
}

fn observed(observer: Option<Arc<dyn Observer>>) -> Arc<Pool> {
    let region = RegionOptions { size_max: SIZE, observer, ..RegionOptions::default() };
    let geometry = Geometry::TINY;
    let options = PoolOptions { size: SIZE, geometry, region, kinds: kinds() };
    Arc::new(Pool::volatile(&options).unwrap())
}

fn add(pool: &Pool, new: &NewTenant<'_>) -> Result<TenantEntry, Error> {
    let _section = pool.reserve(64, 2).unwrap();
    pool.add_tenant::<Error>(new, 64, |region, root| {
        region.write("test.root", root.offset(), &[b"a root"])?;
        Ok(())
    })
}

/// The pool, opened again as a process would that knows these kinds.
fn reopened(pool: &Pool, kinds: Kinds) -> Result<Arc<Pool>, Error> {
    Pool::from_region_of(image::region(&image::bytes(pool)), kinds).map(Arc::new)
}

fn sweep(pool: &Pool) -> Result<tembo_pool::SweepReport, Error> {
    let mut sweep = pool.begin_sweep()?;
    sweep.mark_others(&|| true)?;
    while !sweep.settle_others()? {}
    sweep.finish([])
}

#[test]
fn tenants_are_found_again_with_all_that_is_said_of_them() {
    let pool = volatile();
    let features = TenantFeatures { may: 1, must: 1, read_only: 0 };
    let one = add(&pool, &NewTenant { features, ..new("one") }).unwrap();
    let two = add(&pool, &new("zwölf mal zwölf: zweiundvier")).unwrap();
    assert_ne!(one.id, two.id);
    pool.set_tenant_features(two.id, TenantFeatures { may: 1, ..TenantFeatures::default() })
        .unwrap();
    let again = reopened(&pool, kinds()).unwrap();
    let found = again.tenants().unwrap();
    assert_eq!((found[0].clone(), found[1].root), (one.clone(), two.root));
    assert_eq!((found[1].version, found[1].features.may), (3, 1));
    assert_eq!(again.tenant("one").unwrap(), one);
    assert!(matches!(again.tenant("three"), Err(Error::NoSuchTenant { .. })));
    let root = again.region().media_bytes(one.root.offset(), 6).unwrap();
    assert_eq!(root.to_vec(), b"a root");
}

#[test]
fn what_cannot_be_a_tenant_is_not_added_and_changes_nothing() {
    let pool = volatile();
    for index in 0..TENANT_COUNT {
        add(&pool, &new(&format!("number {index}"))).unwrap();
    }
    let before = (image::bytes(&pool), pool.usage().objects);
    let refused = |new: &NewTenant<'_>| add(&pool, new).unwrap_err();
    assert!(matches!(refused(&new("more")), Error::TooManyTenants { max: TENANT_COUNT }));
    assert!(
        matches!(refused(&new("number 3")), Error::TenantExists { name } if name == "number 3")
    );
    assert!(matches!(refused(&new("")), Error::TenantName { size: 0 }));
    assert!(matches!(refused(&new("a\0")), Error::TenantName { size: 2 }));
    assert!(matches!(refused(&new(&"x".repeat(33))), Error::TenantName { size: 33 }));
    assert_eq!(before, (image::bytes(&pool), pool.usage().objects));

    let pool = volatile();
    let refused = |new: &NewTenant<'_>| add(&pool, new).unwrap_err();
    let other = NewTenant { kind: Kind::new("other"), ..new("one") };
    assert!(matches!(refused(&other), Error::UnknownTenant { .. }));
    let newer = NewTenant { version: 4, ..new("one") };
    assert!(matches!(refused(&newer), Error::NewerTenant { found: 4, known: 3, .. }));
    let _section = pool.reserve(64, 2).unwrap();
    let failed = pool.add_tenant::<Error>(&new("one"), 64, |_, _| Err(Error::Kept));
    assert!(matches!(failed, Err(Error::Kept)));
    assert_eq!((pool.tenants().unwrap().len(), pool.usage().objects), (0, 0));
}

#[test]
fn adding_a_tenant_takes_two_fences_and_one_line_beside_its_root() {
    let pool = volatile();
    // The frontier is raised by it.
    pool.alloc(64).unwrap();
    let _section = pool.reserve(64, 2).unwrap();
    let before = Counters::thread();
    add(&pool, &new("one")).unwrap();
    let spent = Counters::thread() - before;
    assert_eq!((spent.fences, spent.lines), (2, 2));
    let before = Counters::thread();
    pool.set_tenant_features(pool.tenant("one").unwrap().id, TenantFeatures::default()).unwrap();
    pool.set_features(FeatureSet::May, 1).unwrap();
    let spent = Counters::thread() - before;
    assert_eq!((spent.fences, spent.lines), (2, 2));
}

#[test]
fn every_flipped_bit_of_a_tenants_line_is_reported() {
    let pool = volatile();
    add(&pool, &new("one")).unwrap();
    add(&pool, &NewTenant { version: 1, ..new("another") }).unwrap();
    let good = image::bytes(&pool);
    for bit in 0..2 * 64 * 8 {
        let mut bad = good.clone();
        bad[TABLE + bit / 8] ^= 1 << (bit % 8);
        let opened = Pool::from_region_of(image::region(&bad), kinds());
        let slot = bit / 512;
        match opened {
            Err(Error::DamagedTenant { slot: found, .. }) if found == slot => {}
            other => panic!("bit {bit}: {:?}", other.map(|_| ())),
        }
    }
    // A line of another place, and one name twice.
    let mut moved = good.clone();
    moved.copy_within(TABLE..TABLE + 64, TABLE + 128);
    let opened = Pool::from_region_of(image::region(&moved), kinds());
    assert!(matches!(opened, Err(Error::DamagedTenant { slot: 2, .. })));
}

/// A file, so that it can be opened to read.
pub(crate) struct File(PathBuf);

impl File {
    fn new(name: &str) -> File {
        let process = std::process::id();
        File(std::env::temp_dir().join(format!("tembo-tenants-{process}-{name}")))
    }

    fn options(&self, kinds: Kinds, read_only: bool) -> PoolOptions {
        let (domain, size_max) = (DomainRequest::Logged, SIZE);
        let region = RegionOptions {
            domain,
            size_max,
            read_only,
            log_size: 1 << 20,
            ..RegionOptions::default()
        };
        PoolOptions { size: SIZE, geometry: Geometry::TINY, region, kinds }
    }

    fn create(&self) -> Pool {
        Pool::create(&self.0, &self.options(kinds(), false)).unwrap()
    }

    fn open(&self, kinds: Kinds) -> Result<Pool, Error> {
        Pool::open(&self.0, &self.options(kinds, false))
    }

    fn read(&self, kinds: Kinds) -> Result<Pool, Error> {
        Pool::open(&self.0, &self.options(kinds, true))
    }
}

impl Drop for File {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
        let _ = std::fs::remove_file(self.0.with_extension("log"));
        let _ = std::fs::remove_file(format!("{}.log", self.0.display()));
    }
}

#[test]
fn unknown_features_of_the_pool_are_refused_ignored_or_only_read() {
    let file = File::new("features");
    let pool = file.create();
    pool.set_features(FeatureSet::May, 0x8000_0001).unwrap();
    pool.close().unwrap();
    let pool = file.open(Kinds::default()).unwrap();
    assert_eq!(pool.features().unwrap().may, 0x8000_0001);
    pool.set_features(FeatureSet::ReadOnly, 2).unwrap();
    pool.close().unwrap();
    let error = file.open(Kinds::default()).err().unwrap();
    assert!(matches!(error, Error::UnknownFeature { kind: "read-only", bits: 2 }));
    assert!(error.to_string().contains("only a read-only opening is possible"), "{error}");
    let pool = file.read(Kinds::default()).unwrap();
    assert_eq!(pool.features().unwrap().may, 0x8000_0001);
    // In the memory of this opening only.
    pool.set_features(FeatureSet::Must, 4).unwrap();
    drop(pool);
    assert_eq!(file.read(Kinds::default()).unwrap().features().unwrap().must, 0);

    let file = File::new("must");
    let pool = file.create();
    pool.set_features(FeatureSet::Must, 4).unwrap();
    pool.close().unwrap();
    for opened in [file.open(Kinds::default()), file.read(Kinds::default())] {
        let refused = opened.err().unwrap();
        assert!(matches!(refused, Error::UnknownFeature { kind: "must", bits: 4 }));
    }
}

#[test]
fn a_tenant_that_the_program_does_not_know_makes_the_pool_one_to_read() {
    let file = File::new("unknown");
    let pool = file.create();
    let entry = add(&pool, &new("one")).unwrap();
    pool.close().unwrap();
    let before = std::fs::read(&file.0).unwrap();
    let error = file.open(Kinds::default()).err().unwrap();
    assert!(
        matches!(&error, Error::UnknownTenant { kind, name } if kind == "toy" && name == "one")
    );
    assert!(error.to_string().contains("only a read-only opening is possible"), "{error}");
    assert!(std::fs::read(&file.0).unwrap() == before, "what is refused stays as it is");
    let pool = Arc::new(file.read(Kinds::default()).unwrap());
    assert_eq!(pool.tenants().unwrap(), [entry]);
    assert_eq!(pool.stat().unwrap()[0].under_way, "not open");
    assert!(matches!(pool.begin_sweep(), Err(Error::TenantNotOpen { .. })));
    assert!(matches!(pool.open_tenants(), Err(Error::UnknownTenant { .. })));
}

/// Of an older program, and of one that knows fewer features.
struct Older(KnownKind);

impl TenantKind for Older {
    fn known(&self) -> KnownKind {
        self.0
    }

    fn open(&self, _: &Arc<Pool>, _: &TenantEntry) -> Result<Arc<dyn Tenant>, TenantError> {
        Err("not here".into())
    }
}

#[test]
fn what_is_newer_in_a_tenant_is_refused_ignored_or_only_read() {
    let file = File::new("newer");
    let pool = file.create();
    let id = add(&pool, &new("one")).unwrap().id;
    pool.close().unwrap();
    let older = |known: KnownKind| Kinds::default().with(Arc::new(Older(known)));
    let without = KnownKind { features: TenantFeatures::default(), ..KNOWN };
    let opened = file.open(older(KnownKind { version: 2, ..KNOWN }));
    assert!(matches!(opened, Err(Error::NewerTenant { found: 3, known: 2, .. })));
    assert!(file.read(older(KnownKind { version: 2, ..KNOWN })).is_ok());

    let set = |features| {
        let pool = file.open(kinds()).unwrap();
        pool.set_tenant_features(id, features).unwrap();
        pool.close().unwrap();
    };
    set(TenantFeatures { may: 1, ..TenantFeatures::default() });
    assert_eq!(file.open(older(without)).unwrap().tenant("one").unwrap().features.may, 1);
    set(TenantFeatures { read_only: 1, ..TenantFeatures::default() });
    let unknown = file.open(older(without)).err().unwrap();
    assert!(matches!(unknown, Error::UnknownTenantFeature { kind: "read-only", bits: 1, .. }));
    let to_read = file.read(older(without)).unwrap();
    let entry = to_read.tenant("one").unwrap();
    assert!(to_read.open_tenant::<Toy, Error>(&entry, || Ok(Toy::of(&entry))).is_ok());
    drop(to_read);
    set(TenantFeatures { must: 1, ..TenantFeatures::default() });
    let unknown = file.open(older(without)).err().unwrap();
    assert!(matches!(unknown, Error::UnknownTenantFeature { kind: "must", bits: 1, .. }));
    let to_read = file.read(older(without)).unwrap();
    let entry = to_read.tenant("one").unwrap();
    let opened = to_read.open_tenant::<Toy, Error>(&entry, || Ok(Toy::of(&entry)));
    assert!(matches!(opened, Err(Error::UnknownTenantFeature { kind: "must", .. })));
    // A program that sets what it does not know would lock itself out.
    drop(to_read);
    let pool = file.open(kinds()).unwrap();
    let refused =
        pool.set_tenant_features(id, TenantFeatures { must: 2, ..TenantFeatures::default() });
    assert!(matches!(refused, Err(Error::UnknownTenantFeature { kind: "must", bits: 2, .. })));
}

#[test]
fn a_sweep_marks_every_tenant_or_frees_nothing() {
    let pool = volatile();
    let entries = ["one", "two"].map(|name| add(&pool, &new(name)).unwrap());
    let toys = entries
        .clone()
        .map(|entry| pool.open_tenant::<Toy, Error>(&entry, || Ok(Toy::of(&entry))).unwrap());
    toys[0].add(&pool, 100);
    toys[1].add(&pool, 5000);
    let lost = pool.alloc(3000).unwrap();
    let live = pool.usage().objects - 1;

    // Driven by none of them.
    let mut unmarked = pool.begin_sweep().unwrap();
    assert!(!unmarked.settle_others().unwrap());
    assert!(matches!(unmarked.finish([]), Err(Error::TenantNotMarked { .. })));
    assert!(pool.usage().recovering);
    assert_eq!(toys[0].ended.load(Ordering::Relaxed), 1);
    toys[1].unsettled.store(2, Ordering::Relaxed);
    let mut unsettled = pool.begin_sweep().unwrap();
    unsettled.mark_others(&|| true).unwrap();
    assert!(!unsettled.settle_others().unwrap());
    assert!(matches!(unsettled.finish([]), Err(Error::TenantNotMarked { name }) if name == "two"));
    toys[1].is_damaged.store(true, Ordering::Relaxed);
    let mut damaged = pool.begin_sweep().unwrap();
    let error = damaged.mark_others(&|| true).unwrap_err();
    assert!(matches!(&error, Error::Tenant { name, .. } if name == "two"), "{error}");
    assert!(matches!(damaged.finish([]), Err(Error::TenantNotMarked { .. })));
    toys[1].is_damaged.store(false, Ordering::Relaxed);
    let mut stopped = pool.begin_sweep().unwrap();
    assert!(matches!(stopped.mark_others(&|| false), Err(Error::Stopped)));
    drop(stopped);
    let report = sweep(&pool).unwrap();
    assert_eq!((report.objects, pool.usage().objects), (live, live));

    // Driven by one of them: its own objects are its own care.
    let mut driven = pool.begin_sweep_by(entries[0].id).unwrap();
    let young = toys[0].add(&pool, 64);
    assert!(young.offset() >= driven.limit());
    driven.mark(entries[0].root).unwrap();
    driven.mark_others(&|| true).unwrap();
    while !driven.settle_others().unwrap() {}
    let report = driven.finish([]).unwrap();
    assert_eq!(report.objects, live - 1, "an object of the driver was not marked");
    assert!(pool.alloc(3000).is_ok() && lost.size() >= 3000);
}

/// An operation that ends while the sweep begins may name what nothing refers to, and what the sweep gives to others.
#[test]
fn what_a_last_operation_names_is_no_others_while_its_entries_are_true() {
    let pool = volatile();
    let entry = add(&pool, &new("one")).unwrap();
    let toy = pool.open_tenant::<Toy, Error>(&entry, || Ok(Toy::of(&entry))).unwrap();
    let lost = pool.alloc(64).unwrap();
    // No log is made while a sweep begins.
    pool.operation(entry.id, 0, 4).unwrap().commit().unwrap().done().unwrap();
    let named = pool.clone();
    *toy.last.lock().unwrap() = Some(Box::new(move || {
        let operation = named.operation(entry.id, 0, 4).unwrap();
        operation.commit_words(&[[lost.offset(), 7]], &[]).unwrap();
    }));
    sweep(&pool).unwrap();
    let again = (0..100).map(|_| pool.alloc(64).unwrap()).find(|object| *object == lost);
    let again = again.expect("the sweep has freed it");
    let region = pool.region();
    region.write("test.other", again.offset(), &[b"another's"]).unwrap();
    region.fence("test.other.fence");
    let opened = reopened(&pool, kinds()).unwrap();
    let found = opened.region().media_bytes(again.offset(), 9).unwrap().to_vec();
    assert_eq!(found, b"another's");
}

#[test]
fn a_tenant_that_is_not_open_is_opened_by_its_kind() {
    let pool = volatile();
    add(&pool, &new("one")).unwrap();
    add(&pool, &new("two")).unwrap();
    let again = reopened(&pool, kinds()).unwrap();
    assert!(matches!(sweep(&again), Err(Error::TenantNotOpen { name }) if name == "one"));
    let tenants = again.open_tenants().unwrap();
    assert_eq!(tenants.len(), 2);
    assert_eq!(sweep(&again).unwrap().objects, 2);
    let check = again.check().unwrap();
    assert_eq!(check.account.accounted_bytes(), SIZE);
    assert_eq!((check.account.leaked, check.tenants.len()), (0, 2));
    assert_eq!(again.stat().unwrap().iter().filter(|stat| stat.under_way.is_empty()).count(), 2);
    let entry = again.tenant("one").unwrap();
    let same = again.open_tenant::<Toy, Error>(&entry, || panic!("it is open")).unwrap();
    assert_eq!(same.entry, entry);
    drop((tenants, same));
    assert!(matches!(again.begin_sweep(), Err(Error::TenantNotOpen { .. })));
    // A pool that knows only an older program's kind.
    let older = reopened(&pool, Kinds::default().with(Arc::new(Older(KNOWN)))).unwrap();
    assert!(matches!(older.open_tenants(), Err(Error::Tenant { .. })));
}

#[test]
fn a_tenant_that_is_busy_is_not_waited_for() {
    let pool = volatile();
    let entry = add(&pool, &new("one")).unwrap();
    let toy = pool.open_tenant::<Toy, Error>(&entry, || Ok(Toy::of(&entry))).unwrap();
    let busy = toy.objects.lock().unwrap();
    assert!(matches!(pool.begin_sweep(), Err(Error::TenantBusy { name }) if name == "one"));
    assert!(matches!(pool.check(), Err(Error::TenantBusy { .. })));
    assert!(!pool.usage().recovering, "nothing has begun");
    drop(busy);
    // Nor while another is being added or opened.
    let added = pool.add_tenant::<Error>(&new("two"), 64, |_, _| {
        assert!(matches!(pool.begin_sweep(), Err(Error::TenantBusy { .. })));
        Ok(())
    });
    assert!(added.is_ok());
    let two = pool.open_tenant::<Toy, Error>(&added.unwrap(), || {
        assert!(matches!(pool.begin_sweep(), Err(Error::TenantBusy { .. })));
        Ok(Toy::of(&pool.tenant("two").unwrap()))
    });
    assert!(pool.check().is_ok() && two.is_ok());
}

#[test]
fn threads_that_drive_sweeps_for_two_tenants_all_get_their_turn() {
    let pool = volatile();
    let entries = ["one", "two"].map(|name| add(&pool, &new(name)).unwrap());
    let toys = entries
        .map(|entry| pool.open_tenant::<Toy, Error>(&entry, || Ok(Toy::of(&entry))).unwrap());
    std::thread::scope(|scope| {
        for toy in &toys {
            let pool = &pool;
            scope.spawn(move || {
                let (mut swept, mut random) = (0, 7_u64);
                while swept < 50 {
                    random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                    let mut objects = toy.objects.lock().unwrap();
                    if let Ok(object) = pool.alloc(random >> 53) {
                        objects.push(object);
                    }
                    if objects.len() > 9 {
                        pool.free(objects.remove(0));
                    }
                    // Its own objects stand still as long as it has the lock.
                    let begun = pool.begin_sweep_by(toy.entry.id);
                    let noted = objects.clone();
                    drop(objects);
                    let mut sweep = match begun {
                        Ok(sweep) => sweep,
                        Err(Error::TenantBusy { .. } | Error::SweepRunning) => {
                            std::thread::yield_now();
                            continue;
                        }
                        Err(error) => panic!("{error}"),
                    };
                    sweep.mark(toy.entry.root).unwrap();
                    for object in noted {
                        sweep.mark(object).unwrap();
                    }
                    sweep.mark_others(&|| true).unwrap();
                    while !sweep.settle_others().unwrap() {}
                    assert_eq!(sweep.finish([]).unwrap().refused, 0);
                    swept += 1;
                }
            });
        }
    });
    let held: usize = toys.iter().map(|toy| toy.objects.lock().unwrap().len() + 1).sum();
    assert_eq!(pool.usage().objects, held as u64);
    let check = pool.check().unwrap();
    assert_eq!((check.account.leaked, check.account.objects), (0, held as u64));
}

/// Bytes in the root of [`tenant_pool`].
pub(crate) const KNOWN_ROOT: u64 = 64;

/// A pool with a tenant, whose root is zero.
pub(crate) fn tenant_pool() -> (Arc<Pool>, TenantEntry) {
    with_tenant(volatile())
}

/// The same, watched by an observer.
pub(crate) fn observed_tenant_pool(observer: Arc<dyn Observer>) -> (Arc<Pool>, TenantEntry) {
    with_tenant(observed(Some(observer)))
}

/// The same in a file. A checkpoint gives back all pages of it.
pub(crate) fn filed_tenant_pool(name: &str) -> (File, Arc<Pool>, TenantEntry) {
    let file = File::new(name);
    let mut options = file.options(kinds(), false);
    (options.region.private_max, options.region.background) = (0, false);
    let (pool, entry) = with_tenant(Arc::new(Pool::create(&file.0, &options).unwrap()));
    (file, pool, entry)
}

impl File {
    /// Opened by another process, after the first one was killed.
    pub(crate) fn reopened(&self) -> Pool {
        self.open(kinds()).unwrap()
    }
}

fn with_tenant(pool: Arc<Pool>) -> (Arc<Pool>, TenantEntry) {
    let section = pool.reserve(KNOWN_ROOT, 2).unwrap();
    let made = pool.add_tenant::<Error>(&new("one"), KNOWN_ROOT, |region, root| {
        region.write("test.zero", root.offset(), &[&[0; KNOWN_ROOT as usize]])?;
        Ok(())
    });
    drop(section);
    (pool, made.unwrap())
}

/// Adds one of an older version, with a long name.
pub(crate) fn second_tenant(pool: &Pool) {
    add(pool, &NewTenant { version: 2, ..new("zwölf mal zwölf: zweiundvier") }).unwrap();
}

/// The pool as a process would find it that opens it now.
pub(crate) fn reopened_toys(pool: &Pool) -> Result<Arc<Pool>, Error> {
    reopened(pool, kinds())
}

/// The pool in these bytes behind a region's header.
pub(crate) fn opened_toys(bytes: &[u8]) -> Result<Arc<Pool>, Error> {
    toys_of(image::region(bytes))
}

/// The pool in a region.
pub(crate) fn toys_of(region: Region) -> Result<Arc<Pool>, Error> {
    Pool::from_region_of(region, kinds()).map(Arc::new)
}
