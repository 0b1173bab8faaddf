//! How far an import is.

/// How far an import is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Imported {
    /// Keys of the RDB file.
    pub keys: u64,
    /// Bytes of the RDB file that were read.
    pub bytes: u64,
    /// Commands of an append-only file, or that Redis executed since, and that were passed on.
    pub commands: u64,
    /// What the server refused.
    pub refused: u64,
    /// Its first refusal.
    pub first_refusal: Option<String>,
    /// The file was read to its end.
    pub is_loaded: bool,
    /// Where in Redis's stream of replication the import is; 0 of a file.
    pub offset: u64,
}
