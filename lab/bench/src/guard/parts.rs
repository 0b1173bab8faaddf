//! The parts of the code that a profile has, and which instruction is of which.

use super::symbols::Frame;

/// A file or folder of the project, what the names of functions in it begin with, or all of them, and their part.
type Rule = (&'static str, &'static [&'static str], &'static str);

/// The part of the function into which it was inlined.
const CALLER: &str = "";

const INNER: &str = "inner nodes";
const KEY: &str = "key: word, prefix, hash";
const PRINTS: &str = "fingerprints";
const ELEMENT: &str = "element: compare, read, write";
const LEAF: &str = "leaf and side-car: where they are";
const SEQUENCE: &str = "sequence of the leaf";
const LOCK: &str = "lock of the leaf";
const SIDE: &str = "side-car: newest version, changes";
const BOUNDS: &str = "checks of bounds";
const SECTION: &str = "section";
const FLUSH: &str = "store, flush, fence";
const COUNTERS: &str = "counters of the waist";
const VERSION: &str = "version: drawn, stamped, landed";
const RETAINED: &str = "retained versions, tombstones, dead";
const PINS: &str = "visible version, pins";
const SLOT: &str = "write or read slot: latch";
const TREES: &str = "tree of the keyspace";
const TALLY: &str = "tally: counts, removed keys";
const DISPATCH: &str = "dispatch, results";
const FAST: &str = "fast path";
const GENERAL: &str = "general path, splits";
const RECORD: &str = "record";
const SPACE: &str = "space";
const HARNESS: &str = "the loop that measures";
const COPY: &str = "bytes copied, checksums";

/// Of functions of the C library.
pub(super) const FOREIGN: &str = "C library";

/// What is in no file of the project, and was inlined into none.
const LIBRARY: &str = "libraries";

/// The first that fits holds.
const RULES: &[Rule] = &[
    ("lab/bench", &[], HARNESS),
    // Below the waist.
    ("crates/pmem/src/racy", &[], CALLER),
    ("crates/pmem/src/prefetch.rs", &[], CALLER),
    ("crates/pmem/src/memory.rs", &[], CALLER),
    ("crates/pmem/src/table.rs", &[], LEAF),
    ("crates/pmem/src/media/word.rs", &[], ELEMENT),
    ("crates/pmem/src/media", &[], RECORD),
    ("crates/pmem/src/region.rs", &["reserve", "drop"], SECTION),
    ("crates/pmem/src/region.rs", &["fence", "flush", "note"], FLUSH),
    ("crates/pmem/src/region/write.rs", &[], FLUSH),
    ("crates/pmem/src/region", &[], BOUNDS),
    ("crates/pmem/src/mapping", &[], BOUNDS),
    ("crates/pmem/src/counters.rs", &[], COUNTERS),
    ("crates/pmem/src/thread", &[], SLOT),
    ("crates/pmem/src/log/reserve.rs", &[], SECTION),
    ("crates/pmem/", &[], FLUSH),
    ("crates/pool/", &[], SPACE),
    // The index.
    ("crates/index/src/simd.rs", &[], CALLER),
    ("crates/index/src/nvtree/inner", &[], INNER),
    ("crates/index/src/head.rs", &[], KEY),
    ("crates/index/src/key.rs", &[], KEY),
    ("crates/index/src/nvtree/leaves/wanted.rs", &["find"], ELEMENT),
    ("crates/index/src/nvtree/leaves/wanted.rs", &[], KEY),
    ("crates/index/src/nvtree/leaf/prints.rs", &["hash", "mix", "print", "raised"], KEY),
    ("crates/index/src/nvtree/leaf/prints.rs", &[], PRINTS),
    ("crates/index/src/nvtree/leaf/side.rs", &["begin", "still"], SEQUENCE),
    ("crates/index/src/nvtree/leaf/side.rs", &["lock", "unlock", "drop", "next"], LOCK),
    ("crates/index/src/nvtree/leaf/side.rs", &["bytes", "print"], PRINTS),
    ("crates/index/src/nvtree/leaf/side.rs", &[], SIDE),
    ("crates/index/src/nvtree/leaf/slot.rs", &[], ELEMENT),
    ("crates/index/src/nvtree/leaf/element.rs", &[], ELEMENT),
    ("crates/index/src/nvtree/leaf", &[], LEAF),
    ("crates/index/src/forest", &[], LEAF),
    ("crates/index/src/clock.rs", &[], VERSION),
    ("crates/index/src/stamp.rs", &[], VERSION),
    ("crates/index/src/nvtree/how.rs", &[], VERSION),
    ("crates/index/src/retained.rs", &[], RETAINED),
    ("crates/index/src/dead.rs", &[], RETAINED),
    ("crates/index/src/nvtree/fast.rs", &[], FAST),
    ("crates/index/src/nvtree/change/record.rs", &[], RECORD),
    ("crates/index/src/nvtree/change/carry.rs", &[], RECORD),
    ("crates/index/src/nvtree/change/", &[], GENERAL),
    ("crates/index/src/nvtree/image", &[], GENERAL),
    ("crates/index/src/nvtree/read/unpinned.rs", &[], RECORD),
    ("crates/index/src/record", &[], RECORD),
    ("crates/index/src/verified.rs", &[], RECORD),
    ("crates/index/", &[], DISPATCH),
    // The store.
    ("crates/kv/src/tally", &[], TALLY),
    ("crates/kv/src/trees", &[], TREES),
    ("crates/kv/src/tombstones", &[], RETAINED),
    ("crates/kv/src/version.rs", &[], VERSION),
    ("crates/kv/src/version/visible.rs", &[], VERSION),
    ("crates/kv/src/version/", &[], PINS),
    ("crates/kv/src/write/slots.rs", &[], SLOT),
    ("crates/kv/", &[], DISPATCH),
];

/// Where whole copies of bytes are.
const COPIES: &str = "crates/pmem/src/racy";

/// The file of a frame, from the project's folder on; `None`: it is no file of the project.
fn file(frame: &Frame) -> Option<&str> {
    let at = ["/crates/", "/lab/"].iter().filter_map(|folder| frame.file.rfind(folder)).max()?;
    Some(&frame.file[at + 1..])
}

/// The last part of a function's path.
fn function(frame: &Frame) -> &str {
    let path = frame.function.split('<').next().unwrap_or_default();
    path.rsplit("::").next().unwrap_or(path)
}

fn rule(frame: &Frame) -> Option<&'static str> {
    let (file, function) = (file(frame)?, function(frame));
    let is_named =
        |names: &[&str]| names.is_empty() || names.iter().any(|name| function.starts_with(name));
    let fits = |(path, names, _): &&Rule| file.starts_with(path) && is_named(names);
    RULES.iter().find(fits).map(|&(_, _, part)| part)
}

