//! The hint: the leaves of a list at one time, written down so that an open need not walk the list.
//!
//! ```text
//!   cell ──► directory: first entry of each page, checksum of the page
//!              │   │   │
//!              ▼   ▼   ▼
//!             page page page     entries: number and low key of each leaf, in the order of the list
//! ```
//!
//! # What it is
//! *Pages* of entries, a leaf's number and its low key, in the order of the list; and a *directory* of the
//! first entry of each page, with the page's checksum. The tree's cell names the directory, with the
//! directory's checksum in the word before. So an open reads the cell and the directory; a page is read
//! when something first looks for a key that it covers (`leaves.rs`).
//!
//! # Why it may be believed
//! The hint says what was. The leaves of that time are still leaves, with the same low keys, because a low
//! key never changes, and because only a merge takes a leaf away, and it withdraws the hint before (the
//! word that names it becomes 0, and is durable before the leaf is unlinked). Leaves that were split off since
//! are found by walking to the right: a hint that lacks leaves is as good as an older one.
//! So a page that is damaged, or a leaf whose low key is too long to be written down, is
//! left out, and a directory that is damaged counts as no hint. A leaf of a hint is checked like any other
//! when it is read.
//!
//! # What a crash leaves
//! Nothing orders the directory before the cell that names it, or a page before its directory: each is
//! bound by a checksum of its bytes in what names it, so a reader sees if it was torn or overwritten.
//! The one fence is there so that a thread that waits for a hint has a durable one. The sweep frees pages that were
//! written and are not named.
//!
//! This module reads the hint; `upkeep/hint_writer.rs` writes and withdraws it.
//!
//! # Cost
//! Some ten bytes a leaf, one flush for each page of at most 8 KiB, one fence. It is written beside
//! writers, which never wait for it; merges do not happen meanwhile.

mod entries;

use std::sync::atomic::{AtomicUsize, Ordering};

use tembo_pool::Object;
use zerocopy::FromBytes;

use self::entries::read;
pub(crate) use self::entries::{Entries, LOW_MAX, Page};
use crate::nvtree::format::{HINT_MAGIC, HintHeader, HintPage, TreeCell};
use crate::{Error, Forest};

/// A list of fewer leaves is walked as quickly as a hint is read.
const LEAVES_MIN: usize = 64;

/// The directory of a hint: the first leaf of each page, and the pages.
pub(crate) struct Directory {
    pub(crate) firsts: Entries,
    pub(crate) pages: Vec<HintPage>,
    pub(crate) leaf_count: u64,
    object: Object,
}

/// How many leaves the hint on media knows.
#[derive(Default)]
pub(crate) struct Hinted(AtomicUsize);

impl Hinted {
    pub(crate) fn set(&self, leaves: usize) {
        self.0.store(leaves, Ordering::Relaxed);
    }

    /// Whether there are so many leaves that another hint is worth it: it would know a quarter more.
    pub(crate) fn is_outgrown_by(&self, leaves: usize) -> bool {
        let hinted = self.0.load(Ordering::Relaxed);
        leaves >= LEAVES_MIN && leaves > hinted + hinted / 4
    }
}

/// How many leaves the hint on media names; `None`: there is no hint, or one that was torn or
/// damaged.
pub(crate) fn hinted_leaves(forest: &Forest, cell: &TreeCell) -> Result<Option<u64>, Error> {
    let Some(directory) = hint_directory(forest, cell)? else { return Ok(None) };
    for page in &directory.pages {
        if hint_page(forest, page)?.is_none() {
            return Ok(None);
        }
    }
    Ok(Some(directory.leaf_count))
}

/// The directory of the hint; `None` if there is no hint, or one that was torn or damaged.
pub(crate) fn hint_directory(forest: &Forest, cell: &TreeCell) -> Result<Option<Directory>, Error> {
    let (object, check) = (Object::from_bits(cell.hint.load()), cell.hint_check.load());
    let (size, crc) = (check >> 32, check as u32);
    if object.is_none() || forest.pool().valid(object).is_err() || size > object.size() {
        return Ok(None);
    }
    let bytes = forest.region().media_bytes(object.offset(), size)?.to_vec();
    let sound = crc32c::crc32c(&bytes) == crc;
    Ok(sound.then(|| read_directory(object, &bytes)).flatten())
}

/// The leaves of a page; `None` if it is damaged.
pub(crate) fn hint_page(forest: &Forest, page: &HintPage) -> Result<Option<Entries>, Error> {
    let (object, size) = (Object::from_bits(page.object), u64::from(page.size));
    if forest.pool().valid(object).is_err() || size > object.size() {
        return Ok(None);
    }
    let bytes = forest.region().media_bytes(object.offset(), size)?.to_vec();
    let sound = crc32c::crc32c(&bytes) == page.crc;
    Ok(sound.then(|| read(&bytes, |behind| Some(behind))).flatten())
}

/// The objects of the hint.
pub(crate) fn hint_objects(forest: &Forest, cell: &TreeCell) -> Result<Vec<Object>, Error> {
    let Some(directory) = hint_directory(forest, cell)? else { return Ok(Vec::new()) };
    let pages = directory.pages.iter().map(|page| Object::from_bits(page.object));
    Ok(pages.chain([directory.object]).collect())
}

fn read_directory(object: Object, bytes: &[u8]) -> Option<Directory> {
    let (header, bytes) = HintHeader::read_from_prefix(bytes).ok()?;
    let mut pages = Vec::new();
    let firsts = read(bytes, |behind| {
        let (page, behind) = HintPage::read_from_prefix(behind).ok()?;
        pages.push(page);
        Some(behind)
    })?;
    let HintHeader { magic, leaf_count } = header;
    (magic == HINT_MAGIC).then_some(Directory { firsts, pages, leaf_count, object })
}
