//! Looking for keys: KEYS, SCAN, RANDOMKEY, DBSIZE.

use std::ops::Bound;

use tembo_kv::Direction;

use crate::args::Args;
use crate::command::{Command, Context, FAST, READ};
use crate::commands::scan::{Page, ScanOptions};
use crate::failure::{Failure, Outcome};
use crate::glob;
use crate::key_search::{KeySearch, VISITED_AT_ONCE};
use crate::number::parse_cursor;
use crate::put_off::PutOff;
use crate::random_place::random_place;
use crate::reply::Reply;

/// So many keys, less one, may lie between a random place and a random key: of few keys each has the same chance.
const SKIPPED_MAX: u64 = 32;

/// The family.
pub(super) const COMMANDS: &[Command] = &[
    Command::new("keys", 2, READ, keys),
    Command::new("scan", -2, READ, scan),
    Command::new("randomkey", 1, READ, randomkey),
    Command::new("dbsize", 1, READ | FAST, dbsize),
];

fn keys(context: &mut Context<'_, '_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    let mut search = KeySearch::new(args.at(1), context.data.now_ms());
    search.allow(if context.session.may_put_off() { VISITED_AT_ONCE } else { usize::MAX });
    let (db, prefix) = (context.session.db, search.prefix().to_vec());
    let from = Bound::Included(&prefix[..]);
    context.data.scan(db, from, Direction::Forward, &mut |key, _| search.visit(key))?;
    if search.is_paused() {
        let snapshot = context.commit_early()?.snapshot()?;
        search.go_on_in(snapshot, context.data.space(db));
        context.put_off(PutOff::Keys(search));
    } else {
        search.reply(reply);
    }
    Ok(())
}

fn scan(context: &mut Context<'_, '_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    let cursor = parse_cursor(args.at(1)).ok_or("ERR invalid cursor")?;
    let options = ScanOptions::parse(args, 2, true)?;
    let prefix = glob::literal_prefix(options.pattern);
    // Keys before the pattern's literal prefix need no visit.
    let from = match context.shared.scans.position(cursor) {
        Some(position) if position >= prefix => Bound::Excluded(position),
        _ => Bound::Included(prefix),
    };
    let mut page = Page::new(&options, false);
    context.data.scan(context.session.db, from, Direction::Forward, &mut |key, value| {
        let show = |found: &mut Reply| {
            let is_taken = options.takes(value.of.kind);
            if is_taken {
                found.bulk(key);
            }
            usize::from(is_taken)
        };
        key.starts_with(prefix) && page.visit(key, show)
    })?;
    page.reply(context.shared, reply);
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
    let place = random_place(&first, &last, &mut || context.shared.random());
    let mut left = context.shared.random() % SKIPPED_MAX;
    let mut picked = None;
    // The last ones are followed by the first ones, which may be fewer than are passed.
    for from in [Bound::Included(&place[..]), Bound::Unbounded, Bound::Unbounded] {
        let mut seen = 0;
        context.data.scan(context.session.db, from, Direction::Forward, &mut |key, _| {
            seen += 1;
            match left.checked_sub(1) {
                Some(fewer) => left = fewer,
                None => picked = Some(key.to_vec()),
            }
            picked.is_none()
        })?;
        if picked.is_some() {
            break;
        }
        if from == Bound::Unbounded {
            left %= seen.max(1);
        }
    }
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
