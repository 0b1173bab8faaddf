//! Which version of a database a connection shows.

/// Chosen at the open, by parameters of the name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum View {
    /// The current one, which it may change.
    Current,
    /// That of a named snapshot.
    Named(String),
    /// That of a number.
    At(u64),
}
