//! What memcached's commands do to items, whatever protocol they come by.

use crate::access::Access;
use crate::dataset::Dataset;
use crate::evict::make_room;
use crate::failure::{Failure, OUT_OF_MEMORY};
use crate::format::{ITEM_HEAD_SIZE, ItemHead};
use crate::item_state::ItemStats;
use crate::recency::Usage;
use crate::shared::Shared;

/// Longest key.
pub(super) const KEY_SIZE_MAX: usize = 250;
/// A larger number of seconds is a time since 1970.
const RELATIVE_S_MAX: i64 = 60 * 60 * 24 * 30;
/// Milliseconds since 1970 of what has expired before it was stored.
const PAST_MS: u64 = 1;
/// Bytes that memcached adds to an item's key and data.
const OVERHEAD: usize = 63;
/// Longest text of a number of 64 bits.
const NUMBER_SIZE_MAX: usize = 20;

/// Access to the items, in the turn's transaction.
pub(super) struct Items<'a, 's> {
    pub(super) data: &'a mut Dataset<'s>,
    pub(super) shared: &'a mut Shared,
    db: usize,
}

/// How an item is stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mode {
    /// In any case.
    Set,
    /// If it is not there.
    Add,
    /// If it is there.
    Replace,
    /// Behind the data that is there.
    Append,
    /// Before the data that is there.
    Prepend,
    /// If its CAS value is still the one given.
    Cas,
}

/// A store.
pub(super) struct Change<'k> {
    pub(super) mode: Mode,
    pub(super) key: &'k [u8],
    pub(super) flags: u32,
    pub(super) expiry_ms: Option<u64>,
    pub(super) data: &'k [u8],
    /// The CAS value that the item must have; 0: any.
    pub(super) cas: u64,
    /// The CAS value that it is to get.
    pub(super) new_cas: Option<u64>,
    /// A lower CAS value than the item's is taken, and the item is then stale.
    pub(super) invalidates: bool,
    pub(super) has_binary_key: bool,
    /// Append and prepend make an item that is not there, with this expiry.
    pub(super) vivify: Option<Option<u64>>,
}

impl<'k> Change<'k> {
    /// A store in any case, of an item that does not expire.
    pub(super) fn new(mode: Mode, key: &'k [u8], data: &'k [u8]) -> Change<'k> {
        Change {
            mode,
            key,
            flags: 0,
            expiry_ms: None,
            data,
            cas: 0,
            new_cas: None,
            invalidates: false,
            has_binary_key: false,
            vivify: None,
        }
    }
}

/// What a change has come to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Changed {
    /// It was made: the item's CAS value and size now.
    Done { cas: u64, size: usize },
    /// A condition of the mode does not hold.
    NotStored,
    /// The CAS value is another one.
    Exists,
    /// There is no such item.
    NotFound,
}

/// An item, with a copy of its data.
pub(super) struct Item {
    pub(super) head: ItemHead,
    pub(super) expiry_ms: Option<u64>,
    pub(super) data: Vec<u8>,
}

/// What arithmetic has come to.
pub(super) enum Counted {
    /// The new number; and the item, with its number as text.
    Done(u64, Item),
    /// The item is no number.
    NotNumeric,
    /// The CAS value is another one.
    Exists,
    /// There is no such item.
    NotFound,
}

impl<'a, 's> Items<'a, 's> {
    /// The items; none if they are not served.
    pub(super) fn new(data: &'a mut Dataset<'s>, shared: &'a mut Shared) -> Option<Items<'a, 's>> {
        let db = data.spaces.items()?;
        Some(Items { data, shared, db })
    }

    pub(super) fn stats(&mut self) -> &mut ItemStats {
        &mut self.shared.items.stats
    }

    /// Whether items may be changed.
    pub(super) fn may_write(&self) -> bool {
        self.data.access() == Access::Open && !self.shared.is_disk_full()
    }

    /// Makes room by evicting keys, or refuses what needs more than there is.
    pub(super) fn check_room(&mut self) -> Result<(), Failure> {
        if self.shared.settings.maxmemory > 0 {
            make_room(self.data, self.shared).map_err(Failure::Turn)?;
        }
        if self.shared.is_over_memory { Err(OUT_OF_MEMORY.into()) } else { Ok(()) }
    }

