//! What the waist costs on a given directory: `cargo run --release --example waist -- DIR`.
#![allow(clippy::print_stdout)]

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use tembo_pmem::{
    DomainRequest, Error, FlushInstruction, HEADER_SIZE, Observer, Region, RegionOptions, Stored,
    SyncPolicy,
};

const SIZE: u64 = 256 << 20;
const LINES: u64 = (SIZE - HEADER_SIZE) / 64;

struct Silent;

impl Observer for Silent {
    fn load(&self, _offset: u64, _len: u64) {}
    fn store(&self, _stored: Stored<'_>, perform: &mut dyn FnMut()) {
        perform();
    }
    fn flush(&self, _name: &'static str, _offset: u64, _len: u64) {}
    fn fence(&self, _name: &'static str) {}
    fn sync(&self) {}
    fn resize(&self, _size: u64) {}
}

fn main() -> Result<(), Error> {
    let directory = std::env::args_os().nth(1).map_or_else(std::env::temp_dir, PathBuf::from);
    println!("flush instruction: {:?}", FlushInstruction::detect());
    println!("store + flush + fence of a random line, ns:");
    let volatile = RegionOptions { domain: DomainRequest::Volatile, ..RegionOptions::default() };
    let region = Region::volatile(SIZE, &volatile)?;
    touch(&region)?;
    println!("  volatile              {:8.1}", persist(&region, 4_000_000)?);
    observer_cost(&volatile)?;
    for (name, domain, count) in [
        ("flush", DomainRequest::Flush, 2_000_000),
        ("eadr", DomainRequest::Eadr, 2_000_000),
        ("logged, os", DomainRequest::Logged, 1_000_000),
    ] {
        let path = directory.join("waist.pool");
        remove(&path);
        let options = RegionOptions { domain, sync: SyncPolicy::Os, ..RegionOptions::default() };
        let region = Region::create(&path, SIZE, &options, |_| Ok::<(), Error>(()))?;
        touch(&region)?;
        if domain == DomainRequest::Logged {
            region.checkpoint()?;
            println!("  {name:20}  {:8.1}  without checkpoints", persist(&region, 150_000)?);
        }
        println!("  {name:20}  {:8.1}", persist(&region, count)?);
        records(&region, name)?;
        drop(region);
        remove(&path);
    }
    syncs(&directory)?;
    reopening(&directory)
}

fn remove(path: &Path) {
    for suffix in ["", ".log", ".log.new", ".tmp"] {
        let mut name = path.as_os_str().to_owned();
        name.push(suffix);
        let _ = std::fs::remove_file(PathBuf::from(name));
    }
}

/// Stores to every page, so that no page fault is measured.
fn touch(region: &Region) -> Result<(), Error> {
    for page in 1..SIZE / 4096 {
        let section = region.reserve(1)?;
        region.store(&region.words(page * 4096, 1)?[0], 1);
        region.flush("waist.touch", page * 4096, 8);
        region.fence("waist.touch_fence");
        drop(section);
    }
    Ok(())
}

fn random(state: &mut u64) -> u64 {
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    *state
}

/// Nanoseconds of persisting one random line.
fn persist(region: &Region, count: u64) -> Result<f64, Error> {
    let mut state = 88_172_645_463_325_252;
    let start = Instant::now();
    for value in 0..count {
        let offset = HEADER_SIZE + random(&mut state) % LINES * 64;
        region.store(&region.words(offset, 1)?[0], value);
        region.flush("waist.flush", offset, 8);
        region.fence("waist.fence");
    }
    Ok(start.elapsed().as_nanos() as f64 / count as f64)
}

fn observer_cost(options: &RegionOptions) -> Result<(), Error> {
    let watched = RegionOptions { observer: Some(Arc::new(Silent)), ..options.clone() };
    let (plain, watched) =
        (Region::volatile(1 << 20, options)?, Region::volatile(1 << 20, &watched)?);
    println!("a load of a word through a checked offset, and a store, ns (all in cache):");
    for (name, region) in [("without observer", &plain), ("with one that does nothing", &watched)] {
        let (mut loads, mut stores) = (f64::MAX, f64::MAX);
        for _ in 0..5 {
            let count = 20_000_000;
            let start = Instant::now();
            let mut sum = 0_u64;
            for index in 0..count {
                sum = sum.wrapping_add(region.words(HEADER_SIZE + index % 4096 * 8, 1)?[0].load());
            }
            std::hint::black_box(sum);
            loads = loads.min(start.elapsed().as_nanos() as f64 / count as f64);
            let words = region.words(HEADER_SIZE, 4096)?;
            let start = Instant::now();
            for index in 0..count {
                region.store(&words[index as usize % 4096], index);
            }
            stores = stores.min(start.elapsed().as_nanos() as f64 / count as f64);
        }
        println!("  {name:28} load {loads:5.2}  store {stores:5.2}");
    }
    Ok(())
}

fn records(region: &Region, name: &str) -> Result<(), Error> {
    let record = vec![3; 2048];
    let (count, mut state) = (200_000, 7);
    let start = Instant::now();
    for _ in 0..count {
        let offset = HEADER_SIZE + random(&mut state) % (LINES / 32 - 1) * 2048;
        region.write("waist.record", offset, &[&record])?;
        region.fence("waist.record_fence");
    }
    println!(
        "  {name:20}  {:8.1}  a record of 2 KiB",
        start.elapsed().as_nanos() as f64 / f64::from(count)
    );
    Ok(())
}

fn syncs(directory: &Path) -> Result<(), Error> {
    let path = directory.join("waist.pool");
    remove(&path);
    let options = RegionOptions { domain: DomainRequest::Logged, ..RegionOptions::default() };
    let start = Instant::now();
    let region = Region::create(&path, SIZE, &options, |_| Ok::<(), Error>(()))?;
    println!("creation and first opening of a logged pool: {:?}", start.elapsed());
    for threads in [1_u64, 4, 16] {
        let count = 1000;
        let start = Instant::now();
        std::thread::scope(|scope| {
            for thread in 0..threads {
                let region = &region;
                scope.spawn(move || {
                    let offset = HEADER_SIZE + thread * 4096;
                    for value in 0..count {
                        if let Ok(words) = region.words(offset, 1) {
                            region.store(&words[0], value);
                        }
                        region.flush("waist.flush", offset, 8);
                        region.fence("waist.fence");
                        let _ = region.sync();
                    }
                });
            }
        });
        let each = start.elapsed().as_micros() as f64 / (count * threads) as f64;
        println!("one line, synced, {threads:2} threads: {each:7.1} us a sync");
    }
    drop(region);
    remove(&path);
    Ok(())
}

fn reopening(directory: &Path) -> Result<(), Error> {
    let path = directory.join("waist.pool");
    let options = RegionOptions {
        domain: DomainRequest::Logged,
        sync: SyncPolicy::Os,
        background: false,
        ..RegionOptions::default()
    };
    for (name, stride) in [("neighbouring lines", 1), ("lines all over 256 MiB", 7919)] {
        remove(&path);
        let region = Region::create(&path, SIZE, &options, |_| Ok::<(), Error>(()))?;
        let mut line = 0;
        // Without sections nothing is checkpointed before the ring is full.
        while region.report().log_used + 100_000 < region.report().log_capacity {
            for _ in 0..500 {
                line += 1;
                let offset = HEADER_SIZE + line * stride % LINES * 64;
                region.store(&region.words(offset, 1)?[0], line);
                region.flush("waist.flush", offset, 8);
            }
            region.fence("waist.fence");
        }
        region.sync()?;
        drop(region);
        for again in ["first", "second"] {
            let start = Instant::now();
            let region = Region::open(&path, &options)?;
            let report = region.report();
            println!(
                "{again} opening with a full log of {} MiB, {name} ({line} lines): {:?}",
                report.replayed_bytes >> 20,
                start.elapsed()
            );
        }
        let options = RegionOptions { background: true, ..options.clone() };
        let region = Region::open(&path, &options)?;
        let start = Instant::now();
        region.checkpoint()?;
        println!("  checkpoint of it: {:?}", start.elapsed());
        drop(region);
        let start = Instant::now();
        let region = Region::open(&path, &options)?;
        println!("  opening with an empty log after a kill: {:?}", start.elapsed());
        region.close()?;
        let start = Instant::now();
        drop(Region::open(&path, &options)?);
        println!("  opening after a clean stop: {:?}", start.elapsed());
        remove(&path);
    }
    Ok(())
}
