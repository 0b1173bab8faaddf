//! The host: threads with a clock each in modelled time, which ask the machine for one thing after the other.
//!
//! What is done is done at once, by one thread of the system, a transaction behind the other; how long it would have
//! taken, and beside what, is modelled ([`Timing`]). So threads of the host need no locks of the system, and its results
//! depend on nothing but the program.

use std::collections::HashMap;

use crate::Error;
use crate::geometry::{Geometry, Part};
use crate::machine::Machine;
use crate::message::{Notice, Owner, Request, Write};
use crate::timing::{Parameters, Timing, Traffic};

/// An array with the clock of the thread that uses it.
pub struct Host {
    machine: Machine,
    timing: Timing,
    now_ns: u64,
    thread: u32,
    /// What the current transaction has logged, by controller.
    logged: Vec<(usize, Vec<usize>)>,
    /// When locks are free again.
    locks: HashMap<u64, u64>,
}

/// The two notifications of a commit, in modelled time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Times {
    /// The transaction has logically committed.
    pub committed_ns: u64,
    /// Its write-back is over.
    pub written_back_ns: u64,
}

impl Host {
    /// A host of that array.
    pub fn new(machine: Machine, parameters: Parameters) -> Host {
        let timing = Timing::new(parameters, machine.geometry().controllers);
        let (logged, locks) = (Vec::new(), HashMap::new());
        Host { machine, timing, now_ns: 0, thread: 0, logged, locks }
    }

    /// How the array is striped.
    pub fn geometry(&self) -> Geometry {
        self.machine.geometry()
    }

    /// The clock of the thread.
    pub fn now_ns(&self) -> u64 {
        self.now_ns
    }

    /// What the array was asked for so far.
    pub fn traffic(&self) -> Traffic {
        self.timing.traffic()
    }

    /// The thread computes for so long.
    pub fn compute(&mut self, len_ns: u64) {
        self.now_ns += len_ns;
    }

    /// The thread of that number goes on, its clock being there.
    pub fn go_on(&mut self, thread: u32, now_ns: u64) {
        (self.thread, self.now_ns) = (thread, now_ns);
    }

    /// The thread that runs.
    pub fn thread(&self) -> u32 {
        self.thread
    }

    /// No thread's clock is before that time.
    pub(crate) fn forget_before(&mut self, time_ns: u64) {
        self.timing.forget_before(time_ns);
    }

    /// Waits until a lock is free.
    pub fn lock(&mut self, lock: u64) {
        let free = self.locks.get(&lock).copied().unwrap_or_default();
        self.now_ns = self.now_ns.max(free);
    }

    /// Gives a lock back at that time.
    pub fn unlock_at(&mut self, lock: u64, time_ns: u64) {
        self.locks.insert(lock, time_ns);
    }

    /// A transaction of the thread: each of them has a channel, and needs one at a time.
    fn owner(&self) -> Owner {
        Owner { channel: self.thread, tid: 0 }
    }

    /// Asks, and waits until the machine is at rest.
    fn ask(&mut self, request: Request) -> Result<(), Error> {
        self.machine.request(request)?;
        self.machine.settle()?;
        while self.machine.notice().is_some_and(|notice| notice != Notice::Written) {}
        Ok(())
    }

    fn parts(&self, at: u64, len: usize) -> Vec<Part> {
        self.geometry().parts(at, len)
    }

    /// Reads by a request of its own.
    ///
    /// # Errors
    /// [`Error::OutOfRange`].
    pub fn read(&mut self, at: u64, to: &mut [u8]) -> Result<(), Error> {
        self.machine.read(at, to)?;
        let parts = self.parts(at, to.len());
        self.now_ns = self.timing.read(self.now_ns, &parts);
        Ok(())
    }

    /// Writes outside of transactions. Durable when it returns; a crash may tear it.
    ///
    /// # Errors
    /// [`Error::OutOfRange`].
    pub fn write(&mut self, at: u64, data: &[u8]) -> Result<(), Error> {
        self.ask(Request::Write { target: at, data: data.to_vec() })?;
        let parts = self.parts(at, data.len());
        self.now_ns = self.timing.write(self.now_ns, &parts);
        Ok(())
    }

    /// As [`write`](Host::write), the first `head` bytes when the others are durable: of a page of ARIES, whose first bytes say
    /// how new it is. To the host it is one request: the thesis's ARIES counts on pages that the array writes whole.
    ///
    /// # Errors
    /// As of [`write`](Host::write).
    pub fn write_head_last(&mut self, at: u64, data: &[u8], head: usize) -> Result<(), Error> {
        let (first, rest) = data.split_at(head);
        self.ask(Request::Write { target: at + head as u64, data: rest.to_vec() })?;
        self.ask(Request::Write { target: at, data: first.to_vec() })?;
        let parts = self.parts(at, data.len());
        self.now_ns = self.timing.write(self.now_ns, &parts);
        Ok(())
    }

    fn note(&mut self, parts: &[Part]) {
        for Part { controller, range, .. } in parts {
            match self.logged.iter_mut().find(|(number, _)| number == controller) {
                Some((_, sizes)) => sizes.push(range.len()),
                None => self.logged.push((*controller, vec![range.len()])),
            }
        }
    }

    /// `LogWrite` of the thread's transaction, logged at `log` or the first place behind it on the same controllers.
    ///
    /// # Errors
    /// What the machine refuses.
    pub fn log_write(&mut self, target: u64, log: u64, data: &[u8]) -> Result<(), Error> {
        let log = self.geometry().colocated(target, log);
        let write = Write { target, log, data: data.to_vec() };
        self.ask(Request::LogWrite(self.owner(), write))?;
        let parts = self.parts(target, data.len());
        self.note(&parts);
        self.now_ns = self.timing.log_write(self.now_ns, &parts);
        Ok(())
    }

    /// `Commit`: the thread goes on when it has committed.
    ///
    /// # Errors
    /// What the machine refuses.
    pub fn commit(&mut self) -> Result<Times, Error> {
        self.ask(Request::Commit(self.owner()))?;
        let logged = std::mem::take(&mut self.logged);
        let (committed_ns, written_back_ns) = self.timing.commit(self.now_ns, &logged);
        self.now_ns = committed_ns;
        Ok(Times { committed_ns, written_back_ns })
    }

    /// `AtomicWrite`, of a transaction of its own or as the last write of the thread's.
    ///
    /// # Errors
    /// What the machine refuses.
    pub fn atomic_write(&mut self, target: u64, log: u64, data: &[u8]) -> Result<Times, Error> {
        let log = self.geometry().colocated(target, log);
        let write = Write { target, log, data: data.to_vec() };
        self.ask(Request::AtomicWrite(self.owner(), write))?;
        let parts = self.parts(target, data.len());
        self.note(&parts);
        let logged = std::mem::take(&mut self.logged);
        let (committed_ns, written_back_ns) =
            self.timing.atomic_write(self.now_ns, &parts, &logged);
        self.now_ns = committed_ns;
        Ok(Times { committed_ns, written_back_ns })
    }

    /// `Abort`.
    ///
    /// # Errors
    /// What the machine refuses.
    pub fn abort(&mut self) -> Result<(), Error> {
        self.logged.clear();
        self.ask(Request::Abort(self.owner()))
    }
}
