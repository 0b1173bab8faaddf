//! What a step of background work leaves to do.

/// What a step of background work left to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress {
    /// Nothing.
    Idle,
    /// Something.
    More,
}
