//! Whether the collections of a database are whole: what their values say of their elements, and the elements of
//! each other.
//!
//! Elements are read once, in the order of their keys, and so collection by collection and part by part. Memory is
//! used for the heads of large collections, for one member in 31 of a sorted set, and for the consumers of a stream.

mod elements;
mod expected;
mod judge;
mod plain;
mod sorted_set;
mod stream;
mod strips;

use std::collections::BTreeMap;
use std::ops::Bound;

use tembo_kv::{Direction, Error, Keyspace, Snapshot};

use crate::format::{
    ELEMENT_PREFIX_SIZE, ID_KEY, Kind, Packed, Spread, StreamHead, Type, Value, data_keyspace,
    elements_keyspace,
};
use crate::integrity::elements::Elements;
use crate::integrity::expected::expect;
use crate::integrity::judge::Judge;
use crate::integrity::plain::{FieldsJudge, ListJudge, MembersJudge, PiecesJudge};
use crate::integrity::sorted_set::SortedSetJudge;
use crate::integrity::stream::StreamJudge;
use crate::integrity::strips::StripsJudge;

/// A value that has elements, or may have some.
struct Head {
    key: Vec<u8>,
    kind: Kind,
    /// Of a list: its elements lie in strips.
    in_strips: bool,
    /// Of a sorted set: level 1 is not stored.
    levels_from_2: bool,
    /// Without the header.
    payload: Vec<u8>,
    /// Its elements were met.
    is_seen: bool,
}

/// Calls `report` with what does not hold of the collections of a database in a snapshot: entries and their count, both
/// orders of a sorted set and its levels, the positions of a list, a stream's head with its entries, groups with their
/// consumers and pending entries, elements of no value. Of each collection the first fault is reported. A database that
/// is not there is sound.
///
/// # Errors
/// Those of the store: damage.
pub fn check_collections(
    snapshot: &Snapshot,
    db: usize,
    report: &mut dyn FnMut(String),
) -> Result<(), Error> {
    let keyspaces = snapshot.keyspaces()?;
    let find = |name: String| keyspaces.iter().find(|(other, _)| *other == name).map(|(_, id)| *id);
    let Some(data) = find(data_keyspace(db)) else { return Ok(()) };
    let mut heads = heads_of(snapshot, data, report)?;
    if let Some(space) = find(elements_keyspace(db)) {
        check_elements(Elements { snapshot, space }, &mut heads, report)?;
        let left = heads.values().filter(|head| !head.is_seen);
        for head in left {
            if let Err(what) = judge(head, Elements { snapshot, space }).and_then(Judge::end) {
                report(named(head, &what));
            }
        }
    } else if let Some(head) = heads.values().next() {
        report(named(head, "its elements are missing"));
    }
    Ok(())
}

fn named(head: &Head, what: &str) -> String {
    let key: String = head.key.escape_ascii().take(100).map(char::from).collect();
    format!("the {} {key}: {what}", head.kind.name())
}

/// Checks small collections; the values with elements, by the id of these.
fn heads_of(
    snapshot: &Snapshot,
    data: Keyspace,
    report: &mut dyn FnMut(String),
) -> Result<BTreeMap<u64, Head>, Error> {
    let (mut heads, all) = (BTreeMap::new(), (Bound::Unbounded, Bound::Unbounded));
    snapshot.range_with::<[u8]>(data, all, Direction::Forward, &mut |key, bytes| {
        // What is no value is a fault that is reported elsewhere.
        let Ok(value) = Value::decode(bytes) else { return true };
        if value.of.kind == Kind::String && !value.of.is_spread {
            return true;
        }
        let payload = value.payload.to_vec();
        let Type { kind, in_strips, levels_from_2, .. } = value.of;
        let key = key.to_vec();
        let head = Head { key, kind, in_strips, levels_from_2, payload, is_seen: false };
        match value.elements() {
            Ok(None) => {
                if let Err(what) = check_packed(&head) {
                    report(named(&head, &what));
                }
            }
            Ok(Some(spread)) => match heads.get(&spread.id) {
                None => drop(heads.insert(spread.id, head)),
                Some(_) => report(named(&head, "another value has the same elements")),
            },
            Err(_) => report(named(&head, "its payload is not that of a large one")),
        }
        true
    })?;
    Ok(heads)
}

