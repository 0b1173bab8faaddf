//! The documents' trees, logs and layers that others are measured against: what was built, from which text, what
//! differs from it, and which tests hold it to its counts. The tests check that they are there.

use std::fmt::Write;

use super::escape;
use crate::finding::{Finding, Report};
use crate::rival::server_settings;

/// What was built of a document to be measured against.
struct Baseline {
    /// As the table has it.
    name: &'static str,
    /// Its series in charts.
    series: &'static [&'static str],
    /// Document and section.
    source: &'static str,
    /// What is not as the document has it, or what the document does not say.
    differs: &'static str,
    /// A file, and tests in it.
    tests: (&'static str, &'static [&'static str]),
}

/// What the rest of the page needs to know about the others.
const RIVALS: &str = "Today's rivals are the programs themselves: their settings beyond defaults stand below each experiment, those of servers here.";

const ADAPTIVE: &str = "NV-Tree as published";

const BASELINES: &[Baseline] = &[
    Baseline {
        name: "B+-Tree, volatile",
        series: &["B+-Tree, volatile"],
        source: "NV-Tree, 3.1 and 6.1.1",
        differs: "sorted nodes of a head of one line and entries of 8 B/8 B; nothing is flushed; leaves are not merged; one thread",
        tests: ("lab/bench/src/bplus/tests.rs", &["the_plain_tree_flushes_nothing"]),
    },
    Baseline {
        name: "LCB+-Tree",
        series: &["LCB+-Tree"],
        source: "NV-Tree, 3.1 and 6.1.1",
        differs: "before a node is changed its used part is copied to a log and flushed (the paper: “its original copy”), then what was changed and shifted; how nodes and log are laid out the paper does not say, and its lines an insertion are 10 to 15 % more; leaves are not merged; nothing is recovered after a crash; one thread",
        tests: (
            "lab/bench/src/bplus/tests.rs",
            &[
                "the_lcb_tree_flushes_about_what_the_paper_counted",
                "an_lcb_insertion_costs_its_log_and_its_shifts",
            ],
        ),
    },
    Baseline {
        name: "NVT-A",
        series: &["NVT-A"],
        source: "NV-Tree, 6.2",
        differs: "appended leaves as the NV-Tree has them under inner nodes as the LCB+-Tree has them, with the limits of the LCB+-Tree; a full leaf that goes on in one is written in its place, which flushes what a fresh one would",
        tests: (
            "lab/bench/src/bplus/tests.rs",
            &[
                "inner_nodes_take_more_than_a_fifth_of_what_nvt_a_flushes",
                "an_nvt_a_insertion_costs_two_flushes",
            ],
        ),
    },
    Baseline {
        name: "CDDS as published",
        series: &[
            "CDDS as published",
            "CDDS as published, volatile",
            "versions: CDDS as published",
        ],
        source: "Venkataraman, thesis 2011, 4.1 to 4.5, algorithms 1 to 6",
        differs: "mended, as the head of lab/bench/src/cdds_paper.rs lists: the binary search that steps past a hit, shifts that a crash tears, the count of entries that nothing persists, merges of inner nodes, recovery that leaves dead entries; an update, which the thesis has not, ends an entry and begins another in one version; 8 B/8 B; one thread, and no readers of older versions; the paper counts 8 to 26 % more lines an insertion (nvtree-1), and how its nodes are laid out it does not say: here no entry lies across two lines, which would be flushed both",
        tests: (
            "lab/bench/src/cdds_paper/tests/counts.rs",
            &[
                "insertions_flush_about_what_the_paper_counted",
                "an_insertion_costs_its_shifts_an_entry_and_the_version",
                "a_deletion_costs_the_end_and_the_version",
                "a_full_node_is_copied_to_one_node_or_to_two",
                "dead_entries_are_used_again",
            ],
        ),
    },
    Baseline {
        name: "CDDS, unordered",
        series: &["CDDS, unordered"],
        source: "Venkataraman, thesis 2011, 4.4.1",
        differs: "as CDDS as published, but that entries of leaves are not sorted and so not shifted: one that is dead is overwritten, as algorithm 2 has it",
        tests: (
            "lab/bench/src/cdds_paper/tests/counts.rs",
            &[
                "an_insertion_costs_its_shifts_an_entry_and_the_version",
                "dead_entries_are_used_again",
            ],
        ),
    },
    Baseline {
        name: ADAPTIVE,
        series: &[ADAPTIVE, "conservative", "balanced", "aggressive"],
        source: "NV-Tree, 4 and 5",
        differs: "balanced, unless a series names another strategy; mended, as the head of lab/bench/src/nvtree_paper.rs lists: the newest element of a key decides, an update shows both its elements by one store, a leaf that merged across parents is named by both, a hot PLN takes several ids; 8 B/8 B; one thread, for the locks are not described",
        tests: (
            "lab/bench/src/nvtree_paper/tests/counts.rs",
            &[
                "insert_update_and_remove_cost_two_flushes_each",
                "a_full_leaf_costs_two_fences_too",
                "insertions_flush_as_much_less_than_the_rivals_as_the_paper_says",
            ],
        ),
    },
    Baseline {
        name: "NV-Tree as published, fixed",
        series: &["NV-Tree as published, fixed", "fixed"],
        source: "NV-Tree, 4",
        differs: "as NV-Tree as published, without its section 5: leaves keep their size, and PLNs are not enlarged",
        tests: (
            "lab/bench/src/nvtree_paper/tests/counts.rs",
            &["insert_update_and_remove_cost_two_flushes_each", "a_full_leaf_costs_two_fences_too"],
        ),
    },
    Baseline {
        name: "tree and log",
        series: &["tree and log"],
        source: "Venkataraman, thesis 2011, 5.5",
        differs: "the thesis exchanged Redis' hash table for a B-Tree; here an ordered map of the standard library and an append-only log, synced by each change, without a server; the log is neither compacted nor read again",
        tests: (
            "lab/bench/src/rival/logged_tree.rs",
            &["each_change_is_one_record_and_one_sync", "a_log_is_its_records"],
        ),
    },
    Baseline {
        name: "a B+-Tree and a log",
        series: &["a B+-Tree and a log"],
        source: "Venkataraman, thesis 2011, figure 6.5",
        differs: "counted, not run: what the B+-Tree of 512 B nodes stores, and the record once in memory and once in the log, with the log's head of 9 bytes",
        tests: ("lab/bench/src/rival/logged_tree.rs", &["each_change_is_one_record_and_one_sync"]),
    },
    Baseline {
        name: "Write",
        series: &["Write"],
        source: "Coburn, thesis 2012, 3.5.1; \"Unsafe\" of figure 3.9",
        differs: "plain writes to the array, which a crash tears; where a chart says so time is modelled with the thesis's figures, of which the shares of driver and DMA are a guess",
        tests: (
            "lab/mars/tests/workload.rs",
            &["an_update_takes_as_many_requests_and_transfers_as_in_the_thesis"],
        ),
    },
    Baseline {
        name: "SoftAtomic",
        series: &["SoftAtomic"],
        source: "Coburn, thesis 2012, 3.5.1",
        differs: "log, commit record, data in place, as in the thesis, which does not say how it recovers: here each thread has a log with two commit records, and a record names the number below which all is in place; time is modelled where a chart says so",
        tests: (
            "lab/mars/tests/workload.rs",
            &["an_update_takes_as_many_requests_and_transfers_as_in_the_thesis"],
        ),
    },
    Baseline {
        name: "LogWrite+Commit, AtomicWrite, MARS",
        series: &["LogWrite+Commit", "AtomicWrite", "MARS, 4 KiB", "MARS, 16 KiB", "MARS, 64 KiB"],
        source: "Coburn, thesis 2012, 3.1.3 to 3.4.3",
        differs: "the machine in software, with modelled time where a chart says so; recovered by the set of participants, for the thesis's rule tears transactions (lab/mars/src/recovery.rs); errors and a list of a savepoint's writes, which the thesis leaves open",
        tests: ("lab/mars/tests/interface.rs", &["an_atomic_write_stores_its_data_twice"]),
    },
    Baseline {
        name: "ARIES",
        series: &["ARIES, 4 KiB", "ARIES, 16 KiB", "ARIES, 64 KiB", "ARIES, for Berkeley DB"],
        source: "Mohan et al., TODS 17(1), 1992; Coburn, thesis 2012, 3.1.2 and 3.5.2",
        differs: "steal, no force, fuzzy checkpoints beside the others, commits forced together; what of it the thesis's own had it does not say; a page is written with its head last, where the thesis counts on whole pages; there are no counts of it to compare, so a crash at any point is what it is tested by",
        tests: (
            "lab/mars/tests/crash/aries.rs",
            &["a_crash_leaves_what_has_committed_and_nothing_else"],
        ),
    },
    Baseline {
        name: "BASE, SAFE, TX, C-TX",
        series: &["BASE", "SAFE", "TX", "C-TX"],
        source: "Coburn, thesis 2012, 4 and 5.1 to 5.4",
        differs: "the layers of Tembo's own heap, not the thesis's C++: BASE has memory by hand and SAFE frees objects by itself, both with checkpoints where the thesis has no durability; TX lets one transaction run at a time; C-TX runs them side by side and detects conflicts by objects",
        tests: ("lab/bench/src/heap_program/tests.rs", &["fences_of_a_work_are_as_stated"]),
    },
];

impl Baseline {
    fn is_in(&self, finding: &Finding) -> bool {
        let mut series = finding.charts.iter().flat_map(|chart| &chart.series);
        series.any(|series| self.series.contains(&series.name.as_str()))
    }
}

/// Those that a report has figures of.
fn shown(report: &Report) -> impl Iterator<Item = &'static Baseline> {
    BASELINES.iter().filter(|own| report.findings.iter().any(|finding| own.is_in(finding)))
}

