//! A device: a handle, by which it is read and named to transactions.

use std::fmt;
use std::sync::Arc;

use parking_lot::Mutex;
use tembo_kv::{Error as StoreError, Snapshot};

use crate::Error;
use crate::image::{Image, shape_in};
use crate::latch::Latch;
use crate::shape::{Shape, Spaces};
use crate::shared::Shared;
use crate::snapshot::DeviceSnapshot;

/// A named device of blocks. A clone is another handle of the same device.
///
/// Reads of it show what is visible at the call, each of one version: a write that was committed is seen whole or not at all,
/// whatever its size. [`DeviceSnapshot`]s show one version for longer.
#[derive(Clone)]
pub struct Device {
    shared: Arc<Shared>,
    latch: Arc<Latch>,
    name: Arc<str>,
    number: u32,
    block_size: usize,
    /// The shape that was seen last, and in which version: what a version shows does not change.
    seen: Arc<Mutex<Option<(u64, Shape)>>>,
}

impl fmt::Debug for Device {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Device").field("name", &self.name).finish_non_exhaustive()
    }
}

impl Device {
    pub(crate) fn new(shared: &Arc<Shared>, name: &str, shape: &Shape) -> Device {
        Device {
            shared: shared.clone(),
            latch: shared.latches.of(shape.number),
            name: name.into(),
            number: shape.number,
            block_size: shape.block_size,
            seen: Arc::default(),
        }
    }

    pub(crate) fn latch(&self) -> &Arc<Latch> {
        &self.latch
    }

    pub(crate) fn number(&self) -> u32 {
        self.number
    }

    pub(crate) fn is_of(&self, shared: &Arc<Shared>) -> bool {
        Arc::ptr_eq(&self.shared, shared)
    }

    fn spaces(&self) -> Spaces {
        self.shared.spaces
    }

    /// The device in a snapshot of the store.
    ///
    /// # Errors
    /// [`Error::NoSuchDevice`], [`Error::OriginLost`]; damage.
    pub(crate) fn image(&self, snapshot: Snapshot) -> Result<Image, Error> {
        let shape = self.shape(&snapshot)?;
        Image::new(&self.shared.store, snapshot, self.spaces(), (&self.name, shape))
    }

    /// Its shape in a snapshot of the store.
    ///
    /// # Errors
    /// [`Error::NoSuchDevice`]; damage.
    pub(crate) fn shape(&self, snapshot: &Snapshot) -> Result<Shape, Error> {
        let version = snapshot.version();
        if let Some((seen, shape)) = &*self.seen.lock()
            && *seen == version
        {
            return Ok(shape.clone());
        }
        let shape = shape_in(snapshot, self.spaces(), &self.name)?
            .filter(|shape| shape.number == self.number)
            .ok_or_else(|| Error::NoSuchDevice { name: self.name.as_ref().into() })?;
        self.saw(version, &shape);
        Ok(shape)
    }

    /// A version of the store has this shape.
    pub(crate) fn saw(&self, version: u64, shape: &Shape) {
        *self.seen.lock() = Some((version, shape.clone()));
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Bytes in a block.
    pub fn block_size(&self) -> usize {
        self.block_size
    }

    /// Its length, in bytes, as it is visible now.
    ///
    /// # Errors
    /// [`Error::NoSuchDevice`]: it was removed; damage.
    pub fn len(&self) -> Result<u64, Error> {
        Ok(self.shape(&self.shared.store.snapshot()?)?.len)
    }

    /// Whether its length is 0.
    ///
    /// # Errors
    /// As of [`len`](Device::len).
    pub fn is_empty(&self) -> Result<bool, Error> {
        Ok(self.len()? == 0)
    }

    /// What is visible of it now, for as long as the handle lives. Costs no copy.
    ///
    /// # Errors
    /// [`Error::NoSuchDevice`], [`Error::OriginLost`]; damage.
    pub fn snapshot(&self) -> Result<DeviceSnapshot, Error> {
        Ok(DeviceSnapshot::new(&self.name, self.image(self.shared.store.snapshot()?)?))
    }

    /// The device of this name as it was at a retained version: see [`Store::snapshot_at`](tembo_kv::Store::snapshot_at). If
    /// another device had the name then, that one; [`Array::device_at`](crate::Array::device_at) needs no device of the name now.
    ///
    /// # Errors
    /// As of [`snapshot`](Device::snapshot); [`tembo_kv::Error::NotRetained`].
    pub fn at(&self, version: u64) -> Result<DeviceSnapshot, Error> {
        let snapshot = self.shared.store.snapshot_at(version)?;
        DeviceSnapshot::of(&self.shared, &self.name, snapshot)
    }

    /// The device of this name as it was when a snapshot of the store was named. If another device had the name then, that
    /// one; [`Array::device_at_name`](crate::Array::device_at_name) needs no device of the name now.
    ///
    /// # Errors
    /// As of [`snapshot`](Device::snapshot); [`StoreError::NoSuchName`].
    pub fn at_name(&self, name: &str) -> Result<DeviceSnapshot, Error> {
        let snapshot = self.shared.store.snapshot_named(name)?;
        DeviceSnapshot::of(&self.shared, &self.name, snapshot)
    }

    /// Reads from `offset` on; how many bytes: fewer than asked for at the end of the device, none behind it.
    ///
    /// # Errors
    /// As of [`snapshot`](Device::snapshot).
    pub fn read_at(&self, offset: u64, to: &mut [u8]) -> Result<usize, Error> {
        self.snapshot()?.read_at(offset, to)
    }

    /// Whether an error is that there is none of a name.
    pub(crate) fn is_absent(error: &Error) -> bool {
        matches!(
            error,
            Error::NoSuchDevice { .. } | Error::Store(StoreError::NoSuchKeyspace { .. })
        )
    }
}
