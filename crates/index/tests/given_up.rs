//! Space that one thread has written and given up holds a leaf of another thread, which writes only what it does not find there
//! as it wants it: what that thread acknowledges survives.
#![allow(clippy::unwrap_used)]

use std::ops::Bound;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::channel;

use tembo_index::{
    Clock, DeadIntervals, Direction, Error, Forest, Index, IndexKind, Op, Retained, Stamp,
    VersionedIndex, View, Writer,
};
use tembo_pmem::{DomainRequest, RegionOptions};
use tembo_pool::{Error as PoolError, Geometry, Object, Pool, PoolOptions};

const SIZE: u64 = 256 << 10;

/// Bytes of a leaf.
const NODE: u64 = 192;

/// Files that go with the test.
struct Files(PathBuf);

impl Files {
    fn new(name: &str) -> Files {
        let process = std::process::id();
        let files = Files(std::env::temp_dir().join(format!("tembo-index-{process}-{name}")));
        let _ = std::fs::remove_dir_all(&files.0);
        std::fs::create_dir_all(&files.0).unwrap();
        files
    }

    fn pool(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }
}

impl Drop for Files {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn options() -> PoolOptions {
    let region = RegionOptions {
        domain: DomainRequest::Logged,
        size_max: SIZE,
        log_size: 1 << 20,
        background: false,
        ..RegionOptions::default()
    };
    PoolOptions { size: SIZE, geometry: Geometry::TINY, region, ..PoolOptions::default() }
}

/// What is left of a pool whose process is killed.
fn left(files: &Files, pool: &Path) -> Pool {
    let (copy, log) = (files.pool("left"), |pool: &Path| format!("{}.log", pool.display()));
    std::fs::copy(pool, &copy).unwrap();
    std::fs::copy(log(pool), log(&copy)).unwrap();
    Pool::open(&copy, &options()).unwrap()
}

/// A tree, and the object that it begins with.
struct Tree(Index, Object);

impl Tree {
    fn new(forest: &Arc<Forest>) -> Tree {
        let (dead, retained, mut retired) = Default::default();
        let stamp = Stamp::grouped(1, 0);
        let writer = Writer { stamp, dead: &dead, retained: &retained, retired: &mut retired };
        let (tree, cell) = Index::create(forest.clone(), IndexKind::Nvtree, &writer).unwrap();
        forest.pool().region().fence("test.made");
        Tree(tree, cell)
    }

    fn put(&self, key: &[u8], clock: &Clock) {
        let (dead, retained) = (DeadIntervals::default(), Retained::new(clock.last(), Vec::new()));
        let (stamp, mut retired) = (Stamp::single(clock.last(), 0), Vec::new());
        let retired = &mut retired;
        let mut writer = Writer { stamp, dead: &dead, retained: &retained, retired };
        let op = Op::Put { key, value: &[b"value"] };
        let existed = self.0.apply_single(op, &clock.ticket(), &mut writer).unwrap();
        assert_eq!(existed, Some(false), "{key:?}");
    }

    fn keys(&self, clock: &Clock) -> Vec<Vec<u8>> {
        let (dead, mut keys) = (DeadIntervals::default(), Vec::new());
        let view = View { version: clock.last(), dead: &dead };
        let (from, to) = (Bound::Included(&[][..]), Bound::Unbounded);
        let mut visit = |key: &[u8], _: tembo_index::Value<'_>| {
            keys.push(key.to_vec());
            true
        };
        self.0.range(from, to, Direction::Forward, view, &mut visit).unwrap();
        keys
    }
}

/// Takes all chunks that are not in use.
fn fill(pool: &Pool) {
    let chunk = u64::from(pool.geometry().chunk_size);
    let _section = pool.reserve(0, 64).unwrap();
    while pool.alloc(chunk).is_ok() {}
}

/// Space of a leaf that held something.
fn space_with_a_past(pool: &Pool) -> Object {
    let _section = pool.reserve(NODE, 8).unwrap();
    let space = pool.alloc(NODE).unwrap();
    let past: &[u8] = &[0xaa; NODE as usize];
    pool.region().write("test.past", space.offset(), &[past]).unwrap();
    pool.region().fence("test.past.fence");
    pool.region().sync().unwrap();
    space
}

/// A hint is written without the writer's lock. Its directory finds no room, and a leaf of the writer has the space of its page
/// at once.
#[test]
fn a_leaf_in_the_space_of_a_hint_that_failed_has_what_was_put_there() {
    // Low keys of zeroes alone, of so many lengths that the page ends at each word of a line.
    for len in 150..176_u8 {
        let (files, clock) = (Files::new(&format!("hint-{len}")), Clock::new(1));
        let path = files.pool("pool");
        let pool = Arc::new(Pool::create(&path, &options()).unwrap());
        let forest = Arc::new(Forest::new(pool.clone(), 16 << 20).unwrap());
        let (hinted, changed) = (Tree::new(&forest), Tree::new(&forest));
        (0..7).for_each(|more| hinted.put(&vec![0; usize::from(len + more)], &clock));
        let key = |number: u8| vec![len, number];
        (0..5).for_each(|number| changed.put(&key(number), &clock));
        let space = space_with_a_past(&pool);
        fill(&pool);
        pool.free(space);
        let bytes = |pool: &Pool| pool.region().media_bytes(space.offset(), NODE).unwrap().to_vec();
        std::thread::scope(|scope| {
            let (given, is_given) = channel();
            let (end, has_ended) = channel::<()>();
            let (hinted, version) = (&hinted.0, clock.last());
            scope.spawn(move || {
                let written = hinted.write_hint(version, &mut Vec::new());
                given.send(written).unwrap();
                let _ = has_ended.recv();
            });
            let written = is_given.recv().unwrap();
            let is_full = matches!(written, Err(Error::Pool(PoolError::PoolFull { .. })));
            assert!(is_full, "{len}: {written:?}");
            (5..7).for_each(|number| changed.put(&key(number), &clock));
            pool.region().sync().unwrap();
            let seen = bytes(&pool);
            assert_eq!(seen[4..8], *b"NVTL", "{len}: no leaf lies there");
            let after = Arc::new(left(&files, &path));
            assert_eq!(bytes(&after), seen, "{len}");
            let forest = Arc::new(Forest::new(after, 16 << 20).unwrap());
            let tree = Tree(Index::open(forest, changed.1, 1).unwrap(), changed.1);
            assert_eq!(tree.keys(&clock), (0..7).map(key).collect::<Vec<_>>(), "{len}");
            drop(end);
        });
    }
}
