//! COMMAND DOCS: what commands are for, and which arguments they take.
//!
//! The arguments have Redis's names and structure, as clients complete command lines by them. Summaries and complexities are
//! Tembo's own.

use std::collections::HashMap;
use std::sync::OnceLock;

use crate::args::Args;
use crate::command::{Command, Context};
use crate::commands::command_keys::find;
use crate::commands::facts::Facts;
use crate::failure::Outcome;
use crate::reply::Reply;

/// A line a command, sorted by name; its columns are the name and those of [`Docs`].
///
/// Arguments are separated by spaces, each `name/type`, then if they apply `@` and which of the command's key specifications it
/// is of, `?` it may be left out, `+` there may be several, `&` the word before it is repeated with each, `~` the version of
/// Redis that had it first, `^` the one since which it is deprecated, `=` the word before it, and in brackets the arguments that it consists of.
const LINES: &str = include_str!("docs.tsv");

/// The letters of types of arguments, and Redis's names.
const TYPES: &[(u8, &str)] = &[
    (b'b', "block"),
    (b'd', "double"),
    (b'i', "integer"),
    (b'k', "key"),
    (b'o', "oneof"),
    (b'p', "pattern"),
    (b's', "string"),
    (b't', "pure-token"),
    (b'u', "unix-time"),
];

/// What is said about a command.
struct Docs {
    summary: &'static str,
    /// Empty where it depends on something else.
    complexity: &'static str,
    /// `syscmd`, or `deprecated:version:what to use`; or empty.
    flags: &'static str,
    arguments: &'static str,
}

impl Docs {
    fn of(name: &str) -> Option<&'static Docs> {
        static BY_NAME: OnceLock<HashMap<&'static str, Docs>> = OnceLock::new();
        BY_NAME.get_or_init(|| LINES.lines().map(Docs::of_line).collect()).get(name)
    }

    fn of_line(line: &'static str) -> (&'static str, Docs) {
        let mut columns = line.split('\t');
        let mut next = || columns.next().unwrap_or_default();
        let name = next();
        (name, Docs { summary: next(), complexity: next(), flags: next(), arguments: next() })
    }
}

/// An argument, or several that belong together.
#[derive(Debug, Default, PartialEq, Eq)]
struct Argument {
    name: &'static str,
    kind: u8,
    key_spec: Option<i64>,
    since: &'static str,
    deprecated_since: &'static str,
    token: Option<&'static str>,
    flags: Vec<&'static str>,
    parts: Vec<Argument>,
}

impl Argument {
    /// The arguments that `text` begins with, up to the end of them, and what is behind.
    fn parse_all(mut text: &'static str) -> (Vec<Argument>, &'static str) {
        let mut all = Vec::new();
        while !text.is_empty() && !text.starts_with(']') {
            let (argument, rest) = Argument::parse(text);
            all.push(argument);
            text = rest.strip_prefix(' ').unwrap_or(rest);
        }
        (all, text.strip_prefix(']').unwrap_or(text))
    }

    /// `name/type@0?+&~1.0.0^2.0.0=TOKEN[parts]`
    fn parse(text: &'static str) -> (Argument, &'static str) {
        // A name may have a slash in it; its type is one letter.
        let end =
            text.find([' ', '[', ']', '=', '@', '?', '+', '&', '~', '^']).unwrap_or(text.len());
        let (head, mut rest) = text.split_at(end);
        let (name, kind) = head.rsplit_once('/').unwrap_or((head, "s"));
        let kind = kind.bytes().next().unwrap_or(b's');
        let mut argument = Argument { name, kind, ..Argument::default() };
        if let Some(number) = rest.strip_prefix('@') {
            let (number, behind) = split(number, |byte| byte.is_ascii_digit());
            argument.key_spec = number.parse().ok();
            rest = behind;
        }
        for (mark, flag) in [('?', "optional"), ('+', "multiple"), ('&', "multiple_token")] {
            if let Some(behind) = rest.strip_prefix(mark) {
                argument.flags.push(flag);
                rest = behind;
            }
        }
        if let Some(version) = rest.strip_prefix('~') {
            (argument.since, rest) = split(version, |byte| byte.is_ascii_digit() || byte == b'.');
        }
        if let Some(version) = rest.strip_prefix('^') {
            let is_of_version = |byte: u8| byte.is_ascii_digit() || byte == b'.';
            (argument.deprecated_since, rest) = split(version, is_of_version);
        }
        if let Some(token) = rest.strip_prefix('=') {
            let (token, behind) = split(token, |byte| !b" []".contains(&byte));
            (argument.token, rest) = (Some(token), behind);
        }
        if let Some(parts) = rest.strip_prefix('[') {
            (argument.parts, rest) = Argument::parse_all(parts);
        }
        (argument, rest)
    }

