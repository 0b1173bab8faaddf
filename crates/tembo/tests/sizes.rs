//! Sizes that cannot be are errors, through the facade too.
#![forbid(unsafe_code)]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use tembo::{Options, Store};

/// Sizes that no machine has, near the ends at which sums and roundings wrap.
fn odd_sizes() -> impl Iterator<Item = u64> {
    let around = (48..64).flat_map(|bits| [(1_u64 << bits) - 1, 1 << bits, (1 << bits) + 4097]);
    let ends = [0, 1, 4096, 4097, (1 << 21) - 4097, 1 << 21].map(|less| u64::MAX - less);
    around.chain(ends)
}

#[test]
fn a_store_of_an_impossible_size_is_an_error() {
    for size in odd_sizes() {
        let options = Options::new().size(size);
        assert!(Store::volatile(&options).is_err(), "{size:#x}");
    }
}
