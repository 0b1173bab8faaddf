//! Experiments: ordered indexes side by side, in one interleaved run.
//!
//! A figure of one machine and one hour says little about a program. Here contenders alternate,
//! operation by operation and round after round, and what is reported is the ratio of two of them in the
//! same round, in thread CPU time and in wall time, with its spread.
//!
//! [`run()`] compares everything that implements [`Contender`]; the NV-Tree of its paper stands here
//! too ([`nvtree_paper`]), for it is a rival and nothing that a store is built on.

mod bplus;
mod cdds_paper;
mod clock;
mod contender;
mod disk;
mod distribution;
mod drive;
mod error;
mod experiment;
mod file_system;
mod finding;
pub mod guard;
mod heap_bed;
mod heap_program;
mod keys;
mod machine;
pub mod nvtree_paper;
mod operation;
mod outcome;
mod page;
mod pair;
mod records;
mod rival;
mod rivals_index;
mod run;
mod sheet;
mod snapshot_held;
mod spread;
mod table;
pub mod traced;
mod tuple;
mod ycsb;

pub use bplus::Flushed;
pub use contender::{Contender, Kind, Shared};
pub use disk::{
    DiskCell, DiskConfig, DiskReport, Figure, MemoryGroup, Part, Phase, Traffic, disk, disk_cell,
    disk_contenders, disk_markdown,
};
pub use error::Error;
pub use experiment::{EXPERIMENTS, Experiment, Setting, Watch, experiments, with_older};
pub use file_system::files_cell;
pub use finding::{Chart, Claim, Duel, Finding, Missing, Point, Report, Series, Shape};
pub use machine::Machine;
pub use operation::Operation;
pub use outcome::{Cell, Cost, Latency, Outcome, Space};
pub use page::{agreement, html, markdown, plots};
pub use pair::Pair;
pub use records::{Rate, Records, records};
pub use rivals_index::{
    Candidate, DriverBuild, NotMeasured, RivalCell, RivalLatency, RivalPair, RivalRatio,
    RivalSources, RivalSpace, RivalTable, RivalsConfig, RivalsReport, rivals_index,
    rivals_index_cell,
};
pub use run::{Config, run};
pub use snapshot_held::{Held, Latencies, SnapshotHeld, snapshot_held};
pub use spread::Spread;
