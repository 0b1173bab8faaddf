//! What programs of the experiments are written for: bytes that are read, and updated all or nothing, under locks.

use crate::Error;
use crate::aries::{Aries, AriesOptions};
use crate::host::{Host, Times};
use crate::soft_atomic::SoftAtomic;

/// Bytes with updates of several parts. Locks have numbers, and are held until they are given back.
pub trait Store {
    /// What can go wrong.
    type Error: From<Error>;

    /// Reads.
    ///
    /// # Errors
    /// Those of the store.
    fn read(&mut self, at: u64, to: &mut [u8]) -> Result<(), Self::Error>;

    /// Writes all of it or nothing, or as far as the store promises that.
    ///
    /// # Errors
    /// Those of the store.
    fn update(&mut self, writes: Vec<(u64, Vec<u8>)>) -> Result<(), Self::Error>;

    /// Waits for a lock.
    fn lock(&mut self, _lock: u64) {}

    /// Gives a lock back.
    fn unlock(&mut self, _lock: u64) {}
}

/// How updates are made atomic.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scheme {
    /// They are not: plain writes.
    Unsafe,
    /// In software: a log, a commit record, data in place.
    SoftAtomic,
    /// `LogWrite`s and a `Commit`.
    LogWriteCommit,
    /// `LogWrite`s of all parts but the last, which is an `AtomicWrite`.
    AtomicWrite,
}

impl Scheme {
    /// All of them, in the order of the thesis's figures.
    pub const ALL: [Scheme; 4] =
        [Scheme::SoftAtomic, Scheme::LogWriteCommit, Scheme::AtomicWrite, Scheme::Unsafe];

    /// As in the thesis's figures.
    pub fn name(self) -> &'static str {
        match self {
            Scheme::Unsafe => "Write",
            Scheme::SoftAtomic => "SoftAtomic",
            Scheme::LogWriteCommit => "LogWrite+Commit",
            Scheme::AtomicWrite => "AtomicWrite",
        }
    }
}

/// An array that is updated by one of the schemes. The first bytes are the program's, the last ones the logs'.
pub struct ArrayStore {
    host: Host,
    scheme: Scheme,
    soft: SoftAtomic,
    /// Where the logs begin, and bytes of one.
    logs: (u64, u64),
    last: Times,
}

impl ArrayStore {
    /// Threads that an array has logs for.
    pub const THREADS: u32 = 16;

    /// Bytes of a log for updates of so many bytes in so many parts: each begins on the controllers of its target.
    pub fn log_size(host: &Host, bytes: u64, parts: u64) -> u64 {
        let row = host.geometry().row();
        (bytes + (parts + 1) * row + 4096).next_multiple_of(row)
    }

    /// With logs of so many bytes at the end of the array.
    pub fn new(host: Host, scheme: Scheme, log_size: u64) -> ArrayStore {
        let at = host.geometry().size() - log_size * u64::from(ArrayStore::THREADS);
        let soft = SoftAtomic::new(at, log_size);
        let last = Times { committed_ns: 0, written_back_ns: 0 };
        ArrayStore { host, scheme, soft, logs: (at, log_size), last }
    }

    /// Replays what [`Scheme::SoftAtomic`] has committed and may not have written in place; how many updates.
    ///
    /// # Errors
    /// Those of the array.
    pub fn recover(&mut self) -> Result<u64, Error> {
        self.soft.recover(&mut self.host, ArrayStore::THREADS)
    }

    /// The host.
    pub fn host(&mut self) -> &mut Host {
        &mut self.host
    }

    /// When the last update has committed, and when its write-back was over.
    pub fn last(&self) -> Times {
        self.last
    }

    fn log(&mut self, writes: &[(u64, Vec<u8>)]) -> Result<Times, Error> {
        let (geometry, thread) = (self.host.geometry(), u64::from(self.host.thread()));
        let mut log = self.logs.0 + thread * self.logs.1;
        let (mut times, is_atomic) = (self.last, self.scheme == Scheme::AtomicWrite);
        for (number, (target, data)) in writes.iter().enumerate() {
            log = geometry.colocated(*target, log);
            if is_atomic && number + 1 == writes.len() {
                times = self.host.atomic_write(*target, log, data)?;
            } else {
                self.host.log_write(*target, log, data)?;
            }
            log += data.len() as u64;
        }
        if is_atomic { Ok(times) } else { self.host.commit() }
    }
}

impl Store for ArrayStore {
    type Error = Error;

    fn read(&mut self, at: u64, to: &mut [u8]) -> Result<(), Error> {
        self.host.read(at, to)
    }

    fn update(&mut self, writes: Vec<(u64, Vec<u8>)>) -> Result<(), Error> {
        self.last = match self.scheme {
            _ if writes.is_empty() => return Ok(()),
            Scheme::SoftAtomic => self.soft.update(&mut self.host, &writes)?,
            Scheme::Unsafe => {
                for (target, data) in &writes {
                    self.host.write(*target, data)?;
                }
                let now = self.host.now_ns();
                Times { committed_ns: now, written_back_ns: now }
            }
            Scheme::LogWriteCommit | Scheme::AtomicWrite => self.log(&writes)?,
        };
        Ok(())
    }

    fn lock(&mut self, lock: u64) {
        self.host.lock(lock);
    }

    /// What was written can be read at its place when the write-back is over, and not before.
    fn unlock(&mut self, lock: u64) {
        let time_ns = self.host.now_ns().max(self.last.written_back_ns);
        self.host.unlock_at(lock, time_ns);
    }
}

/// A database of ARIES as a store: bytes on its pages, one behind the other.
pub struct AriesStore {
    host: Host,
    aries: Aries,
    payload: u64,
}

impl AriesStore {
    /// On a host whose array is as large as the options say.
    ///
    /// # Errors
    /// Those of [`Aries::open`].
    pub fn open(mut host: Host, options: AriesOptions) -> Result<AriesStore, Error> {
        let (aries, _) = Aries::open(&mut host, options)?;
        Ok(AriesStore { host, aries, payload: Aries::payload(&options) as u64 })
    }

    /// The host.
    pub fn host(&mut self) -> &mut Host {
        &mut self.host
    }

    /// The parts of a range, page by page: page, offset, and which bytes.
    fn parts(&self, at: u64, len: usize) -> Vec<(u64, u32, std::ops::Range<usize>)> {
        let (mut parts, mut done) = (Vec::new(), 0);
        while done < len {
            let (page, offset) =
                ((at + done as u64) / self.payload, (at + done as u64) % self.payload);
            let size = ((self.payload - offset) as usize).min(len - done);
            parts.push((page, offset as u32, done..done + size));
            done += size;
        }
        parts
    }
}

impl Store for AriesStore {
    type Error = Error;

    fn read(&mut self, at: u64, to: &mut [u8]) -> Result<(), Error> {
        for (page, offset, range) in self.parts(at, to.len()) {
            self.aries.read(&mut self.host, page, offset, &mut to[range])?;
        }
        Ok(())
    }

    fn update(&mut self, writes: Vec<(u64, Vec<u8>)>) -> Result<(), Error> {
        let transaction = self.aries.begin();
        for (at, data) in &writes {
            for (page, offset, range) in self.parts(*at, data.len()) {
                self.aries.update(&mut self.host, transaction, page, offset, &data[range])?;
            }
        }
        self.aries.commit(&mut self.host, transaction)
    }

    fn lock(&mut self, lock: u64) {
        self.host.lock(lock);
    }

    fn unlock(&mut self, lock: u64) {
        let now = self.host.now_ns();
        self.host.unlock_at(lock, now);
    }
}
