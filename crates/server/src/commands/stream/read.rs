//! XREAD, XREADGROUP: entries behind an id, or yet to be delivered to a group; and waiting for them.

use tembo_kv::Direction;

use crate::args::{Args, Kept};
use crate::collection::{Group, Pending, Stream};
use crate::command::Context;
use crate::commands::argument::integer;
use crate::commands::stream::id;
use crate::commands::stream::sent::Sent;
use crate::commands::stream::shown::{
    elements, id_text, no_group, show_array, show_entry, show_id,
};
use crate::commands::wait::{keys_to_try, wait_with};
use crate::dataset::Dataset;
use crate::event_class::Classes;
use crate::failure::{Failure, Outcome, SYNTAX};
use crate::format::{Kind, StreamId};
use crate::notify::notify;
use crate::number::parse_integer;
use crate::reply::Reply;

/// A client that has waited, and named no number, gets so many entries at most.
const COUNT_AFTER_WAIT: usize = 1000;

/// The arguments of XREAD and XREADGROUP.
struct Request<'a> {
    /// Milliseconds to wait, 0: without end; `None`: it does not wait.
    block_ms: Option<u64>,
    /// Entries of a stream at most.
    limit: usize,
    /// The names of the group and the consumer.
    group: Option<(&'a [u8], &'a [u8])>,
    /// What is delivered does not become pending.
    no_ack: bool,
    keys: Vec<&'a [u8]>,
    ids: Vec<&'a [u8]>,
    /// The first of the arguments that are ids.
    ids_at: usize,
}

/// Which entries of a stream are asked for.
#[derive(Clone, Copy)]
enum From {
    /// Those behind an id; for a group, pending ones of the consumer.
    Behind(StreamId),
    /// Those not yet delivered to the group.
    New,
}

impl<'a> Request<'a> {
    fn parse(args: Args<'a>, (for_group, by_script): (bool, bool)) -> Result<Request<'a>, Failure> {
        let mut request = Request {
            block_ms: None,
            limit: usize::MAX,
            group: None,
            no_ack: false,
            keys: Vec::new(),
            ids: Vec::new(),
            ids_at: 0,
        };
        let mut at = 1;
        while at < args.count() && request.ids_at == 0 {
            let left = args.count() - 1 - at;
            if left > 0 && args.is(at, "BLOCK") {
                if by_script {
                    let name = String::from_utf8_lossy(args.at(0));
                    let text = "command is not allowed with BLOCK option from scripts";
                    return Err(format!("ERR {name} {text}").into());
                }
                at += 1;
                request.block_ms = Some(parse_block(args.at(at))?);
            } else if left > 0 && args.is(at, "COUNT") {
                at += 1;
                request.limit = match integer(args.at(at))? {
                    ..=0 => usize::MAX,
                    limit => limit as usize,
                };
            } else if left > 0 && args.is(at, "STREAMS") {
                if left % 2 == 1 {
                    return Err(
                        "ERR Unbalanced XREAD list of streams: for each stream key an ID or '$' must be specified."
                            .into(),
                    );
                }
                request.ids_at = at + 1 + left / 2;
                request.keys = args.from(at + 1).take(left / 2).collect();
                request.ids = args.from(request.ids_at).collect();
            } else if left > 1 && args.is(at, "GROUP") {
                if !for_group {
                    return Err(only_for_group("GROUP"));
                }
                request.group = Some((args.at(at + 1), args.at(at + 2)));
                at += 2;
            } else if args.is(at, "NOACK") {
                if !for_group {
                    return Err(only_for_group("NOACK"));
                }
                request.no_ack = true;
            } else {
                return Err(SYNTAX.into());
            }
            at += 1;
        }
        if request.ids_at == 0 {
            return Err(SYNTAX.into());
        }
        if for_group && request.group.is_none() {
            return Err("ERR Missing GROUP option for XREADGROUP".into());
        }
        Ok(request)
    }

    /// Which entries are asked for, by stream. All streams and groups are looked at.
    fn resolve(&self, context: &mut Context<'_, '_>) -> Result<Vec<From>, Failure> {
        let db = context.session.db;
        let mut resolved = Vec::with_capacity(self.ids.len());
        for (&key, &text) in self.keys.iter().zip(&self.ids) {
            let mut stream = Stream::open(context.data, (db, key))?;
            if let Some((name, _)) = self.group {
                let is_there = match &mut stream {
                    Some(stream) => Group::find(stream, name)?.is_some(),
                    None => false,
                };
                if !is_there && context.session.served.is_some() {
                    return Err(
                        "NOGROUP the consumer group this client was blocked on no longer exists"
                            .into(),
                    );
                }
                if !is_there {
                    return Err(no_group(key, name, " in XREADGROUP with GROUP option"));
                }
            }
            resolved.push(match (text, self.group) {
                (b"$", None) => {
                    From::Behind(stream.map_or(StreamId::MIN, |stream| stream.head().last))
                }
                (b"$", Some(_)) => {
                    return Err(
                        "ERR The $ ID is meaningless in the context of XREADGROUP: you want to read the \
                         history of this consumer by specifying a proper ID, or use the > ID to get new \
                         messages. The $ ID would just return an empty result set."
                            .into(),
                    );
                }
                (b">", None) => {
                    return Err(
                        "ERR The > ID can be specified only when calling XREADGROUP using the GROUP <group> \
                         <consumer> option."
                            .into(),
                    );
                }
                (b">", Some(_)) => From::New,
                _ => match (id::strict(text, 0)?, self.group) {
                    (StreamId::MAX, Some(_)) => From::New,
                    (id, _) => From::Behind(id),
                },
            });
        }
        Ok(resolved)
    }

    /// Has the client wait for one of the streams, behind the ids that were resolved; false: it does not wait.
    fn wait(&self, context: &mut Context<'_, '_>, args: Args<'_>, resolved: &[From]) -> bool {
        let Some(block_ms) = self.block_ms else { return false };
        let mut words: Vec<Vec<u8>> = args.from(0).map(<[u8]>::to_vec).collect();
        for (word, from) in words.iter_mut().skip(self.ids_at).zip(resolved) {
            if let From::Behind(id) = from {
                *word = id_text(*id);
            }
        }
        let needs_key = self.group.is_some();
        let timeout_ms = Some(block_ms).filter(|&ms| ms > 0);
        wait_with(context, Kept::of(words), (Kind::Stream, &self.keys, needs_key), timeout_ms)
    }
}

/// Whether a script executes the command. Others are served while it runs, but not with commands that can wait.
fn by_script(context: &Context<'_, '_>) -> bool {
    context.shared.scripts.running.is_some()
}

fn only_for_group(option: &str) -> Failure {
    format!("ERR The {option} option is only supported by XREADGROUP. You called XREAD instead.")
        .into()
}

fn parse_block(text: &[u8]) -> Result<u64, Failure> {
    let ms = parse_integer(text).ok_or("ERR timeout is not an integer or out of range")?;
    u64::try_from(ms).map_err(|_| "ERR timeout is negative".into())
}

/// The streams with entries, as they are replied with.
struct Found {
    streams: usize,
    reply: Reply,
    /// The keys of groups to which the consumer was added.
    added: Vec<Vec<u8>>,
    /// What servers of Redis are sent.
    sent: Sent,
}

impl Found {
    fn new(resp3: bool, sent: Sent) -> Found {
        Found { streams: 0, reply: elements(resp3), added: Vec::new(), sent }
    }

