//! Lists, hashes, sets and sorted sets: what commands make of them, and what the elements in the store say of them.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use tembo_server::format::{
    ELEMENT_PREFIX_SIZE, Kind, Packed, Part, Spread, Strip, StripEntry, Value, element_prefix,
    position_order, score_from_order,
};

use super::stream::Elements;
use crate::judge::text;

/// An element of so many bytes makes its collection a large one.
const LONG: usize = 1100;
const SHORT: usize = 7;

/// What is done to a collection. Members and fields have numbers; those of odd ones are long.
#[derive(Clone, Debug)]
pub(crate) enum Edit {
    /// At the left end; of so many bytes.
    PushLeft(usize),
    PushRight(usize),
    PopLeft,
    PopRight,
    /// The field, and bytes of the value.
    SetField(u8, usize),
    RemoveField(u8),
    Add(u8),
    RemoveMember(u8),
    /// The member and its score, which is not negative: a reply of it is no error.
    Score(u8, i8),
    RemoveScored(u8),
    PopMin,
}

/// The key of an element behind its prefix, and its value.
type Pair = (Vec<u8>, Vec<u8>);

/// A collection.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Collection {
    List(VecDeque<Vec<u8>>),
    Hash(BTreeMap<Vec<u8>, Vec<u8>>),
    Set(BTreeSet<Vec<u8>>),
    Sorted(BTreeMap<Vec<u8>, i64>),
}

fn name(n: u8) -> Vec<u8> {
    let size = if n % 2 == 1 { LONG } else { SHORT };
    format!("n{n:-<size$}").into_bytes()
}

impl Edit {
    /// The request that a client sends; `value` makes bytes.
    pub(crate) fn request(&self, key: Vec<u8>, value: impl Fn(usize) -> Vec<u8>) -> Vec<Vec<u8>> {
        let words = |word: &str, rest: Vec<Vec<u8>>| {
            [vec![word.as_bytes().to_vec(), key.clone()], rest].concat()
        };
        match self {
            Edit::PushLeft(len) => words("LPUSH", vec![value(*len)]),
            Edit::PushRight(len) => words("RPUSH", vec![value(*len)]),
            Edit::PopLeft => words("LPOP", vec![]),
            Edit::PopRight => words("RPOP", vec![]),
            Edit::SetField(n, len) => words("HSET", vec![name(*n), value(*len)]),
            Edit::RemoveField(n) => words("HDEL", vec![name(*n)]),
            Edit::Add(n) => words("SADD", vec![name(*n)]),
            Edit::RemoveMember(n) => words("SREM", vec![name(*n)]),
            Edit::Score(n, score) => words("ZADD", vec![score.to_string().into(), name(*n)]),
            Edit::RemoveScored(n) => words("ZREM", vec![name(*n)]),
            Edit::PopMin => words("ZPOPMIN", vec![]),
        }
    }

    /// The collection that it makes where nothing is.
    fn empty(&self) -> Collection {
        match self {
            Edit::PushLeft(_) | Edit::PushRight(_) | Edit::PopLeft | Edit::PopRight => {
                Collection::List(VecDeque::new())
            }
            Edit::SetField(..) | Edit::RemoveField(_) => Collection::Hash(BTreeMap::new()),
            Edit::Add(_) | Edit::RemoveMember(_) => Collection::Set(BTreeSet::new()),
            Edit::Score(..) | Edit::RemoveScored(_) | Edit::PopMin => {
                Collection::Sorted(BTreeMap::new())
            }
        }
    }

    /// Does it to the collection, if there is one, which is removed when it is empty; false: the reply is an error.
    pub(crate) fn execute(
        &self,
        collection: &mut Option<Collection>,
        value: impl Fn(usize) -> Vec<u8>,
    ) -> bool {
        let there = collection.get_or_insert_with(|| self.empty());
        match (self, &mut *there) {
            (Edit::PushLeft(len), Collection::List(list)) => list.push_front(value(*len)),
            (Edit::PushRight(len), Collection::List(list)) => list.push_back(value(*len)),
            (Edit::PopLeft, Collection::List(list)) => drop(list.pop_front()),
            (Edit::PopRight, Collection::List(list)) => drop(list.pop_back()),
            (Edit::SetField(n, len), Collection::Hash(hash)) => {
                hash.insert(name(*n), value(*len));
            }
            (Edit::RemoveField(n), Collection::Hash(hash)) => drop(hash.remove(&name(*n))),
            (Edit::Add(n), Collection::Set(set)) => drop(set.insert(name(*n))),
            (Edit::RemoveMember(n), Collection::Set(set)) => drop(set.remove(&name(*n))),
            (Edit::Score(n, score), Collection::Sorted(set)) => {
                set.insert(name(*n), i64::from(*score));
            }
            (Edit::RemoveScored(n), Collection::Sorted(set)) => drop(set.remove(&name(*n))),
            (Edit::PopMin, Collection::Sorted(set)) => {
                let first = set.iter().map(|(member, score)| (*score, member.clone())).min();
                first.and_then(|(_, member)| set.remove(&member));
            }
            _ => return false,
        }
        if there.is_empty() {
            *collection = None;
        }
        true
    }
}

