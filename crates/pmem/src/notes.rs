//! What a thread has flushed and not yet fenced, where a fence has to know it.

use std::cell::RefCell;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};

use crate::LINE;
use crate::extent::{Freed, Room, WrittenExtent};
use crate::flush::line_count;
use crate::unfenced::Unfenced;

/// Keeps room for threads, and takes over what a thread has noted when it ends.
pub(crate) trait Holder: Send + Sync {
    /// The thread of these notes has ended. A handle of it that is dropped later finds them no more.
    fn end(&self, note: &mut Note);
}

/// Nothing is kept.
impl Holder for () {
    fn end(&self, _note: &mut Note) {}
}

/// Where the notes of a thread are found.
pub(crate) trait Notes {
    /// Works on them. `work` must not come back here.
    fn with<R: Default>(&self, work: impl FnOnce(&mut Note) -> R) -> R;
}

/// Those of the calling thread.
impl Notes for NoteBook {
    #[inline]
    fn with<R: Default>(&self, work: impl FnOnce(&mut Note) -> R) -> R {
        NoteBook::with(self, work)
    }
}

/// Those of a thread that ends.
impl Notes for RefCell<&mut Note> {
    fn with<R: Default>(&self, work: impl FnOnce(&mut Note) -> R) -> R {
        work(&mut self.borrow_mut())
    }
}

/// One thread's notes on one region.
#[derive(Default)]
pub(crate) struct Note {
    region: u64,
    /// No other note has it; 0 of a thread that is being torn down.
    number: u64,
    unfenced: Option<Arc<Unfenced>>,
    holder: Option<Weak<dyn Holder>>,
    /// What was flushed and not yet fenced.
    pub(crate) flushed: Spans,
    /// Room for the lines of a fence, empty between two.
    pub(crate) lines: Vec<u64>,
    /// What was written beside the log.
    extents: Vec<WrittenExtent>,
    /// The first byte of these, and the one behind the last.
    reach: (u64, u64),
    /// Where records were written whose lines are flushed.
    rooms: Vec<Room>,
    /// What the thread has freed since the first of these.
    pub(crate) freed: Vec<Freed>,
    /// Sections open.
    pub(crate) depth: u32,
    /// Bytes of the log that are kept for this thread.
    pub(crate) held: u64,
    /// Of each section within another, what was kept when it began.
    outer: Vec<u64>,
}

impl Note {
    /// An extent was written beside the log.
    pub(crate) fn add_extent(&mut self, written: WrittenExtent) {
        let (start, end) = (written.extent.offset, written.extent.end());
        self.wrote(start, end);
        self.reach = match self.extents.is_empty() {
            true => (start, end),
            false => (self.reach.0.min(start), self.reach.1.max(end)),
        };
        self.extents.push(written);
    }

    /// A section begins, for which so much is kept beside what is kept already.
    pub(crate) fn begin_section(&mut self, held: u64) {
        if self.depth > 0 {
            self.outer.push(self.held);
        }
        (self.held, self.depth) = (held, self.depth + 1);
    }

    /// A section ends: what it has not used is free, but for what is noted, which takes `noted`. Returns how much that is.
    pub(crate) fn end_section(&mut self, noted: u64) -> u64 {
        self.depth = self.depth.saturating_sub(1);
        let outer = if self.depth > 0 { self.outer.pop().unwrap_or(self.held) } else { 0 };
        let left = self.held.min(outer.saturating_add(noted));
        let released = self.held - left;
        self.held = left;
        released
    }

    /// Whether the thread's next call finds it again. Of a thread that is being torn down it does not.
    pub(crate) fn is_kept(&self) -> bool {
        self.number != 0
    }

    /// Whether something was written beside the log since the last fence.
    pub(crate) fn has_extents(&self) -> bool {
        !self.extents.is_empty()
    }

    /// A record was written there, whose lines are flushed.
    #[inline]
    pub(crate) fn add_room(&mut self, room: Room) {
        self.wrote(room.start, room.end);
        self.rooms.push(room);
    }

    /// The space is free. What the thread has written in it and not fenced may be another thread's by now, and is not
    /// written beside the log. Of what it has written there already, the syncs of the pool file that had failed when the first was.
    #[inline]
    pub(crate) fn forget(&mut self, offset: u64, len: u64) -> Option<u64> {
        let end = offset.saturating_add(len);
        if let Some(unfenced) = &self.unfenced {
            unfenced.check_freed(self.number, (offset, end));
        }
        let (rooms, extents) = (self.rooms.len(), self.extents.len());
        if rooms + extents > 0 {
            self.freed.push(Freed { start: offset, end, rooms, extents });
        }
        if extents == 0 || end <= self.reach.0 || self.reach.1 <= offset {
            return None;
        }
        let is_freed =
            |written: &&WrittenExtent| written.extent.offset < end && offset < written.extent.end();
        self.extents.iter().filter(is_freed).map(|written| written.failed_syncs).min()
    }

    /// Nothing that the thread has written since its last fence is to be written beside the log. Returns the same as
    /// [`forget`](Note::forget).
    pub(crate) fn give_up(&mut self) -> Option<u64> {
        if let Some(unfenced) = &self.unfenced {
            unfenced.forget(self.number);
        }
        self.rooms.clear();
        self.freed.clear();
        self.extents.drain(..).map(|written| written.failed_syncs).min()
    }

