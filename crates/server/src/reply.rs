//! A connection's replies: RESP2 or RESP3, appended to one buffer, held until the turn is synced.

use tembo_kv::Value;

use crate::buffer::Buffer;
use crate::float::double_text;
use crate::number::Decimal;

/// Longest header of a reply, in bytes.
const HEADER_SIZE_MAX: usize = 24;

/// Replies not yet taken by the socket.
pub(crate) struct Reply {
    bytes: Vec<u8>,
    /// Bytes of `bytes` that the socket has taken.
    sent: usize,
    /// Most bytes that may wait.
    limit: usize,
    overflow: bool,
    resp3: bool,
}

impl Reply {
    /// No replies; the connection is to be closed when more than `limit` bytes wait.
    pub(crate) fn new(limit: usize) -> Reply {
        Reply { bytes: Vec::new(), sent: 0, limit, overflow: false, resp3: false }
    }

    /// No elements of an array whose length is not yet known.
    pub(crate) fn with_room_for_header() -> Reply {
        let mut reply = Reply::new(usize::MAX);
        reply.bytes = vec![0; HEADER_SIZE_MAX];
        reply.sent = HEADER_SIZE_MAX;
        reply
    }

    /// The same, with the bounds and the protocol of this reply.
    pub(crate) fn apart(&self) -> Reply {
        Reply { limit: self.limit, resp3: self.resp3, ..Reply::with_room_for_header() }
    }

    /// An array of so many elements, which were made [with room](Reply::with_room_for_header) for its header: many are
    /// not copied, if nothing else waits.
    pub(crate) fn array_of(&mut self, count: usize, elements: Reply) {
        self.headed(elements, |header| header.array(count));
    }

    /// As [`array_of`](Reply::array_of), with another header.
    pub(crate) fn headed(&mut self, mut elements: Reply, head: impl Fn(&mut Reply)) {
        if !self.bytes.is_empty() || elements.overflow || elements.bytes.len() > self.limit {
            head(self);
            self.raw(elements.unsent());
            self.overflow |= elements.overflow;
            return;
        }
        let mut header = Reply { resp3: self.resp3, ..Reply::new(usize::MAX) };
        head(&mut header);
        let start = elements.sent - header.bytes.len();
        elements.bytes[start..elements.sent].copy_from_slice(&header.bytes);
        (self.bytes, self.sent) = (elements.bytes, start);
    }

    /// Chooses the protocol from the next reply on.
    pub(crate) fn set_resp3(&mut self, resp3: bool) {
        self.resp3 = resp3;
    }

    /// Changes how many bytes may wait; 0: any number.
    pub(crate) fn set_limit(&mut self, limit: usize) {
        self.limit = if limit == 0 { usize::MAX } else { limit };
    }

    /// Puts replies made elsewhere before those that begin at `mark`.
    pub(crate) fn insert(&mut self, mark: usize, replies: &[u8]) {
        self.push(replies);
        if !self.overflow {
            // A reply that was made with room for its header begins behind what is left of that.
            self.bytes[mark.max(self.sent)..].rotate_right(replies.len());
        }
    }

    /// Whether the limit was passed: what is held is not whole and must not be sent.
    pub(crate) fn is_overflown(&self) -> bool {
        self.overflow
    }

    /// Bytes waiting.
    #[inline]
    pub(crate) fn waiting(&self) -> usize {
        self.bytes.len() - self.sent
    }

    /// The bytes waiting.
    pub(crate) fn unsent(&self) -> &[u8] {
        &self.bytes[self.sent..]
    }

    /// The socket took `count` bytes.
    pub(crate) fn take(&mut self, count: usize) {
        self.sent += count;
        if self.sent >= self.bytes.len() {
            self.sent = 0;
            if self.bytes.capacity() > 64 << 10 {
                self.bytes = Vec::new();
            } else {
                self.bytes.clear();
            }
        } else if self.sent > 1 << 20 && self.sent * 2 > self.bytes.len() {
            self.bytes.drain(..self.sent);
            self.sent = 0;
        }
    }

    /// The place where the next reply begins.
    #[inline]
    pub(crate) fn mark(&self) -> usize {
        self.bytes.len()
    }

    /// Takes back what was appended since `mark`.
    pub(crate) fn truncate(&mut self, mark: usize) {
        self.bytes.truncate(mark);
        self.sent = self.sent.min(mark);
        self.overflow = false;
    }

    /// The bytes of the buffer: those that wait, and others.
    pub(crate) fn buffer(&self) -> Buffer {
        Buffer { used: self.waiting(), free: self.bytes.capacity() - self.waiting() }
    }

    /// The memory that it takes, in bytes.
    pub(crate) fn memory(&self) -> usize {
        let buffer = self.buffer();
        buffer.used + buffer.free
    }

    /// Frees the buffer when it is empty.
    pub(crate) fn shrink(&mut self) {
        if self.bytes.is_empty() {
            self.bytes = Vec::new();
        }
    }

    #[inline]
    fn push(&mut self, bytes: &[u8]) {
        if bytes.len() > self.bytes.capacity() - self.bytes.len() {
            self.grow(bytes.len());
        }
        if !self.overflow {
            self.bytes.extend_from_slice(bytes);
        }
    }

    #[inline]
    fn push_value(&mut self, value: Value<'_>) {
        if value.len() > self.bytes.capacity() - self.bytes.len() {
            self.grow(value.len());
        }
        if !self.overflow {
            value.append_to(&mut self.bytes);
        }
    }

