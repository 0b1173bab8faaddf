//! Named snapshots as trees below `.tembo/snapshots`, and the inode numbers that the kernel knows them by.
//!
//! ```text
//!  63 62        48 47                     0
//!  +--+-----------+-----------------------+
//!  |0 | number of an inode, as it is now  |
//!  |1 | snapshot  | number of its inode   |   snapshot 0: the two folders above
//!  +--+-----------+-----------------------+
//! ```

use std::sync::{Mutex, MutexGuard, PoisonError};

use tembo_fs::{Error, Fs, Inode, ROOT, Tree};
use tembo_kv::Snapshot;

/// The folder in the root, which no listing shows.
pub(crate) const CONTROL_NAME: &[u8] = b".tembo";
const SNAPSHOTS_NAME: &[u8] = b"snapshots";

const PAST: u64 = 1 << 63;
const SLOT_SHIFT: u32 = 48;
const SLOT_MAX: usize = (1 << 15) - 2;

const CONTROL: u64 = PAST | 1;
pub(crate) const SNAPSHOTS: u64 = PAST | 2;

/// What an inode number of the kernel stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// An inode, as it is now.
    Now(u64),
    /// `.tembo`.
    Control,
    /// `.tembo/snapshots`.
    Snapshots,
    /// An inode of a snapshot.
    Past(usize, u64),
}

pub(crate) fn place(number: u64) -> Place {
    if number & PAST == 0 {
        return Place::Now(number);
    }
    let slot = (number & !PAST) >> SLOT_SHIFT;
    match (number, slot.checked_sub(1)) {
        (CONTROL, _) => Place::Control,
        (_, Some(slot)) => Place::Past(slot as usize, number & ((1 << SLOT_SHIFT) - 1)),
        (_, None) => Place::Snapshots,
    }
}

/// A snapshot that was looked at.
struct Slot {
    name: Vec<u8>,
    version: u64,
    snapshot: Snapshot,
}

/// The snapshots that were looked at. They are held while it lives.
#[derive(Default)]
pub(crate) struct Past(Mutex<Vec<Slot>>);

impl Past {
    fn slots(&self) -> MutexGuard<'_, Vec<Slot>> {
        // A panic leaves every slot whole.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The number that an inode of a place has for the kernel.
    pub(crate) fn number(place: Place, inode: u64) -> u64 {
        match place {
            Place::Past(slot, _) => PAST | (slot as u64 + 1) << SLOT_SHIFT | inode,
            _ => inode,
        }
    }

    /// The tree that a place is in; `None`: it is one of the two folders.
    pub(crate) fn tree(
        &self,
        fs: &Fs,
        place: Place,
    ) -> Result<Option<(Tree<Snapshot>, u64)>, Error> {
        match place {
            Place::Now(number) => Ok(Some((fs.snapshot()?, number))),
            Place::Control | Place::Snapshots => Ok(None),
            Place::Past(slot, inode) => {
                let slots = self.slots();
                let slot = slots.get(slot).ok_or(Error::NoSuchInode { inode })?;
                Ok(Some((fs.tree(slot.snapshot.clone()), inode)))
            }
        }
    }

    /// What the kernel knows one of the two folders as: it belongs to the owner of the root.
    pub(crate) fn folder(fs: &Fs, place: Place) -> Result<Inode, Error> {
        let mut folder = fs.snapshot()?.inode(ROOT)?;
        (folder.number, folder.links) =
            if place == Place::Control { (CONTROL, 3) } else { (SNAPSHOTS, 2) };
        (folder.permissions, folder.size, folder.attributes) = (0o755, 0, 0);
        Ok(folder)
    }

    /// What one of the folders has under a name: the place.
    pub(crate) fn lookup(&self, fs: &Fs, folder: Place, name: &[u8]) -> Result<Place, Error> {
        let missing = || Error::NoSuchName { directory: ROOT, name: name.to_vec() };
        if folder == Place::Control {
            return if name == SNAPSHOTS_NAME { Ok(Place::Snapshots) } else { Err(missing()) };
        }
        let all = fs.store().snapshots();
        let found = all.into_iter().find(|(other, _)| other.as_bytes() == name);
        let version = found.ok_or_else(missing)?.1;
        let mut slots = self.slots();
        let is_same = |slot: &Slot| slot.name == name && slot.version == version;
        if let Some(slot) = slots.iter().position(is_same) {
            return Ok(Place::Past(slot, ROOT));
        }
        if slots.len() >= SLOT_MAX {
            return Err(missing());
        }
        let snapshot = fs.store().snapshot_at(version)?;
        slots.push(Slot { name: name.to_vec(), version, snapshot });
        Ok(Place::Past(slots.len() - 1, ROOT))
    }

    /// The names that one of the folders lists.
    pub(crate) fn names(fs: &Fs, folder: Place) -> Vec<Vec<u8>> {
        if folder == Place::Control {
            return vec![SNAPSHOTS_NAME.to_vec()];
        }
        fs.store().snapshots().into_iter().map(|(name, _)| name.into_bytes()).collect()
    }
}
