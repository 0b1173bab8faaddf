//! The comments of a Rust file.
//!
//! Where no token of the compiler's lexer stands, there is space or a comment; a documentation comment is
//! the attribute `doc`.

use std::ops::Range;

use proc_macro2::{TokenStream, TokenTree};

/// Every line of a comment, with its number.
pub(super) fn comments(text: &str, stream: TokenStream) -> Vec<(usize, String)> {
    let mut code = Vec::new();
    collect(stream, &mut code);
    // The whole of a documentation comment has one range.
    code.push(text.len()..text.len());
    let (mut found, mut end) = (Vec::new(), 0);
    for range in code {
        if end < range.start {
            push(text, end..range.start, &mut found);
        }
        end = end.max(range.end);
    }
    found
}

/// The ranges of all tokens but those of documentation.
fn collect(stream: TokenStream, code: &mut Vec<Range<usize>>) {
    let trees: Vec<TokenTree> = stream.into_iter().collect();
    let mut rest = &trees[..];
    while let Some((first, after)) = rest.split_first() {
        let is_punct = |tree: &TokenTree, text: char| matches!(tree, TokenTree::Punct(punct) if punct.as_char() == text);
        if is_punct(first, '#') {
            let after = match after.split_first() {
                Some((bang, after)) if is_punct(bang, '!') => after,
                _ => after,
            };
            if let Some((TokenTree::Group(group), after)) = after.split_first()
                && group.stream().to_string().starts_with("doc =")
            {
                rest = after;
                continue;
            }
        }
        match first {
            TokenTree::Group(group) => {
                code.push(group.span_open().byte_range());
                collect(group.stream(), code);
                code.push(group.span_close().byte_range());
            }
            token => code.push(token.span().byte_range()),
        }
        rest = after;
    }
}

fn push(text: &str, range: Range<usize>, found: &mut Vec<(usize, String)>) {
    let Some(gap) = text.get(range.clone()) else { return };
    let first = text[..range.start].matches('\n').count() + 1;
    for (index, line) in gap.lines().enumerate() {
        let line = line.trim();
        if !line.is_empty() {
            found.push((first + index, line.to_owned()));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_are_separated_from_code_and_strings() {
        let text = "//! Head.\nfn f() -> &'static str {\n    // One.\n    g(\"// no\", 'a'); /* two\n    three */ h()\n    /// Doc.\n    let x = 1; // Four.\n}\n";
        let found = comments(text, text.parse().unwrap());
        let found: Vec<(usize, &str)> =
            found.iter().map(|(line, text)| (*line, text.as_str())).collect();
        assert_eq!(
            found,
            [
                (1, "//! Head."),
                (3, "// One."),
                (4, "/* two"),
                (5, "three */"),
                (6, "/// Doc."),
                (7, "// Four.")
            ]
        );
    }
}
