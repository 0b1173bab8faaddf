//! A parameter has its bound by the macro; what is made of it has not.
struct Pair<T>(T, T);

#[derive(tembo_heap::Persist)]
struct Holder<T> {
    one: T,
    pair: Pair<T>,
}

fn main() {}
