//! The NV-Tree: persistent leaves in a list, in no order within; everything above them is volatile.

// The leaves, which are found by it, are still to come.
#![cfg_attr(not(test), expect(dead_code))]

mod inner;
