//! Keys of any type: DEL, EXISTS, TYPE, RENAME, COPY, MOVE, OBJECT.

use crate::args::Args;
use crate::command::{Command, Context, DENY_OOM, FAST, READ, WRITE};
use crate::commands::argument::database;
use crate::commands::help::help_lines;
use crate::dataset::Dataset;
use crate::event_class::Classes;
use crate::eviction::Rank;
use crate::failure::{Failure, NO_SUCH_KEY, Outcome, SYNTAX};
use crate::format::{Kind, Spread, Value};
use crate::notify::{notify, notify_in};
use crate::number::{DIGITS_MAX, parse_integer};
use crate::reply::Reply;

/// The family.
pub(super) const COMMANDS: &[Command] = &[
    Command::keyed("del", -2, WRITE, (1, -1, 1), del),
    Command::keyed("unlink", -2, WRITE | FAST, (1, -1, 1), del),
    Command::keyed("exists", -2, READ | FAST, (1, -1, 1), exists),
    Command::keyed("touch", -2, READ | FAST, (1, -1, 1), exists),
    Command::keyed("type", 2, READ | FAST, (1, 1, 1), type_of),
    Command::keyed("rename", 3, WRITE, (1, 2, 1), rename),
    Command::keyed("renamenx", 3, WRITE | FAST, (1, 2, 1), renamenx),
    Command::keyed("copy", -3, WRITE | DENY_OOM, (1, 2, 1), copy),
    Command::keyed("move", 3, WRITE | FAST, (1, 1, 1), move_to),
    Command::container("object", 0, OBJECT),
];

const OBJECT: &[Command] = &[
    Command::sub("object|encoding", "encoding", 3, READ, encoding),
    Command::sub("object|refcount", "refcount", 3, READ, refcount),
    Command::sub("object|idletime", "idletime", 3, READ, idletime),
    Command::sub("object|freq", "freq", 3, READ, freq),
    Command::sub("object|help", "help", 2, 0, object_help),
];

fn del(context: &mut Context<'_, '_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    let (db, data) = (context.session.db, &mut *context.data);
    let is_published = context.shared.settings.notified.has(Classes::GENERIC);
    let mut removed = Vec::new();
    let mut count = 0;
    let mut remove = |data: &mut Dataset<'_>, key| {
        let was_there = data.remove(db, key)?;
        if was_there && is_published {
            removed.push(key);
        }
        count += i64::from(was_there);
        Ok(())
    };
    if args.count() == 2 {
        remove(data, args.at(1))?;
    } else {
        data.all_or_nothing(|data| data.each_key(db, args.from(1), remove))?;
    }
    for key in removed {
        notify(context, Classes::GENERIC, "del", key);
    }
    reply.integer(count);
    Ok(())
}

fn exists(context: &mut Context<'_, '_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    let (db, mut count) = (context.session.db, 0);
    context.data.each_key(db, args.from(1), |data, key| {
        count += i64::from(data.contains(db, key)?);
        Ok(())
    })?;
    reply.integer(count);
    Ok(())
}

fn type_of(context: &mut Context<'_, '_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    let found = context.data.find(context.session.db, args.at(1))?;
    reply.simple(found.map_or("none", |value| value.of.kind.name()));
    Ok(())
}

