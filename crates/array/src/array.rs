//! The devices of a store.

use std::ops::Bound;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tembo_kv::{Direction, Durability, Snapshot, Store};

use crate::bounds::NAME_SIZE_MAX;
use crate::detach::detach;
use crate::format::{
    BLOCKS, DEVICES, NEXT_NUMBER, NUMBER_MAX, RUNS_FROM, block_key, block_of, mark_of,
};
use crate::image::{Image, shape_in};
use crate::origins::{drop_unused, keep, lost, mark_old, shapes, shapes_in};
use crate::shape::{Origin, Shape, Spaces, check_block_size, check_run_blocks};
use crate::shared::Shared;
use crate::transaction::Committed;
use crate::within::write_within;
use crate::{Device, DeviceSnapshot, Error, Isolation, Transaction};

/// How a device is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeviceOptions {
    /// Bytes in a block: a power of two from 512 to 65,536. A write to a part of a block writes all of it.
    pub block_size: usize,
    /// Bytes in the device at first. Those that were never written are zero and take no space.
    pub len: u64,
    /// Whether a write beyond the end makes it longer; else such a write is [`Error::OutOfRange`].
    pub grows: bool,
    /// Blocks in a run: a power of two, of at most [`RUN_SIZE_MAX`](crate::RUN_SIZE_MAX) bytes; 1: there are no runs. An
    /// [`Array::write`] of all blocks of a run stores them as one object with one entry of the index, which takes less
    /// time. A later write to some of them lies over it, and the space of what is below is free when the whole run is
    /// written again, or discarded: a device may take up to twice its length. Transactions that write to such a device
    /// commit alone.
    pub run_blocks: usize,
}

impl Default for DeviceOptions {
    /// Blocks of 4 KiB, without runs; empty; grows.
    fn default() -> DeviceOptions {
        DeviceOptions { block_size: 4096, len: 0, grows: true, run_blocks: 1 }
    }
}

/// What a check of the devices has found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DeviceCheck {
    /// Devices.
    pub devices: u64,
    /// Their blocks that are stored, in runs or by themselves; those of what they were cloned from not counted.
    pub blocks: u64,
    /// Blocks that belong to no device, or lie behind its end: there should be none.
    pub stray: u64,
    /// Clones that cannot be read, as the store does not have what they were made of: [`Array::lost`] names them.
    pub lost: u64,
}

/// All devices of a store. A clone is another handle of the same.
///
/// A store has one of it: what changes the length of a device, or removes one, waits for its writes by latches that are
/// in memory, and that only clones share.
#[derive(Clone)]
pub struct Array {
    shared: Arc<Shared>,
}

/// # Errors
/// [`Error::DeviceName`].
fn check_name(name: &str) -> Result<(), Error> {
    match (1..=NAME_SIZE_MAX).contains(&name.len()) {
        true => Ok(()),
        false => Err(Error::DeviceName { size: name.len() }),
    }
}

impl Array {
    /// The devices of a store.
    ///
    /// # Errors
    /// [`tembo_kv::Error::Unordered`]: the store's keys have no order, and it holds no devices. Those of a commit; damage.
    pub fn open(store: &Store) -> Result<Array, Error> {
        store.check_ordered()?;
        let (devices, blocks) = (store.keyspace(DEVICES)?, store.keyspace(BLOCKS)?);
        let spaces = Spaces { devices, blocks, mark: mark_of(store.identity()) };
        let (store, latches) = (store.clone(), crate::latch::Latches::default());
        let shared = Shared { store, spaces, latches, log_max: AtomicU64::new(u64::MAX) };
        let array = Array { shared: Arc::new(shared) };
        if !array.store().is_read_only() {
            // If it fails (no room, a replica), the next opening does it; until then the names say the same.
            let _ = mark_old(&array.shared);
            drop_unused(&array.shared);
        }
        Ok(array)
    }

    /// Whether a store has devices, or has had. One that is open to be read, and has none, opens as no [`Array`].
    pub fn is_in(store: &Store) -> bool {
        store.keyspaces().iter().any(|(name, _)| name == BLOCKS)
    }

    /// The store, for its snapshots, their names, its window of versions, and syncs.
    pub fn store(&self) -> &Store {
        &self.shared.store
    }

