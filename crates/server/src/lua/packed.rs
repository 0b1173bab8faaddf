//! The library `struct`: numbers and strings as bytes, by a format.

use mlua::{Lua, MultiValue, Result, Table, Value};

use crate::lua::number::coerced;
use crate::lua::raised::{argument, located, wanted};

/// Most bytes of a whole number.
const WHOLE_SIZE_MAX: usize = 32;

/// The library.
pub(super) fn library(lua: &Lua) -> Result<Table> {
    let library = lua.create_table()?;
    library.raw_set("pack", lua.create_function(pack)?)?;
    library.raw_set("unpack", lua.create_function(unpack)?)?;
    library.raw_set("size", lua.create_function(size)?)?;
    Ok(library)
}

/// A format that is read, and what it has chosen so far.
struct Format<'a> {
    lua: &'a Lua,
    name: &'static str,
    text: Vec<u8>,
    at: usize,
    is_big: bool,
    alignment: usize,
}

/// An item of a format.
struct Item {
    letter: u8,
    size: usize,
    /// Bytes before it.
    padding: usize,
}

impl<'a> Format<'a> {
    fn new(lua: &'a Lua, name: &'static str, args: &MultiValue) -> Result<Format<'a>> {
        let text = text(lua, name, args, 1)?;
        let text = text.split(|byte| *byte == 0).next().unwrap_or_default().to_vec();
        Ok(Format { lua, name, text, at: 0, is_big: false, alignment: 1 })
    }

    fn number(&mut self, default: usize) -> Result<usize> {
        let digits = self.text[self.at..].iter().take_while(|byte| byte.is_ascii_digit()).count();
        if digits == 0 {
            return Ok(default);
        }
        let mut number = 0usize;
        for digit in &self.text[self.at..self.at + digits] {
            number = number * 10 + usize::from(digit - b'0');
            if number > i32::MAX as usize {
                return Err(located(self.lua, "integral size overflow"));
            }
        }
        self.at += digits;
        Ok(number)
    }

    /// The next item, behind `position` bytes.
    fn next(&mut self, position: usize) -> Result<Option<Item>> {
        while let Some(&letter) = self.text.get(self.at) {
            self.at += 1;
            let size = match letter {
                b'b' | b'B' | b'x' => 1,
                b'h' | b'H' => 2,
                b'l' | b'L' | b'T' | b'd' => 8,
                b'f' => 4,
                b'c' => self.number(1)?,
                b'i' | b'I' => {
                    let size = self.number(4)?;
                    if size > WHOLE_SIZE_MAX {
                        let text = format!(
                            "integral size {size} is larger than limit of {WHOLE_SIZE_MAX}"
                        );
                        return Err(located(self.lua, &text));
                    }
                    size
                }
                b's' => 0,
                other => {
                    self.control(other)?;
                    continue;
                }
            };
            let most = if letter == b'c' { 0 } else { size.min(self.alignment) };
            let padding = if most == 0 { 0 } else { (most - (position & (most - 1))) & (most - 1) };
            return Ok(Some(Item { letter, size, padding }));
        }
        Ok(None)
    }

    fn control(&mut self, letter: u8) -> Result<()> {
        match letter {
            b' ' => {}
            b'>' => self.is_big = true,
            b'<' => self.is_big = false,
            b'!' => {
                let alignment = self.number(8)?;
                if !alignment.is_power_of_two() {
                    let text = format!("alignment {alignment} is not a power of 2");
                    return Err(located(self.lua, &text));
                }
                self.alignment = alignment;
            }
            other => {
                let text = format!("invalid format option '{}'", char::from(other));
                return Err(argument(self.lua, self.name, 1, &text));
            }
        }
        Ok(())
    }

    /// The bytes in the format's order, from the one with the lowest first.
    fn ordered(&self, mut bytes: Vec<u8>) -> Vec<u8> {
        if self.is_big {
            bytes.reverse();
        }
        bytes
    }
}

fn text(lua: &Lua, name: &str, args: &MultiValue, at: usize) -> Result<Vec<u8>> {
    match args.get(at - 1) {
        Some(value @ (Value::String(_) | Value::Integer(_) | Value::Number(_))) => {
            let text = lua.coerce_string(value.clone())?;
            Ok(text.map(|text| text.as_bytes().to_vec()).unwrap_or_default())
        }
        other => Err(wanted(lua, name, at, ("string", other))),
    }
}

fn number(lua: &Lua, name: &str, args: &MultiValue, at: usize) -> Result<f64> {
    let value = args.get(at - 1);
    // As Redis's: behind the arguments is nil.
    let value = value.or((name == "pack").then_some(&Value::Nil));
    value.and_then(coerced).ok_or_else(|| wanted(lua, name, at, ("number", value)))
}

