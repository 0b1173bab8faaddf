//! In which parts of the code the instructions of an operation are.
//!
//! Callgrind writes down how often each instruction was executed, and `addr2line` of which functions it is: the innermost one
//! that is the project's says the part (`parts.rs`). So code that was inlined counts for what it is, and
//! what the standard library does for the function that has asked for it.

use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;

use serde::Serialize;
use tembo_index::IndexKind;

use super::callgrind::{guarded, watch};
use super::cases::{Case, Cases, Entries, LOADED, OPERATIONS};
use super::parts::{FOREIGN, part};
use super::symbols::frames;
use crate::contender::Size;
use crate::keys::Keys;
use crate::rival::failed;
use crate::{Error, Kind, Operation};

/// Bytes in a node.
const NODE_SIZE: u32 = 1024;

/// Functions that are shown of a part.
const FUNCTIONS: usize = 12;

/// What callgrind writes down that its own tools do without: each instruction.
const OPTIONS: [&str; 3] = ["--dump-instr=yes", "--compress-strings=no", "--compress-pos=no"];

/// The trees that are profiled alone.
const TREES: [Kind; 2] = [Kind::Nvtree, Kind::Cdds];

/// Of a bare tree, with what they are called in the table.
const BARE: [(Operation, &str); 6] = [
    (Operation::Lookup, "lookup"),
    (Operation::MissingLookup, "missing"),
    (Operation::Update, "update"),
    (Operation::Insert, "insert"),
    (Operation::Remove, "remove"),
    (Operation::Scan, "scan of 100"),
];

/// Of the store, likewise.
const STORE: [(Case, &str); 6] = [
    (Case::Get, "get"),
    (Case::GetMissing, "missing"),
    (Case::Update, "put over"),
    (Case::Insert, "put new"),
    (Case::Remove, "remove"),
    (Case::Range, "range of 100"),
];

