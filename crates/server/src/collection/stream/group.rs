//! Consumer groups: what was delivered to which consumer and is not acknowledged.

use std::collections::BTreeMap;
use std::ops::Bound;

use tembo_kv::Direction;

use crate::collection::stream::id_of::id_of;
use crate::collection::stream::log::Stream;
use crate::failure::Failure;
use crate::format::{ConsumerRecord, GroupRecord, Part, PendingRecord, StreamId, UnknownLayout};

/// A pending entry.
pub(crate) type Pending = PendingRecord;

/// A consumer of a group.
#[derive(Clone, Debug)]
pub(crate) struct Consumer {
    /// Its name.
    pub(crate) name: Vec<u8>,
    /// When it was last seen, and its pending entries.
    pub(crate) record: ConsumerRecord,
    is_changed: bool,
}

/// A group that a command works on. What it changes of the group and its consumers is saved by [`save`](Group::save).
pub(crate) struct Group {
    name: Vec<u8>,
    record: GroupRecord,
    /// Consumers that were used, by number.
    consumers: BTreeMap<u64, Consumer>,
}

impl Group {
    /// The group of that name, if there is one.
    pub(crate) fn find(stream: &mut Stream<'_, '_>, name: &[u8]) -> Result<Option<Group>, Failure> {
        let Some(value) = stream.element(Part::Group, &[name])? else { return Ok(None) };
        let record = GroupRecord::decode(value)?;
        Ok(Some(Group { name: name.to_vec(), record, consumers: BTreeMap::new() }))
    }

    /// Adds a group; false if one of that name is there.
    pub(crate) fn create(
        stream: &mut Stream<'_, '_>,
        name: &[u8],
        last: StreamId,
        read: Option<u64>,
    ) -> Result<bool, Failure> {
        if stream.element(Part::Group, &[name])?.is_some() {
            return Ok(false);
        }
        let number = stream.head().group_numbers + 1;
        let record = GroupRecord { number, last, read, ..GroupRecord::default() };
        stream.put(Part::Group, &[name], &[&record.encode()])?;
        let head = stream.change_head();
        head.groups += 1;
        head.group_numbers = number;
        Ok(true)
    }

    /// All groups, by name.
    pub(crate) fn all(stream: &mut Stream<'_, '_>) -> Result<Vec<Group>, Failure> {
        let (mut groups, mut seen) = (Vec::new(), Ok(()));
        let all = (Bound::Unbounded, Bound::Unbounded);
        stream.visit_part(Part::Group, all, Direction::Forward, &mut |name, value| {
            match GroupRecord::decode(value) {
                Ok(record) => {
                    groups.push(Group { name: name.to_vec(), record, consumers: BTreeMap::new() });
                }
                Err(unknown) => seen = Err(unknown),
            }
            seen.is_ok()
        })?;
        seen?;
        Ok(groups)
    }

    /// Removes the group and all that it has.
    pub(crate) fn destroy(self, stream: &mut Stream<'_, '_>) -> Result<(), Failure> {
        let GroupRecord { number, pending, consumers, .. } = self.record;
        let (from, to) = (number.to_be_bytes(), (number + 1).to_be_bytes());
        for (part, count) in [
            (Part::ConsumerName, consumers),
            (Part::Consumer, consumers),
            (Part::Pending, pending),
            (Part::Owned, pending),
        ] {
            if count > 0 {
                stream.remove_between(part, (&from, &to), count)?;
            }
        }
        stream.remove_element(Part::Group, &[&self.name])?;
        let head = stream.change_head();
        head.groups = head.groups.saturating_sub(1);
        Ok(())
    }

