//! Pages that are appended whole again and again: of these a fence leaves out what the log says already.
//!
//! Space that holds pages of a tree is used again soon, often for a later state of the same page, which differs in few lines. So the
//! content of such pages is kept here as the groups that were appended have it, and a line that has not changed since is no part of
//! the next group: what replays one group replays all before it.
//!
//! That is true only as long as nothing but groups changes the page. What is written to the pool file beside the log is no group
//! until its fence, which may never come, so the page is [forgotten](HotPages::forget) before the first byte of it is written. The
//! mapping says nothing about the log: there may be stores of a thread that has not fenced them.

use crate::LINE;
use crate::mapping::PAGE;

/// Pages that are known at a time: 1 MiB of them.
const SLOTS: usize = 256;
/// Lines of a page.
const LINES: usize = (PAGE / LINE) as usize;
/// A page of which more lines than this have changed is not worth its room.
const CHANGED_MAX: usize = LINES * 3 / 4;

type Content = [u8; PAGE as usize];

#[derive(Default)]
enum Slot {
    #[default]
    Empty,
    /// It was appended whole once.
    Seen(u64),
    /// And again: what the groups make of it.
    Known(u64, Box<Content>),
}

impl Slot {
    fn page(&self) -> Option<u64> {
        match self {
            Slot::Empty => None,
            Slot::Seen(page) | Slot::Known(page, _) => Some(*page),
        }
    }
}

/// What groups make of some pages; each page has one place where it can be.
#[derive(Default)]
pub(super) struct HotPages {
    /// Empty until a page is seen.
    slots: Vec<Slot>,
}

fn slot_of(page: u64) -> usize {
    (page as usize) % SLOTS
}

impl HotPages {
    /// The pages of a range may change by other means than groups from now on.
    pub(super) fn forget(&mut self, start: u64, end: u64) {
        let pages = start / PAGE..end.div_ceil(PAGE);
        for slot in &mut self.slots {
            if slot.page().is_some_and(|page| pages.contains(&page)) {
                *slot = Slot::Empty;
            }
        }
    }

    /// Those of the lines, which are sorted, that groups do not give the value that they have. `None`: all. `read` gives a line's value.
    pub(super) fn changed(
        &mut self,
        lines: &[u64],
        mut read: impl FnMut(u64) -> [u8; LINE as usize],
    ) -> Option<Vec<u64>> {
        if self.slots.is_empty() {
            return None;
        }
        let mut changed: Option<Vec<u64>> = None;
        let mut before = 0;
        for page in pages_of(lines) {
            let slot = &mut self.slots[slot_of(page[0] / PAGE)];
            if let Slot::Known(number, content) = slot
                && *number == page[0] / PAGE
            {
                let kept = changed.get_or_insert_with(|| lines[..before].to_vec());
                let count = kept.len();
                kept.extend(page.iter().filter(|&&line| read(line) != content[bytes_of(line)]));
                if kept.len() - count > CHANGED_MAX {
                    *slot = Slot::Empty;
                }
            } else if let Some(kept) = &mut changed {
                kept.extend_from_slice(page);
            }
            before += page.len();
        }
        changed
    }

    /// A group was appended that gives these lines, which are sorted, the values in `data`.
    pub(super) fn appended(&mut self, lines: &[u64], mut data: &[u8]) {
        for page in pages_of(lines) {
            let (values, rest) = data.split_at(page.len() * LINE as usize);
            data = rest;
            let number = page[0] / PAGE;
            let is_whole = page.len() == LINES;
            if is_whole && self.slots.is_empty() {
                self.slots.resize_with(SLOTS, Slot::default);
            }
            let Some(slot) = self.slots.get_mut(slot_of(number)) else { continue };
            match slot {
                Slot::Known(known, content) if *known == number => {
                    for (line, value) in page.iter().zip(values.chunks_exact(LINE as usize)) {
                        content[bytes_of(*line)].copy_from_slice(value);
                    }
                }
                Slot::Seen(seen) if *seen == number && is_whole => {
                    let content = values.try_into().ok().map(Box::new);
                    *slot = content.map_or(Slot::Empty, |content| Slot::Known(number, content));
                }
                _ if is_whole => *slot = Slot::Seen(number),
                _ => {}
            }
        }
    }
}

