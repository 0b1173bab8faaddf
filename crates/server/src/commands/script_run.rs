//! Executes a script: its commands, its reply, its errors.

use std::cell::Cell;
use std::sync::atomic::Ordering;
use std::time::Instant;

use mlua::Function;
use tembo_kv::Error as StoreError;

use crate::access::Access;
use crate::args::Args;
use crate::busy::{commit_earlier, reply_to_earlier, serve};
use crate::command::{ADMIN, Context, DENY_OOM, READ, REPLICATED, SAVE, WRITE};
use crate::commands::facts::{Facts, ForScripts};
use crate::dispatch::{Found, execute, lookup, note_keys};
use crate::failure::{
    DISK_FULL, Failure, LOADING, NO_REPLICAS, OUT_OF_MEMORY, OUT_OF_REACH, Outcome, READ_ONLY,
    READ_ONLY_REPLICA, REMOVED,
};
use crate::lua::{Engine, Host, Interruption, Outcome as Ended, Returned, ScriptFlags};
use crate::permission::{Place, refusal};
use crate::reply::Reply;
use crate::scripts::{Running, failure};

/// A script to be executed.
pub(super) struct Call<'a> {
    /// The state of Lua.
    pub(super) engine: &'a Engine,
    /// Its function.
    pub(super) function: &'a Function,
    /// What it says of itself; `None`: nothing.
    pub(super) flags: Option<ScriptFlags>,
    /// Its SHA-1 or its name.
    pub(super) name: &'a str,
    /// EVAL or its like executes it, not FCALL.
    pub(super) is_eval: bool,
    /// The command is one that only reads.
    pub(super) is_read_only: bool,
    /// Whether its last run was over before other clients were refused.
    pub(super) was_short: &'a Cell<bool>,
}

/// Whether there is a command of these words.
pub(super) fn is_command(words: Args<'_>) -> bool {
    let lower = |word: &[u8]| String::from_utf8_lossy(word).to_ascii_lowercase();
    let name = lower(words.at(0));
    match words.from(1).next().map(|word| format!("{name}|{}", lower(word))) {
        Some(full_name) if Facts::of(&full_name).is_some() => true,
        _ => Facts::of(&name).is_some(),
    }
}

/// The number of keys among the words from the fourth on.
pub(super) fn check_keys(count: i64, args: Args<'_>) -> Result<usize, Failure> {
    let most = args.count() as i64 - 3;
    match usize::try_from(count) {
        Ok(keys) if count <= most => Ok(keys),
        Ok(_) => Err("ERR Number of keys can't be greater than number of args".into()),
        Err(_) if count > most => {
            Err("ERR Number of keys can't be greater than number of args".into())
        }
        Err(_) => Err("ERR Number of keys can't be negative".into()),
    }
}

/// Refuses a script that may not run now.
fn check_call(context: &Context<'_, '_>, call: &Call<'_>) -> Outcome {
    if context.shared.scripts.running.is_some() {
        return Err("ERR a script is running already".into());
    }
    if context.data.access() == Access::Loading {
        return Err(LOADING.into());
    }
    if context.shared.is_stale() && call.flags.is_some_and(|flags| !flags.allow_stale()) {
        return Err(OUT_OF_REACH.into());
    }
    let says_no_writes = call.flags.is_some_and(ScriptFlags::no_writes);
    if call.flags.is_some() && !says_no_writes {
        if context.data.access() != Access::Open {
            return Err("READONLY Can not run script with write flag on readonly replica".into());
        }
        if call.is_read_only {
            return Err("ERR Can not execute a script with write flag using *_ro command.".into());
        }
        if context.shared.lacks_replicas() {
            return Err(NO_REPLICAS.into());
        }
    }
    let allows_oom = call.flags.is_some_and(ScriptFlags::allow_oom);
    if context.shared.is_over_memory && call.flags.is_some() && !says_no_writes && !allows_oom {
        return Err(
            "OOM allow-oom flag is not set on the script, can not run it when used memory > \
                    'maxmemory'"
                .into(),
        );
    }
    Ok(())
}

