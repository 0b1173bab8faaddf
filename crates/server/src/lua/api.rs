//! The table `redis`, and what else scripts get from the server: random numbers, registration of functions.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use mlua::{Function, LightUserData, Lua, MultiValue, Result, Table, Value};
use sha1::{Digest, Sha1};

use crate::args::{Args, Span};
use crate::lua::number::{coerced, general};
use crate::lua::raised::{SANDBOX_NAME, argument, located, native, reply, wanted};
use crate::lua::registered::Registered;
use crate::number::Decimal;

/// The version of Redis whose behaviour scripts meet.
const REDIS_VERSION: (&str, i64) = ("7.0.15", 0x0007_000f);
/// The state of random numbers before a script has set one: that of `drand48`.
const RANDOM_SEED: u64 = 0x1234_abcd_330e;
/// Bytes of memory that are kept from one command of a script to the next.
const SPARE_MAX: usize = 16 << 10;
/// Which writes are propagated, as bits.
const REPL: [(&str, i64); 5] = [("NONE", 0), ("AOF", 1), ("SLAVE", 2), ("REPLICA", 2), ("ALL", 3)];

/// What the functions of a state share.
pub(super) struct State {
    /// A script is executed.
    pub(super) is_running: Cell<bool>,
    /// With what text the server has ended the script.
    pub(super) ended: RefCell<Option<Vec<u8>>>,
    /// The script has chosen RESP3.
    pub(super) resp3: Cell<bool>,
    /// The functions that the library which is loaded has registered; `None`: no library is loaded.
    pub(super) registered: RefCell<Option<Vec<Registered>>>,
    /// Memory for the words of a command and for its reply, while none is executed.
    pub(super) spare: Cell<(Words, Vec<u8>)>,
}

impl State {
    pub(super) fn new() -> State {
        State {
            is_running: Cell::new(false),
            ended: RefCell::new(None),
            resp3: Cell::new(false),
            registered: RefCell::new(None),
            spare: Cell::default(),
        }
    }

    /// Keeps memory for the next command, unless it is much.
    pub(super) fn keep(&self, mut words: Words, mut reply: Vec<u8>) {
        if words.bytes.capacity() + reply.capacity() <= SPARE_MAX {
            words.bytes.clear();
            words.spans.clear();
            reply.clear();
            self.spare.set((words, reply));
        }
    }
}

thread_local! {
    /// The generator of `lrand48`. As in Redis, scripts and functions share it, and it outlives SCRIPT FLUSH and its kin.
    static RANDOM: Cell<u64> = const { Cell::new(RANDOM_SEED) };
}

/// The next number of the generator.
fn next_random() -> u64 {
    let next = RANDOM.get().wrapping_mul(0x0005_deec_e66d).wrapping_add(0xb) & 0xffff_ffff_ffff;
    RANDOM.set(next);
    next >> 17
}

/// The hexadecimal text of the SHA-1 of some bytes.
pub(crate) fn sha1_hex(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(2 * size_of::<[u8; 20]>());
    let digits = Sha1::digest(bytes).into_iter().flat_map(|byte| [byte >> 4, byte & 15]);
    text.extend(digits.map(|digit| char::from(b"0123456789abcdef"[usize::from(digit)])));
    text
}

/// The error of a command that is not known, or not to this server.
pub(super) const NO_COMMAND: &str = "ERR Invalid command passed to redis.acl_check_cmd()";

/// Values that no script has.
static MARKS: [u8; 3] = [0; 3];

/// Stands before the arguments of `redis.call` where it is asked whether that may be called.
fn mark() -> LightUserData {
    LightUserData((&raw const MARKS[0]).cast_mut().cast())
}

/// The argument of `redis.call` where it is asked whether the script is to go on.
pub(super) fn tick() -> LightUserData {
    LightUserData((&raw const MARKS[1]).cast_mut().cast())
}

/// Stands before the arguments of `redis.call` where they are those of `redis.pcall`.
fn protected() -> LightUserData {
    LightUserData((&raw const MARKS[2]).cast_mut().cast())
}

