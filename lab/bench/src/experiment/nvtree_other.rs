//! NV-Tree: update, deletion, search and mixtures of them. Figures 7a to 7d.

use std::hint::black_box;
use std::time::Duration;

use tembo_pmem::{Emulation, FlushInstruction};

use super::adaptive::grown;
use super::context::{Context, rotated};
use super::index::{Entrant, NODE_SIZES, has_node_size, kops, ms, name, node_size_of};
use crate::contender::Size;
use crate::finding::{Finding, Shape, percent_more, times};
use crate::keys::{Keys, Random, Zipf};
use crate::nvtree_paper::{NvTree, Options, Strategy};
use crate::operation::THETA;
use crate::sheet::{Labels, Sheet};
use crate::ycsb::Workload;
use crate::{Error, Kind, Operation};

pub(super) const TITLE: &str = "Update, deletion and search by size of nodes";
pub(super) const TITLE_MIXED: &str = "Mixtures of updates and searches";

const PAPER: Kind = Kind::NvtreePaperAdaptive;
/// The same tree, whose leaves keep their size: the paper's NV-Tree'.
const FIXED: Kind = Kind::NvtreePaper;
const KINDS: [Kind; 6] = [Kind::Lcb, Kind::CddsPaper, FIXED, PAPER, Kind::Cdds, Kind::Nvtree];

pub(super) fn by_node_size(context: &mut Context<'_>) -> Result<Finding, Error> {
    let mut finding = Finding::new("nvtree-7", TITLE, "NV-Tree, figures 7a to 7c");
    let keys = Keys { count: context.pick(20_000, 1_000_000), seed: context.seed() };
    let sheets = measured(context, keys)?;
    let titles = ["Updates (7a)", "Searches (7c)", "Deletions (7b)"];
    for (title, sheet) in titles.into_iter().zip(&sheets) {
        let labels = Labels { title, x: "bytes of a node", y: "thousand operations a second" };
        finding.charts.push(sheet.chart(Shape::Bars, labels));
    }
    let [updates, searches, deletions] = &sheets;
    judge(&mut finding, &sheets);
    with_clflush(context, &mut finding, keys)?;
    leaves_by_node_size(context, &mut finding, keys)?;
    let ratio = |sheet: &Sheet, own| {
        sheet.ratio(name(own), name(Kind::Lcb), 4096).map_or(0.0, |ratio| ratio.median)
    };
    finding.sentence = format!(
        "To the LCB+-Tree with 4 KiB nodes the published NV-Tree is {:.1} in updates, {:.1} in deletions and {:.1} in searches; with leaves of a fixed size {:.1}, {:.1} and {:.1}.",
        ratio(updates, PAPER),
        ratio(deletions, PAPER),
        ratio(searches, PAPER),
        ratio(updates, FIXED),
        ratio(deletions, FIXED),
        ratio(searches, FIXED)
    );
    finding.note("The paper's figures are of the tree that follows the workload, and it says that the one with fixed leaves is similar where all keys are used alike (section 6.4.1): both stand here.");
    Ok(finding)
}

/// Updates, searches and deletions, by size of nodes: as in the paper all are updated, then all looked for,
/// then deleted (half of them here).
fn measured(context: &mut Context<'_>, keys: Keys) -> Result<[Sheet; 3], Error> {
    // A lookup expects what insertion gave, which updates have changed; one by Zipf's law does not.
    let operations = [Operation::Update, Operation::ZipfLookup, Operation::Remove];
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
                    let plan = match operation {
                        Operation::ZipfLookup => keys.shuffled(u64::from(round) + 99),
                        other => other.plan(keys, &Zipf::new(2, 0.5), round),
                    };
                    let trial = entrant.with(operation, &plan, plan.len() as u64)?;
                    sheet.push(name(kind), node_size, kops(&trial));
                }
            }
        }
    }
    Ok(sheets)
}

fn judge(finding: &mut Finding, [updates, searches, deletions]: &[Sheet; 3]) {
    for (what, sheet, rival, node_size, document) in [
        ("update", updates, Kind::Lcb, 4096, "up to 5.6×"),
        ("update", updates, Kind::CddsPaper, 4096, "up to 8.5×"),
        ("deletion", deletions, Kind::Lcb, 4096, "better"),
        ("deletion", deletions, Kind::CddsPaper, 512, "worse"),
        ("deletion", deletions, Kind::CddsPaper, 4096, "comparable"),
        ("search", searches, Kind::Lcb, 4096, "comparable"),
        ("search", searches, Kind::CddsPaper, 4096, "comparable"),
    ] {
        for (own, leaves) in [(PAPER, ""), (FIXED, ", fixed leaves,")] {
            let size = if node_size == 4096 { "4 KiB" } else { "512 B" };
            let label = format!("{what}, {size}: published NV-Tree{leaves} to {}", name(rival));
            let ratio = sheet.ratio(name(own), name(rival), node_size);
            finding.claim(&label, document, times(ratio));
        }
    }
    for (what, sheet) in [("update", updates), ("search", searches), ("deletion", deletions)] {
        for rival in [Kind::Lcb, Kind::CddsPaper] {
            let ratio = sheet.ratio_between((name(Kind::Nvtree), "1024"), (name(rival), "4096"));
            let what = format!("{what} 8 B/8 B, 1 KiB nodes to their 4 KiB, bare trees");
            finding.duel(&what, name(rival), ratio);
        }
        let ratio = sheet.ratio(name(Kind::Nvtree), name(PAPER), 1024);
        finding.duel(&format!("{what} 8 B/8 B, nodes of 1 KiB, bare trees"), name(PAPER), ratio);
    }
}

