//! What a backup is.

/// What a backup says of itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BackupInfo {
    /// Identity of the pool that it was taken from.
    pub identity: u128,
    /// It says what has changed since that version; `None`: it is everything.
    pub since: Option<u64>,
    /// The version that it is a backup of.
    pub until: u64,
    /// Keys put and removed.
    pub entries: u64,
    /// Bytes of the file.
    pub bytes: u64,
}
