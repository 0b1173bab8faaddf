//! Whether all parts of a file system fit to each other.

use std::collections::{BTreeMap, BTreeSet};

use crate::Error;
use crate::access::Reads;
use crate::access_list;
use crate::bounds::ROOT;
use crate::check_layers::Layers;
use crate::format::{ATTRIBUTE_TAG, COOKIE_TAG, INODE_TAG, NAME_TAG, name_in, number_in};
use crate::inode::{FileKind, Inode};
use crate::records::{Entry, Records, entry, named};

/// What a check has found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Check {
    /// Inodes, in number.
    pub inodes: u64,
    /// Entries of all directories.
    pub entries: u64,
    /// Pieces of all files; one that several show counts once.
    pub pieces: u64,
    /// Inodes without a name.
    pub orphans: u64,
    /// What does not fit.
    pub findings: Vec<Finding>,
}

/// Something that does not fit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// The number of the inode that it is about.
    pub inode: u64,
    /// What is wrong.
    pub what: &'static str,
}

/// An inode, and what was found of it.
struct Seen {
    inode: Inode,
    names: u64,
    entries: u64,
    subdirectories: Vec<u64>,
    attributes: u64,
    pieces: u64,
    /// The directory of its last name.
    place: u64,
}

struct Checking {
    seen: BTreeMap<u64, Seen>,
    found: Check,
}

impl Checking {
    fn report(&mut self, inode: u64, what: &'static str) {
        self.found.findings.push(Finding { inode, what });
    }

    fn expect(&mut self, holds: bool, inode: u64, what: &'static str) {
        if !holds {
            self.report(inode, what);
        }
    }

    /// The inode of a key; without one the key belongs to nothing.
    fn owner(&mut self, number: u64, what: &'static str) -> Option<&mut Seen> {
        if !self.seen.contains_key(&number) {
            self.report(number, what);
        }
        self.seen.get_mut(&number)
    }
}

/// Compares everything with everything. Memory: an inode and an entry of each that there is.
pub(crate) fn check<A: Reads>(records: &mut Records<A>) -> Result<Check, Error> {
    let mut checking = Checking { seen: BTreeMap::new(), found: Check::default() };
    inodes(records, &mut checking)?;
    names(records, &mut checking)?;
    attributes(records, &mut checking)?;
    let mut layers = Layers::read(records, &mut |number, what| checking.report(number, what))?;
    pieces(records, &mut checking, &mut layers)?;
    let Checking { seen, found } = &mut checking;
    layers.compare(seen.values().map(|seen| &seen.inode), &mut |inode, what| {
        found.findings.push(Finding { inode, what });
    });
    let orphans: BTreeSet<u64> = records.orphans()?.into_iter().collect();
    sums(&mut checking, &orphans);
    match records.points(None, &mut |_| true) {
        Err(Error::Damaged { inode, what }) => checking.report(inode, what),
        visited => visited?,
    }
    reachable(&mut checking);
    Ok(checking.found)
}

fn inodes<A: Reads>(records: &mut Records<A>, checking: &mut Checking) -> Result<(), Error> {
    records.tagged(&[INODE_TAG], &mut |key, value| {
        let number = number_in(key).unwrap_or(0);
        match value.with(|bytes| Inode::of_bytes(number, bytes)) {
            Ok(inode) => {
                let (subdirectories, names, entries) = (Vec::new(), 0, 0);
                let seen = Seen {
                    inode,
                    names,
                    entries,
                    subdirectories,
                    attributes: 0,
                    pieces: 0,
                    place: 0,
                };
                checking.seen.insert(number, seen);
                checking.found.inodes += 1;
            }
            Err(_) => checking.report(number, "its inode cannot be read"),
        }
        true
    })
}

fn names<A: Reads>(records: &mut Records<A>, checking: &mut Checking) -> Result<(), Error> {
    let mut cookies: BTreeMap<(u64, u64), Entry> = BTreeMap::new();
    records.tagged(&[COOKIE_TAG], &mut |key, value| {
        let directory = number_in(key).unwrap_or(0);
        match value.with(|bytes| entry(key, bytes)) {
            Some(entry) => drop(cookies.insert((directory, entry.cookie), entry)),
            None => checking.report(directory, "an entry of its listing cannot be read"),
        }
        true
    })?;
    records.tagged(&[NAME_TAG], &mut |key, value| {
        let directory = number_in(key).unwrap_or(0);
        checking.found.entries += 1;
        let Some(named) = value.with(named) else {
            checking.report(directory, "an entry cannot be read");
            return true;
        };
        let listed = cookies.remove(&(directory, named.cookie));
        let expected = key.get(9..).map(|name| Entry {
            inode: named.inode,
            kind: named.kind,
            cookie: named.cookie,
            name: name.to_vec(),
        });
        checking.expect(listed == expected, directory, "an entry is not listed as it is named");
        let is_directory = named.kind == FileKind::Directory;
        if let Some(parent) = checking.owner(directory, "it has entries, and is not there") {
            parent.entries += 1;
            if is_directory {
                parent.subdirectories.push(named.inode);
            }
            let is_sound = parent.inode.is_directory() && named.cookie < parent.inode.next_cookie;
            checking.expect(
                is_sound,
                directory,
                "an entry of what is no directory, or behind its end",
            );
        }
        if let Some(child) = checking.owner(named.inode, "it has a name, and is not there") {
            child.names += 1;
            child.place = directory;
            let is_same = child.inode.kind == named.kind;
            checking.expect(is_same, named.inode, "its name says another kind");
        }
        true
    })?;
    for (directory, _) in cookies.into_keys() {
        checking.report(directory, "an entry is listed that has no name");
    }
    Ok(())
}