/// Updates where a flush throws its line out of the cache, as it did on the paper's machine.
fn with_clflush(context: &mut Context<'_>, finding: &mut Finding, keys: Keys) -> Result<(), Error> {
    if FlushInstruction::detect().is_none() {
        return Ok(());
    }
    let flush = Some(FlushInstruction::Clflush);
    let emulation = Some(Emulation { flush, ..Emulation::default() });
    let mut sheet = Sheet::default();
    for round in 0..context.rounds() {
        for kind in rotated(&[Kind::Lcb, Kind::CddsPaper, FIXED, PAPER], round) {
            context.trial(&format!("clflush, round {}: {}", round + 1, name(kind)))?;
            let size = Size { emulation, ..Size::new(keys.count, 4096) };
            let mut entrant = Entrant::new(context, kind, size)?;
            entrant.trial(Operation::Insert, keys, round)?;
            context.evict();
            let trial = entrant.trial(Operation::Update, keys, round)?;
            sheet.push(name(kind), 4096, kops(&trial));
        }
    }
    let labels = Labels {
        title: "Updates with clflush, which evicts its line (7a)",
        x: "bytes of a node",
        y: "thousand operations a second",
    };
    finding.charts.push(sheet.chart(Shape::Bars, labels));
    for (rival, document) in [(Kind::Lcb, "up to 5.6×"), (Kind::CddsPaper, "up to 8.5×")] {
        for (own, leaves) in [(PAPER, ""), (FIXED, ", fixed leaves,")] {
            let rival = name(rival);
            let label = format!("update with clflush, 4 KiB: published NV-Tree{leaves} to {rival}");
            finding.claim(&label, document, times(sheet.ratio(name(own), rival, 4096)));
        }
    }
    Ok(())
}

/// What leaves are called when nothing but insertions has been done.
const LOADED: &str = "loaded";

/// Bytes of the leaves that a thousand of the keys lie in, as the leaves' own headers say.
fn push_leaves(
    sheet: &mut Sheet,
    (series, at): (&str, &str),
    tree: &NvTree,
    keys: Keys,
) -> Result<(), Error> {
    for number in (0..keys.count).step_by((keys.count / 1000).max(1) as usize) {
        if let Some(bytes) = tree.leaf_bytes(keys.key(number))? {
            sheet.push(series, at, bytes as f64);
        }
    }
    Ok(())
}

/// How large leaves get in the tree that follows the workload: a search reads a leaf from end to end.
fn leaves_by_node_size(
    context: &mut Context<'_>,
    finding: &mut Finding,
    keys: Keys,
) -> Result<(), Error> {
    const UPDATED: &str = "updated";
    let mut sheet = Sheet::default();
    for node_size in NODE_SIZES {
        context.trial(&format!("{node_size} B: sizes of leaves"))?;
        let strategy = Some(Strategy::Balanced);
        let mut grown = grown(context, node_size, strategy, keys.shuffled(0))?;
        let at = node_size.to_string();
        push_leaves(&mut sheet, (LOADED, &at), &grown.tree, keys)?;
        for key in keys.shuffled(1) {
            grown.tree.update(key, !key)?;
        }
        push_leaves(&mut sheet, (UPDATED, &at), &grown.tree, keys)?;
    }
    let labels = Labels {
        title: "Leaves of the published NV-Tree, which follow the workload",
        x: "bytes of a leaf at first",
        y: "bytes of a key's leaf",
    };
    finding.charts.push(sheet.chart(Shape::Bars, labels));
    let median = |series: &str| sheet.spread(series, 4096).map_or(0.0, |bytes| bytes.median);
    finding.note(&of_leaves(&format!(
        "Begun with 4096 B, half of the keys lie in leaves of {:.0} B or less when the tree is loaded, and {:.0} B when each key was updated.",
        median(LOADED),
        median(UPDATED)
    )));
    Ok(())
}

/// A note of what sizes of leaves are, and what lets them grow.
fn of_leaves(found: &str) -> String {
    format!(
        "Sizes are read from the leaves themselves, of a thousand keys in a tree that is not timed; their spread is over keys. {found} Insertions and updates count no reads, without which the paper's model limits no size (section 5.4, equation 2): what remains is the cap of {} KiB. A search reads what is in a leaf from end to end.",
        Options::default().leaf_size_max >> 10
    )
}

/// Updates of a hundred operations of figure 7d, in the order in which a tree does them.
const MIXTURES: [u64; 5] = [90, 70, 50, 30, 10];

