//! The request parser: incremental, never looking twice at a byte, never trusting a length.

use crate::args::{Args, Span};
use crate::inline;
use crate::number::parse_integer;

/// Longest inline command, and longest line that announces a length.
pub(crate) const LINE_SIZE_MAX: usize = 64 << 10;
/// Most arguments of one command.
pub(crate) const ARGUMENTS_MAX: i64 = 1 << 20;
/// Most bytes of one command, all arguments together.
pub(crate) const COMMAND_SIZE_MAX: usize = 1 << 30;
/// A bulk longer than this is read into a buffer of its own.
pub(crate) const BULK_SIZE_INLINE_MAX: usize = 64 << 10;
/// Most arguments and longest bulk of a client that has not authenticated.
const UNAUTHENTICATED: (i64, usize) = (10, 16 << 10);

/// What a client may send.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    /// Longest bulk.
    pub(crate) bulk_size_max: usize,
    /// Whether the client has yet to authenticate.
    pub(crate) unauthenticated: bool,
}

/// What one step of parsing found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Parsed {
    /// A whole command: see [`Parser::args`], then call [`Parser::finish`].
    Command,
    /// An empty line or an empty multibulk: nothing to execute, call [`Parser::finish`].
    Nothing,
    /// More bytes are needed.
    Incomplete,
    /// A long bulk begins: all input that is left, and what follows, goes to [`Parser::fill`].
    Long,
}

/// Why a connection is closed; the text stands behind `-ERR Protocol error: `.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ProtocolError(pub(crate) String);

impl ProtocolError {
    fn new(text: &str) -> ProtocolError {
        ProtocolError(text.to_owned())
    }
}

/// The state of parsing between two reads. All positions count from the start of the command.
#[derive(Default)]
pub(crate) struct Parser {
    spans: Vec<Span>,
    owned: Vec<Vec<u8>>,
    /// Arguments still to come; 0 at the start of a command.
    missing: usize,
    /// The announced length of the bulk that comes next.
    bulk: Option<usize>,
    /// The first byte not parsed yet.
    cursor: usize,
    /// No line end lies before this byte.
    scanned: usize,
    /// Bytes announced so far.
    announced: usize,
    /// The last of `owned` is being filled to this length, which includes CR LF.
    filling: Option<usize>,
}

impl Parser {
    /// Continues the command that starts at `input[0]`.
    pub(crate) fn step(&mut self, input: &[u8], limits: Limits) -> Result<Parsed, ProtocolError> {
        if self.filling.is_some() {
            return Ok(Parsed::Incomplete);
        }
        if self.missing == 0 && self.cursor == 0 {
            match input.first() {
                None => return Ok(Parsed::Incomplete),
                Some(b'*') => {}
                Some(_) => return self.step_inline(input),
            }
            let Some(count) = self.take_length(input, "too big mbulk count string")? else {
                return Ok(Parsed::Incomplete);
            };
            match count {
                Some(count) if count > ARGUMENTS_MAX => {
                    return Err(ProtocolError::new("invalid multibulk length"));
                }
                Some(count) if count > UNAUTHENTICATED.0 && limits.unauthenticated => {
                    return Err(ProtocolError::new("unauthenticated multibulk length"));
                }
                Some(count) if count <= 0 => return Ok(Parsed::Nothing),
                Some(count) => self.missing = count as usize,
                None => return Err(ProtocolError::new("invalid multibulk length")),
            }
        }
        while self.missing > 0 {
            match self.step_bulk(input, limits)? {
                Parsed::Command => {}
                other => return Ok(other),
            }
        }
        Ok(Parsed::Command)
    }

    /// One bulk: `Command` when it is whole.
    #[inline]
    fn step_bulk(&mut self, input: &[u8], limits: Limits) -> Result<Parsed, ProtocolError> {
        let size = match self.bulk {
            Some(size) => size,
            None => match self.take_bulk_size(input, limits)? {
                Some(size) => size,
                None => return Ok(Parsed::Incomplete),
            },
        };
        if input.len() - self.cursor < size + 2 {
            self.bulk = Some(size);
            if size <= BULK_SIZE_INLINE_MAX {
                return Ok(Parsed::Incomplete);
            }
            self.owned.push(Vec::new());
            self.filling = Some(size + 2);
            return Ok(Parsed::Long);
        }
        self.spans.push(Span::Input { start: self.cursor as u32, size: size as u32 });
        self.bulk = None;
        self.cursor += size + 2;
        self.scanned = self.cursor;
        self.missing -= 1;
        Ok(Parsed::Command)
    }

