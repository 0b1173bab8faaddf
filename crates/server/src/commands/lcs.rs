//! LCS: the longest common subsequence of two strings.

use crate::args::Args;
use crate::command::{Command, Context, READ};
use crate::commands::argument::integer;
use crate::failure::{Failure, Outcome, SYNTAX};
use crate::reply::Reply;

/// The family.
pub(super) const COMMANDS: &[Command] = &[Command::keyed("lcs", -3, READ, (1, 2, 1), lcs)];

/// The options of LCS.
#[derive(Default)]
struct Options {
    length: bool,
    indexes: bool,
    with_lengths: bool,
    length_min: i64,
}

impl Options {
    fn parse(args: Args<'_>) -> Result<Options, Failure> {
        let mut options = Options::default();
        let mut at = 3;
        while at < args.count() {
            if args.is(at, "IDX") {
                options.indexes = true;
            } else if args.is(at, "LEN") {
                options.length = true;
            } else if args.is(at, "WITHMATCHLEN") {
                options.with_lengths = true;
            } else if args.is(at, "MINMATCHLEN") && at + 1 < args.count() {
                at += 1;
                options.length_min = integer(args.at(at))?.max(0);
            } else {
                return Err(SYNTAX.into());
            }
            at += 1;
        }
        if options.indexes && options.length {
            return Err("ERR If you want both the length and indexes, please just use IDX.".into());
        }
        Ok(options)
    }
}

/// A run of bytes that both strings have.
struct Match {
    a: usize,
    b: usize,
    length: usize,
}

/// For each pair of prefixes of two strings, the length of their longest common subsequence.
struct Table<'a> {
    a: &'a [u8],
    b: &'a [u8],
    lengths: Vec<u32>,
}

impl<'a> Table<'a> {
    /// The strings' table, unless it takes more memory than `size_max`.
    fn new(a: &'a [u8], b: &'a [u8], size_max: usize) -> Result<Table<'a>, Failure> {
        const TOO_MUCH: &str =
            "ERR Insufficient memory, transient memory for LCS exceeds proto-max-bulk-len";
        let (rows, columns) = (a.len() + 1, b.len() + 1);
        let count = rows.checked_mul(columns).filter(|count| *count <= size_max / 4);
        let mut table = Table { a, b, lengths: Vec::new() };
        let count = count.ok_or(TOO_MUCH)?;
        table.lengths.try_reserve_exact(count).map_err(|_| Failure::from(TOO_MUCH))?;
        table.lengths.resize(count, 0);
        for (row, byte) in a.iter().enumerate() {
            let (above, below) = table.lengths.split_at_mut((row + 1) * columns);
            let above = &above[row * columns..];
            for (column, other) in b.iter().enumerate() {
                below[column + 1] = if byte == other {
                    above[column] + 1
                } else {
                    above[column + 1].max(below[column])
                };
            }
        }
        Ok(table)
    }

    fn length(&self, a: usize, b: usize) -> u32 {
        self.lengths[a * (self.b.len() + 1) + b]
    }

    /// The subsequence, and the runs it consists of, the last one first.
    fn trace(&self) -> (Vec<u8>, Vec<Match>) {
        let (mut a, mut b) = (self.a.len(), self.b.len());
        let (mut bytes, mut matches) = (Vec::new(), Vec::<Match>::new());
        while a > 0 && b > 0 {
            if self.a[a - 1] == self.b[b - 1] {
                (a, b) = (a - 1, b - 1);
                bytes.push(self.a[a]);
                match matches.last_mut() {
                    Some(last) if last.a == a + 1 && last.b == b + 1 => {
                        *last = Match { a, b, length: last.length + 1 };
                    }
                    _ => matches.push(Match { a, b, length: 1 }),
                }
            } else if self.length(a - 1, b) > self.length(a, b - 1) {
                a -= 1;
            } else {
                b -= 1;
            }
        }
        bytes.reverse();
        (bytes, matches)
    }
}

fn lcs(context: &mut Context<'_, '_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    let (a, b) = (string(context, args.at(1))?, string(context, args.at(2))?);
    let options = Options::parse(args)?;
    let table = Table::new(&a, &b, context.shared.settings.bulk_size_max)?;
    let length = i64::from(table.length(a.len(), b.len()));
    if options.length {
        reply.integer(length);
        return Ok(());
    }
    let (bytes, mut matches) = table.trace();
    if !options.indexes {
        reply.bulk(&bytes);
        return Ok(());
    }
    matches.retain(|one| one.length as i64 >= options.length_min);
    reply.map(2);
    reply.bulk(b"matches");
    reply.array(matches.len());
    for Match { a, b, length } in matches {
        reply.array(if options.with_lengths { 3 } else { 2 });
        for start in [a, b] {
            reply.array(2);
            reply.integer(start as i64);
            reply.integer((start + length - 1) as i64);
        }
        if options.with_lengths {
            reply.integer(length as i64);
        }
    }
    reply.bulk(b"len");
    reply.integer(length);
    Ok(())
}

/// The string under a key; empty if there is none.
fn string(context: &mut Context<'_, '_>, key: &[u8]) -> Result<Vec<u8>, Failure> {
    match context.data.get(context.session.db, key) {
        Ok(found) => Ok(found.map_or_else(Vec::new, |value| value.payload.to_vec())),
        Err(Failure::Reply(_)) => Err("ERR The specified keys must contain string values".into()),
        Err(failure) => Err(failure),
    }
}
