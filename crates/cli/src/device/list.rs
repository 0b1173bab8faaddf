//! `tembo device list`, and what is said of a device.

use serde::Serialize;
use tembo_array::{Array, DeviceSnapshot};

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
    len: u64,
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
    let (names, lost) = match snapshot {
        Some(snapshot) => (array.devices_at_name(snapshot)?, Vec::new()),
        None => (array.devices()?, array.lost()?),
    };
    for name in names {
        if let Some((_, version)) = lost.iter().find(|(other, _)| *other == name) {
            list_lost(&array, (&name, *version), pool.json)?;
            continue;
        }
        let one = described(&shown(&array, &name, snapshot.as_deref())?)?;
        let (len, stored) = (Bytes(one.len).to_string(), Bytes(one.stored).to_string());
        print_line(pool.json, &one, &format!("{len:>10} {stored:>10} stored  {name}"))?;
    }
    Ok(Exit::Done)
}

/// A clone of a version that the pool does not have: the others are listed all the same.
fn list_lost(array: &Array, (name, lost): (&str, u64), json: bool) -> anyhow::Result<()> {
    let len = array.device(name)?.len()?;
    let text = Bytes(len).to_string();
    let text =
        format!("{text:>10} {:>10} {name}: a clone of version {lost}, which is not here", "lost");
    print_line(json, &Lost { name, len, lost }, &text)
}
