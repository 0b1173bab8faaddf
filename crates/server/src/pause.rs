//! CLIENT PAUSE: commands are executed later.

/// Whether clients are paused.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Pause {
    /// Until when, by the server's clock; 0: not at all.
    until_ms: u64,
    /// All commands wait, not only those that write.
    all: bool,
}

impl Pause {
    /// Begins a pause, or makes the one that lasts longer and stricter.
    pub(crate) fn begin(&mut self, now_ms: u64, until_ms: u64, all: bool) {
        let lasts = self.is_on(now_ms);
        self.all = all || lasts && self.all;
        self.until_ms = if lasts { self.until_ms.max(until_ms) } else { until_ms };
    }

    /// Ends it.
    pub(crate) fn end(&mut self) {
        *self = Pause::default();
    }

    /// Whether clients are paused.
    #[inline]
    pub(crate) fn is_on(&self, now_ms: u64) -> bool {
        self.until_ms > now_ms
    }

    /// Whether a command has to wait, which writes or not.
    #[inline]
    pub(crate) fn holds(&self, now_ms: u64, writes: bool) -> bool {
        self.until_ms > 0 && self.is_on(now_ms) && (self.all || writes)
    }

    /// When it ends; `None` if there is none.
    pub(crate) fn until_ms(&self) -> Option<u64> {
        (self.until_ms > 0).then_some(self.until_ms)
    }
}

#[cfg(test)]
mod tests {
    use super::Pause;

    #[test]
    fn a_second_pause_does_not_shorten_the_first() {
        let mut pause = Pause::default();
        assert!(!pause.holds(0, true));
        pause.begin(10, 100, true);
        pause.begin(20, 50, false);
        assert!(pause.holds(99, false) && !pause.holds(100, true));
        pause.begin(100, 200, false);
        assert!(pause.holds(150, true) && !pause.holds(150, false));
        pause.end();
        assert!(!pause.is_on(150) && pause.until_ms().is_none());
    }
}
