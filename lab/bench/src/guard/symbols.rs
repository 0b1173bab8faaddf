//! Which functions an instruction is of, those that were inlined among them: by binutils' `addr2line`.

use std::collections::BTreeMap;
use std::io::{Seek, SeekFrom, Write};
use std::path::Path;
use std::process::Command;

use crate::Error;
use crate::rival::failed;

/// A function that an instruction is of, and the file where that is written; none, of what the compiler has added.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Frame {
    pub(super) function: String,
    pub(super) file: String,
}

/// By address: the innermost function, then those into which it was inlined.
pub(super) type Frames = BTreeMap<u64, Vec<Frame>>;

/// Looks up the instructions at these addresses of a program.
///
/// # Errors
/// [`Error::Rival`] if there is no `addr2line`, or it fails.
pub(super) fn frames(
    program: &Path,
    addresses: impl Iterator<Item = u64>,
) -> Result<Frames, Error> {
    let error = failed("addr2line");
    let mut asked = tempfile::tempfile()?;
    let text: String = addresses.map(|address| format!("{address:#x}\n")).collect();
    asked.write_all(text.as_bytes())?;
    asked.seek(SeekFrom::Start(0))?;
    let mut command = Command::new("addr2line");
    command.args(["-a", "-i", "-f", "-C", "-e"]).arg(program).stdin(asked);
    let output = command.output().map_err(|source| error(Box::new(source)))?;
    if !output.status.success() {
        return Err(error(String::from_utf8_lossy(&output.stderr).into()));
    }
    Ok(parse(&String::from_utf8_lossy(&output.stdout)))
}

/// An address, and then two lines a function: its name, and where it is written.
fn parse(text: &str) -> Frames {
    let (mut frames, mut address) = (Frames::new(), 0);
    let mut lines = text.lines();
    while let Some(line) = lines.next() {
        if let Some(digits) = line.strip_prefix("0x") {
            address = u64::from_str_radix(digits, 16).unwrap_or(0);
        } else if let Some(place) = lines.next() {
            let (file, number) = place.rsplit_once(':').unwrap_or((place, "?"));
            let has_place = number.starts_with(|first| matches!(first, '1'..='9'));
            let file = if has_place { file } else { "" };
            let frame = Frame { function: line.to_owned(), file: file.to_owned() };
            frames.entry(address).or_default().push(frame);
        }
    }
    frames
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn functions_are_read_from_the_innermost_on() {
        let text = "0x0000000000000010\ninner\n/a/b.rs:7\nouter<u8>\n/a/c.rs:9 (discriminator 2)\n\
                    0x0000000000000012\nadded\n/a/b.rs:?\n??\n??:0\n";
        let frames = parse(text);
        let names = |address| -> Vec<(&str, &str)> {
            let frames: &Vec<Frame> = &frames[&address];
            frames.iter().map(|frame| (&frame.function[..], &frame.file[..])).collect()
        };
        assert_eq!(names(0x10), [("inner", "/a/b.rs"), ("outer<u8>", "/a/c.rs")]);
        assert_eq!(names(0x12), [("added", ""), ("??", "")]);
    }
}