impl Collection {
    fn is_empty(&self) -> bool {
        match self {
            Collection::List(list) => list.is_empty(),
            Collection::Hash(hash) => hash.is_empty(),
            Collection::Set(set) => set.is_empty(),
            Collection::Sorted(set) => set.is_empty(),
        }
    }

    /// The collection of a value; its elements are taken out. That they fit each other is checked elsewhere.
    pub(crate) fn read(value: &Value<'_>, elements: &mut Elements) -> Result<Collection, String> {
        let entries = match value.spread().map_err(text)? {
            Some(spread) => {
                let of_it = spread.id.to_be_bytes();
                let all = elements.extract_if(.., |key, _| key.starts_with(&of_it));
                let all: Vec<Pair> = all.collect();
                if value.of.in_strips {
                    return in_strips(spread, &all).map(Collection::List);
                }
                let prefix = element_prefix(spread.id, Part::Main);
                let main = all.into_iter().filter(|(key, _)| key.starts_with(&prefix));
                main.map(|(key, value)| (key[ELEMENT_PREFIX_SIZE..].to_vec(), value)).collect()
            }
            None => packed(value)?,
        };
        let score = |score: &[u8]| -> Result<i64, String> {
            Ok(score_from_order(score.try_into().map_err(text)?) as i64)
        };
        Ok(match value.of.kind {
            Kind::List => Collection::List(entries.into_iter().map(|(_, value)| value).collect()),
            Kind::Hash => {
                let field = |(field, value): (Vec<u8>, Vec<u8>)| (field, value[1..].to_vec());
                Collection::Hash(entries.into_iter().map(field).collect())
            }
            Kind::Set => Collection::Set(entries.into_iter().map(|(member, _)| member).collect()),
            Kind::SortedSet => {
                let scored = entries.into_iter().map(|(member, of)| Ok((member, score(&of)?)));
                Collection::Sorted(scored.collect::<Result<_, String>>()?)
            }
            Kind::String | Kind::Stream => return Err("no collection".into()),
        })
    }
}

/// The elements of a large list in strips.
fn in_strips(spread: Spread, all: &[Pair]) -> Result<VecDeque<Vec<u8>>, String> {
    let mut list = VecDeque::new();
    let prefix = element_prefix(spread.id, Part::Strip);
    for (_, strip) in all.iter().filter(|(key, _)| key.starts_with(&prefix)) {
        for entry in Strip::new(strip) {
            let position = position_order(spread.first + list.len() as i64);
            let key = [&element_prefix(spread.id, Part::Main)[..], &position].concat();
            let long =
                || all.iter().find(|(other, _)| *other == key).ok_or("a long element is missing");
            list.push_back(match entry.map_err(text)? {
                StripEntry::Short(range) => strip[range].to_vec(),
                StripEntry::Long => long()?.1.clone(),
            });
        }
    }
    Ok(list)
}

/// The entries of a small collection, as the elements of a large one would have them.
fn packed(value: &Value<'_>) -> Result<Vec<Pair>, String> {
    let payload = value.payload.to_vec();
    let entries: Vec<&[u8]> = Packed::new(&payload).map_err(text)?.collect();
    let pair = |pair: &[&[u8]]| match value.of.kind {
        Kind::Hash => (pair[0].to_vec(), [b"\0", pair[1]].concat()),
        _ => (pair[1].to_vec(), pair[0].to_vec()),
    };
    Ok(match value.of.kind {
        Kind::List => entries.iter().map(|entry| (Vec::new(), entry.to_vec())).collect(),
        Kind::Set => entries.iter().map(|entry| (entry.to_vec(), Vec::new())).collect(),
        _ => entries.chunks_exact(2).map(pair).collect(),
    })
}
