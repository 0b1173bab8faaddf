//! The central controller: the TID manager, the scoreboard, the commit sequence number.
//!
//! It cuts requests at the stripes, sends the parts to the loggers, and runs a two-phase commit between them: all that
//! have logged something mark the transaction, and when all have answered, all write it back; meanwhile the host has
//! learned of the commit, which hides the time that the write-back takes.

use std::collections::HashMap;
use std::hash::Hash;

use crate::Error;
use crate::format::TRANSACTIONS;
use crate::geometry::{Geometry, Part};
use crate::message::{
    Command, Commit, Done, LocalWrite, Notice, Owner, Reply, Request, State, Write,
};

/// A row of the scoreboard: a transaction that is not over.
struct Row {
    owner: Owner,
    state: State,
    /// Loggers that have got a write.
    participants: u64,
    /// Loggers whose answer the phase awaits.
    awaited: u32,
    /// Parts of writes that were sent and not answered, by the order of the write.
    logging: HashMap<u32, u32>,
    sequence: u64,
    /// The log offsets of its writes, in the order in which they were issued.
    logged: Vec<u64>,
}

/// The central controller.
pub(crate) struct Central {
    geometry: Geometry,
    rows: Vec<Option<Row>>,
    /// Virtual transaction IDs, and the records that they have.
    by_owner: HashMap<Owner, u8>,
    /// Entries of metadata that each logger has free.
    entries: Vec<u32>,
    /// Parts of writes outside of transactions that were sent and not answered, by the number of the write.
    writing: HashMap<u64, u32>,
    /// Writes outside of transactions so far.
    writes: u64,
    /// The last commit sequence number that was drawn.
    sequence: u64,
}

/// Commands, each with its logger.
pub(crate) type Sent = Vec<(usize, Command)>;

/// The bits of a set of loggers.
fn members(set: u64) -> impl Iterator<Item = usize> {
    (0..u64::BITS as usize).filter(move |logger| set >> logger & 1 == 1)
}

/// Counts an answer for a part; whether it is the last.
fn answered<K: Eq + Hash>(parts: &mut HashMap<K, u32>, of: K) -> bool {
    let Some(left) = parts.get_mut(&of) else { return false };
    *left -= 1;
    let is_last = *left == 0;
    if is_last {
        parts.remove(&of);
    }
    is_last
}

impl Central {
    pub(crate) fn new(geometry: Geometry, sequence: u64) -> Central {
        Central {
            geometry,
            rows: (0..TRANSACTIONS).map(|_| None).collect(),
            by_owner: HashMap::new(),
            entries: vec![geometry.entries; geometry.controllers],
            writing: HashMap::new(),
            writes: 0,
            sequence,
        }
    }

    /// The state of a transaction.
    pub(crate) fn state(&self, owner: Owner) -> State {
        let row = self.by_owner.get(&owner).and_then(|tid| self.rows[usize::from(*tid)].as_ref());
        row.map_or(State::Free, |row| row.state)
    }

    /// The commands of a request.
    ///
    /// # Errors
    /// What is wrong with the request; nothing has changed then.
    pub(crate) fn request(&mut self, request: Request) -> Result<Sent, Error> {
        let mut sent = Sent::new();
        match request {
            Request::LogWrite(owner, write) => {
                let (tid, parts) = self.admit(owner, &write)?;
                let local = self.log(tid, &write, &parts)?;
                sent.extend(local.into_iter().map(|(to, part)| (to, Command::LogWrite(tid, part))));
            }
            Request::AtomicWrite(owner, write) => {
                let (tid, parts) = self.admit(owner, &write)?;
                let is_first = self.row(tid)?.participants == 0;
                let mut local = self.log(tid, &write, &parts)?;
                if let [(to, _)] = local[..]
                    && is_first
                {
                    let commit = self.commit(tid)?;
                    let parts = local.drain(..).map(|(_, part)| part);
                    sent.extend(parts.map(|part| (to, Command::AtomicWrite(tid, part, commit))));
                } else {
                    let parts = local.into_iter();
                    sent.extend(parts.map(|(to, part)| (to, Command::LogWrite(tid, part))));
                    self.commit_all(tid, &mut sent)?;
                }
            }
            Request::Commit(owner) => self.commit_all(self.pending(owner)?, &mut sent)?,
            Request::Abort(owner) => self.abort(self.pending(owner)?, 0, &mut sent)?,
            Request::AbortTo(owner, log) => {
                let tid = self.pending(owner)?;
                let order = self.row(tid)?.logged.iter().position(|logged| *logged == log);
                let order = order.ok_or(Error::NoSavepoint { owner, log })?;
                self.abort(tid, order as u32, &mut sent)?;
            }
            Request::Write { target, data } => {
                self.geometry.check_range(target, data.len() as u64)?;
                let parts = self.geometry.parts(target, data.len());
                self.writes += 1;
                let number = self.writes;
                self.writing.insert(number, parts.len() as u32);
                sent.extend(parts.into_iter().map(|Part { controller, local, range }| {
                    let data = data[range].to_vec();
                    (controller, Command::Write { number, target: local, data })
                }));
            }
        }
        Ok(sent)
    }

