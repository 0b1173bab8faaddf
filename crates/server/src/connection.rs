//! One client's socket: bytes in, parsed; replies out.

use std::cell::Cell;
use std::os::fd::OwnedFd;

use rustix::buffer::spare_capacity;
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags};

use crate::buffer::Buffer;
use crate::face::Face;
use crate::parse::{COMMAND_SIZE_MAX, Limits, Parsed, Parser, ProtocolError};
use crate::reply::Reply;
use crate::session::Session;
use crate::tls::{Taken, Tls, start_relay};

/// Bytes read at once at first, and most bytes read in one turn.
const READ_SIZE: (usize, usize) = (16 << 10, 1 << 20);

/// What a read found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Read {
    /// So many bytes.
    Some(usize),
    /// The client has disconnected.
    Closed,
}

/// One client.
pub(crate) struct Connection {
    /// Its socket.
    pub(crate) socket: OwnedFd,
    /// Its encryption.
    pub(crate) tls: Option<Tls>,
    /// Its state.
    pub(crate) session: Session,
    /// What it speaks.
    pub(crate) face: Face,
    /// Its replies.
    pub(crate) reply: Reply,
    /// The parser's state.
    pub(crate) parser: Parser,
    /// Bytes read; the command being parsed starts at `start`.
    pub(crate) input: Vec<u8>,
    /// See `input`.
    pub(crate) start: usize,
    /// Bytes of memory with which it is counted among all clients.
    pub(crate) counted: usize,
    /// Whether it is in the list of connections to execute.
    pub(crate) queued: bool,
    /// Whether the socket has something to read.
    pub(crate) readable: bool,
    /// Whether it was stopped before its input was used up, because a bound was reached. Until it is
    /// used up, nothing more is read.
    pub(crate) stopped: bool,
    /// Commands of its input whose keys were prefetched.
    pub(crate) prefetched: Cell<usize>,
    /// This turn's replies have a message in them, which another client has caused.
    pub(crate) has_message: bool,
    /// Where this turn's replies begin, and how many commands they answer; `None` between turns.
    pub(crate) turn: Option<(usize, u32)>,
    /// Of these, where those begin that a failure of the turn replaces, and how many commands the others answer: what they show
    /// was committed early.
    committed: (usize, u32),
    /// The early commits before the replies that a failure replaces.
    early_commits: u64,
    /// Where replies of earlier turns begin that wait for room on the disk, and how many commands they answer.
    pub(crate) held: Option<(usize, u32)>,
    /// The readiness asked of the poll: readable, writable.
    pub(crate) interest: (bool, bool),
    /// Since when more bytes wait than a subscriber is allowed for long.
    pub(crate) over_soft_ms: Option<u64>,
    /// When the socket last took bytes while more were waiting.
    pub(crate) sent_ms: Option<u64>,
}

impl Connection {
    /// A client that has just connected; its output is limited.
    pub(crate) fn new(socket: OwnedFd, session: Session, output_limit: usize) -> Connection {
        Connection {
            socket,
            tls: None,
            session,
            face: Face::Redis,
            reply: Reply::new(output_limit),
            parser: Parser::default(),
            input: Vec::new(),
            start: 0,
            counted: 0,
            queued: false,
            readable: false,
            stopped: false,
            prefetched: Cell::new(0),
            has_message: false,
            turn: None,
            committed: (0, 0),
            early_commits: 0,
            held: None,
            interest: (true, false),
            over_soft_ms: None,
            sent_ms: None,
        }
    }

    /// The replies of a turn begin here, if they have not begun. If there was an early commit since, the number of which is given,
    /// those before it stay when the turn fails.
    #[inline]
    pub(crate) fn begin_turn(&mut self, early_commits: u64) {
        if self.turn.is_none() {
            let mark = self.reply.mark();
            (self.turn, self.committed) = (Some((mark, 0)), (mark, 0));
            self.early_commits = early_commits;
        } else if self.early_commits != early_commits {
            self.keep_replies(early_commits, self.replies());
        }
    }

    /// Where the next reply begins, and how many commands of the turn were answered.
    #[inline]
    pub(crate) fn replies(&self) -> (usize, u32) {
        (self.reply.mark(), self.turn.map_or(0, |(_, count)| count))
    }

    /// The number of the early commit behind which the client's last command was executed.
    #[inline]
    pub(crate) fn early_commits(&self) -> u64 {
        self.early_commits
    }

    /// The turn's replies up to a place stay when it fails, since there was an early commit, the number of which is given.
    pub(crate) fn keep_replies(&mut self, early_commits: u64, until: (usize, u32)) {
        (self.early_commits, self.committed) = (early_commits, until);
        self.session.changed = false;
    }

