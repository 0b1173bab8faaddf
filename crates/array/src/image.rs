//! One version of a device: its blocks, and those of what it was cloned from.

use std::ops::Bound;

use tembo_kv::{Direction, Error as StoreError, Snapshot, Store, Value};

use crate::Error;
use crate::format::{block_key, block_of};
use crate::shape::{Shape, Spaces};

/// A device at one version, readable while it lives.
#[derive(Clone)]
pub(crate) struct Image {
    pub(crate) spaces: Spaces,
    pub(crate) shape: Shape,
    pub(crate) snapshot: Snapshot,
    /// Those of the origins, in their order.
    origins: Vec<Snapshot>,
}

/// The record of a device of that name, in a snapshot.
pub(crate) fn shape_in(
    snapshot: &Snapshot,
    spaces: Spaces,
    name: &str,
) -> Result<Option<Shape>, Error> {
    let value = match snapshot.get(spaces.devices, name.as_bytes()) {
        // There were no devices then.
        Err(StoreError::NoSuchKeyspace { .. }) => None,
        value => value?,
    };
    value.map(|value| Shape::decode(&value)).transpose()
}

impl Image {
    /// The device of that name, which has that shape in a snapshot.
    ///
    /// # Errors
    /// [`Error::OriginLost`]; damage.
    pub(crate) fn new(
        store: &Store,
        snapshot: Snapshot,
        spaces: Spaces,
        (name, shape): (&str, Shape),
    ) -> Result<Image, Error> {
        let origin = |version| match store.snapshot_at(version) {
            Err(StoreError::NotRetained { version }) => {
                Err(Error::OriginLost { name: name.into(), version })
            }
            snapshot => Ok(snapshot?),
        };
        let origins: Result<_, Error> =
            shape.origins.iter().map(|known| origin(known.version)).collect();
        Ok(Image { spaces, shape, snapshot, origins: origins? })
    }

    /// The versions that it reads of what it was cloned from.
    pub(crate) fn origins(&self) -> &[Snapshot] {
        &self.origins
    }