    /// What follows from a reply: commands, and perhaps a notice.
    pub(crate) fn reply(&mut self, reply: Reply) -> Result<(Sent, Option<Notice>), Error> {
        let Reply { logger, tid, done, freed } = reply;
        self.entries[logger] += freed;
        if let Done::Written(number) = done {
            let is_over = answered(&mut self.writing, number);
            return Ok((Sent::new(), is_over.then_some(Notice::Written)));
        }
        let row = self.row_mut(tid)?;
        let owner = row.owner;
        if let Done::Logged(order) = done {
            let is_over = answered(&mut row.logging, order);
            return Ok((Sent::new(), is_over.then_some(Notice::Logged(owner))));
        }
        row.awaited -= 1;
        if row.awaited > 0 {
            return Ok((Sent::new(), None));
        }
        let mut sent = Sent::new();
        let notice = match done {
            Done::Committed => {
                row.awaited = row.participants.count_ones();
                sent.extend(members(row.participants).map(|logger| (logger, Command::Apply(tid))));
                Notice::Committed { owner, sequence: row.sequence }
            }
            Done::Aborted if !row.logged.is_empty() => {
                row.state = State::Pending;
                Notice::Aborted(owner)
            }
            Done::Aborted => self.forget(tid, Notice::Aborted(owner)),
            _ => self.forget(tid, Notice::WrittenBack(owner)),
        };
        Ok((sent, Some(notice)))
    }

    fn forget(&mut self, tid: u8, notice: Notice) -> Notice {
        if let Some(row) = self.rows[usize::from(tid)].take() {
            self.by_owner.remove(&row.owner);
        }
        notice
    }

    fn row(&self, tid: u8) -> Result<&Row, Error> {
        let what = "a reply for no transaction";
        self.rows[usize::from(tid)].as_ref().ok_or(Error::Damaged { controller: 0, what })
    }

    fn row_mut(&mut self, tid: u8) -> Result<&mut Row, Error> {
        let what = "a reply for no transaction";
        self.rows[usize::from(tid)].as_mut().ok_or(Error::Damaged { controller: 0, what })
    }

    /// The record of a transaction that is PENDING.
    fn pending(&self, owner: Owner) -> Result<u8, Error> {
        match (self.by_owner.get(&owner), self.state(owner)) {
            (Some(tid), State::Pending) => Ok(*tid),
            (_, state) => Err(Error::BadState { owner, state }),
        }
    }

    /// A record for a write, and the parts of it, each with an entry.
    fn admit(&mut self, owner: Owner, write: &Write) -> Result<(u8, Vec<Part>), Error> {
        let Write { target, log, ref data } = *write;
        let (geometry, len) = (self.geometry, data.len() as u64);
        if usize::from(owner.tid) >= TRANSACTIONS {
            return Err(Error::NoSuchTransaction { tid: owner.tid, count: TRANSACTIONS });
        }
        geometry.check_range(target, len)?;
        geometry.check_range(log, len)?;
        if target % geometry.row() != log % geometry.row() {
            return Err(Error::NotColocated { target, log, row: geometry.row() });
        }
        let state = self.state(owner);
        if ![State::Free, State::Pending].contains(&state) {
            return Err(Error::BadState { owner, state });
        }
        let parts = geometry.parts(target, data.len());
        for (controller, free) in self.entries.iter().enumerate() {
            let wanted = parts.iter().filter(|part| part.controller == controller).count() as u32;
            if wanted > *free {
                return Err(Error::NoEntry { controller, wanted });
            }
        }
        if let Some(tid) = self.by_owner.get(&owner) {
            return Ok((*tid, parts));
        }
        let pending = self.by_owner.len();
        let free = self.rows.iter().position(Option::is_none);
        let tid = free.ok_or(Error::NoTransaction { pending })?;
        self.rows[tid] = Some(Row {
            owner,
            state: State::Pending,
            participants: 0,
            awaited: 0,
            logging: HashMap::new(),
            sequence: 0,
            logged: Vec::new(),
        });
        self.by_owner.insert(owner, tid as u8);
        Ok((tid as u8, parts))
    }

    /// The parts of an admitted write, each with its logger.
    fn log(
        &mut self,
        tid: u8,
        write: &Write,
        parts: &[Part],
    ) -> Result<Vec<(usize, LocalWrite)>, Error> {
        let logs = self.geometry.parts(write.log, write.data.len());
        for part in parts {
            self.entries[part.controller] -= 1;
        }
        let row = self.row_mut(tid)?;
        let order = row.logged.len() as u32;
        row.logged.push(write.log);
        row.logging.insert(order, parts.len() as u32);
        let local = parts.iter().zip(logs).map(|(part, log)| {
            row.participants |= 1 << part.controller;
            let data = write.data[part.range.clone()].to_vec();
            (part.controller, LocalWrite { target: part.local, log: log.local, data, order })
        });
        Ok(local.collect())
    }

    /// Draws the commit sequence number of a transaction.
    fn commit(&mut self, tid: u8) -> Result<Commit, Error> {
        self.sequence += 1;
        let sequence = self.sequence;
        let row = self.row_mut(tid)?;
        row.state = State::Committed;
        row.sequence = sequence;
        row.awaited = row.participants.count_ones();
        Ok(Commit { sequence, participants: row.participants })
    }

    fn commit_all(&mut self, tid: u8, sent: &mut Sent) -> Result<(), Error> {
        let commit = self.commit(tid)?;
        let to = members(commit.participants);
        sent.extend(to.map(|logger| (logger, Command::Commit(tid, commit))));
        Ok(())
    }

    /// Cancels the writes of a transaction from that order on.
    fn abort(&mut self, tid: u8, keep: u32, sent: &mut Sent) -> Result<(), Error> {
        let row = self.row_mut(tid)?;
        row.state = State::Aborting;
        row.logged.truncate(keep as usize);
        row.awaited = row.participants.count_ones();
        let to = members(row.participants);
        sent.extend(to.map(|logger| (logger, Command::Abort(tid, keep))));
        Ok(())
    }
}
