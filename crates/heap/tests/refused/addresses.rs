//! Addresses of several kinds, in a type with one lifetime: each field has its advice.
#[derive(tembo_heap::Persist)]
struct Node<'a> {
    before: &'a Node<'a>,
    name: &'static str,
    numbers: &'a [u64],
    raw: *mut u64,
    call: fn(u64) -> u64,
    rest: Option<*const u64>,
}

fn main() {}
