//! Mappings of the system.

use std::ffi::c_void;
use std::io;
use std::os::fd::BorrowedFd;
use std::ptr::{NonNull, null_mut};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use rustix::fs::{OFlags, fcntl_getfl};
use rustix::mm::{
    Advice, MapFlags, MprotectFlags, ProtFlags, madvise, mmap, mmap_anonymous, mprotect, munmap,
};

use super::protection::Protection;
use super::{Backing, Base, LARGE_PAGE, PAGE, SIZE_MAX};

/// Pages that are looked at before they are asked for, at most.
const LOOKED_AT: usize = 8;

/// A reserved range of addresses.
#[derive(Debug)]
pub(crate) struct Mapping {
    base: NonNull<u8>,
    reserved: u64,
    /// Bytes that are mapped, from the first on. It only grows, so no page is mapped twice.
    mapped: AtomicU64,
    /// A range that may belong to another part of the process: the system refused to map it. Held while something is mapped.
    lost: Mutex<Option<(u64, u64)>>,
    /// All that is mapped are pages of a file, copied when they are stored to.
    is_private: AtomicBool,
    /// Bytes of a private file above which pages are read alone.
    alone_above: u64,
    reads_alone: AtomicBool,
    /// The system says which pages of the file are in memory: only of one that the process may write.
    has_residency: AtomicBool,
    protection: Protection,
}

// SAFETY: the range belongs to the mapping until it is dropped; what is in it is synchronised by
// the region's own rules.
unsafe impl Send for Mapping {}
// SAFETY: as above; what of the mapping changes is atomic, or behind a lock.
unsafe impl Sync for Mapping {}

impl Mapping {
    /// Reserves `size_max` bytes, or fewer where the system does not give as many, but `size`.
    ///
    /// # Errors
    /// `OutOfMemory`, also of more than [`SIZE_MAX`].
    pub(crate) fn reserve(size: u64, size_max: u64) -> io::Result<Mapping> {
        if size > SIZE_MAX {
            return Err(io::ErrorKind::OutOfMemory.into());
        }
        let size = size.max(1).next_multiple_of(PAGE);
        let mut wanted = size_max.min(SIZE_MAX).max(size).next_multiple_of(PAGE);
        loop {
            match Self::reserve_exactly(wanted) {
                Err(error) if error.kind() == io::ErrorKind::OutOfMemory && wanted > size => {
                    wanted = (wanted / 2).max(size).next_multiple_of(PAGE);
                }
                other => return other,
            }
        }
    }

    fn reserve_exactly(reserved: u64) -> io::Result<Mapping> {
        let span = (reserved + LARGE_PAGE) as usize;
        // SAFETY: a new mapping at an address of the system's choice.
        let start = unsafe {
            mmap_anonymous(
                null_mut(),
                span,
                ProtFlags::empty(),
                MapFlags::PRIVATE | MapFlags::NORESERVE,
            )
        }?;
        let head = start.addr().next_multiple_of(LARGE_PAGE as usize) - start.addr();
        let base = start.cast::<u8>().wrapping_add(head);
        let tail = span - head - reserved as usize;
        if head > 0 {
            // SAFETY: the unaligned head of the mapping just made.
            unsafe { munmap(start, head) }?;
        }
        if tail > 0 {
            // SAFETY: the rest of the mapping just made, behind what is kept.
            unsafe { munmap(base.wrapping_add(reserved as usize).cast(), tail) }?;
        }
        let base = NonNull::new(base).ok_or(io::ErrorKind::OutOfMemory)?;
        let (reads_alone, has_residency, protection) = Default::default();
        let (mapped, lost, is_private) = Default::default();
        Ok(Mapping {
            base,
            reserved,
            mapped,
            lost,
            is_private,
            alone_above: u64::MAX,
            reads_alone,
            has_residency,
            protection,
        })
    }

    /// Bytes that are mapped, from the first on.
    #[inline]
    fn mapped(&self) -> u64 {
        self.mapped.load(Ordering::Acquire)
    }

