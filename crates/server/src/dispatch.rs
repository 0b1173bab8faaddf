//! From a parsed request to an executed command: lookup, arity, authentication, MULTI.

use tembo_kv::Error;

use crate::access::Access;
use crate::args::{Args, Kept};
use crate::command::{
    ADMIN, Command, Context, DENY_OOM, FAST, NO_MULTI, NOT_QUEUED, READ, REPLICATED, SAVE, SESSION,
    SUBSCRIBED, Table, WRITE,
};
use crate::effects::{begin_effects, end_effects};
use crate::event_class::Classes;
use crate::evict::make_room;
use crate::failure::{
    DISK_FULL, Failure, LOADING, NO_REPLICAS, OUT_OF_MEMORY, OUT_OF_REACH, READ_ONLY,
    READ_ONLY_REPLICA, REMOVED,
};
use crate::invalidate::{Changed, invalidate};
use crate::key_positions::key_positions;
use crate::miss::{missing_keys, notify_misses};
use crate::monitor::{is_secret, is_shown_first, show};
use crate::notify::{expire_key, notify_added, notify_evicted};
use crate::observed::{Event, SlowCommand, shortened};
use crate::parse::COMMAND_SIZE_MAX;
use crate::permission::{self, Place};
use crate::reply::Reply;
use crate::shared::Shared;

/// Commands that do not count as a use of their keys; RESTORE says itself when its key was used.
const UNUSED: [&str; 7] = ["exists", "expiretime", "pexpiretime", "pttl", "restore", "ttl", "type"];

/// Commands that the connection of a replica takes: what others reply or cause to be sent would be taken for a part of
/// what the replica is fed with.
const OF_REPLICAS: [&str; 3] = ["ping", "quit", "replconf"];

/// Commands that are replied to while the disk is full, as they show nothing that could be lost, but for the counts of INFO.
const SHOWS_NO_DATA: [&str; 32] = [
    "auth",
    "client|id",
    "client|kill",
    "client|list",
    "client|no-evict",
    "client|setinfo",
    "client|setname",
    "config|get",
    "config|set",
    "command",
    "command|count",
    "command|docs",
    "command|getkeys",
    "command|info",
    "command|list",
    "discard",
    "echo",
    "hello",
    "info",
    "multi",
    "ping",
    "psubscribe",
    "publish",
    "punsubscribe",
    "quit",
    "replconf",
    "reset",
    "role",
    "select",
    "subscribe",
    "unsubscribe",
    "unwatch",
];

