//! Source on its way to Lua's compiler, which has faults that a source can be made for.

use mlua::{Function, Lua, LuaString, Result, Value};

use crate::lua::raised::wanted;

/// What `loadstring` returns: a function, or nil and why there is none.
type Loaded = (Option<Function>, Option<LuaString>);

/// Most `=` of a long bracket. The compiler counts them in 32 bits, and reads out of bounds when the count wraps.
const LEVEL_MAX: usize = 65_535;
/// The first byte of bytecode, which the machine executes unchecked.
const BYTECODE: u8 = 27;

/// Why a source is not compiled.
fn refusal(source: &[u8]) -> Option<&'static str> {
    if source.first() == Some(&BYTECODE) {
        return Some("bytecode is not loaded");
    }
    let mut rest = source;
    while let Some(at) = rest.iter().position(|byte| matches!(byte, b'[' | b']')) {
        rest = &rest[at + 1..];
        let level = rest.iter().take_while(|byte| **byte == b'=').count();
        if level > LEVEL_MAX {
            return Some("a long bracket has too many '='");
        }
        rest = &rest[level..];
    }
    None
}

/// Has a source compiled, unless there is a reason against it, which is returned. Each source goes through here.
///
/// Nothing is collected meanwhile: the compiler holds objects, such as the name of the source, that the collector does not
/// find.
pub(super) fn compile<T>(
    lua: &Lua,
    source: &[u8],
    compiler: impl FnOnce() -> T,
) -> std::result::Result<T, &'static str> {
    if let Some(why) = refusal(source) {
        return Err(why);
    }
    lua.gc_stop();
    let compiled = compiler();
    lua.gc_restart();
    Ok(compiled)
}

/// `loadstring`.
pub(super) fn load_string(lua: &Lua) -> Result<Function> {
    let raw: Function = lua.globals().raw_get("loadstring")?;
    lua.create_function(move |lua, (source, name): (Value, Value)| {
        let text = |at: usize, value: &Value| match value {
            Value::String(_) | Value::Integer(_) | Value::Number(_) => {
                lua.coerce_string(value.clone())
            }
            Value::Nil if at == 2 => Ok(None),
            other => Err(wanted(lua, "loadstring", at, ("string", Some(other)))),
        };
        let name = text(2, &name)?;
        let Some(source) = text(1, &source)? else { return Ok((None, None)) };
        let shown = name.clone().unwrap_or_else(|| source.clone());
        let compiled =
            compile(lua, &source.as_bytes(), || raw.call::<Loaded>((source.clone(), shown)));
        compiled.unwrap_or_else(|why| {
            let name = name.map_or_else(|| b"chunk".to_vec(), |name| name.as_bytes().to_vec());
            let text = [&name, b": ".as_slice(), why.as_bytes()].concat();
            Ok((None, Some(lua.create_string(text)?)))
        })
    })
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::rc::Rc;

    use super::*;

    #[test]
    fn a_bracket_of_a_level_that_no_program_has_is_refused_wherever_it_stands() {
        let level = |count: usize| "=".repeat(count);
        for source in [
            format!("return [{}[x]{}]", level(LEVEL_MAX + 1), level(LEVEL_MAX + 1)),
            format!("--[{}", level(LEVEL_MAX + 1)),
            format!("return [[x]{}", level(LEVEL_MAX + 1)),
            format!("return [=[]{}", level(LEVEL_MAX + 1)),
        ] {
            assert_eq!(refusal(source.as_bytes()), Some("a long bracket has too many '='"));
        }
        let at_most = format!("return [{0}[x]{0}]", level(LEVEL_MAX));
        let comment = format!("--{}\nreturn '[' == '='", level(LEVEL_MAX + 1));
        for source in [at_most, comment, String::new()] {
            assert_eq!(refusal(source.as_bytes()), None);
        }
        assert_eq!(refusal(b"\x1bLua"), Some("bytecode is not loaded"));
    }

    /// Is garbage as soon as it is made, and says when it is collected.
    struct Garbage(Rc<Cell<bool>>);

    impl Drop for Garbage {
        fn drop(&mut self) {
            self.0.set(true);
        }
    }

    #[test]
    fn nothing_is_collected_while_a_source_is_compiled() {
        let lua = Lua::new();
        // So many constants that the collector would go round several times.
        let constants: String =
            (0..100_000).map(|number| format!("'constant {number}',")).collect();
        let source = format!("return {{{constants}}}");
        let is_collected = Rc::new(Cell::new(false));
        drop(lua.create_any_userdata(Garbage(is_collected.clone())).unwrap());
        let function = compile(&lua, source.as_bytes(), || {
            let function = lua.load(source.as_str()).into_function();
            assert!(!is_collected.get(), "collected by the compiler");
            function
        });
        let table: mlua::Table = function.unwrap().unwrap().call(()).unwrap();
        assert_eq!(table.raw_len(), 100_000);
        lua.gc_collect().unwrap();
        assert!(is_collected.get());
        // The collector runs again by itself.
        is_collected.set(false);
        drop(lua.create_any_userdata(Garbage(is_collected.clone())).unwrap());
        lua.load("for i = 1, 1000000 do local garbage = {} end").exec().unwrap();
        assert!(is_collected.get());
    }
}
