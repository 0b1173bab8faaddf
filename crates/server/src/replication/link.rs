//! A replica's connection to its primary, in a thread of its own, which reads and waits; the event loop applies what it
//! reads. Between them lies a channel that holds few frames: while the event loop is busy, the thread does not read, and
//! the primary does not send.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Shutdown, TcpStream, ToSocketAddrs};
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, SyncSender, TryRecvError, channel, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{Builder, sleep};
use std::time::Duration;

use rustix::io::Errno;
use rustix::net::SendFlags;
use rustls::ClientConfig;

use crate::replication::format::{FrameHeader, FrameKind, HEADER_SIZE};
use crate::replication::mark::Mark;
use crate::tls;

/// Messages that wait for the event loop.
const MESSAGES_MAX: usize = 8;
/// How long a connection may take to be made.
const CONNECT_PATIENCE: Duration = Duration::from_secs(5);
/// Time between two attempts to connect.
const PAUSE: Duration = Duration::from_millis(500);
/// Longest line of a reply while the connection is set up.
const LINE_SIZE_MAX: u64 = 1024;

/// What the thread says to the event loop.
pub(crate) enum Message {
    /// It is about to connect, and asks where to go on.
    Ask,
    /// It is connected, and goes through the greetings.
    Connected,
    /// The primary has answered: frames follow.
    Begin {
        /// It sends all that it has.
        is_full: bool,
        /// Of its history, the version after which changes follow; of a full synchronisation, the version that it sends.
        mark: Mark,
    },
    /// A frame: its kind, its version, and its entries.
    Frame(FrameKind, u64, Vec<u8>),
    /// The connection has ended, for this reason.
    Lost(String),
}

/// What the event loop answers to [`Message::Ask`].
pub(crate) struct Request {
    /// Versions of histories, each of which the store holds.
    pub(crate) held: Vec<Mark>,
    /// The primary's password; none if empty.
    pub(crate) password: Vec<u8>,
    /// The port that this server listens at.
    pub(crate) port: u16,
    /// The primary is a replica as yet, and is asked to be none.
    pub(crate) promotes: bool,
    /// A primary that is silent for so long is lost.
    pub(crate) patience: Duration,
    /// What an encrypted connection needs; none: it is not encrypted.
    pub(crate) tls: Option<Arc<ClientConfig>>,
}

/// The thread, as the event loop sees it. Dropping it ends the connection.
pub(crate) struct Link {
    stop: Arc<AtomicBool>,
    socket: Arc<Mutex<Option<TcpStream>>>,
    messages: Receiver<Message>,
    requests: Sender<Request>,
    /// What of an acknowledgement the socket did not take.
    unsent: Vec<u8>,
}

struct Reader {
    primary: (String, u16),
    stop: Arc<AtomicBool>,
    socket: Arc<Mutex<Option<TcpStream>>>,
    messages: SyncSender<Message>,
    requests: Receiver<Request>,
    wake: Arc<OwnedFd>,
}

impl Link {
    /// Begins to connect. `wake` becomes readable when there are messages.
    pub(crate) fn start(primary: (String, u16), wake: &Arc<OwnedFd>) -> std::io::Result<Link> {
        let (stop, socket) = (Arc::new(AtomicBool::new(false)), Arc::new(Mutex::new(None)));
        let (messages, received) = sync_channel(MESSAGES_MAX);
        let (requests, requested) = channel();
        let reader = Reader {
            primary,
            stop: stop.clone(),
            socket: socket.clone(),
            messages,
            requests: requested,
            wake: wake.clone(),
        };
        // It has nothing of the store, and ends by itself: after it was asked to, or when the process does.
        Builder::new().name("primary".to_owned()).spawn(move || reader.run())?;
        Ok(Link { stop, socket, messages: received, requests, unsent: Vec::new() })
    }

