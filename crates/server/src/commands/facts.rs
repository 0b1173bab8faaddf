//! What Redis 7.0 says about its commands, beside what the server acts on: group, flags, categories, tips and where
//! the keys are. Clients choose by it how to route a command.

use std::collections::HashMap;
use std::sync::OnceLock;

use crate::acl::category_set;
use crate::reply::Reply;

/// A line a command, sorted by name; its columns are those of [`Facts`]. From Redis's replies to COMMAND and COMMAND DOCS.
const LINES: &str = include_str!("facts.tsv");

/// What Redis says about a command.
#[derive(Clone, Copy)]
pub(super) struct Facts {
    /// The group of commands.
    pub(super) group: &'static str,
    /// The version of Redis that had it first.
    pub(super) since: &'static str,
    flags: &'static str,
    keys: &'static str,
    categories: &'static str,
    tips: &'static str,
    key_specs: &'static str,
}

impl Facts {
    /// The facts about the command of that full name, if Redis has it.
    pub(super) fn of(name: &str) -> Option<Facts> {
        static BY_NAME: OnceLock<HashMap<&'static str, Facts>> = OnceLock::new();
        BY_NAME.get_or_init(|| Facts::all().collect()).get(name).copied()
    }

    fn of_line(line: &'static str) -> Facts {
        let mut columns = line.split('\t').skip(1);
        let mut next = || columns.next().unwrap_or_default();
        Facts {
            group: next(),
            since: next(),
            flags: next(),
            keys: next(),
            categories: next(),
            tips: next(),
            key_specs: next(),
        }
    }

    /// All of them, by the full name.
    pub(super) fn all() -> impl Iterator<Item = (&'static str, Facts)> {
        let named = |line: &'static str| Some((line.split('\t').next()?, Facts::of_line(line)));
        LINES.lines().filter_map(named)
    }

    /// The set of its categories.
    pub(super) fn category_set(&self) -> u32 {
        category_set(parts(self.categories, ','))
    }

    /// Where its keys are: `notes|flags|where they begin|how they are found`, separated by `;`.
    pub(super) fn key_specs_text(&self) -> &'static str {
        self.key_specs
    }

    /// First key, last key (negative: from the end), step.
    pub(super) fn keys(&self) -> (i32, i32, i32) {
        let mut numbers = parts(self.keys, ',').map(|number| number.parse().unwrap_or(0));
        let mut next = || numbers.next().unwrap_or(0);
        (next(), next(), next())
    }

    /// Whether it has that flag.
    pub(super) fn has_flag(&self, name: &str) -> bool {
        parts(self.flags, ',').any(|flag| flag == name)
    }

    /// Whether an argument can be a key.
    pub(super) fn has_keys(&self) -> bool {
        self.key_specs().any(|spec| spec.flags != "not_key")
    }

    /// Where its keys are.
    pub(super) fn key_specs(&self) -> impl Iterator<Item = KeySpec> + use<> {
        parts(self.key_specs, ';').map(KeySpec::parse)
    }

    /// Whether the command is of that category of ACL, named without `@`.
    pub(super) fn is_of_category(&self, name: &[u8]) -> bool {
        parts(self.categories, ',').any(|category| &category.as_bytes()[1..] == name)
    }

    /// Appends what COMMAND INFO has behind name and arity, but for the subcommands.
    pub(super) fn describe(&self, reply: &mut Reply) {
        describe_set(self.flags, reply);
        let (first, last, step) = self.keys();
        for number in [first, last, step] {
            reply.integer(i64::from(number));
        }
        describe_set(self.categories, reply);
        reply.set(parts(self.tips, ',').count());
        parts(self.tips, ',').for_each(|tip| reply.bulk(tip.as_bytes()));
        reply.set(parts(self.key_specs, ';').count());
        parts(self.key_specs, ';').for_each(|spec| describe_keys(spec, reply));
    }
}

