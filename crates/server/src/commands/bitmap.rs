//! Bits of strings: SETBIT, GETBIT, BITCOUNT, BITPOS, BITOP.

use crate::args::Args;
use crate::bits;
use crate::command::{Command, Context, DENY_OOM, FAST, READ, WRITE};
use crate::commands::argument::integer;
use crate::event_class::Classes;
use crate::failure::{Failure, Outcome, SYNTAX};
use crate::notify::notify;
use crate::number::parse_integer;
use crate::reply::Reply;
use crate::string::write_string;

/// The family.
pub(super) const COMMANDS: &[Command] = &[
    Command::keyed("setbit", 4, WRITE | DENY_OOM, (1, 1, 1), setbit),
    Command::keyed("getbit", 3, READ | FAST, (1, 1, 1), getbit),
    Command::keyed("bitcount", -2, READ, (1, 1, 1), bitcount),
    Command::keyed("bitpos", -3, READ, (1, 1, 1), bitpos),
    Command::keyed("bitop", -4, WRITE | DENY_OOM, (2, -1, 1), bitop),
];

/// Bytes of a source of BITOP that are read at a time.
const PART_SIZE: usize = 256 << 10;

/// The offset of a bit, or of a field, that no string can have.
pub(super) const WRONG_OFFSET: &str = "ERR bit offset is not an integer or out of range";

/// An argument that is to be the offset of a bit. With a width, `#n` counts fields of that width.
pub(super) fn bit_offset(
    context: &Context<'_, '_>,
    text: &[u8],
    width: Option<u32>,
) -> Result<u64, Failure> {
    let (text, unit) = match (text, width) {
        ([b'#', number @ ..], Some(width)) => (number, i64::from(width)),
        _ => (text, 1),
    };
    let offset = parse_integer(text).ok_or(WRONG_OFFSET)?.wrapping_mul(unit);
    let offset = u64::try_from(offset).map_err(|_| Failure::from(WRONG_OFFSET))?;
    if offset >> 3 >= context.shared.settings.bulk_size_max as u64 {
        return Err(WRONG_OFFSET.into());
    }
    Ok(offset)
}

fn setbit(context: &mut Context<'_, '_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    const WRONG: &str = "ERR bit is not an integer or out of range";
    let offset = bit_offset(context, args.at(2), None)?;
    let value = match parse_integer(args.at(3)) {
        Some(0) => false,
        Some(1) => true,
        _ => return Err(WRONG.into()),
    };
    let (db, key, at) = (context.session.db, args.at(1), (offset >> 3) as usize);
    let byte = context.data.get_part(db, key, |len| (at < len).then_some(at..at + 1))?;
    let (is_there, mut byte) = (byte.is_some(), [byte.and_then(first_byte).unwrap_or(0)]);
    let before = bits::bit(&byte, offset & 7);
    if !is_there || before != value {
        bits::set_bit(&mut byte, offset & 7, value);
        write_string(context.data, (db, key), Some(at), &byte)?;
        notify(context, Classes::STRING, "setbit", key);
    }
    reply.flag(before);
    Ok(())
}

fn getbit(context: &mut Context<'_, '_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    let offset = bit_offset(context, args.at(2), None)?;
    let at = (offset >> 3) as usize;
    let part = |len| (at < len).then_some(at..at + 1);
    let byte = context.data.get_part(context.session.db, args.at(1), part)?;
    reply.flag(byte.and_then(first_byte).is_some_and(|byte| bits::bit(&[byte], offset & 7)));
    Ok(())
}

fn first_byte(bytes: tembo_kv::Value<'_>) -> Option<u8> {
    bytes.array::<1>(0).map(|[byte]| byte)
}

/// Whether a range counts bits, not bytes.
fn is_in_bits(unit: &[u8]) -> Result<bool, Failure> {
    match unit.to_ascii_lowercase().as_slice() {
        b"bit" => Ok(true),
        b"byte" => Ok(false),
        _ => Err(SYNTAX.into()),
    }
}

/// The bits between two bytes or bits, both included, of a string of `size` bytes; negative ones count from the end.
fn range_of(size: usize, (first, last): (i64, i64), in_bits: bool) -> Option<(u64, u64)> {
    let total = size as i64 * if in_bits { 8 } else { 1 };
    let from_end = |at: i64| if at < 0 { at.saturating_add(total).max(0) } else { at };
    let (first, last) = (from_end(first), from_end(last).min(total - 1));
    if first > last {
        return None;
    }
    let (first, last) = (first as u64, last as u64);
    Some(if in_bits { (first, last) } else { (first * 8, last * 8 + 7) })
}

