//! Several threads at once.

use std::collections::BTreeMap;

use tembo_pool::{Geometry, Object, Pool};

use crate::image;
use crate::random::Random;

fn churn(pool: &Pool, seed: u64) -> Vec<Object> {
    let (mut random, mut held) = (Random(seed), Vec::new());
    for _ in 0..30_000 {
        if random.below(5) < 3 {
            let size = random.size(4000);
            if let Ok(object) = pool.alloc(size) {
                // Each object carries its own bits: overlap would overwrite another's.
                pool.region()
                    .store(&pool.region().words(object.offset(), 1).unwrap()[0], object.to_bits());
                held.push(object);
            }
        } else if let Some(object) = random.take(&mut held) {
            let word = &pool.region().words(object.offset(), 1).unwrap()[0];
            assert_eq!(word.load(), object.to_bits());
            pool.free(object);
        }
    }
    held
}

fn assert_disjoint(objects: &[Object]) {
    let ranges: BTreeMap<_, _> = objects.iter().map(|o| (o.offset(), o.size())).collect();
    assert_eq!(ranges.len(), objects.len());
    let mut end = 0;
    for (offset, size) in ranges {
        assert!(offset >= end);
        end = offset + size;
    }
}

#[test]
fn threads_get_disjoint_objects_while_sweeps_come_and_go() {
    let pool = image::pool(64 << 20, Geometry::default());
    let rooted: Vec<_> = (0..2000).map(|_| pool.alloc(1024).unwrap()).collect();
    // Reopened, so that all that the threads hold is younger than the sweep.
    let pool = image::reopen(&pool).unwrap();
    let held: Vec<Object> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..4)
            .map(|seed| {
                scope.spawn({
                    let pool = &pool;
                    move || churn(pool, seed)
                })
            })
            .collect();
        for round in 0..20 {
            let mut sweep = pool.begin_sweep().unwrap();
            for &object in &rooted {
                sweep.mark(object).unwrap();
            }
            if round == 19 {
                let report = sweep.finish([]).unwrap();
                assert_eq!((report.objects, report.refused), (2000, 0));
            }
        }
        threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
    });
    let all: Vec<_> = held.iter().chain(&rooted).copied().collect();
    assert_disjoint(&all);
    let mut census = pool.census();
    for &object in &all {
        assert!(census.mark(object).unwrap());
    }
    let account = census.account();
    assert_eq!((account.leaked, account.dangling), (0, 0));
    for &object in &all {
        pool.free(object);
    }
    assert_eq!((pool.usage().objects, pool.usage().allocated_bytes), (0, 0));
}
