//! Unions, intersections and differences.

use std::collections::BTreeSet;

use crate::args::Args;
use crate::collection::Set;
use crate::command::Context;
use crate::commands::argument::{integer, key_count};
use crate::commands::join_source::{Source, are_many, join_in_snapshot};
use crate::commands::removal::remove;
use crate::element_listing::Shown;
use crate::event_class::Classes;
use crate::failure::{Failure, Outcome, SYNTAX};
use crate::join_listing::{JoinListing, JoinUse};
use crate::notify::notify;
use crate::put_off::PutOff;
use crate::reply::Reply;
use crate::set_join::{Aggregate, Join};
use crate::sort_run::Run;

/// The members of one set.
fn read(context: &mut Context<'_, '_>, source: Source<'_>) -> Result<Vec<Vec<u8>>, Failure> {
    Set::open(context.data, (context.session.db, source.key))?.members()
}

/// The sets under these keys.
fn find<'a>(
    context: &mut Context<'_, '_>,
    keys: impl Iterator<Item = &'a [u8]>,
) -> Result<Vec<Source<'a>>, Failure> {
    keys.map(|key| Source::set(context, key)).collect()
}

/// The members of what these sets make, at most so many of an intersection.
fn join(
    context: &mut Context<'_, '_>,
    sources: Vec<Source<'_>>,
    join: Join,
    limit: usize,
) -> Result<Vec<Vec<u8>>, Failure> {
    match join {
        Join::Intersection => intersect(context, sources, limit),
        Join::Union => {
            let mut members = Vec::new();
            let mut seen = BTreeSet::new();
            for source in sources {
                for member in read(context, source)? {
                    if !seen.contains(&member) {
                        members.push(member.clone());
                        seen.insert(member);
                    }
                }
            }
            Ok(members)
        }
        Join::Difference => {
            let Some((first, rest)) = sources.split_first() else { return Ok(Vec::new()) };
            if first_repeats(&sources) {
                return Ok(Vec::new());
            }
            let mut members = read(context, *first)?;
            for source in rest {
                let mut other = Set::open(context.data, (context.session.db, source.key))?;
                if source.count <= members.len() as u64 {
                    let taken: BTreeSet<Vec<u8>> = other.members()?.into_iter().collect();
                    members.retain(|member| !taken.contains(member));
                } else {
                    retain(&mut members, |member| Ok(!other.contains(member)?))?;
                }
            }
            Ok(members)
        }
    }
}

/// Starts with the smallest set, so that the others are only asked for its members.
fn intersect(
    context: &mut Context<'_, '_>,
    mut sources: Vec<Source<'_>>,
    limit: usize,
) -> Result<Vec<Vec<u8>>, Failure> {
    sources.sort_by_key(|source| source.count);
    let Some((smallest, others)) = sources.split_first() else { return Ok(Vec::new()) };
    if smallest.count == 0 {
        return Ok(Vec::new());
    }
    let mut members = read(context, *smallest)?;
    for source in others {
        let mut other = Set::open(context.data, (context.session.db, source.key))?;
        retain(&mut members, |member| other.contains(member))?;
    }
    members.truncate(limit);
    Ok(members)
}

/// As `Vec::retain`, with a test that can fail.
fn retain(
    members: &mut Vec<Vec<u8>>,
    mut test: impl FnMut(&[u8]) -> Result<bool, Failure>,
) -> Result<(), Failure> {
    let mut kept = Vec::with_capacity(members.len());
    for member in members.drain(..) {
        if test(&member)? {
            kept.push(member);
        }
    }
    *members = kept;
    Ok(())
}

