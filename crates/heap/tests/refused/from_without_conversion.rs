//! A newer version, and no way to it from the older one.
#[derive(tembo_heap::Persist)]
#[persist(name = "node")]
struct Old {
    value: u64,
}

#[derive(tembo_heap::Persist)]
#[persist(name = "node", version = 1, from = Old)]
struct Node {
    value: u64,
    more: u64,
}

fn main() {}
