//! The documents' claims in one table: the document's figure, ours, whether both say the same, and if not,
//! why.

use crate::finding::{Claim, Finding, Report};

/// How a figure here stands to the document's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    Same,
    /// A time that is less than half of the document's.
    Better,
    Other,
    /// No figure here.
    NotMeasured,
    /// Words that no program compares.
    Unknown,
}

impl Verdict {
    pub(super) fn class(self) -> &'static str {
        match self {
            Verdict::Same | Verdict::Better => "wins",
            Verdict::Other => "loses",
            Verdict::NotMeasured | Verdict::Unknown => "faint",
        }
    }
}

/// By how much a figure of the document's direction misses the document's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Distance {
    Near,
    /// The spread of its rounds reaches into the other direction.
    WithinSpread,
    FarMore,
    FarLess,
}

/// A claim with its experiment.
pub(super) struct Row<'r> {
    pub(super) finding: &'r Finding,
    pub(super) claim: &'r Claim,
    pub(super) verdict: Verdict,
    pub(super) distance: Distance,
    pub(super) why: &'static str,
}

impl Row<'_> {
    pub(super) fn direction(&self) -> &'static str {
        match (self.verdict, self.distance) {
            (Verdict::Same, Distance::Near) => "same",
            (Verdict::Same, Distance::WithinSpread) => "same, within the spread",
            (Verdict::Same, Distance::FarMore) => "same, far more",
            (Verdict::Same, Distance::FarLess) => "same, far less",
            (Verdict::Better, _) => "better here",
            (Verdict::Other, _) => "not so here",
            (Verdict::NotMeasured, _) => "not measured",
            (Verdict::Unknown, _) => "compare",
        }
    }
}

/// All claims of documents; figures that only this house has are none, nor are its own aims.
pub(super) fn rows(report: &Report) -> Vec<Row<'_>> {
    let all = report
        .findings
        .iter()
        .flat_map(|finding| finding.claims.iter().map(move |claim| (finding, claim)));
    let of_documents = all.filter(|(_, claim)| {
        let document = &claim.document;
        !document.is_empty() && !document.starts_with('–') && !document.starts_with("aim:")
    });
    of_documents
        .filter(|(finding, _)| finding.source != OWN)
        .map(|(finding, claim)| {
            let verdict = match claim.what.ends_with(SHARE) {
                true => share(&claim.document, &claim.here),
                false => verdict(&claim.document, &claim.here),
            };
            let distance = distance(&claim.document, &claim.here);
            let why = match (verdict, distance) {
                (Verdict::Same, Distance::Near | Distance::WithinSpread) => "",
                _ => why(&finding.name, &claim.what),
            };
            Row { finding, claim, verdict, distance, why }
        })
        .collect()
}

/// Claims of documents: how many point in their direction here, how many do not, and how many there are.
pub fn agreement(report: &Report) -> (usize, usize, usize) {
    let rows = rows(report);
    let count = |verdict| rows.iter().filter(|row| row.verdict == verdict).count();
    (count(Verdict::Same), count(Verdict::Other), rows.len())
}

/// The source of experiments that no document has.
const OWN: &str = "Tembo's own";

const GROWN_LEAVES: &str = "leaves have grown beyond 4 KiB while nothing was read (chart of leaves), and are searched from end to end";

const CASSANDRA: &str = "one machine in place of a cluster, and Debian has no Cassandra; Redis and memcached stand there";

const OWN_SECTION: &str = "each in a transaction, or before a checkpoint, of its own, whose fences and lines are counted below; the thesis leaves out what that takes";

