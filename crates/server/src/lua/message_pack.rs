//! The library `cmsgpack`: MessagePack as scripts for Redis write and read it.

use mlua::{Lua, MultiValue, Result, Table, Value};

use crate::lua::number::{coerced, number};
use crate::lua::raised::{argument, located, wanted};

/// Tables nested more deeply are written as nil.
const DEPTH_MAX: usize = 16;
/// Values nested more deeply are not read.
const READ_DEPTH_MAX: usize = 1000;

/// The library.
pub(super) fn library(lua: &Lua) -> Result<Table> {
    let library = lua.create_table()?;
    let pack = |lua: &Lua, args: MultiValue| {
        if args.is_empty() {
            return Err(argument(lua, "pack", 0, "MessagePack pack needs input."));
        }
        let mut bytes = Vec::new();
        args.iter().try_for_each(|value| write(&mut bytes, value, 0))?;
        lua.create_string(bytes)
    };
    library.raw_set("pack", lua.create_function(pack)?)?;
    let all = |lua: &Lua, args: MultiValue| unpack(lua, ("unpack", &args), (0, 0));
    library.raw_set("unpack", lua.create_function(all)?)?;
    let one = |lua: &Lua, args: MultiValue| {
        let offset = whole(lua, ("unpack_one", &args), 2, 0)?;
        unpack(lua, ("unpack_one", &args), (1, offset))
    };
    library.raw_set("unpack_one", lua.create_function(one)?)?;
    let limited = |lua: &Lua, args: MultiValue| {
        let Some(limit) = args.get(1).and_then(coerced) else {
            return Err(wanted(lua, "unpack_limit", 2, ("number", args.get(1))));
        };
        let offset = whole(lua, ("unpack_limit", &args), 3, 0)?;
        unpack(lua, ("unpack_limit", &args), (limit as i64, offset))
    };
    library.raw_set("unpack_limit", lua.create_function(limited)?)?;
    library.raw_set("_NAME", "cmsgpack")?;
    library.raw_set("_VERSION", "lua-cmsgpack 0.4.0")?;
    library.raw_set("_COPYRIGHT", "Tembo")?;
    library.raw_set("_DESCRIPTION", "MessagePack implementation for Lua")?;
    Ok(library)
}

fn whole(lua: &Lua, (name, args): (&str, &MultiValue), at: usize, default: i64) -> Result<i64> {
    match args.get(at - 1) {
        None | Some(Value::Nil) => Ok(default),
        Some(value) => match coerced(value) {
            Some(number) => Ok(number as i64),
            None => Err(wanted(lua, name, at, ("number", Some(value)))),
        },
    }
}

/// A head with a length: three forms by its size, each with its first byte.
fn write_head(bytes: &mut Vec<u8>, size: usize, firsts: [Option<u8>; 3]) {
    match (size, firsts) {
        (0..=0xff, [Some(first), ..]) => bytes.extend_from_slice(&[first, size as u8]),
        (0..=0xffff, [_, Some(first), _]) => {
            bytes.push(first);
            bytes.extend_from_slice(&(size as u16).to_be_bytes());
        }
        (_, [.., last]) => {
            bytes.push(last.unwrap_or_default());
            bytes.extend_from_slice(&(size as u32).to_be_bytes());
        }
    }
}

fn write(bytes: &mut Vec<u8>, value: &Value, depth: usize) -> Result<()> {
    match value {
        Value::String(text) => {
            let text = text.as_bytes();
            match text.len() {
                size @ 0..32 => bytes.push(0xa0 | size as u8),
                size => write_head(bytes, size, [Some(0xd9), Some(0xda), Some(0xdb)]),
            }
            bytes.extend_from_slice(&text);
        }
        Value::Boolean(flag) => bytes.push(if *flag { 0xc3 } else { 0xc2 }),
        Value::Integer(number) => write_integer(bytes, *number),
        Value::Number(number) => write_number(bytes, *number),
        Value::Table(table) if depth < DEPTH_MAX => write_table(bytes, table, depth)?,
        _ => bytes.push(0xc0),
    }
    Ok(())
}

