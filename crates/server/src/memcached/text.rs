//! memcached's text protocol, but for its meta commands: a line, and behind a line that stores the data.

use crate::failure::Failure;
use crate::memcached::items::{Change, Changed, Counted, Items, KEY_SIZE_MAX, Mode};
use crate::memcached::statistics::{Topic, VERSION, statistics};
use crate::memcached::words::{Words, signed, unsigned_32, unsigned_64};
use crate::number::Decimal;
use crate::reply::Reply;
use crate::session::Session;

/// A command that is answered with an error without a look at the items.
pub(super) const BAD_FORMAT: &str = "CLIENT_ERROR bad command line format";
/// An item that is larger than `memcached-item-size` allows.
pub(super) const TOO_LARGE: &str = "SERVER_ERROR object too large for cache";
/// The data of an item does not end with its line.
pub(super) const BAD_CHUNK: &str = "CLIENT_ERROR bad data chunk";
/// Nothing may be changed.
const READ_ONLY: &str = "SERVER_ERROR items cannot be changed here: this server only reads";
/// A line without an end that is longer is no command, unless it is a `get`.
const LINE_SIZE_MAX: usize = 2048;
/// The longest line of a `get`.
const GET_SIZE_MAX: usize = 1 << 20;
/// Keys of a `get` that are looked for side by side.
const PREFETCHED: usize = 16;

/// How far a text command goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Framed {
    /// The line, and the data behind it, take so many bytes of the input.
    Whole { line: usize, data: Option<usize>, total: usize },
    /// More bytes are needed.
    Incomplete,
    /// It is no command: the connection is to be closed.
    Endless,
}

/// Finds where the first command of the input ends.
pub(super) fn frame(input: &[u8]) -> Framed {
    let Some(end) = input.iter().position(|&byte| byte == b'\n') else {
        let is_get = [&b"get "[..], b"gets ", b"mg "].iter().any(|name| input.starts_with(name));
        let most = if is_get { GET_SIZE_MAX } else { LINE_SIZE_MAX };
        return if input.len() > most { Framed::Endless } else { Framed::Incomplete };
    };
    let line = if end > 0 && input[end - 1] == b'\r' { end - 1 } else { end };
    let Some(size) = data_size(&input[..line]) else {
        return Framed::Whole { line, data: None, total: end + 1 };
    };
    let total = end + 1 + size + 2;
    if input.len() < total {
        return Framed::Incomplete;
    }
    Framed::Whole { line, data: Some(end + 1), total }
}

/// Of a command that stores, how much data it announces.
pub(super) fn data_size(line: &[u8]) -> Option<usize> {
    let is_store = matches!(line.first(), Some(b's' | b'a' | b'r' | b'p' | b'c' | b'm'));
    if !is_store {
        return None;
    }
    let words = Words::new(line);
    let word = match words.at(0) {
        b"set" | b"add" | b"replace" | b"append" | b"prepend"
            if (5..=6).contains(&words.count()) && is_update(&words) =>
        {
            words.at(4)
        }
        b"cas" if (6..=7).contains(&words.count()) && is_update(&words) => words.at(4),
        b"ms" if words.count() >= 3 && words.at(1).len() <= KEY_SIZE_MAX => words.at(2),
        _ => return None,
    };
    signed(word).and_then(|size| usize::try_from(size).ok())
}

/// Whether the line of a store is right, so that data follows.
fn is_update(words: &Words<'_>) -> bool {
    words.at(1).len() <= KEY_SIZE_MAX
        && unsigned_32(words.at(2)).is_some()
        && signed(words.at(3)).is_some()
        && (words.at(0) != b"cas" || unsigned_64(words.at(5)).is_some())
}

/// A command: its line, and the data behind it.
pub(super) struct Command<'l> {
    pub(super) words: Words<'l>,
    /// Ends with the end of its line, if it is right.
    pub(super) data: Option<&'l [u8]>,
}

impl<'l> Command<'l> {
    /// The data without the end of its line, if that is there.
    pub(super) fn data(&self) -> Option<&'l [u8]> {
        self.data.and_then(|data| data.strip_suffix(b"\r\n"))
    }
}

