//! memcached's binary protocol: a header of 24 bytes, extras, key, value.
//!
//! ```text
//!  0       1        2            4        5       6             8             12        16       24
//!  +-------+--------+------------+--------+-------+-------------+-------------+---------+--------+
//!  | magic | opcode | key length | extras | type  | status      | body length | opaque  | CAS    |
//!  +-------+--------+------------+--------+-------+-------------+-------------+---------+--------+
//! ```

use crate::failure::Failure;
use crate::memcached::items::{Change, Changed, Counted, Items, KEY_SIZE_MAX, Mode};
use crate::memcached::statistics::{Topic, VERSION, statistics};
use crate::reply::Reply;
use crate::session::Session;

/// Bytes of a header.
pub(super) const HEADER_SIZE: usize = 24;
/// The first byte of a request.
pub(super) const REQUEST: u8 = 0x80;
/// The first byte of a response.
const RESPONSE: u8 = 0x81;
/// Status of a response.
const NOT_FOUND: (u16, &str) = (1, "Not found");
const EXISTS: (u16, &str) = (2, "Data exists for key.");
/// The item is larger than allowed.
pub(super) const TOO_LARGE: (u16, &str) = (3, "Too large.");
const INVALID: (u16, &str) = (4, "Invalid arguments");
const NOT_STORED: (u16, &str) = (5, "Not stored.");
const NOT_NUMERIC: (u16, &str) = (6, "Non-numeric server-side value for incr or decr");
/// The client has to give a password, which this protocol cannot.
pub(super) const AUTH: (u16, &str) = (0x20, "Auth failure.");
const UNKNOWN: (u16, &str) = (0x81, "Unknown command");
/// There is no room.
pub(super) const NO_MEMORY: (u16, &str) = (0x82, "Out of memory");
/// Nothing may be changed.
const READ_ONLY: (u16, &str) = (0x84, "Items cannot be changed here: this server only reads");
/// An expiry that makes INCR and DECR fail where nothing is.
const DO_NOT_MAKE: u32 = u32::MAX;

/// The header of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Header {
    pub(super) opcode: u8,
    key_len: usize,
    extras_len: usize,
    /// Bytes behind the header.
    pub(super) body_len: usize,
    opaque: [u8; 4],
    cas: u64,
}

impl Header {
    /// Reads it; `None`: it is none.
    pub(super) fn read(bytes: &[u8]) -> Option<Header> {
        let [magic, opcode, ..] = *bytes.first_chunk::<HEADER_SIZE>()?;
        let array = |at: usize| bytes.get(at..).and_then(|rest| rest.first_chunk::<4>().copied());
        let header = Header {
            opcode,
            key_len: usize::from(u16::from_be_bytes([bytes[2], bytes[3]])),
            extras_len: usize::from(bytes[4]),
            body_len: u32::from_be_bytes(array(8)?) as usize,
            opaque: array(12)?,
            cas: u64::from_be_bytes(*bytes[16..].first_chunk()?),
        };
        let fits = header.key_len + header.extras_len <= header.body_len;
        (magic == REQUEST && fits).then_some(header)
    }

    /// Whether it stores a value.
    pub(super) fn is_store(&self) -> bool {
        matches!(self.opcode, 0x01..=0x03 | 0x11..=0x13 | 0x0e | 0x0f | 0x19 | 0x1a)
    }
}

/// A request.
struct Request<'r> {
    header: Header,
    /// Its opcode, if it is quiet that of the one that is not.
    base: u8,
    is_quiet: bool,
    extras: &'r [u8],
    key: &'r [u8],
    value: &'r [u8],
}

impl Request<'_> {
    fn number_32(&self, at: usize) -> u32 {
        let bytes = self.extras.get(at..).and_then(|rest| rest.first_chunk::<4>());
        bytes.map_or(0, |bytes| u32::from_be_bytes(*bytes))
    }

    fn number_64(&self, at: usize) -> u64 {
        let bytes = self.extras.get(at..).and_then(|rest| rest.first_chunk::<8>());
        bytes.map_or(0, |bytes| u64::from_be_bytes(*bytes))
    }
}

/// Of a quiet opcode the one that is not.
fn base(opcode: u8) -> (u8, bool) {
    match opcode {
        0x09 => (0x00, true),
        0x0d => (0x0c, true),
        0x11..=0x18 => (opcode - 0x10, true),
        0x19 => (0x0e, true),
        0x1a => (0x0f, true),
        0x1e => (0x1d, true),
        0x24 => (0x23, true),
        _ => (opcode, false),
    }
}

