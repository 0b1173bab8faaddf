//! Putting and removing a key: by the fast path, else by the general one.

mod builder;
mod carry;
mod clean;
mod general;
mod rebase;
mod reclaim;
mod record;
mod replacement;
mod space;
mod split;
mod split_half;
mod sweep;
mod target;
mod together;

pub(super) use self::carry::carry;
use self::carry::{fills_object, inline};
pub(super) use self::clean::{clean, erase_all, erase_slots};
use self::general::change_any;
use self::record::{change_record, len_of, put_record, remove_long};
pub(super) use self::space::{reserve_lines, reserve_structure};
#[cfg(test)]
pub(super) use self::target::{SEARCHED, check_unneeded};
pub(super) use self::together::write_together;
use crate::nvtree::fast::{Effect, change_fast, change_fast_at, put_fast};
use crate::nvtree::how::How;
use crate::nvtree::leaves::{Leaves, Reached, Wanted};
use crate::{Error, KeyChange, Op, Place, Writer, Written};

/// Whether key and value have a record when they are put, as far as is known without their leaf.
pub(super) fn has_record(&(key, value): &KeyChange<'_>) -> bool {
    let stands_alone = |value: &[u8]| value.len() <= 8 || fills_object(value.len() as u64);
    value.is_some_and(|value| key.len() > 8 || !stands_alone(value))
}

/// Puts or removes a key. Returns whether it was there.
#[inline(always)]
pub(crate) fn change<const SCATTERED: bool>(
    leaves: &Leaves,
    place: Place,
    op: Op<'_>,
    how: How<'_>,
    writer: &mut Writer<'_>,
) -> Result<bool, Error> {
    op.key()?;
    // This comes first and alone stands here, for the function is inlined into each of its callers.
    if let Op::Put { key, value } = op
        && let Some(word) = eight(value)
        && let Some(existed) = put_fast::<SCATTERED>(leaves, key, word, how, writer)
    {
        return Ok(existed);
    }
    change_otherwise::<SCATTERED>(leaves, place, op.apart(), how, writer)
}

/// As `change`, of a group, in the leaf of that place, if it is known and not outdated.
pub(super) fn apply_at(
    leaves: &Leaves,
    place: Place,
    op: Op<'_>,
    writer: &mut Writer<'_>,
) -> Result<bool, Error> {
    op.key()?;
    let mut reached = None;
    if place.is_known() {
        let done = change_at(leaves, place, op.apart(), writer, &mut reached);
        if let Some(existed) = done {
            return Ok(existed);
        }
    }
    match reached {
        Some(_) => change_in_time::<false>(leaves, op.apart(), How::Grouped, writer, reached),
        None => change::<false>(leaves, Place::default(), op, How::Grouped, writer),
    }
}

/// As [`apply_at`], if a fast path can. `None`: it cannot, and has set `reached` to the leaf, or the place is outdated; nothing
/// has changed.
#[inline(never)]
fn change_at<'f>(
    leaves: &'f Leaves,
    place: Place,
    op: Op<'_>,
    writer: &mut Writer<'_>,
    reached: &mut Option<Reached<'f>>,
) -> Option<bool> {
    let (Op::Put { key, .. } | Op::Remove { key }) = op;
    let wanted = Wanted::new(key);
    let found = leaves.leaf_at(place, wanted)?;
    let effect = match op {
        Op::Remove { .. } => Some(Effect::Remove),
        Op::Put { value, .. } => short(value),
    };
    if let Some(effect) = effect {
        let how = (How::Grouped, &*writer);
        let done = change_fast_at(leaves, found, wanted, effect, how, reached);
        if done.is_some() {
            return done;
        }
        if reached.is_none() {
            *reached = Some(found);
            return None;
        }
    }
    *reached = Some(found);
    change_record::<false>(leaves, op, wanted, How::Grouped, writer, reached)
}

