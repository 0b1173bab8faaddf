//! DurableFS, table 3.3 and figure 3.7: one write by its size, with and without a flush.

use std::time::Instant;

use super::context::Context;
use super::fs_contenders::{ALL, LIBRARY, LIBRARY_DISK, MOUNT_DISK, each};
use crate::Error;
use crate::file_system::{Open, System};
use crate::finding::{Finding, Shape, percent_more, times};
use crate::sheet::{Labels, Sheet};
use crate::spread::Spread;

pub(super) const TITLE: &str = "One write by its size, with and without a flush";

const LARGEST: usize = 1 << 20;

pub(super) fn run(context: &mut Context<'_>) -> Result<Finding, Error> {
    let mut finding = Finding::new("durablefs-3.3", TITLE, "DurableFS, table 3.3 and figure 3.7");
    let step = context.extent(14, 2, 1);
    let sizes: Vec<usize> = (6..=20).step_by(step).map(|bits| 1 << bits).collect();
    let runs = context.extent(3, 20, 100);
    let (mut written, mut flushed) = (Sheet::default(), Sheet::default());
    let systems = [&ALL[..], &[System::LibraryVolatile]].concat();
    each(context, &mut finding, &systems, |_, opened, system| {
        let file = opened.files()?.create("written")?;
        file.write_at(&vec![1; LARGEST], 0)?;
        file.sync()?;
        for &size in &sizes {
            written.push(system.name(), label(size), median_us(&*file, size, runs, false)?);
            file.sync()?;
            flushed.push(system.name(), label(size), median_us(&*file, size, runs, true)?);
        }
        Ok(())
    })?;
    let (x, y) = ("bytes of a write", "µs, the median of a round");
    let labels = Labels { title: "write", x, y };
    finding.charts.push(written.chart(Shape::LogLines, labels));
    let labels = Labels { title: "write and fsync", x, y };
    finding.charts.push(flushed.chart(Shape::LogLines, labels));
    let volatile = System::LibraryVolatile.name();
    for (size, document) in [(64, "+2.3 %"), (LARGEST, "+7.0 %")] {
        let at = label(size);
        let more = flushed.ratio(LIBRARY.name(), volatile, &at);
        let what = format!("{at}: what durability costs, {}", LIBRARY.name());
        finding.claim(&what, document, percent_more(more));
    }
    for (size, aim) in [(64, "aim: at least 5"), (4096, "aim: at least 5")] {
        let (at, rival) = (label(size), System::RamDisk.name());
        // Of times: the rival's stands above.
        let ratio = flushed.ratio(rival, LIBRARY.name(), &at);
        finding.claim(&format!("{at} and fsync: {} to {rival}", LIBRARY.name()), aim, times(ratio));
        finding.duel(&format!("write of {at} and fsync, in memory"), rival, ratio);
        let rival = System::Disk.name();
        let ratio = flushed.ratio(rival, MOUNT_DISK.name(), &at);
        let what = format!("{at} and fsync: {} to {rival}", MOUNT_DISK.name());
        finding.claim(&what, "aim: at least 1", times(ratio));
        finding.duel(&format!("write of {at} and fsync, by FUSE"), rival, ratio);
    }
    finding.sentence = sentence(&flushed);
    finding.note("The document counts cycles of a write within its kernel module; here are microseconds of the calls of a program. Its 20 cycles for the flushes of 64 B are of flushes that nothing waits for; a commit here waits for its fences. The same place of a file of 1 MiB is written over.");
    Ok(finding)
}

/// What a small and a large write cost with an fsync.
fn sentence(flushed: &Sheet) -> String {
    let cost = |size: usize| {
        let us = |system: System| {
            let spread = flushed.spread(system.name(), label(size));
            spread.map_or("–".into(), |spread| {
                format!("{:.*}", usize::from(spread.median < 10.0), spread.median)
            })
        };
        format!(
            "{} and fsync take {} µs by the library in memory and {} by ext4 on a ram disk; {} by the library on the disk, {} by a mount and {} by ext4 there",
            label(size),
            us(LIBRARY),
            us(System::RamDisk),
            us(LIBRARY_DISK),
            us(MOUNT_DISK),
            us(System::Disk)
        )
    };
    format!("{}. {}.", cost(64), cost(LARGEST))
}

/// Bytes with their unit.
fn label(size: usize) -> String {
    match size {
        ..1024 => format!("{size} B"),
        1024..0x10_0000 => format!("{} KiB", size >> 10),
        _ => format!("{} MiB", size >> 20),
    }
}

fn median_us(file: &dyn Open, size: usize, runs: u8, syncs: bool) -> Result<f64, Error> {
    let mut took = Vec::new();
    for run in 0..runs {
        let bytes = vec![run; size];
        let begin = Instant::now();
        file.write_at(&bytes, 0)?;
        if syncs {
            file.sync()?;
        }
        took.push(begin.elapsed().as_secs_f64() * 1e6);
    }
    Ok(Spread::of(took).unwrap_or_default().median)
}
