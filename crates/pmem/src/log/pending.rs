//! Lines of a replayed log on their way into the mapping: a page gets its lines when it is first
//! touched.
//!
//! To put them all there at opening would copy each page on which a line falls, and so take the
//! longer the larger the pool is. Here opening only sorts them by page. The first thread that comes to
//! a page brings its lines, behind the region's bounds check; no thread has seen the page before that, so no
//! thread sees it change. When a checkpoint has written all lines into the pool file, pages that
//! were not touched show them through the mapping, and the rest is forgotten.
#![allow(unsafe_code)]

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock};

use super::replay::{Content, Replay};
use crate::mapping::{Mapping, PAGE};
use crate::{LINE, racy};

/// Pages with the same number modulo this share a lock.
const STRIPES: usize = 64;
/// Lines to a chain, about: pages whose hashes agree share one.
const CHAIN: usize = 4;

/// The lines that wait, and the pages that wait for them.
pub(crate) struct Pending {
    mapping: Arc<Mapping>,
    /// One bit for each page of the region as it was opened: set while the page waits.
    marks: Box<[AtomicU64]>,
    /// Pages that wait.
    waiting: AtomicU64,
    over: AtomicBool,
    stripes: [Mutex<()>; STRIPES],
    chains: RwLock<Option<Chains>>,
}

/// All lines, those of a page in one chain, the latest in the log first.
struct Chains {
    content: Arc<Content>,
    /// For each chain its first line, plus one; zero for none.
    heads: Box<[u32]>,
    /// For each line the next of its chain, plus one.
    next: Box<[u32]>,
}

impl Pending {
    /// The lines of `replay`, to be brought into `mapping`, the first `size` bytes of which are the
    /// region.
    pub(crate) fn new(replay: &Replay, mapping: Arc<Mapping>, size: u64) -> Pending {
        let content = replay.content.clone();
        let marks = (0..size.div_ceil(PAGE).div_ceil(64)).map(|_| AtomicU64::new(0));
        let pending = Pending {
            mapping,
            marks: marks.collect(),
            waiting: AtomicU64::new(0),
            over: AtomicBool::new(content.lines.is_empty()),
            stripes: std::array::from_fn(|_| Mutex::new(())),
            chains: RwLock::new(None),
        };
        let mut waiting = 0;
        for (line, _) in &content.lines {
            let (word, bit) = place(line / PAGE);
            waiting += u64::from(pending.marks[word].load(Ordering::Relaxed) & bit == 0);
            pending.marks[word].fetch_or(bit, Ordering::Relaxed);
        }
        pending.waiting.store(waiting, Ordering::Relaxed);
        *pending.chains.write().unwrap_or_else(PoisonError::into_inner) =
            Some(Chains::new(content));
        pending
    }

    /// Brings the lines of all pages of `len` bytes at `offset`, which are in the region.
    pub(crate) fn bring(&self, offset: u64, len: u64) {
        for page in offset / PAGE..=(offset + len.max(1) - 1) / PAGE {
            if self.waits(page) {
                self.bring_page(page);
            }
        }
    }

    /// Whether no page waits any more.
    pub(crate) fn is_over(&self) -> bool {
        self.over.load(Ordering::Acquire)
    }

    /// Bytes of the pages that wait.
    pub(crate) fn waiting_bytes(&self) -> u64 {
        if self.is_over() { 0 } else { self.waiting.load(Ordering::Acquire) * PAGE }
    }

    /// The pages that wait.
    pub(crate) fn pages(&self) -> impl Iterator<Item = u64> {
        let words = self.marks.iter().enumerate();
        words.flat_map(|(at, word)| {
            let word = word.load(Ordering::Acquire);
            (0..64).filter(move |bit| word >> bit & 1 == 1).map(move |bit| at as u64 * 64 + bit)
        })
    }

    /// All lines are in the pool file, which untouched pages of the mapping show: none is brought
    /// any more.
    pub(crate) fn forget(&self) {
        *self.chains.write().unwrap_or_else(PoisonError::into_inner) = None;
        self.over.store(true, Ordering::Release);
    }

    fn waits(&self, page: u64) -> bool {
        let (word, bit) = place(page);
        self.marks.get(word).is_some_and(|word| word.load(Ordering::Acquire) & bit != 0)
    }

    fn bring_page(&self, page: u64) {
        let stripe = &self.stripes[page as usize % STRIPES];
        let _turn = stripe.lock().unwrap_or_else(PoisonError::into_inner);
        if !self.waits(page) {
            return;
        }
        let chains = self.chains.read().unwrap_or_else(PoisonError::into_inner);
        if let Some(chains) = chains.as_ref() {
            // Of pages that stay protected the copy would be the end of the process, as any store.
            let is_open = self.mapping.open_pages().unwrap_or(false);
            chains.copy(page, &self.mapping);
            if is_open {
                self.mapping.close_pages();
            }
        }
        let (word, bit) = place(page);
        self.marks[word].fetch_and(!bit, Ordering::Release);
        if self.waiting.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.over.store(true, Ordering::Release);
        }
    }
}

/// The word of the marks, and the bit in it.
fn place(page: u64) -> (usize, u64) {
    ((page / 64) as usize, 1 << (page % 64))
}

impl Chains {
    fn new(content: Arc<Content>) -> Chains {
        let count = (content.lines.len() / CHAIN).max(1).next_power_of_two();
        let mut heads = vec![0; count].into_boxed_slice();
        let mut next = vec![0; content.lines.len()].into_boxed_slice();
        for (at, (line, _)) in content.lines.iter().enumerate() {
            let head = &mut heads[chain(line / PAGE, count)];
            next[at] = std::mem::replace(head, at as u32 + 1);
        }
        Chains { content, heads, next }
    }

    /// Puts the last value of each line of the page into a region's mapping.
    fn copy(&self, page: u64, mapping: &Mapping) {
        if !page.checked_mul(PAGE).is_some_and(|start| mapping.holds(start, PAGE)) {
            return;
        }
        let mut done: u64 = 0;
        let mut at = self.heads[chain(page, self.heads.len())];
        while at != 0 {
            let (line, place) = self.content.lines[at as usize - 1];
            let bit = 1 << (line % PAGE / LINE);
            if line / PAGE == page && done & bit == 0 {
                done |= bit;
                let bytes = self.content.line(place);
                // SAFETY: it is a line of the page, which is mapped, was checked above. No mapping but those of regions is
                // shared, and what a region lends may change.
                unsafe { racy::write(bytes.as_ptr(), mapping.base().at(line), bytes.len()) };
            }
            at = self.next[at as usize - 1];
        }
    }
}

/// Which of `count` chains, a power of two, has the lines of a page.
fn chain(page: u64, count: usize) -> usize {
    // Fibonacci hashing: the upper bits of the product.
    (page.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32) as usize & (count - 1)
}

const _: () = assert!(PAGE / LINE == u64::BITS as u64);
