//! The owner of a pool serves other processes: what a client asks for is done with a [`MainFile`] of its own, as for a connection
//! of this process. When the client ends, however it ends, its locks and its transaction go with it.

use std::collections::HashMap;
use std::io;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Weak};
use std::time::Duration;

use parking_lot::Mutex;
use tembo_kv::{Durability, Store};

use crate::code::{Code, LOCK_NONE, LOCK_RESERVED, OK};
use crate::kept_lock::{IDLE_MAX, KeptLock};
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
    /// None, if the system has no memory for it.
    lock: Option<Arc<KeptLock>>,
}

/// What a client asks for, as it comes.
struct Requests<'s> {
    stream: &'s UnixStream,
    incoming: Incoming,
    /// The wait for the next one ends at times, for the client may keep a lock.
    is_timed: bool,
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
    let mut requests = Requests { stream, incoming: Incoming::default(), is_timed: false };
    let (mut request, mut reply) = (Vec::new(), Vec::new());
    requests.incoming.receive(stream, &mut request)?;
    let opened = match Request::of(&request)? {
        Request::Open { device, creates, view } => {
            // The pool is closed, or its file was removed: the client looks for the next owner.
            let Some(pool) = PoolRef::of(pool).filter(PoolRef::is_in_place) else { return Ok(()) };
            let database = pool.database(device, creates);
            database.and_then(|database| MainFile::new(database, &view))
        }
        _ => return Err(End::Malformed),
    };
    let (lock, memory) = KeptLock::new().ok().unzip();
    let client = opened.map(|file| Client::new(pid, file, lock));
    let answer = client.as_ref().map(|client| client.number.to_le_bytes()).map_err(Clone::clone);
    put(&mut reply, answer);
    match (&client, memory) {
        (Ok(_), Some(memory)) => socket::send_frame_with(stream, &mut reply, &memory)?,
        _ => socket::send_frame(stream, &mut reply)?,
    }
    let Ok(client) = client else { return Ok(()) };
    loop {
        requests.next(&client, &mut request)?;
        let answer = client.answer(&Request::of(&request)?)?;
        put(&mut reply, answer);
        socket::send_frame(stream, &mut reply)?;
    }
}

impl Requests<'_> {
    /// Waits for the next one. A lock that the client keeps and does not use is taken back meanwhile.
    fn next(&mut self, client: &Client, to: &mut Vec<u8>) -> io::Result<()> {
        if !self.is_timed && client.has_lock() {
            self.time(Some(IDLE_MAX))?;
        }
        loop {
            match self.incoming.receive(self.stream, to) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    if client.take_back(&mut client.file.lock()) {
                        self.time(None)?;
                    }
                }
                received => return received,
            }
        }
    }

    fn time(&mut self, limit: Option<Duration>) -> io::Result<()> {
        self.is_timed = limit.is_some();
        self.stream.set_read_timeout(limit)
    }
}

/// Puts what was done into a frame: a code of SQLite's, and the rest, of an error why it is one.
fn put(reply: &mut Vec<u8>, answer: Result<impl AsRef<[u8]>, Refused>) {
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
}

fn durability(is_synced: bool) -> Durability {
    if is_synced { Durability::Strict } else { Durability::Written }
}

impl Client {
    fn new(pid: i32, file: MainFile, lock: Option<KeptLock>) -> Client {
        let lock = lock.map(Arc::new);
        lock.iter().for_each(|lock| file.database().kept_locks().add(lock));
        let file = Arc::new(Mutex::new(file));
        let mut sessions = SESSIONS.get().lock();
        let number = sessions.next;
        sessions.next += 1;
        sessions.open.insert(number, Session { pid, file: Arc::downgrade(&file) });
        Client { number, pid, file, lock }
    }

    /// Whether a transaction of it has a lock.
    fn has_lock(&self) -> bool {
        self.lock.as_ref().is_some_and(|lock| lock.is_in_use())
    }

    /// Takes back a lock that no transaction of it uses, with the snapshot. Whether it has none now.
    fn take_back(&self, file: &mut MainFile) -> bool {
        let has_none = self.lock.as_ref().is_some_and(|lock| lock.take_back());
        if has_none {
            file.unlock(LOCK_NONE);
        }
        has_none
    }

    /// Gives a lock, which it may keep from then on.
    fn give(&self, file: &mut MainFile, level: i32, known: u64) -> Result<Vec<u8>, Refused> {
        let (before, settled) = (file.level(), file.database().recent().settled());
        let kept = self.lock.as_ref().filter(|_| before == LOCK_NONE);
        kept.iter().for_each(|kept| kept.give());
        let given = file.lock(level).and_then(|()| locked(file, known));
        match given {
            Ok(data) => {
                // Of a commit that has begun before the lock was given the snapshot may show nothing.
                if settled.is_none() || file.database().recent().settled() != settled {
                    kept.iter().for_each(|kept| kept.outdate());
                }
                Ok(data)
            }
            Err(code) => {
                // A lock that the client is not given is not held.
                file.unlock(before);
                kept.iter().for_each(|kept| kept.end());
                Err(code.into())
            }
        }
    }

