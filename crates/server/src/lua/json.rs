//! The library `cjson`: JSON as scripts for Redis write and read it.

use std::cell::Cell;
use std::rc::Rc;

use mlua::{Function, Lua, MultiValue, Result, Table, Value};

use crate::lua::json_text::Decoder;
use crate::lua::number::{coerced, general, number};
use crate::lua::raised::{argument, located, type_name, wanted};

/// What the library's `encode_…` and `decode_…` functions set, for all scripts of the state.
struct Options {
    sparse_convert: Cell<bool>,
    sparse_ratio: Cell<i64>,
    sparse_safe: Cell<i64>,
    encode_depth_max: Cell<i64>,
    decode_depth_max: Cell<i64>,
    digits: Cell<i64>,
    keep_buffer: Cell<bool>,
    /// 0: refused, 1: written, 2: as null.
    encode_invalid: Cell<u8>,
    decode_invalid: Cell<bool>,
}

/// The library.
pub(super) fn library(lua: &Lua) -> Result<Table> {
    let options = Rc::new(Options {
        sparse_convert: Cell::new(false),
        sparse_ratio: Cell::new(2),
        sparse_safe: Cell::new(10),
        encode_depth_max: Cell::new(1000),
        decode_depth_max: Cell::new(1000),
        digits: Cell::new(14),
        keep_buffer: Cell::new(true),
        encode_invalid: Cell::new(0),
        decode_invalid: Cell::new(true),
    });
    let library = lua.create_table()?;
    let of = options.clone();
    let encode = move |lua: &Lua, args: MultiValue| {
        if args.len() != 1 {
            return Err(argument(lua, "encode", 1, "expected 1 argument"));
        }
        let mut encoder = Encoder { lua, options: &of, text: Vec::new() };
        encoder.value(&args[0], 0)?;
        lua.create_string(&encoder.text)
    };
    library.raw_set("encode", lua.create_function(encode)?)?;
    let of = options.clone();
    let decode = move |lua: &Lua, args: MultiValue| {
        if args.len() != 1 {
            return Err(argument(lua, "decode", 1, "expected 1 argument"));
        }
        let Some(text) = lua.coerce_string(args[0].clone())? else {
            return Err(wanted(lua, "decode", 1, ("string", args.front())));
        };
        Decoder::decode(lua, &text.as_bytes(), of.decode_depth_max.get(), of.decode_invalid.get())
    };
    library.raw_set("decode", lua.create_function(decode)?)?;
    library.raw_set("null", Value::NULL)?;
    library.raw_set("new", lua.create_function(|lua, _: MultiValue| self::library(lua))?)?;
    library.raw_set("_NAME", "cjson")?;
    library.raw_set("_VERSION", "2.1.0")?;
    library.raw_set("encode_sparse_array", sparse_array(lua, options.clone())?)?;
    add_numbers(lua, &library, &options)?;
    add_choices(lua, &library, &options)?;
    Ok(library)
}

/// The functions that set a number.
fn add_numbers(lua: &Lua, library: &Table, options: &Rc<Options>) -> Result<()> {
    let max = i64::from(i32::MAX);
    for (name, range, cell) in [
        ("encode_max_depth", (1, max), (|of| &of.encode_depth_max) as fn(&Options) -> &Cell<i64>),
        ("decode_max_depth", (1, max), |of| &of.decode_depth_max),
        ("encode_number_precision", (1, 14), |of| &of.digits),
    ] {
        let of = options.clone();
        let set = move |lua: &Lua, args: MultiValue| {
            refuse_more(lua, (name, &args), 1)?;
            set_number(lua, (name, &args), (1, range), cell(&of))
        };
        library.raw_set(name, lua.create_function(set)?)?;
    }
    Ok(())
}

