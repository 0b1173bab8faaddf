//! What a look at bytes on media costs, beside `memcpy` and `memcmp`: nanoseconds, medians of interleaved rounds.
//! `cargo run --release -p tembo-pmem --example media_bytes`
#![allow(clippy::print_stdout)]

use std::hint::black_box;
use std::time::Instant;

use tembo_pmem::{HEADER_SIZE, Region, RegionOptions};

const ROUNDS: usize = 41;
const CALLS: u32 = 20_000;

fn time(mut call: impl FnMut()) -> f64 {
    let start = Instant::now();
    for _ in 0..CALLS {
        call();
    }
    start.elapsed().as_nanos() as f64 / f64::from(CALLS)
}

/// The compiler must take it for used.
fn keep<T>(value: T) {
    let _ = black_box(value);
}

fn median(mut times: Vec<f64>) -> f64 {
    times.sort_by(f64::total_cmp);
    times[times.len() / 2]
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let region = Region::volatile(1 << 20, &RegionOptions::default())?;
    println!(
        "{:>5}  {:>8} {:>8}  {:>8} {:>8}  {:>8} {:>8}  {:>8} {:>8}",
        "bytes", "memcpy", "copy_to", "memcmp", "cmp", "==", "eq", "copy", "write"
    );
    for len in [8, 16, 24, 32, 64, 100, 256, 1024, 4096, 65536] {
        let plain: Vec<u8> = (0..len).map(|index| index as u8).collect();
        let _section = region.reserve(2000)?;
        region.write("example.fill", HEADER_SIZE, &[&plain])?;
        let copy = plain.clone();
        let mut to = vec![0; len];
        let media = region.media_bytes(HEADER_SIZE, len as u64)?;
        let mut times: [Vec<f64>; 8] = std::array::from_fn(|_| Vec::new());
        for _ in 0..ROUNDS {
            let mut round = 0;
            let mut add = |time: f64| {
                times[round].push(time);
                round += 1;
            };
            add(time(|| black_box(&mut to[..]).copy_from_slice(black_box(&copy[..]))));
            add(time(|| black_box(media).copy_to(black_box(&mut to[..]))));
            add(time(|| keep(black_box(&copy[..]).cmp(black_box(&plain[..])))));
            add(time(|| keep(black_box(media).cmp_bytes(black_box(&plain[..])))));
            add(time(|| keep(black_box(&copy[..]) == black_box(&plain[..]))));
            add(time(|| keep(black_box(media).eq_bytes(black_box(&plain[..])))));
            add(time(|| black_box(&mut to[..]).copy_from_slice(black_box(&copy[..]))));
            let part = &copy[..];
            add(time(|| drop(region.write("example.write", HEADER_SIZE, &[black_box(part)]))));
        }
        let [a, b, c, d, e, f, g, h] = times.map(median);
        println!(
            "{len:>5}  {a:>8.2} {b:>8.2}  {c:>8.2} {d:>8.2}  {e:>8.2} {f:>8.2}  {g:>8.2} {h:>8.2}"
        );
    }
    Ok(())
}