    /// What the next fence would append, but for the lines of extents.
    pub(crate) fn noted(&self) -> usize {
        self.flushed.line_count() + self.extents.len()
    }

    /// Takes the extents and rooms that were written since the last fence.
    pub(crate) fn take_written(&mut self) -> (Vec<WrittenExtent>, Vec<Room>) {
        if let Some(unfenced) = &self.unfenced {
            unfenced.forget(self.number);
        }
        (std::mem::take(&mut self.extents), std::mem::take(&mut self.rooms))
    }

    /// Room for the next fence, empty, to be used again.
    pub(crate) fn give_back(&mut self, lines: Vec<u64>, rooms: Vec<Room>) {
        (self.lines, self.rooms) = (lines, rooms);
    }

    #[inline]
    fn wrote(&self, start: u64, end: u64) {
        if let Some(unfenced) = &self.unfenced {
            unfenced.add(self.number, (start, end));
        }
    }
}

/// Runs of lines, in the order in which they came, with repetitions.
#[derive(Default)]
pub(crate) struct Spans {
    /// Offset of the first line, and of the line behind the last.
    spans: Vec<(u64, u64)>,
    line_count: usize,
}

impl Spans {
    /// Adds the lines that hold `len` bytes at `offset`.
    #[inline]
    pub(crate) fn add(&mut self, offset: u64, len: u64) {
        let count = line_count(offset, len);
        if count > 0 {
            let first = offset & !(LINE - 1);
            self.spans.push((first, first + count * LINE));
            self.line_count += count as usize;
        }
    }

    /// How many lines, repetitions counted.
    pub(crate) fn line_count(&self) -> usize {
        self.line_count
    }

    /// Moves the offset of each line, once and in ascending order, behind `lines`.
    pub(crate) fn drain_into(&mut self, lines: &mut Vec<u64>) {
        self.spans.sort_unstable();
        let mut next = 0;
        for (start, end) in self.spans.drain(..) {
            lines.extend((start.max(next)..end).step_by(LINE as usize));
            next = next.max(end);
        }
        self.line_count = 0;
    }
}

impl Drop for Note {
    fn drop(&mut self) {
        if let Some(holder) = self.holder.as_ref().and_then(Weak::upgrade) {
            holder.end(self);
        }
        if let Some(unfenced) = &self.unfenced {
            unfenced.forget(self.number);
        }
    }
}

thread_local! {
    static NOTES: RefCell<Vec<Note>> = const { RefCell::new(Vec::new()) };
}

/// A region's place in the notes of all threads.
pub(crate) struct NoteBook {
    region: u64,
    unfenced: Arc<Unfenced>,
    holder: Weak<dyn Holder>,
}

impl NoteBook {
    /// A book that no thread has written in.
    pub(crate) fn new(holder: &Arc<impl Holder + 'static>) -> NoteBook {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        let holder: Arc<dyn Holder> = holder.clone();
        let region = NEXT.fetch_add(1, Ordering::Relaxed);
        NoteBook { region, unfenced: Arc::default(), holder: Arc::downgrade(&holder) }
    }

    /// Works on the calling thread's notes. `work` must not come back here. A thread that is being
    /// torn down has no notes left: what it does starts from none, and is forgotten. It gets no room in the log.
    #[inline]
    pub(crate) fn with<R: Default>(&self, work: impl FnOnce(&mut Note) -> R) -> R {
        let mut work = Some(work);
        let done = NOTES.try_with(|notes| {
            let mut notes = notes.try_borrow_mut().ok()?;
            let at = match notes.iter().position(|note| note.region == self.region) {
                Some(at) => at,
                None => self.begin(&mut notes),
            };
            Some(work.take()?(&mut notes[at]))
        });
        match done {
            Ok(Some(result)) => result,
            _ => work.map(|work| work(&mut Note::default())).unwrap_or_default(),
        }
    }

    /// Opens a page for this region, and forgets regions that are gone.
    #[cold]
    fn begin(&self, notes: &mut Vec<Note>) -> usize {
        notes.retain(|note| note.holder.as_ref().is_some_and(|holder| holder.strong_count() > 0));
        static NEXT: AtomicU64 = AtomicU64::new(1);
        let mut note = Note::default();
        note.region = self.region;
        note.number = NEXT.fetch_add(1, Ordering::Relaxed);
        note.unfenced = Some(self.unfenced.clone());
        note.holder = Some(self.holder.clone());
        notes.push(note);
        notes.len() - 1
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn each_line_comes_once_and_in_order() {
        // Every sequence of three ranges within a few lines, against a plain set.
        let ranges: Vec<(u64, u64)> =
            (0..5).flat_map(|line| (0..5).map(move |len| (line * LINE + 8, len * 40))).collect();
        for first in &ranges {
            for second in &ranges {
                for third in &ranges {
                    let (mut spans, mut plain) = (Spans::default(), BTreeSet::new());
                    for (offset, len) in [first, second, third] {
                        spans.add(*offset, *len);
                        plain.extend((*offset..offset + len).map(|byte| byte / LINE * LINE));
                    }
                    let mut lines = Vec::new();
                    spans.drain_into(&mut lines);
                    assert_eq!(lines, Vec::from_iter(plain));
                    assert_eq!(spans.line_count(), 0);
                }
            }
        }
    }
}
