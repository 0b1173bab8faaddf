//! What all collections have in common: the way in, the way back, the two layouts.

use std::marker::PhantomData;
use std::ops::Bound;

use tembo_kv::{Direction, Value};

use crate::dataset::{
    Before, Dataset, EndMembers, Ends, KnownEnds, LevelEntry, LevelOne, Replaced, VisitElement,
    check_key,
};
use crate::encoding::EncodingLimits;
use crate::failure::{Failure, WRONG_TYPE};
use crate::format::{ELEMENT_SIZE_MAX, Kind, Packed, Part, Spread, Type};
use crate::random_place::random_place;

/// A small collection has at most so many bytes and so many entries. Each change of it writes all of it.
const PACKED_MAX: (usize, usize) = (1024, 256);

/// Of a collection of so many elements, a random one is found by counting.
const COUNTED_MAX: u64 = 1024;
/// From so many random places elements are drawn together, and so many at each.
const DRAWN_PLACES: usize = 4;
const DRAWN_AT_PLACE: usize = 8;
/// So many elements, less one, may lie between a random place and a random element.
const SKIPPED_MAX: u64 = 32;

/// The database and the key of a collection.
pub(crate) type Place<'a> = (usize, &'a [u8]);

/// The keys of a first and of a last element.
type EndKeys = (Vec<u8>, Vec<u8>);

/// Where the entries are.
pub(crate) enum Body {
    /// In the value: here is a copy.
    Packed(Vec<u8>),
    /// Each is an element of its own.
    Spread(Spread),
}

/// What distinguishes one type of collection from another.
pub(crate) trait Family {
    /// The kind under which it is stored.
    const KIND: Kind;
    /// Entries that an element has in the small layout.
    const WIDTH: usize;
    /// Bytes that an element has there beside those of the command's arguments.
    const EXTRA_SIZE: usize;
}

/// A collection of one type that a command works on.
pub(crate) struct Collection<'d, 's, F>(pub(super) Opened<'d, 's>, PhantomData<F>);

impl<'d, 's, F: Family> Collection<'d, 's, F> {
    /// The collection under a key; an empty one if nothing is there.
    ///
    /// # Errors
    /// Another type is there.
    pub(crate) fn open(data: &'d mut Dataset<'s>, place: Place<'d>) -> Result<Self, Failure> {
        Ok(Collection(Opened::open(data, place, F::KIND)?, PhantomData))
    }

    /// An empty collection that replaces what is under a key when it is saved.
    pub(crate) fn replace(data: &'d mut Dataset<'s>, place: Place<'d>) -> Self {
        Collection(Opened::replace(data, place, F::KIND), PhantomData)
    }

    /// The same, with the expiry given or none.
    pub(crate) fn expiring(mut self, expiry_ms: Option<u64>) -> Self {
        self.0.expiry_ms = expiry_ms;
        self
    }

    /// Changes up to so many elements of the collection under a key by so many bytes, or none of them. An empty
    /// collection is removed.
    ///
    /// # Errors
    /// Another type is there.
    pub(crate) fn change<T>(
        data: &'d mut Dataset<'s>,
        place: Place<'d>,
        (elements, size): (usize, usize),
        change: impl FnOnce(&mut Collection<'_, 's, F>) -> Result<T, Failure>,
    ) -> Result<T, Failure> {
        let size = size + elements * F::EXTRA_SIZE;
        Opened::change(data, place, F::KIND, (elements * F::WIDTH, size), |opened| {
            let mut collection = Collection(opened, PhantomData);
            let changed = change(&mut collection)?;
            collection.save()?;
            Ok(changed)
        })
    }

    /// Saves what was changed. An empty collection is removed.
    pub(crate) fn save(self) -> Result<(), Failure> {
        self.0.save()
    }

    /// Whether the entries are all read at once.
    pub(crate) fn is_small(&self) -> bool {
        matches!(self.0.body, Body::Packed(_))
    }

    /// The id and the elements of a large collection.
    pub(crate) fn large(&self) -> Option<(u64, u64)> {
        match &self.0.body {
            Body::Packed(_) => None,
            Body::Spread(spread) => Some((spread.id, spread.count)),
        }
    }

    /// Elements; a field and its value are one.
    pub(crate) fn count(&self) -> u64 {
        match &self.0.body {
            Body::Packed(bytes) => (Packed::trusted(bytes).count() / F::WIDTH) as u64,
            Body::Spread(spread) => spread.count,
        }
    }

