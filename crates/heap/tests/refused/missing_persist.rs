//! A struct of the program that is not `Persist`.
struct Inner {
    word: u64,
}

#[derive(tembo_heap::Persist)]
struct Node {
    inner: Inner,
}

fn main() {
    let _ = Inner { word: 1 }.word;
}
