//! Looking ahead: before a command is executed, the keys of those that follow it, on its connection and
//! on the next ones, are told to the store, so that they are fetched from memory together.

use crate::connection::Connection;
use crate::event_loop::EventLoop;
use crate::peek::Peek;

/// Keys looked for together.
const KEYS_MAX: usize = 16;
/// Longer keys are looked for when it is their turn.
const KEY_SIZE_MAX: usize = 512;

impl EventLoop<'_> {
    /// Looks ahead from the command that the connection is about to execute.
    pub(crate) fn look_ahead(&mut self, connection: &Connection) {
        let mut keys: [&[u8]; KEYS_MAX] = [&[]; KEYS_MAX];
        let db = connection.session.db;
        let mut count = peek(connection, &mut keys);
        for &token in &self.batch {
            let Some(other) = self.clients.get(token) else { continue };
            if count == KEYS_MAX || other.session.db != db {
                break;
            }
            count += peek(other, &mut keys[count..]);
        }
        // Not twice for one command, whatever was seen of it.
        connection.ahead.set(connection.ahead.get().max(1));
        if count > 0 {
            self.data.look_ahead(db, &keys[..count]);
        }
    }
}

/// Fills `keys` from the connection's input; how many there were. Nobody looks anything up for a client
/// that has not authenticated.
fn peek<'c>(connection: &'c Connection, keys: &mut [&'c [u8]]) -> usize {
    if !connection.session.authenticated {
        return 0;
    }
    let mut peek = Peek::new(&connection.input[connection.start..]);
    let short = peek.by_ref().filter(|key| key.len() <= KEY_SIZE_MAX);
    let places = keys.iter_mut().zip(short);
    let count = places.map(|(place, key)| *place = key).count();
    connection.ahead.set(peek.commands);
    count
}
