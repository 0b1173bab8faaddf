//! One colour for one system, in every chart.

/// As many as the style has.
const COLOURS: usize = 20;

/// Systems, each with its colour, and their variants, each with a shade of its own where there is one. Two of one
/// colour never stand in one chart.
const SYSTEMS: &[(&str, usize)] = &[
    // Tembo as a store, and its indices; a server is a shade of its store.
    ("Tembo", 0),
    ("Tembo server", 10),
    ("NV-Tree here", 0),
    ("versions: NV-Tree here", 0),
    ("Tembo, CDDS", 1),
    ("Tembo server, CDDS", 9),
    ("CDDS here", 1),
    ("versions: CDDS here", 1),
    ("Tembo, CDDS, volatile", 9),
    ("CDDS here, volatile", 9),
    ("hash index here", 10),
    ("store, hash index", 12),
    ("store, NV-Tree", 14),
    // Other stores and servers.
    ("redb", 2),
    ("fjall", 3),
    ("LMDB", 4),
    ("LMDB, no readahead", 18),
    ("SQLite WAL", 5),
    ("SQLite journal", 19),
    ("RocksDB", 6),
    ("RocksDB, direct I/O", 17),
    ("Berkeley DB", 8),
    ("Berkeley DB, volatile", 15),
    ("tree and log", 7),
    ("Redis, always", 11),
    ("Redis, everysec", 17),
    ("Redis, volatile", 14),
    ("memcached, volatile", 12),
    // Trees of the documents.
    ("LCB+-Tree", 2),
    ("CDDS as published", 3),
    ("versions: CDDS as published", 3),
    ("CDDS as published, volatile", 13),
    ("CDDS, unordered", 6),
    ("NV-Tree as published", 4),
    ("NV-Tree as published, fixed", 18),
    ("NVT-A", 5),
    ("B+-Tree, volatile", 7),
    ("a B+-Tree and a log", 7),
    ("btreemap", 16),
    // Leaves that follow the workload, and sizes of them.
    ("fixed", 18),
    ("conservative", 5),
    ("balanced", 4),
    ("aggressive", 11),
    ("256 B", 4),
    ("512 B", 5),
    ("1 KiB", 0),
    ("loaded", 0),
    ("updated", 1),
    ("from PLNs", 1),
    ("from leaves", 0),
    // What lines are flushed for, and what media and processors offer.
    ("sorting leaves", 1),
    ("sorting inner nodes", 9),
    ("leaves", 0),
    ("inner nodes", 10),
    ("lines", 0),
    ("words written", 1),
    ("words allocated", 0),
    ("as here", 0),
    ("STT-RAM, 50 ns", 5),
    ("PCM, 180 ns", 11),
    ("50 ns a line, one fence", 0),
    ("50 ns a line, a fence a line", 10),
    ("180 ns a line, one fence", 1),
    ("180 ns a line, a fence a line", 9),
    ("clflush", 11),
    ("clflushopt", 5),
    ("clwb", 0),
    // Transactions: one thread, and two of a darker shade.
    ("snapshot, uniform", 0),
    ("snapshot, uniform, threads: 1", 0),
    ("snapshot, uniform, threads: 2", 10),
    ("snapshot, zipfian", 4),
    ("snapshot, zipfian, threads: 1", 4),
    ("snapshot, zipfian, threads: 2", 18),
    ("serialisable, uniform", 1),
    ("serialisable, uniform, threads: 1", 1),
    ("serialisable, uniform, threads: 2", 9),
    ("serialisable, zipfian", 5),
    ("serialisable, zipfian, threads: 1", 5),
    ("serialisable, zipfian, threads: 2", 19),
    // MARS and its rivals: larger pages are other shades.
    ("Write", 7),
    ("AtomicWrite", 2),
    ("SoftAtomic", 1),
    ("LogWrite+Commit", 5),
    ("Tembo's device", 0),
    ("DRAM", 16),
    ("ARIES, for Berkeley DB", 11),
    ("MARS, 4 KiB", 2),
    ("MARS, 16 KiB", 15),
    ("MARS, 64 KiB", 18),
    ("ARIES, 4 KiB", 11),
    ("ARIES, 16 KiB", 17),
    ("ARIES, 64 KiB", 6),
    ("the host knows of the commit (C)", 0),
    ("all is in place (WB)", 1),
    // The layers of a heap.
    ("volatile", 7),
    ("BASE", 6),
    ("SAFE", 4),
    ("TX", 3),
    ("C-TX", 0),
    ("libpmemobj", 5),
    // File systems; a mount and a library have a colour for each medium.
    ("Tembo mount, disk", 0),
    ("Tembo mount, disk, --durable fsync", 10),
    ("Tembo library, disk", 4),
    ("Tembo mount, memory", 3),
    ("Tembo library, memory", 13),
    ("Tembo library, volatile", 6),
    ("ext4", 2),
    ("ext4 on the disk", 2),
    ("bindfs on ext4", 15),
    ("ext4, ram disk", 8),
    ("ext4 on a loop device", 18),
    ("loop block device, O_DIRECT", 17),
    ("tmpfs", 5),
    ("mapping", 0),
    ("mapping, flushed", 1),
];

