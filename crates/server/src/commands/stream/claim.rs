//! XCLAIM, XAUTOCLAIM: pending entries that go to another consumer.

use tembo_kv::Direction;

use crate::args::Args;
use crate::collection::{Group, Pending, Stream, check_name};
use crate::command::Context;
use crate::commands::stream::id;
use crate::commands::stream::sent::Sent;
use crate::commands::stream::shown::{elements, no_group, show_array, show_entry, show_id};
use crate::event_class::Classes;
use crate::failure::{Failure, Outcome, SYNTAX};
use crate::format::StreamId;
use crate::notify::notify;
use crate::number::parse_integer;
use crate::reply::Reply;

/// XAUTOCLAIM looks at so many times as many entries as it may claim.
const LOOKED_AT: u64 = 10;
/// So many at most may be asked for.
const COUNT_MAX: i64 = i64::MAX / 16;

/// How entries are claimed.
struct Claim<'a> {
    key: &'a [u8],
    /// The consumer to which they go.
    consumer: &'a [u8],
    idle_min_ms: i64,
    now_ms: u64,
    delivered_ms: u64,
    deliveries: Option<u64>,
    /// Entries become pending that were not.
    force: bool,
    /// Ids are shown, not entries; this counts as no delivery.
    only_ids: bool,
}

/// What was claimed, as it is replied with.
struct Claimed {
    count: usize,
    reply: Reply,
    own: Option<u64>,
    /// The consumer was added.
    is_added: bool,
    /// What servers of Redis are sent.
    sent: Sent,
}

impl Claimed {
    fn new(sent: Sent) -> Claimed {
        Claimed { count: 0, reply: elements(false), own: None, is_added: false, sent }
    }
}

impl Claim<'_> {
    /// An entry that was removed is pending no more.
    fn give_up(
        &self,
        stream: &mut Stream<'_, '_>,
        group: &mut Group,
        (id, old): (StreamId, Pending),
        claimed: &mut Claimed,
    ) -> Outcome {
        group.remove_pending(stream, id, old)?;
        let of = (self.key, &*group, self.consumer);
        claimed.sent.claim(of, id, (old.delivered_ms, old.deliveries));
        Ok(())
    }

    /// Claims one entry, which is there and pending in the way of `old`.
    fn take(
        &self,
        stream: &mut Stream<'_, '_>,
        group: &mut Group,
        (id, old): (StreamId, Option<Pending>),
        claimed: &mut Claimed,
    ) -> Result<(), Failure> {
        if let Some(old) = old
            && self.idle_min_ms > 0
            && (self.now_ms.wrapping_sub(old.delivered_ms) as i64) < self.idle_min_ms
        {
            return Ok(());
        }
        let own = match claimed.own {
            Some(own) => own,
            None => {
                let (own, is_added) = group.see_consumer(stream, self.consumer, self.now_ms)?;
                claimed.is_added |= is_added;
                *claimed.own.insert(own)
            }
        };
        let before = old.map_or(1, |old| old.deliveries);
        let counted = before.wrapping_add(u64::from(!self.only_ids));
        let deliveries = self.deliveries.unwrap_or(counted);
        let new = Pending { consumer: own, delivered_ms: self.delivered_ms, deliveries };
        group.set_pending(stream, id, (old, new))?;
        let of = (self.key, &*group, self.consumer);
        claimed.sent.claim(of, id, (new.delivered_ms, deliveries));
        claimed.count += 1;
        if self.only_ids {
            show_id(id, &mut claimed.reply);
        } else if let Some(value) = stream.entry(id)? {
            show_entry(id, value[..].into(), &mut claimed.reply);
        }
        Ok(())
    }
}

/// An argument that is to be a number, or else there is an error of that text.
fn number(text: &[u8], what: &str) -> Result<i64, Failure> {
    parse_integer(text).ok_or_else(|| format!("ERR Invalid {what} argument for XCLAIM").into())
}