/// Where a value goes, and what happens to what was there and to the value's old place.
struct Transfer<'a> {
    from: (usize, &'a [u8]),
    to: (usize, &'a [u8]),
    replace: bool,
    keep_source: bool,
}

impl Transfer<'_> {
    /// Publishes that the value has moved.
    fn publish(&self, context: &mut Context<'_, '_>, from: &str, to: &str) {
        if self.from != self.to {
            notify_in(context, Classes::GENERIC, from, self.from);
            notify_in(context, Classes::GENERIC, to, self.to);
        }
    }

    /// None if there is no source, false if the destination is taken.
    fn perform(&self, context: &mut Context<'_, '_>) -> Result<Option<bool>, Failure> {
        let Some(value) = context.data.find(self.from.0, self.from.1)? else {
            return Ok(None);
        };
        let (of, expiry_ms, spread) = (value.of, value.expiry_ms, value.spread()?);
        let mut payload = value.payload.to_vec();
        if self.from == self.to {
            return Ok(Some(self.replace));
        }
        if !self.replace && context.data.contains(self.to.0, self.to.1)? {
            return Ok(Some(false));
        }
        context.data.added.record(self.to);
        if self.keep_source && spread.is_none() {
            context.data.put_value(self.to, of, &payload, expiry_ms)?;
            return Ok(Some(true));
        }
        let stays_in_database = self.from.0 == self.to.0;
        context.data.atomically(payload.len(), |data| {
            let keeps_elements = stays_in_database && !self.keep_source;
            match spread {
                Some(spread) if !keeps_elements => {
                    let id = data.new_id(self.to.0)?;
                    data.copy_elements((self.from.0, spread.id), (self.to.0, id))?;
                    Spread::set_id(&mut payload, id);
                    data.put_value(self.to, of, &payload, expiry_ms)?;
                }
                _ => data.put_value(self.to, of, &payload, expiry_ms)?,
            }
            if !self.keep_source {
                data.remove_value(self.from, keeps_elements)?;
            }
            Ok(())
        })?;
        Ok(Some(true))
    }
}

fn rename(context: &mut Context<'_, '_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    let db = context.session.db;
    let (from, to) = ((db, args.at(1)), (db, args.at(2)));
    let transfer = Transfer { from, to, replace: true, keep_source: false };
    transfer.perform(context)?.ok_or(NO_SUCH_KEY)?;
    transfer.publish(context, "rename_from", "rename_to");
    reply.ok();
    Ok(())
}

fn renamenx(context: &mut Context<'_, '_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    let db = context.session.db;
    let (from, to) = ((db, args.at(1)), (db, args.at(2)));
    let transfer = Transfer { from, to, replace: false, keep_source: false };
    let is_done = transfer.perform(context)?.ok_or(NO_SUCH_KEY)?;
    if is_done {
        transfer.publish(context, "rename_from", "rename_to");
    }
    reply.flag(is_done);
    Ok(())
}

fn copy(context: &mut Context<'_, '_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    let db = context.session.db;
    let (from, mut to) = ((db, args.at(1)), (db, args.at(2)));
    let mut replace = false;
    let mut at = 3;
    while at < args.count() {
        if args.is(at, "REPLACE") {
            replace = true;
        } else if args.is(at, "DB") && at + 1 < args.count() {
            at += 1;
            to.0 = database(context, args.at(at))?;
        } else {
            return Err(SYNTAX.into());
        }
        at += 1;
    }
    if from == to {
        return Err("ERR source and destination objects are the same".into());
    }
    let transfer = Transfer { from, to, replace, keep_source: true };
    let is_done = transfer.perform(context)?.unwrap_or(false);
    if is_done {
        notify_in(context, Classes::GENERIC, "copy_to", to);
    }
    reply.flag(is_done);
    Ok(())
}

fn move_to(context: &mut Context<'_, '_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    let (db, key) = (context.session.db, args.at(1));
    let to = database(context, args.at(2))?;
    if to == db {
        return Err("ERR source and destination objects are the same".into());
    }
    let transfer = Transfer { from: (db, key), to: (to, key), replace: false, keep_source: false };
    let is_done = transfer.perform(context)?.unwrap_or(false);
    if is_done {
        transfer.publish(context, "move_from", "move_to");
    }
    reply.flag(is_done);
    Ok(())
}

fn encoding(context: &mut Context<'_, '_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    match context.data.find(context.session.db, args.at(2))? {
        Some(value) => reply.bulk(encoding_of(&value).as_bytes()),
        None => reply.null(),
    }
    Ok(())
}