/// Executes a request and appends its response.
pub(super) fn execute(
    items: &mut Items<'_, '_>,
    session: &mut Session,
    (header, body): (Header, &[u8]),
    reply: &mut Reply,
) -> Result<(), Failure> {
    let (extras, rest) = body.split_at(header.extras_len);
    let (key, value) = rest.split_at(header.key_len);
    let (base, is_quiet) = base(header.opcode);
    let request = Request { header, base, is_quiet, extras, key, value };
    if let Some(status) = fault(&request) {
        refuse(header, status, reply);
        return Ok(());
    }
    let changes = matches!(base, 0x01..=0x06 | 0x08 | 0x0e | 0x0f | 0x1c..=0x1e | 0x23);
    if changes && !items.may_write() {
        refuse(header, READ_ONLY, reply);
        return Ok(());
    }
    match base {
        0x00 | 0x0c | 0x1d | 0x23 => get(items, &request, reply),
        0x01..=0x03 | 0x0e | 0x0f => store(items, &request, reply),
        0x04 => delete(items, &request, reply),
        0x05 | 0x06 => count(items, &request, reply),
        0x07 => {
            session.closing = true;
            succeed(&request, (&[], &[], &[]), 0, reply);
            Ok(())
        }
        0x08 => {
            items.flush(i64::from(request.number_32(0)))?;
            succeed(&request, (&[], &[], &[]), 0, reply);
            Ok(())
        }
        0x0b => {
            let version = VERSION.as_bytes();
            succeed(&request, (&[], &[], version), 0, reply);
            Ok(())
        }
        0x10 => stat(items, &request, reply),
        0x1c => touch(items, &request, reply),
        // No operation, and verbosity.
        _ => {
            succeed(&request, (&[], &[], &[]), 0, reply);
            Ok(())
        }
    }
}

/// What is wrong with a request.
fn fault(request: &Request<'_>) -> Option<(u16, &'static str)> {
    let Request { base, extras, key, value, .. } = *request;
    let (extras, has_key, has_value) = (extras.len(), !key.is_empty(), !value.is_empty());
    let is_right = match base {
        0x00 | 0x0c | 0x04 => extras == 0 && has_key && !has_value,
        0x01..=0x03 => extras == 8 && has_key,
        0x05 | 0x06 => extras == 20 && has_key && !has_value,
        0x07 | 0x0a | 0x0b => extras == 0 && !has_key && !has_value,
        0x08 => (extras == 0 || extras == 4) && !has_key && !has_value,
        0x0e | 0x0f => extras == 0 && has_key,
        0x10 => extras == 0 && !has_value,
        0x1b => extras == 4 && !has_key && !has_value,
        0x1c | 0x1d | 0x23 => extras == 4 && has_key && !has_value,
        0x20..=0x22 => return Some(AUTH),
        _ => return Some(UNKNOWN),
    };
    (!is_right || key.len() > KEY_SIZE_MAX).then_some(INVALID)
}

fn respond(
    header: Header,
    status: u16,
    (extras, key, value): (&[u8], &[u8], &[u8]),
    cas: u64,
    reply: &mut Reply,
) {
    let mut bytes = [0; HEADER_SIZE];
    (bytes[0], bytes[1], bytes[4]) = (RESPONSE, header.opcode, extras.len() as u8);
    bytes[2..4].copy_from_slice(&(key.len() as u16).to_be_bytes());
    bytes[6..8].copy_from_slice(&status.to_be_bytes());
    let body_len = extras.len() + key.len() + value.len();
    bytes[8..12].copy_from_slice(&(body_len as u32).to_be_bytes());
    bytes[12..16].copy_from_slice(&header.opaque);
    bytes[16..].copy_from_slice(&cas.to_be_bytes());
    [&bytes[..], extras, key, value].iter().for_each(|part| reply.raw(part));
}

/// Appends an error.
pub(super) fn refuse(header: Header, (status, text): (u16, &str), reply: &mut Reply) {
    respond(header, status, (&[], &[], text.as_bytes()), 0, reply);
}

fn succeed(request: &Request<'_>, parts: (&[u8], &[u8], &[u8]), cas: u64, reply: &mut Reply) {
    if !request.is_quiet {
        respond(request.header, 0, parts, cas, reply);
    }
}

fn get(items: &mut Items<'_, '_>, request: &Request<'_>, reply: &mut Reply) -> Result<(), Failure> {
    let touches = matches!(request.base, 0x1d | 0x23);
    let with_key = matches!(request.base, 0x0c | 0x23);
    let shown = if with_key { request.key } else { &[] };
    let mark = reply.mark();
    let found = items.visit(request.key, |head, _, data| {
        let flags = head.flags.to_be_bytes();
        // The value lies in the store: it is copied once, behind the header.
        respond(request.header, 0, (&flags, shown, &[]), head.cas, reply);
        reply.raw_value(data);
        data.len()
    })?;
    items.stats().get.count(found.is_some());
    let Some(size) = found else {
        if !request.is_quiet {
            respond(request.header, NOT_FOUND.0, (&[], shown, NOT_FOUND.1.as_bytes()), 0, reply);
        }
        return Ok(());
    };
    reply.put_at(mark + 8, &((4 + shown.len() + size) as u32).to_be_bytes());
    items.note(request.key, true);
    if touches {
        let expiry_ms = items.expiry(exptime(request.number_32(0)));
        items.touch(request.key, expiry_ms)?;
    }
    Ok(())
}

