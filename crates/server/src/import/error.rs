//! Why nothing more can be imported.

use std::io;

/// Why nothing more can be imported.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ImportError {
    /// It is not an RDB file, or a damaged one.
    #[error("not an RDB file, or a damaged one: {what}, {bytes} bytes behind its begin")]
    Damaged {
        /// What is wrong.
        what: String,
        /// Bytes that were read.
        bytes: u64,
    },
    /// The file has what cannot be imported.
    #[error("the RDB file has what is not supported: {what}, {bytes} bytes behind its begin")]
    Unsupported {
        /// What it is.
        what: String,
        /// Bytes that were read.
        bytes: u64,
    },
    /// The Redis server refuses to be followed.
    #[error("the Redis server answers: {answer}")]
    Refused {
        /// Its answer.
        answer: String,
    },
    /// Reading failed.
    #[error("reading from Redis: {0}")]
    Source(io::Error),
    /// Writing failed.
    #[error("writing to the server: {0}")]
    Target(io::Error),
}