fn bitcount(context: &mut Context<'_, '_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    let Some(value) = context.data.get(context.session.db, args.at(1))? else {
        // Redis looks at the other arguments only if the key is there.
        reply.integer(0);
        return Ok(());
    };
    let range = match args.count() {
        2 => range_of(value.payload.len(), (0, -1), false),
        4 | 5 => {
            let (first, last) = (integer(args.at(2))?, integer(args.at(3))?);
            let is_empty = first < 0 && last < 0 && first > last;
            let in_bits = !is_empty && args.count() == 5 && is_in_bits(args.at(4))?;
            range_of(value.payload.len(), (first, last), in_bits).filter(|_| !is_empty)
        }
        _ => return Err(SYNTAX.into()),
    };
    let count = range.map_or(0, |(first, last)| {
        value.payload.with(|string| bits::count_range(string, first, last))
    });
    reply.integer(count as i64);
    Ok(())
}

fn bitpos(context: &mut Context<'_, '_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    let wanted = match integer(args.at(2))? {
        0 => false,
        1 => true,
        _ => return Err("ERR The bit argument must be 1 or 0.".into()),
    };
    let Some(value) = context.data.get(context.session.db, args.at(1))? else {
        reply.integer(if wanted { -1 } else { 0 });
        return Ok(());
    };
    let size = value.payload.len();
    let range = match args.count() {
        3 => range_of(size, (0, -1), false),
        4..=6 => {
            let first = integer(args.at(3))?;
            let in_bits = args.count() == 6 && is_in_bits(args.at(5))?;
            let last = if args.count() >= 5 { integer(args.at(4))? } else { -1 };
            range_of(size, (first, last), in_bits)
        }
        _ => return Err(SYNTAX.into()),
    };
    let found = range.and_then(|(first, last)| {
        value.payload.with(|string| bits::find(string, wanted, first, last))
    });
    reply.integer(match (found, range) {
        (Some(at), _) => at as i64,
        // Without an end, the string is followed by zeros.
        (None, Some((_, last))) if !wanted && args.count() <= 4 => last as i64 + 1,
        (None, _) => -1,
    });
    Ok(())
}

fn bitop(context: &mut Context<'_, '_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    let combine: fn(u8, u8) -> u8 = match args.at(1).to_ascii_lowercase().as_slice() {
        b"and" => |a, b| a & b,
        b"or" => |a, b| a | b,
        b"xor" => |a, b| a ^ b,
        b"not" if args.count() != 4 => {
            return Err("ERR BITOP NOT must be called with a single source key.".into());
        }
        b"not" => |a, _| a,
        _ => return Err(SYNTAX.into()),
    };
    let (db, to) = (context.session.db, args.at(2));
    let mut size = 0;
    for key in args.from(3) {
        size = size.max(context.data.string_len(db, key)?.unwrap_or(0));
    }
    let mut result = vec![0; size];
    let first: fn(u8, u8) -> u8 = if args.is(1, "NOT") { |_, b| !b } else { |_, b| b };
    for (at, key) in args.from(3).enumerate() {
        combine_with(context, key, &mut result, if at == 0 { first } else { combine })?;
    }
    if result.is_empty() {
        if context.data.remove(db, to)? {
            notify(context, Classes::GENERIC, "del", to);
        }
    } else {
        context.data.put(db, to, &result, None)?;
        notify(context, Classes::STRING, "set", to);
    }
    reply.integer(size as i64);
    Ok(())
}

/// Combines the result so far with the string under a key, behind which there are zeros. Of the string little is in memory at a
/// time, however long it is.
fn combine_with(
    context: &mut Context<'_, '_>,
    key: &[u8],
    result: &mut [u8],
    combine: fn(u8, u8) -> u8,
) -> Outcome {
    let (db, mut rest, mut at) = (context.session.db, result, 0);
    let size = context.data.string_len(db, key)?.unwrap_or(0);
    while at < size {
        let count = PART_SIZE.min(size - at);
        let split = std::mem::take(&mut rest).split_at_mut_checked(count);
        let Some((part, behind)) = split else { break };
        if let Some(other) = context.data.get_part(db, key, |_| Some(at..at + count))? {
            other.with(|other| {
                part.iter_mut().zip(other).for_each(|(byte, other)| *byte = combine(*byte, *other));
            });
        }
        (rest, at) = (behind, at + count);
    }
    rest.iter_mut().for_each(|byte| *byte = combine(*byte, 0));
    Ok(())
}
