//! What a heap holds, for tools: objects by type, and their values by the layouts that the heap has noted.

use std::fmt::Write;

use tembo_pmem::Word;
use tembo_pool::Object;

use crate::Error;
use crate::arena::Arena;
use crate::format::{BODY, PROXY_TARGET, ROOT_ROOT, TYPE_PROXY};
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
    /// What it refers to, in the order of its fields.
    pub refers_to: Vec<Referral>,
    /// Its value, as JSON: a pointer is the offset of its object, a weak one that of its proxy.
    pub json: String,
}

/// A pointer in an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Referral {
    /// Where the object lies that it refers to, in bytes from the start of the pool.
    pub to: u64,
    /// Whether it is a weak pointer.
    pub is_weak: bool,
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
        let (mut json, mut refers_to) = (String::new(), Vec::new());
        if let Some(entry) = arena.types.entry(found.kind) {
            let words = Words(arena.words(found.bits, 0, (object.size() / 8) as usize)?);
            value(&entry.shape, BODY, &words, &mut json);
            refers_to = referrals(arena, &entry.shape, &words)?;
        } else {
            json.push_str("null");
        }
        each(ObjectReport {
            offset: object.offset(),
            type_name: arena.types.name(found.kind),
            bytes: object.size(),
            references: found.references,
            is_doomed: found.is_doomed,
            refers_to,
            json,
        })?;
    }
    Ok(())
}

/// Where the heap's root lies, in bytes from the start of the pool; `None` before there is one.
pub(crate) fn root(arena: &Arena) -> Result<Option<u64>, Error> {
    let bits = arena.root_word(ROOT_ROOT)?;
    Ok((bits != 0).then(|| Object::from_bits(bits).offset()))
}

/// The pointers of an object. A weak one leads by its proxy to its object, or nowhere when that is destroyed.
fn referrals(arena: &Arena, shape: &Shape, words: &Words<'_>) -> Result<Vec<Referral>, Error> {
    let (mut pointers, mut found) = (Vec::new(), Vec::new());
    let word = |at: u64| words.at(at as usize);
    shape
        .named_pointers(BODY as u64, &word, &mut |bits, is_weak, _| pointers.push((bits, is_weak)));
    for (bits, is_weak) in pointers {
        let bits = if is_weak { arena.word(bits, PROXY_TARGET)? } else { bits };
        if bits != 0 {
            found.push(Referral { to: Object::from_bits(bits).offset(), is_weak });
        }
    }
    Ok(found)
}

/// The words of an object; those beyond its end are zero.
struct Words<'a>(&'a [Word]);

impl Words<'_> {
    fn at(&self, index: usize) -> u64 {
        self.0.get(index).map_or(0, Word::load)
    }
}

/// Writes a value as JSON.
fn value(shape: &Shape, at: usize, words: &Words<'_>, to: &mut String) {
    match shape {
        Shape::Plain { name, words: count } => plain(name, *count, at, words, to),
        Shape::Pointer(_) | Shape::Weak(_) => match words.at(at) {
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
                value(shape, at, words, to);
                at += shape.words() as usize;
            }
            to.push('}');
        }
        Shape::Variants(all) => match all.get(words.at(at) as usize) {
            Some((name, shape)) if shape.words() == 0 => text(name, to),
            Some((name, shape)) => {
                to.push('{');
                text(name, to);
                to.push(':');
                value(shape, at + 1, words, to);
                to.push('}');
            }
            None => to.push_str("null"),
        },
        Shape::Array(count, shape) => values(*count, shape, at, words, to),
        Shape::Slice(shape) => values(words.at(at), shape, at + 1, words, to),
        Shape::Bytes => {
            let len = (words.at(at) as usize).min(8 * words.0.len());
            let bytes =
                (0..len.div_ceil(8)).flat_map(|index| words.at(at + 1 + index).to_le_bytes());
            let bytes: Vec<u8> = bytes.take(len).collect();
            text(&String::from_utf8_lossy(&bytes), to);
        }
    }
}

fn values(count: u64, shape: &Shape, at: usize, words: &Words<'_>, to: &mut String) {
    if shape.words() == 0 {
        // Values without size: all that can be said is how many.
        put(to, count);
        return;
    }
    to.push('[');
    for index in 0..(count as usize).min(words.0.len()) {
        if index > 0 {
            to.push(',');
        }
        value(shape, at + index * shape.words() as usize, words, to);
    }
    to.push(']');
}

fn plain(name: &str, count: u64, at: usize, words: &Words<'_>, to: &mut String) {
    let first = words.at(at);
    match name {
        "bool" => to.push_str(if first == 0 { "false" } else { "true" }),
        "f64" if f64::from_bits(first).is_finite() => put(to, f64::from_bits(first)),
        "f32" if f32::from_bits(first as u32).is_finite() => put(to, f32::from_bits(first as u32)),
        "char" => text(&char::from_u32(first as u32).unwrap_or_default().to_string(), to),
        name if name.starts_with('i') => put(to, first as i64),
        _ if count == 1 => put(to, first),
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
