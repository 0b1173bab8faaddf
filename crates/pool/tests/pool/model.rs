//! The allocator against a model: a set of ranges that may not overlap.

use std::collections::BTreeMap;

use tembo_pool::{Account, Error, Geometry, OBJECT_SIZE_MAX, Object, Pool};

use crate::image;
use crate::random::Random;

/// The objects that the test holds.
pub(crate) struct Model {
    chunk: u64,
    /// By offset: the object and the end of what it takes.
    held: BTreeMap<u64, (Object, u64)>,
    pub(crate) bytes: u64,
}

impl Model {
    pub(crate) fn new(pool: &Pool) -> Model {
        Model { chunk: pool.geometry().chunk_size.into(), held: BTreeMap::new(), bytes: 0 }
    }

    pub(crate) fn footprint(&self, object: Object) -> u64 {
        let size = object.size();
        if size <= self.chunk / 2 { size } else { size.next_multiple_of(self.chunk) }
    }

    /// Takes note of a new object and checks that it may lie there.
    pub(crate) fn add(&mut self, pool: &Pool, object: Object, asked: u64) {
        let (start, end) = (object.offset(), object.offset() + self.footprint(object));
        let usage = pool.usage();
        assert!(object.size() >= asked);
        assert!(start >= usage.data_start && end <= usage.frontier, "{object:?}");
        let alignment = match object.size() {
            size if size >= 65536 => 4096,
            size if size >= 64 => 64,
            _ => 16,
        };
        assert_eq!(start % alignment, 0, "{object:?}");
        pool.valid(object).unwrap();
        if let Some((_, &(before, before_end))) = self.held.range(..end).next_back() {
            assert!(before_end <= start, "{object:?} overlaps {before:?}");
        }
        self.held.insert(start, (object, end));
        self.bytes += end - start;
    }

    pub(crate) fn remove(&mut self, object: Object) {
        let (held, end) = self.held.remove(&object.offset()).unwrap();
        assert_eq!(held, object);
        self.bytes -= end - object.offset();
    }

    pub(crate) fn objects(&self) -> impl Iterator<Item = Object> {
        self.held.values().map(|&(object, _)| object)
    }

    pub(crate) fn len(&self) -> u64 {
        self.held.len() as u64
    }

    /// The usage adds up, and says what the model holds.
    pub(crate) fn check_usage(&self, pool: &Pool) {
        let usage = pool.usage();
        assert_eq!(usage.objects, self.len());
        assert_eq!(usage.allocated_bytes, self.bytes);
        let sum = usage.data_start + usage.allocated_bytes + usage.free_bytes + usage.unknown_bytes;
        assert_eq!(sum, usage.frontier);
        assert!(usage.frontier <= usage.size && usage.size <= pool.region().size());
    }

    /// A census of what the model holds.
    pub(crate) fn account(&self, pool: &Pool) -> Account {
        let mut census = pool.census();
        for object in self.objects() {
            assert!(census.mark(object).unwrap());
            assert!(!census.mark(object).unwrap());
        }
        let account = census.account();
        assert_eq!(account.accounted_bytes(), account.total);
        assert_eq!(account.total, pool.region().size());
        assert_eq!((account.objects, account.object_bytes), (self.len(), self.bytes));
        account
    }

    pub(crate) fn check_exact(&self, pool: &Pool) {
        self.check_usage(pool);
        let account = self.account(pool);
        assert_eq!((account.leaked, account.leaked_bytes, account.dangling), (0, 0, 0));
    }
}

fn churn(pool: &Pool, seed: u64, steps: u64, size_max: u64) -> (u64, u64) {
    let (mut random, mut model) = (Random(seed), Model::new(pool));
    let mut held = Vec::new();
    let (mut full, mut reused) = (0, 0);
    let mut high = 0;
    for step in 0..steps {
        // Waves: mostly allocation, then mostly freeing.
        let rising = (step / (steps / 8)).is_multiple_of(2);
        let allocate = random.below(100) < if rising { 70 } else { 30 };
        if allocate {
            let size = random.size(size_max);
            match pool.alloc(size) {
                Ok(object) => {
                    model.add(pool, object, size);
                    held.push(object);
                    reused += u64::from(object.offset() < high);
                    high = high.max(object.offset());
                }
                Err(Error::PoolFull { recovering: false, .. }) => full += 1,
                Err(error) => panic!("{error}"),
            }
        } else if let Some(object) = random.take(&mut held) {
            model.remove(object);
            pool.free(object);
        }
        if step % 997 == 0 {
            model.check_exact(pool);
        }
    }
    model.check_exact(pool);
    while let Some(object) = random.take(&mut held) {
        model.remove(object);
        pool.free(object);
    }
    model.check_exact(pool);
    (full, reused)
}

#[test]
fn random_churn_in_a_tiny_pool_until_it_is_full_and_back() {
    for seed in 0..30 {
        let pool = image::tiny();
        let (full, reused) = churn(&pool, seed, 4000, 20_000);
        assert!(full > 0 && reused > 0);
        // All chunks came back and joined: one object takes nearly the whole data area.
        let whole = pool.alloc(112 << 10).unwrap();
        assert_eq!(whole.offset(), 8192);
        pool.free(whole);
    }
}

