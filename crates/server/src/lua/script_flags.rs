//! What a script says of itself: flags, by the line `#!lua …` before it or when a function is registered.

use crate::inline;

/// The flags' names, by bit.
const NAMES: [&str; 5] =
    ["no-writes", "allow-oom", "allow-stale", "no-cluster", "allow-cross-slot-keys"];

/// What a script says of itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct ScriptFlags(u8);

impl ScriptFlags {
    /// Adds the flag of that name; false if there is none.
    pub(crate) fn add(&mut self, name: &[u8]) -> bool {
        let bit = NAMES.iter().position(|known| known.as_bytes() == name);
        if let Some(bit) = bit {
            self.0 |= 1 << bit;
        }
        bit.is_some()
    }

    /// It does not write.
    pub(crate) fn no_writes(self) -> bool {
        self.0 & 1 != 0
    }

    /// It may be executed when there is no memory left.
    pub(crate) fn allow_oom(self) -> bool {
        self.0 & 2 != 0
    }

    /// It may be executed by a replica whose primary is out of reach.
    pub(crate) fn allow_stale(self) -> bool {
        self.0 & 4 != 0
    }

    /// The names of the flags.
    pub(crate) fn names(self) -> impl Iterator<Item = &'static str> {
        NAMES
            .iter()
            .enumerate()
            .filter(move |(bit, _)| self.0 & 1 << bit != 0)
            .map(|(_, name)| *name)
    }
}

/// The words of the line that begins with `#!`, and the number of its bytes without its end.
pub(crate) fn shebang(code: &[u8]) -> Option<(Vec<Vec<u8>>, usize)> {
    let size = code.iter().position(|byte| *byte == b'\n')?;
    let words = inline::split(&code[..size]).filter(|words| !words.is_empty())?;
    Some((words, size))
}

/// The flags of a script, `None` if it has no `#!` line, and the number of bytes to skip.
///
/// # Errors
/// The text of the error reply, without its code.
pub(crate) fn of_script(code: &[u8]) -> Result<(Option<ScriptFlags>, usize), String> {
    if !code.starts_with(b"#!") {
        return Ok((None, 0));
    }
    if !code.contains(&b'\n') {
        return Err("Invalid script shebang".to_owned());
    }
    let Some((words, size)) = shebang(code) else {
        return Err("Invalid engine in script shebang".to_owned());
    };
    let shown = |word: &[u8]| String::from_utf8_lossy(word).into_owned();
    let (engine, options) = words.split_at(1);
    if engine[0] != b"#!lua" {
        return Err(format!("Unexpected engine in script shebang: {}", shown(&engine[0])));
    }
    let mut flags = ScriptFlags::default();
    for option in options {
        let Some(names) = option.strip_prefix(b"flags=") else {
            return Err(format!("Unknown lua shebang option: {}", shown(option)));
        };
        for name in names.split(|byte| *byte == b',').filter(|_| !names.is_empty()) {
            if !flags.add(name) {
                return Err(format!("Unexpected flag in script shebang: {}", shown(name)));
            }
        }
    }
    Ok((Some(flags), size))
}
