//! The region: a range of bytes that is loaded, stored, flushed, fenced and synced.

use std::sync::Arc;

use zerocopy::{FromBytes, FromZeros, KnownLayout};

use crate::flush::lines;
use crate::{Counters, Domain, DomainRequest, Error, Fault, LINE, Observer, SyncPolicy, Word};

/// Bytes at the start of a region that `pmem` keeps for itself.
pub const HEADER_SIZE: u64 = 4096;

/// How a region is created or opened.
#[derive(Clone)]
pub struct RegionOptions {
    /// The domain asked for.
    pub domain: DomainRequest,
    /// What a sync waits for in the `logged` domain.
    pub sync: SyncPolicy,
    /// Address space reserved: the region never grows beyond this many bytes.
    pub size_max: u64,
    /// Capacity of the redo log, in bytes.
    pub log_size: u64,
    /// Watches the region.
    pub observer: Option<Arc<dyn Observer>>,
}

impl Default for RegionOptions {
    fn default() -> Self {
        RegionOptions {
            domain: DomainRequest::Auto,
            sync: SyncPolicy::Always,
            size_max: 1 << 40,
            log_size: 64 << 20,
            observer: None,
        }
    }
}

/// A mapped range of bytes. All persistent stores of a process go through one of these.
pub struct Region {
    words: Box<[Word]>,
    observer: Option<Arc<dyn Observer>>,
}

/// Space reserved for the stores of one operation; back-pressure and errors happen when it is
/// taken, never between its stores.
#[must_use]
pub struct Section<'r> {
    _region: &'r Region,
}

impl Region {
    /// A region in memory only.
    pub fn volatile(size: u64, options: &RegionOptions) -> Result<Region, Error> {
        let words = <[Word]>::new_box_zeroed_with_elems((size / 8) as usize)
            .map_err(|_| Fault { offset: 0, len: size, size: 0 })?;
        Ok(Region { words, observer: options.observer.clone() })
    }

    /// Bytes in the region.
    #[inline]
    pub fn size(&self) -> u64 {
        (self.words.len() * 8) as u64
    }

    /// The domain in force.
    pub fn domain(&self) -> Domain {
        Domain::Volatile
    }

    /// A typed view of the bytes at `offset`. Fields that change after publication are [`Word`]s.
    #[inline]
    pub fn get<T: FromBytes + KnownLayout>(&self, offset: u64) -> Result<&T, Fault> {
        let len = size_of::<T>() as u64;
        if offset % (align_of::<T>() as u64) != 0 {
            return Err(self.fault(offset, len));
        }
        let at = self.address(offset, len)?;
        // SAFETY: in bounds and aligned; T accepts any bit pattern.
        #[allow(unsafe_code)]
        Ok(unsafe { &*at.cast::<T>() })
    }

    /// `count` words at `offset`.
    #[inline]
    pub fn words(&self, offset: u64, count: usize) -> Result<&[Word], Fault> {
        if offset % 8 != 0 {
            return Err(self.fault(offset, count as u64 * 8));
        }
        let at = self.address(offset, count as u64 * 8)?;
        // SAFETY: in bounds and aligned.
        #[allow(unsafe_code)]
        Ok(unsafe { std::slice::from_raw_parts(at.cast::<Word>(), count) })
    }

    /// The bytes of a record that nobody changes any more.
    #[inline]
    pub fn bytes(&self, offset: u64, len: u64) -> Result<&[u8], Fault> {
        let at = self.address(offset, len)?;
        // SAFETY: in bounds; the caller's contract is that the record is immutable.
        #[allow(unsafe_code)]
        Ok(unsafe { std::slice::from_raw_parts(at, len as usize) })
    }

    /// Where a word of this region lies.
    #[inline]
    pub fn offset_of(&self, word: &Word) -> u64 {
        std::ptr::from_ref(word).addr() as u64 - self.words.as_ptr().addr() as u64
    }

    /// Stores a word (release).
    #[inline]
    pub fn store(&self, word: &Word, value: u64) {
        word.put(value);
        Counters::count(|c| (c.stores, c.bytes) = (c.stores + 1, c.bytes + 8));
        if let Some(observer) = &self.observer {
            observer.store(self.offset_of(word), 8);
        }
    }

    /// A store that publishes or commits: named, because the adversary stops before each of them.
    #[inline]
    pub fn commit(&self, name: &'static str, word: &Word, value: u64) {
        if let Some(observer) = &self.observer {
            observer.commit(name, self.offset_of(word));
        }
        self.store(word, value);
    }

    /// Writes the parts one after another into space that nobody reads yet, and flushes it.
    pub fn write(&self, name: &'static str, offset: u64, parts: &[&[u8]]) -> Result<(), Fault> {
        let len: usize = parts.iter().map(|p| p.len()).sum();
        let at = self.address(offset, len as u64)?.cast_mut();
        let mut done = 0;
        for part in parts {
            // SAFETY: in bounds; unpublished space is the caller's alone.
            #[allow(unsafe_code)]
            unsafe {
                std::ptr::copy_nonoverlapping(part.as_ptr(), at.add(done), part.len());
            }
            done += part.len();
        }
        Counters::count(|c| (c.stores, c.bytes) = (c.stores + 1, c.bytes + len as u64));
        if let Some(observer) = &self.observer {
            observer.store(offset, len as u64);
        }
        self.flush(name, offset, len as u64);
        Ok(())
    }

    /// Flushes the lines that hold `len` bytes at `offset`: durable after the thread's next fence.
    #[inline]
    pub fn flush(&self, name: &'static str, offset: u64, len: u64) {
        if let Some(observer) = &self.observer {
            observer.flush(name, offset, len);
        }
        let count = lines(offset, len).count() as u64;
        Counters::count(|c| c.lines += count);
    }

    /// Orders: what the calling thread has flushed is durable before anything that it stores later.
    #[inline]
    pub fn fence(&self, name: &'static str) {
        if let Some(observer) = &self.observer {
            observer.fence(name);
        }
        Counters::count(|c| c.fences += 1);
    }

    /// All that was fenced is as durable as the policy promises.
    pub fn sync(&self) -> Result<(), Error> {
        Ok(())
    }

    /// Reserves room below the waist for an operation that flushes at most `lines` lines.
    pub fn reserve(&self, lines: u64) -> Result<Section<'_>, Error> {
        let _ = lines;
        Ok(Section { _region: self })
    }

    /// Grows the region to `size` bytes; the new bytes are zero.
    pub fn grow(&self, size: u64) -> Result<(), Error> {
        Err(self.fault(0, size).into())
    }

    #[inline]
    fn address(&self, offset: u64, len: u64) -> Result<*const u8, Fault> {
        if offset.checked_add(len).is_none_or(|end| end > self.size()) {
            return Err(self.fault(offset, len));
        }
        if let Some(observer) = &self.observer {
            observer.load(offset, len);
        }
        // SAFETY: in bounds.
        #[allow(unsafe_code)]
        Ok(unsafe { self.words.as_ptr().cast::<u8>().add(offset as usize) })
    }

    #[cold]
    fn fault(&self, offset: u64, len: u64) -> Fault {
        Fault { offset, len, size: self.size() }
    }
}

const _: () = assert!(LINE.is_power_of_two());
