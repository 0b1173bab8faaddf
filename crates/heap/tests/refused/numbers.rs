//! Numbers that are not the same everywhere.
use std::time::{Duration, Instant};

#[derive(tembo_heap::Persist)]
struct Numbers {
    size: usize,
    wide: u128,
    since: Instant,
    lasts: Duration,
}

fn main() {}