/// A command with its number in the table.
pub(crate) type Found = (&'static Command, usize);

/// Executes or queues one request and appends its reply. Errors are those of [`execute`].
pub(crate) fn dispatch(
    context: &mut Context<'_, '_>,
    args: Args<'_>,
    reply: &mut Reply,
) -> Result<(), Error> {
    let found = match find(context.table, args) {
        Ok(found) => found,
        Err(_) if is_http(args.at(0)) => {
            context.session.closing = true;
            return Ok(());
        }
        Err((number, failure)) => {
            if let Some(number) = number {
                context.shared.observed.times.reject(number);
            }
            return reject(context, args, failure.as_bytes(), reply);
        }
    };
    let (command, number) = found;
    if context.shared.settings.maxmemory > 0 || context.shared.is_over_memory {
        make_room_first(context, reply)?;
    }
    if context.session.multi.is_some() && command.has(NO_MULTI) {
        context.shared.observed.times.reject(number);
        return reject(context, args, b"ERR Command not allowed inside a transaction", reply);
    }
    if !context.session.unrestricted
        && let Some(text) = permission::refusal(context, found, args, Place::Client)
    {
        context.shared.observed.times.reject(number);
        return reject(context, args, &text, reply);
    }
    if let Some(text) = refusal(context, found) {
        context.shared.observed.times.reject(number);
        return reject(context, args, &text, reply);
    }
    let writes = command.has(WRITE | REPLICATED)
        || command.name == "exec"
            && context.session.multi.as_ref().is_some_and(|multi| multi.is_held);
    let (pause, now_ms) = (context.shared.pause, context.shared.clock.steady_ms);
    if pause.holds(now_ms, writes)
        && (pause.holds(now_ms, false) || context.shared.scripts.may_write(args))
    {
        context.session.postponed = Some(Box::new(Kept::new(args)));
        context.shared.paused.push(context.session.token);
        return Ok(());
    }
    if context.session.multi.is_some() && !command.has(NOT_QUEUED) {
        queue(context, command, args);
        reply.simple("QUEUED");
        return Ok(());
    }
    context.session.last_command = Some(command.full_name);
    execute(context, found, args, reply)
}

/// Keeps a command for EXEC; not if EXEC executes nothing anyway.
fn queue(context: &mut Context<'_, '_>, command: &Command, args: Args<'_>) {
    context.session.changed = true;
    let is_dirty = context.data.watches.is_dirty(context.session.id);
    let multi = context.session.multi.as_mut();
    let Some(multi) = multi.filter(|multi| !multi.failed && !is_dirty) else { return };
    multi.is_held |= command.has(WRITE | REPLICATED) && context.shared.scripts.may_write(args);
    multi.flags |= command.flags;
    let kept = Kept::new(args);
    multi.size += kept.size();
    multi.queue.push(kept);
    let size_max = COMMAND_SIZE_MAX.min(context.shared.settings.input_size_max);
    if multi.size > size_max {
        context.session.closing = true;
        context.shared.stats.input_limit_closes += 1;
    }
}

/// Evicts keys before a command, if there is too little room. Clients that track them hear of it before the reply.
#[cold]
fn make_room_first(context: &mut Context<'_, '_>, reply: &mut Reply) -> Result<(), Error> {
    if context.shared.scripts.running.is_none() && !context.shared.is_disk_full() {
        make_room(context.data, context.shared)?;
        notify_evicted(context.shared, context.clients);
        if context.shared.tracking.is_on() {
            let (keys, _) = context.data.watches.take_changed();
            let own = Some((&mut *context.session, reply));
            invalidate(context.shared, context.clients, own, Changed::Evicted(keys));
        }
    }
    Ok(())
}

/// Why the client may not have the command executed or queued, if it may not.
#[inline]
fn refusal(context: &Context<'_, '_>, (command, number): Found) -> Option<Vec<u8>> {
    let access = context.data.access();
    if access != Access::Open
        && let Some(text) = access_refusal(access, executed_flags(context, command))
    {
        return Some(text.as_bytes().to_vec());
    }
    if context.shared.is_disk_full()
        && (executed_flags(context, command) & (WRITE | SAVE) != 0 || is_replicaof(command))
    {
        return Some(DISK_FULL.as_bytes().to_vec());
    }
    if context.shared.is_over_memory && needs_room(context, command) {
        return Some(OUT_OF_MEMORY.as_bytes().to_vec());
    }
    if context.shared.lacks_replicas()
        && access == Access::Open
        && executed_flags(context, command) & WRITE != 0
    {
        return Some(NO_REPLICAS.as_bytes().to_vec());
    }
    let session = &*context.session;
    if session.is_replica && !OF_REPLICAS.contains(&command.name) {
        return Some(b"ERR a replica's connection takes no other commands".to_vec());
    }
    if session.subscriptions.is_any() && !session.resp3 && !command.has(SUBSCRIBED) {
        let text = format!(
            "ERR Can't execute '{}': only (P|S)SUBSCRIBE / (P|S)UNSUBSCRIBE / PING / QUIT / RESET are allowed in \
             this context",
            command.full_name
        );
        return Some(text.into_bytes());
    }
    if context.shared.is_stale() && !is_served_stale(context, (command, number)) {
        return Some(OUT_OF_REACH.as_bytes().to_vec());
    }
    None
}

/// Whether the command changes what the server is to others, which is to be durable with what was executed before.
#[cold]
fn is_replicaof(command: &Command) -> bool {
    matches!(command.name, "replicaof" | "slaveof")
}

/// Whether the command is refused while there is too little memory. Between MULTI and EXEC each is that could make the queue
/// grow, and those beside it.
#[cold]
fn needs_room(context: &Context<'_, '_>, command: &Command) -> bool {
    match (&context.session.multi, command.full_name) {
        (None, _) => command.has(DENY_OOM),
        (Some(multi), "exec") => multi.flags & DENY_OOM != 0,
        (Some(_), name) => !["discard", "quit", "reset"].contains(&name),
    }
}

/// Whether the command, and what it executes of a transaction, is executed while the primary is out of reach.
#[cold]
fn is_served_stale(context: &Context<'_, '_>, (command, number): Found) -> bool {
    let is_served = |kept: &Kept| {
        lookup(context.table, kept.args())
            .is_none_or(|(_, number)| context.shared.serves_stale(number))
    };
    let queue = context.session.multi.as_ref().filter(|_| command.name == "exec");
    context.shared.serves_stale(number)
        && queue.is_none_or(|multi| multi.queue.iter().all(is_served))
}

/// The flags of the command, and of what it executes of a transaction: what clients may do can have changed since MULTI.
#[cold]
fn executed_flags(context: &Context<'_, '_>, command: &Command) -> u32 {
    let multi = context.session.multi.as_ref().filter(|_| command.name == "exec");
    command.flags | multi.map_or(0, |multi| multi.flags)
}

/// Why clients may not execute what has these flags, if they may not.
#[cold]
fn access_refusal(access: Access, flags: u32) -> Option<&'static str> {
    let has = |flag: u32| flags & flag != 0;
    match access {
        Access::ReadOnlyPool if has(WRITE | SAVE) => Some(READ_ONLY),
        Access::Removed if has(WRITE | SAVE) => Some(REMOVED),
        Access::Replica if has(WRITE) => Some(READ_ONLY_REPLICA),
        Access::Loading if has(READ | WRITE | SAVE) => Some(LOADING),
        _ => None,
    }
}

