//! Scripts that clients have sent: the state of Lua that they run in, those that EVALSHA finds, the one that runs.

use std::cell::Cell;
use std::collections::HashMap;
use std::rc::Rc;

use mlua::Function;

use crate::args::Args;
use crate::failure::Failure;
use crate::libraries::Libraries;
use crate::lua::{Engine, Refused, ScriptFlags, of_script, sha1_hex};

/// Longer sources are not compared with the next one.
const LAST_SIZE_MAX: usize = 16 << 10;

/// A script that EVALSHA finds.
pub(crate) struct Script {
    /// Its SHA-1.
    pub(crate) sha: String,
    /// What is executed.
    pub(crate) function: Function,
    /// What it says of itself; `None`: nothing, so that it may do what scripts before Redis 7 may.
    pub(crate) flags: Option<ScriptFlags>,
    /// Whether it has run, and its last run was short.
    pub(crate) was_short: Cell<bool>,
}

/// The script that runs.
pub(crate) struct Running {
    /// The SHA-1 of a script, the name of a function.
    pub(crate) name: String,
    /// Whether EVAL or its like runs it, not FCALL.
    pub(crate) is_eval: bool,
    /// It has executed a command that writes.
    pub(crate) has_written: bool,
    /// SCRIPT KILL or FUNCTION KILL has ended it.
    pub(crate) is_killed: bool,
    /// The command that runs it.
    pub(crate) command: Vec<Vec<u8>>,
    /// When it began, by the system's clock that never goes back.
    pub(crate) began: std::time::Instant,
}

/// All scripts. They are kept in memory only, as in Redis; libraries of functions are in the store.
#[derive(Default)]
pub(crate) struct Scripts {
    engine: Option<Rc<Engine>>,
    by_sha: HashMap<String, Rc<Script>>,
    sizes: usize,
    /// What EVAL executed last and its source: often the next one is the same.
    last: Option<(Vec<u8>, Rc<Script>)>,
    /// The libraries of functions.
    pub(crate) libraries: Libraries,
    /// The script that runs.
    pub(crate) running: Option<Running>,
    /// Scripts may call DEBUG PROTOCOL and DEBUG SLEEP.
    pub(crate) may_debug: bool,
    /// The last script has ended with an error, and its command is still to be counted.
    pub(crate) ended_with_error: bool,
}

impl Scripts {
    /// The state that scripts run in. `is_command` says whether there is a command of these words.
    pub(crate) fn engine(
        &mut self,
        is_command: fn(Args<'_>) -> bool,
    ) -> Result<Rc<Engine>, Failure> {
        if let Some(engine) = &self.engine {
            return Ok(engine.clone());
        }
        let engine = Rc::new(Engine::new(is_command).map_err(failure)?);
        self.engine = Some(engine.clone());
        Ok(engine)
    }

    /// The script with that SHA-1 in lower case.
    pub(crate) fn find(&self, sha: &str) -> Option<Rc<Script>> {
        self.by_sha.get(sha).cloned()
    }

    /// Compiles a script, unless it is known.
    pub(crate) fn add(
        &mut self,
        code: &[u8],
        is_command: fn(Args<'_>) -> bool,
    ) -> Result<Rc<Script>, Failure> {
        if let Some((last, script)) = &self.last
            && last == code
        {
            return Ok(script.clone());
        }
        let sha = sha1_hex(code);
        let script = match self.find(&sha) {
            Some(script) => script,
            None => self.compile(code, sha, is_command)?,
        };
        if code.len() <= LAST_SIZE_MAX {
            let mut source = self.last.take().map_or_else(Vec::new, |(source, _)| source);
            source.clear();
            source.extend_from_slice(code);
            self.last = Some((source, script.clone()));
        }
        Ok(script)
    }

    fn compile(
        &mut self,
        code: &[u8],
        sha: String,
        is_command: fn(Args<'_>) -> bool,
    ) -> Result<Rc<Script>, Failure> {
        let (flags, skipped) =
            of_script(code).map_err(|text| Failure::from(format!("ERR {text}")))?;
        let engine = self.engine(is_command)?;
        let compiled = engine.compile(&code[skipped..], "user_script");
        let function = compiled.map_err(|Refused(text)| {
            let what = b"ERR Error compiling script (new function): ".as_slice();
            Failure::Reply([what, &text].concat().into())
        })?;
        self.sizes += sha.len() + code.len();
        let script = Rc::new(Script { sha, function, flags, was_short: Cell::default() });
        self.by_sha.insert(script.sha.clone(), script.clone());
        Ok(script)
    }

    /// Whether a command that can write may do so: false for a script that says that it only reads.
    pub(crate) fn may_write(&self, args: Args<'_>) -> bool {
        let flags = if args.is(0, "FCALL") {
            self.libraries.find(args.at(1)).map(|(_, function)| function.flags)
        } else if args.is(0, "EVALSHA") {
            let sha = String::from_utf8_lossy(args.at(1)).to_ascii_lowercase();
            self.find(&sha).and_then(|script| script.flags)
        } else if args.is(0, "EVAL") {
            of_script(args.at(1)).ok().and_then(|(flags, _)| flags)
        } else {
            None
        };
        !flags.is_some_and(ScriptFlags::no_writes)
    }

    /// Forgets all scripts, and the state with them.
    pub(crate) fn flush(&mut self) {
        self.by_sha.clear();
        self.last = None;
        self.sizes = 0;
        self.engine = None;
    }

    /// How many scripts EVALSHA finds.
    pub(crate) fn count(&self) -> usize {
        self.by_sha.len()
    }

    /// Bytes that the scripts' sources and names take.
    pub(crate) fn sizes(&self) -> usize {
        self.sizes
    }

    /// Bytes of the state that scripts run in.
    pub(crate) fn memory(&self) -> usize {
        self.engine.as_ref().map_or(0, |engine| engine.memory())
    }
}

/// The failure of a command by an error of Lua itself.
pub(crate) fn failure(error: mlua::Error) -> Failure {
    Failure::from(format!("ERR {error}"))
}
