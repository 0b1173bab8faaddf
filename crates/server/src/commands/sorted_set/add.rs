//! Adding and removing members, changing scores.

use crate::args::Args;
use crate::collection::SortedSet;
use crate::command::Context;
use crate::event_class::Classes;
use crate::failure::{Failure, Outcome, SYNTAX};
use crate::float::parse_double;
use crate::notify::{notify, notify_removed};
use crate::reply::Reply;

use super::shown::reply_score;

const NOT_A_FLOAT: &str = "ERR value is not a valid float";
const NOT_A_NUMBER: &str = "ERR resulting score is not a number (NaN)";

/// Which members and scores are changed.
#[derive(Clone, Copy, Default)]
pub(in crate::commands) struct AddOptions {
    /// NX.
    pub(in crate::commands) only_new: bool,
    /// XX.
    pub(in crate::commands) only_old: bool,
    only_greater: bool,
    only_less: bool,
    /// CH.
    pub(in crate::commands) counts_changed: bool,
    adds_up: bool,
}

impl AddOptions {
    /// The options from the second argument on, and where the scores begin.
    fn parse(args: Args<'_>, adds_up: bool) -> Result<(AddOptions, usize), Failure> {
        let (mut options, mut at) = (AddOptions { adds_up, ..AddOptions::default() }, 2);
        while at < args.count() {
            let option = match args.at(at).to_ascii_uppercase().as_slice() {
                b"NX" => &mut options.only_new,
                b"XX" => &mut options.only_old,
                b"GT" => &mut options.only_greater,
                b"LT" => &mut options.only_less,
                b"CH" => &mut options.counts_changed,
                b"INCR" => &mut options.adds_up,
                _ => break,
            };
            *option = true;
            at += 1;
        }
        let pairs = args.count() - at;
        if pairs == 0 || !pairs.is_multiple_of(2) {
            return Err(SYNTAX.into());
        }
        if options.only_new && options.only_old {
            return Err("ERR XX and NX options at the same time are not compatible".into());
        }
        let (greater, less) = (options.only_greater, options.only_less);
        if options.only_new && (greater || less) || greater && less {
            return Err("ERR GT, LT, and/or NX options at the same time are not compatible".into());
        }
        if options.adds_up && pairs > 2 {
            return Err("ERR INCR option supports a single increment-element pair".into());
        }
        Ok((options, at))
    }

    /// The score that a member gets that has `old`; `None`: it keeps what it has.
    fn score(self, old: Option<f64>, given: f64) -> Result<Option<f64>, Failure> {
        let Some(old) = old else { return Ok((!self.only_old).then_some(given)) };
        if self.only_new {
            return Ok(None);
        }
        let score = if self.adds_up { old + given } else { given };
        if score.is_nan() {
            return Err(NOT_A_NUMBER.into());
        }
        let is_left = self.only_greater && score <= old || self.only_less && score >= old;
        Ok((!is_left).then_some(score))
    }
}

/// What was done to the members.
#[derive(Default)]
struct Done {
    added: i64,
    changed: i64,
    /// The score of the last one that was not left as it was.
    score: Option<f64>,
}

fn add(context: &mut Context<'_, '_>, args: Args<'_>, adds_up: bool, reply: &mut Reply) -> Outcome {
    let (options, first) = AddOptions::parse(args, adds_up)?;
    let mut scores = Vec::with_capacity((args.count() - first) / 2);
    for at in (first..args.count()).step_by(2) {
        scores.push((parse_double(args.at(at)).ok_or(NOT_A_FLOAT)?, args.at(at + 1)));
    }
    add_members(context, args.at(1), options, &scores, reply)
}

/// Adds members and changes scores, and replies how many, or with the score.
pub(in crate::commands) fn add_members(
    context: &mut Context<'_, '_>,
    key: &[u8],
    options: AddOptions,
    scores: &[(f64, &[u8])],
    reply: &mut Reply,
) -> Outcome {
    let place = (context.session.db, key);
    let change = (scores.len(), scores.iter().map(|(_, member)| member.len()).sum());
    let done = SortedSet::change(context.data, place, change, |set| {
        let mut done = Done::default();
        for (given, member) in scores {
            let old = set.score(member)?;
            let Some(score) = options.score(old, *given)? else { continue };
            set.set(member, old, score)?;
            match old {
                None => done.added += 1,
                Some(old) => done.changed += i64::from(old != score),
            }
            done.score = Some(score);
        }
        Ok(done)
    })?;
    if done.added + done.changed > 0 {
        let event = if options.adds_up { "zincr" } else { "zadd" };
        notify(context, Classes::SORTED_SET, event, place.1);
    }
    if options.adds_up {
        reply_score(done.score, reply);
    } else {
        reply.integer(done.added + if options.counts_changed { done.changed } else { 0 });
    }
    Ok(())
}

pub(super) fn zadd(context: &mut Context<'_, '_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    add(context, args, false, reply)
}

pub(super) fn zincrby(context: &mut Context<'_, '_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    add(context, args, true, reply)
}

pub(super) fn zrem(context: &mut Context<'_, '_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    let place = (context.session.db, args.at(1));
    let (removed, left) = SortedSet::change(context.data, place, (args.count() - 2, 0), |set| {
        let mut removed = 0;
        for member in args.from(2) {
            removed += i64::from(set.remove(member)?);
        }
        Ok((removed, set.count()))
    })?;
    if removed > 0 {
        notify_removed(context, (Classes::SORTED_SET, "zrem"), place.1, left);
    }
    reply.integer(removed);
    Ok(())
}
