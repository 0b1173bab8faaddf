//! The writer's list of keyspaces: finds a keyspace's tree, and adds up what was changed in it.

use std::collections::BTreeMap;
use std::sync::Arc;

use tembo_index::{Index, Retained, View, Writer};

use super::catalogue::{Catalogue, Counts};
use super::indexes::Indexes;
use super::tree::{Known, Tree, find};
use crate::media::KeyspaceEntry;
use crate::tally::{Removals, Tally};
use crate::{Error, Keyspace};

/// The keyspaces, by number.
pub(crate) struct Directory {
    list: Vec<Tree>,
    /// Counts the incarnations of keyspace numbers.
    incarnations: u32,
    /// Keys that were removed lately.
    pub(crate) removals: Removals,
}

impl Directory {
    /// The keyspaces of a view.
    pub(crate) fn open(
        indexes: &Indexes,
        catalogue: &Catalogue,
        view: View<'_>,
    ) -> Result<Directory, Error> {
        let list = open_list(indexes, catalogue, view)?;
        let mut directory = Directory { list, incarnations: 1, removals: Removals::default() };
        let counts = catalogue.counts(view)?;
        // If the limit is the version of the view, nothing was changed after the counts were written.
        directory.recall(&counts, counts.limit == view.version);
        Ok(directory)
    }

