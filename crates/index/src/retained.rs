//! The versions that can still be read.

/// The retained versions: the visible one, those after it, the pinned ones, and the *window*, which is all versions since
/// another one.
#[derive(Clone, Debug, Default)]
pub struct Retained {
    visible: u64,
    /// The begin of the window, at most `visible`.
    since: u64,
    pins: Vec<u64>,
}

impl Retained {
    /// The retained versions, without a window. `pins` may be in any order.
    pub fn new(visible: u64, mut pins: Vec<u64>) -> Retained {
        pins.sort_unstable();
        pins.dedup();
        Retained { visible, since: visible, pins }
    }

    /// The same, with a window that begins at a version.
    #[must_use]
    pub fn since(self, version: u64) -> Retained {
        Retained { since: version.min(self.visible), ..self }
    }

    /// Replaces the versions by those of a later time, in the same memory. What was not needed before is not needed then.
    pub fn renew(&mut self, visible: u64, since: u64, pins: impl Iterator<Item = u64>) {
        self.visible = visible;
        self.since = since.min(visible);
        self.pins.clear();
        self.pins.extend(pins);
        self.pins.sort_unstable();
        self.pins.dedup();
    }

    /// True if a retained version lies in `[start, end)`: what lived then must be kept.
    ///
    /// Once false it stays false: a new pin is never below the window of its time, and no window begins
    /// below the one before.
    #[inline]
    pub fn needs(&self, start: u64, end: u64) -> bool {
        end > self.since
            || (!self.pins.is_empty() && {
                let first = self.pins.partition_point(|&pin| pin < start);
                self.pins.get(first).is_some_and(|&pin| pin < end)
            })
    }

    /// Every version up to it is fenced.
    pub fn visible(&self) -> u64 {
        self.visible
    }

    /// The pinned versions, ascending.
    pub fn pins(&self) -> &[u64] {
        &self.pins
    }

    /// The begin of the window, or the visible version if there is no window. Everything after it is retained,
    /// also removals.
    #[inline]
    pub fn window(&self) -> u64 {
        self.since
    }

    /// True if nothing needs what has an end up to that version.
    #[inline]
    pub fn needs_no_past(&self, newest: u64) -> bool {
        newest <= self.horizon()
    }

    /// True if nothing needs what began with a version or later and has an end up to `newest`.
    #[inline]
    pub fn needs_none_since(&self, start: u64, newest: u64) -> bool {
        newest <= self.since && self.pins.last().is_none_or(|&pin| pin < start)
    }

    /// The oldest version that can be read.
    #[inline]
    pub fn horizon(&self) -> u64 {
        self.pins.first().map_or(self.since, |&pin| pin.min(self.since))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn needed_is_what_a_retained_version_can_see() {
        // Exhaustive over small versions: an interval is needed iff it holds a pin or reaches past
        // the version that the window begins with.
        for (pins, since) in (0u32..64).flat_map(|pins| (2..9).map(move |since| (pins, since))) {
            let pinned: Vec<u64> = (0..6).filter(|v| pins >> v & 1 == 1).collect();
            let retained = Retained::new(6, pinned.clone()).since(since);
            let mut renewed = Retained::new(3, vec![2, 9]);
            renewed.renew(6, since, pinned.iter().copied().rev());
            assert_eq!((renewed.visible(), renewed.pins()), (6, retained.pins()));
            assert_eq!((renewed.window(), retained.window()), (since.min(6), since.min(6)));
            for newest in 0..9 {
                let needed = (0..newest).any(|start| retained.needs(start, newest));
                assert_eq!(retained.needs_no_past(newest), !needed, "{pinned:?} {newest}");
                for start in 0..newest {
                    let needed = (start..newest).any(|start| retained.needs(start, newest));
                    let all = retained.needs_none_since(start, newest);
                    assert!(!all || !needed, "{pinned:?} {newest}");
                    let past_all = pinned.iter().all(|&pin| pin < start);
                    assert!(all || newest > since.min(6) || !past_all, "{pinned:?} {newest}");
                }
            }
            for start in 0..9 {
                for end in start..9 {
                    let expected =
                        end > since.min(6) || pinned.iter().any(|&p| start <= p && p < end);
                    assert_eq!(retained.needs(start, end), expected, "{pinned:?} [{start},{end})");
                }
            }
        }
    }
}