fn pages_of(lines: &[u64]) -> impl Iterator<Item = &[u64]> {
    lines.chunk_by(|one, other| one / PAGE == other / PAGE)
}

/// Where a line's bytes are in its page's.
fn bytes_of(line: u64) -> std::ops::Range<usize> {
    let at = (line % PAGE) as usize;
    at..at + LINE as usize
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    type Values = BTreeMap<u64, [u8; LINE as usize]>;

    /// Appends the lines as a fence does; how many were left.
    fn append(hot: &mut HotPages, lines: &[u64], mapping: &Values, replayed: &mut Values) -> usize {
        let changed = hot.changed(lines, |line| mapping[&line]);
        let changed = changed.as_deref().unwrap_or(lines);
        let data: Vec<u8> = changed.iter().flat_map(|line| mapping[line]).collect();
        hot.appended(changed, &data);
        replayed.extend(changed.iter().map(|line| (*line, mapping[line])));
        changed.len()
    }

    fn page(number: u64) -> Vec<u64> {
        (number * PAGE..(number + 1) * PAGE).step_by(LINE as usize).collect()
    }

    #[test]
    fn a_page_that_is_appended_for_the_third_time_goes_without_what_has_not_changed() {
        let (mut hot, mut replayed) = (HotPages::default(), Values::new());
        let lines = page(3);
        let mut mapping: Values = lines.iter().map(|line| (*line, [1; LINE as usize])).collect();
        let mut left = |mapping: &Values, lines: &[u64]| {
            let left = append(&mut hot, lines, mapping, &mut replayed);
            assert!(lines.iter().all(|line| replayed[line] == mapping[line]));
            left
        };
        assert_eq!(left(&mapping, &lines), LINES);
        assert_eq!(left(&mapping, &lines), LINES);
        mapping.insert(lines[5], [2; LINE as usize]);
        assert_eq!(left(&mapping, &lines), 1);
        // A line of it alone is known too, and what it had before is not.
        mapping.insert(lines[5], [3; LINE as usize]);
        assert_eq!(left(&mapping, &lines[5..6]), 1);
        assert_eq!(left(&mapping, &lines[5..6]), 0);
        mapping.insert(lines[5], [2; LINE as usize]);
        assert_eq!(left(&mapping, &lines), 1);
        // Most of it is new: it is not kept.
        mapping.values_mut().for_each(|value| *value = [4; LINE as usize]);
        assert_eq!(left(&mapping, &lines), LINES);
        assert_eq!(left(&mapping, &lines), LINES);
        assert_eq!(left(&mapping, &lines), 0);
    }

    #[test]
    fn whatever_is_appended_and_changed_beside_the_groups_they_make_what_there_is() {
        let mut random = 1_u64;
        let mut next = move |below: u64| {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(99);
            (random >> 33) % below
        };
        let (mut hot, mut left_out) = (HotPages::default(), 0);
        // Two of the pages share their place.
        let pages = [7, 8, 7 + SLOTS as u64];
        let every: Vec<u64> = pages.iter().flat_map(|number| page(*number)).collect();
        let mut mapping: Values = every.iter().map(|line| (*line, [0; LINE as usize])).collect();
        let mut replayed = mapping.clone();
        for _ in 0..4_000 {
            let chosen = pages[next(3) as usize];
            if next(10) == 0 {
                // Written beside the log, and given up.
                hot.forget(chosen * PAGE, chosen * PAGE + PAGE);
                for line in page(chosen) {
                    let value = [next(200) as u8; LINE as usize];
                    mapping.insert(line, value);
                    replayed.insert(line, value);
                }
            }
            let mut lines = if next(3) == 0 { page(chosen) } else { Vec::new() };
            for _ in 0..next(4) {
                let line = page(chosen)[next(LINES as u64) as usize];
                mapping.insert(line, [next(3) as u8; LINE as usize]);
                lines.push(line);
            }
            if next(4) == 0 {
                lines.extend(page(pages[next(3) as usize]));
            }
            lines.sort_unstable();
            lines.dedup();
            left_out += lines.len() - append(&mut hot, &lines, &mapping, &mut replayed);
            let is_made = mapping.iter().all(|(line, value)| replayed[line] == *value);
            assert!(is_made);
        }
        assert!(left_out > 10_000, "{left_out}");
    }
}
