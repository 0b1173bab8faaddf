//! Access of large values to the store: one trait for all handles.

use std::ops::Bound;

use tembo_index::{Direction, Value, Visit};

use crate::{Error, Exclusive, Keyspace, Snapshot, Transaction};

/// A handle through which large values are read: a [`Snapshot`] (owned or borrowed), `&mut` [`Transaction`], `&mut`
/// [`Exclusive`]. No other type can be one.
pub trait LargeValueRead: Read {}

/// A handle through which large values are changed: `&mut` [`Transaction`], `&mut` [`Exclusive`].
pub trait LargeValueWrite: LargeValueRead + Write {}

impl<A: Read> LargeValueRead for A {}
impl<A: Write> LargeValueWrite for A {}

/// Receives the value under a key, or `None`.
type With<'w> = dyn FnMut(Option<Value<'_>>) + 'w;

/// The part of a handle that reads.
pub trait Read {
    /// Calls `with` once, with the value under the key.
    fn read(&mut self, keyspace: Keyspace, key: &[u8], with: &mut With<'_>) -> Result<(), Error>;
}

/// The part of a handle that writes.
pub trait Write: Read {
    /// Puts a value, or removes the key.
    fn set(&mut self, keyspace: Keyspace, key: &[u8], value: Option<&[u8]>) -> Result<(), Error>;

    /// Whether ranges of keys can be asked for.
    fn has_order(&self) -> bool;

    /// The first `most` keys from one up to another.
    fn keys(
        &mut self,
        keyspace: Keyspace,
        range: (Bound<&[u8]>, Bound<&[u8]>),
        most: usize,
    ) -> Result<Vec<Vec<u8>>, Error>;

    /// Holds a key: the commit fails if another transaction changes it before. Without an order of keys the
    /// value is written again, so that the transaction also conflicts with one that commits after it.
    fn hold_key(&mut self, keyspace: Keyspace, key: &[u8], value: &[u8]) -> Result<(), Error>;

    /// Holds a range: the commit fails if another transaction changes a key of it before.
    fn hold_range(
        &mut self,
        keyspace: Keyspace,
        range: (Bound<&[u8]>, Bound<&[u8]>),
    ) -> Result<(), Error>;
}

impl Read for &Snapshot {
    fn read(&mut self, keyspace: Keyspace, key: &[u8], with: &mut With<'_>) -> Result<(), Error> {
        with(self.get(keyspace, key)?);
        Ok(())
    }
}

impl Read for Snapshot {
    fn read(&mut self, keyspace: Keyspace, key: &[u8], with: &mut With<'_>) -> Result<(), Error> {
        (&mut &*self).read(keyspace, key, with)
    }
}

impl Read for &mut Exclusive {
    fn read(&mut self, keyspace: Keyspace, key: &[u8], with: &mut With<'_>) -> Result<(), Error> {
        with(self.get(keyspace, key)?);
        Ok(())
    }
}

/// The first `most` keys that a range visits.
fn first_keys(
    most: usize,
    range: impl FnOnce(&mut Visit<'_>) -> Result<(), Error>,
) -> Result<Vec<Vec<u8>>, Error> {
    let mut keys = Vec::new();
    range(&mut |key, _| {
        keys.push(key.to_vec());
        keys.len() < most
    })?;
    Ok(keys)
}

impl Write for &mut Exclusive {
    fn set(&mut self, keyspace: Keyspace, key: &[u8], value: Option<&[u8]>) -> Result<(), Error> {
        match value {
            Some(value) => self.put(keyspace, key, value).map(drop),
            None => self.remove(keyspace, key).map(drop),
        }
    }

    fn has_order(&self) -> bool {
        self.check_order().is_ok()
    }

    fn keys(
        &mut self,
        keyspace: Keyspace,
        range: (Bound<&[u8]>, Bound<&[u8]>),
        most: usize,
    ) -> Result<Vec<Vec<u8>>, Error> {
        first_keys(most, |visit| {
            self.range_with::<[u8]>(keyspace, range, Direction::Forward, visit)
        })
    }

    // No other transaction commits beside an exclusive writer. But one that began before it and cuts after it must find a
    // conflict: with an order of keys it holds a range of pieces, without one the header must have changed.
    fn hold_key(&mut self, keyspace: Keyspace, key: &[u8], value: &[u8]) -> Result<(), Error> {
        if self.has_order() { Ok(()) } else { self.put(keyspace, key, value).map(drop) }
    }

    fn hold_range(&mut self, _: Keyspace, _: (Bound<&[u8]>, Bound<&[u8]>)) -> Result<(), Error> {
        Ok(())
    }
}

impl Read for &mut Transaction {
    fn read(&mut self, keyspace: Keyspace, key: &[u8], with: &mut With<'_>) -> Result<(), Error> {
        self.get_with(keyspace, key, with)
    }
}

impl Write for &mut Transaction {
    fn set(&mut self, keyspace: Keyspace, key: &[u8], value: Option<&[u8]>) -> Result<(), Error> {
        match value {
            Some(value) => self.put(keyspace, key, value),
            None => self.remove(keyspace, key),
        }
    }

    fn has_order(&self) -> bool {
        self.check_order().is_ok()
    }

    fn keys(
        &mut self,
        keyspace: Keyspace,
        range: (Bound<&[u8]>, Bound<&[u8]>),
        most: usize,
    ) -> Result<Vec<Vec<u8>>, Error> {
        first_keys(most, |visit| {
            self.range_with::<[u8]>(keyspace, range, Direction::Forward, visit)
        })
    }

    fn hold_key(&mut self, keyspace: Keyspace, key: &[u8], value: &[u8]) -> Result<(), Error> {
        if !self.has_order() {
            return self.put(keyspace, key, value);
        }
        self.note_key(keyspace, key);
        Ok(())
    }

    fn hold_range(
        &mut self,
        keyspace: Keyspace,
        range: (Bound<&[u8]>, Bound<&[u8]>),
    ) -> Result<(), Error> {
        self.note_range(keyspace, range)
    }
}
