//! Values that threads change, away from values that others read.

use std::ops::{Deref, DerefMut};

/// A value that has its cache lines to itself. A processor that changes one byte takes the whole line from all others, and
/// often the line beside it too: what is read by every operation must not lie beside what is changed by any.
#[derive(Debug, Default)]
#[repr(align(128))]
pub struct Apart<T>(pub T);

impl<T> Deref for Apart<T> {
    type Target = T;

    #[inline(always)]
    fn deref(&self) -> &T {
        &self.0
    }
}

impl<T> DerefMut for Apart<T> {
    #[inline(always)]
    fn deref_mut(&mut self) -> &mut T {
        &mut self.0
    }
}
