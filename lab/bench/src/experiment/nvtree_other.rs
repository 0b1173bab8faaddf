//! NV-Tree: update, deletion, search and mixtures of them. Figures 7a to 7d.

use std::time::Duration;

use super::context::{Context, rotated};
use super::index::{Entrant, NODE_SIZES, has_node_size, kops, ms, name, node_size_of};
use crate::contender::Size;
use crate::finding::{Finding, Shape, percent_more, times};
use crate::keys::{Keys, Random, Zipf};
use crate::operation::THETA;
use crate::sheet::{Labels, Sheet};
use crate::ycsb::Workload;
use crate::{Error, Kind, Operation};

pub(super) const TITLE: &str = "Update, deletion and search by size of nodes";
pub(super) const TITLE_MIXED: &str = "Mixtures of updates and searches";

const PAPER: Kind = Kind::NvtreePaperAdaptive;
const KINDS: [Kind; 5] = [Kind::Lcb, Kind::CddsPaper, PAPER, Kind::Cdds, Kind::Nvtree];

pub(super) fn by_node_size(context: &mut Context<'_>) -> Result<Finding, Error> {
    let mut finding = Finding::new("nvtree-7", TITLE, "NV-Tree, figures 7a to 7c");
    let keys = Keys { count: context.pick(20_000, 1_000_000), seed: context.seed() };
    // As in the paper: all are updated, then all looked for, then deleted (half of them here).
    let operations = [Operation::Update, Operation::Lookup, Operation::Remove];
    let mut sheets = operations.map(|_| Sheet::default());
    for node_size in NODE_SIZES {
        for round in 0..context.rounds() {
            for kind in rotated(&KINDS, round) {
                if !has_node_size(kind, node_size) {
                    continue;
                }
                context.trial(&format!("{node_size} B, round {}: {}", round + 1, name(kind)))?;
                let mut entrant = Entrant::new(context, kind, Size::new(keys.count, node_size))?;
                entrant.trial(Operation::Insert, keys, round)?;
                for (operation, sheet) in operations.into_iter().zip(&mut sheets) {
                    context.evict();
                    // Lookups expect what insertion gave, which updates have changed.
                    let operation = if operation == Operation::Lookup {
                        Operation::ZipfLookup
                    } else {
                        operation
                    };
                    let plan = match operation {
                        Operation::ZipfLookup => keys.shuffled(u64::from(round) + 99),
                        other => other.plan(keys, &crate::keys::Zipf::new(2, 0.5), round),
                    };
                    let trial = entrant.with(operation, &plan, plan.len() as u64)?;
                    sheet.push(name(kind), node_size, kops(&trial));
                }
            }
        }
    }
    let titles = ["Updates (7a)", "Searches (7c)", "Deletions (7b)"];
    for (title, sheet) in titles.into_iter().zip(&sheets) {
        let labels = Labels { title, x: "bytes of a node", y: "thousand operations a second" };
        finding.charts.push(sheet.chart(Shape::Bars, labels));
    }
    let [updates, searches, deletions] = &sheets;
    let to = |sheet: &Sheet, own, rival| times(sheet.ratio(name(own), name(rival), 4096));
    for (what, sheet, rival, document) in [
        ("update", updates, Kind::Lcb, "up to 5.6×"),
        ("update", updates, Kind::CddsPaper, "up to 8.5×"),
        ("deletion", deletions, Kind::Lcb, "better"),
        ("deletion", deletions, Kind::CddsPaper, "worse, comparable with 4 KiB"),
        ("search", searches, Kind::Lcb, "comparable"),
        ("search", searches, Kind::CddsPaper, "comparable"),
    ] {
        let label = format!("{what}, 4 KiB: published NV-Tree to {}", name(rival));
        finding.claim(&label, document, to(sheet, PAPER, rival));
        let ratio = sheet.ratio_between((name(Kind::Nvtree), "1024"), (name(rival), "4096"));
        let what = format!("{what} 8 B/8 B, 1 KiB nodes to their 4 KiB, bare trees");
        finding.duel(&what, name(rival), ratio);
    }
    for (what, sheet) in [("update", updates), ("search", searches), ("deletion", deletions)] {
        let ratio = sheet.ratio(name(Kind::Nvtree), name(PAPER), 1024);
        finding.duel(&format!("{what} 8 B/8 B, nodes of 1 KiB, bare trees"), name(PAPER), ratio);
    }
    let ratio =
        |sheet: &Sheet| sheet.ratio(name(PAPER), name(Kind::Lcb), 4096).map_or(0.0, |r| r.median);
    finding.sentence = format!(
        "To the LCB+-Tree with 4 KiB nodes the published NV-Tree is {:.1} in updates, {:.1} in deletions and {:.1} in searches.",
        ratio(updates),
        ratio(deletions),
        ratio(searches)
    );
    Ok(finding)
}

