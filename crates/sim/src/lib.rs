//! The adversary: everything that a crash could leave of what passed the waist.
//!
//! It knows the waist and nothing above it: workloads, and what must be true of an image, stand in
//! `torture`.

mod disk;
mod random;

pub use disk::{Chooser, Decision, Failure, Fault, Point, Rest, SimDisk, Site, Slip, Snapshot};
pub use random::Random;
