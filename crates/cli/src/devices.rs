//! The devices of a pool, opened for a command.

use std::path::{Path, PathBuf};

use tembo_array::{Array, DeviceSnapshot};
use tembo_kv::{Options, Store};

use crate::exit::Exit;
use crate::store::{open_as_is, open_to_read};

/// Bytes of a pool that is made for an import: it grows.
const SIZE: u64 = 4 << 20;

/// The name of a snapshot, if one is asked for.
#[derive(Debug, clap::Args)]
pub(crate) struct Then {
    /// As it was in this snapshot
    #[arg(long, value_name = "NAME")]
    pub(crate) snapshot: Option<String>,
}

/// What many commands take.
#[derive(Debug, clap::Args)]
pub(crate) struct PoolArgs {
    /// The pool, which no other process holds
    pub(crate) pool: PathBuf,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// The devices of a pool, to be read. `None`: it has none.
pub(crate) fn to_read(pool: &Path) -> anyhow::Result<Option<Array>> {
    let store = open_to_read(pool)?;
    Ok(if Array::is_in(&store) { Some(Array::open(&store)?) } else { None })
}

/// The devices of a pool, to be changed.
pub(crate) fn to_write(pool: &Path) -> anyhow::Result<Array> {
    Ok(Array::open(&open_as_is(pool)?)?)
}

/// The devices of a pool, which is made if there is none.
pub(crate) fn made(pool: &Path) -> anyhow::Result<Array> {
    match pool.try_exists() {
        Ok(false) => Ok(Array::open(&Store::create(pool, &Options::new().size(SIZE))?)?),
        _ => to_write(pool),
    }
}

/// What a device shows now, or showed when a snapshot was named.
pub(crate) fn shown(
    array: &Array,
    name: &str,
    then: Option<&str>,
) -> anyhow::Result<DeviceSnapshot> {
    Ok(match then {
        // It may have been removed since.
        Some(then) => array.device_at_name(name, then)?,
        None => array.device(name)?.snapshot()?,
    })
}

/// The devices of a pool that is not changed, in which one of that name is looked for.
pub(crate) fn existing(pool: &Path, name: &str) -> anyhow::Result<Array> {
    match to_read(pool)? {
        Some(array) => Ok(array),
        None => Err(tembo_array::Error::NoSuchDevice { name: name.into() }.into()),
    }
}

/// Closes the pool: what was done is in its one file.
pub(crate) fn close(array: Array) -> anyhow::Result<Exit> {
    let store = array.store().clone();
    drop(array);
    store.sync()?;
    store.close()?;
    Ok(Exit::Done)
}