    /// When something expires that a client has given `exptime` of.
    pub(super) fn expiry(&self, exptime: i64) -> Option<u64> {
        expiry_ms(exptime, self.data.now_ms())
    }

    /// Whole seconds until `expiry_ms`; `None`: it never comes.
    pub(super) fn ttl(&self, expiry_ms: Option<u64>) -> Option<u64> {
        expiry_ms.map(|at_ms| at_ms.saturating_sub(self.data.now_ms()).div_ceil(1000))
    }

    /// Whether an item of that size is too large.
    pub(super) fn is_too_large(&self, key: &[u8], size: usize) -> bool {
        key.len() + size + OVERHEAD > self.shared.items.size_max
    }

    /// Has the store look for keys side by side.
    pub(super) fn prefetch(&mut self, keys: &[&[u8]]) {
        self.data.prefetch(self.db, keys);
    }

    /// What is known of an item's use.
    pub(super) fn usage(&mut self, key: &[u8]) -> Usage {
        self.shared.usage((self.db, key))
    }

    /// Notes that an item is used; whether it is read.
    pub(super) fn note(&mut self, key: &[u8], is_read: bool) {
        self.shared.note_use((self.db, key), is_read);
    }

    /// Calls `visit` with an item's head, expiry and data, if it is there.
    #[inline]
    pub(super) fn visit<T>(
        &mut self,
        key: &[u8],
        visit: impl FnOnce(ItemHead, Option<u64>, tembo_kv::Value<'_>) -> T,
    ) -> Result<Option<T>, Failure> {
        let Some(value) = self.data.get(self.db, key)? else { return Ok(None) };
        let (head, data) = ItemHead::split(value.payload)?;
        Ok(Some(visit(head, value.expiry_ms, data)))
    }

    /// An item, with a copy of its data.
    pub(super) fn get(&mut self, key: &[u8]) -> Result<Option<Item>, Failure> {
        let copy = |head, expiry_ms, data: tembo_kv::Value<'_>| Item {
            head,
            expiry_ms,
            data: data.to_vec(),
        };
        self.visit(key, copy)
    }

    /// An item's head and expiry.
    fn head(&mut self, key: &[u8]) -> Result<Option<(ItemHead, Option<u64>)>, Failure> {
        self.visit(key, |head, expiry_ms, _| (head, expiry_ms))
    }

    /// The CAS value of a change: another one than before, or the one wanted.
    pub(super) fn next_cas(&mut self, wanted: Option<u64>) -> u64 {
        let visible = self.data.store().visible();
        let next = self.shared.items.next_cas(visible);
        wanted.unwrap_or(next)
    }

    /// Puts an item; a head's CAS value is taken as it is.
    pub(super) fn put(
        &mut self,
        key: &[u8],
        head: ItemHead,
        parts: &[&[u8]],
        expiry_ms: Option<u64>,
    ) -> Result<(), Failure> {
        let size = parts.iter().map(|part| part.len()).sum::<usize>();
        let mut payload = Vec::with_capacity(ITEM_HEAD_SIZE + size);
        payload.extend_from_slice(&head.encode());
        parts.iter().for_each(|part| payload.extend_from_slice(part));
        self.data.put(self.db, key, &payload, expiry_ms)
    }

    /// Stores an item.
    pub(super) fn store(&mut self, change: &Change<'_>) -> Result<Changed, Failure> {
        self.stats().set += 1;
        let changed = match change.mode {
            Mode::Append | Mode::Prepend => self.extend(change)?,
            Mode::Set if change.cas == 0 => self.make(change, None)?,
            _ => self.store_if(change)?,
        };
        if matches!(changed, Changed::Done { .. }) {
            self.stats().stored += 1;
            self.note(change.key, false);
        }
        Ok(changed)
    }

