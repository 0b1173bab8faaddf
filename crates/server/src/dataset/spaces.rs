//! Where the server's data is in the store.

use tembo_kv::{Error, Keyspace, Store};

use crate::error::Error as ServerError;
use crate::format;

/// The keyspaces of the databases.
pub(crate) struct Spaces {
    pub(super) data: Vec<Keyspace>,
    pub(super) elements: Vec<Keyspace>,
    pub(super) expiry: Vec<Keyspace>,
    /// The libraries of functions; none in a pool that is only read and that no server with functions has written.
    pub(crate) libraries: Option<Keyspace>,
}

impl Spaces {
    /// Opens the keyspaces of so many databases, creating what is missing.
    ///
    /// # Errors
    /// Those of the store; a pool that is only read, and lacks one of them, is no pool of a server.
    pub(crate) fn open(store: &Store, databases: usize) -> Result<Spaces, ServerError> {
        let open_one = |name: String| match store.keyspace(&name) {
            Err(Error::ReadOnly) => Err(ServerError::NotServed { keyspace: name }),
            opened => Ok(opened?),
        };
        let open = |name: fn(usize) -> String| -> Result<Vec<Keyspace>, ServerError> {
            (0..databases).map(|db| open_one(name(db))).collect()
        };
        Ok(Spaces {
            data: open(format::data_keyspace)?,
            elements: open(format::elements_keyspace)?,
            expiry: open(format::expiry_keyspace)?,
            libraries: match store.keyspace(format::LIBRARIES_KEYSPACE) {
                Err(Error::ReadOnly) => None,
                opened => Some(opened?),
            },
        })
    }
}
