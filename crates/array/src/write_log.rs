//! What a transaction has logged: blocks with its bytes, in the store's own transaction, and which bytes these are.
//!
//! The thesis's log file and its metadata file (§3.4) are here the writes of a transaction of the store, which lie out of place
//! until the commit and outgrow memory into the pool, and a volatile map of what was written. There is no second log.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use tembo_kv as kv;

use crate::device::Device;
use crate::format::{BLOCK_COUNT_MAX, block_key, block_of};
use crate::image::{Image, each_part};
use crate::latch::InUse;
use crate::ranges::Ranges;
use crate::shape::Shape;
use crate::shared::Shared;
use crate::{Error, Isolation};

/// Which bytes of a block a transaction has written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Dirty {
    /// All.
    Whole,
    /// Some: the others are those that were there.
    Part(Ranges),
    /// All, and they are zero: the block takes no space.
    Zero,
}

/// What a transaction has done to the record of a device: its length, its tag.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Length {
    pub(crate) len: u64,
    /// It was set; else it gets longer at most.
    pub(crate) is_set: bool,
    pub(crate) is_extended: bool,
    /// Blocks from this one on were cut off.
    pub(crate) cut: u64,
    pub(crate) tag: Option<u64>,
}

impl Length {
    pub(crate) fn changes(&self) -> bool {
        self.is_set || self.is_extended || self.tag.is_some()
    }
}

/// A device that a transaction has written to.
pub(crate) struct Touched {
    pub(crate) device: Device,
    /// As it was when the transaction began.
    pub(crate) image: Image,
    pub(crate) length: Length,
    _in_use: InUse,
}

enum Undo {
    Block([u8; 8], Option<Dirty>),
    Length(u32, Length),
}

struct Saved {
    number: u64,
    inner: kv::Savepoint,
    undo: usize,
    bytes: u64,
    is_broken: bool,
}

/// The writes of one transaction.
pub(crate) struct WriteLog {
    pub(crate) shared: Arc<Shared>,
    pub(crate) isolation: Isolation,
    /// Blocks as this transaction has left them.
    pub(crate) inner: kv::Transaction,
    /// What was visible when it began.
    pub(crate) snapshot: kv::Snapshot,
    pub(crate) touched: BTreeMap<u32, Touched>,
    pub(crate) dirty: BTreeMap<[u8; 8], Dirty>,
    undo: Vec<Undo>,
    saved: Vec<Saved>,
    savepoints: u64,
    /// Bytes that were logged.
    pub(crate) bytes: u64,
    is_broken: bool,
}

impl WriteLog {
    pub(crate) fn begin(shared: &Arc<Shared>, isolation: Isolation) -> Result<WriteLog, Error> {
        let inner = shared.store.transaction(kv::Isolation::Snapshot)?;
        let snapshot = shared.store.snapshot_at(inner.version())?;
        Ok(WriteLog {
            shared: shared.clone(),
            isolation,
            inner,
            snapshot,
            touched: BTreeMap::new(),
            dirty: BTreeMap::new(),
            undo: Vec::new(),
            saved: Vec::new(),
            savepoints: 0,
            bytes: 0,
            is_broken: false,
        })
    }

    /// # Errors
    /// [`Error::BadState`].
    pub(crate) fn sound(&self) -> Result<(), Error> {
        if self.is_broken { Err(Error::BadState) } else { Ok(()) }
    }

    fn touch(&mut self, device: &Device) -> Result<(), Error> {
        self.sound()?;
        if !device.is_of(&self.shared) {
            return Err(Error::OtherStore);
        }
        if !self.touched.contains_key(&device.number()) {
            let image = device.image(self.snapshot.clone())?;
            let len = image.shape.len;
            let (is_set, is_extended, cut) = (false, false, BLOCK_COUNT_MAX);
            let length = Length { len, is_set, is_extended, cut, tag: None };
            let (device, _in_use) = (device.clone(), device.latch().begin_use());
            let touched = Touched { device, image, length, _in_use };
            self.touched.insert(touched.device.number(), touched);
        }
        Ok(())
    }

    fn of(&self, number: u32) -> Result<&Touched, Error> {
        self.touched.get(&number).ok_or(Error::OtherStore)
    }

    fn log_room(&self, bytes: u64) -> Result<(), Error> {
        let (bytes, max) =
            (self.bytes.saturating_add(bytes), self.shared.log_max.load(Ordering::Relaxed));
        if bytes > max { Err(Error::LogFull { bytes, max }) } else { Ok(()) }
    }

