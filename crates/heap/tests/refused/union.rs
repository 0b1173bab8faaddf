//! A union.
#[derive(tembo_heap::Persist)]
union Either {
    word: u64,
    number: i64,
}

fn main() {}
