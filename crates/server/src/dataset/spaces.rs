//! Where the server's data is in the store.

use tembo_kv::{Error, Keyspace, Store};

use crate::config::DATABASES_MAX;
use crate::error::Error as ServerError;
use crate::format;

/// The number in the names of the keyspaces of each database.
///
/// # Errors
/// Those of the store. An order that this server does not know is as none.
pub(super) fn order_of(store: &Store, space: Option<Keyspace>) -> Result<Vec<u8>, Error> {
    let found = match space {
        Some(space) => store.get(space, format::ORDER_KEY)?,
        None => None,
    };
    let known = found.and_then(|bytes| format::decode_order(&bytes, DATABASES_MAX).ok());
    Ok(known.unwrap_or_else(|| (0..DATABASES_MAX as u8).collect()))
}

/// The keyspaces of the databases.
#[derive(Clone)]
pub(crate) struct Spaces {
    pub(super) data: Vec<Keyspace>,
    pub(crate) elements: Vec<Keyspace>,
    pub(super) expiry: Vec<Keyspace>,
    /// How many databases clients can select: the first ones. The items of memcached, if they are served, are one more.
    pub(super) databases: usize,
    /// By database, the number in the names of its keyspaces.
    pub(super) order: Vec<u8>,
    /// Where that is kept; none in a pool that is only read and that no server which exchanges databases has written.
    pub(super) order_space: Option<Keyspace>,
    /// The libraries of functions; none in a pool that is only read and that no server with functions has written.
    pub(crate) libraries: Option<Keyspace>,
}

impl Spaces {
    /// Opens the keyspaces of so many databases, and those of the items of memcached if they are served, creating what is
    /// missing.
    ///
    /// # Errors
    /// Those of the store, one whose keys have no order included, before anything is made; a pool that is only read, and lacks
    /// one of them, is no pool of a server.
    pub(crate) fn open(
        store: &Store,
        databases: usize,
        serves_items: bool,
    ) -> Result<Spaces, ServerError> {
        store.check_ordered()?;
        Spaces::open_by(store, (databases, serves_items), |name| match store.keyspace(&name) {
            Err(Error::ReadOnly) => Err(ServerError::NotServed { keyspace: name }),
            opened => Ok(opened?),
        })
    }

    /// Opens those of the same databases again.
    ///
    /// # Errors
    /// Those of the store.
    pub(super) fn reopened(&self, store: &Store) -> Result<Spaces, Error> {
        let counts = (self.databases, self.items().is_some());
        Spaces::open_by(store, counts, |name| store.keyspace(&name))
    }

    fn open_by<E: From<Error>>(
        store: &Store,
        (databases, serves_items): (usize, bool),
        open_one: impl Fn(String) -> Result<Keyspace, E>,
    ) -> Result<Spaces, E> {
        let order_space = match store.keyspace(format::ORDER_KEYSPACE) {
            Err(Error::ReadOnly) => None,
            opened => Some(opened?),
        };
        let order = order_of(store, order_space)?;
        let open = |name: fn(usize) -> String, of_items: &str| {
            let numbers = order.iter().take(databases).map(|&number| usize::from(number));
            let names = numbers.map(name).chain(serves_items.then(|| of_items.to_owned()));
            names.map(&open_one).collect::<Result<Vec<Keyspace>, E>>()
        };
        Ok(Spaces {
            data: open(format::data_keyspace, format::ITEMS_KEYSPACE)?,
            elements: open(format::elements_keyspace, format::ITEM_ELEMENTS_KEYSPACE)?,
            expiry: open(format::expiry_keyspace, format::ITEM_EXPIRY_KEYSPACE)?,
            databases,
            order_space,
            libraries: match store.keyspace(format::LIBRARIES_KEYSPACE) {
                Err(Error::ReadOnly) => None,
                opened => Some(opened?),
            },
            order,
        })
    }

    /// The database of the items of memcached, if they are served. Clients of Redis cannot select it.
    pub(crate) fn items(&self) -> Option<usize> {
        (self.data.len() > self.databases).then_some(self.databases)
    }
}
