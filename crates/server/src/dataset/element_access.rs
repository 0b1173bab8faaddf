//! The elements of large collections, through the transaction of the turn.

use std::ops::Bound;

use tembo_kv::{Direction, Error};

use crate::dataset::Dataset;
use crate::dataset::elements::{Ends, VisitElement};
use crate::dataset::level_entry::LevelEntry;
use crate::dataset::level_one::LevelOne;
use crate::dataset::upper_levels::UpperLevels;
use crate::failure::Failure;
use crate::format::{ELEMENT_PREFIX_SIZE, Part, Spread, element_prefix};

impl Dataset<'_> {
    /// An id for the elements of a collection.
    pub(crate) fn new_id(&mut self, db: usize) -> Result<u64, Failure> {
        self.written.changes += 1;
        let (transaction, elements) = self.begin_elements()?;
        Ok(elements.new_id(transaction, db)?)
    }

    /// The value of an element; a database, an id and a part say of which collection.
    #[inline]
    pub(crate) fn element(
        &mut self,
        (db, id, part): (usize, u64, Part),
        rest: &[&[u8]],
    ) -> Result<Option<tembo_kv::Value<'_>>, Failure> {
        self.begin_elements()?;
        let transaction = self.transaction.as_ref().ok_or(Error::WouldDeadlock)?;
        if !self.write_back.is_empty() {
            let (space, key) = self.elements.place(db, (id, part), rest);
            if let Some(bytes) = self.write_back.get(space, key) {
                return Ok(Some(bytes.into()));
            }
        }
        Ok(self.elements.get(transaction, db, (id, part), rest)?)
    }

    /// Puts an element; true if it was there before.
    #[inline]
    pub(crate) fn put_element(
        &mut self,
        (db, id, part): (usize, u64, Part),
        rest: &[&[u8]],
        value: &[&[u8]],
    ) -> Result<bool, Failure> {
        let old_size = self.counted_element((db, id, part), rest)?;
        let waited = self.forget_waiting((db, id, part), rest);
        let (transaction, elements) = self.begin_elements()?;
        let existed = elements.put(transaction, db, ((id, part), rest), value)?;
        self.count_written(rest, value, old_size);
        Ok(existed || waited)
    }

    /// Puts an element that is not asked for by a range. It may be written later in the turn.
    pub(crate) fn put_element_later(
        &mut self,
        (db, id, part): (usize, u64, Part),
        rest: &[&[u8]],
        value: &[&[u8]],
    ) -> Result<(), Failure> {
        if !self.may_wait() {
            return self.put_element((db, id, part), rest, value).map(drop);
        }
        let old_size = self.counted_element((db, id, part), rest)?;
        self.begin_elements()?;
        let (space, key) = self.elements.place(db, (id, part), rest);
        if self.write_back.is_full() && self.write_back.get(space, key).is_none() {
            let transaction = self.transaction.as_mut().ok_or(Error::WouldDeadlock)?;
            self.write_back.write(transaction)?;
        }
        self.write_back.put(space, key, value);
        self.count_written(rest, value, old_size);
        Ok(())
    }

    /// Changes an element, of which all is read, or an empty one that is not there. If it is empty then, it is removed.
    /// It may be written later in the turn.
    ///
    /// # Errors
    /// Those of `change`, which then has changed nothing.
    pub(crate) fn change_element<T>(
        &mut self,
        (db, id, part): (usize, u64, Part),
        rest: &[&[u8]],
        change: impl FnOnce(&mut Vec<u8>) -> Result<T, Failure>,
    ) -> Result<T, Failure> {
        if !self.may_wait() {
            let found = self.element((db, id, part), rest)?;
            let mut bytes = found.map(|value| value.to_vec()).unwrap_or_default();
            let changed = change(&mut bytes)?;
            if bytes.is_empty() {
                self.remove_element((db, id, part), rest)?;
            } else {
                self.put_element((db, id, part), rest, &[&bytes])?;
            }
            return Ok(changed);
        }
        let old_size = self.counted_element((db, id, part), rest)?;
        self.begin_elements()?;
        let transaction = self.transaction.as_mut().ok_or(Error::WouldDeadlock)?;
        let (space, key) = self.elements.place(db, (id, part), rest);
        if self.write_back.get(space, key).is_none() {
            if self.write_back.is_full() {
                self.write_back.write(transaction)?;
            }
            let found = transaction.get(space, key)?.map(|value| value.to_vec());
            self.write_back.put(space, key, &[&found.unwrap_or_default()]);
        }
        let Some(bytes) = self.write_back.get_mut(space, key) else {
            return Err(Failure::UnknownLayout);
        };
        let before = bytes.len();
        let changed = change(bytes);
        self.written.changes += 1;
        self.written.bytes += bytes.len().abs_diff(before) as u64;
        self.written.removed += old_size;
        if !bytes.is_empty() {
            self.written.added += self.footprint.size_if_counted(key.len() + bytes.len());
        } else {
            self.write_back.forget(space, key);
            transaction.remove(space, key)?;
        }
        changed
    }

    fn count_written(&mut self, rest: &[&[u8]], value: &[&[u8]], old_size: u64) {
        self.written.changes += 1;
        let size = rest.iter().chain(value).map(|bytes| bytes.len() as u64).sum::<u64>();
        self.written.bytes += size;
        self.written.removed += old_size;
        self.written.added += self.footprint.size_if_counted(ELEMENT_PREFIX_SIZE + size as usize);
    }

    /// What waits to be written of an element is not written; whether there was something.
    #[inline]
    fn forget_waiting(&mut self, (db, id, part): (usize, u64, Part), rest: &[&[u8]]) -> bool {
        if self.write_back.is_empty() {
            return false;
        }
        let (space, key) = self.elements.place(db, (id, part), rest);
        self.write_back.forget(space, key)
    }

    /// Writes what waits of elements whose keys begin so.
    #[inline]
    fn write_back_elements(&mut self, db: usize, prefix: &[u8]) -> Result<(), Error> {
        if !self.write_back.is_empty()
            && self.write_back.has_prefix(self.spaces.elements[db], prefix)
        {
            self.write_back()?;
        }
        Ok(())
    }

    /// Removes an element; true if it was there.
    #[inline]
    pub(crate) fn remove_element(
        &mut self,
        (db, id, part): (usize, u64, Part),
        rest: &[&[u8]],
    ) -> Result<bool, Failure> {
        self.written.removed += self.counted_element((db, id, part), rest)?;
        let waited = self.forget_waiting((db, id, part), rest);
        let (transaction, elements) = self.begin_elements()?;
        let existed = elements.remove(transaction, db, (id, part), rest)? || waited;
        self.written.changes += u64::from(existed);
        Ok(existed)
    }

    /// Calls `visit` with the elements of a part of a collection between two ends, until it returns false.
    pub(crate) fn visit_elements(
        &mut self,
        (db, id, part): (usize, u64, Part),
        ends: Ends<'_>,
        direction: Direction,
        visit: &mut VisitElement<'_>,
    ) -> Result<(), Failure> {
        self.write_back_elements(db, &element_prefix(id, part))?;
        let (transaction, elements) = self.begin_elements()?;
        Ok(elements.visit(transaction, db, ((id, part), ends, direction), visit)?)
    }

    /// Copies all elements of a collection, of a database and id, to another id.
    pub(crate) fn copy_elements(
        &mut self,
        from: (usize, u64),
        to: (usize, u64),
    ) -> Result<(), Failure> {
        self.write_back()?;
        let (transaction, elements) = self.begin_elements()?;
        let copied = elements.copy(transaction, from, to)?;
        self.written.changes += copied.changes;
        self.written.bytes += copied.bytes;
        self.written.added += self.footprint.size_if_counted(copied.bytes as usize);
        Ok(())
    }

    /// Removes so many elements of a part of a collection, which lie from one on, up to another one.
    pub(crate) fn remove_elements_between(
        &mut self,
        (db, id, part): (usize, u64, Part),
        (from, to): (&[u8], &[u8]),
        count: u64,
    ) -> Result<(), Failure> {
        let prefix = element_prefix(id, part);
        self.write_back_elements(db, &prefix)?;
        let (from, to) = ([&prefix[..], from].concat(), [&prefix[..], to].concat());
        self.written.removed += self.counted_elements(db, (&from, &to), count)?;
        let (transaction, elements) = self.begin_elements()?;
        elements.remove_between(transaction, db, (&from, &to), count)?;
        self.written.changes += count;
        Ok(())
    }

    /// Removes all elements of a collection of the database.
    pub(super) fn remove_elements(&mut self, db: usize, spread: Spread) -> Result<(), Failure> {
        self.write_back_elements(db, &spread.id.to_be_bytes())?;
        self.upper_levels.forget((db, spread.id));
        self.written.removed += self.counted_collection(db, spread)?;
        let (transaction, elements) = self.begin_elements()?;
        elements.remove_all(transaction, (db, spread.id), spread.count)?;
        self.written.changes += 1;
        Ok(())
    }

    /// The entries of a level of a sorted set, in order, the head first; `None`: they are not held in memory, because they
    /// are many.
    pub(crate) fn level(
        &mut self,
        (db, id): (usize, u64),
        level: u8,
    ) -> Result<Option<&[LevelEntry]>, Failure> {
        let of = (db, id, level);
        if !self.upper_levels.is_known(of) {
            if self.upper_levels.is_full() {
                self.write_back()?;
            }
            let (mut entries, mut is_sound) = (Vec::new(), true);
            let all = (Bound::Unbounded, Bound::Unbounded);
            let part = (db, id, Part::Level(level));
            self.visit_elements(part, all, Direction::Forward, &mut |rest, value| {
                match value.array(0).map(u64::from_be_bytes) {
                    Some(members) => entries.push(LevelEntry::new(rest.to_vec(), members)),
                    None => is_sound = false,
                }
                is_sound && entries.len() <= UpperLevels::entries_max()
            })?;
            if !is_sound {
                return Err(Failure::UnknownLayout);
            }
            let is_short = entries.len() <= UpperLevels::entries_max();
            self.upper_levels.hold(of, is_short.then_some(entries));
        }
        Ok(self.upper_levels.entries(of))
    }

    /// What is held of the levels 1 that are not stored.
    pub(crate) fn level_one(&mut self) -> &mut LevelOne {
        &mut self.upper_levels.level_one
    }

    /// Puts an entry of a level, which may be held in memory.
    pub(crate) fn put_in_level(
        &mut self,
        (db, id): (usize, u64),
        level: u8,
        (key, members): (&[u8], u64),
    ) -> Result<(), Failure> {
        let may_wait = self.may_wait();
        if self.upper_levels.set((db, id, level), key, members, may_wait) {
            self.written.changes += 1;
            return Ok(());
        }
        // If that fails, the command is taken back, or the turn, and nothing is held any more.
        self.put_element((db, id, Part::Level(level)), &[key], &[&members.to_be_bytes()])?;
        Ok(())
    }

    /// Counts a member more or less in the entry of a level before a key; false: there is none. `None`: the level is not held in
    /// memory, or its changes may not wait, and nothing has changed.
    pub(crate) fn count_in_level(
        &mut self,
        (db, id): (usize, u64),
        level: u8,
        (key, is_added): (&[u8], bool),
    ) -> Result<Option<bool>, Failure> {
        if !self.may_wait() || self.level((db, id), level)?.is_none() {
            return Ok(None);
        }
        let counted = self.upper_levels.count((db, id, level), key, is_added);
        self.written.changes += u64::from(counted == Some(true));
        Ok(counted)
    }

    /// Removes an entry of a level, which may be held in memory.
    pub(crate) fn remove_from_level(
        &mut self,
        (db, id): (usize, u64),
        level: u8,
        key: &[u8],
    ) -> Result<(), Failure> {
        self.remove_element((db, id, Part::Level(level)), &[key])?;
        self.upper_levels.remove((db, id, level), key);
        Ok(())
    }
}
