//! The window through which the adversary watches the waist.

/// Watches a region: called before or after each step with the step's name and the range it touches.
///
/// A region without an observer pays one predictable branch for each call.
pub trait Observer: Send + Sync {
    /// `len` bytes at `offset` are about to be read.
    fn load(&self, offset: u64, len: u64);
    /// `len` bytes at `offset` have been stored.
    fn store(&self, offset: u64, len: u64);
    /// The named commit store of the 8 bytes at `offset`, before it is done.
    fn commit(&self, name: &'static str, offset: u64);
    /// The named flush of the lines that hold `len` bytes at `offset`.
    fn flush(&self, name: &'static str, offset: u64, len: u64);
    /// The named fence of the calling thread, before it takes effect.
    fn fence(&self, name: &'static str);
    /// A sync has succeeded.
    fn sync(&self);
}
