//! The storage at one memory controller: all stores, flushes and fences of the machine.

use std::sync::Arc;

use tembo_pmem::{Region, Word};

use crate::Error;
use crate::format::{
    COMMITTED, ENTRY_SIZE, ENTRY_WORDS, FREE, LEN, LIST, LOGGED, NEXT, PARTICIPANTS, PENDING,
    RECORD_SIZE, RECORD_WORDS, SEQUENCE, STATUS, TABLE_SIZE, TARGET, TRANSACTIONS,
};
use crate::geometry::Geometry;
use crate::message::{Commit, LocalWrite};

/// What a record of the table says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Record {
    pub(crate) status: u64,
    pub(crate) sequence: u64,
    pub(crate) participants: u64,
    head: u32,
    count: u32,
}

/// The storage at one memory controller.
#[derive(Clone)]
pub(crate) struct Bank {
    region: Arc<Region>,
    geometry: Geometry,
    controller: usize,
}

impl Bank {
    pub(crate) fn new(region: &Arc<Region>, geometry: Geometry, controller: usize) -> Bank {
        Bank { region: region.clone(), geometry, controller }
    }

    fn record_at(&self, tid: u8) -> u64 {
        self.geometry.bank(self.controller) + u64::from(tid) * RECORD_SIZE
    }

    fn entry_at(&self, entry: u32) -> u64 {
        self.geometry.bank(self.controller) + TABLE_SIZE + u64::from(entry) * ENTRY_SIZE
    }

    fn files(&self) -> u64 {
        self.geometry.files(self.controller)
    }

    fn record_words(&self, tid: u8) -> Result<&[Word], Error> {
        debug_assert!(usize::from(tid) < TRANSACTIONS);
        Ok(self.region.words(self.record_at(tid), RECORD_WORDS)?)
    }

    /// The record of a transaction.
    pub(crate) fn record(&self, tid: u8) -> Result<Record, Error> {
        let words = self.record_words(tid)?;
        let list = words[LIST].load();
        Ok(Record {
            status: words[STATUS].load(),
            sequence: words[SEQUENCE].load(),
            participants: words[PARTICIPANTS].load(),
            head: list as u32,
            count: (list >> 32) as u32,
        })
    }

    /// Stores the status of a record, all else being as it was.
    fn mark(&self, tid: u8, status: u64) -> Result<(), Error> {
        let words = self.record_words(tid)?;
        // ORDER: what the status speaks of is fenced by the caller.
        self.region.commit("mars.status.store", &words[STATUS], status);
        self.region.flush("mars.status.flush", self.record_at(tid), RECORD_SIZE);
        // ORDER: the status is durable before the logger answers.
        self.region.fence("mars.status.fence");
        Ok(())
    }

    /// The first write of a transaction comes to this controller. Durable when it returns.
    pub(crate) fn begin(&self, tid: u8) -> Result<(), Error> {
        self.mark(tid, PENDING)
    }

    /// The transaction is over here. Its commit sequence number stays. Durable when it returns.
    pub(crate) fn free(&self, tid: u8) -> Result<(), Error> {
        self.mark(tid, FREE)
    }

    /// Logs a part of a write by a free entry, behind the entry `before`. Durable when it returns.
    pub(crate) fn log(
        &self,
        entry: u32,
        before: Option<u32>,
        write: &LocalWrite,
    ) -> Result<(), Error> {
        let region = &self.region;
        region.write("mars.log.data", self.files() + write.log, &[&write.data])?;
        let words = region.words(self.entry_at(entry), ENTRY_WORDS)?;
        region.store(&words[TARGET], write.target);
        region.store(&words[LOGGED], write.log);
        region.store(&words[LEN], write.data.len() as u64);
        // ORDER: with the fence below.
        region.flush("mars.log.entry", self.entry_at(entry), ENTRY_SIZE);
        if let Some(before) = before {
            let words = region.words(self.entry_at(before), ENTRY_WORDS)?;
            region.store(&words[NEXT], entry.into());
            // ORDER: with the fence below.
            region.flush("mars.log.link", self.entry_at(before), ENTRY_SIZE);
        }
        // ORDER: data, entry and link are durable before the write is answered: a commit may follow at once.
        region.fence("mars.log.fence");
        Ok(())
    }

    /// Marks a transaction COMMITTED, with its list of entries. Durable when it returns.
    pub(crate) fn commit(&self, tid: u8, commit: Commit, list: (u32, u32)) -> Result<(), Error> {
        let (words, region) = (self.record_words(tid)?, &self.region);
        region.store(&words[PARTICIPANTS], commit.participants);
        region.store(&words[LIST], u64::from(list.0) | u64::from(list.1) << 32);
        region.store(&words[SEQUENCE], commit.sequence);
        // ORDER: after the rest of the record, which lies in the same line; the log was fenced when it was written.
        region.commit("mars.commit.store", &words[STATUS], COMMITTED);
        region.flush("mars.commit.flush", self.record_at(tid), RECORD_SIZE);
        // ORDER: the mark is durable before the logger answers: when all have, the host learns of the commit.
        region.fence("mars.commit.fence");
        Ok(())
    }

    /// Copies what a committed transaction has logged to its targets, in the order in which it was logged, and frees the
    /// record. May be done again. Durable when it returns.
    pub(crate) fn apply(&self, tid: u8) -> Result<(), Error> {
        let record = self.record(tid)?;
        let mut entry = u64::from(record.head);
        for _ in 0..record.count {
            let entry_at = match u32::try_from(entry) {
                Ok(number) if number < self.geometry.entries => self.entry_at(number),
                _ => return Err(self.damaged("the number of an entry")),
            };
            let words = self.region.words(entry_at, ENTRY_WORDS)?;
            let (target, len) = (words[TARGET].load(), words[LEN].load());
            let data = self.region.media_bytes(self.in_files(words[LOGGED].load(), len)?, len)?;
            self.region.write("mars.apply.copy", self.in_files(target, len)?, &[&data.to_vec()])?;
            entry = words[NEXT].load();
        }
        // ORDER: all copies are durable before the record is free and the log may be used again.
        self.region.fence("mars.apply.fence");
        self.free(tid)
    }

    fn damaged(&self, what: &'static str) -> Error {
        Error::Damaged { controller: self.controller, what }
    }

    fn in_files(&self, local: u64, len: u64) -> Result<u64, Error> {
        match local.checked_add(len).is_some_and(|end| end <= self.geometry.local_size()) {
            true => Ok(self.files() + local),
            false => Err(self.damaged("the place of logged data")),
        }
    }

    /// Writes data that are no part of a transaction. Durable when it returns.
    pub(crate) fn write(&self, local: u64, data: &[u8]) -> Result<(), Error> {
        self.region.write("mars.write.data", self.files() + local, &[data])?;
        // ORDER: the data are durable before the write is answered.
        self.region.fence("mars.write.fence");
        Ok(())
    }

    /// Reads what lies there now.
    pub(crate) fn read(&self, local: u64, to: &mut [u8]) -> Result<(), Error> {
        self.region.media_bytes(self.files() + local, to.len() as u64)?.copy_to(to);
        Ok(())
    }
}