    /// Whether a range lies in the device, or in what it may become.
    fn check_range(&self, number: u32, offset: u64, len: u64) -> Result<u64, Error> {
        let Touched { device, image, length, .. } = self.of(number)?;
        let longest = image.shape.len_max();
        let size = if image.shape.grows { longest } else { length.len };
        match offset.checked_add(len) {
            Some(end) if end <= size => Ok(end),
            _ => Err(Error::OutOfRange { name: device.name().into(), offset, len, size }),
        }
    }

    /// Logs bytes.
    pub(crate) fn write(&mut self, device: &Device, offset: u64, data: &[u8]) -> Result<(), Error> {
        self.touch(device)?;
        let (number, size) = (device.number(), device.block_size());
        let end = self.check_range(number, offset, data.len() as u64)?;
        self.log_room(data.len() as u64)?;
        let before = self.undo.len();
        let written = each_part(size, offset, data.len(), |block, start, part| {
            self.write_part((number, size), block, start, &data[part])
        });
        self.is_broken |= written.is_err() && self.undo.len() > before;
        written?;
        self.bytes += data.len() as u64;
        if !data.is_empty() && end > self.of(number)?.length.len {
            self.set_length(number, |length| (length.len, length.is_extended) = (end, true));
        }
        Ok(())
    }

    fn write_part(
        &mut self,
        (number, size): (u32, usize),
        block: u64,
        start: usize,
        bytes: &[u8],
    ) -> Result<(), Error> {
        let key = block_key(number, block);
        let blocks = self.shared.spaces.blocks;
        if bytes.len() == size {
            self.inner.put(blocks, &key, bytes)?;
            self.mark(key, Dirty::Whole);
            return Ok(());
        }
        let (mut now, dirty) = self.own_block(number, block)?;
        now[start..start + bytes.len()].copy_from_slice(bytes);
        self.inner.put(blocks, &key, &now)?;
        let dirty = match dirty {
            Some(mut ranges) => {
                ranges.add(start, start + bytes.len());
                if ranges.is_all(size) { Dirty::Whole } else { Dirty::Part(ranges) }
            }
            None => Dirty::Whole,
        };
        self.mark(key, dirty);
        Ok(())
    }

    /// A block as the transaction has left it over what was there when it began, and which bytes are its own; `None`: all.
    fn own_block(&mut self, number: u32, block: u64) -> Result<(Vec<u8>, Option<Ranges>), Error> {
        let key = block_key(number, block);
        let touched = self.touched.get(&number).ok_or(Error::OtherStore)?;
        let zero = || vec![0; touched.image.shape.block_size];
        let dirty = self.dirty.get(&key);
        let ranges = match dirty {
            None if block >= touched.length.cut => return Ok((zero(), None)),
            None => return Ok((touched.image.block_bytes(block)?, Some(Ranges::default()))),
            Some(Dirty::Zero) => return Ok((zero(), None)),
            Some(Dirty::Whole) => None,
            Some(Dirty::Part(ranges)) => Some(ranges.clone()),
        };
        let bytes = self.inner.get(self.shared.spaces.blocks, &key)?;
        Ok((bytes.filter(|bytes| !bytes.is_empty()).unwrap_or_else(zero), ranges))
    }

    fn mark(&mut self, key: [u8; 8], dirty: Dirty) {
        let before = self.dirty.insert(key, dirty);
        self.undo.push(Undo::Block(key, before));
    }

    fn set_length(&mut self, number: u32, change: impl FnOnce(&mut Length)) {
        if let Some(touched) = self.touched.get_mut(&number) {
            self.undo.push(Undo::Length(number, touched.length));
            change(&mut touched.length);
        }
    }

    /// Makes a range zero. Whole blocks of it take no space then.
    pub(crate) fn discard(&mut self, device: &Device, offset: u64, len: u64) -> Result<(), Error> {
        self.touch(device)?;
        let (number, size) = (device.number(), device.block_size() as u64);
        let end = offset.saturating_add(len).min(self.of(number)?.length.len);
        if offset >= end {
            return Ok(());
        }
        let before = self.undo.len();
        let discarded = self.discard_parts((number, size), offset..end);
        self.is_broken |= discarded.is_err() && self.undo.len() > before;
        discarded
    }