/// The names of those that are in an experiment.
fn names(finding: &Finding) -> String {
    let names = BASELINES.iter().filter(|own| own.is_in(finding)).map(|own| own.name);
    names.collect::<Vec<_>>().join("; ")
}

/// The table for the page; empty if the report has no figure of any.
pub(super) fn html(report: &Report) -> String {
    let mut rows = String::new();
    for Baseline { name, source, differs, tests: (file, tests), .. } in shown(report) {
        let [name, source, differs] = [name, source, differs].map(|text| escape(text));
        let tests: Vec<String> = tests.iter().map(|test| format!("<code>{test}</code>")).collect();
        let tests = tests.join(", ");
        // Writing to a string cannot fail, here and below.
        let _ =
            write!(rows, "<tr><td>{name}<td>{source}<td>{differs}<td><code>{file}</code>: {tests}");
    }
    if rows.is_empty() {
        return rows;
    }
    let servers = escape(&server_settings());
    format!(
        "<h2 id=baselines>Baselines</h2><p class=faint>What was built of the documents to be measured against. {RIVALS} {servers}</p><div class=wide><table class=claims><tr><th>Series<th>Document<th>What differs from it<th>Counts are tested by{rows}</table></div>"
    )
}

/// The same for the repository.
pub(super) fn markdown(report: &Report) -> String {
    let mut rows = String::new();
    for Baseline { name, source, differs, tests: (file, tests), .. } in shown(report) {
        let tests: Vec<String> = tests.iter().map(|test| format!("`{test}`")).collect();
        let tests = tests.join(", ");
        let _ = writeln!(rows, "| {name} | {source} | {differs} | `{file}`: {tests} |");
    }
    if rows.is_empty() {
        return rows;
    }
    let servers = server_settings();
    format!(
        "\n## Baselines\n\nWhat was built of the documents to be measured against. {RIVALS} {servers}\n\n| series | document | what differs from it | counts are tested by |\n|---|---|---|---|\n{rows}"
    )
}

