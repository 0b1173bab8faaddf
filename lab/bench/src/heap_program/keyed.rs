//! Benchmarks on entries by key: what they share, and a store of them for comparison.

use super::memory::{Keyed, Store, Work};
use crate::Error;

/// What holds entries, as a store does that programs link: transactions, and keys.
pub(crate) trait KeyedFile: Sync {
    /// Does all of `body` at once and durably.
    fn atomic(
        &self,
        body: &mut dyn FnMut(&mut dyn Keyed<Fault = Error>) -> Result<u64, Error>,
    ) -> Result<u64, Error>;

    /// It is filled. What is done at once from here on has to be durable before the next.
    fn filled(&self) -> Result<(), Error>;

    /// Bytes that it takes on its medium.
    fn size(&self) -> Result<u64, Error>;
}

impl Keyed for &mut (dyn Keyed<Fault = Error> + '_) {
    type Fault = Error;

    fn get(&mut self, key: u64, changes: bool, out: &mut Vec<u8>) -> Result<bool, Error> {
        (**self).get(key, changes, out)
    }

    fn put(&mut self, key: u64, value: &[u8]) -> Result<(), Error> {
        (**self).put(key, value)
    }

    fn remove(&mut self, key: u64) -> Result<(), Error> {
        (**self).remove(key)
    }
}

/// Removes a key that is there, or inserts it; whether it is there afterwards.
pub(super) fn toggle<K: Keyed>(entries: &mut K, key: u64) -> Result<u64, K::Fault> {
    let is_there = entries.get(key, true, &mut Vec::new())?;
    if is_there {
        entries.remove(key)?
    } else {
        entries.put(key, &[])?
    }
    Ok(u64::from(!is_there))
}

/// A store by keys, for benchmarks.
pub(crate) struct KeyedStore<'f>(pub(crate) &'f dyn KeyedFile);

impl<const D: usize, const L: usize> Store<D, L> for KeyedStore<'_> {
    fn atomic<W: Work<D, L>>(&self, work: &mut W) -> Result<u64, Error> {
        self.0.atomic(&mut |mut entries| work.run_keyed(&mut entries))
    }

    fn filled(&self) -> Result<(), Error> {
        self.0.filled()
    }
}