    fn reply(&self, reply: &mut Reply) {
        let fields = 2
            + usize::from(self.key_spec.is_some())
            + usize::from(self.token.is_some())
            + usize::from(!self.since.is_empty())
            + usize::from(!self.deprecated_since.is_empty())
            + usize::from(!self.flags.is_empty())
            + usize::from(!self.parts.is_empty());
        reply.map(fields);
        let kind = TYPES.iter().find(|(letter, _)| *letter == self.kind);
        pair(reply, "name", self.name);
        pair(reply, "type", kind.map_or("string", |(_, name)| name));
        if let Some(number) = self.key_spec {
            reply.bulk(b"key_spec_index");
            reply.integer(number);
        }
        if let Some(token) = self.token {
            pair(reply, "token", token);
        }
        if !self.since.is_empty() {
            pair(reply, "since", self.since);
        }
        if !self.deprecated_since.is_empty() {
            pair(reply, "deprecated_since", self.deprecated_since);
        }
        if !self.flags.is_empty() {
            reply.bulk(b"flags");
            reply.set(self.flags.len());
            self.flags.iter().for_each(|flag| reply.simple(flag));
        }
        if !self.parts.is_empty() {
            reply.bulk(b"arguments");
            reply.array(self.parts.len());
            self.parts.iter().for_each(|part| part.reply(reply));
        }
    }
}

/// The text as far as its bytes are such ones, and the rest.
fn split(text: &'static str, is_such: impl Fn(u8) -> bool) -> (&'static str, &'static str) {
    let end = text.bytes().position(|byte| !is_such(byte)).unwrap_or(text.len());
    text.split_at(end)
}

fn pair(reply: &mut Reply, name: &str, value: &str) {
    reply.bulk(name.as_bytes());
    reply.bulk(value.as_bytes());
}

/// A map from names to what is known: of the named commands, or of all.
pub(super) fn docs(context: &mut Context<'_, '_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    let found: Vec<&Command> = if args.count() == 2 {
        context.table.all().collect()
    } else {
        args.from(2).filter_map(|name| find(context.table, name)).collect()
    };
    reply.map(found.len());
    found.into_iter().for_each(|command| describe(command, reply));
    Ok(())
}

fn describe(command: &Command, reply: &mut Reply) {
    let name = command.full_name;
    let (docs, facts) = (Docs::of(name), Facts::of(name));
    let group = facts.or_else(|| Facts::of(name.split('|').next().unwrap_or_default()));
    let (flags, replaced) = match docs.map_or("", |docs| docs.flags).split_once(':') {
        Some((flags, rest)) => (flags, rest.split_once(':')),
        None => (docs.map_or("", |docs| docs.flags), None),
    };
    let arguments = Argument::parse_all(docs.map_or("", |docs| docs.arguments)).0;
    let texts = [
        ("summary", docs.map_or("", |docs| docs.summary)),
        ("since", facts.map_or("", |facts| facts.since)),
        ("group", group.map_or("server", |facts| facts.group)),
        ("complexity", docs.map_or("", |docs| docs.complexity)),
    ];
    let texts = texts.iter().filter(|(_, text)| !text.is_empty());
    let fields = texts.clone().count()
        + usize::from(!flags.is_empty())
        + 2 * usize::from(replaced.is_some())
        + usize::from(!arguments.is_empty())
        + usize::from(!command.subcommands.is_empty());
    reply.bulk(name.as_bytes());
    reply.map(fields);
    texts.for_each(|(field, text)| pair(reply, field, text));
    if !flags.is_empty() {
        reply.bulk(b"doc_flags");
        reply.set(1);
        reply.simple(flags);
    }
    if let Some((version, instead)) = replaced {
        pair(reply, "deprecated_since", version);
        pair(reply, "replaced_by", instead);
    }
    if !arguments.is_empty() {
        reply.bulk(b"arguments");
        reply.array(arguments.len());
        arguments.iter().for_each(|argument| argument.reply(reply));
    }
    if !command.subcommands.is_empty() {
        reply.bulk(b"subcommands");
        reply.map(command.subcommands.len());
        command.subcommands.iter().for_each(|subcommand| describe(subcommand, reply));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command::Table;
    use crate::commands::FAMILIES;

    #[test]
    fn each_command_is_described_and_no_line_is_malformed() {
        let table = Table::new(FAMILIES);
        for (command, _) in table.all_numbered() {
            let docs = Docs::of(command.full_name);
            assert!(docs.is_some(), "{} has no line in docs.tsv", command.full_name);
        }
        let names: Vec<&str> = LINES.lines().map(|line| Docs::of_line(line).0).collect();
        assert!(names.is_sorted());
        fn check(argument: &Argument, of: &str) {
            assert!(TYPES.iter().any(|(letter, _)| *letter == argument.kind), "{of}: {argument:?}");
            assert_eq!(b"bo".contains(&argument.kind), !argument.parts.is_empty(), "{of}");
            argument.parts.iter().for_each(|part| check(part, of));
        }
        for name in names {
            let docs = Docs::of(name).unwrap();
            assert!(!docs.summary.is_empty() && !docs.summary.ends_with('.'), "{name}");
            let (arguments, rest) = Argument::parse_all(docs.arguments);
            assert_eq!(rest, "", "{name}");
            arguments.iter().for_each(|argument| check(argument, name));
        }
    }

    #[test]
    fn arguments_are_parsed() {
        let (parsed, _) = Argument::parse_all("key/k@0 on/o?+~7.0^7.2=ON[a/t== b/i]");
        let token = Argument { name: "a", kind: b't', token: Some("="), ..Argument::default() };
        let number = Argument { name: "b", kind: b'i', ..Argument::default() };
        let choice = Argument {
            name: "on",
            kind: b'o',
            since: "7.0",
            deprecated_since: "7.2",
            token: Some("ON"),
            flags: vec!["optional", "multiple"],
            parts: vec![token, number],
            ..Argument::default()
        };
        let key = Argument { name: "key", kind: b'k', key_spec: Some(0), ..Argument::default() };
        assert_eq!(parsed, [key, choice]);
    }
}
