//! Atomic writes in software, on plain writes: the thesis's baseline of figures 3.5 to 3.10.
//!
//! A transaction is written to a log, then its commit record, then its data in place: three requests or more, one
//! behind the other, and the data cross the link twice. Each thread has a log of its own, whose first two lines hold
//! commit records in turn.
//!
//! The thesis does not say how it recovers. A thread's last transaction may be older than what another has
//! written to the same place since, so it must not be replayed for ever: each record has the number below which
//! all transactions are in place, and recovery passes over those. That number must outlive a crash in the middle of the
//! next record, so a record never overwrites the one before.

use std::collections::HashMap;

use tembo_pmem::crc32c;

use crate::Error;
use crate::host::{Host, Times};

/// Bytes of a commit record, which fills a line.
const RECORD: usize = 64;

/// A commit record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Record {
    sequence: u64,
    /// Transactions below it are in place.
    in_place: u64,
    len: u64,
    /// Of what is logged.
    sum: u64,
}

impl Record {
    fn encode(self) -> Vec<u8> {
        let words = [self.sequence, self.in_place, self.len, self.sum];
        let mut line: Vec<u8> = words.into_iter().flat_map(u64::to_le_bytes).collect();
        let sum = crc32c(!0, &line);
        line.extend(u64::from(sum).to_le_bytes());
        line.resize(RECORD, 0);
        line
    }

    fn decode(line: &[u8]) -> Option<Record> {
        let (words, _) = line.as_chunks::<8>();
        let words: Vec<u64> = words.iter().map(|word| u64::from_le_bytes(*word)).collect();
        let [sequence, in_place, len, sum, of_all, ..] = words[..] else { return None };
        let is_whole = u64::from(crc32c(!0, &line[..32])) == of_all;
        is_whole.then_some(Record { sequence, in_place, len, sum })
    }
}

/// Where the data begin in a log.
const DATA: u64 = 2 * RECORD as u64;

/// The logs of all threads.
pub(crate) struct SoftAtomic {
    /// Where the first lies.
    at: u64,
    /// Bytes of one.
    size: u64,
    sequence: u64,
    /// Which line of a thread's log takes the next record.
    lines: HashMap<u32, u64>,
}

impl SoftAtomic {
    pub(crate) fn new(at: u64, size: u64) -> SoftAtomic {
        SoftAtomic { at, size, sequence: 0, lines: HashMap::new() }
    }

    /// Writes all or nothing. Durable when it returns, in place.
    pub(crate) fn update(
        &mut self,
        host: &mut Host,
        writes: &[(u64, Vec<u8>)],
    ) -> Result<Times, Error> {
        let mut logged = Vec::new();
        for (target, data) in writes {
            logged.extend(target.to_le_bytes());
            logged.extend((data.len() as u64).to_le_bytes());
            logged.extend(data);
        }
        let needed = DATA + logged.len() as u64;
        if needed > self.size {
            return Err(Error::LogFull { needed, size: self.size });
        }
        let at = self.at + u64::from(host.thread()) * self.size;
        host.write(at + DATA, &logged)?;
        self.sequence += 1;
        let (sequence, sum) = (self.sequence, u64::from(crc32c(0, &logged)));
        // What others have begun before is in place: one transaction is carried out behind the other.
        let record = Record { sequence, in_place: sequence, len: logged.len() as u64, sum };
        let line = self.lines.entry(host.thread()).or_default();
        host.write(at + *line * RECORD as u64, &record.encode())?;
        *line = 1 - *line;
        let committed_ns = host.now_ns();
        for (target, data) in writes {
            host.write(*target, data)?;
        }
        Ok(Times { committed_ns, written_back_ns: host.now_ns() })
    }

    /// Writes what has committed and may not be in place, of so many threads; how many transactions.
    pub(crate) fn recover(&mut self, host: &mut Host, threads: u32) -> Result<u64, Error> {
        let (mut found, mut in_place) = (Vec::new(), 0);
        for thread in 0..threads {
            let at = self.at + u64::from(thread) * self.size;
            let mut lines = [0; DATA as usize];
            host.read(at, &mut lines)?;
            let mut newest: Option<(Record, u64)> = None;
            for (number, line) in (0..).zip(lines.chunks(RECORD)) {
                let Some(record) = Record::decode(line) else { continue };
                if newest.is_none_or(|(other, _)| other.sequence < record.sequence) {
                    newest = Some((record, number));
                }
            }
            let Some((record, line)) = newest else { continue };
            self.lines.insert(thread, 1 - line);
            self.sequence = self.sequence.max(record.sequence);
            in_place = in_place.max(record.in_place);
            if record.len == 0 || record.len > self.size - DATA {
                continue;
            }
            let mut logged = vec![0; record.len as usize];
            host.read(at + DATA, &mut logged)?;
            if u64::from(crc32c(0, &logged)) == record.sum {
                found.push((record.sequence, logged));
            }
        }
        found.retain(|(sequence, _)| *sequence >= in_place);
        found.sort_unstable();
        for (_, logged) in &found {
            for (target, data) in parse(logged) {
                host.write(target, data)?;
            }
        }
        Ok(found.len() as u64)
    }
}

/// The writes of a log whose checksum is right.
fn parse(mut logged: &[u8]) -> Vec<(u64, &[u8])> {
    let mut writes = Vec::new();
    while let Some((head, rest)) = logged.split_at_checked(16) {
        let word = |at: usize| head[at..].first_chunk().map_or(0, |word| u64::from_le_bytes(*word));
        let Some((data, rest)) = rest.split_at_checked(word(8) as usize) else { break };
        writes.push((word(0), data));
        logged = rest;
    }
    writes
}
