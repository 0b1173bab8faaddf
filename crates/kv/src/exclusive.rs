//! The exclusive writer: any number of changes in place, one grouped commit.

use std::marker::PhantomData;
use std::ops::RangeBounds;

use tembo_index::{Direction, Op, Range, Value, VersionedIndex, Visit};

use crate::commit::{KEYS_ABREAST, Point, Uncommitted};
use crate::entries::{Entries, bounds};
use crate::error::InKeyspace;
use crate::expected::Expected;
use crate::keyspace::check_sizes;
use crate::ledger::publish;
use crate::opened::Handle;
use crate::prefetched::Prefetched;
use crate::tombstones::{KeyRange, Tombstone, masked_get_many, masked_range};
use crate::trees::Tree;
use crate::write::{Engine, Owned};
use crate::{Durability, Error, KeyCount, Keyspace};

/// The exclusive writer: while it lives no other handle commits. Its changes are made in place, and become
/// visible together or not at all. Reads see its own changes.
///
/// A failed write changes nothing, and the writer goes on. Dropping one that has written makes its
/// version void. If the store is open [to be read only](crate::Options::read_only) it can read, and each change is refused
/// with [`Error::ReadOnly`].
///
/// It stays on its thread: only fences of that thread order what it has flushed, so that a commit by another
/// one could become durable before its entries. (A [`Transaction`](crate::Transaction) can be sent.) Calls to the
/// store that would wait for it return [`Error::WouldDeadlock`].
///
/// ```compile_fail,E0277
/// fn is_send<T: Send>() {}
/// is_send::<tembo_kv::Exclusive>();
/// ```
pub struct Exclusive {
    writing: Owned<Handle>,
    changes: Uncommitted,
    prefetched: Prefetched,
    expected: Expected,
    saved: Option<Point>,
    _thread: PhantomData<*const ()>,
}

impl Exclusive {
    /// # Errors
    /// [`Error::WouldDeadlock`]; [`Error::Damaged`] if the store takes no more writes.
    pub(crate) fn begin(handle: &Handle) -> Result<Exclusive, Error> {
        let writing = if handle.shared.region().is_read_only() {
            Engine::own(handle)?
        } else {
            Engine::own_to_write(handle)?
        };
        writing.writable()?;
        let changes = Uncommitted::begin(writing.shared());
        Ok(Exclusive {
            writing,
            changes,
            prefetched: Prefetched::default(),
            expected: Expected::default(),
            saved: None,
            _thread: PhantomData,
        })
    }

    /// Says that these values, each the concatenation of some parts, will likely be put under their keys, in this order. Those that
    /// fill pages are written together at once, which is less work than one by one. It changes nothing: a
    /// [`put`](Exclusive::put) takes the value that is written if it is of the same key and bytes. What no put has taken is given
    /// up by the next call, a commit, or the end of the writer, which costs a fence then.
    pub fn expect_puts(&mut self, keyspace: Keyspace, puts: &[(&[u8], &[&[u8]])]) {
        if puts.iter().any(|(key, parts)| check_sizes(key, parts).is_err()) {
            return;
        }
        self.writing.note_thread();
        let version = self.changes.newest(self.writing.shared());
        let (shared, ledger) = self.writing.parts();
        self.expected.begin((shared, ledger), (keyspace, version), puts);
    }

    fn tree(&self, keyspace: Keyspace) -> Result<&Tree, Error> {
        self.writing.note_thread();
        self.writing.trees.tree(keyspace, self.changes.newest(self.writing.shared()))
    }

