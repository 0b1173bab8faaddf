//! A stream with one consumer group: what commands make of it, and what the elements in the store say of it.

use std::collections::{BTreeMap, BTreeSet};

use tembo_server::format::{
    ConsumerRecord, ELEMENT_PREFIX_SIZE, GroupRecord, Part, PendingRecord, StreamBlock, StreamHead,
    StreamId, element_prefix,
};

use crate::judge::{expect, text};

/// What is done to a stream. Entries are named by how many turns ago they were added.
#[derive(Clone, Debug)]
pub(crate) enum Change {
    /// To so many entries, if that is given.
    Add(Option<u64>),
    Remove(u64),
    Trim(u64),
    CreateGroup,
    /// The consumer, and how many entries.
    Read(u8, u64),
    Acknowledge(u64),
    /// All that is pending goes to the consumer.
    Claim(u8),
    RemoveConsumer(u8),
    DestroyGroup,
}

/// A group: the last id, pending entries with consumer and deliveries, and all consumers.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Group {
    last: StreamId,
    pending: BTreeMap<StreamId, (Vec<u8>, u64)>,
    consumers: BTreeSet<Vec<u8>>,
}

/// A stream.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Stream {
    last: StreamId,
    removed_max: StreamId,
    added: u64,
    entries: BTreeMap<StreamId, Vec<u8>>,
    group: Option<Group>,
}

fn consumer(n: u8) -> Vec<u8> {
    format!("consumer-{n}").into_bytes()
}

impl Change {
    /// The request that a client sends; `at` has the times of this turn and of those before it.
    pub(crate) fn request(&self, key: Vec<u8>, at: impl Fn(u64) -> u64) -> Vec<Vec<u8>> {
        let id = |turns: u64| format!("{}-0", at(turns));
        let line = match self {
            Change::Add(None) => format!("XADD KEY * field {}", at(0)),
            Change::Add(Some(most)) => format!("XADD KEY MAXLEN {most} * field {}", at(0)),
            Change::Remove(turns) => format!("XDEL KEY {}", id(*turns)),
            Change::Trim(most) => format!("XTRIM KEY MAXLEN {most}"),
            Change::CreateGroup => "XGROUP CREATE KEY group 0 MKSTREAM".into(),
            Change::Read(n, count) => {
                format!("XREADGROUP GROUP group consumer-{n} COUNT {count} STREAMS KEY >")
            }
            Change::Acknowledge(turns) => {
                format!("XACK KEY group {} {}", id(*turns), id(turns + 1))
            }
            Change::Claim(n) => format!("XAUTOCLAIM KEY group consumer-{n} 0 0"),
            Change::RemoveConsumer(n) => format!("XGROUP DELCONSUMER KEY group consumer-{n}"),
            Change::DestroyGroup => "XGROUP DESTROY KEY group".into(),
        };
        let word = |word: &str| if word == "KEY" { key.clone() } else { word.as_bytes().to_vec() };
        line.split(' ').map(word).collect()
    }

    /// Does it to the stream, if there is one; false: the reply is an error.
    pub(crate) fn execute(&self, stream: &mut Option<Stream>, at: impl Fn(u64) -> u64) -> bool {
        let id = |turns: u64| StreamId { ms: at(turns), seq: 0 };
        match self {
            Change::Add(most) => {
                let stream = stream.get_or_insert_default();
                let now = StreamId { ms: at(0), seq: 0 };
                let behind = StreamId { seq: stream.last.seq + 1, ..stream.last };
                stream.last = if now.ms > stream.last.ms { now } else { behind };
                stream.entries.insert(stream.last, at(0).to_string().into_bytes());
                stream.added += 1;
                stream.trim(most.unwrap_or(u64::MAX));
                true
            }
            Change::CreateGroup => {
                let stream = stream.get_or_insert_default();
                let is_added = stream.group.is_none();
                stream.group.get_or_insert_default();
                is_added
            }
            Change::Remove(turns) => {
                if let Some(stream) = stream
                    && stream.entries.remove(&id(*turns)).is_some()
                {
                    stream.removed_max = stream.removed_max.max(id(*turns));
                }
                true
            }
            Change::Trim(most) => {
                stream.iter_mut().for_each(|stream| stream.trim(*most));
                true
            }
            Change::Acknowledge(turns) => {
                if let Some(group) = stream.as_mut().and_then(|stream| stream.group.as_mut()) {
                    group.pending.remove(&id(*turns));
                    group.pending.remove(&id(turns + 1));
                }
                true
            }
            Change::DestroyGroup => match stream {
                Some(stream) => {
                    stream.group = None;
                    true
                }
                None => false,
            },
            Change::Read(..) | Change::Claim(_) | Change::RemoveConsumer(_) => {
                stream.as_mut().is_some_and(|stream| self.execute_in_group(stream))
            }
        }
    }

