//! What servers of Redis are sent, from the first byte that one of them may still need.
//!
//! The event loop appends, once in a turn; a thread for each server reads. What is kept is bounded: the last bytes of
//! the stream, so that a server that was away goes on, and what the slowest of those that are fed has not taken yet.

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;

/// Turns with fewer bytes are joined to blocks of so many.
const BLOCK_SIZE: usize = 16 << 10;

/// A part of the stream.
struct Block {
    /// Its place in the stream.
    begin: u64,
    bytes: Arc<Vec<u8>>,
}

#[derive(Default)]
struct Log {
    blocks: VecDeque<Block>,
    end: u64,
    is_closed: bool,
}

impl Log {
    fn begin(&self) -> u64 {
        self.blocks.front().map_or(self.end, |block| block.begin)
    }
}

/// The stream.
#[derive(Default)]
pub(super) struct Backlog {
    log: Mutex<Log>,
    grown: Condvar,
}

/// What is read of the stream.
pub(super) enum Part {
    /// These bytes, without so many of them at the begin.
    Bytes(Arc<Vec<u8>>, usize),
    /// Nothing has come yet.
    Nothing,
    /// It has ended.
    End,
    /// It is kept no more.
    Lost,
}

impl Backlog {
    fn log(&self) -> std::sync::MutexGuard<'_, Log> {
        // Nothing that holds the lock can panic.
        self.log.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A stream whose first byte has this place.
    pub(super) fn from(begin: u64) -> Backlog {
        let log = Log { end: begin, ..Log::default() };
        Backlog { log: Mutex::new(log), grown: Condvar::new() }
    }

    /// Appends the bytes of a turn.
    pub(super) fn append(&self, bytes: Vec<u8>) {
        let mut log = self.log();
        let begin = log.end;
        log.end += bytes.len() as u64;
        let joined = log.blocks.back_mut().and_then(|last| {
            let fits = last.bytes.len() + bytes.len() <= BLOCK_SIZE;
            if fits { Arc::get_mut(&mut last.bytes) } else { None }
        });
        match joined {
            Some(last) => last.extend_from_slice(&bytes),
            None => log.blocks.push_back(Block { begin, bytes: Arc::new(bytes) }),
        }
        drop(log);
        self.grown.notify_all();
    }

    /// Gives up what lies before a place, in whole blocks.
    pub(super) fn trim(&self, before: u64) {
        let mut log = self.log();
        while let Some(first) = log.blocks.front()
            && first.begin + first.bytes.len() as u64 <= before
        {
            log.blocks.pop_front();
        }
    }

    /// Nothing comes any more. What is there can be read.
    pub(super) fn close(&self) {
        self.log().is_closed = true;
        self.grown.notify_all();
    }

    /// The places between which it is kept.
    pub(super) fn bounds(&self) -> (u64, u64) {
        let log = self.log();
        (log.begin(), log.end)
    }

    /// What comes behind a place; waits for it, but not longer than `patience`.
    pub(super) fn read(&self, place: u64, patience: Duration) -> Part {
        let mut log = self.log();
        if place == log.end && !log.is_closed {
            let waited = self.grown.wait_timeout(log, patience);
            log = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        if place < log.begin() || place > log.end {
            return Part::Lost;
        }
        if place == log.end {
            return if log.is_closed { Part::End } else { Part::Nothing };
        }
        let behind = log.blocks.partition_point(|block| block.begin <= place);
        match behind.checked_sub(1).and_then(|at| log.blocks.get(at)) {
            Some(block) => Part::Bytes(block.bytes.clone(), (place - block.begin) as usize),
            None => Part::Lost,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// All bytes from a place on.
    fn rest(backlog: &Backlog, mut place: u64) -> Option<Vec<u8>> {
        let mut all = Vec::new();
        loop {
            match backlog.read(place, Duration::ZERO) {
                Part::Bytes(bytes, from) => {
                    place += (bytes.len() - from) as u64;
                    all.extend_from_slice(&bytes[from..]);
                }
                Part::Nothing | Part::End => return Some(all),
                Part::Lost => return None,
            }
        }
    }

    #[test]
    fn every_byte_that_is_kept_can_be_read() {
        let backlog = Backlog::default();
        let all: Vec<u8> = (0..100_000u32).map(|number| number as u8).collect();
        for part in all.chunks(777) {
            backlog.append(part.to_vec());
        }
        assert_eq!(backlog.bounds(), (0, 100_000));
        for place in [0, 1, 776, 777, 99_999, 100_000] {
            assert_eq!(rest(&backlog, place).unwrap(), all[place as usize..]);
        }
        assert!(rest(&backlog, 100_001).is_none());
        backlog.trim(50_000);
        let (begin, _) = backlog.bounds();
        assert!(begin > 0 && begin <= 50_000);
        assert!(rest(&backlog, begin - 1).is_none());
        assert_eq!(rest(&backlog, begin).unwrap(), all[begin as usize..]);
    }

    #[test]
    fn what_is_there_is_read_before_the_end() {
        let backlog = Backlog::default();
        backlog.append(b"abc".to_vec());
        backlog.close();
        assert_eq!(rest(&backlog, 1).unwrap(), b"bc");
        assert!(matches!(backlog.read(3, Duration::ZERO), Part::End));
    }
}
