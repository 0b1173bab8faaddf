//! Integers in fields of bits: BITFIELD, BITFIELD_RO.

use crate::args::Args;
use crate::bits::{Field, Overflow};
use crate::command::{Command, Context, DENY_OOM, FAST, READ, WRITE};
use crate::commands::argument::integer;
use crate::commands::bitmap::{WRONG_OFFSET, bit_offset};
use crate::event_class::Classes;
use crate::failure::{Failure, Outcome, SYNTAX};
use crate::format::PAYLOAD_SIZE_MAX;
use crate::notify::notify;
use crate::number::parse_integer;
use crate::reply::Reply;

/// The family.
pub(super) const COMMANDS: &[Command] = &[
    Command::keyed("bitfield", -2, WRITE | DENY_OOM, (1, 1, 1), bitfield),
    Command::keyed("bitfield_ro", -2, READ | FAST, (1, 1, 1), bitfield_ro),
];

/// What is done with one field.
#[derive(Clone, Copy)]
enum Action {
    Get,
    Set(i64),
    Increase(i64),
}

struct Step {
    field: Field,
    action: Action,
    overflow: Overflow,
}

fn bitfield(context: &mut Context<'_, '_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    let steps = parse(context, args)?;
    let is_get = |step: &Step| matches!(step.action, Action::Get);
    if steps.iter().all(is_get) {
        return read(context, args.at(1), &steps, reply);
    }
    let (db, key) = (context.session.db, args.at(1));
    let (mut payload, expiry_ms) = match context.data.get(db, key)? {
        Some(found) => (found.payload.to_vec(), found.expiry_ms),
        None => (Vec::new(), None),
    };
    let written = steps.iter().filter(|step| !is_get(step));
    let ends = written.map(|step| step.field.offset + u64::from(step.field.width));
    let size = (ends.max().unwrap_or(0) as usize).div_ceil(8);
    if size > PAYLOAD_SIZE_MAX {
        return Err(WRONG_OFFSET.into());
    }
    let mut changed = payload.len() < size;
    payload.resize(payload.len().max(size), 0);
    reply.array(steps.len());
    for Step { field, action, overflow } in steps {
        let before = field.read(&payload);
        let number = field.number(before);
        let wanted = match action {
            Action::Get => {
                reply.integer(number);
                continue;
            }
            Action::Set(to) if field.signed => {
                let highest = (1i128 << (field.width - 1)) - 1;
                let distance = highest - i128::from(to);
                // Redis takes a number for too high when this overflows: clients get the same here.
                if field.width < 64 && distance > i128::from(i64::MAX) {
                    i128::from(to) + (1i128 << 64)
                } else {
                    i128::from(to)
                }
            }
            // Redis takes the 64 bits of a negative number as a large one.
            Action::Set(to) => i128::from(to as u64),
            Action::Increase(by) => i128::from(number) + i128::from(by),
        };
        let Some(after) = field.fit(wanted, overflow) else {
            reply.null();
            continue;
        };
        let is_set = matches!(action, Action::Set(_));
        reply.integer(if is_set { number } else { field.number(after) });
        field.write(&mut payload, after);
        changed |= before != after;
    }
    if changed {
        context.data.put(db, key, &payload, expiry_ms)?;
        notify(context, Classes::STRING, "setbit", key);
    }
    Ok(())
}

fn bitfield_ro(context: &mut Context<'_, '_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    let steps = parse(context, args)?;
    if !steps.iter().all(|step| matches!(step.action, Action::Get)) {
        return Err("ERR BITFIELD_RO only supports the GET subcommand".into());
    }
    read(context, args.at(1), &steps, reply)
}

fn read(context: &mut Context<'_, '_>, key: &[u8], steps: &[Step], reply: &mut Reply) -> Outcome {
    let found = context.data.get(context.session.db, key)?;
    reply.array(steps.len());
    for Step { field, .. } in steps {
        // A field lies in at most nine bytes.
        let from = (field.offset >> 3) as usize;
        let near = Field { offset: field.offset & 7, ..*field };
        let bits = found.map_or(0, |value| {
            let end = value.payload.len().min(from + 9);
            let part = value.payload.slice(from.min(end)..end);
            part.map_or(0, |part| part.with(|part| near.read(part)))
        });
        reply.integer(field.number(bits));
    }
    Ok(())
}

fn parse(context: &Context<'_, '_>, args: Args<'_>) -> Result<Vec<Step>, Failure> {
    let (mut steps, mut overflow, mut at) = (Vec::new(), Overflow::Wrap, 2);
    while at < args.count() {
        let left = args.count() - at - 1;
        if args.is(at, "OVERFLOW") && left >= 1 {
            overflow = match args.at(at + 1).to_ascii_lowercase().as_slice() {
                b"wrap" => Overflow::Wrap,
                b"sat" => Overflow::Saturate,
                b"fail" => Overflow::Fail,
                _ => return Err("ERR Invalid OVERFLOW type specified".into()),
            };
            at += 2;
            continue;
        }
        let new: fn(i64) -> Action = match args.at(at).to_ascii_lowercase().as_slice() {
            b"get" if left >= 2 => |_| Action::Get,
            b"set" if left >= 3 => Action::Set,
            b"incrby" if left >= 3 => Action::Increase,
            _ => return Err(SYNTAX.into()),
        };
        let (signed, width) = field_type(args.at(at + 1))?;
        let offset = bit_offset(context, args.at(at + 2), Some(width))?;
        let field = Field { signed, width, offset };
        let mut action = new(0);
        at += 3;
        if !matches!(action, Action::Get) {
            action = new(integer(args.at(at))?);
            at += 1;
        }
        steps.push(Step { field, action, overflow });
    }
    Ok(steps)
}

/// The type of a field, as `i5` or `u63`: whether it is signed, and its width.
fn field_type(text: &[u8]) -> Result<(bool, u32), Failure> {
    const WRONG: &str = "ERR Invalid bitfield type. Use something like i16 u8. Note that u64 is \
                         not supported but i64 is.";
    let (signed, width_max, number) = match text {
        [b'i', number @ ..] => (true, 64, number),
        [b'u', number @ ..] => (false, 63, number),
        _ => return Err(WRONG.into()),
    };
    match parse_integer(number) {
        Some(width) if (1..=width_max).contains(&width) => Ok((signed, width as u32)),
        _ => Err(WRONG.into()),
    }
}
