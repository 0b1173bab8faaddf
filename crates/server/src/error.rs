//! Why the server could not start, or had to stop.

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;

/// Why the server could not start, or had to stop.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The address cannot be listened at.
    #[error("cannot listen at {address}: {source}")]
    Bind {
        /// The address.
        address: SocketAddr,
        /// Why not.
        source: io::Error,
    },
    /// Every program that reaches the address could read and write.
    #[error(
        "{address} is not a loopback address and no password is set: every program that reaches it could read and write. \
         Set a password, or turn protected mode off"
    )]
    Unprotected {
        /// The address.
        address: SocketAddr,
    },
    /// The Unix socket cannot be listened at.
    #[error("cannot listen at the Unix socket {}: {source}", path.display())]
    UnixSocket {
        /// Its path.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// A configuration file cannot be read.
    #[error("{}: {source}", file.display())]
    ConfigFile {
        /// Its path.
        file: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// A directive of a configuration file cannot be obeyed.
    #[error("{}:{line}: {name}: {reason}", file.display())]
    Directive {
        /// The file.
        file: PathBuf,
        /// The line, from 1 on.
        line: usize,
        /// The directive.
        name: String,
        /// Why not, and what to do.
        reason: String,
    },
    /// A parameter is not valid.
    #[error("{0}")]
    Config(String),
    /// A certificate, a key or the list of authorities cannot be used.
    #[error("TLS: {}: {reason}", path.display())]
    Tls {
        /// The file.
        path: PathBuf,
        /// Why not.
        reason: String,
    },
    /// The pool is only read, and a server has never made its databases in it.
    #[error(
        "the pool lacks the keyspace {keyspace:?} of a server's databases: start the server once without read-only"
    )]
    NotServed {
        /// The keyspace.
        keyspace: String,
    },
    /// A sync failed. The clients got an error; what was not acknowledged may be lost.
    #[error("the store is poisoned: a sync failed, and the server had to stop")]
    Poisoned,
    /// The store failed otherwise.
    #[error("the store failed: {0}")]
    Store(tembo_kv::Error),
    /// The operating system refused something.
    #[error("{what}: {source}")]
    Io {
        /// What was asked.
        what: &'static str,
        /// Why not.
        source: io::Error,
    },
}

impl Error {
    pub(crate) fn io(what: &'static str, source: impl Into<io::Error>) -> Error {
        Error::Io { what, source: source.into() }
    }
}

impl From<tembo_kv::Error> for Error {
    fn from(error: tembo_kv::Error) -> Error {
        match error {
            tembo_kv::Error::Poisoned => Error::Poisoned,
            other => Error::Store(other),
        }
    }
}
