//! What a put and a get cost, one thread, random keys, in rounds of some puts.
//!
//! `cargo run --release -p tembo-kv --example costs -- [KEYS] [VALUE_SIZE] [PUTS_PER_TURN] [PATH]`
//! With a path the pool is a file in the (emulated) `flush` domain, else memory.
#![allow(clippy::print_stdout)]

use std::path::Path;
use std::time::Instant;

use tembo_kv::{DomainRequest, Durability, Error, Keyspace, Options, Store};
use tembo_pmem::Counters;

fn main() -> Result<(), Error> {
    let mut args = std::env::args().skip(1);
    let mut number = |default: u64| args.next().and_then(|arg| arg.parse().ok()).unwrap_or(default);
    let (keys, value_size, batch) = (number(1_000_000), number(3) as usize, number(50));
    let mut options = Options::new();
    let store = match args.next() {
        Some(path) => {
            options = options.domain(DomainRequest::Flush);
            Store::create(Path::new(&path), &options)?
        }
        None => {
            options = options.size(4 << 30);
            Store::volatile(&options)?
        }
    };
    let space = store.keyspace("x")?;
    let value = vec![7; value_size];
    for round in ["insert", "update", "update"] {
        put_all(&store, space, keys, &value, batch, round)?;
    }
    for round in ["get", "get"] {
        let start = Instant::now();
        let mut tx = store.exclusive()?;
        let mut found = 0;
        for first in (0..keys).step_by(16) {
            let batch: Vec<_> = (first..(first + 16).min(keys)).map(|i| key(i, keys)).collect();
            let names: Vec<_> = batch.iter().map(Vec::as_slice).collect();
            tx.prefetch(space, &names);
            for name in names {
                found += u64::from(tx.get(space, name)?.is_some());
            }
        }
        let ns = start.elapsed().as_nanos() as f64 / keys as f64;
        println!("{round}: {ns:.0} ns a get, {found} found");
    }
    Ok(())
}

fn put_all(
    store: &Store,
    space: Keyspace,
    keys: u64,
    value: &[u8],
    batch: u64,
    round: &str,
) -> Result<(), Error> {
    let (start, before) = (Instant::now(), Counters::thread());
    for first in (0..keys).step_by(batch as usize) {
        let mut tx = store.exclusive()?;
        let batch: Vec<_> = (first..(first + batch).min(keys)).map(|i| key(i, keys)).collect();
        let names: Vec<_> = batch.iter().map(Vec::as_slice).collect();
        for names in names.chunks(16) {
            tx.prefetch(space, names);
            for name in names {
                tx.put(space, name, value)?;
            }
        }
        tx.commit(Durability::Buffered)?;
    }
    let per = |count: u64| count as f64 / keys as f64;
    let cost = Counters::thread() - before;
    println!(
        "{round}: {:.0} ns, {:.3} fences, {:.2} lines, {:.1} stores a put",
        per(start.elapsed().as_nanos() as u64),
        per(cost.fences),
        per(cost.lines),
        per(cost.stores),
    );
    Ok(())
}

/// The keys in a scattered order, as redis-benchmark writes them.
fn key(i: u64, keys: u64) -> Vec<u8> {
    format!("key:{:012}", i.wrapping_mul(0x9e37_79b9_7f4a_7c15) % keys).into_bytes()
}
