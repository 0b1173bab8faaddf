//! How densely the chunks of a pool are used.

use crate::allocator::{Allocator, Knowledge};
use crate::chunk::Use;
use crate::class::size_of_class;

/// How densely the chunks of a pool are used, as far as a sweep has found it out.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Fragmentation {
    /// Bytes of the chunks that hold objects.
    pub used_chunk_bytes: u64,
    /// Bytes of the objects in them.
    pub live_bytes: u64,
    /// Bytes of chunks without objects, below the end of the used space.
    pub free_chunk_bytes: u64,
    /// Bytes of the longest free run of chunks, the free end of the pool included.
    pub longest_free_bytes: u64,
    /// The use of chunks by objects of each size that share chunks. Sizes without objects are left out.
    pub classes: Vec<ClassUsage>,
}

/// The chunks that objects of one size share.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ClassUsage {
    /// Bytes of an object.
    pub object_size: u64,
    /// Objects of that size.
    pub objects: u64,
    /// Bytes of their chunks.
    pub chunk_bytes: u64,
}

impl Fragmentation {
    /// `None`: a sweep is owed or running.
    pub(crate) fn of(allocator: &Allocator) -> Option<Fragmentation> {
        if allocator.knowledge != Knowledge::Whole {
            return None;
        }
        let layout = allocator.layout;
        let mut found = Fragmentation { live_bytes: allocator.bytes, ..Fragmentation::default() };
        let mut classes = [ClassUsage::default(); 256];
        let data = allocator.chunks.iter().skip(layout.first() as usize);
        for chunk in data {
            match chunk.usage {
                Use::Free => found.free_chunk_bytes += layout.chunk_size(),
                Use::Unknown => {}
                Use::Head | Use::Body => found.used_chunk_bytes += layout.chunk_size(),
                Use::Shared => {
                    found.used_chunk_bytes += layout.chunk_size();
                    let class = &mut classes[usize::from(chunk.class)];
                    class.object_size = size_of_class(chunk.class);
                    class.objects += u64::from(chunk.live);
                    class.chunk_bytes += layout.chunk_size();
                }
            }
        }
        let longest = allocator.runs.longest().max(allocator.end - allocator.top());
        found.longest_free_bytes = layout.start(longest);
        found.classes = classes.into_iter().filter(|class| class.chunk_bytes > 0).collect();
        Some(found)
    }
}
