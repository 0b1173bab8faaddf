//! The write-ahead log: a stream of records in a ring on the array, its end in memory until it is forced.

use crate::Error;
use crate::aries::format::{Body, FIRST, HEAD_SIZE, Lsn, MASTER_SIZE, Master, Record, len_of};
use crate::host::Host;

/// Where it lies.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ring {
    /// The first of the two master lines; the ring lies a page behind it.
    pub(crate) at: u64,
    /// Bytes of the ring.
    pub(crate) size: u64,
}

/// Bytes for the masters.
pub(crate) const MASTERS: u64 = 4096;

/// The log.
pub(crate) struct Log {
    ring: Ring,
    master: Master,
    /// The place of the next record.
    next: Lsn,
    /// All before it is durable.
    forced: Lsn,
    /// The bytes from `forced` on.
    buffer: Vec<u8>,
    /// When the last force that was begun began, and when it ends, in modelled time: one that is asked for before it
    /// begins goes with it, which is group commit.
    force_ns: (u64, u64),
}

impl Log {
    /// Opens what lies there; zeros are an empty log. The records from the last checkpoint's first on, up to what is torn.
    pub(crate) fn open(host: &mut Host, ring: Ring) -> Result<(Log, Vec<Record>), Error> {
        let mut lines = [[0; MASTER_SIZE]; 2];
        for (number, line) in lines.iter_mut().enumerate() {
            host.read(ring.at + (number * MASTER_SIZE) as u64, line)?;
        }
        let masters = lines.iter().filter_map(|line| Master::decode(line));
        let first = Master { from: FIRST, ..Master::default() };
        let master = masters.max_by_key(|master| master.count).unwrap_or(first);
        let (force_ns, from) = ((0, 0), master.from);
        let mut log = Log { ring, master, next: from, forced: from, buffer: Vec::new(), force_ns };
        let (mut records, mut opening) = (Vec::new(), 0);
        while let Some((record, of)) = log.read_next(host)? {
            // What lies behind the end was written by an older opening, and never counted.
            if of < opening {
                break;
            }
            opening = of;
            log.next += record.len;
            records.push(record.record);
        }
        log.forced = log.next;
        // An opening has its own number, durable before it writes a record.
        log.master.opening += 1;
        log.write_master(host)?;
        Ok((log, records))
    }

    fn read_next(&self, host: &mut Host) -> Result<Option<(Found, u64)>, Error> {
        let mut head = [0; HEAD_SIZE];
        self.read(host, self.next, &mut head)?;
        let Some(len) = len_of(&head, self.next).filter(|len| *len as u64 <= self.ring.size) else {
            return Ok(None);
        };
        let mut bytes = vec![0; len];
        self.read(host, self.next, &mut bytes)?;
        let found = Record::decode(&bytes);
        Ok(found.map(|(record, opening)| (Found { record, len: len as u64 }, opening)))
    }

    /// The parts of the array that hold `len` bytes from a place on.
    fn spans(&self, lsn: Lsn, len: u64) -> [(u64, u64); 2] {
        let begin = lsn % self.ring.size;
        let first = len.min(self.ring.size - begin);
        let at = self.ring.at + MASTERS;
        [(at + begin, first), (at, len - first)]
    }

    fn read(&self, host: &mut Host, lsn: Lsn, to: &mut [u8]) -> Result<(), Error> {
        let mut done = 0;
        for (at, len) in self.spans(lsn, to.len() as u64) {
            if len > 0 {
                host.read(at, &mut to[done..done + len as usize])?;
                done += len as usize;
            }
        }
        Ok(())
    }

    /// The record of that place, forced or not.
    pub(crate) fn record(&self, host: &mut Host, lsn: Lsn) -> Result<Record, Error> {
        let damaged = || Error::Damaged { controller: 0, what: "a log record" };
        if lsn >= self.forced {
            let bytes = self.buffer.get((lsn - self.forced) as usize..).ok_or_else(damaged)?;
            let len = len_of(bytes, lsn).filter(|len| *len <= bytes.len()).ok_or_else(damaged)?;
            return Record::decode(&bytes[..len]).map(|found| found.0).ok_or_else(damaged);
        }
        let mut head = [0; HEAD_SIZE];
        self.read(host, lsn, &mut head)?;
        let len = len_of(&head, lsn).filter(|len| *len as u64 <= self.ring.size);
        let mut bytes = vec![0; len.ok_or_else(damaged)?];
        self.read(host, lsn, &mut bytes)?;
        Record::decode(&bytes).map(|found| found.0).ok_or_else(damaged)
    }

