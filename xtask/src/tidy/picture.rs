//! `cargo xtask picture`: the sizes, arrows and public names of each crate, as a table.
//!
//! Counted are the files below `src`, without those that are tests. A file has all of its lines, a function those
//! from `fn` to its closing brace. *Public names* stand in `lib.rs` with `pub`: what it hands on, and what it
//! defines. *Arrows* are the pairs of files of which one imports a name of the other, *in circles* the files that
//! reach themselves by them. *Named by most* is the struct whose name stands in most files of its crate; names that
//! two files define are left out. Not seen: fields that are used without the name.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

use super::circles::circles;
use super::modules::Crate;
use super::source::Source;
use super::tree::Tree;

const HEAD: &str = "\
| crate | files | lines a file: median, p90 | lines a function: median, p90 | public names | arrows | in circles | named by most |
|---|---|---|---|---|---|---|---|
";

/// The table, of every crate below `crates/` and `lab/`, and of both folders.
pub(super) fn table(tree: &Tree) -> String {
    let mut table = HEAD.to_owned();
    let houses = Crate::all(tree);
    for folder in ["crates/", "lab/"] {
        let mut all = Figures::default();
        for house in houses.iter().filter(|house| house.place.starts_with(folder)) {
            let figures = Figures::of(house);
            table.push_str(&figures.row(house.place));
            all.add(figures);
        }
        table.push_str(&all.row(&format!("all of {folder}")));
    }
    table
}

#[derive(Default)]
struct Figures {
    files: Vec<usize>,
    functions: Vec<usize>,
    public: usize,
    arrows: usize,
    in_circles: usize,
    /// The struct that most files name, and how many do.
    most: (usize, String),
}

impl Figures {
    fn of(house: &Crate<'_>) -> Figures {
        let imports = house.imports();
        let mut figures = Figures {
            arrows: imports.len(),
            in_circles: circles(&imports).iter().map(BTreeSet::len).sum(),
            most: most_named(house),
            ..Figures::default()
        };
        for source in house.sources() {
            figures.files.push(source.text.lines().count());
            let functions = source.functions();
            let functions = functions.iter().filter(|f| !source.is_test(*f.lines.start()));
            figures.functions.extend(functions.map(|function| function.lines.clone().count()));
            if source.path.strip_prefix(house.place) == Some("/src/lib.rs") {
                figures.public = public_names(source);
            }
        }
        figures
    }

    fn add(&mut self, other: Figures) {
        self.files.extend(other.files);
        self.functions.extend(other.functions);
        self.public += other.public;
        self.arrows += other.arrows;
        self.in_circles += other.in_circles;
        if other.most.0 > self.most.0 {
            self.most = other.most;
        }
    }

    fn row(&self, name: &str) -> String {
        let (files, functions) = (quantiles(&self.files), quantiles(&self.functions));
        let mut row = format!("| {name} | {} | {files} | {functions} ", self.files.len());
        let Figures { public, arrows, in_circles, most: (count, most), .. } = self;
        let named = if *count > 0 { format!("`{most}`: {count}") } else { "none".into() };
        // Writing into a string does not fail.
        let _ = writeln!(row, "| {public} | {arrows} | {in_circles} | {named} |");
        row
    }
}

/// The median, and what nine of ten are not above.
fn quantiles(counts: &[usize]) -> String {
    let mut counts = counts.to_vec();
    counts.sort_unstable();
    let at = |tenth: usize| counts.get(counts.len() * tenth / 10).copied().unwrap_or(0);
    format!("{}, {}", at(5), at(9))
}

/// The struct of a crate whose name stands in most of its files.
fn most_named(house: &Crate<'_>) -> (usize, String) {
    let mut defined: BTreeMap<&str, usize> = BTreeMap::new();
    let mut named: BTreeMap<&str, usize> = BTreeMap::new();
    for source in house.sources() {
        let code = || source.tokens.iter().enumerate().filter(|(_, t)| !source.is_test(t.line));
        for (index, _) in code().filter(|(_, token)| token.text == "struct") {
            if let Some(name) = source.tokens.get(index + 1) {
                *defined.entry(&name.text).or_default() += 1;
            }
        }
        let words: BTreeSet<&str> = code().map(|(_, token)| token.text.as_str()).collect();
        for word in words {
            *named.entry(word).or_default() += 1;
        }
    }
    let once = defined.into_iter().filter(|(_, times)| *times == 1);
    let counts = once.filter_map(|(name, _)| Some((*named.get(name)?, name.to_owned())));
    counts.max().unwrap_or_default()
}

/// How many names a `lib.rs` gives to other crates.
fn public_names(source: &Source) -> usize {
    let (mut count, mut index) = (0, 0);
    while let Some(token) = source.tokens.get(index) {
        if let Some(close) = token.close {
            index = close + 1;
            continue;
        }
        let is_public = source.matches(index, &["pub"]) && !source.matches(index + 1, &["("]);
        if is_public && !source.is_test(token.line) {
            if source.matches(index + 1, &["use"]) {
                let ends = [",", "}", ";"];
                let rest = source.tokens[index..].windows(2);
                let rest = rest.take_while(|pair| pair[0].text != ";");
                let is_name = |text: &str| {
                    text == "*" || text.starts_with(|c: char| c.is_alphabetic() || c == '_')
                };
                count += rest
                    .filter(|pair| is_name(&pair[0].text) && ends.contains(&pair[1].text.as_str()))
                    .count();
                while source.tokens.get(index).is_some_and(|token| token.text != ";") {
                    index += 1;
                }
            } else {
                count += 1;
            }
        }
        index += 1;
    }
    count
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_crate_is_counted_without_its_tests() {
        let lib = "//! x\nmod a;\nmod b;\npub use a::{self, A, B as C,};\npub(crate) use b::D;\npub use b::*;\npub fn f() {\n    g(|| { pub_fn() })\n}\n#[cfg(test)]\npub fn h() {}\n#[cfg(test)]\nmod tests;\n";
        let files = [
            ("crates/a/src/lib.rs", lib),
            ("crates/a/src/a.rs", "use crate::b::D;\npub struct A(D);\npub struct B;\n"),
            (
                "crates/a/src/b.rs",
                "use crate::a::A;\npub struct D;\nfn i(a: A) -> D {\n    j(a)\n}\n",
            ),
            ("crates/a/src/tests.rs", "use crate::b::D;\nfn k() {\n}\n"),
            ("crates/a/tests/t.rs", "fn l() {}\n"),
        ];
        let rows: Vec<String> = table(&Tree::of(&files)).lines().map(str::to_owned).collect();
        let row = "| 3 | 5, 13 | 3, 3 | 5 | 2 | 2 | `D`: 3 |";
        assert_eq!(rows[2], format!("| crates/a {row}"));
        assert_eq!(rows[3], format!("| all of crates/ {row}"));
        assert_eq!(rows[4], "| all of lab/ | 0 | 0, 0 | 0, 0 | 0 | 0 | 0 | none |");
    }
}