    /// Stores what does not depend on the data that is there.
    fn store_if(&mut self, change: &Change<'_>) -> Result<Changed, Failure> {
        let found = self.head(change.key)?;
        let is_cas = change.mode == Mode::Cas || change.mode == Mode::Set;
        match found {
            None if is_cas => {
                self.stats().cas.count(false);
                Ok(Changed::NotFound)
            }
            None if change.mode == Mode::Add => self.make(change, None),
            Some(_) if change.mode == Mode::Add => {
                self.note(change.key, true);
                Ok(Changed::NotStored)
            }
            None => Ok(Changed::NotStored),
            Some(_) if !is_cas => self.make(change, None),
            Some((head, expiry_ms)) => {
                if change.cas == head.cas {
                    self.stats().cas.count(true);
                    return self.make(change, None);
                }
                if change.invalidates && change.cas < head.cas && change.cas > 0 {
                    self.stats().cas.count(true);
                    return self.make(change, Some((head.is_won, expiry_ms)));
                }
                self.stats().cas_badval += 1;
                Ok(Changed::Exists)
            }
        }
    }

    /// Puts what a change gives. A stale item keeps whether a client makes it anew, and its expiry.
    fn make(
        &mut self,
        change: &Change<'_>,
        stale: Option<(bool, Option<u64>)>,
    ) -> Result<Changed, Failure> {
        let head = ItemHead {
            flags: change.flags,
            cas: self.next_cas(change.new_cas),
            is_stale: stale.is_some(),
            is_won: stale.is_some_and(|(is_won, _)| is_won),
            has_binary_key: change.has_binary_key,
        };
        let expiry_ms = stale.map_or(change.expiry_ms, |(_, expiry_ms)| expiry_ms);
        self.put(change.key, head, &[change.data], expiry_ms)?;
        Ok(Changed::Done { cas: head.cas, size: change.data.len() })
    }

    fn extend(&mut self, change: &Change<'_>) -> Result<Changed, Failure> {
        let Some(item) = self.get(change.key)? else {
            let Some(expiry_ms) = change.vivify else { return Ok(Changed::NotStored) };
            let mut made = Change::new(Mode::Set, change.key, change.data);
            (made.flags, made.new_cas) = (change.flags, change.new_cas);
            (made.expiry_ms, made.has_binary_key) = (expiry_ms, change.has_binary_key);
            return self.make(&made, None);
        };
        if change.cas != 0 && change.cas != item.head.cas {
            return Ok(Changed::Exists);
        }
        let size = item.data.len() + change.data.len();
        if self.is_too_large(change.key, size) {
            return Ok(Changed::NotStored);
        }
        let head = ItemHead {
            flags: item.head.flags,
            cas: self.next_cas(change.new_cas),
            has_binary_key: item.head.has_binary_key,
            ..ItemHead::default()
        };
        let parts = match change.mode {
            Mode::Append => [&item.data[..], change.data],
            _ => [change.data, &item.data[..]],
        };
        self.put(change.key, head, &parts, item.expiry_ms)?;
        Ok(Changed::Done { cas: head.cas, size })
    }

    /// Removes an item, if its CAS value is `cas` or that is 0.
    pub(super) fn delete(&mut self, key: &[u8], cas: u64) -> Result<Changed, Failure> {
        if cas != 0 {
            match self.head(key)? {
                Some((head, _)) if head.cas != cas => {
                    self.stats().delete.count(false);
                    return Ok(Changed::Exists);
                }
                _ => {}
            }
        }
        let was_there = self.data.remove(self.db, key)?;
        self.stats().delete.count(was_there);
        if let Some(recency) = &mut self.shared.recency {
            recency.forget((self.db, key));
        }
        Ok(if was_there { Changed::Done { cas: 0, size: 0 } } else { Changed::NotFound })
    }

