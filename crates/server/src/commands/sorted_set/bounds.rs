//! The ends of ranges as commands name them.

use std::ops::Bound;

use crate::collection::{SortedSet, Span};
use crate::failure::Failure;
use crate::float::{nearest_double, without_spaces};
use tembo_kv::Direction;

/// How a range is named.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum By {
    /// The ranks of the first and last.
    Rank,
    /// Scores.
    Score,
    /// Members of one score.
    Lex,
}

/// One end of a range of members.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Lex<'a> {
    Least,
    Greatest,
    Member(&'a [u8], bool),
}

/// A range as it was named, not yet looked for.
pub(super) enum Ends<'a> {
    Rank(i64, i64),
    Score((f64, bool), (f64, bool)),
    Lex(LexEnd<'a>, LexEnd<'a>),
}

/// One end of a range by members.
pub(super) struct LexEnd<'a>(Lex<'a>);

impl<'a> Ends<'a> {
    /// The range between two arguments.
    ///
    /// # Errors
    /// One is malformed.
    pub(super) fn parse(by: By, min: &'a [u8], max: &'a [u8]) -> Result<Ends<'a>, Failure> {
        Ok(match by {
            By::Rank => {
                use crate::commands::argument::integer;
                Ends::Rank(integer(min)?, integer(max)?)
            }
            By::Score => {
                let end = |text| score_end(text).ok_or("ERR min or max is not a float");
                Ends::Score(end(min)?, end(max)?)
            }
            By::Lex => {
                let end = |text| {
                    lex_end(text).map(LexEnd).ok_or("ERR min or max not valid string range item")
                };
                Ends::Lex(end(min)?, end(max)?)
            }
        })
    }

    /// The members in the range, and how many they are at most; `None`: there are none. Ranks are counted in the direction.
    pub(super) fn span(
        &self,
        set: &mut SortedSet<'_, '_>,
        direction: Direction,
    ) -> Result<Option<(Span, u64)>, Failure> {
        match *self {
            Ends::Rank(first, last) => {
                let Some((first, count)) = ranks(first, last, set.count()) else { return Ok(None) };
                Ok(set.skip(Span::ALL, first, direction)?.map(|span| (span, count)))
            }
            Ends::Score(min, max) => Ok(Some((Span::scores(min, max), u64::MAX))),
            Ends::Lex(ref min, ref max) => {
                let first = set.list(&Span::ALL, Direction::Forward, 1)?;
                let Some((_, score)) = first.first() else { return Ok(None) };
                let min = match min.0 {
                    Lex::Least => Bound::Unbounded,
                    Lex::Greatest => return Ok(None),
                    Lex::Member(member, false) => Bound::Included(member),
                    Lex::Member(member, true) => Bound::Excluded(member),
                };
                let max = match max.0 {
                    Lex::Greatest => Bound::Unbounded,
                    Lex::Least => return Ok(None),
                    Lex::Member(member, false) => Bound::Included(member),
                    Lex::Member(member, true) => Bound::Excluded(member),
                };
                Ok(Some((Span::members(*score, min, max), u64::MAX)))
            }
        }
    }
}

/// The first rank and how many, of ranks of which negative ones are counted from behind.
fn ranks(first: i64, last: i64, count: u64) -> Option<(u64, u64)> {
    let count = count as i64;
    let from_start = |rank: i64| if rank < 0 { rank.saturating_add(count) } else { rank };
    let (first, last) = (from_start(first).max(0), from_start(last).min(count - 1));
    (first <= last).then(|| (first as u64, (last - first) as u64 + 1))
}

/// A score, and whether the score itself is left out.
fn score_end(text: &[u8]) -> Option<(f64, bool)> {
    match text.strip_prefix(b"(") {
        Some(text) => Some((bound(text)?, true)),
        None => Some((bound(text)?, false)),
    }
}

/// A score as C's `strtod` takes it: nothing is 0, and what is too large is infinite.
fn bound(text: &[u8]) -> Option<f64> {
    let number = without_spaces(text);
    if text.is_empty() { Some(0.0) } else { nearest_double(number) }
}

fn lex_end(text: &[u8]) -> Option<Lex<'_>> {
    match text {
        b"-" => Some(Lex::Least),
        b"+" => Some(Lex::Greatest),
        [b'(', member @ ..] => Some(Lex::Member(member, true)),
        [b'[', member @ ..] => Some(Lex::Member(member, false)),
        _ => None,
    }
}
