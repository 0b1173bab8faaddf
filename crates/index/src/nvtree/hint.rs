//! The hint: which leaves there were, written down so that an open need not walk their list.
//!
//! # What it is
//! *Pages* of entries, a leaf's number and its low key, in the order of the list; and a *directory* of the
//! first entry of each page, with the page's checksum. The tree's cell names the directory, with the
//! directory's checksum in the word before. So an open reads the cell and the directory; a page is read
//! when something first looks for a key that it covers (`open.rs`).
//!
//! # Why it may be believed
//! It says what was. The leaves of that time are leaves still, with the same low keys, because a low
//! key never changes, and because a merge, which alone takes a leaf away, withdraws the hint before (the
//! word that names it becomes 0, and is durable before the leaf is unlinked). What it does not say, since
//! leaves have been split, is found by walking right: a hint that lacks leaves is as good as one
//! that is older. So a page that is damaged, or a leaf whose low key is too long to be written down, is
//! left out; and a directory that is damaged is no hint. A leaf of a hint is checked like any other
//! when it is read.
//!
//! # What a crash leaves
//! Nothing orders the directory before the cell that names it, or a page before its directory: each is
//! bound by its bytes' checksum in what names it, so what was torn, or is something else by now, is seen.
//! The one fence is there so that a thread that waits for a hint has one. What was written and is not named is
//! found free by the sweep.
//!
//! # Cost
//! Some ten bytes a leaf, one flush for each page of at most 8 KiB, one fence. It is written beside
//! writers, which never wait for it; merges do not happen meanwhile.

pub(crate) mod entries;

use std::sync::atomic::{AtomicUsize, Ordering};

use tembo_pmem::thread::lock;
use tembo_pool::Object;
use zerocopy::{FromBytes, IntoBytes};

use self::entries::{Entries, Page, read};
use super::NvTree;
use super::format::{CELL_SIZE, HINT_MAGIC, HintHeader, HintPage, TreeCell};
use super::leaf::Leaf;
use crate::error::damaged;
use crate::{Error, Retired};

/// Bytes of a page: so many leaves are told to the inner nodes in a fraction of a millisecond.
const PAGE_SIZE: u64 = 8 << 10;
/// A longer low key is left out.
const LOW_MAX: usize = 256;
/// Fewer leaves are walked as soon as read.
const LEAVES_MIN: usize = 64;
/// Any offset at which an object may lie.
const ALIGNED: u64 = 1 << 30;
/// More threads than ever split leaves at a time.
const WRITERS_MAX: usize = 256;

/// The first leaf of each page, and the pages.
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

    /// Whether so many leaves call for another hint: it would know a quarter more.
    pub(crate) fn is_outgrown_by(&self, leaves: usize) -> bool {
        let hinted = self.0.load(Ordering::Relaxed);
        leaves >= LEAVES_MIN && leaves > hinted + hinted / 4
    }
}

impl NvTree {
    /// How many leaves the hint on media tells of; `None`: there is no hint, or one that was torn or
    /// damaged.
    ///
    /// # Errors
    /// Damage of the cell.
    pub fn hinted_leaves(&self) -> Result<Option<u64>, Error> {
        let Some(directory) = self.hint_directory()? else { return Ok(None) };
        for page in &directory.pages {
            if self.hint_page(page)?.is_none() {
                return Ok(None);
            }
        }
        Ok(Some(directory.leaf_count))
    }

    pub(super) fn cell(&self) -> Result<&TreeCell, Error> {
        Ok(self.forest.region().get(self.cell)?)
    }

    /// The directory of the hint; `None` if there is no hint, or one that was torn or damaged.
    pub(super) fn hint_directory(&self) -> Result<Option<Directory>, Error> {
        let cell = self.cell()?;
        let (object, check) = (Object::from_bits(cell.hint.load()), cell.hint_check.load());
        let (size, crc) = (check >> 32, check as u32);
        if object.is_none() || self.forest.pool().valid(object).is_err() || size > object.size() {
            return Ok(None);
        }
        let bytes = self.forest.region().media_bytes(object.offset(), size)?.to_vec();
        let sound = crc32c::crc32c(&bytes) == crc;
        Ok(sound.then(|| read_directory(object, &bytes)).flatten())
    }

