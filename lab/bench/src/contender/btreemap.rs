//! The standard library's ordered map: volatile, so no rival but a measure.

use std::collections::BTreeMap;

use crate::{Contender, Error};

/// Integer keys, for comparing bytes would only slow it down.
#[derive(Default)]
pub(super) struct Volatile(BTreeMap<u64, u64>);

impl Contender for Volatile {
    fn insert(&mut self, key: u64, value: u64) -> Result<(), Error> {
        self.0.insert(key, value);
        Ok(())
    }

    fn update(&mut self, key: u64, value: u64) -> Result<bool, Error> {
        let Some(old) = self.0.get_mut(&key) else { return Ok(false) };
        *old = value;
        Ok(true)
    }

    fn remove(&mut self, key: u64) -> Result<bool, Error> {
        Ok(self.0.remove(&key).is_some())
    }

    fn get(&mut self, key: u64) -> Result<Option<u64>, Error> {
        Ok(self.0.get(&key).copied())
    }

    fn scan(&mut self, key: u64, len: usize) -> Result<usize, Error> {
        let mut count = 0;
        for entry in self.0.range(key..).take(len) {
            std::hint::black_box(entry);
            count += 1;
        }
        Ok(count)
    }

    fn used_bytes(&self) -> u64 {
        0
    }
}
