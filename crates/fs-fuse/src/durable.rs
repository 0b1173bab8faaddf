//! Durability as an option of a mount.

/// When what a program writes is durable.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Durable {
    /// When it closes the file, or says so (fsync, fdatasync, msync).
    #[default]
    Close,
    /// When it says so.
    Fsync,
}
