//! Pages in memory. A dirty one may be written before its transaction has committed (steal), and need not be written when
//! it has (no force); the log that made it dirty is durable before it is written.

use std::collections::{BTreeMap, HashMap};

use crate::Error;
use crate::aries::format::{Lsn, PAGE_HEAD};
use crate::aries::log::Log;
use crate::host::Host;

/// A page in memory.
struct Frame {
    /// The page, head included.
    bytes: Vec<u8>,
    /// The first record that made it dirty; `None`: it is clean.
    dirty_since: Option<Lsn>,
    /// When it was used last.
    used: u64,
}

/// Where pages lie.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pages {
    pub(crate) at: u64,
    pub(crate) size: usize,
    pub(crate) count: u64,
}

/// Pages in memory.
pub(crate) struct BufferPool {
    pages: Pages,
    frames_max: usize,
    frames: HashMap<u64, Frame>,
    /// Pages by when they were used last.
    by_use: BTreeMap<u64, u64>,
    clock: u64,
    dirty: usize,
}

fn lsn_of(page: &[u8]) -> Lsn {
    page.first_chunk().map_or(0, |word| u64::from_le_bytes(*word))
}

impl BufferPool {
    pub(crate) fn new(pages: Pages, frames_max: usize) -> BufferPool {
        let (frames, by_use) = (HashMap::new(), BTreeMap::new());
        BufferPool { pages, frames_max, frames, by_use, clock: 0, dirty: 0 }
    }

    pub(crate) fn frames_max(&self) -> usize {
        self.frames_max
    }

    fn at(&self, page: u64) -> Result<u64, Error> {
        let Pages { at, size, count } = self.pages;
        let size = size as u64;
        match page < count {
            true => Ok(at + page * size),
            false => Err(Error::OutOfRange { offset: page * size, len: size, size: count * size }),
        }
    }

    /// The page, read if it is not in memory, for which another one may have to be written.
    fn frame(&mut self, host: &mut Host, log: &mut Log, page: u64) -> Result<&mut Frame, Error> {
        let at = self.at(page)?;
        self.clock += 1;
        let now = self.clock;
        if let Some(frame) = self.frames.get(&page) {
            self.by_use.remove(&frame.used);
        } else {
            while self.frames.len() >= self.frames_max {
                let oldest = self.by_use.first_key_value().map(|(_, page)| *page);
                let victim = oldest.ok_or(Error::NoFrame { frames: self.frames_max })?;
                self.write(host, log, victim)?;
                if let Some(frame) = self.frames.remove(&victim) {
                    self.by_use.remove(&frame.used);
                }
            }
            let mut bytes = vec![0; self.pages.size];
            host.read(at, &mut bytes)?;
            self.frames.insert(page, Frame { bytes, dirty_since: None, used: now });
        }
        self.by_use.insert(now, page);
        let damaged = Error::Damaged { controller: 0, what: "a frame" };
        let frame = self.frames.get_mut(&page).ok_or(damaged)?;
        frame.used = now;
        Ok(frame)
    }

    /// The bytes behind the head of a page, and its LSN.
    pub(crate) fn page(
        &mut self,
        host: &mut Host,
        log: &mut Log,
        page: u64,
    ) -> Result<(&[u8], Lsn), Error> {
        let frame = self.frame(host, log, page)?;
        Ok((&frame.bytes[PAGE_HEAD..], lsn_of(&frame.bytes)))
    }

    /// Changes bytes behind the head of a page by the record of `lsn`.
    pub(crate) fn change(
        &mut self,
        host: &mut Host,
        log: &mut Log,
        (page, offset, after, lsn): (u64, u32, &[u8], Lsn),
    ) -> Result<(), Error> {
        let frame = self.frame(host, log, page)?;
        let from = PAGE_HEAD + offset as usize;
        let what = "a change beyond the end of a page";
        let damaged = Error::Damaged { controller: 0, what };
        let bytes = frame.bytes.get_mut(from..from + after.len()).ok_or(damaged)?;
        bytes.copy_from_slice(after);
        frame.bytes[..8].copy_from_slice(&lsn.to_le_bytes());
        let was_clean = frame.dirty_since.is_none();
        frame.dirty_since.get_or_insert(lsn);
        self.dirty += usize::from(was_clean);
        Ok(())
    }

    /// Writes a page, if it is dirty.
    fn write(&mut self, host: &mut Host, log: &mut Log, page: u64) -> Result<(), Error> {
        let at = self.at(page)?;
        let Some(frame) = self.frames.get_mut(&page) else { return Ok(()) };
        if frame.dirty_since.is_some() {
            log.force(host, lsn_of(&frame.bytes))?;
            host.write_head_last(at, &frame.bytes, PAGE_HEAD)?;
            frame.dirty_since = None;
            self.dirty -= 1;
        }
        Ok(())
    }

    /// Writes dirty pages, those first that were used last longest ago, until so many are left.
    pub(crate) fn clean(
        &mut self,
        host: &mut Host,
        log: &mut Log,
        left: usize,
    ) -> Result<(), Error> {
        let pages: Vec<u64> = self.by_use.values().copied().collect();
        for page in pages {
            if self.dirty <= left {
                break;
            }
            self.write(host, log, page)?;
        }
        Ok(())
    }

    pub(crate) fn dirty_count(&self) -> usize {
        self.dirty
    }

    /// The dirty pages, with what made them so.
    pub(crate) fn dirty(&self) -> Vec<(u64, Lsn)> {
        let dirty = self.frames.iter();
        let mut dirty: Vec<_> =
            dirty.filter_map(|(page, frame)| Some((*page, frame.dirty_since?))).collect();
        dirty.sort_unstable();
        dirty
    }
}