/// Whether a command that was put off, or has waited, goes on.
#[inline]
fn is_again(context: &Context<'_, '_>) -> bool {
    context.session.again.is_some() || context.session.served.is_some()
}

/// Why a command that was put off or has waited may not go on: what the client was allowed when it began it may not be now.
#[cold]
fn refused_again(context: &mut Context<'_, '_>, found: Found, args: Args<'_>) -> Option<Vec<u8>> {
    if !context.session.unrestricted
        && let Some(text) = permission::refusal(context, found, args, Place::Client)
    {
        return Some(text);
    }
    // What was too much may have been removed since the last command.
    let most = context.shared.settings.maxmemory;
    context.shared.is_over_memory &= most > 0 && context.data.used_bytes() > most;
    refusal(context, found)
}

/// Executes one request that MULTI has queued, that has waited or was put off, as [`execute`] does.
pub(crate) fn execute_queued(
    context: &mut Context<'_, '_>,
    args: Args<'_>,
    reply: &mut Reply,
) -> Result<(), Error> {
    match find(context.table, args) {
        Ok(found) => {
            if is_again(context)
                && let Some(text) = refused_again(context, found, args)
            {
                context.shared.observed.times.reject(found.1);
                return reject(context, args, &text, reply);
            }
            execute(context, found, args, reply)
        }
        Err((_, failure)) => reject(context, args, failure.as_bytes(), reply),
    }
}

/// The command or subcommand of these words, whatever their number; none if it is not known.
pub(crate) fn lookup(table: &Table, args: Args<'_>) -> Option<Found> {
    let (command, number) = table.find_numbered(args.at(0))?;
    if command.subcommands.is_empty() || args.count() < 2 {
        return Some((command, number));
    }
    subcommand((command, number), args.at(1))
}