/// Takes that away: whether it stood there.
pub(super) fn take_protected(args: &mut MultiValue) -> bool {
    let is_protected =
        matches!(args.front(), Some(Value::LightUserData(first)) if *first == protected());
    if is_protected {
        args.pop_front();
    }
    is_protected
}

/// Whether that is asked.
pub(super) fn is_tick(args: &MultiValue) -> bool {
    matches!(args.front(), Some(Value::LightUserData(first)) if *first == tick())
}

/// The words of a command about which that is asked.
pub(super) fn asked(args: &MultiValue) -> Option<MultiValue> {
    let is_asked = matches!(args.front(), Some(Value::LightUserData(first)) if *first == mark());
    is_asked.then(|| args.iter().skip(1).cloned().collect())
}

fn outside(name: &str) -> mlua::Error {
    reply(format!("ERR {name} can only be called inside a script invocation"))
}

/// `redis.call` outside of a script, and `redis.pcall` of all of them.
fn add_calls(lua: &Lua, redis: &Table, state: &Rc<State>) -> Result<()> {
    let call =
        lua.create_function(|_, _: MultiValue| -> Result<()> { Err(outside("redis.call/pcall")) })?;
    redis.raw_set("call", call)?;
    let (of, own) = (state.clone(), redis.clone());
    let protected_call = move |_: &Lua, mut args: MultiValue| {
        if !of.is_running.get() {
            return Err(outside("redis.call/pcall"));
        }
        args.push_front(Value::LightUserData(protected()));
        own.raw_get::<Function>("call")?.call::<Value>(args)
    };
    redis.raw_set("pcall", lua.create_function(protected_call)?)
}

/// The table `redis`, but for `call`, which each script gets anew. `is_command` says whether there is a command of these words.
pub(super) fn library(
    lua: &Lua,
    state: &Rc<State>,
    is_command: fn(Args<'_>) -> bool,
) -> Result<Table> {
    let redis = lua.create_table()?;
    add_calls(lua, &redis, state)?;
    add_replies(lua, &redis)?;
    add_log(lua, &redis)?;
    let of = state.clone();
    let set_resp = move |_: &Lua, args: MultiValue| {
        if !of.is_running.get() {
            return Err(outside("redis.setresp"));
        }
        if args.len() != 1 {
            return Err(reply("ERR redis.setresp() requires one argument."));
        }
        match args.front().and_then(coerced).unwrap_or(0.0) as i64 {
            version @ 2..=3 => of.resp3.set(version == 3),
            _ => return Err(reply("ERR RESP version must be 2 or 3.")),
        }
        Ok(())
    };
    redis.raw_set("setresp", lua.create_function(set_resp)?)?;
    let of = state.clone();
    let set_repl = move |_: &Lua, args: MultiValue| {
        if !of.is_running.get() {
            return Err(outside("redis.set_repl"));
        }
        if args.len() != 1 {
            return Err(reply("ERR redis.set_repl() requires two arguments."));
        }
        // All writes are replicated: the store has one history.
        match args.front().and_then(coerced).unwrap_or(0.0) as i64 {
            0..=3 => Ok(()),
            _ => Err(reply(
                "ERR Invalid replication flags. Use REPL_AOF, REPL_REPLICA, REPL_ALL or REPL_NONE.",
            )),
        }
    };
    redis.raw_set("set_repl", lua.create_function(set_repl)?)?;
    for (name, bits) in REPL {
        redis.raw_set(format!("REPL_{name}"), bits)?;
    }
    let (of, own) = (state.clone(), redis.clone());
    let acl_check = move |_: &Lua, mut args: MultiValue| {
        if !of.is_running.get() {
            return Err(outside("redis.acl_check_cmd"));
        }
        if !is_command(words(&args)?.args()) {
            return Err(reply(NO_COMMAND));
        }
        args.push_front(Value::LightUserData(mark()));
        own.raw_get::<Function>("call")?.call::<Value>(args)
    };
    redis.raw_set("acl_check_cmd", lua.create_function(acl_check)?)?;
    redis.raw_set("breakpoint", lua.create_function(|_, _: MultiValue| Ok(false))?)?;
    redis.raw_set("debug", lua.create_function(|_, _: MultiValue| Ok(()))?)?;
    redis.raw_set("replicate_commands", lua.create_function(|_, _: MultiValue| Ok(true))?)?;
    redis.raw_set("REDIS_VERSION", REDIS_VERSION.0)?;
    redis.raw_set("REDIS_VERSION_NUM", REDIS_VERSION.1)?;
    Ok(redis)
}

/// The words of a command that a script calls, one behind the other.
#[derive(Default)]
pub(crate) struct Words {
    bytes: Vec<u8>,
    spans: Vec<Span>,
}

impl Words {
    fn push(&mut self, word: &[u8]) -> Result<()> {
        let too_long = || reply("ERR the words of a command are longer than 4 GiB");
        let start = u32::try_from(self.bytes.len()).map_err(|_| too_long())?;
        let size = u32::try_from(word.len()).map_err(|_| too_long())?;
        self.bytes.extend_from_slice(word);
        self.spans.push(Span::Input { start, size });
        Ok(())
    }

    /// Adds those that a script calls a command with.
    pub(super) fn read(&mut self, args: &MultiValue) -> Result<()> {
        if args.is_empty() {
            return Err(reply("ERR Please specify at least one argument for this redis lib call"));
        }
        self.spans.reserve(args.len());
        for arg in args {
            match arg {
                Value::String(text) => self.push(&text.as_bytes())?,
                Value::Integer(number) if number.unsigned_abs() < 10u64.pow(17) => {
                    self.push(Decimal::signed(*number).as_bytes())?;
                }
                Value::Integer(number) => self.push(general(*number as f64, 17).as_bytes())?,
                Value::Number(number) => self.push(general(*number, 17).as_bytes())?,
                _ => {
                    let text = "ERR Lua redis lib command arguments must be strings or integers";
                    return Err(reply(text));
                }
            }
        }
        Ok(())
    }

    /// As those of a request.
    pub(crate) fn args(&self) -> Args<'_> {
        Args::new(&self.bytes, &[], &self.spans)
    }
}

