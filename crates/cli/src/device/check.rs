//! `tembo device check`.

use serde::Serialize;

use crate::bytes::Bytes;
use crate::devices::{PoolArgs, to_read};
use crate::exit::Exit;
use crate::output::{Lines, print};

#[derive(Default, Serialize)]
struct Checked {
    pool: String,
    devices: u64,
    blocks: u64,
    /// Blocks that belong to no device.
    stray: u64,
    /// Bytes that are taken, and unreachable.
    leaked: u64,
    /// Clones that cannot be read, and the version of which each is.
    lost: Vec<(String, u64)>,
}

pub(super) fn run(args: &PoolArgs) -> anyhow::Result<Exit> {
    let mut found = Checked { pool: args.pool.display().to_string(), ..Checked::default() };
    if let Some(array) = to_read(&args.pool)? {
        let check = array.check()?;
        (found.devices, found.blocks, found.stray) = (check.devices, check.blocks, check.stray);
        found.leaked = array.store().check()?.account.leaked;
        found.lost = array.lost()?;
    }
    let mut lines = Lines::default();
    lines.add("pool", &found.pool);
    lines.add("devices", found.devices);
    lines.add("blocks", found.blocks);
    lines.add("stray blocks", found.stray);
    lines.add("leaked", Bytes(found.leaked));
    for (name, version) in &found.lost {
        let what = "is not in this pool: copy it from where it was made, and remove it here";
        lines.add("lost clone", format_args!("{name}: version {version} {what}"));
    }
    print(args.json, &found, &lines)?;
    let is_sound = found.stray + found.leaked == 0 && found.lost.is_empty();
    Ok(if is_sound { Exit::Done } else { Exit::CheckFailed })
}
