//! The contenders by name.

use serde::Serialize;

use crate::{Kind, Operation};

/// A contender of the comparison with published indexes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Candidate {
    /// A store, a flush and a fence of a random line: nothing durable is faster.
    Wall,
    /// LB+-Tree.
    Lbtree,
    /// P-ART of RECIPE.
    Part,
    /// FAST&FAIR.
    Fastfair,
    /// Abseil's B-Tree in memory over a log.
    Abseil,
    /// The NV-Tree of this house, bare: versions, each operation commits by itself.
    Bare,
    /// The store over it, each operation a strict commit.
    Store,
}

/// What a reader of all figures has to know.
pub(super) const NOTES: [&str; 4] = [
    "CPU time of the process has that of its threads in the background while an operation is timed. What they do between two operations is in no column. Rivals have no such threads.",
    "Pages: the file of a rival, and the pool of bare and of store, lies at a multiple of 2 MiB, and all of it is asked into pages of 2 MiB before anything is timed. For a rival's other memory the same is asked by glibc.malloc.hugetlb=1; bare and store ask for it themselves, from a thread in the background, also while operations are timed. How much has such pages is beside the bytes an entry.",
    "Instructions: bare and store are counted in memory, without flushes and fences. A rival's are counted with them, and its driver is compiled for x86-64-v3; the one that is timed, for this processor.",
    "Judged, and not timed: sequential insertions by lookups, removals by lookups, scans by a sum over the keys that they visit (of bare, and of store with keys of 8 bytes, their number only).",
];

/// What keys and values are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Shape {
    /// Keys and values of 8 bytes.
    Numbers,
    /// Keys of 16 to 32 bytes, values of 100.
    Strings,
}

impl Shape {
    /// For the command line of a cell or driver.
    pub(super) fn word(self) -> &'static str {
        match self {
            Shape::Numbers => "numbers",
            Shape::Strings => "strings",
        }
    }
}

impl Candidate {
    /// In the order of tables.
    pub const ALL: [Candidate; 7] = [
        Candidate::Wall,
        Candidate::Lbtree,
        Candidate::Part,
        Candidate::Fastfair,
        Candidate::Abseil,
        Candidate::Bare,
        Candidate::Store,
    ];

    /// For the command line.
    pub fn name(self) -> &'static str {
        match self {
            Candidate::Wall => "wall",
            Candidate::Lbtree => "lbtree",
            Candidate::Part => "part",
            Candidate::Fastfair => "fastfair",
            Candidate::Abseil => "abseil",
            Candidate::Bare => "bare",
            Candidate::Store => "store",
        }
    }

    /// For tables.
    pub fn title(self) -> &'static str {
        match self {
            Candidate::Lbtree => "LB+-Tree",
            Candidate::Part => "P-ART",
            Candidate::Fastfair => "FAST&FAIR",
            Candidate::Abseil => "Abseil, log",
            _ => self.name(),
        }
    }

    /// The candidate of that name.
    pub fn named(name: &str) -> Option<Candidate> {
        Candidate::ALL.into_iter().find(|candidate| candidate.name() == name)
    }

    /// Neither ours nor the wall.
    pub(super) fn is_rival(self) -> bool {
        self.kind().is_none()
    }

    /// What it is among the contenders of the other experiments.
    pub(super) fn kind(self) -> Option<Kind> {
        match self {
            Candidate::Wall => Some(Kind::Wall),
            Candidate::Bare => Some(Kind::Nvtree),
            Candidate::Store => Some(Kind::KvNvtree),
            _ => None,
        }
    }

    /// Whether it takes keys and values of that shape.
    pub(super) fn takes(self, shape: Shape) -> bool {
        let has_strings = matches!(self, Candidate::Part | Candidate::Abseil | Candidate::Store);
        shape == Shape::Numbers || has_strings
    }

    /// Whether it has that operation.
    pub(super) fn offers(self, operation: Operation) -> bool {
        self != Candidate::Wall || operation.is_write()
    }

    /// Why two threads cannot change it at once, if they cannot.
    pub(super) fn one_thread(self, has_rtm: bool) -> Option<&'static str> {
        match self {
            Candidate::Lbtree if !has_rtm => {
                Some("two threads need transactional memory, which this processor has not")
            }
            Candidate::Fastfair => Some("the sources for one thread are measured"),
            Candidate::Abseil => Some("a map for one thread"),
            _ => None,
        }
    }

    /// What a reader of its figures has to know.
    pub(super) fn note(self, has_rtm: bool) -> Option<&'static str> {
        Some(match self {
            Candidate::Lbtree if has_rtm => {
                "LB+-Tree: its update is a lookup, a store, clwb and sfence; its scan sorts each leaf by its own sort. It subtracts keys as signed numbers, so all keys here are below 2^63. Its file has all pages before it begins."
            }
            Candidate::Lbtree => {
                "LB+-Tree: this processor has no transactional memory (RTM). Its transactions are left out: they begin at once, cost nothing and never abort, which is right for one thread only; its sources have no other fallback. Its update is a lookup, a store, clwb and sfence; its scan sorts each leaf by its own sort. It subtracts keys as signed numbers, so all keys here are below 2^63. Its file has all pages before it begins."
            }
            Candidate::Part => {
                "P-ART: nodes and records lie in a file, by an allocator that no crash would survive. Its update is a lookup, a store, clwb and sfence; with strings the value is a record that the key's points to. Records of removed keys are not freed, as in its sources."
            }
            Candidate::Fastfair => {
                "FAST&FAIR: its clflush and mfence are assembled as clwb and sfence; pages lie in a file, by the same allocator as P-ART's. Its update and its scan look at the entries of its leaves."
            }
            Candidate::Abseil => {
                "Abseil: the map is volatile; each change appends a record with a checksum to a log that is never collected, clwb and sfence. No time of a recovery is counted."
            }
            _ => return None,
        })
    }
}
