//! The course of a soak: when it ends, and what its threads report.

use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use tembo_kv::Error;

/// Why a soak failed.
#[derive(Debug)]
pub enum SoakError {
    /// The store failed.
    Store(Error),
    /// Its folder could not be used.
    Io(io::Error),
    /// An answer was wrong, or a check failed.
    Wrong(String),
}

impl std::fmt::Display for SoakError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            SoakError::Store(error) => write!(f, "{error}"),
            SoakError::Io(error) => write!(f, "{error}"),
            SoakError::Wrong(what) => f.write_str(what),
        }
    }
}

impl std::error::Error for SoakError {}

impl From<Error> for SoakError {
    fn from(error: Error) -> SoakError {
        SoakError::Store(error)
    }
}

impl From<io::Error> for SoakError {
    fn from(error: io::Error) -> SoakError {
        SoakError::Io(error)
    }
}

/// A stretch of time since the start.
#[derive(Clone, Copy, Debug)]
pub(super) struct Stretch {
    pub(super) from: Duration,
    pub(super) to: Duration,
}

impl Stretch {
    pub(super) fn len(self) -> Duration {
        self.to.saturating_sub(self.from)
    }
}

/// How far a soak has come, for all its threads.
pub(super) struct Course {
    pub(super) start: Instant,
    length: Duration,
    pub(super) stall: Duration,
    /// A thread has failed.
    pub(super) stop: AtomicBool,
    /// Bytes of keys and values.
    pub(super) live: AtomicU64,
}

impl Course {
    /// Of a soak of that length, which begins.
    pub(super) fn new(length: Duration, stall: Duration) -> Course {
        Course {
            start: Instant::now(),
            length,
            stall,
            stop: AtomicBool::new(false),
            live: AtomicU64::new(0),
        }
    }

    pub(super) fn is_over(&self) -> bool {
        self.stop.load(Ordering::Relaxed) || self.start.elapsed() >= self.length
    }
}