    #[cold]
    fn grow(&mut self, more: usize) {
        // Capacity never exceeds what may wait, so that the fast path need not compare with the limit.
        let room = self.limit.saturating_sub(self.waiting());
        let doubled = more.max(self.bytes.len()).max(512).min(room);
        if more > room || self.bytes.try_reserve_exact(doubled).is_err() {
            self.overflow = true;
        }
    }

    #[inline]
    fn header(&mut self, kind: u8, number: i64) {
        // Most numbers are small. Bytes of which the number is known are stored without a call.
        match number as u64 {
            ones @ 0..10 => self.push(&[kind, b'0' + ones as u8, b'\r', b'\n']),
            number @ 10..100 => {
                let (tens, ones) = (b'0' + (number / 10) as u8, b'0' + (number % 10) as u8);
                self.push(&[kind, tens, ones, b'\r', b'\n']);
            }
            _ => self.long_header(kind, number),
        }
    }

    fn long_header(&mut self, kind: u8, number: i64) {
        let mut line = [0; HEADER_SIZE_MAX];
        let text = Decimal::signed(number);
        let digits = text.as_bytes();
        line[0] = kind;
        line[1..=digits.len()].copy_from_slice(digits);
        line[digits.len() + 1..digits.len() + 3].copy_from_slice(b"\r\n");
        self.push(&line[..digits.len() + 3]);
    }

    /// Replies made elsewhere.
    pub(crate) fn raw(&mut self, replies: &[u8]) {
        self.push(replies);
    }

    /// Replaces bytes from a place on, unless what is held is not whole.
    pub(crate) fn put_at(&mut self, at: usize, bytes: &[u8]) {
        if let Some(place) = self.bytes.get_mut(at..at + bytes.len()) {
            place.copy_from_slice(bytes);
        }
    }

    /// A value of the store as it is.
    pub(crate) fn raw_value(&mut self, value: Value<'_>) {
        self.push_value(value);
    }

    /// `+text`
    pub(crate) fn simple(&mut self, text: &str) {
        self.push(b"+");
        self.push(text.as_bytes());
        self.push(b"\r\n");
    }

    /// `+OK`
    #[inline]
    pub(crate) fn ok(&mut self) {
        self.push(b"+OK\r\n");
    }

    /// `-text`, its line ends replaced by spaces.
    pub(crate) fn error(&mut self, text: &[u8]) {
        self.push(b"-");
        let start = self.bytes.len();
        let end =
            text.iter().rposition(|byte| !matches!(byte, b'\r' | b'\n')).map_or(0, |at| at + 1);
        self.push(&text[..end]);
        for byte in self.bytes.iter_mut().skip(start) {
            if matches!(byte, b'\r' | b'\n') {
                *byte = b' ';
            }
        }
        self.push(b"\r\n");
    }

    /// `:number`
    pub(crate) fn integer(&mut self, number: i64) {
        self.header(b':', number);
    }

    /// `:1` or `:0`
    pub(crate) fn flag(&mut self, flag: bool) {
        self.push(if flag { b":1\r\n" } else { b":0\r\n" });
    }

    /// `$size text`
    #[inline]
    pub(crate) fn bulk(&mut self, text: &[u8]) {
        self.header(b'$', text.len() as i64);
        self.push(text);
        self.push(b"\r\n");
    }

    /// A value of the store as a bulk.
    pub(crate) fn bulk_value(&mut self, value: Value<'_>) {
        self.header(b'$', value.len() as i64);
        self.push_value(value);
        self.push(b"\r\n");
    }

    /// A number as a bulk.
    pub(crate) fn bulk_integer(&mut self, number: i64) {
        self.bulk(Decimal::signed(number).as_bytes());
    }

    /// Text for a person to read: a bulk, verbatim in RESP3.
    pub(crate) fn verbatim(&mut self, text: &[u8]) {
        if self.resp3 {
            self.header(b'=', text.len() as i64 + 4);
            self.push(b"txt:");
            self.push(text);
            self.push(b"\r\n");
        } else {
            self.bulk(text);
        }
    }

    /// No value.
    pub(crate) fn null(&mut self) {
        self.push(if self.resp3 { b"_\r\n" } else { b"$-1\r\n" });
    }

    /// A double: in RESP2 a bulk string.
    pub(crate) fn double(&mut self, number: f64) {
        self.double_as(&double_text(number));
    }

    /// A double whose text this is.
    pub(crate) fn double_as(&mut self, text: &str) {
        if self.resp3 {
            self.push(b",");
            self.push(text.as_bytes());
            self.push(b"\r\n");
        } else {
            self.bulk(text.as_bytes());
        }
    }

    /// No array.
    pub(crate) fn null_array(&mut self) {
        self.push(if self.resp3 { b"_\r\n" } else { b"*-1\r\n" });
    }

    /// An array of `count` replies follows.
    pub(crate) fn array(&mut self, count: usize) {
        self.header(b'*', count as i64);
    }

    /// What the client has not asked for follows, in `count` parts.
    pub(crate) fn push_header(&mut self, count: usize) {
        self.header(if self.resp3 { b'>' } else { b'*' }, count as i64);
    }

    /// A set of `count` replies follows.
    pub(crate) fn set(&mut self, count: usize) {
        self.header(if self.resp3 { b'~' } else { b'*' }, count as i64);
    }

    /// A map of `count` pairs follows.
    pub(crate) fn map(&mut self, count: usize) {
        if self.resp3 {
            self.header(b'%', count as i64);
        } else {
            self.header(b'*', count as i64 * 2);
        }
    }
}
