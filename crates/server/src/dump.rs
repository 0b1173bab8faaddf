//! Values between the databases and Redis's RDB format.

mod stream;

use std::ops::Bound;

use tembo_kv::Direction;

use crate::collection::{End, Hash, List, Set, SortedSet, Span};
use crate::dataset::Dataset;
use crate::failure::{Failure, Outcome};
use crate::format::Kind;
use crate::rdb::{Value, Writer};

/// The kind and the value under a key, in RDB's format; `None`: nothing is there.
pub(crate) fn read(
    data: &mut Dataset<'_>,
    place: (usize, &[u8]),
) -> Result<Option<Vec<u8>>, Failure> {
    let Some(kind) = data.find(place.0, place.1)?.map(|value| value.of.kind) else {
        return Ok(None);
    };
    let writer = match kind {
        Kind::String => {
            let mut writer = Writer::begin_string();
            if let Some(value) = data.get(place.0, place.1)? {
                value.payload.with(|bytes| writer.string(bytes));
            }
            writer
        }
        Kind::List => {
            let mut list = List::open(data, place)?;
            let count = list.count();
            let mut writer = Writer::begin_list(count);
            list.visit(0..count, Direction::Forward, &mut |_, element| {
                element.with(|bytes| writer.string(bytes));
                true
            })?;
            writer
        }
        Kind::Set => {
            let mut set = Set::open(data, place)?;
            let mut writer = Writer::begin_set(set.count());
            set.visit(Bound::Unbounded, &mut |member| {
                writer.string(member);
                true
            })?;
            writer
        }
        Kind::SortedSet => {
            let mut set = SortedSet::open(data, place)?;
            let mut writer = Writer::begin_sorted_set(set.count());
            // The greatest first, as Redis writes them and reads them fastest.
            set.visit(&Span::ALL, Direction::Backward, &mut |member, score| {
                writer.string(member);
                writer.double(score);
                true
            })?;
            writer
        }
        Kind::Hash => {
            let mut hash = Hash::open(data, place)?;
            let mut writer = Writer::begin_hash(hash.count_there()?);
            hash.visit(None, &mut |field, value| {
                writer.string(field);
                value.with(|bytes| writer.string(bytes));
                true
            })?;
            writer
        }
        Kind::Stream => Writer::of_stream(&stream::read(data, place)?),
    };
    Ok(Some(writer.into_bytes()))
}

/// Puts a value under a key, in the place of what is there, with the expiry given or none; or changes nothing.
///
/// # Errors
/// There is no room, or an element is too long.
pub(crate) fn put(
    data: &mut Dataset<'_>,
    place: (usize, &[u8]),
    value: &Value,
    expiry_ms: Option<u64>,
) -> Outcome {
    if let Value::String(bytes) = value {
        return data.put(place.0, place.1, bytes, expiry_ms);
    }
    data.atomically(value.size(), |data| match value {
        Value::String(bytes) => data.put(place.0, place.1, bytes, expiry_ms),
        Value::List(elements) => {
            let mut list = List::replace(data, place).expiring(expiry_ms);
            elements.iter().try_for_each(|element| list.push(End::Right, element))?;
            list.save()
        }
        Value::Set(members) => {
            let mut set = Set::replace(data, place).expiring(expiry_ms);
            members.iter().try_for_each(|member| set.add(member).map(drop))?;
            set.save()
        }
        Value::SortedSet(members) => {
            let mut set = SortedSet::replace(data, place).expiring(expiry_ms);
            members.iter().try_for_each(|(member, score)| set.set(member, None, *score))?;
            set.save()
        }
        Value::Hash(fields) => {
            let mut hash = Hash::replace(data, place).expiring(expiry_ms);
            fields.iter().try_for_each(|(field, value)| hash.set(field, value).map(drop))?;
            hash.save()
        }
        Value::Stream(value) => stream::put(data, place, value, expiry_ms),
    })
}