fn write_number(bytes: &mut Vec<u8>, number: f64) {
    let whole = number as i64;
    if whole as f64 == number && whole != i64::MAX {
        return write_integer(bytes, whole);
    }
    let single = number as f32;
    if f64::from(single) == number {
        bytes.push(0xca);
        bytes.extend_from_slice(&single.to_be_bytes());
    } else {
        bytes.push(0xcb);
        bytes.extend_from_slice(&number.to_be_bytes());
    }
}

fn write_integer(bytes: &mut Vec<u8>, number: i64) {
    match number {
        -32..=0x7f => bytes.push(number as u8),
        0x80..=0xff => bytes.extend_from_slice(&[0xcc, number as u8]),
        0x100..=0xffff => {
            bytes.push(0xcd);
            bytes.extend_from_slice(&(number as u16).to_be_bytes());
        }
        0x1_0000..=0xffff_ffff => {
            bytes.push(0xce);
            bytes.extend_from_slice(&(number as u32).to_be_bytes());
        }
        0x1_0000_0000.. => {
            bytes.push(0xcf);
            bytes.extend_from_slice(&number.to_be_bytes());
        }
        -0x80..=-0x21 => bytes.extend_from_slice(&[0xd0, number as u8]),
        -0x8000..=-0x81 => {
            bytes.push(0xd1);
            bytes.extend_from_slice(&(number as i16).to_be_bytes());
        }
        -0x8000_0000..=-0x8001 => {
            bytes.push(0xd2);
            bytes.extend_from_slice(&(number as i32).to_be_bytes());
        }
        _ => {
            bytes.push(0xd3);
            bytes.extend_from_slice(&number.to_be_bytes());
        }
    }
}

fn write_table(bytes: &mut Vec<u8>, table: &Table, depth: usize) -> Result<()> {
    let (mut count, mut most, mut is_array) = (0usize, 0.0f64, true);
    for pair in table.pairs::<Value, Value>() {
        let (key, _) = pair?;
        count += 1;
        match number(&key) {
            Some(index) if index > 0.0 && index.fract() == 0.0 && index <= f64::from(i32::MAX) => {
                most = most.max(index);
            }
            _ => is_array = false,
        }
    }
    if is_array && most == count as f64 {
        match count {
            0..16 => bytes.push(0x90 | count as u8),
            _ => write_head(bytes, count, [None, Some(0xdc), Some(0xdd)]),
        }
        for index in 1..=count {
            write(bytes, &table.raw_get(index)?, depth + 1)?;
        }
        return Ok(());
    }
    match count {
        0..16 => bytes.push(0x80 | count as u8),
        _ => write_head(bytes, count, [None, Some(0xde), Some(0xdf)]),
    }
    for pair in table.pairs::<Value, Value>() {
        let (key, value) = pair?;
        write(bytes, &key, depth + 1)?;
        write(bytes, &value, depth + 1)?;
    }
    Ok(())
}

/// Reads at most `limit` values from an offset on, or all if both are 0. With either, the first value returned is where
/// the next one is, or -1.
fn unpack(
    lua: &Lua,
    (name, args): (&str, &MultiValue),
    (limit, offset): (i64, i64),
) -> Result<MultiValue> {
    let text = match args.front() {
        Some(value @ (Value::String(_) | Value::Integer(_) | Value::Number(_))) => {
            lua.coerce_string(value.clone())?
        }
        _ => None,
    };
    let Some(text) = text else {
        return Err(wanted(lua, name, 1, ("string", args.front())));
    };
    let bytes = text.as_bytes();
    let size = bytes.len() as i64;
    if offset < 0 || limit < 0 {
        let text =
            format!("Invalid request to unpack with offset of {offset} and limit of {size}.");
        return Err(located(lua, &text));
    }
    if offset > size {
        let text = format!("Start offset {offset} greater than input length {size}.");
        return Err(located(lua, &text));
    }
    let is_all = limit == 0 && offset == 0;
    let most = if is_all { i64::MAX } else { limit };
    let mut reader = Reader { lua, rest: &bytes[offset as usize..] };
    let mut values = Vec::new();
    while !reader.rest.is_empty() && (values.len() as i64) < most {
        match reader.value(0) {
            Ok(value) => values.push(value),
            Err(Bad::Missing) => return Err(located(lua, "Missing bytes in input.")),
            Err(Bad::Format) => return Err(located(lua, "Bad data format in input.")),
            Err(Bad::Lua(error)) => return Err(error),
        }
    }
    if !is_all {
        let left = reader.rest.len() as i64;
        values.insert(0, Value::Integer(if left == 0 { -1 } else { size - left }));
    }
    Ok(MultiValue::from_vec(values))
}

