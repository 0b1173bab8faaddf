//! What the parts are made of that threads share. `tests/schedules.rs` builds those parts with what `shuttle` has in its place.

pub(crate) use std::sync::{Mutex, atomic};

pub(crate) use tembo_pmem::thread::lock;