    /// Saves the group, and the consumers that were changed.
    pub(crate) fn save(&mut self, stream: &mut Stream<'_, '_>) -> Result<(), Failure> {
        let number = self.number();
        for (own, consumer) in self.consumers.iter_mut().filter(|(_, one)| one.is_changed) {
            let rest: [&[u8]; 2] = [&number, &own.to_be_bytes()];
            stream.put_later(
                Part::Consumer,
                &rest,
                &[&consumer.record.encode(), &consumer.name],
            )?;
            consumer.is_changed = false;
        }
        stream.put_later(Part::Group, &[&self.name], &[&self.record.encode()])?;
        Ok(())
    }

    fn number(&self) -> [u8; 8] {
        self.record.number.to_be_bytes()
    }

    /// Its name.
    pub(crate) fn name(&self) -> &[u8] {
        &self.name
    }

    /// What it says of itself.
    pub(crate) fn record(&self) -> &GroupRecord {
        &self.record
    }

    /// Sets what was delivered last, and how many entries that makes.
    pub(crate) fn set_last(&mut self, last: StreamId, read: Option<u64>) {
        (self.record.last, self.record.read) = (last, read);
    }

    /// An entry behind the last one is delivered.
    pub(crate) fn advance(&mut self, stream: &Stream<'_, '_>, id: StreamId) {
        if let Some(read) = self.record.read
            && !stream.has_gaps_from(id)
        {
            self.record.read = Some(read.wrapping_add(1));
        } else if stream.head().added > 0 {
            self.record.read = stream.added_up_to(id);
        }
        self.record.last = id;
    }

    /// How many entries are yet to be delivered; `None`: it is not known.
    pub(crate) fn lag(&self, stream: &Stream<'_, '_>) -> Option<i64> {
        let added = stream.head().added;
        if added == 0 {
            return Some(0);
        }
        let read = match self.record.read {
            Some(read) if !stream.has_gaps_from(self.record.last) => read,
            _ => stream.added_up_to(self.record.last)?,
        };
        Some(added.wrapping_sub(read) as i64)
    }

    /// The number of the consumer of that name, if there is one.
    pub(crate) fn consumer(
        &mut self,
        stream: &mut Stream<'_, '_>,
        name: &[u8],
    ) -> Result<Option<u64>, Failure> {
        let number = self.number();
        let found = stream.element(Part::ConsumerName, &[&number, name])?;
        let Some(found) = found else { return Ok(None) };
        Ok(Some(found.array(0).map(u64::from_be_bytes).ok_or(UnknownLayout)?))
    }

    /// Adds a consumer, which is not there, and returns its number.
    pub(crate) fn add_consumer(
        &mut self,
        stream: &mut Stream<'_, '_>,
        name: &[u8],
        now_ms: u64,
    ) -> Result<u64, Failure> {
        let own = self.record.consumer_numbers + 1;
        stream.put(Part::ConsumerName, &[&self.number(), name], &[&own.to_be_bytes()])?;
        let record = ConsumerRecord { seen_ms: now_ms, pending: 0 };
        self.consumers.insert(own, Consumer { name: name.to_vec(), record, is_changed: true });
        self.record.consumers += 1;
        self.record.consumer_numbers = own;
        Ok(own)
    }

    /// The consumer of that name, which is seen now; it is added if it is not there. Its number, and whether it is added.
    pub(crate) fn see_consumer(
        &mut self,
        stream: &mut Stream<'_, '_>,
        name: &[u8],
        now_ms: u64,
    ) -> Result<(u64, bool), Failure> {
        match self.consumer(stream, name)? {
            Some(own) => {
                self.change_consumer(stream, own)?.seen_ms = now_ms;
                Ok((own, false))
            }
            None => Ok((self.add_consumer(stream, name, now_ms)?, true)),
        }
    }