    /// Bytes that records take from the first that may be needed on.
    pub(crate) fn used(&self) -> u64 {
        self.next - self.master.from
    }

    pub(crate) fn size(&self) -> u64 {
        self.ring.size
    }

    pub(crate) fn next(&self) -> Lsn {
        self.next
    }

    /// Appends a record: durable when a place behind it is forced. The caller has seen that there is room.
    pub(crate) fn append(&mut self, transaction: u64, previous: Lsn, body: Body) -> Lsn {
        let lsn = self.next;
        let bytes = Record { lsn, transaction, previous, body }.encode(self.master.opening);
        self.next += bytes.len() as u64;
        self.buffer.extend(bytes);
        lsn
    }

    /// Makes all records up to and including that of `lsn` durable, and with them all others there are.
    pub(crate) fn force(&mut self, host: &mut Host, lsn: Lsn) -> Result<(), Error> {
        if lsn < self.forced || self.buffer.is_empty() {
            return Ok(());
        }
        let (needed, size) = (self.used(), self.ring.size);
        if needed > size {
            return Err(Error::LogFull { needed, size });
        }
        let (begin, end) = self.force_ns;
        let is_joining = host.now_ns() <= begin;
        let start = if is_joining { begin } else { host.now_ns().max(end) };
        host.go_on(host.thread(), start);
        let mut done = 0;
        for (at, len) in self.spans(self.forced, self.buffer.len() as u64) {
            if len > 0 {
                host.write(at, &self.buffer[done..done + len as usize])?;
                done += len as usize;
            }
        }
        let over = host.now_ns();
        self.force_ns = (start, if is_joining { end.max(over) } else { over });
        self.forced = self.next;
        self.buffer.clear();
        Ok(())
    }

    /// A checkpoint is durable, and records before `from` are not needed any more.
    pub(crate) fn cut(&mut self, host: &mut Host, checkpoint: Lsn, from: Lsn) -> Result<(), Error> {
        (self.master.checkpoint, self.master.from) = (checkpoint, from);
        self.write_master(host)
    }

    fn write_master(&mut self, host: &mut Host) -> Result<(), Error> {
        self.master.count += 1;
        let place = self.master.count % 2 * MASTER_SIZE as u64;
        host.write(self.ring.at + place, &self.master.encode())
    }

    pub(crate) fn checkpoint(&self) -> Lsn {
        self.master.checkpoint
    }
}

/// A record with its length.
struct Found {
    record: Record,
    len: u64,
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use std::sync::Arc;

    use tembo_pmem::{Region, RegionOptions};

    use super::*;
    use crate::geometry::Geometry;
    use crate::machine::Machine;
    use crate::recovery::RecoveryRule;
    use crate::timing::Parameters;

    const RING: Ring = Ring { at: 0, size: 4096 };

    /// The end of the log was torn, but a record behind it was not. Another opening writes over the torn one a record of
    /// the same length: what lies behind is none of it.
    #[test]
    fn records_of_an_older_opening_behind_the_end_do_not_count() {
        let geometry = Geometry { controllers: 1, stripe: 64, stripes: 128, entries: 1 };
        let size_max = geometry.region_size();
        let options = RegionOptions { size_max, ..RegionOptions::default() };
        let region = Arc::new(Region::volatile(size_max, &options).unwrap());
        let (machine, _) = Machine::open(&region, geometry, RecoveryRule::Participants).unwrap();
        let mut host = Host::new(machine, Parameters::moneta());
        let (mut log, records) = Log::open(&mut host, RING).unwrap();
        assert_eq!(records, []);
        let first = log.append(1, 0, Body::Commit);
        let second = log.append(2, 0, Body::Commit);
        log.force(&mut host, second).unwrap();
        host.write(MASTERS + first + 32, &[0xff]).unwrap();
        let (mut log, records) = Log::open(&mut host, RING).unwrap();
        assert_eq!(records, []);
        assert_eq!(log.append(3, 0, Body::Commit), first);
        log.force(&mut host, first).unwrap();
        let (_, records) = Log::open(&mut host, RING).unwrap();
        let found: Vec<u64> = records.iter().map(|record| record.transaction).collect();
        assert_eq!(found, [3]);
    }
}