    /// The entries of another stream follow.
    fn begin(&mut self, key: &[u8], resp3: bool) {
        self.streams += 1;
        if !resp3 {
            self.reply.array(2);
        }
        self.reply.bulk(key);
    }

    /// Replies, if there is a stream; and publishes what was added.
    fn show(self, context: &mut Context<'_, '_>, reply: &mut Reply) -> bool {
        if self.streams == 0 {
            return false;
        }
        if context.session.resp3 {
            reply.map(self.streams)
        } else {
            reply.array(self.streams)
        }
        reply.raw(self.reply.unsent());
        self.sent.send(context);
        for key in self.added {
            notify(context, Classes::STREAM, "xgroup-createconsumer", &key);
        }
        true
    }
}

/// Entries as they are replied with, and their ids.
struct Behind {
    ids: Vec<StreamId>,
    shown: Reply,
}

/// The entries behind an id; `None`: there are none. A client that has waited is served by what was added, even if that was
/// removed at once.
fn behind(
    stream: &mut Stream<'_, '_>,
    id: StreamId,
    limit: usize,
    has_waited: bool,
) -> Result<Option<Behind>, Failure> {
    let mut found = Behind { ids: Vec::new(), shown: elements(false) };
    let Some(from) = id.next().filter(|_| stream.head().last > id) else { return Ok(None) };
    stream.visit((from, StreamId::MAX), Direction::Forward, &mut |id, value| {
        show_entry(id, value, &mut found.shown);
        found.ids.push(id);
        found.ids.len() < limit
    })?;
    Ok((has_waited || !found.ids.is_empty()).then_some(found))
}

pub(super) fn xread(context: &mut Context<'_, '_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    let mut request = Request::parse(args, (false, by_script(context)))?;
    let resolved = request.resolve(context)?;
    let (db, resp3) = (context.session.db, context.session.resp3);
    let has_waited = context.session.served.is_some();
    let tried = keys_to_try(context, &request.keys);
    if has_waited && request.limit == usize::MAX {
        request.limit = COUNT_AFTER_WAIT;
    }
    let mut found = Found::new(resp3, Sent::new(context));
    for (&key, from) in request.keys.iter().zip(&resolved) {
        let From::Behind(id) = *from else { continue };
        // Of a key that is named twice, the client waits for the first.
        if !tried.contains(&key) || has_waited && found.streams > 0 {
            continue;
        }
        let Some(mut stream) = Stream::open(context.data, (db, key))? else { continue };
        if let Some(Behind { ids, shown }) = behind(&mut stream, id, request.limit, has_waited)? {
            found.begin(key, resp3);
            show_array(ids.len(), &shown, &mut found.reply);
        }
    }
    if !found.show(context, reply) && !request.wait(context, args, &resolved) {
        reply.null_array();
    }
    Ok(())
}

/// Delivers entries of a stream to the consumer.
fn deliver(
    data: &mut Dataset<'_>,
    (place, from): ((usize, &[u8]), From),
    request: &Request<'_>,
    (has_waited, resp3): (bool, bool),
    found: &mut Found,
) -> Result<(), Failure> {
    let (Some((name, consumer)), now_ms) = (request.group, data.now_ms()) else { return Ok(()) };
    let Some(mut stream) = Stream::open(data, place)? else { return Ok(()) };
    let stream = &mut stream;
    let Some(mut group) = Group::find(stream, name)? else { return Ok(()) };
    let new = match from {
        From::New => behind(stream, group.record().last, request.limit, has_waited)?,
        From::Behind(_) => None,
    };
    if matches!(from, From::New) && new.is_none() {
        return Ok(());
    }
    found.begin(place.1, resp3);
    let (own, is_added) = group.see_consumer(stream, consumer, now_ms)?;
    if is_added {
        found.added.push(place.1.to_vec());
        if request.no_ack || matches!(from, From::Behind(_)) {
            found.sent.add_consumer(place.1, &group, consumer);
        }
    }
    match from {
        From::Behind(id) => {
            deliver_again(stream, &mut group, (own, id, now_ms), request.limit, &mut found.reply)?;
        }
        From::New => {
            let Some(Behind { ids, shown }) = new else { return Ok(()) };
            show_array(ids.len(), &shown, &mut found.reply);
            for id in ids {
                group.advance(stream, id);
                if !request.no_ack {
                    let old = group.pending_of_new(stream, id)?;
                    let new = Pending { consumer: own, delivered_ms: now_ms, deliveries: 1 };
                    group.set_pending(stream, id, (old, new))?;
                    found.sent.claim((place.1, &group, consumer), id, (now_ms, 1));
                }
            }
            if request.no_ack {
                found.sent.advance(place.1, &group);
            }
        }
    }
    group.save(stream)
}

/// Delivers a consumer's pending entries behind an id another time; those that were removed are named only.
fn deliver_again(
    stream: &mut Stream<'_, '_>,
    group: &mut Group,
    (own, id, now_ms): (u64, StreamId, u64),
    limit: usize,
    reply: &mut Reply,
) -> Result<(), Failure> {
    let mut ids = Vec::new();
    if let Some(from) = id.next() {
        group.visit_owned(stream, own, from, &mut |id| {
            ids.push(id);
            ids.len() < limit
        })?;
    }
    reply.array(ids.len());
    for id in ids {
        let is_there = match stream.entry(id)? {
            Some(value) => {
                show_entry(id, value[..].into(), reply);
                true
            }
            None => {
                reply.array(2);
                show_id(id, reply);
                reply.null_array();
                false
            }
        };
        if is_there && let Some(old) = group.pending(stream, id)? {
            let deliveries = old.deliveries.wrapping_add(1);
            let new = Pending { delivered_ms: now_ms, deliveries, ..old };
            group.set_pending(stream, id, (Some(old), new))?;
        }
    }
    Ok(())
}

pub(super) fn xreadgroup(
    context: &mut Context<'_, '_>,
    args: Args<'_>,
    reply: &mut Reply,
) -> Outcome {
    let mut request = Request::parse(args, (true, by_script(context)))?;
    let has_waited = context.session.served.is_some();
    if let Some(served) = &context.session.served {
        // What the other streams are like does not matter.
        let at = request.keys.iter().position(|key| key == served).unwrap_or(0);
        (request.keys, request.ids) = (vec![request.keys[at]], vec![request.ids[at]]);
        if request.limit == usize::MAX {
            request.limit = COUNT_AFTER_WAIT;
        }
    }
    let resolved = request.resolve(context)?;
    let (db, resp3) = (context.session.db, context.session.resp3);
    let sent = Sent::new(context);
    let deliver_all = |data: &mut Dataset<'_>| {
        let mut found = Found::new(resp3, sent);
        for (&key, &from) in request.keys.iter().zip(&resolved) {
            deliver(data, ((db, key), from), &request, (has_waited, resp3), &mut found)?;
        }
        Ok(found)
    };
    let found = if request.keys.len() == 1 {
        context.data.in_steps(0, deliver_all)?
    } else {
        context.data.atomically(0, deliver_all)?
    };
    if !found.show(context, reply) && !request.wait(context, args, &resolved) {
        reply.null_array();
    }
    Ok(())
}