    /// Of a random element the first entry: a field or member.
    pub(super) fn random_name(
        &mut self,
        random: &mut dyn FnMut() -> u64,
    ) -> Result<Option<Vec<u8>>, Failure> {
        let Body::Packed(bytes) = &self.0.body else { return self.0.random_element(random) };
        let nth = random() as usize % (self.count() as usize).max(1) * F::WIDTH;
        Ok(Packed::trusted(bytes).nth(nth).map(<[u8]>::to_vec))
    }
}

/// The state that all collections have in common.
pub(crate) struct Opened<'d, 's> {
    data: &'d mut Dataset<'s>,
    place: Place<'d>,
    kind: Kind,
    expiry_ms: Option<u64>,
    existed: bool,
    /// What was under the key when it was opened, if that is still known.
    before: Option<Before>,
    is_changed: bool,
    /// See [`Type::is_wide`].
    pub(super) is_wide: bool,
    /// See [`Type::expires_fields`].
    pub(super) expires_fields: bool,
    /// See [`Type::in_strips`].
    pub(super) in_strips: bool,
    /// See [`Type::levels_from_2`].
    pub(super) levels_from_2: bool,
    /// Where the entries are.
    pub(super) body: Body,
}

impl<'d, 's> Opened<'d, 's> {
    /// The collection under a key; an empty one if nothing is there.
    ///
    /// # Errors
    /// Another type is there.
    fn open(
        data: &'d mut Dataset<'s>,
        place: Place<'d>,
        kind: Kind,
    ) -> Result<Opened<'d, 's>, Failure> {
        let found = match data.find(place.0, place.1)? {
            Some(value) if value.of.kind != kind => return Err(WRONG_TYPE.into()),
            Some(value) => {
                let body = match value.spread()? {
                    Some(spread) => Body::Spread(spread),
                    None => {
                        let packed = value.payload.to_vec();
                        Packed::new(&packed)?;
                        Body::Packed(packed)
                    }
                };
                Some((value.expiry_ms, value.of, body))
            }
            None => None,
        };
        let existed = found.is_some();
        let nothing = (None, Type::new(kind, false), Body::Packed(Vec::new()));
        let (expiry_ms, of, body) = found.unwrap_or(nothing);
        let Type { is_wide, expires_fields, in_strips, levels_from_2, .. } = of;
        let spread = if let Body::Spread(spread) = &body { Some(*spread) } else { None };
        Ok(Opened {
            data,
            place,
            kind,
            expiry_ms,
            existed,
            before: existed.then_some((expiry_ms, spread)),
            is_changed: false,
            is_wide,
            expires_fields,
            in_strips,
            levels_from_2,
            body,
        })
    }

    /// Opens a collection and changes it in up to so many entries by so many bytes, or not at all. `change` saves it.
    fn change<T>(
        data: &'d mut Dataset<'s>,
        place: Place<'d>,
        kind: Kind,
        (entries, size): (usize, usize),
        change: impl FnOnce(Opened<'_, 's>) -> Result<T, Failure>,
    ) -> Result<T, Failure> {
        let opened = Opened::open(&mut *data, place, kind)?;
        let in_one_step = match &opened.body {
            Body::Packed(bytes) => fits(bytes, entries, size),
            // A sorted set counts its members on several levels; a list has its elements in strips.
            Body::Spread(_) => {
                let has_one_part = kind != Kind::SortedSet && !opened.expires_fields;
                has_one_part && !opened.in_strips && entries <= entries_of(kind)
            }
        };
        if in_one_step {
            return change(opened);
        }
        let Opened { expiry_ms, existed, before, is_changed, is_wide, body, .. } = opened;
        let Opened { expires_fields, in_strips, levels_from_2, .. } = opened;
        data.in_steps(size, |data| {
            change(Opened {
                data,
                place,
                kind,
                expiry_ms,
                existed,
                before,
                is_changed,
                is_wide,
                expires_fields,
                in_strips,
                levels_from_2,
                body,
            })
        })
    }

    /// An empty collection that replaces what is under a key when it is saved.
    fn replace(data: &'d mut Dataset<'s>, place: Place<'d>, kind: Kind) -> Opened<'d, 's> {
        Opened {
            data,
            place,
            kind,
            expiry_ms: None,
            existed: true,
            before: None,
            is_changed: true,
            is_wide: false,
            expires_fields: false,
            in_strips: false,
            levels_from_2: false,
            body: Body::Packed(Vec::new()),
        }
    }