/// Why a figure here does not say what the document's says: experiment, a part of the claim, reason.
const REASONS: &[(&str, &str, &str)] = &[
    (
        "thesis-3",
        "block device",
        "a loop device over a file stands for the block RAM device: a request goes through a thread and a second file system",
    ),
    (
        "thesis-3",
        "fsync",
        "the thesis's tmpfs was changed so that its fsync flushed; here it does nothing",
    ),
    (
        "thesis-3",
        "kernel functions",
        "needs the kernel's tracer of functions, which this kernel was built without",
    ),
    ("thesis-3", "flush of a line", "another processor, and clwb in place of clflush"),
    (
        "thesis-3",
        "",
        "another kernel and processor, with other costs of a system call and of a copy",
    ),
    ("thesis-5.2", "clwb", "the thesis's processor had none"),
    (
        "thesis-5.2",
        "64 B",
        "a fence stands behind each object, and takes longer in this guest than a flush",
    ),
    ("thesis-5.2", "", "another processor: its clflush overlaps, and there is one socket"),
    (
        "cdds-5.3",
        "without flushes",
        "clwb keeps the line in the cache, and a fence runs beside the next search; clflush did neither",
    ),
    (
        "cdds-5.3",
        "put",
        "CDDS flushes about 4 lines a put here, the published one 11 to 51 (nvtree-1). That is a part only: without flushes, too, it is further from Berkeley DB than in the thesis (chart); what of that is the tree, the machine or Berkeley DB 5.3 is not known",
    ),
    ("cdds-5.3", "", "another machine and Berkeley DB 5.3; on a tmpfs the log's fsync is free"),
    (
        "thesis-5.4",
        "",
        "bare numbers of 8 bytes: in the thesis copying values of 2 KiB takes most of either time",
    ),
    (
        "thesis-t5.1",
        "server",
        "a whole server with Redis's data types, replication, scripts and TLS, not a change of Redis",
    ),
    (
        "thesis-5.5",
        "B-Tree",
        "an ordered map with a synced log, both without sockets, stands for Redis with a B-Tree: sockets make all alike",
    ),
    ("thesis-5.5", "", "sockets take most of the time of both; Redis 7 in place of 2"),
    ("thesis-5.6", "Cassandra", CASSANDRA),
    ("thesis-5.7", "Cassandra", CASSANDRA),
    ("thesis-5.6", "", "Redis and memcached stand where Cassandra stood"),
    ("thesis-5.7", "", "Redis and memcached stand where Cassandra stood"),
    (
        "thesis-6",
        "nodes",
        "entries of 32 bytes, 14 to a node of 512, and versions that copy nodes; the thesis does not say how large its are",
    ),
    (
        "thesis-6",
        "page, B+-Tree",
        "the least that a page gets depends on the size of nodes; the spread is as wide",
    ),
    (
        "thesis-6",
        "operation, CDDS here",
        "no single word: all eight nodes of that page are hot, and of each the places of its entries alike; the hottest pages are the first ones of the pool. Why those is not known; the thesis shows a chart without figures",
    ),
    (
        "thesis-6",
        "operation, CDDS as published",
        "no single word: that page has eight leaves that are often shifted to stay sorted, a place of an entry some 30 times; the thesis shows a chart without figures",
    ),
    ("thesis-6", "here", "the document shows this without figures: compare the chart"),
    (
        "thesis-6",
        "page",
        "the version's cell is stored by each operation: one hot page that the thesis does not count",
    ),
    (
        "thesis-6.5",
        "16 B",
        "with small values the shifts of sorted entries are more than a log's record",
    ),
    (
        "thesis-6.5",
        "",
        "shifts of sorted entries of 32 bytes are stores too; a log writes the record once more",
    ),
    (
        "nvtree-1",
        "time",
        "clwb keeps the line in the cache; in the paper each flush was a miss later",
    ),
    (
        "nvtree-5",
        "faster",
        "clwb keeps the line in the cache; in the paper each flush was a miss later",
    ),
    ("nvtree-5d", "", "clwb keeps the line in the cache; in the paper each flush was a miss later"),
    (
        "nvtree-6",
        "flushes evict",
        "a small model cache, and all accesses of the program, not the tree's alone",
    ),
    (
        "nvtree-6",
        "misses",
        "the simulation knows no flushes, which cause most misses of the paper's rivals",
    ),
    (
        "nvtree-7",
        "search, 4 KiB: published NV-Tree, fixed leaves, to CDDS",
        "an entry of CDDS has 32 bytes with its versions: half as many fit into a node",
    ),
    (
        "nvtree-7",
        "search, 4 KiB: published NV-Tree, fixed",
        "a leaf is searched from end to end, with the dead elements of the updates; a sorted one by halves",
    ),
    ("nvtree-7", "search", GROWN_LEAVES),
    (
        "nvtree-7",
        "deletion",
        "both flush two lines for a deletion, and an entry of CDDS has 32 bytes; how much of it the paper's clflush is was measured for updates only",
    ),
    (
        "nvtree-7",
        "to CDDS as published",
        "CDDS as published waits for a fence behind nearly each line (chart of nvtree-10a), whichever instruction flushes it",
    ),
    (
        "nvtree-7",
        "update",
        "an update searches its leaf from end to end first; clflush in place of clwb explains a part only (chart)",
    ),
    ("nvtree-7d", "leaves that follow", GROWN_LEAVES),
    (
        "nvtree-7d",
        "fixed leaves: faster than LCB+-Tree, 10/90",
        "nearly all are searches: a leaf is searched from end to end, a sorted one by halves",
    ),
    ("nvtree-7d", "10/90", GROWN_LEAVES),
    (
        "nvtree-7d",
        "",
        "an update searches its leaf from end to end first; clflush, which evicts the line, was measured for the updates of nvtree-7 only, and explains a part of them",
    ),
    (
        "nvtree-8",
        "rebuilds during updates",
        "a full leaf of which little is valid is replaced, not split, so that PLNs do not overflow",
    ),
    ("nvtree-8", "rebuilds during insertions", "what overflowed, and how often: see the note"),
    (
        "nvtree-8",
        "insertions",
        "without reads the cap decides and not the model; fixed leaves cause few rebuilds (chart)",
    ),
    (
        "nvtree-8",
        "",
        "fixed sizes pay for rebuilds in the paper; updates cause few or none here, for a full leaf of which little is valid is replaced",
    ),
    (
        "nvtree-9a",
        "share",
        "one or two rebuilds, each of which writes a PLN for each leaf that is there: almost nothing if they come early, more if late or with PLNs of 4 KiB; the paper does not say when its came",
    ),
    (
        "nvtree-9a",
        "rebuilds in",
        "leaves grow while nothing is read, so that fewer are split and fewer PLNs fill; with fixed ones it is one more (chart)",
    ),
    ("nvtree-9a", "sequential", "the number of keys decides: compare a run with 1 M keys"),
    (
        "nvtree-9b",
        "trees alone",
        "updates cause few rebuilds here, which following the workload saves: what it brings is less than the spread",
    ),
    (
        "nvtree-9b",
        "",
        "the NV-Store is a library and Redis a server: sockets are most of the paper's factor",
    ),
    (
        "nvtree-9c",
        "trees alone",
        "updates cause few rebuilds here, which following the workload saves: what it brings is less than the spread",
    ),
    (
        "nvtree-9c",
        "",
        "the NV-Store is a library and Redis a server: sockets are most of the paper's factor",
    ),
    (
        "mars-3.9",
        "six degrees",
        "a search reads up to 16 nodes here, so that the edge that is stored is a small part of an operation's time",
    ),
    (
        "mars-3.8",
        "1 threads",
        "the document's is the most over all counts of threads, which the rows of 16 reach; one thread waits for one request at a time, and saves only what ARIES waits for more",
    ),
    ("mars-3.10", "ARIES", "ARIES alone stands for Berkeley DB, whose other costs are in no model"),
    ("mars-3.8", "8 threads to 4", "both say that more threads bring ARIES next to nothing"),
    (
        "nvheaps-programs",
        "TX to C-TX",
        "with one thread isolation costs next to nothing: what was read is looked at again only when another has committed",
    ),
    (
        "nvheaps-programs",
        "Berkeley",
        "Berkeley DB waits for the file system at each commit: how long depends on the kernel, the file system and the device below",
    ),
    (
        "nvheaps-programs",
        "BASE",
        "plain reads: what a transaction has not touched it reads by one look at its words",
    ),
    (
        "durablefs-3.3",
        "",
        "the document's 20 cycles for 64 B are of flushes that nothing waits for; a commit here waits for its fences",
    ),
    ("durablefs-3.8", "", "NOVA stands there; here the same library without durability"),
    (
        "nvheaps-4.1",
        "open for write",
        "a change is kept in memory until the commit, which writes its words; the thesis copies the object to a log first",
    ),
    ("nvheaps-4.1", "new/delete", OWN_SECTION),
    ("nvheaps-4.1", "NV-to-NV", OWN_SECTION),
    ("nvheaps-4.1", "weak", OWN_SECTION),
    (
        "nvheaps-4.1",
        "V-to-NV",
        "pointers that a program holds are counted in volatile memory: no transaction, no fence and no line",
    ),
    (
        "nvheaps-4.1",
        "open for read",
        "a transaction that has changed nothing ends without a fence or a line; the processor is another, too",
    ),
    (
        "nvtree-10a",
        "CDDS as published",
        "it waits for a fence behind nearly each line (second chart), on the memory as it is, too: its base is slow already",
    ),
    (
        "nvtree-10a",
        "",
        "the paper's delay stood before each write; here it is lost for each line, behind a fence that waits on the memory as it is, too",
    ),
    ("nvtree-10b", "", "an estimate of the paper; here it is the instruction itself"),
];

