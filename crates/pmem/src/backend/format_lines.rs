//! The lines that formatting has fenced: they, and no others, go into the new file.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};

use crate::notes::NoteBook;

/// Lines flushed by each thread, and lines fenced.
pub(crate) struct FormatLines {
    book: NoteBook,
    /// Keeps the book in use.
    _holder: Arc<()>,
    fenced: Mutex<BTreeSet<u64>>,
}

impl FormatLines {
    pub(crate) fn new() -> FormatLines {
        let holder = Arc::new(());
        FormatLines { book: NoteBook::new(&holder), _holder: holder, fenced: Mutex::default() }
    }

    pub(super) fn note(&self, offset: u64, len: u64) {
        self.book.with(|note| note.flushed.add(offset, len));
    }

    pub(super) fn fence(&self) {
        let mut lines = Vec::new();
        self.book.with(|note| note.flushed.drain_into(&mut lines));
        self.fenced.lock().unwrap_or_else(PoisonError::into_inner).extend(lines);
    }

    /// What was fenced, in order.
    pub(crate) fn take(&self) -> Vec<u64> {
        let mut fenced = self.fenced.lock().unwrap_or_else(PoisonError::into_inner);
        std::mem::take(&mut *fenced).into_iter().collect()
    }
}
