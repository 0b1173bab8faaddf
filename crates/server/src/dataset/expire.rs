//! What the expiry step of a turn does: keys that are due, and fields of hashes.
//!
//! An entry of the expiry index is about a key. If the key's value does not expire at the entry's time, but is a hash whose
//! fields expire, fields that are due are removed, and the index gets an entry for the next of them. So such a hash has an
//! entry that is not later than its first field; there may be more, which do no harm.

use std::ops::Bound;

use tembo_kv::Direction;

use crate::access::Access;
use crate::dataset::{Dataset, Expired};
use crate::failure::Failure;
use crate::format::{self, Kind, Part};

/// Keys that are looked for side by side, and expired, before the time is looked at.
const EXPIRED_AT_ONCE: usize = 32;
/// While entries are removed, a database counts as one with keys that expire.
const SOME_DUE_MS: u64 = u64::MAX - 1;
/// Fields of a hash that expire in one step.
const FIELDS_AT_ONCE: usize = 256;

impl Dataset<'_> {
    /// When the next key is to be removed because it expires; `u64::MAX` if none is. May be too early, never too late. Where
    /// nothing may be changed, keys that have expired are only hidden.
    pub(crate) fn next_due_ms(&self) -> u64 {
        let removes = self.access == Access::Open && self.expires_actively;
        if removes { self.expiry.next_due_ms() } else { u64::MAX }
    }

    /// Removes some of the keys that have expired, as long as `go_on` says so, and returns how many. Where it fails
    /// because the pool is full, what it has removed until then is removed whole.
    pub(crate) fn expire(&mut self, mut go_on: impl FnMut() -> bool) -> Result<u64, Failure> {
        let mut expired = 0;
        let now_ms = self.now_ms();
        for db in 0..self.spaces.data.len() {
            while self.expiry.due_ms(db) < now_ms {
                if !go_on() {
                    return Ok(expired);
                }
                expired += self.expire_some(db)?;
            }
        }
        Ok(expired)
    }

    /// Whether there is a value under `key` that has expired and was not removed yet.
    pub(crate) fn is_expired(&mut self, db: usize, key: &[u8]) -> Result<bool, Failure> {
        let now_ms = self.now_ms();
        Ok(self.get_raw(db, key)?.is_some_and(|value| value.is_expired(now_ms)))
    }

    /// Removes what is under `key` if it has expired, before its time comes in the index; whether it had.
    pub(crate) fn expire_key(&mut self, db: usize, key: &[u8]) -> Result<bool, Failure> {
        let now_ms = self.now_ms();
        let found = self.get_raw(db, key)?.filter(|value| value.is_expired(now_ms));
        let Some(expiry_ms) = found.and_then(|value| value.expiry_ms) else { return Ok(false) };
        let mut entry = Vec::new();
        format::encode_expiry_entry(&mut entry, expiry_ms, key);
        self.expire_entry(db, &entry)
    }

    /// The fields of the hash under a key that have expired and were not removed yet, if one is there.
    pub(crate) fn expired_fields(
        &mut self,
        (db, key): (usize, &[u8]),
    ) -> Result<Vec<Vec<u8>>, Failure> {
        let now_ms = self.now_ms();
        let mut fields = Vec::new();
        let found = self.get_raw(db, key)?.filter(|value| value.of.expires_fields);
        let Some(spread) = found.map(|value| value.spread()).transpose()?.flatten() else {
            return Ok(fields);
        };
        let to = now_ms.to_be_bytes();
        let ends = (Bound::Unbounded, Bound::Excluded(&to[..]));
        let part = (db, spread.id, Part::Expiry);
        self.visit_elements(part, ends, Direction::Forward, &mut |entry, _| {
            fields.extend(format::decode_expiry_entry(entry).map(|(_, field)| field.to_vec()));
            true
        })?;
        Ok(fields)
    }

    /// Whether keys that expire are kept for [`take_expired`](Dataset::take_expired).
    pub(crate) fn record_expired(&mut self, is_wanted: bool) {
        self.expired = is_wanted.then(Vec::new);
    }

    /// What has expired since it was last recorded.
    pub(crate) fn take_expired(&mut self) -> Vec<Expired> {
        self.expired.take().unwrap_or_default()
    }

    /// Tries again to expire keys, not before `at_ms`: the store had no room.
    pub(crate) fn postpone_expiry(&mut self, at_ms: u64) {
        self.expiry.postpone(at_ms);
    }

    /// Removes up to [`EXPIRED_AT_ONCE`] entries that are due, with their keys; how many keys.
    fn expire_some(&mut self, db: usize) -> Result<u64, Failure> {
        let (now_ms, space) = (self.now_ms(), self.spaces.data[db]);
        let (transaction, expiry) = self.begin_both()?;
        let (entries, next_ms) = expiry.due_entries(transaction, db, now_ms, EXPIRED_AT_ONCE)?;
        let decoded = entries.iter().filter_map(|entry| format::decode_expiry_entry(entry));
        let keys: Vec<&[u8]> = decoded.map(|(_, key)| key).collect();
        transaction.prefetch(space, &keys);
        // What is put into the index meanwhile may be due before.
        self.expiry.set_due_ms(db, next_ms.min(SOME_DUE_MS));
        if let Some(last) = entries.last() {
            self.expiry.removed_to(db, last);
        }
        let expired = entries
            .iter()
            .try_fold(0, |expired, entry| Ok(expired + u64::from(self.expire_entry(db, entry)?)));
        if expired.is_err() {
            self.expiry.forget_due();
        } else if self.expiry.due_ms(db) == SOME_DUE_MS {
            self.expiry.set_due_ms(db, next_ms);
        }
        expired
    }

    /// Removes the entry, and its key if that has expired indeed; whether it had.
    fn expire_entry(&mut self, db: usize, entry: &[u8]) -> Result<bool, Failure> {
        let mut expired = false;
        if let Some((due_ms, key)) = format::decode_expiry_entry(entry) {
            let (found_ms, spread) = self.before(db, key)?;
            if found_ms == Some(due_ms) {
                let space = self.spaces.data[db];
                self.written.removed += self.counted_value(db, key)?;
                match spread {
                    Some(spread) => self.all_or_nothing(|data| {
                        data.begin()?.remove(space, key)?;
                        data.remove_elements(db, spread)
                    })?,
                    None => drop(self.begin()?.remove(space, key)?),
                }
                self.watches.touch_expired(db, key);
                self.waiting.touch(db, key);
                self.record((db, key), Vec::new, true);
                expired = true;
            } else {
                self.all_or_nothing(|data| {
                    // The entry for the next field may be the same one.
                    data.remove_entry(db, entry)?;
                    data.expire_fields(db, key)
                })?;
                return Ok(false);
            }
        }
        self.remove_entry(db, entry)?;
        Ok(expired)
    }

    fn remove_entry(&mut self, db: usize, entry: &[u8]) -> Result<(), Failure> {
        let (transaction, expiry) = self.begin_both()?;
        expiry.remove(transaction, db, entry)?;
        self.written.changes += 1;
        self.written.removed += self.footprint.size_if_counted(entry.len());
        Ok(())
    }

    fn record(
        &mut self,
        (db, key): (usize, &[u8]),
        fields: impl FnOnce() -> Vec<Vec<u8>>,
        is_removed: bool,
    ) {
        // What expires of the items of memcached is not published.
        let is_published = db < self.databases();
        if let Some(expired) = self.expired.as_mut().filter(|_| is_published) {
            expired.push(Expired { db, key: key.to_vec(), fields: fields(), is_removed });
        }
    }

    /// Removes fields that are due of the hash under a key, if one is there.
    fn expire_fields(&mut self, db: usize, key: &[u8]) -> Result<(), Failure> {
        let now_ms = self.now_ms();
        let (of, expiry_ms, mut spread) = match self.get_raw(db, key)? {
            Some(value) if value.of.expires_fields && !value.is_expired(now_ms) => {
                let Some(spread) = value.spread()? else { return Ok(()) };
                (value.of, value.expiry_ms, spread)
            }
            _ => return Ok(()),
        };
        let mut due = Vec::new();
        let to = now_ms.to_be_bytes();
        let ends = (Bound::Unbounded, Bound::Excluded(&to[..]));
        let part = (db, spread.id, Part::Expiry);
        self.visit_elements(part, ends, Direction::Forward, &mut |rest, _| {
            due.push(rest.to_vec());
            due.len() < FIELDS_AT_ONCE
        })?;
        if !due.is_empty() {
            self.all_or_nothing(|data| {
                for entry in &due {
                    let (_, field) = format::decode_expiry_entry(entry).unwrap_or_default();
                    data.remove_element(part, &[entry])?;
                    if data.remove_element((db, spread.id, Part::Main), &[field])? {
                        spread.count = spread.count.saturating_sub(1);
                    }
                }
                if spread.count == 0 {
                    data.remove_value((db, key), false).map(drop)
                } else {
                    data.put_value((db, key), of, &spread.encode(Kind::Hash), expiry_ms)
                }
            })?;
            let fields = || {
                let decoded = due.iter().filter_map(|entry| format::decode_expiry_entry(entry));
                decoded.map(|(_, field)| field.to_vec()).collect()
            };
            self.record((db, key), fields, spread.count == 0);
        }
        if spread.count > 0 { self.expect_fields((db, key), spread.id) } else { Ok(()) }
    }

    /// The hash under a key has come there, or has lost fields: the index gets an entry for its first field that expires.
    pub(super) fn expect_fields(
        &mut self,
        (db, key): (usize, &[u8]),
        id: u64,
    ) -> Result<(), Failure> {
        let mut first = None;
        let all = (Bound::Unbounded, Bound::Unbounded);
        let part = (db, id, Part::Expiry);
        self.visit_elements(part, all, Direction::Forward, &mut |rest, _| {
            first = format::decode_expiry_entry(rest).map(|(due_ms, _)| due_ms);
            false
        })?;
        first.map_or(Ok(()), |due_ms| self.expect_expiry((db, key), due_ms))
    }

    /// A field of the hash under a key expires then.
    pub(crate) fn expect_expiry(
        &mut self,
        (db, key): (usize, &[u8]),
        expiry_ms: u64,
    ) -> Result<(), Failure> {
        let (transaction, expiry) = self.begin_both()?;
        Ok(expiry.put_field(transaction, (db, key), expiry_ms)?)
    }
}
