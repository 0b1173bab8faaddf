//! XGROUP, XACK.

use crate::args::Args;
use crate::collection::{Group, Stream};
use crate::command::Context;
use crate::commands::argument::integer;
use crate::commands::help::help_lines;
use crate::commands::stream::id;
use crate::commands::stream::shown::{no_group_of, wrong_subcommand};
use crate::dataset::Dataset;
use crate::event_class::Classes;
use crate::failure::{Failure, Outcome};
use crate::format::StreamId;
use crate::notify::notify;
use crate::reply::Reply;

/// A subcommand of XGROUP needs the key.
const NO_STREAM: &str = "ERR The XGROUP subcommand requires the key to exist. Note that for CREATE you may want to use \
                         the MKSTREAM option to create an empty stream automatically.";

/// The options of CREATE and SETID: whether a stream is made, and the entries read.
fn parse(args: Args<'_>, creates: bool) -> Result<(bool, Option<u64>), Failure> {
    let (mut makes_stream, mut read, mut at) = (false, None, 5);
    while at < args.count() {
        if creates && args.is(at, "MKSTREAM") {
            makes_stream = true;
            at += 1;
        } else if args.is(at, "ENTRIESREAD") && at + 1 < args.count() {
            read = match integer(args.at(at + 1))? {
                -1 => None,
                number => match u64::try_from(number) {
                    Ok(number) => Some(number),
                    Err(_) => {
                        return Err("ERR value for ENTRIESREAD must be positive or -1".into());
                    }
                },
            };
            at += 2;
        } else {
            return Err(wrong_subcommand("XGROUP", args.at(1)));
        }
    }
    Ok((makes_stream, read))
}

/// The last id of the stream under a key, if there is one; and whether it has that group.
fn look(
    context: &mut Context<'_, '_>,
    args: Args<'_>,
) -> Result<Option<(StreamId, bool)>, Failure> {
    let place = (context.session.db, args.at(2));
    let Some(mut stream) = Stream::open(context.data, place)? else { return Ok(None) };
    let has_group = Group::find(&mut stream, args.at(3))?.is_some();
    Ok(Some((stream.head().last, has_group)))
}

/// Changes a group that is there, in one step.
fn change<'s, T>(
    context: &mut Context<'_, 's>,
    place: (usize, &[u8]),
    name: &[u8],
    change: impl FnOnce(&mut Stream<'_, 's>, &mut Group) -> Result<T, Failure>,
) -> Result<T, Failure> {
    context.data.in_steps(0, |data: &mut Dataset<'s>| {
        let mut stream = Stream::open(data, place)?.ok_or(NO_STREAM)?;
        let group = Group::find(&mut stream, name)?;
        let mut group = group.ok_or_else(|| no_group_of(place.1, name))?;
        let changed = change(&mut stream, &mut group)?;
        group.save(&mut stream)?;
        stream.save()?;
        Ok(changed)
    })
}

pub(super) fn create(context: &mut Context<'_, '_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    let (makes_stream, read) = parse(args, true)?;
    let place = (context.session.db, args.at(2));
    let found = look(context, args)?;
    if found.is_none() && !makes_stream {
        return Err(NO_STREAM.into());
    }
    if args.count() > 8 {
        return Err(wrong_subcommand("XGROUP", args.at(1)));
    }
    let last = match args.at(4) {
        b"$" => found.map_or(StreamId::MIN, |(last, _)| last),
        text => id::strict(text, 0)?,
    };
    if found.is_some_and(|(_, has_group)| has_group) {
        return Err("BUSYGROUP Consumer Group name already exists".into());
    }
    context.data.atomically(0, |data| {
        let mut stream = Stream::open_or_create(data, place)?;
        Group::create(&mut stream, args.at(3), last, read)?;
        stream.save()
    })?;
    reply.ok();
    notify(context, Classes::STREAM, "xgroup-create", place.1);
    Ok(())
}

/// Looks whether the stream and the group are there.
fn need_group(context: &mut Context<'_, '_>, args: Args<'_>) -> Result<StreamId, Failure> {
    match look(context, args)? {
        None => Err(NO_STREAM.into()),
        Some((_, false)) => Err(no_group_of(args.at(2), args.at(3))),
        Some((last, true)) => Ok(last),
    }
}