    /// Saves what was changed. An empty collection is removed.
    fn save(self) -> Result<(), Failure> {
        if !self.is_changed {
            return Ok(());
        }
        let (is_spread, is_empty) = match &self.body {
            Body::Packed(bytes) => (false, bytes.is_empty()),
            Body::Spread(spread) => (true, spread.count == 0),
        };
        if is_empty {
            if self.existed {
                self.data.remove(self.place.0, self.place.1)?;
            }
            return Ok(());
        }
        let Opened { kind, is_wide, expires_fields, in_strips, levels_from_2, .. } = self;
        let of = Type { kind, is_spread, is_wide, expires_fields, in_strips, levels_from_2 };
        let payload = match self.body {
            Body::Packed(bytes) => bytes,
            Body::Spread(spread) => spread.encode(self.kind),
        };
        match self.before {
            Some(before) => {
                let replaced = Replaced { before, is_there: true };
                self.data.put_over(self.place, of, &payload, (self.expiry_ms, replaced))
            }
            None => self.data.put_value(self.place, of, &payload, self.expiry_ms),
        }
    }

    /// The time, in milliseconds since 1970.
    pub(super) fn now_ms(&self) -> u64 {
        self.data.now_ms()
    }

    /// A field of the hash expires then.
    pub(super) fn expect_expiry(&mut self, expiry_ms: u64) -> Result<(), Failure> {
        self.data.expect_expiry(self.place, expiry_ms)
    }

    /// See [`EncodingLimits`].
    pub(super) fn encodings(&self) -> EncodingLimits {
        self.data.encodings
    }

    /// The entries of a small collection, to be changed.
    pub(super) fn change_packed(&mut self) -> Option<&mut Vec<u8>> {
        self.is_changed = true;
        match &mut self.body {
            Body::Packed(bytes) => Some(bytes),
            Body::Spread(_) => None,
        }
    }

    /// The head of a large collection, to be changed.
    pub(super) fn change_spread(&mut self) -> Option<&mut Spread> {
        self.is_changed = true;
        match &mut self.body {
            Body::Packed(_) => None,
            Body::Spread(spread) => Some(spread),
        }
    }

    /// A large collection has gained an element.
    pub(super) fn count_added(&mut self) {
        if let Some(spread) = self.change_spread() {
            spread.count += 1;
        }
    }

    /// A large collection has lost an element.
    pub(super) fn count_removed(&mut self) {
        if let Some(spread) = self.change_spread() {
            spread.count = spread.count.saturating_sub(1);
        }
    }

    /// Notes a change that left the head as it was.
    pub(super) fn touch(&mut self) {
        self.is_changed = true;
    }

    /// Makes a small collection that has outgrown its bounds an empty large one; returns what it had, for its type to
    /// put it in.
    pub(super) fn outgrown(&mut self) -> Result<Option<Vec<u8>>, Failure> {
        match &self.body {
            Body::Packed(bytes) if !fits(bytes, 0, 0) => self.spread_out(),
            _ => Ok(None),
        }
    }

    /// As [`outgrown`](Opened::outgrown), for a small collection of any size.
    pub(super) fn spread_out(&mut self) -> Result<Option<Vec<u8>>, Failure> {
        let Body::Packed(bytes) = &mut self.body else { return Ok(None) };
        check_key(self.place.1)?;
        let bytes = std::mem::take(bytes);
        let id = self.data.new_id(self.place.0)?;
        self.body = Body::Spread(Spread { id, count: 0, first: 0 });
        self.in_strips = self.kind == Kind::List;
        self.levels_from_2 = self.kind == Kind::SortedSet;
        self.is_changed = true;
        Ok(Some(bytes))
    }

    /// The database and the id of a large collection.
    pub(super) fn set_id(&self) -> (usize, u64) {
        let (db, id, _) = self.address(Part::Main);
        (db, id)
    }

    /// See [`Dataset::level`]. Level 1 is long as a rule, and not held.
    pub(super) fn level(&mut self, level: u8) -> Result<Option<&[LevelEntry]>, Failure> {
        if level < 2 { Ok(None) } else { self.data.level(self.set_id(), level) }
    }

    /// What is held of the levels 1 that are not stored.
    pub(super) fn level_one(&mut self) -> &mut LevelOne {
        self.data.level_one()
    }

    /// Puts an entry of a level of a sorted set.
    pub(super) fn put_in_level(
        &mut self,
        level: u8,
        key: &[u8],
        members: u64,
    ) -> Result<(), Failure> {
        self.data.put_in_level(self.set_id(), level, (key, members))
    }

    /// See [`Dataset::count_in_level`].
    pub(super) fn count_in_level(
        &mut self,
        level: u8,
        key: &[u8],
        is_added: bool,
    ) -> Result<Option<bool>, Failure> {
        if level < 2 {
            return Ok(None);
        }
        self.data.count_in_level(self.set_id(), level, (key, is_added))
    }

