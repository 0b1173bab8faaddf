//! A table of volatile side-cars of persistent nodes, for side-cars that consist of more than words.

use std::sync::OnceLock;

/// The side-cars of all nodes of a pool, by offset. They are made on first touch, for a chunk of nodes at a time.
pub(crate) struct SideTable<S> {
    /// Nodes lie at multiples of two to this power.
    granule_bits: u32,
    directory: Box<[OnceLock<Directory<S>>]>,
}

type Directory<S> = Box<[OnceLock<Box<[S]>>]>;

/// Side-cars made at once: those of 64 KiB of full-size nodes.
const CHUNK_SIDES: u64 = 64;
/// Chunks in a directory.
const DIRECTORY_CHUNKS: u64 = 1024;

impl<S: Default> SideTable<S> {
    /// A table for nodes at multiples of two to the power of `granule_bits`, below `size_max` bytes.
    pub(crate) fn new(granule_bits: u32, size_max: u64) -> SideTable<S> {
        let directories = size_max.div_ceil((CHUNK_SIDES * DIRECTORY_CHUNKS) << granule_bits);
        SideTable { granule_bits, directory: (0..directories).map(|_| OnceLock::new()).collect() }
    }

    /// The side-car of the node at `offset`; `None` if no node can lie there.
    #[inline]
    pub(crate) fn get(&self, offset: u64) -> Option<&S> {
        let index = offset >> self.granule_bits;
        let chunk = index / CHUNK_SIDES;
        let directory = self
            .directory
            .get((chunk / DIRECTORY_CHUNKS) as usize)?
            .get_or_init(|| (0..DIRECTORY_CHUNKS).map(|_| OnceLock::new()).collect());
        let sides = directory
            .get((chunk % DIRECTORY_CHUNKS) as usize)?
            .get_or_init(|| (0..CHUNK_SIDES).map(|_| S::default()).collect());
        sides.get((index % CHUNK_SIDES) as usize)
    }
}
