//! Configuration files in Redis's syntax: one directive a line, its arguments in quotes where they need it.

use std::fs::{File, Permissions};
use std::io::{self, Write};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use crate::error::Error;
use crate::glob;
use crate::inline;

/// Files that include each other, at most.
const DEPTH_MAX: usize = 16;

/// One directive of a configuration file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Directive {
    /// The file that it stands in.
    pub file: PathBuf,
    /// Its line, from 1 on.
    pub line: usize,
    /// Its name in lower case.
    pub name: String,
    /// Its arguments.
    pub args: Vec<Vec<u8>>,
}

impl Directive {
    /// Its arguments as one text, separated by spaces.
    pub fn value(&self) -> Vec<u8> {
        self.args.join(&b' ')
    }

    /// What is wrong with it.
    pub fn wrong(&self, reason: impl Into<String>) -> Error {
        let (file, line, name) = (self.file.clone(), self.line, self.name.clone());
        Error::Directive { file, line, name, reason: reason.into() }
    }
}

/// Reads a configuration file and those that it includes, in their order. A path of `include` is one from the working
/// folder, and may be a pattern in its last part.
///
/// # Errors
/// A file that cannot be read; quotes that are not balanced; files that include each other without end.
pub fn read_config_file(path: &Path) -> Result<Vec<Directive>, Error> {
    let mut directives = Vec::new();
    read(path, 0, &mut directives)?;
    Ok(directives)
}

fn read(path: &Path, depth: usize, directives: &mut Vec<Directive>) -> Result<(), Error> {
    let failed = |source| Error::ConfigFile { file: path.to_owned(), source };
    let text = std::fs::read(path).map_err(failed)?;
    for (at, line) in text.split(|&byte| byte == b'\n').enumerate() {
        let line = line.trim_ascii();
        if line.is_empty() || line[0] == b'#' {
            continue;
        }
        let mut directive = Directive {
            file: path.to_owned(),
            line: at + 1,
            name: String::new(),
            args: Vec::new(),
        };
        let first = line.split(u8::is_ascii_whitespace).next().unwrap_or_default();
        directive.name = String::from_utf8_lossy(first).to_ascii_lowercase();
        let Some(mut words) = inline::split(line) else {
            return Err(directive.wrong("its quotes are not balanced"));
        };
        if words.is_empty() {
            continue;
        }
        directive.name = String::from_utf8_lossy(&words.remove(0)).to_ascii_lowercase();
        directive.args = words;
        if directive.name != "include" {
            directives.push(directive);
            continue;
        }
        if depth == DEPTH_MAX {
            return Err(directive.wrong("files include each other too deeply"));
        }
        let [included] = &directive.args[..] else {
            return Err(directive.wrong("it takes one path"));
        };
        let included = PathBuf::from(String::from_utf8_lossy(included).into_owned());
        for file in expand(&included).map_err(failed)? {
            read(&file, depth + 1, directives)?;
        }
    }
    Ok(())
}

/// The files that a path names, sorted: several if its last part is a pattern, which may match none.
fn expand(path: &Path) -> io::Result<Vec<PathBuf>> {
    let Some(pattern) = path.file_name().map(|name| name.to_string_lossy().into_owned()) else {
        return Ok(vec![path.to_owned()]);
    };
    if glob::literal_prefix(pattern.as_bytes()).len() == pattern.len() {
        return Ok(vec![path.to_owned()]);
    }
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    let folder = folder.unwrap_or(Path::new("."));
    let mut files = Vec::new();
    for entry in std::fs::read_dir(folder)? {
        let entry = entry?;
        if glob::matches(pattern.as_bytes(), entry.file_name().as_encoded_bytes(), false) {
            files.push(entry.path());
        }
    }
    files.sort();
    Ok(files)
}

/// A word as it is to stand in a configuration file: in quotes if it needs them.
pub(crate) fn quoted(word: &[u8]) -> Vec<u8> {
    let is_plain = |byte: &u8| byte.is_ascii_graphic() && !matches!(byte, b'"' | b'\'' | b'\\');
    if !word.is_empty() && word.iter().all(is_plain) {
        return word.to_vec();
    }
    let mut text = b"\"".to_vec();
    for &byte in word {
        match byte {
            b'\\' | b'"' => text.extend([b'\\', byte]),
            b'\n' => text.extend(b"\\n"),
            b'\r' => text.extend(b"\\r"),
            b'\t' => text.extend(b"\\t"),
            b' '..=b'~' => text.push(byte),
            _ => text.extend(format!("\\x{byte:02x}").bytes()),
        }
    }
    text.push(b'"');
    text
}

/// Puts a text in the place of a file, whole or not at all. The file keeps its permissions; one that is made is for its
/// owner alone. Durable when it returns.
///
/// # Errors
/// The system's: the file is as it was.
pub(crate) fn replace_file(path: &Path, text: &[u8]) -> io::Result<()> {
    let path = &path.canonicalize().unwrap_or_else(|_| path.to_owned());
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(format!(".tmp-{}", std::process::id()));
    let beside = path.with_file_name(name);
    let mode = path.metadata().map_or(0o600, |found| found.permissions().mode() & 0o7777);
    let written = write_beside(&beside, mode, text).and_then(|()| std::fs::rename(&beside, path));
    if written.is_err() {
        // It may not have been made.
        let _ = std::fs::remove_file(&beside);
    }
    written?;
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    File::open(folder.unwrap_or(Path::new(".")))?.sync_all()
}

fn write_beside(path: &Path, mode: u32, text: &[u8]) -> io::Result<()> {
    let mut file = File::options().write(true).create_new(true).mode(0o600).open(path)?;
    file.write_all(text)?;
    file.set_permissions(Permissions::from_mode(mode))?;
    file.sync_all()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_in_quotes_is_read_back() {
        for word in [b"plain".as_slice(), b"", b"two words", b"q\"'\\", b"\x00\xff\n\t", b"it's"] {
            let line = [b"name ".as_slice(), &quoted(word)].concat();
            assert_eq!(inline::split(&line).unwrap()[1], word);
        }
    }

    #[test]
    fn includes_come_where_they_stand() {
        let folder = std::env::temp_dir().join(format!("tembo-config-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let write = |name: &str, text: &str| std::fs::write(folder.join(name), text).unwrap();
        write("a.inc", "Timeout 5\n");
        write("b.inc", "# a remark\n\nsave 60 1000\n");
        let pattern = folder.join("*.inc");
        write("main.conf", &format!("port 1\ninclude {}\nport 2\n", pattern.display()));
        let directives = read_config_file(&folder.join("main.conf")).unwrap();
        let seen: Vec<String> = directives
            .iter()
            .map(|one| {
                format!("{} {} {}", one.line, one.name, String::from_utf8_lossy(&one.value()))
            })
            .collect();
        assert_eq!(seen, ["1 port 1", "1 timeout 5", "3 save 60 1000", "3 port 2"]);
        write("main.conf", &format!("include {}\n", folder.join("main.conf").display()));
        assert!(matches!(
            read_config_file(&folder.join("main.conf")),
            Err(Error::Directive { line: 1, .. })
        ));
        write("main.conf", "port 1\nlogfile \"x\n");
        assert!(matches!(
            read_config_file(&folder.join("main.conf")),
            Err(Error::Directive { line: 2, .. })
        ));
        std::fs::remove_dir_all(&folder).unwrap();
    }
}
