//! One connection, from its first byte to its last.

use std::io::{self, Read};
use std::sync::Arc;
use std::time::Duration;

use crate::export::{Export, Exports};
use crate::flusher::Flusher;
use crate::handshake::{Agreed, agree};
use crate::replies::{HEAD, Replies};
use crate::stream::{Stream, Until};
use crate::wire::{Errno, PAYLOAD_MAX, REQUEST_SIZE, Request, command, flag};

/// Bytes that the buffer of a connection keeps between requests: a mebibyte, and the head of its reply.
const KEPT: usize = HEAD + (1 << 20);

/// Most parts that BLOCK_STATUS answers with; a client asks again for the rest.
const PARTS_MAX: usize = 4096;

/// How long a server waits for a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timeouts {
    /// For the whole handshake, from the greeting to the choice of an export; 10 s unless another is given.
    pub handshake: Duration,
    /// For a client that does not read what is sent to it; 60 s unless another is given. Not zero.
    pub send: Duration,
}

impl Default for Timeouts {
    fn default() -> Timeouts {
        Timeouts { handshake: Duration::from_secs(10), send: Duration::from_secs(60) }
    }
}

struct Connection {
    export: Export,
    is_structured: bool,
    has_context: bool,
    replies: Arc<Replies>,
    flusher: Flusher,
    buffer: Vec<u8>,
}

/// Serves a client until it goes away.
///
/// # Errors
/// Those of the socket, also that a time is over.
pub(crate) fn serve(mut stream: Stream, exports: &Exports, timeouts: Timeouts) -> io::Result<()> {
    let agreed = agree(&mut Until::new(&mut stream, timeouts.handshake), exports)?;
    let Some(Agreed { export, is_structured, has_context }) = agreed else {
        return Ok(());
    };
    // Between requests it may be silent for any time.
    stream.set_read_timeout(None)?;
    stream.set_write_timeout(Some(timeouts.send))?;
    let replies = Arc::new(Replies::new(stream.another()?, is_structured));
    let flusher = Flusher::start(exports.array().store().clone(), replies.clone())?;
    let mut connection =
        Connection { export, is_structured, has_context, replies, flusher, buffer: Vec::new() };
    loop {
        let mut head = [0; REQUEST_SIZE];
        match stream.read_exact(&mut head) {
            // It has gone away without a word.
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(()),
            read => read?,
        }
        // What is no request says nothing about where the next one begins.
        let Some(request) = Request::of(&head) else { return Ok(()) };
        if request.command == command::DISCONNECT {
            return Ok(());
        }
        connection.execute(&mut stream, &request)?;
        connection.buffer.truncate(KEPT);
        connection.buffer.shrink_to(KEPT);
    }
}

/// The flags that a command knows.
fn flags_of(command: u16) -> u16 {
    match command {
        command::READ => flag::FUA | flag::DF,
        command::WRITE_ZEROES => flag::FUA | flag::NO_HOLE | flag::FAST_ZERO,
        command::BLOCK_STATUS => flag::FUA | flag::REQUEST_ONE,
        _ => flag::FUA,
    }
}

impl Connection {
    fn execute(&mut self, stream: &mut Stream, request: &Request) -> io::Result<()> {
        let Request { flags, command, cookie, .. } = *request;
        // What is written comes first, whatever becomes of it.
        if command == command::WRITE && !self.take_payload(stream, request.len)? {
            return self.replies.done(cookie, Err(Errno::INVALID));
        }
        let sound = if flags & !flags_of(command) == 0 { Ok(()) } else { Err(Errno::INVALID) };
        match command {
            command::READ => match sound.and_then(|()| self.read(request)) {
                Ok(()) => self.replies.data(cookie, request.offset, &mut self.buffer),
                Err(error) => self.replies.no_data(cookie, error),
            },
            command::BLOCK_STATUS => match sound.and_then(|()| self.parts(request)) {
                Ok(parts) => self.replies.parts(cookie, &parts),
                Err(error) => self.replies.no_data(cookie, error),
            },
            command::FLUSH if sound.is_ok() => self.flusher.reply_when_durable(cookie),
            _ => match sound.and_then(|()| self.change(request)) {
                Ok(()) if flags & flag::FUA != 0 => self.flusher.reply_when_durable(cookie),
                changed => self.replies.done(cookie, changed),
            },
        }
    }

    /// Reads what a WRITE writes; false: it is too much, and was passed over.
    fn take_payload(&mut self, stream: &mut Stream, len: u32) -> io::Result<bool> {
        if len > PAYLOAD_MAX {
            let passed = io::copy(&mut stream.take(len.into()), &mut io::sink())?;
            let is_whole = passed == u64::from(len);
            return if is_whole { Ok(false) } else { Err(io::ErrorKind::UnexpectedEof.into()) };
        }
        self.buffer.resize(len as usize, 0);
        stream.read_exact(&mut self.buffer)?;
        Ok(true)
    }

    fn read(&mut self, request: &Request) -> Result<(), Errno> {
        let Request { offset, len, .. } = *request;
        if len > PAYLOAD_MAX {
            return Err(Errno::OVERFLOW);
        }
        if !self.export.has(offset, len) {
            return Err(Errno::INVALID);
        }
        self.buffer.resize(HEAD + len as usize, 0);
        self.export.read(offset, &mut self.buffer[HEAD..])
    }

    fn parts(&self, request: &Request) -> Result<Vec<(u32, bool)>, Errno> {
        let Request { offset, len, flags, .. } = *request;
        if !self.has_context || !self.is_structured || len == 0 || !self.export.has(offset, len) {
            return Err(Errno::INVALID);
        }
        let most = if flags & flag::REQUEST_ONE == 0 { PARTS_MAX } else { 1 };
        self.export.parts(offset, len, most)
    }

    /// WRITE, TRIM, WRITE_ZEROES.
    fn change(&self, request: &Request) -> Result<(), Errno> {
        let Request { flags, command, offset, len, .. } = *request;
        if !matches!(command, command::WRITE | command::TRIM | command::WRITE_ZEROES) {
            return Err(Errno::INVALID);
        }
        if !self.export.has(offset, len) {
            return Err(if command == command::TRIM { Errno::INVALID } else { Errno::NO_SPACE });
        }
        let fills = command == command::WRITE_ZEROES && flags & flag::NO_HOLE != 0;
        if fills && flags & flag::FAST_ZERO != 0 {
            return Err(Errno::NOT_SUPPORTED);
        }
        match command {
            command::WRITE => self.export.write(offset, &self.buffer),
            _ => self.export.zero(offset, len, fills),
        }
    }
}
