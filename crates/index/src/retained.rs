//! Which versions can still be read.

/// The versions that somebody may read: the visible one, those after it, and the pinned ones.
#[derive(Clone, Debug, Default)]
pub struct Retained {
    visible: u64,
    pins: Vec<u64>,
}

impl Retained {
    /// `pins` in any order.
    pub fn new(visible: u64, mut pins: Vec<u64>) -> Retained {
        pins.sort_unstable();
        pins.dedup();
        Retained { visible, pins }
    }

    /// The same of a later time, in the same memory. What was not needed before is not needed then.
    pub fn renew(&mut self, visible: u64, pins: impl Iterator<Item = u64>) {
        self.visible = visible;
        self.pins.clear();
        self.pins.extend(pins);
        self.pins.sort_unstable();
        self.pins.dedup();
    }

    /// True if a retained version lies in `[start, end)`: what lived then must be kept.
    ///
    /// Once false it stays false: a new pin is never below the visible version of its time.
    #[inline]
    pub fn needs(&self, start: u64, end: u64) -> bool {
        end > self.visible
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

    /// The oldest version that can be read.
    pub fn horizon(&self) -> u64 {
        self.pins.first().map_or(self.visible, |&pin| pin.min(self.visible))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn needed_is_what_a_retained_version_can_see() {
        // Exhaustive over small versions: an interval is needed iff it holds a pin or reaches past
        // the visible version.
        for pins in 0u32..64 {
            let pinned: Vec<u64> = (0..6).filter(|v| pins >> v & 1 == 1).collect();
            let retained = Retained::new(6, pinned.clone());
            let mut renewed = Retained::new(3, vec![2, 9]);
            renewed.renew(6, pinned.iter().copied().rev());
            assert_eq!((renewed.visible(), renewed.pins()), (6, retained.pins()));
            for start in 0..9 {
                for end in start..9 {
                    let expected = end > 6 || pinned.iter().any(|&p| start <= p && p < end);
                    assert_eq!(retained.needs(start, end), expected, "{pinned:?} [{start},{end})");
                }
            }
        }
    }
}
