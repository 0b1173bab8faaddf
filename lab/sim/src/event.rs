//! What passed the waist, written down.

/// Bytes in a line, as a length.
pub(crate) const LINE: usize = tembo_pmem::LINE as usize;

/// One step of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Event {
    /// Whose, counted from 0 in the order of the threads' first steps.
    pub thread: u16,
    /// What was done.
    pub step: Step,
}

/// What was done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// At most eight bytes, all in one word; what a crash cannot tear.
    Store(Piece),
    /// The lines from `first` up to and including `last`.
    Flush {
        /// The step's name.
        name: &'static str,
        /// First line.
        first: u32,
        /// Last line.
        last: u32,
    },
    /// The thread's flushes are guaranteed from here on.
    Fence {
        /// The step's name.
        name: &'static str,
    },
    /// Everything fenced is as durable as promised.
    Sync,
    /// The region has this many bytes from here on.
    Resize {
        /// Bytes.
        size: u64,
    },
    /// Another operation begins.
    Operation,
}

/// A part of a store that lies in one word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Piece {
    /// The name of a commit store.
    pub name: Option<&'static str>,
    /// Where the first byte goes.
    pub offset: u64,
    /// The bytes; those after the first `len` mean nothing.
    pub bytes: [u8; 8],
    /// How many.
    pub len: u8,
}

impl Piece {
    /// The line it lies in.
    pub(crate) fn line(&self) -> u32 {
        (self.offset / LINE as u64) as u32
    }

    /// Stores it in a copy of its line.
    pub(crate) fn put(&self, content: &mut [u8]) {
        let at = self.offset as usize % LINE;
        let len = usize::from(self.len);
        content[at..at + len].copy_from_slice(&self.bytes[..len]);
    }
}

/// Cuts the parts of a store, of which the first byte goes to `offset`, at the words.
pub(crate) fn pieces(
    name: Option<&'static str>,
    mut offset: u64,
    parts: &[&[u8]],
    mut each: impl FnMut(Piece),
) {
    let mut piece = Piece { name, offset, bytes: [0; 8], len: 0 };
    for &byte in parts.iter().copied().flatten() {
        piece.bytes[usize::from(piece.len)] = byte;
        piece.len += 1;
        offset += 1;
        if offset.is_multiple_of(8) {
            each(piece);
            piece = Piece { name, offset, bytes: [0; 8], len: 0 };
        }
    }
    if piece.len > 0 {
        each(piece);
    }
}

impl Event {
    /// The name of the step, if it has one.
    pub fn name(&self) -> Option<&'static str> {
        match self.step {
            Step::Store(piece) => piece.name,
            Step::Flush { name, .. } | Step::Fence { name } => Some(name),
            Step::Sync | Step::Resize { .. } | Step::Operation => None,
        }
    }

    /// Whether a crash just before it is looked at.
    pub fn is_crash_point(&self) -> bool {
        match self.step {
            Step::Fence { .. } => true,
            Step::Store(piece) => piece.name.is_some(),
            _ => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_store_is_cut_at_words() {
        let mut found = Vec::new();
        pieces(None, 13, &[&[1, 2], &[3, 4, 5, 6, 7, 8, 9, 10, 11, 12]], |piece| {
            found.push((piece.offset, piece.bytes[..usize::from(piece.len)].to_vec()));
        });
        let expected = [(13, vec![1, 2, 3]), (16, vec![4, 5, 6, 7, 8, 9, 10, 11]), (24, vec![12])];
        assert_eq!(found, expected);
    }
}
