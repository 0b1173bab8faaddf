//! `cargo xtask dax`: true persistent memory, as far as a machine without any can have it. A small
//! guest under qemu's software emulation has an NVDIMM that is a file of the host. In it lies a file
//! system with DAX, and on that a pool whose mapping is synchronous. The guest is killed under load
//! and booted again.
//!
//! This shows the mapping and the recovery. It cannot show a missing flush, for the host keeps every
//! store: that is the adversary's part (`docs/crash-testing.md`).

mod archive;
mod guest;
mod initramfs;
mod kernel;
mod programs;
mod rounds;

use std::path::{Path, PathBuf};

use anyhow::{Context, bail};

use guest::Machine;
use rounds::Rounds;

const ROUNDS: u32 = 5;

/// What the words behind `dax` ask for.
#[derive(Clone, Debug)]
struct Wishes {
    rounds: u32,
    seed: u64,
    filesystem: String,
    /// The platform's caches survive too.
    eadr: bool,
}

/// Builds the guest, tries the pool in it, kills it some times.
pub(crate) fn run(root: &Path, words: &[&str]) -> anyhow::Result<()> {
    let wishes = wishes(words)?;
    let target = std::env::var_os("CARGO_TARGET_DIR");
    let target = target.map_or_else(|| root.join("target"), PathBuf::from);
    let folder = std::path::absolute(target.join("dax"))?;
    std::fs::create_dir_all(&folder)?;
    programs::installed("qemu-system-x86_64", "qemu-system-x86")?;
    let kernel = kernel::find(&folder)?;
    let programs = programs::build(root, &wishes.filesystem)?;
    let initramfs = folder.join("initramfs");
    initramfs::write(&initramfs, &kernel, &programs, &wishes.filesystem)?;
    let image = folder.join("nvdimm");
    guest::new_image(&image)?;
    let machine = Machine {
        kernel: kernel.image,
        initramfs,
        image,
        eadr: wishes.eadr,
        filesystem: wishes.filesystem,
        folder,
    };
    let domain = if wishes.eadr { "eadr" } else { "flush" };
    println!("==> dax: the pool on the medium, and the tests on it");
    rounds::try_medium(&machine, domain)?;
    println!("==> dax: {} rounds from seed {}", wishes.rounds, wishes.seed);
    let mut rounds = Rounds::new(&machine, wishes.seed);
    for number in 1..=wishes.rounds {
        rounds.round(number)?;
    }
    rounds.finish()
}

fn wishes(words: &[&str]) -> anyhow::Result<Wishes> {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH)?;
    let mut wishes =
        Wishes { rounds: ROUNDS, seed: now.as_secs(), filesystem: "ext4".into(), eadr: false };
    let mut words = words.iter();
    while let Some(&word) = words.next() {
        let mut value = || words.next().with_context(|| format!("{word} wants a value"));
        match word {
            "--rounds" => wishes.rounds = value()?.parse().context("--rounds wants a number")?,
            "--seed" => wishes.seed = value()?.parse().context("--seed wants a number")?,
            "--fs" => wishes.filesystem = (*value()?).to_owned(),
            "--eadr" => wishes.eadr = true,
            _ => bail!("`{word}`: dax knows --rounds N, --seed N, --fs ext4|xfs and --eadr"),
        }
    }
    if !["ext4", "xfs"].contains(&wishes.filesystem.as_str()) {
        bail!("`{}`: of the file systems with DAX, ext4 and xfs", wishes.filesystem);
    }
    Ok(wishes)
}
