//! The clocks of a turn.

use std::time::{Instant, SystemTime, UNIX_EPOCH};

/// The clocks of a turn. They are read once, so that a turn happens at one moment.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Clock {
    /// The system's time, in microseconds since 1970: what keys expire by. It may go back, when the system's is set.
    pub(crate) wall_us: u64,
    /// Milliseconds since the server started: what timeouts and periods are measured by. It never goes back.
    pub(crate) steady_ms: u64,
}

impl Clock {
    /// Now, in a server that started then.
    pub(crate) fn read(started: Instant) -> Clock {
        let wall = SystemTime::now().duration_since(UNIX_EPOCH);
        Clock {
            wall_us: wall.map_or(0, |wall| wall.as_micros() as u64),
            steady_ms: started.elapsed().as_millis() as u64,
        }
    }

    /// The system's time, in milliseconds since 1970.
    pub(crate) fn wall_ms(self) -> u64 {
        self.wall_us / 1000
    }

    /// The system's time, in seconds since 1970.
    pub(crate) fn wall_s(self) -> u64 {
        self.wall_us / 1_000_000
    }
}
