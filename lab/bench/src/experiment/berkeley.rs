//! Thesis, section 5.3: the CDDS B-Tree against Berkeley DB's.

use tembo_index::IndexKind;

use super::context::{Context, rotated};
use crate::Error;
use crate::finding::{Finding, Shape, percent_more};
use crate::keys::Keys;
use crate::rival::{Brand, Medium};
use crate::sheet::{Labels, Sheet};
use crate::tuple::{Tuples, Verb, kops};

pub(super) const TITLE: &str = "CDDS against Berkeley DB, durable and volatile";

const CDDS: Brand = Brand::Tembo(IndexKind::Cdds);
const NVTREE: Brand = Brand::Tembo(IndexKind::Nvtree);

const BRANDS: [Brand; 5] =
    [CDDS, NVTREE, Brand::TemboVolatile, Brand::Berkeley, Brand::BerkeleyVolatile];

/// Insert, fetch and delete, as the thesis does; there it is a million of 25 and 2048 bytes too.
const VERBS: [Verb; 3] = [Verb::Put, Verb::Get, Verb::Delete];

pub(super) fn run(context: &mut Context<'_>) -> Result<Finding, Error> {
    let mut finding = Finding::new("cdds-5.3", TITLE, "Thesis 5.3, FAST 2011 figure 7");
    let keys = Keys { count: context.pick(20_000, 1_000_000), seed: context.seed() };
    let tuples = Tuples { keys, key_size: 25, value_size: 2048 };
    let mut sheet = Sheet::default();
    for round in 0..context.rounds() {
        for brand in rotated(&BRANDS, round) {
            let name = brand.name();
            context.trial(&format!("round {}: {name}", round + 1))?;
            let folder = context.folder(Medium::Memory)?;
            let place = context.place(folder.path(), Medium::Memory);
            let Some(store) = brand.open(place)? else { continue };
            let mut client = store.client()?;
            for verb in VERBS {
                context.evict();
                let plan = keys.shuffled(u64::from(round) << 8 | verb as u64);
                let elapsed = tuples.run(&mut *client, verb, &plan, name)?;
                sheet.push(name, verb.name(), kops(keys.count, elapsed));
            }
        }
    }
    judge(&mut finding, &sheet);
    let labels = Labels {
        title: "25 B/2048 B in memory, caches evicted between the operations",
        x: "operation",
        y: "thousand operations a second",
    };
    finding.charts.push(sheet.chart(Shape::Bars, labels));
    Ok(finding)
}

fn judge(finding: &mut Finding, sheet: &Sheet) {
    let more = |above: Brand, below: Brand, verb: Verb| {
        percent_more(sheet.ratio(above.name(), below.name(), verb.name()))
    };
    for (verb, durable) in [(Verb::Put, "+74 %"), (Verb::Get, "+138 %"), (Verb::Delete, "+503 %")] {
        let what = format!("{}: CDDS to Berkeley DB, both durable", verb.name());
        finding.claim(&what, durable, more(CDDS, Brand::Berkeley, verb));
        let ratio = sheet.ratio(CDDS.name(), Brand::Berkeley.name(), verb.name());
        finding.duel(&format!("{} 25 B/2048 B, CDDS", verb.name()), "Berkeley DB", ratio);
    }
    for (verb, volatile) in [(Verb::Put, "+80 %"), (Verb::Get, "none"), (Verb::Delete, "+27 %")] {
        let what = format!("{}: CDDS without flushes to CDDS", verb.name());
        finding.claim(&what, volatile, more(Brand::TemboVolatile, CDDS, verb));
    }
    for (verb, document) in [(Verb::Put, "+56 %"), (Verb::Get, "−52 %"), (Verb::Delete, "−41 %")]
    {
        let what = format!("{}: volatile Berkeley DB to durable CDDS", verb.name());
        finding.claim(&what, document, more(Brand::BerkeleyVolatile, CDDS, verb));
    }
    let medians = VERBS.map(|verb| sheet.ratio(CDDS.name(), Brand::Berkeley.name(), verb.name()));
    finding.sentence = if let [Some(put), Some(get), Some(delete)] = medians {
        format!(
            "Put, get and delete of the durable CDDS are {:.1}, {:.1} and {:.1} times those of durable Berkeley DB; the thesis has 1.7, 2.4 and 6.0.",
            put.median, get.median, delete.median
        )
    } else {
        "Berkeley DB is not in this build: build with --features rivals-debian.".into()
    };
    finding.note("Caches are evicted between the operations, in a quick run too. Berkeley DB 5.3 in place of 4.8, with a cache of 8 GiB as in the thesis, on a tmpfs, where its fsync is free; a commit of its log for each operation. The store above CDDS (keyspaces, stamps) is measured with it.");
}