    /// Removes an entry of a level of a sorted set.
    pub(super) fn remove_from_level(&mut self, level: u8, key: &[u8]) -> Result<(), Failure> {
        self.data.remove_from_level(self.set_id(), level, key)
    }

    /// No key of a member of a sorted set is less.
    pub(super) fn first_key(&self) -> Vec<u8> {
        self.data.known_ends.from(self.set_id()).to_vec()
    }

    /// Where the members of a sorted set are.
    pub(super) fn known_ends(&mut self) -> &mut KnownEnds {
        &mut self.data.known_ends
    }

    /// The members at the ends of sorted sets that are held.
    pub(super) fn end_members(&mut self) -> &mut EndMembers {
        &mut self.data.known_ends.members
    }

    /// See [`Dataset::prefetch_end`].
    pub(super) fn prefetch_end(&mut self, direction: Direction) {
        self.data.prefetch_end(self.set_id(), direction);
    }

    fn address(&self, part: Part) -> (usize, u64, Part) {
        let id = match &self.body {
            Body::Packed(_) => 0,
            Body::Spread(spread) => spread.id,
        };
        (self.place.0, id, part)
    }

    /// The value of an element of a large collection.
    pub(super) fn element(
        &mut self,
        part: Part,
        rest: &[&[u8]],
    ) -> Result<Option<Value<'_>>, Failure> {
        if is_too_long(rest) {
            return Ok(None);
        }
        let address = self.address(part);
        self.data.element(address, rest)
    }

    /// Puts an element of a large collection; true if it was there before.
    pub(super) fn put_element(
        &mut self,
        part: Part,
        rest: &[&[u8]],
        value: &[&[u8]],
    ) -> Result<bool, Failure> {
        if is_too_long(rest) {
            let text = format!("ERR a member or field is longer than {ELEMENT_SIZE_MAX} bytes");
            return Err(text.into());
        }
        let address = self.address(part);
        if let (Part::Main, Kind::Set | Kind::Hash, [name]) = (part, self.kind, rest) {
            self.data.known_ends.added((address.0, address.1), name);
        }
        self.data.put_element(address, rest, value)
    }

    /// Changes an element of a large collection, of which all is read, or an empty one that is not there. If it is empty
    /// then, it is removed.
    pub(super) fn change_element<T>(
        &mut self,
        part: Part,
        rest: &[&[u8]],
        change: impl FnOnce(&mut Vec<u8>) -> Result<T, Failure>,
    ) -> Result<T, Failure> {
        let address = self.address(part);
        self.data.change_element(address, rest, change)
    }

    /// Removes an element of a large collection; true if it was there.
    pub(super) fn remove_element(&mut self, part: Part, rest: &[&[u8]]) -> Result<bool, Failure> {
        if is_too_long(rest) {
            return Ok(false);
        }
        let address = self.address(part);
        self.data.remove_element(address, rest)
    }

    /// The rest of the key of some element of the main part of a large collection: each has a chance, the same one if
    /// there are few.
    pub(super) fn random_element(
        &mut self,
        random: &mut dyn FnMut() -> u64,
    ) -> Result<Option<Vec<u8>>, Failure> {
        let Body::Spread(spread) = &self.body else { return Ok(None) };
        let count = spread.count.max(1);
        if count <= COUNTED_MAX {
            return self.nth_from(Bound::Unbounded, random() % count);
        }
        let Some((first, last)) = self.ends_of_main()? else { return Ok(None) };
        let (place, skipped) = (random_place(&first, &last, random), random() % SKIPPED_MAX);
        match self.nth_from(Bound::Included(&place), skipped)? {
            // The last ones are followed by the first ones.
            None => {
                let id = self.set_id();
                self.data.known_ends.forget_one(id);
                self.nth_from(Bound::Unbounded, skipped)
            }
            found => Ok(found),
        }
    }

    /// As [`random_element`](Opened::random_element), of an element that is to be removed. Several are drawn together, from a few
    /// random places, and given one after the other: one that is given may have been removed by another command since.
    pub(super) fn draw_element(
        &mut self,
        random: &mut dyn FnMut() -> u64,
    ) -> Result<Option<Vec<u8>>, Failure> {
        let id = self.set_id();
        if let Some(drawn) = self.data.known_ends.take_drawn(id) {
            return Ok(Some(drawn));
        }
        let Body::Spread(Spread { count, .. }) = self.body else { return Ok(None) };
        let mut drawn = Vec::new();
        if count <= COUNTED_MAX {
            self.visit_from(Bound::Unbounded, &mut |rest| {
                drawn.push(rest.to_vec());
                true
            })?;
        } else if let Some((first, last)) = self.ends_of_main()? {
            for _ in 0..DRAWN_PLACES {
                let place = random_place(&first, &last, random);
                let most = drawn.len() + DRAWN_AT_PLACE;
                self.visit_from(Bound::Included(&place), &mut |rest| {
                    if random().is_multiple_of(2) {
                        drawn.push(rest.to_vec());
                    }
                    drawn.len() < most
                })?;
            }
        }
        // Shuffled: what is given first is random among them. Two places may have drawn the same.
        drawn.sort_unstable();
        drawn.dedup();
        for at in 1..drawn.len() {
            drawn.swap(at, (random() % (at as u64 + 1)) as usize);
        }
        drawn.truncate(DRAWN_PLACES * DRAWN_AT_PLACE);
        let Some(one) = drawn.pop() else {
            // The places are behind all that is left.
            self.data.known_ends.forget_one(id);
            return self.random_element(random);
        };
        self.data.known_ends.set_drawn(id, drawn);
        Ok(Some(one))
    }

    /// Calls `visit` with the rest of the keys of the main part from a bound on, until it returns false.
    fn visit_from(
        &mut self,
        from: Bound<&[u8]>,
        visit: &mut dyn FnMut(&[u8]) -> bool,
    ) -> Result<(), Failure> {
        let ends = (from, Bound::Unbounded);
        self.visit(Part::Main, ends, Direction::Forward, &mut |rest, _| visit(rest))
    }

    /// Two keys between which the elements of the main part lie: its first and its last, or what these were not long ago.
    fn ends_of_main(&mut self) -> Result<Option<EndKeys>, Failure> {
        let id = self.set_id();
        if let Some((first, last)) = self.data.known_ends.ends(id) {
            return Ok(Some((first.to_vec(), last.to_vec())));
        }
        let all = (Bound::Unbounded, Bound::Unbounded);
        let (mut first, mut last) = (None, None);
        for (direction, end) in [(Direction::Forward, &mut first), (Direction::Backward, &mut last)]
        {
            self.visit(Part::Main, all, direction, &mut |rest, _| {
                *end = Some(rest.to_vec());
                false
            })?;
        }
        let (Some(first), Some(last)) = (first, last) else { return Ok(None) };
        self.data.known_ends.found_ends(id, (&first, &last));
        Ok(Some((first, last)))
    }

    /// The rest of the key of an element of the main part, so many behind a bound.
    fn nth_from(&mut self, from: Bound<&[u8]>, nth: u64) -> Result<Option<Vec<u8>>, Failure> {
        let (mut left, mut found) = (nth, None);
        let ends = (from, Bound::Unbounded);
        self.visit(Part::Main, ends, Direction::Forward, &mut |rest, _| {
            if left == 0 {
                found = Some(rest.to_vec());
            }
            left = left.saturating_sub(1);
            found.is_none()
        })?;
        Ok(found)
    }

    /// Removes so many elements of a large collection, which lie from one on, up to another one.
    pub(super) fn remove_elements(
        &mut self,
        part: Part,
        (from, to): (&[u8], &[u8]),
        count: u64,
    ) -> Result<(), Failure> {
        let address = self.address(part);
        self.data.remove_elements_between(address, (from, to), count)
    }

    /// Calls `visit` with elements of a large collection between two ends, until it returns false.
    pub(super) fn visit(
        &mut self,
        part: Part,
        ends: Ends<'_>,
        direction: Direction,
        visit: &mut VisitElement<'_>,
    ) -> Result<(), Failure> {
        let address = self.address(part);
        self.data.visit_elements(address, ends, direction, visit)
    }
}

/// Entries of a packed collection that one step changes.
fn entries_of(kind: Kind) -> usize {
    match kind {
        Kind::Hash | Kind::SortedSet => 2,
        Kind::String | Kind::List | Kind::Set | Kind::Stream => 1,
    }
}

/// Whether a collection stays small when so many entries of so many bytes are added.
fn fits(bytes: &[u8], more: usize, size: usize) -> bool {
    let size = bytes.len() + size + more * 2;
    size <= PACKED_MAX.0
        && (size <= PACKED_MAX.1 || Packed::trusted(bytes).count() + more <= PACKED_MAX.1)
}

fn is_too_long(rest: &[&[u8]]) -> bool {
    rest.iter().map(|bytes| bytes.len()).sum::<usize>() > ELEMENT_SIZE_MAX + 8
}
