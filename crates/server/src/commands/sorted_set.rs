//! Sorted sets: ZADD, ZRANGE, ZUNION and their kin.

mod add;
mod bounds;
mod join;
mod pop;
mod range;
mod shown;

use crate::args::Args;
use crate::collection::{SortedSet, Span};
use crate::command::{Command, Context, DENY_OOM, FAST, MOVABLE_KEYS, READ, SORTED_SET, WRITE};
use crate::commands::argument::count_in_range;
use crate::commands::sample::{Population, distinct, repeated};
use crate::commands::scan::{ScanOptions, reply_page};
use crate::failure::{Failure, Outcome, SYNTAX};
use crate::float::double_text;
use crate::number::parse_unsigned;
use crate::reply::Reply;
use tembo_kv::Direction;

use shown::reply_score;

const READS: u32 = SORTED_SET | READ;
const WRITES: u32 = SORTED_SET | WRITE;
const GROWS: u32 = SORTED_SET | WRITE | DENY_OOM;
const ONE: (i32, i32, i32) = (1, 1, 1);
const MOVABLE: (i32, i32, i32) = (0, 0, 0);

/// The family.
pub(super) const COMMANDS: &[Command] = &[
    Command::keyed("zadd", -4, GROWS | FAST, ONE, add::zadd),
    Command::keyed("zincrby", 4, GROWS | FAST, ONE, add::zincrby),
    Command::keyed("zrem", -3, WRITES | FAST, ONE, add::zrem),
    Command::keyed("zscore", 3, READS | FAST, ONE, zscore),
    Command::keyed("zmscore", -3, READS | FAST, ONE, zmscore),
    Command::keyed("zcard", 2, READS | FAST, ONE, zcard),
    Command::keyed("zrank", 3, READS | FAST, ONE, zrank),
    Command::keyed("zrevrank", 3, READS | FAST, ONE, zrevrank),
    Command::keyed("zcount", 4, READS | FAST, ONE, range::zcount),
    Command::keyed("zlexcount", 4, READS | FAST, ONE, range::zlexcount),
    Command::keyed("zrange", -4, READS, ONE, range::zrange),
    Command::keyed("zrevrange", -4, READS, ONE, range::zrevrange),
    Command::keyed("zrangebyscore", -4, READS, ONE, range::zrangebyscore),
    Command::keyed("zrevrangebyscore", -4, READS, ONE, range::zrevrangebyscore),
    Command::keyed("zrangebylex", -4, READS, ONE, range::zrangebylex),
    Command::keyed("zrevrangebylex", -4, READS, ONE, range::zrevrangebylex),
    Command::keyed("zrangestore", -5, GROWS, (1, 2, 1), range::zrangestore),
    Command::keyed("zremrangebyrank", 4, WRITES, ONE, range::zremrangebyrank),
    Command::keyed("zremrangebyscore", 4, WRITES, ONE, range::zremrangebyscore),
    Command::keyed("zremrangebylex", 4, WRITES, ONE, range::zremrangebylex),
    Command::keyed("zpopmin", -2, WRITES | FAST, ONE, pop::zpopmin),
    Command::keyed("zpopmax", -2, WRITES | FAST, ONE, pop::zpopmax),
    Command::keyed("zmpop", -4, WRITES | MOVABLE_KEYS, MOVABLE, pop::zmpop),
    Command::keyed("zrandmember", -2, READS, ONE, zrandmember),
    Command::keyed("zscan", -3, READS, ONE, zscan),
    Command::keyed("zunion", -3, READS | MOVABLE_KEYS, MOVABLE, join::zunion),
    Command::keyed("zinter", -3, READS | MOVABLE_KEYS, MOVABLE, join::zinter),
    Command::keyed("zdiff", -3, READS | MOVABLE_KEYS, MOVABLE, join::zdiff),
    Command::keyed("zintercard", -3, READS | MOVABLE_KEYS, MOVABLE, join::zintercard),
    Command::keyed("zunionstore", -4, GROWS | MOVABLE_KEYS, ONE, join::zunionstore),
    Command::keyed("zinterstore", -4, GROWS | MOVABLE_KEYS, ONE, join::zinterstore),
    Command::keyed("zdiffstore", -4, GROWS | MOVABLE_KEYS, ONE, join::zdiffstore),
];

fn open<'d, 's>(
    context: &'d mut Context<'_, 's>,
    key: &'d [u8],
) -> Result<SortedSet<'d, 's>, Failure> {
    SortedSet::open(context.data, (context.session.db, key))
}

fn zscore(context: &mut Context<'_, '_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    reply_score(open(context, args.at(1))?.score(args.at(2))?, reply);
    Ok(())
}

fn zmscore(context: &mut Context<'_, '_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    let mut set = open(context, args.at(1))?;
    reply.array(args.count() - 2);
    for member in args.from(2) {
        reply_score(set.score(member)?, reply);
    }
    Ok(())
}