    /// The tree of a keyspace. `version` is the one that an error names as read.
    ///
    /// # Errors
    /// [`Error::NoSuchKeyspace`].
    #[inline]
    pub(crate) fn tree(&self, keyspace: Keyspace, version: u64) -> Result<&Tree, Error> {
        let Some(tree) = find(&self.list, keyspace) else {
            return Err(Error::NoSuchKeyspace { version });
        };
        Ok(tree)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Tree> {
        self.list.iter()
    }

    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = &mut Tree> {
        self.list.iter_mut()
    }

    /// The tree with that root cell.
    pub(crate) fn by_cell(&self, cell: u64) -> Option<&Tree> {
        self.list.iter().find(|tree| tree.known.cell == cell)
    }

    /// The keyspace that has the tree with that root cell.
    pub(crate) fn keyspace_of(&self, cell: u64) -> Option<Keyspace> {
        let id = self.list.iter().position(|tree| tree.known.cell == cell)?;
        Some(Keyspace { id: id as u32, incarnation: self.list[id].known.incarnation })
    }

    /// The keyspace of that name.
    pub(crate) fn by_name(&self, name: &str) -> Option<Keyspace> {
        let id = self.list.iter().position(|tree| &*tree.known.name == name)?;
        Some(Keyspace { id: id as u32, incarnation: self.list[id].known.incarnation })
    }

    /// The keyspace of that number.
    pub(crate) fn by_id(&self, id: u32) -> Option<Keyspace> {
        let tree = self.list.get(id as usize)?;
        Some(Keyspace { id, incarnation: tree.known.incarnation })
    }

    /// The list of keyspaces for readers.
    pub(crate) fn known(&self) -> Arc<[Known]> {
        self.list.iter().map(|tree| tree.known.clone()).collect()
    }

    /// The number of a keyspace that is made next.
    pub(crate) fn next_id(&self) -> u32 {
        self.list.len() as u32
    }

    /// Adds a keyspace under the next number.
    pub(crate) fn push(&mut self, mut tree: Tree) -> Keyspace {
        let (id, incarnation) = (self.next_id(), self.incarnations);
        tree.known.incarnation = incarnation;
        self.list.push(tree);
        Keyspace { id, incarnation }
    }

    /// Takes back what was pushed last.
    pub(crate) fn pop(&mut self) {
        self.list.pop();
    }

    /// Gives a keyspace another tree, and returns the one that it had.
    pub(crate) fn replace(&mut self, keyspace: Keyspace, mut tree: Tree) -> Tree {
        tree.known.incarnation = keyspace.incarnation;
        std::mem::replace(&mut self.list[keyspace.id as usize], tree)
    }

    /// Adds up committed changes, which are taken out of the tally. True if so much was removed that a
    /// collection is due.
    #[inline]
    pub(crate) fn add(&mut self, tally: &mut Tally, node_size: u64) -> bool {
        for (hash, version) in tally.take_removed() {
            self.removals.note(hash, version);
        }
        let mut is_due = false;
        for sum in tally.take_sums() {
            let tree = &mut self.list[sum.id as usize];
            tree.add(sum.delta, sum.removed);
            is_due |= sum.removed > 0 && tree.is_due(node_size);
        }
        is_due
    }

    /// Takes over the keyspaces of a view, after a rollback to it.
    pub(crate) fn roll_back(
        &mut self,
        indexes: &Indexes,
        catalogue: &Catalogue,
        view: View<'_>,
    ) -> Result<(), Error> {
        let mut list = open_list(indexes, catalogue, view)?;
        for (id, tree) in list.iter_mut().enumerate() {
            let before = self.list.get(id).filter(|before| before.known.name == tree.known.name);
            tree.known.incarnation =
                before.map_or(self.incarnations, |before| before.known.incarnation);
        }
        self.incarnations += 1;
        self.list = list;
        self.recall(&catalogue.counts(view)?, false);
        Ok(())
    }

    /// Takes over counts: those of the visible version, or estimates.
    fn recall(&mut self, counts: &Counts, is_exact: bool) {
        for tree in &mut self.list {
            // A keyspace that was empty has no count.
            let known = counts.keys.get(&tree.known.cell).copied();
            if let Some(keys) = known.or(is_exact.then_some(0)) {
                tree.recall(keys, is_exact);
            }
        }
    }

    /// The counts of keys, with a limit, to be written down. `None`: some are not known.
    pub(crate) fn counts(&self, limit: u64) -> Option<Counts> {
        let mut keys = BTreeMap::new();
        for tree in &self.list {
            match tree.count()? {
                0 => {}
                count => drop(keys.insert(tree.known.cell, count)),
            }
        }
        Some(Counts { limit, keys })
    }

    /// Notes that the catalogue has the counts.
    pub(crate) fn noted(&mut self) {
        self.list.iter_mut().for_each(Tree::noted);
    }

    /// Whether the counts have moved far away from those in the catalogue.
    pub(crate) fn have_drifted(&self) -> bool {
        self.list.iter().any(Tree::has_drifted)
    }

    /// The trees by root cell.
    pub(crate) fn by_cells(&self) -> BTreeMap<u64, Arc<Index>> {
        self.list.iter().map(|tree| (tree.known.cell, tree.known.index.clone())).collect()
    }

    /// Whether some tree's old entries are worth a collection.
    pub(crate) fn is_released(&mut self, node_size: u64, retained: &Retained) -> bool {
        self.list.iter_mut().any(|tree| tree.is_released(node_size, retained))
    }

    /// Begins the collection of the first tree in which one is due. Returns its cell.
    pub(crate) fn begin_collection(&mut self, node_size: u64, retained: &Retained) -> Option<u64> {
        let is_due =
            |tree: &mut Tree| tree.is_due(node_size) || tree.is_released(node_size, retained);
        let tree =
            self.list.iter_mut().find_map(|tree| if is_due(tree) { Some(tree) } else { None })?;
        tree.begin_collection();
        Some(tree.known.cell)
    }
}

fn open_list(indexes: &Indexes, catalogue: &Catalogue, view: View<'_>) -> Result<Vec<Tree>, Error> {
    let mut entries = catalogue.keyspaces(view)?;
    entries.sort_by_key(|(_, entry)| entry.id.get());
    let sound = entries.iter().enumerate().all(|(id, (_, entry))| entry.id.get() == id as u64);
    if !sound {
        return Err(Error::Damaged { what: "keyspaces numbered in a row" });
    }
    let open = |(name, entry): (String, KeyspaceEntry)| {
        Ok(Tree::new(&name, indexes.open(&entry)?, entry, None))
    };
    entries.into_iter().map(open).collect()
}

/// Makes an empty tree for a keyspace and names it in the catalogue.
pub(crate) fn create_tree(
    indexes: &Indexes,
    catalogue: &Catalogue,
    (name, id): (&str, u32),
    writer: &mut Writer<'_>,
) -> Result<Tree, Error> {
    let forest = indexes.forest();
    let _section = forest.pool().reserve(4096, 64)?;
    let kind = catalogue.kind();
    let (index, cell) = Index::create(forest.clone(), kind, writer)?;
    let birth = writer.stamp.version();
    let entry = Catalogue::entry(id, cell, birth, kind);
    if let Err(error) = catalogue.put_keyspace(name, entry, writer) {
        index.discard()?;
        return Err(error);
    }
    Ok(Tree::new(name, indexes.made(&entry, index), entry, Some(0)))
}
