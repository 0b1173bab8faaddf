//! Putting and removing a key: by the fast path, else by the general one.

mod block;
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

pub(super) use self::block::write_blocks;
pub(super) use self::carry::carry;
pub(super) use self::clean::{clean, erase_slots};
use self::general::{change_any, inline};
use self::record::change_record;
pub(super) use self::space::{reserve_lines, reserve_structure};
use crate::nvtree::fast::{Effect, change_fast, put_fast};
use crate::nvtree::how::How;
use crate::nvtree::leaves::{Leaves, Wanted};
use crate::{Block, Error, Op, Writer};

/// Puts or removes a key; whether it was there.
#[inline(always)]
pub(crate) fn change<const SCATTERED: bool>(
    leaves: &Leaves,
    op: Op<'_>,
    how: How<'_>,
    writer: &mut Writer<'_>,
) -> Result<bool, Error> {
    op.key()?;
    if let Op::Put { key, value } = op
        && let Some(word) = eight(value)
        && let Some(existed) = put_fast::<SCATTERED>(leaves, key, word, how, writer)
    {
        return Ok(existed);
    }
    change_in_time::<SCATTERED>(leaves, op, how, writer)
}

/// As `change`, if it takes more than one attempt.
#[inline(never)]
fn change_in_time<const SCATTERED: bool>(
    leaves: &Leaves,
    op: Op<'_>,
    how: How<'_>,
    writer: &mut Writer<'_>,
) -> Result<bool, Error> {
    let (Op::Put { key, .. } | Op::Remove { key }) = op;
    let wanted = Wanted::new(key);
    // Eight bytes were tried before.
    let effect = match op {
        Op::Remove { .. } => Some(Effect::Remove),
        Op::Put { value, .. } if eight(value).is_some() => None,
        Op::Put { value, .. } => short(value),
    };
    loop {
        let mut reached = None;
        if let Some(effect) = effect
            && let Some(existed) =
                change_fast::<SCATTERED>(leaves, wanted, effect, how, writer, &mut reached)
        {
            return Ok(existed);
        }
        if let Some(existed) = change_record(leaves, op, wanted, how, writer, &mut reached) {
            return Ok(existed);
        }
        let mut block = None;
        if let Some(existed) = change_any(leaves, op, (wanted, reached), how, writer, &mut block)? {
            return Ok(existed);
        }
    }
}

/// Puts a value that stands in a block, with other changes; whether the key was there. On an error the block is free.
pub(super) fn put_block(
    leaves: &Leaves,
    key: &[u8],
    value: &[u8],
    block: Block,
    writer: &mut Writer<'_>,
) -> Result<bool, Error> {
    let (op, wanted) = (Op::Put { key, value: &[value] }, Wanted::new(key));
    let mut block = Some(block);
    loop {
        let sought = (wanted, None);
        if let Some(existed) = change_any(leaves, op, sought, How::Grouped, writer, &mut block)? {
            return Ok(existed);
        }
    }
}

/// A value of eight bytes in one part, as a word.
#[inline(always)]
fn eight(value: &[&[u8]]) -> Option<u64> {
    match value {
        [part] => part.as_array().map(|eight| u64::from_le_bytes(*eight)),
        _ => None,
    }
}

/// The effect of a short value.
fn short(value: &[&[u8]]) -> Option<Effect> {
    let len = value.iter().map(|part| part.len()).sum();
    (len <= 8).then(|| Effect::Put(inline(value), len))
}
