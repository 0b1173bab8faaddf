//! Large lists whose elements lie in strips: a change at an end touches one strip, and the head.
//!
//! A position belongs to one strip, whatever the list's ends are. What is long has an element of the store for itself,
//! under its position, so that no strip is large.

use std::ops::{Bound, Range};

use tembo_kv::{Direction, Value};

use crate::collection::list::end::End;
use crate::collection::opened::{Body, Opened};
use crate::failure::Failure;
use crate::format::{
    Part, STRIP_ELEMENT_MAX, STRIP_LEN, Spread, Strip, StripEntry, UnknownLayout, fits_strip,
    position_order, strip_begin, strip_entry, strip_of,
};

/// Strips that are read at once: first, and at most.
const READ_AT_ONCE: (usize, usize) = (4, 64);

/// What a change has found in a strip.
enum Taken {
    Short(Vec<u8>),
    Long,
}

fn head(list: &Opened<'_, '_>) -> Spread {
    match &list.body {
        Body::Packed(_) => Spread { id: 0, count: 0, first: 0 },
        Body::Spread(spread) => *spread,
    }
}

/// Which entry of its strip the element at a position is.
fn nth(head: Spread, position: i64) -> usize {
    position.wrapping_sub(strip_begin(strip_of(position)).max(head.first)) as usize
}

/// Changes the strip with a position; an empty one is removed.
fn change<T>(
    list: &mut Opened<'_, '_>,
    position: i64,
    change: impl FnOnce(&mut Vec<u8>) -> Result<T, Failure>,
) -> Result<T, Failure> {
    list.change_element(Part::Strip, &[&position_order(strip_of(position))], change)
}

/// The element at a position.
pub(super) fn get(list: &mut Opened<'_, '_>, index: u64) -> Result<Option<Vec<u8>>, Failure> {
    let head = head(list);
    if index >= head.count {
        return Ok(None);
    }
    let position = head.first.wrapping_add(index as i64);
    let strip = list.element(Part::Strip, &[&position_order(strip_of(position))])?;
    let entry = strip.ok_or(UnknownLayout)?.with(|bytes| {
        let mut strip = Strip::new(bytes);
        strip.pass(nth(head, position))?;
        Ok::<_, UnknownLayout>(match strip.next().ok_or(UnknownLayout)?? {
            StripEntry::Short(range) => Taken::Short(bytes[range].to_vec()),
            StripEntry::Long => Taken::Long,
        })
    })?;
    match entry {
        Taken::Short(element) => Ok(Some(element)),
        Taken::Long => Ok(Some(long(list, position)?.to_vec())),
    }
}

/// The long element at a position.
fn long<'l>(list: &'l mut Opened<'_, '_>, position: i64) -> Result<Value<'l>, Failure> {
    let found = list.element(Part::Main, &[&position_order(position)])?;
    Ok(found.ok_or(UnknownLayout)?)
}

fn put_if_long(list: &mut Opened<'_, '_>, position: i64, element: &[u8]) -> Result<(), Failure> {
    if !fits_strip(element) {
        list.put_element(Part::Main, &[&position_order(position)], &[element])?;
    }
    Ok(())
}

/// Adds an element at an end.
pub(super) fn push(list: &mut Opened<'_, '_>, end: End, element: &[u8]) -> Result<(), Failure> {
    let Spread { first, count, .. } = head(list);
    let position = match end {
        End::Left => first.wrapping_sub(1),
        End::Right => first.wrapping_add(count as i64),
    };
    put_if_long(list, position, element)?;
    let mut entry = [0; 1 + STRIP_ELEMENT_MAX];
    let entry = strip_entry(&mut entry, element);
    change(list, position, |strip| {
        match end {
            End::Left => drop(strip.splice(0..0, entry.iter().copied())),
            End::Right => strip.extend_from_slice(entry),
        }
        Ok(())
    })?;
    if let Some(head) = list.change_spread() {
        head.count += 1;
        if end == End::Left {
            head.first = position;
        }
    }
    Ok(())
}

