//! What is different in two versions of a file system.

use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet};
use std::iter::Peekable;

use tembo_kv::{Entries, Snapshot};

use crate::Error;
use crate::bounds::ROOT;
use crate::format::{INODE_TAG, NAME_TAG, number_in};
use crate::inode::Inode;
use crate::records::{Layout, Records, beginning, named};

/// What has become of a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum DifferenceKind {
    /// It was not there.
    Added,
    /// It is not there any more.
    Removed,
    /// What it names was changed, or it names another file.
    Changed,
}

/// A name that is not what it was.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Difference {
    /// From the root on, which is empty; names with a slash before each.
    pub path: Vec<u8>,
    /// What has become of it.
    pub kind: DifferenceKind,
}

/// A key with its values before and after.
struct Changed {
    key: Vec<u8>,
    before: Option<Vec<u8>>,
    after: Option<Vec<u8>>,
}

/// Keys of two versions, in order, with the values of both.
struct Merged {
    before: Peekable<Entries<'static>>,
    after: Peekable<Entries<'static>>,
}

impl Merged {
    fn new(layout: Layout, (from, to): (&Snapshot, &Snapshot), tag: u8) -> Result<Merged, Error> {
        let (first, end) = beginning(&[tag]);
        let range = |snapshot: &Snapshot| snapshot.range(layout.tree, &first[..]..&end[..]);
        Ok(Merged { before: range(from)?.peekable(), after: range(to)?.peekable() })
    }

    fn next(&mut self) -> Result<Option<Changed>, Error> {
        let order = match (self.before.peek(), self.after.peek()) {
            (None, None) => return Ok(None),
            (Some(Ok((before, _))), Some(Ok((after, _)))) => before.cmp(after),
            (Some(_), None) | (Some(Err(_)), _) => Ordering::Less,
            (None, Some(_)) | (_, Some(Err(_))) => Ordering::Greater,
        };
        let before = if order.is_le() { self.before.next().transpose()? } else { None };
        let after = if order.is_ge() { self.after.next().transpose()? } else { None };
        let key = before.as_ref().or(after.as_ref()).map(|(key, _)| key.clone());
        let value = |entry: Option<(Vec<u8>, Vec<u8>)>| entry.map(|(_, value)| value);
        Ok(key.map(|key| Changed { key, before: value(before), after: value(after) }))
    }
}

/// The paths of directories of one version.
struct Paths<'s> {
    records: Records<&'s Snapshot>,
    known: BTreeMap<u64, Vec<u8>>,
}

impl Paths<'_> {
    fn of(&mut self, directory: u64) -> Result<Vec<u8>, Error> {
        let (mut at, mut above) = (directory, Vec::new());
        while !self.known.contains_key(&at) {
            let parent = self.records.inode(at)?.parent;
            if parent == at || parent == 0 || above.contains(&at) {
                return Err(Error::Damaged { inode: at, what: "it is not below the root" });
            }
            above.push(at);
            at = parent;
        }
        while let Some(number) = above.pop() {
            let (path, known) = (self.known[&at].clone(), &mut self.known);
            self.records.entries(at, 0, &mut |entry| {
                if entry.inode == number {
                    known.insert(number, [&path[..], b"/", &entry.name].concat());
                }
                true
            })?;
            if !known.contains_key(&number) {
                let what = "the directory that it is in does not list it";
                return Err(Error::Damaged { inode: number, what });
            }
            at = number;
        }
        Ok(self.known.get(&directory).cloned().unwrap_or_default())
    }
}

/// An inode but for its layers: a file that was cloned has others, and the same bytes.
fn without_layers(value: &Option<Vec<u8>>) -> Option<Result<Inode, &[u8]>> {
    value.as_deref().map(|bytes| match Inode::of_bytes(0, bytes) {
        Ok(inode) => Ok(Inode { layer: 0, below: None, pieces: 0, ..inode }),
        Err(_) => Err(bytes),
    })
}

pub(crate) fn differences(
    layout: Layout,
    from: &Snapshot,
    to: &Snapshot,
) -> Result<Vec<Difference>, Error> {
    let mut edited = BTreeSet::new();
    let mut inodes = Merged::new(layout, (from, to), INODE_TAG)?;
    while let Some(changed) = inodes.next()? {
        if without_layers(&changed.before) != without_layers(&changed.after) {
            edited.extend(number_in(&changed.key));
        }
    }
    let paths = |snapshot| Paths {
        records: Records::new(snapshot, layout),
        known: BTreeMap::from([(ROOT, Vec::new())]),
    };
    let (mut before, mut after) = (paths(from), paths(to));
    let mut found = Vec::new();
    let mut entries = Merged::new(layout, (from, to), NAME_TAG)?;
    while let Some(changed) = entries.next()? {
        let inode = |value: &Option<Vec<u8>>| value.as_deref().and_then(named).map(|n| n.inode);
        let (was, is) = (inode(&changed.before), inode(&changed.after));
        let kind = match (was, is) {
            (Some(_), None) => DifferenceKind::Removed,
            (None, Some(_)) => DifferenceKind::Added,
            (Some(was), Some(is)) if was != is || edited.contains(&is) => DifferenceKind::Changed,
            _ => continue,
        };
        let paths = if is.is_none() { &mut before } else { &mut after };
        let directory = number_in(&changed.key).unwrap_or(ROOT);
        let name = changed.key.get(9..).unwrap_or_default();
        found.push(Difference { path: [&paths.of(directory)?[..], b"/", name].concat(), kind });
    }
    found.sort();
    Ok(found)
}
