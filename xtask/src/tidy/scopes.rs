//! What stands in the modules of one file: names that are defined, `use`, paths.

use std::collections::{HashMap, HashSet};
use std::ops::Range;

use super::source::Source;

/// Names of modules, from the root of the crate on.
pub(super) type Path = Vec<String>;

/// A name that a `use` brings into a module.
pub(super) struct Use {
    pub(super) path: Path,
    /// [`Use::ALL`] for `*`.
    pub(super) name: String,
    pub(super) line: usize,
    /// `pub use`, `pub(crate) use`.
    pub(super) is_handed_on: bool,
    /// The code of the file names it too.
    pub(super) is_named: bool,
}

impl Use {
    pub(super) const ALL: &'static str = "*";
}

/// A module as far as a file has it.
#[derive(Default)]
pub(super) struct Scope {
    pub(super) names: HashSet<String>,
    pub(super) uses: Vec<Use>,
    /// Paths in code and in types, each with its line.
    pub(super) paths: Vec<(usize, Path)>,
}

/// What a file has.
pub(super) struct Found {
    /// The module of the file, and those written inside it.
    pub(super) scopes: HashMap<Path, Scope>,
    /// Modules that are declared for tests only.
    pub(super) test_modules: HashSet<Path>,
}

/// Words before the name of an item.
const ITEMS: &[&str] =
    &["fn", "struct", "enum", "trait", "type", "const", "static", "union", "mod"];

/// Words that stand between those and the name.
const BETWEEN: &[&str] = &["mut", "unsafe", "extern", "async"];

/// Reads the modules of a file that is the module `module`.
pub(super) fn scopes(source: &Source, module: &Path) -> Found {
    let found = Found { scopes: HashMap::new(), test_modules: HashSet::new() };
    let mut reader = Reader { source, found, words: HashSet::new() };
    reader.found.scopes.insert(module.clone(), Scope::default());
    reader.read(0..source.tokens.len(), module, true);
    let Reader { mut found, words, .. } = reader;
    for used in found.scopes.values_mut().flat_map(|scope| &mut scope.uses) {
        used.is_named = words.contains(used.name.as_str());
    }
    found
}

struct Reader<'s> {
    source: &'s Source,
    found: Found,
    /// Every word outside of `use`.
    words: HashSet<&'s str>,
}

impl<'s> Reader<'s> {
    /// Reads tokens of a module; `is_top`: items there are the module's, not those of a block.
    fn read(&mut self, range: Range<usize>, module: &Path, is_top: bool) {
        let tokens = &self.source.tokens;
        let mut index = range.start;
        while index < range.end {
            let token = &tokens[index];
            if self.source.is_test(token.line) {
                self.note_test_module(index, module);
                index += 1;
                continue;
            }
            if token.text == "use" && tokens.get(index + 1).is_some_and(|next| next.text != "<") {
                let is_handed_on = self.is_public(index);
                index = self.read_use(index + 1, module, is_handed_on);
                continue;
            }
            if let Some(close) = token.close {
                self.read(index + 1..close, module, false);
                index = close + 1;
                continue;
            }
            if is_top && ITEMS.contains(&token.text.as_str()) {
                index = self.read_item(index, module);
                continue;
            }
            if is_top && self.source.matches(index, &["macro_rules", "!"]) {
                self.define(module, index + 2);
            }
            index = self.read_path(index, module);
        }
    }

    /// An item's keyword: its name, and the body if it is a module. Where reading goes on.
    fn read_item(&mut self, index: usize, module: &Path) -> usize {
        let tokens = &self.source.tokens;
        let mut at = index + 1;
        while tokens.get(at).is_some_and(|token| BETWEEN.contains(&token.text.as_str())) {
            at += 1;
        }
        let body = tokens.get(at + 1).filter(|open| open.text == "{").and_then(|open| open.close);
        if tokens[index].text != "mod" {
            self.define(module, at);
            return at.max(index + 1);
        }
        let Some(close) = body else { return at + 1 };
        let mut inner = module.clone();
        inner.push(tokens[at].text.clone());
        self.found.scopes.insert(inner.clone(), Scope::default());
        self.read(at + 2..close, &inner, true);
        close + 1
    }

