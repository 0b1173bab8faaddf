//! A Rust file as a flat list of tokens with their lines.
//!
//! Tokens come from the compiler's own lexer rules (proc-macro2), so that strings and comments
//! never deceive a check, and the inside of a macro call is seen as well as any other code.

use std::ops::RangeInclusive;

use proc_macro2::{Delimiter, TokenStream, TokenTree};

use super::comments::comments;
use super::finding::Finding;

/// A token; a group's delimiters are tokens of their own.
#[derive(Debug)]
pub(super) struct Token {
    pub(super) text: String,
    pub(super) line: usize,
    /// For an opening delimiter, the index of the closing one.
    pub(super) close: Option<usize>,
}

/// A function: its name, and its lines from `fn` to the closing brace.
#[derive(Debug)]
pub(super) struct Function {
    pub(super) name: String,
    pub(super) lines: RangeInclusive<usize>,
}

pub(super) struct Source {
    pub(super) path: String,
    pub(super) text: String,
    pub(super) tokens: Vec<Token>,
    /// Every line of a comment, with its number.
    pub(super) comments: Vec<(usize, String)>,
    tests: Vec<RangeInclusive<usize>>,
}

impl Source {
    pub(super) fn parse(path: &str, text: String) -> Result<Source, Finding> {
        let stream: TokenStream = text.parse().map_err(|_| Finding {
            path: path.to_owned(),
            line: 1,
            what: "this is not Rust".into(),
            fix: "let it compile first",
        })?;
        let mut tokens = Vec::new();
        flatten(stream.clone(), &mut tokens);
        let comments = comments(&text, stream);
        let mut source =
            Source { path: path.to_owned(), text, tokens, comments, tests: Vec::new() };
        source.tests = source.find_tests();
        Ok(source)
    }

    /// Line `number`, counted from 1, without the space around it.
    pub(super) fn line(&self, number: usize) -> &str {
        number.checked_sub(1).and_then(|index| self.text.lines().nth(index)).unwrap_or("").trim()
    }

    /// The file's name without `.rs`.
    pub(super) fn stem(&self) -> &str {
        let name = self.path.rsplit('/').next().unwrap_or_default();
        name.strip_suffix(".rs").unwrap_or(name)
    }

    /// The folder of its crate: `crates/kv`, `lab/sim`, `xtask`; none for what lies elsewhere.
    pub(super) fn place(&self) -> Option<&str> {
        let mut ends = self.path.match_indices('/').map(|(at, _)| at);
        let end = match ["crates/", "lab/"].iter().any(|folder| self.path.starts_with(folder)) {
            true => ends.nth(1)?,
            false if self.path.starts_with("xtask/") => ends.next()?,
            false => return None,
        };
        Some(&self.path[..end])
    }

    /// The folder of its crate below `crates/`, if it lies there.
    pub(super) fn room(&self) -> Option<&str> {
        self.path.strip_prefix("crates/")?.split('/').next()
    }

    /// True for code that runs in tests only: below `tests/` or `benches/`, in a file `tests.rs`,
    /// or in an item marked `#[cfg(test)]` or `#[test]`.
    pub(super) fn is_test(&self, line: usize) -> bool {
        self.path.split('/').any(|part| part == "tests" || part == "benches")
            || self.stem() == "tests"
            || self.tests.iter().any(|lines| lines.contains(&line))
    }

    /// Whether the tokens from `index` on are these.
    pub(super) fn matches(&self, index: usize, texts: &[&str]) -> bool {
        self.tokens
            .get(index..index + texts.len())
            .is_some_and(|tokens| tokens.iter().zip(texts).all(|(token, text)| token.text == *text))
    }

    /// Every function that has a body.
    pub(super) fn functions(&self) -> Vec<Function> {
        let mut functions = Vec::new();
        for (index, token) in self.tokens.iter().enumerate() {
            let Some(name) = self.tokens.get(index + 1) else { break };
            // `fn(` is a type.
            if token.text == "fn"
                && name.text != "("
                && let Some(body) = self.body(index)
            {
                let lines = token.line..=self.tokens[body].line;
                functions.push(Function { name: name.text.clone(), lines });
            }
        }
        functions
    }

