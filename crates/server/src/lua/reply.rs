//! Replies as values of Lua, and values of Lua as replies.

use mlua::{Lua, Result, Table, Value};

use crate::lua::number::number;

/// Values nested more deeply than this are not replied.
const DEPTH_MAX: usize = 1000;

/// What a script has returned, as a reply.
#[derive(Debug)]
pub(crate) enum Returned {
    /// No value.
    Null,
    /// A number.
    Integer(i64),
    /// Bytes.
    Bulk(Vec<u8>),
    /// A status.
    Simple(Vec<u8>),
    /// An error's text, code included.
    Error(Vec<u8>),
    /// True or false, of a script that speaks RESP3.
    Flag(bool),
    /// A double.
    Double(f64),
    /// Digits.
    BigNumber(Vec<u8>),
    /// Text and its format.
    Verbatim(Vec<u8>, Vec<u8>),
    /// Values.
    Array(Vec<Returned>),
    /// Keys and values.
    Map(Vec<(Returned, Returned)>),
    /// Different values.
    Set(Vec<Returned>),
}

/// The reply that a script has returned; `resp3` is what the script speaks.
pub(super) fn returned(value: &Value, resp3: bool, depth: usize) -> Result<Returned> {
    if depth > DEPTH_MAX {
        return Ok(Returned::Error(b"ERR reached lua stack limit".to_vec()));
    }
    Ok(match value {
        Value::String(text) => Returned::Bulk(text.as_bytes().to_vec()),
        Value::Boolean(flag) if resp3 => Returned::Flag(*flag),
        Value::Boolean(true) => Returned::Integer(1),
        Value::Integer(number) => Returned::Integer(*number),
        Value::Number(number) => Returned::Integer(whole(*number)),
        Value::Table(table) => returned_table(table, resp3, depth)?,
        _ => Returned::Null,
    })
}

/// Cut off as C does on the processors that Redis runs on.
fn whole(number: f64) -> i64 {
    let fits = (-9_223_372_036_854_775_808.0..9_223_372_036_854_775_808.0).contains(&number);
    if fits { number as i64 } else { i64::MIN }
}

fn field(table: &Table, name: &str) -> Result<Option<Vec<u8>>> {
    Ok(match table.raw_get(name)? {
        Value::String(text) => Some(text.as_bytes().to_vec()),
        _ => None,
    })
}

fn returned_table(table: &Table, resp3: bool, depth: usize) -> Result<Returned> {
    if let Some(text) = field(table, "err")? {
        return Ok(Returned::Error(text));
    }
    if let Some(text) = field(table, "ok")? {
        return Ok(Returned::Simple(text));
    }
    if let Some(number) = number(&table.raw_get("double")?) {
        return Ok(Returned::Double(number));
    }
    if let Some(digits) = field(table, "big_number")? {
        return Ok(Returned::BigNumber(digits));
    }
    if let Value::Table(verbatim) = table.raw_get("verbatim_string")?
        && let Some(format) = field(&verbatim, "format")?
        && let Some(text) = field(&verbatim, "string")?
    {
        return Ok(Returned::Verbatim(format, text));
    }
    if let Value::Table(map) = table.raw_get("map")? {
        let mut pairs = Vec::new();
        for pair in map.pairs::<Value, Value>() {
            let (key, value) = pair?;
            let key = returned(&key, resp3, depth + 1)?;
            pairs.push((key, returned(&value, resp3, depth + 1)?));
        }
        return Ok(Returned::Map(pairs));
    }
    if let Value::Table(set) = table.raw_get("set")? {
        let mut members = Vec::new();
        for pair in set.pairs::<Value, Value>() {
            members.push(returned(&pair?.0, resp3, depth + 1)?);
        }
        return Ok(Returned::Set(members));
    }
    let mut elements = Vec::new();
    for index in 1.. {
        let element: Value = table.raw_get(index)?;
        if element.is_nil() {
            break;
        }
        elements.push(returned(&element, resp3, depth + 1)?);
    }
    Ok(Returned::Array(elements))
}