    fn define(&mut self, module: &Path, at: usize) {
        if let (Some(scope), Some(name)) =
            (self.found.scopes.get_mut(module), self.source.tokens.get(at))
        {
            scope.names.insert(name.text.clone());
        }
    }

    /// `mod tests;` below `#[cfg(test)]`.
    fn note_test_module(&mut self, index: usize, module: &Path) {
        let tokens = &self.source.tokens;
        if tokens[index].text == "mod" && tokens.get(index + 2).is_some_and(|end| end.text == ";") {
            let mut name = module.clone();
            name.push(tokens[index + 1].text.clone());
            self.found.test_modules.insert(name);
        }
    }

    /// Whether `pub` stands before the token, or `pub(…)`.
    fn is_public(&self, index: usize) -> bool {
        let before =
            |back: usize| index.checked_sub(back).map(|at| self.source.tokens[at].text.as_str());
        if before(1) != Some(")") {
            return before(1) == Some("pub");
        }
        let open = (2..10).find(|back| before(*back) == Some("("));
        open.is_some_and(|back| before(back + 1) == Some("pub"))
    }

    /// Reads a `use` from its tree on; where reading goes on.
    fn read_use(&mut self, start: usize, module: &Path, is_handed_on: bool) -> usize {
        let tokens = &self.source.tokens;
        let mut end = start;
        while tokens.get(end).is_some_and(|token| token.text != ";") {
            end = tokens[end].close.unwrap_or(end) + 1;
        }
        let mut uses = Vec::new();
        self.read_tree(start..end, &Path::new(), &mut uses);
        if let Some(scope) = self.found.scopes.get_mut(module) {
            let named =
                |(path, name, line)| Use { path, name, line, is_handed_on, is_named: false };
            scope.uses.extend(uses.into_iter().map(named));
        }
        end + 1
    }

    fn read_tree(&self, range: Range<usize>, prefix: &Path, uses: &mut Vec<(Path, String, usize)>) {
        let tokens = &self.source.tokens;
        let (mut path, mut index) = (prefix.clone(), range.start);
        let (mut name, mut line) = (None, 0);
        while index < range.end {
            let token = &tokens[index];
            match token.text.as_str() {
                ":" => {}
                "{" => {
                    let close = token.close.unwrap_or(range.end);
                    let mut first = index + 1;
                    while first < close {
                        let mut last = first;
                        while last < close && tokens[last].text != "," {
                            last = tokens[last].close.unwrap_or(last) + 1;
                        }
                        self.read_tree(first..last, &path, uses);
                        first = last + 1;
                    }
                    return;
                }
                "as" => {
                    name = tokens.get(index + 1).map(|token| token.text.clone());
                    break;
                }
                // `foo::{self}` is `foo`.
                "self" if !path.is_empty() => line = token.line,
                text => {
                    line = token.line;
                    path.push(text.to_owned());
                }
            }
            index += 1;
        }
        if range.is_empty() {
            return;
        }
        let last = path.last().cloned().unwrap_or_default();
        if last == Use::ALL {
            path.pop();
        }
        uses.push((path, name.unwrap_or(last), line));
    }

    /// A path of two names and more; where reading goes on.
    fn read_path(&mut self, index: usize, module: &Path) -> usize {
        let tokens = &self.source.tokens;
        let is_name = |at: usize| {
            let first = tokens.get(at).and_then(|token| token.text.chars().next());
            first.is_some_and(|first| first.is_alphabetic() || first == '_')
        };
        if !is_name(index) {
            return index + 1;
        }
        self.words.insert(&tokens[index].text);
        let (mut path, mut at) = (vec![tokens[index].text.clone()], index);
        while self.source.matches(at + 1, &[":", ":"]) && is_name(at + 3) {
            at += 3;
            path.push(tokens[at].text.clone());
        }
        let is_continued = index >= 2 && self.source.matches(index - 2, &[":", ":"]);
        if path.len() > 1
            && !is_continued
            && let Some(scope) = self.found.scopes.get_mut(module)
        {
            scope.paths.push((tokens[index].line, path));
        }
        at + 1
    }
}
