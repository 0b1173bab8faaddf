//! The adversary: everything that a crash could leave of what passed the waist.
//!
//! It knows the waist and nothing above it: workloads, and what must be true of an image, stand in
//! `torture`.

mod random;

pub use random::Random;