    /// The value under `key`, its own writes included.
    ///
    /// # Errors
    /// [`Error::NoSuchKeyspace`]; damage.
    pub fn get(&self, keyspace: Keyspace, key: &[u8]) -> Result<Option<Value<'_>>, Error> {
        let shared = self.writing.shared();
        let place = self.prefetched.place(keyspace, key);
        let view = self.changes.view(self.writing.shared());
        let tree = self.tree(keyspace)?;
        if !shared.sees(tree.index(), key, view).in_keyspace(tree.name())? {
            return Ok(None);
        }
        tree.index().get_at(place, key, view).in_keyspace(tree.name())
    }

    /// The values under some keys, in the order of the keys, its own writes included; as
    /// [`Snapshot::get_many`](crate::Snapshot::get_many).
    ///
    /// # Errors
    /// As of [`get`](Exclusive::get): if one value cannot be read, none is returned.
    pub fn get_many<K: AsRef<[u8]>>(
        &self,
        keyspace: Keyspace,
        keys: &[K],
    ) -> Result<Vec<Option<Value<'_>>>, Error> {
        let view = self.changes.view(self.writing.shared());
        let tree = self.tree(keyspace)?;
        let keys: Vec<&[u8]> = keys.iter().map(AsRef::as_ref).collect();
        let (tombstones, mut values) = (self.writing.shared().tombstones.load(), Vec::new());
        masked_get_many(&tombstones, tree.index(), &keys, view, &mut values)
            .in_keyspace(tree.name())?;
        Ok(values)
    }

    /// Prefetches keys that will soon be read or changed, in this order. That is faster where there are many
    /// keys. It changes nothing. Keys of the keyspace that were prefetched before are forgotten; those of one other keyspace are
    /// not.
    pub fn prefetch(&mut self, keyspace: Keyspace, keys: &[&[u8]]) {
        let view = self.changes.view(self.writing.shared());
        let Ok(tree) = self.writing.trees.tree(keyspace, view.version) else { return };
        tree.index().prefetch(keys, view, self.prefetched.begin(keyspace, keys));
    }

    /// Checks that keys have an order, for a caller that needs one.
    ///
    /// # Errors
    /// [`Error::Unordered`].
    pub(crate) fn check_order(&self) -> Result<(), Error> {
        self.writing.shared().check_order()
    }

    /// The keys and values of a range, in order, from either end, its own changes included. Of everything:
    /// `range::<[u8]>(keyspace, ..)`.
    ///
    /// # Errors
    /// [`Error::NoSuchKeyspace`]; [`Error::Unordered`], unless it is the range of all keys; damage.
    pub fn range<K: AsRef<[u8]> + ?Sized>(
        &self,
        keyspace: Keyspace,
        range: impl RangeBounds<K>,
    ) -> Result<Entries<'_>, Error> {
        self.writing.shared().check_range(bounds(&range))?;
        let known = self.tree(keyspace)?.known.clone();
        let view = self.changes.view(self.writing.shared());
        let tombstones = self.writing.shared().tombstones.load();
        Ok(Entries::new(bounds(&range), move |range, visit| {
            masked_range(&tombstones, &known.index, range, view, visit).in_keyspace(&known.name)
        }))
    }

    /// Calls `visit` with each key and value of a range, in the given direction, until it returns false: faster than
    /// [`range`](Exclusive::range), for nothing is copied.
    ///
    /// # Errors
    /// [`Error::NoSuchKeyspace`]; [`Error::Unordered`], unless it is the range of all keys; damage.
    pub fn range_with<K: AsRef<[u8]> + ?Sized>(
        &self,
        keyspace: Keyspace,
        range: impl RangeBounds<K>,
        direction: Direction,
        visit: &mut Visit<'_>,
    ) -> Result<(), Error> {
        let (from, to) = bounds(&range);
        self.writing.shared().check_range((from, to))?;
        let view = self.changes.view(self.writing.shared());
        let (tree, range) = (self.tree(keyspace)?, Range { from, to, direction });
        let tombstones = self.writing.shared().tombstones.load();
        masked_range(&tombstones, tree.index(), range, view, visit).in_keyspace(tree.name())
    }

    /// Keys in the keyspace; `None` while a background recount after open is still under way, or while entries of a
    /// range that was removed wait to be erased.
    pub fn count(&self, keyspace: Keyspace) -> Option<u64> {
        let count = self.key_count(keyspace).ok()?;
        count.is_exact.then_some(count.keys)
    }

    /// Keys in the keyspace, or an estimate where [`count`](Exclusive::count) does not know: in constant time, whatever the
    /// background is at. After a clean stop they are known at once. After any other they are estimated by what was last
    /// written down, which is done in the background each time they have changed by an eighth or so.
    ///
    /// # Errors
    /// [`Error::NoSuchKeyspace`].
    pub fn key_count(&self, keyspace: Keyspace) -> Result<KeyCount, Error> {
        let tree = self.tree(keyspace)?;
        let tombstones = self.writing.shared().tombstones.load();
        let is_covered = |one: &Tombstone| one.cell == tree.known.cell && one.is_pending();
        let known = tree.key_count();
        Ok(KeyCount {
            keys: known.keys.saturating_add_signed(self.changes.delta(keyspace)),
            is_exact: known.is_exact && !tombstones.iter().any(is_covered),
        })
    }

    /// Puts `value` under `key`; true if the key was there before.
    ///
    /// # Errors
    /// [`Error::KeyTooLong`], [`Error::ValueTooLong`], [`Error::NoSuchKeyspace`], [`Error::Full`],
    /// [`Error::Poisoned`]: nothing has changed.
    #[inline]
    pub fn put(&mut self, keyspace: Keyspace, key: &[u8], value: &[u8]) -> Result<bool, Error> {
        self.put_parts(keyspace, key, &[value])
    }

    /// As [`put`](Exclusive::put), of a value that is the concatenation of `parts`.
    ///
    /// # Errors
    /// As of [`put`](Exclusive::put).
    #[inline]
    pub fn put_parts(
        &mut self,
        keyspace: Keyspace,
        key: &[u8],
        parts: &[&[u8]],
    ) -> Result<bool, Error> {
        check_sizes(key, parts)?;
        self.apply(keyspace, Op::Put { key, value: parts })
    }

    /// Puts values, each under its key, in this order. Large ones that fill pages are less work together than by
    /// [`put`](Exclusive::put), one by one.
    ///
    /// # Errors
    /// As of [`put`](Exclusive::put); some may have been put then: drop the writer, or go back to a
    /// [savepoint](Exclusive::savepoint).
    pub fn put_all(&mut self, keyspace: Keyspace, puts: &[(&[u8], &[u8])]) -> Result<(), Error> {
        puts.iter().try_for_each(|&(key, value)| check_sizes(key, &[value]))?;
        self.writing.note_thread();
        let (shared, ledger) = self.writing.parts();
        for puts in puts.chunks(KEYS_ABREAST) {
            let group: Vec<_> = puts.iter().map(|&(key, value)| (key, Some(value))).collect();
            self.changes.apply_group(shared, ledger, keyspace, &group)?;
        }
        Ok(())
    }

    /// Removes `key`; false if it was not there.
    ///
    /// # Errors
    /// As of [`put`](Exclusive::put).
    pub fn remove(&mut self, keyspace: Keyspace, key: &[u8]) -> Result<bool, Error> {
        if self.changes.is_empty() {
            match self.get(keyspace, key) {
                Ok(None) => return Ok(false),
                // The key is there, and can be removed.
                Ok(Some(_)) | Err(Error::Corrupt { .. }) => {}
                Err(error) => return Err(error),
            }
        }
        self.apply(keyspace, Op::Remove { key })
    }

    /// Removes the keys of a range, in time independent of their number: they are not seen from here on, and the
    /// background erases them. Until then [`count`](Exclusive::count) does not know how many keys there are, and single
    /// changes of the store are made one after the other.
    ///
    /// The changes before and after it have versions of their own; all become visible with the last.
    ///
    /// # Errors
    /// As of [`put`](Exclusive::put); [`Error::Unordered`].
    pub fn remove_range<K: AsRef<[u8]> + ?Sized>(
        &mut self,
        keyspace: Keyspace,
        range: impl RangeBounds<K>,
    ) -> Result<(), Error> {
        self.writing.note_thread();
        self.check_order()?;
        let Some(range) = KeyRange::checked(bounds(&range))? else { return Ok(()) };
        let (shared, ledger) = self.writing.parts();
        self.changes.remove_range(shared, ledger, (keyspace, range))
    }

    /// Removes every key of the keyspace, in O(1). Its space is given back in the background.
    ///
    /// # Errors
    /// As of [`put`](Exclusive::put).
    pub fn clear(&mut self, keyspace: Keyspace) -> Result<(), Error> {
        self.writing.note_thread();
        let (shared, ledger) = self.writing.parts();
        self.changes.clear(shared, ledger, keyspace)?;
        self.prefetched.forget();
        Ok(())
    }

    /// Remembers the changes made so far, so that [`Exclusive::rollback_to_savepoint`] comes back to them.
    /// There is one savepoint: a later one replaces it. The changes that follow have a version of their
    /// own; all become visible with the last. Costs no flush and no fence.
    pub fn savepoint(&mut self) {
        self.saved = Some(self.changes.point(self.writing.shared()));
    }

    /// Takes back the changes after the savepoint, which stays.
    ///
    /// Durability point: the changes that it takes back are durably void when it returns. One fence.
    ///
    /// # Errors
    /// [`Error::NoSuchSavepoint`]. [`Error::TooManyAborts`], [`Error::Full`], [`Error::Poisoned`]: nothing
    /// is taken back; drop the writer.
    pub fn rollback_to_savepoint(&mut self) -> Result<(), Error> {
        let Some(point) = &self.saved else { return Err(Error::NoSuchSavepoint) };
        self.prefetched.forget();
        let (shared, ledger) = self.writing.parts();
        self.changes.take_back(shared, ledger, point)
    }

    /// True while nothing has been written.
    pub fn is_clean(&self) -> bool {
        self.changes.is_empty()
    }

    /// Commits all or nothing and returns the version: two fences, whatever the number of changes, and none if there are no
    /// changes.
    ///
    /// Durability point: as `durability` says, capped by the region's sync policy; with it, what it has
    /// read is as durable.
    ///
    /// # Errors
    /// [`Error::NotDurable`]: all of it is visible; sync when the disk has room. [`Error::Poisoned`]: then nothing of it may be
    /// shown, though it may be there after the next open.
    pub fn commit(mut self, durability: Durability) -> Result<u64, Error> {
        let changed = self.changes.last();
        let (shared, ledger) = self.writing.parts();
        self.expected.give_up(shared);
        if let Some(version) = changed {
            publish(shared, ledger, version, std::slice::from_mut(&mut self.changes))?;
        }
        let version = changed.unwrap_or_else(|| shared.versions.clock.last());
        // What it has only read may be visible and not yet durable.
        if durability == Durability::Buffered || version <= shared.versions.durable() {
            return Ok(version);
        }
        let handle = self.writing.engine().clone();
        drop(self);
        handle.shared.make_version_durable(durability, version)?;
        Ok(version)
    }

    #[inline]
    fn apply(&mut self, keyspace: Keyspace, op: Op<'_>) -> Result<bool, Error> {
        let (Op::Put { key, .. } | Op::Remove { key }) = op;
        self.writing.note_thread();
        let place = self.prefetched.place(keyspace, key);
        let at = (keyspace, place);
        let (shared, ledger) = self.writing.parts();
        if !self.expected.is_empty()
            && let Op::Put { key, value } = op
            && let Some((written, value)) = self.expected.take(keyspace, key, value)
        {
            return self.changes.put_written(shared, ledger, at, (key, value), written);
        }
        self.changes.apply(shared, ledger, at, op)
    }
}

impl Drop for Exclusive {
    fn drop(&mut self) {
        let (shared, ledger) = self.writing.parts();
        self.expected.give_up(shared);
        self.changes.abort(shared, ledger);
    }
}
