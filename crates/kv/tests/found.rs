//! What a review has found broken, as claims that hold from then on.
#![allow(clippy::unwrap_used, clippy::panic)]

#[path = "found/aborts.rs"]
mod aborts;
#[path = "found/bench.rs"]
mod bench;
#[path = "found/counts.rs"]
mod counts;
#[path = "found/damage.rs"]
mod damage;
#[path = "found/flips.rs"]
mod flips;
#[path = "found/full.rs"]
mod full;
#[path = "found/image.rs"]
mod image;
#[path = "found/large.rs"]
mod large;
#[path = "found/orders.rs"]
mod orders;
#[path = "found/rollback.rs"]
mod rollback;
#[path = "found/scrub.rs"]
mod scrub;
