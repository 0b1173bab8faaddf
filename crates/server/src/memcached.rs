//! memcached's protocols over the store: items are a database of their own, which clients of Redis do not see.
//!
//! ```text
//!   a request ──► text, meta ──┐
//!             └─► binary ──────┴──► items ──► the turn's transaction
//! ```
//! What holds for commands of Redis holds here: a reply leaves when what it shows is durable. The CAS value of an item comes
//! from the version that its change will have.

mod binary;
mod items;
mod meta;
mod statistics;
mod text;
mod words;

use tembo_kv::Error as StoreError;

use crate::access::Access;
use crate::acl::{Attempt, DEFAULT_USER};
use crate::connection::Connection;
use crate::dataset::Dataset;
use crate::face::{Face, ItemsFace};
use crate::failure::{Failure, Outcome, store_text};
use crate::memcached::binary::{HEADER_SIZE, Header, REQUEST};
use crate::memcached::items::Items;
use crate::memcached::text::{Command, Framed};
use crate::memcached::words::Words;
use crate::reply::Reply;
use crate::session::Session;
use crate::shared::Shared;

/// A client that has yet to give its password may send so much for it.
const UNAUTHENTICATED_SIZE_MAX: usize = 2048;

/// What was found in a client's input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// A command was executed.
    Executed,
    /// More bytes are needed.
    Incomplete,
}

/// Executes the next command of a client and appends its reply.
///
/// # Errors
/// As of a command of Redis: the turn cannot be committed.
pub(crate) fn step(
    connection: &mut Connection,
    data: &mut Dataset<'_>,
    shared: &mut Shared,
) -> Result<Step, StoreError> {
    let Connection { session, reply, input, start, face, turn, .. } = connection;
    let Face::Items(face) = face else { return Ok(Step::Incomplete) };
    let input = &input[*start..];
    let Some(&first) = input.first() else { return Ok(Step::Incomplete) };
    if face.ignored > 0 {
        let count = face.ignored.min(input.len());
        face.ignored -= count;
        *start += count;
        return Ok(Step::Executed);
    }
    data.added.begin(false);
    let mark = reply.mark();
    let before = data.written().changes;
    let is_binary = *face.is_binary.get_or_insert(first == REQUEST);
    let taken = match Items::new(data, shared) {
        Some(mut items) if is_binary => step_binary(&mut items, (session, face), input, reply),
        Some(mut items) => step_text(&mut items, (session, face), input, reply),
        None => None,
    };
    // What items were looked for is counted by memcached's names.
    std::mem::take(&mut data.lookups);
    let Some((taken, done)) = taken else { return Ok(Step::Incomplete) };
    *start += taken;
    shared.stats.commands += 1;
    let Err(failure) = done else {
        count_reply(turn, reply.mark() > mark);
        return Ok(Step::Executed);
    };
    shared.stats.errors += 1;
    reply.truncate(mark);
    fail(face, session, (&failure, &input[..taken]), reply);
    count_reply(turn, true);
    let cut_short = data.written().changes != before;
    match failure {
        Failure::Turn(error) => Err(error),
        Failure::Store(StoreError::Poisoned) => Err(StoreError::Poisoned),
        Failure::Store(error) if cut_short => Err(error),
        Failure::Store(_) | Failure::Reply(_) | Failure::UnknownLayout => Ok(Step::Executed),
    }
}

fn count_reply(turn: &mut Option<(usize, u32)>, is_one: bool) {
    if let Some((_, count)) = turn.as_mut().filter(|_| is_one) {
        *count += 1;
    }
}

/// How many bytes of the input were executed, and how it went; none if more are needed.
type Taken = Option<(usize, Outcome)>;

/// The reply of a command that the store has refused.
fn fail(
    face: &ItemsFace,
    session: &mut Session,
    (failure, request): (&Failure, &[u8]),
    reply: &mut Reply,
) {
    match Header::read(request).filter(|_| face.is_binary == Some(true)) {
        Some(header) => binary::refuse(header, binary::NO_MEMORY, reply),
        None if face.is_binary == Some(true) => session.closing = true,
        None => reply.raw(&error_line(&failure.text())),
    }
}

fn error_line(text: &[u8]) -> Vec<u8> {
    let text = match text.strip_prefix(b"OOM ") {
        Some(_) => b"out of memory storing object".as_slice(),
        None => text,
    };
    [b"SERVER_ERROR ", text, b"\r\n"].concat()
}

/// The turn has failed: this takes the place of a reply. A client of the binary protocol is disconnected instead.
pub(crate) fn failed_turn(face: &ItemsFace, error: &StoreError) -> Option<Vec<u8>> {
    (face.is_binary != Some(true)).then(|| error_line(&store_text(error)))
}

