//! How logged writes become visible: one commit of the store.
//!
//! A transaction alone that is isolated commits the store's own transaction, which holds its blocks already. Others are
//! applied to what is visible at the commit: a block that was written in part keeps the other bytes that it has then. So
//! are those over runs, with no other commit beside them: that a run was written conflicts with a block of it, and the store,
//! which compares keys, does not see that.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use tembo_kv::{self as kv, Durability, Exclusive, Snapshot};

use crate::format::{BLOCK_COUNT_MAX, block_key, block_of, run_key};
use crate::image::Image;
use crate::latch::{Held, Latch};
use crate::shape::Shape;
use crate::write_log::{Dirty, Touched, WriteLog};
use crate::{Error, Isolation};

/// Bytes of writes up to which they are applied in a transaction, which may have to begin again; more are applied in place.
const IN_MEMORY_MAX: u64 = 8 << 20;

/// Attempts beside others; then alone.
const ATTEMPTS: usize = 4;

/// Commits all of these together or nothing; the version.
///
/// Durability point: as `durability` says, capped by the region's sync policy.
pub(crate) fn commit(mut logs: Vec<WriteLog>, durability: Durability) -> Result<u64, Error> {
    logs.iter().try_for_each(WriteLog::sound)?;
    let latches = latches(&logs)?;
    let _held: Vec<Held<'_>> =
        latches.values().map(|(latch, changes)| latch.hold(*changes)).collect();
    match logs.pop() {
        Some(log)
            if logs.is_empty()
                && log.isolation == Isolation::FirstCommitter
                && !log.writes_runs() =>
        {
            commit_own(log, durability)
        }
        Some(log) => {
            logs.push(log);
            commit_applied(&mut logs, durability)
        }
        None => Ok(0),
    }
}

type LatchOf = (Arc<Latch>, bool);

/// The latches of all devices that were written to, and whether their shapes change.
fn latches(logs: &[WriteLog]) -> Result<BTreeMap<u32, LatchOf>, Error> {
    let mut latches = BTreeMap::new();
    let first = logs.first().map(|log| &log.shared);
    for log in logs {
        if first.is_some_and(|first| !Arc::ptr_eq(first, &log.shared)) {
            return Err(Error::OtherStore);
        }
        for (number, Touched { device, length, .. }) in &log.touched {
            let latch = (device.latch().clone(), length.changes());
            if latches.insert(*number, latch).is_some() {
                return Err(Error::Busy { name: device.name().into(), pending: 2 });
            }
        }
    }
    Ok(latches)
}

/// Commits the transaction of the store that has the blocks.
fn commit_own(mut log: WriteLog, durability: Durability) -> Result<u64, Error> {
    let spaces = log.shared.spaces;
    let mut shapes = Vec::new();
    if !log.touched.is_empty() {
        let now = log.shared.store.snapshot()?;
        for touched in log.touched.values() {
            let name = touched.device.name();
            let shape = touched.device.shape(&now)?;
            if !touched.length.changes() {
                check_end(&log, touched, &shape)?;
                continue;
            }
            if shape != touched.image.shape {
                return Err(conflict(touched, shape.blocks()));
            }
            let cut = touched.length.cut;
            if cut < BLOCK_COUNT_MAX {
                let image = touched.device.image(now.clone())?;
                for block in image.stored(cut..BLOCK_COUNT_MAX, false)? {
                    let key = block_key(shape.number, block);
                    if !log.dirty.contains_key(&key) {
                        log.inner.remove(spaces.blocks, &key)?;
                    }
                }
            }
            let shape = changed_shape(shape, touched);
            log.inner.put(spaces.devices, name.as_bytes(), &shape.encode())?;
            shapes.push((touched.device.clone(), shape));
        }
    }
    let WriteLog { inner, touched, .. } = log;
    let version = inner.commit(durability).map_err(|error| named(error, touched.values()))?;
    for (device, shape) in shapes {
        device.saw(version, &shape);
    }
    Ok(version)
}

/// What a conflict of the store is in devices.
fn named<'t>(error: kv::Error, mut touched: impl Iterator<Item = &'t Touched>) -> Error {
    let kv::Error::Conflict { key, .. } = &error else { return error.into() };
    let (number, block) = block_of(key).unwrap_or_default();
    let is_it = |touched: &&Touched| {
        touched.device.number() == number || touched.device.name().as_bytes() == &key[..]
    };
    match touched.find(is_it) {
        Some(touched) if touched.device.number() == number => conflict(touched, block),
        Some(touched) => conflict(touched, touched.image.shape.blocks()),
        None => error.into(),
    }
}

