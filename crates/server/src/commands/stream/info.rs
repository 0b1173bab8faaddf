//! XINFO.

use tembo_kv::Direction;

use crate::args::Args;
use crate::collection::{Consumer, Group, Pending, Stream};
use crate::command::Context;
use crate::commands::argument::integer;
use crate::commands::help::help_lines;
use crate::commands::stream::shown::{
    elements, no_group_of, show_array, show_entry, show_id, wrong_subcommand,
};
use crate::failure::{Failure, NO_SUCH_KEY, Outcome};
use crate::format::StreamId;
use crate::reply::Reply;

const ALL: (StreamId, StreamId) = (StreamId::MIN, StreamId::MAX);
/// So many entries, and pending ones, are shown unless asked for otherwise.
const FULL_COUNT: u64 = 10;

fn field(name: &str, number: u64, reply: &mut Reply) {
    reply.bulk(name.as_bytes());
    reply.integer(number as i64);
}

fn id_field(name: &str, id: StreamId, reply: &mut Reply) {
    reply.bulk(name.as_bytes());
    show_id(id, reply);
}

fn optional_field(name: &str, number: Option<i64>, reply: &mut Reply) {
    reply.bulk(name.as_bytes());
    match number {
        Some(number) => reply.integer(number),
        None => reply.null(),
    }
}

pub(super) fn consumers(
    context: &mut Context<'_, '_>,
    args: Args<'_>,
    reply: &mut Reply,
) -> Outcome {
    let (key, now_ms) = (args.at(2), context.data.now_ms());
    let mut stream = Stream::open(context.data, (context.session.db, key))?.ok_or(NO_SUCH_KEY)?;
    let group = Group::find(&mut stream, args.at(3))?;
    let mut group = group.ok_or_else(|| no_group_of(key, args.at(3)))?;
    let consumers = group.all_consumers(&mut stream)?;
    reply.array(consumers.len());
    for (_, Consumer { name, record, .. }) in consumers {
        reply.map(3);
        reply.bulk(b"name");
        reply.bulk(&name);
        field("pending", record.pending, reply);
        field("idle", now_ms.saturating_sub(record.seen_ms), reply);
    }
    Ok(())
}

pub(super) fn groups(context: &mut Context<'_, '_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    let place = (context.session.db, args.at(2));
    let mut stream = Stream::open(context.data, place)?.ok_or(NO_SUCH_KEY)?;
    let groups = Group::all(&mut stream)?;
    reply.array(groups.len());
    for group in groups {
        let record = group.record();
        reply.map(6);
        reply.bulk(b"name");
        reply.bulk(group.name());
        field("consumers", record.consumers, reply);
        field("pending", record.pending, reply);
        id_field("last-delivered-id", record.last, reply);
        optional_field("entries-read", record.read.map(|read| read as i64), reply);
        optional_field("lag", group.lag(&stream), reply);
    }
    Ok(())
}

/// The options of XINFO STREAM: how many entries and pending ones are shown, 0: all; `None`: the shorter form.
fn parse(args: Args<'_>) -> Result<Option<u64>, Failure> {
    let wrong = || wrong_subcommand("XINFO", args.at(1));
    match args.count() {
        3 => Ok(None),
        4 | 6 if !args.is(3, "FULL") => Err(wrong()),
        4 => Ok(Some(FULL_COUNT)),
        6 if args.is(4, "COUNT") => {
            Ok(Some(u64::try_from(integer(args.at(5))?).unwrap_or(FULL_COUNT)))
        }
        _ => Err(wrong()),
    }
}

