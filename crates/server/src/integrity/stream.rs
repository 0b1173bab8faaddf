//! Streams: the head with the entries; groups with their consumers; pending entries by group and by consumer.

use std::collections::BTreeMap;

use tembo_kv::Value;

use crate::format::{
    ConsumerRecord, GroupRecord, Packed, Part, PendingRecord, STREAM_ID_SIZE, StreamBlock,
    StreamHead, StreamId, element_prefix,
};
use crate::integrity::elements::Elements;
use crate::integrity::expected::{expect, expect_count};

/// A consumer: its name, and its pending entries: as it says, in the group's list, in its own.
struct Seen {
    name: Vec<u8>,
    said: Option<u64>,
    pending: u64,
    owned: u64,
}

/// A group, and its consumers by number.
struct Met {
    record: GroupRecord,
    consumers: BTreeMap<u64, Seen>,
}

/// A stream whose elements are being seen.
pub(super) struct StreamJudge<'s> {
    head: StreamHead,
    elements: Elements<'s>,
    entries: u64,
    /// The id of the entry that was seen last.
    last: StreamId,
    groups: BTreeMap<u64, Met>,
}

fn word(rest: &[u8]) -> Result<(u64, &[u8]), String> {
    let (word, rest) = rest.split_first_chunk().ok_or("the key of an element is cut")?;
    Ok((u64::from_be_bytes(*word), rest))
}

fn id(rest: &[u8]) -> Result<StreamId, String> {
    let bytes: [u8; STREAM_ID_SIZE] = rest.try_into().map_err(|_| "an id is none")?;
    Ok(StreamId::decode(bytes))
}

impl StreamJudge<'_> {
    pub(super) fn new(head: StreamHead, elements: Elements<'_>) -> StreamJudge<'_> {
        StreamJudge { head, elements, entries: 0, last: StreamId::MIN, groups: BTreeMap::new() }
    }

    pub(super) fn element(
        &mut self,
        part: u8,
        rest: &[u8],
        value: Value<'_>,
    ) -> Result<(), String> {
        match part {
            0 => match self.head.block {
                Some(last) => self.block(id(rest)?, last, &value.to_vec()),
                None => value.with(|bytes| self.entry(id(rest)?, bytes)),
            },
            1 => self.group(value),
            2 => self.name(rest, value),
            3 => self.consumer(rest, value),
            4 => self.pending(rest, value),
            5 => self.owned(rest),
            _ => Err("an element of a part that it does not have".to_owned()),
        }
    }

    /// A block, not behind that which the head names as the last one.
    fn block(&mut self, of: StreamId, last: StreamId, bytes: &[u8]) -> Result<(), String> {
        expect(of <= last, "a block is behind the last one")?;
        expect(!bytes.is_empty(), "a block is empty")?;
        for entry in StreamBlock::new(of, bytes) {
            let entry = entry.map_err(|_| "a block is cut")?;
            expect(entry.id > self.last, "entries are not in order")?;
            self.entry(entry.id, &bytes[entry.packed])?;
        }
        Ok(())
    }

    fn entry(&mut self, id: StreamId, bytes: &[u8]) -> Result<(), String> {
        self.last = id;
        if self.entries == 0 {
            expect(self.head.first == id, "its head does not name its first entry")?;
        }
        self.entries += 1;
        expect(id <= self.head.last, "an entry is behind the last one")?;
        let entries = Packed::new(bytes).map(Iterator::count);
        let is_whole = entries.is_ok_and(|count| count > 0 && count.is_multiple_of(2));
        expect(is_whole, "the fields of an entry are cut")
    }

    fn group(&mut self, value: Value<'_>) -> Result<(), String> {
        let record = GroupRecord::decode(value).map_err(|_| "a group is cut")?;
        expect(record.number <= self.head.group_numbers, "a group has a number never given")?;
        let met = Met { record, consumers: BTreeMap::new() };
        let is_first = self.groups.insert(record.number, met).is_none();
        expect(is_first, "two groups have one number")
    }

    fn of_group<'r>(&mut self, rest: &'r [u8]) -> Result<(&mut Met, &'r [u8]), String> {
        let (number, rest) = word(rest)?;
        let group = self.groups.get_mut(&number).ok_or("something belongs to no group")?;
        Ok((group, rest))
    }

    fn name(&mut self, rest: &[u8], value: Value<'_>) -> Result<(), String> {
        let (group, name) = self.of_group(rest)?;
        let number = value.array(0).map(u64::from_be_bytes).ok_or("a consumer has no number")?;
        expect(number <= group.record.consumer_numbers, "a consumer has a number never given")?;
        let seen = Seen { name: name.to_vec(), said: None, pending: 0, owned: 0 };
        let is_first = group.consumers.insert(number, seen).is_none();
        expect(is_first, "two consumers have one number")
    }

    fn consumer(&mut self, rest: &[u8], value: Value<'_>) -> Result<(), String> {
        let (group, rest) = self.of_group(rest)?;
        let seen = group.consumers.get_mut(&word(rest)?.0).ok_or("a consumer has no name")?;
        let (record, name) = ConsumerRecord::decode(value).map_err(|_| "a consumer is cut")?;
        seen.said = Some(record.pending);
        expect(seen.name == name, "a consumer has two names")
    }

    fn pending(&mut self, rest: &[u8], value: Value<'_>) -> Result<(), String> {
        let (stream, elements) = (self.head.id, self.elements);
        let (group, rest) = self.of_group(rest)?;
        let record = PendingRecord::decode(value).map_err(|_| "a pending entry is cut")?;
        let seen = group.consumers.get_mut(&record.consumer);
        seen.ok_or("an entry is pending for no consumer")?.pending += 1;
        let (number, own) = (group.record.number.to_be_bytes(), record.consumer.to_be_bytes());
        let key = [&element_prefix(stream, Part::Owned)[..], &number, &own, &id(rest)?.encode()];
        let is_there = elements.get(&key.concat())?.is_some();
        expect(is_there, "a pending entry is not among its consumer's")
    }

    fn owned(&mut self, rest: &[u8]) -> Result<(), String> {
        let (group, rest) = self.of_group(rest)?;
        let (consumer, rest) = word(rest)?;
        id(rest)?;
        let seen = group.consumers.get_mut(&consumer);
        seen.ok_or("an entry is pending for no consumer")?.owned += 1;
        Ok(())
    }

    pub(super) fn end(self) -> Result<(), String> {
        let StreamHead { count, first, groups, .. } = self.head;
        expect_count(count, self.entries, "entries")?;
        expect(count > 0 || first == StreamId::MIN, "its head names a first entry, and has none")?;
        expect_count(groups, self.groups.len() as u64, "groups")?;
        for Met { record, consumers } in self.groups.into_values() {
            expect_count(record.consumers, consumers.len() as u64, "consumers of a group")?;
            let pending = consumers.values().map(|seen| seen.pending).sum();
            expect_count(record.pending, pending, "pending entries of a group")?;
            for seen in consumers.into_values() {
                let said = seen.said.ok_or("a consumer is a name only")?;
                expect_count(said, seen.pending, "pending entries of a consumer")?;
                expect_count(said, seen.owned, "entries of a consumer's own")?;
            }
        }
        Ok(())
    }
}
