//! How large the buffers of a client are.

/// The bytes of a buffer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Buffer {
    /// Those that hold something.
    pub(crate) used: usize,
    /// The others.
    pub(crate) free: usize,
}
