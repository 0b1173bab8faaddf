//! A connection that speaks as much of Redis's protocol as the workloads need.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::TcpStream;

use super::opened::{Client, failed};
use crate::Error;

/// One request, one reply.
pub(super) struct Resp {
    reader: BufReader<TcpStream>,
    request: Vec<u8>,
    line: Vec<u8>,
    spare: Vec<u8>,
}

/// A reply.
enum Reply {
    Done,
    Number(i64),
    /// Its bytes are in the caller's buffer.
    Bytes,
    Nothing,
}

fn error(source: io::Error) -> Error {
    failed("a server of Redis's protocol")(Box::new(source))
}

impl Resp {
    pub(super) fn new(stream: TcpStream) -> Result<Resp, Error> {
        stream.set_nodelay(true).map_err(error)?;
        let (request, line, spare) = Default::default();
        Ok(Resp { reader: BufReader::with_capacity(1 << 16, stream), request, line, spare })
    }

    fn call(&mut self, words: &[&[u8]], out: &mut Vec<u8>) -> Result<Reply, Error> {
        self.request.clear();
        write!(self.request, "*{}\r\n", words.len()).map_err(error)?;
        for word in words {
            write!(self.request, "${}\r\n", word.len()).map_err(error)?;
            self.request.extend_from_slice(word);
            self.request.extend_from_slice(b"\r\n");
        }
        self.reader.get_mut().write_all(&self.request).map_err(error)?;
        self.reply(out).map_err(error)
    }

    fn reply(&mut self, out: &mut Vec<u8>) -> io::Result<Reply> {
        self.line.clear();
        self.reader.read_until(b'\n', &mut self.line)?;
        let line = self.line.strip_suffix(b"\r\n").ok_or(io::ErrorKind::UnexpectedEof)?;
        let text = std::str::from_utf8(line).map_err(io::Error::other)?;
        let number = || text[1..].parse::<i64>().map_err(io::Error::other);
        Ok(match line.first() {
            Some(b'+') => Reply::Done,
            Some(b':') => Reply::Number(number()?),
            Some(b'$') => match number()? {
                ..0 => Reply::Nothing,
                len => {
                    out.clear();
                    out.resize(len as usize + 2, 0);
                    self.reader.read_exact(out)?;
                    out.truncate(len as usize);
                    Reply::Bytes
                }
            },
            _ => return Err(io::Error::other(text.to_owned())),
        })
    }

    fn call_with_spare(&mut self, words: &[&[u8]]) -> Result<Reply, Error> {
        let mut spare = std::mem::take(&mut self.spare);
        let reply = self.call(words, &mut spare);
        self.spare = spare;
        reply
    }
}

impl Client for Resp {
    fn put(&mut self, key: &[u8], value: &[u8]) -> Result<(), Error> {
        self.call_with_spare(&[b"SET", key, value]).map(drop)
    }

    fn get(&mut self, key: &[u8], out: &mut Vec<u8>) -> Result<bool, Error> {
        Ok(matches!(self.call(&[b"GET", key], out)?, Reply::Bytes))
    }

    fn remove(&mut self, key: &[u8]) -> Result<bool, Error> {
        Ok(matches!(self.call_with_spare(&[b"DEL", key])?, Reply::Number(1)))
    }

    /// Redis's keys have no order.
    fn scan(&mut self, _: &[u8], _: usize) -> Result<Option<usize>, Error> {
        Ok(None)
    }
}