/// The encoding that Redis would have for a value.
pub(super) fn encoding_of(value: &Value<'_>) -> &'static str {
    let (of, payload) = (value.of, value.payload);
    match (of.kind, of.is_wide) {
        (Kind::String, _) if of.is_spread => "raw",
        (Kind::String, _)
            if payload.len() <= DIGITS_MAX && payload.with(parse_integer).is_some() =>
        {
            "int"
        }
        (Kind::String, _) if payload.len() <= 44 => "embstr",
        (Kind::String, _) => "raw",
        (Kind::List, _) => "quicklist",
        (Kind::Stream, _) => "stream",
        (Kind::Set, false) => "intset",
        (Kind::SortedSet, true) => "skiplist",
        (_, false) => "listpack",
        (_, true) => "hashtable",
    }
}

fn refcount(context: &mut Context<'_, '_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    // Redis has one object for each of these numbers, but where it notes the uses of each key.
    const SHARED: std::ops::Range<i64> = 0..10_000;
    let settings = &context.shared.settings;
    let notes_uses = settings.maxmemory > 0
        && settings
            .eviction
            .is_some_and(|policy| matches!(policy.rank, Rank::LeastRecent | Rank::LeastFrequent));
    match context.data.find(context.session.db, args.at(2))? {
        None => reply.null(),
        Some(value) => {
            let is_text = value.of.kind == Kind::String && !value.of.is_spread;
            let is_short = is_text && value.payload.len() <= DIGITS_MAX;
            let number = is_short.then(|| value.payload.with(parse_integer)).flatten();
            let is_shared = !notes_uses && number.is_some_and(|number| SHARED.contains(&number));
            reply.integer(if is_shared { i64::from(i32::MAX) } else { 1 });
        }
    }
    Ok(())
}

fn idletime(context: &mut Context<'_, '_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    let is_there = context.data.contains(context.session.db, args.at(2))?;
    if is_there && counts_uses(context) {
        return Err("ERR An LFU maxmemory policy is selected, idle time not tracked. Please note that \
                    when switching between policies at runtime LRU and LFU data will take some time \
                    to adjust."
            .into());
    }
    let usage = context.shared.usage((context.session.db, args.at(2)));
    // It is noted from here on, also where no policy asks for it.
    context.shared.notes_usage = true;
    number_if_there(context, args, reply, (usage.idle_ms / 1000) as i64)
}

/// Whether the keys that are used least often are evicted first.
fn counts_uses(context: &Context<'_, '_>) -> bool {
    let policy = context.shared.settings.eviction;
    policy.is_some_and(|policy| policy.rank == Rank::LeastFrequent)
}

fn number_if_there(
    context: &mut Context<'_, '_>,
    args: Args<'_>,
    reply: &mut Reply,
    number: i64,
) -> Outcome {
    if context.data.contains(context.session.db, args.at(2))? {
        reply.integer(number);
    } else {
        reply.null();
    }
    Ok(())
}

fn freq(context: &mut Context<'_, '_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    let is_there = context.data.contains(context.session.db, args.at(2))?;
    if is_there && counts_uses(context) {
        let usage = context.shared.usage((context.session.db, args.at(2)));
        context.shared.notes_usage = true;
        reply.integer(i64::from(usage.count));
        return Ok(());
    }
    if is_there {
        return Err(
            "ERR An LFU maxmemory policy is not selected, access frequency not tracked. Please note \
             that when switching between policies at runtime LRU and LFU data will take some time to \
             adjust."
                .into(),
        );
    }
    reply.null();
    Ok(())
}

fn object_help(_: &mut Context<'_, '_>, _: Args<'_>, reply: &mut Reply) -> Outcome {
    let lines = [
        "ENCODING <key>",
        "    Return the kind of internal representation used in order to store the value",
        "    associated with a <key>.",
        "FREQ <key>",
        "    Return the access frequency index of the <key>. The returned integer is",
        "    proportional to the logarithm of the recent access frequency of the key.",
        "IDLETIME <key>",
        "    Return the idle time of the <key>, that is the approximated number of",
        "    seconds elapsed since the last access to the key.",
        "REFCOUNT <key>",
        "    Return the number of references of the value associated with the specified",
        "    <key>.",
    ];
    help_lines(reply, "OBJECT", &lines);
    Ok(())
}
