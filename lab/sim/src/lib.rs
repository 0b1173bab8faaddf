//! The adversary: everything that a crash could leave of what passed the waist.
//!
//! It knows the waist and nothing above it: workloads, and what must be true of an image, stand in
//! `torture`.

mod disk;
mod event;
mod explorer;
mod hash;
mod medium;
mod random;
mod reader;
mod recorder;
mod redundancy;

pub use disk::{Chooser, Decision, Failure, Fault, Point, Rest, SimDisk, Site, Slip, Snapshot};
pub use event::{Event, Piece, Step};
pub use explorer::{Bounds, Crash, Explorer, History, Oracle, Wrong};
pub use hash::{ByHash, Hashed, hash};
pub use medium::{Broken, Cache};
pub use random::Random;
pub use reader::Reader;
pub use recorder::{Recorder, newest};
pub use redundancy::{Done, Redundancy};