/// Stands where a reason is missing.
pub(super) const NOT_EXPLAINED: &str = "not explained";

fn why(experiment: &str, what: &str) -> &'static str {
    let found = REASONS.iter().find(|(name, part, _)| *name == experiment && what.contains(part));
    found.map_or(NOT_EXPLAINED, |(_, _, reason)| reason)
}

/// A figure as far as it says a direction.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Figure {
    /// Times as much.
    Ratio(f64),
    /// Percent more, or less.
    Change(f64),
    /// Something counted or measured.
    Number(f64),
}

/// Whether two figures agree: in the direction of what they compare, or within a factor of two in what they
/// count.
pub(super) fn verdict(document: &str, here: &str) -> Verdict {
    if here.starts_with("not measured") {
        return Verdict::NotMeasured;
    }
    let Some(ours) = figure(here) else { return Verdict::Unknown };
    let said = |same: bool| if same { Verdict::Same } else { Verdict::Other };
    let factor = match ours {
        Figure::Ratio(ratio) => ratio,
        Figure::Change(percent) => 1.0 + percent / 100.0,
        Figure::Number(number) => number,
    };
    match document {
        _ if ["better", "more", "several times", "faster", "less, but faster", "more than 1"]
            .contains(&document) =>
        {
            said(factor > 1.0)
        }
        _ if ["worse", "slower", "fewer"].iter().any(|word| document.starts_with(word)) => {
            said(factor < 1.0)
        }
        _ if document.starts_with("comparable") || document.starts_with("about equal") => {
            said((0.75..1.34).contains(&factor))
        }
        "none" => said((0.9..1.1).contains(&factor)),
        "even" => match ours {
            Figure::Ratio(hottest) => said(hottest < EVEN_MAX),
            _ => Verdict::Unknown,
        },
        _ => match (figure(document), ours) {
            (Some(Figure::Ratio(theirs)), _) => said((theirs > 1.0) == (factor > 1.0)),
            // What costs a few percent there and nothing here costs little in both.
            (Some(Figure::Change(theirs)), Figure::Change(ours)) if ours.abs() < 0.5 => {
                said(theirs.abs() < POINTS_NEAR)
            }
            (Some(Figure::Change(theirs)), Figure::Change(ours)) => {
                said((theirs >= 0.0) == (ours >= 0.0))
            }
            (Some(Figure::Number(theirs)), Figure::Number(ours)) => {
                let ratio = ours.max(1e-9) / theirs.max(1e-9);
                if ratio < 0.5 && is_time(document) {
                    return Verdict::Better;
                }
                let are_counts = theirs.fract() == 0.0 && ours.fract() == 0.0;
                said((0.5..=2.0).contains(&ratio) || are_counts && (ours - theirs).abs() <= 1.0)
            }
            _ => Verdict::Unknown,
        },
    }
}

