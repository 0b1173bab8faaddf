//! What a durable put writes to the disk, to a byte of key and value.

use std::fs::File;
use std::io;
use std::path::Path;

use tembo_index::IndexKind;

use super::context::{Context, rotated};
use crate::Error;
use crate::disk::Traffic;
use crate::finding::{Finding, Shape};
use crate::keys::Keys;
use crate::rival::{Brand, Medium};
use crate::sheet::{Labels, Sheet};
use crate::tuple::{Tuples, Verb};

pub(super) const TITLE: &str = "Bytes written to a disk";

/// Bytes that the disk below a folder has been given, with what was still in memory of its file system.
fn written(folder: &Path) -> Result<u64, Error> {
    rustix::fs::syncfs(File::open(folder)?).map_err(io::Error::from)?;
    let disk = Traffic::of_disk(folder).ok_or(Error::Absent("no block device below the folder"))?;
    Ok(disk.written)
}

pub(super) fn run(context: &mut Context<'_>) -> Result<Finding, Error> {
    let mut finding = Finding::new("amplification", TITLE, "Today's rivals");
    let keys = Keys { count: context.pick(500, 20_000), seed: context.seed() };
    let mut sheet = Sheet::default();
    for (key_size, value_size) in [(16, 100), (25, 2048)] {
        let tuples = Tuples { keys, key_size, value_size };
        for round in 0..context.rounds().min(3) {
            for brand in rotated(&Brand::EMBEDDED, round) {
                let name = brand.name();
                context.trial(&format!("{value_size} B, round {}: {name}", round + 1))?;
                let folder = context.folder(Medium::Disk)?;
                let place = context.place(folder.path(), Medium::Disk);
                let Some(store) = brand.open(place)? else { continue };
                let before = written(folder.path())?;
                let plan = keys.shuffled(round.into());
                tuples.run(&mut *store.client()?, Verb::Put, &plan, name)?;
                // Closing writes what was put off, and what the system still holds is synced.
                drop(store);
                let bytes = written(folder.path())?.saturating_sub(before);
                let user = keys.count * (key_size + value_size) as u64;
                sheet.push(
                    name,
                    format!("{key_size} B/{value_size} B"),
                    bytes as f64 / user as f64,
                );
            }
        }
    }
    let labels = Labels {
        title: "Puts into an empty store, each durable, then its end",
        x: "key/value",
        y: "bytes written to a byte of key and value",
    };
    finding.charts.push(sheet.chart(Shape::LogBars, labels));
    let of = |value: &str| sheet.spread(Brand::Tembo(IndexKind::Nvtree).name(), value);
    let least = |value: &str| {
        let of = |brand: &Brand| Some((sheet.spread(brand.name(), value)?.median, brand.name()));
        let all = Brand::EMBEDDED.iter().filter_map(of);
        let least = all.min_by(|a, b| a.0.total_cmp(&b.0));
        least.map_or("none".into(), |(bytes, name)| format!("{bytes:.1} ({name})"))
    };
    finding.sentence = format!(
        "Tembo writes {:.1} bytes for each byte of a record of 116, {:.1} for each of one of 2073; least are {} and {}.",
        of("16 B/100 B").map_or(0.0, |spread| spread.median),
        of("25 B/2048 B").map_or(0.0, |spread| spread.median),
        least("16 B/100 B"),
        least("25 B/2048 B")
    );
    finding.note("Sectors that the disk is given (`/sys/dev/block`), from before the first put until all is synced: the file system's journal is in it, and so is what else the machine writes meanwhile. The count of a process (`/proc/self/io`) is of no use here: it takes a folio of the page cache, of up to 256 KiB, for written as a whole where the disk is given one page of it. A put of its own syncs, so each writes at least a page of a log, and one of the journal where the file grew.");
    Ok(finding)
}
