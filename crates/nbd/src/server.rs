//! The server: listens, and has a thread for each connection.

use std::collections::HashMap;
use std::fs;
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};

use parking_lot::Mutex;
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::connection::{Timeouts, serve};
use crate::export::Exports;
use crate::stream::Stream;

/// Connections at a time; one more is closed at once.
const CONNECTIONS_MAX: usize = 64;

/// How long the server waits before it looks whether it is to stop.
const PATIENCE: Timespec = Timespec { tv_sec: 0, tv_nsec: 100_000_000 };

/// Where a server listens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Listen {
    /// A TCP address; with port 0 a free one.
    Tcp(SocketAddr),
    /// A socket at a path. One that a server has left there is replaced.
    Unix(PathBuf),
}

/// What can go wrong when a server starts.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Choose another address, or stop what listens there.
    #[error("listening at {at}")]
    Bind {
        /// The address or the path.
        at: String,
        /// Of the system.
        source: io::Error,
    },
    /// Of the system: no threads, no sockets.
    #[error(transparent)]
    Io(#[from] io::Error),
}

enum Listener {
    Tcp(TcpListener),
    Unix(UnixListener, PathBuf),
}

/// A server that listens.
pub struct Server {
    listener: Listener,
    exports: Exports,
    timeouts: Timeouts,
    stopped: Arc<AtomicBool>,
}

/// Stops a server, from any thread.
#[derive(Clone, Debug)]
pub struct Stopper(Arc<AtomicBool>);

impl Stopper {
    /// The server ends its connections, and [`Server::run`] returns.
    pub fn stop(&self) {
        self.0.store(true, Ordering::SeqCst);
    }
}

/// The connections that there are.
#[derive(Default)]
struct Open {
    next: u64,
    all: HashMap<u64, (Stream, Option<JoinHandle<()>>)>,
}

impl Server {
    /// Listens: clients may connect when it returns.
    ///
    /// # Errors
    /// [`Error::Bind`].
    pub fn bind(listen: &Listen, exports: Exports) -> Result<Server, Error> {
        let (at, listener) = match listen {
            Listen::Tcp(address) => (address.to_string(), bind_tcp(*address)),
            Listen::Unix(path) => (path.display().to_string(), bind_unix(path)),
        };
        let listener = listener.map_err(|source| Error::Bind { at, source })?;
        Ok(Server { listener, exports, timeouts: Timeouts::default(), stopped: Arc::default() })
    }

    /// With other times that it waits for clients.
    #[must_use]
    pub fn with_timeouts(self, timeouts: Timeouts) -> Server {
        Server { timeouts, ..self }
    }

    /// The URI of an export, as clients take it.
    ///
    /// # Errors
    /// Of the system.
    pub fn uri(&self, export: &str) -> io::Result<String> {
        Ok(match &self.listener {
            Listener::Tcp(listener) => format!("nbd://{}/{export}", listener.local_addr()?),
            Listener::Unix(_, path) => format!("nbd+unix:///{export}?socket={}", path.display()),
        })
    }

    /// What stops it.
    pub fn stopper(&self) -> Stopper {
        Stopper(self.stopped.clone())
    }

    /// Serves until it is stopped. What was not acknowledged then may be lost.
    ///
    /// # Errors
    /// Of the system.
    pub fn run(self) -> Result<(), Error> {
        let open = Arc::new(Mutex::new(Open::default()));
        let served = self.accept_all(&open);
        let all: Vec<_> = open.lock().all.drain().map(|(_, connection)| connection).collect();
        for (stream, thread) in all {
            stream.end();
            if let Some(thread) = thread {
                // A panic of it was reported by itself.
                let _ = thread.join();
            }
        }
        if let Listener::Unix(_, path) = &self.listener {
            // It may have been removed.
            let _ = fs::remove_file(path);
        }
        served
    }

    fn accept_all(&self, open: &Arc<Mutex<Open>>) -> Result<(), Error> {
        while !self.stopped.load(Ordering::SeqCst) {
            let ready = match &self.listener {
                Listener::Tcp(listener) => wait(&mut [PollFd::new(listener, PollFlags::IN)])?,
                Listener::Unix(listener, _) => wait(&mut [PollFd::new(listener, PollFlags::IN)])?,
            };
            if !ready {
                continue;
            }
            // A client may have gone away again.
            if let Ok(stream) = self.listener.accept() {
                start(stream, &self.exports, self.timeouts, open)?;
            }
        }
        Ok(())
    }
}

/// Whether there is something within some time.
fn wait(of: &mut [PollFd<'_>]) -> io::Result<bool> {
    match poll(of, Some(&PATIENCE)) {
        Ok(ready) => Ok(ready > 0),
        Err(rustix::io::Errno::INTR) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

fn bind_tcp(address: SocketAddr) -> io::Result<Listener> {
    let listener = TcpListener::bind(address)?;
    listener.set_nonblocking(true)?;
    Ok(Listener::Tcp(listener))
}

fn bind_unix(path: &Path) -> io::Result<Listener> {
    let listener = match UnixListener::bind(path) {
        Err(error) if error.kind() == io::ErrorKind::AddrInUse => {
            let is_left = UnixStream::connect(path)
                .is_err_and(|error| error.kind() == io::ErrorKind::ConnectionRefused);
            if !is_left {
                return Err(error);
            }
            fs::remove_file(path)?;
            UnixListener::bind(path)?
        }
        listener => listener?,
    };
    listener.set_nonblocking(true)?;
    Ok(Listener::Unix(listener, path.to_owned()))
}

impl Listener {
    fn accept(&self) -> io::Result<Stream> {
        match self {
            Listener::Tcp(listener) => {
                let (stream, _) = listener.accept()?;
                stream.set_nonblocking(false)?;
                stream.set_nodelay(true)?;
                Ok(Stream::Tcp(stream))
            }
            Listener::Unix(listener, _) => {
                let (stream, _) = listener.accept()?;
                stream.set_nonblocking(false)?;
                Ok(Stream::Unix(stream))
            }
        }
    }
}

/// Serves a connection in a thread of its own.
fn start(
    stream: Stream,
    exports: &Exports,
    timeouts: Timeouts,
    open: &Arc<Mutex<Open>>,
) -> io::Result<()> {
    let mut now = open.lock();
    if now.all.len() >= CONNECTIONS_MAX {
        stream.end();
        return Ok(());
    }
    let number = now.next;
    now.next += 1;
    now.all.insert(number, (stream.another()?, None));
    let (exports, shared) = (exports.clone(), open.clone());
    let thread = thread::Builder::new().name("nbd".into()).spawn(move || {
        // The client sees that the connection has ended.
        let _ = serve(stream, &exports, timeouts);
        drop(exports);
        // When the client sees the end, its place is free for another.
        if let Some((stream, _)) = shared.lock().all.remove(&number) {
            stream.end();
        }
    })?;
    if let Some((_, handle)) = now.all.get_mut(&number) {
        *handle = Some(thread);
    }
    Ok(())
}
