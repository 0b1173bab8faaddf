//! SCAN's cursors.
//!
//! A database is ordered by key, so a scan's position is the last key it has visited, and every key
//! that is there throughout is found whatever comes and goes meanwhile. A key does not fit a 64-bit
//! cursor; so the server keeps, in a table of bounded size, the position that each cursor it gave out
//! stands for. A cursor that the table has forgotten (as many newer ones were given out, or the server
//! was restarted) starts over: keys come twice, as SCAN's contract allows, but none is missed.
//! Cursors stay below 2^53, since some clients keep them in doubles, and one is never given out twice:
//! a counter, permuted by a multiplication and a random number of this run.

use std::collections::{HashMap, VecDeque};

/// Positions kept at most, and the bytes of their keys.
const POSITIONS_MAX: (usize, usize) = (65_536, 16 << 20);
const MASK: u64 = (1 << 53) - 1;
const MULTIPLIER: u64 = 0x9e37_79b9_7f4a_7c15;

/// The positions of scans under way.
pub(crate) struct Scans {
    positions: HashMap<u64, Vec<u8>>,
    order: VecDeque<u64>,
    size: usize,
    counter: u64,
    salt: u64,
}

impl Scans {
    /// No scans; `salt` is random.
    pub(crate) fn new(salt: u64) -> Scans {
        let (positions, order) = (HashMap::new(), VecDeque::new());
        Scans { positions, order, size: 0, counter: 0, salt: salt & MASK }
    }

    /// The key behind which the scan continues; `None`: at the start.
    pub(crate) fn position(&self, cursor: u64) -> Option<&[u8]> {
        self.positions.get(&cursor).map(Vec::as_slice)
    }

    /// A cursor that stands for the position behind `key`.
    pub(crate) fn remember(&mut self, key: &[u8]) -> u64 {
        while self.order.len() >= POSITIONS_MAX.0 || self.size + key.len() > POSITIONS_MAX.1 {
            let Some(oldest) = self.order.pop_front() else { break };
            self.size -= self.positions.remove(&oldest).map_or(0, |key| key.len());
        }
        let mut cursor = 0;
        while cursor == 0 {
            self.counter += 1;
            cursor = (self.counter.wrapping_mul(MULTIPLIER) & MASK) ^ self.salt;
        }
        self.size += key.len();
        self.positions.insert(cursor, key.to_vec());
        self.order.push_back(cursor);
        cursor
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn old_positions_are_forgotten() {
        let mut scans = Scans::new(12345);
        let first = scans.remember(b"first");
        assert_eq!(scans.position(first), Some(b"first".as_slice()));
        for _ in 0..POSITIONS_MAX.0 {
            let cursor = scans.remember(b"later");
            assert!(cursor != 0 && cursor <= MASK);
        }
        assert_eq!(scans.position(first), None);
        for _ in 0..1000 {
            scans.remember(&[7; 60_000]);
        }
        assert!(scans.size <= POSITIONS_MAX.1);
        assert_eq!(scans.positions.len(), scans.order.len());
    }
}