/// Whether a figure is a time, of which less is better.
fn is_time(figure: &str) -> bool {
    ["ns", "µs", "ms", "s"].contains(&figure.split(' ').next_back().unwrap_or_default())
}

/// What is written evenly has no place that is written so many times as often as the mean.
const EVEN_MAX: f64 = 2.0;

/// A figure further than this factor from the document's is far.
const FAR: f64 = 3.0;

/// Changes that differ by fewer points of percent are near each other.
const POINTS_NEAR: f64 = 10.0;

/// What "several times" is at least.
const SEVERAL: f64 = 3.0;

/// How far a figure lies from the document's, where both are ratios or both are changes, or the document's are
/// several times. Less is measured in what is beyond no difference at all: 1.07× is a change of 7 %. Of what the
/// document says to be up to a figure that counts, too.
fn distance(document: &str, here: &str) -> Distance {
    let theirs =
        if document == "several times" { Some(Figure::Ratio(SEVERAL)) } else { figure(document) };
    let (more, effect) = match (theirs, figure(here)) {
        (Some(Figure::Ratio(theirs)), Some(Figure::Ratio(ours))) => {
            // What is below 1 is as far from 1 as its inverse.
            let of = |ratio: f64| if theirs < 1.0 { 1.0 / ratio } else { ratio };
            let is_none = (of(theirs) - 1.0) * 100.0 <= POINTS_NEAR;
            let effect = (of(ours) - 1.0) / (of(theirs) - 1.0);
            (of(ours) / of(theirs), if is_none { 1.0 } else { effect })
        }
        (Some(Figure::Change(theirs)), Some(Figure::Change(ours)))
            if (ours - theirs).abs() > POINTS_NEAR =>
        {
            (ours / theirs, ours / theirs)
        }
        _ => (1.0, 1.0),
    };
    match more {
        more if more > FAR && is_near_the_end(document, here) => Distance::Near,
        more if more > FAR => Distance::FarMore,
        _ if effect < 1.0 / FAR => Distance::FarLess,
        _ if is_within_spread(here) => Distance::WithinSpread,
        _ => Distance::Near,
    }
}

