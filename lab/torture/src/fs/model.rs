//! The sequential model: a tree of folders, and files that have several names.

use std::collections::BTreeMap;

use tembo_fs::{
    ACCESS_LIST, Allocate, Condition, DEFAULT_LIST, Error, FileKind, Reads, Rename, Tree,
};

use super::call::{ATTRIBUTE, Call, DEFAULT_CLASSES, MODE, PIECE, UMASK, bytes, list};
use crate::judge::text;

/// What a name stands for.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Content {
    File(Vec<u8>),
    Folder,
    Symlink(Vec<u8>),
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct File {
    content: Content,
    permissions: u16,
    attribute: Option<Vec<u8>>,
    /// The access list that it has inherited, which follows the permissions.
    access: Option<Vec<u8>>,
    /// The default list.
    default: Option<Vec<u8>>,
}

impl File {
    fn new(content: Content, permissions: u16) -> File {
        File { content, permissions, attribute: None, access: None, default: None }
    }
}

/// All that a program can see: paths, each with the number of its file; files are numbered in the order of their first
/// paths. The root is the empty path, and a folder ends with no slash.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct State {
    names: BTreeMap<String, u64>,
    files: BTreeMap<u64, File>,
}

/// The name of an error.
type Refused = &'static str;

impl Default for State {
    fn default() -> State {
        let root = File::new(Content::Folder, 0o755);
        State { names: [(String::new(), 0)].into(), files: [(0, root)].into() }
    }
}

fn folder_of(path: &str) -> (&str, &str) {
    path.rsplit_once('/').unwrap_or(("", path))
}

impl State {
    /// What a file system shows.
    pub(super) fn of<A: Reads>(tree: &mut Tree<A>) -> Result<State, String> {
        let mut state = State { names: BTreeMap::new(), files: BTreeMap::new() };
        let mut next = vec![(String::new(), tembo_fs::ROOT)];
        while let Some((path, number)) = next.pop() {
            let inode = tree.inode(number).map_err(text)?;
            let content = match inode.kind {
                FileKind::Directory => {
                    tree.list(number, 0, &mut |entry| {
                        let name = String::from_utf8_lossy(&entry.name).into_owned();
                        let slash = if path.is_empty() { "" } else { "/" };
                        next.push((format!("{path}{slash}{name}"), entry.inode));
                        true
                    })
                    .map_err(text)?;
                    Content::Folder
                }
                FileKind::Symlink => Content::Symlink(tree.target(number).map_err(text)?),
                _ => {
                    let mut bytes = vec![0xee; inode.size as usize];
                    let len = tree.read(number, 0, &mut bytes).map_err(text)?;
                    bytes.truncate(len);
                    Content::File(bytes)
                }
            };
            let mut attribute = |name| match tree.attribute(number, name) {
                Err(Error::NoSuchAttribute { .. }) => Ok(None),
                found => found.map(Some).map_err(text),
            };
            let mut file = File::new(content, inode.permissions);
            file.attribute = attribute(ATTRIBUTE)?;
            (file.access, file.default) = (attribute(ACCESS_LIST)?, attribute(DEFAULT_LIST)?);
            state.files.insert(number, file);
            state.names.insert(path, number);
        }
        Ok(state.canonical())
    }

    /// With files that have no name forgotten, and numbered by their first names.
    fn canonical(self) -> State {
        let mut numbers = BTreeMap::new();
        for number in self.names.values() {
            let next = numbers.len() as u64;
            numbers.entry(*number).or_insert(next);
        }
        let names = self.names.into_iter().map(|(path, number)| (path, numbers[&number]));
        let files = self.files.into_iter();
        let files = files.filter_map(|(number, file)| Some((*numbers.get(&number)?, file)));
        State { names: names.collect(), files: files.collect() }
    }

    /// What a call makes of it.
    ///
    /// # Errors
    /// The name of the error that it gets.
    pub(super) fn after(&self, call: &Call, serial: u64) -> Result<State, Refused> {
        let mut state = self.clone();
        state.call(call, serial)?;
        Ok(state.canonical())
    }

    fn find(&self, path: &str) -> Result<u64, Refused> {
        let (mut at, mut number) = (String::new(), self.names[""]);
        for name in path.split('/').filter(|name| !name.is_empty()) {
            if !self.is_folder(number) {
                return Err("ENOTDIR");
            }
            at = if at.is_empty() { name.to_owned() } else { format!("{at}/{name}") };
            number = *self.names.get(&at).ok_or("ENOENT")?;
        }
        Ok(number)
    }

    fn is_folder(&self, number: u64) -> bool {
        self.files[&number].content == Content::Folder
    }