/// The ids that XCLAIM names, how it claims them, and the group's last id to be.
fn parse<'a>(args: Args<'a>, now_ms: u64) -> Result<(Vec<StreamId>, Claim<'a>, StreamId), Failure> {
    let idle_min_ms = number(args.at(4), "min-idle-time")?.max(0);
    let ids: Vec<StreamId> = args.from(5).map_while(|text| id::strict(text, 0).ok()).collect();
    let (mut delivered_ms, mut deliveries) = (-1, -1);
    let (mut force, mut only_ids, mut last) = (false, false, StreamId::MIN);
    let mut at = 5 + ids.len();
    while at < args.count() {
        let has_more = at + 1 < args.count();
        if args.is(at, "FORCE") {
            force = true;
        } else if args.is(at, "JUSTID") {
            only_ids = true;
        } else if has_more && args.is(at, "IDLE") {
            at += 1;
            delivered_ms = (now_ms as i64).wrapping_sub(number(args.at(at), "IDLE option")?);
        } else if has_more && args.is(at, "TIME") {
            at += 1;
            delivered_ms = number(args.at(at), "TIME option")?;
        } else if has_more && args.is(at, "RETRYCOUNT") {
            at += 1;
            deliveries = number(args.at(at), "RETRYCOUNT option")?;
        } else if has_more && args.is(at, "LASTID") {
            at += 1;
            last = id::strict(args.at(at), 0)?;
        } else {
            let option = String::from_utf8_lossy(args.at(at));
            return Err(format!("ERR Unrecognized XCLAIM option '{option}'").into());
        }
        at += 1;
    }
    // A time that cannot be is that of a client whose clock is another one.
    let delivered_ms = u64::try_from(delivered_ms).map_or(now_ms, |then_ms| then_ms.min(now_ms));
    let deliveries = u64::try_from(deliveries).ok();
    let (key, consumer) = (args.at(1), args.at(3));
    let claim =
        Claim { key, consumer, idle_min_ms, now_ms, delivered_ms, deliveries, force, only_ids };
    Ok((ids, claim, last))
}

/// Looks whether the stream and the group are there, and whether the consumer can be.
fn need_group(context: &mut Context<'_, '_>, args: Args<'_>) -> Outcome {
    if let Some(mut stream) = Stream::open(context.data, (context.session.db, args.at(1)))?
        && Group::find(&mut stream, args.at(2))?.is_some()
    {
        return check_name(args.at(3));
    }
    Err(no_group(args.at(1), args.at(2), ""))
}

pub(super) fn xclaim(context: &mut Context<'_, '_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    need_group(context, args)?;
    let (place, now_ms) = ((context.session.db, args.at(1)), context.data.now_ms());
    let (ids, claim, last) = parse(args, now_ms)?;
    let sent = Sent::new(context);
    let claimed = context.data.in_steps(0, |data| {
        let mut claimed = Claimed::new(sent);
        let Some(mut stream) = Stream::open(data, place)? else { return Ok(claimed) };
        let stream = &mut stream;
        let Some(mut group) = Group::find(stream, args.at(2))? else { return Ok(claimed) };
        if last > group.record().last {
            let read = group.record().read;
            group.set_last(last, read);
            claimed.sent.advance(place.1, &group);
        }
        for &id in &ids {
            let old = group.pending(stream, id)?;
            let is_there = stream.entry(id)?.is_some();
            match old {
                Some(old) if !is_there => {
                    claim.give_up(stream, &mut group, (id, old), &mut claimed)?;
                }
                None if !is_there || !claim.force => {}
                _ => claim.take(stream, &mut group, (id, old), &mut claimed)?,
            }
        }
        group.save(stream)?;
        Ok(claimed)
    })?;
    show_array(claimed.count, &claimed.reply, reply);
    claimed.sent.send(context);
    if claimed.is_added {
        notify(context, Classes::STREAM, "xgroup-createconsumer", place.1);
    }
    Ok(())
}