/// The words of a command that a script calls.
pub(super) fn words(args: &MultiValue) -> Result<Words> {
    let mut words = Words::default();
    words.read(args)?;
    Ok(words)
}

fn add_replies(lua: &Lua, redis: &Table) -> Result<()> {
    let sha1 = |lua: &Lua, args: MultiValue| {
        if args.len() != 1 {
            return Err(reply("ERR wrong number of arguments"));
        }
        let text = match &args[0] {
            Value::String(text) => text.as_bytes().to_vec(),
            number @ (Value::Integer(_) | Value::Number(_)) => {
                let text = lua.coerce_string(number.clone())?;
                text.map(|text| text.as_bytes().to_vec()).unwrap_or_default()
            }
            _ => Vec::new(),
        };
        Ok(sha1_hex(&text))
    };
    redis.raw_set("sha1hex", lua.create_function(sha1)?)?;
    let single = |lua: &Lua, name: &str, text: &[u8]| {
        let table = lua.create_table()?;
        table.raw_set(name, lua.create_string(text)?)?;
        Ok(table)
    };
    let text_of = |args: &MultiValue| match (args.len(), args.front()) {
        (1, Some(Value::String(text))) => Some(text.as_bytes().to_vec()),
        _ => None,
    };
    const WRONG: &[u8] = b"ERR wrong number or type of arguments";
    let status = move |lua: &Lua, args: MultiValue| match text_of(&args) {
        Some(text) => single(lua, "ok", &text),
        None => single(lua, "err", WRONG),
    };
    redis.raw_set("status_reply", lua.create_function(status)?)?;
    let error = move |lua: &Lua, args: MultiValue| {
        let Some(text) = text_of(&args) else { return single(lua, "err", WRONG) };
        let text = text.strip_prefix(b"-").unwrap_or(&text);
        let (code, rest) = match text.iter().position(|byte| *byte == b' ') {
            Some(at) => (&text[..at], &text[at + 1..]),
            None => (b"ERR".as_slice(), text),
        };
        let is_end = |byte: &u8| matches!(byte, b'\r' | b'\n');
        let start = rest.iter().position(|byte| !is_end(byte)).unwrap_or(rest.len());
        let end = rest.iter().rposition(|byte| !is_end(byte)).map_or(start, |at| at + 1);
        single(lua, "err", &[code, b" ", &rest[start..end]].concat())
    };
    redis.raw_set("error_reply", lua.create_function(error)?)
}