/// The whole number's bytes, the lowest first.
fn whole(number: f64, size: usize) -> Vec<u8> {
    let bits = if number < 0.0 { number as i64 as u64 } else { number as u64 };
    (0..size).map(|at| if at < 8 { (bits >> (8 * at)) as u8 } else { 0 }).collect()
}

fn pack(lua: &Lua, args: MultiValue) -> Result<mlua::LuaString> {
    let mut format = Format::new(lua, "pack", &args)?;
    let mut bytes = Vec::new();
    let mut at = 2;
    while let Some(Item { letter, size, padding }) = format.next(bytes.len())? {
        bytes.resize(bytes.len() + padding, 0);
        match letter {
            b'x' => {
                bytes.push(0);
                continue;
            }
            b'f' => {
                let number = number(lua, "pack", &args, at)? as f32;
                bytes.extend(format.ordered(number.to_le_bytes().to_vec()));
            }
            b'd' => {
                let number = number(lua, "pack", &args, at)?;
                bytes.extend(format.ordered(number.to_le_bytes().to_vec()));
            }
            b'c' | b's' => {
                let text = text(lua, "pack", &args, at)?;
                let size = if size == 0 { text.len() } else { size };
                if text.len() < size {
                    return Err(argument(lua, "pack", at + 1, "string too short"));
                }
                bytes.extend_from_slice(&text[..size]);
                if letter == b's' {
                    bytes.push(0);
                }
            }
            _ => {
                let number = number(lua, "pack", &args, at)?;
                bytes.extend(format.ordered(whole(number, size)));
            }
        }
        at += 1;
    }
    lua.create_string(bytes)
}

fn unpack(lua: &Lua, args: MultiValue) -> Result<MultiValue> {
    let mut format = Format::new(lua, "unpack", &args)?;
    let data = text(lua, "unpack", &args, 2)?;
    let first = match args.get(2) {
        None | Some(Value::Nil) => 1.0,
        Some(_) => number(lua, "unpack", &args, 3)?,
    };
    if first < 1.0 {
        return Err(argument(lua, "unpack", 3, "offset must be 1 or greater"));
    }
    let short = || argument(lua, "unpack", 2, "data string too short");
    let mut position = first as usize - 1;
    let mut values = Vec::new();
    while let Some(Item { letter, mut size, padding }) = format.next(position)? {
        position += padding;
        let field = |size: usize| {
            let end = position.checked_add(size)?;
            data.get(position..end)
        };
        let bytes = field(size).ok_or_else(short)?;
        let low_first = || format.ordered(bytes.to_vec());
        match letter {
            b'x' => {}
            b'f' => {
                let bytes = low_first().try_into().unwrap_or_default();
                values.push(Value::Number(f64::from(f32::from_le_bytes(bytes))));
            }
            b'd' => {
                let bytes = low_first().try_into().unwrap_or_default();
                values.push(Value::Number(f64::from_le_bytes(bytes)));
            }
            b'c' => {
                if size == 0 {
                    let Some(length) = values.pop().as_ref().and_then(coerced) else {
                        return Err(located(lua, "format 'c0' needs a previous size"));
                    };
                    size = length as usize;
                }
                let bytes = field(size).ok_or_else(short)?;
                values.push(Value::String(lua.create_string(bytes)?));
            }
            b's' => {
                let rest = data.get(position..).unwrap_or_default();
                let Some(length) = rest.iter().position(|byte| *byte == 0) else {
                    return Err(located(lua, "unfinished string in data"));
                };
                values.push(Value::String(lua.create_string(&rest[..length])?));
                size = length + 1;
            }
            _ => values.push(Value::Number(read_whole(&low_first(), letter.is_ascii_lowercase()))),
        }
        position += size;
    }
    values.push(Value::Integer(position as i64 + 1));
    Ok(MultiValue::from_vec(values))
}

/// The whole number of these bytes, the lowest first.
fn read_whole(bytes: &[u8], is_signed: bool) -> f64 {
    let bits = bytes.iter().take(8).rev().fold(0u64, |sum, byte| sum << 8 | u64::from(*byte));
    if !is_signed {
        return bits as f64;
    }
    let unused = 64 - 8 * bytes.len().clamp(1, 8) as u32;
    ((bits << unused) as i64 >> unused) as f64
}

fn size(lua: &Lua, args: MultiValue) -> Result<i64> {
    let mut format = Format::new(lua, "size", &args)?;
    let mut position = 0usize;
    while let Some(Item { letter, size, padding }) = format.next(position)? {
        if letter == b's' {
            return Err(argument(lua, "size", 1, "option 's' has no fixed size"));
        }
        if letter == b'c' && size == 0 {
            return Err(argument(lua, "size", 1, "option 'c0' has no fixed size"));
        }
        position += padding + size;
    }
    Ok(position as i64)
}
