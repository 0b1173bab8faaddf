//! Keys and values of given sizes, and clients that go through them; answers are checked.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;

use crate::Error;
use crate::keys::Keys;
use crate::rival::Client;
use crate::ycsb::{Act, Stream};

/// The shapes of records.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Tuples {
    pub(crate) keys: Keys,
    /// Bytes of a key; at least 16.
    pub(crate) key_size: usize,
    /// Bytes of a value.
    pub(crate) value_size: usize,
}

/// Values none of which was written before: a store may notice that it has what it is given, and write
/// nothing.
struct Values {
    bytes: Vec<u8>,
}

impl Values {
    fn new(size: usize) -> Values {
        Values { bytes: vec![b'v'; size] }
    }

    fn next(&mut self) -> &[u8] {
        static SERIAL: AtomicU64 = AtomicU64::new(0);
        let serial = SERIAL.fetch_add(1, Ordering::Relaxed).to_le_bytes();
        self.bytes.iter_mut().zip(serial).for_each(|(byte, new)| *byte = new);
        &self.bytes
    }
}

/// What is done with every record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verb {
    Put,
    Get,
    Overwrite,
    Delete,
}

impl Verb {
    /// In this order a store is filled, used and emptied.
    pub(crate) const ALL: [Verb; 4] = [Verb::Put, Verb::Get, Verb::Overwrite, Verb::Delete];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Verb::Put => "put",
            Verb::Get => "get",
            Verb::Overwrite => "overwrite",
            Verb::Delete => "delete",
        }
    }
}

impl Tuples {
    /// A key as bytes: digits of 16, which every protocol takes, then padding. In the order of the
    /// numbers.
    fn name(self, key: u64, name: &mut Vec<u8>) {
        const DIGITS: &[u8; 16] = b"0123456789abcdef";
        name.clear();
        name.extend((0..16).rev().map(|digit| DIGITS[(key >> (4 * digit)) as usize & 15]));
        name.resize(self.key_size.max(16), b'k');
    }

    /// One verb with each key of a plan; the wall time of it.
    ///
    /// # Errors
    /// [`Error::Wrong`], and those of the client.
    pub(crate) fn run(
        self,
        client: &mut dyn Client,
        verb: Verb,
        plan: &[u64],
        contender: &'static str,
    ) -> Result<Duration, Error> {
        let (mut name, mut out) = (Vec::new(), Vec::new());
        let mut values = Values::new(self.value_size);
        let mut right = 0;
        let start = Instant::now();
        for &key in plan {
            self.name(key, &mut name);
            right += u64::from(match verb {
                Verb::Put | Verb::Overwrite => client.put(&name, values.next()).map(|()| true)?,
                Verb::Get => client.get(&name, &mut out)? && out.len() == self.value_size,
                Verb::Delete => client.remove(&name)?,
            });
        }
        let elapsed = start.elapsed();
        let (operation, expected) = (verb.name(), plan.len() as u64);
        if right != expected {
            return Err(Error::Wrong { contender, operation, expected, found: right });
        }
        Ok(elapsed)
    }

    /// As [`run`](Tuples::run) with [`Verb::Put`], each timed by itself, in nanoseconds.
    ///
    /// # Errors
    /// Those of the client.
    pub(crate) fn timed_puts(
        self,
        client: &mut dyn Client,
        plan: &[u64],
    ) -> Result<Histogram<u64>, Error> {
        // From a nanosecond to a minute, three digits.
        let mut histogram = Histogram::new_with_bounds(1, 60_000_000_000, 3)?;
        let (mut name, mut values) = (Vec::new(), Values::new(self.value_size));
        for &key in plan {
            self.name(key, &mut name);
            let value = values.next();
            let start = Instant::now();
            client.put(&name, value)?;
            let ns = start.elapsed().as_nanos().min(u64::MAX.into()) as u64;
            histogram.saturating_record(ns.max(1));
        }
        Ok(histogram)
    }

    /// So many operations of a workload; `None`: the client has no order, and the workload scans.
    ///
    /// # Errors
    /// [`Error::Wrong`], and those of the client.
    pub(crate) fn ycsb(
        self,
        client: &mut dyn Client,
        stream: &mut Stream,
        operations: u64,
        contender: &'static str,
    ) -> Result<Option<Duration>, Error> {
        let (mut name, mut out) = (Vec::new(), Vec::new());
        let mut values = Values::new(self.value_size);
        let (mut reads, mut found) = (0, 0);
        let start = Instant::now();
        for (act, key) in stream.take(operations as usize) {
            self.name(key, &mut name);
            if let Act::Scan { len } = act {
                let Some(count) = client.scan(&name, len)? else { return Ok(None) };
                (reads, found) = (reads + 1, found + u64::from((1..=len).contains(&count)));
                continue;
            }
            if matches!(act, Act::Read | Act::ReadModifyWrite) {
                (reads, found) = (reads + 1, found + u64::from(client.get(&name, &mut out)?));
            }
            if act != Act::Read {
                client.put(&name, values.next())?;
            }
        }
        let elapsed = start.elapsed();
        if reads != found {
            let operation = "reads of YCSB";
            return Err(Error::Wrong { contender, operation, expected: reads, found });
        }
        Ok(Some(elapsed))
    }
}

/// Thousand operations a second.
pub(crate) fn kops(operations: u64, elapsed: Duration) -> f64 {
    operations as f64 / elapsed.as_secs_f64().max(1e-9) / 1e3
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_value_is_written_twice() {
        let (mut some, mut others) = (Values::new(16), Values::new(16));
        let mut written: Vec<Vec<u8>> = (0..1000).map(|_| some.next().to_vec()).collect();
        written.extend((0..1000).map(|_| others.next().to_vec()));
        written.sort_unstable();
        assert!(written.is_sorted_by(|one, next| one < next));
        assert!(written.iter().all(|value| value.len() == 16));
    }
}
