//! Iterators over a range of keys.
//!
//! An iterator fetches entries in batches, which grow from few to many: each batch is one search in the index. It
//! goes on from both ends, and ends where they meet.

use std::collections::VecDeque;
use std::fmt;
use std::ops::{Bound, RangeBounds};

use tembo_index::{Direction, Range, Visit};

use crate::Error;

/// Entries of the first batch, and most entries of a later one.
const BATCH_MIN: usize = 8;
const BATCH_MAX: usize = 256;

/// Bytes of keys and values after which a batch ends.
const BATCH_BYTES: usize = 256 << 10;

/// A key and its value.
pub type Entry = (Vec<u8>, Vec<u8>);

type Fetch<'h> = dyn FnMut(Range<'_>, &mut Visit<'_>) -> Result<(), Error> + Send + 'h;

/// An iterator over the entries of a range of keys, in order, from either end.
///
/// The iterator of a [`Snapshot`](crate::Snapshot) or [`Store`](crate::Store) owns what it reads from, and so may outlive
/// the handle that it came from. After an error it ends.
pub struct Entries<'h> {
    fetch: Box<Fetch<'h>>,
    from: Bound<Vec<u8>>,
    to: Bound<Vec<u8>>,
    /// Entries fetched at the front and at the back. None is left between them once `is_complete`.
    front: VecDeque<Entry>,
    back: VecDeque<Entry>,
    is_complete: bool,
    batch: usize,
}

impl fmt::Debug for Entries<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Entries").field("from", &self.from).field("to", &self.to).finish()
    }
}

/// The bounds of a range, as bytes.
pub(crate) fn bounds<'r, K: AsRef<[u8]> + ?Sized + 'r>(
    range: &'r impl RangeBounds<K>,
) -> (Bound<&'r [u8]>, Bound<&'r [u8]>) {
    (range.start_bound().map(AsRef::as_ref), range.end_bound().map(AsRef::as_ref))
}

impl<'h> Entries<'h> {
    /// An iterator over the entries that `fetch` visits.
    pub(crate) fn new(
        (from, to): (Bound<&[u8]>, Bound<&[u8]>),
        fetch: impl FnMut(Range<'_>, &mut Visit<'_>) -> Result<(), Error> + Send + 'h,
    ) -> Entries<'h> {
        Entries {
            fetch: Box::new(fetch),
            from: from.map(<[u8]>::to_vec),
            to: to.map(<[u8]>::to_vec),
            front: VecDeque::new(),
            back: VecDeque::new(),
            is_complete: false,
            batch: BATCH_MIN,
        }
    }

    /// Fetches a batch at one end.
    fn fetch(&mut self, direction: Direction) -> Result<(), Error> {
        let (mut fetched, mut bytes, batch) = (VecDeque::new(), 0, self.batch);
        let mut is_complete = true;
        let (from, to) = (self.from.as_ref(), self.to.as_ref());
        let range = Range { from: from.map(Vec::as_slice), to: to.map(Vec::as_slice), direction };
        let done = (self.fetch)(range, &mut |key, value| {
            bytes += key.len() + value.len();
            fetched.push_back((key.to_vec(), value.to_vec()));
            is_complete = fetched.len() < batch && bytes < BATCH_BYTES;
            is_complete
        });
        self.batch = (2 * batch).min(BATCH_MAX);
        self.is_complete = is_complete || done.is_err();
        let reached = fetched.back().map(|(key, _): &Entry| Bound::Excluded(key.clone()));
        match direction {
            Direction::Forward => {
                self.from = reached.unwrap_or_else(|| self.from.clone());
                self.front = fetched;
            }
            Direction::Backward => {
                self.to = reached.unwrap_or_else(|| self.to.clone());
                self.back = fetched;
            }
        }
        done
    }

    fn end(&mut self, error: Error) -> Option<Result<Entry, Error>> {
        self.front.clear();
        self.back.clear();
        Some(Err(error))
    }
}

impl Iterator for Entries<'_> {
    type Item = Result<Entry, Error>;

    fn next(&mut self) -> Option<Result<Entry, Error>> {
        if self.front.is_empty()
            && !self.is_complete
            && let Err(error) = self.fetch(Direction::Forward)
        {
            return self.end(error);
        }
        // Entries fetched at the back have the greatest keys first.
        self.front.pop_front().or_else(|| self.back.pop_back()).map(Ok)
    }
}

impl DoubleEndedIterator for Entries<'_> {
    fn next_back(&mut self) -> Option<Result<Entry, Error>> {
        if self.back.is_empty()
            && !self.is_complete
            && let Err(error) = self.fetch(Direction::Backward)
        {
            return self.end(error);
        }
        self.back.pop_front().or_else(|| self.front.pop_back()).map(Ok)
    }
}

impl std::iter::FusedIterator for Entries<'_> {}
