//! Streams of a snapshot.

use std::collections::BTreeMap;

use crate::format::{
    ConsumerRecord, GroupRecord, Part, PendingRecord, StreamBlock, StreamHead, StreamId,
    UnknownLayout,
};
use crate::rdb::{EntriesRead, GroupValue, PendingValue, StreamValue};
use crate::replication::outlet::End;
use crate::replication::redis::elements::Elements;

/// A number, and what follows it.
fn word(rest: &[u8]) -> Result<(u64, &[u8]), UnknownLayout> {
    let (word, rest) = rest.split_first_chunk().ok_or(UnknownLayout)?;
    Ok((u64::from_be_bytes(*word), rest))
}

fn id_of(bytes: &[u8]) -> Result<StreamId, UnknownLayout> {
    bytes.try_into().map(StreamId::decode).map_err(|_| UnknownLayout)
}

/// A group by its number: its name, its record, and its consumers by their numbers.
struct Group {
    name: Vec<u8>,
    record: GroupRecord,
    consumers: BTreeMap<u64, (Vec<u8>, u64)>,
    pending: BTreeMap<StreamId, PendingRecord>,
}

/// The whole stream with that payload.
///
/// # Errors
/// Those of the store; it has another layout.
pub(super) fn read_stream(elements: &Elements<'_>, payload: &[u8]) -> Result<StreamValue, End> {
    let head = StreamHead::decode(payload.into())?;
    let mut value = StreamValue {
        last: head.last,
        removed_max: head.removed_max,
        added: head.added,
        ..StreamValue::default()
    };
    elements.visit((head.id, Part::Main), None, &mut |rest, found| {
        let (of, bytes) = (id_of(rest)?, found.to_vec());
        if head.block.is_none() {
            value.entries.push((of, bytes));
            return Ok(true);
        }
        for entry in StreamBlock::new(of, &bytes) {
            let entry = entry?;
            value.entries.push((entry.id, bytes[entry.packed].to_vec()));
        }
        Ok(true)
    })?;
    for group in read_groups(elements, head.id)?.into_values() {
        let (name, group) = convert(group)?;
        value.groups.insert(name, group);
    }
    Ok(value)
}

fn read_groups(elements: &Elements<'_>, id: u64) -> Result<BTreeMap<u64, Group>, End> {
    let mut groups = BTreeMap::new();
    elements.visit((id, Part::Group), None, &mut |name, record| {
        let (name, record) = (name.to_vec(), GroupRecord::decode(record)?);
        let (consumers, pending) = (BTreeMap::new(), BTreeMap::new());
        groups.insert(record.number, Group { name, record, consumers, pending });
        Ok(true)
    })?;
    elements.visit((id, Part::Consumer), None, &mut |rest, record| {
        let (group, rest) = word(rest)?;
        let (number, (record, name)) = (word(rest)?.0, ConsumerRecord::decode(record)?);
        let group: &mut Group = groups.get_mut(&group).ok_or(UnknownLayout)?;
        group.consumers.insert(number, (name, record.seen_ms));
        Ok(true)
    })?;
    elements.visit((id, Part::Pending), None, &mut |rest, record| {
        let (group, rest) = word(rest)?;
        let group: &mut Group = groups.get_mut(&group).ok_or(UnknownLayout)?;
        group.pending.insert(id_of(rest)?, PendingRecord::decode(record)?);
        Ok(true)
    })?;
    Ok(groups)
}

/// A group, whose pending entries name consumers by their place.
fn convert(group: Group) -> Result<(Vec<u8>, GroupValue), UnknownLayout> {
    let Group { name, record, consumers, pending } = group;
    let numbers: Vec<u64> = consumers.keys().copied().collect();
    let pending =
        pending.into_iter().map(|(id, PendingRecord { consumer, delivered_ms, deliveries })| {
            let consumer = numbers.binary_search(&consumer).map_err(|_| UnknownLayout)?;
            Ok((id, PendingValue { delivered_ms, deliveries, consumer }))
        });
    let read = record.read.map_or(EntriesRead::Unknown, EntriesRead::Known);
    let pending = pending.collect::<Result<_, UnknownLayout>>()?;
    let consumers = consumers.into_values().collect();
    Ok((name, GroupValue { last: record.last, read, consumers, pending }))
}
