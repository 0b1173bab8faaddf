//! Records through every embedded store: put, get, overwrite, delete, and how long single puts take.

use tembo_index::IndexKind;

use super::context::{Context, rotated};
use crate::Error;
use crate::finding::{Finding, Shape};
use crate::keys::Keys;
use crate::rival::{Brand, Medium};
use crate::sheet::{Labels, Sheet};
use crate::tuple::{Tuples, Verb, kops};

pub(super) const TITLE: &str = "Embedded stores in memory, each operation durable";
pub(super) const TITLE_DISK: &str = "Embedded stores on a disk, each operation durable";
pub(super) const TITLE_LATENCY: &str = "How long a durable put takes";

const TEMBO: Brand = Brand::Tembo(IndexKind::Nvtree);

/// Bytes of keys and values.
const SIZES: [(usize, usize); 2] = [(25, 2048), (16, 100)];

pub(super) fn micro(context: &mut Context<'_>) -> Result<Finding, Error> {
    let count = context.pick(10_000, 200_000);
    let mut finding = measured(context, "micro", TITLE, Medium::Memory, count)?;
    finding.note(
        "On a tmpfs the fsync of the others is a system call that does nothing; Tembo flushes every \
         line that it promises. A cell is empty where a library is not in this build.",
    );
    Ok(finding)
}

pub(super) fn micro_disk(context: &mut Context<'_>) -> Result<Finding, Error> {
    let count = context.pick(300, 5_000);
    measured(context, "micro-disk", TITLE_DISK, Medium::Disk, count)
}

fn measured(
    context: &mut Context<'_>,
    name: &str,
    title: &str,
    medium: Medium,
    count: u64,
) -> Result<Finding, Error> {
    let mut finding = Finding::new(name, title, "Today's rivals");
    for (key_size, value_size) in SIZES {
        let keys = Keys { count, seed: context.seed() };
        let sheet = sheet(context, medium, Tuples { keys, key_size, value_size })?;
        let size = format!("{key_size} B/{value_size} B");
        for verb in Verb::ALL {
            for brand in Brand::EMBEDDED.into_iter().skip(2) {
                let ratio = sheet.ratio(TEMBO.name(), brand.name(), verb.name());
                let place = if medium == Medium::Memory { "in memory" } else { "on disk" };
                finding.duel(&format!("{} {size}, {place}", verb.name()), brand.name(), ratio);
            }
        }
        let labels = Labels { title: "", x: "operation", y: "thousand operations a second" };
        let mut chart = sheet.chart(Shape::LogBars, labels);
        chart.title = format!("{title}: {size}, {count} records");
        finding.charts.push(chart);
    }
    let lost = finding.duels.iter().filter(|duel| duel.ratio.median < 1.0).count();
    finding.sentence = match (finding.duels.len(), lost) {
        (0, _) => "No rival is in this build: build with --features rivals,rivals-debian.".into(),
        (all, 0) => format!("Tembo is faster in all {all} comparisons."),
        (all, lost) => {
            format!("Tembo is slower in {lost} of {all} comparisons, faster in the others.")
        }
    };
    Ok(finding)
}

/// Thousand operations a second.
fn sheet(context: &mut Context<'_>, medium: Medium, tuples: Tuples) -> Result<Sheet, Error> {
    let mut sheet = Sheet::default();
    for round in 0..context.rounds() {
        for brand in rotated(&Brand::EMBEDDED, round) {
            context.trial(&format!(
                "{} B, round {}: {}",
                tuples.value_size,
                round + 1,
                brand.name()
            ))?;
            let folder = context.folder(medium)?;
            let Some(store) = brand.open(context.place(folder.path(), medium))? else { continue };
            let mut client = store.client()?;
            for verb in Verb::ALL {
                let plan = tuples.keys.shuffled(u64::from(round) << 8 | verb as u64);
                let elapsed = tuples.run(&mut *client, verb, &plan, brand.name())?;
                sheet.push(brand.name(), verb.name(), kops(plan.len() as u64, elapsed));
            }
        }
    }
    Ok(sheet)
}

pub(super) fn latency(context: &mut Context<'_>) -> Result<Finding, Error> {
    let mut finding = Finding::new("latency", TITLE_LATENCY, "Today's rivals");
    for (medium, place, count) in [
        (Medium::Memory, "in memory", context.pick(10_000, 100_000)),
        (Medium::Disk, "on disk", context.pick(300, 5_000)),
    ] {
        let mut sheet = Sheet::default();
        let keys = Keys { count, seed: context.seed() };
        let tuples = Tuples { keys, key_size: 16, value_size: 100 };
        for round in 0..context.rounds() {
            for brand in rotated(&Brand::EMBEDDED, round) {
                context.trial(&format!("{place}, round {}: {}", round + 1, brand.name()))?;
                let folder = context.folder(medium)?;
                let Some(store) = brand.open(context.place(folder.path(), medium))? else {
                    continue;
                };
                let plan = keys.shuffled(round.into());
                let histogram = tuples.timed_puts(&mut *store.client()?, &plan)?;
                for (name, quantile) in
                    [("50 %", 0.5), ("99 %", 0.99), ("99.9 %", 0.999), ("all", 1.0)]
                {
                    let microseconds = histogram.value_at_quantile(quantile) as f64 / 1e3;
                    sheet.push(brand.name(), name, microseconds);
                }
            }
        }
        let labels = Labels { title: "", x: "so many puts take no longer", y: "µs" };
        let mut chart = sheet.chart(Shape::LogBars, labels);
        chart.title = format!("Single puts of 16 B/100 B, {place}, {count} records");
        finding.charts.push(chart);
        if let Some(tail) = sheet.spread(TEMBO.name(), "99.9 %") {
            finding.sentence += &format!(
                "{place}: 99.9 % of Tembo's puts take no longer than {:.1} µs. ",
                tail.median
            );
        }
    }
    Ok(finding)
}
