//! Crashes at each step of what runs on the array, and of its recoveries.

#![allow(clippy::unwrap_used, clippy::panic)]

mod aries;
mod machine;
mod recorded;
mod soft_atomic;