/// Executes a command and appends its reply.
pub(super) fn execute(
    items: &mut Items<'_, '_>,
    session: &mut Session,
    command: &Command<'_>,
    reply: &mut Reply,
) -> Result<(), Failure> {
    let words = &command.words;
    let mark = reply.mark();
    let (count, name) = (words.count(), words.at(0));
    let is_between = |low: usize, high: usize| (low..=high).contains(&count);
    let is_noreply = match name {
        b"get" | b"gets" | b"gat" | b"gats" | b"stats" | b"version" | b"quit" => false,
        _ => count > 1 && words.last() == b"noreply",
    };
    let done = match name {
        b"get" | b"gets" if count > 1 => get(items, words, reply),
        b"gat" | b"gats" if count > 2 => get_and_touch(items, words, reply),
        b"set" | b"add" | b"replace" | b"append" | b"prepend" if is_between(5, 6) => {
            update(items, command, reply)
        }
        b"cas" if is_between(6, 7) => update(items, command, reply),
        b"delete" if is_between(2, 4) => delete(items, words, reply),
        b"incr" | b"decr" if is_between(3, 4) => count_item(items, words, reply),
        b"touch" if is_between(3, 4) => touch(items, words, reply),
        b"flush_all" if is_between(1, 3) => flush(items, words, is_noreply, reply),
        b"version" => line(reply, &format!("VERSION {VERSION}")),
        b"verbosity" if is_between(2, 3) => match unsigned_32(words.at(1)) {
            Some(_) => line(reply, "OK"),
            None => line(reply, BAD_FORMAT),
        },
        b"stats" => stats(items, words, reply),
        b"quit" => {
            session.closing = true;
            Ok(())
        }
        _ if words.last().starts_with(b"HTTP/") => {
            session.closing = true;
            Ok(())
        }
        _ => line(reply, "ERROR"),
    };
    if is_noreply && done.is_ok() {
        reply.truncate(mark);
    }
    done
}

/// Appends a line.
pub(super) fn line(reply: &mut Reply, text: &str) -> Result<(), Failure> {
    reply.raw(text.as_bytes());
    reply.raw(b"\r\n");
    Ok(())
}

/// The line of a change, or why there is none.
fn writable(items: &Items<'_, '_>, reply: &mut Reply) -> bool {
    if !items.may_write() {
        reply.raw(READ_ONLY.as_bytes());
        reply.raw(b"\r\n");
    }
    items.may_write()
}

fn get(items: &mut Items<'_, '_>, words: &Words<'_>, reply: &mut Reply) -> Result<(), Failure> {
    let with_cas = words.at(0) == b"gets";
    let mark = reply.mark();
    let mut keys = [&[][..]; PREFETCHED];
    let count = keys.iter_mut().zip(words.from(1)).map(|(place, key)| *place = key).count();
    if count > 1 {
        items.prefetch(&keys[..count]);
    }
    for key in words.from(1) {
        if key.len() > KEY_SIZE_MAX {
            reply.truncate(mark);
            return line(reply, BAD_FORMAT);
        }
        send_item(items, key, with_cas, reply)?;
    }
    line(reply, "END")
}

fn send_item(
    items: &mut Items<'_, '_>,
    key: &[u8],
    with_cas: bool,
    reply: &mut Reply,
) -> Result<(), Failure> {
    let sent = items.visit(key, |head, _, data| {
        reply.raw(b"VALUE ");
        reply.raw(key);
        for number in
            [Some(u64::from(head.flags)), Some(data.len() as u64), with_cas.then_some(head.cas)]
        {
            let Some(number) = number else { continue };
            reply.raw(b" ");
            reply.raw(Decimal::unsigned(number).as_bytes());
        }
        reply.raw(b"\r\n");
        reply.raw_value(data);
        reply.raw(b"\r\n");
    })?;
    items.stats().get.count(sent.is_some());
    if sent.is_some() {
        items.note(key, true);
    }
    Ok(())
}

fn get_and_touch(
    items: &mut Items<'_, '_>,
    words: &Words<'_>,
    reply: &mut Reply,
) -> Result<(), Failure> {
    let Some(exptime) = signed(words.at(1)) else {
        return line(reply, "CLIENT_ERROR invalid exptime argument");
    };
    if !writable(items, reply) {
        return Ok(());
    }
    let (with_cas, mark) = (words.at(0) == b"gats", reply.mark());
    for key in words.from(2) {
        if key.len() > KEY_SIZE_MAX {
            reply.truncate(mark);
            return line(reply, BAD_FORMAT);
        }
        send_item(items, key, with_cas, reply)?;
        let expiry_ms = items.expiry(exptime);
        items.touch(key, expiry_ms)?;
    }
    line(reply, "END")
}

fn update(
    items: &mut Items<'_, '_>,
    command: &Command<'_>,
    reply: &mut Reply,
) -> Result<(), Failure> {
    let words = &command.words;
    let mode = match words.at(0) {
        b"add" => Mode::Add,
        b"replace" => Mode::Replace,
        b"append" => Mode::Append,
        b"prepend" => Mode::Prepend,
        b"cas" => Mode::Cas,
        _ => Mode::Set,
    };
    let numbers = (unsigned_32(words.at(2)), signed(words.at(3)), signed(words.at(4)));
    let (Some(flags), Some(exptime), Some(0..)) = numbers else { return line(reply, BAD_FORMAT) };
    let cas = if mode == Mode::Cas { unsigned_64(words.at(5)) } else { Some(0) };
    let Some(cas) = cas.filter(|_| command.data.is_some()) else { return line(reply, BAD_FORMAT) };
    let Some(data) = command.data() else { return line(reply, BAD_CHUNK) };
    if !writable(items, reply) {
        return Ok(());
    }
    items.check_room()?;
    let mut change = Change::new(mode, words.at(1), data);
    (change.flags, change.cas, change.expiry_ms) = (flags, cas, items.expiry(exptime));
    let text = match items.store(&change)? {
        Changed::Done { .. } => "STORED",
        Changed::NotStored => "NOT_STORED",
        Changed::Exists => "EXISTS",
        Changed::NotFound => "NOT_FOUND",
    };
    line(reply, text)
}

