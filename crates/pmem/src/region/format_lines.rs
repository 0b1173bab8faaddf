//! The lines that formatting has fenced: they, and no others, go into the new file.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};

use crate::flush::lines;
use crate::notes::NoteBook;

/// Lines flushed by each thread, and lines fenced.
pub(super) struct FormatLines {
    book: NoteBook,
    /// Keeps the book in use.
    _holder: Arc<()>,
    fenced: Mutex<BTreeSet<u64>>,
}

impl FormatLines {
    pub(super) fn new() -> FormatLines {
        let holder = Arc::new(());
        FormatLines { book: NoteBook::new(&holder), _holder: holder, fenced: Mutex::default() }
    }

    pub(super) fn note(&self, offset: u64, len: u64) {
        self.book.with(|note| note.lines.extend(lines(offset, len)));
    }

    pub(super) fn fence(&self) {
        let noted = self.book.with(|note| std::mem::take(&mut note.lines));
        self.fenced.lock().unwrap_or_else(PoisonError::into_inner).extend(noted);
    }

    /// What was fenced, in order.
    pub(super) fn take(&self) -> Vec<u64> {
        let mut fenced = self.fenced.lock().unwrap_or_else(PoisonError::into_inner);
        std::mem::take(&mut *fenced).into_iter().collect()
    }
}
