//! `cargo xtask dax`: true persistent memory, as far as a machine without any can have it. A small
//! guest under qemu's software emulation has an NVDIMM that is a file of the host. In it lies a file
//! system with DAX, and on that a pool whose mapping is synchronous. The guest is killed under load
//! and booted again.
//!
//! This shows the mapping and the recovery. It cannot show a missing flush, for the host keeps every
//! store: that is the adversary's part (`docs/crash-testing.md`).
//!
//! `--bench`: the file system beside ext4 with DAX, measured in the guest.
//!
//! `--nbd`: the guest has an ordinary file system on a device that `tembo device serve` serves, and both are killed under load.

mod archive;
mod bench;
mod chance;
mod guest;
mod initramfs;
mod kernel;
mod nbd;
mod programs;
mod rounds;

use std::path::{Path, PathBuf};

use anyhow::{Context, bail};

use guest::{EMULATED, IMAGE_SIZE, Machine, Medium};
use initramfs::Contents;
use programs::Programs;
use rounds::Rounds;

const ROUNDS: u32 = 5;
/// What the NVDIMM needs of the kernel, beside the file system.
const MODULES: [&str; 4] = ["nfit", "nd_pmem", "dax_pmem", "crc32c_generic"];
const QEMU: &str = "qemu-system-x86_64";

/// What the words behind `dax` ask for.
#[derive(Clone, Debug)]
struct Wishes {
    rounds: u32,
    seed: u64,
    filesystem: String,
    /// The platform's caches survive too.
    eadr: bool,
    /// On a served device instead of an NVDIMM.
    nbd: bool,
    /// Measurements instead of kills.
    bench: bool,
}

/// Whether a guest can be booted here.
pub(crate) fn can_boot() -> bool {
    programs::installed(QEMU, "qemu-system-x86").is_ok() && programs::busybox().is_ok()
}

/// Builds the guest, tries the pool in it, kills it some times.
pub(crate) fn run(root: &Path, words: &[&str]) -> anyhow::Result<()> {
    let wishes = wishes(words)?;
    let target = std::env::var_os("CARGO_TARGET_DIR");
    let target = target.map_or_else(|| root.join("target"), PathBuf::from);
    let folder = std::path::absolute(target.join("dax"))?;
    std::fs::create_dir_all(&folder)?;
    programs::installed(QEMU, "qemu-system-x86")?;
    let kernel = kernel::find(&folder)?;
    if wishes.nbd {
        return nbd::run(root, &folder, kernel, wishes.rounds, wishes.seed);
    }
    if wishes.bench {
        return bench::run(root, &folder, kernel);
    }
    let programs = programs::build(root, &wishes.filesystem)?;
    let initramfs = folder.join("initramfs");
    initramfs::write(&initramfs, &kernel, &contents(programs, &wishes.filesystem))?;
    let image = folder.join("nvdimm");
    guest::new_image(&image, IMAGE_SIZE)?;
    let machine = Machine {
        kernel: kernel.image,
        initramfs,
        medium: Medium::Nvdimm { image, size: IMAGE_SIZE, eadr: wishes.eadr },
        filesystem: wishes.filesystem,
        folder,
        strength: EMULATED,
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

/// What the guest is made of.
fn contents(programs: Programs, filesystem: &str) -> Contents {
    let ours = [(programs.ndctl, "ndctl"), (programs.mkfs, "mkfs"), (programs.load, "load")];
    let ours = ours.map(|(from, name)| (from, format!("bin/{name}")));
    let tests = programs.tests.into_iter().map(|(name, file)| (file, format!("tests/{name}")));
    let place = programs.tembo.to_string_lossy().into_owned();
    let tembo = (programs.tembo, place.clone());
    Contents {
        init: include_str!("dax/init.sh"),
        busybox: programs.busybox,
        programs: ours.into_iter().chain(tests).chain([tembo]).collect(),
        links: vec![("bin/tembo", place)],
        modules: MODULES.iter().chain(&[filesystem]).map(|&name| name.to_owned()).collect(),
    }
}

fn wishes(words: &[&str]) -> anyhow::Result<Wishes> {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH)?;
    let mut wishes = Wishes {
        rounds: ROUNDS,
        seed: now.as_secs(),
        filesystem: "ext4".into(),
        eadr: false,
        nbd: false,
        bench: false,
    };
    let mut words = words.iter();
    while let Some(&word) = words.next() {
        let mut value = || words.next().with_context(|| format!("{word} wants a value"));
        match word {
            "--rounds" => wishes.rounds = value()?.parse().context("--rounds wants a number")?,
            "--seed" => wishes.seed = value()?.parse().context("--seed wants a number")?,
            "--fs" => wishes.filesystem = (*value()?).to_owned(),
            "--eadr" => wishes.eadr = true,
            "--nbd" => wishes.nbd = true,
            "--bench" => wishes.bench = true,
            _ => {
                bail!(
                    "`{word}`: dax knows --rounds N, --seed N, --fs ext4|xfs, --eadr, --nbd and --bench"
                )
            }
        }
    }
    if !["ext4", "xfs"].contains(&wishes.filesystem.as_str()) {
        bail!("`{}`: of the file systems with DAX, ext4 and xfs", wishes.filesystem);
    }
    if wishes.nbd && (wishes.eadr || wishes.filesystem != "ext4") {
        bail!("--nbd has ext4, and no persistent memory");
    }
    Ok(wishes)
}