pub(super) fn mixed(context: &mut Context<'_>) -> Result<Finding, Error> {
    let mut finding = Finding::new("nvtree-7d", TITLE_MIXED, "NV-Tree, figure 7d");
    let keys = Keys { count: context.pick(20_000, 1_000_000), seed: context.seed() };
    let kinds = [Kind::Lcb, Kind::CddsPaper, Kind::NvtreePaper, PAPER, Kind::Cdds, Kind::Nvtree];
    let mut sheet = Sheet::default();
    for round in 0..context.rounds() {
        for kind in rotated(&kinds, round) {
            context.trial(&format!("round {}: {}", round + 1, name(kind)))?;
            let size = Size::new(keys.count, node_size_of(kind, 4096));
            let mut entrant = Entrant::new(context, kind, size)?;
            entrant.trial(Operation::Insert, keys, round)?;
            for updates in [90, 70, 50, 30, 10] {
                let mut random = Random::new(u64::from(round) << 8 | updates);
                let order = keys.shuffled(u64::from(round) << 8 | updates);
                let plan = order.into_iter().map(|key| (random.below(100) < updates, key));
                let plan: Vec<(bool, u64)> = plan.collect();
                let trial = entrant.contender.mixed(&plan)?;
                if trial.right != keys.count {
                    let (contender, operation) = (kind.name(), "a mixture");
                    let (expected, found) = (keys.count, trial.right);
                    return Err(Error::Wrong { contender, operation, expected, found });
                }
                sheet.push(name(kind), format!("{updates}/{}", 100 - updates), ms(&trial));
            }
        }
    }
    let labels = Labels {
        title: "As many operations as keys, nodes of 4 KiB, of the trees here 1 KiB",
        x: "% updates/% searches",
        y: "ms of CPU time",
    };
    finding.charts.push(sheet.chart(Shape::Lines, labels));
    for (rival, document) in [(Kind::Lcb, "6.6×"), (Kind::CddsPaper, "10×")] {
        let ratio = sheet.ratio(name(rival), name(PAPER), "90/10");
        finding.claim(&format!("faster than {}, 90/10", name(rival)), document, times(ratio));
        let ratio = sheet.ratio(name(rival), name(PAPER), "10/90");
        finding.claim(
            &format!("faster than {}, 10/90", name(rival)),
            "less, but faster",
            times(ratio),
        );
    }
    let most = sheet.ratio(name(Kind::Lcb), name(PAPER), "90/10").map_or(0.0, |r| r.median);
    let least = sheet.ratio(name(Kind::Lcb), name(PAPER), "10/90").map_or(0.0, |r| r.median);
    finding.sentence = format!(
        "The more updates, the more the published NV-Tree gains: {least:.1} times the LCB+-Tree with 10 % updates, {most:.1} with 90 %."
    );
    Ok(finding)
}

/// NV-Store against NV-Store' (section 6.6): what following the workload brings under two of YCSB's mixtures,
/// to the bare tree of either.
pub(super) fn store_prime(
    context: &mut Context<'_>,
    finding: &mut Finding,
    workload: Workload,
    document: &str,
) -> Result<(), Error> {
    let keys = Keys { count: context.pick(20_000, 1_000_000), seed: context.seed() };
    let zipf = Zipf::new(keys.count, THETA);
    let mut sheet = Sheet::default();
    for round in 0..context.rounds() {
        for kind in rotated(&[Kind::NvtreePaper, PAPER], round) {
            context.trial(&format!("NV-Store', round {}: {}", round + 1, name(kind)))?;
            let mut entrant = Entrant::new(context, kind, Size::new(keys.count, 1024))?;
            entrant.trial(Operation::Insert, keys, round)?;
            let mut random = Random::new(round.into());
            let mut elapsed = Duration::ZERO;
            let mut inserted = keys.count;
            for _ in 0..keys.count / BATCH {
                if workload == Workload::D {
                    // The later ones come from the numbers that are not there.
                    let fresh = inserted..inserted + BATCH / 20;
                    let plan: Vec<u64> = fresh.clone().map(|number| keys.key(number)).collect();
                    elapsed += entrant.contender.trial(Operation::Insert, &plan)?.elapsed.cpu;
                    inserted = fresh.end;
                }
                let (updates, rest) =
                    if workload == Workload::D { (0, BATCH - BATCH / 20) } else { (50, BATCH) };
                let plan = (0..rest).map(|_| {
                    let rank = zipf.rank(&mut random);
                    let number = if updates == 0 { inserted - 1 - rank } else { rank };
                    (random.below(100) < updates, keys.key(number))
                });
                let plan: Vec<(bool, u64)> = plan.collect();
                elapsed += entrant.contender.mixed(&plan)?.elapsed.cpu;
            }
            sheet.push(name(kind), "", crate::tuple::kops(keys.count, elapsed));
        }
    }
    let gain = sheet.ratio(name(PAPER), name(Kind::NvtreePaper), "");
    finding.claim("NV-Store to NV-Store', its trees alone", document, percent_more(gain));
    Ok(())
}

/// Operations between two looks at the clock.
const BATCH: u64 = 1_000;
