//! A state of Lua, and scripts executed in it.

use std::cell::RefCell;
use std::rc::Rc;
use std::time::{Duration, Instant};

use mlua::chunk::ChunkMode;
use mlua::debug::HookTriggers;
use mlua::{Function, Lua, LuaOptions, MultiValue, StdLib, Table, Value, VmState};

use crate::args::Args;
use crate::lua::api::{self, State};
use crate::lua::raised::{SANDBOX_NAME, reply as raised_reply};
use crate::lua::registered::{self, Registered};
use crate::lua::reply::{self, Returned};
use crate::lua::{bits, json, message_pack, packed, source};

/// Instructions between two questions whether the script is to go on.
const INSTRUCTIONS: u32 = 100_000;
/// How long a library may take to register its functions.
const LOAD_TIME: Duration = Duration::from_millis(500);
/// Scripts between two steps of the collection of garbage. Redis's tests want little of it.
const SCRIPTS_PER_STEP: u64 = 50;
/// What a script gets from the server while it is executed.
pub(crate) trait Host {
    /// Executes a command and appends its reply; an error is the text of an error reply with its code. `resp3`: in which
    /// protocol.
    fn call(&mut self, words: Args<'_>, resp3: bool, reply: &mut Vec<u8>) -> Result<(), String>;

    /// Whether the client may have this command executed; none: there is no such command.
    fn may_call(&mut self, words: Args<'_>) -> Option<bool>;

    /// Is called now and then.
    fn tick(&mut self) -> Interruption;
}

/// Whether a script goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Interruption {
    /// It does.
    No,
    /// It ends with an error of this text, with its code.
    End(&'static str),
}

/// A place in a script: its name and the line.
pub(crate) type Place = (String, i64);

/// How a script ended.
pub(crate) enum Outcome {
    /// It returned.
    Returned(Returned),
    /// It failed: the text of the error reply with its code, and where: source and line.
    Failed(Vec<u8>, Option<Place>),
}

/// Why code was not taken: the text of an error reply without its code.
pub(crate) struct Refused(pub(crate) Vec<u8>);

impl From<mlua::Error> for Refused {
    fn from(error: mlua::Error) -> Refused {
        Refused(error.to_string().into_bytes())
    }
}

/// A state of Lua.
pub(crate) struct Engine {
    lua: Lua,
    state: Rc<State>,
    shown_globals: Table,
    /// Its `call` answers whether the script is to go on, too.
    redis: Table,
    run: Function,
    run_function: Function,
    load: Function,
    unload: Function,
    scripts: std::cell::Cell<u64>,
}

impl Engine {
    /// A state with nothing in it but the sandbox. `is_command` says whether there is a command of these words.
    ///
    /// # Errors
    /// There is no memory.
    pub(crate) fn new(is_command: fn(Args<'_>) -> bool) -> mlua::Result<Engine> {
        let libraries = StdLib::TABLE | StdLib::STRING | StdLib::MATH;
        let lua = Lua::new_with(libraries, LuaOptions::new())?;
        let state = Rc::new(State::new());
        let host = lua.create_table()?;
        host.raw_set("cjson", json::library(&lua)?)?;
        host.raw_set("cmsgpack", message_pack::library(&lua)?)?;
        host.raw_set("struct", packed::library(&lua)?)?;
        host.raw_set("bit", bits::library(&lua)?)?;
        host.raw_set("redis", api::library(&lua, &state, is_command)?)?;
        host.raw_set("handler", api::handler(&lua)?)?;
        host.raw_set("native", lua.create_function(crate::lua::raised::native)?)?;
        host.raw_set("register", register(&lua, &state)?)?;
        host.raw_set("loadstring", source::load_string(&lua)?)?;
        let (random, seed) = api::random(&lua, &state)?;
        host.raw_set("random", random)?;
        host.raw_set("randomseed", seed)?;
        let sandbox: Table = lua
            .load(include_str!("sandbox.lua"))
            .set_name(SANDBOX_NAME)
            .set_mode(ChunkMode::Text)
            .call(host)?;
        let shown_globals: Table = sandbox.raw_get("shown_globals")?;
        lua.set_globals(shown_globals.clone())?;
        let engine = Engine {
            state,
            shown_globals,
            redis: sandbox.raw_get("redis")?,
            run: sandbox.raw_get("run")?,
            run_function: sandbox.raw_get("run_function")?,
            load: sandbox.raw_get("load")?,
            unload: sandbox.raw_get("unload")?,
            scripts: std::cell::Cell::new(0),
            lua,
        };
        engine.set_hook(INSTRUCTIONS)?;
        Ok(engine)
    }

    /// Bytes of memory that the state takes.
    pub(crate) fn memory(&self) -> usize {
        self.lua.used_memory()
    }

    fn set_hook(&self, instructions: u32) -> mlua::Result<()> {
        let triggers = HookTriggers::new().every_nth_instruction(instructions);
        let (state, redis) = (self.state.clone(), self.redis.clone());
        self.lua.set_global_hook(triggers, move |lua, _| {
            let runs = state.is_running.get() || state.registered.borrow().is_some();
            if runs
                && let Value::Function(call) = redis.raw_get("call")?
                && let Some(text) = call.call::<Option<mlua::LuaString>>(api::tick())?
            {
                let text: Rc<[u8]> = Rc::from(&*text.as_bytes());
                *state.ended.borrow_mut() = Some(text.to_vec());
                return Err(end(lua, text));
            }
            Ok(VmState::Continue)
        })
    }

    /// A function from the source of a script; errors call it `name`.
    ///
    /// # Errors
    /// It is no Lua.
    pub(crate) fn compile(&self, code: &[u8], name: &str) -> Result<Function, Refused> {
        let chunk = self.lua.load(code).set_name(format!("@{name}")).set_mode(ChunkMode::Text);
        let compiled = source::compile(&self.lua, code, || chunk.into_function())
            .map_err(|why| Refused(format!("{name}: {why}").into_bytes()))?;
        compiled.map_err(|error| match error {
            mlua::Error::SyntaxError { message, .. } => Refused(message.into_bytes()),
            other => other.into(),
        })
    }

    /// Loads a library of functions.
    ///
    /// # Errors
    /// It is no Lua, fails, or takes too long.
    pub(crate) fn load(&self, code: &[u8]) -> Result<Vec<Registered>, Refused> {
        let with = |what: &[u8], error: &[u8]| Refused([what, error].concat());
        let function = self
            .compile(code, "user_function")
            .map_err(|Refused(error)| with(b"Error compiling function: ", &error))?;
        *self.state.registered.borrow_mut() = Some(Vec::new());
        let began = Instant::now();
        let late = self.lua.create_function(move |lua, ()| {
            let is_late = began.elapsed() > LOAD_TIME;
            is_late.then(|| lua.create_string("ERR FUNCTION LOAD timeout")).transpose()
        })?;
        self.redis.raw_set("call", late)?;
        let loaded = self.load.call::<(bool, Value)>(function);
        self.set_hook(INSTRUCTIONS)?;
        self.unload.call::<()>(())?;
        let ended = self.state.ended.take();
        let registered = self.state.registered.borrow_mut().take().unwrap_or_default();
        if let Some(text) = ended {
            return Err(with(b"Error registering functions: ", &text));
        }
        match loaded? {
            (true, _) => Ok(registered),
            (false, raised) => {
                let (text, _) = failure(&raised)?;
                Err(with(b"Error registering functions: ", &text))
            }
        }
    }

    /// Executes a script. Its keys and arguments are globals of it, or its arguments.
    ///
    /// # Errors
    /// There is no memory.
    pub(crate) fn run(
        &self,
        function: &Function,
        [keys, args]: [&[&[u8]]; 2],
        are_globals: bool,
        host: &mut dyn Host,
    ) -> mlua::Result<Outcome> {
        let list = |words: &[&[u8]]| {
            let table = self.lua.create_table_with_capacity(words.len(), 0)?;
            for (index, word) in words.iter().enumerate() {
                table.raw_seti(index + 1, self.lua.create_string(word)?)?;
            }
            Ok::<Table, mlua::Error>(table)
        };
        let (keys, args) = (list(keys)?, list(args)?);
        let run = if are_globals { &self.run } else { &self.run_function };
        self.state.is_running.set(true);
        self.state.resp3.set(false);
        let host = RefCell::new(host);
        let ended = self.lua.scope(|scope| {
            let call = scope.create_function(|lua, args: MultiValue| self.call(lua, args, &host));
            self.redis.raw_set("call", call?)?;
            run.call::<(bool, Value)>((function, keys, args))
        });
        self.state.is_running.set(false);
        let text = self.state.ended.take();
        if text.is_some() {
            // The hook still ends everything.
            self.set_hook(INSTRUCTIONS)?;
        }
        self.clean()?;
        if let Some(text) = text {
            return Ok(Outcome::Failed(text, None));
        }
        Ok(match ended? {
            (true, value) => Outcome::Returned(reply::returned(&value, self.state.resp3.get(), 0)?),
            (false, raised) => {
                let (text, place) = failure(&raised)?;
                Outcome::Failed(text, place)
            }
        })
    }

    /// After a script: nothing of it is left in the globals that it has seen, and some garbage is collected.
    fn clean(&self) -> mlua::Result<()> {
        if !self.shown_globals.is_empty() {
            self.shown_globals.clear()?;
        }
        self.scripts.set(self.scripts.get() + 1);
        if self.scripts.get().is_multiple_of(SCRIPTS_PER_STEP) {
            self.lua.gc_step()?;
        }
        Ok(())
    }

    /// `redis.call`, and what others ask through it.
    fn call(
        &self,
        lua: &Lua,
        mut args: MultiValue,
        host: &RefCell<&mut dyn Host>,
    ) -> mlua::Result<Value> {
        if api::is_tick(&args) {
            return tick(lua, host);
        }
        if let Some(asked) = api::asked(&args) {
            return may_call(&asked, host);
        }
        let is_protected = api::take_protected(&mut args);
        let resp3 = self.state.resp3.get();
        let (mut words, mut bytes) = self.state.spare.take();
        let called = words.read(&args).and_then(|()| match host.try_borrow_mut() {
            Ok(mut host) => host.call(words.args(), resp3, &mut bytes).map_err(raised_reply),
            Err(_) => Err(raised_reply("ERR redis.call cannot be called from within itself")),
        });
        let value = match called {
            Ok(()) if !is_protected && bytes.first() == Some(&b'-') => {
                let text = bytes[1..].split(|byte| *byte == b'\r').next().unwrap_or_default();
                Err(raised_reply(text))
            }
            Ok(()) => reply::value(lua, &bytes).map(|(value, _)| value),
            Err(error) if is_protected => {
                crate::lua::raised::native(lua, Value::Error(Box::new(error)))
            }
            Err(error) => Err(error),
        };
        self.state.keep(words, bytes);
        value
    }
}

/// The text that the script is to end with, if it is.
fn tick(lua: &Lua, host: &RefCell<&mut dyn Host>) -> mlua::Result<Value> {
    let interruption = host.try_borrow_mut().map(|mut host| host.tick());
    match interruption {
        Ok(Interruption::End(text)) => lua.create_string(text).map(Value::String),
        Ok(Interruption::No) | Err(_) => Ok(Value::Nil),
    }
}

/// `redis.acl_check_cmd`.
fn may_call(args: &MultiValue, host: &RefCell<&mut dyn Host>) -> mlua::Result<Value> {
    let words = api::words(args)?;
    let may_call = host.try_borrow_mut().ok().and_then(|mut host| host.may_call(words.args()));
    may_call.map(Value::Boolean).ok_or_else(|| raised_reply(api::NO_COMMAND))
}

/// The error that ends the script. From now on each instruction of it raises the error, in each of its coroutines, so that
/// no `pcall` keeps it alive.
fn end(lua: &Lua, text: Rc<[u8]>) -> mlua::Error {
    let again = text.clone();
    let triggers = HookTriggers::new().every_nth_instruction(1);
    let set = lua.set_global_hook(triggers, move |lua, _| Err(end(lua, again.clone())));
    set.map_or_else(|error| error, |()| raised_reply(&*text))
}

/// The error that the handler has made: its text, and its place.
fn failure(raised: &Value) -> mlua::Result<(Vec<u8>, Option<Place>)> {
    let Value::Table(table) = raised else {
        return Ok((b"ERR execution failure".to_vec(), None));
    };
    let text = match table.get("err")? {
        Value::String(text) => text.as_bytes().to_vec(),
        other => other.to_string()?.into_bytes(),
    };
    let place = match (table.get("source")?, table.get("line")?) {
        (Value::String(source), Value::Integer(line)) => Some((source.to_string_lossy(), line)),
        _ => None,
    };
    Ok((text, place))
}

/// `redis.register_function`.
fn register(lua: &Lua, state: &Rc<State>) -> mlua::Result<Function> {
    let of = state.clone();
    lua.create_function(move |lua, args: MultiValue| {
        let mut registered = of.registered.borrow_mut();
        let Some(functions) = registered.as_mut() else {
            return Err(raised_reply(
                "ERR redis.register_function can only be called on FUNCTION LOAD command",
            ));
        };
        let function = registered::read(lua, &args)?;
        if functions.iter().any(|other| other.is_named(&function.name)) {
            return Err(raised_reply("ERR Function already exists in the library"));
        }
        functions.push(function);
        Ok(())
    })
}
