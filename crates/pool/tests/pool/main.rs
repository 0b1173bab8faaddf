//! What the pool claims, seen from outside.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod given_up;
mod golden;
mod growth;
mod image;
mod log;
mod log_damage;
mod log_images;
mod model;
mod publish;
mod random;
mod sparse;
mod superblock;
mod sweep;
mod tenants;
mod threads;