/// Whether a figure is near the greater end of a document's span, "+22 to +47 %".
fn is_near_the_end(document: &str, here: &str) -> bool {
    let end = document.split_once(" to ").or_else(|| document.split_once('–'));
    end.is_some_and(|(_, end)| figure(end).is_some() && distance(end, here) == Distance::Near)
}

/// Whether the rounds of a figure, which stand behind it in brackets, lie on both sides of no difference.
fn is_within_spread(here: &str) -> bool {
    let Some((_, (least, greatest))) = here.split_once('(').and_then(|(figure, spread)| {
        let spread = spread.split(')').next()?;
        let ends = spread.split_once('–').or_else(|| spread.split_once(" to "))?;
        Some((figure, ends))
    }) else {
        return false;
    };
    let none = match figure(here) {
        Some(Figure::Ratio(_)) => 1.0,
        Some(Figure::Change(_)) => 0.0,
        _ => return false,
    };
    let end = |text: &str| text.trim().parse::<f64>();
    matches!((end(least), end(greatest)), (Ok(least), Ok(greatest)) if least < none && none < greatest)
}

/// The end of a claim on a part of a whole in percent, which is no change by so many percent.
const SHARE: &str = ", share";

/// Whether two shares agree: within a factor of two of the document's figure, or of the ends of its span.
fn share(document: &str, here: &str) -> Verdict {
    if here.starts_with("not measured") {
        return Verdict::NotMeasured;
    }
    let numbers = |text: &str| {
        let text = text.split('%').next().unwrap_or_default();
        let parts = text.split(|c: char| !c.is_ascii_digit() && c != '.');
        parts.filter_map(|part| part.parse::<f64>().ok()).collect::<Vec<_>>()
    };
    let (theirs, ours) = (numbers(document), numbers(here));
    let (Some(least), Some(greatest), Some(ours)) = (theirs.first(), theirs.last(), ours.first())
    else {
        return Verdict::Unknown;
    };
    let span = match document {
        _ if document.starts_with("more than") => *least..=100.0,
        _ if document.starts_with("less than") => 0.0..=*greatest,
        _ => least / 2.0..=greatest * 2.0,
    };
    if span.contains(ours) { Verdict::Same } else { Verdict::Other }
}

