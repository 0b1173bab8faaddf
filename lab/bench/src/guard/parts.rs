//! The parts of the code that a profile has, and which instruction is of which.

use super::symbols::Frame;

/// A file or a folder of the project, a function in it or any, and the part.
type Rule = (&'static str, &'static str, &'static str);

/// What the caller's part is: a word of memory, a comparison of words.
const CALLER: &str = "";

/// The first that fits holds.
const RULES: &[Rule] = &[
    ("lab/", "", HARNESS),
    // Small things that all use.
    ("crates/pmem/src/prefetch.rs", "", CALLER),
    ("crates/pmem/src/racy", "crc32c", RECORD),
    ("crates/pmem/src/racy", "", CALLER),
    ("crates/pmem/src/memory.rs", "", CALLER),
    ("crates/index/src/simd.rs", "", CALLER),
    // Below the waist.
    ("crates/pmem/src/region.rs", "reserve", SECTION),
    ("crates/pmem/src/log/reserve.rs", "", SECTION),
    ("crates/pmem/src/region/write.rs", "", FLUSH),
    ("crates/pmem/src/region.rs", "fence", FLUSH),
    ("crates/pmem/src/region.rs", "flush", FLUSH),
    ("crates/pmem/src/region.rs", "note", FLUSH),
    ("crates/pmem/src/region", "", BOUNDS),
    ("crates/pmem/src/mapping", "", BOUNDS),
    ("crates/pmem/src/counters.rs", "", COUNTERS),
    ("crates/pmem/src/thread", "", LATCH),
    ("crates/pmem/src/media", "", RECORD),
    ("crates/pmem/", "", FLUSH),
    ("crates/pool/", "", SPACE),
    // The index.
    ("crates/index/src/nvtree/inner", "", INNER),
    ("crates/index/src/nvtree/leaves.rs", "", LEAF),
    ("crates/index/src/nvtree/leaves", "", LEAF),
    ("crates/index/src/nvtree/leaves/wanted.rs", "find", SLOT),
    ("crates/index/src/nvtree/fast.rs", "", FAST),
    ("crates/index/", "", OTHER_INDEX),
    ("crates/kv/", "", STORE),
];

const HARNESS: &str = "the loop that measures";
const BOUNDS: &str = "checks of bounds";
const SECTION: &str = "section";
const FLUSH: &str = "store, flush, fence";
const COUNTERS: &str = "counters of the waist";
const LATCH: &str = "latch, number of the thread";
const RECORD: &str = "record: read, write, checksum";
const SPACE: &str = "space";
const INNER: &str = "inner nodes";
const LEAF: &str = "leaf";
const SLOT: &str = "slot";
const FAST: &str = "fast path";
const OTHER_INDEX: &str = "index";
const STORE: &str = "store";

/// What is in no file of the project, and was inlined into none.
const LIBRARY: &str = "libraries";

/// The file of a frame, from the project's folder on; `None`: it is no file of the project.
fn file(frame: &Frame) -> Option<&str> {
    let at = ["/crates/", "/lab/"].iter().filter_map(|folder| frame.file.rfind(folder)).max()?;
    let is_library = frame.file.contains("/.cargo/") || frame.file.starts_with("/rustc/");
    (!is_library).then(|| &frame.file[at + 1..])
}

/// The last part of a function's path.
fn function(frame: &Frame) -> &str {
    let path = frame.function.split('<').next().unwrap_or_default();
    path.rsplit("::").next().unwrap_or(path)
}

/// The part that an instruction is of, by the functions that it is of, the innermost first.
pub(super) fn part(frames: &[Frame]) -> &'static str {
    for frame in frames {
        let Some(file) = file(frame) else { continue };
        let fits = |rule: &&Rule| {
            file.starts_with(rule.0) && (rule.1.is_empty() || function(frame).starts_with(rule.1))
        };
        match RULES.iter().find(fits) {
            Some((_, _, part)) if *part != CALLER => return part,
            _ => {}
        }
    }
    LIBRARY
}
