//! Streams: entries in listpacks, and consumer groups.

use std::collections::{BTreeMap, HashSet};
use std::io::Read;

use crate::format::{Packed, StreamId, push_entry};
use crate::number::parse_integer;
use crate::rdb::pack::{ListpackWriter, listpack};
use crate::rdb::reader::{Broken, Reader};

/// An entry of a listpack was deleted.
const DELETED: i64 = 1;
/// An entry has the fields that stand at the begin of its listpack.
const SAME_FIELDS: i64 = 2;
/// Most entries of a listpack that is written.
const ENTRIES_MAX: usize = 100;
/// A listpack that is written gets no further entry when it has more bytes than this.
const SIZE_MAX: usize = 4096;

/// What a version of the format has of a stream.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Version {
    /// Redis 5: neither what was removed and added nor what groups have read.
    One,
    /// Redis 7.0.
    Two,
    /// Redis 7.2: a consumer has two times.
    Three,
}

/// A stream.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct StreamValue {
    /// The entries; their ids rise. Each with its fields and values, [packed](Packed).
    pub(crate) entries: Vec<(StreamId, Vec<u8>)>,
    /// The id that was given last.
    pub(crate) last: StreamId,
    /// The greatest id that was removed singly.
    pub(crate) removed_max: StreamId,
    /// Entries that were ever added.
    pub(crate) added: u64,
    /// The consumer groups, by name.
    pub(crate) groups: BTreeMap<Vec<u8>, GroupValue>,
}

/// How many entries a group has read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum EntriesRead {
    /// So many.
    Known(u64),
    /// It is not known.
    Unknown,
    /// The format does not say it: it follows from the stream.
    Unsaid,
}

/// A consumer group.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct GroupValue {
    /// The id that was delivered last.
    pub(crate) last: StreamId,
    /// See [`EntriesRead`].
    pub(crate) read: EntriesRead,
    /// Consumers: the name, and when it was last seen in milliseconds since 1970.
    pub(crate) consumers: Vec<(Vec<u8>, u64)>,
    /// Pending entries, each of one of the consumers.
    pub(crate) pending: BTreeMap<StreamId, PendingValue>,
}

/// A pending entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PendingValue {
    /// When it was delivered last, in milliseconds since 1970.
    pub(crate) delivered_ms: u64,
    /// How often it was delivered.
    pub(crate) deliveries: u64,
    /// The consumer, by its place.
    pub(crate) consumer: usize,
}

impl StreamValue {
    /// Reads what stands behind the number of the kind.
    pub(super) fn read(
        source: &mut Reader<impl Read>,
        version: Version,
    ) -> Result<StreamValue, Broken> {
        let mut stream = StreamValue::default();
        for _ in 0..source.length()? {
            let master = id_of(&source.string()?)?;
            entries(master, listpack(&source.string()?)?, &mut stream.entries)?;
        }
        let count = source.length()?;
        stream.last = read_id(source)?;
        stream.added = count;
        if version > Version::One {
            let _first = read_id(source)?;
            stream.removed_max = read_id(source)?;
            stream.added = source.length()?;
        }
        for _ in 0..source.length()? {
            let name = source.string()?;
            let group = GroupValue::read(source, version)?;
            if stream.groups.insert(name, group).is_some() {
                return Err(Broken::Malformed);
            }
        }
        let ids = stream.entries.iter().map(|(id, _)| id);
        let is_sound = count == stream.entries.len() as u64
            && ids.is_sorted_by(|one, other| one < other)
            && stream.entries.first().is_none_or(|(first, _)| *first > StreamId::MIN)
            && stream.entries.last().is_none_or(|(last, _)| *last <= stream.last);
        if is_sound { Ok(stream) } else { Err(Broken::Malformed) }
    }

    /// Bytes of all its parts.
    pub(super) fn size(&self) -> usize {
        let entries: usize = self.entries.iter().map(|(_, packed)| packed.len() + 16).sum();
        let groups = self.groups.iter().map(|(name, group)| {
            let consumers: usize =
                group.consumers.iter().map(|(name, _)| 2 * name.len() + 64).sum();
            name.len() + 64 + consumers + group.pending.len() * 128
        });
        entries + groups.sum::<usize>()
    }

    /// The listpacks of its entries, each with the id that stands before it.
    pub(super) fn listpacks(&self) -> Vec<(StreamId, Vec<u8>)> {
        let mut packs = Vec::new();
        let mut rest = &self.entries[..];
        while let Some((master, first)) = rest.first() {
            let fields: Vec<&[u8]> = Packed::trusted(first).step_by(2).collect();
            let mut size = 0;
            let fits = |(_, packed): &&(StreamId, Vec<u8>)| {
                let before = size;
                size += packed.len();
                before <= SIZE_MAX
            };
            let count = rest.iter().take(ENTRIES_MAX).take_while(fits).count();
            let mut pack = ListpackWriter::default();
            for number in [count as i64, 0, fields.len() as i64] {
                pack.integer(number);
            }
            fields.iter().for_each(|field| pack.string(field));
            pack.integer(0);
            for (id, packed) in &rest[..count] {
                push(&mut pack, (*master, &fields), *id, packed);
            }
            packs.push((*master, pack.into_bytes()));
            rest = &rest[count..];
        }
        packs
    }
}

