//! What a thread has flushed and not yet fenced, where a fence has to know it.

use std::cell::RefCell;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};

/// Who keeps room for threads: gets it back when a thread ends.
pub(crate) trait Holder: Send + Sync {
    /// `bytes` that a thread held are free.
    fn release(&self, bytes: u64);
}

/// Nothing is kept.
impl Holder for () {
    fn release(&self, _bytes: u64) {}
}

/// One thread's notes on one region.
#[derive(Default)]
pub(crate) struct Note {
    region: u64,
    holder: Option<Weak<dyn Holder>>,
    /// Offsets of lines flushed and not yet fenced, in order, with repetitions.
    pub(crate) lines: Vec<u64>,
    /// Ranges written beside the log: offset and length in bytes, whole pages.
    pub(crate) extents: Vec<(u64, u64)>,
    /// Sections open.
    pub(crate) depth: u32,
    /// Bytes of the log that are kept for this thread.
    pub(crate) held: u64,
}

impl Drop for Note {
    fn drop(&mut self) {
        if self.held > 0
            && let Some(holder) = self.holder.as_ref().and_then(Weak::upgrade)
        {
            holder.release(self.held);
        }
    }
}

thread_local! {
    static NOTES: RefCell<Vec<Note>> = const { RefCell::new(Vec::new()) };
}

/// A region's place in the notes of all threads.
pub(crate) struct NoteBook {
    region: u64,
    holder: Weak<dyn Holder>,
}

impl NoteBook {
    /// A book that no thread has written in.
    pub(crate) fn new(holder: &Arc<impl Holder + 'static>) -> NoteBook {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        let holder: Arc<dyn Holder> = holder.clone();
        NoteBook { region: NEXT.fetch_add(1, Ordering::Relaxed), holder: Arc::downgrade(&holder) }
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
        notes.retain(|note| note.holder.as_ref().is_some_and(|holder| holder.strong_count() > 0));
        let mut note = Note::default();
        note.region = self.region;
        note.holder = Some(self.holder.clone());
        notes.push(note);
        notes.len() - 1
    }
}
