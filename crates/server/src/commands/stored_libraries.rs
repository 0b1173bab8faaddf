//! The libraries of functions in the store.

use crate::access::Access;
use crate::command::Context;
use crate::commands::script_run::is_command;
use crate::failure::{Failure, Outcome};
use crate::libraries::{ByName, add};

/// Loads the libraries of the store, if they are not loaded. A replica looks whether its primary has changed them.
pub(super) fn load_stored(context: &mut Context<'_, '_>) -> Result<(), Failure> {
    let is_replica = context.data.access() == Access::Replica;
    let libraries = &mut context.shared.scripts.libraries;
    if libraries.are_loaded() && !is_replica && !libraries.are_of_replica {
        return Ok(());
    }
    let mut codes = Vec::new();
    if let Some(space) = context.data.spaces.libraries {
        for entry in context.data.transaction()?.range::<[u8]>(space, ..)? {
            let (_, code) = entry?;
            codes.push(code.to_vec());
        }
    }
    if libraries.codes() != codes.iter().collect::<Vec<_>>() {
        libraries.forget();
    }
    libraries.are_of_replica = is_replica;
    if libraries.are_loaded() {
        return Ok(());
    }
    let (engine, libraries) = libraries.loaded(is_command)?;
    for code in codes {
        // It was loaded before it was stored. If this version of the server refuses it, it is not there, but stored.
        let _ = add(engine, libraries, &code, true);
    }
    Ok(())
}

/// Writes to the store what differs between two sets of libraries: all of it or nothing.
pub(super) fn store(context: &mut Context<'_, '_>, before: &ByName) -> Outcome {
    let (_, after) = context.shared.scripts.libraries.loaded(is_command)?;
    let space = context.data.spaces.libraries.ok_or(tembo_kv::Error::ReadOnly)?;
    let stored = context.data.all_or_nothing(|data| {
        let transaction = data.transaction()?;
        for (name, library) in &*after {
            if before.get(name).is_none_or(|old| old.code != library.code) {
                transaction.put(space, name, &library.code)?;
            }
        }
        for name in before.keys().filter(|name| !after.contains_key(*name)) {
            transaction.remove(space, name)?;
        }
        Ok(())
    });
    if stored.is_err() {
        after.clone_from(before);
    }
    context.shared.scripts.libraries.has_changed = true;
    stored
}
