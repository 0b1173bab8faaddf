//! An object with one owner.

use crate::{Error, Persist, Ptr, Transaction};

/// A pointer to an object that nothing else refers to. It goes with its owner.
#[derive(Persist)]
#[persist(name = "tembo.PBox")]
pub struct PBox<'h, T>(Ptr<'h, T>);

impl<'h, T: Persist<'h>> PBox<'h, T> {
    /// An object of its own for a value.
    ///
    /// # Errors
    /// As [`Transaction::alloc`].
    pub fn new(tx: &mut Transaction<'h>, value: T) -> Result<Self, Error> {
        Ok(PBox(tx.alloc(value)?))
    }

    /// The value.
    ///
    /// # Errors
    /// As [`Transaction::read`].
    pub fn read(&self, tx: &mut Transaction<'h>) -> Result<T, Error> {
        tx.read(&self.0)
    }

    /// Gives it another value.
    ///
    /// # Errors
    /// As [`Transaction::read`].
    pub fn write(&self, tx: &mut Transaction<'h>, value: T) -> Result<(), Error> {
        tx.write(&self.0, value)
    }
}
