//! What cannot be read.

/// A value that this version of the server did not write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnknownLayout;
