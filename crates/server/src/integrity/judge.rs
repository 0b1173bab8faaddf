//! What all kinds of large collections have in common for the check: elements one after the other, then the end.

use tembo_kv::Value;

use crate::integrity::plain::{FieldsJudge, ListJudge, MembersJudge, PiecesJudge};
use crate::integrity::sorted_set::SortedSetJudge;
use crate::integrity::stream::StreamJudge;
use crate::integrity::strips::StripsJudge;

/// A large collection whose elements are being seen.
pub(super) enum Judge<'s> {
    Pieces(PiecesJudge),
    Members(MembersJudge),
    Fields(FieldsJudge<'s>),
    List(ListJudge),
    Strips(StripsJudge<'s>),
    SortedSet(SortedSetJudge<'s>),
    Stream(StreamJudge<'s>),
}

impl Judge<'_> {
    /// The next element: the number of its part, the rest of its key, its value.
    pub(super) fn element(
        &mut self,
        part: u8,
        rest: &[u8],
        value: Value<'_>,
    ) -> Result<(), String> {
        match self {
            Judge::Pieces(judge) => judge.element(part, rest, value),
            Judge::Members(judge) => judge.element(part, rest, value),
            Judge::Fields(judge) => judge.element(part, rest, value),
            Judge::List(judge) => judge.element(part, rest, value),
            Judge::Strips(judge) => judge.element(part, rest, value),
            Judge::SortedSet(judge) => judge.element(part, rest, value),
            Judge::Stream(judge) => judge.element(part, rest, value),
        }
    }

    /// There are no more.
    pub(super) fn end(self) -> Result<(), String> {
        match self {
            Judge::Pieces(_) => Ok(()),
            Judge::Members(judge) => judge.end(),
            Judge::Fields(judge) => judge.end(),
            Judge::List(judge) => judge.end(),
            Judge::Strips(judge) => judge.end(),
            Judge::SortedSet(judge) => judge.end(),
            Judge::Stream(judge) => judge.end(),
        }
    }
}