/// Checks a collection that is packed into its value.
fn check_packed(head: &Head) -> Result<(), String> {
    let entries: Vec<&[u8]> = Packed::new(&head.payload).map_err(|_| "it is cut")?.collect();
    expect(!entries.is_empty(), "it is empty")?;
    let mut names = match head.kind {
        Kind::Hash => {
            expect(entries.len().is_multiple_of(2), "a field has no value")?;
            entries.iter().copied().step_by(2).collect()
        }
        Kind::SortedSet => {
            expect(entries.len().is_multiple_of(2), "a score has no member")?;
            let is_score = |score: &&[u8]| score.len() == 8;
            expect(entries.iter().step_by(2).all(is_score), "what stands before a member is none")?;
            let is_sorted = entries.chunks_exact(2).is_sorted_by(|a, b| a < b);
            expect(is_sorted, "members are not in order")?;
            entries.iter().copied().skip(1).step_by(2).collect()
        }
        Kind::Set => entries,
        Kind::List | Kind::String | Kind::Stream => Vec::new(),
    };
    names.sort_unstable();
    expect(names.is_sorted_by(|a, b| a < b), "a name is there twice")
}

fn judge<'s>(head: &Head, elements: Elements<'s>) -> Result<Judge<'s>, String> {
    let cut = |_| "its head is cut".to_owned();
    if head.kind == Kind::Stream {
        let head = StreamHead::decode(head.payload[..].into()).map_err(cut)?;
        return Ok(Judge::Stream(StreamJudge::new(head, elements)));
    }
    let spread = Spread::decode(head.payload[..].into()).map_err(cut)?;
    Ok(match head.kind {
        Kind::String => Judge::Pieces(PiecesJudge::new(spread.count)),
        Kind::List if head.in_strips => Judge::Strips(StripsJudge::new(spread, elements)),
        Kind::List => Judge::List(ListJudge::new(spread)),
        Kind::SortedSet => {
            Judge::SortedSet(SortedSetJudge::new(spread, elements, head.levels_from_2))
        }
        Kind::Set => Judge::Members(MembersJudge::new(spread.count)),
        _ => Judge::Fields(FieldsJudge::new(spread, elements)),
    })
}

/// Checks all elements of a database, in order.
fn check_elements(
    elements: Elements<'_>,
    heads: &mut BTreeMap<u64, Head>,
    report: &mut dyn FnMut(String),
) -> Result<(), Error> {
    let all = (Bound::Unbounded, Bound::Unbounded);
    let (mut last, mut given) = (None, 0);
    // The collection whose elements come, and what is known of it; `None` after its first fault.
    let mut current: Option<Judge<'_>> = None;
    let mut faults = Vec::new();
    let space = elements.space;
    elements.snapshot.range_with::<[u8]>(space, all, Direction::Forward, &mut |key, value| {
        if key == ID_KEY {
            given = value.array(0).map_or(0, u64::from_be_bytes);
            return true;
        }
        let (Some(id), Some((prefix, rest))) =
            (key.first_chunk().copied(), key.split_first_chunk::<ELEMENT_PREFIX_SIZE>())
        else {
            faults.push("an element's key is cut".to_owned());
            return true;
        };
        let id = u64::from_be_bytes(id);
        if last != Some(id) {
            faults.extend(ended(heads, last, current.take()));
            last = Some(id);
            match heads.get_mut(&id) {
                Some(head) => {
                    head.is_seen = true;
                    match judge(head, elements) {
                        Ok(judge) => current = Some(judge),
                        Err(what) => faults.push(named(head, &what)),
                    }
                }
                None => faults.push(format!("elements of no value, with the id {id}")),
            }
            if id > given {
                faults.push(format!("the id {id} was never given"));
            }
        }
        if let Some(judge) = &mut current
            && let Err(what) = judge.element(prefix[ELEMENT_PREFIX_SIZE - 1], rest, value)
        {
            faults.extend(heads.get(&id).map(|head| named(head, &what)));
            current = None;
        }
        true
    })?;
    faults.extend(ended(heads, last, current.take()));
    faults.into_iter().for_each(report);
    Ok(())
}

/// What the end of a collection's elements shows.
fn ended(heads: &BTreeMap<u64, Head>, id: Option<u64>, judge: Option<Judge<'_>>) -> Option<String> {
    let (head, judge) = id.and_then(|id| heads.get(&id)).zip(judge)?;
    judge.end().err().map(|what| named(head, &what))
}
