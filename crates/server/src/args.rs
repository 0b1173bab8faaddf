//! The arguments of one command: slices into the connection's input, no copies.

/// Where one argument lies.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Span {
    /// In the connection's input, counted from the start of the command.
    Input {
        /// First byte.
        start: u32,
        /// Bytes.
        size: u32,
    },
    /// In a buffer of its own.
    Owned {
        /// Which.
        index: u32,
    },
}

/// The arguments of one command, its name first.
#[derive(Clone, Copy)]
pub(crate) struct Args<'a> {
    input: &'a [u8],
    owned: &'a [Vec<u8>],
    spans: &'a [Span],
}

impl<'a> Args<'a> {
    /// The arguments that `spans` finds in `input` and `owned`.
    pub(crate) fn new(input: &'a [u8], owned: &'a [Vec<u8>], spans: &'a [Span]) -> Args<'a> {
        Args { input, owned, spans }
    }

    /// How many there are.
    #[inline]
    pub(crate) fn count(&self) -> usize {
        self.spans.len()
    }

    /// The argument at `index`; empty if there is none.
    #[inline]
    pub(crate) fn at(&self, index: usize) -> &'a [u8] {
        match self.spans.get(index) {
            Some(&Span::Input { start, size }) => {
                let start = start as usize;
                self.input.get(start..start + size as usize).unwrap_or_default()
            }
            Some(&Span::Owned { index }) => {
                self.owned.get(index as usize).map_or(&[], Vec::as_slice)
            }
            None => &[],
        }
    }

    /// The arguments from `index` on, as those of a request.
    pub(crate) fn skip(&self, index: usize) -> Args<'a> {
        Args { spans: self.spans.get(index..).unwrap_or_default(), ..*self }
    }

    /// The arguments from `index` on.
    pub(crate) fn from(&self, index: usize) -> impl Iterator<Item = &'a [u8]> + use<'a> {
        let args = *self;
        (index..args.count()).map(move |at| args.at(at))
    }

    /// Whether the argument at `index` is this word in any case; `word` is in upper case.
    #[inline]
    pub(crate) fn is(&self, index: usize, word: &str) -> bool {
        self.at(index).eq_ignore_ascii_case(word.as_bytes())
    }
}

/// A command kept for later: its arguments, copied.
pub(crate) struct Kept {
    bytes: Vec<u8>,
    spans: Vec<Span>,
    owned: Vec<Vec<u8>>,
}

impl Kept {
    /// A copy of `args`.
    pub(crate) fn new(args: Args<'_>) -> Kept {
        let mut kept =
            Kept { bytes: Vec::new(), spans: Vec::with_capacity(args.count()), owned: Vec::new() };
        for arg in args.from(0) {
            match (u32::try_from(kept.bytes.len()), u32::try_from(arg.len())) {
                (Ok(start), Ok(size)) if kept.bytes.len() < 1 << 20 => {
                    kept.spans.push(Span::Input { start, size });
                    kept.bytes.extend_from_slice(arg);
                }
                _ => {
                    kept.spans.push(Span::Owned { index: kept.owned.len() as u32 });
                    kept.owned.push(arg.to_vec());
                }
            }
        }
        kept
    }

    /// Arguments that were made.
    pub(crate) fn of(owned: Vec<Vec<u8>>) -> Kept {
        let spans = (0..owned.len()).map(|index| Span::Owned { index: index as u32 }).collect();
        Kept { bytes: Vec::new(), spans, owned }
    }

    /// The arguments.
    pub(crate) fn args(&self) -> Args<'_> {
        Args::new(&self.bytes, &self.owned, &self.spans)
    }

    /// Bytes of memory it takes, in a list that doubles when it is full.
    pub(crate) fn size(&self) -> usize {
        2 * size_of::<Kept>()
            + block_size(self.bytes.capacity())
            + block_size(self.spans.capacity() * size_of::<Span>())
            + block_size(self.owned.capacity() * size_of::<Vec<u8>>())
            + self.owned.iter().map(|arg| block_size(arg.capacity())).sum::<usize>()
    }
}

/// Bytes that an allocation of `size` takes, with what an allocator adds.
fn block_size(size: usize) -> usize {
    if size == 0 { 0 } else { size + 16 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_short_command_counts_with_all_that_keeps_it() {
        let ping = [b"PING".to_vec()];
        let kept = Kept::new(Args::new(&[], &ping, &[Span::Owned { index: 0 }]));
        assert!((140..400).contains(&kept.size()), "{}", kept.size());
        let large = [vec![0; 3 << 20], vec![0; 5]];
        let spans = [Span::Owned { index: 0 }, Span::Owned { index: 1 }];
        let size = Kept::new(Args::new(&[], &large, &spans)).size();
        assert!((3 << 20..7 << 20).contains(&size), "{size}");
    }
}
