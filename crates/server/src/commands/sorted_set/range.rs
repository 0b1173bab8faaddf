//! Ranges of ranks, scores and members.

use crate::args::Args;
use crate::collection::{SortedSet, Span};
use crate::command::Context;
use crate::commands::argument::integer;
use crate::commands::listing::{AT_ONCE_MAX, go_on_later};
use crate::commands::removal;
use crate::element_listing::{Listed, Shown};
use crate::event_class::Classes;
use crate::failure::{Failure, Outcome, SYNTAX};
use crate::format::Part;
use crate::notify::{notify, notify_removed};
use crate::reply::Reply;
use tembo_kv::Direction;

use super::bounds::{By, Ends};
use super::shown::show;

/// What a command reads.
struct Query<'a> {
    key: &'a [u8],
    ends: Ends<'a>,
    direction: Direction,
    /// LIMIT: how many are left out, and how many follow.
    limit: Option<(i64, i64)>,
    with_scores: bool,
}

/// What a query has found.
#[derive(Default)]
struct Found {
    /// Members and their scores.
    members: Vec<(Vec<u8>, f64)>,
    /// What of a large sorted set there may be behind them: its id, where, and how many at most.
    rest: Option<(u64, Span, u64)>,
}

/// What the name of a command says about its query: how the range is named and its direction (`None`: its options say it),
/// where its key is, and whether it stores what it finds.
#[derive(Clone, Copy)]
struct Form {
    named: Option<(By, Direction)>,
    key: usize,
    stores: bool,
}

