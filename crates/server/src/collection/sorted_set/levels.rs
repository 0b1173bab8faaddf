//! How many members of a large sorted set stand before one, and which is the nth: a skip list of counts.
//!
//! The members in order are level 0. One in 32 of them, chosen by a hash of the member, stands on level 1 too, one in 32
//! of those on level 2, and so on. An entry of a level holds how many members there are from it to the next of its level;
//! the head of a level, under an empty key, those before its first entry. A level without entries has no head.
//!
//! ```text
//!   level 2   head ───────────────────── 5 ─▶ d ─────────────────── 4
//!   level 1   head ──── 2 ─▶ b ── 3 ────────▶ d ──── 2 ─▶ g ── 2
//!   level 0          y  z    b   c1  c2       d   e       g   h
//! ```
//! To count the members before one, the search goes back on a level to the first that stands on the next one, and goes on
//! there: a few tens of entries a level. A level that is held in memory as a whole is added up instead. Level 1 changes with every
//! member, so that it is not stored, but counted where a search comes to it (see [`LevelOne`](crate::dataset::LevelOne)), with
//! entries at regular distances; sets of earlier releases store it, and go on. To find the nth it goes forward on the highest level, and down. A change adds or takes
//! one in an entry of each level; a member that stands on a level divides the entry before it, or is merged into it.

use std::ops::Bound;

use tembo_kv::Direction;

use crate::collection::opened::Opened;
use crate::dataset::{Interval, LevelEntry, VisitElement, count_before, place_of};
use crate::failure::Failure;
use crate::format::{LEVEL_MAX, Part, UnknownLayout, level_of, member_of};

/// Members from one entry of a level 1 that is not stored to the next, when they are counted: a search for a rank passes half
/// as many.
const SPACING: u64 = 16;

/// How many members stand before a key of the order.
pub(super) fn rank(set: &mut Opened<'_, '_>, key: &[u8]) -> Result<u64, Failure> {
    rank_above(set, key, rank_in_interval)
}

/// As [`rank`], which is not asked for near that place again: what is counted is not held.
fn rank_once(set: &mut Opened<'_, '_>, key: &[u8]) -> Result<u64, Failure> {
    rank_above(set, key, rank_in_interval_once)
}

/// How many members stand before an entry of the lowest level that is stored, or of a higher one.
fn rank_of_entry(set: &mut Opened<'_, '_>, key: &[u8]) -> Result<u64, Failure> {
    rank_above(set, key, |_, key| Ok((0, key.to_vec())))
}

/// How many members stand before a key in the interval of level 1, which is not stored, and with which key of level 2 that
/// begins, or an empty key.
type InInterval = fn(&mut Opened<'_, '_>, &[u8]) -> Result<(u64, Vec<u8>), Failure>;

fn rank_above(
    set: &mut Opened<'_, '_>,
    key: &[u8],
    in_interval: InInterval,
) -> Result<u64, Failure> {
    if key.is_empty() {
        return Ok(0);
    }
    let (mut rank, mut at) = match set.levels_from_2 {
        true => in_interval(set, key)?,
        false => (0, key.to_vec()),
    };
    let mut level = if set.levels_from_2 { 2 } else { 0 };
    while !at.is_empty() {
        if let Some(entries) = set.level(level)? {
            return Ok(rank + entries_before(entries, &at).iter().map(counted).sum::<u64>());
        }
        let mut next = None;
        let mut is_sound = true;
        visit_before(set, level, &at, &mut |rest, value| {
            match value.array(0).map(u64::from_be_bytes) {
                _ if level == 0 => rank += 1,
                Some(members) => rank += members,
                None => is_sound = false,
            }
            let is_higher = !rest.is_empty() && level_of(member_of(rest)) > level;
            if is_higher {
                next = Some(rest.to_vec());
            }
            !is_higher && is_sound
        })?;
        match next {
            _ if !is_sound => return Err(UnknownLayout.into()),
            None => return Ok(rank),
            Some(entry) => (level, at) = (level + 1, entry),
        }
    }
    Ok(rank)
}

