//! The sweep: learns which space below a limit is reachable, and frees the rest.
//!
//! While a sweep is owed or running, space comes only from above the limit, so that nothing that
//! the marker has not seen yet is overwritten, and what is freed below it waits. It goes over all tenants of the
//! pool: see [`Tenant`](crate::Tenant).

use std::sync::Arc;

use crate::allocator::Knowledge;
use crate::chunk::{Chunk, Use};
use crate::class::size_of_class;
use crate::geometry::Layout;
use crate::marks::{Mark, Marks};
use crate::object::GRANULE;
use crate::shared::Shared;
use crate::tenant::{Live, Registry};
use crate::{Error, Marker, Marking, Object};

/// Chunks, or freed objects, that the end of a sweep handles while it holds the allocator's lock.
const BATCH: u32 = 1024;

/// A sweep under way. If it is dropped without [`finish`](Sweep::finish), it frees nothing and a sweep is still owed.
#[must_use]
pub struct Sweep {
    shared: Arc<Shared>,
    registry: Arc<Registry>,
    marks: Marks,
    limit: u32,
    others: Vec<Other>,
    finished: bool,
}

/// A tenant other than the driver of the sweep.
struct Other {
    name: String,
    marking: Box<dyn Marking>,
    progress: Progress,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Progress {
    Begun,
    Marked,
    Settled,
}

/// What a sweep found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SweepReport {
    /// Objects below the limit that stay.
    pub objects: u64,
    /// Bytes that they take.
    pub object_bytes: u64,
    /// Bytes below the limit that are free now.
    pub free_bytes: u64,
    /// Objects that were marked or pending, but freed while the sweep was owed or running.
    pub freed: u64,
    /// Pending objects that could not be kept, because they contradict what was marked.
    pub refused: u64,
}

impl Sweep {
    /// Begins while `live`, all tenants but the driver, stand still.
    pub(crate) fn begin(
        shared: Arc<Shared>,
        registry: Arc<Registry>,
        live: Vec<Live>,
    ) -> Result<Sweep, Error> {
        let mut still = Vec::with_capacity(live.len());
        for Live { entry, tenant } in &live {
            let Some(stopped) = tenant.quiesce() else {
                tenant.make_way();
                return Err(Error::TenantBusy { name: entry.name.clone() });
            };
            still.push((entry, tenant, stopped));
        }
        let mut sweep = Sweep::begin_alone(shared, registry)?;
        let mut markings = Vec::with_capacity(live.len());
        for (entry, tenant, still) in &mut still {
            let failed = |source| Error::Tenant { name: entry.name.clone(), source };
            markings.push(still.begin(Arc::clone(tenant)).map_err(failed)?);
        }
        drop(still);
        let others = live.into_iter().zip(markings).map(|(live, marking)| Other {
            name: live.entry.name,
            marking,
            progress: Progress::Begun,
        });
        sweep.others.extend(others);
        Ok(sweep)
    }

    fn begin_alone(shared: Arc<Shared>, registry: Arc<Registry>) -> Result<Sweep, Error> {
        let mut allocator = shared.lock();
        if allocator.holes.is_busy {
            // Chunks that are taken out are free, and the sweep would find them free.
            allocator.holes.has_refused = true;
            return Err(Error::SweepRunning);
        }
        match allocator.knowledge {
            Knowledge::Sweeping => return Err(Error::SweepRunning),
            Knowledge::Owed => {}
            Knowledge::Whole => allocator.forget(),
        }
        allocator.knowledge = Knowledge::Sweeping;
        let limit = allocator.limit;
        drop(allocator);
        let marks = Marks::new(shared.layout, limit);
        Ok(Sweep { shared, registry, marks, limit, others: Vec::new(), finished: false })
    }

    /// Bytes from the start of the region: space below is this sweep's, and nothing below is
    /// handed out until it ends.
    pub fn limit(&self) -> u64 {
        self.shared.layout.start(self.limit)
    }

    /// Notes that an object is reachable. Returns `true` if it was not marked before. An object above the
    /// limit is younger than the sweep, needs no mark, and always gives `true`.
    ///
    /// # Errors
    /// [`Error::OutOfBounds`], [`Error::Misplaced`] or [`Error::Overlap`] if the object cannot be
    /// one: the structure that refers to it is damaged. Nothing has been marked then.
    pub fn mark(&mut self, object: Object) -> Result<bool, Error> {
        if object.offset() >= self.limit() {
            return self.shared.valid(object).map(|()| true);
        }
        self.marks.mark(object)
    }

    /// Marks the other tenants, unless that was done before. Calls `go_on` before each object.
    ///
    /// # Errors
    /// [`Error::Tenant`]; [`Error::Stopped`] if `go_on` says no. The sweep is to be dropped then.
    pub fn mark_others(&mut self, go_on: &dyn Fn() -> bool) -> Result<(), Error> {
        let mut others = std::mem::take(&mut self.others);
        let mut marker = Asking { sweep: self, go_on };
        let begun = others.iter_mut().filter(|other| other.progress == Progress::Begun);
        let marked = begun.map(|other| {
            let failed = |source| Error::Tenant { name: other.name.clone(), source };
            other.marking.mark(&mut marker).map_err(failed)?;
            other.progress = Progress::Marked;
            Ok(())
        });
        let marked = marked.collect();
        self.others = others;
        if go_on() { marked } else { Err(Error::Stopped) }
    }

