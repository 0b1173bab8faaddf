//! A value of which only a trait is known.
#[derive(tembo_heap::Persist)]
struct Shape {
    any: Box<dyn std::fmt::Debug>,
}

fn main() {}