    /// Calls `with` with a block; `None`: it is zero.
    ///
    /// # Errors
    /// Damage.
    pub(crate) fn block<T>(
        &self,
        block: u64,
        with: impl FnOnce(Option<Value<'_>>) -> T,
    ) -> Result<T, Error> {
        let own = self.snapshot.get(self.spaces.blocks, &block_key(self.shape.number, block))?;
        if own.is_some() {
            return Ok(with(self.sound(own)?));
        }
        for (origin, snapshot) in self.shape.origins.iter().zip(&self.origins) {
            if block < origin.blocks {
                let value = snapshot.get(self.spaces.blocks, &block_key(origin.number, block))?;
                if value.is_some() {
                    return Ok(with(self.sound(value)?));
                }
            }
        }
        Ok(with(None))
    }

    /// A block as it stands in the store: whole, or of no bytes where zeros hide the block of an origin.
    fn sound<'v>(&self, value: Option<Value<'v>>) -> Result<Option<Value<'v>>, Error> {
        match value {
            Some(value) if value.is_empty() => Ok(None),
            Some(value) if value.len() != self.shape.block_size => {
                Err(Error::Damaged { what: "a block of a device" })
            }
            value => Ok(value),
        }
    }

    /// A block, copied.
    pub(crate) fn block_bytes(&self, block: u64) -> Result<Vec<u8>, Error> {
        let size = self.shape.block_size;
        self.block(block, |value| value.map_or_else(|| vec![0; size], |value| value.to_vec()))
    }

    /// Copies a part of a block, from `start` on.
    pub(crate) fn read_part(&self, block: u64, start: usize, to: &mut [u8]) -> Result<(), Error> {
        self.block(block, |value| {
            let part = value.and_then(|value| value.slice(start..start + to.len()));
            match part {
                Some(part) => part.copy_to(to),
                None => to.fill(0),
            }
        })
    }

    /// Reads from `offset` on; how many bytes: fewer than asked for at the end of the device.
    pub(crate) fn read_at(&self, offset: u64, to: &mut [u8]) -> Result<usize, Error> {
        let left = self.shape.len.saturating_sub(offset);
        let len = usize::try_from(left).map_or(to.len(), |left| left.min(to.len()));
        each_part(self.shape.block_size, offset, len, |block, start, part| {
            self.read_part(block, start, &mut to[part])
        })?;
        Ok(len)
    }

    /// The blocks within a range that are stored: of the device itself, or of its origins too. In order.
    pub(crate) fn stored(
        &self,
        blocks: std::ops::Range<u64>,
        with_origins: bool,
    ) -> Result<Vec<u64>, Error> {
        let mut found = Vec::new();
        own_blocks(&self.snapshot, self.spaces, (self.shape.number, &blocks), &mut found)?;
        if with_origins {
            for (origin, snapshot) in self.shape.origins.iter().zip(&self.origins) {
                let blocks = blocks.start..blocks.end.min(origin.blocks);
                own_blocks(snapshot, self.spaces, (origin.number, &blocks), &mut found)?;
            }
            found.sort_unstable();
            found.dedup();
        }
        Ok(found)
    }

    /// The blocks that this version and an earlier one of the same device may have different, in order.
    pub(crate) fn changed_since(&self, before: &Image) -> Result<Vec<u64>, Error> {
        let number = self.shape.number;
        let all = block_key(number, 0).to_vec()..=block_key(number, u64::MAX).to_vec();
        let keys = self.snapshot.changed_keys::<[u8]>(
            &before.snapshot,
            self.spaces.blocks,
            (Bound::Included(&all.start()[..]), Bound::Included(&all.end()[..])),
        )?;
        let mut blocks: Vec<u64> = keys.iter().filter_map(|key| Some(block_of(key)?.1)).collect();
        // What a cut has hidden of the origins.
        let reach = |image: &Image| {
            image.shape.origins.iter().map(|origin| origin.blocks).max().unwrap_or(0)
        };
        let (now, then) = (reach(self), reach(before));
        if now < then {
            blocks.extend(before.stored(now..then, true)?);
            blocks.sort_unstable();
            blocks.dedup();
        }
        Ok(blocks)
    }
}

/// The blocks of a device in a range that a snapshot has.
fn own_blocks(
    snapshot: &Snapshot,
    spaces: Spaces,
    (number, blocks): (u32, &std::ops::Range<u64>),
    found: &mut Vec<u64>,
) -> Result<(), Error> {
    let Some(last) = blocks.end.checked_sub(1).filter(|last| *last >= blocks.start) else {
        return Ok(());
    };
    let (from, to) = (block_key(number, blocks.start), block_key(number, last));
    let range = (Bound::Included(&from[..]), Bound::Included(&to[..]));
    let visited =
        snapshot.range_with::<[u8]>(spaces.blocks, range, Direction::Forward, &mut |key, _| {
            found.extend(block_of(key).map(|(_, block)| block));
            true
        });
    match visited {
        Err(StoreError::NoSuchKeyspace { .. }) => Ok(()),
        visited => Ok(visited?),
    }
}

/// Calls `visit` for each block that a range of bytes touches: its number, where in it the range begins, and which part of the
/// range lies in it.
pub(crate) fn each_part(
    block_size: usize,
    offset: u64,
    len: usize,
    mut visit: impl FnMut(u64, usize, std::ops::Range<usize>) -> Result<(), Error>,
) -> Result<(), Error> {
    let mut done = 0;
    while done < len {
        let at = offset + done as u64;
        let start = (at % block_size as u64) as usize;
        let end = len.min(done + block_size - start);
        visit(at / block_size as u64, start, done..end)?;
        done = end;
    }
    Ok(())
}