fn step_text(
    items: &mut Items<'_, '_>,
    (session, face): (&mut Session, &mut ItemsFace),
    input: &[u8],
    reply: &mut Reply,
) -> Taken {
    if session.authenticated
        && let Some(taken) = refuse_large(items, face, input, reply)
    {
        return Some(taken);
    }
    let (end, data, total) = match text::frame(input) {
        Framed::Whole { line, data, total } => (line, data, total),
        Framed::Incomplete => {
            session.closing |= !session.authenticated && input.len() > UNAUTHENTICATED_SIZE_MAX;
            return None;
        }
        Framed::Endless => {
            session.closing = true;
            return Some((input.len(), Ok(())));
        }
    };
    let data = data.map(|from| &input[from..total]);
    let command = Command { words: Words::new(&input[..end]), data };
    if !session.authenticated {
        let text = authenticate(items, session, &command);
        reply.raw(text);
        return Some((total, Ok(())));
    }
    let done = if items.data.access() == Access::Loading {
        text::line(reply, "SERVER_ERROR loading")
    } else {
        match command.words.at(0) {
            [b'm', _] => meta::execute(items, &command, reply),
            _ => text::execute(items, session, &command, reply),
        }
    };
    Some((total, done))
}

/// Refuses a command that announces too much data, before that has arrived.
fn refuse_large(
    items: &mut Items<'_, '_>,
    face: &mut ItemsFace,
    input: &[u8],
    reply: &mut Reply,
) -> Taken {
    let end = input.iter().position(|&byte| byte == b'\n')?;
    let line = input[..end].strip_suffix(b"\r").unwrap_or(&input[..end]);
    let words = Words::new(line);
    let size = text::data_size(line).filter(|&size| items.is_too_large(words.at(1), size));
    let size = size?;
    face.ignored = size + 2;
    items.stats().too_large += 1;
    // What the client wanted to replace is out of date.
    if matches!(words.at(0), b"set" | b"ms")
        && items.may_write()
        && let Err(failure) = items.delete(words.at(1), 0)
    {
        return Some((end + 1, Err(failure)));
    }
    if words.last() != b"noreply" {
        reply.raw(text::TOO_LARGE.as_bytes());
        reply.raw(b"\r\n");
    }
    Some((end + 1, Ok(())))
}

/// A client that has to give a password does so as if it stored an item: `set KEY 0 0 SIZE`, and as data a user and the
/// password.
fn authenticate(
    items: &mut Items<'_, '_>,
    session: &mut Session,
    command: &Command<'_>,
) -> &'static [u8] {
    if command.words.at(0) != b"set" || command.data.is_none() {
        return b"CLIENT_ERROR unauthenticated\r\n";
    }
    items.stats().auth += 1;
    let Some(data) = command.data() else {
        return b"CLIENT_ERROR bad command line termination\r\n";
    };
    let words = Words::new(data);
    if words.count() < 2 {
        return b"CLIENT_ERROR bad authentication token format\r\n";
    }
    let (acl, now_ms) = (&mut items.shared.acl, items.shared.clock.steady_ms);
    match acl.guesses.attempt(session.ip, now_ms) {
        Attempt::Now if acl.user(DEFAULT_USER).is_some_and(|user| user.admits(words.at(1))) => {
            session.authenticated = true;
            return b"STORED\r\n";
        }
        Attempt::Now => acl.guesses.note_wrong(session.ip, now_ms),
        // Too many passwords from its address were wrong: this one is not looked at.
        Attempt::After(_) => acl.guesses.release(session.ip),
        Attempt::Refused => {}
    }
    items.stats().auth_errors += 1;
    b"CLIENT_ERROR authentication failure\r\n"
}

fn step_binary(
    items: &mut Items<'_, '_>,
    (session, face): (&mut Session, &mut ItemsFace),
    input: &[u8],
    reply: &mut Reply,
) -> Taken {
    if input.len() < HEADER_SIZE {
        return None;
    }
    let Some(header) = Header::read(input) else {
        session.closing = true;
        return Some((input.len(), Ok(())));
    };
    let refusal = if !session.authenticated {
        Some(binary::AUTH)
    } else {
        let is_large = items.is_too_large(&[], header.body_len) && header.body_len > 512;
        is_large.then_some(binary::TOO_LARGE)
    };
    if let Some(status) = refusal {
        items.stats().too_large += u64::from(header.is_store() && session.authenticated);
        face.ignored = header.body_len;
        binary::refuse(header, status, reply);
        return Some((HEADER_SIZE, Ok(())));
    }
    let total = HEADER_SIZE + header.body_len;
    let body = input.get(HEADER_SIZE..total)?;
    if items.data.access() == Access::Loading {
        binary::refuse(header, binary::NO_MEMORY, reply);
        return Some((total, Ok(())));
    }
    let done = binary::execute(items, session, (header, body), reply);
    Some((total, done))
}

/// Removes all items, if a client has asked for that at a time that has come. The turn has done nothing yet.
pub(crate) fn flush_if_due(data: &mut Dataset<'_>, shared: &mut Shared) -> Result<(), StoreError> {
    let Some(at_ms) = shared.items.flush_at_ms else { return Ok(()) };
    if at_ms > data.now_ms() || data.access() != Access::Open || shared.is_disk_full() {
        return Ok(());
    }
    let Some(mut items) = Items::new(data, shared) else { return Ok(()) };
    match items.flush(0) {
        Err(Failure::Turn(error)) => Err(error),
        Err(Failure::Store(StoreError::Poisoned)) => Err(StoreError::Poisoned),
        // It is tried again in the next turn.
        Err(_) => {
            shared.items.flush_at_ms = Some(at_ms);
            Ok(())
        }
        Ok(()) => Ok(()),
    }
}