fn conflict(touched: &Touched, block: u64) -> Error {
    Error::Conflict { name: touched.device.name().into(), block }
}

/// All that was written lies before the end.
fn check_end(log: &WriteLog, touched: &Touched, shape: &Shape) -> Result<(), Error> {
    let last = log.dirty_of(shape.number).next_back().map(|(block, _)| block);
    match last {
        Some(last) if last >= shape.blocks() => Err(conflict(touched, last)),
        _ => Ok(()),
    }
}

/// A shape with what a transaction has done to the length and the tag.
fn changed_shape(mut shape: Shape, Touched { length, .. }: &Touched) -> Shape {
    if length.cut < BLOCK_COUNT_MAX {
        let len = length.cut * shape.block_size as u64;
        let before = shape.len;
        shape.cut(before.min(len));
        shape.len = before;
    }
    shape.len = if length.is_set { length.len } else { shape.len.max(length.len) };
    shape.tag = length.tag.unwrap_or(shape.tag);
    shape
}

/// Applies the writes to what is visible, and commits.
fn commit_applied(logs: &mut [WriteLog], durability: Durability) -> Result<u64, Error> {
    let Some(shared) = logs.first().map(|log| log.shared.clone()) else { return Ok(0) };
    let store = &shared.store;
    let bytes: u64 = logs.iter().map(|log| log.bytes).sum();
    let goes_alone = bytes > IN_MEMORY_MAX || logs.iter().any(WriteLog::writes_runs);
    let attempts = if goes_alone { 0 } else { ATTEMPTS };
    for _ in 0..attempts {
        let tx = store.transaction(kv::Isolation::Snapshot)?;
        let now = store.snapshot_at(tx.version())?;
        let mut target = Target::Beside(tx);
        apply_all(logs, &now, &mut target)?;
        let Target::Beside(tx) = target else { continue };
        match tx.commit(durability) {
            Err(kv::Error::Conflict { held_by: None, .. }) => {}
            committed => {
                let touched = logs.iter().flat_map(|log| log.touched.values());
                return committed.map_err(|error| named(error, touched));
            }
        }
    }
    let writer = store.exclusive()?;
    let now = store.snapshot()?;
    let mut target = Target::Alone(writer);
    apply_all(logs, &now, &mut target)?;
    match target {
        Target::Alone(writer) => Ok(writer.commit(durability)?),
        Target::Beside(tx) => Ok(tx.commit(durability)?),
    }
}

/// What is written to.
enum Target {
    Beside(kv::Transaction),
    Alone(Exclusive),
}

impl Target {
    fn set(&mut self, space: kv::Keyspace, key: &[u8], value: Option<&[u8]>) -> Result<(), Error> {
        match (self, value) {
            (Target::Beside(tx), Some(value)) => tx.put(space, key, value)?,
            (Target::Beside(tx), None) => tx.remove(space, key)?,
            (Target::Alone(writer), Some(value)) => drop(writer.put(space, key, value)?),
            (Target::Alone(writer), None) => drop(writer.remove(space, key)?),
        }
        Ok(())
    }
}

fn apply_all(logs: &mut [WriteLog], now: &Snapshot, target: &mut Target) -> Result<(), Error> {
    for log in logs {
        let numbers: Vec<u32> = log.touched.keys().copied().collect();
        for number in numbers {
            apply(log, number, now, target)?;
        }
    }
    Ok(())
}