    fn discard_parts(
        &mut self,
        (number, size): (u32, u64),
        range: Range<u64>,
    ) -> Result<(), Error> {
        let is_last = range.end == self.of(number)?.length.len;
        let (first, last) = (range.start.div_ceil(size), range.end / size);
        // What lies behind the end is zero too.
        let last = if is_last { range.end.div_ceil(size) } else { last };
        if first > last {
            return self.zero_part((number, size), range);
        }
        if range.start < first * size {
            self.zero_part((number, size), range.start..(first * size).min(range.end))?;
        }
        if last * size < range.end && last >= first {
            self.zero_part((number, size), last * size..range.end)?;
        }
        for block in self.shown(number, first..last)? {
            self.zero_block(number, block)?;
        }
        Ok(())
    }

    /// Blocks of a range that the transaction may see something in.
    fn shown(&self, number: u32, blocks: Range<u64>) -> Result<Vec<u64>, Error> {
        if blocks.is_empty() {
            return Ok(Vec::new());
        }
        let touched = self.of(number)?;
        let mut shown = touched.image.stored(blocks.start..blocks.end, true)?;
        if self.isolation == Isolation::None {
            let now = touched.device.image(self.shared.store.snapshot()?)?;
            shown.extend(now.stored(blocks.start..blocks.end, true)?);
        }
        let own = block_key(number, blocks.start)..=block_key(number, blocks.end - 1);
        shown.extend(self.dirty.range(own).filter_map(|(key, _)| Some(block_of(key)?.1)));
        shown.sort_unstable();
        shown.dedup();
        Ok(shown)
    }

    fn zero_block(&mut self, number: u32, block: u64) -> Result<(), Error> {
        let (key, blocks) = (block_key(number, block), self.shared.spaces.blocks);
        let touched = self.of(number)?;
        if block < touched.length.cut && touched.image.shape.has_origin_at(block) {
            self.inner.put(blocks, &key, &[])?;
        } else {
            self.inner.remove(blocks, &key)?;
        }
        self.mark(key, Dirty::Zero);
        Ok(())
    }

    /// Makes a part of one block zero.
    fn zero_part(&mut self, (number, size): (u32, u64), range: Range<u64>) -> Result<(), Error> {
        let (block, start) = (range.start / size, (range.start % size) as usize);
        let zeros = vec![0; (range.end - range.start) as usize];
        self.write_part((number, size as usize), block, start, &zeros)
    }

    /// Gives the device another length.
    pub(crate) fn set_len(&mut self, device: &Device, len: u64) -> Result<(), Error> {
        self.touch(device)?;
        let (number, size) = (device.number(), device.block_size() as u64);
        let longest = self.of(number)?.image.shape.len_max();
        if len > longest {
            let name = device.name().into();
            return Err(Error::OutOfRange { name, offset: len, len: 0, size: longest });
        }
        let before = self.undo.len();
        let cut = self.cut((number, size), len);
        self.is_broken |= cut.is_err() && self.undo.len() > before;
        cut?;
        self.set_length(number, |length| {
            (length.len, length.is_set) = (len, true);
            length.cut = length.cut.min(len.div_ceil(size));
        });
        Ok(())
    }

    /// Gives the device another tag.
    pub(crate) fn set_tag(&mut self, device: &Device, tag: u64) -> Result<(), Error> {
        self.touch(device)?;
        self.set_length(device.number(), |length| length.tag = Some(tag));
        Ok(())
    }

    /// The tag of a device, as the transaction sees it.
    pub(crate) fn tag(&self, device: &Device) -> Result<u64, Error> {
        let own = self.touched.get(&device.number()).and_then(|touched| touched.length.tag);
        Ok(match own {
            Some(tag) => tag,
            None => self.base(device)?.shape.tag,
        })
    }

    /// What lies behind the new end was never there.
    fn cut(&mut self, (number, size): (u32, u64), len: u64) -> Result<(), Error> {
        if len >= self.of(number)?.length.len {
            return Ok(());
        }
        let end = len.div_ceil(size);
        if len < end * size {
            self.zero_part((number, size), len..end * size)?;
        }
        for block in self.shown(number, end..BLOCK_COUNT_MAX)? {
            let key = block_key(number, block);
            self.inner.remove(self.shared.spaces.blocks, &key)?;
            self.mark(key, Dirty::Zero);
        }
        Ok(())
    }

