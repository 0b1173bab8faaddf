//! XADD, XTRIM, XDEL, XSETID.

use crate::args::Args;
use crate::collection::{Stream, Trim, Trimmed};
use crate::command::Context;
use crate::commands::argument::{integer, wrong_arity};
use crate::commands::stream::id;
use crate::commands::stream::sent::send_added;
use crate::commands::stream::shown::show_id;
use crate::event_class::Classes;
use crate::failure::{Failure, NO_SUCH_KEY, Outcome, SYNTAX};
use crate::format::{PAYLOAD_SIZE_MAX, StreamHead, StreamId, push_entry};
use crate::notify::notify;
use crate::reply::Reply;

/// An inexact trim without LIMIT removes so many blocks at most, and so many entries.
const LIMIT: (u64, u64) = (100, 1_000_000);

/// The id that XADD is to give.
#[derive(Clone, Copy)]
enum Wanted {
    /// `*`
    Any,
    /// `ms-*`
    At(u64),
    /// `ms-seq`
    Exactly(StreamId),
}

/// The options of XADD and XTRIM.
struct Options {
    trim: Option<(Trim, Trimmed)>,
    only_present: bool,
    wanted: Wanted,
    /// The first argument behind the id.
    next: usize,
}

impl Options {
    /// Of XADD, up to the id.
    fn parse(context: &Context<'_, '_>, args: Args<'_>, adds: bool) -> Result<Options, Failure> {
        let (mut trim, mut is_exact, mut limit) = (None, true, None);
        let (mut only_present, mut wanted) = (false, Wanted::Any);
        let mut at = 2;
        while at < args.count() {
            let left = args.count() - 1 - at;
            if adds && args.at(at) == b"*" {
                break;
            } else if left > 0 && (args.is(at, "MAXLEN") || args.is(at, "MINID")) {
                if trim.is_some() {
                    return Err(
                        "ERR syntax error, MAXLEN and MINID options at the same time are not compatible"
                            .into(),
                    );
                }
                let is_length = args.is(at, "MAXLEN");
                let sign = if left > 1 { args.at(at + 1) } else { b"" };
                is_exact = sign != b"~";
                at += if sign == b"~" || sign == b"=" { 2 } else { 1 };
                trim = Some(if is_length {
                    Trim::Length(not_negative(args.at(at), "MAXLEN")?)
                } else {
                    Trim::Id(id::strict(args.at(at), 0)?)
                });
            } else if left > 0 && args.is(at, "LIMIT") {
                at += 1;
                limit = Some(not_negative(args.at(at), "LIMIT")?);
            } else if adds && args.is(at, "NOMKSTREAM") {
                only_present = true;
            } else if adds {
                wanted = match id::to_add(args.at(at))? {
                    (ms, Some(seq)) => Wanted::Exactly(StreamId { ms, seq }),
                    (ms, None) => Wanted::At(ms),
                };
                break;
            } else {
                return Err(SYNTAX.into());
            }
            at += 1;
        }
        if limit.is_some_and(|limit| limit > 0) && trim.is_none() {
            return Err(
                "ERR syntax error, LIMIT cannot be used without specifying a trimming strategy"
                    .into(),
            );
        }
        if !adds && trim.is_none() {
            return Err("ERR syntax error, XTRIM must be called with a trimming strategy".into());
        }
        if limit.is_some() && is_exact {
            return Err(
                "ERR syntax error, LIMIT cannot be used without the special ~ option".into()
            );
        }
        let block = context.shared.settings.stream_block;
        let how = if is_exact {
            Trimmed::Exactly
        } else {
            let unless_given = match block.saturating_mul(LIMIT.0) {
                0 => 10_000,
                limit => limit.min(LIMIT.1),
            };
            Trimmed::InBlocks(block, limit.unwrap_or(unless_given))
        };
        Ok(Options { trim: trim.map(|trim| (trim, how)), only_present, wanted, next: at + 1 })
    }
}

impl Options {
    /// Whether more may be left than is asked for.
    fn is_inexact(&self) -> bool {
        self.trim.is_some_and(|(_, how)| how != Trimmed::Exactly)
    }
}

fn not_negative(text: &[u8], name: &str) -> Result<u64, Failure> {
    let number = integer(text)?;
    u64::try_from(number).map_err(|_| format!("ERR The {name} argument must be >= 0.").into())
}

impl Wanted {
    /// The id of an entry that is added to a stream; `None`: it is not behind the last one.
    fn id(self, last: StreamId, now_ms: u64) -> Option<StreamId> {
        let id = match self {
            Wanted::Any if now_ms > last.ms => StreamId { ms: now_ms, seq: 0 },
            Wanted::Any => last.next()?,
            Wanted::At(ms) if ms == last.ms => StreamId { ms, seq: last.seq.checked_add(1)? },
            Wanted::At(ms) => StreamId { ms, seq: 0 },
            Wanted::Exactly(id) => id,
        };
        (id > last).then_some(id)
    }
}