/// Executes a script with the keys and arguments of the command, and appends its reply.
pub(super) fn run(
    context: &mut Context<'_, '_>,
    call: &Call<'_>,
    (args, keys): (Args<'_>, usize),
    reply: &mut Reply,
) -> Outcome {
    check_call(context, call)?;
    if !call.was_short.get() && !context.session.executing {
        commit_earlier(context).map_err(Failure::Turn)?;
    }
    let replies_wait = context.data.is_unsynced();
    let words: Vec<&[u8]> = args.from(3).collect();
    let (keys, rest) = words.split_at(keys.min(words.len()));
    context.shared.scripts.running = Some(running(call));
    let session = &mut *context.session;
    let saved = (session.db, session.resp3, session.may_wait, session.can_wait, session.executing);
    (session.may_wait, session.can_wait, session.executing) = (false, false, true);
    let mut host = Caller {
        context,
        is_read_only: call.is_read_only || call.flags.is_some_and(ScriptFlags::no_writes),
        allows_oom: call.flags.is_some_and(ScriptFlags::allow_oom),
        is_busy: false,
        replies_wait,
        failed: None,
        replied: Reply::new(usize::MAX),
        args,
        keys,
        are_noted: false,
        last_error: Vec::new(),
    };
    let ended = call.engine.run(call.function, [keys, rest], call.is_eval, &mut host);
    let (failed, last_error) = (host.failed.take(), std::mem::take(&mut host.last_error));
    call.was_short.set(!host.is_busy);
    let session = &mut *context.session;
    (session.db, session.resp3, session.may_wait, session.can_wait, session.executing) = saved;
    context.shared.scripts.running = None;
    if let Some(error) = failed {
        return Err(Failure::Turn(error));
    }
    match ended.map_err(failure)? {
        Ended::Returned(returned) => {
            if let Returned::Error(text) = &returned {
                count_error(context, text, &last_error);
            }
            append(reply, context.session.resp3, &returned);
        }
        Ended::Failed(mut text, place) => {
            count_error(context, &text, &last_error);
            if let Some((source, line)) = place {
                let name = call.name;
                text.extend(format!(" script: {name}, on {source}:{line}.").into_bytes());
            }
            reply.error(&text);
        }
    }
    Ok(())
}

/// Counts the error that a script ends with; not again one of its commands'. It is no failure of the command: what the script
/// has written stays.
fn count_error(context: &mut Context<'_, '_>, text: &[u8], last: &[u8]) {
    context.shared.scripts.ended_with_error = true;
    if last.is_empty() || text != last {
        context.shared.stats.errors += 1;
        context.shared.observed.count_error(text);
    }
}

/// The script that begins now. Its command is noted before others can ask for it.
fn running(call: &Call<'_>) -> Running {
    Running {
        name: call.name.to_owned(),
        is_eval: call.is_eval,
        has_written: false,
        is_killed: false,
        command: Vec::new(),
        began: Instant::now(),
    }
}

/// The server, as the script calls it.
struct Caller<'c, 'a, 's> {
    context: &'c mut Context<'a, 's>,
    is_read_only: bool,
    allows_oom: bool,
    /// Others have been served while the script runs.
    is_busy: bool,
    /// The turn had written before the script began, and that is not durable: earlier replies wait for the commit.
    replies_wait: bool,
    /// The turn cannot be committed.
    failed: Option<StoreError>,
    replied: Reply,
    /// Its command.
    args: Args<'c>,
    /// The script's keys.
    keys: &'c [&'c [u8]],
    /// They are noted for a client that tracks what it reads.
    are_noted: bool,
    /// The last error of a command, which is counted.
    last_error: Vec<u8>,
}