/// Below an experiment of the page: which baselines are in it; empty if none is.
pub(super) fn html_pointer(finding: &Finding) -> String {
    let names = names(finding);
    if names.is_empty() {
        return names;
    }
    let names = escape(&names);
    format!(r##"<p class=faint><a href="#baselines">Baselines</a>: {names}.</p>"##)
}

/// The same for the repository.
pub(super) fn markdown_pointer(finding: &Finding) -> String {
    let names = names(finding);
    if names.is_empty() { names } else { format!("\n[Baselines](#baselines): {names}.\n") }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use std::fs;
    use std::path::Path;

    use super::*;
    use crate::finding::{Chart, Series, Shape};
    use crate::machine::Machine;

    fn finding(name: &str, series: &[&str]) -> Finding {
        let series = series.iter().map(|name| Series { name: (*name).into(), points: Vec::new() });
        let chart = Chart {
            title: "a chart".into(),
            x: "x".into(),
            y: "y".into(),
            shape: Shape::Bars,
            series: series.collect(),
        };
        let mut finding = Finding::new(name, "A test", "nowhere");
        finding.charts.push(chart);
        finding
    }

    fn report(findings: Vec<Finding>) -> Report {
        Report {
            machine: Machine::this(),
            time_s: 0,
            quick: true,
            seed: 1,
            commit: "c0ffee".into(),
            command: "tembo-lab bench test".into(),
            findings,
            missing: Vec::new(),
        }
    }

    /// What is not in the report is not in its table, and an experiment without baselines says nothing of them.
    #[test]
    fn only_baselines_of_the_report_are_shown() {
        let with = finding("nvtree-1", &["LCB+-Tree", "CDDS here"]);
        let fixed = finding("nvtree-7d", &["NV-Tree as published, fixed"]);
        let without = finding("micro", &["Tembo", "LMDB"]);
        let both = report(vec![with.clone(), fixed, without.clone()]);
        for page in [html(&both), markdown(&both)] {
            assert!(page.contains("3.1 and 6.1.1") && page.contains("NV-Tree as published, fixed"));
            for other in ["NVT-A", "SoftAtomic", "conservative", "2012", "algorithms 1 to 6"] {
                assert!(!page.contains(other), "{other}");
            }
        }
        assert!(html_pointer(&with).contains("LCB+-Tree"));
        assert!(markdown_pointer(&with).contains("LCB+-Tree"));
        let none = report(vec![without.clone()]);
        let texts =
            [html(&none), markdown(&none), html_pointer(&without), markdown_pointer(&without)];
        assert!(texts.iter().all(String::is_empty), "{texts:?}");
    }

    /// A table of Markdown has one row for each baseline, with its four cells.
    #[test]
    fn each_baseline_is_one_row() {
        let all: Vec<&str> = BASELINES.iter().flat_map(|own| own.series).copied().collect();
        let report = report(vec![finding("all", &all)]);
        let markdown = markdown(&report);
        let rows = markdown.lines().filter(|line| line.starts_with("| "));
        let cells: Vec<usize> = rows.map(|row| row.matches('|').count()).collect();
        assert_eq!(cells, vec![5; BASELINES.len() + 1]);
        assert_eq!(html(&report).matches("<tr>").count(), BASELINES.len() + 1);
    }

    /// A series is of one baseline, and each test that is named is where it is said to be.
    #[test]
    fn the_tests_that_are_named_are_there() {
        let mut all: Vec<&str> = BASELINES.iter().flat_map(|own| own.series).copied().collect();
        all.sort_unstable();
        assert!(all.windows(2).all(|pair| pair[0] != pair[1]), "{all:?}");
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        for Baseline { name, tests: (file, tests), .. } in BASELINES {
            let text = fs::read_to_string(root.join(file)).unwrap();
            assert!(!tests.is_empty(), "{name}");
            for test in *tests {
                assert!(text.contains(&format!("fn {test}() {{")), "{name}: {test} in {file}");
            }
        }
    }
}
