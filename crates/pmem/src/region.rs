//! The region: a range of bytes that is loaded, stored, flushed, fenced and synced.
//!
//! Here is what every operation does; `region/` holds what is done once: creating, opening, growing.
//!
//! ```text
//!   offset ── range ──► address ──► a reference to words, or a range of bytes
//!               │          │
//!               │          └─ shown to the observer as a load
//!               └─ in the region? if its page waits for lines of the log: they are brought first
//!
//!   store ──► flush ──► fence ──► sync
//!   a word    a line    orders    what is fenced is as durable as the policy promises
//!             └────────────┴─────────┴─ done by the backend of the domain
//! ```
#![allow(unsafe_code)]

mod create;
mod files;
mod grow;
mod hints;
mod hole;
mod memory;
mod open;
mod place;
mod state;
mod whole;
mod write;

use std::marker::PhantomData;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::backend::Backend;
use crate::flush::{line_count, store_fence};
use crate::log::Pending;
use crate::mapping::{Base, Mapping, PAGE};
use crate::options::{RegionOptions, own_memory};
use crate::pool_file::PoolFile;
use crate::process::Process;
use crate::{Counters, Error, Fault, LINE, Media, MediaBytes, Observer, Stored, SyncPolicy, Word};

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
    file: Option<PoolFile>,
    /// One growth at a time, of regions that grow in memory.
    growth: Mutex<()>,
    /// Groups and bytes of the log that were replayed.
    replayed: (u64, u64),
    read_only: bool,
    /// What the process may have as its own, if that was given.
    memory: Option<u64>,
    /// The process that may use the file.
    process: Process,
    /// A section has room in the log, or opens the pages of a protected mapping.
    tracks_sections: bool,
}

/// What a region is made of.
struct Parts {
    mapping: Arc<Mapping>,
    size: u64,
    pending: Option<Arc<Pending>>,
    backend: Backend,
    emulated: bool,
    recovery: Duration,
    file: Option<PoolFile>,
    replayed: (u64, u64),
    read_only: bool,
}

impl Parts {
    /// Of a region in memory.
    fn in_memory(mapping: Arc<Mapping>, size: u64) -> Parts {
        Parts {
            mapping,
            size,
            pending: None,
            backend: Backend::Volatile,
            emulated: false,
            recovery: Duration::ZERO,
            file: None,
            replayed: (0, 0),
            read_only: false,
        }
    }
}

/// Space reserved for the stores of one operation; back-pressure and errors happen when it is
/// taken, never between its stores. Held from the first store of the operation to its last flush. Those of a thread end in the
/// reverse order of their beginnings.
#[must_use]
pub struct Section<'r> {
    region: &'r Region,
    /// The reservation is the thread's.
    _thread: PhantomData<*const ()>,
}

impl Drop for Section<'_> {
    #[inline]
    fn drop(&mut self) {
        if self.region.tracks_sections {
            self.region.end_section();
        }
    }
}

impl Region {
    fn new(parts: Parts, options: &RegionOptions) -> Region {
        let tracks_sections = matches!(parts.backend, Backend::Logged(_));
        Region {
            base: parts.mapping.base(),
            mapping: parts.mapping,
            size: AtomicU64::new(parts.size),
            reach: AtomicU64::new(0),
            pending: parts.pending,
            backend: parts.backend,
            observer: options.observer.clone(),
            sync_policy: options.sync,
            emulated: parts.emulated,
            recovery: parts.recovery,
            file: parts.file,
            growth: Mutex::default(),
            replayed: parts.replayed,
            read_only: parts.read_only,
            memory: options.memory,
            process: Process::current(),
            tracks_sections,
        }
    }

    /// Protects it from stray stores, if the options say so.
    fn protected(mut self, options: &RegionOptions) -> Result<Region, Error> {
        if options.protect {
            let path = self.file.as_ref().map_or("memory".as_ref(), PoolFile::path);
            self.mapping.protect(self.size()).map_err(|e| Error::io("protect", path, e))?;
            self.tracks_sections = true;
        }
        Ok(self)
    }

    /// Bytes of memory that the process may have as its own: [`RegionOptions::memory`], or half of what there is; `None`
    /// where the system does not say it.
    pub fn own_memory(&self) -> Option<u64> {
        self.memory.or_else(own_memory)
    }

    /// Bytes in the region.
    #[inline]
    pub fn size(&self) -> u64 {
        // A thread that knows an offset in new space has synchronised with the growth that made it.
        self.size.load(Ordering::Relaxed)
    }

