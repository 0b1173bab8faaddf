//! Which bytes of a block were written.

/// Byte ranges within a block, in order, none touching another.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Ranges(Vec<(u32, u32)>);

impl Ranges {
    /// Adds the bytes from `from` up to `to`.
    pub(crate) fn add(&mut self, from: usize, to: usize) {
        let (mut from, mut to) = (from as u32, to as u32);
        self.0.retain(|&(other_from, other_to)| {
            let touches = other_from <= to && from <= other_to;
            if touches {
                (from, to) = (from.min(other_from), to.max(other_to));
            }
            !touches
        });
        let at = self.0.partition_point(|&(other, _)| other < from);
        self.0.insert(at, (from, to));
    }

    /// Whether they are all of a block.
    pub(crate) fn is_all(&self, block_size: usize) -> bool {
        self.0 == [(0, block_size as u32)]
    }

    /// Copies these bytes of `from` to the same places of `to`.
    pub(crate) fn copy(&self, from: &[u8], to: &mut [u8]) {
        for &(begin, end) in &self.0 {
            let part = begin as usize..end as usize;
            if let (Some(from), Some(to)) = (from.get(part.clone()), to.get_mut(part)) {
                to.copy_from_slice(from);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_join_where_they_touch() {
        let mut ranges = Ranges::default();
        ranges.add(10, 20);
        ranges.add(30, 40);
        assert_eq!(ranges.0, [(10, 20), (30, 40)]);
        ranges.add(0, 5);
        ranges.add(20, 30);
        assert_eq!(ranges.0, [(0, 5), (10, 40)]);
        ranges.add(4, 512);
        assert!(ranges.is_all(512));
    }

    #[test]
    fn only_these_bytes_are_copied() {
        let mut ranges = Ranges::default();
        ranges.add(1, 2);
        ranges.add(3, 4);
        let mut to = *b"abcde";
        ranges.copy(b"01234", &mut to);
        assert_eq!(&to, b"a1c3e");
    }
}