    /// The next message, if there is one.
    pub(crate) fn next(&self) -> Option<Message> {
        match self.messages.try_recv() {
            Ok(message) => Some(message),
            Err(TryRecvError::Empty) => None,
            Err(TryRecvError::Disconnected) => None,
        }
    }

    /// Answers [`Message::Ask`].
    pub(crate) fn answer(&self, request: Request) {
        // A thread that has ended needs none.
        let _ = self.requests.send(request);
    }

    /// Acknowledges that everything up to a version is durable here.
    pub(crate) fn acknowledge(&mut self, version: u64) {
        let socket = self.socket.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(socket) = &*socket else {
            self.unsent.clear();
            return;
        };
        if self.unsent.is_empty() {
            let number = version.to_string();
            self.unsent = request(&[b"REPLCONF", b"ACK", number.as_bytes()]);
        }
        let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
        match rustix::net::send(socket, &self.unsent, flags) {
            Ok(count) => drop(self.unsent.drain(..count)),
            Err(Errno::AGAIN | Errno::INTR) => {}
            // The thread meets it too.
            Err(_) => self.unsent.clear(),
        }
    }

    /// Forgets what was not sent: the connection is another one.
    pub(crate) fn reset(&mut self) {
        self.unsent.clear();
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::SeqCst);
        let socket = self.socket.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(socket) = &*socket {
            let _ = socket.shutdown(Shutdown::Both);
        }
    }
}

/// A command as it is sent.
fn request(words: &[&[u8]]) -> Vec<u8> {
    let mut bytes = format!("*{}\r\n", words.len()).into_bytes();
    for word in words {
        bytes.extend_from_slice(format!("${}\r\n", word.len()).as_bytes());
        bytes.extend_from_slice(word);
        bytes.extend_from_slice(b"\r\n");
    }
    bytes
}

/// The event loop does not want the connection any more.
struct Unwanted;

impl Reader {
    fn run(&self) {
        while !self.is_stopped() {
            if self.send(Message::Ask).is_err() {
                return;
            }
            let Ok(request) = self.requests.recv() else { return };
            let followed = self.follow(&request);
            *self.socket.lock().unwrap_or_else(PoisonError::into_inner) = None;
            let reason = match followed {
                Ok(Unwanted) => return,
                Err(reason) => reason,
            };
            if self.send(Message::Lost(reason)).is_err() {
                return;
            }
            sleep(PAUSE);
        }
    }

    fn is_stopped(&self) -> bool {
        self.stop.load(Ordering::SeqCst)
    }

    fn send(&self, message: Message) -> Result<(), Unwanted> {
        let sent = self.messages.send(message).map_err(|_| Unwanted);
        // A counter that is full wakes the event loop anyway.
        let _ = rustix::io::write(&self.wake, &1u64.to_ne_bytes());
        sent
    }

    fn connect(&self) -> Result<TcpStream, String> {
        let (host, port) = &self.primary;
        let found = (host.as_str(), *port).to_socket_addrs();
        let addresses = found.map_err(|error| format!("finding {host}: {error}"))?;
        let mut last = format!("{host} has no address");
        for address in addresses {
            match TcpStream::connect_timeout(&address, CONNECT_PATIENCE) {
                Ok(socket) => return Ok(socket),
                Err(error) => last = format!("connecting to {address}: {error}"),
            }
        }
        Err(last)
    }

    /// The stream that takes the place of the socket. It is one of this machine, though its type says TCP: what is called
    /// on it is of any stream.
    fn encrypt(
        &self,
        config: &Arc<ClientConfig>,
        socket: TcpStream,
        patience: Option<Duration>,
    ) -> std::io::Result<TcpStream> {
        let plain = OwnedFd::from(tls::connect(config, &self.primary.0, socket)?);
        let stream = TcpStream::from(plain);
        stream.set_read_timeout(patience)?;
        stream.set_write_timeout(patience)?;
        Ok(stream)
    }