/// See [`InInterval`]. What is counted is held.
fn rank_in_interval(set: &mut Opened<'_, '_>, key: &[u8]) -> Result<(u64, Vec<u8>), Failure> {
    let id = set.set_id();
    if set.level_one().before(id, key).is_none() {
        let start = previous(set, 2, key)?.map(|(start, _)| start);
        count_interval(set, &start.unwrap_or_default())?;
    }
    let counted = set.level_one().before(id, key).ok_or(UnknownLayout)?;
    let (rank, start) = (counted.before, counted.start.to_vec());
    let Some(from) = counted.from.map(<[u8]>::to_vec) else { return Ok((rank, start)) };
    Ok((rank + count_between(set, from, key)?, start))
}

/// See [`InInterval`]. What is held is made use of.
fn rank_in_interval_once(set: &mut Opened<'_, '_>, key: &[u8]) -> Result<(u64, Vec<u8>), Failure> {
    let id = set.set_id();
    if set.level_one().before(id, key).is_some() {
        return rank_in_interval(set, key);
    }
    let start = previous(set, 2, key)?.map(|(start, _)| start).unwrap_or_default();
    Ok((count_between(set, start.clone(), key)?, start))
}

/// How many members stand from a key of the order on before another one.
fn count_between(set: &mut Opened<'_, '_>, from: Vec<u8>, before: &[u8]) -> Result<u64, Failure> {
    let (from, mut count) = (from.max(set.first_key()), 0);
    if from[..] < *before {
        let ends = (Bound::Included(&from[..]), Bound::Excluded(before));
        set.visit(Part::Order, ends, Direction::Forward, &mut |_, _| {
            count += 1;
            true
        })?;
    }
    Ok(count)
}

/// Of entries that are held those before a key.
fn entries_before<'e>(entries: &'e [LevelEntry], key: &[u8]) -> &'e [LevelEntry] {
    &entries[..count_before(entries, key)]
}

fn counted(entry: &LevelEntry) -> u64 {
    entry.members
}

/// The key of the order of the member before which so many stand; `None`: there are no more than that.
pub(super) fn nth(set: &mut Opened<'_, '_>, nth: u64) -> Result<Option<Vec<u8>>, Failure> {
    let mut top = first_stored(set) - 1;
    while top < LEVEL_MAX && members(set, top + 1, &[])?.is_some() {
        top += 1;
    }
    let (mut left, mut at) = (nth, Vec::new());
    for level in (0..=top).rev() {
        let mut found = None;
        visit_from(set, level, &at, &mut |rest, value| {
            let members = if level == 0 { Some(1) } else { value.array(0).map(u64::from_be_bytes) };
            match left.checked_sub(members.unwrap_or(u64::MAX)) {
                Some(rest) => left = rest,
                None => found = Some(rest.to_vec()),
            }
            found.is_none()
        })?;
        let Some(found) = found else { return Ok(None) };
        at = found;
    }
    Ok(Some(at))
}

/// Counts a member that is about to be added, beside `count` others.
pub(super) fn add(set: &mut Opened<'_, '_>, key: &[u8], count: u64) -> Result<(), Failure> {
    let own = level_of(member_of(key));
    let first = first_stored(set);
    let before = if own >= first { rank_once(set, key)? } else { 0 };
    for level in first..=LEVEL_MAX {
        if level > own
            && let Some(is_there) = set.count_in_level(level, key, true)?
        {
            if is_there { continue } else { break }
        }
        match previous(set, level, key)? {
            None if level > own => break,
            None => {
                put(set, level, &[], before)?;
                put(set, level, key, count - before + 1)?;
            }
            Some((entry, members)) if level > own => put(set, level, &entry, members + 1)?,
            Some((entry, members)) => {
                let kept = before - rank_of_entry(set, &entry)?;
                put(set, level, &entry, kept)?;
                put(set, level, key, (members + 1).saturating_sub(kept))?;
            }
        }
    }
    Ok(())
}

/// Counts a member no more that is about to be removed, or has been.
pub(super) fn remove(set: &mut Opened<'_, '_>, key: &[u8]) -> Result<(), Failure> {
    let own = level_of(member_of(key));
    for level in first_stored(set)..=LEVEL_MAX {
        if level > own
            && let Some(is_there) = set.count_in_level(level, key, false)?
        {
            if is_there { continue } else { break }
        }
        let found = previous(set, level, key)?;
        if level > own {
            let Some((entry, members)) = found else { break };
            put(set, level, &entry, members.saturating_sub(1))?;
            continue;
        }
        let merged = members(set, level, key)?.ok_or(UnknownLayout)?;
        let (entry, members) = found.ok_or(UnknownLayout)?;
        set.remove_from_level(level, key)?;
        if entry.is_empty() && is_last(set, level)? {
            set.remove_from_level(level, &[])?;
        } else {
            put(set, level, &entry, (members + merged).saturating_sub(1))?;
        }
    }
    Ok(())
}

