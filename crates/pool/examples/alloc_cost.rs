//! Prints what allocating and freeing costs, in nanoseconds.
#![allow(clippy::print_stdout)]

use std::hint::black_box;
use std::time::Instant;

use tembo_pool::{Error, Object, Pool, PoolOptions};

fn main() -> Result<(), Error> {
    let pool = Pool::volatile(&PoolOptions { size: 1 << 30, ..PoolOptions::default() })?;
    for size in [64, 192, 1024, 16 << 10, 100 << 10] {
        let pairs = 1_000_000;
        let pair_ns = per_step_ns(pairs, || {
            pool.free(black_box(pool.alloc(size)?));
            Ok(())
        })?;
        let mut objects = Vec::with_capacity(100_000);
        let count = (400u64 << 20).div_ceil(size).min(100_000);
        let alloc_ns = per_step_ns(count, || {
            objects.push(pool.alloc(size)?);
            Ok(())
        })?;
        shuffle(&mut objects);
        let free_ns = per_step_ns(count, || {
            pool.free(objects.pop().unwrap_or(Object::NONE));
            Ok(())
        })?;
        println!(
            "{size:>7} bytes: pair {pair_ns:6.1} ns; {count} in a row: alloc {alloc_ns:6.1} ns, \
             free in random order {free_ns:6.1} ns"
        );
    }
    sweep_cost(&pool)
}

fn sweep_cost(pool: &Pool) -> Result<(), Error> {
    let count = 500_000;
    let objects = (0..count).map(|_| pool.alloc(1024)).collect::<Result<Vec<_>, _>>()?;
    let valid_ns = {
        let mut at = objects.iter();
        per_step_ns(count, || at.next().map_or(Ok(()), |object| pool.valid(*object)))?
    };
    let mut sweep = pool.begin_sweep()?;
    let mut at = objects.iter();
    let mark_ns =
        per_step_ns(count, || at.next().map_or(Ok(()), |object| sweep.mark(*object).map(|_| ())))?;
    let start = Instant::now();
    let report = sweep.finish([])?;
    println!(
        "{count} objects of 1 KiB: valid {valid_ns:.1} ns, mark {mark_ns:.1} ns each; finish {:?} \
         ({} objects stay)",
        start.elapsed(),
        report.objects
    );
    Ok(())
}

fn per_step_ns(count: u64, mut step: impl FnMut() -> Result<(), Error>) -> Result<f64, Error> {
    let start = Instant::now();
    for _ in 0..count {
        step()?;
    }
    Ok(start.elapsed().as_nanos() as f64 / count as f64)
}

fn shuffle(objects: &mut [Object]) {
    let mut state = 1u64;
    for index in (1..objects.len()).rev() {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        objects.swap(index, (state >> 33) as usize % (index + 1));
    }
}
