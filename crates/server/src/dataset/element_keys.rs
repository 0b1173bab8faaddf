//! Keys of elements that are prefetched together.

/// Keys at most.
pub(super) const KEYS_MAX: usize = 32;

/// Keys of elements, one behind the other.
#[derive(Default)]
pub(super) struct ElementKeys {
    bytes: Vec<u8>,
    ends: [usize; KEYS_MAX],
    count: usize,
}

impl ElementKeys {
    /// None yet, in the same memory.
    pub(super) fn begin(&mut self) -> ElementKeys {
        let mut bytes = std::mem::take(&mut self.bytes);
        bytes.clear();
        ElementKeys { bytes, ..ElementKeys::default() }
    }

    /// Adds the key of these parts, if there is room.
    pub(super) fn push(&mut self, parts: &[&[u8]]) {
        if let Some(end) = self.ends.get_mut(self.count) {
            parts.iter().for_each(|part| self.bytes.extend_from_slice(part));
            *end = self.bytes.len();
            self.count += 1;
        }
    }

    /// How many there are.
    pub(super) fn count(&self) -> usize {
        self.count
    }

    /// The keys, and empty ones behind them.
    pub(super) fn slices(&self) -> [&[u8]; KEYS_MAX] {
        let mut from = 0;
        let mut left = self.count;
        self.ends.map(|end| {
            if left == 0 {
                return &[][..];
            }
            left -= 1;
            &self.bytes[std::mem::replace(&mut from, end)..end]
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_those_of_their_parts_while_there_is_room() {
        let mut keys = ElementKeys::default();
        for round in 0..2 {
            keys = keys.begin();
            assert_eq!(keys.count(), 0);
            (0..KEYS_MAX + 3).for_each(|number| keys.push(&[b"key", &[], &[number as u8 + round]]));
            assert_eq!(keys.count(), KEYS_MAX);
            for (number, key) in keys.slices().into_iter().enumerate() {
                assert_eq!(key, [b'k', b'e', b'y', number as u8 + round]);
            }
        }
        keys = keys.begin();
        keys.push(&[b"one"]);
        assert_eq!(keys.slices()[..2], [&b"one"[..], b""]);
    }
}
