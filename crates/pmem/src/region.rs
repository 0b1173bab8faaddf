//! The region: a range of bytes that is loaded, stored, flushed, fenced and synced.
#![allow(unsafe_code)]

mod choice;
mod copy;
mod create;
mod format_lines;
mod grow;
mod line_stores;
mod logged;
mod open;
mod options;
mod report;
mod write_node;

use std::marker::PhantomData;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::emulation::SlowMedium;
use crate::flush::{FlushInstruction, line_count, store_fence};
use crate::format::MediaHeader;
use crate::header::Slots;
use crate::log::Pending;
use crate::mapping::{Backing, Base, Mapping, PAGE};
use crate::prefetch::prefetch;
use crate::process::Process;
use crate::{
    Counters, Domain, Error, Fault, HEADER_SIZE, LINE, Media, MediaBytes, Observer, Stored,
    SyncPolicy, Word,
};
use copy::{copy_parts, overlaps};
use format_lines::FormatLines;
use logged::Logged;

pub(crate) use create::with_suffix;
pub use line_stores::LineStores;
pub use options::RegionOptions;
pub use report::Report;
pub use write_node::LineWords;

/// Writes of this many bytes and more go past the cache where flushing is by instruction.
const STREAM_MIN: usize = 64;

/// In the `logged` domain, writes of this many bytes and more that begin at a page go beside the
/// log, as far as they fill whole pages.
pub const BYPASS_MIN: u64 = 64 << 10;

const ZEROS: [u8; PAGE as usize] = [0; PAGE as usize];

/// What makes the bytes durable.
enum Backend {
    Volatile,
    Flush(FlushInstruction),
    /// As `Flush`, with a medium that is slower: for experiments.
    Slow(SlowMedium),
    Eadr,
    /// A pool file in the making: fenced lines are written to it in the end.
    Format(FormatLines),
    Logged(Logged),
}

/// The file under a region.
struct File {
    path: PathBuf,
    header: Mutex<Slots<MediaHeader>>,
}

/// A mapped range of bytes. All persistent stores of a process go through one of these.
///
/// Dropping a region is like the end of the process: what was synced is there at the next opening.
/// [`close`](Region::close) also brings everything into the one file.
pub struct Region {
    base: Base,
    mapping: Arc<Mapping>,
    size: AtomicU64,
    /// Ranges that end here or before need no second look: all of the region, once no page waits for
    /// lines of the log.
    reach: AtomicU64,
    pending: Option<Arc<Pending>>,
    backend: Backend,
    observer: Option<Arc<dyn Observer>>,
    sync_policy: SyncPolicy,
    emulated: bool,
    recovery: Duration,
    media: Option<File>,
    /// One growth at a time, of regions without a file.
    growth: Mutex<()>,
    /// Groups and bytes of the log that were replayed.
    replayed: (u64, u64),
    read_only: bool,
    /// The process that may use the file.
    process: Process,
}

/// Space reserved for the stores of one operation; back-pressure and errors happen when it is
/// taken, never between its stores. Held from the first store of the operation to its last flush.
#[must_use]
pub struct Section<'r> {
    region: &'r Region,
    /// The reservation is the thread's.
    _thread: PhantomData<*const ()>,
}

impl Drop for Section<'_> {
    #[inline]
    fn drop(&mut self) {
        if let Backend::Logged(logged) = &self.region.backend {
            logged.end_section();
        }
    }
}

impl Region {
    /// A region in memory only. Nothing is durable; nothing is a file.
    ///
    /// # Errors
    /// [`Error::Oversize`]; [`Error::Io`] when the system does not have the address space.
    pub fn volatile(size: u64, options: &RegionOptions) -> Result<Region, Error> {
        options.check_sizes(size)?;
        let backing = Backing::Anonymous;
        let mapping = Mapping::reserve(size, options.size_max)
            .and_then(|mapping| mapping.map(backing, 0, size).map(|()| mapping))
            .map_err(|e| Error::io("map", std::path::Path::new("memory"), e))?;
        Ok(Region {
            base: mapping.base(),
            mapping: Arc::new(mapping),
            size: AtomicU64::new(size / 8 * 8),
            reach: AtomicU64::new(0),
            pending: None,
            backend: Backend::Volatile,
            observer: options.observer.clone(),
            sync_policy: options.sync,
            emulated: false,
            recovery: Duration::ZERO,
            media: None,
            growth: Mutex::default(),
            replayed: (0, 0),
            read_only: false,
            process: Process::current(),
        })
    }

