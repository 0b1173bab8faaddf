//! The owner of a pool serves other processes: what a client asks for is done with a [`MainFile`] of its own, as for a connection
//! of this process. When the client ends, however it ends, its locks and its transaction go with it.

use std::collections::HashMap;
use std::io;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Weak};

use parking_lot::Mutex;
use tembo_kv::{Durability, Store};

use crate::code::{Code, LOCK_NONE, LOCK_RESERVED, OK};
use crate::main_file::{self, MainFile};
use crate::pool::{self, Pool, PoolRef};
use crate::pragma;
use crate::process::{PerProcess, watch_forks};
use crate::refused::Refused;
use crate::socket::{self, Incoming, Stream};
use crate::wire::{self, HEAD_CHANGED_SIZE, HEAD_SIZE, Locked, Malformed, READ_MAX, Request};

/// The databases that clients have open, by number.
#[derive(Default)]
struct Sessions {
    next: u64,
    open: HashMap<u64, Session>,
}

struct Session {
    /// The process of the client.
    pid: i32,
    file: Weak<Mutex<MainFile>>,
}

static SESSIONS: PerProcess<Mutex<Sessions>> = PerProcess::new();

/// A client with its database.
struct Client {
    number: u64,
    pid: i32,
    file: Arc<Mutex<MainFile>>,
}

/// A process that owns a pool, and serves its databases to other processes until this is dropped and their connections have
/// ended: `tembo sqlite serve`. Any program that opens a database is one without asking for it; this one outlives them.
pub struct Owner {
    pool: PoolRef,
    socket: PathBuf,
}

/// Why a pool cannot be served.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OwnerError {
    /// Of the store: damage, no room.
    #[error(transparent)]
    Store(#[from] tembo_array::Error),
    /// The system gives no socket: something else lies at its path, or the folder may not be written to.
    #[error("listening at {socket}", socket = socket.display())]
    Socket {
        /// The path of the socket.
        socket: PathBuf,
        /// Of the system.
        source: io::Error,
    },
}

impl Owner {
    /// Serves the databases of a store, which is that of the pool at `path`. Clients may connect when it returns.
    ///
    /// # Errors
    /// [`OwnerError`].
    pub fn new(path: &Path, store: Store) -> Result<Owner, OwnerError> {
        watch_forks();
        let path = pool::canonical(path);
        let socket = socket::path_beside(&path);
        let (pool, served) = pool::adopt(&path, store, serve)?;
        match served {
            Ok(()) => Ok(Owner { pool, socket }),
            Err(source) => Err(OwnerError::Socket { socket, source }),
        }
    }

    /// Makes durable what was committed without a sync, also while clients go on.
    ///
    /// Durability point: all that was visible before the call is durable when it returns.
    ///
    /// # Errors
    /// A failed sync: what was committed may not be durable.
    pub fn sync(&self) -> Result<(), OwnerError> {
        self.pool.sync().map_err(|error| OwnerError::Store(error.into()))
    }

    /// Where it listens.
    pub fn socket(&self) -> &Path {
        &self.socket
    }
}

impl Drop for Owner {
    fn drop(&mut self) {
        // `sync` reports what a failure is.
        let _ = self.sync();
    }
}

/// Why a client is served no more.
enum End {
    /// It is gone.
    Io,
    /// What it sent is no request.
    Malformed,
}

impl From<io::Error> for End {
    fn from(_: io::Error) -> End {
        End::Io
    }
}

impl From<Malformed> for End {
    fn from(_: Malformed) -> End {
        End::Malformed
    }
}

/// Serves a client until it ends its connection, or breaks the protocol.
pub(crate) fn serve(stream: Stream, pool: &Weak<Pool>) {
    // Either way the connection ends, and with it what the client had open.
    match serve_frames(&stream, pool) {
        Ok(()) | Err(End::Io | End::Malformed) => {}
    }
}

fn serve_frames(stream: &UnixStream, pool: &Weak<Pool>) -> Result<(), End> {
    let pid = socket::peer(stream)?;
    let (mut incoming, mut request, mut reply) = (Incoming::default(), Vec::new(), Vec::new());
    incoming.receive(stream, &mut request)?;
    let opened = match Request::of(&request)? {
        Request::Open { device, creates, view } => {
            // The pool is closed, or its file was removed: the client looks for the next owner.
            let Some(pool) = PoolRef::of(pool).filter(PoolRef::is_in_place) else { return Ok(()) };
            let database = pool.database(device, creates);
            database.and_then(|database| MainFile::new(database, &view))
        }
        _ => return Err(End::Malformed),
    };
    let client = opened.map(|file| Client::new(pid, file));
    let answer = client.as_ref().map(|client| client.number).map_err(Clone::clone);
    send(stream, &mut reply, answer.map(|number| number.to_le_bytes()))?;
    let Ok(client) = client else { return Ok(()) };
    loop {
        incoming.receive(stream, &mut request)?;
        let answer = client.answer(&Request::of(&request)?)?;
        send(stream, &mut reply, answer)?;
    }
}

