//! Stores on an ordinary disk, with more data than memory: `tembo-lab bench disk`.
//!
//! Each contender is measured in a process of its own ([`disk_cell`]), which this one starts ([`disk`]) in a memory group, so
//! that the system's cache of pages is limited too, and a contender's threads and memory end with it. Contenders
//! alternate, cell after cell and round after round.
//!
//! What is in a cell is in `cell`, what is done with a store in `worker`. A phase ends when all is done or when its time
//! is over; then its rate is of what was done. Latencies are those of one caller, which waits for each
//! operation before the next; in a commit of several keys, they are of the commit.

mod batch;
mod cell;
mod contender;
mod dataset;
mod group;
mod markdown;
mod meter;
mod report;
mod run;
mod server;
mod spec;
mod traffic;
mod worker;

pub use cell::disk_cell;
pub use contender::disk_contenders;
pub use group::Group as MemoryGroup;
pub use markdown::disk_markdown;
pub use report::{DiskCell, DiskReport};
pub use run::{DiskConfig, disk};
pub use spec::{Figure, Part, Phase};
pub use traffic::Traffic;
