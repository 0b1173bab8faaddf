//! A Redis server that runs, of which the importer is a replica.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use crate::import::error::ImportError;
use crate::import::imported::Imported;
use crate::import::pipe::Pipe;

/// Redis hears so often how far the importer is.
const ACKNOWLEDGE: Duration = Duration::from_secs(1);
/// How long to wait before looking whether to stop.
const PATIENCE: Duration = Duration::from_millis(100);
/// How long connecting may take.
const CONNECT_PATIENCE: Duration = Duration::from_secs(10);
/// Longest line, and longest word of a command.
const LINE_SIZE_MAX: usize = 64 << 10;
const WORD_SIZE_MAX: usize = 1 << 30;

/// A connection to Redis. Reading from it waits for as long as Redis takes, unless it is asked to stop.
pub struct Source {
    socket: TcpStream,
    buffer: Vec<u8>,
    start: usize,
    stop: Arc<AtomicBool>,
    /// What was read in all.
    count: u64,
    /// Where the stream of commands begins: in Redis's count, and in ours.
    stream: Option<(u64, u64)>,
    /// What was durable in the server when it was last acknowledged.
    reached: u64,
    acknowledged: Instant,
}

/// How Redis begins.
pub(super) struct Begun {
    pub(super) offset: u64,
    /// What stands behind the file, if its size is not known before.
    mark: Option<Vec<u8>>,
}

impl Source {
    /// Connects to Redis. Once `stop` is set, an import that has read the file ends well, and an earlier one with an error.
    ///
    /// # Errors
    /// The system's, or Redis's refusal of the password.
    pub fn connect(
        address: impl ToSocketAddrs,
        password: Option<&str>,
        stop: Arc<AtomicBool>,
    ) -> Result<Source, ImportError> {
        let mut last = io::Error::from(ErrorKind::AddrNotAvailable);
        for address in address.to_socket_addrs().map_err(ImportError::Source)? {
            match TcpStream::connect_timeout(&address, CONNECT_PATIENCE) {
                Ok(socket) => {
                    let mut source = Source::over(socket, stop).map_err(ImportError::Source)?;
                    if let Some(password) = password {
                        source.ask(&[b"AUTH", password.as_bytes()])?;
                    }
                    return Ok(source);
                }
                Err(error) => last = error,
            }
        }
        Err(ImportError::Source(last))
    }

    fn over(socket: TcpStream, stop: Arc<AtomicBool>) -> io::Result<Source> {
        socket.set_nodelay(true)?;
        socket.set_read_timeout(Some(PATIENCE))?;
        let (buffer, acknowledged) = (Vec::new(), Instant::now());
        let (start, count, stream, reached) = (0, 0, None, 0);
        Ok(Source { socket, buffer, start, stop, count, stream, reached, acknowledged })
    }

    /// Asks for everything.
    pub(super) fn begin(&mut self) -> Result<Begun, ImportError> {
        self.ask(&[b"PING"])?;
        self.ask(&[b"REPLCONF", b"capa", b"eof", b"capa", b"psync2"])?;
        let answer = self.ask(&[b"PSYNC", b"?", b"-1"])?;
        let offset = answer
            .strip_prefix("+FULLRESYNC ")
            .and_then(|rest| rest.split(' ').nth(1))
            .and_then(|offset| offset.parse().ok());
        let offset = offset.ok_or(ImportError::Refused { answer })?;
        let header = self.words().map_err(ImportError::Source)?;
        let mark = match header.strip_prefix("$EOF:") {
            Some(mark) => Some(mark.as_bytes().to_vec()),
            None if header.starts_with('$') => None,
            None => return Err(ImportError::Refused { answer: header }),
        };
        Ok(Begun { offset, mark })
    }

    /// Behind the file.
    pub(super) fn end_file(&mut self, begun: &Begun) -> Result<(), ImportError> {
        if let Some(mark) = &begun.mark {
            let mut found = vec![0; mark.len()];
            self.read_exact(&mut found).map_err(ImportError::Source)?;
            if found != *mark {
                let what = "behind its end stands something else".to_owned();
                return Err(ImportError::Damaged { what, bytes: self.count });
            }
        }
        Ok(())
    }