/// The subcommand of that name, with its number: they come behind their command in the table.
fn subcommand((command, number): Found, name: &[u8]) -> Option<Found> {
    let is_named = |sub: &Command| sub.name.as_bytes().eq_ignore_ascii_case(name);
    let at = command.subcommands.iter().position(is_named)?;
    Some((&command.subcommands[at], number + 1 + at))
}

/// Executes one command and appends its reply. An error means that the command was cut short after it
/// had written something, or that the store is poisoned: the turn cannot be committed.
pub(crate) fn execute(
    context: &mut Context<'_, '_>,
    (command, number): Found,
    args: Args<'_>,
    reply: &mut Reply,
) -> Result<(), Error> {
    // One that is executed again was counted and shown when it was put off.
    let is_new = context.session.again.is_none();
    context.shared.stats.commands += u64::from(is_new);
    let began = context.shared.observed.began();
    context.session.changed |= command.has(SESSION);
    context.session.shows_data |= !context.shared.is_disk_full() || shows_data(context, command);
    let mark = reply.mark();
    let notified = context.shared.settings.notified;
    context.data.added.begin(notified.has(Classes::NEW));
    let missing = match notified.has(Classes::MISS) && is_new {
        true => misses(context, command, args),
        false => Vec::new(),
    };
    let is_monitored = is_new && context.shared.pubsub.is_monitored() && !command.has(ADMIN);
    let is_shown_first = is_monitored && is_shown_first(command);
    if is_shown_first {
        show(context, args);
    }
    if !context.data.expires_actively {
        expire_named(context, command, args);
    }
    let before = context.data.written().changes;
    let is_followed = context.shared.propagation.is_on;
    if is_followed {
        begin_effects(context, command, args);
    }
    let done = (command.run)(context, args, reply);
    if is_followed {
        let changed = context.data.written().changes != before;
        end_effects(context, (command, args), (changed, done.is_err()));
    }
    let failed = done.is_err() || std::mem::take(&mut context.shared.scripts.ended_with_error);
    observe(context, (command, number), args, (began, failed));
    if is_monitored && !is_shown_first {
        show(context, args);
    }
    if context.session.executing && context.shared.tracking.is_on() {
        context.shared.tracking.hold(context.data.watches.take_changed_keys());
    }
    if context.session.tracked.is_some() {
        note_read(context, command, args);
    }
    let Err(failure) = done else {
        notify_added(context);
        notify_misses(context, &missing);
        return Ok(());
    };
    context.data.added.take();
    context.shared.stats.errors += 1;
    context.shared.observed.count_error(&failure.text());
    reply.truncate(mark);
    reply.error(&failure.text());
    let cut_short = context.data.written().changes != before;
    match failure {
        Failure::Turn(error) => Err(error),
        Failure::Store(Error::Poisoned) => Err(Error::Poisoned),
        Failure::Store(error) if cut_short => Err(error),
        Failure::Store(_) | Failure::Reply(_) | Failure::UnknownLayout => Ok(()),
    }
}

/// The keys that the command does not find, to be notified behind it; before it, if it writes.
#[cold]
fn misses<'a>(context: &mut Context<'_, '_>, command: &Command, args: Args<'a>) -> Vec<&'a [u8]> {
    let missing = missing_keys(context, command, args);
    if !command.has(WRITE) {
        return missing;
    }
    // What the command does to other keys comes later.
    notify_misses(context, &missing);
    Vec::new()
}

/// Whether the reply of a command may show what is not durable.
#[cold]
fn shows_data(context: &Context<'_, '_>, command: &Command) -> bool {
    let is_refused = || context.session.multi.as_ref().is_some_and(|multi| multi.failed);
    !(SHOWS_NO_DATA.contains(&command.full_name) || command.name == "exec" && is_refused())
}

