//! The catalogue: a versioned keyspace that knows the others.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;
use std::sync::Arc;

use tembo_index::{
    Direction, Forest, Index, IndexKind, Op, Period, Value, VersionedIndex, View, Writer,
};
use tembo_pool::Object;
use zerocopy::{FromBytes, IntoBytes};

use crate::Error;
use crate::media::{
    COUNTS_KEY, CountsHeader, INDEX_CDDS, INDEX_HASH, INDEX_NVTREE, KEYSPACE_TAG, KeyspaceCount,
    KeyspaceEntry, REPLICA_KEY, TOMBSTONE_TAG, TombstoneHeader, TombstoneKey,
};
use crate::tombstones::{KeyRange, Tombstone};

/// The catalogue's tree.
pub(crate) struct Catalogue {
    tree: Index,
    /// The kind of the indexes that it names.
    kind: IndexKind,
}

/// The counts of keys when they were written down, by the root cell of the tree.
#[derive(Default)]
pub(crate) struct Counts {
    /// The counts are exact while this is the limit of versions. 0: they are an estimate.
    pub(crate) limit: u64,
    pub(crate) keys: BTreeMap<u64, u64>,
}

impl Catalogue {
    /// A catalogue in `tree` of a store of a kind.
    pub(crate) fn new(tree: Index, kind: IndexKind) -> Catalogue {
        Catalogue { tree, kind }
    }

    /// The kind of the indexes of keyspaces.
    pub(crate) fn kind(&self) -> IndexKind {
        self.kind
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

    /// Makes the store a replica, or ends that.
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

    /// The counts that were last written down. A count that cannot be read is missing.
    pub(crate) fn counts(&self, view: View<'_>) -> Result<Counts, Error> {
        let found = self.tree.get(COUNTS_KEY, view)?;
        Ok(found.and_then(|value| decode_counts(&value.to_vec())).unwrap_or_default())
    }

    /// Notes a range that was removed.
    pub(crate) fn put_tombstone(
        &self,
        tombstone: &Tombstone,
        writer: &mut Writer<'_>,
    ) -> Result<(), Error> {
        let KeyRange { from, to } = &*tombstone.range;
        let (from_size, has_end) = ((from.len() as u64).into(), u64::from(to.is_some()).into());
        let header = TombstoneHeader { from_size, has_end };
        let to = to.as_deref().unwrap_or_default();
        let (key, value) = (tombstone_key(tombstone), [header.as_bytes(), from, to]);
        self.tree.apply(Op::Put { key: &key, value: &value }, writer)?;
        Ok(())
    }

    /// Forgets a range that was removed, once it has no covered entries.
    pub(crate) fn remove_tombstone(
        &self,
        tombstone: &Tombstone,
        writer: &mut Writer<'_>,
    ) -> Result<(), Error> {
        self.tree.apply(Op::Remove { key: &tombstone_key(tombstone) }, writer)?;
        Ok(())
    }

    /// The ranges that were removed and are not erased in that view.
    pub(crate) fn tombstones(&self, view: View<'_>) -> Result<Vec<Tombstone>, Error> {
        let (from, to) = ([TOMBSTONE_TAG], [TOMBSTONE_TAG + 1]);
        let (mut found, mut failed) = (Vec::new(), None);
        let (from, to) = (Bound::Included(&from[..]), Bound::Excluded(&to[..]));
        self.tree.range(from, to, Direction::Forward, view, &mut |key, value| {
            match decode_tombstone(key, &value.to_vec()) {
                Some(tombstone) => found.push(tombstone),
                None => failed = Some(Error::Damaged { what: "a range tombstone" }),
            }
            failed.is_none()
        })?;
        failed.map_or(Ok(found), Err)
    }

    /// The tombstones that came into being in a period.
    pub(crate) fn tombstones_of(&self, period: Period<'_>) -> Result<Vec<Tombstone>, Error> {
        let (mut found, mut failed) = (Vec::new(), None);
        self.tree.changes(period, &[TOMBSTONE_TAG], &mut |changed| {
            if changed.key.first() != Some(&TOMBSTONE_TAG) {
                return false;
            }
            if let Some(value) = changed.value {
                match decode_tombstone(changed.key, &value.to_vec()) {
                    Some(tombstone) => found.push(tombstone),
                    None => failed = Some(Error::Damaged { what: "a range tombstone" }),
                }
            }
            failed.is_none()
        })?;
        failed.map_or(Ok(found), Err)
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

fn tombstone_key(tombstone: &Tombstone) -> Vec<u8> {
    let Tombstone { cell, version, .. } = *tombstone;
    let key = TombstoneKey { cell: cell.into(), version: version.into() };
    [&[TOMBSTONE_TAG], key.as_bytes()].concat()
}

fn decode_tombstone(key: &[u8], value: &[u8]) -> Option<Tombstone> {
    let key = TombstoneKey::read_from_bytes(key.get(1..)?).ok()?;
    let (header, keys) = TombstoneHeader::read_from_prefix(value).ok()?;
    let (from, to) = keys.split_at_checked(header.from_size.get() as usize)?;
    let to = (header.has_end.get() == 1).then(|| to.to_vec());
    let range = Arc::new(KeyRange { from: from.to_vec(), to });
    let (cell, version) = (key.cell.get(), key.version.get());
    Some(Tombstone { cell, range, version, until: u64::MAX })
}

/// The catalogue's value for counts.
pub(crate) fn encode_counts(counts: &Counts) -> Vec<u8> {
    let header = CountsHeader { limit: counts.limit.into() };
    let entry = |(&cell, &keys): (&u64, &u64)| {
        let entry = KeyspaceCount { cell: cell.into(), keys: keys.into() };
        entry.as_bytes().to_vec()
    };
    header.as_bytes().iter().copied().chain(counts.keys.iter().flat_map(entry)).collect()
}

fn decode_counts(value: &[u8]) -> Option<Counts> {
    let (header, entries) = CountsHeader::read_from_prefix(value).ok()?;
    let entries = <[KeyspaceCount]>::ref_from_bytes(entries).ok()?;
    let keys = entries.iter().map(|entry| (entry.cell.get(), entry.keys.get()));
    Some(Counts { limit: header.limit.get(), keys: keys.collect() })
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

/// Opens the tree that a catalogue entry names. Only [`Indexes`](super::Indexes) calls this.
pub(super) fn open_tree(forest: &Arc<Forest>, entry: &KeyspaceEntry) -> Result<Index, Error> {
    let cell = Object::from_bits(entry.cell.get());
    let index = Index::open(forest.clone(), cell, entry.birth.get())?;
    if entry.index.get() != index_number(index.kind()) {
        return Err(Error::Damaged { what: "the index that the catalogue says" });
    }
    Ok(index)
}

/// The number of an index kind in a catalogue entry.
fn index_number(kind: IndexKind) -> u64 {
    match kind {
        IndexKind::Cdds => INDEX_CDDS,
        IndexKind::Nvtree => INDEX_NVTREE,
        IndexKind::Hash => INDEX_HASH,
    }
}