/// The functions that choose between words.
fn add_choices(lua: &Lua, library: &Table, options: &Rc<Options>) -> Result<()> {
    let of = options.clone();
    let keep = move |lua: &Lua, args: MultiValue| {
        refuse_more(lua, ("encode_keep_buffer", &args), 1)?;
        let chosen = choice(lua, ("encode_keep_buffer", &args), &["off", "on"])?;
        of.keep_buffer.set(chosen.map_or(of.keep_buffer.get(), |chosen| chosen == 1));
        Ok(of.keep_buffer.get())
    };
    library.raw_set("encode_keep_buffer", lua.create_function(keep)?)?;
    let of = options.clone();
    let invalid = move |lua: &Lua, args: MultiValue| {
        let name = "encode_invalid_numbers";
        refuse_more(lua, (name, &args), 1)?;
        if let Some(chosen) = choice(lua, (name, &args), &["off", "on", "null"])? {
            of.encode_invalid.set(chosen as u8);
        }
        match of.encode_invalid.get() {
            2 => Ok(Value::String(lua.create_string("null")?)),
            other => Ok(Value::Boolean(other == 1)),
        }
    };
    library.raw_set("encode_invalid_numbers", lua.create_function(invalid)?)?;
    let of = options.clone();
    let invalid = move |lua: &Lua, args: MultiValue| {
        let name = "decode_invalid_numbers";
        refuse_more(lua, (name, &args), 1)?;
        let chosen = choice(lua, (name, &args), &["off", "on"])?;
        of.decode_invalid.set(chosen.map_or(of.decode_invalid.get(), |at| at == 1));
        Ok(of.decode_invalid.get())
    };
    library.raw_set("decode_invalid_numbers", lua.create_function(invalid)?)
}

fn sparse_array(lua: &Lua, of: Rc<Options>) -> Result<Function> {
    let name = "encode_sparse_array";
    let max = i64::from(i32::MAX);
    lua.create_function(move |lua, args: MultiValue| {
        refuse_more(lua, (name, &args), 3)?;
        if let Some(chosen) = choice(lua, (name, &args), &["off", "on"])? {
            of.sparse_convert.set(chosen == 1);
        }
        let ratio = set_number(lua, (name, &args), (2, (0, max)), &of.sparse_ratio)?;
        let safe = set_number(lua, (name, &args), (3, (0, max)), &of.sparse_safe)?;
        Ok((of.sparse_convert.get(), ratio, safe))
    })
}

fn refuse_more(lua: &Lua, (name, args): (&str, &MultiValue), most: usize) -> Result<()> {
    if args.len() > most {
        return Err(argument(lua, name, most + 1, "found too many arguments"));
    }
    Ok(())
}

fn set_number(
    lua: &Lua,
    (name, args): (&str, &MultiValue),
    (at, (low, high)): (usize, (i64, i64)),
    cell: &Cell<i64>,
) -> Result<i64> {
    if let Some(value) = args.get(at - 1).filter(|value| !value.is_nil()) {
        let Some(number) = coerced(value) else {
            return Err(wanted(lua, name, at, ("number", Some(value))));
        };
        let number = number as i64;
        if number < low || number > high {
            let text = format!("expected integer between {low} and {high}");
            return Err(argument(lua, name, 1, &text));
        }
        cell.set(number);
    }
    Ok(cell.get())
}

/// Which of the words, or booleans, the first argument is; none if there is no argument.
fn choice(lua: &Lua, (name, args): (&str, &MultiValue), words: &[&str]) -> Result<Option<usize>> {
    match args.front() {
        None | Some(Value::Nil) => Ok(None),
        Some(Value::Boolean(flag)) => Ok(Some(usize::from(*flag))),
        Some(value @ Value::String(text)) => {
            let bytes = text.as_bytes();
            match words.iter().position(|word| word.as_bytes() == &*bytes) {
                Some(at) => Ok(Some(at)),
                None => {
                    let text = value.to_string()?;
                    Err(argument(lua, name, 1, &format!("invalid option '{text}'")))
                }
            }
        }
        other => Err(wanted(lua, name, 1, ("string", other))),
    }
}

struct Encoder<'a> {
    lua: &'a Lua,
    options: &'a Options,
    text: Vec<u8>,
}

