//! SORT and SORT_RO.

use std::cmp::Ordering;

use tembo_kv::Direction;

use crate::args::Args;
use crate::collection::{End, Hash, List, Set, SortedSet, Span};
use crate::command::{Command, Context, DENY_OOM, READ, WRITE};
use crate::commands::argument::integer;
use crate::commands::removal::remove;
use crate::effects::send_state;
use crate::event_class::Classes;
use crate::failure::{Failure, Outcome, SYNTAX, WRONG_TYPE};
use crate::float::{parse_double, without_spaces};
use crate::format::Kind;
use crate::notify::notify;
use crate::permission::may_read_all_keys;
use crate::reply::Reply;

/// The family.
pub(super) const COMMANDS: &[Command] = &[
    Command::keyed("sort", -2, WRITE | DENY_OOM, (1, 1, 1), sort),
    Command::keyed("sort_ro", -2, READ, (1, 1, 1), sort_ro),
];

/// What a command asks for.
struct Query<'a> {
    is_descending: bool,
    is_alphabetic: bool,
    first: i64,
    count: i64,
    by: Option<&'a [u8]>,
    /// The elements are left in the order that they have.
    keeps_order: bool,
    get: Vec<&'a [u8]>,
    target: Option<&'a [u8]>,
}

/// By what an element is sorted.
enum Weight {
    Number(f64),
    Text(Option<Vec<u8>>),
}

