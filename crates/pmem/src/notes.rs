//! What a thread has flushed and not yet fenced, where a fence has to know it.

use std::cell::RefCell;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};

/// One thread's notes on one region.
#[derive(Debug, Default)]
pub(crate) struct Note {
    region: u64,
    alive: Weak<()>,
    /// Offsets of lines flushed and not yet fenced, in order, with repetitions.
    pub(crate) lines: Vec<u64>,
    /// Ranges written beside the log: offset and length in bytes, whole pages.
    pub(crate) extents: Vec<(u64, u64)>,
    /// Sections open.
    pub(crate) depth: u32,
    /// Bytes of the log that are kept for this thread.
    pub(crate) held: u64,
}

thread_local! {
    static NOTES: RefCell<Vec<Note>> = const { RefCell::new(Vec::new()) };
}

/// A region's place in the notes of all threads.
#[derive(Debug)]
pub(crate) struct NoteBook {
    region: u64,
    alive: Arc<()>,
}

impl NoteBook {
    /// A book that no thread has written in.
    pub(crate) fn new() -> NoteBook {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        NoteBook { region: NEXT.fetch_add(1, Ordering::Relaxed), alive: Arc::new(()) }
    }

    /// Works on the calling thread's notes. `work` must not come back here. A thread that is being
    /// torn down has no notes left: what it does starts from none.
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
        notes.retain(|note| note.alive.strong_count() > 0);
        notes.push(Note {
            region: self.region,
            alive: Arc::downgrade(&self.alive),
            ..Note::default()
        });
        notes.len() - 1
    }
}
