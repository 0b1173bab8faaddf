//! One colour for one system, in every chart.

/// As many as the style has.
const COLOURS: usize = 20;

/// Systems, each with its colour. Two of one colour never stand in one chart.
const SYSTEMS: &[(&str, usize)] = &[
    ("Tembo", 0),
    ("Tembo server", 0),
    ("NV-Tree here", 0),
    ("versions: NV-Tree here", 0),
    ("snapshot, uniform", 0),
    ("mapping", 0),
    ("Tembo, CDDS", 1),
    ("Tembo server, CDDS", 1),
    ("CDDS here", 1),
    ("versions: CDDS here", 1),
    ("mapping, flushed", 1),
    ("Tembo, CDDS, volatile", 9),
    ("CDDS here, volatile", 9),
    ("hash index here", 10),
    ("store, hash index", 12),
    ("store, NV-Tree", 14),
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
    ("fixed", 18),
    ("conservative", 5),
    ("balanced", 4),
    ("aggressive", 11),
    ("as here", 0),
    ("clflush", 11),
    ("clflushopt", 5),
    ("clwb", 0),
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
    use super::*;

    /// Between charts with other systems beside it, a system keeps its colour; in a chart no two share one.
    #[test]
    fn a_system_has_one_colour_and_a_chart_no_two_alike() {
        let stores = ["Tembo", "Tembo, CDDS", "redb", "fjall", "LMDB", "SQLite WAL"];
        let more = ["SQLite journal", "RocksDB", "Berkeley DB", "something else", "another"];
        let all: Vec<&str> = stores.iter().chain(&more).copied().collect();
        let (few, many) = (colours(["LMDB", "Tembo"].into_iter()), colours(all.iter().copied()));
        assert_eq!(few, [many[4], many[0]]);
        let mut distinct = many.clone();
        distinct.sort_unstable();
        distinct.dedup();
        assert_eq!(distinct.len(), many.len());
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
        let mut distinct = colours(trees.into_iter());
        distinct.sort_unstable();
        distinct.dedup();
        assert_eq!(distinct.len(), trees.len());
    }
}