/// Removes what has expired of the keys that a command reads: nothing else does while DEBUG has that not done by itself. A write
/// replaces what it meets.
#[cold]
fn expire_named(context: &mut Context<'_, '_>, command: &Command, args: Args<'_>) {
    if command.has(WRITE) {
        return;
    }
    let db = context.session.db;
    for at in key_positions(command, command.keys, args).unwrap_or_default() {
        expire_key(context.data, context.shared, context.clients, (db, args.at(at)));
    }
}

/// Counts a command that has been executed, and how long it took. One that waits is counted when it goes on, and one that is put
/// off when it ends.
#[inline]
fn observe(
    context: &mut Context<'_, '_>,
    (command, number): Found,
    args: Args<'_>,
    (began, failed): (u64, bool),
) {
    let shared = &mut *context.shared;
    let lookups = std::mem::take(&mut context.data.lookups);
    if command.has(READ) {
        shared.stats.hits += lookups.hits;
        shared.stats.misses += lookups.misses;
    }
    if shared.notes_usage && (lookups.hits > 0 || command.has(WRITE)) {
        note_use(shared, context.session.db, command, args);
    }
    let earlier_ns = context.session.again.as_ref().map_or(0, |again| again.took_ns);
    let took_ns = shared.observed.end_command(began) + earlier_ns;
    if context.session.waits_for.is_some() {
        return;
    }
    if let Some(put_off) = &mut context.session.put_off {
        put_off.began(args, took_ns);
        return;
    }
    count_time(context, (command, number), args, (took_ns, failed));
}

/// Counts a command that was put off, and how long it was executed.
#[cold]
pub(crate) fn observe_put_off(
    context: &mut Context<'_, '_>,
    args: Args<'_>,
    (took_ns, failed): (u64, bool),
) {
    if let Some(found) = lookup(context.table, args) {
        count_time(context, found, args, (took_ns, failed));
    }
}

#[inline]
fn count_time(
    context: &mut Context<'_, '_>,
    (command, number): Found,
    args: Args<'_>,
    (took_ns, failed): (u64, bool),
) {
    let shared = &mut *context.shared;
    shared.observed.times.count(number, took_ns, failed, shared.settings.tracks_latency);
    let took_us = took_ns / 1000;
    let threshold_us = shared.settings.latency_threshold_ms.saturating_mul(1000);
    if shared.settings.slow_us.is_some_and(|slow_us| took_us >= slow_us)
        || threshold_us > 0 && took_us >= threshold_us
    {
        note_slow(context, command, args, took_us);
    }
}

/// Notes that the keys of a command are used.
#[cold]
fn note_use(shared: &mut Shared, db: usize, command: &Command, args: Args<'_>) {
    if UNUSED.contains(&command.name) {
        return;
    }
    for at in key_positions(command, command.keys, args).unwrap_or_default() {
        shared.note_use((db, args.at(at)), command.has(READ));
    }
}

/// Notes the keys of a command that reads, for a client that tracks them.
#[cold]
fn note_read(context: &mut Context<'_, '_>, command: &Command, args: Args<'_>) {
    let keys = if command.has(READ) { key_positions(command, command.keys, args) } else { None };
    note_keys(context, keys.unwrap_or_default().into_iter().map(|at| args.at(at)));
    let Some(tracked) = &mut context.session.tracked else { return };
    if !context.session.executing
        && !command.full_name.starts_with("client|")
        && command.name != "exec"
    {
        tracked.caching = None;
    }
}

/// Notes keys that the client reads, if it tracks them.
pub(crate) fn note_keys<'k>(context: &mut Context<'_, '_>, keys: impl Iterator<Item = &'k [u8]>) {
    let Some(tracked) = &context.session.tracked else { return };
    let is_tracked = tracked.caching.unwrap_or(!tracked.opt_in);
    if is_tracked && !tracked.broadcast {
        keys.for_each(|key| context.shared.tracking.note(context.session.token, key));
    }
}