fn zcard(context: &mut Context<'_, '_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    reply.integer(open(context, args.at(1))?.count() as i64);
    Ok(())
}

/// The rank of a member, counted from one end.
fn rank_from(
    context: &mut Context<'_, '_>,
    args: Args<'_>,
    direction: Direction,
    reply: &mut Reply,
) -> Outcome {
    let mut set = open(context, args.at(1))?;
    let Some(score) = set.score(args.at(2))? else {
        reply.null();
        return Ok(());
    };
    let rank = set.rank(args.at(2), score)?;
    reply.integer(match direction {
        Direction::Forward => rank,
        Direction::Backward => set.count().saturating_sub(rank + 1),
    } as i64);
    Ok(())
}

fn zrank(context: &mut Context<'_, '_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    rank_from(context, args, Direction::Forward, reply)
}

fn zrevrank(context: &mut Context<'_, '_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    rank_from(context, args, Direction::Backward, reply)
}

impl Population for SortedSet<'_, '_> {
    fn count(&self) -> u64 {
        SortedSet::count(self)
    }

    fn all(&mut self) -> Result<Vec<Vec<u8>>, Failure> {
        let members = self.list(&Span::ALL, Direction::Forward, u64::MAX)?;
        Ok(members.into_iter().map(|(member, _)| member).collect())
    }

    fn one(&mut self, random: &mut dyn FnMut() -> u64) -> Result<Option<Vec<u8>>, Failure> {
        self.random(random)
    }
}

fn zrandmember(context: &mut Context<'_, '_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    let shared = &mut *context.shared;
    let mut random = || shared.random();
    let place = (context.session.db, args.at(1));
    if args.count() == 2 {
        match SortedSet::open(context.data, place)?.random(&mut random)? {
            Some(member) => reply.bulk(&member),
            None => reply.null(),
        }
        return Ok(());
    }
    let count = count_in_range(args.at(2))?;
    let with_scores = args.count() > 3;
    if args.count() > 4 || with_scores && !args.is(3, "WITHSCORES") {
        return Err(SYNTAX.into());
    }
    if with_scores && count.unsigned_abs() > i64::MAX as u64 / 2 {
        return Err("ERR value is out of range".into());
    }
    let mut set = SortedSet::open(context.data, place)?;
    let in_pairs = with_scores && context.session.resp3;
    let size = |members: u64| if with_scores && !in_pairs { members * 2 } else { members };
    if count >= 0 || SortedSet::count(&set) == 0 {
        let found = distinct(&mut set, count.max(0) as u64, &mut random)?;
        reply.array(size(found.len() as u64) as usize);
        return found
            .iter()
            .try_for_each(|member| show_random(&mut set, member, (with_scores, in_pairs), reply));
    }
    let mut left = count.unsigned_abs();
    reply.array(size(left) as usize);
    while left > 0 && !reply.is_overflown() {
        let (part, mut found) = (left.min(DRAWN_AT_ONCE), Vec::new());
        repeated(&mut set, part, &mut random, &mut |member| {
            found.push(member.to_vec());
            true
        })?;
        for member in found {
            show_random(&mut set, &member, (with_scores, in_pairs), reply)?;
        }
        left -= part;
    }
    Ok(())
}

/// Random members that are held in memory together.
const DRAWN_AT_ONCE: u64 = 1024;

fn show_random(
    set: &mut SortedSet<'_, '_>,
    member: &[u8],
    (with_score, in_pairs): (bool, bool),
    reply: &mut Reply,
) -> Outcome {
    if in_pairs {
        reply.array(2);
    }
    reply.bulk(member);
    if with_score {
        reply_score(set.score(member)?, reply);
    }
    Ok(())
}

fn zscan(context: &mut Context<'_, '_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    let cursor = parse_unsigned(args.at(2)).ok_or("ERR invalid cursor")?;
    let mut set = SortedSet::open(context.data, (context.session.db, args.at(1)))?;
    let (mut found, mut count, mut visited) = (Reply::new(usize::MAX), 0, 0);
    let (mut last, mut more) = (None, false);
    if SortedSet::count(&set) > 0 {
        let options = ScanOptions::parse(args, 3, false)?;
        let is_small = set.is_small();
        let behind = context.shared.scans.position(cursor).map(<[u8]>::to_vec);
        set.visit_members(behind.as_deref(), &mut |member, score| {
            if visited == options.count && !is_small {
                more = true;
                return false;
            }
            visited += 1;
            if options.matches(member) {
                found.bulk(member);
                found.bulk(double_text(score).as_bytes());
                count += 2;
            }
            if visited == options.count {
                last = Some(member.to_vec());
            }
            true
        })?;
    }
    reply_page(context.shared, last.filter(|_| more), (count, &found), reply);
    Ok(())
}