/// One of Redis's specifications of where keys are.
pub(super) struct KeySpec {
    /// What is done with the keys, separated by commas.
    pub(super) flags: &'static str,
    /// `index`, `keyword` or `unknown`.
    pub(super) begin_kind: &'static str,
    /// The word behind which the keys begin.
    pub(super) keyword: &'static str,
    /// Where they begin, or where the search for the keyword does; negative: from the end, backwards.
    pub(super) begin_at: i64,
    /// `range`, `keynum` or `unknown`.
    pub(super) find_kind: &'static str,
    /// Its numbers: last key, step and limit; or where their count stands, the first key, and step.
    pub(super) find: [i64; 3],
}

impl KeySpec {
    fn parse(spec: &'static str) -> KeySpec {
        let mut columns = spec.split('|').skip(1);
        let flags = columns.next().unwrap_or_default();
        let mut begin = columns.next().unwrap_or_default().split(':');
        let mut find = columns.next().unwrap_or_default().split(':');
        let begin_kind = begin.next().unwrap_or_default();
        let keyword = if begin_kind == "keyword" { begin.next().unwrap_or_default() } else { "" };
        let number = |words: &mut std::str::Split<'static, char>| {
            words.next().and_then(|word| word.parse().ok()).unwrap_or(0)
        };
        let begin_at = number(&mut begin);
        let find_kind = find.next().unwrap_or_default();
        let find = [(); 3].map(|()| number(&mut find));
        KeySpec { flags, begin_kind, keyword, begin_at, find_kind, find }
    }
}

fn parts(text: &'static str, separator: char) -> impl Iterator<Item = &'static str> {
    text.split(separator).filter(|part| !part.is_empty())
}

fn describe_set(names: &'static str, reply: &mut Reply) {
    reply.set(parts(names, ',').count());
    parts(names, ',').for_each(|name| reply.simple(name));
}

/// `notes|flags|where the keys begin|how they are found`
fn describe_keys(spec: &'static str, reply: &mut Reply) {
    let mut columns = spec.split('|');
    let notes = columns.next().unwrap_or_default();
    reply.map(if notes.is_empty() { 3 } else { 4 });
    if !notes.is_empty() {
        reply.bulk(b"notes");
        reply.bulk(notes.as_bytes());
    }
    reply.bulk(b"flags");
    describe_set(columns.next().unwrap_or_default(), reply);
    for name in ["begin_search", "find_keys"] {
        reply.bulk(name.as_bytes());
        let mut words = columns.next().unwrap_or_default().split(':');
        let kind = words.next().unwrap_or_default();
        let fields: &[&str] = match kind {
            "index" => &["index"],
            "keyword" => &["keyword", "startfrom"],
            "range" => &["lastkey", "keystep", "limit"],
            "keynum" => &["keynumidx", "firstkey", "keystep"],
            _ => &[],
        };
        reply.map(2);
        reply.bulk(b"type");
        reply.bulk(kind.as_bytes());
        reply.bulk(b"spec");
        reply.map(fields.len());
        for field in fields {
            reply.bulk(field.as_bytes());
            let value = words.next().unwrap_or_default();
            match value.parse() {
                Ok(number) => reply.integer(number),
                Err(_) => reply.bulk(value.as_bytes()),
            }
        }
    }
}

/// What scripts have to know about a command.
#[derive(Clone, Copy, Default)]
pub(super) struct ForScripts {
    /// A script cannot call it.
    pub(super) is_refused: bool,
}

impl ForScripts {
    /// Of the command of that full name; none if Redis does not have it.
    pub(super) fn of(name: &str) -> Option<ForScripts> {
        static BY_NAME: OnceLock<HashMap<&'static str, ForScripts>> = OnceLock::new();
        let by_name = BY_NAME.get_or_init(|| {
            let of_line = |line: &'static str| {
                let mut columns = line.split('\t');
                let name = columns.next()?;
                let flags = columns.nth(2)?;
                let has = |flag: &str| flags.split(',').any(|other| other == flag);
                Some((name, ForScripts { is_refused: has("noscript") }))
            };
            LINES.lines().filter_map(of_line).collect()
        });
        by_name.get(name).copied()
    }
}
