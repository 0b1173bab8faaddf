//! Our index beside published ones on the same machine: `tembo-lab bench rivals-index`.
//!
//! Rivals are C++ in checkouts that the person names. A small driver of ours a rival (`rivals_index/drivers`) includes its
//! sources; it is compiled when the command runs. Nothing of a rival is in the project.
//!
//! Each contender is a process with one structure, ours too. It is given one operation at a time with the same file of
//! keys, and replies with its CPU time; the others wait meanwhile. So contenders alternate, operation by
//! operation and round after round, and all have the same keys in the same order.

mod candidate;
mod cell;
mod counts;
mod driver;
mod figures;
mod named_store;
mod plan;
mod process;
mod report;
mod run;
mod text;

pub use candidate::Candidate;
pub use cell::rivals_index_cell;
pub use driver::{DriverBuild, RivalSources};
pub use report::{
    NotMeasured, RivalCell, RivalLatency, RivalPair, RivalRatio, RivalSpace, RivalTable,
    RivalsReport,
};
pub use run::{RivalsConfig, rivals_index};