pub(super) fn set_id(context: &mut Context<'_, '_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    let (_, read) = parse(args, false)?;
    let last = need_group(context, args)?;
    let id = match args.at(4) {
        b"$" => last,
        text => id::lenient(text, 0)?,
    };
    if args.count() != 5 && args.count() != 7 {
        return Err(wrong_subcommand("XGROUP", args.at(1)));
    }
    let place = (context.session.db, args.at(2));
    change(context, place, args.at(3), |_, group| {
        group.set_last(id, read);
        Ok(())
    })?;
    reply.ok();
    notify(context, Classes::STREAM, "xgroup-setid", place.1);
    Ok(())
}

pub(super) fn destroy(context: &mut Context<'_, '_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    let (_, has_group) = look(context, args)?.ok_or(NO_STREAM)?;
    if has_group {
        let place = (context.session.db, args.at(2));
        context.data.atomically(0, |data| {
            let Some(mut stream) = Stream::open(data, place)? else { return Ok(()) };
            if let Some(group) = Group::find(&mut stream, args.at(3))? {
                group.destroy(&mut stream)?;
            }
            stream.save()
        })?;
        notify(context, Classes::STREAM, "xgroup-destroy", place.1);
    }
    reply.flag(has_group);
    Ok(())
}

pub(super) fn create_consumer(
    context: &mut Context<'_, '_>,
    args: Args<'_>,
    reply: &mut Reply,
) -> Outcome {
    need_group(context, args)?;
    let (place, now_ms) = ((context.session.db, args.at(2)), context.data.now_ms());
    let is_added = change(context, place, args.at(3), |stream, group| {
        let is_there = group.consumer(stream, args.at(4))?.is_some();
        if !is_there {
            group.add_consumer(stream, args.at(4), now_ms)?;
        }
        Ok(!is_there)
    })?;
    if is_added {
        notify(context, Classes::STREAM, "xgroup-createconsumer", place.1);
    }
    reply.flag(is_added);
    Ok(())
}

pub(super) fn delete_consumer(
    context: &mut Context<'_, '_>,
    args: Args<'_>,
    reply: &mut Reply,
) -> Outcome {
    need_group(context, args)?;
    let place = (context.session.db, args.at(2));
    let removed = change(context, place, args.at(3), |stream, group| {
        match group.consumer(stream, args.at(4))? {
            Some(own) => group.remove_consumer(stream, own).map(Some),
            None => Ok(None),
        }
    })?;
    if removed.is_some() {
        notify(context, Classes::STREAM, "xgroup-delconsumer", place.1);
    }
    reply.integer(removed.unwrap_or(0) as i64);
    Ok(())
}

pub(super) fn help(_: &mut Context<'_, '_>, _: Args<'_>, reply: &mut Reply) -> Outcome {
    let lines = [
        "CREATE <key> <groupname> <id|$> [option]",
        "    Create a new consumer group. Options are:",
        "    * MKSTREAM",
        "      Create the empty stream if it does not exist.",
        "    * ENTRIESREAD entries_read",
        "      Set the group's entries_read counter (internal use).",
        "CREATECONSUMER <key> <groupname> <consumer>",
        "    Create a new consumer in the specified group.",
        "DELCONSUMER <key> <groupname> <consumer>",
        "    Remove the specified consumer.",
        "DESTROY <key> <groupname>",
        "    Remove the specified group.",
        "SETID <key> <groupname> <id|$> [ENTRIESREAD entries_read]",
        "    Set the current group ID and entries_read counter.",
    ];
    help_lines(reply, "XGROUP", &lines);
    Ok(())
}

pub(super) fn xack(context: &mut Context<'_, '_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    let place = (context.session.db, args.at(1));
    let is_there = match Stream::open(context.data, place)? {
        Some(mut stream) => Group::find(&mut stream, args.at(2))?.is_some(),
        None => false,
    };
    if !is_there {
        reply.integer(0);
        return Ok(());
    }
    let ids = args.from(3).map(|text| id::strict(text, 0)).collect::<Result<Vec<_>, _>>()?;
    let mut acknowledged = 0;
    context.data.in_steps(0, |data| {
        let Some(mut stream) = Stream::open(data, place)? else { return Ok(()) };
        let Some(mut group) = Group::find(&mut stream, args.at(2))? else { return Ok(()) };
        for &id in &ids {
            if let Some(pending) = group.pending(&mut stream, id)? {
                group.remove_pending(&mut stream, id, pending)?;
                acknowledged += 1;
            }
        }
        if acknowledged > 0 { group.save(&mut stream) } else { Ok(()) }
    })?;
    reply.integer(acknowledged);
    Ok(())
}
