//! Growth: online, in steps, up to a bound; and pools in files.

use std::path::PathBuf;

use tembo_pmem::{DomainRequest, Region, RegionOptions};
use tembo_pool::{Error, Geometry, Object, Pool, PoolOptions};

use crate::image;
use crate::model::Model;
use crate::random::Random;

/// A file that goes with the test, in memory where the system has a place for that.
pub(crate) struct File(pub(crate) PathBuf);

impl File {
    pub(crate) fn new(name: &str) -> File {
        let memory = PathBuf::from("/dev/shm");
        let folder = if memory.is_dir() { memory } else { std::env::temp_dir() };
        let file = File(folder.join(format!("tembo-pool-{}-{name}", std::process::id())));
        file.remove();
        file
    }

    fn remove(&self) {
        let _ = std::fs::remove_file(&self.0);
        let _ = std::fs::remove_file(format!("{}.log", self.0.display()));
    }
}

impl Drop for File {
    fn drop(&mut self) {
        self.remove();
    }
}

const DOMAINS: [DomainRequest; 2] = [DomainRequest::Flush, DomainRequest::Logged];

fn options(domain: DomainRequest, size: u64, size_max: u64) -> PoolOptions {
    let region = RegionOptions { domain, size_max, log_size: 8 << 20, ..RegionOptions::default() };
    PoolOptions { size, geometry: Geometry::TINY, region, ..PoolOptions::default() }
}

#[test]
fn a_reservation_is_refused_before_anything_is_stored() {
    let pool = image::tiny();
    let _relief = pool.relief();
    drop(pool.reserve(100 << 10, 10).unwrap());
    let big = pool.alloc(112 << 10).unwrap();
    assert!(matches!(
        pool.reserve(9 << 10, 1),
        Err(Error::PoolFull { size: 9216, recovering: false })
    ));
    drop(pool.reserve(8 << 10, 1).unwrap());
    drop(pool.reserve(0, 1).unwrap());
    assert!(matches!(pool.reserve(u64::MAX, 1), Err(Error::PoolFull { .. })));
    pool.free(big);
    drop(pool.reserve(100 << 10, 1).unwrap());
}

#[test]
fn a_pool_grows_until_its_bound_and_a_reservation_grows_it_beforehand() {
    let size_max = 2 << 20;
    let region = RegionOptions { size_max, ..RegionOptions::default() };
    let options =
        PoolOptions { size: 128 << 10, geometry: Geometry::TINY, region, ..PoolOptions::default() };
    let pool = Pool::volatile(&options).unwrap();
    let _relief = pool.relief();
    drop(pool.reserve(300 << 10, 1).unwrap());
    let reserved = pool.usage().size;
    assert!(reserved >= 300 << 10);
    let mut model = Model::new(&pool);
    while model.bytes < 300 << 10 {
        model.add(&pool, pool.alloc(1024).unwrap(), 1024);
    }
    assert_eq!(pool.usage().size, reserved);
    while let Ok(object) = pool.alloc(1024) {
        model.add(&pool, object, 1024);
    }
    assert_eq!((pool.usage().size, pool.region().size()), (size_max, size_max));
    assert_eq!(model.bytes, size_max - 8192);
    model.check_exact(&pool);
    // Grown, it opens as large as it was.
    let pool = image::reopen(&pool).unwrap();
    assert_eq!((pool.usage().size, pool.usage().frontier), (size_max, size_max));
}

#[test]
fn a_large_object_grows_the_pool_at_once() {
    let region = RegionOptions { size_max: 64 << 20, ..RegionOptions::default() };
    let options =
        PoolOptions { size: 128 << 10, geometry: Geometry::TINY, region, ..PoolOptions::default() };
    let pool = Pool::volatile(&options).unwrap();
    let object = pool.alloc(40 << 20).unwrap();
    let mut model = Model::new(&pool);
    model.add(&pool, object, 40 << 20);
    model.check_exact(&pool);
    assert!(matches!(pool.alloc(40 << 20), Err(Error::PoolFull { .. })));
}