    /// Whether `len` bytes at `offset` are mapped.
    #[inline]
    pub(crate) fn holds(&self, offset: u64, len: u64) -> bool {
        offset.checked_add(len).is_some_and(|end| end <= self.mapped())
    }

    /// Maps `from..to` (whole pages), the same bytes of the file where there is one. What is mapped already stays as it is; `from`
    /// lies in it or at its end.
    pub(crate) fn map(&self, backing: Backing<'_>, from: u64, to: u64) -> io::Result<()> {
        let access = ProtFlags::READ | ProtFlags::WRITE;
        let private = MapFlags::PRIVATE | MapFlags::NORESERVE;
        let is_private = matches!(backing, Backing::Private(_));
        let added = self.extend(from, to, is_private, |at, len, from, fixed| {
            // SAFETY: the range lies in what this mapping reserved, and nothing is there yet, or the system chooses it, says `extend`.
            unsafe {
                match backing {
                    Backing::Anonymous => mmap_anonymous(at, len, access, private | fixed),
                    Backing::Private(file) => mmap(at, len, access, private | fixed, file, from),
                    Backing::Shared(file) => {
                        mmap(at, len, access, MapFlags::SHARED | fixed, file, from)
                    }
                    Backing::Synchronous(file) => {
                        let flags = MapFlags::SHARED_VALIDATE | MapFlags::SYNC | fixed;
                        mmap(at, len, access, flags, file, from)
                    }
                }
            }
        })?;
        let Some((from, to)) = added else {
            return Ok(());
        };
        self.protection.grown(from, to, |from, to, can_store| self.set_access(from, to, can_store));
        if let Backing::Private(file) = backing
            && to > self.alone_above
        {
            let is_writable = fcntl_getfl(file).is_ok_and(|flags| flags.contains(OFlags::RDWR));
            self.has_residency.store(is_writable, Ordering::Relaxed);
            self.advise(0, to, Advice::Random);
            self.reads_alone.store(true, Ordering::Relaxed);
        }
        Ok(())
    }

    /// Has `mmap` map what of `from..to` is not mapped, in whole pages, at an address, for a length, from an offset on, with more flags;
    /// the range. Before that, one page where the system chooses: what it refuses, it mostly refuses there too, and then the
    /// reserved range is as it was.
    fn extend(
        &self,
        from: u64,
        to: u64,
        is_private: bool,
        mmap: impl Fn(*mut c_void, usize, u64, MapFlags) -> rustix::io::Result<*mut c_void>,
    ) -> io::Result<Option<(u64, u64)>> {
        let mut lost = self.lost.lock().unwrap_or_else(PoisonError::into_inner);
        let mapped = self.mapped();
        let to = to.checked_next_multiple_of(PAGE).filter(|to| *to <= self.reserved);
        let to = to.filter(|to| from.is_multiple_of(PAGE) && from <= *to);
        let to = to.filter(|_| from <= mapped && lost.is_none());
        let to = to.ok_or(io::ErrorKind::OutOfMemory)?;
        if to <= mapped {
            return Ok(None);
        }
        let (at, len) = (self.base.as_ptr().wrapping_add(mapped as usize).cast(), to - mapped);
        let tried = mmap(null_mut(), PAGE as usize, mapped, MapFlags::empty())?;
        // SAFETY: the page just mapped, of which nothing else knows.
        unsafe { munmap(tried, PAGE as usize) }?;
        if let Err(error) = mmap(at, len as usize, mapped, MapFlags::FIXED) {
            // The system may have unmapped what was reserved, and then another thread may get the addresses.
            if !reserves_again(at, len as usize) {
                *lost = Some((mapped, to));
            }
            return Err(error.into());
        }
        let is_private = is_private && (mapped == 0 || self.is_private.load(Ordering::Relaxed));
        self.is_private.store(is_private, Ordering::Relaxed);
        self.mapped.store(to, Ordering::Release);
        Ok(Some((mapped, to)))
    }

