//! The databases as commands see them: one transaction a turn, expiry, watches.

mod added;
mod capacity;
mod element_access;
mod element_keys;
mod elements;
mod end_members;
mod evict;
mod expire;
mod expired;
mod expiry;
mod footprint;
mod known_ends;
mod large_string;
mod level_entry;
mod level_one;
mod lookup;
mod order;
mod pieces;
mod prefetch;
mod spaces;
mod stream_hints;
mod upper_levels;
mod usage;
mod write_back;
mod written;

pub(crate) use elements::{Ends, VisitElement};
pub(crate) use end_members::{EndMembers, TOGETHER, TOGETHER_SIZE_MAX};
pub(crate) use expired::Expired;
pub(crate) use known_ends::KnownEnds;
pub(crate) use level_entry::{LevelEntry, count_before, place_of};
pub(crate) use level_one::{Interval, LevelOne};
pub(crate) use pieces::{LARGE_STRING_SIZE, check_string};
pub(crate) use spaces::Spaces;
pub(crate) use stream_hints::{StreamHints, Visited};
pub(crate) use written::Written;

use std::ops::{Bound, Range};
use std::time::{Duration, Instant};

use tembo_kv::{Direction, Durability, Error, Exclusive, KeyCount, Keyspace, Store};

use crate::access::Access;
use crate::clock::Clock;
use crate::dataset::added::Added;
use crate::dataset::capacity::Capacity;
use crate::dataset::element_keys::ElementKeys;
use crate::dataset::elements::Elements;
use crate::dataset::expiry::ExpiryIndex;
use crate::dataset::footprint::{Footprint, entry_size};
use crate::dataset::lookup::{Lookups, find_string};
use crate::dataset::upper_levels::UpperLevels;
use crate::dataset::write_back::WriteBack;
use crate::encoding::EncodingLimits;
use crate::failure::{Failure, OUT_OF_MEMORY};
use crate::format::{Header, KEY_SIZE_MAX, Kind, Spread, Type, Value};
use crate::waiting::Waiting;
use crate::watch::Watches;

/// Changes of more bytes are made behind a savepoint, whatever room there is.
const SMALL_MAX: usize = 16 << 10;
/// A database of no more keys is counted where the store does not know how many there are.
const COUNTED_MAX: u64 = 256;

/// Of a value that is changed: the expiry under which it is indexed, and where its elements are.
pub(crate) type Before = (Option<u64>, Option<Spread>);

/// What is known of the value that a change replaces.
#[derive(Clone, Copy)]
pub(crate) struct Replaced {
    pub(crate) before: Before,
    /// It is there, and has not expired.
    pub(crate) is_there: bool,
}

/// The databases, through the transaction of the turn.
pub(crate) struct Dataset<'s> {
    store: &'s Store,
    pub(crate) spaces: Spaces,
    /// The order of the databases was changed in this turn.
    is_order_new: bool,
    access: Access,
    transaction: Option<Exclusive>,
    clock: Clock,
    expiry: ExpiryIndex,
    /// By database: it has more than [`COUNTED_MAX`] keys, and counting them was once given up.
    is_large: Vec<bool>,
    elements: Elements,
    /// What is written later in the turn.
    write_back: WriteBack,
    /// Levels of sorted sets, of which some counts are written later too.
    upper_levels: UpperLevels,
    /// Sorted sets from whose ends members were removed.
    pub(crate) known_ends: KnownEnds,
    /// The large string, or the part of one, that was read last: until the end of the turn.
    assembled: Vec<u8>,
    /// Memory for the keys of elements that are prefetched.
    prefetched_keys: ElementKeys,
    /// Changes are being made of which all or none is to happen.
    is_atomic: bool,
    /// See [`Dataset::take_waited`].
    waited: Duration,
    /// Keys that have expired and were removed, or of which fields were, if they are to be published.
    expired: Option<Vec<Expired>>,
    /// Keys that were added, if they are to be published.
    pub(crate) added: Added,
    /// The watches of all clients.
    pub(crate) watches: Watches,
    /// The clients that wait for keys.
    pub(crate) waiting: Waiting,
    /// Counters that only rise.
    written: Written,
    /// The same at the last commit.
    committed: Written,
    capacity: Capacity,
    footprint: Footprint,
    /// See [`EncodingLimits`].
    pub(crate) encodings: EncodingLimits,
    /// Keys that were looked for.
    pub(crate) lookups: Lookups,
    /// Keys that are due are removed before they are asked for.
    pub(crate) expires_actively: bool,
    /// The error with which a commit fails, and how many come before it.
    #[cfg(test)]
    pub(crate) fault: Option<Error>,
    #[cfg(test)]
    pub(crate) fault_after: usize,
}