    /// Bytes that one transaction may log from now on; unlimited at first. Beyond that a write is [`Error::LogFull`].
    pub fn set_log_max(&self, bytes: u64) {
        self.shared.log_max.store(bytes, Ordering::Relaxed);
    }

    /// Makes a device.
    ///
    /// Durability point: when it returns.
    ///
    /// # Errors
    /// [`Error::DeviceExists`], [`Error::DeviceName`], [`Error::BlockSize`], [`Error::RunBlocks`], [`Error::OutOfRange`],
    /// [`Error::TooManyDevices`]; those of a commit: nothing has changed.
    pub fn create(&self, name: &str, options: DeviceOptions) -> Result<Device, Error> {
        let DeviceOptions { block_size, len, grows, run_blocks } = options;
        check_block_size(block_size)?;
        check_run_blocks(block_size, run_blocks)?;
        let run_blocks = run_blocks as u64;
        let (origins, tag) = (Vec::new(), 0);
        let shape = Shape { number: 0, block_size, run_blocks, grows, len, tag, origins };
        let size = shape.len_max();
        if len > size {
            return Err(Error::OutOfRange { name: name.into(), offset: 0, len, size });
        }
        self.make(name, shape, &[])
    }

    /// Makes a device of that shape, but for the number; it keeps a version.
    fn make(&self, name: &str, mut shape: Shape, keeps: &[&Snapshot]) -> Result<Device, Error> {
        check_name(name)?;
        let Shared { store, spaces, .. } = &*self.shared;
        let mut writer = store.exclusive()?;
        if writer.get(spaces.devices, name.as_bytes())?.is_some() {
            return Err(Error::DeviceExists { name: name.into() });
        }
        let next = writer.get(spaces.devices, NEXT_NUMBER)?;
        let number = next.map_or(Some(0), |next| next.array(0).map(u32::from_le_bytes));
        let number = number.ok_or(Error::Damaged { what: "the number of the next device" })?;
        if number > NUMBER_MAX {
            return Err(Error::TooManyDevices { count: number });
        }
        shape.number = number;
        keep(store, keeps)?;
        writer.put(spaces.devices, NEXT_NUMBER, &(number + 1).to_le_bytes())?;
        writer.put(spaces.devices, name.as_bytes(), &shape.encode())?;
        writer.commit(Durability::Strict)?;
        Ok(Device::new(&self.shared, name, &shape))
    }

    /// The device of that name.
    ///
    /// # Errors
    /// [`Error::NoSuchDevice`]; damage.
    pub fn device(&self, name: &str) -> Result<Device, Error> {
        check_name(name)?;
        let snapshot = self.store().snapshot()?;
        match shape_in(&snapshot, self.shared.spaces, name)? {
            Some(shape) => Ok(Device::new(&self.shared, name, &shape)),
            None => Err(Error::NoSuchDevice { name: name.into() }),
        }
    }

    /// The device of that name, made if there is none.
    ///
    /// # Errors
    /// As of [`create`](Array::create).
    pub fn open_or_create(&self, name: &str, options: DeviceOptions) -> Result<Device, Error> {
        match self.device(name) {
            Err(error) if Device::is_absent(&error) => match self.create(name, options) {
                // Another thread was first.
                Err(Error::DeviceExists { .. }) => self.device(name),
                created => created,
            },
            found => found,
        }
    }

    /// The names of the devices, in order.
    ///
    /// # Errors
    /// Damage.
    pub fn devices(&self) -> Result<Vec<String>, Error> {
        Ok(shapes(&self.shared)?.into_iter().map(|(name, _)| name).collect())
    }

    /// The names of the devices that there were when a snapshot of the store was named, in order.
    ///
    /// # Errors
    /// [`tembo_kv::Error::NoSuchName`]; damage.
    pub fn devices_at_name(&self, snapshot: &str) -> Result<Vec<String>, Error> {
        let snapshot = self.store().snapshot_named(snapshot)?;
        Ok(shapes_in(&snapshot, self.shared.spaces)?.into_iter().map(|(name, _)| name).collect())
    }

