//! The library `bit`: operations on the low 32 bits of numbers.

use mlua::{Lua, MultiValue, Result, Table};

use crate::lua::number::coerced;
use crate::lua::raised::wanted;

/// Two to the 52nd and the 51st: added to a number, its low bits are those of the mantissa.
const SHIFT: f64 = 6_755_399_441_055_744.0;

/// The library.
pub(super) fn library(lua: &Lua) -> Result<Table> {
    let library = lua.create_table()?;
    add(lua, &library, "tobit", |numbers| numbers[0])?;
    add(lua, &library, "bnot", |numbers| !numbers[0])?;
    add(lua, &library, "band", |numbers| numbers.iter().fold(u32::MAX, |all, bits| all & bits))?;
    add(lua, &library, "bor", |numbers| numbers.iter().fold(0, |all, bits| all | bits))?;
    add(lua, &library, "bxor", |numbers| numbers.iter().fold(0, |all, bits| all ^ bits))?;
    add(lua, &library, "bswap", |numbers| numbers[0].swap_bytes())?;
    add_shift(lua, &library, "lshift", |bits, by| bits << by)?;
    add_shift(lua, &library, "rshift", |bits, by| bits >> by)?;
    add_shift(lua, &library, "arshift", |bits, by| (bits as i32 >> by) as u32)?;
    add_shift(lua, &library, "rol", u32::rotate_left)?;
    add_shift(lua, &library, "ror", u32::rotate_right)?;
    let hexadecimal = |lua: &Lua, args: MultiValue| {
        let bits = number(lua, "tohex", &args, 1)?;
        let digits = if args.len() < 2 { 8 } else { number(lua, "tohex", &args, 2)? as i32 };
        let count = digits.unsigned_abs().min(8) as usize;
        let text = if digits < 0 { format!("{bits:08X}") } else { format!("{bits:08x}") };
        Ok(text[8 - count..].to_owned())
    };
    library.raw_set("tohex", lua.create_function(hexadecimal)?)?;
    Ok(library)
}

fn number(lua: &Lua, name: &str, args: &MultiValue, at: usize) -> Result<u32> {
    let value = args.get(at - 1);
    match value.and_then(coerced) {
        Some(number) => Ok((number + SHIFT).to_bits() as u32),
        None => Err(wanted(lua, name, at, ("number", value))),
    }
}

fn add(lua: &Lua, library: &Table, name: &'static str, of: fn(&[u32]) -> u32) -> Result<()> {
    let function = lua.create_function(move |lua, args: MultiValue| {
        let count = args.len().max(1);
        let numbers: Vec<u32> =
            (1..=count).map(|at| number(lua, name, &args, at)).collect::<Result<_>>()?;
        Ok(f64::from(of(&numbers) as i32))
    })?;
    library.raw_set(name, function)
}

fn add_shift(
    lua: &Lua,
    library: &Table,
    name: &'static str,
    of: fn(u32, u32) -> u32,
) -> Result<()> {
    let function = lua.create_function(move |lua, args: MultiValue| {
        let bits = number(lua, name, &args, 1)?;
        let by = number(lua, name, &args, 2)? & 31;
        Ok(f64::from(of(bits, by) as i32))
    })?;
    library.raw_set(name, function)
}
