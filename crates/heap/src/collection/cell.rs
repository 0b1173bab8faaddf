//! A cell whose update carries its own ordering.

use crate::{Error, Persist, Place};

/// A value of which each update is a transaction of its own: the `persistent` keyword of the thesis (5.8.3).
#[derive(Persist, Clone)]
#[persist(name = "tembo.Persistent")]
pub struct Persistent<T>(T);

impl<T> Persistent<T> {
    /// A cell with a value.
    pub fn new(value: T) -> Persistent<T> {
        Persistent(value)
    }
}

impl<'h, T: Persist<'h>> Place<'h, Persistent<T>> {
    /// The value.
    ///
    /// # Errors
    /// As [`Heap::atomic`](crate::Heap::atomic).
    pub fn load(&self) -> Result<T, Error> {
        self.heap().atomic(|tx| tx.at(self)).map(|cell| cell.0)
    }

    /// Stores a value: durable in the sense of the pool's policy when it returns. One fence.
    ///
    /// # Errors
    /// As [`Heap::atomic`](crate::Heap::atomic).
    pub fn store(&self, value: T) -> Result<(), Error> {
        let value = Persistent(value);
        self.heap().atomic(|tx| tx.put_ref(self, &value))
    }
}