    /// The folder in which something is to be made.
    fn place(&self, path: &str) -> Result<(), Refused> {
        let number = self.find(folder_of(path).0)?;
        if self.is_folder(number) { Ok(()) } else { Err("ENOTDIR") }
    }

    fn file(&mut self, path: &str) -> Result<&mut Vec<u8>, Refused> {
        let number = self.find(path)?;
        match self.files.get_mut(&number).map(|file| &mut file.content) {
            Some(Content::File(bytes)) => Ok(bytes),
            Some(Content::Folder) => Err("EISDIR"),
            _ => Err("EINVAL"),
        }
    }

    fn call(&mut self, call: &Call, serial: u64) -> Result<(), Refused> {
        match *call {
            Call::Create(path) => self.create(path, Content::File(Vec::new())),
            Call::Folder(path) => self.create(path, Content::Folder),
            Call::Symlink(path, target) => self.create(path, Content::Symlink(target.into())),
            Call::Link(from, to) => self.link(from, to),
            Call::Unlink(path) => self.remove(path, false),
            Call::RemoveFolder(path) => self.remove(path, true),
            Call::Rename(from, to, how) => self.rename(from, to, how),
            Call::Write(path, offset, len) => {
                let file = self.file(path)?;
                if len > 0 {
                    put(file, offset as usize, &bytes(serial, len));
                }
                Ok(())
            }
            Call::Resize(path, size) => {
                self.file(path)?.resize(size as usize, 0);
                Ok(())
            }
            Call::Allocate(path, offset, len, how) => {
                allocate(self.file(path)?, offset as usize, len as usize, how)
            }
            Call::Copy(from, to, offset) => self.copy(from, to, offset as usize),
            Call::Clone(from, to) => self.clone_file(from, to),
            Call::Permissions(path, bits) => {
                let number = self.find(path)?;
                self.change(number, |file| {
                    file.permissions = bits;
                    file.access = file.access.take().map(|_| list(bits));
                });
                Ok(())
            }
            Call::SetAttribute(path, len, condition) => {
                let number = self.find(path)?;
                match (condition, self.files[&number].attribute.is_some()) {
                    (Condition::Create, true) => return Err("EEXIST"),
                    (Condition::Replace, false) => return Err("ENODATA"),
                    _ => {}
                }
                self.change(number, |file| file.attribute = Some(bytes(serial, len)));
                Ok(())
            }
            Call::RemoveAttribute(path) => {
                let number = self.find(path)?;
                if self.files[&number].attribute.is_none() {
                    return Err("ENODATA");
                }
                self.change(number, |file| file.attribute = None);
                Ok(())
            }
            Call::DefaultList(path, is_set) => {
                let number = self.find(path)?;
                match (is_set, self.is_folder(number), &self.files[&number].default) {
                    (true, false, _) => return Err("EINVAL"),
                    (false, _, None) => return Err("ENODATA"),
                    _ => {}
                }
                let default = is_set.then(|| list(DEFAULT_CLASSES));
                self.change(number, |file| file.default = default);
                Ok(())
            }
        }
    }

    fn change(&mut self, number: u64, change: impl FnOnce(&mut File)) {
        if let Some(file) = self.files.get_mut(&number) {
            change(file);
        }
    }

    fn create(&mut self, path: &str, content: Content) -> Result<(), Refused> {
        self.place(path)?;
        if self.names.contains_key(path) {
            return Err("EEXIST");
        }
        let number = self.files.keys().max().map_or(0, |last| last + 1);
        let folder = self.find(folder_of(path).0)?;
        let inherited = self.files[&folder].default.clone();
        let (is_folder, is_link) =
            (content == Content::Folder, matches!(content, Content::Symlink(_)));
        let mut file = File::new(content, if is_link { MODE } else { MODE & !UMASK });
        if inherited.is_some() && !is_link {
            file.permissions = MODE & DEFAULT_CLASSES;
            file.access = Some(list(file.permissions));
            file.default = inherited.filter(|_| is_folder);
        }
        self.files.insert(number, file);
        self.names.insert(path.to_owned(), number);
        Ok(())
    }

    fn link(&mut self, from: &str, to: &str) -> Result<(), Refused> {
        let number = self.find(from)?;
        self.place(to)?;
        if self.is_folder(number) {
            return Err("EPERM");
        }
        if self.names.contains_key(to) {
            return Err("EEXIST");
        }
        self.names.insert(to.to_owned(), number);
        Ok(())
    }

    /// Paths below a folder.
    fn below(&self, path: &str) -> Vec<String> {
        let begin = format!("{path}/");
        self.names.keys().filter(|other| other.starts_with(&begin)).cloned().collect()
    }

