//! Inodes, names, pieces and attributes, as the store has them.

use std::collections::BTreeSet;
use std::ops::Bound;
use std::sync::atomic::{AtomicU64, Ordering};

use tembo_kv::{Direction, Keyspace, Value};
use zerocopy::{FromBytes, IntoBytes};

use crate::Error;
use crate::access::{Bounds, Reads, With, Writes};
use crate::bounds::{NAME_LEN_MAX, is_name};
use crate::format::{
    CookieRecord, INODE_TAG, LAYER_TAG, NameRecord, PieceKey, PieceKeys, PointRecord,
    attribute_key, cookie_key, inode_key, name_key, number_in, orphan_key, point_in, point_key,
};
use crate::inode::{FileKind, Inode};
use crate::open_files::Unlinking;
use crate::point::Point;
use crate::time::Time;

/// The keyspaces of a file system, and the size of its pieces.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Layout {
    pub(crate) tree: Keyspace,
    pub(crate) data: Keyspace,
    /// In bytes.
    pub(crate) piece_size: usize,
    pub(crate) piece_keys: PieceKeys,
    /// Of a file, up to so many pieces are removed one by one; more as a range.
    pub(crate) singly_max: u64,
    /// Up to so many pieces are copied; more are shared.
    pub(crate) copied_max: u64,
    /// The lower half of the identity of the pool.
    pub(crate) pool: u64,
}

/// An entry of a directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Inode number of what it names.
    pub inode: u64,
    /// What that is.
    pub kind: FileKind,
    /// Where it stands: a listing goes on behind it. It stays as long as the entry.
    pub cookie: u64,
    /// Any bytes but `/` and 0.
    pub name: Vec<u8>,
}

/// What a name stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Named {
    pub(crate) inode: u64,
    pub(crate) kind: FileKind,
    pub(crate) cookie: u64,
}

/// What a change needs beside a handle of the store.
pub(crate) struct Changing<'t> {
    pub(crate) now: Time,
    /// The number that the next file or layer gets.
    pub(crate) next: &'t AtomicU64,
    /// The version that is visible.
    pub(crate) generation: u64,
    pub(crate) unlinking: Unlinking<'t>,
    /// Bytes of pieces that may be added; `None`: any number.
    pub(crate) left: Option<u64>,
    /// Whether a copy of a range may share pieces: no transaction, which that would be a conflict for, is in progress.
    pub(crate) may_share: bool,
    /// What lost its last name and was kept.
    pub(crate) orphans: BTreeSet<u64>,
    /// A change was begun and has not come to its end.
    pub(crate) is_broken: bool,
}

/// A handle of the store, and what lies where.
pub(crate) struct Records<A> {
    access: A,
    pub(crate) layout: Layout,
}

/// From a key on, all that begins as it does.
pub(crate) fn beginning(key: &[u8]) -> (Vec<u8>, Vec<u8>) {
    let mut end = key.to_vec();
    while end.last() == Some(&u8::MAX) {
        end.pop();
    }
    if let Some(last) = end.last_mut() {
        *last += 1;
    }
    (key.to_vec(), end)
}

fn between<'b>((from, to): &'b (Vec<u8>, Vec<u8>)) -> Bounds<'b> {
    (Bound::Included(from), Bound::Excluded(to))
}

impl<A: Reads> Records<A> {
    pub(crate) fn new(access: A, layout: Layout) -> Records<A> {
        Records { access, layout }
    }

    /// The handle, borrowed and of any type.
    pub(crate) fn handle(&mut self) -> &mut A {
        &mut self.access
    }

