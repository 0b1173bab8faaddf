//! Looking for keys: KEYS, SCAN, RANDOMKEY, DBSIZE.

use std::ops::Bound;

use tembo_kv::Direction;

use crate::args::Args;
use crate::command::{Command, Context, FAST, READ};
use crate::commands::argument::integer;
use crate::failure::{Failure, Outcome, SYNTAX};
use crate::glob;
use crate::number::{Decimal, parse_unsigned};
use crate::reply::Reply;

/// The family.
pub(super) const COMMANDS: &[Command] = &[
    Command::new("keys", 2, READ, keys),
    Command::new("scan", -2, READ, scan),
    Command::new("randomkey", 1, READ, randomkey),
    Command::new("dbsize", 1, READ | FAST, dbsize),
];

fn keys(context: &mut Context<'_, '_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    let pattern = args.at(1);
    let prefix = glob::literal_prefix(pattern);
    let (mut found, mut count) = (Reply::new(usize::MAX), 0);
    context.data.scan(
        context.session.db,
        Bound::Included(prefix),
        Direction::Forward,
        &mut |key, _| {
            if !key.starts_with(prefix) {
                return false;
            }
            if glob::matches(pattern, key, false) {
                found.bulk(key);
                count += 1;
            }
            !found.is_overflown()
        },
    )?;
    reply.array(count);
    reply.raw(found.unsent());
    Ok(())
}

/// The options of SCAN.
struct Options<'a> {
    pattern: &'a [u8],
    count: usize,
    /// Keys of a type that no key has are asked for.
    none_of_type: bool,
}

impl<'a> Options<'a> {
    fn parse(args: Args<'a>) -> Result<Options<'a>, Failure> {
        let mut options = Options { pattern: b"*", count: 10, none_of_type: false };
        let mut at = 2;
        while at < args.count() {
            if at + 1 >= args.count() {
                return Err(SYNTAX.into());
            }
            if args.is(at, "COUNT") {
                let count = integer(args.at(at + 1))?;
                if count < 1 {
                    return Err(SYNTAX.into());
                }
                options.count = count as usize;
            } else if args.is(at, "MATCH") {
                options.pattern = args.at(at + 1);
            } else if args.is(at, "TYPE") {
                options.none_of_type = !args.is(at + 1, "STRING");
            } else {
                return Err(SYNTAX.into());
            }
            at += 2;
        }
        Ok(options)
    }
}

fn scan(context: &mut Context<'_, '_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    let cursor = parse_unsigned(args.at(1)).ok_or("ERR invalid cursor")?;
    let options = Options::parse(args)?;
    let prefix = glob::literal_prefix(options.pattern);
    // Keys before the pattern's literal prefix need no visit.
    let from = match context.shared.scans.position(cursor) {
        Some(position) if position >= prefix => Bound::Excluded(position),
        _ => Bound::Included(prefix),
    };
    let (mut found, mut count, mut visited) = (Reply::new(usize::MAX), 0, 0);
    let mut last: Option<Vec<u8>> = None;
    let mut more = false;
    context.data.scan(context.session.db, from, Direction::Forward, &mut |key, _| {
        if !key.starts_with(prefix) {
            return false;
        }
        if visited == options.count {
            more = true;
            return false;
        }
        visited += 1;
        if !options.none_of_type && glob::matches(options.pattern, key, false) {
            found.bulk(key);
            count += 1;
        }
        if visited == options.count {
            last = Some(key.to_vec());
        }
        true
    })?;
    let next = match last {
        Some(key) if more => context.shared.scans.remember(&key),
        _ => 0,
    };
    reply.array(2);
    reply.bulk(Decimal::unsigned(next).as_bytes());
    reply.array(count);
    reply.raw(found.unsent());
    Ok(())
}

/// A key picked by a random place between the first key and the last: every key can come, keys behind
/// a wide gap come more often.
fn randomkey(context: &mut Context<'_, '_>, _: Args<'_>, reply: &mut Reply) -> Outcome {
    let first = edge(context, Bound::Unbounded, Direction::Forward)?;
    let last = edge(context, Bound::Unbounded, Direction::Backward)?;
    let (Some(first), Some(last)) = (first, last) else {
        reply.null();
        return Ok(());
    };
    let shared = first.iter().zip(&last).take_while(|(a, b)| a == b).count();
    let mut place = last[..shared].to_vec();
    let (low, high) = (first.get(shared).copied().unwrap_or(0), last.get(shared).copied());
    let width = u64::from(high.unwrap_or(low).saturating_sub(low)) + 1;
    place.push(low.wrapping_add((context.shared.random() % width) as u8));
    // The remaining bytes are chosen among those that keys have here.
    for index in shared + 1..first.len().max(last.len()).min(shared + 24) {
        let a = first.get(index).copied().unwrap_or(0);
        let b = last.get(index).copied().unwrap_or(0);
        let width = u64::from(a.abs_diff(b)) + 1;
        place.push(a.min(b).wrapping_add((context.shared.random() % width) as u8));
    }
    let picked = edge(context, Bound::Included(&place), Direction::Forward)?;
    reply.bulk(&picked.unwrap_or(first));
    Ok(())
}

/// The first key from a place on.
fn edge(
    context: &mut Context<'_, '_>,
    from: Bound<&[u8]>,
    direction: Direction,
) -> Result<Option<Vec<u8>>, Failure> {
    let mut found = None;
    context.data.scan(context.session.db, from, direction, &mut |key, _| {
        found = Some(key.to_vec());
        false
    })?;
    Ok(found)
}

fn dbsize(context: &mut Context<'_, '_>, _: Args<'_>, reply: &mut Reply) -> Outcome {
    let count = context.data.count(context.session.db)?;
    reply.integer(count.keys as i64);
    Ok(())
}