/// One reply as a value of Lua, and what follows it. Replies are the server's own, so that they are whole.
pub(super) fn value<'a>(lua: &Lua, reply: &'a [u8]) -> Result<(Value, &'a [u8])> {
    let end = reply.iter().position(|byte| *byte == b'\r').unwrap_or(reply.len());
    let line = reply.get(1..end).unwrap_or_default();
    let rest = reply.get(end + 2..).unwrap_or_default();
    let text = |text: &[u8]| Ok::<Value, mlua::Error>(Value::String(lua.create_string(text)?));
    let size = || digits(line).filter(|size| *size >= 0).map(|size| size as usize);
    let single = |name: &str, value: Value| {
        let table = lua.create_table_with_capacity(0, 1)?;
        table.raw_set(name, value)?;
        Ok::<Value, mlua::Error>(Value::Table(table))
    };
    Ok(match reply.first() {
        Some(b':') => (Value::Number(digits(line).unwrap_or(0) as f64), rest),
        Some(b'+') => (single("ok", text(line)?)?, rest),
        Some(b'-') => (single("err", text(line)?)?, rest),
        Some(b'$') => match size() {
            Some(size) => {
                let (bulk, rest) = bulk(rest, size);
                (text(bulk)?, rest)
            }
            None => (Value::Boolean(false), rest),
        },
        Some(b'=') => {
            let (bulk, rest) = bulk(rest, size().unwrap_or(0));
            let verbatim = lua.create_table_with_capacity(0, 2)?;
            verbatim.raw_set("string", text(bulk.get(4..).unwrap_or_default())?)?;
            verbatim.raw_set("format", text(bulk.get(..3).unwrap_or_default())?)?;
            (single("verbatim_string", Value::Table(verbatim))?, rest)
        }
        Some(b'*' | b'>') => match size() {
            Some(count) => array(lua, rest, count)?,
            None => (Value::Boolean(false), rest),
        },
        Some(b'%') => {
            let (map, rest) = map(lua, rest, size().unwrap_or(0))?;
            (single("map", map)?, rest)
        }
        Some(b'~') => {
            let (set, rest) = set(lua, rest, size().unwrap_or(0))?;
            (single("set", set)?, rest)
        }
        Some(b'#') => (Value::Boolean(line == b"t"), rest),
        Some(b',') => {
            let number = std::str::from_utf8(line).ok().and_then(|line| line.parse().ok());
            (single("double", Value::Number(number.unwrap_or(f64::NAN)))?, rest)
        }
        // Attributes come before the reply that they are about, and are not shown to scripts.
        Some(b'|') => return value(lua, map(lua, rest, size().unwrap_or(0))?.1),
        Some(b'(') => (single("big_number", text(line)?)?, rest),
        _ => (Value::Nil, rest),
    })
}

fn digits(line: &[u8]) -> Option<i64> {
    std::str::from_utf8(line).ok()?.parse().ok()
}

fn bulk(reply: &[u8], size: usize) -> (&[u8], &[u8]) {
    (reply.get(..size).unwrap_or_default(), reply.get(size + 2..).unwrap_or_default())
}

fn array<'a>(lua: &Lua, mut reply: &'a [u8], count: usize) -> Result<(Value, &'a [u8])> {
    let table = lua.create_table_with_capacity(count, 0)?;
    for index in 1..=count {
        let (element, rest) = value(lua, reply)?;
        table.raw_seti(index, element)?;
        reply = rest;
    }
    Ok((Value::Table(table), reply))
}

fn map<'a>(lua: &Lua, mut reply: &'a [u8], count: usize) -> Result<(Value, &'a [u8])> {
    let table = lua.create_table_with_capacity(0, count)?;
    for _ in 0..count {
        let (key, rest) = value(lua, reply)?;
        let (element, rest) = value(lua, rest)?;
        table.raw_set(key, element)?;
        reply = rest;
    }
    Ok((Value::Table(table), reply))
}

fn set<'a>(lua: &Lua, mut reply: &'a [u8], count: usize) -> Result<(Value, &'a [u8])> {
    let table = lua.create_table_with_capacity(0, count)?;
    for _ in 0..count {
        let (member, rest) = value(lua, reply)?;
        table.raw_set(member, true)?;
        reply = rest;
    }
    Ok((Value::Table(table), reply))
}
