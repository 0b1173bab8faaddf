//! The inode numbers that the kernel knows files by.
//!
//! ```text
//!  63 62 61      48 47       40 39                       0
//!  +--+--+---------+-----------+--------------------------+
//!  |0 | number of an inode, as it is now                   |
//!  |1 |0 | snapshot | number of its inode                  |   snapshot 0: the folders of `.tembo`
//!  |1 |1 | transaction          | number of its inode      |
//!  +--+--+----------------------+--------------------------+
//! ```
//!
//! A file has another number in each transaction, and so the kernel another cache for its bytes.

use fuser::{Errno, INodeNo};

const SPECIAL: u64 = 1 << 63;
const OF_VIEW: u64 = 1 << 62;
const SLOT_SHIFT: u32 = 48;
const VIEW_SHIFT: u32 = 40;

/// Snapshots that can be looked at.
pub(crate) const SLOT_MAX: usize = (1 << (62 - SLOT_SHIFT)) - 2;

/// Numbers of transactions, after which they begin again.
pub(crate) const VIEW_MAX: u64 = 1 << (62 - VIEW_SHIFT);

/// What an inode number of the kernel stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// An inode, as it is now.
    Now(u64),
    /// `.tembo`.
    Control,
    /// `.tembo/snapshots`.
    Snapshots,
    /// `.tembo/versions`.
    Versions,
    /// `.tembo/at`: the tree as it was at a time.
    At,
    /// `.tembo/transactions`.
    Transactions,
    /// `.tembo/version`: the number of the version that is visible.
    Version,
    /// `.tembo/begin`: opening it begins a transaction.
    Begin,
    /// An inode of a snapshot.
    Past(usize, u64),
    /// An inode in a transaction.
    View(u64, u64),
}

/// The numbers of what is in no tree.
const FIXED: [(Place, u64); 7] = [
    (Place::Control, SPECIAL | 1),
    (Place::Snapshots, SPECIAL | 2),
    (Place::Transactions, SPECIAL | 3),
    (Place::Begin, SPECIAL | 4),
    (Place::Versions, SPECIAL | 5),
    (Place::Version, SPECIAL | 6),
    (Place::At, SPECIAL | 7),
];

impl Place {
    /// What a number of the kernel stands for.
    pub(crate) fn of(number: INodeNo) -> Place {
        let number = number.0;
        if let Some(&(place, _)) = FIXED.iter().find(|&&(_, fixed)| fixed == number) {
            return place;
        }
        match (number & SPECIAL != 0, number & OF_VIEW != 0) {
            (false, _) => Place::Now(number),
            (true, false) => {
                let slot = (number & !SPECIAL) >> SLOT_SHIFT;
                // Slot 0 has fixed numbers only: another one leads to no snapshot.
                let slot = slot.checked_sub(1).map_or(usize::MAX, |slot| slot as usize);
                Place::Past(slot, number & ((1 << SLOT_SHIFT) - 1))
            }
            (true, true) => {
                let view = (number & !(SPECIAL | OF_VIEW)) >> VIEW_SHIFT;
                Place::View(view, number & ((1 << VIEW_SHIFT) - 1))
            }
        }
    }

    /// The number that it has for the kernel.
    ///
    /// # Errors
    /// `EOVERFLOW`: there are more inodes than numbers.
    pub(crate) fn number(self) -> Result<INodeNo, Errno> {
        let fitting = |inode: u64, shift: u32| match inode >> shift {
            0 => Ok(inode),
            _ => Err(Errno::EOVERFLOW),
        };
        let number = match self {
            Place::Now(inode) => fitting(inode, 63)?,
            Place::Past(slot, inode) => {
                SPECIAL | (slot as u64 + 1) << SLOT_SHIFT | fitting(inode, SLOT_SHIFT)?
            }
            Place::View(view, inode) => {
                SPECIAL | OF_VIEW | view << VIEW_SHIFT | fitting(inode, VIEW_SHIFT)?
            }
            fixed => FIXED.iter().find(|&&(place, _)| place == fixed).map_or(0, |found| found.1),
        };
        Ok(INodeNo(number))
    }

    /// Whether it is in no tree: `.tembo`, or one of what it has.
    pub(crate) fn is_control(self) -> bool {
        !matches!(self, Place::Now(_) | Place::Past(..) | Place::View(..))
    }

    /// Whether another is of the same tree.
    pub(crate) fn is_beside(self, other: Place) -> bool {
        self.beside(0) == other.beside(0)
    }

    /// Another inode of the same tree; of what is in no tree itself.
    pub(crate) fn beside(self, inode: u64) -> Place {
        match self {
            Place::Now(_) => Place::Now(inode),
            Place::Past(slot, _) => Place::Past(slot, inode),
            Place::View(view, _) => Place::View(view, inode),
            fixed => fixed,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_leads_back_to_its_place() {
        let some = [
            Place::Now(1),
            Place::Now(u64::MAX >> 1),
            Place::Control,
            Place::Snapshots,
            Place::Versions,
            Place::Version,
            Place::At,
            Place::Transactions,
            Place::Begin,
            Place::Past(0, 1),
            Place::Past(SLOT_MAX, (1 << SLOT_SHIFT) - 1),
            Place::View(0, 1),
            Place::View(VIEW_MAX - 1, (1 << VIEW_SHIFT) - 1),
        ];
        for place in some {
            assert_eq!(place.number().map(Place::of).ok(), Some(place));
        }
        assert!(Place::View(0, 1 << VIEW_SHIFT).number().is_err());
        assert!(Place::Past(0, 1 << SLOT_SHIFT).number().is_err());
    }
}