impl<'a> Query<'a> {
    fn parse(args: Args<'a>, form: Form) -> Result<Query<'a>, Failure> {
        let (mut by, mut direction) = form.named.unzip();
        let (mut limit, mut with_scores) = (None, false);
        let mut at = form.key + 3;
        while at < args.count() {
            if !form.stores && args.is(at, "WITHSCORES") {
                with_scores = true;
            } else if args.is(at, "LIMIT") && at + 2 < args.count() {
                limit = Some((integer(args.at(at + 1))?, integer(args.at(at + 2))?));
                at += 2;
            } else if direction.is_none() && args.is(at, "REV") {
                direction = Some(Direction::Backward);
            } else if by.is_none() && args.is(at, "BYLEX") {
                by = Some(By::Lex);
            } else if by.is_none() && args.is(at, "BYSCORE") {
                by = Some(By::Score);
            } else {
                return Err(SYNTAX.into());
            }
            at += 1;
        }
        let by = by.unwrap_or(By::Rank);
        let direction = direction.unwrap_or(Direction::Forward);
        if limit.is_some_and(|limit| limit.1 != -1) && by == By::Rank {
            return Err("ERR syntax error, LIMIT is only supported in combination with either BYSCORE or BYLEX".into());
        }
        if with_scores && by == By::Lex {
            return Err(
                "ERR syntax error, WITHSCORES not supported in combination with BYLEX".into()
            );
        }
        let (mut min, mut max) = (args.at(form.key + 1), args.at(form.key + 2));
        if direction == Direction::Backward && by != By::Rank {
            (min, max) = (max, min);
        }
        let ends = Ends::parse(by, min, max)?;
        Ok(Query { key: args.at(form.key), ends, direction, limit, with_scores })
    }

    /// The members and their scores. Of more than `at_once` only the first ones.
    fn find(&self, context: &mut Context<'_, '_>, at_once: u64) -> Result<Found, Failure> {
        let mut set = SortedSet::open(context.data, (context.session.db, self.key))?;
        let Some((span, count)) = self.ends.span(&mut set, self.direction)? else {
            return Ok(Found::default());
        };
        let (left_out, most) = match (&self.ends, self.limit) {
            (Ends::Rank(..), _) | (_, None) => (0, count),
            (_, Some((left_out, most))) => {
                let Ok(left_out) = u64::try_from(left_out) else { return Ok(Found::default()) };
                (left_out, u64::try_from(most).unwrap_or(u64::MAX))
            }
        };
        let Some(span) = set.skip(span, left_out, self.direction)? else {
            return Ok(Found::default());
        };
        let members = set.list(&span, self.direction, most.min(at_once.saturating_add(1)))?;
        let most = most - members.len() as u64;
        let rest = match (set.large(), members.last()) {
            (Some((id, _)), Some((last, score))) if members.len() as u64 > at_once => {
                Some((id, span.behind((last, *score), self.direction), most))
            }
            _ => None,
        };
        Ok(Found { members, rest })
    }
}

fn read(context: &mut Context<'_, '_>, args: Args<'_>, form: Form, reply: &mut Reply) -> Outcome {
    let query = Query::parse(args, form)?;
    let at_once = if context.session.may_list_later() { AT_ONCE_MAX } else { u64::MAX };
    let Found { members, rest } = query.find(context, at_once)?;
    let (with_scores, resp3) = (query.with_scores, context.session.resp3);
    let Some((id, span, most)) = rest else {
        show((with_scores, resp3), &members, reply);
        return Ok(());
    };
    let (shown, mut found) = (Shown::Scored { with_scores, resp3 }, reply.apart());
    members.iter().for_each(|(member, score)| shown.scored(member, *score, &mut found));
    let rest = Listed::between((id, Part::Order), span.keys(), query.direction, most);
    go_on_later(context, rest, shown, (found, members.len()))
}

const OPEN: Form = Form { named: None, key: 1, stores: false };

const fn named(by: By, direction: Direction) -> Form {
    Form { named: Some((by, direction)), key: 1, stores: false }
}

pub(super) fn zrange(context: &mut Context<'_, '_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    read(context, args, OPEN, reply)
}

pub(super) fn zrevrange(
    context: &mut Context<'_, '_>,
    args: Args<'_>,
    reply: &mut Reply,
) -> Outcome {
    read(context, args, named(By::Rank, Direction::Backward), reply)
}

pub(super) fn zrangebyscore(
    context: &mut Context<'_, '_>,
    args: Args<'_>,
    reply: &mut Reply,
) -> Outcome {
    read(context, args, named(By::Score, Direction::Forward), reply)
}

pub(super) fn zrevrangebyscore(
    context: &mut Context<'_, '_>,
    args: Args<'_>,
    reply: &mut Reply,
) -> Outcome {
    read(context, args, named(By::Score, Direction::Backward), reply)
}

pub(super) fn zrangebylex(
    context: &mut Context<'_, '_>,
    args: Args<'_>,
    reply: &mut Reply,
) -> Outcome {
    read(context, args, named(By::Lex, Direction::Forward), reply)
}

pub(super) fn zrevrangebylex(
    context: &mut Context<'_, '_>,
    args: Args<'_>,
    reply: &mut Reply,
) -> Outcome {
    read(context, args, named(By::Lex, Direction::Backward), reply)
}

pub(super) fn zrangestore(
    context: &mut Context<'_, '_>,
    args: Args<'_>,
    reply: &mut Reply,
) -> Outcome {
    let query = Query::parse(args, Form { key: 2, stores: true, ..OPEN })?;
    let found = query.find(context, u64::MAX)?.members;
    reply.integer(found.len() as i64);
    store(context, args.at(1), scored(&found), "zrangestore")
}

/// Members that are to be stored.
pub(in crate::commands) fn scored(
    members: &[(Vec<u8>, f64)],
) -> impl Iterator<Item = (&[u8], f64)> + Clone {
    members.iter().map(|(member, score)| (&member[..], *score))
}

/// Puts a sorted set of these members under a key, in the place of what is there.
pub(in crate::commands) fn store<'m>(
    context: &mut Context<'_, '_>,
    key: &[u8],
    mut members: impl Iterator<Item = (&'m [u8], f64)> + Clone,
    event: &str,
) -> Outcome {
    let (place, size) =
        ((context.session.db, key), members.clone().map(|one| one.0.len() + 8).sum());
    if size == 0 {
        return removal::remove(context, key);
    }
    context.data.atomically(size, |data| {
        let mut set = SortedSet::replace(data, place);
        members.try_for_each(|(member, score)| set.set(member, None, score))?;
        set.save()
    })?;
    notify(context, Classes::SORTED_SET, event, key);
    Ok(())
}

/// How many members a range has.
fn count(context: &mut Context<'_, '_>, args: Args<'_>, by: By, reply: &mut Reply) -> Outcome {
    let ends = Ends::parse(by, args.at(2), args.at(3))?;
    let mut set = SortedSet::open(context.data, (context.session.db, args.at(1)))?;
    let count = match ends.span(&mut set, Direction::Forward)? {
        Some((span, _)) => set.count_in(&span)?,
        None => 0,
    };
    reply.integer(count as i64);
    Ok(())
}

pub(super) fn zcount(context: &mut Context<'_, '_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    count(context, args, By::Score, reply)
}

pub(super) fn zlexcount(
    context: &mut Context<'_, '_>,
    args: Args<'_>,
    reply: &mut Reply,
) -> Outcome {
    count(context, args, By::Lex, reply)
}

/// Removes the members of a range.
fn remove(
    context: &mut Context<'_, '_>,
    args: Args<'_>,
    (by, event): (By, &str),
    reply: &mut Reply,
) -> Outcome {
    let ends = Ends::parse(by, args.at(2), args.at(3))?;
    let place = (context.session.db, args.at(1));
    let mut set = SortedSet::open(context.data, place)?;
    let found = match ends.span(&mut set, Direction::Forward)? {
        Some((span, most)) => set.list(&span, Direction::Forward, most)?,
        None => Vec::new(),
    };
    reply.integer(found.len() as i64);
    if found.is_empty() {
        return Ok(());
    }
    let left = set.count() - found.len() as u64;
    if left == 0 {
        context.data.remove(place.0, place.1)?;
    } else {
        SortedSet::change(context.data, place, (found.len(), 0), |set| {
            found.iter().try_for_each(|(member, _)| set.remove(member).map(drop))
        })?;
    }
    notify_removed(context, (Classes::SORTED_SET, event), place.1, left);
    Ok(())
}

pub(super) fn zremrangebyrank(
    context: &mut Context<'_, '_>,
    args: Args<'_>,
    reply: &mut Reply,
) -> Outcome {
    remove(context, args, (By::Rank, "zremrangebyrank"), reply)
}

pub(super) fn zremrangebyscore(
    context: &mut Context<'_, '_>,
    args: Args<'_>,
    reply: &mut Reply,
) -> Outcome {
    remove(context, args, (By::Score, "zremrangebyscore"), reply)
}

pub(super) fn zremrangebylex(
    context: &mut Context<'_, '_>,
    args: Args<'_>,
    reply: &mut Reply,
) -> Outcome {
    remove(context, args, (By::Lex, "zremrangebylex"), reply)
}
