//! The modules of each crate, and which file imports a name of which other file.
//!
//! A `use` and a path in the code (`crate::…`, `super::…`, `self::…`, or one that begins with a module in
//! scope) is resolved to the file that defines its last name; what `use` in other modules hands on is
//! followed. A name that a module only hands on (`pub use`) is no import of that module. Tests are left
//! out. Not seen: what macros write, and names of traits' and types' own items.

use std::collections::{BTreeMap, HashMap, HashSet};

use super::scopes::{Path, Scope, Use, scopes};
use super::source::Source;
use super::tree::Tree;

/// An arrow: one file imports a name of another.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Import {
    pub(super) from: String,
    pub(super) to: String,
    pub(super) line: usize,
    pub(super) name: String,
}

/// A path that leads into a folder past its own file.
pub(super) struct Trespass {
    pub(super) path: String,
    pub(super) line: usize,
    /// The module that owns the folder, and the module in it.
    pub(super) folder: String,
    pub(super) inside: String,
}

/// The modules of one crate.
pub(super) struct Crate<'t> {
    /// `crates/kv`.
    pub(super) place: &'t str,
    files: Vec<File<'t>>,
    by_module: HashMap<Path, usize>,
}

struct File<'t> {
    source: &'t Source,
    module: Path,
    /// The module of the file itself, and those that are written inside it.
    scopes: HashMap<Path, Scope>,
}

/// What a path leads to.
enum Target {
    Module(Path),
    /// The file that defines the name.
    File(usize),
}

/// How many `use` are followed one after the other; a longer row is a loop.
const DEPTH_MAX: usize = 16;

