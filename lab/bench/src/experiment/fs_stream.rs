//! Large files: written from front to end, and read from the kernel's cache.

use super::context::Context;
use super::fs_contenders::{ALL, LIBRARY, MOUNT, MOUNT_DISK, each, faster, timed};
use crate::Error;
use crate::file_system::System;
use crate::finding::{Finding, Shape};
use crate::keys::Random;
use crate::sheet::{Labels, Sheet};

pub(super) const TITLE: &str = "A large file: written from front to end, and read from caches";

const PIECE: usize = 1 << 20;
const READ: usize = 128 << 10;
const PAGE: usize = 4096;

const WRITE: &str = "write, then fsync";
const READ_ALL: &str = "cached read, 128 KiB";
const READ_PAGES: &str = "cached read, 4 KiB at random";

pub(super) fn run(context: &mut Context<'_>) -> Result<Finding, Error> {
    let mut finding = Finding::new("durablefs-stream", TITLE, "Tembo's own");
    let size: u64 = context.extent(2 << 20, 128 << 20, 1 << 30);
    let reads = context.extent(100, 50_000, 500_000);
    let mut sheet = Sheet::default();
    each(context, &mut finding, &ALL, |context, opened, system| {
        let (files, name) = (opened.files()?, system.name());
        let took = timed(|| {
            files.fill("large", size, PIECE)?;
            files.open("large")?.sync()
        })?;
        let rate = |bytes: u64, seconds: f64| bytes as f64 / seconds / 1e6;
        sheet.push(name, WRITE, rate(size, took.as_secs_f64()));
        let mut to = vec![0; READ];
        // The first time fills the caches.
        files.read_all("large", &mut to)?;
        let mut read = 0;
        let took = timed(|| {
            read = files.read_all("large", &mut to)?;
            Ok(())
        })?;
        check(name, size, read)?;
        sheet.push(name, READ_ALL, rate(size, took.as_secs_f64()));
        let (file, mut random) = (files.open("large")?, Random::new(context.seed()));
        let (mut page, mut right) = ([0; PAGE], 0);
        let took = timed(|| {
            for _ in 0..reads {
                let offset = random.below(size / PAGE as u64) * PAGE as u64;
                let len = file.read_at(&mut page, offset)?;
                right += u64::from(len == PAGE && page[0] == 0x5a);
            }
            Ok(())
        })?;
        check(name, reads, right)?;
        sheet.push(name, READ_PAGES, rate(reads * PAGE as u64, took.as_secs_f64()));
        Ok(())
    })?;
    let labels = Labels { title: "One thread", x: "", y: "MB a second" };
    finding.charts.push(sheet.chart(Shape::LogBars, labels));
    faster(&mut finding, &sheet, (MOUNT_DISK, System::PassThrough), WRITE, "aim: at least 0.8");
    faster(&mut finding, &sheet, (MOUNT_DISK, System::Disk), WRITE, "");
    faster(&mut finding, &sheet, (MOUNT, System::RamDisk), WRITE, "");
    faster(&mut finding, &sheet, (LIBRARY, System::RamDisk), WRITE, "");
    for at in [READ_ALL, READ_PAGES] {
        faster(&mut finding, &sheet, (MOUNT_DISK, System::Disk), at, "aim: about 1");
    }
    let to = |rival: System, at: &str| {
        let ratio = sheet.ratio(MOUNT_DISK.name(), rival.name(), at);
        ratio.map_or("–".into(), |ratio| format!("{:.2}", ratio.median))
    };
    finding.sentence = format!(
        "A mount on the disk writes {} times as fast as bindfs and {} times as fast as ext4; from the kernel's cache it reads {} times as fast as ext4 in pieces of 128 KiB and {} times in pages.",
        to(System::PassThrough, WRITE),
        to(System::Disk, WRITE),
        to(System::Disk, READ_ALL),
        to(System::Disk, READ_PAGES)
    );
    finding.note("Reads of the library go to the pool each time: it has no cache of its own, and needs none.");
    Ok(finding)
}

fn check(contender: &'static str, expected: u64, found: u64) -> Result<(), Error> {
    if expected == found {
        return Ok(());
    }
    Err(Error::Wrong { contender, operation: "a read", expected, found })
}
