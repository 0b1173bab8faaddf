//! One word, one meaning; a standard term where there is one; and "it" for what is no person.
//!
//! Rule: the words of [`ABOLISHED`] stand neither in names of files, identifiers and steps nor, where the
//! list says so, in comments and documents. The words of [`PRONOUNS`] stand in none of them, nor in
//! strings. What is between backticks in comments and documents is code, and `docs/results` holds what a
//! program has written.

mod abolished;

use abolished::{ABOLISHED, PRONOUNS, Where};

use super::finding::Finding;
use super::links::prose;
use super::source::Source;
use super::tree::Tree;

const FIX: &str = "say what does it: the thread, the reader, the caller, the program, it";

/// What programs write: results, and the list of the steps, whose names are checked where they are taken.
const WRITTEN: &[&str] = &["docs/results/", super::steps::LIST];

pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (path, _) in tree.files.iter().filter(|(path, _)| !is_exempt(path)) {
        let name = path.trim_end_matches(".rs").trim_end_matches(".md");
        look(&mut findings, path, 1, name, &[Where::Files, Where::Names, Where::Everywhere]);
    }
    for source in tree.sources.iter().filter(|source| !is_exempt(&source.path)) {
        check_source(&mut findings, source);
    }
    for page in tree.pages.iter().filter(|page| !is_exempt(&page.path)) {
        for (line, text) in prose(&page.text) {
            look_in_text(&mut findings, &page.path, line, text);
        }
    }
    for script in &tree.scripts {
        for (index, text) in script.text.lines().enumerate() {
            look_in_text(&mut findings, &script.path, index + 1, text);
        }
    }
    findings.sort();
    findings.dedup();
    findings
}

/// What programs have written, and the list of the words itself.
fn is_exempt(path: &str) -> bool {
    WRITTEN.iter().any(|written| path.starts_with(written))
        || path.starts_with("xtask/src/tidy/words")
}

fn check_source(findings: &mut Vec<Finding>, source: &Source) {
    for token in &source.tokens {
        let first = token.text.chars().next().unwrap_or_default();
        let is_string = token.text.contains('"');
        let is_step = is_string
            && token.text.contains('.')
            && token
                .text
                .chars()
                .all(|c| c.is_ascii_lowercase() || "._\"".contains(c) || c.is_ascii_digit());
        if first.is_alphabetic() && !is_string || first == '_' || is_step {
            look(
                findings,
                &source.path,
                token.line,
                &token.text,
                &[Where::Names, Where::Everywhere],
            );
            pronouns(findings, &source.path, token.line, &parts(&token.text));
        } else if is_string && !source.is_test(token.line) {
            pronouns(findings, &source.path, token.line, &words(&token.text));
        }
    }
    for (line, text) in &source.comments {
        look_in_text(findings, &source.path, *line, text);
    }
}

fn look_in_text(findings: &mut Vec<Finding>, path: &str, line: usize, text: &str) {
    // Every second piece between backticks is code.
    for piece in text.split('`').step_by(2) {
        let words = words(piece);
        find(findings, path, line, &words, &[Where::Everywhere]);
        pronouns(findings, path, line, &words);
    }
}

/// Looks for abolished words among the parts of a name.
fn look(findings: &mut Vec<Finding>, path: &str, line: usize, name: &str, places: &[Where]) {
    find(findings, path, line, &parts(name), places);
}

fn find(findings: &mut Vec<Finding>, path: &str, line: usize, words: &[String], places: &[Where]) {
    for abolished in ABOLISHED.iter().filter(|abolished| places.contains(&abolished.place)) {
        let folders = abolished.folders;
        if !folders.is_empty() && !folders.iter().any(|folder| path.starts_with(folder)) {
            continue;
        }
        for word in words.iter().filter(|word| abolished.forms.contains(&word.as_str())) {
            let what = format!("the word `{word}` is abolished");
            findings.push(Finding { path: path.to_owned(), line, what, fix: abolished.fix });
        }
    }
}

fn pronouns(findings: &mut Vec<Finding>, path: &str, line: usize, words: &[String]) {
    for word in words.iter().filter(|word| PRONOUNS.contains(&word.as_str())) {
        let what = format!("\"{word}\" is a person");
        findings.push(Finding { path: path.to_owned(), line, what, fix: FIX });
    }
}

/// The words of a text, in lower case.
fn words(text: &str) -> Vec<String> {
    let words = text.split(|c: char| !c.is_alphanumeric() && c != '_' && c != '-' && c != '\'');
    words.map(|word| word.trim_matches(['-', '\'', '_']).to_lowercase()).collect()
}

/// The parts of a name: `look_ahead`, `LookAhead` and `LOOK_AHEAD` have two.
fn parts(name: &str) -> Vec<String> {
    let mut parts = vec![String::new()];
    let mut before = ' ';
    for c in name.chars() {
        if !c.is_alphanumeric() || c.is_uppercase() && before.is_lowercase() {
            parts.push(String::new());
        }
        if let Some(part) = parts.last_mut().filter(|_| c.is_alphanumeric()) {
            part.extend(c.to_lowercase());
        }
        before = c;
    }
    parts
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::finding::lines;

    fn found(path: &str, text: &str) -> Vec<usize> {
        lines(&check(&Tree::of(&[(path, text)])))
    }

    #[test]
    fn good() {
        let text = "//! The `survey` is what the others call it: theirs, ours, whose key it is.\nfn turn(whole: &str) { region.fence(\"nvtree.split\"); }\n";
        assert_eq!(found("crates/server/src/a.rs", text), []);
        let text = "The theory of `reign`.\n```\nhe\n```\n";
        assert_eq!(found("docs/a.md", text), []);
        assert_eq!(found("docs/results/a.md", "he\n"), []);
        assert_eq!(found("crates/index/src/makeroom.rs", "fn ahead_less() {}\n").len(), 1);
    }

    #[test]
    fn abolished_words_are_found_in_names_of_all_kinds() {
        for text in [
            "fn look_ahead() {}\n",
            "struct LookAhead;\n",
            "const LOOK_AHEAD: u8 = 1;\n",
            "mod reign;\n",
            "fn f() { region.fence(\"nvtree.survey.mark\"); }\n",
            "// The surveyor marks.\n",
            "fn f() {} /* Cleansed. */\n",
        ] {
            assert_eq!(found("crates/index/src/a.rs", text), [1], "{text}");
        }
        assert_eq!(found("crates/kv/src/reign.rs", ""), [1]);
        assert_eq!(found("crates/kv/src/lanes.rs", ""), [1]);
        assert_eq!(found("crates/kv/src/lane.rs", ""), []);
        assert_eq!(found("docs/a.md", "\nThe survey.\n"), [2]);
        let finding = &check(&Tree::of(&[("crates/index/src/a.rs", "fn prepare() {}\n")]))[0];
        assert!(finding.to_string().contains("write_hint"), "{finding}");
    }

    #[test]
    fn persons_are_found_in_comments_documents_strings_and_names() {
        for text in [
            "/// Who waits.\nfn f() {}\n",
            "fn nobody_waits() {}\n",
            "fn f() { g(\"held by nobody\"); }\n",
            "// As he's shown.\n",
        ] {
            let expected: &[usize] = if text.contains("he's") { &[] } else { &[1] };
            assert_eq!(found("crates/server/src/a.rs", text), expected, "{text}");
        }
        assert_eq!(found("README.md", "For whoever reads.\n"), [1]);
        assert_eq!(found("scripts/a.sh", "# for somebody\n"), [1]);
    }
}
