//! Whether layers fit to the files that show them, and to each other.

use std::collections::{BTreeMap, BTreeSet};

use crate::Error;
use crate::access::Reads;
use crate::format::{LAYER_TAG, number_in};
use crate::inode::{Below, FileKind, Inode};
use crate::layer::{LAYERS_MAX, Layer};
use crate::records::Records;

/// Gets the number of an inode or a layer, and what is wrong with it.
type Report<'r> = dyn FnMut(u64, &'static str) + 'r;

/// All layers that have a record.
#[derive(Default)]
pub(crate) struct Layers {
    /// With the pieces that were found.
    all: BTreeMap<u64, (Layer, u64)>,
    /// A layer, and one that lies on it.
    users: BTreeSet<(u64, u64)>,
}

impl Layers {
    pub(crate) fn read<A: Reads>(
        records: &mut Records<A>,
        report: &mut Report<'_>,
    ) -> Result<Layers, Error> {
        let mut layers = Layers::default();
        records.tagged(&[LAYER_TAG], &mut |key, value| {
            let number = number_in(key).unwrap_or(0);
            match value.with(Layer::of_bytes) {
                Some(layer) => drop(layers.all.insert(number, (layer, 0))),
                None => report(number, "its layer cannot be read"),
            }
            true
        })?;
        records.users(&mut |user| layers.users.extend([user]))?;
        Ok(layers)
    }

    /// A piece of a layer was found: the inode that it belongs to. `None`: it is of a shared layer.
    pub(crate) fn owner_of_piece(&mut self, layer: u64) -> Option<u64> {
        match self.all.get_mut(&layer) {
            Some((Layer::Own(inode), _)) => Some(*inode),
            Some((Layer::Shared { .. }, found)) => {
                *found += 1;
                None
            }
            None => Some(layer),
        }
    }

    /// Compares what inodes and layers say of each other, after all pieces were found.
    pub(crate) fn compare<'i>(
        &self,
        inodes: impl Iterator<Item = &'i Inode>,
        report: &mut Report<'_>,
    ) {
        let mut expect = |holds: bool, number: u64, what: &'static str| {
            if !holds {
                report(number, what);
            }
        };
        let (mut owned, mut users) = (BTreeSet::new(), BTreeSet::new());
        for inode in inodes {
            let number = inode.number;
            if inode.layer != number {
                let layer = self.all.get(&inode.layer).map(|(layer, _)| *layer);
                expect(layer == Some(Layer::Own(number)), number, "its own layer is not there");
                owned.insert(inode.layer);
            }
            if let Some(below) = inode.below {
                let is_sound = inode.kind == FileKind::Regular && below.end <= inode.size;
                expect(is_sound, number, "it shows more than it has");
                expect(self.is_bounded(below), number, "it has more layers than a file may have");
                users.insert((below.layer, inode.layer));
            }
        }
        for (&number, (layer, found)) in &self.all {
            match layer {
                Layer::Own(_) => expect(owned.contains(&number), number, "a layer of no file"),
                Layer::Shared { pieces, below } => {
                    expect(pieces == found, number, "a layer has another number of pieces");
                    let is_used = self.users.range((number, 0)..=(number, u64::MAX)).next();
                    expect(is_used.is_some(), number, "a layer that no file shows");
                    users.extend(below.map(|below| (below.layer, number)));
                }
            }
        }
        for &(_, layer) in self.users.symmetric_difference(&users) {
            expect(false, layer, "it lies on a layer that does not know it, or does not lie there");
        }
    }

    /// Whether a file that lies on a layer has no more than it may have, all of them there.
    fn is_bounded(&self, below: Below) -> bool {
        let mut next = Some(below);
        for _ in 0..=LAYERS_MAX {
            match next.map(|below| self.all.get(&below.layer)) {
                None => return true,
                Some(Some((Layer::Shared { below, .. }, _))) => next = *below,
                Some(_) => return false,
            }
        }
        false
    }
}