/// A member was added or removed, and all that the store has of it was changed: what is held of level 1 follows.
pub(super) fn changed(set: &mut Opened<'_, '_>, key: &[u8], is_added: bool) {
    if !set.levels_from_2 {
        return;
    }
    let id = set.set_id();
    if level_of(member_of(key)) < 2 {
        set.level_one().changed(id, key, is_added);
    } else {
        set.level_one().divided(id, key, is_added);
    }
}

/// The lowest level that is stored.
fn first_stored(set: &Opened<'_, '_>) -> u8 {
    if set.levels_from_2 { 2 } else { 1 }
}

/// The entries of level 1, which is not stored, in the interval that begins with a key of level 2, or an empty key.
fn level_one_from<'o>(
    set: &'o mut Opened<'_, '_>,
    start: &[u8],
) -> Result<&'o [LevelEntry], Failure> {
    let id = set.set_id();
    if set.level_one().from(id, start).is_none() {
        count_interval(set, start)?;
    }
    Ok(set.level_one().from(id, start).unwrap_or_default())
}

/// Counts the members in the interval that begins with a key of level 2, or an empty key. An entry of what is counted need be
/// no member any more later: it has those from its key on.
fn count_interval(set: &mut Opened<'_, '_>, start: &[u8]) -> Result<(), Failure> {
    let mut interval = Interval::new(start);
    visit_from(set, 0, start, &mut |key, _| {
        if level_of(member_of(key)) >= 2 && key != start {
            interval.ends(key);
            return false;
        }
        interval.push(key, SPACING);
        true
    })?;
    let id = set.set_id();
    set.level_one().hold(id, interval);
    Ok(())
}

/// Whether a level has nothing but its head.
fn is_last(set: &mut Opened<'_, '_>, level: u8) -> Result<bool, Failure> {
    let mut is_last = true;
    visit_from(set, level, &[], &mut |rest, _| {
        is_last = rest.is_empty();
        is_last
    })?;
    Ok(is_last)
}

fn part_of(level: u8) -> Part {
    if level == 0 { Part::Order } else { Part::Level(level) }
}

/// Calls `visit` with the entries of a level before a key, the last one first and the head at the end, until it returns
/// false. What was removed between the head and the first member is not passed.
fn visit_before(
    set: &mut Opened<'_, '_>,
    level: u8,
    key: &[u8],
    visit: &mut VisitElement<'_>,
) -> Result<(), Failure> {
    if let Some(entries) = set.level(level)? {
        visit_held(entries_before(entries, key).iter().rev(), visit);
        return Ok(());
    }
    let first = set.first_key();
    let from = if first.is_empty() { Bound::Unbounded } else { Bound::Included(&first[..]) };
    let mut goes_on = true;
    if first[..] < *key {
        let ends = (from, Bound::Excluded(key));
        set.visit(part_of(level), ends, Direction::Backward, &mut |rest, value| {
            goes_on = visit(rest, value);
            goes_on
        })?;
    }
    if goes_on && level > 0 && !first.is_empty() {
        visit_head(set, level, visit)?;
    }
    Ok(())
}

/// Calls `visit` with the entries of a level from a key on, the head included if the key is empty, until it returns false; of a
/// level 1 that is not stored with those before the next entry of level 2: the key is one of these, or empty.
fn visit_from(
    set: &mut Opened<'_, '_>,
    level: u8,
    key: &[u8],
    visit: &mut VisitElement<'_>,
) -> Result<(), Failure> {
    if level == 1 && set.levels_from_2 {
        visit_held(level_one_from(set, key)?.iter(), visit);
        return Ok(());
    }
    if let Some(entries) = set.level(level)? {
        let begin = count_before(entries, key);
        visit_held(entries[begin..].iter(), visit);
        return Ok(());
    }
    let first = set.first_key();
    if key.is_empty() && level > 0 && !first.is_empty() && !visit_head(set, level, visit)? {
        return Ok(());
    }
    let ends = (Bound::Included(key.max(&first[..])), Bound::Unbounded);
    set.visit(part_of(level), ends, Direction::Forward, visit)
}

