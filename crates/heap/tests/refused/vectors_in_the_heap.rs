//! A type of the standard library in one of the heap's.
use tembo_heap::{PMap, PVec, Ptr};

#[derive(tembo_heap::Persist)]
struct Table<'h> {
    rows: PVec<'h, Vec<u64>>,
    names: PMap<'h, String>,
    first: Option<Ptr<'h, (u64, usize)>>,
}

fn main() {}
