//! A write by itself, to blocks that a device has: made in place, without a log of its own.
//!
//! The bytes go from the caller's buffer to where they stay. What a transaction would do first, copy them into its memory, and
//! at its commit into that of the store's, takes longer than all the rest.

use std::borrow::Cow;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use tembo_kv::Durability;

use crate::format::block_key;
use crate::image::each_part;
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
    let (number, size) = (image.shape.number, image.shape.block_size);
    let mut blocks: Vec<([u8; 8], Cow<'_, [u8]>)> = Vec::with_capacity(data.len() / size + 2);
    each_part(size, offset, data.len(), |block, start, part| {
        let part = &data[part];
        let whole = if part.len() == size {
            Cow::Borrowed(part)
        } else {
            let mut whole = image.block_bytes(block)?;
            whole[start..start + part.len()].copy_from_slice(part);
            Cow::Owned(whole)
        };
        blocks.push((block_key(number, block), whole));
        Ok(())
    })?;
    // What the commit unlinks is free at once, unless another reads it.
    drop(image);
    let puts: Vec<(&[u8], &[u8])> =
        blocks.iter().map(|(key, whole)| (&key[..], &whole[..])).collect();
    writer.put_all(spaces.blocks, &puts)?;
    let version = writer.commit(durability)?;
    Ok(Some(Committed::new(shared, version)))
}