/// As `change`, for each operation that is not a put of eight bytes, and for a put of eight bytes that the fast path has
/// refused.
#[inline(never)]
fn change_otherwise<const SCATTERED: bool>(
    leaves: &Leaves,
    place: Place,
    op: Op<'_>,
    how: How<'_>,
    writer: &mut Writer<'_>,
) -> Result<bool, Error> {
    let mut reached = None;
    let done = match op {
        Op::Put { key, value } if len_of(value) > 8 => {
            put_record::<SCATTERED>(leaves, (key, value), how, writer, &mut reached)
        }
        Op::Put { .. } => None,
        Op::Remove { key } if key.len() > 8 => {
            remove_long::<SCATTERED>(leaves, (place, key), how, writer, &mut reached)
        }
        Op::Remove { key } => {
            remove_word::<SCATTERED>(leaves, (place, key), how, writer, &mut reached)
        }
    };
    match done {
        Some(existed) => Ok(existed),
        None => change_in_time::<SCATTERED>(leaves, op, how, writer, reached),
    }
}

/// Removes a key that is no longer than a word, if a fast path can. Returns whether it was there. `None`: the fast path
/// cannot, or another thread was quicker; nothing has changed, but this may set `reached` to the leaf.
#[inline(never)]
fn remove_word<'f, const SCATTERED: bool>(
    leaves: &'f Leaves,
    (place, key): (Place, &[u8]),
    how: How<'_>,
    writer: &mut Writer<'_>,
    reached: &mut Option<Reached<'f>>,
) -> Option<bool> {
    let wanted = Wanted::new(key);
    let found = leaves.leaf_from::<SCATTERED>(place, wanted)?;
    match change_fast_at(leaves, found, wanted, Effect::Remove, (how, writer), reached) {
        Some(existed) => Some(existed),
        None if reached.is_none() => {
            *reached = Some(found);
            None
        }
        None => {
            let op = Op::Remove { key };
            change_record::<SCATTERED>(leaves, op, wanted, how, writer, reached)
        }
    }
}

/// As `change`, for changes that take more than one attempt. `reached` is the leaf if all fast paths were tried there.
#[inline(never)]
fn change_in_time<'f, const SCATTERED: bool>(
    leaves: &'f Leaves,
    op: Op<'_>,
    how: How<'_>,
    writer: &mut Writer<'_>,
    mut reached: Option<Reached<'f>>,
) -> Result<bool, Error> {
    let (Op::Put { key, .. } | Op::Remove { key }) = op;
    let wanted = Wanted::new(key);
    // The fast path of eight bytes was tried before, and for removals and long values all fast paths.
    let (effect, mut is_tried) = match op {
        Op::Remove { .. } => (Some(Effect::Remove), true),
        Op::Put { value, .. } if eight(value).is_some() => (None, false),
        Op::Put { value, .. } => (short(value), len_of(value) > 8),
    };
    is_tried |= reached.is_some();
    loop {
        if let Some(effect) = effect.filter(|_| !is_tried)
            && let Some(existed) =
                change_fast::<SCATTERED>(leaves, wanted, effect, how, writer, &mut reached)
        {
            return Ok(existed);
        }
        if !is_tried
            && let Some(existed) =
                change_record::<SCATTERED>(leaves, op, wanted, how, writer, &mut reached)
        {
            return Ok(existed);
        }
        is_tried = false;
        let sought = (wanted, reached.take());
        if let Some(existed) = change_any(leaves, op, sought, how, writer, &mut None)? {
            return Ok(existed);
        }
    }
}

/// Puts a value that is written already, with other changes. Returns whether the key was there. On an error its object is
/// free.
pub(super) fn put_written(
    leaves: &Leaves,
    place: Place,
    (key, value): (&[u8], &[u8]),
    written: Written,
    writer: &mut Writer<'_>,
) -> Result<bool, Error> {
    let (op, wanted) = (Op::Put { key, value: &[value] }, Wanted::new(key));
    let (mut reached, how) = (None, How::Grouped);
    let (at, put) = ((leaves, place), (key, value.len()));
    if let Some(existed) = record::put_written(at, put, &written, how, writer, &mut reached) {
        return Ok(existed);
    }
    let mut written = Some(written);
    loop {
        let sought = (wanted, reached.take());
        if let Some(existed) = change_any(leaves, op, sought, how, writer, &mut written)? {
            return Ok(existed);
        }
    }
}

/// A value as a word, if it has eight bytes in one part.
#[inline(always)]
fn eight(value: &[&[u8]]) -> Option<u64> {
    match value {
        [part] => part.as_array().map(|eight| u64::from_le_bytes(*eight)),
        _ => None,
    }
}

/// The effect of a put, if the value is short.
fn short(value: &[&[u8]]) -> Option<Effect> {
    let len = len_of(value);
    (len <= 8).then(|| Effect::Put(inline(value), len))
}
