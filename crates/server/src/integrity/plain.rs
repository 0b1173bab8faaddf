//! Large strings, hashes, sets and lists: one part of elements.

use tembo_kv::Value;

use crate::format::{
    FIELD_EXPIRY_SIZE, PIECE_SIZE, Part, Spread, decode_field, element_prefix, position_order,
};
use crate::integrity::elements::Elements;
use crate::integrity::expected::{expect, expect_count};

fn expect_main(part: u8) -> Result<(), String> {
    expect(part == 0, "an element of a part that it does not have")
}

/// The pieces of a large string. Those that are missing are zero.
pub(super) struct PiecesJudge {
    pieces: u64,
}

impl PiecesJudge {
    /// Of a string of so many bytes.
    pub(super) fn new(len: u64) -> PiecesJudge {
        PiecesJudge { pieces: len.div_ceil(PIECE_SIZE as u64) }
    }

    pub(super) fn element(&self, part: u8, rest: &[u8], value: Value<'_>) -> Result<(), String> {
        expect_main(part)?;
        let number =
            rest.try_into().map(u64::from_be_bytes).map_err(|_| "a piece has no number")?;
        expect(number < self.pieces, "a piece lies behind its end")?;
        expect(value.len() <= PIECE_SIZE, "a piece is too long")
    }
}

/// Members.
pub(super) struct MembersJudge {
    count: u64,
    met: u64,
}

impl MembersJudge {
    pub(super) fn new(count: u64) -> MembersJudge {
        MembersJudge { count, met: 0 }
    }

    pub(super) fn element(&mut self, part: u8, _: &[u8], value: Value<'_>) -> Result<(), String> {
        expect_main(part)?;
        self.met += 1;
        expect(value.is_empty(), "a member has a value")
    }

    pub(super) fn end(self) -> Result<(), String> {
        expect_count(self.count, self.met, "members")
    }
}

/// Fields with their values, and those that expire, by time.
pub(super) struct FieldsJudge<'s> {
    spread: Spread,
    elements: Elements<'s>,
    met: u64,
    expiring: u64,
    in_order: u64,
}

impl FieldsJudge<'_> {
    pub(super) fn new(spread: Spread, elements: Elements<'_>) -> FieldsJudge<'_> {
        FieldsJudge { spread, elements, met: 0, expiring: 0, in_order: 0 }
    }

    pub(super) fn element(
        &mut self,
        part: u8,
        rest: &[u8],
        value: Value<'_>,
    ) -> Result<(), String> {
        if part == 1 {
            self.in_order += 1;
            return expect(rest.len() >= FIELD_EXPIRY_SIZE, "an expiry is cut");
        }
        expect_main(part)?;
        self.met += 1;
        let (expiry_ms, _) = decode_field(value).map_err(|_| "a field has no value")?;
        let Some(expiry_ms) = expiry_ms else { return Ok(()) };
        self.expiring += 1;
        let prefix = element_prefix(self.spread.id, Part::Expiry);
        let key = [&prefix[..], &expiry_ms.to_be_bytes(), rest].concat();
        expect(self.elements.get(&key)?.is_some(), "a field is not among those that expire")
    }

    pub(super) fn end(self) -> Result<(), String> {
        expect_count(self.spread.count, self.met, "fields")?;
        expect_count(self.expiring, self.in_order, "fields that expire")
    }
}

/// The elements of a list without strips, whose positions have no gaps.
pub(super) struct ListJudge {
    spread: Spread,
    met: u64,
}

impl ListJudge {
    pub(super) fn new(spread: Spread) -> ListJudge {
        ListJudge { spread, met: 0 }
    }

    pub(super) fn element(&mut self, part: u8, rest: &[u8], _: Value<'_>) -> Result<(), String> {
        expect_main(part)?;
        let position = self.spread.first.wrapping_add(self.met as i64);
        expect(rest == position_order(position), "an element is not where the one before it ends")?;
        self.met += 1;
        Ok(())
    }

    pub(super) fn end(self) -> Result<(), String> {
        expect_count(self.spread.count, self.met, "elements")
    }
}
