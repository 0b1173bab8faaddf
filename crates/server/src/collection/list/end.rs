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

    /// Its name in commands.
    pub(crate) fn word(self) -> &'static [u8] {
        if self == End::Left { b"LEFT" } else { b"RIGHT" }
    }

    /// The command that takes elements from there.
    pub(crate) fn pop_command(self) -> &'static [u8] {
        if self == End::Left { b"LPOP" } else { b"RPOP" }
    }

    /// The event of elements that are taken from there.
    pub(crate) fn pop_event(self) -> &'static str {
        if self == End::Left { "lpop" } else { "rpop" }
    }
}
