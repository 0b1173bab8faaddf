//! The window through which the adversary watches the waist.

/// A store on its way into the region.
#[derive(Clone, Copy, Debug)]
pub struct Stored<'s> {
    /// The name of a commit store; other stores have none.
    pub name: Option<&'static str>,
    /// Where its first byte goes.
    pub offset: u64,
    /// Its bytes, one part after another; a word is one part.
    pub parts: &'s [&'s [u8]],
}

impl Stored<'_> {
    /// Bytes stored.
    pub fn len(&self) -> u64 {
        self.parts.iter().map(|part| part.len() as u64).sum()
    }

    /// Whether nothing is stored.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// Watches a region: called at each step with the step's name and the range it touches.
///
/// A region without an observer pays one predictable branch for each call.
pub trait Observer: Send + Sync {
    /// `len` bytes at `offset` are about to be read.
    fn load(&self, offset: u64, len: u64);
    /// A store, which happens when the observer calls `perform`, once: so that it can write down
    /// the stores of several threads in the order in which they are done.
    fn store(&self, stored: Stored<'_>, perform: &mut dyn FnMut());
    /// The named flush of the lines that hold `len` bytes at `offset`.
    fn flush(&self, name: &'static str, offset: u64, len: u64);
    /// The named fence of the calling thread, before it takes effect.
    fn fence(&self, name: &'static str);
    /// Whether several threads that it distinguishes are one of the system's. Then nothing that is counted by
    /// thread is believed.
    fn shares_threads(&self) -> bool {
        false
    }
    /// In the `logged` domain: the line at `offset` has been copied into a group, which is not yet
    /// appended.
    fn copied(&self, _offset: u64) {}
    /// A sync has succeeded.
    fn sync(&self);
    /// The region has `size` bytes from here on; what was added is zero, what was cut off is lost. That is durable.
    fn resize(&self, size: u64);
}