#[test]
fn threads_grow_a_pool_together() {
    let region = RegionOptions { size_max: 32 << 20, ..RegionOptions::default() };
    let options =
        PoolOptions { size: 128 << 10, geometry: Geometry::TINY, region, ..PoolOptions::default() };
    let pool = Pool::volatile(&options).unwrap();
    let objects: Vec<Object> = std::thread::scope(|scope| {
        let take = || (0..5000).map(|_| pool.alloc(1024).unwrap()).collect::<Vec<_>>();
        let threads = [scope.spawn(take), scope.spawn(take), scope.spawn(take)];
        threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
    });
    let mut model = Model::new(&pool);
    for object in objects {
        model.add(&pool, object, 1024);
    }
    model.check_exact(&pool);
}

#[test]
fn a_pool_in_a_file_is_found_again_after_a_crash_and_after_a_clean_stop() {
    for domain in DOMAINS {
        find_again(domain);
    }
}

fn find_again(domain: DomainRequest) {
    let file = File::new("found");
    let options = options(domain, 128 << 10, 4 << 20);
    let pool = Pool::create(&file.0, &options).unwrap();
    assert!(matches!(
        Pool::create(&file.0, &options),
        Err(Error::Region(tembo_pmem::Error::Exists { .. }))
    ));
    assert!(matches!(
        Pool::open(&file.0, &options),
        Err(Error::Region(tembo_pmem::Error::Held { .. }))
    ));
    let write = |region: &Region, object: Object| -> Result<(), Error> {
        region.write("test.content", object.offset(), &[b"it does not forget"])?;
        Ok(())
    };
    // Without the reserve the pool would grow early.
    let _relief = pool.relief();
    let section = pool.reserve(200 << 10, 2).unwrap();
    let object = pool.alloc_into(pool.root(0).unwrap(), 200 << 10, write).unwrap();
    drop(section);
    pool.region().sync().unwrap();
    let (size, frontier) = (pool.usage().size, pool.usage().frontier);
    assert!(size > 128 << 10);
    drop(pool);
    for generation in 2..10 {
        let pool = Pool::open(&file.0, &options).unwrap();
        assert_eq!((pool.generation(), pool.usage().size), (generation, size));
        assert!(pool.usage().frontier >= frontier);
        let found = Object::from_bits(pool.root(0).unwrap().load());
        assert_eq!(found, object);
        pool.valid(found).unwrap();
        assert_eq!(
            pool.region().media_bytes(found.offset(), 18).unwrap().to_vec(),
            b"it does not forget"
        );
        // Not published: the next open finds it free.
        let section = pool.reserve(64, 1).unwrap();
        assert!(pool.alloc(64).unwrap().offset() >= frontier);
        drop(section);
        let mut sweep = pool.begin_sweep().unwrap();
        sweep.mark(found).unwrap();
        assert_eq!(sweep.finish([]).unwrap().objects, 1);
        assert_eq!(pool.usage().objects, 2);
        if generation % 2 == 0 {
            pool.close().unwrap();
        }
    }
}

#[test]
fn a_creation_that_fails_leaves_no_file() {
    let file = File::new("refused");
    let mut options = options(DomainRequest::Flush, 128 << 10, 128 << 10);
    options.geometry.node_size = 200;
    assert!(matches!(Pool::create(&file.0, &options), Err(Error::BadGeometry { .. })));
    assert!(!file.0.exists());
    options.geometry = Geometry::default();
    options.size = 4096;
    assert!(matches!(Pool::create(&file.0, &options), Err(Error::BadGeometry { .. })));
    assert!(!file.0.exists());
}

