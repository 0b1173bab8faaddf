//! A small client of the server: for the command-line tools that ask a running server, and for tests.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::time::Duration;

/// Longest bulk and array that are taken.
const BULK_SIZE_MAX: i64 = 1 << 30;
const ARRAY_COUNT_MAX: i64 = 1 << 24;

/// A reply of the server, in RESP2.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// A short text, such as OK.
    Simple(String),
    /// A refusal; its first word is for programs.
    Error(String),
    /// A number.
    Integer(i64),
    /// Bytes.
    Bulk(Vec<u8>),
    /// No value.
    Nil,
    /// Several answers.
    Array(Vec<Answer>),
}

impl Answer {
    /// The value behind a name, as text, in an array of names and values (a map in RESP3).
    pub fn field(&self, name: &str) -> Option<String> {
        let Answer::Array(parts) = self else { return None };
        let is_it =
            |pair: &&[Answer]| matches!(&pair[0], Answer::Bulk(key) if key == name.as_bytes());
        match parts.chunks_exact(2).find(is_it)? {
            [_, Answer::Bulk(text)] => Some(String::from_utf8_lossy(text).into_owned()),
            [_, Answer::Integer(number)] => Some(number.to_string()),
            _ => None,
        }
    }
}

/// A connection to a server.
pub struct Client {
    writer: TcpStream,
    reader: BufReader<TcpStream>,
}

impl Client {
    /// Connects; neither that nor an answer may take longer than `patience`.
    ///
    /// # Errors
    /// The system's.
    pub fn connect(address: impl ToSocketAddrs, patience: Duration) -> io::Result<Client> {
        let mut last = io::ErrorKind::AddrNotAvailable.into();
        for address in address.to_socket_addrs()? {
            match TcpStream::connect_timeout(&address, patience) {
                Ok(writer) => {
                    writer.set_nodelay(true)?;
                    writer.set_read_timeout(Some(patience))?;
                    writer.set_write_timeout(Some(patience))?;
                    let reader = BufReader::new(writer.try_clone()?);
                    return Ok(Client { writer, reader });
                }
                Err(error) => last = error,
            }
        }
        Err(last)
    }

    /// Sends one command and waits for the answer.
    ///
    /// # Errors
    /// The system's; `InvalidData` if what arrived is no reply. Then the command may have been executed or not.
    pub fn call(&mut self, words: &[&[u8]]) -> io::Result<Answer> {
        let mut bytes = format!("*{}\r\n", words.len()).into_bytes();
        for word in words {
            bytes.extend_from_slice(format!("${}\r\n", word.len()).as_bytes());
            bytes.extend_from_slice(word);
            bytes.extend_from_slice(b"\r\n");
        }
        self.writer.write_all(&bytes)?;
        self.answer()
    }

    /// Sends commands as they are to be on the wire, and waits for so many answers.
    ///
    /// # Errors
    /// As of [`call`](Client::call).
    pub fn pipeline(&mut self, commands: &[u8], count: usize) -> io::Result<Vec<Answer>> {
        self.writer.write_all(commands)?;
        (0..count).map(|_| self.answer()).collect()
    }

    fn answer(&mut self) -> io::Result<Answer> {
        let mut line = String::new();
        self.reader.read_line(&mut line)?;
        let line = line.strip_suffix("\r\n").ok_or(io::ErrorKind::UnexpectedEof)?;
        let wrong = || io::Error::new(io::ErrorKind::InvalidData, format!("answer `{line}`"));
        let (kind, rest) = line.split_at_checked(1).ok_or_else(wrong)?;
        let number = |most: i64| match rest.parse::<i64>() {
            Ok(number) if number <= most => Ok(number),
            _ => Err(wrong()),
        };
        Ok(match kind {
            "+" => Answer::Simple(rest.to_owned()),
            "-" => Answer::Error(rest.to_owned()),
            ":" => Answer::Integer(number(i64::MAX)?),
            "$" => match usize::try_from(number(BULK_SIZE_MAX)?) {
                Ok(size) => Answer::Bulk(self.bulk(size)?),
                Err(_) => Answer::Nil,
            },
            "*" => match usize::try_from(number(ARRAY_COUNT_MAX)?) {
                Ok(count) => {
                    Answer::Array((0..count).map(|_| self.answer()).collect::<io::Result<_>>()?)
                }
                Err(_) => Answer::Nil,
            },
            _ => return Err(wrong()),
        })
    }

    fn bulk(&mut self, size: usize) -> io::Result<Vec<u8>> {
        let mut bytes = vec![0; size + 2];
        self.reader.read_exact(&mut bytes)?;
        bytes.truncate(size);
        Ok(bytes)
    }
}
