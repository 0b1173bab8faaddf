//! FUNCTION DUMP and FUNCTION RESTORE: all libraries in Redis's RDB format.

use std::collections::BTreeMap;

use crate::args::Args;
use crate::command::Context;
use crate::commands::script_run::is_command;
use crate::commands::stored_libraries::{load_stored, store};
use crate::effects::send_as;
use crate::failure::{Failure, Outcome};
use crate::libraries::{ByName, add, collision};
use crate::lua::Engine;
use crate::rdb::{self, Reader, Writer, read_library};
use crate::reply::Reply;

/// What becomes of the libraries that are there.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Policy {
    /// They stay, and none may be given again.
    Append,
    /// They stay, but for those that are given again.
    Replace,
    /// They are removed.
    Flush,
}

pub(super) fn dump(context: &mut Context<'_, '_>, _: Args<'_>, reply: &mut Reply) -> Outcome {
    load_stored(context)?;
    let (_, libraries) = context.shared.scripts.libraries.loaded(is_command)?;
    let mut writer = Writer::default();
    libraries.values().for_each(|found| writer.function_library(&found.code));
    let mut dump = writer.into_bytes();
    rdb::seal(&mut dump);
    reply.bulk(&dump);
    Ok(())
}

pub(super) fn restore(context: &mut Context<'_, '_>, args: Args<'_>, reply: &mut Reply) -> Outcome {
    if args.count() > 4 {
        let name = String::from_utf8_lossy(args.at(1));
        return Err(format!(
            "ERR unknown subcommand or wrong number of arguments for '{name}'. Try FUNCTION HELP."
        )
        .into());
    }
    let policy = policy(args)?;
    if context.shared.scripts.running.is_some() {
        return Err("ERR a script is running".into());
    }
    let payload =
        rdb::unseal(args.at(2)).ok_or("ERR DUMP payload version or checksum are wrong")?;
    load_stored(context)?;
    let (engine, libraries) = context.shared.scripts.libraries.loaded(is_command)?;
    let given = read(engine, payload)?;
    let joined = match policy {
        Policy::Flush => given,
        _ => join(libraries.clone(), given, policy == Policy::Replace)?,
    };
    let before = std::mem::replace(libraries, joined);
    store(context, &before)?;
    if !rdb::is_of_our_version(args.at(2)) {
        // Redis 7.0 reads what stands in it, but looks at the version first.
        let mut sealed = payload.to_vec();
        rdb::seal(&mut sealed);
        let words = [args.at(0), args.at(1), &sealed].into_iter().chain(args.from(3));
        send_as(context, &words.collect::<Vec<_>>());
    }
    reply.ok();
    Ok(())
}

fn policy(args: Args<'_>) -> Result<Policy, Failure> {
    if args.count() < 4 || args.is(3, "APPEND") {
        Ok(Policy::Append)
    } else if args.is(3, "REPLACE") {
        Ok(Policy::Replace)
    } else if args.is(3, "FLUSH") {
        Ok(Policy::Flush)
    } else {
        Err("ERR Wrong restore policy given, value should be either FLUSH, APPEND or REPLACE."
            .into())
    }
}

/// The libraries of a payload, loaded.
fn read(engine: &Engine, mut payload: &[u8]) -> Result<ByName, Failure> {
    let mut libraries = BTreeMap::new();
    while !payload.is_empty() {
        let code = read_library(&mut Reader::new(&mut payload));
        let code = code.map_err(|_| "ERR failed loading the given functions payload")?;
        let code = code.ok_or("ERR given type is not a function")?;
        add(engine, &mut libraries, &code, false)?;
    }
    Ok(libraries)
}

/// These libraries and the given ones.
fn join(mut libraries: ByName, given: ByName, replaces: bool) -> Result<ByName, Failure> {
    for name in given.keys() {
        if libraries.remove(name).is_some() && !replaces {
            let name = String::from_utf8_lossy(name);
            return Err(format!("ERR Library {name} already exists").into());
        }
    }
    for (name, library) in &given {
        if let Some(function) = collision(&libraries, name, library) {
            return Err(format!("ERR Function {function} already exists").into());
        }
    }
    libraries.extend(given);
    Ok(libraries)
}
