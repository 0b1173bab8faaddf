//! File systems side by side: directories of the system, mounts by FUSE, and `tembo::fs` without a mount.

mod cell;
mod directory;
mod files;
mod library;
mod loop_device;
mod mounted;
mod small;
mod stale;
mod system;

pub use cell::files_cell;
pub(crate) use cell::{Cells, in_transaction};
pub(crate) use files::{Files, Open};
pub(crate) use library::now;
pub(crate) use loop_device::LoopDevice;
pub(crate) use mounted::run_program;
pub(crate) use small::Small;
pub(crate) use system::{Opened, System, describe};
