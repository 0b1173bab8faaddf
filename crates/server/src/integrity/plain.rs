//! Large strings, hashes, sets and lists: one part of elements.

use tembo_kv::Value;

use crate::format::{PIECE_SIZE, Spread, position_order};
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

/// Fields with their values, or members.
pub(super) struct FieldsJudge {
    count: u64,
    met: u64,
    has_values: bool,
}

impl FieldsJudge {
    pub(super) fn members(count: u64) -> FieldsJudge {
        FieldsJudge { count, met: 0, has_values: false }
    }

    pub(super) fn fields(count: u64) -> FieldsJudge {
        FieldsJudge { count, met: 0, has_values: true }
    }

    pub(super) fn element(&mut self, part: u8, _: &[u8], value: Value<'_>) -> Result<(), String> {
        expect_main(part)?;
        self.met += 1;
        match value.array(0) {
            Some([0]) if self.has_values => Ok(()),
            None if !self.has_values => Ok(()),
            _ => Err("an element has a value that it cannot have".to_owned()),
        }
    }

    pub(super) fn end(self) -> Result<(), String> {
        let what = if self.has_values { "fields" } else { "members" };
        expect_count(self.count, self.met, what)
    }
}

/// The elements of a list, whose positions have no gaps.
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