/// The part that an instruction is of, by the functions that it is of, the innermost first.
pub(super) fn part(frames: &[Frame]) -> &'static str {
    if let Some(part) = frames.iter().filter_map(rule).find(|&part| part != CALLER) {
        return part;
    }
    let is_copy = |frame: &Frame| file(frame).is_some_and(|file| file.starts_with(COPIES));
    if frames.iter().any(is_copy) { COPY } else { LIBRARY }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_instruction_is_of_the_innermost_function_that_has_a_part() {
        let frame = |function: &str, file: &str| Frame {
            function: function.to_owned(),
            file: file.to_owned(),
        };
        let core = frame("atomic_load<u64>", "/rustc/1/library/core/src/sync/atomic.rs");
        let begin = frame("begin_now", "/a/crates/b/crates/index/src/nvtree/leaf/side.rs");
        let fast = frame("index::nvtree::fast::put_fast", "/a/crates/index/src/nvtree/fast.rs");
        let load = frame("load<u8>", "/a/crates/pmem/src/racy/x86_64.rs");
        let added = frame("get", "");
        assert_eq!(part(&[core.clone(), begin, fast.clone()]), SEQUENCE);
        assert_eq!(part(&[core.clone(), load.clone(), fast.clone()]), FAST);
        assert_eq!(part(&[added, fast]), FAST);
        assert_eq!((part(&[core.clone(), load]), part(&[core])), (COPY, LIBRARY));
    }
}