/// A table: what was filled, and the columns.
struct Table {
    title: &'static str,
    operations: [&'static str; 6],
}

fn tables() -> [Table; 4] {
    let (bare, store) = (BARE.map(|(_, name)| name), STORE.map(|(_, name)| name));
    [
        Table { title: "the NV-Tree alone, keys and values of 8 bytes", operations: bare },
        Table { title: "the CDDS B-Tree alone, keys and values of 8 bytes", operations: bare },
        Table {
            title: "the store over the NV-Tree, keys and values of 8 bytes",
            operations: store,
        },
        Table {
            title: "the store over the NV-Tree, keys of 16 to 32 bytes and values of 100",
            operations: store,
        },
    ]
}

/// Runs what is profiled, in this process: in the order of the tables.
///
/// # Errors
/// Those of the tree and of the store.
pub fn run_profiled() -> Result<(), Error> {
    let keys = Keys { count: LOADED, seed: 1 };
    for tree in TREES {
        let mut bare = tree.in_memory(Size::new(LOADED, NODE_SIZE), None)?;
        bare.inserts(&keys.shuffled(0))?;
        for (operation, _) in BARE {
            let salt = operation as u64 + 1;
            let mut plan = match operation {
                Operation::MissingLookup | Operation::Insert => keys.missing(salt),
                _ => keys.shuffled(salt),
            };
            plan.truncate(OPERATIONS as usize);
            guarded(&mut || bare.untimed(operation, &plan).map(drop))?;
        }
    }
    for entries in [Entries::Words, Entries::Strings] {
        let mut store = Cases::new(IndexKind::Nvtree, entries)?;
        for (case, _) in STORE {
            store.count(case)?;
        }
    }
    Ok(())
}

/// Instructions by part.
#[derive(Clone, Debug, Serialize)]
pub struct Profile {
    /// A table for each thing that was filled.
    pub tables: Vec<ProfileTable>,
}

/// Instructions by part, of some operations on one thing.
#[derive(Clone, Debug, Serialize)]
pub struct ProfileTable {
    /// What was filled.
    pub title: &'static str,
    /// The columns.
    pub operations: Vec<&'static str>,
    /// Instructions an operation, by part and column; the largest part of the first columns first.
    pub parts: Vec<(&'static str, Vec<f64>)>,
    /// By part: instructions of all columns together, by function.
    pub functions: BTreeMap<&'static str, Vec<(String, f64)>>,
}

/// Runs `program words...`, which is to call [`run_profiled`], under callgrind, and says where its instructions were.
///
/// # Errors
/// [`Error::Rival`] if callgrind, `addr2line` or the program fails.
pub fn profile(program: &Path, words: &[&str]) -> Result<Profile, Error> {
    let dumps = watch(program, words, &OPTIONS)?.texts()?;
    let name = program.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let dumps: Vec<Dump> = dumps.iter().map(|text| Dump::parse(text, &name)).collect();
    let tables = tables();
    let wanted: usize = tables.iter().map(|table| table.operations.len()).sum();
    if dumps.len() < wanted {
        return Err(failed("callgrind")(format!("{} dumps of {wanted}", dumps.len()).into()));
    }
    let mut addresses: Vec<u64> = dumps.iter().flat_map(|dump| dump.own.keys().copied()).collect();
    addresses.sort_unstable();
    addresses.dedup();
    let frames = frames(program, addresses.into_iter())?;
    let place = |address: u64| {
        let frames = frames.get(&address).map_or(&[][..], Vec::as_slice);
        let function = frames.first().map_or("?", |frame| frame.function.as_str());
        (part(frames), function)
    };
    let mut dumps = dumps.iter();
    let tables = tables.iter().map(|table| {
        let dumps: Vec<&Dump> = dumps.by_ref().take(table.operations.len()).collect();
        table.of(&dumps, &place)
    });
    Ok(Profile { tables: tables.collect() })
}

impl Table {
    fn of<'p>(
        &self,
        dumps: &[&Dump],
        place: &dyn Fn(u64) -> (&'static str, &'p str),
    ) -> ProfileTable {
        let mut parts: BTreeMap<&str, Vec<f64>> = BTreeMap::new();
        let mut functions: BTreeMap<&str, BTreeMap<String, f64>> = BTreeMap::new();
        for (column, dump) in dumps.iter().enumerate() {
            let own = dump.own.iter().map(|(&address, &count)| (place(address), count));
            let foreign = dump.foreign.iter().map(|(name, &count)| ((FOREIGN, &name[..]), count));
            for ((part, function), count) in own.chain(foreign) {
                let count = count as f64 / OPERATIONS as f64;
                parts.entry(part).or_insert_with(|| vec![0.0; dumps.len()])[column] += count;
                let functions = functions.entry(part).or_default();
                *functions.entry(function.to_owned()).or_default() += count;
            }
        }
        let mut parts: Vec<_> = parts.into_iter().collect();
        let weight = |part: &(&str, Vec<f64>)| part.1.iter().sum::<f64>();
        parts.sort_by(|a, b| weight(b).total_cmp(&weight(a)));
        let functions = functions.into_iter().map(|(part, functions)| {
            let mut functions: Vec<_> = functions.into_iter().collect();
            functions.sort_by(|a, b| b.1.total_cmp(&a.1));
            functions.truncate(FUNCTIONS);
            (part, functions)
        });
        let functions = functions.collect();
        ProfileTable { title: self.title, operations: self.operations.to_vec(), parts, functions }
    }
}

/// What callgrind has written down: executions, by the address of an instruction of the program, and by the name of a
/// function that is in a library.
#[derive(Debug, Default, PartialEq, Eq)]
struct Dump {
    own: BTreeMap<u64, u64>,
    foreign: BTreeMap<String, u64>,
}

impl Dump {
    /// Of the program of that name. A line of costs is an address, a line of the source and a count; behind a
    /// `calls=` comes one that is the callee's.
    fn parse(text: &str, program: &str) -> Dump {
        let (mut dump, mut is_own, mut is_call) = (Dump::default(), false, false);
        let mut function = "";
        for line in text.lines() {
            if let Some(object) = line.strip_prefix("ob=") {
                is_own = object.rsplit('/').next() == Some(program);
            } else if let Some(name) = line.strip_prefix("fn=") {
                function = name;
            } else if line.starts_with("calls=") {
                is_call = true;
            } else if let Some(digits) = line.strip_prefix("0x")
                && let Some((address, count)) = cost(digits)
                && !std::mem::take(&mut is_call)
            {
                if is_own {
                    *dump.own.entry(address).or_default() += count;
                } else {
                    *dump.foreign.entry(function.to_owned()).or_default() += count;
                }
            }
        }
        dump
    }
}

fn cost(line: &str) -> Option<(u64, u64)> {
    let mut words = line.split(' ');
    let address = u64::from_str_radix(words.next()?, 16).ok()?;
    Some((address, words.nth(1)?.parse().ok()?))
}

impl fmt::Display for Profile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "instructions an operation, of {LOADED} keys")?;
        self.tables.iter().try_for_each(|table| table.fmt(f))
    }
}

impl fmt::Display for ProfileTable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "\n| {} | {} |", self.title, self.operations.join(" | "))?;
        writeln!(f, "|---|{}", "--:|".repeat(self.operations.len()))?;
        let all = |column: usize| self.parts.iter().map(|(_, counts)| counts[column]).sum::<f64>();
        let row = |counts: &mut dyn Iterator<Item = f64>| {
            counts.map(|count| format!("{count:.0}")).collect::<Vec<_>>().join(" | ")
        };
        for (part, counts) in &self.parts {
            writeln!(f, "| {part} | {} |", row(&mut counts.iter().copied()))?;
        }
        writeln!(f, "| **all** | {} |", row(&mut (0..self.operations.len()).map(all)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_is_not_counted_twice() {
        let text = "positions: instr line\nevents: Ir\n\
                    ob=/a/tembo-lab\nfl=/a/x.rs\nfn=one\n0x10 3 5\n0x13 4 1\n\
                    cob=/lib/libc.so\ncfn=memcpy\ncalls=7 0x90 0\n0x13 4 70\n0x10 3 2\n\
                    ob=/lib/libc.so\nfn=memcpy\n0x90 0 70\ntotals: 78\n";
        let dump = Dump::parse(text, "tembo-lab");
        assert_eq!(dump.own, BTreeMap::from([(0x10, 7), (0x13, 1)]));
        assert_eq!(dump.foreign, BTreeMap::from([("memcpy".to_owned(), 70)]));
    }
}
