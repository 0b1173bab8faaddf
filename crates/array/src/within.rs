//! A write by itself, to blocks that a device has: made in place, without a log of its own.
//!
//! The bytes go from the caller's buffer to where they stay. What a transaction would do first, copy them into its memory, and
//! at its commit into that of the store's, takes longer than all the rest.

use std::borrow::Cow;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use tembo_kv::Durability;

use crate::format::{block_key, run_key};
use crate::image::{Image, each_part};
use crate::shape::Shape;
use crate::shared::Shared;
use crate::transaction::Committed;
use crate::{Device, Error};

/// Writes `data` at `offset`, whole or not at all. `None`: some of it lies behind the end, and nothing has changed.
///
/// Durability point: as `durability` says, capped by the store's sync policy.
pub(crate) fn write_within(
    shared: &Arc<Shared>,
    device: &Device,
    (offset, data): (u64, &[u8]),
    durability: Durability,
) -> Result<Option<Committed>, Error> {
    let (bytes, max) = (data.len() as u64, shared.log_max.load(Ordering::Relaxed));
    if bytes == 0 || bytes > max {
        // What is to be said of that the transaction says.
        return Ok(None);
    }
    let Shared { store, spaces, .. } = &**shared;
    let _held = device.latch().hold(false);
    // No other version comes between what is read of blocks that are written in part, and the commit.
    let mut writer = store.exclusive()?;
    let image = device.image(store.snapshot()?)?;
    if offset.checked_add(bytes).is_none_or(|end| end > image.shape.len) {
        return Ok(None);
    }
    let number = image.shape.number;
    let mut writes = Writes::default();
    if image.shape.run_blocks > 1 {
        let run_size = image.shape.run_size();
        each_part(run_size, offset, data.len(), |run, _, part| match part.len() == run_size {
            true => {
                writes.put_run(&image.shape, run, &data[part]);
                Ok(())
            }
            false => writes.put_blocks(&image, offset + part.start as u64, &data[part]),
        })?;
    } else {
        writes.put_blocks(&image, offset, data)?;
    }
    let Writes { puts: blocks, runs } = writes;
    // Those that stand by themselves would lie over the runs.
    let (first, end) = (runs.start * image.shape.run_blocks, runs.end * image.shape.run_blocks);
    let removed = if runs.is_empty() { Vec::new() } else { image.single(first..end)? };
    // What the commit unlinks is free at once, unless another reads it.
    drop(image);
    let puts: Vec<(&[u8], &[u8])> =
        blocks.iter().map(|(key, whole)| (&key[..], &whole[..])).collect();
    writer.put_all(spaces.blocks, &puts)?;
    for block in removed {
        writer.remove(spaces.blocks, &block_key(number, block))?;
    }
    let version = writer.commit(durability)?;
    Ok(Some(Committed::new(shared, version)))
}

/// What a write puts, and which runs, by their numbers, are among it.
#[derive(Default)]
struct Writes<'d> {
    puts: Vec<([u8; 8], Cow<'d, [u8]>)>,
    runs: Range<u64>,
}

impl<'d> Writes<'d> {
    /// All blocks of the next run, as one object.
    fn put_run(&mut self, shape: &Shape, run: u64, data: &'d [u8]) {
        let first = run * shape.run_blocks;
        self.puts.push((run_key(shape.number, first), Cow::Borrowed(data)));
        let begin = if self.runs.is_empty() { run } else { self.runs.start };
        self.runs = begin..run + 1;
    }

    /// Blocks by themselves.
    fn put_blocks(&mut self, image: &Image, offset: u64, data: &'d [u8]) -> Result<(), Error> {
        let (number, size) = (image.shape.number, image.shape.block_size);
        self.puts.reserve(data.len() / size + 2);
        each_part(size, offset, data.len(), |block, start, part| {
            let part = &data[part];
            let whole = if part.len() == size {
                Cow::Borrowed(part)
            } else {
                let mut whole = image.block_bytes(block)?;
                whole[start..start + part.len()].copy_from_slice(part);
                Cow::Owned(whole)
            };
            self.puts.push((block_key(number, block), whole));
            Ok(())
        })
    }
}
