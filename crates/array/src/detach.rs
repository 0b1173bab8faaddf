//! A clone that gets all blocks that it shows, and is a clone no longer.

use std::sync::Arc;

use tembo_kv::Durability;

use crate::Error;
use crate::device::Device;
use crate::format::{BLOCK_COUNT_MAX, block_key};
use crate::image::Image;
use crate::origins::drop_unused;
use crate::shared::Shared;

/// Bytes of blocks that are copied in one commit.
const BATCH: usize = 4 << 20;

/// Gives a clone blocks of its own; how many bytes were copied. What it shows is the same all along.
///
/// Durability point: when it returns.
pub(crate) fn detach(shared: &Arc<Shared>, device: &Device) -> Result<u64, Error> {
    let held = device.latch().hold(true);
    let pending = device.latch().pending();
    if pending > 0 {
        return Err(Error::Busy { name: device.name().into(), pending });
    }
    let image = device.image(shared.store.snapshot()?)?;
    if image.shape.origins.is_empty() {
        return Ok(0);
    }
    let copied = copy(shared, &image)?;
    drop(image);
    let (store, devices) = (&shared.store, shared.spaces.devices);
    // Nothing else writes to the device: other writers need not wait while it is looked through.
    let image = device.image(store.snapshot()?)?;
    let hidden = hidden(&image)?;
    let mut writer = store.exclusive()?;
    for block in hidden {
        writer.remove(shared.spaces.blocks, &block_key(device.number(), block))?;
    }
    let mut shape = image.shape.clone();
    shape.origins.clear();
    writer.put(devices, device.name().as_bytes(), &shape.encode())?;
    let version = writer.commit(Durability::Strict)?;
    device.saw(version, &shape);
    drop((held, image));
    drop_unused(shared);
    Ok(copied)
}

/// Copies the blocks that it shows of its origins; how many bytes.
fn copy(shared: &Shared, image: &Image) -> Result<u64, Error> {
    let (number, size) = (image.shape.number, image.shape.block_size);
    let own = image.stored(0..BLOCK_COUNT_MAX, false)?;
    let mut blocks = image.stored(0..BLOCK_COUNT_MAX, true)?;
    blocks.retain(|block| own.binary_search(block).is_err());
    let mut copied = 0;
    for blocks in blocks.chunks(BATCH / size) {
        let mut writer = shared.store.exclusive()?;
        for &block in blocks {
            let bytes = image.block(block, |value| value.map(|value| value.to_vec()))?;
            // What an origin has hidden is zero as it is.
            if let Some(bytes) = bytes {
                writer.put(shared.spaces.blocks, &block_key(number, block), &bytes)?;
                copied += size as u64;
            }
        }
        writer.commit(Durability::Buffered)?;
    }
    Ok(copied)
}

/// Its blocks that do nothing but hide those of an origin.
fn hidden(image: &Image) -> Result<Vec<u64>, Error> {
    let mut hidden = Vec::new();
    for block in image.single(0..image.shape.blocks())? {
        let lies_over_a_run = match image.shape.run_of(block) {
            Some(first) => image.has_run(first)?,
            None => false,
        };
        if !lies_over_a_run && image.block(block, |value| value.is_none())? {
            hidden.push(block);
        }
    }
    Ok(hidden)
}
