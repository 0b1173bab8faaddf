//! Registers as runs of equal ones, in the bytes that Redis uses for them:
//!
//! ```text
//! 00llllll             l + 1 registers are 0
//! 01llllll llllllll    l + 1 registers are 0
//! 1vvvvvll             l + 1 registers are v + 1
//! ```

/// Longest run of zeros in one byte.
const SHORT_ZEROS_MAX: usize = 64;
/// Highest value that a run can have, and longest run of a value.
const VALUE_MAX: u8 = 32;
const VALUES_MAX: usize = 4;
/// Runs looked at after a change, whether two of them can be merged.
const MERGED_MAX: usize = 5;

/// A HyperLogLog that is not what its header says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Corrupted;

/// Registers that follow each other and are equal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Run {
    /// So many zeros, in as few bytes as their number needs.
    Zeros(usize),
    /// So many zeros, in two bytes, though one would do.
    LongZeros(usize),
    /// So many registers of that value.
    Value {
        /// The value.
        value: u8,
        /// How many.
        length: usize,
    },
}

impl Run {
    /// How many registers there are.
    pub(crate) fn length(self) -> usize {
        match self {
            Run::Zeros(length) | Run::LongZeros(length) | Run::Value { length, .. } => length,
        }
    }

    /// Bytes that it takes.
    fn size(self) -> usize {
        match self {
            Run::Zeros(length) if length > SHORT_ZEROS_MAX => 2,
            Run::LongZeros(_) => 2,
            _ => 1,
        }
    }
}

/// Takes runs apart. Half a run at the end ends them.
pub(super) struct Runs<'a>(&'a [u8]);

impl<'a> Runs<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Runs<'a> {
        Runs(bytes)
    }
}

impl Iterator for Runs<'_> {
    type Item = Run;

    fn next(&mut self) -> Option<Run> {
        let (run, rest) = match self.0 {
            [first, rest @ ..] if first & 0x80 != 0 => {
                let (value, length) = ((first >> 2 & 0x1f) + 1, usize::from(first & 3) + 1);
                (Run::Value { value, length }, rest)
            }
            [first, rest @ ..] if first & 0x40 == 0 => (Run::Zeros(usize::from(*first) + 1), rest),
            [first, second, rest @ ..] => {
                let length = usize::from(first & 0x3f) << 8 | usize::from(*second);
                let is_long = length >= SHORT_ZEROS_MAX;
                let run = if is_long { Run::Zeros } else { Run::LongZeros };
                (run(length + 1), rest)
            }
            _ => return None,
        };
        self.0 = rest;
        Some(run)
    }
}

/// Appends a run.
pub(super) fn push_run(bytes: &mut Vec<u8>, run: Run) {
    match run {
        Run::Zeros(0) | Run::LongZeros(0) | Run::Value { length: 0, .. } => {}
        Run::Value { value, length } => bytes.push(0x80 | (value - 1) << 2 | (length - 1) as u8),
        Run::Zeros(length) if length <= SHORT_ZEROS_MAX => bytes.push((length - 1) as u8),
        Run::Zeros(length) | Run::LongZeros(length) => {
            bytes.extend([0x40 | ((length - 1) >> 8) as u8, (length - 1) as u8]);
        }
    }
}

/// What became of a register that was to be raised.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Raised {
    /// It is not lower.
    No,
    /// It was raised.
    Yes,
    /// Nothing was changed: runs cannot hold the value, or would need more bytes than allowed.
    TooLong,
}

/// Raises a register among the runs behind `start`, as Redis does: byte for byte the same results.
pub(super) fn raise(
    bytes: &mut Vec<u8>,
    start: usize,
    (index, value): (usize, u8),
    size_max: usize,
) -> Result<Raised, Corrupted> {
    if value > VALUE_MAX {
        return Ok(Raised::TooLong);
    }
    let (mut before, mut at, mut first) = (start, start, 0);
    let run = loop {
        let run = Runs(&bytes[at..]).next().ok_or(Corrupted)?;
        if index < first + run.length() {
            break run;
        }
        before = at;
        at += run.size();
        first += run.length();
    };
    let last = first + run.length() - 1;
    if let Run::Value { value: old, .. } = run
        && old >= value
    {
        return Ok(Raised::No);
    }
    let part = |length| match run {
        Run::Value { value, .. } => Run::Value { value, length },
        _ => Run::Zeros(length),
    };
    let mut parts = Vec::with_capacity(5);
    push_run(&mut parts, part(index - first));
    push_run(&mut parts, Run::Value { value, length: 1 });
    push_run(&mut parts, part(last - index));
    let grown = parts.len().saturating_sub(run.size());
    if grown > 0 && bytes.len() + grown > size_max {
        return Ok(Raised::TooLong);
    }
    bytes.splice(at..at + run.size(), parts);
    merge(bytes, before);
    Ok(Raised::Yes)
}

/// Merges equal neighbours among the first runs from `at` on.
fn merge(bytes: &mut Vec<u8>, mut at: usize) {
    for _ in 0..MERGED_MAX {
        let mut runs = Runs(&bytes[at.min(bytes.len())..]);
        let Some(run) = runs.next() else { return };
        if let (Run::Value { value, length }, Some(Run::Value { value: other, length: more })) =
            (run, runs.next())
            && value == other
            && length + more <= VALUES_MAX
        {
            let mut merged = Vec::with_capacity(1);
            push_run(&mut merged, Run::Value { value, length: length + more });
            bytes.splice(at..at + 2, merged);
        } else {
            at += run.size();
        }
    }
}