    /// Where the turn's replies begin that its failure replaces, and how many commands they answer; `None`: all stay.
    pub(crate) fn uncommitted(&mut self, early_commits: u64) -> Option<(usize, u32)> {
        let (_, count) = self.turn?;
        if self.early_commits != early_commits {
            self.keep_replies(early_commits, self.replies());
            return None;
        }
        let (mark, kept) = self.committed;
        Some((mark, count - kept))
    }

    /// The turn's replies so far may leave, and are not replaced any more.
    pub(crate) fn end_turn(&mut self) {
        self.session.changed = false;
        self.session.shows_data = false;
        self.has_message = false;
        self.turn = None;
        self.held = None;
    }

    /// Whether the replies of this turn and of those before may show what is not durable.
    pub(crate) fn shows_data(&self) -> bool {
        self.session.shows_data || self.has_message || self.held.is_some()
    }

    /// The turn's replies so far wait for room on the disk.
    pub(crate) fn hold_turn(&mut self) {
        self.session.changed = false;
        let (mark, count) = self.turn.take().unwrap_or((self.reply.mark(), 0));
        let (_, held) = self.held.get_or_insert((mark, 0));
        *held += count;
    }

    /// Where replies begin that were not sent, if what they show may be lost, and how many commands they answer.
    pub(crate) fn unsent_turns(&self) -> Option<(usize, u32)> {
        let Some((mark, held)) = self.held else { return self.turn };
        Some((mark, held + self.turn.map_or(0, |(_, count)| count)))
    }

    /// Reads what the socket has, up to a bound.
    pub(crate) fn read(&mut self) -> Read {
        let mut total = 0;
        loop {
            let (count, room) = match self.read_once() {
                Ok(read) => read,
                Err(Errno::AGAIN | Errno::INTR) => return Read::Some(total),
                Err(_) => return Read::Closed,
            };
            if count == 0 {
                return if total == 0 { Read::Closed } else { Read::Some(total) };
            }
            total += count;
            if count < room || total >= READ_SIZE.1 {
                return Read::Some(total);
            }
        }
    }

    /// Reads once: how much, and how much there was room for.
    fn read_once(&mut self) -> Result<(usize, usize), Errno> {
        if self.tls.is_some() {
            return self.read_encrypted();
        }
        if let Some((bulk, lacking)) = self.parser.fill()
            && lacking > 0
        {
            return read_bulk(&self.socket, bulk, lacking, &mut self.input);
        }
        if self.start > 0 {
            self.compact();
        }
        let input = &mut self.input;
        if input.capacity() - input.len() < READ_SIZE.0 / 2 {
            let more = READ_SIZE.0.max(input.len().min(READ_SIZE.1));
            input.try_reserve_exact(more).map_err(|_| Errno::NOMEM)?;
        }
        let room = input.capacity() - input.len();
        let (_, count) =
            rustix::net::recv(&self.socket, spare_capacity(input), RecvFlags::empty())?;
        if input.len() - self.start > COMMAND_SIZE_MAX + (1 << 24) {
            return Err(Errno::NOMEM);
        }
        Ok((count, room))
    }

    /// As `read_once`, by way of TLS.
    #[cold]
    fn read_encrypted(&mut self) -> Result<(usize, usize), Errno> {
        let Some(tls) = &mut self.tls else { return Err(Errno::AGAIN) };
        let taken = match self.parser.fill().filter(|(_, lacking)| *lacking > 0) {
            Some((bulk, lacking)) => {
                let mut plaintext = Vec::new();
                let taken = tls.read(&self.socket, &mut plaintext)?;
                let (of_bulk, rest) = plaintext.split_at(lacking.min(plaintext.len()));
                bulk.extend_from_slice(of_bulk);
                self.input.extend_from_slice(rest);
                taken
            }
            None => {
                if self.start > 0 {
                    self.compact();
                }
                let Some(tls) = &mut self.tls else { return Err(Errno::AGAIN) };
                tls.read(&self.socket, &mut self.input)?
            }
        };
        if self.input.len() - self.start > COMMAND_SIZE_MAX + (1 << 24) {
            return Err(Errno::NOMEM);
        }
        match taken {
            Taken::Closed => Ok((0, 0)),
            // A handshake or a record goes on.
            Taken::Plaintext { size: 0, .. } => Err(Errno::AGAIN),
            Taken::Plaintext { size, has_more } => Ok((size, size + usize::from(!has_more))),
        }
    }

    /// Bytes that wait for the client; ciphertext counts as one more.
    pub(crate) fn waiting(&self) -> usize {
        self.reply.waiting() + usize::from(self.has_ciphertext())
    }

    /// Whether ciphertext waits for the client.
    #[inline]
    pub(crate) fn has_ciphertext(&self) -> bool {
        self.tls.as_ref().is_some_and(Tls::has_ciphertext)
    }