impl<'a> Query<'a> {
    /// `reads_all`: the client may read every key.
    fn parse(args: Args<'a>, stores: bool, reads_all: bool) -> Result<Query<'a>, Failure> {
        let mut query = Query {
            is_descending: false,
            is_alphabetic: false,
            first: 0,
            count: -1,
            by: None,
            keeps_order: false,
            get: Vec::new(),
            target: None,
        };
        let mut at = 2;
        while at < args.count() {
            let left = args.count() - at - 1;
            match args.at(at).to_ascii_uppercase().as_slice() {
                b"ASC" => query.is_descending = false,
                b"DESC" => query.is_descending = true,
                b"ALPHA" => query.is_alphabetic = true,
                b"LIMIT" if left >= 2 => {
                    (query.first, query.count) =
                        (integer(args.at(at + 1))?, integer(args.at(at + 2))?);
                    at += 2;
                }
                b"STORE" if stores && left >= 1 => {
                    query.target = Some(args.at(at + 1));
                    at += 1;
                }
                b"BY" if left >= 1 => {
                    if !reads_all && args.at(at + 1).contains(&b'*') {
                        return Err(denied("BY"));
                    }
                    query.by = Some(args.at(at + 1));
                    query.keeps_order |= !args.at(at + 1).contains(&b'*');
                    at += 1;
                }
                b"GET" if left >= 1 => {
                    if !reads_all {
                        return Err(denied("GET"));
                    }
                    query.get.push(args.at(at + 1));
                    at += 1;
                }
                _ => return Err(SYNTAX.into()),
            }
            at += 1;
        }
        Ok(query)
    }

    /// Which of so many elements are asked for.
    fn range(&self, count: usize) -> std::ops::Range<usize> {
        let all = count as i64;
        let first = self.first.clamp(0, all);
        let wanted = if self.count < 0 { all } else { self.count };
        first as usize..first.saturating_add(wanted).min(all) as usize
    }

    /// Puts the elements in order.
    fn sort(
        &self,
        context: &mut Context<'_, '_>,
        elements: Vec<Vec<u8>>,
    ) -> Result<Vec<Vec<u8>>, Failure> {
        let mut weighed = Vec::with_capacity(elements.len());
        for element in elements {
            let weight = self.weight(context, &element)?;
            weighed.push((weight, element));
        }
        weighed.sort_by(|a, b| {
            let order = self.compare(a, b);
            if self.is_descending { order.reverse() } else { order }
        });
        Ok(weighed.into_iter().map(|(_, element)| element).collect())
    }

    fn weight(&self, context: &mut Context<'_, '_>, element: &[u8]) -> Result<Weight, Failure> {
        let found = match self.by {
            Some(pattern) => look_up(context, pattern, element)?,
            None if self.is_alphabetic => None,
            None => Some(element.to_vec()),
        };
        if self.is_alphabetic {
            return Ok(Weight::Text(found));
        }
        let Some(text) = found else { return Ok(Weight::Number(0.0)) };
        // As C's `strtod`, which takes nothing for zero.
        let number = if text.is_empty() { Some(0.0) } else { parse_double(without_spaces(&text)) };
        Ok(Weight::Number(number.ok_or("ERR One or more scores can't be converted into double")?))
    }

    fn compare(&self, a: &(Weight, Vec<u8>), b: &(Weight, Vec<u8>)) -> Ordering {
        match (&a.0, &b.0) {
            (Weight::Number(x), Weight::Number(y)) => {
                x.partial_cmp(y).unwrap_or(Ordering::Equal).then_with(|| a.1.cmp(&b.1))
            }
            (Weight::Text(x), Weight::Text(y)) if self.by.is_some() => x.cmp(y),
            _ => a.1.cmp(&b.1),
        }
    }

    /// What is replied or stored for the elements.
    fn shown(
        &self,
        context: &mut Context<'_, '_>,
        elements: Vec<Vec<u8>>,
    ) -> Result<Vec<Option<Vec<u8>>>, Failure> {
        if self.get.is_empty() {
            return Ok(elements.into_iter().map(Some).collect());
        }
        let mut shown = Vec::with_capacity(elements.len() * self.get.len());
        for element in &elements {
            for pattern in &self.get {
                shown.push(look_up(context, pattern, element)?);
            }
        }
        Ok(shown)
    }
}

/// What stands under the key, or in the field, that a pattern names with an element in the place of its `*`.
fn look_up(
    context: &mut Context<'_, '_>,
    pattern: &[u8],
    element: &[u8],
) -> Result<Option<Vec<u8>>, Failure> {
    if pattern == b"#" {
        return Ok(Some(element.to_vec()));
    }
    let Some(star) = pattern.iter().position(|&byte| byte == b'*') else { return Ok(None) };
    let behind = &pattern[star + 1..];
    let arrow = behind.windows(2).position(|two| two == b"->");
    let (behind, field) = match arrow {
        Some(at) if at + 2 < behind.len() => (&behind[..at], Some(&behind[at + 2..])),
        _ => (behind, None),
    };
    let key = [&pattern[..star], element, behind].concat();
    let place = (context.session.db, &key[..]);
    let kind = context.data.kind(place.0, place.1)?;
    if kind.is_none() {
        notify(context, Classes::MISS, "keymiss", &key);
    }
    match (kind, field) {
        (Some(Kind::Hash), Some(field)) => {
            Ok(Hash::open(context.data, place)?.get(field)?.map(|value| value.to_vec()))
        }
        (Some(Kind::String), None) => {
            Ok(context.data.get(place.0, place.1)?.map(|value| value.payload.to_vec()))
        }
        _ => Ok(None),
    }
}

/// All elements of a list, set or sorted set, in their own order.
fn elements(
    context: &mut Context<'_, '_>,
    key: &[u8],
) -> Result<(Option<Kind>, Vec<Vec<u8>>), Failure> {
    let place = (context.session.db, key);
    let kind = context.data.find(place.0, place.1)?.map(|value| value.of.kind);
    let elements = match kind {
        None => Vec::new(),
        Some(Kind::List) => {
            let mut list = List::open(context.data, place)?;
            let count = list.count();
            list.elements(0..count)?
        }
        Some(Kind::Set) => Set::open(context.data, place)?.members()?,
        Some(Kind::SortedSet) => {
            let mut set = SortedSet::open(context.data, place)?;
            let members = set.list(&Span::ALL, Direction::Forward, u64::MAX)?;
            members.into_iter().map(|(member, _)| member).collect()
        }
        Some(_) => return Err(WRONG_TYPE.into()),
    };
    Ok((kind, elements))
}

fn denied(option: &str) -> Failure {
    format!("ERR {option} option of SORT denied due to insufficient ACL permissions.").into()
}

fn run(context: &mut Context<'_, '_>, args: Args<'_>, stores: bool, reply: &mut Reply) -> Outcome {
    let mut query = Query::parse(args, stores, may_read_all_keys(context, args))?;
    let (kind, mut elements) = elements(context, args.at(1))?;
    let by_script = context.shared.scripts.running.is_some();
    if query.keeps_order && kind == Some(Kind::Set) && (query.target.is_some() || by_script) {
        // What is stored, and what a script sees, must not depend on the order in which a set happens to be.
        (query.keeps_order, query.is_alphabetic, query.by) = (false, true, None);
    }
    if !query.keeps_order {
        elements = query.sort(context, elements)?;
    } else if query.is_descending && kind != Some(Kind::Set) {
        elements.reverse();
    }
    let range = query.range(elements.len());
    elements.truncate(range.end);
    let shown = query.shown(context, elements.split_off(range.start.min(elements.len())))?;
    match query.target {
        Some(target) => {
            store(context, target, shown, reply)?;
            send_state(context, target)
        }
        None => {
            reply.array(shown.len());
            for one in shown {
                match one {
                    Some(one) => reply.bulk(&one),
                    None => reply.null(),
                }
            }
            Ok(())
        }
    }
}

/// Puts a list under a key, in the place of what is there.
fn store(
    context: &mut Context<'_, '_>,
    key: &[u8],
    elements: Vec<Option<Vec<u8>>>,
    reply: &mut Reply,
) -> Outcome {
    reply.integer(elements.len() as i64);
    if elements.is_empty() {
        return remove(context, key);
    }
    let place = (context.session.db, key);
    let size = elements.iter().flatten().map(Vec::len).sum();
    context.data.atomically(size, |data| {
        let mut list = List::replace(data, place);
        let mut elements = elements.iter().map(|one| one.as_deref().unwrap_or_default());
        elements.try_for_each(|element| list.push(End::Right, element))?;
        list.save()
    })?;
    notify(context, Classes::LIST, "sortstore", key);
    Ok(())
}

fn sort(context: &mut Context<'_, '_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    run(context, args, true, reply)
}

fn sort_ro(context: &mut Context<'_, '_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    run(context, args, false, reply)
}
