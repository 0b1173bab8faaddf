//! Functions that a library registers while it is loaded.

use std::cell::Cell;
use std::rc::Rc;

use mlua::{Function, Lua, MultiValue, Result, Table, Value};

use crate::lua::raised::reply;
use crate::lua::script_flags::ScriptFlags;

/// A function of a library.
#[derive(Clone)]
pub(crate) struct Registered {
    /// Its name.
    pub(crate) name: Vec<u8>,
    /// What it is for, if that was said.
    pub(crate) description: Option<Vec<u8>>,
    /// What it may do.
    pub(crate) flags: ScriptFlags,
    /// The function.
    pub(crate) function: Function,
    /// Whether it has run, and its last run was short.
    pub(crate) was_short: Rc<Cell<bool>>,
}

impl Registered {
    /// Whether this is its name. The case of letters does not count.
    pub(crate) fn is_named(&self, name: &[u8]) -> bool {
        self.name.eq_ignore_ascii_case(name)
    }
}

/// Whether libraries and functions can have this name.
pub(crate) fn is_name(name: &[u8]) -> bool {
    !name.is_empty() && name.iter().all(|byte| byte.is_ascii_alphanumeric() || *byte == b'_')
}

/// What is wrong with a name of a library or function.
pub(crate) const BAD_NAME: &str = "Library names can only contain letters, numbers, or \
     underscores(_) and must be at least one character long";

fn text(lua: &Lua, value: &Value) -> Result<Option<Vec<u8>>> {
    match value {
        Value::String(_) | Value::Integer(_) | Value::Number(_) => {
            Ok(lua.coerce_string(value.clone())?.map(|text| text.as_bytes().to_vec()))
        }
        _ => Ok(None),
    }
}

/// The function that the arguments of `redis.register_function` describe.
///
/// # Errors
/// They describe none.
pub(super) fn read(lua: &Lua, args: &MultiValue) -> Result<Registered> {
    let registered = match (args.len(), args.front(), args.get(1)) {
        (1, Some(Value::Table(table)), _) => read_table(lua, table)?,
        (1, ..) => {
            return Err(reply(
                "ERR calling redis.register_function with a single argument is only applicable \
                 to Lua table (representing named arguments).",
            ));
        }
        (2, Some(name), function) => {
            let Some(name) = text(lua, name)? else {
                let text = "ERR first argument to redis.register_function must be a string";
                return Err(reply(text));
            };
            let Some(Value::Function(function)) = function else {
                let text = "ERR second argument to redis.register_function must be a function";
                return Err(reply(text));
            };
            let (function, flags) = (function.clone(), ScriptFlags::default());
            Registered { name, description: None, flags, function, was_short: Rc::default() }
        }
        _ => return Err(reply("ERR wrong number of arguments to redis.register_function")),
    };
    if !is_name(&registered.name) {
        return Err(reply(format!("ERR {BAD_NAME}")));
    }
    Ok(registered)
}

fn read_table(lua: &Lua, table: &Table) -> Result<Registered> {
    let (mut name, mut description, mut function) = (None, None, None);
    let mut flags = ScriptFlags::default();
    let string = |field: &str, value: &Value| {
        text(lua, value)?.map(Some).ok_or_else(|| {
            let what = format!("{field} argument given to redis.register_function");
            reply(format!("ERR {what} must be a string"))
        })
    };
    for pair in table.pairs::<Value, Value>() {
        let (key, value) = pair?;
        let Some(key) = text(lua, &key)? else {
            return Err(reply(
                "ERR named argument key given to redis.register_function is not a string",
            ));
        };
        match key.to_ascii_lowercase().as_slice() {
            b"function_name" => name = string("function_name", &value)?,
            b"description" => description = string("description", &value)?,
            b"callback" => match value {
                Value::Function(given) => function = Some(given),
                _ => {
                    return Err(reply(
                        "ERR callback argument given to redis.register_function must be a function",
                    ));
                }
            },
            b"flags" => match value {
                Value::Table(given) => flags = read_flags(lua, &given)?,
                _ => {
                    return Err(reply(
                        "ERR flags argument to redis.register_function must be a table \
                         representing function flags",
                    ));
                }
            },
            _ => return Err(reply("ERR unknown argument given to redis.register_function")),
        }
    }
    let Some(name) = name else {
        return Err(reply("ERR redis.register_function must get a function name argument"));
    };
    let Some(function) = function else {
        return Err(reply("ERR redis.register_function must get a callback argument"));
    };
    Ok(Registered { name, description, flags, function, was_short: Rc::default() })
}

fn read_flags(lua: &Lua, table: &Table) -> Result<ScriptFlags> {
    let mut flags = ScriptFlags::default();
    for index in 1.. {
        let value: Value = table.get(index)?;
        if value.is_nil() {
            break;
        }
        let word = text(lua, &value)?.map(|word| word.to_ascii_lowercase());
        if !word.is_some_and(|word| flags.add(&word)) {
            return Err(reply("ERR unknown flag given"));
        }
    }
    Ok(flags)
}
