//! An enum that has no value.
#[derive(tembo_heap::Persist)]
enum Never {}

fn main() {}