    /// Adds to the number that an item is, or subtracts from it; a sum wraps, a difference stays above 0.
    pub(super) fn count(
        &mut self,
        key: &[u8],
        (is_incr, delta): (bool, u64),
        (cas, new_cas): (u64, Option<u64>),
    ) -> Result<Counted, Failure> {
        let Some(mut item) = self.get(key)? else {
            self.tally(is_incr, false);
            return Ok(Counted::NotFound);
        };
        if cas != 0 && cas != item.head.cas {
            return Ok(Counted::Exists);
        }
        let Some(number) = number(&item.data) else { return Ok(Counted::NotNumeric) };
        let number =
            if is_incr { number.wrapping_add(delta) } else { number.saturating_sub(delta) };
        let text = number.to_string().into_bytes();
        item.head.cas = self.next_cas(new_cas);
        self.put(key, item.head, &[&text], item.expiry_ms)?;
        self.note(key, false);
        self.tally(is_incr, true);
        item.data = text;
        Ok(Counted::Done(number, item))
    }

    fn tally(&mut self, is_incr: bool, is_hit: bool) {
        let stats = self.stats();
        let tally = if is_incr { &mut stats.incr } else { &mut stats.decr };
        tally.count(is_hit);
    }

    /// Gives an item another expiry; whether it is there.
    pub(super) fn touch(&mut self, key: &[u8], expiry_ms: Option<u64>) -> Result<bool, Failure> {
        let item = self.get(key)?;
        self.stats().touch.count(item.is_some());
        let Some(item) = item else { return Ok(false) };
        if item.expiry_ms != expiry_ms {
            self.put(key, item.head, &[&item.data], expiry_ms)?;
        }
        self.note(key, true);
        Ok(true)
    }

    /// Removes all items, now or at a later time.
    pub(super) fn flush(&mut self, exptime: i64) -> Result<(), Failure> {
        self.stats().flush += 1;
        if exptime > 0 {
            self.shared.items.flush_at_ms = self.expiry(exptime);
            return Ok(());
        }
        self.shared.items.flush_at_ms = None;
        self.data.all_or_nothing(|data| data.clear(data.spaces.items().unwrap_or_default()))
    }

    /// How many items there are.
    pub(super) fn len(&mut self) -> Result<u64, Failure> {
        Ok(self.data.count(self.db)?.keys)
    }
}

/// When something expires that a client has given `exptime` of: seconds from now on, or if they are many since 1970; 0 is never,
/// and what is less has expired.
fn expiry_ms(exptime: i64, now_ms: u64) -> Option<u64> {
    match exptime {
        0 => None,
        ..0 => Some(PAST_MS),
        1..=RELATIVE_S_MAX => Some(now_ms + exptime as u64 * 1000),
        _ if (exptime as u64).saturating_mul(1000) <= now_ms => Some(PAST_MS),
        _ => Some((exptime as u64).saturating_mul(1000)),
    }
}

/// The number that an item is: spaces may surround it.
fn number(data: &[u8]) -> Option<u64> {
    let text = data.trim_ascii_start();
    let digits = text.iter().take_while(|byte| byte.is_ascii_digit()).count();
    let (digits, rest) = text.split_at(digits);
    let ends = rest.first().is_none_or(u8::is_ascii_whitespace);
    if digits.is_empty() || digits.len() > NUMBER_SIZE_MAX || !ends {
        return None;
    }
    std::str::from_utf8(digits).ok()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times() {
        let now_ms = 1_700_000_000_500;
        assert_eq!(expiry_ms(0, now_ms), None);
        assert_eq!(expiry_ms(-1, now_ms), Some(PAST_MS));
        assert_eq!(expiry_ms(10, now_ms), Some(now_ms + 10_000));
        assert_eq!(expiry_ms(RELATIVE_S_MAX, now_ms), Some(now_ms + 2_592_000_000));
        assert_eq!(expiry_ms(RELATIVE_S_MAX + 1, now_ms), Some(PAST_MS));
        assert_eq!(expiry_ms(1_700_000_100, now_ms), Some(1_700_000_100_000));
        assert_eq!(expiry_ms(i64::MAX, now_ms), Some(u64::MAX));
    }

    #[test]
    fn numbers() {
        assert_eq!(number(b"0"), Some(0));
        assert_eq!(number(b" 9 "), Some(9));
        assert_eq!(number(b"18446744073709551615"), Some(u64::MAX));
        for bad in [&b""[..], b"18446744073709551616", b"x", b"1x", b"-1", b"1.0", b" "] {
            assert_eq!(number(bad), None);
        }
    }
}
