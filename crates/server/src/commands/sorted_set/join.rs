//! Unions, intersections and differences.

use std::cmp::Ordering;
use std::collections::HashMap;

use crate::args::Args;
use crate::command::Context;
use crate::commands::argument::integer;
use crate::commands::join_source::{Source, are_many, join_in_snapshot};
use crate::element_listing::Shown;
use crate::failure::{Failure, Outcome, SYNTAX};
use crate::float::parse_double;
use crate::join_listing::{JoinListing, JoinUse};
use crate::number::parse_integer;
use crate::put_off::PutOff;
use crate::reply::Reply;
use crate::set_join::{Aggregate, Join, Scored, weighted};
use crate::sort_run::Run;

use super::range::{scored, store};
use super::shown::show;

/// What a command does with what it finds.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Use {
    Reply,
    Count,
    Store,
}

/// What a command joins.
struct Query<'a> {
    /// The sets, with their weights.
    sources: Vec<(Source<'a>, f64)>,
    aggregate: Aggregate,
    with_scores: bool,
    limit: u64,
}

impl<'a> Query<'a> {
    /// The query whose number of keys is the argument at `at`.
    fn parse(
        context: &mut Context<'_, '_>,
        args: Args<'a>,
        (join, used, name): (Join, Use, &str),
    ) -> Result<Query<'a>, Failure> {
        let at = if used == Use::Store { 2 } else { 1 };
        let count = integer(args.at(at))?;
        if count < 1 {
            return Err(format!("ERR at least 1 input key is needed for '{name}' command").into());
        }
        let end = usize::try_from(count).unwrap_or(usize::MAX).saturating_add(at + 1);
        if end > args.count() {
            return Err(SYNTAX.into());
        }
        let sources: Result<Vec<_>, Failure> =
            (at + 1..end).map(|at| Ok((Source::any_set(context, args.at(at))?, 1.0))).collect();
        let mut query = Query {
            sources: sources?,
            aggregate: Aggregate::Sum,
            with_scores: false,
            limit: u64::MAX,
        };
        query.parse_options(args, end, (join, used))?;
        Ok(query)
    }

    fn parse_options(
        &mut self,
        args: Args<'_>,
        mut at: usize,
        (join, used): (Join, Use),
    ) -> Result<(), Failure> {
        let is_weighed = join != Join::Difference && used != Use::Count;
        while at < args.count() {
            let left = args.count() - at;
            if is_weighed && left > self.sources.len() && args.is(at, "WEIGHTS") {
                for ((_, weight), at) in self.sources.iter_mut().zip(at + 1..) {
                    *weight = parse_double(args.at(at)).ok_or("ERR weight value is not a float")?;
                }
                at += 1 + self.sources.len();
            } else if is_weighed && left >= 2 && args.is(at, "AGGREGATE") {
                self.aggregate = match args.at(at + 1).to_ascii_uppercase().as_slice() {
                    b"SUM" => Aggregate::Sum,
                    b"MIN" => Aggregate::Min,
                    b"MAX" => Aggregate::Max,
                    _ => return Err(SYNTAX.into()),
                };
                at += 2;
            } else if used == Use::Reply && args.is(at, "WITHSCORES") {
                self.with_scores = true;
                at += 1;
            } else if used == Use::Count && left >= 2 && args.is(at, "LIMIT") {
                let limit = parse_integer(args.at(at + 1)).and_then(|limit| limit.try_into().ok());
                let limit: u64 = limit.ok_or("ERR LIMIT can't be negative")?;
                self.limit = if limit == 0 { u64::MAX } else { limit };
                at += 2;
            } else {
                return Err(SYNTAX.into());
            }
        }
        Ok(())
    }

    /// What the sets make, in order.
    fn find(&self, context: &mut Context<'_, '_>, join: Join) -> Result<Vec<Scored>, Failure> {
        let (aggregate, sources) = (self.aggregate, self.sources.len());
        let mut found: HashMap<Vec<u8>, (f64, usize)> = HashMap::new();
        for (nth, (source, weight)) in self.sources.iter().enumerate() {
            for (member, score) in source.scored(context)? {
                let score = weighted(score, *weight);
                match found.get_mut(&member) {
                    Some((sum, times)) => {
                        (*sum, *times) = (aggregate.of(*sum, score), *times + 1);
                    }
                    None if nth == 0 || join == Join::Union => {
                        found.insert(member, (score, 1));
                    }
                    None => {}
                }
            }
        }
        let is_in = |times| match join {
            Join::Union => true,
            Join::Intersection => times == sources,
            Join::Difference => times == 1,
        };
        let mut members: Vec<Scored> = found
            .into_iter()
            .filter(|(_, (_, times))| is_in(*times))
            .map(|(member, (score, _))| (member, score))
            .collect();
        let scores = |a: f64, b: f64| a.partial_cmp(&b).unwrap_or(Ordering::Equal);
        members.sort_by(|a, b| scores(a.1, b.1).then_with(|| a.0.cmp(&b.0)));
        Ok(members)
    }

    /// Whether members are read in later turns: the client can wait, and they are many. In the turn itself all would be.
    fn is_put_off(&self, context: &Context<'_, '_>) -> bool {
        let sources: Vec<Source<'_>> = self.sources.iter().map(|(source, _)| *source).collect();
        context.session.may_list_later() && are_many(&sources, Join::Union)
    }

    /// Joins the sets in later turns.
    fn later(
        &self,
        context: &mut Context<'_, '_>,
        (join, used): (Join, JoinUse),
    ) -> Result<JoinListing, Failure> {
        let join = join_in_snapshot(context, &self.sources, (join, self.aggregate))?;
        Ok(JoinListing::new(join, used))
    }

    fn join_later(&self, context: &mut Context<'_, '_>, joined: (Join, JoinUse)) -> Outcome {
        let join = self.later(context, joined)?;
        context.put_off(PutOff::Sets(join));
        Ok(())
    }
}

