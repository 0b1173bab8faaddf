//! What a server of Redis is given: by a thread for each, all of a snapshot as an RDB file, and then the stream of what is
//! executed.

use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{Builder, JoinHandle};
use std::time::{Duration, Instant};

use rustix::net::{Shutdown, shutdown};
use tembo_kv::Snapshot;

use crate::replication::outlet::{End, Outlet, PATIENCE};
use crate::replication::redis::backlog::{Backlog, Part};
use crate::replication::redis::file::write_file;

/// A server that waits for the size of the file hears of its primary so often.
const HEARTBEAT: Duration = Duration::from_secs(1);

/// All that a server is given before the stream.
pub(super) struct Content {
    /// What it holds.
    pub(super) snapshot: Snapshot,
    /// Databases that clients select.
    pub(super) databases: usize,
    /// What ends the file, if its size is not said before.
    pub(super) delimiter: Option<String>,
}

/// How a server begins.
pub(super) struct Beginning {
    /// The reply.
    pub(super) reply: String,
    /// All there is, if it does not go on.
    pub(super) content: Option<Content>,
    /// The place in the stream from which on it is given what is executed.
    pub(super) place: u64,
}

/// The thread, as the event loop sees it.
pub(super) struct Feed {
    state: Arc<State>,
    /// Bytes that the socket has taken.
    taken: Arc<AtomicU64>,
    socket: OwnedFd,
    thread: JoinHandle<()>,
}

#[derive(Default)]
struct State {
    stop: Arc<AtomicBool>,
    /// The file was sent.
    is_given: AtomicBool,
    /// The server takes the stream.
    is_online: AtomicBool,
    /// How far the server was sent the stream.
    place: AtomicU64,
}

impl Feed {
    /// Begins to feed. The socket does not block.
    pub(super) fn start(
        socket: &OwnedFd,
        beginning: Beginning,
        backlog: &Arc<Backlog>,
    ) -> std::io::Result<Feed> {
        let state = Arc::new(State::default());
        state.place.store(beginning.place, Ordering::Relaxed);
        let outlet = Outlet::new(socket, &state.stop)?;
        let (socket, taken) = (socket.try_clone()?, outlet.taken());
        let feeder = Feeder { outlet, state: state.clone(), backlog: backlog.clone() };
        let run = move || {
            // The server connects again, and learns then why it cannot go on.
            let _ = feeder.run(beginning);
            feeder.outlet.close();
        };
        let thread = Builder::new().name("redis replica".to_owned()).spawn(run)?;
        Ok(Feed { state, taken, socket, thread })
    }

    /// Whether it was given the file, and takes the stream.
    pub(super) fn is_online(&self) -> bool {
        self.state.is_online.load(Ordering::Relaxed)
    }

    /// The server has acknowledged something: it has read all of the file, if that was sent.
    pub(super) fn acknowledge(&self) {
        if self.state.is_given.load(Ordering::Acquire) {
            self.state.is_online.store(true, Ordering::Release);
            self.thread.thread().unpark();
        }
    }

    /// Bytes that the socket has taken: of the reply, the file, the stream, and signs of life.
    pub(super) fn taken(&self) -> u64 {
        self.taken.load(Ordering::Relaxed)
    }

    /// How far it was sent the stream.
    pub(super) fn place(&self) -> u64 {
        self.state.place.load(Ordering::Relaxed)
    }

    /// Ends the connection; the thread ends soon.
    pub(super) fn stop(&self) {
        self.state.stop.store(true, Ordering::Relaxed);
        let _ = shutdown(&self.socket, Shutdown::Both);
        self.thread.thread().unpark();
    }

    /// Whether the thread has ended.
    pub(super) fn is_finished(&self) -> bool {
        self.thread.is_finished()
    }

    /// Waits until the thread has ended, which was stopped.
    pub(super) fn join(self) {
        // One that has panicked has ended, too.
        let _ = self.thread.join();
    }
}

struct Feeder {
    outlet: Outlet,
    state: Arc<State>,
    backlog: Arc<Backlog>,
}

impl Feeder {
    fn run(&self, Beginning { reply, content, mut place }: Beginning) -> Result<(), End> {
        self.outlet.send(reply.as_bytes())?;
        match content {
            Some(content) => self.send_content(content)?,
            None => self.state.is_online.store(true, Ordering::Release),
        }
        loop {
            self.outlet.check()?;
            if !self.state.is_online.load(Ordering::Acquire) {
                std::thread::park_timeout(PATIENCE);
                continue;
            }
            match self.backlog.read(place, PATIENCE) {
                Part::Bytes(bytes, from) => {
                    self.outlet.send(&bytes[from..])?;
                    place += (bytes.len() - from) as u64;
                    self.state.place.store(place, Ordering::Relaxed);
                }
                Part::Nothing => {}
                Part::Lost => return Ok(()),
                Part::End => return self.finish(),
            }
        }
    }

    /// Nothing more is sent. The connection stays until the server has read the rest and ends it, or takes too long: to end it
    /// here would lose what the server has not read yet, as soon as it sends something.
    fn finish(&self) -> Result<(), End> {
        self.outlet.finish();
        loop {
            self.outlet.check()?;
            std::thread::park_timeout(PATIENCE);
        }
    }

    /// Sends the file. Where its size is asked for it is made twice, as the snapshot does not change: it is kept nowhere.
    fn send_content(&self, content: Content) -> Result<(), End> {
        let Content { snapshot, databases, delimiter } = content;
        let mut send = |bytes: &[u8]| self.outlet.send(bytes);
        match delimiter {
            Some(delimiter) => {
                self.outlet.send(format!("$EOF:{delimiter}\r\n").as_bytes())?;
                write_file(&snapshot, databases, &mut send)?;
                // The server says when it has read the file: what comes before would be taken for a part of it. It cannot say so
                // before it has the delimiter.
                self.state.is_given.store(true, Ordering::Release);
                self.outlet.send(delimiter.as_bytes())?;
            }
            None => {
                let (mut size, mut heard) = (0, Instant::now());
                write_file(&snapshot, databases, &mut |bytes| {
                    size += bytes.len() as u64;
                    if heard.elapsed() >= HEARTBEAT {
                        self.outlet.send(b"\n")?;
                        heard = Instant::now();
                    }
                    self.outlet.check()
                })?;
                self.outlet.send(format!("${size}\r\n").as_bytes())?;
                write_file(&snapshot, databases, &mut send)?;
                self.state.is_given.store(true, Ordering::Release);
                self.state.is_online.store(true, Ordering::Release);
            }
        }
        Ok(())
    }
}
