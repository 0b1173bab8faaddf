//! What the command line itself refuses.

use std::fmt;

use super::code::Exit;

/// A refusal of the command line's own.
#[derive(Debug)]
pub(super) struct Refusal {
    pub(super) exit: Exit,
    pub(super) what: String,
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.what)
    }
}

impl std::error::Error for Refusal {}

/// Refuses with that code.
pub(crate) fn refuse<T>(exit: Exit, what: impl Into<String>) -> anyhow::Result<T> {
    Err(Refusal { exit, what: what.into() }.into())
}