impl Caller<'_, '_, '_> {
    /// Counts a command that is not executed, and its error.
    fn refused(&mut self, number: Option<usize>, text: String) -> String {
        let shared = &mut *self.context.shared;
        if let Some(number) = number {
            shared.observed.times.reject(number);
        }
        shared.stats.errors += 1;
        shared.observed.count_error(text.as_bytes());
        self.last_error = text.clone().into_bytes();
        text
    }

    fn check(&mut self, found: Found, args: Args<'_>) -> Result<(), String> {
        let (command, _) = found;
        if !command.takes(args.count()) {
            return Err("ERR Wrong number of args calling Redis command from script".to_owned());
        }
        let facts = ForScripts::of(command.full_name);
        let is_own = facts.is_none();
        let facts = facts.unwrap_or_default();
        let is_kept = is_own && (command.has(ADMIN | SAVE) || command.name.starts_with("tembo"));
        let is_debug = command.name == "debug" && (args.is(1, "PROTOCOL") || args.is(1, "SLEEP"));
        if (facts.is_refused || is_kept) && !(is_debug && self.context.shared.scripts.may_debug) {
            return Err("ERR This Redis command is not allowed from script".to_owned());
        }
        if !self.context.session.unrestricted
            && let Some(text) = refusal(self.context, found, args, Place::Script)
        {
            return Err(String::from_utf8_lossy(&text).into_owned());
        }
        let writes = command.has(WRITE | SAVE);
        if self.is_read_only && (writes || command.has(REPLICATED)) {
            return Err("ERR Write commands are not allowed from read-only scripts.".to_owned());
        }
        match self.context.data.access() {
            Access::ReadOnlyPool if writes => return Err(READ_ONLY.to_owned()),
            Access::Removed if writes => return Err(REMOVED.to_owned()),
            Access::Replica if writes => return Err(READ_ONLY_REPLICA.to_owned()),
            Access::Open if writes && self.context.shared.is_disk_full() => {
                return Err(DISK_FULL.to_owned());
            }
            Access::Open if writes && self.context.shared.lacks_replicas() => {
                return Err(NO_REPLICAS.to_owned());
            }
            _ => {}
        }
        if self.context.shared.is_stale() && !self.context.shared.serves_stale(found.1) {
            return Err("ERR Can not execute the command on a stale replica".to_owned());
        }
        let running = self.context.shared.scripts.running.as_ref();
        let has_written = running.is_some_and(|running| running.has_written);
        if self.context.shared.is_over_memory
            && command.has(DENY_OOM)
            && !has_written
            && !self.allows_oom
        {
            return Err(OUT_OF_MEMORY.to_owned());
        }
        if writes && let Some(running) = &mut self.context.shared.scripts.running {
            running.has_written = true;
        }
        Ok(())
    }
}

impl Host for Caller<'_, '_, '_> {
    fn call(&mut self, args: Args<'_>, resp3: bool, bytes: &mut Vec<u8>) -> Result<(), String> {
        if let Some(error) = &self.failed {
            return Err(format!("ERR {error}"));
        }
        let Some(found) = lookup(self.context.table, args) else {
            return Err(
                self.refused(None, "ERR Unknown Redis command called from script".to_owned())
            );
        };
        if let Err(text) = self.check(found, args) {
            return Err(self.refused(Some(found.1), text));
        }
        self.context.session.resp3 = resp3;
        self.replied.set_resp3(resp3);
        let done = execute(self.context, found, args, &mut self.replied);
        if let [b'-', text @ .., b'\r', b'\n'] = self.replied.unsent() {
            self.last_error = text.to_vec();
        }
        if self.context.session.tracked.is_some() && found.0.has(READ) && !self.are_noted {
            self.are_noted = true;
            note_keys(self.context, self.keys.iter().copied());
        }
        bytes.extend_from_slice(self.replied.unsent());
        self.replied.truncate(0);
        done.map_err(|error| {
            let text = format!("ERR {error}");
            self.failed = Some(error);
            text
        })
    }

    fn may_call(&mut self, args: Args<'_>) -> Option<bool> {
        let (_, number) = lookup(self.context.table, args)?;
        let session = &*self.context.session;
        let acl = &self.context.shared.acl;
        Some(session.unrestricted || acl.check(&session.user, number, args).is_ok())
    }

    fn tick(&mut self) -> Interruption {
        if self.failed.is_some() {
            return Interruption::End("ERR the turn has failed...");
        }
        if self.context.shutdown.load(Ordering::Relaxed) {
            return Interruption::End("ERR Script ended because the server stops...");
        }
        let threshold_ms = self.context.shared.settings.busy_reply_ms;
        let running = self.context.shared.scripts.running.as_ref();
        let Some(running) = running else { return Interruption::No };
        if threshold_ms == 0 || running.began.elapsed().as_millis() < u128::from(threshold_ms) {
            return Interruption::No;
        }
        if let Err(error) = self.serve_others() {
            self.failed = Some(error);
        }
        if self.context.shared.shutdown {
            // What the script has written is not kept.
            self.failed.get_or_insert(StoreError::WouldDeadlock);
        }
        let running = self.context.shared.scripts.running.as_ref();
        if running.is_some_and(|running| running.is_killed) {
            return Interruption::End("ERR Script killed by user with SCRIPT KILL...");
        }
        if self.failed.is_some() {
            return Interruption::End("ERR the turn has failed...");
        }
        Interruption::No
    }
}

