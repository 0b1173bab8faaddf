//! An object with one owner.

use crate::{Access, Error, Layer, Persist, Ptr};

/// A pointer to an object that nothing else refers to. It goes with its owner.
#[derive(Persist)]
#[persist(name = "tembo.PBox")]
pub struct PBox<'h, T>(Ptr<'h, T>);

impl<'h, T: Persist<'h>> PBox<'h, T> {
    /// An object of its own for a value.
    ///
    /// # Errors
    /// As [`Access::alloc`].
    pub fn new<L: Layer>(tx: &mut Access<'h, L>, value: T) -> Result<Self, Error> {
        Ok(PBox(tx.alloc(value)?))
    }

    /// The value.
    ///
    /// # Errors
    /// As [`Access::read`].
    pub fn read<L: Layer>(&self, tx: &mut Access<'h, L>) -> Result<T, Error> {
        tx.read(&self.0)
    }

    /// Gives it another value.
    ///
    /// # Errors
    /// As [`Access::read`].
    pub fn write<L: Layer>(&self, tx: &mut Access<'h, L>, value: T) -> Result<(), Error> {
        tx.write(&self.0, value)
    }
}
