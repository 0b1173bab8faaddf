//! The brand of a heap is exact: it cannot be made shorter, so that two become one.
use tembo_heap::Ptr;

fn shorter<'a, 'h: 'a>(object: Ptr<'h, u64>) -> Ptr<'a, u64> {
    object
}

fn main() {
    let _ = shorter;
}
