//! All commands, by family.

mod backup;
mod client;
mod command;
mod config;
mod connection;
mod counter;
mod expire;
mod generic;
mod info;
mod keys;
mod server;
mod set;
mod string;
mod transaction;

use crate::args::Args;
use crate::command::{Command, Context};
use crate::failure::{Failure, NOT_AN_INTEGER, Outcome};
use crate::number::parse_integer;
use crate::reply::Reply;

/// All commands, by family.
pub(crate) const FAMILIES: &[&[Command]] = &[
    backup::COMMANDS,
    client::COMMANDS,
    command::COMMANDS,
    config::COMMANDS,
    connection::COMMANDS,
    counter::COMMANDS,
    expire::COMMANDS,
    generic::COMMANDS,
    info::COMMANDS,
    keys::COMMANDS,
    server::COMMANDS,
    set::COMMANDS,
    string::COMMANDS,
    transaction::COMMANDS,
];

/// Never runs: a container without subcommand has the wrong number of arguments.
pub(crate) fn without_subcommand(_: &mut Context<'_, '_>, _: Args<'_>, _: &mut Reply) -> Outcome {
    Err("ERR missing subcommand".into())
}

/// An argument that is to be a number.
fn integer(text: &[u8]) -> Result<i64, Failure> {
    parse_integer(text).ok_or(NOT_AN_INTEGER.into())
}

/// An argument that is to be the number of a database.
fn database(context: &Context<'_, '_>, text: &[u8]) -> Result<usize, Failure> {
    let number = integer(text)?;
    if i32::try_from(number).is_err() {
        return Err(
            "ERR value is out of range, value must between -2147483648 and 2147483647".into()
        );
    }
    match usize::try_from(number) {
        Ok(db) if db < context.data.databases() => Ok(db),
        _ => Err("ERR DB index is out of range".into()),
    }
}

/// The reply of `CONTAINER HELP`.
fn help(reply: &mut Reply, container: &str, lines: &[&str]) {
    reply.array(lines.len() + 3);
    let first = format!("{container} <subcommand> [<arg> [value] [opt] ...]. Subcommands are:");
    reply.simple(&first);
    for line in lines {
        reply.simple(line);
    }
    reply.simple("HELP");
    reply.simple("    Prints this help.");
}
