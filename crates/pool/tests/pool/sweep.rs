//! Sweeps free exactly what nothing refers to.

use std::collections::HashSet;

use tembo_pool::{Error, Geometry, Object, Pool};

use crate::image;
use crate::model::Model;
use crate::random::Random;

/// Allocates about `bytes` in objects of random sizes.
fn fill(pool: &Pool, random: &mut Random, bytes: u64, size_max: u64) -> Vec<Object> {
    let (mut objects, mut sum) = (Vec::new(), 0);
    while sum < bytes {
        let Ok(object) = pool.alloc(random.size(size_max)) else { break };
        sum += object.size();
        objects.push(object);
    }
    objects
}

/// Marks `live` while allocating and freeing; returns what is held afterwards.
fn sweep_under_load(pool: &Pool, random: &mut Random, live: &[Object], size_max: u64) -> Model {
    let mut sweep = pool.begin_sweep().unwrap();
    let limit = sweep.limit();
    let mut model = Model::new(pool);
    for &object in live {
        model.add(pool, object, 0);
    }
    let mut held: Vec<_> = live.to_vec();
    for &object in live {
        // Marked though freed meanwhile: a marker's snapshot is older than the present.
        assert!(sweep.mark(object).unwrap());
        assert!(!sweep.mark(object).unwrap());
        if random.below(3) == 0
            && let Ok(object) = pool.alloc(random.size(size_max))
        {
            assert!(object.offset() >= limit, "{object:?} below {limit:#x}");
            model.add(pool, object, 0);
            assert!(sweep.mark(object).unwrap());
            held.push(object);
        }
        if random.below(4) == 0
            && let Some(object) = random.take(&mut held)
        {
            model.remove(object);
            pool.free(object);
        }
    }
    assert!(matches!(pool.begin_sweep(), Err(Error::SweepRunning)));
    let report = sweep.finish([]).unwrap();
    assert_eq!(report.refused, 0);
    model.check_exact(pool);
    assert!(!pool.usage().recovering);
    model
}

#[test]
fn a_sweep_after_opening_frees_exactly_the_rest() {
    for seed in 0..40 {
        let mut random = Random(seed);
        let (size, size_max, geometry) = match seed % 2 {
            0 => (256 << 10, 9000, Geometry::TINY),
            _ => (8 << 20, 200_000, Geometry::default()),
        };
        let before = image::pool(size, geometry);
        let mut objects = fill(&before, &mut random, size / 3, size_max);
        let pool = image::reopen(&before).unwrap();
        assert_eq!(pool.usage().allocated_bytes, 0);
        assert!(pool.usage().recovering && pool.usage().unknown_bytes > 0);
        objects.retain(|_| random.below(1 + seed % 5) != 0);
        let model = sweep_under_load(&pool, &mut random, &objects, size_max / 4);
        empty_and_refill(&pool, model, &mut random, size_max);
    }
}

#[test]
fn a_sweep_in_mid_life_frees_what_a_rollback_left() {
    for seed in 0..40 {
        let mut random = Random(1000 + seed);
        let pool = image::pool(256 << 10, Geometry::TINY);
        let mut objects = fill(&pool, &mut random, 100 << 10, 5000);
        for _ in 0..objects.len() / 3 {
            pool.free(random.take(&mut objects).unwrap());
        }
        let lost = random.take(&mut objects).unwrap();
        let model = sweep_under_load(&pool, &mut random, &objects, 1000);
        assert!(model.objects().all(|object| object != lost));
        empty_and_refill(&pool, model, &mut random, 5000);
    }
}

/// After a sweep the pool goes on: it can be emptied, and all of it used again.
fn empty_and_refill(pool: &Pool, mut model: Model, random: &mut Random, size_max: u64) {
    for object in fill(pool, random, pool.usage().size / 4, size_max) {
        model.add(pool, object, 0);
    }
    model.check_exact(pool);
    for object in model.objects().collect::<Vec<_>>() {
        model.remove(object);
        pool.free(object);
    }
    model.check_exact(pool);
    let whole = (pool.usage().size - pool.usage().data_start) * 4 / 5 - 65536;
    pool.free(pool.alloc(whole).unwrap());
}