/// Appends an entry to a listpack.
fn push(
    pack: &mut ListpackWriter,
    (master, fields): (StreamId, &[&[u8]]),
    id: StreamId,
    packed: &[u8],
) {
    let words: Vec<&[u8]> = Packed::trusted(packed).collect();
    let is_same = words.iter().step_by(2).eq(fields.iter());
    let mut parts = 3;
    pack.integer(if is_same { SAME_FIELDS } else { 0 });
    pack.integer(id.ms.wrapping_sub(master.ms) as i64);
    pack.integer(id.seq.wrapping_sub(master.seq) as i64);
    if is_same {
        words.iter().skip(1).step_by(2).for_each(|value| pack.string(value));
        parts += words.len() / 2;
    } else {
        pack.integer((words.len() / 2) as i64);
        words.iter().for_each(|word| pack.string(word));
        parts += 1 + words.len();
    }
    pack.integer(parts as i64);
}

/// Takes the entries of a listpack apart.
fn entries(
    master: StreamId,
    elements: Vec<Vec<u8>>,
    to: &mut Vec<(StreamId, Vec<u8>)>,
) -> Result<(), Broken> {
    let mut elements = elements.into_iter();
    let mut next = || elements.next().ok_or(Broken::Malformed);
    let number = |text: Vec<u8>| parse_integer(&text).ok_or(Broken::Malformed);
    let (there, deleted) = (number(next()?)?, number(next()?)?);
    let mut fields = Vec::new();
    for _ in 0..number(next()?)? {
        fields.push(next()?);
    }
    next()?;
    for _ in 0..there.saturating_add(deleted) {
        let flags = number(next()?)?;
        let ms = master.ms.wrapping_add(number(next()?)? as u64);
        let seq = master.seq.wrapping_add(number(next()?)? as u64);
        let mut packed = Vec::new();
        if flags & SAME_FIELDS != 0 {
            for field in &fields {
                push_entry(&mut packed, field);
                push_entry(&mut packed, &next()?);
            }
        } else {
            for _ in 0..number(next()?)? {
                push_entry(&mut packed, &next()?);
                push_entry(&mut packed, &next()?);
            }
        }
        next()?;
        if flags & DELETED == 0 {
            to.push((StreamId { ms, seq }, packed));
        }
    }
    if elements.next().is_none() { Ok(()) } else { Err(Broken::Malformed) }
}

impl GroupValue {
    fn read(source: &mut Reader<impl Read>, version: Version) -> Result<GroupValue, Broken> {
        let last = read_id(source)?;
        let read = match version {
            Version::One => EntriesRead::Unsaid,
            _ => match source.length()? {
                u64::MAX => EntriesRead::Unknown,
                read => EntriesRead::Known(read),
            },
        };
        let mut unowned = BTreeMap::new();
        for _ in 0..source.length()? {
            let id = StreamId::decode(source.array()?);
            let (delivered_ms, deliveries) = (time_ms(source)?, source.length()?);
            if unowned.insert(id, (delivered_ms, deliveries)).is_some() {
                return Err(Broken::Malformed);
            }
        }
        let (mut consumers, mut names) = (Vec::new(), HashSet::new());
        let mut pending = BTreeMap::new();
        for consumer in 0..source.length()? as usize {
            let name = source.string()?;
            let seen_ms = time_ms(source)?;
            if version == Version::Three {
                time_ms(source)?;
            }
            for _ in 0..source.length()? {
                let id = StreamId::decode(source.array()?);
                let (delivered_ms, deliveries) = unowned.remove(&id).ok_or(Broken::Malformed)?;
                pending.insert(id, PendingValue { delivered_ms, deliveries, consumer });
            }
            if !names.insert(name.clone()) {
                return Err(Broken::Malformed);
            }
            consumers.push((name, seen_ms));
        }
        if !unowned.is_empty() {
            return Err(Broken::Malformed);
        }
        Ok(GroupValue { last, read, consumers, pending })
    }
}

fn id_of(bytes: &[u8]) -> Result<StreamId, Broken> {
    bytes.try_into().map(StreamId::decode).map_err(|_| Broken::Malformed)
}

fn read_id(source: &mut Reader<impl Read>) -> Result<StreamId, Broken> {
    Ok(StreamId { ms: source.length()?, seq: source.length()? })
}

/// Milliseconds since 1970.
fn time_ms(source: &mut Reader<impl Read>) -> Result<u64, Broken> {
    Ok(u64::try_from(i64::from_le_bytes(source.array()?)).unwrap_or(0))
}
