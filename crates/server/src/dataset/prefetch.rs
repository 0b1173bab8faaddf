//! What commands will need of the store is asked for in advance, for many keys at once: what each would wait for in memory comes
//! for all of them together. Nothing changes by it, and no command needs it.

use crate::dataset::{Dataset, check_key};
use crate::failure::Failure;

/// Keys that are asked for together.
const PREFETCHED_MAX: usize = 16;
/// Of a command with longer keys none is asked for.
const SIZE_MAX: usize = 512;

impl Dataset<'_> {
    /// Lets the store know that these keys will soon be used, in this order.
    pub(crate) fn prefetch(&mut self, db: usize, keys: &[&[u8]]) {
        let space = self.spaces.data[db];
        // The command that uses them meets the error.
        if let Ok((transaction, _)) = self.begin_early() {
            transaction.prefetch(space, keys);
        }
    }

    /// As `prefetch`, of the keys of one command: not of one key, nor of long ones.
    fn prefetch_group(&mut self, db: usize, keys: &[&[u8]]) {
        if keys.len() > 1 && keys.iter().all(|key| key.len() <= SIZE_MAX) {
            self.prefetch(db, keys);
        }
    }

    /// Does something with each of some keys, in their order; the store prefetches them in groups.
    pub(crate) fn each_key<'k>(
        &mut self,
        db: usize,
        mut keys: impl Iterator<Item = &'k [u8]>,
        mut step: impl FnMut(&mut Self, &'k [u8]) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        let mut group = [&[][..]; PREFETCHED_MAX];
        loop {
            let places = group.iter_mut().zip(&mut keys);
            let count = places.map(|(place, key)| *place = key).count();
            self.prefetch_group(db, &group[..count]);
            group[..count].iter().try_for_each(|key| step(self, key))?;
            if count < PREFETCHED_MAX {
                return Ok(());
            }
        }
    }

    /// Puts strings under their keys, without an expiry: all of them, or none.
    pub(crate) fn put_strings(
        &mut self,
        db: usize,
        strings: &[(&[u8], &[u8])],
    ) -> Result<(), Failure> {
        strings.iter().try_for_each(|(key, _)| check_key(key))?;
        let size = strings.iter().map(|(key, payload)| key.len() + payload.len()).sum();
        self.atomically(size, |data| {
            let mut keys = [&[][..]; PREFETCHED_MAX];
            for strings in strings.chunks(PREFETCHED_MAX) {
                keys.iter_mut().zip(strings).for_each(|(place, (key, _))| *place = key);
                data.prefetch_group(db, &keys[..strings.len()]);
                strings.iter().try_for_each(|(key, payload)| data.put(db, key, payload, None))?;
            }
            Ok(())
        })
    }
}
