//! The census: the marking of a sweep without any effect, for a check that accounts for every byte.

use std::sync::Arc;

use crate::allocator::{Allocator, Knowledge};
use crate::chunk::Use;
use crate::class::size_of_class;
use crate::marks::{Mark, Marks};
use crate::shared::Shared;
use crate::{Error, Marker, Object};

/// Counts reachable objects. The result is meaningful if no thread allocates or frees meanwhile.
#[must_use]
pub struct Census {
    shared: Arc<Shared>,
    marks: Marks,
    total: u64,
}

/// The uses of all bytes of a region.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Account {
    /// Bytes in the region.
    pub total: u64,
    /// Bytes outside the data area: the region's header, the superblock, what remains of the first
    /// chunk, and what is left of the region behind the last chunk.
    pub metadata_bytes: u64,
    /// Objects marked.
    pub objects: u64,
    /// Bytes that they take, rounded to their classes and to chunks.
    pub object_bytes: u64,
    /// Bytes below the frontier that no marked object takes.
    pub free_bytes: u64,
    /// Bytes above the frontier: never handed out.
    pub above_frontier_bytes: u64,
    /// Whether a sweep is owed or running: then what was allocated before is not known, and only
    /// later objects can be leaked or dangling.
    pub recovering: bool,
    /// Objects that are allocated but not marked.
    pub leaked: u64,
    /// Bytes that they take.
    pub leaked_bytes: u64,
    /// Objects that are marked but not allocated: their space may be handed out to others.
    pub dangling: u64,
}

impl Account {
    /// The sum of all uses. It is `total`, unless space is counted twice or not at all.
    pub fn accounted_bytes(&self) -> u64 {
        self.metadata_bytes + self.object_bytes + self.free_bytes + self.above_frontier_bytes
    }
}

impl Census {
    pub(crate) fn begin(shared: Arc<Shared>, total: u64) -> Census {
        let marks = Marks::new(shared.layout, shared.frontier());
        Census { shared, marks, total }
    }

    /// Notes that an object is reachable. Returns `true` if it was not marked before.
    ///
    /// # Errors
    /// As [`Sweep::mark`](crate::Sweep::mark).
    pub fn mark(&mut self, object: Object) -> Result<bool, Error> {
        self.marks.mark(object)
    }

    /// The totals.
    pub fn account(&self) -> Account {
        let layout = self.shared.layout;
        let allocator = self.shared.lock();
        let data = layout.start(allocator.frontier - layout.first());
        let above = layout.start(allocator.end - allocator.frontier);
        let mut account = Account {
            total: self.total,
            metadata_bytes: self.total - data - above,
            objects: self.marks.objects,
            object_bytes: self.marks.bytes,
            free_bytes: data - self.marks.bytes,
            above_frontier_bytes: above,
            recovering: allocator.knowledge != Knowledge::Whole,
            ..Account::default()
        };
        for index in layout.first().max(allocator.limit)..allocator.frontier {
            self.compare(&allocator, index, &mut account);
        }
        account
    }

    /// Compares what is marked in a chunk with what is allocated in it.
    fn compare(&self, allocator: &Allocator, index: u32, account: &mut Account) {
        let layout = self.shared.layout;
        let chunk = allocator.chunks.get(index as usize);
        let (class, occupied) = match chunk.map(|chunk| (chunk.usage, chunk)) {
            Some((Use::Shared, chunk)) => {
                (chunk.class, chunk.occupied(layout, size_of_class(chunk.class)))
            }
            Some((Use::Head, chunk)) => (chunk.class, vec![true]),
            _ => (0, Vec::new()),
        };
        let (marked_class, marked) = match self.marks.chunk(index) {
            Mark::Slots { class, bits } => {
                let slots = layout.slots(size_of_class(*class)) as usize;
                let is_marked = |slot: usize| bits[slot / 64] & 1 << (slot % 64) != 0;
                (*class, (0..slots).map(is_marked).collect())
            }
            Mark::Head { class } => (*class, vec![true]),
            _ => (class, Vec::new()),
        };
        let both = if marked_class == class {
            occupied.iter().zip(&marked).filter(|(a, b)| **a && **b).count() as u64
        } else {
            0
        };
        let count = |slots: &[bool]| slots.iter().filter(|slot| **slot).count() as u64;
        let leaked = count(&occupied) - both;
        account.leaked += leaked;
        account.leaked_bytes += leaked * layout.footprint(size_of_class(class));
        account.dangling += count(&marked) - both;
    }
}

impl Marker for Census {
    fn mark(&mut self, object: Object) -> Result<bool, Error> {
        Census::mark(self, object)
    }
}