/// Each key once, in random order, and whether it is updated or looked for.
fn mixture(keys: Keys, updates: u64, round: u32) -> Vec<(bool, u64)> {
    let salt = u64::from(round) << 8 | updates;
    let mut random = Random::new(salt);
    let order = keys.shuffled(salt).into_iter();
    order.map(|key| (random.below(100) < updates, key)).collect()
}

/// A mixture's place on the x axis.
fn place_of(updates: u64) -> String {
    format!("{updates}/{}", 100 - updates)
}

pub(super) fn mixed(context: &mut Context<'_>) -> Result<Finding, Error> {
    let mut finding = Finding::new("nvtree-7d", TITLE_MIXED, "NV-Tree, figure 7d");
    let keys = Keys { count: context.pick(20_000, 1_000_000), seed: context.seed() };
    let mut sheet = Sheet::default();
    for round in 0..context.rounds() {
        for kind in rotated(&KINDS, round) {
            context.trial(&format!("round {}: {}", round + 1, name(kind)))?;
            let size = Size::new(keys.count, node_size_of(kind, 4096));
            let mut entrant = Entrant::new(context, kind, size)?;
            entrant.trial(Operation::Insert, keys, round)?;
            for updates in MIXTURES {
                let trial = entrant.contender.mixed(&mixture(keys, updates, round))?;
                if trial.right != keys.count {
                    let (contender, operation) = (kind.name(), "a mixture");
                    let (expected, found) = (keys.count, trial.right);
                    return Err(Error::Wrong { contender, operation, expected, found });
                }
                sheet.push(name(kind), place_of(updates), ms(&trial));
            }
        }
    }
    let labels = Labels {
        title: "As many operations as keys, nodes of 4 KiB, of the trees here 1 KiB",
        x: "% updates/% searches",
        y: "ms of CPU time",
    };
    finding.charts.push(sheet.chart(Shape::Lines, labels));
    judge_mixed(&mut finding, &sheet);
    leaves_in_mixtures(context, &mut finding, keys)?;
    Ok(finding)
}

fn judge_mixed(finding: &mut Finding, sheet: &Sheet) {
    let both = [(PAPER, "", ""), (FIXED, "fixed leaves: ", " (“similar”)")];
    for (own, leaves, similar) in both {
        for (rival, most) in [(Kind::Lcb, "6.6×"), (Kind::CddsPaper, "10×")] {
            let most = format!("{most}{similar}");
            for (at, document) in [("90/10", &most[..]), ("10/90", "less, but faster")] {
                let ratio = sheet.ratio(name(rival), name(own), at);
                let what = format!("{leaves}faster than {}, {at}", name(rival));
                finding.claim(&what, document, times(ratio));
            }
        }
    }
    for at in ["90/10", "10/90"] {
        let ratio = sheet.ratio(name(FIXED), name(PAPER), at);
        let what = format!("leaves that follow the workload to fixed ones, {at}");
        finding.claim(&what, "comparable", times(ratio));
    }
    let faster = |own, at: &str| {
        sheet.ratio(name(Kind::Lcb), name(own), at).map_or(0.0, |ratio| ratio.median)
    };
    finding.sentence = format!(
        "The published NV-Tree is {:.1} times as fast as the LCB+-Tree with 10 % updates and {:.1} times with 90 %; with leaves of a fixed size {:.1} and {:.1} times.",
        faster(PAPER, "10/90"),
        faster(PAPER, "90/10"),
        faster(FIXED, "10/90"),
        faster(FIXED, "90/10")
    );
}

/// How large leaves get through the mixtures, which one tree does one after the other.
fn leaves_in_mixtures(
    context: &mut Context<'_>,
    finding: &mut Finding,
    keys: Keys,
) -> Result<(), Error> {
    let mut sheet = Sheet::default();
    context.trial("sizes of leaves")?;
    let mut grown = grown(context, 4096, Some(Strategy::Balanced), keys.shuffled(0))?;
    let paper = name(PAPER);
    push_leaves(&mut sheet, (paper, LOADED), &grown.tree, keys)?;
    for updates in MIXTURES {
        for (is_update, key) in mixture(keys, updates, 0) {
            if is_update {
                grown.tree.update(key, !key)?;
            } else {
                black_box(grown.tree.get(key)?);
            }
        }
        push_leaves(&mut sheet, (paper, &place_of(updates)), &grown.tree, keys)?;
    }
    let labels = Labels {
        title: "Leaves that follow the workload, 4 KiB at first",
        x: "% updates/% searches before, one after the other",
        y: "bytes of a key's leaf",
    };
    finding.charts.push(sheet.chart(Shape::Bars, labels));
    let median = |at: &str| sheet.spread(paper, at).map_or(0.0, |bytes| bytes.median);
    finding.note(&of_leaves(&format!(
        "Begun with 4096 B, half of the keys lie in leaves of {:.0} B or less when the tree is loaded, {:.0} B after the mixture with most updates and {:.0} B after the last one; the tree with fixed leaves keeps 4096 B.",
        median(LOADED),
        median("90/10"),
        median("10/90")
    )));
    Ok(())
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
