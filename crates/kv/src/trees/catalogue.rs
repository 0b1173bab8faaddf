//! The catalogue: a versioned keyspace that knows the others.

use std::collections::BTreeSet;
use std::ops::Bound;
use std::sync::Arc;

use tembo_index::{Direction, Forest, Index, IndexKind, Op, Value, VersionedIndex, View, Writer};
use tembo_pool::Object;
use zerocopy::{FromBytes, IntoBytes};

use crate::Error;
use crate::media::{INDEX_CDDS, INDEX_NVTREE, KEYSPACE_TAG, KeyspaceEntry, REPLICA_KEY};

/// The catalogue's tree.
pub(crate) struct Catalogue {
    tree: Index,
}

impl Catalogue {
    pub(crate) fn new(tree: Index) -> Catalogue {
        Catalogue { tree }
    }

    pub(crate) fn tree(&self) -> &Index {
        &self.tree
    }

    /// The entry of a keyspace with a tree.
    pub(crate) fn entry(id: u32, cell: Object, birth: u64, kind: IndexKind) -> KeyspaceEntry {
        KeyspaceEntry {
            id: u64::from(id).into(),
            cell: cell.to_bits().into(),
            birth: birth.into(),
            index: index_number(kind).into(),
        }
    }

    pub(crate) fn put_keyspace(
        &self,
        name: &str,
        entry: KeyspaceEntry,
        writer: &mut Writer<'_>,
    ) -> Result<(), Error> {
        let key = [&[KEYSPACE_TAG], name.as_bytes()].concat();
        let op = Op::Put { key: &key, value: &[entry.as_bytes()] };
        self.tree.apply(op, writer)?;
        Ok(())
    }

    /// Whether the store is a replica in that view.
    pub(crate) fn is_replica(&self, view: View<'_>) -> Result<bool, Error> {
        Ok(self.tree.get(REPLICA_KEY, view)?.is_some())
    }

    /// Makes the store a replica, or one no longer.
    pub(crate) fn set_replica(
        &self,
        is_replica: bool,
        writer: &mut Writer<'_>,
    ) -> Result<(), Error> {
        let op = match is_replica {
            true => Op::Put { key: REPLICA_KEY, value: &[] },
            false => Op::Remove { key: REPLICA_KEY },
        };
        self.tree.apply(op, writer)?;
        Ok(())
    }

    /// Every keyspace of the view, by name.
    pub(crate) fn keyspaces(&self, view: View<'_>) -> Result<Vec<(String, KeyspaceEntry)>, Error> {
        let (from, to) = ([KEYSPACE_TAG], [KEYSPACE_TAG + 1]);
        let mut found: Vec<(String, KeyspaceEntry)> = Vec::new();
        let mut failed = None;
        let mut visit = |key: &[u8], value: Value<'_>| match decode(value) {
            Ok(entry) => {
                found.push((String::from_utf8_lossy(&key[1..]).into_owned(), entry));
                true
            }
            Err(error) => {
                failed = Some(error);
                false
            }
        };
        let (from, to) = (Bound::Included(&from[..]), Bound::Excluded(&to[..]));
        self.tree.range(from, to, Direction::Forward, view, &mut visit)?;
        if let Some(error) = failed {
            return Err(error);
        }
        let mut cells = BTreeSet::from([self.tree.object().to_bits()]);
        let cell = |entry: &KeyspaceEntry| Object::from_bits(entry.cell.get()).to_bits();
        if !found.iter().all(|(_, entry)| cells.insert(cell(entry))) {
            return Err(Error::Damaged { what: "a tree of its own for every keyspace" });
        }
        Ok(found)
    }
}

/// The name in a catalogue key of a keyspace.
pub(crate) fn decode_keyspace(key: &[u8]) -> Option<String> {
    let name = key.strip_prefix(&[KEYSPACE_TAG])?;
    Some(String::from_utf8_lossy(name).into_owned())
}

pub(crate) fn decode(value: Value<'_>) -> Result<KeyspaceEntry, Error> {
    value
        .with(|value| KeyspaceEntry::read_from_bytes(value).map_err(drop))
        .map_err(|_| Error::Damaged { what: "an entry of the catalogue" })
}

/// The tree that a catalogue entry names.
pub(crate) fn open_tree(forest: &Arc<Forest>, entry: &KeyspaceEntry) -> Result<Index, Error> {
    let cell = Object::from_bits(entry.cell.get());
    let index = Index::open(forest.clone(), cell, entry.birth.get())?;
    if entry.index.get() != index_number(index.kind()) {
        return Err(Error::Damaged { what: "the index that the catalogue says" });
    }
    Ok(index)
}

/// How a catalogue entry says which index it is.
fn index_number(kind: IndexKind) -> u64 {
    match kind {
        IndexKind::Cdds => INDEX_CDDS,
        IndexKind::Nvtree => INDEX_NVTREE,
    }
}
