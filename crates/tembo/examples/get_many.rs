//! Reads keys one by one and together, round by round, and prints how many times as fast the latter is:
//! `cargo run --release -p tembo --example get_many -- 1000000`. The more of the keys the processor's cache has not, the faster.

use std::time::{Duration, Instant};

use tembo::{Durability, Error, Keyspace, Options, Store};

const ROUNDS: u64 = 5;
const TOGETHER: [usize; 3] = [8, 16, 64];

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

fn alone(store: &Store, space: Keyspace, keys: &[[u8; 8]]) -> Result<(Duration, u64), Error> {
    let (start, mut found) = (Instant::now(), 0);
    for key in keys {
        found += store.get_with(space, key, |value| u64::from(value.is_some()))?;
    }
    Ok((start.elapsed(), found))
}

fn together(
    store: &Store,
    space: Keyspace,
    keys: &[[u8; 8]],
    size: usize,
) -> Result<(Duration, u64), Error> {
    let (start, mut found) = (Instant::now(), 0);
    for keys in keys.chunks(size) {
        store.get_many_with(space, keys, |value| found += u64::from(value.is_some()))?;
    }
    Ok((start.elapsed(), found))
}

#[allow(clippy::print_stdout)]
fn main() -> Result<(), Error> {
    let count = std::env::args().nth(1).and_then(|count| count.parse().ok()).unwrap_or(10_000);
    let store = Store::volatile(&Options::new())?;
    let space = store.keyspace("keys")?;
    for key in plan(count, 0) {
        store.put(space, &key, b"a value.", Durability::Buffered)?;
    }
    // All of them of one version, and those that are not there among them.
    let found = store.get_many(space, &[&key(0)[..], b"other", &key(1)[..]])?;
    assert_eq!(found, [Some(b"a value.".to_vec()), None, Some(b"a value.".to_vec())]);

    let mut ratios = [const { Vec::new() }; TOGETHER.len()];
    for round in 1..=ROUNDS {
        let keys = plan(count, round);
        let (one_by_one, found) = alone(&store, space, &keys)?;
        assert_eq!(found, count);
        for (size, ratios) in TOGETHER.into_iter().zip(&mut ratios) {
            let (time, found) = together(&store, space, &keys, size)?;
            assert_eq!(found, count);
            ratios.push(one_by_one.as_secs_f64() / time.as_secs_f64());
        }
    }
    for (size, ratios) in TOGETHER.into_iter().zip(&mut ratios) {
        ratios.sort_by(f64::total_cmp);
        let (least, most) = (ratios[0], ratios[ratios.len() - 1]);
        let median = ratios[ratios.len() / 2];
        println!("{size:3} of {count} keys at a time: {median:.2} ({least:.2} to {most:.2})");
    }
    Ok(())
}