impl Encoder<'_> {
    fn refuse(&self, value: &Value, reason: &str) -> mlua::Error {
        located(self.lua, &format!("Cannot serialise {}: {reason}", type_name(value)))
    }

    fn value(&mut self, value: &Value, depth: i64) -> Result<()> {
        match value {
            Value::String(text) => self.string(&text.as_bytes()),
            Value::Integer(_) | Value::Number(_) => self.number(value)?,
            Value::Boolean(flag) => {
                self.text.extend_from_slice(if *flag { b"true" } else { b"false" });
            }
            Value::Table(table) => self.table(table, depth + 1)?,
            Value::Nil => self.text.extend_from_slice(b"null"),
            null if null.is_null() => self.text.extend_from_slice(b"null"),
            other => return Err(self.refuse(other, "type not supported")),
        }
        Ok(())
    }

    fn string(&mut self, text: &[u8]) {
        self.text.push(b'"');
        for &byte in text {
            let escaped = match byte {
                b'"' | b'\\' | b'/' => byte,
                8 => b'b',
                9 => b't',
                10 => b'n',
                12 => b'f',
                13 => b'r',
                0..32 | 127 => {
                    self.text.extend_from_slice(format!("\\u{byte:04x}").as_bytes());
                    continue;
                }
                _ => {
                    self.text.push(byte);
                    continue;
                }
            };
            self.text.extend_from_slice(&[b'\\', escaped]);
        }
        self.text.push(b'"');
    }

    fn number(&mut self, value: &Value) -> Result<()> {
        let number = number(value).unwrap_or(0.0);
        if !number.is_finite() {
            match self.options.encode_invalid.get() {
                0 => return Err(self.refuse(value, "must not be NaN or Inf")),
                1 if number.is_nan() => self.text.extend_from_slice(b"nan"),
                1 => self.text.extend_from_slice(general(number, 14).as_bytes()),
                _ => self.text.extend_from_slice(b"null"),
            }
            return Ok(());
        }
        let digits = self.options.digits.get() as usize;
        self.text.extend_from_slice(general(number, digits).as_bytes());
        Ok(())
    }

    /// The largest index of a table that has only positive whole numbers for keys.
    fn array_length(&self, table: &Table) -> Result<Option<i64>> {
        let (mut most, mut count) = (0i64, 0i64);
        for pair in table.pairs::<Value, Value>() {
            let (key, value) = pair?;
            let index = number(&key).filter(|index| *index >= 1.0 && index.floor() == *index);
            let Some(index) = index else { return Ok(None) };
            most = most.max(index as i64);
            count += 1;
            drop(value);
        }
        let options = self.options;
        let ratio = options.sparse_ratio.get();
        let is_sparse =
            ratio > 0 && most > count.saturating_mul(ratio) && most > options.sparse_safe.get();
        if is_sparse && !options.sparse_convert.get() {
            let table = Value::Table(table.clone());
            return Err(self.refuse(&table, "excessively sparse array"));
        }
        Ok((!is_sparse).then_some(most))
    }

    fn table(&mut self, table: &Table, depth: i64) -> Result<()> {
        if depth > self.options.encode_depth_max.get() {
            let text = format!("Cannot serialise, excessive nesting ({depth})");
            return Err(located(self.lua, &text));
        }
        if let Some(length @ 1..) = self.array_length(table)? {
            for index in 1..=length {
                self.text.push(if index == 1 { b'[' } else { b',' });
                self.value(&table.raw_get(index)?, depth)?;
            }
            self.text.push(b']');
            return Ok(());
        }
        self.text.push(b'{');
        let mut is_first = true;
        for pair in table.pairs::<Value, Value>() {
            let (key, value) = pair?;
            if !std::mem::take(&mut is_first) {
                self.text.push(b',');
            }
            match &key {
                Value::Integer(_) | Value::Number(_) => {
                    self.text.push(b'"');
                    self.number(&key)?;
                    self.text.push(b'"');
                }
                Value::String(text) => self.string(&text.as_bytes()),
                other => {
                    return Err(self.refuse(other, "table key must be a number or string"));
                }
            }
            self.text.push(b':');
            self.value(&value, depth)?;
        }
        self.text.push(b'}');
        Ok(())
    }
}