pub(super) fn xadd(context: &mut Context<'_, '_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    let options = Options::parse(context, args, true)?;
    let fields = args.count().saturating_sub(options.next);
    if fields < 2 || fields % 2 == 1 {
        return Err(wrong_arity("xadd"));
    }
    if matches!(options.wanted, Wanted::Exactly(StreamId::MIN)) {
        return Err("ERR The ID specified in XADD must be greater than 0-0".into());
    }
    let place = (context.session.db, args.at(1));
    let found = Stream::open(context.data, place)?.map(|stream| stream.head().last);
    if found.is_none() && options.only_present {
        reply.null();
        return Ok(());
    }
    let last = found.unwrap_or_default();
    if last == StreamId::MAX {
        return Err(
            "ERR The stream has exhausted the last possible ID, unable to add more items".into()
        );
    }
    let now_ms = context.data.now_ms();
    let id = options.wanted.id(last, now_ms).ok_or(
        "ERR The ID specified in XADD is equal or smaller than the target stream top item",
    )?;
    let size = args.from(options.next).map(<[u8]>::len).sum::<usize>();
    if size > PAYLOAD_SIZE_MAX {
        return Err("ERR Elements are too large to be stored".into());
    }
    let mut packed = Vec::with_capacity(size + 2 * fields);
    args.from(options.next).for_each(|entry| push_entry(&mut packed, entry));
    let add = |data: &mut _| {
        let mut stream = Stream::open_or_create(data, place)?;
        stream.append(id, &packed)?;
        let trimmed = match options.trim {
            Some((trim, how)) => stream.trim(trim, how)?,
            None => 0,
        };
        let head = *stream.head();
        stream.save()?;
        Ok((trimmed, head))
    };
    let (trimmed, head) = context.data.in_steps(size, add)?;
    send_added(context, (args, options.next), Some(id), (options.is_inexact(), &head));
    show_id(id, reply);
    notify(context, Classes::STREAM, "xadd", place.1);
    if trimmed > 0 {
        notify(context, Classes::STREAM, "xtrim", place.1);
    }
    Ok(())
}

pub(super) fn xtrim(context: &mut Context<'_, '_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    let options = Options::parse(context, args, false)?;
    let place = (context.session.db, args.at(1));
    let mut trimmed = 0;
    let mut head = StreamHead::default();
    if let Some((trim, how)) = options.trim
        && Stream::open(context.data, place)?.is_some()
    {
        (trimmed, head) = context.data.in_steps(0, |data| {
            let Some(mut stream) = Stream::open(data, place)? else { return Ok((0, head)) };
            let trimmed = stream.trim(trim, how)?;
            let head = *stream.head();
            stream.save()?;
            Ok((trimmed, head))
        })?;
    }
    if trimmed > 0 {
        send_added(context, (args, args.count()), None, (options.is_inexact(), &head));
        notify(context, Classes::STREAM, "xtrim", place.1);
    }
    reply.integer(trimmed as i64);
    Ok(())
}

pub(super) fn xdel(context: &mut Context<'_, '_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    let place = (context.session.db, args.at(1));
    if Stream::open(context.data, place)?.is_none() {
        reply.integer(0);
        return Ok(());
    }
    let ids = args.from(2).map(|text| id::strict(text, 0)).collect::<Result<Vec<_>, _>>()?;
    let removed = context.data.in_steps(0, |data| {
        let Some(mut stream) = Stream::open(data, place)? else { return Ok(0) };
        let removed = stream.remove(&ids)?;
        stream.save()?;
        Ok(removed)
    })?;
    if removed > 0 {
        notify(context, Classes::STREAM, "xdel", place.1);
    }
    reply.integer(removed as i64);
    Ok(())
}

/// XSETID's options: entries that were ever added, and the greatest id that was removed.
fn parse_set(args: Args<'_>, id: StreamId) -> Result<(Option<u64>, StreamId), Failure> {
    let (mut added, mut removed_max) = (None, StreamId::MIN);
    let mut at = 3;
    while at < args.count() {
        if at + 1 < args.count() && args.is(at, "ENTRIESADDED") {
            let number = integer(args.at(at + 1))?;
            added = Some(u64::try_from(number).map_err(|_| "ERR entries_added must be positive")?);
        } else if at + 1 < args.count() && args.is(at, "MAXDELETEDID") {
            removed_max = id::strict(args.at(at + 1), 0)?;
            if id < removed_max {
                return Err(
                    "ERR The ID specified in XSETID is smaller than the provided max_deleted_entry_id"
                        .into(),
                );
            }
        } else {
            return Err(SYNTAX.into());
        }
        at += 2;
    }
    Ok((added, removed_max))
}

pub(super) fn xsetid(context: &mut Context<'_, '_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    let id = id::strict(args.at(2), 0)?;
    let (added, removed_max) = parse_set(args, id)?;
    let place = (context.session.db, args.at(1));
    let mut stream = Stream::open(context.data, place)?.ok_or(NO_SUCH_KEY)?;
    let &StreamHead { count, .. } = stream.head();
    if stream.last_there()?.is_some_and(|last| id < last) {
        return Err(
            "ERR The ID specified in XSETID is smaller than the target stream top item".into()
        );
    }
    if count > 0 && added.is_some_and(|added| count > added) {
        return Err(
            "ERR The entries_added specified in XSETID is smaller than the target stream length"
                .into(),
        );
    }
    let head = stream.change_head();
    head.last = id;
    head.added = added.unwrap_or(head.added);
    if removed_max != StreamId::MIN {
        head.removed_max = removed_max;
    }
    stream.save()?;
    reply.ok();
    notify(context, Classes::STREAM, "xsetid", place.1);
    Ok(())
}
