//! What a durable put writes to the disk, to a byte of key and value.

use std::fs;

use tembo_index::IndexKind;

use super::context::{Context, rotated};
use crate::Error;
use crate::finding::{Finding, Shape};
use crate::keys::Keys;
use crate::rival::{Brand, Medium};
use crate::sheet::{Labels, Sheet};
use crate::tuple::{Tuples, Verb};

pub(super) const TITLE: &str = "Bytes written to a disk";

/// Bytes that this process has had written, its background threads included.
fn written() -> Option<u64> {
    let text = fs::read_to_string("/proc/self/io").ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("write_bytes: "));
    line.and_then(|bytes| bytes.parse().ok())
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
                let before = written().ok_or(Error::Absent("/proc/self/io"))?;
                let plan = keys.shuffled(round.into());
                tuples.run(&mut *store.client()?, Verb::Put, &plan, name)?;
                // Closing writes what was put off.
                drop(store);
                let bytes = written().unwrap_or(before).saturating_sub(before);
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
    finding.sentence = format!(
        "Tembo writes {:.1} bytes for each of a record of 116, {:.1} for each of one of 2073.",
        of("16 B/100 B").map_or(0.0, |spread| spread.median),
        of("25 B/2048 B").map_or(0.0, |spread| spread.median)
    );
    finding.note("As the kernel counts them for this process (/proc/self/io), in whole pages; what the file system's journal adds is not in it. A put of its own syncs, so each writes at least a page of a log.");
    Ok(finding)
}
