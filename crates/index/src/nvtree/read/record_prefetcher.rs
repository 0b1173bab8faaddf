//! Records that a walk will come to, asked for before it does where pages come from a disk one by one: each would have
//! to be waited for after the other.

use tembo_pmem::Region;

use crate::nvtree::leaf::Element;

/// Records that a walk asks for when it begins. It asks for twice as many each time, so that one that ends soon has had
/// few read for nothing.
const FIRST: usize = 4;

/// Records that are asked for at most, and not come to yet: what a disk reads side by side.
const MOST: usize = 64;

/// Bytes of a record that are asked for at most.
const SIZE_MAX: u64 = 128 << 10;

/// How many records a walk asks for.
#[derive(Clone, Copy)]
pub(super) struct Window(usize);

impl Default for Window {
    fn default() -> Window {
        Window(FIRST)
    }
}

/// The elements of a leaf whose records a walk has not asked for.
pub(super) struct RecordPrefetcher<'w, I> {
    elements: I,
    /// So many records were asked for, and not come to.
    asked: usize,
    window: &'w mut Window,
}

impl<'e, 'w, I: Iterator<Item = &'e Element>> RecordPrefetcher<'w, I> {
    pub(super) fn new(elements: I, window: &'w mut Window) -> RecordPrefetcher<'w, I> {
        RecordPrefetcher { elements, asked: 0, window }
    }

    /// The walk comes to the next element that may have a record.
    pub(super) fn come_to(&mut self, element: &Element, region: &Region) {
        if element.record().is_none() {
            return;
        }
        if self.asked <= self.window.0 / 2 {
            let records = self.elements.by_ref().filter_map(Element::record);
            for record in records.take(self.window.0 - self.asked) {
                region.will_read(record.offset(), record.size().min(SIZE_MAX));
                self.asked += 1;
            }
            self.window.0 = (self.window.0 * 2).min(MOST);
        }
        self.asked = self.asked.saturating_sub(1);
    }
}