    /// The consumer of that number.
    pub(crate) fn consumer_of(
        &mut self,
        stream: &mut Stream<'_, '_>,
        own: u64,
    ) -> Result<&mut Consumer, Failure> {
        use std::collections::btree_map::Entry;
        match self.consumers.entry(own) {
            Entry::Occupied(there) => Ok(there.into_mut()),
            Entry::Vacant(place) => {
                let rest: [&[u8]; 2] = [&self.record.number.to_be_bytes(), &own.to_be_bytes()];
                let value = stream.element(Part::Consumer, &rest)?.ok_or(UnknownLayout)?;
                let (record, name) = ConsumerRecord::decode(value)?;
                Ok(place.insert(Consumer { name, record, is_changed: false }))
            }
        }
    }

    fn change_consumer(
        &mut self,
        stream: &mut Stream<'_, '_>,
        own: u64,
    ) -> Result<&mut ConsumerRecord, Failure> {
        let consumer = self.consumer_of(stream, own)?;
        consumer.is_changed = true;
        Ok(&mut consumer.record)
    }

    /// All consumers and their numbers, by name.
    pub(crate) fn all_consumers(
        &mut self,
        stream: &mut Stream<'_, '_>,
    ) -> Result<Vec<(u64, Consumer)>, Failure> {
        let (from, to) = (self.number(), (self.record.number + 1).to_be_bytes());
        let ends = (Bound::Included(&from[..]), Bound::Excluded(&to[..]));
        let mut numbers = Vec::new();
        stream.visit_part(Part::ConsumerName, ends, Direction::Forward, &mut |_, value| {
            numbers.push(value.array(0).map(u64::from_be_bytes));
            true
        })?;
        let mut consumers = Vec::with_capacity(numbers.len());
        for own in numbers {
            let own = own.ok_or(UnknownLayout)?;
            consumers.push((own, self.consumer_of(stream, own)?.clone()));
        }
        Ok(consumers)
    }

    /// Removes a consumer and its pending entries; how many these were.
    pub(crate) fn remove_consumer(
        &mut self,
        stream: &mut Stream<'_, '_>,
        own: u64,
    ) -> Result<u64, Failure> {
        let mut owned = Vec::new();
        self.visit_owned(stream, own, StreamId::MIN, &mut |id| {
            owned.push(id);
            true
        })?;
        let number = self.number();
        for id in &owned {
            stream.remove_element(Part::Pending, &[&number, &id.encode()])?;
            let rest: [&[u8]; 3] = [&number, &own.to_be_bytes(), &id.encode()];
            stream.remove_element(Part::Owned, &rest)?;
        }
        let name = self.consumer_of(stream, own)?.name.clone();
        stream.remove_element(Part::ConsumerName, &[&number, &name])?;
        stream.remove_element(Part::Consumer, &[&number, &own.to_be_bytes()])?;
        self.consumers.remove(&own);
        self.record.pending = self.record.pending.saturating_sub(owned.len() as u64);
        self.record.consumers = self.record.consumers.saturating_sub(1);
        Ok(owned.len() as u64)
    }

    /// The pending entry of that id, if it is one.
    pub(crate) fn pending(
        &self,
        stream: &mut Stream<'_, '_>,
        id: StreamId,
    ) -> Result<Option<Pending>, Failure> {
        let found = stream.element(Part::Pending, &[&self.number(), &id.encode()])?;
        Ok(found.map(PendingRecord::decode).transpose()?)
    }

    /// As `pending`, of an entry that is delivered as a new one: as a rule no entry so far behind is pending.
    pub(crate) fn pending_of_new(
        &self,
        stream: &mut Stream<'_, '_>,
        id: StreamId,
    ) -> Result<Option<Pending>, Failure> {
        let group = self.record.number;
        let (hints, of) = stream.hints();
        let is_behind = match hints.is_behind_pending(of, group, id) {
            Some(is_behind) => is_behind,
            None => {
                let mut last = StreamId::MIN;
                let all = (StreamId::MIN, StreamId::MAX);
                self.visit_pending(stream, all, Direction::Backward, &mut |id, _| {
                    last = id;
                    false
                })?;
                stream.hints().0.found_pending(of, group, last);
                id > last
            }
        };
        if is_behind { Ok(None) } else { self.pending(stream, id) }
    }

