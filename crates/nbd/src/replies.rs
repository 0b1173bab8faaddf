//! Replies: each goes to the socket whole, whichever thread sends it.

use std::io::{self, Write};

use parking_lot::Mutex;

use crate::stream::Stream;
use crate::wire::{Errno, HOLE_AND_ZERO, SIMPLE_REPLY, STRUCTURED_REPLY, chunk};

/// Bytes that a buffer of data has free at its begin, for the head of the reply.
pub(crate) const HEAD: usize = 28;

/// Bytes of the head of a simple reply.
const SIMPLE_HEAD: usize = 16;

/// The only metadata context: which parts are stored.
pub(crate) const ALLOCATION: u32 = 1;

pub(crate) struct Replies {
    stream: Mutex<Stream>,
    is_structured: bool,
}

fn simple(error: u32, cookie: u64) -> [u8; SIMPLE_HEAD] {
    let mut head = [0; SIMPLE_HEAD];
    head[..4].copy_from_slice(&SIMPLE_REPLY.to_be_bytes());
    head[4..8].copy_from_slice(&error.to_be_bytes());
    head[8..].copy_from_slice(&cookie.to_be_bytes());
    head
}

/// The only chunk of a structured reply, with that many bytes after its head.
fn structured(kind: u16, cookie: u64, len: usize) -> [u8; 20] {
    let mut head = [0; 20];
    head[..4].copy_from_slice(&STRUCTURED_REPLY.to_be_bytes());
    head[4..6].copy_from_slice(&chunk::DONE.to_be_bytes());
    head[6..8].copy_from_slice(&kind.to_be_bytes());
    head[8..16].copy_from_slice(&cookie.to_be_bytes());
    head[16..].copy_from_slice(&(len as u32).to_be_bytes());
    head
}

impl Replies {
    pub(crate) fn new(stream: Stream, is_structured: bool) -> Replies {
        Replies { stream: Mutex::new(stream), is_structured }
    }

    /// Sends a whole reply. What fails may have sent a part of it, for instance to a client that does not read: the connection ends.
    fn send(&self, bytes: &[u8]) -> io::Result<()> {
        let mut stream = self.stream.lock();
        stream.write_all(bytes).inspect_err(|_| stream.end())
    }

    /// The reply to what returns no data.
    pub(crate) fn done(&self, cookie: u64, done: Result<(), Errno>) -> io::Result<()> {
        self.send(&simple(done.err().map_or(0, |Errno(error)| error), cookie))
    }

    /// The reply to a READ: what `data` has from [`HEAD`] on.
    pub(crate) fn data(&self, cookie: u64, offset: u64, data: &mut [u8]) -> io::Result<()> {
        if !self.is_structured {
            let begin = HEAD - SIMPLE_HEAD;
            data[begin..HEAD].copy_from_slice(&simple(0, cookie));
            return self.send(&data[begin..]);
        }
        let head = structured(chunk::OFFSET_DATA, cookie, data.len() - 20);
        data[..20].copy_from_slice(&head);
        data[20..HEAD].copy_from_slice(&offset.to_be_bytes());
        self.send(data)
    }

    /// The reply to BLOCK_STATUS.
    pub(crate) fn parts(&self, cookie: u64, parts: &[(u32, bool)]) -> io::Result<()> {
        let mut reply = structured(chunk::BLOCK_STATUS, cookie, 4 + 8 * parts.len()).to_vec();
        reply.extend(ALLOCATION.to_be_bytes());
        for (len, is_stored) in parts {
            reply.extend(len.to_be_bytes());
            reply.extend(if *is_stored { 0 } else { HOLE_AND_ZERO }.to_be_bytes());
        }
        self.send(&reply)
    }

    /// The reply to what would have returned data, or parts.
    pub(crate) fn no_data(&self, cookie: u64, error: Errno) -> io::Result<()> {
        if !self.is_structured {
            return self.done(cookie, Err(error));
        }
        let mut reply = structured(chunk::ERROR, cookie, 6).to_vec();
        reply.extend(error.0.to_be_bytes());
        // No text.
        reply.extend([0; 2]);
        self.send(&reply)
    }
}