    /// The device that had that name at a retained version, also if it was removed since:
    /// see [`Store::snapshot_at`](tembo_kv::Store::snapshot_at).
    ///
    /// # Errors
    /// [`Error::NoSuchDevice`]: there was none; [`Error::OriginLost`]; [`tembo_kv::Error::NotRetained`]; damage.
    pub fn device_at(&self, name: &str, version: u64) -> Result<DeviceSnapshot, Error> {
        check_name(name)?;
        DeviceSnapshot::of(&self.shared, &name.into(), self.store().snapshot_at(version)?)
    }

    /// The device that had that name when a snapshot of the store was named, also if it was removed since.
    ///
    /// # Errors
    /// [`Error::NoSuchDevice`]: there was none; [`Error::OriginLost`]; [`tembo_kv::Error::NoSuchName`]; damage.
    pub fn device_at_name(&self, name: &str, snapshot: &str) -> Result<DeviceSnapshot, Error> {
        check_name(name)?;
        DeviceSnapshot::of(&self.shared, &name.into(), self.store().snapshot_named(snapshot)?)
    }

    /// Removes a device, in time independent of its length. Snapshots of it stay readable ([`Array::device_at_name`]), and so
    /// do its clones. A clone that cannot be read can be removed.
    ///
    /// Durability point: when it returns.
    ///
    /// # Errors
    /// [`Error::Busy`], [`Error::NoSuchDevice`], [`Error::OtherStore`]; those of a commit: nothing has changed.
    pub fn remove(&self, device: &Device) -> Result<(), Error> {
        if !device.is_of(&self.shared) {
            return Err(Error::OtherStore);
        }
        let Shared { store, spaces, .. } = &*self.shared;
        let held = device.latch().hold(true);
        let pending = device.latch().pending();
        if pending > 0 {
            return Err(Error::Busy { name: device.name().into(), pending });
        }
        let mut writer = store.exclusive()?;
        device.shape(&store.snapshot()?)?;
        let (from, to) = (block_key(device.number(), 0), block_key(device.number(), u64::MAX));
        writer.remove(spaces.devices, device.name().as_bytes())?;
        writer.remove_range::<[u8]>(
            spaces.blocks,
            (Bound::Included(&from[..]), Bound::Included(&to[..])),
        )?;
        writer.commit(Durability::Strict)?;
        drop(held);
        drop_unused(&self.shared);
        Ok(())
    }

    /// Makes a device that begins as a snapshot of another one, in constant time and space: what it does not write it reads there.
    /// The version is kept, as by a [name](Store::name_snapshot), until the last clone of it is removed; a store
    /// has at most 64 names, so clones of one snapshot take one between them.
    ///
    /// A backup of the store has no past, and so only what a clone has written itself: restored, the clone is
    /// [lost](Array::lost). [`Array::detach`] it before the backup. A replica does not have its past either.
    ///
    /// Durability point: when it returns.
    ///
    /// # Errors
    /// As of [`create`](Array::create); [`tembo_kv::Error::SnapshotName`]: there are 64 names.
    pub fn clone_device(&self, of: &DeviceSnapshot, name: &str) -> Result<Device, Error> {
        let Image { shape, .. } = of.image();
        let (mark, version) = (self.shared.spaces.mark, of.version());
        let nearest = Origin { number: shape.number, mark, version, blocks: shape.blocks() };
        // What it reads itself is of this store, whichever release has made it.
        let inherited = shape.origins.iter().map(|origin| Origin { mark, ..*origin });
        let origins = std::iter::once(nearest).chain(inherited).collect();
        let mut shape = Shape { origins, ..shape.clone() };
        shape.cut(shape.len);
        let origins = of.image().origins();
        let keeps: Vec<_> = std::iter::once(of.store_snapshot()).chain(origins).collect();
        self.make(name, shape, &keeps)
    }

    /// The names of the clones, in order: devices that show blocks of another one.
    ///
    /// # Errors
    /// Damage.
    pub fn clones(&self) -> Result<Vec<String>, Error> {
        let mut shapes = shapes(&self.shared)?;
        shapes.retain(|(_, shape)| !shape.origins.is_empty());
        Ok(shapes.into_iter().map(|(name, _)| name).collect())
    }

    /// The clones that cannot be read, each with a version of which it is and which this store does not have: it was restored
    /// from a backup, it is a replica, or an earlier release was made to drop the name that kept the version. All that reads
    /// or writes them is [`Error::OriginLost`]; they can be removed.
    ///
    /// # Errors
    /// Damage.
    pub fn lost(&self) -> Result<Vec<(String, u64)>, Error> {
        lost(&self.shared)
    }

