//! A named step of the sources.

/// What a step does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum StepKind {
    /// Flushes lines; a write flushes what it wrote.
    Flush,
    /// Fences.
    Fence,
    /// Stores what publishes or commits, or takes that back.
    Commit,
    /// As `Commit`, and its `ORDER:` says what it comes after.
    CommitAfter,
    /// Changes a file, a file's length or a directory, or syncs one.
    Disk,
}

impl StepKind {
    /// Whether it stores a word.
    pub fn is_commit(self) -> bool {
        matches!(self, StepKind::Commit | StepKind::CommitAfter)
    }
}

/// A named step of the sources.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Step {
    /// Its name, which no other step has.
    pub name: &'static str,
    /// What it does.
    pub kind: StepKind,
    /// The folder of its crate.
    pub room: &'static str,
}