    /// The bytes `from..from + len` of the file (whole pages), to be read only, twice in a row: what
    /// goes around the end of a ring lies in one piece.
    pub(crate) fn twice(file: BorrowedFd<'_>, from: u64, len: u64) -> io::Result<Mapping> {
        if !from.is_multiple_of(PAGE) || !len.is_multiple_of(PAGE) || len == 0 {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        let twice = len.checked_mul(2).ok_or(io::ErrorKind::InvalidInput)?;
        let mapping = Mapping::reserve(twice, twice)?;
        for start in [0, len] {
            mapping.extend(start, start + len, false, |at, len, _, fixed| {
                let flags = MapFlags::SHARED | fixed;
                // SAFETY: as in `map`.
                unsafe { mmap(at, len, ProtFlags::READ, flags, file, from) }
            })?;
        }
        Ok(mapping)
    }

    /// Brings `at..at + len` into memory. What cannot be read is an error here; without this call
    /// it would be a signal at the first load.
    pub(crate) fn populate(&self, at: u64, len: u64) -> io::Result<()> {
        let to = at.checked_add(len).and_then(|end| end.checked_next_multiple_of(PAGE));
        let to = to.filter(|to| *to <= self.mapped()).ok_or(io::ErrorKind::InvalidInput)?;
        let from = at / PAGE * PAGE;
        let start = self.base.as_ptr().wrapping_add(from as usize).cast();
        // SAFETY: the range is this mapping's; its pages are read, nothing is changed.
        unsafe { madvise(start, (to - from) as usize, Advice::LinuxPopulateRead) }?;
        Ok(())
    }

    /// Has a page that is missing read from its file alone, if the file, mapped privately, is larger than so many bytes:
    /// not with some hundred KiB around it, which in a file larger than memory are seldom looked at before they have to go.
    /// From then on [`will_read`](Mapping::will_read) asks for what is needed.
    pub(crate) fn read_alone_above(mut self, bytes: u64) -> Mapping {
        self.alone_above = bytes;
        self
    }

    /// Whether pages are read alone.
    #[inline]
    pub(crate) fn reads_alone(&self) -> bool {
        self.reads_alone.load(Ordering::Relaxed)
    }

    /// Asks for the pages of `from..to`, without waiting for them, where pages are read alone. A hint.
    #[inline]
    pub(crate) fn will_read(&self, from: u64, to: u64) {
        if self.reads_alone() {
            let to = to.checked_next_multiple_of(PAGE).unwrap_or(from);
            let from = from / PAGE * PAGE;
            if !self.is_resident(from, to) {
                self.advise(from, to, Advice::WillNeed);
            }
        }
    }

    /// As [`will_read`](Mapping::will_read), of a range that is touched at once: its pages come together. One page comes as soon
    /// without being asked for.
    #[inline]
    pub(crate) fn will_touch(&self, from: u64, to: u64) {
        if self.reads_alone() && from / PAGE != to.saturating_sub(1) / PAGE {
            self.will_read(from, to);
        }
    }

    /// Asks for what the file has of the pages of `from..to`, also of those of which the process has copies, where pages are read
    /// alone: a part of each will be written to the file, for which the system needs the rest. A hint.
    pub(crate) fn will_write_in_file(&self, from: u64, to: u64) {
        if self.reads_alone() {
            let to = to.checked_next_multiple_of(PAGE).unwrap_or(from);
            self.advise(from / PAGE * PAGE, to, Advice::WillNeed);
        }
    }

    /// Whether a few pages are known to be in memory. The system would read those of which the process has copies from the file.
    fn is_resident(&self, from: u64, to: u64) -> bool {
        let mut found = [0_u8; LOOKED_AT];
        let count = (to.saturating_sub(from) / PAGE) as usize;
        let is_within = from < to && to <= self.mapped();
        let has_residency = is_within && self.has_residency.load(Ordering::Relaxed);
        let Some(found) = found.get_mut(..count).filter(|_| has_residency) else {
            return false;
        };
        let at = self.base.as_ptr().wrapping_add(from as usize).cast();
        // Of libc, for want of it in rustix.
        // SAFETY: the range is this mapping's, and there is a byte for each of its pages.
        let result = unsafe { libc::mincore(at, (to - from) as usize, found.as_mut_ptr()) };
        result == 0 && found.iter().all(|page| page & 1 == 1)
    }

    /// Makes the whole pages of `from..to` ready to be stored to. A hint: what fails here is met again
    /// by the stores, or was too much to ask of an old system.
    pub(crate) fn prefault(&self, from: u64, to: u64) {
        let (from, to) = (from.div_ceil(PAGE).saturating_mul(PAGE), to / PAGE * PAGE);
        self.will_store(from, to);
        self.advise(from, to, Advice::LinuxPopulateWrite);
    }

    /// Asks for what the file has of the pages of `from..to`, and for nothing around them: a thread that stores to a page that is not
    /// there waits for as much as the system reads at a time, which can be megabytes of zeroes. A hint.
    pub(crate) fn will_store(&self, from: u64, to: u64) {
        if self.is_private.load(Ordering::Relaxed) {
            let to = to.checked_next_multiple_of(PAGE).unwrap_or(from);
            self.advise(from / PAGE * PAGE, to, Advice::WillNeed);
        }
    }

    /// Says that pages are to be small, until something else is said. A hint, as the next.
    pub(crate) fn want_small_pages(&self) {
        self.advise(0, self.mapped(), Advice::LinuxNoHugepage);
    }

    /// Says that pages are to be large in `from..to`, as far as whole ones lie there. A hint, which the
    /// system may refuse: then they are small.
    pub(crate) fn want_large_pages(&self, from: u64, to: u64) {
        let (from, to) =
            (from.div_ceil(LARGE_PAGE).saturating_mul(LARGE_PAGE), to / LARGE_PAGE * LARGE_PAGE);
        self.advise(from, to, Advice::LinuxHugepage);
    }

    /// Makes large pages of what lies in `from..to`, as far as whole ones do, now: it takes milliseconds, and
    /// a thread that touches them meanwhile waits. A hint: systems before Linux 6.1 do not know it, and of files
    /// only those in memory can have large pages.
    pub(crate) fn make_large_pages(&self, from: u64, to: u64) {
        let (from, to) =
            (from.div_ceil(LARGE_PAGE).saturating_mul(LARGE_PAGE), to / LARGE_PAGE * LARGE_PAGE);
        if from < to && to <= self.mapped() {
            let at = self.base.as_ptr().wrapping_add(from as usize).cast();
            // Of libc, for want of it in rustix.
            // SAFETY: the range is this mapping's; what its pages hold does not change.
            let _ = unsafe { libc::madvise(at, (to - from) as usize, libc::MADV_COLLAPSE) };
        }
    }

    /// Advises about whole pages, of which the content stays.
    fn advise(&self, from: u64, to: u64, advice: Advice) {
        if from < to && to <= self.mapped() {
            let at = self.base.as_ptr().wrapping_add(from as usize).cast();
            // SAFETY: the range is this mapping's; what its pages hold does not change.
            let _ = unsafe { madvise(at, (to - from) as usize, advice) };
        }
    }

    /// Drops private copies of whole pages: the next load sees the file. A store that was not brought there is lost. Only of
    /// pages of a file that are all mapped privately.
    pub(crate) fn give_back(&self, from: u64, to: u64) -> io::Result<()> {
        if !from.is_multiple_of(PAGE)
            || !to.is_multiple_of(PAGE)
            || to > self.mapped()
            || from >= to
            || !self.is_private.load(Ordering::Relaxed)
        {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        let at = self.base.as_ptr().wrapping_add(from as usize).cast();
        // SAFETY: the range is mapped by `self`, from a file and privately, as regions alone are. What a region lends may
        // change at any time ([`Media`](crate::Media)): to a thread that looks there it is a store of what the file has.
        unsafe { madvise(at, (to - from) as usize, Advice::LinuxDontNeed) }?;
        Ok(())
    }

    /// Has whole pages stored to, or only read.
    fn set_access(&self, from: u64, to: u64, can_store: bool) -> io::Result<()> {
        if from > to || to > self.mapped() {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        let at = self.base.as_ptr().wrapping_add(from as usize).cast();
        let access = if can_store {
            MprotectFlags::READ | MprotectFlags::WRITE
        } else {
            MprotectFlags::READ
        };
        // SAFETY: the range was mapped by `self`, to be read and stored to; what its pages hold does not change.
        Ok(unsafe { mprotect(at, (to - from) as usize, access) }?)
    }

    /// From here on the first `size` bytes, and what is mapped behind them, are stored to in sections only.
    pub(crate) fn protect(&self, size: u64) -> io::Result<()> {
        let end = size.next_multiple_of(PAGE);
        self.protection.begin(end, |from, to, can_store| self.set_access(from, to, can_store))
    }

    /// Whether pages are stored to in sections only.
    #[inline]
    pub(crate) fn is_protected(&self) -> bool {
        self.protection.is_on()
    }

    /// A window, if pages are protected; whether they are.
    pub(crate) fn open_pages(&self) -> io::Result<bool> {
        let is_on = self.is_protected();
        if is_on {
            self.protection.open(|from, to, can_store| self.set_access(from, to, can_store))?;
        }
        Ok(is_on)
    }

    /// It ends.
    pub(crate) fn close_pages(&self) {
        self.protection.close(|from, to, can_store| self.set_access(from, to, can_store));
    }

    /// System calls that the protection has cost.
    pub(crate) fn protection_calls(&self) -> u64 {
        self.protection.changes()
    }

    /// The first byte.
    #[inline]
    pub(crate) fn base(&self) -> Base {
        Base(self.base)
    }

    /// Bytes of address space.
    pub(crate) fn reserved(&self) -> u64 {
        self.reserved
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        let lost = *self.lost.get_mut().unwrap_or_else(PoisonError::into_inner);
        let (lost_from, lost_to) = lost.unwrap_or((self.reserved, self.reserved));
        for (from, to) in [(0, lost_from), (lost_to, self.reserved)] {
            let at = self.base.as_ptr().wrapping_add(from as usize).cast();
            if from < to {
                // SAFETY: the reserved range, but for what was lost, is this mapping's; no borrow of the region outlives
                // it. Nothing can be done about a failure.
                let _ = unsafe { munmap(at, (to - from) as usize) };
            }
        }
    }
}

/// Reserves addresses of which it is not known whether they still are: whether they are now, and were not a moment ago.
fn reserves_again(at: *mut c_void, len: usize) -> bool {
    let flags = MapFlags::PRIVATE | MapFlags::NORESERVE | MapFlags::FIXED_NOREPLACE;
    // SAFETY: nothing that is mapped is replaced. Systems before Linux 4.17 take the address for a wish.
    match unsafe { mmap_anonymous(at, len, ProtFlags::empty(), flags) } {
        Ok(found) if found == at => true,
        Ok(found) => {
            // SAFETY: the mapping just made, elsewhere. Nothing can be done about a failure.
            let _ = unsafe { munmap(found, len) };
            false
        }
        Err(_) => false,
    }
}

/// Whether `file` lies on persistent memory: a synchronous mapping of it succeeds.
pub(crate) fn is_persistent_memory(file: BorrowedFd<'_>) -> bool {
    let flags = MapFlags::SHARED_VALIDATE | MapFlags::SYNC;
    // SAFETY: a new mapping at an address of the system's choice, of no other use.
    unsafe {
        mmap(null_mut(), PAGE as usize, ProtFlags::READ | ProtFlags::WRITE, flags, file, 0)
            .map(|at| munmap(at, PAGE as usize))
            .is_ok()
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::os::fd::AsFd;

    use rustix::fs::{MemfdFlags, ftruncate, memfd_create};

    use super::*;

    /// The flags that the system has for the mapping around an address.
    fn flags(at: *const u8) -> Vec<String> {
        let maps = std::fs::read_to_string("/proc/self/smaps").unwrap();
        let mut is_it = false;
        for line in maps.lines() {
            let (first, rest) = line.split_once(' ').unwrap_or((line, ""));
            if let Some((from, to)) = first.split_once('-') {
                let at = at.addr() as u64;
                let address = |text| u64::from_str_radix(text, 16).unwrap();
                is_it = (address(from)..address(to)).contains(&at);
            } else if is_it && first == "VmFlags:" {
                return rest.split_whitespace().map(str::to_owned).collect();
            }
        }
        Vec::new()
    }

    #[test]
    fn the_pages_of_a_file_are_read_alone_once_it_has_grown_too_large() {
        let file = memfd_create("pool", MemfdFlags::CLOEXEC).unwrap();
        ftruncate(&file, 64 * PAGE).unwrap();
        let mapping = Mapping::reserve(16 * PAGE, 64 * PAGE).unwrap().read_alone_above(16 * PAGE);
        mapping.map(Backing::Private(file.as_fd()), 0, 16 * PAGE).unwrap();
        let is_alone = |page| flags(mapping.base().at(page * PAGE)).iter().any(|flag| flag == "rr");
        assert!(!is_alone(0) && !is_alone(15) && !mapping.reads_alone());
        mapping.map(Backing::Private(file.as_fd()), 16 * PAGE, 64 * PAGE).unwrap();
        assert!(is_alone(0) && is_alone(63) && mapping.reads_alone());
        mapping.will_read(3 * PAGE + 1, 64 * PAGE);
        mapping.will_read(u64::MAX - 1, u64::MAX);
    }

    /// Around a page that a thread stores to the system would bring as much as it reads at a time.
    #[test]
    fn pages_that_were_never_used_come_without_those_around_them() {
        let path = std::env::temp_dir().join(format!("tembo-new-pages-{}", std::process::id()));
        let mut options = std::fs::OpenOptions::new();
        let file = options.read(true).write(true).create_new(true).open(&path).unwrap();
        std::fs::remove_file(&path).unwrap();
        let count = 8192;
        file.set_len(count * PAGE).unwrap();
        let mapping = Mapping::reserve(count * PAGE, count * PAGE).unwrap();
        mapping.map(Backing::Private(file.as_fd()), 0, count * PAGE).unwrap();
        let resident = || {
            let mut found = vec![0_u8; count as usize];
            let at = mapping.base().at(0).cast();
            // SAFETY: the range is this mapping's, and there is a byte for each of its pages.
            let result = unsafe { libc::mincore(at, (count * PAGE) as usize, found.as_mut_ptr()) };
            assert_eq!(result, 0);
            found.iter().filter(|page| **page & 1 == 1).count()
        };
        assert_eq!(resident(), 0);
        mapping.prefault(1000 * PAGE, 1004 * PAGE);
        assert_eq!(resident(), 4);
        mapping.will_store(5000 * PAGE + 9, 5001 * PAGE + 1);
        for page in [5000, 5001] {
            // SAFETY: it is mapped, and no other thread has it.
            unsafe { mapping.base().at(page * PAGE).cast::<u64>().write_volatile(7) };
        }
        assert_eq!(resident(), 6);
    }

    fn file_of(bytes: u64) -> std::os::fd::OwnedFd {
        let file = memfd_create("pool", MemfdFlags::CLOEXEC).unwrap();
        ftruncate(&file, bytes).unwrap();
        file
    }

    /// What was handed out stays, whatever is asked for afterwards.
    #[test]
    fn nothing_is_mapped_over_what_is_mapped() {
        let mapping = Mapping::reserve(4 * PAGE, 8 * PAGE).unwrap();
        mapping.map(Backing::Anonymous, 0, 4 * PAGE).unwrap();
        let word = mapping.base().at(3 * PAGE).cast::<u64>();
        // SAFETY: it is mapped, and no other thread has it.
        unsafe { word.write_volatile(7) };
        let file = file_of(8 * PAGE);
        for (from, to) in [(0, 4 * PAGE), (3 * PAGE, 6 * PAGE), (0, 6 * PAGE)] {
            mapping.map(Backing::Private(file.as_fd()), from, to).unwrap();
            // SAFETY: as above.
            assert_eq!(unsafe { word.read_volatile() }, 7, "{from:#x} {to:#x}");
        }
        assert!(mapping.holds(0, 6 * PAGE) && !mapping.holds(6 * PAGE, 1));
        assert!(!mapping.holds(u64::MAX, 2) && !mapping.holds(0, u64::MAX));
        for (from, to) in [(7 * PAGE, 8 * PAGE), (6 * PAGE, 9 * PAGE), (5, 7 * PAGE), (0, u64::MAX)]
        {
            mapping.map(Backing::Anonymous, from, to).unwrap_err();
        }
        assert_eq!(mapping.mapped(), 6 * PAGE);
    }

    /// A table lends values that do not change.
    #[test]
    fn only_private_pages_of_a_file_are_given_back() {
        let mapping = Mapping::reserve(4 * PAGE, 4 * PAGE).unwrap();
        mapping.map(Backing::Anonymous, 0, 4 * PAGE).unwrap();
        mapping.give_back(0, PAGE).unwrap_err();
        let (file, mapping) = (file_of(4 * PAGE), Mapping::reserve(4 * PAGE, 8 * PAGE).unwrap());
        mapping.map(Backing::Private(file.as_fd()), 0, 4 * PAGE).unwrap();
        let word = mapping.base().at(PAGE).cast::<u64>();
        // SAFETY: it is mapped, and no other thread has it.
        unsafe { word.write_volatile(7) };
        for (from, to) in [(0, 5 * PAGE), (PAGE, PAGE), (1, PAGE), (0, 1), (2 * PAGE, PAGE)] {
            mapping.give_back(from, to).unwrap_err();
        }
        mapping.give_back(PAGE, 2 * PAGE).unwrap();
        // SAFETY: as above.
        assert_eq!(unsafe { word.read_volatile() }, 0);
        mapping.map(Backing::Anonymous, 4 * PAGE, 8 * PAGE).unwrap();
        mapping.give_back(PAGE, 2 * PAGE).unwrap_err();
    }

    #[test]
    fn what_the_system_refuses_at_once_can_be_mapped_later() {
        let file = file_of(4 * PAGE);
        let path = format!("/proc/self/fd/{}", std::os::fd::AsRawFd::as_raw_fd(&file));
        let written_only = std::fs::OpenOptions::new().write(true).open(path).unwrap();
        let mapping = Mapping::reserve(2 * PAGE, 4 * PAGE).unwrap();
        mapping.map(Backing::Shared(written_only.as_fd()), 0, 2 * PAGE).unwrap_err();
        assert!(mapping.lost.lock().unwrap().is_none() && !mapping.holds(0, 1));
        mapping.map(Backing::Shared(file.as_fd()), 0, 2 * PAGE).unwrap();
        assert!(mapping.holds(0, 2 * PAGE));
    }

    /// The system may have unmapped it, and given its addresses to another thread: it is neither mapped nor unmapped again.
    #[test]
    fn what_could_not_be_mapped_is_given_up() {
        let mapping = Mapping::reserve(2 * PAGE, 4 * PAGE).unwrap();
        mapping.map(Backing::Anonymous, 0, PAGE).unwrap();
        let refused = mapping.extend(PAGE, 2 * PAGE, false, |at, len, _, fixed| {
            if fixed.contains(MapFlags::FIXED) {
                return Err(rustix::io::Errno::NOMEM);
            }
            // SAFETY: a new mapping at an address of the system's choice.
            unsafe { mmap_anonymous(at, len, ProtFlags::READ, MapFlags::PRIVATE) }
        });
        refused.unwrap_err();
        let at = mapping.base().at(PAGE);
        // This system has kept the addresses reserved, as another thread would that has got them.
        let is_there = || !flags(at).is_empty();
        assert!(is_there() && !reserves_again(at.cast(), PAGE as usize));
        assert_eq!(*mapping.lost.lock().unwrap(), Some((PAGE, 2 * PAGE)));
        mapping.map(Backing::Anonymous, PAGE, 2 * PAGE).unwrap_err();
        assert!(mapping.holds(0, PAGE) && !mapping.holds(0, PAGE + 1));
        drop(mapping);
        assert!(is_there());
        // SAFETY: the rest of the mapping, which has left it to no one.
        unsafe { munmap(at.cast(), PAGE as usize) }.unwrap();
    }
}