pub(super) fn stream(context: &mut Context<'_, '_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    let (place, block) = ((context.session.db, args.at(2)), context.shared.settings.stream_block);
    let mut stream = Stream::open(context.data, place)?.ok_or(NO_SUCH_KEY)?;
    let full = parse(args)?;
    let head = *stream.head();
    // What Redis would have.
    let nodes = if block == 0 { head.count.min(1) } else { head.count.div_ceil(block) };
    reply.map(if full.is_some() { 9 } else { 10 });
    field("length", head.count, reply);
    field("radix-tree-keys", nodes, reply);
    field("radix-tree-nodes", nodes + 1, reply);
    id_field("last-generated-id", head.last, reply);
    id_field("max-deleted-entry-id", head.removed_max, reply);
    field("entries-added", head.added, reply);
    id_field("recorded-first-entry-id", head.first, reply);
    if let Some(limit) = full {
        return show_full(&mut stream, limit, reply);
    }
    field("groups", head.groups, reply);
    for (name, direction) in
        [("first-entry", Direction::Forward), ("last-entry", Direction::Backward)]
    {
        reply.bulk(name.as_bytes());
        let mut is_there = false;
        stream.visit(ALL, direction, &mut |id, value| {
            show_entry(id, value, reply);
            is_there = true;
            false
        })?;
        if !is_there {
            reply.null();
        }
    }
    Ok(())
}

fn show_full(stream: &mut Stream<'_, '_>, limit: u64, reply: &mut Reply) -> Outcome {
    let (mut found, mut count) = (elements(false), 0);
    stream.visit(ALL, Direction::Forward, &mut |id, value| {
        show_entry(id, value, &mut found);
        count += 1;
        count != limit
    })?;
    reply.bulk(b"entries");
    show_array(count as usize, &found, reply);
    reply.bulk(b"groups");
    let groups = Group::all(stream)?;
    reply.array(groups.len());
    for mut group in groups {
        show_group(stream, &mut group, limit, reply)?;
    }
    Ok(())
}

fn show_group(
    stream: &mut Stream<'_, '_>,
    group: &mut Group,
    limit: u64,
    reply: &mut Reply,
) -> Outcome {
    let record = *group.record();
    reply.map(7);
    reply.bulk(b"name");
    reply.bulk(group.name());
    id_field("last-delivered-id", record.last, reply);
    optional_field("entries-read", record.read.map(|read| read as i64), reply);
    optional_field("lag", group.lag(stream), reply);
    field("pel-count", record.pending, reply);
    reply.bulk(b"pending");
    let mut pending: Vec<(StreamId, Pending)> = Vec::new();
    group.visit_pending(stream, ALL, Direction::Forward, &mut |id, one| {
        pending.push((id, one));
        pending.len() as u64 != limit
    })?;
    reply.array(pending.len());
    for (id, one) in pending {
        reply.array(4);
        show_id(id, reply);
        reply.bulk(&group.consumer_of(stream, one.consumer)?.name);
        reply.integer(one.delivered_ms as i64);
        reply.integer(one.deliveries as i64);
    }
    reply.bulk(b"consumers");
    let consumers = group.all_consumers(stream)?;
    reply.array(consumers.len());
    for (own, Consumer { name, record, .. }) in consumers {
        reply.map(4);
        reply.bulk(b"name");
        reply.bulk(&name);
        field("seen-time", record.seen_ms, reply);
        field("pel-count", record.pending, reply);
        reply.bulk(b"pending");
        show_owned(stream, group, own, limit, reply)?;
    }
    Ok(())
}

fn show_owned(
    stream: &mut Stream<'_, '_>,
    group: &Group,
    own: u64,
    limit: u64,
    reply: &mut Reply,
) -> Outcome {
    let mut ids = Vec::new();
    group.visit_owned(stream, own, StreamId::MIN, &mut |id| {
        ids.push(id);
        ids.len() as u64 != limit
    })?;
    reply.array(ids.len());
    for id in ids {
        let pending = group.pending(stream, id)?.unwrap_or_default();
        reply.array(3);
        show_id(id, reply);
        reply.integer(pending.delivered_ms as i64);
        reply.integer(pending.deliveries as i64);
    }
    Ok(())
}

pub(super) fn help(_: &mut Context<'_, '_>, _: Args<'_>, reply: &mut Reply) -> Outcome {
    let lines = [
        "CONSUMERS <key> <groupname>",
        "    Show consumers of <groupname>.",
        "GROUPS <key>",
        "    Show the stream consumer groups.",
        "STREAM <key> [FULL [COUNT <count>]",
        "    Show information about the stream.",
    ];
    help_lines(reply, "XINFO", &lines);
    Ok(())
}
