//! One version of a device: its blocks, and those of what it was cloned from.

use std::ops::Bound;

use tembo_kv::{Direction, Error as StoreError, Snapshot, Store, Value};

use crate::Error;
use crate::format::{ORIGIN_PREFIX, RUNS_FROM, UNMARKED, block_key, block_of, run_key};
use crate::shape::{Origin, Shape, Spaces};

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

/// Whether a store has a name that keeps a version for clones.
pub(crate) fn is_named(store: &Store, version: u64) -> bool {
    let name = format!("{ORIGIN_PREFIX}{version}");
    store.snapshots().contains(&(name, version))
}

/// What a clone reads of an origin. A version of another store, from which a backup came, is not read, though this one has a
/// version of that number, too. Of an origin without a mark a name says whether it is this store's: a backup has no names.
///
/// # Errors
/// [`StoreError::NotRetained`]; those of the store.
pub(crate) fn origin_in(
    store: &Store,
    spaces: Spaces,
    origin: &Origin,
) -> Result<Snapshot, StoreError> {
    let version = origin.version;
    let is_ours = match origin.mark {
        UNMARKED => is_named(store, version),
        mark => mark == spaces.mark,
    };
    if is_ours { store.snapshot_at(version) } else { Err(StoreError::NotRetained { version }) }
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
        let of = |origin: &Origin| match origin_in(store, spaces, origin) {
            Err(StoreError::NotRetained { version }) => {
                Err(Error::OriginLost { name: name.into(), version })
            }
            snapshot => Ok(snapshot?),
        };
        let origins: Result<_, Error> = shape.origins.iter().map(of).collect();
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
        let mut found = self.stored_at(&self.snapshot, self.shape.number, block)?;
        for (origin, snapshot) in self.shape.origins.iter().zip(&self.origins) {
            if found.is_none() && block < origin.blocks {
                found = self.stored_at(snapshot, origin.number, block)?;
            }
        }
        Ok(with(found.flatten()))
    }

    /// What a device itself has of a block in a snapshot: one by itself, or as a part of a run, over which the former lies.
    /// `None`: nothing. `Some(None)`: it is zero.
    fn stored_at<'s>(
        &self,
        snapshot: &'s Snapshot,
        number: u32,
        block: u64,
    ) -> Result<Option<Option<Value<'s>>>, Error> {
        let value = snapshot.get(self.spaces.blocks, &block_key(number, block))?;
        if let Some(value) = value {
            // Of no bytes: zeros hide the block of an origin.
            return match value.len() {
                0 => Ok(Some(None)),
                size if size == self.shape.block_size => Ok(Some(Some(value))),
                _ => Err(Error::Damaged { what: "a block of a device" }),
            };
        }
        let Some(first) = self.shape.run_of(block) else { return Ok(None) };
        let Some(run) = self.run_at(snapshot, number, first)? else { return Ok(None) };
        let start = (block - first) as usize * self.shape.block_size;
        Ok(Some(run.slice(start..start + self.shape.block_size)))
    }

    /// The run of a device that begins with a block.
    fn run_at<'s>(
        &self,
        snapshot: &'s Snapshot,
        number: u32,
        first: u64,
    ) -> Result<Option<Value<'s>>, Error> {
        match snapshot.get(self.spaces.blocks, &run_key(number, first))? {
            Some(run) if run.len() != self.shape.run_size() => {
                Err(Error::Damaged { what: "a run of blocks of a device" })
            }
            run => Ok(run),
        }
    }

    /// Whether the device itself has a run that begins with a block.
    pub(crate) fn has_run(&self, first: u64) -> Result<bool, Error> {
        Ok(self.run_at(&self.snapshot, self.shape.number, first)?.is_some())
    }

    /// The first blocks of the device's own runs within a range that begins with one.
    pub(crate) fn runs(&self, blocks: std::ops::Range<u64>) -> Result<Vec<u64>, Error> {
        let mut found = Vec::new();
        if self.shape.run_blocks > 1 {
            let keys = RUNS_FROM + blocks.start..RUNS_FROM + blocks.end.min(RUNS_FROM);
            keys_of(&self.snapshot, self.spaces, (self.shape.number, &keys), &mut found)?;
        }
        Ok(found.into_iter().map(|key| key - RUNS_FROM).collect())
    }

    /// The device's own blocks within a range that are stored one by one.
    pub(crate) fn single(&self, blocks: std::ops::Range<u64>) -> Result<Vec<u64>, Error> {
        let mut found = Vec::new();
        keys_of(&self.snapshot, self.spaces, (self.shape.number, &blocks), &mut found)?;
        Ok(found)
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
        if self.shape.run_blocks == 1 {
            self.read_blocks(offset, &mut to[..len])?;
            return Ok(len);
        }
        each_part(self.shape.run_size(), offset, len, |run, start, part| {
            let at = offset + part.start as u64;
            let to = &mut to[part];
            if to.len() <= self.shape.block_size || !self.read_run(run, start, to)? {
                self.read_blocks(at, to)?;
            }
            Ok(())
        })?;
        Ok(len)
    }

    /// Reads block by block.
    fn read_blocks(&self, offset: u64, to: &mut [u8]) -> Result<(), Error> {
        each_part(self.shape.block_size, offset, to.len(), |block, start, part| {
            self.read_part(block, start, &mut to[part])
        })
    }

    /// Reads a part of the device's own run of that number, if it is there and no block lies over it.
    fn read_run(&self, run: u64, start: usize, to: &mut [u8]) -> Result<bool, Error> {
        let first = run * self.shape.run_blocks;
        let Some(value) = self.run_at(&self.snapshot, self.shape.number, first)? else {
            return Ok(false);
        };
        if !self.single(first..first + self.shape.run_blocks)?.is_empty() {
            return Ok(false);
        }
        if let Some(part) = value.slice(start..start + to.len()) {
            part.copy_to(to);
        }
        Ok(true)
    }

    /// The blocks within a range that are stored: of the device itself, or of its origins too. In order.
    pub(crate) fn stored(
        &self,
        blocks: std::ops::Range<u64>,
        with_origins: bool,
    ) -> Result<Vec<u64>, Error> {
        let mut found = Vec::new();
        self.own_blocks(&self.snapshot, (self.shape.number, &blocks), &mut found)?;
        if with_origins {
            for (origin, snapshot) in self.shape.origins.iter().zip(&self.origins) {
                let blocks = blocks.start..blocks.end.min(origin.blocks);
                self.own_blocks(snapshot, (origin.number, &blocks), &mut found)?;
            }
        }
        if with_origins || self.shape.run_blocks > 1 {
            found.sort_unstable();
            found.dedup();
        }
        Ok(found)
    }

    /// The blocks of a device in a range that a snapshot has, in any order, and some twice.
    fn own_blocks(
        &self,
        snapshot: &Snapshot,
        (number, blocks): (u32, &std::ops::Range<u64>),
        found: &mut Vec<u64>,
    ) -> Result<(), Error> {
        let Some(first) = self.shape.run_of(blocks.start) else {
            return keys_of(snapshot, self.spaces, (number, blocks), found);
        };
        let end = blocks.end.min(RUNS_FROM);
        keys_of(snapshot, self.spaces, (number, &(blocks.start..end)), found)?;
        let mut runs = Vec::new();
        let keys = RUNS_FROM + first..RUNS_FROM + end;
        keys_of(snapshot, self.spaces, (number, &keys), &mut runs)?;
        let all = runs.into_iter().flat_map(|run| self.blocks_of(run));
        found.extend(all.filter(|block| blocks.contains(block)));
        Ok(())
    }

    /// The blocks that the number in a key stands for.
    fn blocks_of(&self, key: u64) -> std::ops::Range<u64> {
        match key.checked_sub(RUNS_FROM) {
            Some(first) if self.shape.run_blocks > 1 => first..first + self.shape.run_blocks,
            _ => key..key + 1,
        }
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
        let mut blocks: Vec<u64> = keys
            .iter()
            .filter_map(|key| Some(self.blocks_of(block_of(key)?.1)))
            .flatten()
            .collect();
        if self.shape.run_blocks > 1 {
            blocks.sort_unstable();
            blocks.dedup();
        }
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

/// The numbers in the keys of a device, within a range, that a snapshot has.
fn keys_of(
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