/// A time of the protocol has no sign; of 2^31 on it is in the past.
fn exptime(number: u32) -> i64 {
    i64::from(number as i32)
}

fn store(
    items: &mut Items<'_, '_>,
    request: &Request<'_>,
    reply: &mut Reply,
) -> Result<(), Failure> {
    let mode = match request.base {
        0x02 => Mode::Add,
        0x03 if request.header.cas != 0 => Mode::Cas,
        0x03 => Mode::Replace,
        0x0e => Mode::Append,
        0x0f => Mode::Prepend,
        _ if request.header.cas != 0 => Mode::Cas,
        _ => Mode::Set,
    };
    items.check_room()?;
    let mut change = Change::new(mode, request.key, request.value);
    change.cas = request.header.cas;
    if !matches!(mode, Mode::Append | Mode::Prepend) {
        change.flags = request.number_32(0);
        change.expiry_ms = items.expiry(exptime(request.number_32(4)));
    }
    match items.store(&change)? {
        Changed::Done { cas, .. } => succeed(request, (&[], &[], &[]), cas, reply),
        Changed::Exists => refuse(request.header, EXISTS, reply),
        Changed::NotFound => refuse(request.header, NOT_FOUND, reply),
        Changed::NotStored => {
            let status = match mode {
                Mode::Add => EXISTS,
                Mode::Replace => NOT_FOUND,
                _ => NOT_STORED,
            };
            refuse(request.header, status, reply);
        }
    }
    Ok(())
}

fn delete(
    items: &mut Items<'_, '_>,
    request: &Request<'_>,
    reply: &mut Reply,
) -> Result<(), Failure> {
    match items.delete(request.key, request.header.cas)? {
        Changed::Done { .. } => succeed(request, (&[], &[], &[]), 0, reply),
        Changed::Exists => refuse(request.header, EXISTS, reply),
        _ => refuse(request.header, NOT_FOUND, reply),
    }
    Ok(())
}

fn count(
    items: &mut Items<'_, '_>,
    request: &Request<'_>,
    reply: &mut Reply,
) -> Result<(), Failure> {
    let delta = (request.base == 0x05, request.number_64(0));
    let time = request.number_32(16);
    let answer = |number: u64, cas, reply: &mut Reply| {
        succeed(request, (&[], &[], &number.to_be_bytes()), cas, reply);
    };
    match items.count(request.key, delta, (request.header.cas, None))? {
        Counted::Done(number, item) => answer(number, item.head.cas, reply),
        Counted::NotNumeric => refuse(request.header, NOT_NUMERIC, reply),
        Counted::Exists => refuse(request.header, EXISTS, reply),
        Counted::NotFound if time == DO_NOT_MAKE => refuse(request.header, NOT_FOUND, reply),
        Counted::NotFound => {
            items.check_room()?;
            let initial = request.number_64(8);
            let text = initial.to_string();
            let mut change = Change::new(Mode::Set, request.key, text.as_bytes());
            change.expiry_ms = items.expiry(exptime(time));
            if let Changed::Done { cas, .. } = items.store(&change)? {
                answer(initial, cas, reply);
            }
        }
    }
    Ok(())
}

fn touch(
    items: &mut Items<'_, '_>,
    request: &Request<'_>,
    reply: &mut Reply,
) -> Result<(), Failure> {
    let expiry_ms = items.expiry(exptime(request.number_32(0)));
    if items.touch(request.key, expiry_ms)? {
        succeed(request, (&[], &[], &[]), 0, reply);
    } else {
        refuse(request.header, NOT_FOUND, reply);
    }
    Ok(())
}

fn stat(
    items: &mut Items<'_, '_>,
    request: &Request<'_>,
    reply: &mut Reply,
) -> Result<(), Failure> {
    let topic = match request.key {
        b"" => Topic::General,
        b"settings" => Topic::Settings,
        b"items" | b"slabs" | b"sizes" | b"conns" | b"reset" => Topic::Empty,
        _ => {
            refuse(request.header, NOT_FOUND, reply);
            return Ok(());
        }
    };
    for (name, value) in statistics(items, topic)? {
        succeed(request, (&[], name.as_bytes(), value.as_bytes()), 0, reply);
    }
    succeed(request, (&[], &[], &[]), 0, reply);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_header_is_read_or_refused() {
        let mut bytes = [0; HEADER_SIZE];
        (bytes[0], bytes[1], bytes[3], bytes[4], bytes[11]) = (REQUEST, 1, 3, 8, 12);
        let header = Header::read(&bytes).unwrap();
        assert_eq!((header.key_len, header.extras_len, header.body_len), (3, 8, 12));
        assert!(header.is_store());
        // Key and extras are longer than the body.
        bytes[11] = 10;
        assert_eq!(Header::read(&bytes), None);
        bytes[0] = b'g';
        assert_eq!(Header::read(&bytes), None);
        assert_eq!(Header::read(&bytes[..23]), None);
    }
}
