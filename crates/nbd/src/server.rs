//! The server: listens, and has a thread for each connection.

use std::collections::HashMap;
use std::io::{self, ErrorKind, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use parking_lot::Mutex;
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::connection::{Timeouts, serve};
use crate::export::Exports;
use crate::listener::{Listen, Listener};
use crate::stream::Stream;

/// Connections at a time; one more is closed at once.
const CONNECTIONS_MAX: usize = 64;

/// How long the server waits before it looks whether it is to stop.
const PATIENCE: Timespec = Timespec { tv_sec: 0, tv_nsec: 100_000_000 };

/// How long it waits after the system has refused a client a descriptor or a thread.
const PAUSE: Duration = Duration::from_millis(50);

/// What can go wrong when a server starts.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Choose another address, or stop what listens there. What lies at the path of a socket, and is none, stays.
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
    all: HashMap<u64, (Stream, JoinHandle<()>)>,
}

impl Server {
    /// Listens: clients may connect when it returns.
    ///
    /// # Errors
    /// [`Error::Bind`].
    pub fn bind(listen: &Listen, exports: Exports) -> Result<Server, Error> {
        let at = match listen {
            Listen::Tcp(address) => address.to_string(),
            Listen::Unix(path) => path.display().to_string(),
        };
        let listener = Listener::bind(listen).map_err(|source| Error::Bind { at, source })?;
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
        self.listener.uri(export)
    }

    /// What stops it.
    pub fn stopper(&self) -> Stopper {
        Stopper(self.stopped.clone())
    }

    /// Serves until it is stopped. What was not acknowledged then may be lost. A client for which the system has no descriptor or no
    /// thread finds its connection closed, or waits; standard error says so, and the others go on.
    ///
    /// # Errors
    /// Of the system.
    pub fn run(self) -> Result<(), Error> {
        let open = Arc::new(Mutex::new(Open::default()));
        let served = self.accept_all(&open);
        let all: Vec<_> = open.lock().all.drain().map(|(_, connection)| connection).collect();
        for (stream, thread) in all {
            stream.end();
            // A panic of it was reported by itself.
            let _ = thread.join();
        }
        self.listener.remove_path();
        served
    }

    fn accept_all(&self, open: &Arc<Mutex<Open>>) -> Result<(), Error> {
        let mut is_refusing = false;
        while !self.stopped.load(Ordering::SeqCst) {
            if !wait(&mut [PollFd::new(&self.listener, PollFlags::IN)])? {
                continue;
            }
            let started = match self.listener.accept() {
                Ok(stream) => start(stream, &self.exports, self.timeouts, open),
                Err(error) if is_of_client(&error) => continue,
                Err(error) => Err(error),
            };
            if let Err(error) = &started {
                if !is_refusing {
                    report(error);
                }
                // The client that waits is there at once again.
                thread::sleep(PAUSE);
            }
            is_refusing = started.is_err();
        }
        Ok(())
    }
}

/// Whether a client has gone away again before it was taken in.
fn is_of_client(error: &io::Error) -> bool {
    use ErrorKind::{
        ConnectionAborted, ConnectionReset, Interrupted, InvalidInput, NotConnected, WouldBlock,
    };
    let kinds =
        [ConnectionAborted, ConnectionReset, Interrupted, InvalidInput, NotConnected, WouldBlock];
    kinds.contains(&error.kind())
}

/// Says why a client is not served, once until one is.
fn report(error: &io::Error) {
    let advice = "raise the limits of descriptors (ulimit -n) and of threads (ulimit -u)";
    // Without a standard error there is no place to say it.
    let _ = writeln!(io::stderr().lock(), "tembo: an NBD client is not served: {error}: {advice}");
}

/// Whether there is something within some time.
fn wait(of: &mut [PollFd<'_>]) -> io::Result<bool> {
    match poll(of, Some(&PATIENCE)) {
        Ok(ready) => Ok(ready > 0),
        Err(rustix::io::Errno::INTR) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

/// Serves a connection in a thread of its own.
///
/// # Errors
/// The system's: the connection is closed.
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
    let (number, another) = (now.next, stream.another()?);
    now.next += 1;
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
    // It takes the lock before it looks for itself.
    now.all.insert(number, (another, thread));
    Ok(())
}