/// Removes the element at an end.
pub(super) fn pop(list: &mut Opened<'_, '_>, end: End) -> Result<Option<Vec<u8>>, Failure> {
    let head = head(list);
    if head.count == 0 {
        return Ok(None);
    }
    let position = match end {
        End::Left => head.first,
        End::Right => head.first.wrapping_add(head.count as i64 - 1),
    };
    let taken = change(list, position, |strip| take(strip, nth(head, position)))?;
    let element = match taken {
        Taken::Short(element) => element,
        Taken::Long => {
            let element = long(list, position)?.to_vec();
            list.remove_element(Part::Main, &[&position_order(position)])?;
            element
        }
    };
    if let Some(head) = list.change_spread() {
        head.count -= 1;
        head.first = head.first.wrapping_add(i64::from(end == End::Left));
    }
    Ok(Some(element))
}

/// Takes an entry out of a strip.
fn take(strip: &mut Vec<u8>, nth: usize) -> Result<Taken, Failure> {
    let mut entries = Strip::new(strip);
    let begin = entries.pass(nth)?;
    let entry = entries.next().ok_or(UnknownLayout)??;
    let end = entries.at();
    let taken = match entry {
        StripEntry::Short(range) => Taken::Short(strip[range].to_vec()),
        StripEntry::Long => Taken::Long,
    };
    strip.drain(begin..end);
    Ok(taken)
}

/// Puts another element in the place of the one at an index, which is there.
pub(super) fn set(list: &mut Opened<'_, '_>, index: u64, element: &[u8]) -> Result<(), Failure> {
    let head = head(list);
    let position = head.first.wrapping_add(index as i64);
    put_if_long(list, position, element)?;
    let mut entry = [0; 1 + STRIP_ELEMENT_MAX];
    let entry = strip_entry(&mut entry, element);
    let old = change(list, position, |strip| {
        let mut entries = Strip::new(strip);
        let begin = entries.pass(nth(head, position))?;
        let old = entries.next().ok_or(UnknownLayout)??;
        let end = entries.at();
        strip.splice(begin..end, entry.iter().copied());
        Ok(old)
    })?;
    if old == StripEntry::Long && fits_strip(element) {
        list.remove_element(Part::Main, &[&position_order(position)])?;
    }
    list.touch();
    Ok(())
}

/// Removes so many elements at each end, of which it has as many.
pub(super) fn drop_ends(list: &mut Opened<'_, '_>, left: u64, right: u64) -> Result<(), Failure> {
    let Spread { first, count, .. } = head(list);
    let begin = first.wrapping_add(left as i64);
    let end = first.wrapping_add((count - right) as i64);
    if let Some(head) = list.change_spread() {
        (head.count, head.first) = (count - left - right, begin);
    }
    if left + right == count {
        // They go with the key, which is removed.
        return Ok(());
    }
    drop_long(list, (first, begin), left)?;
    drop_long(list, (end, first.wrapping_add(count as i64)), right)?;
    let last = strip_of(first.wrapping_add(count as i64 - 1));
    drop_strips(list, strip_of(first)..strip_of(begin))?;
    drop_strips(list, strip_of(end.wrapping_sub(1)) + 1..last + 1)?;
    let passed = begin.wrapping_sub(first.max(strip_begin(strip_of(begin))));
    if passed > 0 {
        change(list, begin, |strip| {
            let to = Strip::new(strip).pass(passed as usize)?;
            strip.drain(..to);
            Ok(())
        })?;
    }
    if right > 0 {
        let kept = end.wrapping_sub(begin.max(strip_begin(strip_of(end.wrapping_sub(1)))));
        change(list, end.wrapping_sub(1), |strip| {
            let to = Strip::new(strip).pass(kept as usize)?;
            strip.truncate(to);
            Ok(())
        })?;
    }
    Ok(())
}

fn drop_strips(list: &mut Opened<'_, '_>, strips: Range<i64>) -> Result<(), Failure> {
    if strips.is_empty() {
        return Ok(());
    }
    let (from, to) = (position_order(strips.start), position_order(strips.end));
    list.remove_elements(Part::Strip, (&from, &to), strips.end.abs_diff(strips.start))
}

