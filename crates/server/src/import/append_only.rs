//! An append-only file of Redis: commands, behind an RDB file or not.

use std::io::{self, BufRead, BufReader, ErrorKind, Read};
use std::path::{Path, PathBuf};

use crate::import::error::ImportError;
use crate::import::file::read_file;
use crate::import::imported::Imported;
use crate::import::pipe::Pipe;

/// Longest word of a command.
const WORD_SIZE_MAX: usize = 1 << 30;
/// Longest line that is no word.
const LINE_SIZE_MAX: u64 = 64 << 10;
/// Commands between two looks at the progress.
const OBSERVED: u64 = 256;

/// Reads an RDB file, an append-only file, or one behind the other.
pub(super) fn read_either(
    source: impl Read,
    pipe: &mut Pipe,
    observe: &mut dyn FnMut(&Imported),
) -> Result<(), ImportError> {
    let mut source = BufReader::with_capacity(64 << 10, source);
    let first = source.fill_buf().map_err(ImportError::Source)?.first().copied();
    if !matches!(first, Some(b'*' | b'#')) {
        read_file(&mut source, pipe, observe)?;
    }
    read_commands(&mut source, pipe, observe)
}

/// The files of an append-only file in several parts, in order, from its manifest in a folder.
///
/// # Errors
/// The system's; a manifest that is none.
pub(super) fn parts(folder: &Path) -> Result<Vec<PathBuf>, ImportError> {
    let entries = std::fs::read_dir(folder).map_err(ImportError::Source)?;
    let manifest = entries
        .filter_map(|entry| Some(entry.ok()?.path()))
        .find(|path| path.extension().is_some_and(|extension| extension == "manifest"));
    let manifest = manifest.ok_or_else(|| damaged("the folder has no manifest", 0))?;
    let text = std::fs::read_to_string(manifest).map_err(ImportError::Source)?;
    let mut bases = Vec::new();
    let mut others = Vec::new();
    for line in text.lines().filter(|line| !line.is_empty() && !line.starts_with('#')) {
        let words: Vec<&str> = line.split_ascii_whitespace().collect();
        let ["file", name, "seq", _, "type", kind] = words[..] else {
            return Err(damaged(&format!("a line of its manifest is `{line}`"), 0));
        };
        if name.contains('/') {
            return Err(damaged(&format!("its manifest names a file elsewhere: `{name}`"), 0));
        }
        match kind {
            "b" => bases.push(folder.join(name)),
            "i" => others.push(folder.join(name)),
            // Of before the last rewriting.
            _ => {}
        }
    }
    Ok(bases.into_iter().chain(others).collect())
}

/// Passes on commands up to the end. A last command that is not whole, or a transaction, was never answered by Redis, and is
/// left out, as Redis does.
fn read_commands(
    source: &mut impl BufRead,
    pipe: &mut Pipe,
    observe: &mut dyn FnMut(&Imported),
) -> Result<(), ImportError> {
    let (mut count, mut is_open) = (0, false);
    loop {
        let words = match command(source, &mut count) {
            Ok(Some(words)) => words,
            Ok(None) => break,
            Err(error) if error.kind() == ErrorKind::UnexpectedEof => break,
            Err(error) if error.kind() == ErrorKind::InvalidData => {
                return Err(damaged("what follows is no command", pipe.state.bytes + count));
            }
            Err(error) => return Err(ImportError::Source(error)),
        };
        let words: Vec<&[u8]> = words.iter().map(|word| &word[..]).collect();
        let is = |name: &str| words[0].eq_ignore_ascii_case(name.as_bytes());
        is_open = is("MULTI") || is_open && !is("EXEC");
        pipe.push(&words)?;
        pipe.state.commands += 1;
        if pipe.state.commands.is_multiple_of(OBSERVED) {
            observe(&pipe.state);
        }
    }
    if is_open {
        pipe.push(&[b"DISCARD"])?;
    }
    pipe.flush()?;
    pipe.state.bytes += count;
    pipe.state.is_loaded = true;
    observe(&pipe.state);
    Ok(())
}

fn damaged(what: &str, bytes: u64) -> ImportError {
    ImportError::Damaged { what: what.to_owned(), bytes }
}

/// The next command; none at the end.
fn command(source: &mut impl BufRead, count: &mut u64) -> io::Result<Option<Vec<Vec<u8>>>> {
    let header = loop {
        match line(source, count)? {
            None => return Ok(None),
            // A remark: the time.
            Some(line) if line.starts_with('#') => {}
            Some(line) => break line,
        }
    };
    let number = |line: &str, sign: char| {
        let number = line.strip_prefix(sign).and_then(|text| text.parse::<usize>().ok());
        number.filter(|&number| number <= WORD_SIZE_MAX).ok_or(ErrorKind::InvalidData)
    };
    let mut words = Vec::new();
    for _ in 0..number(&header, '*')? {
        let size = number(&line(source, count)?.ok_or(ErrorKind::UnexpectedEof)?, '$')?;
        let mut word = Vec::new();
        // It grows with what is there, not with what is announced.
        source.take(size as u64 + 2).read_to_end(&mut word)?;
        *count += word.len() as u64;
        if word.len() != size + 2 {
            return Err(ErrorKind::UnexpectedEof.into());
        }
        if !word.ends_with(b"\r\n") {
            return Err(ErrorKind::InvalidData.into());
        }
        word.truncate(size);
        words.push(word);
    }
    if words.is_empty() { Err(ErrorKind::InvalidData.into()) } else { Ok(Some(words)) }
}

/// The next line, without its end; none at the end.
fn line(source: &mut impl BufRead, count: &mut u64) -> io::Result<Option<String>> {
    let mut bytes = Vec::new();
    source.take(LINE_SIZE_MAX).read_until(b'\n', &mut bytes)?;
    *count += bytes.len() as u64;
    match bytes.strip_suffix(b"\r\n") {
        _ if bytes.is_empty() => Ok(None),
        Some(line) => Ok(Some(String::from_utf8_lossy(line).into_owned())),
        None if bytes.len() as u64 == LINE_SIZE_MAX => Err(ErrorKind::InvalidData.into()),
        None if bytes.ends_with(b"\n") => Err(ErrorKind::InvalidData.into()),
        None => Err(ErrorKind::UnexpectedEof.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn commands(mut bytes: &[u8]) -> (Vec<Vec<Vec<u8>>>, io::Result<()>) {
        let mut all = Vec::new();
        loop {
            match command(&mut bytes, &mut 0) {
                Ok(Some(words)) => all.push(words),
                Ok(None) => return (all, Ok(())),
                Err(error) => return (all, Err(error)),
            }
        }
    }

    #[test]
    fn a_torn_tail_is_no_damage() {
        let whole = b"#TS:1\r\n*1\r\n$4\r\nPING\r\n*2\r\n$3\r\nGET\r\n$2\r\n\r\n\r\n";
        let (all, end) = commands(whole);
        assert_eq!((all.len(), end.is_ok()), (2, true));
        for size in 0..whole.len() {
            let (all, end) = commands(&whole[..size]);
            assert!(all.len() < 2, "{size}");
            let is_torn = |error: io::Error| error.kind() == ErrorKind::UnexpectedEof;
            assert!(end.map_err(is_torn) != Err(false), "{size}");
        }
        for wrong in
            [&b"*1\r\n+4\r\nPING\r\n"[..], b"*1\r\n$4\r\nPINGxx", b"*0\r\n", b"x\r\n", b"\n"]
        {
            let end = commands(wrong).1;
            assert_eq!(end.unwrap_err().kind(), ErrorKind::InvalidData, "{wrong:?}");
        }
    }
}
