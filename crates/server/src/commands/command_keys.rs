//! COMMAND GETKEYS and GETKEYSANDFLAGS: which words of a request are keys, and what it does with them, by Redis's key
//! specifications.

use crate::args::Args;
use crate::command::{Command, Context, Table};
use crate::commands::facts::{Facts, KeySpec};
use crate::failure::{Failure, Outcome};
use crate::key_positions::key_positions;
use crate::number::parse_integer;
use crate::reply::Reply;

/// A key of a request: its place, and what is done with it, separated by commas.
type Key = (usize, &'static str);

const CHANGED: &str = "OW,update";
const READ_AND_CHANGED: &str = "RW,access,update";
const READ: &str = "RO,access";

pub(super) fn getkeys(context: &mut Context<'_, '_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    let keys = keys(context, args)?;
    reply.array(keys.len());
    keys.iter().for_each(|(at, _)| reply.bulk(args.at(at + 2)));
    Ok(())
}

pub(super) fn getkeysandflags(
    context: &mut Context<'_, '_>,
    args: Args<'_>,
    reply: &mut Reply,
) -> Outcome {
    let keys = keys(context, args)?;
    reply.array(keys.len());
    for (at, flags) in keys {
        reply.array(2);
        reply.bulk(args.at(at + 2));
        reply.set(flags.split(',').count());
        flags.split(',').for_each(|flag| reply.simple(flag));
    }
    Ok(())
}

/// The command of that name, or the subcommand of `command|subcommand`.
pub(super) fn find(table: &Table, name: &[u8]) -> Option<&'static Command> {
    let mut parts = name.splitn(2, |&byte| byte == b'|');
    let first = parts.next()?;
    let command = table.find(first)?;
    match parts.next() {
        Some(second) => command.subcommand(second),
        None => Some(command),
    }
}

/// The keys of the request that stands in the arguments from the third on.
fn keys(context: &mut Context<'_, '_>, args: Args<'_>) -> Result<Vec<Key>, Failure> {
    let command = find(context.table, args.at(2)).ok_or("ERR Invalid command specified")?;
    let command = command.subcommand(args.at(3)).unwrap_or(command);
    let request = args.skip(2);
    let facts = Facts::of(command.full_name);
    let has_keys = facts.as_ref().map_or(command.keys.0 > 0, Facts::has_keys);
    if !has_keys {
        return Err("ERR The command has no key arguments".into());
    }
    if !command.takes(request.count()) {
        return Err("ERR Invalid number of arguments specified for command".into());
    }
    let found = match &facts {
        Some(facts) => special(command, request).or_else(|| by_specs(facts, request)),
        None => {
            let positions = key_positions(command, command.keys, request);
            positions
                .map(|positions| positions.into_iter().map(|at| (at, READ_AND_CHANGED)).collect())
        }
    };
    match found {
        Some(keys) => Ok(keys),
        None if facts.is_some_and(|facts| facts.has_flag("no_mandatory_keys")) => Ok(Vec::new()),
        None => Err("ERR Invalid arguments specified for command".into()),
    }
}

/// The keys of a command whose specifications say too little.
fn special(command: &Command, request: Args<'_>) -> Option<Vec<Key>> {
    let count = request.count();
    match command.name {
        "sort" => {
            let mut keys = vec![(1, READ)];
            let mut at = 2;
            while at < count {
                if request.is(at, "STORE") && at + 1 < count {
                    keys.truncate(1);
                    keys.push((at + 1, CHANGED));
                    at += 1;
                } else if request.is(at, "LIMIT") {
                    at += 2;
                } else if request.is(at, "GET") || request.is(at, "BY") {
                    at += 1;
                }
                at += 1;
            }
            Some(keys)
        }
        "sort_ro" => Some(vec![(1, READ)]),
        "set" => {
            let reads = (3..count).any(|at| request.is(at, "GET"));
            Some(vec![(1, if reads { READ_AND_CHANGED } else { CHANGED })])
        }
        "bitfield" => {
            let writes = (2..count).any(|at| request.is(at, "SET") || request.is(at, "INCRBY"));
            Some(vec![(1, if writes { READ_AND_CHANGED } else { READ })])
        }
        "migrate" => {
            let flags = "RW,access,delete";
            let several = (6..count).find(|&at| request.is(at, "KEYS") && request.at(3).is_empty());
            Some(match several {
                Some(at) => (at + 1..count).map(|at| (at, flags)).collect(),
                None => vec![(3, flags)],
            })
        }
        _ => None,
    }
}

/// The keys that the specifications find; `None`: one of them does not fit.
fn by_specs(facts: &Facts, request: Args<'_>) -> Option<Vec<Key>> {
    let count = request.count() as i64;
    let mut keys = Vec::new();
    for spec in facts.key_specs().filter(|spec| spec.flags != "not_key") {
        let Some(first) = begin(&spec, request) else { continue };
        let [one, two, three] = spec.find;
        let (first, last, step) = match spec.find_kind {
            "range" if one >= 0 => (first, first + one, two),
            "range" if three == 0 => (first, count + one, two),
            "range" => (first, first + (count - first) / three + one, two),
            "keynum" => {
                let at = usize::try_from(first + one).ok().filter(|at| *at < request.count())?;
                let number = parse_integer(request.at(at)).filter(|number| *number > 0)?;
                let first = first + two;
                (first, first.checked_add((number - 1).checked_mul(three)?)?, three)
            }
            _ => continue,
        };
        if last >= count || last < first || first < 1 || step < 1 {
            return None;
        }
        keys.extend((first..=last).step_by(step as usize).map(|at| (at as usize, spec.flags)));
    }
    (!keys.is_empty()).then_some(keys)
}

/// Where a specification begins to find keys; `None`: its keyword is not there.
fn begin(spec: &KeySpec, request: Args<'_>) -> Option<i64> {
    let count = request.count() as i64;
    if spec.begin_kind == "index" {
        return Some(spec.begin_at);
    }
    let is_keyword = |at: &i64| request.is(*at as usize, spec.keyword);
    let found = match spec.begin_at {
        from if from > 0 => (from..count - 1).find(is_keyword),
        from => (1..=count + from).rev().find(is_keyword),
    };
    found.map(|at| at + 1)
}
