//! What a review has found broken, as claims that hold from then on: of each index.
// A module for every index, each with the same files.
#![allow(clippy::unwrap_used, clippy::panic, clippy::duplicate_mod)]

#[path = "driver/directory.rs"]
mod directory;
#[path = "driver/map.rs"]
mod map;
#[path = "driver/random.rs"]
mod random;
#[path = "driver/wait.rs"]
mod wait;

#[path = "found"]
mod cdds {
    /// Of every store in here.
    pub(crate) const INDEX: tembo_kv::IndexKind = tembo_kv::IndexKind::Cdds;

    mod aborts;
    mod bench;
    mod corrupt;
    mod counts;
    // Words of its nodes.
    mod damage;
    mod flips;
    mod full;
    mod image;
    mod large;
    mod names;
    mod orders;
    mod rollback;
    mod scrub;
}

#[path = "found"]
mod nvtree {
    /// Of every store in here.
    pub(crate) const INDEX: tembo_kv::IndexKind = tembo_kv::IndexKind::Nvtree;

    mod aborts;
    mod bench;
    mod corrupt;
    mod counts;
    mod flips;
    mod full;
    #[allow(dead_code)]
    mod image;
    mod large;
    mod names;
    mod orders;
    mod rollback;
    mod scrub;
}

#[path = "found"]
mod hash {
    /// Of every store in here.
    pub(crate) const INDEX: tembo_kv::IndexKind = tembo_kv::IndexKind::Hash;

    mod aborts;
    mod bench;
    mod counts;
    mod flips;
    mod full;
    #[allow(dead_code)]
    mod image;
    mod large;
    mod names;
    mod orders;
    mod rollback;
    mod scrub;
}
