//! XPENDING.

use tembo_kv::Direction;

use crate::args::Args;
use crate::collection::{Group, Pending, Stream};
use crate::command::Context;
use crate::commands::argument::integer;
use crate::commands::stream::id;
use crate::commands::stream::shown::{no_group, show_id};
use crate::failure::{Failure, Outcome, SYNTAX};
use crate::format::StreamId;
use crate::reply::Reply;

/// The longer form: which pending entries are shown.
struct Wanted<'a> {
    idle_min_ms: i64,
    ends: (StreamId, StreamId),
    limit: u64,
    consumer: Option<&'a [u8]>,
}

impl<'a> Wanted<'a> {
    /// `None`: the shorter form.
    fn parse(args: Args<'a>) -> Result<Option<Wanted<'a>>, Failure> {
        match args.count() {
            3 => return Ok(None),
            6..=9 => {}
            _ => return Err(SYNTAX.into()),
        }
        let (mut idle_min_ms, mut at) = (0, 3);
        if args.is(3, "IDLE") {
            idle_min_ms = integer(args.at(4))?;
            if args.count() < 8 {
                return Err(SYNTAX.into());
            }
            at = 5;
        }
        let limit = integer(args.at(at + 2))?.max(0) as u64;
        let ends = (id::from(args.at(at))?, id::to(args.at(at + 1))?);
        let consumer = (at + 3 < args.count()).then(|| args.at(at + 3));
        Ok(Some(Wanted { idle_min_ms, ends, limit, consumer }))
    }

    /// The pending entries of a group, or of one consumer.
    fn find(
        &self,
        stream: &mut Stream<'_, '_>,
        group: &mut Group,
        now_ms: u64,
    ) -> Result<Vec<(StreamId, Pending)>, Failure> {
        let mut found = Vec::new();
        let is_idle = |pending: &Pending| {
            self.idle_min_ms == 0 || idle_ms(pending.delivered_ms, now_ms) >= self.idle_min_ms
        };
        if self.limit == 0 || self.ends.0 > self.ends.1 {
            return Ok(found);
        }
        let Some(name) = self.consumer else {
            group.visit_pending(stream, self.ends, Direction::Forward, &mut |id, pending| {
                if is_idle(&pending) {
                    found.push((id, pending));
                }
                (found.len() as u64) < self.limit
            })?;
            return Ok(found);
        };
        let Some(own) = group.consumer(stream, name)? else { return Ok(found) };
        let (mut ids, mut from) = (Vec::new(), Some(self.ends.0));
        while let Some(next) = from {
            from = None;
            group.visit_owned(stream, own, next, &mut |id| {
                if id > self.ends.1 {
                    return false;
                }
                if ids.len() == READ_AT_ONCE {
                    from = Some(id);
                    return false;
                }
                ids.push(id);
                true
            })?;
            for id in ids.drain(..) {
                let Some(pending) = group.pending(stream, id)? else { continue };
                if is_idle(&pending) {
                    found.push((id, pending));
                }
                if found.len() as u64 == self.limit {
                    return Ok(found);
                }
            }
        }
        Ok(found)
    }
}

/// Pending entries of a consumer whose ids are held in memory together.
const READ_AT_ONCE: usize = 256;

/// Milliseconds from then to now; negative if the clock was set back.
fn idle_ms(then_ms: u64, now_ms: u64) -> i64 {
    now_ms.wrapping_sub(then_ms) as i64
}

pub(super) fn xpending(
    context: &mut Context<'_, '_>,
    args: Args<'_>,
    reply: &mut Reply,
) -> Outcome {
    let wanted = Wanted::parse(args)?;
    let (key, now_ms) = (args.at(1), context.data.now_ms());
    let no_such = || no_group(key, args.at(2), "");
    let mut stream = Stream::open(context.data, (context.session.db, key))?.ok_or_else(no_such)?;
    let mut group = Group::find(&mut stream, args.at(2))?.ok_or_else(no_such)?;
    let Some(wanted) = wanted else { return summary(&mut stream, &mut group, reply) };
    let found = wanted.find(&mut stream, &mut group, now_ms)?;
    reply.array(found.len());
    for (id, pending) in found {
        reply.array(4);
        show_id(id, reply);
        reply.bulk(&group.consumer_of(&mut stream, pending.consumer)?.name);
        reply.integer(idle_ms(pending.delivered_ms, now_ms).max(0));
        reply.integer(pending.deliveries as i64);
    }
    Ok(())
}

/// The shorter form: how many, from which to which, and of which consumers.
fn summary(stream: &mut Stream<'_, '_>, group: &mut Group, reply: &mut Reply) -> Outcome {
    reply.array(4);
    reply.integer(group.record().pending as i64);
    if group.record().pending == 0 {
        reply.null();
        reply.null();
        reply.null_array();
        return Ok(());
    }
    for direction in [Direction::Forward, Direction::Backward] {
        let mut end = StreamId::MIN;
        group.visit_pending(stream, (StreamId::MIN, StreamId::MAX), direction, &mut |id, _| {
            end = id;
            false
        })?;
        show_id(end, reply);
    }
    let mut consumers = group.all_consumers(stream)?;
    consumers.retain(|(_, consumer)| consumer.record.pending > 0);
    reply.array(consumers.len());
    for (_, consumer) in consumers {
        reply.array(2);
        reply.bulk(&consumer.name);
        reply.bulk_integer(consumer.record.pending as i64);
    }
    Ok(())
}