impl<'s> Dataset<'s> {
    /// The databases of a store.
    pub(crate) fn new(store: &'s Store, spaces: &Spaces) -> Dataset<'s> {
        let databases = spaces.data.len();
        Dataset {
            store,
            spaces: spaces.clone(),
            is_order_new: false,
            access: if store.is_read_only() { Access::ReadOnlyPool } else { Access::Open },
            transaction: None,
            clock: Clock::default(),
            expiry: ExpiryIndex::new(spaces.expiry.clone()),
            is_large: vec![false; databases],
            elements: Elements::new(spaces.elements.clone()),
            write_back: WriteBack::default(),
            upper_levels: UpperLevels::default(),
            known_ends: KnownEnds::default(),
            assembled: Vec::new(),
            prefetched_keys: ElementKeys::default(),
            is_atomic: false,
            waited: Duration::ZERO,
            expired: None,
            added: Added::default(),
            watches: Watches::new(databases),
            waiting: Waiting::new(databases),
            written: Written::default(),
            committed: Written::default(),
            capacity: Capacity::new(),
            footprint: Footprint::default(),
            encodings: EncodingLimits::default(),
            lookups: Lookups::default(),
            expires_actively: true,
            #[cfg(test)]
            fault: None,
            #[cfg(test)]
            fault_after: 0,
        }
    }

    /// Commits in the middle of a turn, because a command needs the store itself.
    pub(crate) fn commit_early(&mut self) -> Result<&'s Store, Failure> {
        self.commit().map_err(Failure::Turn)?;
        Ok(self.store)
    }

