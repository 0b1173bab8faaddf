//! Sorted sets: ZADD, ZRANGE, ZUNION and their kin.

mod add;
mod bounds;
mod join;
mod pop;
mod range;
mod shown;

use crate::args::Args;
use crate::collection::{SortedSet, SortedSets, Span};
use crate::command::{
    BLOCKING, Command, Context, DENY_OOM, FAST, MOVABLE_KEYS, READ, SORTED_SET, WRITE,
};
use crate::commands::sample::{Population, reply_random};
use crate::commands::scan::scan_collection;
use crate::failure::{Failure, Outcome};
use crate::float::double_text;
use crate::reply::Reply;
use tembo_kv::Direction;

use shown::reply_score;

pub(super) use add::{AddOptions, add_members};
pub(super) use range::{scored, store};

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
    Command::keyed("bzpopmin", -3, WRITES | BLOCKING | FAST, (1, -2, 1), pop::bzpopmin),
    Command::keyed("bzpopmax", -3, WRITES | BLOCKING | FAST, (1, -2, 1), pop::bzpopmax),
    Command::keyed("bzmpop", -5, WRITES | BLOCKING | MOVABLE_KEYS, MOVABLE, pop::bzmpop),
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
    fn entries(&mut self) -> Result<u64, Failure> {
        Ok(SortedSet::count(self))
    }

    fn all(&mut self) -> Result<Vec<Vec<u8>>, Failure> {
        let members = self.list(&Span::ALL, Direction::Forward, u64::MAX)?;
        Ok(members.into_iter().map(|(member, _)| member).collect())
    }

    fn one(&mut self, random: &mut dyn FnMut() -> u64) -> Result<Option<Vec<u8>>, Failure> {
        self.random(random)
    }

    fn reply_value(&mut self, member: &[u8], reply: &mut Reply) -> Outcome {
        reply_score(self.score(member)?, reply);
        Ok(())
    }
}

fn zrandmember(context: &mut Context<'_, '_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    reply_random::<SortedSets>(context, args, Some("WITHSCORES"), reply)
}

fn zscan(context: &mut Context<'_, '_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    scan_collection(context, args, reply, |set: &mut SortedSet<'_, '_>, behind, page| {
        set.visit_members(behind, &mut |member, score| {
            page.visit(member, |found| {
                found.bulk(member);
                found.bulk(double_text(score).as_bytes());
                2
            })
        })
    })
}