/// Keeps a command that took long.
#[cold]
fn note_slow(context: &mut Context<'_, '_>, command: &Command, args: Args<'_>, took_us: u64) {
    let (settings, observed) = (&context.shared.settings, &mut context.shared.observed);
    let at_s = context.shared.clock.wall_s();
    let threshold_ms = settings.latency_threshold_ms;
    if threshold_ms > 0 && took_us >= threshold_ms.saturating_mul(1000) {
        let event = if command.has(FAST) { Event::FastCommand } else { Event::Command };
        observed.events.add(event, at_s, took_us / 1000);
    }
    // Of a transaction its commands are kept, not EXEC.
    if settings.slow_us.is_some_and(|slow_us| took_us >= slow_us) && command.name != "exec" {
        let shown = (0..args.count())
            .map(|at| if is_secret(args, at) { b"(redacted)".as_slice() } else { args.at(at) });
        let slow = SlowCommand {
            id: 0,
            at_s,
            took_us,
            args: shortened(shown, args.count()),
            peer: context.session.peer.clone(),
            name: context.session.name.clone(),
        };
        observed.slow.push(slow, settings.slow_len_max);
    }
}

/// Replies with an error before the command ran. MULTI's transaction fails with it, and EXEC ends it.
pub(crate) fn reject(
    context: &mut Context<'_, '_>,
    args: Args<'_>,
    text: &[u8],
    reply: &mut Reply,
) -> Result<(), Error> {
    context.shared.stats.errors += 1;
    context.shared.observed.count_error(text);
    if args.is(0, "EXEC") {
        context.session.changed |= context.session.multi.take().is_some();
        context.unwatch_all();
        let reason = text.strip_prefix(b"ERR ").unwrap_or(text);
        reply.error(&[b"EXECABORT Transaction discarded because of: ".as_slice(), reason].concat());
        return Ok(());
    }
    if let Some(multi) = &mut context.session.multi {
        multi.failed = true;
        context.session.changed = true;
    }
    reply.error(text);
    Ok(())
}

/// The command, if its name is known and the number of its arguments is right. A failure has the number of the command,
/// if it is known.
#[inline]
fn find(table: &Table, args: Args<'_>) -> Result<Found, (Option<usize>, String)> {
    let Some((mut command, mut number)) = table.find_numbered(args.at(0)) else {
        return Err((None, unknown(args)));
    };
    if !command.subcommands.is_empty() && args.count() > 1 {
        let name = args.at(1);
        let Some(found) = subcommand((command, number), name) else {
            return Err((Some(number), unknown_subcommand(command, name)));
        };
        (command, number) = found;
    }
    if !command.takes(args.count()) {
        let name = command.full_name;
        let text = format!("ERR wrong number of arguments for '{name}' command");
        return Err((Some(number), text));
    }
    Ok((command, number))
}

/// Whether this is an HTTP request: a page can make a browser send a form to this port, and nothing of that
/// may be executed.
fn is_http(name: &[u8]) -> bool {
    name.eq_ignore_ascii_case(b"post") || name.eq_ignore_ascii_case(b"host:")
}

fn unknown(args: Args<'_>) -> String {
    let mut shown = String::new();
    for arg in args.from(1) {
        if shown.len() >= 128 {
            break;
        }
        let room = 128 - shown.len();
        shown += &format!("'{}' ", String::from_utf8_lossy(&arg[..arg.len().min(room)]));
    }
    let name = args.at(0);
    let name = String::from_utf8_lossy(&name[..name.len().min(128)]);
    format!("ERR unknown command '{name}', with args beginning with: {shown}")
}

fn unknown_subcommand(container: &Command, name: &[u8]) -> String {
    let name = String::from_utf8_lossy(&name[..name.len().min(128)]);
    let container = container.name.to_ascii_uppercase();
    format!("ERR unknown subcommand '{name}'. Try {container} HELP.")
}