fn read(
    context: &mut Context<'_, '_>,
    args: Args<'_>,
    (join, name): (Join, &str),
    reply: &mut Reply,
) -> Outcome {
    let query = Query::parse(context, args, (join, Use::Reply, name))?;
    let (with_scores, resp3) = (query.with_scores, context.session.resp3);
    if query.is_put_off(context) {
        let used = JoinUse::Sorted(reply.apart(), Shown::Scored { with_scores, resp3 });
        return query.join_later(context, (join, used));
    }
    show((with_scores, resp3), &query.find(context, join)?, reply);
    Ok(())
}

fn store_join(
    context: &mut Context<'_, '_>,
    args: Args<'_>,
    (join, name): (Join, &str),
    reply: &mut Reply,
) -> Outcome {
    if let Some(found) = context.take_found() {
        reply.integer(found.len() as i64);
        return store(context, args.at(1), found.iter(), name);
    }
    let query = Query::parse(context, args, (join, Use::Store, name))?;
    if query.is_put_off(context) {
        let join = query.later(context, (join, JoinUse::KeptSorted(Run::default())))?;
        let keys = query.sources.iter().map(|(source, _)| source.key);
        return context.put_off_store(PutOff::Sets(join), keys);
    }
    let found = query.find(context, join)?;
    reply.integer(found.len() as i64);
    store(context, args.at(1), scored(&found), name)
}

pub(super) fn zunion(context: &mut Context<'_, '_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    read(context, args, (Join::Union, "zunion"), reply)
}

pub(super) fn zinter(context: &mut Context<'_, '_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    read(context, args, (Join::Intersection, "zinter"), reply)
}

pub(super) fn zdiff(context: &mut Context<'_, '_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    read(context, args, (Join::Difference, "zdiff"), reply)
}

pub(super) fn zintercard(
    context: &mut Context<'_, '_>,
    args: Args<'_>,
    reply: &mut Reply,
) -> Outcome {
    let form = (Join::Intersection, Use::Count, "zintercard");
    let query = Query::parse(context, args, form)?;
    if query.is_put_off(context) {
        let most = usize::try_from(query.limit).unwrap_or(usize::MAX);
        return query.join_later(context, (Join::Intersection, JoinUse::Counted(most)));
    }
    let found = query.find(context, Join::Intersection)?.len() as u64;
    reply.integer(found.min(query.limit) as i64);
    Ok(())
}

pub(super) fn zunionstore(
    context: &mut Context<'_, '_>,
    args: Args<'_>,
    reply: &mut Reply,
) -> Outcome {
    store_join(context, args, (Join::Union, "zunionstore"), reply)
}

pub(super) fn zinterstore(
    context: &mut Context<'_, '_>,
    args: Args<'_>,
    reply: &mut Reply,
) -> Outcome {
    store_join(context, args, (Join::Intersection, "zinterstore"), reply)
}

pub(super) fn zdiffstore(
    context: &mut Context<'_, '_>,
    args: Args<'_>,
    reply: &mut Reply,
) -> Outcome {
    store_join(context, args, (Join::Difference, "zdiffstore"), reply)
}
