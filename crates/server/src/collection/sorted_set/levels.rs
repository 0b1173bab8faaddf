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
//! there: a few tens of entries a level. To find the nth it goes forward on the highest level, and down. A change adds or takes
//! one in an entry of each level; a member that stands on a level divides the entry before it, or is merged into it.

use std::ops::Bound;

use tembo_kv::Direction;

use crate::collection::opened::Opened;
use crate::failure::Failure;
use crate::format::{LEVEL_MAX, Part, UnknownLayout, level_of};

/// Bytes of a score before the member.
const SCORE_SIZE: usize = 8;

/// The member of a key of the order.
pub(super) fn member_of(key: &[u8]) -> &[u8] {
    key.get(SCORE_SIZE..).unwrap_or_default()
}

/// How many members stand before a key of the order.
pub(super) fn rank(set: &mut Opened<'_, '_>, key: &[u8]) -> Result<u64, Failure> {
    let (mut rank, mut level, mut at) = (0, 0, key.to_vec());
    loop {
        let mut next = None;
        let part = if level == 0 { Part::Order } else { Part::Level(level) };
        let before = (Bound::Unbounded, Bound::Excluded(&at[..]));
        let mut is_sound = true;
        set.visit(part, before, Direction::Backward, &mut |rest, value| {
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
}

/// The key of the order of the member before which so many stand; `None`: there are no more than that.
pub(super) fn nth(set: &mut Opened<'_, '_>, nth: u64) -> Result<Option<Vec<u8>>, Failure> {
    let mut top = 0;
    while top < LEVEL_MAX && members(set, top + 1, &[])?.is_some() {
        top += 1;
    }
    let (mut left, mut at) = (nth, Vec::new());
    for level in (0..=top).rev() {
        let part = if level == 0 { Part::Order } else { Part::Level(level) };
        let mut found = None;
        let on = (Bound::Included(&at[..]), Bound::Unbounded);
        set.visit(part, on, Direction::Forward, &mut |rest, value| {
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
    let before = if own > 0 { rank(set, key)? } else { 0 };
    for level in 1..=LEVEL_MAX {
        match previous(set, level, key)? {
            None if level > own => break,
            None => {
                put(set, level, &[], before)?;
                put(set, level, key, count - before + 1)?;
            }
            Some((entry, members)) if level > own => put(set, level, &entry, members + 1)?,
            Some((entry, members)) => {
                let kept = before - rank(set, &entry)?;
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
    for level in 1..=LEVEL_MAX {
        let found = previous(set, level, key)?;
        if level > own {
            let Some((entry, members)) = found else { break };
            put(set, level, &entry, members.saturating_sub(1))?;
            continue;
        }
        let merged = members(set, level, key)?.ok_or(UnknownLayout)?;
        let (entry, members) = found.ok_or(UnknownLayout)?;
        set.remove_element(Part::Level(level), &[key])?;
        if entry.is_empty() && is_last(set, level)? {
            set.remove_element(Part::Level(level), &[])?;
        } else {
            put(set, level, &entry, (members + merged).saturating_sub(1))?;
        }
    }
    Ok(())
}

/// Whether a level has nothing but its head.
fn is_last(set: &mut Opened<'_, '_>, level: u8) -> Result<bool, Failure> {
    let mut is_last = true;
    let behind = (Bound::Excluded(&[][..]), Bound::Unbounded);
    set.visit(Part::Level(level), behind, Direction::Forward, &mut |_, _| {
        is_last = false;
        false
    })?;
    Ok(is_last)
}

/// The entry of a level, or its head, before a key: its key and its members.
fn previous(
    set: &mut Opened<'_, '_>,
    level: u8,
    key: &[u8],
) -> Result<Option<(Vec<u8>, u64)>, Failure> {
    let mut found = None;
    let before = (Bound::Unbounded, Bound::Excluded(key));
    set.visit(Part::Level(level), before, Direction::Backward, &mut |rest, value| {
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
    let found = set.element(Part::Level(level), &[key])?;
    Ok(found.and_then(|value| value.array(0)).map(u64::from_be_bytes))
}

fn put(set: &mut Opened<'_, '_>, level: u8, key: &[u8], members: u64) -> Result<(), Failure> {
    set.put_element(Part::Level(level), &[key], &[&members.to_be_bytes()]).map(drop)
}
