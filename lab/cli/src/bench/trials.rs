//! The trials of an experiment: shown on a terminal, and no more of them after a signal.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use indicatif::ProgressBar;

use crate::{progress, signals};

pub(super) struct Trials {
    bar: ProgressBar,
    stopped: Arc<AtomicBool>,
}

impl Trials {
    pub(super) fn new(count: u64) -> io::Result<Trials> {
        Ok(Trials { bar: progress::trials(count), stopped: signals::stopped()? })
    }

    /// Counts one more and shows what it is; false: a signal asks for an end.
    pub(super) fn begin(&self, what: &str) -> bool {
        self.begin_at(self.bar.position() + 1, what.to_owned())
    }

    /// Shows what is being done; counts one more if it is the next.
    pub(super) fn go_on(&self, is_next: bool, what: &str) -> bool {
        self.begin_at(self.bar.position() + u64::from(is_next), what.to_owned())
    }

    /// Whether a signal has asked for an end.
    pub(super) fn is_stopped(&self) -> bool {
        self.stopped.load(Ordering::Relaxed)
    }

    /// As [`begin`](Trials::begin), of a trial whose number is known.
    pub(super) fn begin_at(&self, number: u64, what: String) -> bool {
        self.bar.set_position(number);
        self.bar.set_message(what);
        !self.stopped.load(Ordering::Relaxed)
    }
}

impl Drop for Trials {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}
