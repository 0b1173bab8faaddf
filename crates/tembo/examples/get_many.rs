//! Reads keys one by one and together, slice by slice in turns, and prints how many times as fast the latter is:
//! `cargo run --release -p tembo --example get_many -- 1000000`. The more of the keys the processor's cache has not, the faster.

use std::time::Instant;

use tembo::{Durability, Error, Keyspace, Options, Store};

/// Keys that are read at a time.
const TOGETHER: [usize; 4] = [1, 8, 16, 64];
/// Keys of a slice, which is timed: short, so that most slices are not interrupted.
const SLICE: usize = 2000;

/// One to one on 64 bits: other keys for other numbers (SplitMix64).
fn key(number: u64) -> [u8; 8] {
    let n = number.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let n = (n ^ n >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let n = (n ^ n >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    (n ^ n >> 31).to_be_bytes()
}

/// All keys, in another order in each round.
fn plan(count: u64, round: u64) -> Vec<[u8; 8]> {
    let mut numbers: Vec<u64> = (0..count).collect();
    numbers.sort_by_cached_key(|number| key(number ^ (round + 1) << 40));
    numbers.into_iter().map(key).collect()
}

/// Reads keys, so many at a time; how many there are.
fn read(store: &Store, space: Keyspace, keys: &[[u8; 8]], size: usize) -> Result<usize, Error> {
    let mut found = 0;
    if size == 1 {
        for key in keys {
            found += store.get_with(space, key, |value| usize::from(value.is_some()))?;
        }
        return Ok(found);
    }
    for keys in keys.chunks(size) {
        store.get_many_with(space, keys, |value| found += usize::from(value.is_some()))?;
    }
    Ok(found)
}

#[allow(clippy::print_stdout)]
fn main() -> Result<(), Error> {
    let count = std::env::args().nth(1).and_then(|count| count.parse().ok()).unwrap_or(20_000);
    let store = Store::volatile(&Options::new())?;
    let space = store.keyspace("keys")?;
    for key in plan(count, 0) {
        store.put(space, &key, b"a value.", Durability::Buffered)?;
    }
    // All of them of one version, and those that are not there among them.
    let found = store.get_many(space, &[&key(0)[..], b"other", &key(1)[..]])?;
    assert_eq!(found, [Some(b"a value.".to_vec()), None, Some(b"a value.".to_vec())]);

    let mut times_ns = [const { Vec::new() }; TOGETHER.len()];
    for round in 1..=2 * TOGETHER.len() {
        for (number, keys) in plan(count, round as u64).chunks(SLICE).enumerate() {
            let which = (number + round) % TOGETHER.len();
            let start = Instant::now();
            let found = read(&store, space, keys, TOGETHER[which])?;
            times_ns[which].push(start.elapsed().as_nanos() as f64 / keys.len() as f64);
            assert_eq!(found, keys.len());
        }
    }
    let median = |times: &mut Vec<f64>| {
        times.sort_by(f64::total_cmp);
        times[times.len() / 2]
    };
    let medians = times_ns.each_mut().map(median);
    for (size, time) in TOGETHER.into_iter().zip(medians) {
        println!(
            "{size:2} of {count} keys at a time: {time:.0} ns a key, {:.2}",
            medians[0] / time
        );
    }
    Ok(())
}
