//! Aims that no document has: which are missed, and why as far as it is known.

use super::claims::{Figure, NOT_EXPLAINED, figure};
use crate::finding::{Claim, Finding};

const REQUESTS: &str = "a program waits for ten requests a file to the process that serves on a disk, and eight in memory (docs/filesystem.md), and a request is two switches between processes; ext4 needs none";

const NO_WAIT: &str =
    "an fsync in memory waits for nothing, so that one transaction has no wait to save";

/// Experiment, a part of the claim, reason.
const REASONS: &[(&str, &str, &str)] = &[
    (
        "durablefs-3.3",
        "mount, disk",
        "a write and an fsync are two requests to the process that serves, each with two switches between processes; the library without them takes about as long as ext4 (chart)",
    ),
    ("durablefs-small", "8 processes: Tembo mount", REQUESTS),
    (
        "durablefs-small",
        "8 processes: Tembo library",
        "each change takes the lock of the store's one writer, and all make files in one folder",
    ),
    ("durablefs-small", "memory: one transaction to fsync of each", NO_WAIT),
    (
        "durablefs-stream",
        "cached read",
        "the kernel answers out of its cache, without a request to the process that serves, about as fast as a tmpfs (chart): both have pages of 4 KiB, and ext4 larger ones, with which tmpfs is as fast (docs/filesystem.md)",
    ),
    (
        "durablefs-versions",
        "clone",
        "a clone of a folder makes an inode and a name for each file, and copies the bytes of such small ones: only those of larger files are shared (docs/filesystem.md)",
    ),
    (
        "nvheaps-programs",
        "SPS: C-TX to libpmemobj",
        "a swap is a transaction of two words: it is nearly all commit, of which libpmemobj's takes 1.1 to 1.2 times as long and BASE, with a checkpoint after 64 swaps, a third (above)",
    ),
    (
        "nvheaps-programs",
        "SixDegrees: C-TX to libpmemobj",
        "nearly all is a search by breadth: memory without durability has 1.0 to 1.1 times libpmemobj's works (twice C-TX's), so that no heap can have 1.5. By samples the search takes 24 % of C-TX's time, the first load of each object 13 %, the checks of its version and type and copies of its words the rest",
    ),
    (
        "nvheaps-programs",
        "C-TX to libpmemobj",
        "no part of the time stands out. By samples: 10 to 14 % are looks at objects, which wait for the head, 4 to 9 % the commit's fence, the rest the checks of versions and types, counted pointers, the change kept in memory and the entry of the log, each 2 to 7 %. libpmemobj follows addresses as they are; isolation is the benchmark's one lock",
    ),
    (
        "thesis-4.5",
        "insertion",
        "half of the time of a million insertions is the wait for the fence, which both have, a seventh the splits of leaves, and a twentieth the NV-Tree's search of its inner nodes (by samples): without any search there would be 1.05 times as many. What helped is kept: a larger directory takes over what the smaller one named, in turns 1.14 times the insertions of ten million keys. Large pages under the directory: no difference",
    ),
    (
        "thesis-4.5",
        "lookup: hash index to NV-Tree, 1000000",
        "the inner nodes over a million keys lie in the second cache, and their search takes little longer than that of the directory's slot, which does not; with ten million keys the aim is reached. Runs differ: 1.07 and 1.22 in the two before",
    ),
];

/// Why an aim is missed; empty for one that is reached, and for claims that are none.
pub(super) fn why(finding: &Finding, claim: &Claim) -> &'static str {
    if !is_missed(claim) {
        return "";
    }
    let is_of =
        |(name, part, _): &&(&str, &str, &str)| *name == finding.name && claim.what.contains(part);
    REASONS.iter().find(is_of).map_or(NOT_EXPLAINED, |(_, _, reason)| reason)
}

/// Whether an experiment has an aim that is missed.
pub(super) fn are_missed(finding: &Finding) -> bool {
    finding.claims.iter().any(is_missed)
}

/// What is "about" a figure is no further from it than this part.
const ABOUT: f64 = 0.1;

/// Most milliseconds that are not said in seconds.
const MILLISECONDS_MAX: f64 = 1000.0;

fn is_missed(claim: &Claim) -> bool {
    let Some(aim) = claim.document.strip_prefix("aim: ") else { return false };
    let ours = match figure(&claim.here) {
        Some(Figure::Ratio(ours) | Figure::Number(ours)) => ours,
        Some(Figure::Change(_)) | None => return false,
    };
    let Some(theirs) = figure(aim) else {
        return aim == "milliseconds" && ours >= MILLISECONDS_MAX;
    };
    let (Figure::Ratio(theirs) | Figure::Number(theirs) | Figure::Change(theirs)) = theirs;
    let is_within = |part: f64| ((ours - theirs) / theirs).abs() <= part;
    match aim {
        _ if aim.starts_with("at least") => ours < theirs,
        _ if aim.starts_with("at most") => ours > theirs,
        _ if aim.starts_with("about") => !is_within(ABOUT),
        // What is shown is rounded.
        _ if aim.ends_with("within 10 %") => !is_within(0.1 + 0.5 / theirs),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use std::path::Path;

    use super::*;
    use crate::finding::Report;

    #[test]
    fn an_aim_is_missed_by_its_own_words() {
        for (document, here, expected) in [
            ("aim: at least 1", "0.39× (0.37–0.43)", true),
            ("aim: at least 1", "1.46× (1.37–1.49)", false),
            ("aim: at least 5", "2.94× (2.00–3.25)", true),
            ("aim: at most 3", "3.94× (3.93–5.85)", true),
            ("aim: at most 3", "1.32× (1.00–1.37)", false),
            ("aim: about 1", "0.79× (0.71–0.80)", true),
            ("aim: about 1", "0.95× (0.91–1.02)", false),
            ("aim: milliseconds", "7.9 ms", false),
            ("aim: milliseconds", "4219.7 ms", true),
            ("aim: 50 ns within 10 %", "45 ns (-10.0 %)", false),
            ("aim: 50 ns within 10 %", "42 ns (-16.0 %)", true),
            ("aim: at least 1", "not measured", false),
            ("up to 7×", "0.90×", false),
            ("", "0.12×", false),
        ] {
            let claim = Claim { what: "a".into(), document: document.into(), here: here.into() };
            assert_eq!(is_missed(&claim), expected, "{document} | {here}");
        }
    }

    /// A full run is published only with a reason beside each aim that it misses.
    #[test]
    fn what_is_missed_is_explained() {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/results/results.json");
        let report: Report = serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap();
        let all = report.findings.iter();
        let all = all.flat_map(|finding| finding.claims.iter().map(move |claim| (finding, claim)));
        let (missed, open): (Vec<_>, Vec<_>) = all
            .filter(|(_, claim)| is_missed(claim))
            .map(|(finding, claim)| (why(finding, claim), &claim.what))
            .partition(|(why, _)| *why != NOT_EXPLAINED);
        assert!(open.is_empty(), "{open:#?}");
        assert!(missed.iter().all(|(why, _)| !why.is_empty()) && !missed.is_empty());
    }
}
