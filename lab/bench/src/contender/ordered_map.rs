//! What a contender is: an ordered map of numbers.

use crate::bplus::Flushed;
use crate::nvtree_paper::Rebuilds;
use crate::{Error, Operation};

/// An ordered map of 8-byte keys to 8-byte values. Each change is durable when it returns, unless the
/// contender's kind says that nothing of it is.
///
/// Structures that know bytes only are given keys in big-endian order.
pub trait Contender {
    /// Puts a key that is not there.
    ///
    /// # Errors
    /// Those of what lies below.
    fn insert(&mut self, key: u64, value: u64) -> Result<(), Error>;

    /// Gives a key that is there another value; false: it was not there.
    ///
    /// # Errors
    /// Those of what lies below.
    fn update(&mut self, key: u64, value: u64) -> Result<bool, Error>;

    /// Removes a key; false: it was not there.
    ///
    /// # Errors
    /// Those of what lies below.
    fn remove(&mut self, key: u64) -> Result<bool, Error>;

    /// The value of a key.
    ///
    /// # Errors
    /// Those of what lies below.
    fn get(&mut self, key: u64) -> Result<Option<u64>, Error>;

    /// Visits up to `len` entries from `key` on, in order; their number.
    ///
    /// # Errors
    /// Those of what lies below.
    fn scan(&mut self, key: u64, len: usize) -> Result<usize, Error>;

    /// Bytes that it takes in its pool.
    fn used_bytes(&self) -> u64;

    /// Puts a value of `size` bytes.
    ///
    /// # Errors
    /// [`Error::Absent`]: it keeps numbers only; those of what lies below.
    fn put_record(&mut self, key: u64, size: usize) -> Result<(), Error> {
        let _ = (key, size);
        Err(Error::Absent("values of any length"))
    }

    /// Itself, if several threads may use it at once.
    fn shared(&self) -> Option<&dyn Shared> {
        None
    }

    /// Rebuilds of its inner nodes so far, if it has any such thing.
    fn rebuilds(&self) -> Option<Rebuilds> {
        None
    }

    /// Lines flushed so far, by what for, if it keeps apart what they were for.
    fn flushed(&self) -> Option<Flushed> {
        None
    }

    /// Whether it has that operation at all.
    fn offers(&self, operation: Operation) -> bool {
        let _ = operation;
        true
    }
}

/// A contender that several threads use at once.
pub trait Shared: Sync {
    /// Whether more than one of them may change it.
    fn takes_writers(&self) -> bool;

    /// Puts a key; whether it was there.
    ///
    /// # Errors
    /// Those of what lies below.
    fn put(&self, key: u64, value: u64) -> Result<bool, Error>;

    /// The value of a key.
    ///
    /// # Errors
    /// Those of what lies below.
    fn get(&self, key: u64) -> Result<Option<u64>, Error>;
}

/// Counts the entries that a scan shows, and ends it after `len` of them.
pub(super) fn counted(
    len: usize,
    scan: impl FnOnce(&mut dyn FnMut(u64, u64) -> bool) -> Result<(), Error>,
) -> Result<usize, Error> {
    let mut count = 0;
    scan(&mut |key, value| {
        std::hint::black_box((key, value));
        count += 1;
        count < len
    })?;
    Ok(count)
}