    /// Gives a clone blocks of its own for all that it shows, so that it is a clone no longer: it keeps no version, and a
    /// backup has it whole. In time and space by what it shows of other devices; returns how many bytes were copied, 0 of a
    /// device that is no clone. Nothing else writes to the device meanwhile. After an error it is a clone as before, which shows
    /// the same, and what was copied stays.
    ///
    /// Durability point: when it returns.
    ///
    /// # Errors
    /// [`Error::Busy`], [`Error::NoSuchDevice`], [`Error::OriginLost`], [`Error::OtherStore`]; those of a commit; damage.
    pub fn detach(&self, device: &Device) -> Result<u64, Error> {
        match device.is_of(&self.shared) {
            true => detach(&self.shared, device),
            false => Err(Error::OtherStore),
        }
    }

    /// Begins a transaction. Any number may be pending, over any devices of the store that there are now.
    ///
    /// # Errors
    /// Those of the store.
    pub fn transaction(&self, isolation: Isolation) -> Result<Transaction, Error> {
        Transaction::begin(&self.shared, isolation)
    }

    /// Writes `data` at `offset`, whole or not at all, whatever its size (`AtomicWrite`). It does not conflict with others: of two
    /// that write a byte the later wins. A whole block within the device costs one fence.
    ///
    /// Durability point: as `durability` says, capped by the store's sync policy.
    ///
    /// # Errors
    /// As of [`Transaction::write`] and [`Transaction::commit`]: nothing has changed.
    pub fn write(
        &self,
        device: &Device,
        offset: u64,
        data: &[u8],
        durability: Durability,
    ) -> Result<Committed, Error> {
        if !device.is_of(&self.shared) {
            return Err(Error::OtherStore);
        }
        let size = device.block_size();
        if data.len() == size && offset.is_multiple_of(size as u64) {
            let Shared { store, spaces, .. } = &*self.shared;
            let _held = device.latch().hold(false);
            let shape = device.image(store.snapshot()?)?.shape;
            let block = offset / size as u64;
            if block < shape.len / size as u64 {
                let key = block_key(shape.number, block);
                store.put(spaces.blocks, &key, data, durability)?;
                return Ok(Committed::new(&self.shared, store.visible()));
            }
        }
        if let Some(committed) = write_within(&self.shared, device, (offset, data), durability)? {
            return Ok(committed);
        }
        self.transaction(Isolation::None)?.write_and_commit(device, offset, data, durability)
    }

    /// Goes through all records and blocks that are visible. [`Store::check`] is for what lies below.
    ///
    /// # Errors
    /// Damage.
    pub fn check(&self) -> Result<DeviceCheck, Error> {
        let (shapes, lost) = (shapes(&self.shared)?, lost(&self.shared)?.len() as u64);
        let mut check =
            DeviceCheck { devices: shapes.len() as u64, lost, ..DeviceCheck::default() };
        let mut is_damaged = false;
        let snapshot = self.store().snapshot()?;
        snapshot.range_with::<[u8]>(
            self.shared.spaces.blocks,
            ..,
            Direction::Forward,
            &mut |key, value| {
                let of = block_of(key).and_then(|(number, block)| {
                    let (_, shape) = shapes.iter().find(|(_, shape)| shape.number == number)?;
                    Some((shape, block))
                });
                match of {
                    Some((shape, key)) if shape.run_blocks > 1 && key >= RUNS_FROM => {
                        let end = key - RUNS_FROM + shape.run_blocks;
                        let is_whole = shape.run_of(key) == Some(key) && end <= shape.blocks();
                        check.stray += u64::from(!is_whole);
                        check.blocks += shape.run_blocks;
                        is_damaged |= value.len() != shape.run_size();
                    }
                    Some((shape, block)) if block < shape.blocks() => {
                        check.blocks += 1;
                        is_damaged |= !value.is_empty() && value.len() != shape.block_size;
                    }
                    _ => check.stray += 1,
                }
                true
            },
        )?;
        match is_damaged {
            true => Err(Error::Damaged { what: "a block of a device" }),
            false => Ok(check),
        }
    }
}