    /// Whether the handshake of TLS is not finished.
    pub(crate) fn is_handshaking(&self) -> bool {
        self.tls.as_ref().is_some_and(Tls::is_handshaking)
    }

    /// From now on a thread encrypts and decrypts, and the socket is another one, which is plain.
    ///
    /// # Errors
    /// The system's. Then the socket is not usable.
    pub(crate) fn relay(&mut self) -> std::io::Result<()> {
        let Some(tls) = self.tls.take() else { return Ok(()) };
        self.socket = start_relay(tls, self.socket.try_clone()?)?;
        Ok(())
    }

    /// Announces the end of the connection, if it is encrypted and the socket takes that.
    pub(crate) fn close(&mut self) {
        if let Some(tls) = &mut self.tls {
            tls.close(&self.socket);
        }
    }

    /// Its buffer of input.
    pub(crate) fn input_buffer(&self) -> Buffer {
        let (size, capacity) = (self.input.len(), self.input.capacity());
        Buffer { used: size - self.start, free: capacity - size + self.start }
    }

    /// Bytes that it has sent and that were not executed, those queued after MULTI included.
    pub(crate) fn pending_input(&self) -> usize {
        let queued = self.session.multi.as_ref().map_or(0, |multi| multi.size);
        self.input.len() - self.start + self.parser.owned_size() + queued
    }

    /// Bytes of memory that the client takes.
    pub(crate) fn memory(&self) -> usize {
        let output = self.reply.buffer();
        let input = self.input.capacity() + self.parser.owned_size();
        size_of::<Connection>() + input + output.used + output.free + self.session.memory()
    }

    /// Drops what was executed from the input, if it is no less than the rest: so a byte is moved once on average.
    fn compact(&mut self) {
        let rest = self.input.len() - self.start;
        if rest == 0 {
            self.input.clear();
        } else if self.start >= rest {
            self.input.drain(..self.start);
        } else {
            return;
        }
        self.start = 0;
    }

    /// Continues to parse.
    #[inline]
    pub(crate) fn parse(&mut self, limits: Limits) -> Result<Parsed, ProtocolError> {
        if let Some((_, 0)) = self.parser.fill() {
            self.parser.filled();
        }
        let parsed = self.parser.step(&self.input[self.start..], limits)?;
        if parsed == Parsed::Long {
            let rest = self.input.split_off(self.start + self.parser.cursor());
            if let Some((bulk, _)) = self.parser.fill() {
                *bulk = rest;
            }
            return Ok(Parsed::Incomplete);
        }
        Ok(parsed)
    }

    /// Whether there is something to do that no input will announce: a command that is put off, or input that was not executed.
    pub(crate) fn has_more(&self) -> bool {
        self.session.put_off.is_some() || self.start < self.input.len()
    }

    /// Ends the command just parsed.
    #[inline]
    pub(crate) fn finish_command(&mut self) {
        self.start += self.parser.finish();
    }

    /// Sends what waits; false if the client has disconnected.
    pub(crate) fn send(&mut self, now_ms: u64) -> bool {
        if let Some(tls) = &mut self.tls
            && tls.flush(&self.socket).is_err()
        {
            return false;
        }
        while self.reply.waiting() > 0 {
            let sent = match &mut self.tls {
                None => rustix::net::send(&self.socket, self.reply.unsent(), SendFlags::NOSIGNAL),
                Some(tls) => tls.send(&self.socket, self.reply.unsent()),
            };
            match sent {
                Ok(count) => {
                    self.reply.take(count);
                    self.sent_ms = Some(now_ms);
                }
                Err(Errno::AGAIN | Errno::INTR) => return true,
                Err(_) => return false,
            }
        }
        true
    }

    /// Frees buffers that an idle client does not need.
    pub(crate) fn shrink(&mut self) {
        if self.start == self.input.len() && self.input.capacity() > 0 {
            self.input = Vec::new();
            self.start = 0;
        }
        self.reply.shrink();
    }
}

/// Reads into a long bulk that lacks `lacking` bytes; what comes behind it goes to `input`.
fn read_bulk(
    socket: &OwnedFd,
    bulk: &mut Vec<u8>,
    lacking: usize,
    input: &mut Vec<u8>,
) -> Result<(usize, usize), Errno> {
    // The buffer grows with what arrives, not with what was announced.
    if bulk.capacity() == bulk.len() {
        let more = lacking.min(bulk.len().max(READ_SIZE.1));
        bulk.try_reserve_exact(more).map_err(|_| Errno::NOMEM)?;
    }
    let room = bulk.capacity() - bulk.len();
    let size = bulk.len() + lacking;
    let (_, count) = rustix::net::recv(socket, spare_capacity(bulk), RecvFlags::empty())?;
    if bulk.len() > size {
        input.extend_from_slice(&bulk[size..]);
        bulk.truncate(size);
    }
    Ok((count, room))
}