    /// Lets the other tenants do a part of what must be done before the end. Returns whether all of it is done. If not, the
    /// caller calls it again after a while: it waits for nothing.
    ///
    /// # Errors
    /// [`Error::Tenant`]. The sweep is to be dropped then.
    pub fn settle_others(&mut self) -> Result<bool, Error> {
        let mut all = true;
        for other in &mut self.others {
            if other.progress == Progress::Marked {
                let failed = |source| Error::Tenant { name: other.name.clone(), source };
                if other.marking.settle().map_err(failed)? {
                    other.progress = Progress::Settled;
                }
            }
            all &= other.progress == Progress::Settled;
        }
        Ok(all)
    }

    /// Ends the sweep: what lies below the limit and is neither marked nor in `pending` (allocated
    /// before the sweep began and not yet reachable) is free, and so is what was freed meanwhile.
    /// Others go on allocating meanwhile. Nothing is stored on media.
    ///
    /// # Errors
    /// [`Error::TenantNotMarked`]: another tenant is not marked, or not settled. Then nothing is freed, and a sweep is owed still.
    pub fn finish(
        mut self,
        pending: impl IntoIterator<Item = Object>,
    ) -> Result<SweepReport, Error> {
        if let Some(other) = self.others.iter().find(|other| other.progress != Progress::Settled) {
            return Err(Error::TenantNotMarked { name: other.name.clone() });
        }
        let mut refused = 0;
        for object in pending {
            if object.offset() < self.limit() && self.marks.mark(object).is_err() {
                refused += 1;
            }
        }
        self.shared.note_free_anywhere();
        let layout = self.shared.layout;
        let (first, mut limit) = (layout.first(), self.limit);
        while limit > first {
            let lower = limit.saturating_sub(BATCH).max(first);
            let marks = &self.marks;
            let learnt = (lower..limit).map(|index| learn(layout, marks.chunk(index))).collect();
            self.shared.lock().remember(lower, learnt);
            limit = lower;
        }
        let freed = self.apply_freed();
        self.shared.lock().knowledge = Knowledge::Whole;
        self.finished = true;
        Ok(SweepReport {
            objects: self.marks.objects,
            object_bytes: self.marks.bytes,
            free_bytes: layout.start(self.limit - first) - self.marks.bytes,
            freed,
            refused,
        })
    }

    /// Frees the marked objects that were freed below the limit before it fell. Returns how many.
    fn apply_freed(&mut self) -> u64 {
        let waiting = {
            let mut allocator = self.shared.lock();
            allocator.limit = 0;
            std::mem::take(&mut allocator.freed)
        };
        let mut freed = 0;
        for batch in waiting.chunks(BATCH as usize) {
            let mut allocator = self.shared.lock();
            for &object in batch {
                if self.marks.unmark(object) {
                    allocator.give(object);
                    freed += 1;
                }
            }
        }
        freed
    }
}

impl Drop for Sweep {
    fn drop(&mut self) {
        if !self.finished {
            self.shared.lock().knowledge = Knowledge::Owed;
        }
        self.registry.sweep_ended();
    }
}

impl Marker for Sweep {
    fn mark(&mut self, object: Object) -> Result<bool, Error> {
        Sweep::mark(self, object)
    }
}

/// A marker that asks before each object whether to go on.
struct Asking<'s> {
    sweep: &'s mut Sweep,
    go_on: &'s dyn Fn() -> bool,
}

impl Marker for Asking<'_> {
    fn mark(&mut self, object: Object) -> Result<bool, Error> {
        if (self.go_on)() { self.sweep.mark(object) } else { Err(Error::Stopped) }
    }
}

/// The state of a chunk with these marks.
fn learn(layout: Layout, mark: &Mark) -> Chunk {
    let (class, bits) = match mark {
        Mark::Empty => return Chunk::unused(Use::Free),
        Mark::Body => return Chunk::unused(Use::Body),
        Mark::Head { class } => {
            return Chunk { class: *class, live: 1, ..Chunk::unused(Use::Head) };
        }
        Mark::Slots { class, bits } => (*class, bits),
    };
    let size = size_of_class(class);
    let step = (size / GRANULE) as u32;
    let mut chunk = Chunk { class, ..Chunk::unused(Use::Shared) };
    let is_marked = |slot: &u32| bits[*slot as usize / 64] & 1 << (slot % 64) != 0;
    let marked = (0..layout.slots(size)).rev().find(is_marked).map_or(0, |last| last + 1);
    chunk.bump = marked * step;
    chunk.free = (0..marked).rev().filter(|s| !is_marked(s)).map(|s| (s * step) as u16).collect();
    chunk.live = marked - chunk.free.len() as u32;
    chunk
}
