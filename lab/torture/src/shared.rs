//! A pool under torture that a store and a toy heap share: both change, sweeps are driven by either, and a crash leaves
//! both whole.

mod kinds;
mod process;
mod subject;

pub use process::{Reported, audit, serve};
pub(crate) use subject::Shared;
