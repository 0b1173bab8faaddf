//! What a disk does wrong.

use std::io;

/// How a call fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failure {
    /// With an error. A write has done half of its work; what a sync had to bring to the medium is
    /// called clean, is read until the power goes, and is never written again.
    Error,
    /// Because there is no room. A write has done half of its work.
    Full,
}

/// Calls that fail.
#[derive(Clone, Debug)]
pub struct Fault {
    /// How.
    pub failure: Failure,
    /// Of these steps; of all when there are none.
    pub steps: Vec<&'static str>,
    /// The first that fails of the calls that count, beginning with one.
    pub from: u64,
    /// How many fail.
    pub count: u64,
}

impl Fault {
    /// All calls fail from `from` on: the machine is about to die.
    pub fn dying(from: u64) -> Fault {
        Fault { failure: Failure::Error, steps: Vec::new(), from, count: u64::MAX }
    }

    /// The `from`-th call of `step` fails, and no other.
    pub fn once(failure: Failure, step: &'static str, from: u64) -> Fault {
        Fault { failure, steps: vec![step], from, count: 1 }
    }

    /// Whether the `nth` call that counts fails.
    pub(super) fn hits(&self, nth: u64) -> bool {
        nth >= self.from && nth - self.from < self.count
    }

    pub(super) fn counts(&self, step: &str) -> bool {
        self.steps.is_empty() || self.steps.contains(&step)
    }

    pub(super) fn error(&self) -> io::Error {
        match self.failure {
            Failure::Error => io::Error::other("the simulated disk fails"),
            Failure::Full => io::ErrorKind::StorageFull.into(),
        }
    }
}

/// A step that is done wrong, while it answers that all is well.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Slip {
    /// It is not done.
    Dropped {
        /// The step.
        step: String,
    },
    /// A sync is done only when another step has been done.
    Late {
        /// The sync.
        step: String,
        /// The step before it.
        until: String,
    },
}