/// Writes what a transaction has done to one device.
fn apply(
    log: &mut WriteLog,
    number: u32,
    now: &Snapshot,
    target: &mut Target,
) -> Result<(), Error> {
    let spaces = log.shared.spaces;
    let Some(touched) = log.touched.get(&number) else { return Ok(()) };
    let image = touched.device.image(now.clone())?;
    let shape = new_shape(log, touched, &image)?;
    if touched.length.cut < BLOCK_COUNT_MAX {
        for block in image.stored(touched.length.cut..BLOCK_COUNT_MAX, false)? {
            let key = block_key(number, block);
            if !log.dirty.contains_key(&key) {
                target.set(spaces.blocks, &key, None)?;
            }
        }
    }
    break_runs(log, touched, &image, target)?;
    if shape != image.shape {
        target.set(spaces.devices, touched.device.name().as_bytes(), Some(&shape.encode()))?;
    }
    for (block, dirty) in
        log.dirty_of(number).map(|(block, dirty)| (block, dirty.clone())).collect::<Vec<_>>()
    {
        let key = block_key(number, block);
        let mut own = || -> Result<Vec<u8>, Error> {
            let own = log.inner.get(spaces.blocks, &key)?;
            own.ok_or(Error::Damaged { what: "a block that a transaction has logged" })
        };
        match dirty {
            Dirty::Whole => target.set(spaces.blocks, &key, Some(&own()?))?,
            Dirty::Zero => {
                let hides = shape.has_origin_at(block);
                target.set(spaces.blocks, &key, hides.then_some(&[]))?;
            }
            Dirty::Part(ranges) => {
                let mut bytes = image.block_bytes(block)?;
                ranges.copy(&own()?, &mut bytes);
                target.set(spaces.blocks, &key, Some(&bytes))?;
            }
        }
    }
    Ok(())
}

/// Removes runs of which blocks become zero or are cut off, or all are written, and puts the blocks by themselves that show
/// something of them afterwards.
fn break_runs(
    log: &WriteLog,
    touched: &Touched,
    image: &Image,
    target: &mut Target,
) -> Result<(), Error> {
    let (shape, cut) = (&image.shape, touched.length.cut);
    if shape.run_blocks == 1 {
        return Ok(());
    }
    // Of each run how many blocks are written, and whether one of them becomes zero.
    let mut runs: BTreeMap<u64, (u64, bool)> = BTreeMap::new();
    for (block, dirty) in log.dirty_of(shape.number) {
        let run = runs.entry(block - block % shape.run_blocks).or_default();
        *run = (run.0 + 1, run.1 || *dirty == Dirty::Zero);
    }
    let all_or_zero = |(first, (count, has_zero)): (u64, (u64, bool))| {
        (has_zero || count == shape.run_blocks).then_some(first)
    };
    let mut broken: BTreeSet<u64> = runs.into_iter().filter_map(all_or_zero).collect();
    if cut < BLOCK_COUNT_MAX {
        // The end may lie within the first.
        broken.extend(image.runs(cut - cut % shape.run_blocks..BLOCK_COUNT_MAX)?);
    }
    let blocks = log.shared.spaces.blocks;
    for first in broken {
        if !image.has_run(first)? {
            continue;
        }
        target.set(blocks, &run_key(shape.number, first), None)?;
        let all = first..first + shape.run_blocks;
        let single = image.single(all.clone())?;
        for block in all.filter(|block| *block < cut && !single.contains(block)) {
            let key = block_key(shape.number, block);
            if !log.dirty.contains_key(&key) {
                target.set(blocks, &key, Some(&image.block_bytes(block)?))?;
            }
        }
    }
    Ok(())
}

/// The shape that the device gets, if the transaction may commit.
fn new_shape(log: &WriteLog, touched: &Touched, image: &Image) -> Result<Shape, Error> {
    let Touched { device, length, .. } = touched;
    if log.isolation == Isolation::FirstCommitter {
        if length.changes() && image.shape != touched.image.shape {
            return Err(conflict(touched, image.shape.blocks()));
        }
        let changed = image.changed_since(&touched.image)?;
        let is_mine =
            |block: &&u64| log.dirty.contains_key(&block_key(image.shape.number, **block));
        if let Some(block) = changed.iter().find(is_mine) {
            return Err(conflict(touched, *block));
        }
    }
    let mut shape = changed_shape(image.shape.clone(), touched);
    let size = shape.block_size as u64;
    // A transaction beside it may have cut off what this one has written to.
    let written = log.dirty_of(shape.number).filter(|(_, dirty)| **dirty != Dirty::Zero);
    if let Some(last) = written.map(|(block, _)| block).next_back()
        && last >= shape.blocks()
    {
        if log.isolation == Isolation::FirstCommitter {
            return Err(conflict(touched, last));
        }
        if !shape.grows {
            let (name, offset) = (device.name().into(), last * size);
            return Err(Error::OutOfRange { name, offset, len: size, size: shape.len });
        }
        shape.len = touched.image.shape.len.max(length.len).min((last + 1) * size);
    }
    Ok(shape)
}
