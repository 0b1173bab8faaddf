//! Changes of one commit. Values are made before the time of the commit begins.

use super::dataset::{KEY_SIZE, Values};
use super::meter::Meter;
use crate::Error;
use crate::rival::{Change, Client};

/// Changes that are not committed.
#[derive(Default)]
pub(super) struct Batch {
    changes: Vec<([u8; KEY_SIZE], Option<usize>)>,
    /// Buffers of values, used again.
    values: Vec<Vec<u8>>,
    used: usize,
}

impl Batch {
    /// Bytes of the key and the value of a record of this size; `None`: it is not there.
    pub(super) fn payload_of(size: Option<usize>) -> u64 {
        size.map_or(0, |size| (KEY_SIZE + size) as u64)
    }

    pub(super) fn put(
        &mut self,
        key: [u8; KEY_SIZE],
        number: u64,
        size: usize,
        values: &mut Values,
    ) {
        if self.used == self.values.len() {
            self.values.push(Vec::new());
        }
        values.fill(number, size, &mut self.values[self.used]);
        self.changes.push((key, Some(self.used)));
        self.used += 1;
    }

    pub(super) fn remove(&mut self, key: [u8; KEY_SIZE]) {
        self.changes.push((key, None));
    }

    /// Bytes of keys and values to be put.
    pub(super) fn payload(&self) -> u64 {
        self.values[..self.used].iter().map(|value| Batch::payload_of(Some(value.len()))).sum()
    }

    pub(super) fn clear(&mut self) {
        self.changes.clear();
        self.used = 0;
    }

    /// Durable when it returns.
    pub(super) fn write(&self, client: &mut dyn Client) -> Result<(), Error> {
        let mut changes = Vec::with_capacity(self.changes.len());
        for (key, value) in &self.changes {
            changes.push(match value {
                Some(at) => Change::Put { key, value: &self.values[*at] },
                None => Change::Remove { key },
            });
        }
        client.write(&changes)
    }

    /// Writes all of it, as so many operations of one commit, and is empty then.
    pub(super) fn commit(
        &mut self,
        client: &mut dyn Client,
        meter: &mut Meter,
    ) -> Result<(), Error> {
        meter.time(self.changes.len() as u64, || self.write(client))?;
        meter.put(self.payload());
        self.clear();
        Ok(())
    }
}