    /// The line `$length`.
    #[inline]
    fn take_bulk_size(
        &mut self,
        input: &[u8],
        limits: Limits,
    ) -> Result<Option<usize>, ProtocolError> {
        let first = self.cursor;
        let Some(size) = self.take_length(input, "too big bulk count string")? else {
            return Ok(None);
        };
        if input[first] != b'$' {
            let got = char::from(input[first]);
            return Err(ProtocolError(format!("expected '$', got '{got}'")));
        }
        let size = match size.map(usize::try_from) {
            Some(Ok(size)) if size <= limits.bulk_size_max => size,
            _ => return Err(ProtocolError::new("invalid bulk length")),
        };
        if size > UNAUTHENTICATED.1 && limits.unauthenticated {
            return Err(ProtocolError::new("unauthenticated bulk length"));
        }
        self.announced += size;
        if self.announced > COMMAND_SIZE_MAX {
            return Err(ProtocolError::new("command too long"));
        }
        Ok(Some(size))
    }

    /// Takes a line off the input and parses what follows its first byte: the outer None means that
    /// the line is not whole yet, the inner that it is no number.
    #[inline]
    #[allow(clippy::option_option)]
    fn take_length(
        &mut self,
        input: &[u8],
        too_long: &str,
    ) -> Result<Option<Option<i64>>, ProtocolError> {
        if let Some((number, size)) = short_length(&input[self.cursor..]) {
            self.cursor += size;
            self.scanned = self.cursor;
            return Ok(Some(Some(number)));
        }
        let from = self.scanned.max(self.cursor);
        let end = match input[from..].iter().position(|&byte| byte == b'\r') {
            Some(at) if from + at + 1 < input.len() => from + at,
            Some(at) => {
                self.scanned = from + at;
                return Ok(None);
            }
            None if input.len() - self.cursor > LINE_SIZE_MAX => {
                return Err(ProtocolError::new(too_long));
            }
            None => {
                self.scanned = input.len();
                return Ok(None);
            }
        };
        // The first byte is the type; an empty line has not even that.
        let number = input.get(self.cursor + 1..end).and_then(parse_integer);
        self.cursor = end + 2;
        self.scanned = self.cursor;
        Ok(Some(number))
    }

    fn step_inline(&mut self, input: &[u8]) -> Result<Parsed, ProtocolError> {
        let Some(at) = input[self.scanned..].iter().position(|&byte| byte == b'\n') else {
            if input.len() > LINE_SIZE_MAX {
                return Err(ProtocolError::new("too big inline request"));
            }
            self.scanned = input.len();
            return Ok(Parsed::Incomplete);
        };
        let end = self.scanned + at;
        let line = input[..end].strip_suffix(b"\r").unwrap_or(&input[..end]);
        let words = inline::split(line)
            .ok_or_else(|| ProtocolError::new("unbalanced quotes in request"))?;
        self.cursor = end + 1;
        if words.is_empty() {
            return Ok(Parsed::Nothing);
        }
        self.spans.extend((0..words.len()).map(|index| Span::Owned { index: index as u32 }));
        self.owned = words;
        Ok(Parsed::Command)
    }

    /// The long bulk being filled, with the number of bytes it still lacks.
    pub(crate) fn fill(&mut self) -> Option<(&mut Vec<u8>, usize)> {
        let size = self.filling?;
        let bulk = self.owned.last_mut()?;
        let lacking = size.saturating_sub(bulk.len());
        Some((bulk, lacking))
    }

    /// To be called when the long bulk lacks nothing any more.
    pub(crate) fn filled(&mut self) {
        let Some(size) = self.filling.take() else { return };
        if let Some(bulk) = self.owned.last_mut() {
            bulk.truncate(size - 2);
        }
        self.spans.push(Span::Owned { index: self.owned.len() as u32 - 1 });
        self.bulk = None;
        self.missing -= 1;
    }

    /// Bytes of arguments that have buffers of their own.
    pub(crate) fn owned_size(&self) -> usize {
        self.owned.iter().map(Vec::capacity).sum()
    }

    /// The first byte not parsed yet.
    pub(crate) fn cursor(&self) -> usize {
        self.cursor
    }

    /// The arguments of the whole command in `input`.
    pub(crate) fn args<'a>(&'a self, input: &'a [u8]) -> Args<'a> {
        Args::new(input, &self.owned, &self.spans)
    }

    /// Forgets the command and returns its length in the input.
    #[inline]
    pub(crate) fn finish(&mut self) -> usize {
        self.spans.clear();
        if !self.owned.is_empty() {
            self.owned = Vec::new();
        }
        if self.spans.capacity() > 1024 {
            self.spans = Vec::new();
        }
        self.missing = 0;
        self.bulk = None;
        self.filling = None;
        self.announced = 0;
        self.scanned = 0;
        std::mem::take(&mut self.cursor)
    }
}

/// The number of a whole line that has one digit or two behind its type, and the line's size: that of most.
#[inline]
fn short_length(line: &[u8]) -> Option<(i64, usize)> {
    match *line {
        [_, digit @ b'0'..=b'9', b'\r', _, ..] => Some((i64::from(digit - b'0'), 4)),
        [_, tens @ b'1'..=b'9', digit @ b'0'..=b'9', b'\r', _, ..] => {
            Some((i64::from(tens - b'0') * 10 + i64::from(digit - b'0'), 5))
        }
        _ => None,
    }
}

#[cfg(test)]
#[path = "parse_tests.rs"]
mod tests;
