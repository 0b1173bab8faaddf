//! `cargo xtask dax --bench`: the file system's library beside ext4 with DAX, on the same medium, in the guest.
//!
//! The guest is emulated: an instruction takes some nanoseconds, whatever it is, and a flush or a fence no more than another. So only
//! ratios say something, and they are those of what is executed.
//!
//! `tembo-lab bench` runs in the guest, with the medium as its folder in memory and as its disk: "ext4" in its tables is ext4 with DAX.
//! FUSE and a ram disk are not there, and are named as left out.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use anyhow::Context;

use super::guest::{self, EMULATED, Machine, Medium, Strength};
use super::initramfs::{self, Contents};
use super::kernel::Kernel;
use super::programs;

/// Bytes of the NVDIMM: what the experiments write, and pools that hold it.
const SIZE: u64 = 6 << 30;

/// How long all of it may take.
const PATIENCE: Duration = Duration::from_secs(3600);

const MODULES: [&str; 5] = ["nfit", "nd_pmem", "dax_pmem", "crc32c_generic", "ext4"];

/// Measures, and writes the tables below `folder`.
pub(super) fn run(root: &Path, folder: &Path, kernel: Kernel) -> anyhow::Result<()> {
    let lab = build(root)?;
    let contents = Contents {
        init: include_str!("bench_init.sh"),
        busybox: programs::busybox()?,
        programs: vec![
            (programs::installed("ndctl", "ndctl")?, "bin/ndctl".into()),
            (programs::installed("mkfs.ext4", "e2fsprogs")?, "bin/mkfs".into()),
            (lab, "bin/tembo-lab".into()),
        ],
        links: Vec::new(),
        modules: MODULES.map(str::to_owned).into(),
    };
    let initramfs = folder.join("bench-initramfs");
    initramfs::write(&initramfs, &kernel, &contents)?;
    // Of the host's memory, where there is a file system of it.
    let shared = Path::new("/dev/shm");
    let image = if shared.is_dir() { shared } else { folder };
    let image = image.join(format!("tembo-nvdimm.{}", std::process::id()));
    guest::new_image(&image, SIZE)?;
    let machine = Machine {
        kernel: kernel.image,
        initramfs,
        medium: Medium::Nvdimm { image: image.clone(), size: SIZE, eadr: false },
        filesystem: "ext4".into(),
        folder: folder.to_owned(),
        strength: Strength { memory: "4G", ..EMULATED },
    };
    let measured = measure(&machine);
    fs::remove_file(&image)?;
    let page = folder.join("bench.md");
    fs::write(&page, measured?).with_context(|| page.display().to_string())?;
    println!("{}", page.display());
    Ok(())
}

fn build(root: &Path) -> anyhow::Result<std::path::PathBuf> {
    let mut cargo = Command::new("cargo");
    cargo.args(["build", "--release", "--package", "tembo-lab"]).current_dir(root);
    crate::ci::step("dax: build", &mut cargo)?;
    let target = std::env::var_os("CARGO_TARGET_DIR");
    let target = target.map_or_else(|| root.join("target"), Into::into);
    Ok(std::path::absolute(target.join("release/tembo-lab"))?)
}

/// The lines of the page that the guest has written.
fn measure(machine: &Machine) -> anyhow::Result<String> {
    let guest = machine.boot("bench", "")?;
    let mut page = String::new();
    guest.wait_for("DONE", PATIENCE, &mut |line| match line.strip_prefix("PAGE") {
        Some(line) => {
            page.push_str(line.strip_prefix(' ').unwrap_or(line));
            page.push('\n');
        }
        None => println!("    {line}"),
    })?;
    Ok(page)
}
