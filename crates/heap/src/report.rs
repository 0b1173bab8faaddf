//! What a heap holds, for tools: objects by type, and their values by the layouts that the heap has noted.

use std::fmt::Write;

use tembo_pool::Object;

use crate::Error;
use crate::arena::Arena;
use crate::format::{BODY, TYPE_PROXY};
use crate::mark::{Content, Found};
use crate::shape::Shape;

/// What a heap holds of one type.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TypeReport {
    /// The type's name.
    pub name: String,
    /// The version of its layout.
    pub version: u32,
    /// Its objects.
    pub objects: u64,
    /// The bytes that they take.
    pub bytes: u64,
}

/// An object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ObjectReport {
    /// Where it lies, in bytes from the start of the pool.
    pub offset: u64,
    /// The name of its type.
    pub type_name: String,
    /// Bytes that it takes.
    pub bytes: u64,
    /// Counted pointers of the heap that refer to it.
    pub references: u64,
    /// It waits to be destroyed.
    pub is_doomed: bool,
    /// Its value, as JSON: a pointer is the offset of its object.
    pub json: String,
}

/// The types of a heap, in the order in which they were registered, and weak pointers' proxies.
pub(crate) fn types(arena: &Arena) -> Result<Vec<TypeReport>, Error> {
    let content = Content::of(arena)?;
    let of = |found: &&Found, number: u16| found.kind == number;
    let report = |name: String, version: u32, number: u16| {
        let all: Vec<&Found> = content.objects.iter().filter(|found| of(found, number)).collect();
        let bytes = all.iter().map(|found| Object::from_bits(found.bits).size()).sum();
        TypeReport { name, version, objects: all.len() as u64, bytes }
    };
    let mut reports: Vec<TypeReport> = Vec::new();
    for entry in arena.types.all() {
        reports.push(report(entry.name.clone(), entry.version, entry.number));
    }
    reports.push(report(arena.types.name(TYPE_PROXY), 0, TYPE_PROXY));
    Ok(reports)
}

/// Passes each object to `each`, in the order of their offsets.
pub(crate) fn objects<E: From<Error>>(
    arena: &Arena,
    each: &mut dyn FnMut(ObjectReport) -> Result<(), E>,
) -> Result<(), E> {
    for found in Content::of(arena)?.objects {
        let object = Object::from_bits(found.bits);
        let mut json = String::new();
        if let Some(entry) = arena.types.entry(found.kind) {
            let words = arena.words(found.bits, 0, (object.size() / 8) as usize)?;
            let word = |at: usize| words.get(at).map_or(0, |word| word.load());
            value(&entry.shape, BODY, &word, &mut json);
        } else {
            json.push_str("null");
        }
        each(ObjectReport {
            offset: object.offset(),
            type_name: arena.types.name(found.kind),
            bytes: object.size(),
            references: found.references,
            is_doomed: found.is_doomed,
            json,
        })?;
    }
    Ok(())
}

/// Writes a value as JSON.
fn value(shape: &Shape, at: usize, word: &dyn Fn(usize) -> u64, to: &mut String) {
    match shape {
        Shape::Plain { name, words } => plain(name, *words, at, word, to),
        Shape::Pointer(_) | Shape::Weak(_) => match word(at) {
            0 => to.push_str("null"),
            bits => put(to, Object::from_bits(bits).offset()),
        },
        Shape::Fields(fields) => {
            let mut at = at;
            to.push('{');
            for (number, (name, shape)) in fields.iter().enumerate() {
                if number > 0 {
                    to.push(',');
                }
                text(name, to);
                to.push(':');
                value(shape, at, word, to);
                at += shape.words() as usize;
            }
            to.push('}');
        }
        Shape::Variants(all) => match all.get(word(at) as usize) {
            Some((name, shape)) if shape.words() == 0 => text(name, to),
            Some((name, shape)) => {
                to.push('{');
                text(name, to);
                to.push(':');
                value(shape, at + 1, word, to);
                to.push('}');
            }
            None => to.push_str("null"),
        },
        Shape::Array(count, shape) => values(*count, shape, at, word, to),
        Shape::Slice(shape) => values(word(at), shape, at + 1, word, to),
        Shape::Bytes => {
            let len = word(at) as usize;
            let words = (0..len.div_ceil(8)).flat_map(|index| word(at + 1 + index).to_le_bytes());
            let bytes: Vec<u8> = words.take(len).collect();
            text(&String::from_utf8_lossy(&bytes), to);
        }
    }
}

fn values(count: u64, shape: &Shape, at: usize, word: &dyn Fn(usize) -> u64, to: &mut String) {
    to.push('[');
    for index in 0..count as usize {
        if index > 0 {
            to.push(',');
        }
        value(shape, at + index * shape.words() as usize, word, to);
    }
    to.push(']');
}

fn plain(name: &str, words: u64, at: usize, word: &dyn Fn(usize) -> u64, to: &mut String) {
    let first = word(at);
    match name {
        "bool" => to.push_str(if first == 0 { "false" } else { "true" }),
        "f64" if f64::from_bits(first).is_finite() => put(to, f64::from_bits(first)),
        "f32" if f32::from_bits(first as u32).is_finite() => put(to, f32::from_bits(first as u32)),
        "char" => text(&char::from_u32(first as u32).unwrap_or_default().to_string(), to),
        name if name.starts_with('i') => put(to, first as i64),
        _ if words == 1 => put(to, first),
        _ => to.push_str("null"),
    }
}

fn put(to: &mut String, value: impl std::fmt::Display) {
    // A string takes whatever is written to it.
    let _ = write!(to, "{value}");
}

fn text(text: &str, to: &mut String) {
    to.push('"');
    for letter in text.chars() {
        match letter {
            '"' | '\\' => {
                to.push('\\');
                to.push(letter);
            }
            letter if u32::from(letter) < 0x20 => {
                put(to, format_args!("\\u{:04x}", u32::from(letter)))
            }
            letter => to.push(letter),
        }
    }
    to.push('"');
}