    /// A region in memory only that begins with the bytes of `image`.
    ///
    /// # Errors
    /// As of [`volatile`](Region::volatile).
    pub fn from_image(image: &[u8], options: &RegionOptions) -> Result<Region, Error> {
        let region = Region::volatile((image.len() as u64).next_multiple_of(8), options)?;
        // Fresh memory is zero: pages of zeros need not be touched.
        let pages = image.chunks(PAGE as usize).enumerate();
        for (index, page) in pages.filter(|(_, page)| **page != ZEROS[..page.len()]) {
            let at = region.base.at(index as u64 * PAGE);
            // SAFETY: the region has at least the image's length and nobody else has it yet.
            unsafe { std::ptr::copy_nonoverlapping(page.as_ptr(), at, page.len()) };
        }
        Ok(region)
    }

    /// Bytes in the region.
    #[inline]
    pub fn size(&self) -> u64 {
        // Whoever knows an offset in new space has synchronised with the growth that made it.
        self.size.load(Ordering::Relaxed)
    }

    /// The domain in force.
    pub fn domain(&self) -> Domain {
        match self.backend {
            Backend::Volatile => Domain::Volatile,
            Backend::Flush(_) | Backend::Slow(_) => Domain::Flush,
            Backend::Eadr => Domain::Eadr,
            Backend::Format(_) | Backend::Logged(_) => Domain::Logged,
        }
    }

    /// Whether a file that is only memory stands for persistent memory.
    pub fn is_emulated(&self) -> bool {
        self.emulated
    }

    /// Whether what is stored stays in memory and never reaches the file.
    pub fn is_read_only(&self) -> bool {
        self.read_only
    }

    /// Whether this process is a child of the one that opened the region, and so may not use its file. Nothing
    /// is shared with the parent then but the lock of the file, until the child ends.
    pub fn is_forked(&self) -> bool {
        self.check_process().is_err()
    }

    /// The file is this process's, if there is one.
    #[inline]
    fn check_process(&self) -> Result<(), Error> {
        match &self.media {
            Some(media) if !self.process.is_current() => {
                Err(Error::Forked { path: media.path.clone() })
            }
            _ => Ok(()),
        }
    }

    /// A typed view of the bytes at `offset`, which may change at any time: its fields are [`Word`]s.
    ///
    /// # Errors
    /// [`Fault`] when the range is not in the region or not aligned for `T`.
    #[inline]
    pub fn get<T: Media>(&self, offset: u64) -> Result<&T, Fault> {
        const { assert!(align_of::<T>() <= PAGE as usize) };
        let len = size_of::<T>() as u64;
        if !offset.is_multiple_of(align_of::<T>() as u64) {
            return Err(self.fault(offset, len));
        }
        let at = self.address(offset, len)?;
        // SAFETY: in bounds and aligned (the base is, to 2 MiB); `T` is `Media`: any bit pattern is valid, and may
        // change.
        Ok(unsafe { &*at.cast::<T>() })
    }

    /// `count` typed views in a row, the first at `offset`.
    ///
    /// # Errors
    /// [`Fault`] when the range is not in the region or not aligned for `T`.
    #[inline(always)]
    pub fn slice<T: Media>(&self, offset: u64, count: usize) -> Result<&[T], Fault> {
        const { assert!(align_of::<T>() <= PAGE as usize) };
        let len = (count as u64).saturating_mul(size_of::<T>() as u64);
        if !offset.is_multiple_of(align_of::<T>() as u64) {
            return Err(self.fault(offset, len));
        }
        let at = self.address(offset, len)?;
        // SAFETY: in bounds and aligned (the base is, to 2 MiB); `T` is `Media`: any bit pattern is valid, and may
        // change.
        Ok(unsafe { std::slice::from_raw_parts(at.cast::<T>(), count) })
    }

