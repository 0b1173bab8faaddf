//! After a crash anywhere the pool is whole, and goes on.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tembo_pmem::{HEADER_SIZE, Region};
use tembo_pool::{Error, Geometry, Object, Pool, PoolOptions};

use crate::crash::{History, Image, Recorder, State, record};
use crate::image;

const SIZE: u64 = 128 << 10;

/// Runs the check on the full history, then proves that no flush or fence can be left out.
fn prove<A>(
    history: &History<A>,
    names: &[&str],
    only_end: bool,
    check: impl Fn(Image<'_, A>) -> Result<(), String>,
) {
    let images = history.explore(None, only_end, &check).unwrap();
    assert!(images > 1 || only_end);
    assert_eq!(history.names("pool."), names);
    for name in names {
        assert!(history.explore(Some(name), only_end, &check).is_err(), "{name} is not missed");
    }
}

#[test]
fn of_formatting() {
    let history = record(
        |recorder| Region::volatile(SIZE, &recorder.options(SIZE)).unwrap(),
        |region| Pool::format(region, Geometry::TINY).unwrap(),
        |region| State {
            bytes: region.bytes(HEADER_SIZE, SIZE - HEADER_SIZE).unwrap().to_vec(),
            promised: (),
        },
    );
    let names =
        ["pool.format.fence", "pool.format.label", "pool.format.words", "pool.format.words.fence"];
    prove(&history, &names, false, |image| match open(image.bytes) {
        Ok(pool) if pool.usage().frontier == 8192 && pool.generation() == 1 => Ok(()),
        Err(Error::NotAPool { found: 0 }) if !image.at_end => Ok(()),
        other => Err(format!("{:?}", other.map(|_| ()))),
    });
}

#[test]
fn of_opening_also_after_an_interrupted_growth() {
    let mut bytes = image::bytes(&image::tiny());
    bytes.resize(bytes.len() + 65536, 0);
    let recorder = Recorder::new();
    let size = HEADER_SIZE + bytes.len() as u64;
    let region = Region::volatile(size, &recorder.options(size)).unwrap();
    region.write("test.image", HEADER_SIZE, &[&bytes]).unwrap();
    recorder.forget();
    let pool = Pool::from_region(region).unwrap();
    let end = State { bytes: image::bytes(&pool), promised: () };
    let history = History::of_ends(&recorder, State { bytes, promised: () }, end);
    prove(&history, &["pool.adopt.fence", "pool.adopt.flush"], true, |image| {
        let pool = open(image.bytes).map_err(|e| e.to_string())?;
        // Generation 2 was handed out, so it must not be handed out again.
        expect(pool.generation() == 3 && pool.usage().size == SIZE + 65536, "not adopted")
    });
}

/// A pool, and how many of its roots have been promised.
struct Work {
    pool: Pool,
    promised: AtomicUsize,
}

fn work(recorder: &Arc<Recorder>) -> Work {
    let region = recorder.options(1 << 20);
    let options = PoolOptions { size: SIZE, geometry: Geometry::TINY, region };
    Work { pool: Pool::volatile(&options).unwrap(), promised: AtomicUsize::new(0) }
}

fn look(work: &Work) -> State<usize> {
    State { bytes: image::bytes(&work.pool), promised: work.promised.load(Ordering::Relaxed) }
}

/// Publishes an object, which begins and ends with its own bits, in the next root.
fn publish(work: &Work, size: u64) {
    let root = work.promised.load(Ordering::Relaxed);
    let init = |region: &Region, object: Object| -> Result<(), Error> {
        let bits = object.to_bits().to_le_bytes();
        region.write("test.head", object.offset(), &[&bits])?;
        region.write("test.tail", object.offset() + object.size() - 8, &[&bits])?;
        Ok(())
    };
    work.pool.alloc_into(work.pool.root(root).unwrap(), size, init).unwrap();
    work.promised.fetch_add(1, Ordering::Relaxed);
}

/// What was promised is there and whole, what was not is whole or absent, and the pool goes on.
fn check(image: Image<'_, usize>) -> Result<(), String> {
    let pool = open(image.bytes).map_err(|e| e.to_string())?;
    let mut found = Vec::new();
    for root in 0..8 {
        let object = Object::from_bits(pool.root(root).unwrap().load());
        if object.is_none() {
            expect(root >= *image.promised, "a promise was broken")?;
            continue;
        }
        pool.valid(object).map_err(|e| e.to_string())?;
        for at in [object.offset(), object.offset() + object.size() - 8] {
            let bits = pool.region().words(at, 1).unwrap()[0].load();
            expect(bits == object.to_bits(), "half an object")?;
        }
        found.push(object);
    }
    let mut sweep = pool.begin_sweep().unwrap();
    for &object in &found {
        sweep.mark(object).map_err(|e| e.to_string())?;
    }
    expect(sweep.finish([]).objects == found.len() as u64, "swept wrongly")?;
    for size in [192, 64, 4096, 9000] {
        found.push(pool.alloc(size).map_err(|e| e.to_string())?);
    }
    let mut census = pool.census();
    for object in found {
        expect(census.mark(object).map_err(|e| e.to_string())?, "handed out twice")?;
    }
    let account = census.account();
    expect(account.leaked == 0 && account.dangling == 0, "not accounted for")
}

#[test]
fn of_publishing_raising_the_frontier_and_growing() {
    let history = record(
        work,
        |work| {
            for size in [192, 64, 9000, 60_000, 192, 90_000, 64] {
                publish(work, size);
            }
            assert!(work.pool.usage().size > SIZE);
        },
        look,
    );
    let names = history.names("pool.");
    let all = [
        "pool.alloc_into.content",
        "pool.alloc_into.fence",
        "pool.alloc_into.flush",
        "pool.frontier.fence",
        "pool.frontier.flush",
    ];
    assert_eq!(names, all);
    let images = history.explore(None, false, check).unwrap();
    assert!(images > 100, "{images}");
    // The fence of the frontier is missed only by another thread: see below.
    for name in all.iter().filter(|name| **name != "pool.frontier.fence") {
        assert!(history.explore(Some(name), false, check).is_err(), "{name} is not missed");
    }
}

#[test]
fn of_using_space_below_a_frontier_that_another_thread_raised() {
    let history = record(
        work,
        |work| {
            work.pool.alloc(192).unwrap();
            let result = std::thread::scope(|scope| scope.spawn(|| publish(work, 192)).join());
            if let Err(cause) = result {
                std::panic::resume_unwind(cause);
            }
        },
        look,
    );
    history.explore(None, false, check).unwrap();
    for name in ["pool.frontier.fence", "pool.frontier.flush"] {
        assert!(history.explore(Some(name), false, check).is_err(), "{name} is not missed");
    }
}

fn open(bytes: &[u8]) -> Result<Pool, Error> {
    Pool::from_region(image::region(bytes))
}

fn expect(holds: bool, what: &str) -> Result<(), String> {
    if holds { Ok(()) } else { Err(what.to_owned()) }
}
