//! What permissions know of the commands.

use std::collections::HashMap;

use crate::acl::{Catalog, Channels, Entry, KeySpec, category_set};
use crate::command::{ADMIN, BLOCKING, Command, FAST, NO_AUTH, READ, SAVE, Table, WRITE};
use crate::commands::facts::Facts;

/// All commands of a table, by their numbers.
pub(crate) fn catalog(table: &Table) -> Catalog {
    let facts: HashMap<&str, Facts> = Facts::all().collect();
    let (mut entries, mut parent) = (Vec::new(), 0);
    for (command, number) in table.all_numbered() {
        let is_sub = command.full_name.contains('|');
        if !is_sub {
            parent = number;
        }
        entries.push(entry(command, is_sub.then_some(parent), facts.get(command.full_name)));
    }
    Catalog::new(entries)
}

/// By the numbers of a table's commands, whether a replica executes them while its primary is out of reach.
pub(crate) fn served_stale(table: &Table) -> Vec<bool> {
    let facts: HashMap<&str, Facts> = Facts::all().collect();
    let is_served = |command: &Command| {
        facts.get(command.full_name).is_none_or(|facts| facts.has_flag("stale"))
    };
    table.all_numbered().map(|(command, _)| is_served(command)).collect()
}

fn entry(command: &Command, parent: Option<usize>, facts: Option<&Facts>) -> Entry {
    let keys = match facts {
        Some(facts) => KeySpec::parse_all(facts.key_specs_text()),
        None => KeySpec::of_range(command.keys),
    };
    Entry {
        name: command.full_name,
        parent,
        categories: facts.map_or_else(|| of_flags(command), Facts::category_set),
        no_auth: command.has(NO_AUTH),
        keys,
        channels: match command.full_name {
            "publish" | "spublish" => Channels::First,
            "subscribe" | "ssubscribe" => Channels::All,
            "psubscribe" => Channels::Patterns,
            _ => Channels::None,
        },
    }
}

/// The categories of a command that Redis does not have.
fn of_flags(command: &Command) -> u32 {
    let by_flag = [
        (WRITE, "write"),
        (READ, "read"),
        (ADMIN, "admin"),
        (ADMIN | SAVE, "dangerous"),
        (FAST, "fast"),
        (BLOCKING, "blocking"),
    ];
    let names = by_flag.iter().filter(|(flag, _)| command.has(*flag)).map(|(_, name)| *name);
    category_set(names.chain((!command.has(FAST)).then_some("slow")))
}