/// The colours of the series of a chart. What is no system gets one that is not taken, in its order.
pub(super) fn colours<'n>(names: impl Iterator<Item = &'n str> + Clone) -> Vec<usize> {
    let known = |name: &str| SYSTEMS.iter().find(|(system, _)| *system == name).map(|(_, c)| *c);
    let mut taken: Vec<usize> = names.clone().filter_map(known).collect();
    let colour = |name| {
        known(name).unwrap_or_else(|| {
            let free = (0..COLOURS).find(|colour| !taken.contains(colour)).unwrap_or(0);
            taken.push(free);
            free
        })
    };
    names.map(colour).collect()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use std::collections::HashMap;
    use std::path::Path;

    use super::*;
    use crate::finding::{Report, Shape};

    fn count_distinct(colours: &[usize]) -> usize {
        let mut distinct = colours.to_vec();
        distinct.sort_unstable();
        distinct.dedup();
        distinct.len()
    }

    /// Between charts with other systems beside it, a system keeps its colour; in a chart no two share one, names that
    /// the table does not have among them.
    #[test]
    fn a_system_has_one_colour_and_a_chart_no_two_alike() {
        let stores = ["Tembo", "Tembo, CDDS", "redb", "fjall", "LMDB", "SQLite WAL"];
        let more = ["SQLite journal", "RocksDB", "Berkeley DB", "something else", "another"];
        let all: Vec<&str> = stores.iter().chain(&more).copied().collect();
        let (few, many) = (colours(["LMDB", "Tembo"].into_iter()), colours(all.iter().copied()));
        assert_eq!(few, [many[4], many[0]]);
        assert_eq!(count_distinct(&many), many.len());
        let trees = [
            "B+-Tree, volatile",
            "LCB+-Tree",
            "CDDS as published",
            "CDDS as published, volatile",
            "CDDS here",
            "CDDS here, volatile",
            "CDDS, unordered",
            "NV-Tree as published",
            "NV-Tree as published, fixed",
            "NV-Tree here",
            "NVT-A",
        ];
        assert_eq!(count_distinct(&colours(trees.into_iter())), trees.len());
    }

    #[test]
    fn a_system_has_one_row_and_a_colour_of_the_style() {
        let style = include_str!("plot.css");
        for (nth, (name, colour)) in SYSTEMS.iter().enumerate() {
            let is_again = SYSTEMS[..nth].iter().any(|(other, _)| other == name);
            assert!(!is_again, "{name}");
            assert!(style.contains(&format!(".c{colour}{{fill:")), "{name}: {colour}");
        }
    }

    /// The same of all charts that are published, with the names that they have.
    #[test]
    fn in_published_charts_a_name_has_one_colour_and_no_other_name_of_its_chart_has_it() {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/results/results.json");
        let report: Report = serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap();
        let mut of_names: HashMap<&str, usize> = HashMap::new();
        // A heat has one colour, whose shades are its figures.
        let charts = report.findings.iter().flat_map(|finding| &finding.charts);
        for chart in charts.filter(|chart| chart.shape != Shape::Heat) {
            let names = chart.series.iter().map(|series| series.name.as_str());
            let colours = colours(names.clone());
            assert_eq!(count_distinct(&colours), colours.len(), "{}", chart.title);
            for (name, colour) in names.zip(colours) {
                let first = *of_names.entry(name).or_insert(colour);
                assert_eq!(first, colour, "{name} in {}", chart.title);
            }
        }
        assert!(!of_names.is_empty());
    }
}
