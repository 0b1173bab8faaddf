//! Images, copied into a device and out of it.

use std::fs::{File, OpenOptions};
use std::io::{self, Read};
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::Path;

use anyhow::Context;
use tembo_array::{Array, DeviceOptions, DeviceSnapshot, Isolation};
use tembo_kv::Durability;

use crate::exit::{Exit, refuse};
use crate::files::COPIED;

/// Copies an image into a device that is made, in one transaction; how many bytes take space.
pub(super) fn import(
    array: &Array,
    name: &str,
    options: DeviceOptions,
    path: &Path,
) -> anyhow::Result<u64> {
    let mut source: Box<dyn Read> = match path.as_os_str() == "-" {
        true => Box::new(io::stdin().lock()),
        false => Box::new(File::open(path).with_context(|| format!("opening {}", path.display()))?),
    };
    let device = array.create(name, options)?;
    let copied = (|| {
        let mut tx = array.transaction(Isolation::FirstCommitter)?;
        let (mut buffer, mut at, mut bytes) = (vec![0; COPIED], 0, 0);
        loop {
            let len = filled(&mut *source, &mut buffer)?;
            if len == 0 {
                break;
            }
            tx.set_len(&device, at + len as u64)?;
            for block in buffer[..len].chunks(options.block_size) {
                if block.iter().any(|byte| *byte != 0) {
                    tx.write(&device, at, block)?;
                    bytes += block.len() as u64;
                }
                at += block.len() as u64;
            }
        }
        tx.commit(Durability::Strict)?;
        Ok(bytes)
    })();
    if copied.is_err() {
        // What is reported is why: an empty device may be left.
        let _ = array.remove(&device);
    }
    copied
}

/// Reads until the buffer is full or the source ends; how many bytes.
fn filled(source: &mut dyn Read, buffer: &mut [u8]) -> anyhow::Result<usize> {
    let mut len = 0;
    while len < buffer.len() {
        match source.read(&mut buffer[len..]) {
            Ok(0) => break,
            Ok(read) => len += read,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(len)
}

/// Copies a device to a file that is made, with holes where nothing is stored; how many bytes.
pub(super) fn export(device: &DeviceSnapshot, path: &Path) -> anyhow::Result<u64> {
    let file = match File::create_new(path) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            return refuse(Exit::Exists, format!("{} exists", path.display()));
        }
        file => file.with_context(|| format!("creating {}", path.display()))?,
    };
    let copied = write_ranges(device, &device.stored()?, &file);
    if copied.is_err() {
        // What is reported is why; the file is not whole.
        let _ = std::fs::remove_file(path);
    }
    copied.with_context(|| format!("writing {}", path.display()))
}

/// Writes the ranges that have changed to a file that holds the rest; how many bytes.
pub(super) fn update(
    device: &DeviceSnapshot,
    changed: &[Range<u64>],
    path: &Path,
) -> anyhow::Result<u64> {
    let file = OpenOptions::new().write(true).open(path);
    let file = file.with_context(|| format!("opening {}", path.display()))?;
    write_ranges(device, changed, &file).with_context(|| format!("writing {}", path.display()))
}

fn write_ranges(
    device: &DeviceSnapshot,
    ranges: &[Range<u64>],
    file: &File,
) -> anyhow::Result<u64> {
    file.set_len(device.len())?;
    let (mut buffer, mut bytes) = (vec![0; COPIED], 0);
    for range in ranges {
        let mut at = range.start;
        while at < range.end {
            let part = usize::try_from(range.end - at).map_or(COPIED, |left| left.min(COPIED));
            let len = device.read_at(at, &mut buffer[..part])?;
            if len == 0 {
                break;
            }
            file.write_all_at(&buffer[..len], at)?;
            (at, bytes) = (at + len as u64, bytes + len as u64);
        }
    }
    file.sync_all()?;
    Ok(bytes)
}
