//! Layers: pieces under one number.
//!
//! A file has a layer of its own, which it writes to. A file that was cloned and its clone both lie on a shared layer, which
//! does not change: each shows it where it has no piece of its own. Shared layers lie on each other in the same way. A piece
//! hides all of its place in the layers below, also where it is short or empty: there the file is zero.

use tembo_kv::{Direction, Value};
use zerocopy::{FromBytes, IntoBytes};

use crate::Error;
use crate::access::{Reads, Writes};
use crate::format::{
    LAYERS_VERSION, LayerRecord, SUPERBLOCK_TAG, Superblock, USER_TAG, layer_key, user_in, user_key,
};
use crate::inode::{Below, Inode};
use crate::records::Records;

/// Shared layers that a file shows at most, one below the other.
pub(crate) const LAYERS_MAX: usize = 8;

/// Pieces that are looked through at a time.
const WINDOW: u64 = 1024;

/// A layer that has a record: each but those of files that were never cloned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Layer {
    /// Of the inode of that number, which says the rest.
    Own(u64),
    Shared {
        /// Pieces that are there.
        pieces: u64,
        below: Option<Below>,
    },
}

/// A layer of a file, and the end of what the file shows of it, in bytes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shown {
    pub(crate) layer: u64,
    pub(crate) end: u64,
}

impl Layer {
    pub(crate) fn of_bytes(bytes: &[u8]) -> Option<Layer> {
        let record = LayerRecord::read_from_bytes(bytes).ok()?;
        let (pieces, below) = (record.pieces.get(), Below::of_record(&record.below));
        Some(match record.owner.get() {
            0 => Layer::Shared { pieces, below },
            inode => Layer::Own(inode),
        })
    }

    fn to_record(self) -> LayerRecord {
        let (owner, pieces, below) = match self {
            Layer::Own(inode) => (inode, 0, None),
            Layer::Shared { pieces, below } => (0, pieces, below),
        };
        let below = Below::to_record(below);
        LayerRecord { owner: owner.into(), pieces: pieces.into(), below }
    }
}

impl Shown {
    /// The last piece that is shown, of those up to one; `None`: none is.
    fn last(&self, last: u64, piece_size: usize) -> Option<u64> {
        Some(last.min(self.end.checked_sub(1)? / piece_size as u64))
    }
}

impl<A: Reads> Records<A> {
    pub(crate) fn layer(&mut self, number: u64) -> Result<Option<Layer>, Error> {
        let layer = self.value(&layer_key(number), |value| value.with(Layer::of_bytes))?;
        match layer {
            Some(None) => Err(Error::Damaged { inode: number, what: "its layer cannot be read" }),
            found => Ok(found.flatten()),
        }
    }

    /// A layer that another lies on: how many pieces it has, and what it lies on itself.
    pub(crate) fn shared_layer(&mut self, number: u64) -> Result<(u64, Option<Below>), Error> {
        match self.layer(number)? {
            Some(Layer::Shared { pieces, below }) => Ok((pieces, below)),
            _ => Err(Error::Damaged { inode: number, what: "it is no shared layer" }),
        }
    }

    /// Whether a layer lies on this one.
    pub(crate) fn has_user(&mut self, number: u64) -> Result<bool, Error> {
        let mut found = false;
        self.tagged(&user_key(number, 0)[..9], &mut |_, _| {
            found = true;
            false
        })?;
        Ok(found)
    }

    /// Visits all pairs of a layer and one that lies on it.
    pub(crate) fn users(&mut self, visit: &mut dyn FnMut((u64, u64))) -> Result<(), Error> {
        self.tagged(&[USER_TAG], &mut |key, _| {
            visit(user_in(key).unwrap_or_default());
            true
        })
    }

    /// The layers of a file, the upper ones first: its own, and shared ones.
    pub(crate) fn layers(&mut self, inode: &Inode) -> Result<Vec<Shown>, Error> {
        let mut found = vec![Shown { layer: inode.layer, end: inode.size }];
        let (mut below, mut end) = (inode.below, inode.size);
        while let Some(next) = below {
            if found.len() > LAYERS_MAX {
                let what = "it has more layers than a file may have";
                return Err(Error::Damaged { inode: inode.number, what });
            }
            end = end.min(next.end);
            found.push(Shown { layer: next.layer, end });
            (_, below) = self.shared_layer(next.layer)?;
        }
        Ok(found)
    }