    /// The store below; to be used only while no transaction is open.
    pub(crate) fn store(&self) -> &'s Store {
        self.store
    }

    /// Whether the pool is only read.
    pub(crate) fn is_read_only(&self) -> bool {
        self.access == Access::ReadOnlyPool
    }

    /// What clients may do.
    #[inline]
    pub(crate) fn access(&self) -> Access {
        self.access
    }

    /// From here on clients may do this. On a replica keys expire by what its primary does. A file that was removed does not
    /// come back.
    pub(crate) fn set_access(&mut self, access: Access) {
        if self.access != Access::Removed {
            self.access = access;
        }
        self.watches.touch_held();
        self.known_ends.forget();
        // If it is not written, the commit of the turn fails.
        if self.write_back().is_ok() {
            self.upper_levels.forget_all();
        }
        self.expiry.forget_due();
    }

    /// The turn's transaction, for changes that are no client's.
    pub(crate) fn transaction(&mut self) -> Result<&mut Exclusive, Error> {
        self.known_ends.forget();
        self.write_back()?;
        self.upper_levels.forget_all();
        self.begin()
    }

    /// The keyspace of a database.
    pub(crate) fn space(&self, db: usize) -> Keyspace {
        self.spaces.data[db]
    }

    /// How many databases clients can select.
    pub(crate) fn databases(&self) -> usize {
        self.spaces.databases
    }

    /// The turn's time, in milliseconds since 1970.
    #[inline]
    pub(crate) fn now_ms(&self) -> u64 {
        self.clock.wall_ms()
    }

    /// Sets the turn's clocks.
    pub(crate) fn set_clock(&mut self, clock: Clock) {
        if clock.wall_us < self.clock.wall_us {
            // What was put off until a moment is not put off for as long as the clock was set back.
            self.expiry.forget_due();
        }
        self.clock = clock;
    }

    /// What was written so far.
    pub(crate) fn written(&self) -> Written {
        self.written
    }

    /// The transaction, with all that was changed in it.
    #[inline]
    fn begin(&mut self) -> Result<&mut Exclusive, Error> {
        Ok(self.begin_both()?.0)
    }

    /// The transaction and the expiry index.
    #[inline]
    fn begin_both(&mut self) -> Result<(&mut Exclusive, &mut ExpiryIndex), Error> {
        self.write_back()?;
        self.begin_early()
    }

    /// As `begin`, for what concerns one key.
    #[inline]
    fn begin_for(&mut self, space: Keyspace, key: &[u8]) -> Result<&mut Exclusive, Error> {
        if !self.write_back.is_empty() && self.write_back.get(space, key).is_some() {
            self.write_back()?;
        }
        Ok(self.begin_early()?.0)
    }

    /// As `begin_both`, but for what waits to be written.
    #[inline]
    fn begin_early(&mut self) -> Result<(&mut Exclusive, &mut ExpiryIndex), Error> {
        let transaction = match self.transaction {
            Some(ref mut transaction) => transaction,
            ref mut none => {
                let began = Instant::now();
                let transaction = none.insert(self.store.exclusive()?);
                self.waited += began.elapsed();
                self.elements.forget();
                transaction
            }
        };
        Ok((transaction, &mut self.expiry))
    }

    /// The transaction and the elements of collections, but for what waits to be written.
    #[inline]
    fn begin_elements(&mut self) -> Result<(&mut Exclusive, &mut Elements), Error> {
        if self.transaction.is_none() {
            self.begin_early()?;
        }
        match &mut self.transaction {
            Some(transaction) => Ok((transaction, &mut self.elements)),
            None => Err(Error::WouldDeadlock),
        }
    }

    /// Writes what waits. What cannot be written waits on, and the commit tries again: if it fails too, the turn does.
    #[inline]
    fn write_back(&mut self) -> Result<(), Error> {
        if !self.waits() {
            return Ok(());
        }
        match &mut self.transaction {
            Some(transaction) => {
                self.write_back.write(transaction)?;
                self.upper_levels.write(transaction, &self.spaces.elements)
            }
            None => Ok(()),
        }
    }

    /// Whether something waits to be written.
    #[inline]
    fn waits(&self) -> bool {
        !self.write_back.is_empty() || self.upper_levels.is_changed()
    }

    /// Whether changes may wait: nothing takes them back alone, and there is room for them.
    #[inline]
    fn may_wait(&mut self) -> bool {
        !self.is_atomic && self.has_plenty()
    }

    /// Whether the pool has so much room that small changes find it.
    #[inline]
    fn has_plenty(&mut self) -> bool {
        let store = self.store;
        // Where the pool cannot grow, what it has is what there is.
        let spare = |bytes| drop(store.spare(bytes));
        self.capacity.is_plenty(self.written, || store.report(), spare)
    }

    /// A value is written later in the turn.
    fn put_later(&mut self, space: Keyspace, key: &[u8], parts: &[&[u8]]) -> Result<(), Error> {
        if self.write_back.is_full() && self.write_back.get(space, key).is_none() {
            self.write_back()?;
        }
        self.write_back.put(space, key, parts);
        Ok(())
    }

    /// How long transactions have waited for the writer's lock since this was last asked.
    pub(crate) fn take_waited(&mut self) -> Duration {
        std::mem::take(&mut self.waited)
    }

    /// Whether a commit has something to do.
    pub(crate) fn has_written(&self) -> bool {
        self.waits() || self.transaction.as_ref().is_some_and(|transaction| !transaction.is_clean())
    }

    /// Whether a reply of the turn could show what is not durable.
    pub(crate) fn is_unsynced(&self) -> bool {
        self.has_written() || self.store.durable() != self.store.visible()
    }

    /// Ends the transaction and makes what it wrote visible, not yet durable.
    pub(crate) fn commit(&mut self) -> Result<(), Error> {
        self.assembled = Vec::new();
        #[cfg(test)]
        if self.fault.is_some() && self.fault_after > 0 {
            self.fault_after -= 1;
        } else if let Some(error) = self.fault.take() {
            return Err(error);
        }
        self.write_back()?;
        if let Some(transaction) = self.transaction.take()
            && !transaction.is_clean()
        {
            transaction.commit(Durability::Buffered)?;
        }
        self.is_order_new = false;
        self.committed = self.written;
        Ok(())
    }

    /// Gives up what the transaction wrote. The expiry index may now hold more than is known.
    pub(crate) fn abandon(&mut self) {
        self.transaction = None;
        self.written.take_back_bytes(self.committed);
        self.write_back.forget_all();
        self.upper_levels.forget_all();
        self.known_ends.forget();
        self.is_atomic = false;
        self.waiting.forget_ready();
        if self.is_order_new {
            // The server ends if the store cannot be read.
            let _ = self.load_order();
        }
        self.expiry.forget_due();
    }

    /// The value under `key`, whatever it is, unless it has expired.
    #[inline]
    pub(crate) fn find(&mut self, db: usize, key: &[u8]) -> Result<Option<Value<'_>>, Failure> {
        self.begin_early()?;
        let (space, now_ms) = (self.spaces.data[db], self.clock.wall_ms());
        let transaction = self.transaction.as_ref().ok_or(Error::WouldDeadlock)?;
        if !self.write_back.is_empty()
            && let Some(bytes) = self.write_back.get(space, key)
        {
            self.lookups.hits += 1;
            return Ok(Some(Value::decode(bytes.into())?));
        }
        lookup::find(transaction, space, key, now_ms, &mut self.lookups)
    }

    /// The string under `key`, unless it has expired.
    ///
    /// # Errors
    /// Another type is there.
    #[inline]
    pub(crate) fn get(&mut self, db: usize, key: &[u8]) -> Result<Option<Value<'_>>, Failure> {
        // A value that waits has the kind of the one in the store: it is no string.
        self.begin_early()?;
        let (transaction, now_ms) = (self.transaction.as_ref(), self.clock.wall_ms());
        let transaction = transaction.ok_or(Error::WouldDeadlock)?;
        let found = find_string(transaction, self.spaces.data[db], key, now_ms, &mut self.lookups)?;
        let Some(value) = found else { return Ok(None) };
        let Some((id, len)) = value.pieces()? else { return Ok(Some(value)) };
        self.assembled.clear();
        pieces::read(&mut self.elements, transaction, (db, id), 0..len, &mut self.assembled)?;
        Ok(Some(Value { of: Type::STRING, payload: self.assembled[..].into(), ..value }))
    }

    /// The part of the string under `key` that `part` chooses by its length: of a large one no more is read.
    pub(crate) fn get_part(
        &mut self,
        db: usize,
        key: &[u8],
        part: impl FnOnce(usize) -> Option<Range<usize>>,
    ) -> Result<Option<tembo_kv::Value<'_>>, Failure> {
        // A value that waits has the kind of the one in the store: it is no string.
        self.begin_early()?;
        let (transaction, now_ms) = (self.transaction.as_ref(), self.clock.wall_ms());
        let transaction = transaction.ok_or(Error::WouldDeadlock)?;
        let found = find_string(transaction, self.spaces.data[db], key, now_ms, &mut self.lookups)?;
        let Some(value) = found else { return Ok(None) };
        let Some(range) = part(value.string_len()?) else { return Ok(None) };
        let Some((id, _)) = value.pieces()? else { return Ok(value.payload.slice(range)) };
        self.assembled.clear();
        pieces::read(&mut self.elements, transaction, (db, id), range, &mut self.assembled)?;
        Ok(Some(self.assembled[..].into()))
    }

    /// The length of the string under `key`, if there is one.
    pub(crate) fn string_len(&mut self, db: usize, key: &[u8]) -> Result<Option<usize>, Failure> {
        // A value that waits has the kind of the one in the store: it is no string.
        self.begin_early()?;
        let (transaction, now_ms) = (self.transaction.as_ref(), self.clock.wall_ms());
        let transaction = transaction.ok_or(Error::WouldDeadlock)?;
        let found = find_string(transaction, self.spaces.data[db], key, now_ms, &mut self.lookups)?;
        Ok(found.map(|value| value.string_len()).transpose()?)
    }

    /// The value under `key`, even if it has expired.
    #[inline]
    pub(crate) fn get_raw(&mut self, db: usize, key: &[u8]) -> Result<Option<Value<'_>>, Failure> {
        if key.len() > KEY_SIZE_MAX {
            return Ok(None);
        }
        let space = self.spaces.data[db];
        match self.begin_for(space, key)?.get(space, key)? {
            Some(bytes) => Ok(Some(Value::decode(bytes)?)),
            None => Ok(None),
        }
    }

    /// Writes into the pieces of a string, of a database and id.
    pub(crate) fn write_pieces(
        &mut self,
        string: (usize, u64),
        offset: usize,
        bytes: &[u8],
    ) -> Result<(), Failure> {
        let (transaction, elements) = self.begin_elements()?;
        pieces::write(elements, transaction, string, offset, bytes)?;
        self.written.bytes += bytes.len() as u64;
        self.written.added += self.footprint.size_if_counted(bytes.len());
        Ok(())
    }

    /// Of what kind the value under `key` is; `None`: nothing is there, or it cannot be read.
    pub(crate) fn kind(&mut self, db: usize, key: &[u8]) -> Result<Option<Kind>, Error> {
        match self.find(db, key) {
            Ok(found) => Ok(found.map(|value| value.of.kind)),
            Err(Failure::Store(error) | Failure::Turn(error)) => Err(error),
            Err(Failure::Reply(_) | Failure::UnknownLayout) => Ok(None),
        }
    }

    /// Whether `key` is there.
    pub(crate) fn contains(&mut self, db: usize, key: &[u8]) -> Result<bool, Failure> {
        Ok(self.find(db, key)?.is_some())
    }

    /// Puts a string under `key`, with the expiry given or none.
    #[inline]
    pub(crate) fn put(
        &mut self,
        db: usize,
        key: &[u8],
        payload: &[u8],
        expiry_ms: Option<u64>,
    ) -> Result<(), Failure> {
        self.put_value((db, key), Type::STRING, payload, expiry_ms)
    }

    /// Puts a value under `key`, with the expiry given or none. If a collection was there, its elements are removed,
    /// unless the value is the same one.
    pub(crate) fn put_value(
        &mut self,
        (db, key): (usize, &[u8]),
        of: Type,
        payload: &[u8],
        expiry_ms: Option<u64>,
    ) -> Result<(), Failure> {
        check_key(key)?;
        if of == Type::STRING && payload.len() >= LARGE_STRING_SIZE {
            return self.put_large((db, key), payload, expiry_ms);
        }
        let replaced = Replaced { before: self.before(db, key)?, is_there: false };
        self.put_over((db, key), of, payload, (expiry_ms, replaced))
    }

    /// As [`put_value`](Dataset::put_value), of which is known what it replaces. The head of a collection may be written
    /// later in the turn.
    #[inline]
    pub(crate) fn put_over(
        &mut self,
        (db, key): (usize, &[u8]),
        of: Type,
        payload: &[u8],
        (expiry_ms, replaced): (Option<u64>, Replaced),
    ) -> Result<(), Failure> {
        let Replaced { before: (old_ms, old_spread), is_there } = replaced;
        let is_moved = old_ms != expiry_ms;
        let old_size = self.counted_value(db, key)?;
        if is_moved && let Some(expiry_ms) = expiry_ms {
            let (transaction, expiry) = self.begin_both()?;
            expiry.put(transaction, (db, key), expiry_ms)?;
        }
        let space = self.spaces.data[db];
        let header = Header::new(of, expiry_ms);
        let parts = [header.as_bytes(), payload];
        let put = if is_there && of.is_spread && !is_moved && self.may_wait() {
            self.put_later(space, key, &parts).map(|()| true)
        } else {
            self.begin_for(space, key)?.put_parts(space, key, &parts)
        };
        let stale_ms = if put.is_ok() { old_ms } else { expiry_ms };
        if is_moved && let Some(stale_ms) = stale_ms {
            let (transaction, expiry) = self.begin_both()?;
            expiry.forget(transaction, (db, key), stale_ms)?;
        }
        let existed = put?;
        if !existed || old_ms.is_some_and(|old_ms| old_ms < self.now_ms()) {
            self.added.record((db, key));
        }
        self.written.changes += 1;
        self.written.bytes += payload.len() as u64;
        if self.footprint.is_counted {
            let index_size = |at_ms: Option<u64>| at_ms.map_or(0, |_| entry_size(key.len(), 8));
            let size = entry_size(key.len(), header.as_bytes().len() + payload.len());
            self.written.added += size + index_size(expiry_ms);
            self.written.removed += old_size + index_size(old_ms);
        }
        self.watches.touch(db, key);
        self.waiting.touch(db, key);
        let is_elsewhere = || old_spread.map(|old| old.id) != Spread::id_of(payload).ok();
        if of.expires_fields && (is_moved || is_elsewhere()) {
            self.expect_fields((db, key), Spread::id_of(payload)?)?;
        }
        if let Some(old) = old_spread
            && !(of.is_spread && Spread::id_of(payload)? == old.id)
        {
            self.remove_elements(db, old)?;
        }
        Ok(())
    }

    /// Removes `key`; false if it was not there or had expired.
    pub(crate) fn remove(&mut self, db: usize, key: &[u8]) -> Result<bool, Failure> {
        self.remove_value((db, key), false)
    }

    /// As [`remove`](Dataset::remove); a collection's elements can be kept, because they have another key.
    pub(crate) fn remove_value(
        &mut self,
        (db, key): (usize, &[u8]),
        keeps_elements: bool,
    ) -> Result<bool, Failure> {
        if key.len() > KEY_SIZE_MAX {
            return Ok(false);
        }
        let (expiry_ms, spread) = self.before(db, key)?;
        let size = self.counted_value(db, key)?;
        let space = self.spaces.data[db];
        let was_there = self.begin_for(space, key)?.remove(space, key)?;
        if !was_there {
            return Ok(false);
        }
        self.written.changes += 1;
        self.written.removed += size;
        if let Some(spread) = spread
            && !keeps_elements
        {
            self.remove_elements(db, spread)?;
        }
        self.waiting.touch(db, key);
        if let Some(expiry_ms) = expiry_ms {
            self.written.removed += self.footprint.size_if_counted(key.len() + 8);
            let (transaction, expiry) = self.begin_both()?;
            expiry.forget(transaction, (db, key), expiry_ms)?;
        }
        if expiry_ms.is_some_and(|expiry_ms| expiry_ms < self.now_ms()) {
            self.watches.touch_expired(db, key);
            return Ok(false);
        }
        self.watches.touch(db, key);
        Ok(true)
    }

    /// Makes changes of `size` bytes by several steps; if one fails, none has happened.
    pub(crate) fn atomically<T>(
        &mut self,
        size: usize,
        change: impl FnOnce(&mut Self) -> Result<T, Failure>,
    ) -> Result<T, Failure> {
        if self.capacity.is_refused(size, self.clock.steady_ms) {
            return Err(OUT_OF_MEMORY.into());
        }
        let changed = self.all_or_nothing(change);
        if let Err(Failure::Store(Error::Full { .. })) = changed {
            self.capacity.refuse(size, self.clock.steady_ms);
        }
        changed
    }

    /// As [`atomically`](Dataset::atomically), for changes that nothing but the pool can make fail once the first is made.
    /// Where there is room in plenty they need no savepoint; if one fails all the same, the turn does.
    pub(crate) fn in_steps<T>(
        &mut self,
        size: usize,
        change: impl FnOnce(&mut Self) -> Result<T, Failure>,
    ) -> Result<T, Failure> {
        let before = self.written;
        let is_small = size <= SMALL_MAX && !self.is_atomic;
        if !is_small || !self.has_plenty() {
            return self.atomically(size, change);
        }
        match change(self) {
            Err(Failure::Store(error)) if self.written.changes > before.changes => {
                Err(Failure::Turn(error))
            }
            changed => changed,
        }
    }

    /// Makes several changes; if one fails, none of them has happened.
    pub(crate) fn all_or_nothing<T>(
        &mut self,
        change: impl FnOnce(&mut Self) -> Result<T, Failure>,
    ) -> Result<T, Failure> {
        if self.is_atomic {
            // The outer one takes back what this one has done.
            return change(self);
        }
        let written = self.written;
        self.begin()?.savepoint();
        self.is_atomic = true;
        let changed = change(self);
        self.is_atomic = false;
        if changed.is_err() {
            self.begin()?.rollback_to_savepoint().map_err(Failure::Turn)?;
            self.elements.forget();
            self.upper_levels.forget_all();
            self.known_ends.forget();
            self.written = written;
            self.expiry.forget_due();
        }
        changed
    }

    /// Of the value under `key`, what a change of it concerns.
    #[inline]
    fn before(&mut self, db: usize, key: &[u8]) -> Result<Before, Failure> {
        if self.expiry.due_ms(db) == u64::MAX {
            let (transaction, elements) = self.begin_elements()?;
            if !elements.is_in_use(transaction, db) {
                return Ok((None, None));
            }
        }
        Ok(match self.get_raw(db, key)? {
            Some(value) => (value.expiry_ms, value.elements()?),
            None => (None, None),
        })
    }

    /// Removes every key of the database.
    pub(crate) fn clear(&mut self, db: usize) -> Result<(), Failure> {
        let mut touched = Vec::new();
        for key in self.watches.keys(db) {
            if self.contains(db, &key)? {
                touched.push(key);
            }
        }
        self.written.removed += self.counted_database(db)?;
        let space = self.spaces.data[db];
        let transaction = self.begin()?;
        // An empty keyspace is left as it is: a full pool may have no room for another tree.
        if transaction.count(space) != Some(0) {
            transaction.clear(space)?;
            self.written.changes += 1;
        }
        self.known_ends.forget();
        self.upper_levels.forget_all();
        let (transaction, elements) = self.begin_elements()?;
        elements.clear(transaction, db)?;
        let (transaction, expiry) = self.begin_both()?;
        expiry.clear(transaction, db)?;
        self.waiting.touch_all(db);
        self.watches.clear(db, &touched);
        Ok(())
    }

    /// Calls `visit` with each key and value from `from` on, expired ones left out, until it
    /// returns false.
    pub(crate) fn scan(
        &mut self,
        db: usize,
        from: Bound<&[u8]>,
        direction: Direction,
        visit: &mut dyn FnMut(&[u8], Value<'_>) -> bool,
    ) -> Result<(), Failure> {
        let (space, now_ms) = (self.spaces.data[db], self.now_ms());
        let mut foreign = false;
        self.begin()?.range_with::<[u8]>(
            space,
            (from, Bound::Unbounded),
            direction,
            &mut |key, bytes| match Value::decode(bytes) {
                Ok(value) if value.is_expired(now_ms) => true,
                Ok(value) => visit(key, value),
                Err(_) => {
                    foreign = true;
                    false
                }
            },
        )?;
        if foreign { Err(Failure::UnknownLayout) } else { Ok(()) }
    }

    /// Keys in the database, those expired but not yet removed included. Never waits: while the store has not counted
    /// them, an estimate, unless they are few.
    pub(crate) fn count(&mut self, db: usize) -> Result<KeyCount, Failure> {
        let space = self.spaces.data[db];
        let known = self.begin()?.key_count(space)?;
        if known.is_exact || known.keys > COUNTED_MAX || self.is_large[db] {
            return Ok(known);
        }
        let mut keys = 0;
        let all = (Bound::Unbounded, Bound::Unbounded);
        self.begin()?.range_with::<[u8]>(space, all, Direction::Forward, &mut |_, _| {
            keys += 1;
            keys <= COUNTED_MAX
        })?;
        // One that is large is not asked so again.
        self.is_large[db] = keys > COUNTED_MAX;
        let is_exact = !self.is_large[db];
        Ok(KeyCount { keys: keys.max(known.keys * u64::from(!is_exact)), is_exact })
    }

    /// Keys with an expiry in the database, those of no key any more included.
    pub(crate) fn count_expiring(&mut self, db: usize) -> Result<KeyCount, Failure> {
        let (transaction, expiry) = self.begin_both()?;
        Ok(expiry.count(transaction, db)?)
    }
}

/// Refuses a key that is too long: before the first of several changes, since an error means that none has happened.
pub(crate) fn check_key(key: &[u8]) -> Result<(), Failure> {
    if key.len() > KEY_SIZE_MAX {
        return Err(format!("ERR a key is longer than {KEY_SIZE_MAX} bytes").into());
    }
    Ok(())
}