impl Caller<'_, '_, '_> {
    /// Serves the other clients, while the script waits.
    fn serve_others(&mut self) -> Result<(), StoreError> {
        let is_first = !std::mem::replace(&mut self.is_busy, true);
        let mut is_eval = true;
        if let Some(running) = &mut self.context.shared.scripts.running {
            is_eval = running.is_eval;
            if is_first {
                running.command = self.args.from(0).map(<[u8]>::to_vec).collect();
            }
        }
        if is_first && !self.replies_wait {
            reply_to_earlier(self.context);
        }
        serve(self.context, is_first, busy(is_eval))
    }
}

/// Appends what a script has returned.
fn append(reply: &mut Reply, resp3: bool, returned: &Returned) {
    let each = |reply: &mut Reply, values: &[Returned]| {
        values.iter().for_each(|value| append(reply, resp3, value));
    };
    match returned {
        Returned::Null => reply.null(),
        Returned::Integer(number) => reply.integer(*number),
        Returned::Bulk(text) => reply.bulk(text),
        Returned::Simple(text) => line(reply, b'+', text),
        Returned::Error(text) => reply.error(text),
        Returned::Flag(flag) if resp3 => reply.raw(if *flag { b"#t\r\n" } else { b"#f\r\n" }),
        Returned::Flag(flag) => reply.flag(*flag),
        Returned::Double(number) => reply.double(*number),
        Returned::BigNumber(digits) if resp3 => line(reply, b'(', digits),
        Returned::BigNumber(digits) => reply.bulk(&one_line(digits)),
        Returned::Verbatim(format, text) if resp3 => {
            let mut format = format.clone();
            format.resize(3, b' ');
            reply.raw(format!("={}\r\n", text.len() + 4).as_bytes());
            [&format[..], b":", text, b"\r\n"].into_iter().for_each(|part| reply.raw(part));
        }
        Returned::Verbatim(_, text) => reply.bulk(text),
        Returned::Array(values) => {
            reply.array(values.len());
            each(reply, values);
        }
        Returned::Set(values) => {
            reply.set(values.len());
            each(reply, values);
        }
        Returned::Map(pairs) => {
            reply.map(pairs.len());
            for (key, value) in pairs {
                append(reply, resp3, key);
                append(reply, resp3, value);
            }
        }
    }
}

/// A line of a kind, its line ends replaced by spaces.
fn line(reply: &mut Reply, kind: u8, text: &[u8]) {
    reply.raw(&[&[kind], &one_line(text)[..], b"\r\n"].concat());
}

/// A text whose line ends are replaced by spaces.
fn one_line(text: &[u8]) -> Vec<u8> {
    text.iter().map(|byte| if matches!(byte, b'\r' | b'\n') { b' ' } else { *byte }).collect()
}

/// Ends the script that runs.
pub(super) fn kill(context: &mut Context<'_, '_>, by_script_kill: bool) -> Outcome {
    let Some(running) = &mut context.shared.scripts.running else {
        return Err("NOTBUSY No scripts in execution right now.".into());
    };
    if running.has_written {
        return Err(
            "UNKILLABLE Sorry the script already executed write commands against the dataset. \
                    You can either wait the script termination or kill the server in a hard way \
                    using the SHUTDOWN NOSAVE command."
                .into(),
        );
    }
    if running.is_eval != by_script_kill {
        return Err(busy(running.is_eval).into());
    }
    running.is_killed = true;
    Ok(())
}

/// The reply of commands that are not executed while a script runs.
pub(super) fn busy(is_eval: bool) -> &'static str {
    if is_eval {
        "BUSY Redis is busy running a script. You can only call SCRIPT KILL or SHUTDOWN NOSAVE."
    } else {
        "BUSY Redis is busy running a script. You can only call FUNCTION KILL or SHUTDOWN NOSAVE."
    }
}