    /// Visits the pieces that a file shows from one up to and including another, in their order, until `visit` returns false.
    pub(crate) fn shown(
        &mut self,
        inode: &Inode,
        (first, last): (u64, u64),
        visit: &mut dyn FnMut(u64) -> bool,
    ) -> Result<(), Error> {
        if inode.below.is_none() {
            let visit = &mut |piece, _: Value<'_>| visit(piece);
            return self.pieces(inode.layer, (first, last), Direction::Forward, visit);
        }
        let layers = self.layers(inode)?;
        let mut next = first;
        while next <= last {
            let Some(start) = self.first_of(&layers, (next, last))? else { return Ok(()) };
            let end = last.min(start.saturating_add(WINDOW - 1));
            let is_shown = self.window(&layers, (start, end))?;
            for (piece, is_shown) in (start..=end).zip(is_shown) {
                if is_shown && !visit(piece) {
                    return Ok(());
                }
            }
            next = end.saturating_add(1);
        }
        Ok(())
    }

    /// The first piece that any of these layers has.
    fn first_of(
        &mut self,
        layers: &[Shown],
        (first, last): (u64, u64),
    ) -> Result<Option<u64>, Error> {
        let (mut found, piece_size) = (None, self.layout.piece_size);
        for shown in layers {
            let Some(last) = shown.last(found.unwrap_or(last), piece_size) else { break };
            self.pieces(shown.layer, (first, last), Direction::Forward, &mut |piece, _| {
                found = Some(piece);
                false
            })?;
        }
        Ok(found)
    }

    /// Of each piece from one up to and including another, whether it is shown.
    fn window(&mut self, layers: &[Shown], (first, last): (u64, u64)) -> Result<Vec<bool>, Error> {
        let (mut is_shown, piece_size) =
            (vec![false; (last - first + 1) as usize], self.layout.piece_size);
        for shown in layers.iter().rev() {
            let Some(last) = shown.last(last, piece_size) else { continue };
            self.pieces(shown.layer, (first, last), Direction::Forward, &mut |piece, value| {
                is_shown[(piece - first) as usize] = !value.is_empty();
                true
            })?;
        }
        Ok(is_shown)
    }

    /// A piece of what lies below a file's own layer, as far as it is shown; `None`: nothing is.
    pub(crate) fn piece_below(
        &mut self,
        inode: &Inode,
        piece: u64,
    ) -> Result<Option<Vec<u8>>, Error> {
        if inode.below.is_none() {
            return Ok(None);
        }
        let start = piece.saturating_mul(self.layout.piece_size as u64);
        for Shown { layer, end } in self.layers(inode)?.into_iter().skip(1) {
            let Some(rest) = end.checked_sub(start).filter(|&rest| rest > 0) else { break };
            if let Some(mut bytes) = self.piece(layer, piece)? {
                bytes.truncate(usize::try_from(rest).unwrap_or(usize::MAX));
                return Ok(Some(bytes).filter(|bytes| !bytes.is_empty()));
            }
        }
        Ok(None)
    }
}

impl<A: Writes> Records<A> {
    pub(crate) fn put_layer(&mut self, number: u64, layer: Layer) -> Result<(), Error> {
        let (space, record) = (self.layout.tree, layer.to_record());
        Ok(self.handle().set(space, &layer_key(number), record.as_bytes())?)
    }

    pub(crate) fn remove_layer(&mut self, number: u64) -> Result<(), Error> {
        let space = self.layout.tree;
        Ok(self.handle().unset(space, &layer_key(number))?)
    }

    /// A layer lies on another.
    pub(crate) fn put_user(&mut self, below: u64, layer: u64) -> Result<(), Error> {
        let space = self.layout.tree;
        Ok(self.handle().set(space, &user_key(below, layer), &[])?)
    }

    /// A layer does not lie on another any more.
    pub(crate) fn remove_user(&mut self, below: u64, layer: u64) -> Result<(), Error> {
        let space = self.layout.tree;
        Ok(self.handle().unset(space, &user_key(below, layer))?)
    }

    /// Raises the version, where it is not yet the one that has layers.
    pub(crate) fn raise_version(&mut self) -> Result<(), Error> {
        let (space, piece_keys) = (self.layout.tree, self.layout.piece_keys);
        let read = |value: Value<'_>| value.with(|bytes| Superblock::read_from_bytes(bytes).ok());
        let superblock = self.value(&[SUPERBLOCK_TAG], read)?.flatten();
        let damaged = Error::Damaged { inode: 0, what: "the superblock" };
        let Some(mut superblock) = superblock else { return Err(damaged) };
        if superblock.version.get() < LAYERS_VERSION {
            superblock.version = LAYERS_VERSION.into();
            superblock.piece_keys = piece_keys.version().into();
            self.handle().set(space, &[SUPERBLOCK_TAG], superblock.as_bytes())?;
        }
        Ok(())
    }
}
