//! Experiments by what they come from.

use crate::finding::{Finding, Report};

/// Documents, and how the names of their experiments begin. What the lab adds to a document stands with it.
const DOCUMENTS: [(&str, &[&str]); 4] = [
    ("The thesis, and FAST 2011", &["thesis", "cdds"]),
    ("NV-Tree", &["nvtree", "medium"]),
    ("Coburn's thesis", &["mars", "nvheaps"]),
    ("DurableFS", &["durablefs"]),
];

/// What no document has.
const RIVALS: &str = "Today's rivals";

fn group_of(name: &str) -> &'static str {
    let is_of = |starts: &[&str]| starts.iter().any(|start| name.starts_with(start));
    let document = DOCUMENTS.iter().find(|(_, starts)| is_of(starts));
    document.map_or(RIVALS, |(title, _)| *title)
}

/// The experiments of a report by what they come from; groups without any are left out.
pub(super) fn groups(report: &Report) -> Vec<(&'static str, Vec<&Finding>)> {
    let titles = DOCUMENTS.iter().map(|(title, _)| *title).chain([RIVALS]);
    let all = titles.map(|title| {
        let is_in = |finding: &&Finding| group_of(&finding.name) == title;
        (title, report.findings.iter().filter(is_in).collect::<Vec<_>>())
    });
    all.filter(|(_, part)| !part.is_empty()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn experiments_stand_with_their_document() {
        for (name, expected) in [
            ("thesis-4.5", "The thesis, and FAST 2011"),
            ("cdds-5.3", "The thesis, and FAST 2011"),
            ("nvtree-10a", "NV-Tree"),
            ("mars-3.6", "Coburn's thesis"),
            ("nvheaps-4.1", "Coburn's thesis"),
            ("durablefs-3.3", "DurableFS"),
            ("durablefs-trees", "DurableFS"),
            ("micro", RIVALS),
            ("ycsb-disk", RIVALS),
        ] {
            assert!(crate::Experiment::named(name).is_some(), "{name}");
            assert_eq!(group_of(name), expected, "{name}");
        }
    }
}