#[test]
fn nothing_below_the_frontier_is_handed_out_before_the_sweep() {
    let before = image::tiny();
    let old: Vec<_> = (0..60).map(|_| before.alloc(192).unwrap()).collect();
    let frontier = before.usage().frontier;
    let pool = image::reopen(&before).unwrap();
    assert_eq!(pool.generation(), before.generation() + 1);
    let mut new = Vec::new();
    loop {
        match pool.alloc(192) {
            Ok(object) => {
                assert!(object.offset() >= frontier);
                new.push(object);
            }
            Err(Error::PoolFull { recovering, .. }) => {
                assert!(recovering);
                break;
            }
            Err(error) => panic!("{error}"),
        }
    }
    // What is freed below the limit stays out of use; what is freed above is used again.
    pool.free(old[0]);
    assert!(pool.alloc(192).is_err());
    pool.free(new[0]);
    assert_eq!(pool.alloc(192).unwrap(), new[0]);
    let mut sweep = pool.begin_sweep().unwrap();
    for &object in &old {
        sweep.mark(object).unwrap();
    }
    let report = sweep.finish([]).unwrap();
    assert_eq!((report.objects, report.freed), (59, 1));
    assert!(pool.alloc(192).unwrap().offset() < frontier);
}

#[test]
fn a_dropped_sweep_frees_nothing_and_can_be_repeated() {
    let pool = image::tiny();
    let objects: Vec<_> = (0..50).map(|_| pool.alloc(192).unwrap()).collect();
    let mut sweep = pool.begin_sweep().unwrap();
    let limit = sweep.limit();
    sweep.mark(objects[0]).unwrap();
    pool.free(objects[7]);
    drop(sweep);
    assert!(pool.usage().recovering);
    let young = pool.alloc(192).unwrap();
    assert!(young.offset() >= limit);
    let mut sweep = pool.begin_sweep().unwrap();
    assert_eq!(sweep.limit(), limit);
    for &object in &objects[..49] {
        sweep.mark(object).unwrap();
    }
    let report = sweep.finish([objects[49], young]).unwrap();
    assert_eq!((report.objects, report.freed, report.refused), (49, 1, 0));
    let mut model = Model::new(&pool);
    let kept = objects.iter().filter(|object| **object != objects[7]);
    for &object in kept.chain([&young]) {
        model.add(&pool, object, 192);
    }
    model.check_exact(&pool);
}

#[test]
fn pending_objects_stay_and_impossible_ones_are_refused() {
    let pool = image::tiny();
    let (node, pending) = (pool.alloc(192).unwrap(), pool.alloc(192).unwrap());
    let mut sweep = pool.begin_sweep().unwrap();
    sweep.mark(node).unwrap();
    let between = Object::from_bits(pending.to_bits() + 1);
    assert!(matches!(sweep.mark(between), Err(Error::Misplaced { .. })));
    assert!(matches!(sweep.mark(Object::NONE), Err(Error::Misplaced { .. })));
    let report = sweep.finish([pending, between]).unwrap();
    assert_eq!((report.objects, report.refused), (2, 1));
    assert_eq!(pool.usage().objects, 2);
}

#[test]
fn opening_again_and_again_loses_no_space_for_good() {
    let mut pool = image::tiny();
    let mut live: Vec<Object> = Vec::new();
    let mut random = Random(9);
    for round in 0..100 {
        while live.len() < 40 {
            live.push(pool.alloc(random.size(600)).unwrap());
        }
        pool = image::reopen(&pool).unwrap();
        assert_eq!(pool.generation(), round + 2);
        let mut sweep = pool.begin_sweep().unwrap();
        random.take(&mut live);
        for &object in &live {
            sweep.mark(object).unwrap();
        }
        assert_eq!(sweep.finish([]).unwrap().objects, live.len() as u64);
        assert_eq!(pool.usage().objects, live.len() as u64);
    }
}

#[test]
fn no_object_is_given_twice_across_a_sweep() {
    let before = image::tiny();
    let old: Vec<_> = (0..100).map(|_| before.alloc(64).unwrap()).collect();
    let pool = image::reopen(&before).unwrap();
    let mut sweep = pool.begin_sweep().unwrap();
    let (live, dead) = old.split_at(50);
    for &object in live {
        sweep.mark(object).unwrap();
    }
    // Freed though never marked, as by a thread that unlinks what the marker had not reached.
    pool.free(dead[0]);
    assert_eq!(sweep.finish([]).unwrap().freed, 0);
    let _relief = pool.relief();
    let mut seen: HashSet<_> = live.iter().copied().collect();
    while let Ok(object) = pool.alloc(64) {
        assert!(seen.insert(object), "{object:?} twice");
    }
    assert_eq!(seen.len(), 30 * 64);
}
