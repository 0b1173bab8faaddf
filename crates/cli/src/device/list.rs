//! `tembo device list`, and what is said of a device.

use serde::Serialize;
use tembo_array::{DeviceSnapshot, Error};

use crate::bytes::Bytes;
use crate::devices::{PoolArgs, Then, shown, to_read};
use crate::exit::Exit;
use crate::output::print_line;

#[derive(Debug, clap::Args)]
pub(super) struct Args {
    #[command(flatten)]
    pool: PoolArgs,
    #[command(flatten)]
    then: Then,
}

/// A device, described.
#[derive(Serialize)]
pub(super) struct Described {
    pub(super) name: String,
    pub(super) len: u64,
    pub(super) block_size: u64,
    /// Bytes in blocks that are stored, those of what it was cloned from included.
    pub(super) stored: u64,
    pub(super) grows: bool,
    pub(super) is_clone: bool,
    pub(super) version: u64,
}

/// A clone that cannot be read.
#[derive(Serialize)]
struct Lost<'n> {
    name: &'n str,
    /// That of today; of one in a snapshot it is not said.
    #[serde(skip_serializing_if = "Option::is_none")]
    len: Option<u64>,
    /// The version of which it is, and which the pool does not have.
    lost: u64,
}

pub(super) fn described(shown: &DeviceSnapshot) -> anyhow::Result<Described> {
    Ok(Described {
        name: shown.name().to_owned(),
        len: shown.len(),
        block_size: shown.block_size() as u64,
        stored: shown.stored()?.iter().map(|range| range.end - range.start).sum(),
        grows: shown.grows(),
        is_clone: shown.is_clone(),
        version: shown.version(),
    })
}

pub(super) fn run(args: &Args) -> anyhow::Result<Exit> {
    let Args { pool, then: Then { snapshot } } = args;
    let Some(array) = to_read(&pool.pool)? else { return Ok(Exit::Done) };
    let names = match snapshot {
        Some(snapshot) => array.devices_at_name(snapshot)?,
        None => array.devices()?,
    };
    for name in names {
        match shown(&array, &name, snapshot.as_deref()) {
            Ok(shown) => list_one(&described(&shown)?, pool.json)?,
            // The others are listed all the same.
            Err(error) => {
                let lost = lost_version(error)?;
                let len = match snapshot {
                    Some(_) => None,
                    None => Some(array.device(&name)?.len()?),
                };
                list_lost(&Lost { name: &name, len, lost }, pool.json)?;
            }
        }
    }
    Ok(Exit::Done)
}

fn list_one(one: &Described, json: bool) -> anyhow::Result<()> {
    let (len, stored) = (Bytes(one.len).to_string(), Bytes(one.stored).to_string());
    print_line(json, one, &format!("{len:>10} {stored:>10} stored  {}", one.name))
}

/// The version that a clone cannot be read without; another error is given back.
fn lost_version(error: anyhow::Error) -> anyhow::Result<u64> {
    match error.downcast_ref() {
        Some(Error::OriginLost { version, .. }) => Ok(*version),
        _ => Err(error),
    }
}

fn list_lost(one: &Lost<'_>, json: bool) -> anyhow::Result<()> {
    let Lost { name, len, lost } = one;
    let len = len.map_or_else(String::new, |len| Bytes(len).to_string());
    let text =
        format!("{len:>10} {:>10} {name}: a clone of version {lost}, which is not here", "lost");
    print_line(json, one, &text)
}