#[test]
fn what_a_creation_formats_is_there_with_the_file_or_there_is_no_file() {
    for domain in DOMAINS {
        let file = File::new("formatted");
        let options = options(domain, 256 << 10, 1 << 20);
        let refused = Pool::create_with(&file.0, &options, |_| Err(Error::SweepRunning));
        assert!(matches!(refused, Err(Error::SweepRunning)));
        assert!(!file.0.exists());
        let full = Pool::create_with(&file.0, &options, |pool| pool.alloc(512 << 10).map(drop));
        assert!(matches!(full, Err(Error::PoolFull { .. })));
        assert!(!file.0.exists());
        let format = |pool: &std::sync::Arc<Pool>| {
            assert!(!file.0.exists());
            assert_eq!(pool.generation(), 0);
            let section = pool.reserve(64, 4)?;
            pool.alloc_into(pool.root(3)?, 64, |region, object| {
                Ok::<(), Error>(region.write("test.content", object.offset(), &[&[7; 64]])?)
            })?;
            drop(section);
            Ok::<(), Error>(())
        };
        let holds = |pool: &Pool, generation| {
            assert_eq!(pool.generation(), generation);
            let object = Object::from_bits(pool.root(3).unwrap().load());
            pool.valid(object).unwrap();
            assert_eq!(pool.region().media_bytes(object.offset(), 64).unwrap().to_vec(), [7; 64]);
        };
        let pool = Pool::create_with(&file.0, &options, format).unwrap();
        holds(&pool, 1);
        drop(pool);
        holds(&Pool::open(&file.0, &options).unwrap(), 2);
    }
}

#[test]
fn a_pool_in_memory_is_formatted_too_and_its_maker_keeps_no_clone() {
    let options = PoolOptions { geometry: Geometry::TINY, ..PoolOptions::default() };
    let mut kept = None;
    let made = Pool::volatile_with(&options, |pool| {
        kept = Some(pool.clone());
        Ok::<(), Error>(())
    });
    assert!(matches!(made, Err(Error::Kept)));
    let pool = Pool::volatile_with(&options, |pool| {
        pool.region().store(pool.root(1)?, 5);
        Ok::<(), Error>(())
    });
    assert_eq!(pool.unwrap().root(1).unwrap().load(), 5);
}

#[test]
fn a_file_cut_short_is_refused() {
    let file = File::new("short");
    let options = options(DomainRequest::Logged, 256 << 10, 256 << 10);
    Pool::create(&file.0, &options).unwrap().close().unwrap();
    let handle = std::fs::OpenOptions::new().write(true).open(&file.0).unwrap();
    for pages in (0..64).rev() {
        handle.set_len(pages * 4096).unwrap();
        assert!(Pool::open(&file.0, &options).is_err(), "{pages} pages");
    }
}

#[test]
fn space_used_in_a_log_survives_with_its_frontier() {
    let file = File::new("logged");
    let options = options(DomainRequest::Logged, 128 << 10, 64 << 20);
    let pool = Pool::create(&file.0, &options).unwrap();
    let mut random = Random(1);
    for round in 0..400 {
        let size = random.size(30_000);
        let section = pool.reserve(size, size / 64 + 4).unwrap();
        let init = |region: &Region, object: Object| -> Result<(), Error> {
            let bits = object.to_bits().to_le_bytes();
            region.write("test.head", object.offset(), &[&bits])?;
            Ok(())
        };
        let root = pool.root(round % 16).unwrap();
        let old = Object::from_bits(root.load());
        pool.alloc_into(root, size, init).unwrap();
        if !old.is_none() && round % 3 == 0 {
            pool.free(old);
        }
        drop(section);
    }
    pool.region().sync().unwrap();
    let roots: Vec<u64> = (0..16).map(|root| pool.root(root).unwrap().load()).collect();
    drop(pool);
    let pool = Pool::open(&file.0, &options).unwrap();
    let mut sweep = pool.begin_sweep().unwrap();
    for (root, &bits) in roots.iter().enumerate() {
        assert_eq!(pool.root(root).unwrap().load(), bits);
        let object = Object::from_bits(bits);
        assert_eq!(pool.region().words(object.offset(), 1).unwrap()[0].load(), bits);
        assert!(sweep.mark(object).unwrap());
    }
    assert_eq!(sweep.finish([]).unwrap().objects, 16);
}

