//! Large lists in strips.

use tembo_kv::Value;

use crate::format::{
    Part, STRIP_ELEMENT_MAX, Spread, Strip, StripEntry, UnknownLayout, element_prefix,
    position_order, strip_begin, strip_of,
};
use crate::integrity::elements::Elements;
use crate::integrity::expected::{expect, expect_count};

/// A list whose elements lie in strips, without gaps.
pub(super) struct StripsJudge<'s> {
    spread: Spread,
    elements: Elements<'s>,
    met: u64,
    /// Long elements that are there, and those of which a strip says so.
    long: (u64, u64),
}

impl StripsJudge<'_> {
    pub(super) fn new(spread: Spread, elements: Elements<'_>) -> StripsJudge<'_> {
        StripsJudge { spread, elements, met: 0, long: (0, 0) }
    }

    pub(super) fn element(
        &mut self,
        part: u8,
        rest: &[u8],
        value: Value<'_>,
    ) -> Result<(), String> {
        if part == 0 {
            self.long.0 += 1;
            return expect(value.len() > STRIP_ELEMENT_MAX, "a short element is not in its strip");
        }
        expect(part == 1, "an element of a part that it does not have")?;
        let position = self.position();
        let strip = strip_of(position);
        expect(rest == position_order(strip), "a strip is not where the one before it ends")?;
        let bytes = value.to_vec();
        let entries: Result<Vec<StripEntry>, UnknownLayout> = Strip::new(&bytes).collect();
        let entries = entries.map_err(|_| "a strip is cut")?;
        let end = self.spread.first.wrapping_add(self.spread.count as i64);
        let wanted = strip_begin(strip + 1).min(end).wrapping_sub(position);
        expect(entries.len() as i64 == wanted, "a strip has not as many elements as positions")?;
        for entry in entries {
            if entry == StripEntry::Long {
                self.long.1 += 1;
                let prefix = element_prefix(self.spread.id, Part::Main);
                let key = [&prefix[..], &position_order(self.position())].concat();
                expect(self.elements.get(&key)?.is_some(), "a long element is missing")?;
            }
            self.met += 1;
        }
        Ok(())
    }

    /// That of the next element.
    fn position(&self) -> i64 {
        self.spread.first.wrapping_add(self.met as i64)
    }

    pub(super) fn end(self) -> Result<(), String> {
        expect_count(self.spread.count, self.met, "elements")?;
        expect_count(self.long.1, self.long.0, "long elements")
    }
}