/// Removes the long elements among so many from one position on, up to another one.
fn drop_long(list: &mut Opened<'_, '_>, (from, to): (i64, i64), count: u64) -> Result<(), Failure> {
    if count == 0 {
        return Ok(());
    }
    let (from, to) = (position_order(from), position_order(to));
    let mut is_met = false;
    let ends = (Bound::Included(&from[..]), Bound::Excluded(&to[..]));
    list.visit(Part::Main, ends, Direction::Forward, &mut |_, _| {
        is_met = true;
        false
    })?;
    if is_met { list.remove_elements(Part::Main, (&from, &to), count) } else { Ok(()) }
}

/// Calls `visit` with the indices and elements in a range of indices that is not empty and ends in the list, until it
/// returns false.
pub(super) fn visit(
    list: &mut Opened<'_, '_>,
    range: Range<u64>,
    direction: Direction,
    visit: &mut dyn FnMut(u64, Value<'_>) -> bool,
) -> Result<(), Failure> {
    let head = head(list);
    let position = |index: u64| head.first.wrapping_add(index as i64);
    let mut left = strip_of(position(range.start))..strip_of(position(range.end - 1)) + 1;
    let mut limit = READ_AT_ONCE.0;
    while !left.is_empty() {
        let strips = read(list, left.clone(), direction, limit)?;
        limit = (limit * 2).min(READ_AT_ONCE.1);
        for strip in &strips {
            let number = if direction == Direction::Forward { left.start } else { left.end - 1 };
            if direction == Direction::Forward {
                left.start += 1;
            } else {
                left.end -= 1;
            }
            let from = strip_begin(number).max(head.first);
            let index = from.wrapping_sub(head.first) as u64;
            if !visit_strip(list, (strip, index), (&range, direction), visit)? {
                return Ok(());
            }
        }
    }
    Ok(())
}

/// Copies of strips from an end of a range on, which are all there; not more than `limit`.
fn read(
    list: &mut Opened<'_, '_>,
    strips: Range<i64>,
    direction: Direction,
    limit: usize,
) -> Result<Vec<Vec<u8>>, Failure> {
    let wanted = limit.min(strips.end.abs_diff(strips.start) as usize);
    let (from, to) = (position_order(strips.start), position_order(strips.end));
    let ends = (Bound::Included(&from[..]), Bound::Excluded(&to[..]));
    let mut found = Vec::with_capacity(wanted);
    list.visit(Part::Strip, ends, direction, &mut |_, strip| {
        found.push(strip.to_vec());
        found.len() < wanted
    })?;
    if found.len() == wanted { Ok(found) } else { Err(UnknownLayout.into()) }
}

/// Visits those elements of a strip, which begins at an index, that are in a range; false: that was the last one.
fn visit_strip(
    list: &mut Opened<'_, '_>,
    (strip, begin): (&[u8], u64),
    (range, direction): (&Range<u64>, Direction),
    visit: &mut dyn FnMut(u64, Value<'_>) -> bool,
) -> Result<bool, Failure> {
    let first = head(list).first;
    let mut show = |index: u64, entry: StripEntry| -> Result<bool, Failure> {
        let element = match entry {
            StripEntry::Short(bytes) => strip[bytes].into(),
            StripEntry::Long => long(list, first.wrapping_add(index as i64))?,
        };
        Ok(visit(index, element))
    };
    let entries = (begin..).zip(Strip::new(strip));
    if direction == Direction::Forward {
        for (index, entry) in entries {
            let entry = entry?;
            if range.contains(&index) && !show(index, entry)? {
                return Ok(false);
            }
        }
        return Ok(true);
    }
    let mut backward = Vec::with_capacity(STRIP_LEN);
    for (index, entry) in entries {
        backward.push((index, entry?));
    }
    for (index, entry) in backward.into_iter().rev() {
        if range.contains(&index) && !show(index, entry)? {
            return Ok(false);
        }
    }
    Ok(true)
}