    fn execute_in_group(&self, stream: &mut Stream) -> bool {
        let Some(group) = &mut stream.group else { return false };
        match self {
            Change::Read(n, count) => {
                let behind = |id: &StreamId| *id > group.last;
                let ids = stream.entries.keys().copied().filter(behind);
                for id in ids.take(*count as usize).collect::<Vec<_>>() {
                    group.last = id;
                    group.consumers.insert(consumer(*n));
                    group.pending.insert(id, (consumer(*n), 1));
                }
            }
            Change::Claim(n) => {
                group.pending.retain(|id, _| stream.entries.contains_key(id));
                if !group.pending.is_empty() {
                    group.consumers.insert(consumer(*n));
                }
                for (owner, deliveries) in group.pending.values_mut() {
                    (*owner, *deliveries) = (consumer(*n), *deliveries + 1);
                }
            }
            Change::RemoveConsumer(n) => {
                group.consumers.remove(&consumer(*n));
                group.pending.retain(|_, (owner, _)| *owner != consumer(*n));
            }
            _ => {}
        }
        true
    }
}

/// Elements of a database, by key.
pub(crate) type Elements = BTreeMap<Vec<u8>, Vec<u8>>;

/// The elements of one part, without the prefix of their keys; they are taken out.
fn take(elements: &mut Elements, id: u64, part: Part) -> Vec<(Vec<u8>, Vec<u8>)> {
    let prefix = element_prefix(id, part);
    let of_part = elements.extract_if(.., |key, _| key.starts_with(&prefix));
    of_part.map(|(key, value)| (key[ELEMENT_PREFIX_SIZE..].to_vec(), value)).collect()
}

fn id_of(key: &[u8]) -> Result<StreamId, String> {
    Ok(StreamId::decode(*key.last_chunk().ok_or("a key without an id")?))
}

impl Stream {
    fn trim(&mut self, most: u64) {
        while self.entries.len() as u64 > most {
            self.entries.pop_first();
        }
    }

    /// The stream of a payload; its elements are taken out, and must fit each other.
    pub(crate) fn read(payload: &[u8], elements: &mut Elements) -> Result<Stream, String> {
        let head = StreamHead::decode(payload.into()).map_err(text)?;
        let mut entries = BTreeMap::new();
        for (key, packed) in take(elements, head.id, Part::Main) {
            for entry in StreamBlock::new(id_of(&key)?, &packed) {
                let entry = entry.map_err(text)?;
                let fields = tembo_server::format::Packed::new(&packed[entry.packed]);
                let value = fields.map_err(text)?.nth(1).ok_or("an entry without a value")?;
                entries.insert(entry.id, value.to_vec());
            }
        }
        expect(head.count == entries.len() as u64, "a stream does not count its entries")?;
        let first = entries.keys().next().copied().unwrap_or_default();
        expect(head.first == first, "a stream does not know its first entry")?;
        let mut groups = Vec::new();
        for (_, record) in take(elements, head.id, Part::Group) {
            groups.push(GroupRecord::decode(record[..].into()).map_err(text)?);
        }
        expect(head.groups == groups.len() as u64 && head.groups < 2, "groups are not counted")?;
        let group = match groups.pop() {
            Some(record) => Some(Group::read(head.id, record, elements)?),
            None => None,
        };
        let StreamHead { last, removed_max, added, .. } = head;
        Ok(Stream { last, removed_max, added, entries, group })
    }
}

impl Group {
    fn read(stream: u64, group: GroupRecord, elements: &mut Elements) -> Result<Group, String> {
        let mut consumers = BTreeMap::new();
        for (key, value) in take(elements, stream, Part::Consumer) {
            let (record, name) = ConsumerRecord::decode(value[..].into()).map_err(text)?;
            consumers.insert(key, (name, record.pending));
        }
        let names = take(elements, stream, Part::ConsumerName);
        let number = group.number.to_be_bytes();
        for (name, own) in &names {
            let found = consumers.get(&[&number[..], own].concat());
            let fits = found.is_some_and(|(other, _)| name[8..] == other[..]);
            expect(fits, "a consumer's name and number do not fit")?;
        }
        expect(
            names.len() == consumers.len() && group.consumers == names.len() as u64,
            "a group does not count its consumers",
        )?;
        let (mut pending, mut owned) = (BTreeMap::new(), BTreeSet::new());
        for (key, value) in take(elements, stream, Part::Pending) {
            let record = PendingRecord::decode(value[..].into()).map_err(text)?;
            let own = [number, record.consumer.to_be_bytes()].concat();
            let (name, left) =
                consumers.get_mut(&own).ok_or("an entry is pending for no consumer")?;
            *left = left.wrapping_sub(1);
            let id = id_of(&key)?;
            owned.insert([own, id.encode().to_vec()].concat());
            pending.insert(id, (name.clone(), record.deliveries));
        }
        let of_consumers = take(elements, stream, Part::Owned).into_iter().map(|(key, _)| key);
        expect(of_consumers.eq(owned), "pending entries of the group and of consumers differ")?;
        expect(
            group.pending == pending.len() as u64 && consumers.values().all(|(_, left)| *left == 0),
            "pending entries are not counted",
        )?;
        let consumers = consumers.into_values().map(|(name, _)| name).collect();
        Ok(Group { last: group.last, pending, consumers })
    }
}
