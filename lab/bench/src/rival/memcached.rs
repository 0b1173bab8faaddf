//! A connection that speaks memcached's text protocol.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::TcpStream;

use super::opened::{Client, failed};
use crate::Error;

/// One request, one reply.
pub(super) struct Text {
    reader: BufReader<TcpStream>,
    request: Vec<u8>,
    line: Vec<u8>,
}

fn error(source: io::Error) -> Error {
    failed("memcached")(Box::new(source))
}

impl Text {
    pub(super) fn new(stream: TcpStream) -> Result<Text, Error> {
        stream.set_nodelay(true).map_err(error)?;
        let (request, line) = Default::default();
        Ok(Text { reader: BufReader::with_capacity(1 << 16, stream), request, line })
    }

    fn send(&mut self, parts: &[&[u8]]) -> io::Result<()> {
        self.request.clear();
        parts.iter().for_each(|part| self.request.extend_from_slice(part));
        self.reader.get_mut().write_all(&self.request)?;
        self.read_line()
    }

    fn read_line(&mut self) -> io::Result<()> {
        self.line.clear();
        self.reader.read_until(b'\n', &mut self.line)?;
        Ok(())
    }

    /// Whether the reply is `yes`; what is neither `yes` nor `no` is an error.
    fn is(&self, yes: &[u8], no: &[u8]) -> io::Result<bool> {
        match &self.line[..] {
            line if line == yes => Ok(true),
            line if line == no => Ok(false),
            line => Err(io::Error::other(String::from_utf8_lossy(line).into_owned())),
        }
    }

    fn value(&mut self, key: &[u8], out: &mut Vec<u8>) -> io::Result<bool> {
        self.send(&[b"get ", key, b"\r\n"])?;
        if self.line == b"END\r\n" {
            return Ok(false);
        }
        // VALUE <key> <flags> <bytes>
        let line = String::from_utf8_lossy(&self.line);
        let len = line.trim_end().rsplit(' ').next().and_then(|len| len.parse::<usize>().ok());
        let len = len.ok_or_else(|| io::Error::other(line.into_owned()))?;
        out.clear();
        out.resize(len + 2, 0);
        self.reader.read_exact(out)?;
        out.truncate(len);
        self.read_line()?;
        self.is(b"END\r\n", b"")
    }
}

impl Client for Text {
    fn put(&mut self, key: &[u8], value: &[u8]) -> Result<(), Error> {
        let len = value.len().to_string();
        self.send(&[b"set ", key, b" 0 0 ", len.as_bytes(), b"\r\n", value, b"\r\n"])
            .and_then(|()| self.is(b"STORED\r\n", b""))
            .map(drop)
            .map_err(error)
    }

    fn get(&mut self, key: &[u8], out: &mut Vec<u8>) -> Result<bool, Error> {
        self.value(key, out).map_err(error)
    }

    fn remove(&mut self, key: &[u8]) -> Result<bool, Error> {
        self.send(&[b"delete ", key, b"\r\n"])
            .and_then(|()| self.is(b"DELETED\r\n", b"NOT_FOUND\r\n"))
            .map_err(error)
    }

    /// It has no order.
    fn scan(&mut self, _: &[u8], _: usize) -> Result<Option<usize>, Error> {
        Ok(None)
    }
}
