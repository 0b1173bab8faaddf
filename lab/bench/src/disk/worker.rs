//! What is done with a store: loads, reads, changes, scans. Every answer is checked.

use std::path::PathBuf;

use super::batch::Batch;
use super::dataset::{Dataset, Shuffle, Values};
use super::meter::Meter;
use super::spec::{Phase, Spec};
use crate::Error;
use crate::distribution::{Chooser, Distribution, Drawn};
use crate::keys::{Keys, Random};
use crate::rival::Client;
use crate::ycsb::{Act, Stream, Workload};

/// Puts in a commit where several are committed together.
pub(super) const BATCH: u64 = 200;

/// Bytes of the values that are filled in together, if these are more puts than in another commit.
const FILL_BYTES: u64 = 1 << 20;

/// Entries of a scan.
const SCAN: u64 = 1000;

/// A client with the records that it loads.
pub(super) struct Worker<'c> {
    client: &'c mut dyn Client,
    contender: &'static str,
    data: Dataset,
    shuffle: Shuffle,
    values: Values,
    random: Random,
    value_size: usize,
    seconds: f64,
    folder: PathBuf,
    /// Records whose numbers are below this are there.
    loaded: u64,
    /// Records whose ranks are below this are there.
    filled: u64,
}

impl<'c> Worker<'c> {
    pub(super) fn new(
        client: &'c mut dyn Client,
        contender: &'static str,
        spec: &Spec,
    ) -> Worker<'c> {
        let Spec { records: count, seed, value_size, seconds, .. } = *spec;
        let present = if spec.is_reopened { count } else { 0 };
        Worker {
            client,
            contender,
            data: Dataset { count, seed },
            shuffle: Shuffle::new(count, seed),
            values: Values::new(seed),
            random: Random::new(!seed),
            value_size,
            seconds,
            folder: spec.folder.clone(),
            loaded: present,
            filled: present,
        }
    }

    /// Whether all records are there.
    pub(super) fn is_full(&self) -> bool {
        self.loaded.max(self.filled) == self.data.count
    }

    fn meter(&self, name: &str, seconds: f64) -> Result<Meter, Error> {
        Meter::start(name, seconds, &self.folder)
    }

    /// Puts all records in random order.
    pub(super) fn load(&mut self, seconds: f64) -> Result<Phase, Error> {
        let (mut meter, mut batch) = (self.meter(Phase::LOAD, seconds)?, Batch::default());
        while self.loaded < self.data.count && !meter.is_over() {
            let numbers = self.loaded..(self.loaded + BATCH).min(self.data.count);
            for number in numbers.clone() {
                batch.put(self.data.key(number), number, self.value_size, &mut self.values);
            }
            batch.commit(self.client, &mut meter)?;
            self.loaded = numbers.end;
        }
        Ok(meter.finish(self.loaded < self.data.count))
    }

    /// Puts what a load that was cut has left, in the order of the keys, which every store does faster.
    pub(super) fn fill(&mut self, seconds: f64) -> Result<Phase, Error> {
        let (mut meter, mut batch) = (self.meter(Phase::FILL, seconds)?, Batch::default());
        let together = (FILL_BYTES / self.value_size as u64).clamp(BATCH, 10 * BATCH);
        while self.filled < self.data.count && !meter.is_over() {
            let ranks = self.filled..(self.filled + together).min(self.data.count);
            for rank in ranks.clone() {
                let number = self.shuffle.number_of(rank);
                if number >= self.loaded {
                    batch.put(self.data.key_at(rank), number, self.value_size, &mut self.values);
                }
            }
            batch.commit(self.client, &mut meter)?;
            self.filled = ranks.end;
        }
        Ok(meter.finish(self.filled < self.data.count))
    }

    /// The number of a record that is there.
    fn draw(&mut self, chooser: &Chooser) -> u64 {
        loop {
            let number = match chooser.draw(&mut self.random, 0) {
                Drawn::Loaded(number) => number,
                Drawn::Inserted { back } => back,
            };
            if number < self.loaded || self.shuffle.at(number) < self.filled {
                return number;
            }
        }
    }

    fn chooser(&self, distribution: Distribution) -> Chooser {
        Chooser::new(distribution, self.data.count)
    }

    fn wrong(&self, operation: &'static str, expected: u64, found: u64) -> Error {
        Error::Wrong { contender: self.contender, operation, expected, found }
    }

    /// Gets records, for half of the time before it is measured: what is asked for often is then in memory.
    pub(super) fn get(&mut self, name: &str, distribution: Distribution) -> Result<Phase, Error> {
        let chooser = self.chooser(distribution);
        let warm_up = self.meter(name, self.seconds / 2.0)?;
        self.gets(warm_up, &chooser)?;
        let meter = self.meter(name, self.seconds)?;
        self.gets(meter, &chooser)
    }

    fn gets(&mut self, mut meter: Meter, chooser: &Chooser) -> Result<Phase, Error> {
        let mut value = Vec::new();
        while !meter.is_over() {
            let number = self.draw(chooser);
            let key = self.data.key(number);
            let is_there = meter.time(1, || self.client.get(&key, &mut value))?;
            if !is_there || !Values::is_of(number, &value) {
                return Err(self.wrong("get", 1, 0));
            }
        }
        Ok(meter.finish(false))
    }

    /// Gets the next few records.
    ///
    /// # Errors
    /// Those of the client; [`Error::Wrong`].
    pub(super) fn first_gets(&mut self, name: &str, count: u64) -> Result<Phase, Error> {
        let chooser = self.chooser(Distribution::Uniform);
        let (mut meter, mut value) = (self.meter(name, f64::INFINITY)?, Vec::new());
        for _ in 0..count {
            let number = self.draw(&chooser);
            let key = self.data.key(number);
            if !meter.time(1, || self.client.get(&key, &mut value))?
                || !Values::is_of(number, &value)
            {
                return Err(self.wrong("get", 1, 0));
            }
        }
        Ok(meter.finish(false))
    }

    /// Puts records that are there, so many a commit.
    pub(super) fn overwrite(
        &mut self,
        name: &str,
        distribution: Distribution,
        together: u64,
    ) -> Result<Phase, Error> {
        let chooser = self.chooser(distribution);
        let (mut meter, mut batch) = (self.meter(name, self.seconds)?, Batch::default());
        while !meter.is_over() {
            for _ in 0..together {
                let number = self.draw(&chooser);
                batch.put(self.data.key(number), number, self.value_size, &mut self.values);
            }
            batch.commit(self.client, &mut meter)?;
        }
        Ok(meter.finish(false))
    }

    /// Reads all records in the order of the keys, as far as it comes. A store that is not full has
    /// fewer between two keys.
    pub(super) fn scan(&mut self) -> Result<Phase, Error> {
        let mut meter = self.meter("scan", self.seconds)?;
        let (mut rank, end) = (0, if self.is_full() { self.data.count } else { self.filled });
        while rank < end && !meter.is_over() {
            let wanted = SCAN.min(end - rank);
            let key = self.data.key_at(rank);
            let found = meter.time(wanted, || self.client.scan(&key, wanted as usize))?;
            let found = found.unwrap_or_default() as u64;
            if found != wanted {
                return Err(self.wrong("scan", wanted, found));
            }
            rank += wanted;
        }
        Ok(meter.finish(rank < end))
    }

    /// A workload of YCSB, each change a commit of its own. All records must be there.
    pub(super) fn ycsb(&mut self, workload: Workload) -> Result<Phase, Error> {
        let keys = Keys { count: self.data.count, seed: self.data.seed };
        let mut stream = Stream::new(workload, keys, 0, 1).from((workload as u64) << 40);
        let mut meter = self.meter(&format!("YCSB {}", workload.name()), self.seconds)?;
        let (mut batch, mut value) = (Batch::default(), Vec::new());
        while !meter.is_over() {
            let (act, number) = stream.numbered();
            let key = self.data.key(number);
            if matches!(act, Act::Update | Act::Insert | Act::ReadModifyWrite) {
                batch.put(key, number, self.value_size, &mut self.values);
            }
            let is_right = match act {
                Act::Scan { len } => {
                    let found = meter.time(1, || self.client.scan(&key, len))?;
                    found.is_some_and(|found| (1..=len).contains(&found))
                }
                Act::Read => {
                    meter.time(1, || self.client.get(&key, &mut value))?
                        && Values::is_of(number, &value)
                }
                Act::Update | Act::Insert => {
                    batch.commit(self.client, &mut meter)?;
                    true
                }
                Act::ReadModifyWrite => {
                    let client = &mut *self.client;
                    let is_there = meter.time(1, || {
                        let is_there = client.get(&key, &mut value)?;
                        batch.write(client)?;
                        Ok(is_there)
                    })?;
                    meter.put(batch.payload());
                    batch.clear();
                    is_there && Values::is_of(number, &value)
                }
            };
            if !is_right {
                return Err(self.wrong("reads of YCSB", 1, 0));
            }
        }
        Ok(meter.finish(false))
    }

    /// A quarter removes, the rest puts values of a quarter to twice the size, until four times as many bytes were put as
    /// were loaded. What is left, in bytes of keys and values. All records must be there.
    pub(super) fn churn(&mut self, seconds: f64) -> Result<(Phase, u64), Error> {
        let (mut meter, mut batch) = (self.meter("churn", seconds)?, Batch::default());
        let mut sizes = vec![Some(self.value_size); self.data.count as usize];
        let goal = 4 * self.data.count * Batch::payload_of(Some(self.value_size));
        let mut put = 0;
        while put < goal && !meter.is_over() {
            for _ in 0..BATCH {
                let number = self.random.below(self.data.count);
                let size = match self.random.below(8) {
                    0 | 1 => None,
                    step => Some((self.value_size << (step % 4)) / 4),
                };
                let key = self.data.key(number);
                match size {
                    None => batch.remove(key),
                    Some(size) => batch.put(key, number, size, &mut self.values),
                }
                sizes[number as usize] = size;
                put += Batch::payload_of(size);
            }
            batch.commit(self.client, &mut meter)?;
        }
        let left = sizes.into_iter().map(Batch::payload_of).sum();
        Ok((meter.finish(put < goal), left))
    }
}