fn delete(items: &mut Items<'_, '_>, words: &Words<'_>, reply: &mut Reply) -> Result<(), Failure> {
    let is_right = match (words.count(), words.at(2)) {
        (2, _) | (3, b"0" | b"noreply") => true,
        (4, b"0") => words.at(3) == b"noreply",
        _ => false,
    };
    if !is_right {
        let text = "CLIENT_ERROR bad command line format.  Usage: delete <key> [noreply]";
        return line(reply, text);
    }
    if words.at(1).len() > KEY_SIZE_MAX {
        return line(reply, BAD_FORMAT);
    }
    if !writable(items, reply) {
        return Ok(());
    }
    match items.delete(words.at(1), 0)? {
        Changed::Done { .. } => line(reply, "DELETED"),
        _ => line(reply, "NOT_FOUND"),
    }
}

fn count_item(
    items: &mut Items<'_, '_>,
    words: &Words<'_>,
    reply: &mut Reply,
) -> Result<(), Failure> {
    if words.at(1).len() > KEY_SIZE_MAX {
        return line(reply, BAD_FORMAT);
    }
    let Some(delta) = unsigned_64(words.at(2)) else {
        return line(reply, "CLIENT_ERROR invalid numeric delta argument");
    };
    if !writable(items, reply) {
        return Ok(());
    }
    match items.count(words.at(1), (words.at(0) == b"incr", delta), (0, None))? {
        Counted::Done(number, _) => line(reply, &number.to_string()),
        Counted::NotNumeric => {
            line(reply, "CLIENT_ERROR cannot increment or decrement non-numeric value")
        }
        Counted::Exists | Counted::NotFound => line(reply, "NOT_FOUND"),
    }
}

fn touch(items: &mut Items<'_, '_>, words: &Words<'_>, reply: &mut Reply) -> Result<(), Failure> {
    if words.at(1).len() > KEY_SIZE_MAX {
        return line(reply, BAD_FORMAT);
    }
    let Some(exptime) = signed(words.at(2)) else {
        return line(reply, "CLIENT_ERROR invalid exptime argument");
    };
    if !writable(items, reply) {
        return Ok(());
    }
    let expiry_ms = items.expiry(exptime);
    let is_there = items.touch(words.at(1), expiry_ms)?;
    line(reply, if is_there { "TOUCHED" } else { "NOT_FOUND" })
}

fn flush(
    items: &mut Items<'_, '_>,
    words: &Words<'_>,
    is_noreply: bool,
    reply: &mut Reply,
) -> Result<(), Failure> {
    let has_time = words.count() != if is_noreply { 2 } else { 1 };
    let exptime = if has_time { signed(words.at(1)) } else { Some(0) };
    let Some(exptime) = exptime else {
        return line(reply, "CLIENT_ERROR invalid exptime argument");
    };
    if !writable(items, reply) {
        return Ok(());
    }
    items.flush(exptime)?;
    line(reply, "OK")
}

fn stats(items: &mut Items<'_, '_>, words: &Words<'_>, reply: &mut Reply) -> Result<(), Failure> {
    let topic = match words.at(1) {
        b"" => Topic::General,
        b"settings" => Topic::Settings,
        b"reset" => Topic::Reset,
        b"items" | b"slabs" | b"sizes" | b"conns" => Topic::Empty,
        _ => return line(reply, "ERROR"),
    };
    if topic == Topic::Reset {
        *items.stats() = crate::item_state::ItemStats::default();
        return line(reply, "RESET");
    }
    for (name, value) in statistics(items, topic)? {
        line(reply, &format!("STAT {name} {value}"))?;
    }
    line(reply, "END")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_ends_with_its_line_or_its_data() {
        let whole = |line, data, total| Framed::Whole { line, data, total };
        assert_eq!(frame(b"get a\r\n"), whole(5, None, 7));
        assert_eq!(frame(b"get a\nget b\n"), whole(5, None, 6));
        assert_eq!(frame(b"get a"), Framed::Incomplete);
        let set = b"set a 0 0 3\r\nabc\r\n";
        for end in 0..set.len() {
            assert_eq!(frame(&set[..end]), Framed::Incomplete, "{end}");
        }
        assert_eq!(frame(set), whole(11, Some(13), 18));
        assert_eq!(frame(b"ms a 2 q\r\nhi\r\n"), whole(8, Some(10), 14));
        // A line that is wrong has no data.
        assert_eq!(frame(b"set a 0 x 3\r\nabc\r\n"), whole(11, None, 13));
        assert_eq!(frame(&b"x".repeat(LINE_SIZE_MAX + 1)), Framed::Endless);
        let many = [&b"get "[..], &b"k ".repeat(LINE_SIZE_MAX)].concat();
        assert_eq!(frame(&many), Framed::Incomplete);
    }
}
