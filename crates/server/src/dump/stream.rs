//! Streams between the databases and the RDB format.

use tembo_kv::Direction;

use crate::collection::{Group, Pending, Stream};
use crate::dataset::Dataset;
use crate::failure::{Failure, Outcome};
use crate::format::{StreamId, UnknownLayout};
use crate::rdb::{EntriesRead, GroupValue, PendingValue, StreamValue};

/// All entries.
const ALL: (StreamId, StreamId) = (StreamId::MIN, StreamId::MAX);

/// The stream under a key.
pub(super) fn read(data: &mut Dataset<'_>, place: (usize, &[u8])) -> Result<StreamValue, Failure> {
    let mut stream = Stream::open(data, place)?.ok_or(UnknownLayout)?;
    let head = *stream.head();
    let mut value = StreamValue {
        last: head.last,
        removed_max: head.removed_max,
        added: head.added,
        ..StreamValue::default()
    };
    stream.visit(ALL, Direction::Forward, &mut |id, packed| {
        value.entries.push((id, packed.to_vec()));
        true
    })?;
    for mut group in Group::all(&mut stream)? {
        let consumers = group.all_consumers(&mut stream)?;
        let mut seen = Vec::new();
        group.visit_pending(&mut stream, ALL, Direction::Forward, &mut |id, pending| {
            seen.push((id, pending));
            true
        })?;
        let mut pending = std::collections::BTreeMap::new();
        for (id, Pending { consumer, delivered_ms, deliveries }) in seen {
            let consumer = consumers.iter().position(|(number, _)| *number == consumer);
            let consumer = consumer.ok_or(UnknownLayout)?;
            pending.insert(id, PendingValue { delivered_ms, deliveries, consumer });
        }
        let record = group.record();
        let read = record.read.map_or(EntriesRead::Unknown, EntriesRead::Known);
        let consumers =
            consumers.into_iter().map(|(_, one)| (one.name, one.record.seen_ms)).collect();
        let of = GroupValue { last: record.last, read, consumers, pending };
        value.groups.insert(group.name().to_vec(), of);
    }
    Ok(value)
}

/// Puts a stream under a key, in the place of what is there.
pub(super) fn put(
    data: &mut Dataset<'_>,
    place: (usize, &[u8]),
    value: &StreamValue,
    expiry_ms: Option<u64>,
) -> Outcome {
    let mut stream = Stream::create(data, place)?.expiring(expiry_ms);
    value.entries.iter().try_for_each(|(id, packed)| stream.append(*id, packed))?;
    let head = stream.change_head();
    (head.last, head.removed_max, head.added) = (value.last, value.removed_max, value.added);
    for (name, given) in &value.groups {
        let read = match given.read {
            EntriesRead::Known(read) => Some(read),
            EntriesRead::Unknown => None,
            EntriesRead::Unsaid => stream.added_up_to(given.last),
        };
        Group::create(&mut stream, name, given.last, read)?;
        let mut group = Group::find(&mut stream, name)?.ok_or(UnknownLayout)?;
        let mut numbers = Vec::with_capacity(given.consumers.len());
        for (name, seen_ms) in &given.consumers {
            numbers.push(group.add_consumer(&mut stream, name, *seen_ms)?);
        }
        for (id, PendingValue { delivered_ms, deliveries, consumer }) in &given.pending {
            let (delivered_ms, deliveries) = (*delivered_ms, *deliveries);
            let consumer = *numbers.get(*consumer).ok_or(UnknownLayout)?;
            let pending = Pending { consumer, delivered_ms, deliveries };
            group.set_pending(&mut stream, *id, (None, pending))?;
        }
        group.save(&mut stream)?;
    }
    stream.save()
}
