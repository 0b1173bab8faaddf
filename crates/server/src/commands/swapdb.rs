//! SWAPDB: two databases are exchanged, for all clients at once.

use crate::args::Args;
use crate::command::{Command, Context, FAST, WRITE};
use crate::failure::{Failure, Outcome};
use crate::number::parse_integer;
use crate::reply::Reply;

/// The family.
pub(super) const COMMANDS: &[Command] = &[Command::new("swapdb", 3, WRITE | FAST, swapdb)];

fn swapdb(context: &mut Context<'_, '_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    let a = index(args.at(1), "ERR invalid first DB index")?;
    let b = index(args.at(2), "ERR invalid second DB index")?;
    let databases = context.data.databases();
    let is_there = |index: i32| usize::try_from(index).ok().filter(|&db| db < databases);
    let (Some(a), Some(b)) = (is_there(a), is_there(b)) else {
        return Err("ERR DB index is out of range".into());
    };
    if a != b {
        context.data.swap_databases(a, b)?;
    }
    reply.ok();
    Ok(())
}

fn index(text: &[u8], refusal: &'static str) -> Result<i32, Failure> {
    let index = parse_integer(text).and_then(|index| i32::try_from(index).ok());
    index.ok_or(refusal.into())
}