/// Whether a difference has no members, because its first set is among the others.
fn first_repeats(sources: &[Source<'_>]) -> bool {
    let first = sources.split_first();
    first.is_some_and(|(first, rest)| rest.iter().any(|one| one.key == first.key))
}

/// Whether members are read in later turns: the client can wait, and they are many.
fn is_put_off(context: &Context<'_, '_>, sources: &[Source<'_>], join: Join) -> bool {
    let is_empty = join == Join::Difference && first_repeats(sources);
    context.session.may_list_later() && !is_empty && are_many(sources, join)
}

/// Joins the sets in later turns.
fn later(
    context: &mut Context<'_, '_>,
    mut sources: Vec<Source<'_>>,
    (join, used): (Join, JoinUse),
) -> Result<JoinListing, Failure> {
    let mut known = BTreeSet::new();
    sources.retain(|source| known.insert(source.key));
    let sources: Vec<_> = sources.into_iter().map(|source| (source, 1.0)).collect();
    let join = join_in_snapshot(context, &sources, (join, Aggregate::Max))?;
    Ok(JoinListing::new(join, used))
}

fn join_later(
    context: &mut Context<'_, '_>,
    sources: Vec<Source<'_>>,
    joined: (Join, JoinUse),
) -> Outcome {
    let join = later(context, sources, joined)?;
    context.put_off(PutOff::Sets(join));
    Ok(())
}

fn reply_join(
    context: &mut Context<'_, '_>,
    args: Args<'_>,
    reply: &mut Reply,
    kind: Join,
) -> Outcome {
    let sources = find(context, args.from(1))?;
    if is_put_off(context, &sources, kind) {
        let used = JoinUse::Shown(reply.apart(), Shown::Members);
        return join_later(context, sources, (kind, used));
    }
    let members = join(context, sources, kind, usize::MAX)?;
    reply.set(members.len());
    members.iter().for_each(|member| reply.bulk(member));
    Ok(())
}

pub(super) fn sinter(context: &mut Context<'_, '_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    reply_join(context, args, reply, Join::Intersection)
}

pub(super) fn sunion(context: &mut Context<'_, '_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    reply_join(context, args, reply, Join::Union)
}

pub(super) fn sdiff(context: &mut Context<'_, '_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    reply_join(context, args, reply, Join::Difference)
}

fn store_join(
    context: &mut Context<'_, '_>,
    args: Args<'_>,
    reply: &mut Reply,
    (kind, event): (Join, &str),
) -> Outcome {
    if let Some(found) = context.take_found() {
        let members = found.iter().map(|(member, _)| member);
        return store(context, (args.at(1), event), (members, found.size()), reply);
    }
    let sources = find(context, args.from(2))?;
    if is_put_off(context, &sources, kind) {
        let join = later(context, sources, (kind, JoinUse::Kept(Run::default())))?;
        return context.put_off_store(PutOff::Sets(join), args.from(2));
    }
    let members = join(context, sources, kind, usize::MAX)?;
    let size = members.iter().map(Vec::len).sum();
    store(context, (args.at(1), event), (members.iter().map(Vec::as_slice), size), reply)
}

/// Puts a set of these members, of so many bytes, under a key, in the place of what is there.
fn store<'m>(
    context: &mut Context<'_, '_>,
    (key, event): (&[u8], &str),
    (members, size): (impl Iterator<Item = &'m [u8]>, usize),
    reply: &mut Reply,
) -> Outcome {
    let (place, mut members) = ((context.session.db, key), members.peekable());
    if members.peek().is_none() {
        reply.integer(0);
        return remove(context, key);
    }
    let count = context.data.atomically(size, |data| {
        let mut set = Set::replace(data, place);
        for member in members {
            set.add(member)?;
        }
        let count = set.count();
        set.save().map(|()| count)
    })?;
    notify(context, Classes::SET, event, key);
    reply.integer(count as i64);
    Ok(())
}

pub(super) fn sinterstore(
    context: &mut Context<'_, '_>,
    args: Args<'_>,
    reply: &mut Reply,
) -> Outcome {
    store_join(context, args, reply, (Join::Intersection, "sinterstore"))
}

pub(super) fn sunionstore(
    context: &mut Context<'_, '_>,
    args: Args<'_>,
    reply: &mut Reply,
) -> Outcome {
    store_join(context, args, reply, (Join::Union, "sunionstore"))
}

pub(super) fn sdiffstore(
    context: &mut Context<'_, '_>,
    args: Args<'_>,
    reply: &mut Reply,
) -> Outcome {
    store_join(context, args, reply, (Join::Difference, "sdiffstore"))
}

pub(super) fn sintercard(
    context: &mut Context<'_, '_>,
    args: Args<'_>,
    reply: &mut Reply,
) -> Outcome {
    let count = key_count(args.at(1))?;
    if count > args.count() - 2 {
        return Err("ERR Number of keys can't be greater than number of args".into());
    }
    let (mut at, mut limit) = (2 + count, 0);
    while at < args.count() {
        if !args.is(at, "LIMIT") || at + 1 >= args.count() {
            return Err(SYNTAX.into());
        }
        limit = match integer(args.at(at + 1)) {
            Ok(limit) if limit >= 0 => limit as usize,
            _ => return Err("ERR LIMIT can't be negative".into()),
        };
        at += 2;
    }
    let limit = if limit == 0 { usize::MAX } else { limit };
    let sources = find(context, args.from(2).take(count))?;
    if is_put_off(context, &sources, Join::Intersection) {
        return join_later(context, sources, (Join::Intersection, JoinUse::Counted(limit)));
    }
    let members = join(context, sources, Join::Intersection, limit)?;
    reply.integer(members.len() as i64);
    Ok(())
}