    /// Makes an entry pending, which was not so before or in the way of `old`.
    pub(crate) fn set_pending(
        &mut self,
        stream: &mut Stream<'_, '_>,
        id: StreamId,
        (old, new): (Option<Pending>, Pending),
    ) -> Result<(), Failure> {
        let (number, key) = (self.number(), id.encode());
        let (hints, of) = stream.hints();
        hints.added_pending(of, self.record.number, id);
        stream.put(Part::Pending, &[&number, &key], &[&new.encode()])?;
        if old.is_some_and(|old| old.consumer == new.consumer) {
            return Ok(());
        }
        match old {
            Some(old) => self.disown(stream, id, old.consumer)?,
            None => self.record.pending += 1,
        }
        let rest: [&[u8]; 3] = [&number, &new.consumer.to_be_bytes(), &key];
        stream.put(Part::Owned, &rest, &[])?;
        self.change_consumer(stream, new.consumer)?.pending += 1;
        Ok(())
    }

    /// A pending entry is so no longer.
    pub(crate) fn remove_pending(
        &mut self,
        stream: &mut Stream<'_, '_>,
        id: StreamId,
        old: Pending,
    ) -> Result<(), Failure> {
        stream.remove_element(Part::Pending, &[&self.number(), &id.encode()])?;
        self.record.pending = self.record.pending.saturating_sub(1);
        self.disown(stream, id, old.consumer)
    }

    fn disown(
        &mut self,
        stream: &mut Stream<'_, '_>,
        id: StreamId,
        own: u64,
    ) -> Result<(), Failure> {
        let rest: [&[u8]; 3] = [&self.number(), &own.to_be_bytes(), &id.encode()];
        stream.remove_element(Part::Owned, &rest)?;
        let consumer = self.change_consumer(stream, own)?;
        consumer.pending = consumer.pending.saturating_sub(1);
        Ok(())
    }

    /// Calls `visit` with pending entries from one id to another, both included, until it returns false.
    pub(crate) fn visit_pending(
        &self,
        stream: &mut Stream<'_, '_>,
        (from, to): (StreamId, StreamId),
        direction: Direction,
        visit: &mut dyn FnMut(StreamId, Pending) -> bool,
    ) -> Result<(), Failure> {
        let number = self.number();
        let key = |id: StreamId| [&number[..], &id.encode()].concat();
        let (from, to) = (key(from), key(to));
        let ends = (Bound::Included(&from[..]), Bound::Included(&to[..]));
        let mut is_sound = true;
        stream.visit_part(Part::Pending, ends, direction, &mut |key, value| match (
            key.get(8..).and_then(id_of),
            PendingRecord::decode(value),
        ) {
            (Some(id), Ok(pending)) => visit(id, pending),
            _ => {
                is_sound = false;
                false
            }
        })?;
        if is_sound { Ok(()) } else { Err(UnknownLayout.into()) }
    }

    /// Calls `visit` with the ids of a consumer's pending entries from one on, until it returns false.
    pub(crate) fn visit_owned(
        &self,
        stream: &mut Stream<'_, '_>,
        own: u64,
        from: StreamId,
        visit: &mut dyn FnMut(StreamId) -> bool,
    ) -> Result<(), Failure> {
        let number = self.number();
        let key = |id: StreamId| [&number[..], &own.to_be_bytes(), &id.encode()].concat();
        let (from, to) = (key(from), key(StreamId::MAX));
        let ends = (Bound::Included(&from[..]), Bound::Included(&to[..]));
        let mut is_sound = true;
        stream.visit_part(Part::Owned, ends, Direction::Forward, &mut |key, _| match key
            .get(16..)
            .and_then(id_of)
        {
            Some(id) => visit(id),
            None => {
                is_sound = false;
                false
            }
        })?;
        if is_sound { Ok(()) } else { Err(UnknownLayout.into()) }
    }
}