/// Objects filled beside a thread that prefaults all the time.
#[test]
fn what_is_prefaulted_keeps_what_is_written_and_a_large_pool_grows_early_by_little() {
    const SIZE: u64 = 64 << 20;
    let file = File::new("ahead");
    let region = RegionOptions {
        domain: DomainRequest::Flush,
        size_max: 2 * SIZE,
        ..RegionOptions::default()
    };
    let options = PoolOptions { size: SIZE, region, ..PoolOptions::default() };
    let pool = Pool::create(&file.0, &options).unwrap();
    let (mut objects, step) = (Vec::new(), 16 << 10);
    let ended = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !ended.load(std::sync::atomic::Ordering::Relaxed) {
                pool.prefault();
            }
        });
        for number in 0..(SIZE + SIZE / 4) / step {
            let _section = pool.reserve(step, step / 64).unwrap();
            let object = pool.alloc(step).unwrap();
            for word in pool.region().words(object.offset(), step as usize / 8).unwrap() {
                pool.region().store(word, number);
            }
            objects.push(object);
        }
        ended.store(true, std::sync::atomic::Ordering::Relaxed);
    });
    for (number, object) in (0..).zip(&objects) {
        let words = pool.region().words(object.offset(), step as usize / 8).unwrap();
        assert!(words.iter().all(|word| word.load() == number), "object {number}");
    }
    pool.prefault();
    assert!(!pool.wants_prefault());
    let (size, frontier) = (pool.region().size(), pool.usage().frontier);
    assert!(size >= frontier + (4 << 20) && size <= frontier + (7 << 20), "{size} {frontier}");
}

/// In a file, where each growth is a sync: a thread of the background grows the pool when little is left.
#[test]
fn a_pool_on_a_disk_grows_before_it_is_full() {
    let file = File::new("early");
    let region = RegionOptions { domain: DomainRequest::Logged, ..Default::default() };
    let options = PoolOptions { size: 64 << 20, region, ..PoolOptions::default() };
    let pool = Pool::create(&file.0, &options).unwrap();
    let take = |bytes: u64| {
        for _ in 0..bytes / (64 << 10) {
            let _section = pool.reserve(64 << 10, 1).unwrap();
            pool.alloc(64 << 10).unwrap();
        }
    };
    take(54 << 20);
    assert!(!pool.wants_prefault());
    take(3 << 20);
    assert!(pool.wants_prefault());
    assert_eq!(pool.region().size(), 64 << 20);
    pool.prefault();
    assert_eq!(pool.region().size(), 80 << 20);
    assert!(!pool.wants_prefault());
    // What takes all before the background comes grows it by itself.
    take(40 << 20);
    assert_eq!(pool.region().size(), 100 << 20);
    pool.prefault();
    assert_eq!(pool.region().size(), 125 << 20);
}

#[test]
fn a_small_pool_does_not_grow_early_and_none_grows_past_its_bound() {
    for (size, size_max, used) in [(8 << 20, 256 << 20, 7 << 20), (80 << 20, 81 << 20, 78 << 20)] {
        let file = File::new("not-ahead");
        let region = RegionOptions { domain: DomainRequest::Flush, size_max, ..Default::default() };
        let options = PoolOptions { size, region, ..PoolOptions::default() };
        let pool = Pool::create(&file.0, &options).unwrap();
        for _ in 0..used / (64_u64 << 10) {
            let _section = pool.reserve(64 << 10, 1).unwrap();
            pool.alloc(64 << 10).unwrap();
        }
        pool.prefault();
        assert!(!pool.wants_prefault());
        assert_eq!(pool.region().size(), size);
    }
}

#[test]
fn free_slots_are_used_again_after_a_compaction() {
    let pool = image::tiny();
    let _relief = pool.relief();
    let objects: Vec<Object> = std::iter::from_fn(|| pool.alloc(1024).ok()).collect();
    // In each chunk something stays.
    let (freed, kept): (Vec<_>, Vec<_>) =
        objects.into_iter().enumerate().partition(|(number, _)| number % 2 == 0);
    freed.iter().for_each(|&(_, object)| pool.free(object));
    pool.begin_compaction();
    pool.end_compaction();
    for (taken, _) in freed.iter().enumerate() {
        let object = pool.alloc(1024);
        assert!(object.is_ok(), "{taken} of {} beside {}: {object:?}", freed.len(), kept.len());
    }
}
