//! A logger: the hardware module between the ring and the storage of one memory controller (thesis, figure 3.4).
//!
//! Commands come in one order, and commits in the order of their sequence numbers, for the central controller draws a
//! number and sends the commands in one step. So transactions are written back here in that order, each when it stands
//! first and all its participants have marked it.

use std::collections::VecDeque;

use crate::Error;
use crate::bank::Bank;
use crate::format::TRANSACTIONS;
use crate::message::{Command, Commit, Done, LocalWrite, Reply};

/// An entry of a transaction.
#[derive(Clone, Copy)]
struct Listed {
    entry: u32,
    order: u32,
}

/// A transaction that waits for its write-back.
struct Waiting {
    tid: u8,
    /// All participants have marked it.
    is_released: bool,
}

/// The logger of one controller.
pub(crate) struct Logger {
    number: usize,
    bank: Bank,
    inbox: VecDeque<Command>,
    /// Entries of metadata without a transaction. The thesis keeps this list in storage, and only its ends here; it
    /// needs none after a crash, for recovery leaves no transaction.
    free: Vec<u32>,
    lists: [Vec<Listed>; TRANSACTIONS],
    committed: VecDeque<Waiting>,
}

impl Logger {
    /// Of a bank that holds no transaction.
    pub(crate) fn new(number: usize, bank: Bank, entries: u32) -> Logger {
        Logger {
            number,
            bank,
            inbox: VecDeque::new(),
            free: (0..entries).rev().collect(),
            lists: std::array::from_fn(|_| Vec::new()),
            committed: VecDeque::new(),
        }
    }

    pub(crate) fn send(&mut self, command: Command) {
        self.inbox.push_back(command);
    }

    /// Whether a command waits.
    pub(crate) fn has_command(&self) -> bool {
        !self.inbox.is_empty()
    }

    /// Whether a transaction can be written back.
    pub(crate) fn can_apply(&self) -> bool {
        self.committed.front().is_some_and(|first| first.is_released)
    }

    /// Carries out the next command; its reply, if it has one.
    pub(crate) fn step(&mut self) -> Result<Option<Reply>, Error> {
        let Some(command) = self.inbox.pop_front() else { return Ok(None) };
        let (tid, done, freed) = match command {
            Command::LogWrite(tid, write) => {
                self.log(tid, &write)?;
                (tid, Done::Logged(write.order), 0)
            }
            Command::Commit(tid, commit) => {
                self.commit(tid, commit, false)?;
                (tid, Done::Committed, 0)
            }
            Command::AtomicWrite(tid, write, commit) => {
                self.log(tid, &write)?;
                self.commit(tid, commit, true)?;
                (tid, Done::Committed, 0)
            }
            Command::Apply(tid) => {
                let waiting = self.committed.iter_mut().find(|waiting| waiting.tid == tid);
                waiting.into_iter().for_each(|waiting| waiting.is_released = true);
                return Ok(None);
            }
            Command::Abort(tid, keep) => (tid, Done::Aborted, self.abort(tid, keep)?),
            Command::Write { number, target, data } => {
                self.bank.write(target, &data)?;
                (0, Done::Written(number), 0)
            }
        };
        Ok(Some(Reply { logger: self.number, tid, done, freed }))
    }

    /// Writes back the transaction that stands first. Nothing else happens at this controller meanwhile.
    pub(crate) fn apply(&mut self) -> Result<Option<Reply>, Error> {
        let Some(Waiting { tid, .. }) = self.committed.pop_front_if(|first| first.is_released)
        else {
            return Ok(None);
        };
        self.bank.apply(tid)?;
        let freed = self.cut(tid, 0);
        Ok(Some(Reply { logger: self.number, tid, done: Done::Applied, freed }))
    }

    fn log(&mut self, tid: u8, write: &LocalWrite) -> Result<(), Error> {
        let list = &mut self.lists[usize::from(tid)];
        // The central controller counts entries, and sends no write for which there is none.
        let what = "more writes than entries";
        let damaged = Error::Damaged { controller: self.number, what };
        let entry = self.free.pop().ok_or(damaged)?;
        self.bank.log(entry, list.last().map(|last| last.entry), write)?;
        if list.is_empty() {
            self.bank.begin(tid)?;
        }
        list.push(Listed { entry, order: write.order });
        Ok(())
    }

    fn commit(&mut self, tid: u8, commit: Commit, is_released: bool) -> Result<(), Error> {
        let list = &self.lists[usize::from(tid)];
        let head = list.first().map_or(0, |first| first.entry);
        self.bank.commit(tid, commit, (head, list.len() as u32))?;
        self.committed.push_back(Waiting { tid, is_released });
        Ok(())
    }

    /// Forgets what was logged by writes from the order `keep` on; how many entries. Of what stays the count is
    /// stored with the commit, so that nothing is stored for a part.
    fn abort(&mut self, tid: u8, keep: u32) -> Result<u32, Error> {
        let freed = self.cut(tid, keep);
        if self.lists[usize::from(tid)].is_empty() {
            self.bank.free(tid)?;
        }
        Ok(freed)
    }

    /// Frees the entries of writes from that order on; how many.
    fn cut(&mut self, tid: u8, keep: u32) -> u32 {
        let list = &mut self.lists[usize::from(tid)];
        let kept = list.iter().take_while(|listed| listed.order < keep).count();
        let freed = list.split_off(kept);
        self.free.extend(freed.iter().map(|listed| listed.entry));
        freed.len() as u32
    }
}