/// Calls `visit` with entries that are held in memory, until it returns false.
fn visit_held<'e>(mut entries: impl Iterator<Item = &'e LevelEntry>, visit: &mut VisitElement<'_>) {
    entries.all(|entry| visit(entry.key(), entry.members.to_be_bytes()[..].into()));
}

/// Calls `visit` with the head of a level, if it has one; what that returns.
fn visit_head(
    set: &mut Opened<'_, '_>,
    level: u8,
    visit: &mut VisitElement<'_>,
) -> Result<bool, Failure> {
    let head = set.element(Part::Level(level), &[])?;
    Ok(head.is_none_or(|head| visit(&[], head)))
}

/// The entry of a level, or its head, before a key: its key and its members.
fn previous(
    set: &mut Opened<'_, '_>,
    level: u8,
    key: &[u8],
) -> Result<Option<(Vec<u8>, u64)>, Failure> {
    let mut found = None;
    visit_before(set, level, key, &mut |rest, value| {
        found = Some((rest.to_vec(), value.array(0)));
        false
    })?;
    match found {
        Some((entry, Some(members))) => Ok(Some((entry, u64::from_be_bytes(members)))),
        Some((_, None)) => Err(UnknownLayout.into()),
        None => Ok(None),
    }
}

fn members(set: &mut Opened<'_, '_>, level: u8, key: &[u8]) -> Result<Option<u64>, Failure> {
    if let Some(entries) = set.level(level)? {
        let at = place_of(entries, key);
        return Ok(at.ok().map(|at| entries[at].members));
    }
    let found = set.element(Part::Level(level), &[key])?;
    Ok(found.and_then(|value| value.array(0)).map(u64::from_be_bytes))
}

fn put(set: &mut Opened<'_, '_>, level: u8, key: &[u8], members: u64) -> Result<(), Failure> {
    set.put_in_level(level, key, members)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use tembo_kv::{Options, Store};

    use super::*;
    use crate::local::Local;

    /// xorshift64*.
    struct Random(u64);

    impl Random {
        fn below(&mut self, end: usize) -> usize {
            self.0 ^= self.0 >> 12;
            self.0 ^= self.0 << 25;
            self.0 ^= self.0 >> 27;
            (self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 33) as usize % end
        }
    }

    /// Names of members that stand on level 2 at least, and as many times others as are wanted.
    fn names(high: usize, others: usize) -> Vec<String> {
        let all = || (0..).map(|number: u32| format!("member:{number}"));
        let is_high = |name: &String| level_of(name.as_bytes()) >= 2;
        let low = all().filter(|name| !is_high(name)).take(others);
        all().filter(is_high).take(high).chain(low).collect()
    }

    fn call(server: &mut Local, words: &[&str]) -> String {
        let request = words.iter().map(|word| word.as_bytes().to_vec()).collect();
        String::from_utf8(server.turn(1000, &[request]).unwrap()).unwrap()
    }

    #[test]
    fn ranks_are_right_however_members_of_upper_levels_come_and_go() {
        const HIGH: usize = 30;
        let names = names(HIGH, 400);
        let options = Options::new().background(false);
        let mut server = Local::open(Store::volatile(&options).unwrap(), 16).unwrap();
        let mut random = Random(7);
        let (mut model, mut scores) = (BTreeSet::new(), vec![None; names.len()]);
        for step in 0..4000 {
            // First the others, so that the sorted set is a large one; then those of upper levels twice as often.
            let at = match step {
                0..400 => HIGH + step,
                _ if random.below(3) > 0 => random.below(HIGH),
                _ => HIGH + random.below(400),
            };
            let name = &names[at];
            if let Some(score) = scores[at].take() {
                model.remove(&(score, name));
            }
            if step >= 400 && random.below(4) == 0 {
                call(&mut server, &["ZREM", "sorted", name]);
            } else {
                let score = random.below(200);
                call(&mut server, &["ZADD", "sorted", &score.to_string(), name]);
                scores[at] = Some(score);
                model.insert((score, name));
            }
            // Sometimes ranks are asked for seldom, so that nothing is held.
            if step % if step < 2000 { 97 } else { 7 } == 0 {
                for (rank, (_, name)) in model.iter().enumerate().skip(random.below(9)).step_by(9) {
                    let found = call(&mut server, &["ZRANK", "sorted", name]);
                    assert_eq!(found, format!(":{rank}\r\n"), "step {step}, {name}");
                }
            }
        }
    }
}