fn attributes<A: Reads>(records: &mut Records<A>, checking: &mut Checking) -> Result<(), Error> {
    records.tagged(&[ATTRIBUTE_TAG], &mut |key, value| {
        let number = number_in(key).unwrap_or(0);
        if let Some(seen) = checking.owner(number, "it has attributes, and is not there") {
            seen.attributes += 1;
            let name = name_in(key).unwrap_or_default();
            let fits = value.with(|bytes| access_list::fits(&seen.inode, name, bytes));
            checking.expect(fits, number, "an access list that does not fit to its permissions");
        }
        true
    })
}

fn pieces<A: Reads>(
    records: &mut Records<A>,
    checking: &mut Checking,
    layers: &mut Layers,
) -> Result<(), Error> {
    let (size, piece_keys) = (records.layout.piece_size as u64, records.layout.piece_keys);
    records.all_pieces(&mut |key, value| {
        checking.found.pieces += 1;
        let Some((layer, piece)) = piece_keys.numbers(key) else {
            checking.report(0, "a piece of no file");
            return true;
        };
        let Some(number) = layers.owner_of_piece(layer) else {
            checking.expect(value.len() as u64 <= size, layer, "a piece is too long");
            return true;
        };
        if let Some(seen) = checking.owner(number, "it has pieces, and is not there") {
            seen.pieces += 1;
            let (len, has_bytes) = (value.len() as u64, has_bytes(seen.inode.kind));
            let fits = piece
                .checked_mul(size)
                .and_then(|start| start.checked_add(len))
                .is_some_and(|end| end <= seen.inode.size);
            let is_own = seen.inode.layer == layer;
            let is_sound = has_bytes && len <= size && fits && is_own;
            checking.expect(is_sound, number, "a piece is too long, behind its end, or elsewhere");
        }
        true
    })
}

fn has_bytes(kind: FileKind) -> bool {
    matches!(kind, FileKind::Regular | FileKind::Symlink)
}

/// What inodes say against what was counted.
fn sums(checking: &mut Checking, orphans: &BTreeSet<u64>) {
    checking.found.orphans = orphans.len() as u64;
    let (seen, found) = (&checking.seen, &mut checking.found);
    let mut expect = |holds: bool, inode: u64, what: &'static str| {
        if !holds {
            found.findings.push(Finding { inode, what });
        }
    };
    for (&number, one) in seen {
        let inode = &one.inode;
        let links = match (inode.is_directory(), number == ROOT || one.names > 0) {
            (true, true) => 2 + one.subdirectories.len() as u64,
            (true, false) => 0,
            (false, _) => one.names,
        };
        expect(u64::from(inode.links) == links, number, "it has another number of links");
        expect(one.pieces == inode.pieces, number, "it has another number of pieces");
        let attributes = u64::from(inode.attributes);
        expect(one.attributes == attributes, number, "it has another number of attributes");
        expect(
            (inode.links == 0) == orphans.contains(&number),
            number,
            "it is an orphan, or is not",
        );
        if inode.is_directory() {
            expect(one.entries == inode.size, number, "it has another number of entries");
            expect(number == ROOT || one.names <= 1, number, "a directory has several names");
            let parent = if number == ROOT { ROOT } else { one.place };
            expect(
                inode.links == 0 || inode.parent == parent,
                number,
                "it is in another directory",
            );
        }
    }
    let lost = orphans.iter().filter(|number| !seen.contains_key(number));
    lost.for_each(|&number| expect(false, number, "an orphan is not there"));
}

/// Every directory that has a name is below the root.
fn reachable(checking: &mut Checking) {
    let (mut below, mut next) = (BTreeSet::from([ROOT]), vec![ROOT]);
    while let Some(seen) = next.pop().and_then(|number| checking.seen.get(&number)) {
        next.extend(seen.subdirectories.iter().copied().filter(|&number| below.insert(number)));
    }
    let is_lost = |(number, seen): &(&u64, &Seen)| {
        seen.inode.is_directory() && seen.inode.links > 0 && !below.contains(number)
    };
    let lost: Vec<u64> = checking.seen.iter().filter(is_lost).map(|(&number, _)| number).collect();
    lost.into_iter().for_each(|number| checking.report(number, "it is not below the root"));
    checking.expect(checking.seen.contains_key(&ROOT), ROOT, "there is no root");
}
