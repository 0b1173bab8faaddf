//! A small client of the server: for the command-line tools that ask a running server, and for tests.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::time::{Duration, Instant};

/// Longest bulk and array that are taken.
const BULK_SIZE_MAX: i64 = 1 << 30;
const ARRAY_COUNT_MAX: i64 = 1 << 24;
/// Arrays in each other that are taken.
const DEPTH_MAX: u32 = 8;
/// Bytes of a line that are taken.
const LINE_SIZE_MAX: u64 = 64 << 10;
/// Longest time that a caller waits.
const PATIENCE_MAX: Duration = Duration::from_secs(24 * 3600);

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
    writer: Timed,
    reader: BufReader<Timed>,
    patience: Duration,
}

/// A socket whose reads or writes end at one time, however few bytes each of them moves.
struct Timed {
    socket: TcpStream,
    end: Instant,
}

impl Timed {
    fn left(&self) -> io::Result<Option<Duration>> {
        let left = self.end.saturating_duration_since(Instant::now());
        if left.is_zero() { Err(io::ErrorKind::TimedOut.into()) } else { Ok(Some(left)) }
    }
}

impl Read for Timed {
    fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
        self.socket.set_read_timeout(self.left()?)?;
        self.socket.read(to)
    }
}

impl Write for Timed {
    fn write(&mut self, from: &[u8]) -> io::Result<usize> {
        self.socket.set_write_timeout(self.left()?)?;
        self.socket.write(from)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.socket.flush()
    }
}

impl Client {
    /// Connects; neither that, nor to send commands, nor an answer may take longer than `patience`, of which a day counts
    /// at most. To find the address of a name takes what the system allows.
    ///
    /// # Errors
    /// The system's.
    pub fn connect(address: impl ToSocketAddrs, patience: Duration) -> io::Result<Client> {
        let patience = patience.min(PATIENCE_MAX);
        let mut last = io::ErrorKind::AddrNotAvailable.into();
        for address in address.to_socket_addrs()? {
            match TcpStream::connect_timeout(&address, patience) {
                Ok(socket) => {
                    socket.set_nodelay(true)?;
                    let end = Instant::now();
                    let reader = BufReader::new(Timed { socket: socket.try_clone()?, end });
                    return Ok(Client { writer: Timed { socket, end }, reader, patience });
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
        self.send(&bytes)?;
        self.answer()
    }

    /// Sends commands as they are to be on the wire, and waits for so many answers.
    ///
    /// # Errors
    /// As of [`call`](Client::call).
    pub fn pipeline(&mut self, commands: &[u8], count: usize) -> io::Result<Vec<Answer>> {
        self.send(commands)?;
        (0..count).map(|_| self.answer()).collect()
    }

    fn send(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.writer.end = Instant::now() + self.patience;
        self.writer.write_all(bytes)
    }

    fn answer(&mut self) -> io::Result<Answer> {
        self.reader.get_mut().end = Instant::now() + self.patience;
        self.part(DEPTH_MAX)
    }

    /// An answer, or a part of one that may have so many arrays in each other.
    fn part(&mut self, depth: u32) -> io::Result<Answer> {
        let mut line = String::new();
        (&mut self.reader).take(LINE_SIZE_MAX).read_line(&mut line)?;
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
                Ok(_) if depth == 0 => return Err(wrong()),
                Ok(count) => {
                    let parts = (0..count).map(|_| self.part(depth - 1));
                    Answer::Array(parts.collect::<io::Result<_>>()?)
                }
                Err(_) => Answer::Nil,
            },
            _ => return Err(wrong()),
        })
    }

    fn bulk(&mut self, size: usize) -> io::Result<Vec<u8>> {
        // What has not arrived takes no memory.
        let mut bytes = Vec::new();
        (&mut self.reader).take(size as u64 + 2).read_to_end(&mut bytes)?;
        if bytes.len() != size + 2 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        bytes.truncate(size);
        Ok(bytes)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use std::net::TcpListener;

    use super::*;

    /// A server that answers with these bytes, and then with nothing.
    fn asked(answer: &'static [u8], patience: Duration) -> io::Result<Answer> {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let server = std::thread::spawn(move || {
            let (mut socket, _) = listener.accept().unwrap();
            // The client may have left.
            let _ = answer.chunks(1 << 16).try_for_each(|part| socket.write_all(part));
            let _ = socket.read_to_end(&mut Vec::new());
        });
        let mut client = Client::connect(address, patience).unwrap();
        let answer = client.call(&[b"PING"]);
        drop(client);
        server.join().unwrap();
        answer
    }

    #[test]
    fn a_hostile_server_cannot_use_up_the_stack_the_memory_or_the_time() {
        let patience = Duration::from_secs(60);
        let deep: &[u8] = b"*1\r\n".repeat(1 << 20).leak();
        assert_eq!(asked(deep, patience).unwrap_err().kind(), io::ErrorKind::InvalidData);
        let long: &[u8] = b"+".repeat(1 << 20).leak();
        assert_eq!(asked(long, patience).unwrap_err().kind(), io::ErrorKind::UnexpectedEof);
        assert!(asked(b"$1000000000\r\nabc", Duration::from_millis(50)).is_err());
        let nested = asked(b"*2\r\n*1\r\n:7\r\n$2\r\nab\r\n", patience).unwrap();
        let inner = Answer::Array(vec![Answer::Integer(7)]);
        assert_eq!(nested, Answer::Array(vec![inner, Answer::Bulk(b"ab".to_vec())]));
    }
}