#[test]
fn random_churn_with_chunks_of_64_kib() {
    for seed in 0..4 {
        let pool = image::pool(16 << 20, Geometry::default());
        let (_, reused) = churn(&pool, seed, 40_000, 300_000);
        assert!(reused > 0);
        let whole = pool.alloc(14 << 20).unwrap();
        pool.free(whole);
        assert_eq!(pool.usage().objects, 0);
    }
}

#[test]
fn random_churn_in_every_geometry() {
    for shift in 12..=20 {
        let chunk_size = 1 << shift;
        let pool = image::pool(u64::from(chunk_size) * 40, Geometry { chunk_size, node_size: 256 });
        churn(&pool, 77, 4000, u64::from(chunk_size) * 3);
    }
}

#[test]
fn every_class_can_be_taken_and_fills_what_it_says() {
    let pool = image::pool(32 << 20, Geometry::default());
    let mut size = 1;
    while size <= 16 << 20 {
        let class = Object::size_for(size).unwrap();
        let object = pool.alloc(class).unwrap();
        assert_eq!(object.size(), class);
        let mut model = Model::new(&pool);
        model.add(&pool, object, class);
        pool.free(object);
        size = class + 1;
    }
    assert_eq!(pool.usage().objects, 0);
}

#[test]
fn a_full_pool_holds_as_many_nodes_as_fit_and_again_after_freeing() {
    let pool = image::tiny();
    let _relief = pool.relief();
    for _ in 0..3 {
        let mut nodes = Vec::new();
        while let Ok(node) = pool.alloc(192) {
            nodes.push(node);
        }
        assert_eq!(nodes.len(), 30 * (4096 / 192));
        assert!(matches!(pool.alloc(16), Err(Error::PoolFull { size: 16, recovering: false })));
        for node in nodes {
            pool.free(node);
        }
        assert_eq!(pool.usage().free_bytes, 120 << 10);
    }
}

#[test]
fn an_object_that_no_pool_can_hold_is_refused() {
    let pool = image::tiny();
    assert!(matches!(
        pool.alloc(OBJECT_SIZE_MAX + 1),
        Err(Error::TooLarge { max: OBJECT_SIZE_MAX, .. })
    ));
    assert!(matches!(pool.alloc(OBJECT_SIZE_MAX), Err(Error::PoolFull { .. })));
    assert!(matches!(pool.alloc(u64::MAX), Err(Error::TooLarge { .. })));
}

#[test]
fn objects_read_from_damaged_media_are_reported() {
    let pool = image::tiny();
    let (node, run) = (pool.alloc(192).unwrap(), pool.alloc(10_000).unwrap());
    pool.valid(node).unwrap();
    pool.valid(run).unwrap();
    for object in [node, run] {
        for bit in 0..48 {
            let claim = Object::from_bits(object.to_bits() ^ 1 << bit);
            if pool.valid(claim).is_ok() {
                let usage = pool.usage();
                assert!(claim.offset() >= usage.data_start);
                assert!(claim.offset() + claim.size() <= usage.frontier);
            }
        }
    }
    assert!(pool.valid(Object::NONE).is_err());
    assert!(pool.valid(Object::from_bits(u64::MAX)).is_err());
    let mut random = Random(5);
    for _ in 0..100_000 {
        let claim = Object::from_bits(random.next());
        if pool.valid(claim).is_ok() {
            assert!(claim.offset() + claim.size() <= pool.usage().frontier);
        }
    }
}

#[test]
fn leaks_and_dangling_references_show_in_the_account() {
    let pool = image::tiny();
    let objects: Vec<_> = [192, 192, 192, 9000, 64].map(|size| pool.alloc(size).unwrap()).into();
    let mut census = pool.census();
    census.mark(objects[0]).unwrap();
    census.mark(objects[2]).unwrap();
    let account = census.account();
    assert_eq!((account.leaked, account.dangling), (3, 0));
    assert_eq!(account.leaked_bytes, 192 + 3 * 4096 + 64);
    pool.free(objects[2]);
    pool.free(objects[3]);
    let mut census = pool.census();
    for &object in &objects {
        census.mark(object).unwrap();
    }
    let account = census.account();
    assert_eq!((account.leaked, account.dangling), (0, 2));
}

#[test]
fn overlapping_marks_are_reported() {
    let pool = image::tiny();
    let node = pool.alloc(192).unwrap();
    let run = pool.alloc(9000).unwrap();
    let mut census = pool.census();
    assert!(census.mark(node).unwrap());
    assert!(census.mark(run).unwrap());
    let class = |object: Object| object.to_bits() >> 40 << 40;
    let in_node = class(pool.alloc(64).unwrap()) | (node.offset() / 16);
    assert!(matches!(census.mark(Object::from_bits(in_node)), Err(Error::Overlap { .. })));
    let in_run = Object::from_bits(class(node) | ((run.offset() + 4096) / 16));
    assert!(matches!(census.mark(in_run), Err(Error::Overlap { .. })));
    assert_eq!(census.account().objects, 2);
}