    /// The leaves of a page; `None` if it is damaged.
    pub(super) fn hint_page(&self, page: &HintPage) -> Result<Option<Entries>, Error> {
        let (object, size) = (Object::from_bits(page.object), u64::from(page.size));
        if self.forest.pool().valid(object).is_err() || size > object.size() {
            return Ok(None);
        }
        let bytes = self.forest.region().media_bytes(object.offset(), size)?.to_vec();
        let sound = crc32c::crc32c(&bytes) == page.crc;
        Ok(sound.then(|| read(&bytes, |behind| Some(behind))).flatten())
    }

    /// The objects of the hint.
    pub(super) fn hint_objects(&self) -> Result<Vec<Object>, Error> {
        let Some(directory) = self.hint_directory()? else { return Ok(Vec::new()) };
        let pages = directory.pages.iter().map(|page| Object::from_bits(page.object));
        Ok(pages.chain([directory.object]).collect())
    }

    /// Whether there are enough leaves more than the hint knows.
    pub(crate) fn is_hint_outgrown(&self) -> bool {
        self.inner.get().is_some_and(|inner| self.hinted.is_outgrown_by(inner.leaf_count()))
    }

    /// Writes a hint of all leaves, and retires the one before. Beside the writer; durable when it returns.
    /// On an error the hint before is as it was.
    pub(crate) fn write_hint(&self, version: u64, retired: &mut Vec<Retired>) -> Result<(), Error> {
        self.complete()?;
        // No merge takes away what is written down, and no mark reads it half.
        let _structure = lock(&self.structure);
        let before = self.hint_objects()?;
        let mut made = Vec::new();
        let written = self.write_pages(&mut made);
        let named = written.and_then(|written| self.name_hint(&mut made, written));
        match named {
            Ok(leaves) => self.hinted.set(leaves),
            Err(error) => {
                self.forest.pool().free_all(made);
                return Err(error);
            }
        }
        // It was of no version, and its readers are gone: all leaves are known.
        retired.extend(before.into_iter().map(|object| retire(object, version)));
        Ok(())
    }
}

/// Pages being written.
struct Pages<'t, 'm> {
    tree: &'t NvTree,
    page: Page,
    directory: Page,
    /// Every object that was made; the directory comes last.
    made: &'m mut Vec<Object>,
}

impl NvTree {
    /// Withdraws the hint; the caller holds `structure`. Durable after the caller's fence, for which a merge
    /// waits before it unlinks a leaf.
    pub(super) fn withdraw_hint(
        &self,
        version: u64,
        retired: &mut Vec<Retired>,
    ) -> Result<(), Error> {
        let (region, cell) = (self.forest.region(), self.cell()?);
        if cell.hint.load() == 0 {
            return Ok(());
        }
        let objects = self.hint_objects()?;
        // ORDER: before a leaf that the hint names is unlinked, by the fence of the merge.
        region.commit("nvtree.hint.withdraw", &cell.hint, 0);
        // ORDER: as above.
        region.flush("nvtree.hint.withdraw.flush", self.cell, CELL_SIZE);
        self.hinted.set(0);
        retired.extend(objects.into_iter().map(|object| retire(object, version)));
        Ok(())
    }