    fn remove(&mut self, path: &str, wants_folder: bool) -> Result<(), Refused> {
        self.place(path)?;
        let number = *self.names.get(path).ok_or("ENOENT")?;
        match (self.is_folder(number), wants_folder) {
            (true, false) => return Err("EISDIR"),
            (false, true) => return Err("ENOTDIR"),
            _ => {}
        }
        if !self.below(path).is_empty() {
            return Err("ENOTEMPTY");
        }
        self.names.remove(path);
        Ok(())
    }

    fn rename(&mut self, from: &str, to: &str, how: Rename) -> Result<(), Refused> {
        self.place(from)?;
        self.place(to)?;
        let source = *self.names.get(from).ok_or("ENOENT")?;
        let target = self.names.get(to).copied();
        match (how, target) {
            (Rename::NoReplace, Some(_)) => return Err("EEXIST"),
            (Rename::Exchange, None) => return Err("ENOENT"),
            (_, Some(target)) if target == source => return Ok(()),
            _ => {}
        }
        if self.is_folder(source) && to.starts_with(&format!("{from}/")) {
            return Err("EINVAL");
        }
        let target_is_folder = target.is_some_and(|target| self.is_folder(target));
        if how == Rename::Exchange {
            if target_is_folder && from.starts_with(&format!("{to}/")) {
                return Err("EINVAL");
            }
            let (first, second) = (self.take(from), self.take(to));
            self.give(to, first);
            self.give(from, second);
            return Ok(());
        }
        if let Some(target) = target {
            match (target_is_folder, self.is_folder(source)) {
                (true, false) => return Err("EISDIR"),
                (false, true) => return Err("ENOTDIR"),
                (true, true) if !self.below(to).is_empty() => return Err("ENOTEMPTY"),
                _ => {}
            }
            let _ = target;
            self.names.remove(to);
        }
        let moved = self.take(from);
        self.give(to, moved);
        Ok(())
    }

    /// A name with all below it, by what follows the path.
    fn take(&mut self, path: &str) -> Vec<(String, u64)> {
        let mut all = self.below(path);
        all.push(path.to_owned());
        let take = |other: String| {
            let number = self.names.remove(&other)?;
            Some((other[path.len()..].to_owned(), number))
        };
        all.into_iter().filter_map(take).collect()
    }

    fn give(&mut self, path: &str, all: Vec<(String, u64)>) {
        self.names.extend(all.into_iter().map(|(rest, number)| (format!("{path}{rest}"), number)));
    }

    fn clone_file(&mut self, from: &str, to: &str) -> Result<(), Refused> {
        let (is_same, bytes) = (self.find(from)? == self.find(to)?, self.file(from)?.clone());
        let file = self.file(to)?;
        if is_same || !file.is_empty() {
            return Err("EINVAL");
        }
        *file = bytes;
        Ok(())
    }

    fn copy(&mut self, from: &str, to: &str, offset: usize) -> Result<(), Refused> {
        let (source, target) = (self.find(from)?, self.find(to)?);
        let copied = self.file(from)?.clone();
        self.file(to)?;
        if source == target && offset < copied.len() {
            return Err("EINVAL");
        }
        if !copied.is_empty() {
            put(self.file(to)?, offset, &copied);
        }
        Ok(())
    }
}

fn put(file: &mut Vec<u8>, offset: usize, bytes: &[u8]) {
    let end = offset + bytes.len();
    file.resize(file.len().max(end), 0);
    file[offset..end].copy_from_slice(bytes);
}

fn allocate(file: &mut Vec<u8>, offset: usize, len: usize, how: Allocate) -> Result<(), Refused> {
    let (end, size) = (offset + len, file.len());
    let zero = |file: &mut Vec<u8>| {
        let end = end.min(file.len());
        file[offset.min(end)..end].fill(0);
    };
    if len == 0 {
        return Err("EINVAL");
    }
    match how {
        Allocate::Extend => file.resize(size.max(end), 0),
        Allocate::ExtendWithin => {}
        Allocate::Punch | Allocate::ZeroWithin => zero(file),
        Allocate::Zero => {
            zero(file);
            file.resize(size.max(end), 0);
        }
        _ if !offset.is_multiple_of(PIECE) || !len.is_multiple_of(PIECE) => return Err("EINVAL"),
        Allocate::Collapse if end >= size => return Err("EINVAL"),
        Allocate::Insert if offset >= size => return Err("EINVAL"),
        Allocate::Collapse => drop(file.drain(offset..end)),
        Allocate::Insert => drop(file.splice(offset..offset, std::iter::repeat_n(0, len))),
    }
    Ok(())
}
