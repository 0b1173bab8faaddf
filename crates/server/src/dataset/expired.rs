//! What has expired.

/// A key that has expired, or of which fields have.
#[derive(Debug)]
pub(crate) struct Expired {
    /// The database.
    pub(crate) db: usize,
    /// The key.
    pub(crate) key: Vec<u8>,
    /// Fields of it that have expired; if there is none, the key has.
    pub(crate) fields: Vec<Vec<u8>>,
    /// It was removed.
    pub(crate) is_removed: bool,
}