    /// Passes on the commands of the stream, which begins at `offset`, until `is_enough` says that this is all.
    pub(super) fn stream(
        &mut self,
        offset: u64,
        pipe: &mut Pipe,
        is_enough: &mut dyn FnMut(&Imported) -> bool,
    ) -> Result<(), ImportError> {
        self.stream = Some((offset, self.count));
        self.reached = offset;
        loop {
            if self.start == self.buffer.len() {
                pipe.flush()?;
                self.reached = self.offset();
                pipe.state.offset = self.reached;
                if is_enough(&pipe.state) {
                    return self.acknowledge().map_err(ImportError::Source);
                }
            }
            let words = match self.command() {
                Ok(words) => words,
                // Asked to stop, or Redis has ended: nothing is lost by that.
                Err(error) if is_end(&error) => return Ok(()),
                Err(error) => return Err(ImportError::Source(error)),
            };
            let words: Vec<&[u8]> = words.iter().map(|word| &word[..]).collect();
            let is = |name: &str| words[0].eq_ignore_ascii_case(name.as_bytes());
            if is("PING") || is("REPLCONF") {
                continue;
            }
            pipe.push(&words)?;
            pipe.state.commands += 1;
        }
    }

    fn offset(&self) -> u64 {
        self.stream.map_or(0, |(offset, begin)| offset + (self.count - begin))
    }

    fn acknowledge(&mut self) -> io::Result<()> {
        self.acknowledged = Instant::now();
        let offset = self.reached.to_string();
        self.send(&[b"REPLCONF", b"ACK", offset.as_bytes()])
    }

    fn send(&mut self, words: &[&[u8]]) -> io::Result<()> {
        let mut bytes = format!("*{}\r\n", words.len()).into_bytes();
        for word in words {
            bytes.extend_from_slice(format!("${}\r\n", word.len()).as_bytes());
            bytes.extend_from_slice(word);
            bytes.extend_from_slice(b"\r\n");
        }
        self.socket.write_all(&bytes)
    }

    fn ask(&mut self, words: &[&[u8]]) -> Result<String, ImportError> {
        self.send(words).map_err(ImportError::Source)?;
        let answer = self.words().map_err(ImportError::Source)?;
        if answer.starts_with('+') { Ok(answer) } else { Err(ImportError::Refused { answer }) }
    }

    /// The next line that is not empty: while Redis makes the file, it sends empty ones.
    fn words(&mut self) -> io::Result<String> {
        loop {
            let line = self.line()?;
            if !line.is_empty() {
                return Ok(line);
            }
        }
    }

    /// A line without its end.
    fn line(&mut self) -> io::Result<String> {
        let mut line = Vec::new();
        loop {
            let mut byte = [0];
            self.read_exact(&mut byte)?;
            if byte == *b"\n" {
                if line.last() == Some(&b'\r') {
                    line.pop();
                }
                return Ok(String::from_utf8_lossy(&line).into_owned());
            }
            line.push(byte[0]);
            if line.len() > LINE_SIZE_MAX {
                return Err(malformed());
            }
        }
    }

    /// The next command of the stream.
    fn command(&mut self) -> io::Result<Vec<Vec<u8>>> {
        let header = self.words()?;
        let number = |line: &str, sign: char| {
            let number = line.strip_prefix(sign).and_then(|text| text.parse::<usize>().ok());
            number.filter(|number| *number <= WORD_SIZE_MAX).ok_or_else(malformed)
        };
        let mut words = Vec::new();
        for _ in 0..number(&header, '*')? {
            let size = number(&self.line()?, '$')?;
            let mut word = Vec::new();
            self.by_ref().take(size as u64).read_to_end(&mut word)?;
            if word.len() != size {
                return Err(ErrorKind::UnexpectedEof.into());
            }
            if !self.line()?.is_empty() {
                return Err(malformed());
            }
            words.push(word);
        }
        if words.is_empty() { Err(malformed()) } else { Ok(words) }
    }
}

fn malformed() -> io::Error {
    io::Error::new(ErrorKind::InvalidData, "that is no command")
}

fn is_end(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::UnexpectedEof | ErrorKind::ConnectionAborted)
        || error.kind() == ErrorKind::ConnectionReset
}

impl Read for Source {
    fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
        while self.start == self.buffer.len() {
            if self.stop.load(Ordering::Relaxed) {
                return Err(io::Error::new(ErrorKind::ConnectionAborted, "asked to stop"));
            }
            if self.stream.is_some() && self.acknowledged.elapsed() >= ACKNOWLEDGE {
                self.acknowledge()?;
            }
            self.buffer.resize(64 << 10, 0);
            self.start = 0;
            match self.socket.read(&mut self.buffer) {
                Ok(count) => {
                    self.buffer.truncate(count);
                    if count == 0 {
                        return Ok(0);
                    }
                }
                Err(error) => {
                    self.buffer.clear();
                    let again =
                        [ErrorKind::WouldBlock, ErrorKind::TimedOut, ErrorKind::Interrupted];
                    if !again.contains(&error.kind()) {
                        return Err(error);
                    }
                }
            }
        }
        let count = to.len().min(self.buffer.len() - self.start);
        to[..count].copy_from_slice(&self.buffer[self.start..self.start + count]);
        self.start += count;
        self.count += count as u64;
        Ok(count)
    }
}