    /// Connects and reads frames until the connection ends: why it did.
    fn follow(&self, wanted: &Request) -> Result<Unwanted, String> {
        let text = |error: std::io::Error| format!("the connection to the primary: {error}");
        let socket = self.connect()?;
        let patience = Some(wanted.patience);
        let prepared = socket.set_nodelay(true).and_then(|()| socket.set_read_timeout(patience));
        prepared.and_then(|()| socket.set_write_timeout(patience)).map_err(text)?;
        let socket = match &wanted.tls {
            Some(config) => self.encrypt(config, socket, patience).map_err(text)?,
            None => socket,
        };
        let mut stream = BufReader::with_capacity(64 << 10, socket.try_clone().map_err(text)?);
        *self.socket.lock().unwrap_or_else(PoisonError::into_inner) = Some(socket);
        if self.is_stopped() || self.send(Message::Connected).is_err() {
            return Ok(Unwanted);
        }
        let mark = self.greet(&mut stream, wanted)?;
        if self.send(mark).is_err() {
            return Ok(Unwanted);
        }
        loop {
            let mut header = [0; HEADER_SIZE];
            stream.read_exact(&mut header).map_err(text)?;
            let malformed = |_| "the primary has sent what is no frame".to_owned();
            let header = FrameHeader::decode(header).map_err(malformed)?;
            let mut entries = Vec::new();
            let size = u64::from(header.size);
            // It grows with what arrives, not with what was announced.
            stream.by_ref().take(size).read_to_end(&mut entries).map_err(text)?;
            if entries.len() as u64 != size {
                return Err("the connection to the primary has ended".to_owned());
            }
            if self.send(Message::Frame(header.kind, header.version, entries)).is_err() {
                return Ok(Unwanted);
            }
        }
    }

    fn greet(
        &self,
        stream: &mut BufReader<TcpStream>,
        wanted: &Request,
    ) -> Result<Message, String> {
        let port = wanted.port.to_string();
        let password = &wanted.password[..];
        if !password.is_empty() {
            expect_ok(ask(stream, &[b"AUTH", password])?)?;
        }
        expect_ok(ask(stream, &[b"REPLCONF", b"listening-port", port.as_bytes()])?)?;
        if wanted.promotes {
            expect_ok(ask(stream, &[b"REPLICAOF", b"NO", b"ONE"])?)?;
        }
        let mut words = vec![b"TEMBO.SYNC".to_vec()];
        for mark in &wanted.held {
            words.extend([mark.id.clone().into_bytes(), mark.version.to_string().into_bytes()]);
        }
        let words: Vec<&[u8]> = words.iter().map(|word| &word[..]).collect();
        let line = ask(stream, &words)?;
        let parts: Vec<&str> = line.split(' ').collect();
        let [how @ ("+FULL" | "+CONTINUE"), id, version] = parts[..] else {
            if line.starts_with("-ERR unknown command") {
                return Err(
                    "the primary is no Tembo server: to take over from Redis, use `tembo import`"
                        .to_owned(),
                );
            }
            return Err(format!("the primary refuses: {line}"));
        };
        let version = version.parse().map_err(|_| format!("the primary answers: {line}"))?;
        let mark = Mark { id: id.to_owned(), version };
        Ok(Message::Begin { is_full: how == "+FULL", mark })
    }
}

fn ask(stream: &mut BufReader<TcpStream>, words: &[&[u8]]) -> Result<String, String> {
    let text = |error: std::io::Error| format!("the connection to the primary: {error}");
    stream.get_mut().write_all(&request(words)).map_err(text)?;
    let mut line = Vec::new();
    stream.by_ref().take(LINE_SIZE_MAX).read_until(b'\n', &mut line).map_err(text)?;
    match line.strip_suffix(b"\r\n") {
        Some(line) => Ok(String::from_utf8_lossy(line).into_owned()),
        None => Err("the connection to the primary has ended".to_owned()),
    }
}

fn expect_ok(line: String) -> Result<(), String> {
    if line.starts_with('+') { Ok(()) } else { Err(format!("the primary refuses: {line}")) }
}