    /// Does what is asked for.
    fn answer(&self, request: &Request<'_>) -> Result<Result<Vec<u8>, Refused>, Malformed> {
        if let Request::CommitAll { is_synced, sessions } = request {
            return Ok(self.commit_all(&wire::numbers(sessions)?, *is_synced));
        }
        let file = &mut *self.file.lock();
        self.take_back(file);
        Ok(match request {
            Request::Lock { level, known } => self.give(file, *level, *known),
            Request::Unlock(level) => {
                file.unlock(*level);
                let lock = self.lock.as_ref().filter(|_| file.level() == LOCK_NONE);
                lock.iter().for_each(|lock| lock.end());
                Ok(Vec::new())
            }
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
        // They are done elsewhere.
        Request::Open { .. }
        | Request::Lock { .. }
        | Request::Unlock(_)
        | Request::Write(_)
        | Request::CommitAll { .. } => Err(Code::IOERR.into()),
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

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, AtomicU8, AtomicUsize, Ordering};

    use tembo_array::Isolation;

    use super::*;
    use crate::code::LOCK_SHARED;
    use crate::kept_lock::KEPT_MAX;
    use crate::pool::Database;
    use crate::recent::Changes;
    use crate::remote::RemoteFile;
    use crate::view::View;

    const PAGE: usize = 4096;

    /// A pool that is served, with a database in it, and a way to it as of another process.
    struct Served {
        folder: tempfile::TempDir,
        database: Arc<Database>,
    }

    impl Served {
        fn new() -> Served {
            let folder = tempfile::tempdir().unwrap();
            let pool = pool::own(&folder.path().join("a.pool"), true, None, serve);
            let database = pool.unwrap().unwrap().database("main", true).unwrap();
            let served = Served { folder, database };
            put(&mut served.writer(), 0);
            served
        }

        /// A connection of the owner's own process.
        fn writer(&self) -> MainFile {
            MainFile::new(self.database.clone(), &View::Current).unwrap()
        }

        fn client(&self) -> RemoteFile {
            let path = self.folder.path().join("a.pool");
            RemoteFile::open(&path, "main", false, &View::Current).unwrap().unwrap()
        }

        /// Whether the only client has a lock, as the owner knows it.
        fn has_lock(&self) -> bool {
            let sessions = SESSIONS.get().lock();
            let files = sessions.open.values().filter_map(|session| session.file.upgrade());
            let mut of_this =
                files.filter(|file| Arc::ptr_eq(file.lock().database(), &self.database));
            of_this.any(|file| file.lock().level() != LOCK_NONE)
        }
    }

    /// A page as SQLite would write it: pages 1 and 3 have the value, and page 1 the counter.
    fn page(value: u8) -> Vec<u8> {
        let mut page = vec![value; PAGE];
        for place in [24, 92] {
            page[place..place + 4].copy_from_slice(&u32::from(value).to_be_bytes());
        }
        page
    }

    /// Commits a value.
    fn put(file: &mut MainFile, value: u8) {
        file.lock(LOCK_RESERVED).unwrap();
        file.write(0, &page(value)).unwrap();
        file.write(2 * PAGE as u64, &vec![value; PAGE]).unwrap();
        main_file::commit(&mut [file], Durability::Strict).unwrap();
        file.unlock(LOCK_NONE);
    }

    /// Reads both pages in a transaction of their own; the value, and how many requests it took.
    fn look(file: &mut RemoteFile) -> (u8, usize) {
        let before = file.requests;
        let (mut first, mut third) = (vec![0; PAGE], vec![0; PAGE]);
        file.lock(LOCK_SHARED).unwrap();
        assert_eq!(file.read(2 * PAGE as u64, &mut third), Ok(PAGE));
        assert_eq!(file.read(0, &mut first), Ok(PAGE));
        file.unlock(LOCK_NONE);
        assert_eq!((&first, &third), (&page(third[0]), &vec![third[0]; PAGE]));
        (third[0], file.requests - before)
    }

    /// Whether transactions that read this value ask for nothing. One may: the owner takes back a lock that is not used for some time.
    fn knows(file: &mut RemoteFile, value: u8) -> bool {
        (0..100).any(|_| {
            let (found, requests) = look(file);
            assert_eq!(found, value);
            requests == 0
        })
    }

    #[test]
    fn a_transaction_that_reads_what_is_known_asks_for_nothing_until_there_is_a_commit() {
        let served = Served::new();
        let (mut writer, mut file) = (served.writer(), served.client());
        assert!(knows(&mut file, 0));
        put(&mut writer, 1);
        // The lock, and both pages: page 1 comes with the lock.
        assert_eq!(look(&mut file), (1, 2));
        assert!(knows(&mut file, 1));
        // One that has begun reads what it has seen, and gives its lock up by a request.
        file.lock(LOCK_SHARED).unwrap();
        put(&mut writer, 2);
        let mut third = vec![0; PAGE];
        assert_eq!(file.read(2 * PAGE as u64, &mut third), Ok(PAGE));
        assert_eq!((third[0], file.lock(LOCK_RESERVED)), (1, Err(Code::BUSY_SNAPSHOT)));
        file.unlock(LOCK_NONE);
        assert_eq!(look(&mut file), (2, 2));
        // A lock that was kept becomes a writer's.
        file.lock(LOCK_SHARED).unwrap();
        file.lock(LOCK_RESERVED).unwrap();
        file.write(0, &page(3)).unwrap();
        file.write(2 * PAGE as u64, &vec![3; PAGE]).unwrap();
        file.commit(true).unwrap();
        file.unlock(LOCK_NONE);
        assert!(knows(&mut file, 3));
        assert_eq!(look(&mut served.client()).0, 3);
    }

    #[test]
    fn a_lock_is_kept_for_some_time_and_only_with_its_owner() {
        let served = Served::new();
        let mut file = served.client();
        assert!(knows(&mut file, 0));
        file.age(KEPT_MAX);
        assert_eq!(look(&mut file), (0, 1));
        assert!(knows(&mut file, 0));
        // The owner takes back what is not used.
        while served.has_lock() {
            std::thread::yield_now();
        }
        assert_eq!(look(&mut file), (0, 1));
        assert!(knows(&mut file, 0));
        file.hang_up();
        assert_eq!(file.lock(LOCK_SHARED), Err(Code::IOERR));
        assert!(file.is_lost());
    }

    #[test]
    fn what_is_read_outside_of_a_transaction_is_the_newest() {
        let served = Served::new();
        let (mut writer, mut file) = (served.writer(), served.client());
        look(&mut file);
        for value in 1..20 {
            put(&mut writer, value);
            let mut third = vec![0; PAGE];
            assert_eq!(file.read(2 * PAGE as u64, &mut third), Ok(PAGE));
            assert_eq!(third[0], value);
            assert_eq!(look(&mut file).0, value);
        }
    }

    #[test]
    fn without_the_memory_each_lock_is_asked_for() {
        let served = Served::new();
        let (mut writer, mut file) = (served.writer(), served.client());
        file.keep_no_locks();
        look(&mut file);
        for value in 1..20 {
            // A lock, and its end.
            assert_eq!(look(&mut file), (value - 1, 2));
            put(&mut writer, value);
            assert_eq!(look(&mut file), (value, 3));
        }
    }

    /// Another connection may have shown it to a program, which notifies the client of it.
    #[test]
    fn what_is_visible_is_shown_by_the_next_transaction_though_its_commit_waits() {
        let served = Served::new();
        let (mut writer, mut file) = (served.writer(), served.client());
        for value in (1..40).step_by(2) {
            put(&mut writer, value);
            assert!(knows(&mut file, value));
            // A commit by its steps.
            let mut tx = served.database.array().unwrap().transaction(Isolation::None).unwrap();
            tx.write(served.database.device(), 0, &page(value + 1)).unwrap();
            let third = vec![value + 1; PAGE];
            tx.write(served.database.device(), 2 * PAGE as u64, &third).unwrap();
            let mut changes = Changes::default();
            changes.add(0..3 * PAGE as u64);
            served.database.begin_commit(changes);
            if value % 4 == 1 {
                // With a lock that is given while it is under way.
                assert_eq!(look(&mut file).0, value);
            }
            tx.commit(Durability::Strict).unwrap();
            assert_eq!(look(&mut file).0, value + 1);
            served.database.recent().end();
            assert!(knows(&mut file, value + 1));
        }
    }

    #[test]
    fn what_begins_behind_an_acknowledged_commit_shows_it() {
        let served = Served::new();
        let (acknowledged, has_ended) = (AtomicU8::new(0), AtomicBool::new(false));
        let (asked, kept) = (AtomicUsize::new(0), AtomicUsize::new(0));
        let read = || {
            let mut file = served.client();
            while !has_ended.load(Ordering::SeqCst) {
                let least = acknowledged.load(Ordering::SeqCst);
                let (value, requests) = look(&mut file);
                assert!(value >= least, "{value} of {least}");
                let count = if requests == 0 { &kept } else { &asked };
                count.fetch_add(1, Ordering::SeqCst);
            }
        };
        std::thread::scope(|scope| {
            let readers = [scope.spawn(read), scope.spawn(read)];
            let mut writer = served.writer();
            for value in 1..=250 {
                put(&mut writer, value);
                acknowledged.store(value, Ordering::SeqCst);
                // So that some transactions of the readers find nothing new.
                let before = kept.load(Ordering::SeqCst);
                while value % 4 == 0
                    && kept.load(Ordering::SeqCst) == before
                    && !readers.iter().any(std::thread::ScopedJoinHandle::is_finished)
                {
                    std::thread::yield_now();
                }
            }
            has_ended.store(true, Ordering::SeqCst);
        });
        assert!(kept.into_inner() > 0 && asked.into_inner() > 0);
    }
}
