//! Prefetching: before a command is executed, the keys of those that follow it, on its connection and on
//! the next ones, are handed to the store, so that all of them are fetched from memory together.

use crate::clients::Clients;
use crate::connection::Connection;
use crate::dataset::Dataset;
use crate::peek::Peek;
use crate::token::Token;

/// Keys fetched together.
const KEYS_MAX: usize = 16;
/// Longer keys are looked up when their command is executed.
const KEY_SIZE_MAX: usize = 512;

/// Prefetches from the command on that the connection is about to execute; `batch` is executed after it.
pub(crate) fn prefetch<'b>(
    data: &mut Dataset<'_>,
    clients: &Clients,
    connection: &Connection,
    batch: impl IntoIterator<Item = &'b Token>,
) {
    let mut keys: [&[u8]; KEYS_MAX] = [&[]; KEYS_MAX];
    let db = connection.session.db;
    let mut count = peek(connection, &mut keys);
    for &token in batch {
        let Some(other) = clients.get(token) else { continue };
        if count == KEYS_MAX || other.session.db != db {
            break;
        }
        count += peek(other, &mut keys[count..]);
    }
    // Once for each command, whatever was seen of it.
    connection.prefetched.set(connection.prefetched.get().max(1));
    if count > 0 {
        data.prefetch(db, &keys[..count]);
    }
}

/// Fills `keys` from the connection's input and returns how many there were. For a client that has not
/// authenticated nothing is looked up.
fn peek<'c>(connection: &'c Connection, keys: &mut [&'c [u8]]) -> usize {
    if !connection.session.authenticated {
        return 0;
    }
    let mut peek = Peek::new(&connection.input[connection.start..]);
    let short = peek.by_ref().filter(|key| key.len() <= KEY_SIZE_MAX);
    let places = keys.iter_mut().zip(short);
    let count = places.map(|(place, key)| *place = key).count();
    connection.prefetched.set(peek.commands);
    count
}
