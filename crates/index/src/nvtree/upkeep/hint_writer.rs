//! Writing the hint, and withdrawing it: see `hint.rs`.

use std::sync::Mutex;

use tembo_pmem::thread::lock;
use tembo_pool::Object;
use zerocopy::IntoBytes;

use crate::error::damaged;
use crate::nvtree::format::{CELL_SIZE, HINT_MAGIC, HintHeader, HintPage};
use crate::nvtree::hint::{LOW_MAX, Page, hint_objects};
use crate::nvtree::leaf::Leaf;
use crate::nvtree::leaves::Leaves;
use crate::{Error, Retired};

/// Bytes of a page. Its leaves are published to the inner nodes in a fraction of a millisecond.
const PAGE_SIZE: u64 = 8 << 10;
/// Any offset at which an object may lie.
const ALIGNED: u64 = 1 << 30;
/// A number of threads that no program has splitting leaves at a time.
const WRITERS_MAX: usize = 256;

/// Whether there are so many leaves more than in the hint that another one is worth it.
pub(crate) fn is_hint_outgrown(leaves: &Leaves) -> bool {
    leaves.leaf_count_known().is_some_and(|count| leaves.hinted.is_outgrown_by(count))
}

/// Writes a hint of all leaves, and retires the hint before. The writer goes on meanwhile. Durable when it returns. On an
/// error the hint before stays.
pub(crate) fn write_hint(
    leaves: &Leaves,
    structure: &Mutex<()>,
    version: u64,
    retired: &mut Vec<Retired>,
) -> Result<(), Error> {
    leaves.complete()?;
    // While this is held no merge takes away a leaf that is written down, and no mark reads half of a hint.
    let _structure = lock(structure);
    let before = hint_objects(&leaves.forest, leaves.cell()?)?;
    let known = leaves.inner()?.leaf_count();
    let mut made = Vec::new();
    let written = write_pages(leaves, known, &mut made);
    let named = written.and_then(|written| name_hint(leaves, &mut made, written));
    match named {
        // If the list has fewer leaves than the inner nodes know, another hint would not have more either.
        Ok(count) => leaves.hinted.set(count.max(known)),
        Err(error) => {
            leaves.forest.pool().give_up(made);
            return Err(error);
        }
    }
    // The hint before belonged to no version, and has no readers any more: the inner nodes know all leaves.
    retired.extend(before.into_iter().map(|object| retire(object, version)));
    Ok(())
}

/// Pages that are being written.
struct Pages<'t, 'm> {
    leaves: &'t Leaves,
    page: Page,
    directory: Page,
    /// Every object that was made; the directory comes last.
    made: &'m mut Vec<Object>,
}

/// Withdraws the hint. The caller holds `structure`. Durable after the caller's fence, which a merge makes before it
/// unlinks a leaf.
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
    // ORDER: durable before a leaf that the hint names is unlinked, by the fence of the merge.
    region.commit("nvtree.hint.withdraw", &cell.hint, 0);
    // ORDER: as above.
    region.flush("nvtree.hint.withdraw.flush", leaves.cell_offset(), CELL_SIZE);
    leaves.hinted.set(0);
    retired.extend(objects.into_iter().map(|object| retire(object, version)));
    Ok(())
}

/// Writes pages of all leaves. Returns the bytes of the directory, and the number of leaves. `known` is how many leaves the
/// inner nodes know.
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
    // The inner nodes know of a leaf shortly before it is linked: some more than the list has are allowed.
    if count + WRITERS_MAX < known {
        // Otherwise the list is damaged, and a hint of the other leaves would always count as outgrown.
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
        // ORDER: before the fence; the checksum in the cell shows whether it is durable as a whole.
        .write("nvtree.hint.directory", object.offset(), &[&directory])
        .map_err(tembo_pool::Error::from)?;
    let check = (directory.len() as u64) << 32 | u64::from(crc32c::crc32c(&directory));
    region.store(&cell.hint_check, check);
    // ORDER: after the checksum: same line, store order. With the checksum of a withdrawn hint, whose space
    // was used again, the word could name an outdated directory.
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

/// Reserves room for an object's bytes and the cell.
fn reserve_hint(leaves: &Leaves, size: u64) -> Result<tembo_pmem::Section<'_>, Error> {
    let pool = leaves.forest.pool();
    Ok(pool.reserve(0, 1 + pool.region().write_lines(ALIGNED, size))?)
}

impl Pages<'_, '_> {
    /// Adds the next leaf.
    fn push(&mut self, leaf: &Leaf<'_>) -> Result<(), Error> {
        let low = leaf.low()?.to_vec();
        // Leaves with longer ones are left out.
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

    /// Writes the page, and adds its place to the directory.
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

/// Retires an object of the hint: no reader sees it once a version after its unlinking is visible.
fn retire(object: Object, version: u64) -> Retired {
    Retired { object, start: version, end: version }
}
