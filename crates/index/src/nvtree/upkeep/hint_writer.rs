//! Writing the hint, and withdrawing it: see `hint.rs`.

use std::sync::Mutex;

use tembo_pmem::thread::lock;
use tembo_pool::Object;
use zerocopy::IntoBytes;

use crate::error::damaged;
use crate::nvtree::format::{CELL_SIZE, HINT_MAGIC, HintHeader, HintPage};
use crate::nvtree::hint::{Page, hint_objects};
use crate::nvtree::leaf::Leaf;
use crate::nvtree::leaves::Leaves;
use crate::{Error, Retired};

/// Bytes of a page: so many leaves are published to the inner nodes in a fraction of a millisecond.
const PAGE_SIZE: u64 = 8 << 10;
/// A longer low key is left out.
const LOW_MAX: usize = 256;
/// Any offset at which an object may lie.
const ALIGNED: u64 = 1 << 30;
/// More threads than ever split leaves at a time.
const WRITERS_MAX: usize = 256;

/// Whether there are enough leaves more than the hint knows.
pub(crate) fn is_hint_outgrown(leaves: &Leaves) -> bool {
    leaves.leaf_count_known().is_some_and(|count| leaves.hinted.is_outgrown_by(count))
}

/// Writes a hint of all leaves, and retires the one before. Beside the writer; durable when it returns.
/// On an error the hint before is as it was.
pub(crate) fn write_hint(
    leaves: &Leaves,
    structure: &Mutex<()>,
    version: u64,
    retired: &mut Vec<Retired>,
) -> Result<(), Error> {
    leaves.complete()?;
    // No merge takes away what is written down, and no mark reads it half.
    let _structure = lock(structure);
    let before = hint_objects(&leaves.forest, leaves.cell()?)?;
    let known = leaves.inner()?.leaf_count();
    let mut made = Vec::new();
    let written = write_pages(leaves, known, &mut made);
    let named = written.and_then(|written| name_hint(leaves, &mut made, written));
    match named {
        // Of a list that is short the inner nodes know more: no further hint would have them.
        Ok(count) => leaves.hinted.set(count.max(known)),
        Err(error) => {
            leaves.forest.pool().free_all(made);
            return Err(error);
        }
    }
    // It was of no version, and its readers are gone: all leaves are known.
    retired.extend(before.into_iter().map(|object| retire(object, version)));
    Ok(())
}

/// Pages being written.
struct Pages<'t, 'm> {
    leaves: &'t Leaves,
    page: Page,
    directory: Page,
    /// Every object that was made; the directory comes last.
    made: &'m mut Vec<Object>,
}

/// Withdraws the hint; the caller holds `structure`. Durable after the caller's fence, for which a merge
/// waits before it unlinks a leaf.
pub(super) fn withdraw_hint(
    leaves: &Leaves,
    version: u64,
    retired: &mut Vec<Retired>,
) -> Result<(), Error> {
    let (region, cell) = (leaves.forest.region(), leaves.cell()?);
    if cell.hint.load() == 0 {
        return Ok(());
    }
    let objects = hint_objects(&leaves.forest, leaves.cell()?)?;
    // ORDER: before a leaf that the hint names is unlinked, by the fence of the merge.
    region.commit("nvtree.hint.withdraw", &cell.hint, 0);
    // ORDER: as above.
    region.flush("nvtree.hint.withdraw.flush", leaves.cell_offset(), CELL_SIZE);
    leaves.hinted.set(0);
    retired.extend(objects.into_iter().map(|object| retire(object, version)));
    Ok(())
}

/// Writes pages of all leaves, of which so many are known; returns the bytes of the directory, and how many leaves there are.
fn write_pages(
    leaves: &Leaves,
    known: usize,
    made: &mut Vec<Object>,
) -> Result<(Vec<u8>, usize), Error> {
    let mut pages = Pages { leaves, page: Page::default(), directory: Page::default(), made };
    let (mut leaf, mut count) = (Leaf::of(&leaves.forest, leaves.first()?)?, 1);
    pages.push(&leaf)?;
    while let Some(next) = leaf.following()? {
        leaf = next;
        count += 1;
        pages.push(&leaf)?;
    }
    // Of a leaf that is about to be linked the inner nodes know before.
    if count + WRITERS_MAX < known {
        // A hint of the others would be outgrown for ever.
        return damaged(leaves.cell_offset(), "as many leaves in the list as the inner nodes know");
    }
    pages.write()?;
    let header = HintHeader { magic: HINT_MAGIC, leaf_count: count as u64 };
    Ok(([header.as_bytes(), &pages.directory.bytes].concat(), count))
}

/// Writes the directory and lets the cell name it.
fn name_hint(
    leaves: &Leaves,
    made: &mut Vec<Object>,
    (directory, count): (Vec<u8>, usize),
) -> Result<usize, Error> {
    let (region, cell) = (leaves.forest.region(), leaves.cell()?);
    let object = make_object(leaves, directory.len() as u64, made)?;
    let _section = reserve_hint(leaves, object.size())?;
    region
        // ORDER: before the fence; its checksum shows whether it came whole.
        .write("nvtree.hint.directory", object.offset(), &[&directory])
        .map_err(tembo_pool::Error::from)?;
    let check = (directory.len() as u64) << 32 | u64::from(crc32c::crc32c(&directory));
    region.store(&cell.hint_check, check);
    // ORDER: after the checksum: same line, store order. With that of a withdrawn hint, of which the
    // space is used again, this could name what is no longer so.
    region.commit("nvtree.hint.link", &cell.hint, object.to_bits());
    // ORDER: before the fence.
    region.flush("nvtree.hint.link.flush", leaves.cell_offset(), CELL_SIZE);
    // ORDER: all of the hint is durable before any thread is notified that there is one.
    region.fence("nvtree.hint.fence");
    Ok(count)
}

fn make_object(leaves: &Leaves, size: u64, made: &mut Vec<Object>) -> Result<Object, Error> {
    let _section = leaves.forest.pool().reserve(size, 1)?;
    let object = leaves.forest.pool().alloc(size)?;
    made.push(object);
    Ok(object)
}

/// Room for an object's bytes and the cell.
fn reserve_hint(leaves: &Leaves, size: u64) -> Result<tembo_pmem::Section<'_>, Error> {
    let pool = leaves.forest.pool();
    Ok(pool.reserve(0, 1 + pool.region().write_lines(ALIGNED, size))?)
}

impl Pages<'_, '_> {
    /// The next leaf.
    fn push(&mut self, leaf: &Leaf<'_>) -> Result<(), Error> {
        let low = leaf.low()?.to_vec();
        if low.len() > LOW_MAX {
            return Ok(());
        }
        let chunk = u64::from(self.leaves.forest.pool().geometry().chunk_size);
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
        let (leaves, bytes) = (self.leaves, &self.page.bytes);
        let object = make_object(leaves, bytes.len() as u64, self.made)?;
        let _section = reserve_hint(leaves, object.size())?;
        let region = leaves.forest.region();
        region
            // ORDER: before the fence; its checksum shows whether it came whole.
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