    pub(crate) fn value<T>(
        &mut self,
        key: &[u8],
        mut with: impl FnMut(Value<'_>) -> T,
    ) -> Result<Option<T>, Error> {
        let mut found = None;
        let with: &mut With<'_> = &mut |value| found = value.map(&mut with);
        self.access.get_at(self.layout.tree, key, with)?;
        Ok(found)
    }

    /// The inode of that number; `None`: there is none.
    pub(crate) fn find(&mut self, number: u64) -> Result<Option<Inode>, Error> {
        self.value(&inode_key(number), |value| value.with(|bytes| Inode::of_bytes(number, bytes)))?
            .transpose()
    }

    /// # Errors
    /// [`Error::NoSuchInode`].
    pub(crate) fn inode(&mut self, number: u64) -> Result<Inode, Error> {
        self.find(number)?.ok_or(Error::NoSuchInode { inode: number })
    }

    /// What a name of a directory stands for.
    pub(crate) fn named(&mut self, directory: u64, name: &[u8]) -> Result<Option<Named>, Error> {
        let named = self.value(&name_key(directory, name), |value| value.with(named))?;
        match named {
            Some(None) => Err(Error::Damaged { inode: directory, what: "one of its entries" }),
            found => Ok(found.flatten()),
        }
    }

    /// The entries of a directory behind a cookie, in the order of cookies, until `visit` returns false.
    pub(crate) fn entries(
        &mut self,
        directory: u64,
        after: u64,
        visit: &mut dyn FnMut(Entry) -> bool,
    ) -> Result<(), Error> {
        let (from, to) = (cookie_key(directory, after), cookie_key(directory, u64::MAX));
        let bounds = (Bound::Excluded(&*from), Bound::Included(&*to));
        let mut is_sound = true;
        let entry = &mut |key: &[u8], value: Value<'_>| match value.with(|bytes| entry(key, bytes))
        {
            Some(entry) => visit(entry),
            None => {
                is_sound = false;
                false
            }
        };
        self.access.visit(self.layout.tree, bounds, Direction::Forward, entry)?;
        if is_sound { Ok(()) } else { Err(Error::Damaged { inode: directory, what: "an entry" }) }
    }

    /// Visits pieces of a layer from one up to and including another.
    pub(crate) fn pieces(
        &mut self,
        layer: u64,
        (first, last): (u64, u64),
        direction: Direction,
        visit: &mut dyn FnMut(u64, Value<'_>) -> bool,
    ) -> Result<(), Error> {
        if first > last {
            return Ok(());
        }
        let Layout { piece_size, piece_keys, .. } = self.layout;
        let (from, to) = (self.piece_key(layer, first), self.piece_key(layer, last));
        let bounds = (Bound::Included(&from[..]), Bound::Included(&to[..]));
        let mut is_sound = true;
        let piece = &mut |key: &[u8], value: Value<'_>| match piece_keys.numbers(key) {
            Some((_, piece)) if value.len() <= piece_size => visit(piece, value),
            _ => {
                is_sound = false;
                false
            }
        };
        self.access.visit(self.layout.data, bounds, direction, piece)?;
        if is_sound { Ok(()) } else { Err(too_long(layer)) }
    }

    /// Visits a piece of a layer, if it is there: faster than a range of one.
    pub(crate) fn one_piece(
        &mut self,
        layer: u64,
        piece: u64,
        mut visit: impl FnMut(Value<'_>),
    ) -> Result<(), Error> {
        let piece_size = self.layout.piece_size;
        let mut is_sound = true;
        let with: &mut With<'_> = &mut |value| match value {
            Some(value) if value.len() <= piece_size => visit(value),
            found => is_sound = found.is_none(),
        };
        self.access.get_at(self.layout.data, &self.piece_key(layer, piece), with)?;
        if is_sound { Ok(()) } else { Err(too_long(layer)) }
    }

    fn piece_key(&self, layer: u64, piece: u64) -> PieceKey {
        self.layout.piece_keys.key(layer, piece)
    }

    /// A piece of a layer, copied.
    pub(crate) fn piece(&mut self, layer: u64, piece: u64) -> Result<Option<Vec<u8>>, Error> {
        let mut found = None;
        let with: &mut With<'_> = &mut |value| found = value.map(|value| value.to_vec());
        self.access.get_at(self.layout.data, &self.piece_key(layer, piece), with)?;
        Ok(found)
    }

    /// Whether a piece of a layer is there.
    pub(crate) fn has_piece(&mut self, layer: u64, piece: u64) -> Result<bool, Error> {
        let mut found = false;
        let with: &mut With<'_> = &mut |value| found = value.is_some();
        self.access.get_at(self.layout.data, &self.piece_key(layer, piece), with)?;
        Ok(found)
    }

    /// The value of an attribute.
    pub(crate) fn attribute(&mut self, inode: u64, name: &[u8]) -> Result<Option<Vec<u8>>, Error> {
        self.value(&attribute_key(inode, name), |value| value.to_vec())
    }

    /// The names of the attributes of an inode.
    pub(crate) fn attributes(&mut self, inode: u64) -> Result<Vec<Vec<u8>>, Error> {
        let mut names = Vec::new();
        self.tagged(&attribute_key(inode, b""), &mut |key, _| {
            names.extend(key.get(9..).map(<[u8]>::to_vec));
            true
        })?;
        Ok(names)
    }

    /// Inodes without a name.
    pub(crate) fn orphans(&mut self) -> Result<Vec<u64>, Error> {
        let mut numbers = Vec::new();
        self.tagged(&orphan_key(0)[..1], &mut |key, _| {
            numbers.extend(number_in(key));
            true
        })?;
        Ok(numbers)
    }

    /// Visits points in time, from the first on; or back from a time on. Those of another pool have the version 0, which none keeps.
    pub(crate) fn points(
        &mut self,
        back_from: Option<Time>,
        visit: &mut dyn FnMut(Point) -> bool,
    ) -> Result<(), Error> {
        let first = point_key(i64::MIN, 0);
        let (last, direction) = match back_from {
            None => (point_key(i64::MAX, u32::MAX), Direction::Forward),
            Some(time) => (point_key(time.seconds, time.nanoseconds), Direction::Backward),
        };
        let bounds = (Bound::Included(&first[..]), Bound::Included(&last[..]));
        let (mut is_sound, pool) = (true, self.layout.pool);
        let point = |key: &[u8], value: Value<'_>| value.with(|bytes| point(key, bytes, pool));
        let visit = &mut |key: &[u8], value: Value<'_>| match point(key, value) {
            Some(point) => visit(point),
            None => {
                is_sound = false;
                false
            }
        };
        self.access.visit(self.layout.tree, bounds, direction, visit)?;
        if is_sound { Ok(()) } else { Err(Error::Damaged { inode: 0, what: "a point in time" }) }
    }

