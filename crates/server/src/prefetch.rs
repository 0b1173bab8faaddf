//! Prefetching: before a command is executed, the keys of those that follow it, on its connection and on
//! the next ones, are handed to the store, so that all of them are fetched from memory together; so are elements of a large
//! collection that they have in common.

use crate::clients::Clients;
use crate::connection::Connection;
use crate::dataset::Dataset;
use crate::face::Face;
use crate::peek::{LikelyKeys, Peek};
use crate::token::Token;

/// Commands whose keys are fetched together.
const COMMANDS_MAX: usize = 16;
/// Longer keys are looked up when their command is executed.
const KEY_SIZE_MAX: usize = 512;
/// Bytes of strings that are written before their commands are executed.
const STRINGS_SIZE_MAX: usize = 1 << 20;

/// Prefetches from the command on that the connection is about to execute; `batch` is executed after it.
pub(crate) fn prefetch<'b>(
    data: &mut Dataset<'_>,
    clients: &Clients,
    connection: &Connection,
    batch: impl IntoIterator<Item = &'b Token>,
) {
    let mut likely = [LikelyKeys::default(); COMMANDS_MAX];
    let db = connection.session.db;
    let mut count = peek(connection, &mut likely);
    for &token in batch {
        let Some(other) = clients.get(token) else { continue };
        if count == COMMANDS_MAX || other.session.db != db {
            break;
        }
        count += peek(other, &mut likely[count..]);
    }
    // Once for each command, whatever was seen of it.
    connection.prefetched.set(connection.prefetched.get().max(1));
    if count == 0 {
        return;
    }
    let likely = &likely[..count];
    let mut keys = [&[][..]; 2 * COMMANDS_MAX];
    let mut count = 0;
    for key in likely.iter().flat_map(|one| [one.key, one.second_key]) {
        // What one command after the other names is near. An empty key is none, as a rule.
        let is_wanted = !key.is_empty() && key.len() <= KEY_SIZE_MAX;
        if is_wanted && (count == 0 || keys[count - 1] != key) {
            keys[count] = key;
            count += 1;
        }
    }
    if count > 0 {
        data.prefetch(db, &keys[..count]);
    }
    prefetch_elements(data, db, likely);
}

/// Lets the store know which strings the clients of a batch will likely set, before the first of them is executed.
pub(crate) fn expect_strings<'b>(
    data: &mut Dataset<'_>,
    clients: &Clients,
    batch: impl IntoIterator<Item = &'b Token> + Copy,
) {
    let connections = || {
        let all = batch.into_iter().filter_map(|&token| clients.get(token));
        all.filter(sets_at_once)
    };
    let bytes = connections().map(Connection::pending_input).sum();
    let Some(db) = connections().next().map(|first| first.session.db) else { return };
    if !data.is_worth_expecting(bytes) {
        return;
    }
    let (mut strings, mut left) = (Vec::new(), STRINGS_SIZE_MAX);
    for connection in connections().take_while(|one| one.session.db == db) {
        // What stands behind another command may have another database, or be executed later.
        let all = Peek::new(&connection.input[connection.start..]);
        for LikelyKeys { key, string, .. } in all.take_while(|one| !one.string.is_empty()) {
            let Some(less) = left.checked_sub(string.len()) else { break };
            strings.push((key, string));
            left = less;
        }
    }
    if !strings.is_empty() {
        data.expect_strings(db, &strings);
    }
}

/// Whether the commands of a client are executed as they come.
fn sets_at_once(connection: &&Connection) -> bool {
    let session = &connection.session;
    connection.face == Face::Redis && session.authenticated && session.multi.is_none()
}

/// Prefetches elements of a collection that several commands use, one behind the other. A collection that one command uses is small
/// as a rule, and has them in its value.
fn prefetch_elements(data: &mut Dataset<'_>, db: usize, likely: &[LikelyKeys<'_>]) {
    let is_wanted = |one: &LikelyKeys<'_>| {
        let size = one.key.len() + one.element.len();
        !one.element.is_empty() && size <= KEY_SIZE_MAX
    };
    let mut runs =
        likely.chunk_by(|one, next| one.key == next.key && is_wanted(one) && is_wanted(next));
    if let Some(run) = runs.find(|run| run.len() > 1) {
        data.prefetch_elements(db, run);
    }
}

/// Fills `likely` from the connection's input and returns how many there were. For a client that has not
/// authenticated nothing is looked up.
fn peek<'c>(connection: &'c Connection, likely: &mut [LikelyKeys<'c>]) -> usize {
    if !connection.session.authenticated {
        return 0;
    }
    let mut peek = Peek::new(&connection.input[connection.start..]);
    let places = likely.iter_mut().zip(peek.by_ref());
    let count = places.map(|(place, one)| *place = one).count();
    connection.prefetched.set(peek.commands);
    count
}
