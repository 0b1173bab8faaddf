//! Where the server's data is in the store.

use tembo_kv::{Error, Keyspace, Store};

use crate::error::Error as ServerError;
use crate::format;

/// The keyspaces of the databases.
pub(crate) struct Spaces {
    pub(super) data: Vec<Keyspace>,
    pub(super) elements: Vec<Keyspace>,
    pub(super) expiry: Vec<Keyspace>,
    /// How many databases clients can select: the first ones. The items of memcached, if they are served, are one more.
    pub(super) databases: usize,
    /// The libraries of functions; none in a pool that is only read and that no server with functions has written.
    pub(crate) libraries: Option<Keyspace>,
}

impl Spaces {
    /// Opens the keyspaces of so many databases, and those of the items of memcached if they are served, creating what is
    /// missing.
    ///
    /// # Errors
    /// Those of the store; a pool that is only read, and lacks one of them, is no pool of a server.
    pub(crate) fn open(
        store: &Store,
        databases: usize,
        serves_items: bool,
    ) -> Result<Spaces, ServerError> {
        let open_one = |name: String| match store.keyspace(&name) {
            Err(Error::ReadOnly) => Err(ServerError::NotServed { keyspace: name }),
            opened => Ok(opened?),
        };
        let open = |name: fn(usize) -> String, of_items: &str| {
            let names = (0..databases).map(name).chain(serves_items.then(|| of_items.to_owned()));
            names.map(open_one).collect::<Result<Vec<Keyspace>, ServerError>>()
        };
        Ok(Spaces {
            data: open(format::data_keyspace, format::ITEMS_KEYSPACE)?,
            elements: open(format::elements_keyspace, format::ITEM_ELEMENTS_KEYSPACE)?,
            expiry: open(format::expiry_keyspace, format::ITEM_EXPIRY_KEYSPACE)?,
            databases,
            libraries: match store.keyspace(format::LIBRARIES_KEYSPACE) {
                Err(Error::ReadOnly) => None,
                opened => Some(opened?),
            },
        })
    }

    /// The database of the items of memcached, if they are served. Clients of Redis cannot select it.
    pub(crate) fn items(&self) -> Option<usize> {
        (self.data.len() > self.databases).then_some(self.databases)
    }
}