    /// Writes pages of all leaves; returns the bytes of the directory, and how many leaves there are.
    fn write_pages(&self, made: &mut Vec<Object>) -> Result<(Vec<u8>, usize), Error> {
        let known = self.inner()?.leaf_count();
        let mut pages =
            Pages { tree: self, page: Page::default(), directory: Page::default(), made };
        let (mut leaf, mut count) = (Leaf::of(&self.forest, self.first()?)?, 1);
        pages.push(&leaf)?;
        while let Some(next) = leaf.following()? {
            leaf = next;
            count += 1;
            pages.push(&leaf)?;
        }
        // Of a leaf that is about to be linked the inner nodes know before.
        if count + WRITERS_MAX < known {
            // A hint of the others would be outgrown for ever.
            return damaged(self.cell, "as many leaves in the list as the inner nodes know");
        }
        pages.write()?;
        let header = HintHeader { magic: HINT_MAGIC, leaf_count: count as u64 };
        Ok(([header.as_bytes(), &pages.directory.bytes].concat(), count))
    }

    /// Writes the directory and lets the cell name it.
    fn name_hint(
        &self,
        made: &mut Vec<Object>,
        (directory, leaves): (Vec<u8>, usize),
    ) -> Result<usize, Error> {
        let (region, cell) = (self.forest.region(), self.cell()?);
        let object = self.make_object(directory.len() as u64, made)?;
        let _section = self.reserve_hint(object.size())?;
        region
            // ORDER: before the fence; whether it came whole its checksum tells.
            .write("nvtree.hint.directory", object.offset(), &[&directory])
            .map_err(tembo_pool::Error::from)?;
        let check = (directory.len() as u64) << 32 | u64::from(crc32c::crc32c(&directory));
        region.store(&cell.hint_check, check);
        // ORDER: after the checksum: same line, store order. With that of a withdrawn hint, of which the
        // space is used again, this could name what is no longer so.
        region.commit("nvtree.hint.link", &cell.hint, object.to_bits());
        // ORDER: before the fence.
        region.flush("nvtree.hint.link.flush", self.cell, CELL_SIZE);
        // ORDER: all of the hint is durable before any thread is told that there is one.
        region.fence("nvtree.hint.fence");
        Ok(leaves)
    }

    fn make_object(&self, size: u64, made: &mut Vec<Object>) -> Result<Object, Error> {
        let _section = self.forest.pool().reserve(size, 1)?;
        let object = self.forest.pool().alloc(size)?;
        made.push(object);
        Ok(object)
    }

    /// Room for an object's bytes and the cell.
    fn reserve_hint(&self, size: u64) -> Result<tembo_pmem::Section<'_>, Error> {
        let pool = self.forest.pool();
        Ok(pool.reserve(0, 1 + pool.region().write_lines(ALIGNED, size))?)
    }
}

impl Pages<'_, '_> {
    /// The next leaf.
    fn push(&mut self, leaf: &Leaf<'_>) -> Result<(), Error> {
        let low = leaf.low()?.to_vec();
        if low.len() > LOW_MAX {
            return Ok(());
        }
        let chunk = u64::from(self.tree.forest.pool().geometry().chunk_size);
        let room = PAGE_SIZE.min(chunk / 2) as usize;
        if self.page.bytes.len() + Page::size_max(&low) > room {
            self.write()?;
        }
        if self.page.bytes.is_empty() {
            self.directory.push(leaf.id, &low);
        }
        self.page.push(leaf.id, &low);
        Ok(())
    }

    /// Writes the page, and says in the directory where.
    fn write(&mut self) -> Result<(), Error> {
        let (tree, bytes) = (self.tree, &self.page.bytes);
        let object = tree.make_object(bytes.len() as u64, self.made)?;
        let _section = tree.reserve_hint(object.size())?;
        let region = tree.forest.region();
        region
            // ORDER: before the fence; whether it came whole its checksum tells.
            .write("nvtree.hint.page", object.offset(), &[bytes])
            .map_err(tembo_pool::Error::from)?;
        let (size, crc) = (bytes.len() as u32, crc32c::crc32c(bytes));
        self.directory.push_page(HintPage { object: object.to_bits(), size, crc });
        self.page.clear();
        Ok(())
    }
}

/// Nothing sees it once a version after its unlinking is visible.
fn retire(object: Object, version: u64) -> Retired {
    Retired { object, start: version, end: version }
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
