//! Watches what is read of an image.

use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tembo_pmem::{Observer, Stored};

use crate::event::{LINE, Piece, pieces};
use crate::hash::mix;
use crate::recorder::store;

/// The observer of an image that is judged: writes down which of the lines that may differ from
/// image to image are read, in the order of the first reads, and what is stored. A judge by one
/// thread.
pub struct Reader {
    /// Per line: whether a read is to be noted.
    wanted: Vec<AtomicU8>,
    /// Per line, a bit a word: stored to since the judging began, and so no longer the image's.
    own: Vec<AtomicU8>,
    /// Per line: the hash of what the image has there.
    contents: Vec<AtomicU64>,
    hash: AtomicU64,
    found: Mutex<Found>,
}

#[derive(Default)]
struct Found {
    lines: Vec<u32>,
    stores: Vec<Piece>,
    size: Option<u64>,
}

impl Reader {
    /// For images of at most this many lines.
    pub(crate) fn new(lines: usize) -> Arc<Reader> {
        Arc::new(Reader {
            wanted: (0..lines).map(|_| AtomicU8::new(0)).collect(),
            own: (0..lines).map(|_| AtomicU8::new(0)).collect(),
            contents: (0..lines).map(|_| AtomicU64::new(0)).collect(),
            hash: AtomicU64::new(0),
            found: Mutex::default(),
        })
    }

    fn found(&self) -> MutexGuard<'_, Found> {
        self.found.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Begins anew; the reads of `lines` are of interest.
    pub(crate) fn begin(&self, lines: impl Iterator<Item = u32>) {
        for own in &self.own {
            own.store(0, Ordering::Relaxed);
        }
        for line in lines {
            self.wanted[line as usize].store(1, Ordering::Relaxed);
        }
        self.hash.store(0, Ordering::Relaxed);
        *self.found() = Found::default();
    }

    /// Says what the image has in a line.
    pub(crate) fn set_content(&self, line: u32, hash: u64) {
        self.contents[line as usize].store(hash, Ordering::Relaxed);
    }

    pub(crate) fn content(&self, line: u32) -> u64 {
        self.contents[line as usize].load(Ordering::Relaxed)
    }

    /// The lines read, in the order of their first reads.
    pub(crate) fn lines(&self) -> Vec<u32> {
        std::mem::take(&mut self.found().lines)
    }

    /// A hash of what was read so far. An oracle that decides by it how much it asks of an image decides
    /// the same for every image that reads the same.
    pub fn hash(&self) -> u64 {
        self.hash.load(Ordering::Relaxed)
    }

    /// The bytes as they stand now, if they were `image` at the beginning.
    pub fn newest(&self, image: &[u8]) -> Vec<u8> {
        let found = self.found();
        let mut bytes = image.to_vec();
        bytes.resize(found.size.map_or(bytes.len(), |size| size as usize), 0);
        found.stores.iter().for_each(|piece| store(&mut bytes, piece));
        bytes
    }

    #[cold]
    fn read(&self, line: usize, words: u8) {
        if words & !self.own[line].load(Ordering::Relaxed) == 0 {
            return;
        }
        self.wanted[line].store(0, Ordering::Relaxed);
        let content = self.contents[line].load(Ordering::Relaxed);
        self.hash.store(follow(self.hash(), line as u32, content), Ordering::Relaxed);
        self.found().lines.push(line as u32);
    }
}

/// The hash of what was read, when a line of that content is read next.
pub(crate) fn follow(hash: u64, line: u32, content: u64) -> u64 {
    mix(hash.rotate_left(5) ^ u64::from(line), content)
}

/// The words of a line that the bytes `from..to` lie in.
fn words(line: usize, from: u64, to: u64) -> u8 {
    let start = (line * LINE) as u64;
    let first = from.max(start) - start;
    let last = (to - 1).min(start + LINE as u64 - 1) - start;
    let upto = |word: u64| ((1_u16 << (word + 1)) - 1) as u8;
    upto(last / 8) & !(upto(first / 8) >> 1)
}

impl Observer for Reader {
    fn load(&self, offset: u64, len: u64) {
        if len == 0 {
            return;
        }
        let (first, last) = (offset as usize / LINE, (offset + len - 1) as usize / LINE);
        for line in first..=last.min(self.wanted.len().saturating_sub(1)) {
            if self.wanted[line].load(Ordering::Relaxed) != 0 {
                self.read(line, words(line, offset, offset + len));
            }
        }
    }

    fn store(&self, stored: Stored<'_>, perform: &mut dyn FnMut()) {
        perform();
        let mut found = self.found();
        pieces(stored.name, stored.offset, stored.parts, |piece| {
            if piece.len == 8
                && let Some(own) = self.own.get(piece.line() as usize)
            {
                own.fetch_or(1 << (piece.offset % LINE as u64 / 8), Ordering::Relaxed);
            }
            found.stores.push(piece);
        });
    }

    fn flush(&self, _: &'static str, _: u64, _: u64) {}

    fn fence(&self, _: &'static str) {}

    fn sync(&self) {}

    fn resize(&self, size: u64) {
        self.found().size = Some(size);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_judge_has_stored_itself_is_not_the_images() {
        assert_eq!(words(1, 64, 128), 0xff);
        assert_eq!(words(1, 0, 1000), 0xff);
        assert_eq!(words(1, 72, 80), 2);
        assert_eq!(words(1, 100, 200), 0xf0);
        let reader = Reader::new(4);
        reader.begin([1, 2].into_iter());
        let word = Stored { name: None, offset: 72, parts: &[&[1; 8]] };
        reader.store(word, &mut || {});
        reader.load(72, 8);
        reader.load(0, 64);
        reader.load(130, 1);
        reader.load(130, 1);
        reader.load(72, 9);
        assert_eq!(reader.lines(), [2, 1]);
    }
}
