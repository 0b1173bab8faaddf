//! Changes of members that an interval has not followed yet.

/// More of them cost more than to count the interval again.
const CHANGES_MAX: usize = 64;
/// Longer keys are not kept.
const KEY_SIZE_MAX: usize = u8::MAX as usize;

/// Members that were added and removed, in this order, one behind the other in one piece of memory.
#[derive(Default)]
pub(super) struct Later {
    /// Of each: 1 if it was added, or 0; the length of its key; the key.
    bytes: Vec<u8>,
    count: usize,
}

impl Later {
    /// Keeps a change behind the others; false: there is no room for it.
    #[inline]
    pub(super) fn push(&mut self, key: &[u8], is_added: bool) -> bool {
        if self.count == CHANGES_MAX || key.len() > KEY_SIZE_MAX {
            return false;
        }
        self.bytes.extend_from_slice(&[u8::from(is_added), key.len() as u8]);
        self.bytes.extend_from_slice(key);
        self.count += 1;
        true
    }

    /// Whether there are none.
    pub(super) fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Each key, and whether it was added.
    pub(super) fn iter(&self) -> impl Iterator<Item = (&[u8], bool)> {
        let mut rest = &self.bytes[..];
        std::iter::from_fn(move || {
            let [is_added, size, behind @ ..] = rest else { return None };
            let key = behind.get(..usize::from(*size))?;
            rest = &behind[key.len()..];
            Some((key, *is_added == 1))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changes_come_back_in_their_order_while_there_is_room() {
        let mut later = Later::default();
        assert!(later.is_empty() && later.iter().next().is_none());
        assert!(!later.push(&[b'x'; 256], true), "the key is too long");
        assert!(later.is_empty());
        let keys: Vec<Vec<u8>> = (0..CHANGES_MAX).map(|size| vec![size as u8; 4 * size]).collect();
        for (number, key) in keys.iter().enumerate().take(CHANGES_MAX) {
            assert!(later.push(key, number % 3 == 0));
        }
        assert!(!later.push(b"a", true), "there are too many");
        let found: Vec<(&[u8], bool)> = later.iter().collect();
        let expected = keys.iter().enumerate().map(|(number, key)| (&key[..], number % 3 == 0));
        assert_eq!(found, expected.collect::<Vec<_>>());
    }
}