    /// What a read that the transaction has not written shows.
    fn base(&self, device: &Device) -> Result<Cow<'_, Image>, Error> {
        if !device.is_of(&self.shared) {
            return Err(Error::OtherStore);
        }
        match (self.isolation, self.touched.get(&device.number())) {
            (Isolation::None, _) => device.image(self.shared.store.snapshot()?).map(Cow::Owned),
            (Isolation::FirstCommitter, Some(touched)) => Ok(Cow::Borrowed(&touched.image)),
            (Isolation::FirstCommitter, None) => {
                device.image(self.snapshot.clone()).map(Cow::Owned)
            }
        }
    }

    fn len_over(&self, device: &Device, base: &Shape) -> u64 {
        match self.touched.get(&device.number()).map(|touched| touched.length) {
            Some(length) if length.is_set => length.len,
            Some(length) if length.is_extended => length.len.max(base.len),
            _ => base.len,
        }
    }

    /// The length of a device, as the transaction sees it.
    pub(crate) fn len(&self, device: &Device) -> Result<u64, Error> {
        Ok(self.len_over(device, &self.base(device)?.shape))
    }

    /// Reads from `offset` on, what the transaction has written included.
    pub(crate) fn read(
        &mut self,
        device: &Device,
        offset: u64,
        to: &mut [u8],
    ) -> Result<usize, Error> {
        let base = self.base(device)?;
        let (number, size) = (device.number(), device.block_size());
        let left = self.len_over(device, &base.shape).saturating_sub(offset);
        let len = usize::try_from(left).map_or(to.len(), |left| left.min(to.len()));
        let cut = self.touched.get(&number).map_or(BLOCK_COUNT_MAX, |touched| touched.length.cut);
        if len == 0 {
            return Ok(0);
        }
        let (first, last) = (offset / size as u64, (offset + len as u64 - 1) / size as u64);
        let own = block_key(number, first)..=block_key(number, last);
        if last < cut && self.dirty.range(own).next().is_none() {
            each_part(size, offset, len, |block, start, part| {
                base.read_part(block, start, &mut to[part])
            })?;
            return Ok(len);
        }
        let base = base.into_owned();
        each_part(size, offset, len, |block, start, part| {
            let to = &mut to[part];
            match self.dirty.get(&block_key(number, block)) {
                Some(Dirty::Zero) => to.fill(0),
                None if block >= cut => to.fill(0),
                None => base.read_part(block, start, to)?,
                Some(Dirty::Part(ranges)) if self.isolation == Isolation::None => {
                    let (mut bytes, ranges) = (base.block_bytes(block)?, ranges.clone());
                    let (own, _) = self.own_block(number, block)?;
                    ranges.copy(&own, &mut bytes);
                    to.copy_from_slice(&bytes[start..start + to.len()]);
                }
                Some(_) => {
                    let (own, _) = self.own_block(number, block)?;
                    to.copy_from_slice(&own[start..start + to.len()]);
                }
            }
            Ok(())
        })?;
        Ok(len)
    }

    /// Where it is.
    pub(crate) fn savepoint(&mut self) -> u64 {
        self.savepoints += 1;
        let inner = self.inner.savepoint();
        let (number, undo, bytes) = (self.savepoints, self.undo.len(), self.bytes);
        // What was logged half-way before it stays so when the transaction goes back to it.
        let is_broken = self.is_broken;
        self.saved.push(Saved { number, inner, undo, bytes, is_broken });
        number
    }

    /// Goes back to a savepoint, which stays.
    pub(crate) fn roll_back_to(&mut self, number: u64) -> Result<(), Error> {
        let at = self.saved.iter().rposition(|saved| saved.number == number);
        let Some(at) = at else { return Err(Error::NoSuchSavepoint) };
        self.inner.rollback_to(&self.saved[at].inner)?;
        for undo in self.undo.drain(self.saved[at].undo..).rev() {
            match undo {
                Undo::Block(key, Some(dirty)) => drop(self.dirty.insert(key, dirty)),
                Undo::Block(key, None) => drop(self.dirty.remove(&key)),
                Undo::Length(number, length) => {
                    self.touched.entry(number).and_modify(|touched| touched.length = length);
                }
            }
        }
        (self.bytes, self.is_broken) = (self.saved[at].bytes, self.saved[at].is_broken);
        self.saved.truncate(at + 1);
        Ok(())
    }

    /// Whether it has written to a device with runs.
    pub(crate) fn writes_runs(&self) -> bool {
        self.touched.values().any(|touched| touched.image.shape.run_blocks > 1)
    }

    /// The blocks of a device that were written, in order.
    pub(crate) fn dirty_of(&self, number: u32) -> impl DoubleEndedIterator<Item = (u64, &Dirty)> {
        let all = block_key(number, 0)..=block_key(number, u64::MAX);
        self.dirty.range(all).filter_map(|(key, dirty)| Some((block_of(key)?.1, dirty)))
    }
}
