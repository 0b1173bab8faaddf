//! The ends of a list.

/// An end of a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// The first element's.
    Left,
    /// The last element's.
    Right,
}

impl End {
    /// The event of elements that are added there.
    pub(crate) fn push_event(self) -> &'static str {
        if self == End::Left { "lpush" } else { "rpush" }
    }

    /// The event of elements that are taken from there.
    pub(crate) fn pop_event(self) -> &'static str {
        if self == End::Left { "lpop" } else { "rpop" }
    }
}
