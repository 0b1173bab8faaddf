//! Errors that functions of the server raise in Lua.

use std::fmt;

use mlua::{Error, Lua, Value};

/// The name of the chunk that makes the sandbox.
pub(super) const SANDBOX_NAME: &str = "=sandbox";
/// Longest chain of errors that is followed.
const CHAIN_MAX: usize = 64;

/// An error as a script is to see it.
#[derive(Debug)]
pub(super) enum Raised {
    /// A string.
    Text(Vec<u8>),
    /// A table with the text of an error reply.
    Reply(Vec<u8>),
}

impl fmt::Display for Raised {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (Raised::Text(text) | Raised::Reply(text)) = self;
        formatter.write_str(&String::from_utf8_lossy(text))
    }
}

impl std::error::Error for Raised {}

/// The error with an error reply's text, code included.
pub(super) fn reply(text: impl Into<Vec<u8>>) -> Error {
    Error::external(Raised::Reply(text.into()))
}

/// The error with a text, and before it the place in the script that called the function.
pub(super) fn located(lua: &Lua, text: &str) -> Error {
    let place = lua.inspect_stack(1, |debug| {
        let line = debug.current_line()?;
        Some(format!("{}:{line}: ", debug.source().short_src?))
    });
    let place = place.flatten().unwrap_or_default();
    Error::external(Raised::Text(format!("{place}{text}").into_bytes()))
}

/// The error of an argument that a function does not take.
pub(super) fn argument(lua: &Lua, function: &str, number: usize, text: &str) -> Error {
    located(lua, &format!("bad argument #{number} to '{function}' ({text})"))
}

/// The error of an argument of another type than wanted.
pub(super) fn wanted(
    lua: &Lua,
    function: &str,
    number: usize,
    (wanted, value): (&str, Option<&Value>),
) -> Error {
    let got = value.map_or("no value", type_name);
    argument(lua, function, number, &format!("{wanted} expected, got {got}"))
}

/// The type's name as Lua has it.
pub(super) fn type_name(value: &Value) -> &'static str {
    match value {
        Value::Nil => "nil",
        Value::Boolean(_) => "boolean",
        Value::Integer(_) | Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Table(_) => "table",
        Value::Function(_) => "function",
        Value::Thread(_) => "thread",
        _ => "userdata",
    }
}

/// What a script sees of an error that a function of the server raised.
pub(super) fn native(lua: &Lua, value: Value) -> mlua::Result<Value> {
    let Value::Error(error) = &value else { return Ok(value) };
    let mut cause: &Error = error;
    for _ in 0..CHAIN_MAX {
        let Error::CallbackError { cause: inner, .. } = cause else { break };
        cause = inner;
    }
    match cause.downcast_ref::<Raised>() {
        Some(Raised::Text(text)) => Ok(Value::String(lua.create_string(text)?)),
        Some(Raised::Reply(text)) => {
            let table = lua.create_table()?;
            table.raw_set("err", lua.create_string(text)?)?;
            Ok(Value::Table(table))
        }
        None => Ok(Value::String(lua.create_string(cause.to_string())?)),
    }
}
