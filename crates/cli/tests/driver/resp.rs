//! A client of Redis's protocol, as small as it can be: pipelines commands, reads replies.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

/// How long a server may take for a reply before the test calls it hung.
const PATIENCE: Duration = Duration::from_secs(60);

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reply {
    Simple(String),
    Error(String),
    Integer(i64),
    Bulk(Vec<u8>),
    Nil,
    Array(Vec<Reply>),
}

pub struct Client {
    writer: TcpStream,
    reader: BufReader<TcpStream>,
    unsent: Vec<u8>,
}

impl Client {
    pub fn connect(address: SocketAddr) -> io::Result<Client> {
        let writer = TcpStream::connect(address)?;
        writer.set_nodelay(true)?;
        writer.set_read_timeout(Some(PATIENCE))?;
        writer.set_write_timeout(Some(PATIENCE))?;
        let reader = BufReader::with_capacity(1 << 16, writer.try_clone()?);
        Ok(Client { writer, reader, unsent: Vec::new() })
    }

    /// Adds a command to the pipeline.
    pub fn push(&mut self, words: &[&[u8]]) {
        self.unsent.extend_from_slice(format!("*{}\r\n", words.len()).as_bytes());
        for word in words {
            self.unsent.extend_from_slice(format!("${}\r\n", word.len()).as_bytes());
            self.unsent.extend_from_slice(word);
            self.unsent.extend_from_slice(b"\r\n");
        }
    }

    /// Sends what was pushed.
    pub fn send(&mut self) -> io::Result<()> {
        let sent = self.writer.write_all(&self.unsent);
        self.unsent.clear();
        sent
    }

    /// Sends one command and reads its reply.
    pub fn call(&mut self, words: &[&[u8]]) -> io::Result<Reply> {
        self.push(words);
        self.send()?;
        self.read()
    }

    pub fn read(&mut self) -> io::Result<Reply> {
        let line = self.line()?;
        let wrong = || io::Error::new(io::ErrorKind::InvalidData, format!("reply `{line}`"));
        let (kind, rest) = line.split_at_checked(1).ok_or_else(wrong)?;
        let number = || rest.parse::<i64>().map_err(|_| wrong());
        Ok(match kind {
            "+" => Reply::Simple(rest.to_owned()),
            "-" => Reply::Error(rest.to_owned()),
            ":" => Reply::Integer(number()?),
            "$" | "*" if number()? < 0 => Reply::Nil,
            "$" => Reply::Bulk(self.bulk(number()? as usize)?),
            "*" => Reply::Array((0..number()?).map(|_| self.read()).collect::<io::Result<_>>()?),
            _ => return Err(wrong()),
        })
    }

    fn line(&mut self) -> io::Result<String> {
        let mut line = String::new();
        self.reader.read_line(&mut line)?;
        match line.strip_suffix("\r\n") {
            Some(line) => Ok(line.to_owned()),
            None => Err(io::ErrorKind::UnexpectedEof.into()),
        }
    }

    fn bulk(&mut self, len: usize) -> io::Result<Vec<u8>> {
        let mut bytes = vec![0; len + 2];
        self.reader.read_exact(&mut bytes)?;
        bytes.truncate(len);
        Ok(bytes)
    }
}