impl<'t> Crate<'t> {
    /// Every crate of the tree, by its folder.
    pub(super) fn all(tree: &'t Tree) -> Vec<Crate<'t>> {
        let mut places: BTreeMap<&str, Vec<&Source>> = BTreeMap::new();
        for source in &tree.sources {
            let Some(place) = source.place() else { continue };
            if source.path[place.len()..].starts_with("/src/") {
                places.entry(place).or_default().push(source);
            }
        }
        places.into_iter().map(|(place, sources)| Crate::new(place, &sources)).collect()
    }

    fn new(place: &'t str, sources: &[&'t Source]) -> Crate<'t> {
        let mut test_modules = HashSet::new();
        let mut files = Vec::new();
        for source in sources {
            let module = module(&source.path[place.len() + "/src/".len()..]);
            let found = scopes(source, &module);
            test_modules.extend(found.test_modules);
            files.push(File { source, module, scopes: found.scopes });
        }
        let is_test = |file: &File<'_>| {
            file.source.stem().ends_with("tests")
                || (1..=file.module.len()).any(|end| test_modules.contains(&file.module[..end]))
        };
        files.retain(|file| !is_test(file));
        let by_module =
            files.iter().enumerate().map(|(index, file)| (file.module.clone(), index)).collect();
        Crate { place, files, by_module }
    }

    /// Its files, without those that are tests.
    pub(super) fn sources(&self) -> impl Iterator<Item = &'t Source> {
        self.files.iter().map(|file| file.source)
    }

    /// Every import between two files, each pair once.
    pub(super) fn imports(&self) -> Vec<Import> {
        let mut found: BTreeMap<(usize, usize), Import> = BTreeMap::new();
        for (from, file) in self.files.iter().enumerate() {
            for (line, at, path) in file.mentions() {
                let to = match path.split_last() {
                    Some((all, module)) if all == Use::ALL => self.resolve(&at, module, 0),
                    _ => self.resolve(&at, &path, 0).filter(|to| matches!(to, Target::File(_))),
                };
                let Some(to) = to.and_then(|to| self.file(to)) else { continue };
                if to != from {
                    found.entry((from, to)).or_insert_with(|| Import {
                        from: file.source.path.clone(),
                        to: self.files[to].source.path.clone(),
                        line,
                        name: path.last().cloned().unwrap_or_default(),
                    });
                }
            }
        }
        found.into_values().collect()
    }

    /// Every path that leads into a folder from outside, past the folder's own file.
    pub(super) fn trespasses(&self) -> Vec<Trespass> {
        let mut found = Vec::new();
        for file in &self.files {
            let uses = file.scopes.iter().flat_map(|(at, scope)| {
                scope.uses.iter().map(move |used| (used.line, at.clone(), used.path.clone()))
            });
            let paths = file.scopes.iter().flat_map(|(at, scope)| {
                scope.paths.iter().map(move |(line, path)| (*line, at.clone(), path.clone()))
            });
            for (line, at, path) in uses.chain(paths) {
                if let Some((folder, inside)) = self.trespass(&file.module, &at, &path) {
                    let path = file.source.path.clone();
                    found.push(Trespass { path, line, folder, inside });
                }
            }
        }
        found
    }

    /// The folder and the module in it, if the path as it is written leads past the folder's own file.
    fn trespass(&self, importer: &Path, at: &Path, path: &Path) -> Option<(String, String)> {
        let mut current = at.clone();
        for (index, name) in path.iter().enumerate() {
            match name.as_str() {
                "crate" => current.clear(),
                "super" => drop(current.pop()),
                "self" => {}
                name => {
                    let mut child = current.clone();
                    child.push(name.to_owned());
                    let is_last = index + 1 == path.len();
                    if !self.by_module.contains_key(&child)
                        || is_last && self.hands_on(&current, name)
                    {
                        let alias =
                            self.scope(&current)?.uses.iter().find(|used| used.name == name);
                        let leads = alias.filter(|_| index == 0)?;
                        let Some(Target::Module(module)) = self.resolve(at, &leads.path, 0) else {
                            return None;
                        };
                        current = module;
                        continue;
                    }
                    if !current.is_empty() && !importer.starts_with(&current) {
                        return Some((current.join("::"), child.join("::")));
                    }
                    current = child;
                }
            }
        }
        None
    }

    /// Whether a module hands on an item of that name, beside a module that has it too.
    fn hands_on(&self, module: &Path, name: &str) -> bool {
        let uses = self.scope(module).map(|scope| &scope.uses);
        uses.is_some_and(|uses| uses.iter().any(|used| used.name == name && used.path.len() > 1))
    }

    fn scope(&self, module: &Path) -> Option<&Scope> {
        self.file_of(module).and_then(|file| self.files[file].scopes.get(module))
    }

    fn file(&self, target: Target) -> Option<usize> {
        match target {
            Target::File(file) => Some(file),
            Target::Module(module) => self.file_of(&module),
        }
    }

    /// The file in which a module stands.
    fn file_of(&self, module: &Path) -> Option<usize> {
        (0..=module.len()).rev().find_map(|end| self.by_module.get(&module[..end])).copied()
    }

    /// What `path`, as written in the module `at`, leads to; nothing if it leads out of the crate.
    fn resolve(&self, at: &Path, path: &[String], depth: usize) -> Option<Target> {
        let mut current = at.clone();
        for (index, name) in path.iter().enumerate() {
            match name.as_str() {
                "crate" => current.clear(),
                "super" => drop(current.pop()),
                "self" => {}
                name => {
                    let mut child = current.clone();
                    child.push(name.to_owned());
                    let is_last = index + 1 == path.len();
                    if (self.by_module.contains_key(&child) || self.scope(&child).is_some())
                        && !(is_last && depth == 0 && self.hands_on(&current, name))
                    {
                        current = child;
                        continue;
                    }
                    return self.item(&current, name, &path[index + 1..], depth);
                }
            }
        }
        Some(Target::Module(current))
    }

    /// What `name` means in `module`, and then `rest`.
    fn item(&self, module: &Path, name: &str, rest: &[String], depth: usize) -> Option<Target> {
        let scope = self.scope(module)?;
        if scope.names.contains(name) {
            return self.file_of(module).map(Target::File);
        }
        if depth == DEPTH_MAX {
            return None;
        }
        if let Some(used) = scope.uses.iter().find(|used| used.name == name) {
            return match self.resolve(module, &used.path, depth + 1)? {
                Target::Module(found) if !rest.is_empty() => self.resolve(&found, rest, depth + 1),
                target => Some(target),
            };
        }
        scope.uses.iter().filter(|used| used.name == Use::ALL).find_map(|used| {
            let Target::Module(found) = self.resolve(module, &used.path, depth + 1)? else {
                return None;
            };
            self.item(&found, name, rest, depth + 1)
        })
    }
}

impl File<'_> {
    /// Every path that the file needs: line, the module that it stands in, the path.
    fn mentions(&self) -> Vec<(usize, Path, Path)> {
        let mut found = Vec::new();
        for (at, scope) in &self.scopes {
            for used in scope.uses.iter().filter(|used| !used.is_handed_on || used.is_named) {
                let mut path = used.path.clone();
                if used.name == Use::ALL {
                    path.push(Use::ALL.to_owned());
                }
                found.push((used.line, at.clone(), path));
            }
            for (line, path) in &scope.paths {
                found.push((*line, at.clone(), path.clone()));
            }
        }
        found.sort();
        found
    }
}

/// The module of a file below `src`.
fn module(path: &str) -> Path {
    let path = path.strip_suffix(".rs").unwrap_or(path);
    if path == "lib" || path == "main" {
        return Path::new();
    }
    path.split('/').map(str::to_owned).collect()
}
