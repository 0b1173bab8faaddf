//! What commands will need of the store is asked for in advance, for many keys at once: what each would wait for in memory comes
//! for all of them together. Nothing changes by it, and no command needs it.

use tembo_kv::Direction;

use crate::access::Access;
use crate::dataset::element_keys::{ElementKeys, KEYS_MAX};
use crate::dataset::{Dataset, LARGE_STRING_SIZE, check_key};
use crate::failure::Failure;
use crate::float::parse_double;
use crate::format::{Header, Kind, Part, Type, Value, element_prefix, member_of, score_order};
use crate::peek::LikelyKeys;

/// Keys that are asked for together. Of a member of a sorted set these are two.
const PREFETCHED_MAX: usize = KEYS_MAX / 2;
/// Of a command with longer keys none is asked for.
const SIZE_MAX: usize = 512;

impl Dataset<'_> {
    /// Lets the store know that these keys will soon be used, in this order.
    pub(crate) fn prefetch(&mut self, db: usize, keys: &[&[u8]]) {
        let space = self.spaces.data[db];
        // The command that uses them meets the error.
        if let Ok((transaction, _)) = self.begin_early() {
            transaction.prefetch(space, keys);
        }
    }

    /// Whether strings of so many bytes are worth being expected.
    #[inline]
    pub(crate) fn is_worth_expecting(&self, bytes: usize) -> bool {
        self.access == Access::Open && self.store.writes_together(bytes as u64)
    }

    /// Lets the store know that these keys will likely be set to these strings, in this order, without an expiry: it writes together
    /// what fills pages. Where room is short, each is left to its own command.
    pub(crate) fn expect_strings(&mut self, db: usize, strings: &[(&[u8], &[u8])]) {
        let (space, header) = (self.spaces.data[db], Header::new(Type::STRING, None));
        if !self.has_plenty() {
            return;
        }
        let is_whole = |(key, string): &&(&[u8], &[u8])| {
            check_key(key).is_ok() && string.len() < LARGE_STRING_SIZE
        };
        let whole = strings.iter().filter(is_whole);
        let parts: Vec<(&[u8], [&[u8]; 2])> =
            whole.map(|(key, string)| (*key, [header.as_bytes(), *string])).collect();
        let puts: Vec<(&[u8], &[&[u8]])> =
            parts.iter().map(|(key, parts)| (*key, &parts[..])).collect();
        // The command that puts one meets the error.
        if let Ok((transaction, _)) = self.begin_early() {
            transaction.expect_puts(space, &puts);
        }
    }

    /// As `prefetch`, of elements of one collection, if it is a large one: those under the key of the first of these.
    pub(crate) fn prefetch_elements(&mut self, db: usize, elements: &[LikelyKeys<'_>]) {
        let Some((kind, id)) = elements.first().and_then(|first| self.large(db, first.key)) else {
            return;
        };
        let (main, order) = (element_prefix(id, Part::Main), element_prefix(id, Part::Order));
        let mut keys = self.prefetched_keys.begin();
        for one in elements.iter().take(PREFETCHED_MAX) {
            keys.push(&[&main, one.element]);
            if kind == Kind::SortedSet
                && let Some(score) = parse_double(one.score)
            {
                keys.push(&[&order, &score_order(score), one.element]);
            }
        }
        self.prefetch_keys(db, keys);
    }

    /// As `prefetch`, of the members at an end of a large sorted set that are held, which one command after the other removes: some
    /// at a time, when those of the time before are removed.
    pub(crate) fn prefetch_end(&mut self, (db, id): (usize, u64), direction: Direction) {
        let (main, order) = (element_prefix(id, Part::Main), element_prefix(id, Part::Order));
        let mut keys = self.prefetched_keys.begin();
        for key in self.known_ends.members.come_near((db, id), direction, PREFETCHED_MAX) {
            keys.push(&[&main, member_of(key)]);
            keys.push(&[&order, key]);
        }
        self.prefetch_keys(db, keys);
    }

    fn prefetch_keys(&mut self, db: usize, keys: ElementKeys) {
        let space = self.spaces.elements[db];
        if keys.count() > 1
            && let Ok((transaction, _)) = self.begin_early()
        {
            transaction.prefetch(space, &keys.slices()[..keys.count()]);
        }
        self.prefetched_keys = keys;
    }

    /// Of which kind the collection under a key is, and its id, if it is a large one.
    fn large(&mut self, db: usize, key: &[u8]) -> Option<(Kind, u64)> {
        let space = self.spaces.data[db];
        self.begin_early().ok()?;
        let waiting =
            if self.write_back.is_empty() { None } else { self.write_back.get(space, key) };
        let value = match waiting {
            Some(bytes) => Value::decode(bytes.into()).ok()?,
            None => Value::decode(self.transaction.as_ref()?.get(space, key).ok()??).ok()?,
        };
        let has_elements = matches!(value.of.kind, Kind::Hash | Kind::Set | Kind::SortedSet);
        let spread = if has_elements { value.spread().ok()? } else { None };
        spread.map(|spread| (value.of.kind, spread.id))
    }

    /// As `prefetch`, of the keys of one command: not of one key, nor of long ones.
    fn prefetch_group(&mut self, db: usize, keys: &[&[u8]]) {
        if keys.len() > 1 && keys.iter().all(|key| key.len() <= SIZE_MAX) {
            self.prefetch(db, keys);
        }
    }

    /// Does something with each of some keys, in their order; the store prefetches them in groups.
    pub(crate) fn each_key<'k>(
        &mut self,
        db: usize,
        mut keys: impl Iterator<Item = &'k [u8]>,
        mut step: impl FnMut(&mut Self, &'k [u8]) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        let mut group = [&[][..]; PREFETCHED_MAX];
        loop {
            let places = group.iter_mut().zip(&mut keys);
            let count = places.map(|(place, key)| *place = key).count();
            self.prefetch_group(db, &group[..count]);
            group[..count].iter().try_for_each(|key| step(self, key))?;
            if count < PREFETCHED_MAX {
                return Ok(());
            }
        }
    }

    /// Puts strings under their keys, without an expiry: all of them, or none.
    pub(crate) fn put_strings(
        &mut self,
        db: usize,
        strings: &[(&[u8], &[u8])],
    ) -> Result<(), Failure> {
        strings.iter().try_for_each(|(key, _)| check_key(key))?;
        let size = strings.iter().map(|(key, payload)| key.len() + payload.len()).sum();
        self.atomically(size, |data| {
            let mut keys = [&[][..]; PREFETCHED_MAX];
            for strings in strings.chunks(PREFETCHED_MAX) {
                keys.iter_mut().zip(strings).for_each(|(place, (key, _))| *place = key);
                data.prefetch_group(db, &keys[..strings.len()]);
                strings.iter().try_for_each(|(key, payload)| data.put(db, key, payload, None))?;
            }
            Ok(())
        })
    }
}