    /// The file is this process's, if there is one.
    #[inline]
    fn check_process(&self) -> Result<(), Error> {
        match &self.file {
            Some(file) if !self.process.is_current() => {
                Err(Error::Forked { path: file.path().to_owned() })
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
    pub(crate) fn put_observed(
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
                // SAFETY: a byte of the region, whose domain has the instruction.
                unsafe { instruction.flush_line(self.base.at(offset)) };
            }
            _ => self.flush_lines(offset, len),
        }
    }

    /// The flush of a line, which has been counted.
    #[cold]
    pub(crate) fn flush_observed(&self, name: &'static str, line: u64) {
        if let Some(observer) = &self.observer {
            observer.flush(name, line, LINE);
        }
        self.flush_lines(line, LINE);
    }

    fn flush_lines(&self, offset: u64, len: u64) {
        if self.backend.needs_flush()
            && let Ok(at) = self.range(offset, len)
        {
            // SAFETY: the range is in the region.
            unsafe { self.backend.flush(at, offset, len) };
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
            Backend::Flush(_) => {
                store_fence();
                Counters::ordered();
            }
            Backend::Volatile => {}
            backend => backend.fence(),
        }
    }

    /// A [`fence`](Region::fence), unless the calling thread has flushed nothing since its last one: then
    /// there is nothing to order.
    pub fn fence_flushed(&self, name: &'static str) {
        let is_unknown = self.observer.as_ref().is_some_and(|observer| observer.shares_threads());
        let has_unfenced = match &self.backend {
            // A fence of another region has not put this one's lines into the log.
            Backend::Logged(logged) => logged.has_unfenced(),
            // Nor has a fence of a region that needs none been an instruction.
            Backend::Flush(_) | Backend::Eadr | Backend::Slow(_) => Counters::has_unordered(),
            Backend::Volatile | Backend::Format(_) => Counters::has_unfenced(),
        };
        if has_unfenced || is_unknown {
            self.fence(name);
        }
    }

    /// What the calling thread has written and not fenced is no longer its own: the lock goes under which it wrote, and nothing
    /// that is to survive refers to it. Other threads may free that space from then on, and write there. To be called before
    /// the lock is released.
    ///
    /// In the `logged` domain no fence says of the space what the thread wrote there beside the log: that may no longer be so, and a
    /// replay would take the group for torn. The lines that it has flushed are fenced: another thread that finds them as it
    /// wants them leaves them out. Elsewhere nothing is done.
    ///
    /// The lock does not keep away the threads that do without it: those of another structure in the region, or one of the
    /// same that needs no lock for what it does. They take the space as soon as it is given back. So the thread
    /// [fences](Region::fence_flushed) what it has written before it gives the space back, in every domain.
    pub fn hand_over(&self) {
        if let Backend::Logged(logged) = &self.backend {
            logged.hand_over();
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

    /// All that was fenced before the call, by any thread, is handed to the operating system: it survives the end of the
    /// process, not that of the machine, and is durable at the next [`sync`](Region::sync). Outside the `logged` domain what is
    /// fenced is so already.
    ///
    /// # Errors
    /// As [`sync`](Region::sync).
    pub fn write_out(&self) -> Result<(), Error> {
        self.check_process()?;
        match &self.backend {
            Backend::Logged(logged) => logged.write_out(),
            _ => Ok(()),
        }
    }

    /// Brings everything fenced into the pool file, and frees the log.
    ///
    /// # Errors
    /// As [`sync`](Region::sync), and of writing the pool file; that is tried again later.
    pub fn checkpoint(&self) -> Result<(), Error> {
        self.check_process()?;
        match &self.backend {
            Backend::Logged(logged) => logged.checkpoint(),
            _ => Ok(()),
        }
    }

    /// Reserves room below the waist for an operation that flushes at most `lines` lines. Waits
    /// for the checkpointer where there is none.
    ///
    /// # Errors
    /// [`Error::TooLarge`], [`Error::Poisoned`], [`Error::DiskFull`], [`Error::Forked`]; in the `logged` domain [`Error::Unsupported`], to a
    /// thread whose thread-local values are being dropped; nothing has changed then.
    #[inline(always)]
    pub fn reserve(&self, lines: u64) -> Result<Section<'_>, Error> {
        let is_own = self.file.is_none() || self.process.is_current();
        if !is_own || self.tracks_sections {
            self.begin_section(lines)?;
        }
        Ok(Section { region: self, _thread: PhantomData })
    }

    #[inline(never)]
    fn begin_section(&self, lines: u64) -> Result<(), Error> {
        self.check_process()?;
        let is_open = self.mapping.open_pages().map_err(|e| {
            let path = self.file.as_ref().map_or("memory".as_ref(), PoolFile::path);
            Error::io("open the pages of", path, e)
        })?;
        let reserved = match &self.backend {
            Backend::Logged(logged) => logged.reserve(lines),
            _ => Ok(()),
        };
        if reserved.is_err() && is_open {
            self.mapping.close_pages();
        }
        reserved
    }

    #[inline(never)]
    fn end_section(&self) {
        if let Backend::Logged(logged) = &self.backend {
            logged.end_section();
        }
        if self.mapping.is_protected() {
            self.mapping.close_pages();
        }
    }

    /// Whether the calling thread has reserved, where it has to.
    pub(crate) fn may_store(&self) -> bool {
        self.backend.may_store()
    }

    pub(crate) fn observer(&self) -> Option<&dyn Observer> {
        self.observer.as_deref()
    }

    pub(crate) fn backend(&self) -> &Backend {
        &self.backend
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

impl AsRef<Region> for Region {
    fn as_ref(&self) -> &Region {
        self
    }
}

const _: () = assert!(LINE.is_power_of_two());