    /// From the start of an item: the index of its body's closing brace; None if it ends with `;`.
    fn body(&self, start: usize) -> Option<usize> {
        let mut index = start;
        while let Some(token) = self.tokens.get(index) {
            match (token.text.as_str(), token.close) {
                ("{", close) => return close,
                (";" | "}", _) => return None,
                (_, Some(close)) => index = close + 1,
                _ => index += 1,
            }
        }
        None
    }

    /// From the start of an item: the index of its last token, a closing brace or a `;`.
    fn end(&self, start: usize) -> Option<usize> {
        let mut index = start;
        while let Some(token) = self.tokens.get(index) {
            match (token.text.as_str(), token.close) {
                ("{", close) => return close,
                (";", _) => return Some(index),
                ("}", _) => return None,
                (_, Some(close)) => index = close + 1,
                _ => index += 1,
            }
        }
        None
    }

    fn find_tests(&self) -> Vec<RangeInclusive<usize>> {
        let marks: [&[&str]; 2] =
            [&["#", "[", "cfg", "(", "test", ")", "]"], &["#", "[", "test", "]"]];
        let mut found = Vec::new();
        for (index, token) in self.tokens.iter().enumerate() {
            if let Some(mark) = marks.iter().find(|mark| self.matches(index, mark))
                && let Some(end) = self.end(index + mark.len())
            {
                found.push(token.line..=self.tokens[end].line);
            }
        }
        found
    }
}

fn flatten(stream: TokenStream, tokens: &mut Vec<Token>) {
    for tree in stream {
        let line = tree.span().start().line;
        let TokenTree::Group(group) = tree else {
            tokens.push(Token { text: tree.to_string(), line, close: None });
            continue;
        };
        let (open, close) = match group.delimiter() {
            Delimiter::Parenthesis => ("(", ")"),
            Delimiter::Brace => ("{", "}"),
            Delimiter::Bracket => ("[", "]"),
            Delimiter::None => ("", ""),
        };
        let at = tokens.len();
        tokens.push(Token { text: open.into(), line, close: None });
        flatten(group.stream(), tokens);
        tokens[at].close = Some(tokens.len());
        let line = group.span_close().end().line;
        tokens.push(Token { text: close.into(), line, close: None });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn source(path: &str, text: &str) -> Source {
        Source::parse(path, text.to_owned()).unwrap()
    }

    #[test]
    fn functions_are_found_with_their_lines() {
        let text = "trait T { fn none(&self); }\nfn f(g: fn(u8)) -> [u8; 2]\nwhere\n    u8: Copy,\n{\n    \"}\";\n}\n";
        let found = source("a.rs", text).functions();
        assert_eq!(found.len(), 1);
        assert_eq!((found[0].name.as_str(), found[0].lines.clone()), ("f", 2..=7));
    }

    #[test]
    fn tests_are_separated_from_code() {
        let text = "fn a() {}\n#[cfg(test)]\nmod tests {\n    fn b() {}\n}\nfn c() {}\n";
        let source = source("crates/kv/src/lib.rs", text);
        assert_eq!(
            [1, 2, 4, 5, 6].map(|line| source.is_test(line)),
            [false, true, true, true, false]
        );
        assert_eq!((source.room(), source.stem()), (Some("kv"), "lib"));
    }

    #[test]
    fn a_marked_declaration_does_not_swallow_what_follows() {
        let text = "#[cfg(test)]\nmod tests;\nfn a() {\n}\n";
        assert!(!source("crates/kv/src/lib.rs", text).is_test(3));
    }

    #[test]
    fn what_is_not_rust_is_a_finding() {
        assert!(Source::parse("a.rs", "fn f( {".into()).is_err());
    }
}
