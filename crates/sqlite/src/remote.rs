//! A database of a pool that another process owns.
//!
//! One connection to the owner a database. Pages that are read in order come several at a time; pages that are written go
//! several at a time. Both buffers are of one lock's duration. Pages that are read out of order are kept for longer: the owner says with
//! each lock what has changed, so that after another's commit only that is read again. So is the lock itself, while nothing changes: a
//! transaction that reads what is known asks for nothing ([`kept_lock`](crate::kept_lock)).

use std::io;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use crate::code::{Code, LOCK_NONE, LOCK_RESERVED, LOCK_SHARED, OK};
use crate::kept_lock::{KEPT_MAX, KeptLock};
use crate::kept_pages::KeptPages;
use crate::page_one;
use crate::refused::Refused;
use crate::socket::{self, Incoming, Stream};
use crate::view::View;
use crate::wire::{self, BATCH_SIZE, HEAD_CHANGED_SIZE, Locked, READ_MAX, Request, WRITE_MAX};

/// An open database, at the owner.
pub(crate) struct RemoteFile {
    stream: Stream,
    /// Where the owner listens.
    socket: PathBuf,
    /// The number that the owner has given it.
    number: u64,
    frame: Vec<u8>,
    incoming: Incoming,
    reply: Vec<u8>,
    /// A reply that was not waited for is to come first.
    is_owed: bool,
    /// The owner is gone, or it does not speak the protocol.
    is_lost: bool,
    lock: i32,
    /// What came with the lock, while nothing was written.
    locked: Option<Locked>,
    /// None, if the system or the owner has none.
    kept_lock: Option<KeptLock>,
    /// What came with the lock that is kept.
    kept: Option<Locked>,
    /// When the owner has given the last lock.
    given: Instant,
    /// Bytes that were read, while nothing was written, and where they stand.
    read: Vec<u8>,
    read_at: u64,
    /// Where the last read ended, and how many bytes it has asked for.
    next: u64,
    window: usize,
    /// What was read under this lock and earlier ones, as it is under this one; of what the transaction has written nothing.
    pages: KeptPages,
    /// Commits that the snapshot of the last lock had, and its change counter.
    known: u64,
    counter: u32,
    /// It has written since it has the lock.
    has_written: bool,
    /// Writes that were not sent yet.
    writes: Vec<u8>,
    /// The error of writes that were sent late: the transaction is not whole, and cannot be committed.
    failed: Option<Code>,
    /// Requests that were sent.
    #[cfg(test)]
    pub(crate) requests: usize,
}

/// How long the owner may take to open a database.
const PATIENCE: Duration = Duration::from_secs(10);

/// Where in a reply the data begin.
const DATA: usize = 4;