/// Sends what was done: a code of SQLite's, and the rest, of an error why it is one.
fn send(
    stream: &UnixStream,
    reply: &mut Vec<u8>,
    answer: Result<impl AsRef<[u8]>, Refused>,
) -> io::Result<()> {
    socket::begin(reply);
    match answer {
        Ok(data) => {
            reply.extend(OK.to_le_bytes());
            reply.extend(data.as_ref());
        }
        Err(Refused { code: Code(code), why }) => {
            reply.extend(code.to_le_bytes());
            reply.extend(why.as_bytes());
        }
    }
    socket::send_frame(stream, reply)
}

fn durability(is_synced: bool) -> Durability {
    if is_synced { Durability::Strict } else { Durability::Written }
}

impl Client {
    fn new(pid: i32, file: MainFile) -> Client {
        let file = Arc::new(Mutex::new(file));
        let mut sessions = SESSIONS.get().lock();
        let number = sessions.next;
        sessions.next += 1;
        sessions.open.insert(number, Session { pid, file: Arc::downgrade(&file) });
        Client { number, pid, file }
    }

    /// Does what is asked for.
    fn answer(&self, request: &Request<'_>) -> Result<Result<Vec<u8>, Refused>, Malformed> {
        if let Request::CommitAll { is_synced, sessions } = request {
            return Ok(self.commit_all(&wire::numbers(sessions)?, *is_synced));
        }
        let file = &mut *self.file.lock();
        Ok(match request {
            Request::Write(batch) => {
                for write in wire::writes(batch) {
                    let (offset, bytes) = write?;
                    if let Err(code) = file.write(offset, bytes) {
                        return Ok(Err(code.into()));
                    }
                }
                Ok(Vec::new())
            }
            Request::Read { len, .. } if *len as usize > READ_MAX => return Err(Malformed),
            Request::Open { .. } | Request::CommitAll { .. } => return Err(Malformed),
            request => do_with(file, request),
        })
    }

    /// Commits sessions of its process together.
    fn commit_all(&self, numbers: &[u64], is_synced: bool) -> Result<Vec<u8>, Refused> {
        let mut numbers = numbers.to_vec();
        // In one order, so that two such commits do not wait for each other for ever.
        numbers.sort_unstable();
        numbers.dedup();
        let sessions = SESSIONS.get().lock();
        let of = |number| sessions.open.get(number).filter(|session| session.pid == self.pid);
        let files: Option<Vec<_>> =
            numbers.iter().map(|number| of(number)?.file.upgrade()).collect();
        drop(sessions);
        let files = files.ok_or(Code::IOERR)?;
        let mut files: Vec<_> = files.iter().map(|file| file.lock()).collect();
        let mut files: Vec<&mut MainFile> = files.iter_mut().map(|file| &mut **file).collect();
        if files.iter().any(|file| file.level() < LOCK_RESERVED) {
            return Err(Code::IOERR.into());
        }
        main_file::commit(&mut files, durability(is_synced))?;
        Ok(Vec::new())
    }
}

fn do_with(file: &mut MainFile, request: &Request<'_>) -> Result<Vec<u8>, Refused> {
    match request {
        Request::Lock { level, known } => {
            let before = file.level();
            file.lock(*level)?;
            // A lock that the client is not given is not held.
            Ok(locked(file, *known).inspect_err(|_| file.unlock(before))?)
        }
        Request::Unlock(level) => {
            file.unlock(*level);
            Ok(Vec::new())
        }
        Request::Read { offset, len } => {
            let mut data = vec![0; *len as usize];
            let len = file.read(*offset, &mut data)?;
            data.truncate(len);
            Ok(data)
        }
        Request::Truncate(len) => {
            file.truncate(*len)?;
            Ok(Vec::new())
        }
        Request::Len => Ok(file.len()?.to_le_bytes().to_vec()),
        Request::Commit { is_synced } => {
            main_file::commit(&mut [file], durability(*is_synced))?;
            Ok(Vec::new())
        }
        Request::HasWriter => Ok(vec![u8::from(file.has_writer())]),
        Request::Pragma { name, value } => {
            pragma::answer(file, name, *value).map(String::into_bytes)
        }
        Request::Open { .. } | Request::Write(_) | Request::CommitAll { .. } => {
            Err(Code::IOERR.into())
        }
    }
}

/// What comes with a lock, for a client that knows of so many commits.
fn locked(file: &mut MainFile, known: u64) -> Result<Vec<u8>, Code> {
    let (commits, changed) = file.changed_since(known)?;
    let is_same = changed.as_ref().is_some_and(Vec::is_empty);
    let mut head = vec![0; if is_same { HEAD_SIZE } else { HEAD_CHANGED_SIZE }];
    let len = file.read(0, &mut head)?;
    head.truncate(len);
    let mut data = Vec::new();
    Locked { commits, changed, len: file.len()?, head }.put(&mut data);
    Ok(data)
}

impl Drop for Client {
    fn drop(&mut self) {
        SESSIONS.get().lock().open.remove(&self.number);
        self.file.lock().unlock(LOCK_NONE);
    }
}