    /// `count` words at `offset`.
    ///
    /// # Errors
    /// As of [`slice`](Self::slice).
    #[inline]
    pub fn words(&self, offset: u64, count: usize) -> Result<&[Word], Fault> {
        self.slice(offset, count)
    }

    /// The `len` bytes at `offset`, which may change at any time.
    ///
    /// # Errors
    /// [`Fault`] when the range is not in the region.
    #[inline]
    pub fn media_bytes(&self, offset: u64, len: u64) -> Result<MediaBytes<'_>, Fault> {
        let at = self.address(offset, len)?;
        // SAFETY: in bounds; the region begins and ends at a word, and is borrowed.
        Ok(unsafe { MediaBytes::new(at, len as usize) })
    }

    /// The bytes of a record that nobody changes any more.
    ///
    /// # Errors
    /// [`Fault`] when the range is not in the region.
    #[inline]
    pub fn bytes(&self, offset: u64, len: u64) -> Result<&[u8], Fault> {
        let at = self.address(offset, len)?;
        // SAFETY: in bounds; the caller's contract is that the record is immutable.
        Ok(unsafe { std::slice::from_raw_parts(at, len as usize) })
    }

    /// Says that `len` bytes at `offset`, which nobody has used yet, will soon be stored to: their pages
    /// come together, not one by one. A hint, which changes nothing.
    pub fn prepare(&self, offset: u64, len: u64) {
        if self.range(offset, len).is_ok() {
            self.mapping.prepare(offset, offset + len);
        }
    }

    /// Makes large pages of `len` bytes at `offset`, as far as whole ones lie there, if the region is a file in
    /// memory: what is looked up there is found quicker, by a third in gigabytes. Takes milliseconds a page, and
    /// whoever touches one meanwhile waits: so before it is used. A hint, which changes nothing.
    pub fn make_large_pages(&self, offset: u64, len: u64) {
        if self.emulated && self.range(offset, len).is_ok() {
            self.mapping.make_large_pages(offset, offset + len);
        }
    }

    /// Says that the line at `offset` will be looked at soon. A hint, of any offset.
    #[inline]
    pub fn prefetch(&self, offset: u64) {
        prefetch(self.base.at(offset));
    }

    /// Where a word of this region lies. Of a word that lies elsewhere: an offset that is not in the region.
    #[inline]
    pub fn offset_of(&self, word: &Word) -> u64 {
        (std::ptr::from_ref(word).addr() as u64).wrapping_sub(self.base.at(0).addr() as u64)
    }

    /// Stores a word (release). Durable after a flush of its line and a fence.
    #[inline(always)]
    pub fn store(&self, word: &Word, value: u64) {
        self.put(None, word, value);
    }

    /// A store that publishes or commits: named, because the adversary stops before each of them.
    #[inline(always)]
    pub fn commit(&self, name: &'static str, word: &Word, value: u64) {
        self.put(Some(name), word, value);
    }

    #[inline(always)]
    fn put(&self, name: Option<&'static str>, word: &Word, value: u64) {
        debug_assert!(self.may_store(), "a store outside a section");
        Counters::stored(8);
        match &self.observer {
            None => word.put(value),
            Some(observer) => self.put_observed(&**observer, name, word, value),
        }
    }

    #[cold]
    fn put_observed(
        &self,
        observer: &dyn Observer,
        name: Option<&'static str>,
        word: &Word,
        value: u64,
    ) {
        let (offset, bytes) = (self.offset_of(word), value.to_le_bytes());
        let stored = Stored { name, offset, parts: &[&bytes] };
        observer.store(stored, &mut || word.put(value));
    }

    /// Writes the parts one after another into space that nobody reads yet, and flushes it: durable
    /// after the thread's next fence. Nobody may be told the offset before that fence, or an atomic
    /// read-modify-write: the bytes may go past the caches, and then they come into order only there.
    ///
    /// # Errors
    /// [`Error::Fault`] when the range is not in the region or in its header, and when a part lies in
    /// it, which a damaged pool may bring about; in the `logged` domain, for 64 KiB and more at a page's start, also what writing beside the log met
    /// ([`Error::Poisoned`], [`Error::DiskFull`], [`Error::Io`]).
    pub fn write(&self, name: &'static str, offset: u64, parts: &[&[u8]]) -> Result<(), Error> {
        let sum = parts.iter().try_fold(0_usize, |sum, part| sum.checked_add(part.len()));
        let len = sum.ok_or_else(|| self.fault(offset, u64::MAX))?;
        if offset < HEADER_SIZE && self.media.is_some() {
            return Err(self.fault(offset, len as u64).into());
        }
        debug_assert!(self.may_store(), "a record outside a section");
        let at = self.range(offset, len as u64)?;
        if overlaps(at, len, parts) {
            return Err(self.fault(offset, len as u64).into());
        }
        let count = line_count(offset, len as u64);
        Counters::stored(len as u64);
        Counters::flushed(count);
        let Some(observer) = &self.observer else {
            return self.write_at(at, offset, len, parts);
        };
        let mut written = Ok(());
        let stored = Stored { name: None, offset, parts };
        observer.store(stored, &mut || written = self.write_at(at, offset, len, parts));
        observer.flush(name, offset, len as u64);
        written
    }

    #[inline]
    fn write_at(&self, at: *mut u8, offset: u64, len: usize, parts: &[&[u8]]) -> Result<(), Error> {
        match &self.backend {
            Backend::Flush(_) | Backend::Eadr if len >= STREAM_MIN => self.stream(at, parts),
            Backend::Logged(logged) if is_bypass(offset, len as u64) => {
                logged.write_beside(at, offset, len as u64, parts)?;
            }
            _ => {
                // SAFETY: `range` found room for all parts, and none of them lies there.
                unsafe { copy_parts(at, parts) };
                self.flush_lines(offset, len as u64);
            }
        }
        Ok(())
    }

    /// Flushes the lines that hold `len` bytes at `offset`: durable after the thread's next fence.
    #[inline(always)]
    pub fn flush(&self, name: &'static str, offset: u64, len: u64) {
        if let Some(observer) = &self.observer {
            observer.flush(name, offset, len);
        }
        let count = line_count(offset, len);
        Counters::flushed(count);
        match &self.backend {
            Backend::Flush(instruction) if count == 1 && self.range(offset, len).is_ok() => {
                instruction.flush_line(self.base.at(offset));
            }
            _ => self.flush_lines(offset, len),
        }
    }

    /// The flush of a line, which has been counted.
    #[cold]
    fn flush_observed(&self, name: &'static str, line: u64) {
        if let Some(observer) = &self.observer {
            observer.flush(name, line, LINE);
        }
        self.flush_lines(line, LINE);
    }

    fn flush_lines(&self, offset: u64, len: u64) {
        match &self.backend {
            Backend::Volatile | Backend::Eadr => {}
            Backend::Flush(instruction) => {
                if self.range(offset, len).is_ok() {
                    instruction.flush(self.base.at(offset), len);
                }
            }
            Backend::Slow(medium) => {
                if self.range(offset, len).is_ok() {
                    medium.flush(self.base.at(offset), len);
                }
            }
            Backend::Format(lines) => {
                if self.range(offset, len).is_ok() {
                    lines.note(offset, len);
                }
            }
            Backend::Logged(logged) => {
                if self.range(offset, len).is_ok() {
                    logged.note(offset, len);
                }
            }
        }
    }

    /// Orders: what the calling thread has flushed is durable before anything that it stores later,
    /// in the `logged` domain in the sense of the next sync.
    #[inline(always)]
    pub fn fence(&self, name: &'static str) {
        if let Some(observer) = &self.observer {
            observer.fence(name);
        }
        Counters::fenced();
        match &self.backend {
            Backend::Flush(_) => store_fence(),
            _ => self.fence_otherwise(),
        }
    }

    /// A [`fence`](Region::fence), unless the calling thread has flushed nothing since its last one: then
    /// there is nothing to order.
    pub fn fence_flushed(&self, name: &'static str) {
        let is_unknown = self.observer.as_ref().is_some_and(|observer| observer.shares_threads());
        if Counters::has_unfenced() || is_unknown {
            self.fence(name);
        }
    }

    fn fence_otherwise(&self) {
        match &self.backend {
            Backend::Volatile => {}
            Backend::Flush(_) | Backend::Eadr => store_fence(),
            Backend::Slow(medium) => {
                store_fence();
                medium.fence();
            }
            Backend::Format(lines) => lines.fence(),
            Backend::Logged(logged) => logged.fence(),
        }
    }

    /// All that was fenced before the call, by any thread, is as durable as the policy promises.
    ///
    /// # Errors
    /// [`Error::Poisoned`] from the first failure of the log on; [`Error::DiskFull`]; [`Error::Forked`].
    pub fn sync(&self) -> Result<(), Error> {
        self.check_process()?;
        if let Backend::Logged(logged) = &self.backend {
            logged.sync()?;
        }
        if let Some(observer) = &self.observer {
            observer.sync();
        }
        Ok(())
    }

    /// Reserves room below the waist for an operation that flushes at most `lines` lines. Waits
    /// for the checkpointer where there is none.
    ///
    /// # Errors
    /// [`Error::TooLarge`], [`Error::Poisoned`], [`Error::DiskFull`], [`Error::Forked`]; nothing has changed then.
    #[inline]
    pub fn reserve(&self, lines: u64) -> Result<Section<'_>, Error> {
        self.check_process()?;
        if let Backend::Logged(logged) = &self.backend {
            logged.reserve(lines)?;
        }
        Ok(Section { region: self, _thread: PhantomData })
    }

    /// The lines to reserve for a [`write`](Region::write) of `len` bytes at `offset`: fewer than
    /// its bytes fill where the write goes beside the log.
    pub fn write_lines(&self, offset: u64, len: u64) -> u64 {
        match &self.backend {
            Backend::Logged(_) if is_bypass(offset, len) => {
                let whole = len / PAGE * PAGE;
                1 + line_count(offset.saturating_add(whole), len - whole)
            }
            _ => line_count(offset, len),
        }
    }

    /// Whether the calling thread has reserved, where it has to.
    fn may_store(&self) -> bool {
        match &self.backend {
            Backend::Logged(logged) => logged.may_store(),
            _ => true,
        }
    }

    /// An address that is checked, and shown to the observer as a load.
    #[inline]
    fn address(&self, offset: u64, len: u64) -> Result<*const u8, Fault> {
        let at = self.range(offset, len)?;
        if let Some(observer) = &self.observer {
            observer.load(offset, len);
        }
        Ok(at)
    }

    /// An address that is checked.
    #[inline]
    fn range(&self, offset: u64, len: u64) -> Result<*mut u8, Fault> {
        let reach = self.reach.load(Ordering::Acquire);
        if offset.checked_add(len).is_none_or(|end| end > reach) {
            self.look_again(offset, len)?;
        }
        Ok(self.base.at(offset))
    }

    /// Checks a range that may be out of the region, and may wait for lines of the log.
    #[cold]
    fn look_again(&self, offset: u64, len: u64) -> Result<(), Fault> {
        // Of a growth, its mapping comes before its size.
        let size = self.size.load(Ordering::Acquire);
        if offset.checked_add(len).is_none_or(|end| end > size) || self.is_forked() {
            return Err(self.fault(offset, len));
        }
        match &self.pending {
            Some(pending) if !pending.is_over() => pending.bring(offset, len),
            _ => self.reach.store(size, Ordering::Release),
        }
        Ok(())
    }

    #[cold]
    fn fault(&self, offset: u64, len: u64) -> Fault {
        Fault { offset, len, size: self.size() }
    }
}

fn is_bypass(offset: u64, len: u64) -> bool {
    len >= BYPASS_MIN && offset.is_multiple_of(PAGE)
}

const _: () = assert!(LINE.is_power_of_two());
