//! A heap as a program uses it.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod beside;
mod by_hand;
mod collections;
mod counts;
mod cycles;
mod damage;
mod full;
mod iteration;
mod layers;
mod list;
mod moves;
mod soundness;
mod threads;
mod transactions;
mod versions;
mod views;

use tembo_heap::{HeapFile, PoolOptions};
use tembo_pool::Pool;

/// A heap in memory.
pub(crate) fn volatile() -> HeapFile {
    HeapFile::volatile(&PoolOptions { size: 16 << 20, ..PoolOptions::default() }).unwrap()
}

/// Everything is destroyed that can be, and every byte accounted for; how many objects the heap has.
pub(crate) fn objects(file: &HeapFile) -> u64 {
    file.enter(|heap| heap.settle()).unwrap();
    let check = file.check().unwrap();
    assert_eq!((check.account.leaked, check.account.dangling), (0, 0));
    check.tenants[0].1.counts[0].1
}

/// What a process would find that opens the heap now.
pub(crate) fn after_a_crash(file: &HeapFile) -> HeapFile {
    let region = file.pool().region();
    let image = region.media_bytes(0, region.size()).unwrap().to_vec();
    open_image(&image).unwrap()
}

/// The heap in an image, if there is one to be opened.
pub(crate) fn open_image(image: &[u8]) -> Option<HeapFile> {
    let region = tembo_pmem::Region::from_image(image, &tembo_pmem::RegionOptions::default());
    let kinds = tembo_heap::kinds(tembo_pool::Kinds::default());
    let pool = Pool::from_region_of(region.unwrap(), kinds).ok()?;
    HeapFile::of(&std::sync::Arc::new(pool), "heap").ok()
}