fn add_log(lua: &Lua, redis: &Table) -> Result<()> {
    let log = |_: &Lua, args: MultiValue| {
        if args.len() < 2 {
            return Err(reply("ERR redis.log() requires two arguments or more."));
        }
        match args.front().and_then(coerced).map(|level| level as i64) {
            None => Err(reply("ERR First argument must be a number (log level).")),
            // The server has no log: what a script logs is dropped.
            Some(0..=3) => Ok(()),
            Some(_) => Err(reply("ERR Invalid debug level.")),
        }
    };
    redis.raw_set("log", lua.create_function(log)?)?;
    for (level, name) in ["DEBUG", "VERBOSE", "NOTICE", "WARNING"].into_iter().enumerate() {
        redis.raw_set(format!("LOG_{name}"), level)?;
    }
    Ok(())
}

/// `math.random` and `math.randomseed`.
pub(super) fn random(lua: &Lua, state: &Rc<State>) -> Result<(Function, Function)> {
    let whole = |lua: &Lua, name: &str, args: &MultiValue, at: usize| match args.get(at - 1) {
        Some(value) if coerced(value).is_some() => Ok(coerced(value).unwrap_or(0.0) as i32),
        other => Err(wanted(lua, name, at, ("number", other))),
    };
    let of = state.clone();
    let random = move |lua: &Lua, args: MultiValue| {
        if !of.is_running.get() {
            return Err(located(lua, "math.random can only be called inside a script invocation"));
        }
        let max = i32::MAX as u64;
        let part = (next_random() % max) as f64 / max as f64;
        let (low, high, at) = match args.len() {
            0 => return Ok(part),
            1 => (1, whole(lua, "random", &args, 1)?, 1),
            2 => (whole(lua, "random", &args, 1)?, whole(lua, "random", &args, 2)?, 2),
            _ => return Err(located(lua, "wrong number of arguments")),
        };
        if low > high {
            return Err(argument(lua, "random", at, "interval is empty"));
        }
        Ok((part * (f64::from(high) - f64::from(low) + 1.0)).floor() + f64::from(low))
    };
    let of = state.clone();
    let seed = move |lua: &Lua, args: MultiValue| {
        if !of.is_running.get() {
            let text = "math.randomseed can only be called inside a script invocation";
            return Err(located(lua, text));
        }
        let seed = whole(lua, "randomseed", &args, 1)?;
        RANDOM.set((u64::from(seed as u32) << 16) + 0x330e);
        Ok(())
    };
    Ok((lua.create_function(random)?, lua.create_function(seed)?))
}

/// What a script's error is: its text, with where it was raised. Runs at the place of the error.
pub(super) fn handler(lua: &Lua) -> Result<Function> {
    lua.create_function(|lua, raised: Value| {
        let table = match native(lua, raised)? {
            Value::Table(table) => table,
            other => {
                let table = lua.create_table()?;
                let text = lua.coerce_string(other.clone())?;
                let text = match text {
                    Some(text) => text.as_bytes().to_vec(),
                    None => other.to_string()?.into_bytes(),
                };
                table.raw_set("err", lua.create_string([b"ERR ".as_slice(), &text].concat())?)?;
                table
            }
        };
        for level in 1..=4 {
            let place = lua.inspect_stack(level, |debug| {
                let source = debug.source();
                let is_script = source.what != "C"
                    && source.source.as_deref().is_some_and(|name| name != SANDBOX_NAME);
                let name = source.source.map(std::borrow::Cow::into_owned);
                (is_script, name, debug.current_line())
            });
            match place {
                Some((true, Some(source), line)) => {
                    table.raw_set("source", source)?;
                    table.raw_set("line", line.map_or(-1, |line| line as i64))?;
                    break;
                }
                Some(_) => {}
                None => break,
            }
        }
        Ok(table)
    })
}
