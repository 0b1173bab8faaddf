//! What is done to the list in the layers SAFE and BASE. Each operation ends with changes behind its last checkpoint, which nothing may show;
//! what it checkpoints before changes nothing that the list shows.

use tembo_heap::{Access, Base, Error, Heap, HeapFile, Ptr, Slice};

use super::content::{MANY, item, link, nth, unlink, values};
use super::top::{Item, Top, Value, top};

/// An item more at the front, and the label; as one.
pub(super) fn push(heap: Heap<'_>, serial: u64) -> Result<(), Error> {
    heap.safe(|heap| {
        // Only the program refers to it: a crash from here on leaves it in the dead-on-open list.
        let item = item(heap, serial)?;
        heap.checkpoint()?;
        link(heap, &item)?;
        drop(item);
        let top = top(heap)?;
        heap.set(&top, Top::LABEL, (serial, serial))?;
        heap.checkpoint()?;
        let _ = unlink(heap, 0);
        heap.set(&top, Top::LABEL, (9, 99))
    })
}

/// An item less, and objects that were never linked.
pub(super) fn remove(heap: Heap<'_>, index: usize) -> Result<(), Error> {
    heap.safe(|heap| {
        let never = item(heap, 99)?;
        unlink(heap, index)?;
        drop(never);
        heap.checkpoint()?;
        let top = top(heap)?;
        heap.set(&top, Top::FIRST, None)
    })
}

/// Words of the root.
pub(super) fn label(file: &HeapFile, serial: u64) -> Result<(), Error> {
    file.base(|heap| {
        let top = top(heap)?;
        heap.set(&top, Top::LABEL, (serial, serial))?;
        heap.checkpoint()?;
        heap.set(&top, Top::LABEL, (9, 99))
    })
}

/// Frees values and their slice.
fn free_many<'h>(
    heap: &mut Access<'h, Base>,
    many: Ptr<'h, Slice<Ptr<'h, Value>>>,
) -> Result<(), Error> {
    for index in 0..MANY {
        let value = heap.cell(&many, index)?;
        heap.free(value)?;
    }
    heap.free(many)
}

/// Many values in the place of those before, which are freed.
pub(super) fn many(file: &HeapFile, serial: u64) -> Result<(), Error> {
    file.base(|heap| {
        let top = top(heap)?;
        exchange(heap, &top, serial)?;
        heap.checkpoint()?;
        // Behind the checkpoint, in the space of what it has freed.
        let _ = exchange(heap, &top, 99);
        Ok(())
    })
}

fn exchange<'h>(
    heap: &mut Access<'h, Base>,
    top: &Ptr<'h, Top<'h>>,
    serial: u64,
) -> Result<(), Error> {
    let slice = values(heap, serial)?;
    let before = heap.get(top, Top::MANY)?;
    heap.set(top, Top::MANY, Some(slice))?;
    before.map_or(Ok(()), |before| free_many(heap, before))
}

/// Many values, in space that held others, and was freed, under the same use.
pub(super) fn reuse(file: &HeapFile, serial: u64) -> Result<(), Error> {
    file.base(|heap| {
        let top = top(heap)?;
        // Also if there is no root yet: it is one from here on, with an empty list.
        let other = values(heap, 99)?;
        heap.checkpoint()?;
        free_many(heap, other)?;
        heap.checkpoint()?;
        exchange(heap, &top, serial)?;
        heap.checkpoint()
    })
}

/// An item less, and its value, unless another has it.
pub(super) fn take(file: &HeapFile, index: usize) -> Result<(), Error> {
    match take_with(file, index, true) {
        // A ring that was cut off, and is not collected, has the value: it is left to that.
        Err(Error::Referred { .. }) => take_with(file, index, false),
        taken => taken,
    }
}

fn take_with(file: &HeapFile, index: usize, with_value: bool) -> Result<(), Error> {
    file.base(|heap| {
        let (before, item) = nth(heap, index)?;
        let Item { value, next, back, .. } = heap.read(&item)?;
        let top = top(heap)?;
        if let Some(next) = &next {
            heap.set(next, Item::BACK, back)?;
        }
        match &before {
            Some(before) => heap.set(before, Item::NEXT, next)?,
            None => heap.set(&top, Top::FIRST, next)?,
        }
        heap.free(item)?;
        let (mut at, mut is_shared) = (heap.get(&top, Top::FIRST)?, false);
        while let Some(item) = at {
            is_shared |= heap.get(&item, Item::VALUE)?.is(&value);
            at = heap.get(&item, Item::NEXT)?;
        }
        if with_value && !is_shared {
            heap.free(value)?;
        }
        heap.checkpoint()?;
        heap.set(&top, Top::LABEL, (9, 99))
    })
}