/// XAUTOCLAIM's options: how many, and whether ids only.
fn parse_auto(args: Args<'_>) -> Result<(u64, bool), Failure> {
    let (mut count, mut only_ids, mut at) = (100, false, 6);
    while at < args.count() {
        if args.is(at, "COUNT") && at + 1 < args.count() {
            at += 1;
            count = match parse_integer(args.at(at)) {
                Some(count @ 1..=COUNT_MAX) => count as u64,
                _ => return Err("ERR COUNT must be > 0".into()),
            };
        } else if args.is(at, "JUSTID") {
            only_ids = true;
        } else {
            return Err(SYNTAX.into());
        }
        at += 1;
    }
    Ok((count, only_ids))
}

/// Pending entries that are read together.
const READ_AT_ONCE: usize = 256;

/// Claims what is pending from an id on: the id to go on from, and the entries that are removed.
fn claim_from(
    stream: &mut Stream<'_, '_>,
    group: &mut Group,
    claim: &Claim<'_>,
    (from, count): (StreamId, u64),
    claimed: &mut Claimed,
) -> Result<(Option<StreamId>, Vec<StreamId>), Failure> {
    let (mut looks, mut left) = (count.saturating_mul(LOOKED_AT), count);
    let (mut removed, mut next) = (Vec::new(), Some(from));
    while let Some(from) = next {
        let mut read = Vec::new();
        group.visit_pending(
            stream,
            (from, StreamId::MAX),
            Direction::Forward,
            &mut |id, pending| {
                read.push((id, pending));
                read.len() <= READ_AT_ONCE
            },
        )?;
        let more = if read.len() > READ_AT_ONCE { read.pop().map(|(id, _)| id) } else { None };
        for (id, old) in read {
            if looks == 0 || left == 0 {
                return Ok((Some(id), removed));
            }
            looks -= 1;
            if stream.entry(id)?.is_none() {
                claim.give_up(stream, group, (id, old), claimed)?;
                removed.push(id);
                left -= 1;
                continue;
            }
            let before = claimed.count;
            claim.take(stream, group, (id, Some(old)), claimed)?;
            left -= (claimed.count - before) as u64;
        }
        next = more;
    }
    Ok((None, removed))
}

pub(super) fn xautoclaim(
    context: &mut Context<'_, '_>,
    args: Args<'_>,
    reply: &mut Reply,
) -> Outcome {
    let idle_min_ms = match parse_integer(args.at(4)) {
        Some(ms) => ms.max(0),
        None => return Err("ERR Invalid min-idle-time argument for XAUTOCLAIM".into()),
    };
    let from = id::from(args.at(5))?;
    let (count, only_ids) = parse_auto(args)?;
    need_group(context, args)?;
    let (place, now_ms) = ((context.session.db, args.at(1)), context.data.now_ms());
    let (key, consumer, delivered_ms) = (args.at(1), args.at(3), now_ms);
    let (deliveries, force) = (None, false);
    let claim =
        Claim { key, consumer, idle_min_ms, now_ms, delivered_ms, deliveries, force, only_ids };
    let sent = Sent::new(context);
    let (claimed, next, removed) = context.data.in_steps(0, |data| {
        let mut claimed = Claimed::new(sent);
        let Some(mut stream) = Stream::open(data, place)? else {
            return Ok((claimed, None, Vec::new()));
        };
        let stream = &mut stream;
        let Some(mut group) = Group::find(stream, args.at(2))? else {
            return Ok((claimed, None, Vec::new()));
        };
        let (next, removed) = claim_from(stream, &mut group, &claim, (from, count), &mut claimed)?;
        group.save(stream)?;
        Ok((claimed, next, removed))
    })?;
    reply.array(3);
    show_id(next.unwrap_or_default(), reply);
    show_array(claimed.count, &claimed.reply, reply);
    reply.array(removed.len());
    removed.iter().for_each(|&id| show_id(id, reply));
    claimed.sent.send(context);
    if claimed.is_added {
        notify(context, Classes::STREAM, "xgroup-createconsumer", place.1);
    }
    Ok(())
}