/// The first number of a text, with what it is.
pub(super) fn figure(text: &str) -> Option<Figure> {
    let start = text.find(|c: char| c.is_ascii_digit())?;
    let len = text[start..].find(|c: char| !(c.is_ascii_digit() || c == '.' || c == ','));
    let (digits, rest) = text[start..].split_at(len.unwrap_or(text.len() - start));
    let value: f64 = digits.replace(',', "").trim_end_matches('.').parse().ok()?;
    let is_negative = text[..start].ends_with('−') || text[..start].ends_with('-');
    // Of a span its unit stands behind its end.
    let unit = rest.trim_start_matches(|c: char| {
        c.is_ascii_digit() || matches!(c, '–' | '.' | ' ') || c == '−'
    });
    let unit = unit
        .strip_prefix("to ")
        .unwrap_or(unit)
        .trim_start_matches(|c: char| c.is_ascii_digit() || matches!(c, '.' | ' ' | '−' | '+'));
    Some(if unit.starts_with('×') || unit.starts_with("of the log") {
        Figure::Ratio(value)
    } else if unit.starts_with('%') {
        Figure::Change(if is_negative { -value } else { value })
    } else {
        Figure::Number(value)
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use std::path::Path;

    use super::*;

    #[test]
    fn a_direction_is_read_from_both_figures() {
        use Verdict::{Better, NotMeasured, Other, Same, Unknown};
        for (document, here, expected) in [
            ("up to 7×", "1.70× (1.6–1.8)", Same),
            ("up to 7×", "0.90× (0.8–1.1)", Other),
            ("+74 %", "+12 % (+3 to +20)", Same),
            ("−21 to −25 %", "-30 %", Same),
            ("−9 to −12 %", "+3 %", Other),
            ("80–97 %", "81 % (512 B), 93 % (4 KiB)", Same),
            ("80–97 %", "-3 % (512 B), 93 % (4 KiB)", Other),
            ("12.1", "13.4", Same),
            ("12.1", "40.0", Other),
            ("about 280 ns", "213 ns", Same),
            ("fewer", "1.20 of the log's", Other),
            ("fewer", "0.80 of the log's", Same),
            ("comparable", "1.10× (1–1.2)", Same),
            ("comparable", "2.10× (1–2.2)", Other),
            ("32× (44.5 to 1.4 s)", "17.7× (10.4–19.2)", Same),
            ("no such instruction", "60 M/s", Unknown),
            ("none", "-9 % (-31 to +11)", Same),
            ("none", "-30 %", Other),
            ("even", "6 to 4582, mean 726", Unknown),
            ("even", "1.7× (2995 to 1767)", Same),
            ("even", "7.6× (29279 to 3864)", Other),
            ("93", "not measured", NotMeasured),
            ("0.13 µs", "1.04 µs (1.03–1.44)", Other),
            ("0.13 µs", "0.07 µs (0.05–0.09)", Same),
            ("0.13 µs", "0.01 µs (0.01–0.02); 0.01 µs of 64 together", Better),
            ("< 0.1 µs", "3.80 µs (2.84–3.87)", Other),
            ("about 280 ns", "115 ns", Better),
            ("about 12 M/s", "4.7 M/s", Other),
            ("3", "2 (of 10000000)", Same),
            ("−8 %", "-0 % (-0 to -0)", Same),
            ("−46 %", "-0 % (-0 to -0)", Other),
        ] {
            assert_eq!(verdict(document, here), expected, "{document} | {here}");
        }
    }

    #[test]
    fn what_is_three_times_as_far_is_said_to_be_far() {
        use Distance::{FarLess, FarMore, Near, WithinSpread};
        for (document, here, expected) in [
            ("6.6×", "1.14× (0.91–1.25)", FarLess),
            ("1.3×", "1.16× (0.94–1.30)", WithinSpread),
            ("+27 %", "+20 % (-17 to +36)", WithinSpread),
            ("1.3×", "1.19× (1.11–1.20)", Near),
            ("up to 16×", "2.76× (1.85–3.05)", FarLess),
            ("up to 3.2×", "1.07× (1.04–1.19)", FarLess),
            ("up to 3.7×", "1.06× (1.06–1.06)", FarLess),
            ("up to 5.6×", "1.99× (1.75–2.02)", FarLess),
            ("up to 5.6×", "3.10× (2.75–3.20)", Near),
            ("several times", "1.03× (0.94–1.09)", FarLess),
            ("several times", "2.03× (1.94–2.09)", Near),
            ("better", "1.03× (0.94–1.09)", WithinSpread),
            ("0.25×", "0.60×", FarLess),
            ("0.25×", "0.05×", FarMore),
            ("up to 4.7×", "45.74× (40.3–46.8)", FarMore),
            ("32×", "344.35× (298–417)", FarMore),
            ("+74 %", "+439 % (+407 to +652)", FarMore),
            ("+74 %", "+107 %", Near),
            ("−41 %", "-55 % (-55 to -55)", Near),
            ("−21 %", "-85 %", FarMore),
            ("+2.3 %", "+124 % (+124 to +131)", FarMore),
            ("1.13 %", "0.01 %", Near),
            ("−92 %", "-20 %", FarLess),
            ("up to +30 %", "+1 %", FarLess),
            ("up to +30 %", "+25 %", Near),
            ("up to +9 %", "+1 %", Near),
            ("64", "not measured", Near),
            ("+22 to +47 %", "+71 %", Near),
            ("+22 to +47 %", "+171 %", FarMore),
        ] {
            assert_eq!(distance(document, here), expected, "{document} | {here}");
        }
    }

    #[test]
    fn a_share_is_no_change() {
        use Verdict::{NotMeasured, Other, Same};
        for (document, here, expected) in [
            ("1.13 %", "0.01 %", Other),
            ("1.13 %", "0.9 %", Same),
            ("60–94 %", "88 %", Same),
            ("60–94 %", "20 %", Other),
            ("more than 20 %", "26 %", Same),
            ("more than 20 %", "12 %", Other),
            ("about 7 %", "5 %", Same),
            ("about 7 %", "not measured", NotMeasured),
        ] {
            assert_eq!(share(document, here), expected, "{document} | {here}");
        }
    }

    /// A claim that is not so here, or that no program compares, says why, or that nothing explains it.
    #[test]
    fn what_differs_is_explained_by_its_experiment() {
        assert!(why("nvtree-8", "updates, 0.5 %").contains("replaced"));
        assert_eq!(why("nowhere", ""), NOT_EXPLAINED);
    }

    /// A full run is published only with a reason beside each claim that is not so here.
    #[test]
    fn what_is_published_is_explained() {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/results/results.json");
        let report: Report = serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap();
        assert!(!report.quick);
        let is_far = |row: &Row<'_>| row.distance == Distance::FarLess;
        let is_said = |row: &Row<'_>| !row.why.is_empty() && row.why != NOT_EXPLAINED;
        let open = rows(&report).into_iter().filter(|row| {
            let needs = row.verdict != Verdict::Same || is_far(row);
            row.why == NOT_EXPLAINED || needs && !is_said(row)
        });
        let open: Vec<String> = open
            .map(|row| format!("{}: {} | {}", row.finding.name, row.claim.what, row.claim.here))
            .collect();
        assert!(open.is_empty(), "{open:#?}");
    }
    /// What explains a time that is worse cannot explain one that is better.
    #[test]
    fn no_reason_stands_beside_better_and_worse() {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/results/results.json");
        let report: Report = serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap();
        let rows = rows(&report);
        let of = |verdict| rows.iter().filter(move |row| row.verdict == verdict);
        assert!(of(Verdict::Better).count() > 0);
        for better in of(Verdict::Better) {
            let is_same = |worse: &&Row<'_>| {
                worse.finding.name == better.finding.name && worse.why == better.why
            };
            let worse: Vec<&str> =
                of(Verdict::Other).filter(is_same).map(|row| &row.claim.what[..]).collect();
            assert!(worse.is_empty(), "{}: {worse:?}", better.claim.what);
        }
    }
}