enum Bad {
    Missing,
    Format,
    Lua(mlua::Error),
}

impl From<mlua::Error> for Bad {
    fn from(error: mlua::Error) -> Bad {
        Bad::Lua(error)
    }
}

struct Reader<'a> {
    lua: &'a Lua,
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    fn take(&mut self, size: usize) -> std::result::Result<&'a [u8], Bad> {
        let (taken, rest) = self.rest.split_at_checked(size).ok_or(Bad::Missing)?;
        self.rest = rest;
        Ok(taken)
    }

    fn array<const N: usize>(&mut self) -> std::result::Result<[u8; N], Bad> {
        self.take(N)?.try_into().map_err(|_| Bad::Missing)
    }

    fn size(&mut self, bytes: usize) -> std::result::Result<usize, Bad> {
        Ok(self.take(bytes)?.iter().fold(0, |sum, byte| sum << 8 | usize::from(*byte)))
    }

    fn value(&mut self, depth: usize) -> std::result::Result<Value, Bad> {
        if depth > READ_DEPTH_MAX {
            return Err(Bad::Format);
        }
        let [first] = self.array()?;
        let number = |number: f64| Ok(Value::Number(number));
        match first {
            0x00..=0x7f => number(f64::from(first)),
            0xe0..=0xff => number(f64::from(first as i8)),
            0x80..=0x8f => self.map(usize::from(first & 0xf), depth),
            0x90..=0x9f => self.list(usize::from(first & 0xf), depth),
            0xa0..=0xbf => self.text(usize::from(first & 0x1f)),
            0xc0 => Ok(Value::Nil),
            0xc2 | 0xc3 => Ok(Value::Boolean(first == 0xc3)),
            0xca => number(f64::from(f32::from_be_bytes(self.array()?))),
            0xcb => number(f64::from_be_bytes(self.array()?)),
            0xcc => number(f64::from(u8::from_be_bytes(self.array()?))),
            0xcd => number(f64::from(u16::from_be_bytes(self.array()?))),
            0xce => number(f64::from(u32::from_be_bytes(self.array()?))),
            0xcf => number(u64::from_be_bytes(self.array()?) as f64),
            0xd0 => number(f64::from(i8::from_be_bytes(self.array()?))),
            0xd1 => number(f64::from(i16::from_be_bytes(self.array()?))),
            0xd2 => number(f64::from(i32::from_be_bytes(self.array()?))),
            0xd3 => number(i64::from_be_bytes(self.array()?) as f64),
            0xd9..=0xdb => {
                let size = self.size(1 << (first - 0xd9))?;
                self.text(size)
            }
            0xdc | 0xdd => {
                let count = self.size(2 << (first - 0xdc))?;
                self.list(count, depth)
            }
            0xde | 0xdf => {
                let count = self.size(2 << (first - 0xde))?;
                self.map(count, depth)
            }
            _ => Err(Bad::Format),
        }
    }

    fn text(&mut self, size: usize) -> std::result::Result<Value, Bad> {
        Ok(Value::String(self.lua.create_string(self.take(size)?)?))
    }

    fn list(&mut self, count: usize, depth: usize) -> std::result::Result<Value, Bad> {
        let table = self.lua.create_table()?;
        for index in 1..=count {
            let value = self.value(depth + 1)?;
            table.raw_seti(index, value)?;
        }
        Ok(Value::Table(table))
    }

    fn map(&mut self, count: usize, depth: usize) -> std::result::Result<Value, Bad> {
        let table = self.lua.create_table()?;
        for _ in 0..count {
            let key = self.value(depth + 1)?;
            let value = self.value(depth + 1)?;
            // As in Redis, nil and not-a-number are no keys, and the script fails.
            table.set(key, value)?;
        }
        Ok(Value::Table(table))
    }
}
