//! Large sorted sets: the scores of members, the members by score, and how many there are between those of a level.

use std::collections::VecDeque;

use tembo_kv::Value;

use crate::format::{LEVEL_MAX, Part, Spread, element_prefix, level_of};
use crate::integrity::elements::Elements;
use crate::integrity::expected::{expect, expect_count};

/// Bytes of a score before its member.
const SCORE_SIZE: usize = 8;

/// The entries that a level must have: the order's key of each, and how many members there are from it on to the next.
#[derive(Default)]
struct Level {
    /// Ends with the one that members are still counted in.
    entries: VecDeque<(Vec<u8>, u64)>,
}

/// A sorted set whose elements are being seen.
pub(super) struct SortedSetJudge<'s> {
    spread: Spread,
    elements: Elements<'s>,
    members: u64,
    ordered: u64,
    /// From level 1 on.
    levels: Vec<Level>,
    /// Level 1 is not stored.
    levels_from_2: bool,
}

impl SortedSetJudge<'_> {
    pub(super) fn new(
        spread: Spread,
        elements: Elements<'_>,
        levels_from_2: bool,
    ) -> SortedSetJudge<'_> {
        let levels = (0..LEVEL_MAX).map(|_| Level::default()).collect();
        SortedSetJudge { spread, elements, members: 0, ordered: 0, levels, levels_from_2 }
    }

    pub(super) fn element(
        &mut self,
        part: u8,
        rest: &[u8],
        value: Value<'_>,
    ) -> Result<(), String> {
        match part {
            0 => {
                self.members += 1;
                expect(value.len() == SCORE_SIZE, "a member has no score")
            }
            1 => self.ordered(rest, value),
            level => self.counted(level - 1, rest, value),
        }
    }

    /// A member in the order of scores. If each has the score that the member has, and there are as many, both are the same.
    fn ordered(&mut self, rest: &[u8], value: Value<'_>) -> Result<(), String> {
        let (score, member) = rest.split_at_checked(SCORE_SIZE).ok_or("a score is cut")?;
        expect(value.is_empty(), "a member in order has a value")?;
        let key = [&element_prefix(self.spread.id, Part::Main)[..], member].concat();
        let found = self.elements.get(&key)?;
        expect(found.as_deref() == Some(score), "its two orders differ")?;
        let own = usize::from(level_of(member));
        let unstored = usize::from(self.levels_from_2);
        for (number, level) in self.levels.iter_mut().enumerate().skip(unstored) {
            if number < own {
                if level.entries.is_empty() {
                    level.entries.push_back((Vec::new(), self.ordered));
                }
                level.entries.push_back((rest.to_vec(), 0));
            }
            if let Some((_, members)) = level.entries.back_mut() {
                *members += 1;
            }
        }
        self.ordered += 1;
        Ok(())
    }

    fn counted(&mut self, level: u8, rest: &[u8], value: Value<'_>) -> Result<(), String> {
        let level = self.levels.get_mut(usize::from(level - 1)).ok_or("a level is too high")?;
        let (key, members) = level.entries.pop_front().ok_or("a level has too many entries")?;
        expect(key == rest, "a level has other members than it should")?;
        let said = value.array(0).map(u64::from_be_bytes);
        expect(said == Some(members), "a level counts members wrongly")
    }

    pub(super) fn end(self) -> Result<(), String> {
        expect_count(self.spread.count, self.members, "members")?;
        expect_count(self.members, self.ordered, "members in order")?;
        expect(
            self.levels.iter().all(|level| level.entries.is_empty()),
            "a level has too few entries",
        )
    }
}