    /// Visits all keys of the tree that begin with these bytes.
    pub(crate) fn tagged(
        &mut self,
        begin: &[u8],
        visit: &mut dyn FnMut(&[u8], Value<'_>) -> bool,
    ) -> Result<(), Error> {
        let range = beginning(begin);
        Ok(self.access.visit(self.layout.tree, between(&range), Direction::Forward, visit)?)
    }

    /// Visits all pieces of all files.
    pub(crate) fn all_pieces(
        &mut self,
        visit: &mut dyn FnMut(&[u8], Value<'_>) -> bool,
    ) -> Result<(), Error> {
        let all = (Bound::Unbounded, Bound::Unbounded);
        Ok(self.access.visit(self.layout.data, all, Direction::Forward, visit)?)
    }

    /// The greatest number that an inode or a layer has.
    pub(crate) fn last_number(&mut self) -> Result<u64, Error> {
        let mut last = 0;
        for tag in [INODE_TAG, LAYER_TAG] {
            let range = beginning(&[tag]);
            self.access.visit(
                self.layout.tree,
                between(&range),
                Direction::Backward,
                &mut |key, _| {
                    last = number_in(key).unwrap_or(0).max(last);
                    false
                },
            )?;
        }
        Ok(last)
    }
}

impl<A: Writes> Records<A> {
    pub(crate) fn put_inode(&mut self, inode: &Inode) -> Result<(), Error> {
        let (record, key) = (inode.to_record(), inode_key(inode.number));
        let set = match inode.to_layers() {
            None => self.access.set(self.layout.tree, &key, record.as_bytes()),
            Some(layers) => {
                let bytes = [record.as_bytes(), layers.as_bytes()].concat();
                self.access.set(self.layout.tree, &key, &bytes)
            }
        };
        Ok(set?)
    }

    pub(crate) fn remove_inode(&mut self, number: u64) -> Result<(), Error> {
        Ok(self.access.unset(self.layout.tree, &inode_key(number))?)
    }

    /// Puts an entry, which may be there.
    pub(crate) fn put_entry(
        &mut self,
        directory: u64,
        name: &[u8],
        named: Named,
    ) -> Result<(), Error> {
        let kind = named.kind as u8;
        let (inode, reserved) = (named.inode.into(), [0; 7]);
        let record = NameRecord { inode, cookie: named.cookie.into(), kind, reserved };
        self.access.set(self.layout.tree, &name_key(directory, name), record.as_bytes())?;
        let record = CookieRecord { inode, kind, reserved };
        let value = [record.as_bytes(), name].concat();
        Ok(self.access.set(self.layout.tree, &cookie_key(directory, named.cookie), &value)?)
    }

    pub(crate) fn remove_name(&mut self, directory: u64, name: &[u8]) -> Result<(), Error> {
        Ok(self.access.unset(self.layout.tree, &name_key(directory, name))?)
    }

    pub(crate) fn remove_cookie(&mut self, directory: u64, cookie: u64) -> Result<(), Error> {
        Ok(self.access.unset(self.layout.tree, &cookie_key(directory, cookie))?)
    }

    pub(crate) fn put_point(&mut self, Point { time, version }: Point) -> Result<(), Error> {
        let record = PointRecord { version: version.into(), pool: self.layout.pool.into() };
        let key = point_key(time.seconds, time.nanoseconds);
        Ok(self.access.set(self.layout.tree, &key, record.as_bytes())?)
    }

    pub(crate) fn remove_point(&mut self, time: Time) -> Result<(), Error> {
        let key = point_key(time.seconds, time.nanoseconds);
        Ok(self.access.unset(self.layout.tree, &key)?)
    }

    pub(crate) fn put_orphan(&mut self, inode: u64) -> Result<(), Error> {
        Ok(self.access.set(self.layout.tree, &orphan_key(inode), &[])?)
    }

    pub(crate) fn remove_orphan(&mut self, inode: u64) -> Result<(), Error> {
        Ok(self.access.unset(self.layout.tree, &orphan_key(inode))?)
    }

    pub(crate) fn put_attribute(
        &mut self,
        inode: u64,
        name: &[u8],
        value: &[u8],
    ) -> Result<(), Error> {
        Ok(self.access.set(self.layout.tree, &attribute_key(inode, name), value)?)
    }

    pub(crate) fn remove_attribute(&mut self, inode: u64, name: &[u8]) -> Result<(), Error> {
        Ok(self.access.unset(self.layout.tree, &attribute_key(inode, name))?)
    }

    pub(crate) fn put_piece(&mut self, layer: u64, piece: u64, bytes: &[u8]) -> Result<(), Error> {
        Ok(self.access.set(self.layout.data, &self.piece_key(layer, piece), bytes)?)
    }

    /// Puts whole pieces, from one on.
    pub(crate) fn put_pieces(&mut self, layer: u64, first: u64, bytes: &[u8]) -> Result<(), Error> {
        let pieces = bytes.chunks_exact(self.layout.piece_size);
        let keys: Vec<PieceKey> =
            (first..).take(pieces.len()).map(|piece| self.piece_key(layer, piece)).collect();
        let puts: Vec<(&[u8], &[u8])> = keys.iter().map(|key| &key[..]).zip(pieces).collect();
        Ok(self.access.set_all(self.layout.data, &puts)?)
    }

    pub(crate) fn remove_piece(&mut self, layer: u64, piece: u64) -> Result<(), Error> {
        Ok(self.access.unset(self.layout.data, &self.piece_key(layer, piece))?)
    }

    /// Removes all pieces from one up to and including another, whatever their number.
    pub(crate) fn remove_pieces(&mut self, layer: u64, first: u64, last: u64) -> Result<(), Error> {
        let (from, to) = (self.piece_key(layer, first), self.piece_key(layer, last));
        let bounds = (Bound::Included(&from[..]), Bound::Included(&to[..]));
        Ok(self.access.unset_range(self.layout.data, bounds)?)
    }
}

fn too_long(layer: u64) -> Error {
    Error::Damaged { inode: layer, what: "a piece is too long" }
}

/// What the key and the value of a point in time say.
fn point(key: &[u8], bytes: &[u8], pool: u64) -> Option<Point> {
    let (seconds, nanoseconds) = point_in(key)?;
    let record = PointRecord::read_from_bytes(bytes).ok()?;
    let version = if record.pool.get() == pool { record.version.get() } else { 0 };
    Some(Point { time: Time { seconds, nanoseconds }, version })
}

/// What the value of a name says.
pub(crate) fn named(bytes: &[u8]) -> Option<Named> {
    let record = NameRecord::read_from_bytes(bytes).ok()?;
    let (inode, cookie) = (record.inode.get(), record.cookie.get());
    Some(Named { inode, kind: FileKind::of_code(record.kind)?, cookie })
}

/// What the key and the value of a cookie say. A name that leads out of its directory, which only a forged pool has, is none.
pub(crate) fn entry(key: &[u8], bytes: &[u8]) -> Option<Entry> {
    let (record, name) = CookieRecord::read_from_prefix(bytes).ok()?;
    if !is_name(name) || name.len() > NAME_LEN_MAX {
        return None;
    }
    let cookie = u64::from_be_bytes(key.get(9..)?.try_into().ok()?);
    let (inode, kind) = (record.inode.get(), FileKind::of_code(record.kind)?);
    Some(Entry { inode, kind, cookie, name: name.to_vec() })
}

impl Changing<'_> {
    /// The number of a file or layer that is made. Relaxed: a number is drawn once, and orders nothing.
    pub(crate) fn draw_number(&self) -> u64 {
        self.next.fetch_add(1, Ordering::Relaxed)
    }

    /// That what is written from one offset up to another keeps the limit, if all pieces that need not be there are not.
    ///
    /// # Errors
    /// [`Error::OverLimit`].
    pub(crate) fn check_left(
        &self,
        inode: &Inode,
        (from, to): (u64, u64),
        piece_size: usize,
    ) -> Result<(), Error> {
        let size = piece_size as u64;
        let is_dense = inode.is_dense(piece_size);
        let first = if is_dense { inode.pieces.max(from / size) } else { from / size };
        let used = to.div_ceil(size).saturating_sub(first).saturating_mul(size);
        match self.left {
            Some(limit) if used > 0 && used > limit => Err(Error::OverLimit { used, limit }),
            _ => Ok(()),
        }
    }
}
