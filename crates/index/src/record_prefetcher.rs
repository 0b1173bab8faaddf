//! Prefetches records before a scan comes to them, where pages come from a disk one by one; otherwise it would wait for
//! one after the other.

use tembo_pmem::Region;
use tembo_pool::Object;

use crate::record::ask_for_record;

/// Records that a scan asks for when it begins. It asks for twice as many each time after that, so that a scan that ends
/// soon has few records read for nothing.
const FIRST: usize = 4;

/// Most records that are asked for and to which the scan has not come: as many as a disk reads side by side.
const MOST: usize = 64;

/// Most bytes of a record that are asked for before a scan comes to it.
const SIZE_MAX: u64 = 128 << 10;

/// Most records that the processor is asked for and to which the scan has not come: as many as it waits for side by
/// side, with some lines of each.
const NEAR: usize = 6;

/// Lines of a record that the processor is asked for. It fetches those that follow by itself.
const NEAR_LINES: u64 = 4;

/// The records of a leaf that the processor was not yet asked for.
pub(crate) struct NearRecords<I>(I);

impl<I: Iterator<Item = Object>> NearRecords<I> {
    /// Asks for the first ones.
    #[inline]
    pub(crate) fn begin(records: I, region: &Region) -> NearRecords<I> {
        let mut near = NearRecords(records);
        (0..NEAR).for_each(|_| near.come_to_next(region));
        near
    }

    /// Notes that the scan comes to the next record.
    #[inline]
    pub(crate) fn come_to_next(&mut self, region: &Region) {
        if let Some(record) = self.0.next() {
            let lines = record.size().div_ceil(64).min(NEAR_LINES);
            (0..lines).for_each(|line| region.prefetch(record.offset() + line * 64));
        }
    }
}

/// How many records a scan asks for.
#[derive(Clone, Copy)]
pub(crate) struct Window(usize);

impl Default for Window {
    fn default() -> Window {
        Window(FIRST)
    }
}

/// The records of a leaf that a scan has not asked for.
pub(crate) struct RecordPrefetcher<'w, I> {
    records: I,
    /// Records that were asked for and to which the scan has not come.
    asked: usize,
    window: &'w mut Window,
}

impl<'w, I: Iterator<Item = Object>> RecordPrefetcher<'w, I> {
    /// A prefetcher. `None` where it is of no use, because pages come with their neighbours.
    #[inline]
    pub(crate) fn new(
        records: I,
        window: &'w mut Window,
        region: &Region,
    ) -> Option<RecordPrefetcher<'w, I>> {
        region.reads_alone().then(|| RecordPrefetcher { records, asked: 0, window })
    }

    /// Notes that the scan comes to the next record, which is this one.
    pub(crate) fn come_to(&mut self, record: Object, region: &Region) {
        if record.size() > SIZE_MAX {
            ask_for_record(region, record);
        }
        if self.asked <= self.window.0 / 2 {
            for record in self.records.by_ref().take(self.window.0 - self.asked) {
                region.will_read(record.offset(), record.size().min(SIZE_MAX));
                self.asked += 1;
            }
            self.window.0 = (self.window.0 * 2).min(MOST);
        }
        self.asked = self.asked.saturating_sub(1);
    }
}
