//! The files under a region, behind a trait so that a simulator can tear, drop and fail.

/// Placeholder of the trait.
pub trait Disk: Send + Sync {}
/// Placeholder of the trait.
pub trait DiskFile: Send + Sync {}
/// The operating system's files.
#[derive(Debug, Default)]
pub struct OsDisk;
impl Disk for OsDisk {}
