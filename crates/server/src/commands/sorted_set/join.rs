//! Unions, intersections and differences.

use std::collections::HashMap;

use crate::args::Args;
use crate::collection::{Set, SortedSet, Span};
use crate::command::Context;
use crate::commands::argument::integer;
use crate::failure::{Failure, Outcome, SYNTAX, WRONG_TYPE};
use crate::float::parse_double;
use crate::format::Kind;
use crate::number::parse_integer;
use crate::reply::Reply;
use tembo_kv::Direction;

use super::range::store;
use super::shown::show;

/// How several sets make one.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Join {
    Union,
    Intersection,
    Difference,
}

/// What the score of a member is that several sets have.
#[derive(Clone, Copy)]
enum Aggregate {
    Sum,
    Min,
    Max,
}

impl Aggregate {
    fn of(self, a: f64, b: f64) -> f64 {
        match self {
            Aggregate::Sum if (a + b).is_nan() => 0.0,
            Aggregate::Sum => a + b,
            Aggregate::Min => a.min(b),
            Aggregate::Max => a.max(b),
        }
    }
}

/// What a command does with what it finds.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Use {
    Reply,
    Count,
    Store,
}

type Members = Vec<(Vec<u8>, f64)>;

/// What a command joins.
struct Query {
    sources: Vec<Members>,
    weights: Vec<f64>,
    aggregate: Aggregate,
    with_scores: bool,
    limit: u64,
}

/// The members of a set or sorted set; those of a set have the score 1.
fn members(context: &mut Context<'_, '_>, key: &[u8]) -> Result<Members, Failure> {
    let place = (context.session.db, key);
    match context.data.find(place.0, place.1)?.map(|value| value.of.kind) {
        None => Ok(Vec::new()),
        Some(Kind::Set) => {
            let members = Set::open(context.data, place)?.members()?;
            Ok(members.into_iter().map(|member| (member, 1.0)).collect())
        }
        Some(Kind::SortedSet) => {
            let mut set = SortedSet::open(context.data, place)?;
            set.list(&Span::ALL, Direction::Forward, u64::MAX)
        }
        Some(_) => Err(WRONG_TYPE.into()),
    }
}

impl Query {
    /// The query whose number of keys is the argument at `at`.
    fn parse(
        context: &mut Context<'_, '_>,
        args: Args<'_>,
        (join, used, name): (Join, Use, &str),
    ) -> Result<Query, Failure> {
        let at = if used == Use::Store { 2 } else { 1 };
        let count = integer(args.at(at))?;
        if count < 1 {
            return Err(format!("ERR at least 1 input key is needed for '{name}' command").into());
        }
        let end = usize::try_from(count).unwrap_or(usize::MAX).saturating_add(at + 1);
        if end > args.count() {
            return Err(SYNTAX.into());
        }
        let sources: Result<Vec<Members>, Failure> =
            (at + 1..end).map(|at| members(context, args.at(at))).collect();
        let mut query = Query {
            sources: sources?,
            weights: vec![1.0; end - at - 1],
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
            if is_weighed && left > self.weights.len() && args.is(at, "WEIGHTS") {
                for (weight, at) in self.weights.iter_mut().zip(at + 1..) {
                    *weight = parse_double(args.at(at)).ok_or("ERR weight value is not a float")?;
                }
                at += 1 + self.weights.len();
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
    fn find(self, join: Join) -> Members {
        let (aggregate, sources) = (self.aggregate, self.sources.len());
        let mut found: HashMap<Vec<u8>, (f64, usize)> = HashMap::new();
        for (nth, (source, weight)) in self.sources.into_iter().zip(self.weights).enumerate() {
            for (member, score) in source {
                let weighed = score * weight;
                let score = if weighed.is_nan() { 0.0 } else { weighed };
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
        let mut members: Members = found
            .into_iter()
            .filter(|(_, (_, times))| is_in(*times))
            .map(|(member, (score, _))| (member, score))
            .collect();
        members.sort_by(|a, b| a.1.total_cmp(&b.1).then_with(|| a.0.cmp(&b.0)));
        members
    }
}

fn read(
    context: &mut Context<'_, '_>,
    args: Args<'_>,
    (join, name): (Join, &str),
    reply: &mut Reply,
) -> Outcome {
    let query = Query::parse(context, args, (join, Use::Reply, name))?;
    let with_scores = query.with_scores;
    show((with_scores, context.session.resp3), &query.find(join), reply);
    Ok(())
}

fn store_join(
    context: &mut Context<'_, '_>,
    args: Args<'_>,
    (join, name): (Join, &str),
    reply: &mut Reply,
) -> Outcome {
    let found = Query::parse(context, args, (join, Use::Store, name))?.find(join);
    reply.integer(found.len() as i64);
    store(context, args.at(1), &found, name)
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
    let limit = query.limit;
    reply.integer((query.find(Join::Intersection).len() as u64).min(limit) as i64);
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
