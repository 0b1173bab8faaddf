//! A version of a history.

/// A version of a history.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Mark {
    /// The history's name.
    pub(crate) id: String,
    pub(crate) version: u64,
}
