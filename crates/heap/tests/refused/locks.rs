//! Locks and cells: transactions are in their place.
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex};

#[derive(tembo_heap::Persist)]
struct Counter {
    count: Mutex<u64>,
    shared: Arc<Mutex<u64>>,
    atomic: AtomicU64,
}

fn main() {}
