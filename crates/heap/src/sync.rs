//! What the parts are made of that threads share. `tests/schedules.rs` builds those parts with what `shuttle` has in its place.

pub(crate) use std::sync::{Mutex, atomic};

pub(crate) use tembo_pmem::thread::lock;

/// Places by which pointers of the program are counted, a multiple of the shards. Objects that it holds should have one each: with
/// fewer places they need entries.
pub(crate) const PLACES: usize = 1 << 16;