impl RemoteFile {
    /// Opens a database at the owner of a pool. `None`: no owner listens, or it is about to end.
    ///
    /// # Errors
    /// Those of the owner.
    pub(crate) fn open(
        pool: &Path,
        device: &str,
        creates: bool,
        view: &View,
    ) -> Result<Option<RemoteFile>, Refused> {
        let socket = socket::path_beside(pool);
        let Ok(stream) = socket::connect(&socket).map(Stream::new) else { return Ok(None) };
        match socket::peer(&stream) {
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
                return Err(Code::CANTOPEN.into());
            }
            Err(_) => return Ok(None),
        }
        let mut file = RemoteFile {
            stream,
            socket,
            number: 0,
            frame: Vec::new(),
            incoming: Incoming::default(),
            reply: Vec::new(),
            is_owed: false,
            is_lost: false,
            lock: LOCK_NONE,
            locked: None,
            kept_lock: None,
            kept: None,
            given: Instant::now(),
            read: Vec::new(),
            read_at: 0,
            next: 0,
            window: 0,
            pages: KeptPages::default(),
            known: u64::MAX,
            counter: 0,
            has_written: false,
            writes: Vec::new(),
            failed: None,
            #[cfg(test)]
            requests: 0,
        };
        // One that does not answer is stopped, or it is no owner.
        let patience = |stream: &UnixStream, time| stream.set_read_timeout(time).is_ok();
        if !patience(&file.stream, Some(PATIENCE)) {
            return Ok(None);
        }
        let opened = file.call_first(&Request::Open { device, creates, view: view.clone() });
        if !patience(&file.stream, None) {
            return Ok(None);
        }
        match opened {
            Ok(Ok(number)) => {
                file.number = number;
                Ok(Some(file))
            }
            _ if file.is_lost => Ok(None),
            Ok(Err(_)) => Err(Code::IOERR.into()),
            Err(code) => Err(file.refused(code)),
        }
    }

    /// With what the owner says of the last request, which it has refused with this code.
    fn refused(&self, code: Code) -> Refused {
        let said = self.reply.get(DATA..).filter(|_| !self.is_lost);
        let why = said.unwrap_or_default();
        Refused { code, why: String::from_utf8_lossy(why).into_owned() }
    }

    /// Whether the owner is gone, with what was not committed.
    pub(crate) fn is_lost(&self) -> bool {
        self.is_lost
    }

    /// Whether both have the same owner.
    pub(crate) fn shares_pool(&self, other: &RemoteFile) -> bool {
        self.socket == other.socket
    }

    /// Opens the database; the number of the session, if it is one.
    fn call_first(&mut self, request: &Request<'_>) -> Result<Result<u64, wire::Malformed>, Code> {
        let sent = self.send(request);
        let file = sent.and_then(|()| self.incoming.receive_first(&self.stream, &mut self.reply));
        let answered = file.map(|file| {
            // Without it each lock is asked for.
            self.kept_lock = file.and_then(|file| KeptLock::of(&file).ok());
        });
        self.answer(answered).map(wire::number)
    }

    /// Asks the owner; the data of its reply.
    fn call(&mut self, request: &Request<'_>) -> Result<&[u8], Code> {
        if self.is_lost {
            return Err(Code::IOERR);
        }
        let answered = self.send(request).and_then(|()| self.receive());
        self.answer(answered)
    }

    /// The data of the reply, if it has come and there is no error in it.
    fn answer(&mut self, answered: io::Result<()>) -> Result<&[u8], Code> {
        let code = match (answered, self.reply.first_chunk()) {
            (Ok(()), Some(code)) => i32::from_le_bytes(*code),
            _ => {
                self.is_lost = true;
                return Err(Code::IOERR);
            }
        };
        if code == OK { Ok(&self.reply[DATA..]) } else { Err(Code(code)) }
    }

    fn send(&mut self, request: &Request<'_>) -> io::Result<()> {
        #[cfg(test)]
        {
            self.requests += 1;
        }
        socket::begin(&mut self.frame);
        request.put(&mut self.frame);
        socket::send_frame(&self.stream, &mut self.frame)
    }

    /// The reply to the last request.
    fn receive(&mut self) -> io::Result<()> {
        if std::mem::take(&mut self.is_owed) {
            self.incoming.receive(&self.stream, &mut self.reply)?;
        }
        self.incoming.receive(&self.stream, &mut self.reply)
    }

    /// Sends the writes that wait. Once that has failed, it fails until the transaction is given up.
    fn send_writes(&mut self) -> Result<(), Code> {
        if let Some(code) = self.failed {
            return Err(code);
        }
        if self.writes.is_empty() {
            return Ok(());
        }
        let writes = std::mem::take(&mut self.writes);
        let sent = self.call(&Request::Write(&writes)).map(|_| ());
        self.writes = writes;
        self.writes.clear();
        sent.inspect_err(|code| self.failed = Some(*code))
    }

    /// Forgets what was read.
    fn forget(&mut self) {
        self.locked = None;
        self.read.clear();
    }

    /// Of what was kept drops what may have changed since the last lock.
    fn keep_unchanged(&mut self, locked: &Locked) {
        let counter = page_one::counter(&locked.head);
        // Each commit of SQLite's adds one, mostly. If that is not so, the database was changed in another way too.
        let commits = locked.commits.wrapping_sub(self.known) as u32;
        match &locked.changed {
            Some(ranges) if counter == self.counter.wrapping_add(commits) => {
                ranges.iter().for_each(|range| self.pages.forget(range.clone()));
            }
            _ => self.pages.clear(),
        }
        (self.known, self.counter) = (locked.commits, counter);
        if locked.head.len() == HEAD_CHANGED_SIZE && !self.has_written {
            self.pages.put(0, &locked.head);
        }
    }

    /// Whether what was read holds until the next write or unlock.
    fn may_keep(&self) -> bool {
        self.lock >= LOCK_SHARED
    }

    /// Reads; how many bytes: fewer at the end.
    pub(crate) fn read(&mut self, offset: u64, to: &mut [u8]) -> Result<usize, Code> {
        self.send_writes()?;
        if let Some(done) = self.copy_kept(offset, to) {
            self.next = offset + done as u64;
            return Ok(done);
        }
        // What is read in order is asked for in larger and larger parts.
        self.window = match offset == self.next && self.may_keep() {
            true => (self.window * 2).clamp(to.len(), READ_MAX),
            false => to.len(),
        };
        if self.window > READ_MAX {
            return Err(Code::IOERR);
        }
        let len = self.window as u32;
        let data = self.call(&Request::Read { offset, len })?;
        let done = data.len().min(to.len());
        to[..done].copy_from_slice(&data[..done]);
        if self.may_keep() {
            self.read.clear();
            self.read.extend(&self.reply[DATA..]);
            self.read_at = offset;
            // What is read in order is seldom read again.
            if self.window == to.len() && done == to.len() && !self.has_written {
                self.pages.put(offset, to);
            }
        }
        self.next = offset + done as u64;
        Ok(done)
    }

    /// Reads from what is known. `None`: it does not reach.
    fn copy_kept(&mut self, offset: u64, to: &mut [u8]) -> Option<usize> {
        let part = |kept_at: u64, kept: &[u8], to: &mut [u8]| {
            let from = usize::try_from(offset.checked_sub(kept_at)?).ok()?;
            to.copy_from_slice(kept.get(from..from.checked_add(to.len())?)?);
            Some(to.len())
        };
        let head = self.locked.as_ref().and_then(|locked| part(0, &locked.head, to));
        let near = head.or_else(|| part(self.read_at, &self.read, to));
        near.or_else(|| (self.may_keep() && self.pages.copy(offset, to)).then_some(to.len()))
    }

    pub(crate) fn len(&mut self) -> Result<u64, Code> {
        self.send_writes()?;
        match &self.locked {
            Some(locked) => Ok(locked.len),
            None => wire::number(self.call(&Request::Len)?).map_err(|_| Code::IOERR),
        }
    }

    /// Writes, at the latest before the commit.
    pub(crate) fn write(&mut self, offset: u64, bytes: &[u8]) -> Result<(), Code> {
        if self.is_lost || bytes.len() > WRITE_MAX {
            return Err(Code::IOERR);
        }
        if let Some(code) = self.failed {
            return Err(code);
        }
        self.forget();
        self.has_written = true;
        self.pages.forget(offset..offset + bytes.len() as u64);
        wire::put_write(&mut self.writes, offset, bytes);
        if self.writes.len() >= BATCH_SIZE { self.send_writes() } else { Ok(()) }
    }

    pub(crate) fn truncate(&mut self, len: u64) -> Result<(), Code> {
        self.send_writes()?;
        self.forget();
        self.has_written = true;
        self.pages.forget(len..u64::MAX);
        self.call(&Request::Truncate(len)).map(|_| ())
    }

    /// What waits is at the owner when it returns: from here on an error of a write would come too late.
    pub(crate) fn sync(&mut self) -> Result<(), Code> {
        self.send_writes()
    }

    pub(crate) fn has_writer(&mut self) -> Result<bool, Code> {
        Ok(self.call(&Request::HasWriter)? == [1])
    }

    /// # Errors
    /// [`Code::BUSY`], [`Code::BUSY_SNAPSHOT`] as of a lock in this process; the latter too if the owner has ended under the
    /// reader's lock: its snapshot is lost.
    pub(crate) fn lock(&mut self, level: i32) -> Result<(), Code> {
        if level <= self.lock {
            return Ok(());
        }
        let had = self.lock;
        if had >= LOCK_RESERVED {
            // It keeps all other writers out already, and readers need not be kept out.
            self.lock = level;
            return Ok(());
        }
        if had == LOCK_NONE && level == LOCK_SHARED && self.take_kept() {
            return Ok(());
        }
        match self.call(&Request::Lock { level, known: self.known }).map(Locked::of) {
            Ok(Ok(locked)) => {
                self.keep_unchanged(&locked);
                (self.locked, self.lock) = (Some(locked), level);
                self.given = Instant::now();
                Ok(())
            }
            Ok(Err(_)) => Err(Code::IOERR),
            Err(_) if self.is_lost && had == LOCK_SHARED => Err(Code::BUSY_SNAPSHOT),
            Err(code) => Err(code),
        }
    }

    /// Begins a transaction with the lock of the last one, if that shows the newest version.
    fn take_kept(&mut self) -> bool {
        let Some(kept) = self.kept.take() else { return false };
        let is_there = self.given.elapsed() < KEPT_MAX
            && socket::is_quiet(&self.stream)
            && self.kept_lock.as_ref().is_some_and(KeptLock::take);
        if is_there {
            (self.locked, self.lock) = (Some(kept), LOCK_SHARED);
        }
        is_there
    }

    /// As with an owner, or a system, that has no memory for the lock.
    #[cfg(test)]
    pub(crate) fn keep_no_locks(&mut self) {
        self.kept_lock = None;
    }

    /// As if the owner had given the last lock so much earlier.
    #[cfg(test)]
    pub(crate) fn age(&mut self, time: Duration) {
        self.given -= time;
    }

    /// As if the owner had ended.
    #[cfg(test)]
    pub(crate) fn hang_up(&self) {
        self.stream.shutdown(std::net::Shutdown::Both).unwrap();
    }

    /// Ends a transaction that has read, and keeps its lock, if no commit has ended since.
    fn keep(&mut self) -> bool {
        if self.is_lost || self.is_owed {
            return false;
        }
        self.kept = self.locked.take();
        let is_kept = self.kept.is_some() && self.kept_lock.as_ref().is_some_and(KeptLock::keep);
        if !is_kept {
            self.kept = None;
        }
        is_kept
    }

    /// Gives up locks; a transaction that was not committed is dropped. An owner that is gone has done so.
    pub(crate) fn unlock(&mut self, level: i32) {
        if level >= self.lock {
            return;
        }
        let is_kept = (self.lock, level) == (LOCK_SHARED, LOCK_NONE) && self.keep();
        self.forget();
        self.writes.clear();
        let had = std::mem::replace(&mut self.lock, level);
        if level < LOCK_RESERVED {
            (self.failed, self.has_written) = (None, false);
        }
        if is_kept || self.is_lost || level >= LOCK_RESERVED {
            return;
        }
        if had == LOCK_SHARED && !self.is_owed {
            // No other connection waits for the end of a reader.
            match self.send(&Request::Unlock(level)) {
                Ok(()) => self.is_owed = true,
                Err(_) => self.is_lost = true,
            }
            return;
        }
        // An error loses the connection, and the owner drops the locks.
        let _ = self.call(&Request::Unlock(level)).map(|_| ());
    }

    /// Commits. If the owner is lost meanwhile, the error leaves open whether the commit is there: it may be.
    pub(crate) fn commit(&mut self, is_synced: bool) -> Result<(), Code> {
        self.send_writes()?;
        self.forget();
        self.call(&Request::Commit { is_synced }).map(|_| ())
    }

    /// Commits what databases of one owner have written, together.
    pub(crate) fn commit_all(files: &mut [&mut RemoteFile], is_synced: bool) -> Result<(), Code> {
        let mut sessions = Vec::new();
        for file in &mut *files {
            file.send_writes()?;
            file.forget();
            sessions.extend(file.number.to_le_bytes());
        }
        let Some(first) = files.first_mut() else { return Ok(()) };
        first.call(&Request::CommitAll { is_synced, sessions: &sessions }).map(|_| ())
    }

    pub(crate) fn pragma(&mut self, name: &str, value: Option<&str>) -> Result<String, Refused> {
        self.send_writes()?;
        match self.call(&Request::Pragma { name, value }) {
            Ok(answer) => Ok(String::from_utf8_lossy(answer).into_owned()),
            Err(code) => Err(self.refused(code)),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::ops::Range;

    use super::*;

    /// An owner that answers everything with OK, but for the first writes.
    fn serve(stream: &UnixStream) -> io::Result<()> {
        let (mut incoming, mut has_failed) = (Incoming::default(), false);
        let (mut request, mut reply) = (Vec::new(), Vec::new());
        loop {
            incoming.receive(stream, &mut request)?;
            let request = Request::of(&request).map_err(|_| io::ErrorKind::InvalidData)?;
            let fails = matches!(request, Request::Write(_)) && !has_failed;
            has_failed |= fails;
            socket::begin(&mut reply);
            reply.extend(if fails { Code::FULL.0 } else { OK }.to_le_bytes());
            match request {
                Request::Open { .. } | Request::Len => reply.extend([0; 8]),
                Request::Lock { .. } => Locked::default().put(&mut reply),
                Request::Read { len, .. } => reply.resize(reply.len() + len as usize, 7),
                _ => {}
            }
            socket::send_frame(stream, &mut reply)?;
        }
    }

    /// An owner of a database whose pages are filled with its number of commits; each lock finds the next of these, as what has changed
    /// and what was added to the change counter. The offsets of all reads.
    fn serve_locks(stream: &UnixStream, locks: &[(Option<&[Range<u64>]>, u32)]) -> Vec<u64> {
        let (mut incoming, mut request, mut reply) = (Incoming::default(), Vec::new(), Vec::new());
        let (mut reads, mut commits, mut counter) = (Vec::new(), 0, 0_u32);
        let mut locks = locks.iter();
        while incoming.receive(stream, &mut request).is_ok() {
            socket::begin(&mut reply);
            reply.extend(OK.to_le_bytes());
            match Request::of(&request).unwrap() {
                Request::Open { .. } => reply.extend([0; 8]),
                Request::Lock { .. } => {
                    let (changed, added) = locks.next().unwrap();
                    (commits, counter) = (commits + 1, counter + added);
                    let mut head = vec![0; 100];
                    head[24..28].copy_from_slice(&counter.to_be_bytes());
                    let changed = changed.map(<[Range<u64>]>::to_vec);
                    Locked { commits, changed, len: 1 << 20, head }.put(&mut reply);
                }
                Request::Read { offset, len } => {
                    reads.push(offset);
                    reply.resize(reply.len() + len as usize, commits as u8);
                }
                _ => {}
            }
            if socket::send_frame(stream, &mut reply).is_err() {
                // The client has not waited for its last unlock.
                break;
            }
        }
        reads
    }

    /// An owner that opens the database `main`, and refuses all else.
    fn refuse(stream: &UnixStream) {
        let (mut incoming, mut request, mut reply) = (Incoming::default(), Vec::new(), Vec::new());
        while incoming.receive(stream, &mut request).is_ok() {
            socket::begin(&mut reply);
            if let Request::Open { device: "main", .. } = Request::of(&request).unwrap() {
                reply.extend(OK.to_le_bytes());
                reply.extend([0; 8]);
            } else {
                reply.extend(Code::PERM.0.to_le_bytes());
                reply.extend(b"it is not to be");
            }
            socket::send_frame(stream, &mut reply).unwrap();
        }
    }

    #[test]
    fn an_owner_says_why_it_refuses() {
        let folder = tempfile::tempdir().unwrap();
        let pool = folder.path().join("a.pool");
        let listener = socket::bind(&socket::path_beside(&pool)).unwrap();
        let owner = std::thread::spawn(move || {
            (0..2).for_each(|_| refuse(&listener.accept().unwrap().0));
        });
        let refused = Refused { code: Code::PERM, why: "it is not to be".to_owned() };
        let open = |device| RemoteFile::open(&pool, device, true, &View::Current);
        assert_eq!(open("copy").err(), Some(refused.clone()));
        let mut file = open("main").unwrap().unwrap();
        assert_eq!(file.pragma("tembo_snapshot", Some("a")), Err(refused));
        drop(file);
        owner.join().unwrap();
    }

    #[test]
    fn under_the_next_lock_only_what_has_changed_is_read_again() {
        let folder = tempfile::tempdir().unwrap();
        let pool = folder.path().join("a.pool");
        let listener = socket::bind(&socket::path_beside(&pool)).unwrap();
        // The last two: a counter that says that more was done than commits; and no list of what has changed.
        let locks: [(Option<&[Range<u64>]>, u32); 6] = [
            (None, 0),
            (Some(&[0..4096, 8192..8193]), 1),
            (Some(&[]), 1),
            (Some(&[1 << 19..1 << 20, 1 << 20..u64::MAX]), 1),
            (Some(&[]), 2),
            (None, 1),
        ];
        let owner = std::thread::spawn(move || serve_locks(&listener.accept().unwrap().0, &locks));
        let mut file = RemoteFile::open(&pool, "main", true, &View::Current).unwrap().unwrap();
        let mut page = [0; 4096];
        let mut look = |file: &mut RemoteFile, expected: [u8; 3]| {
            file.lock(LOCK_SHARED).unwrap();
            for (offset, expected) in [8192, 40_960, 1 << 19].into_iter().zip(expected) {
                assert_eq!(file.read(offset, &mut page), Ok(4096));
                assert_eq!(page, [expected; 4096], "{offset}");
            }
            file.unlock(LOCK_NONE);
        };
        look(&mut file, [1, 1, 1]);
        look(&mut file, [2, 1, 1]);
        // What a transaction has written, or read since, is not kept.
        file.lock(LOCK_RESERVED).unwrap();
        file.write(40_960, &[9; 4096]).unwrap();
        let mut own = [0; 4096];
        assert_eq!(file.read(40_960, &mut own), Ok(4096));
        file.unlock(LOCK_NONE);
        look(&mut file, [2, 4, 4]);
        look(&mut file, [5, 5, 5]);
        look(&mut file, [6, 6, 6]);
        drop(file);
        let (a, b, c) = (8192, 40_960, 1 << 19);
        assert_eq!(owner.join().unwrap(), [a, b, c, a, b, b, c, a, b, c, a, b, c]);
    }

    #[test]
    fn a_transaction_whose_writes_failed_late_is_not_committed() {
        let folder = tempfile::tempdir().unwrap();
        let pool = folder.path().join("a.pool");
        let listener = socket::bind(&socket::path_beside(&pool)).unwrap();
        let owner = std::thread::spawn(move || serve(&listener.accept().unwrap().0));
        let mut file = RemoteFile::open(&pool, "main", true, &View::Current).unwrap().unwrap();
        file.lock(LOCK_RESERVED).unwrap();
        file.write(0, &[1; 4096]).unwrap();
        // The read sends the writes, and finds that they have failed; SQLite may go on after that.
        let mut page = [0; 512];
        assert_eq!(file.read(8192, &mut page), Err(Code::FULL));
        assert_eq!(file.read(8192, &mut page), Err(Code::FULL));
        assert_eq!(file.write(0, &[1; 4096]), Err(Code::FULL));
        assert_eq!(file.truncate(4096), Err(Code::FULL));
        assert_eq!(file.sync(), Err(Code::FULL));
        assert_eq!(file.commit(true), Err(Code::FULL));
        assert_eq!(RemoteFile::commit_all(&mut [&mut file], true), Err(Code::FULL));
        file.unlock(LOCK_NONE);
        file.lock(LOCK_RESERVED).unwrap();
        file.write(0, &[1; 4096]).unwrap();
        file.commit(true).unwrap();
        drop(file);
        assert!(owner.join().unwrap().is_err());
    }
}
