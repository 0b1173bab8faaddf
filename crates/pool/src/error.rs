//! What can go wrong in a pool.

use tembo_pmem::Fault;

/// What a tenant says of itself: an error of the crate that has its kind.
pub type TenantError = Box<dyn std::error::Error + Send + Sync>;

/// Errors of opening a pool, of its space, and of what it finds on media.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The region below refused: disk full, poisoned, held by another process, damaged.
    #[error(transparent)]
    Region(#[from] tembo_pmem::Error),
    /// There is no superblock where one should be.
    #[error(
        "not a pool, the superblock begins with {found:#018x}: check the path, or restore a backup"
    )]
    NotAPool {
        /// The first word found, little-endian.
        found: u64,
    },
    /// A later version of the software wrote this pool.
    #[error(
        "format version {found} is newer than {known}, the newest that is known here: use a newer version"
    )]
    NewerVersion {
        /// The version on media.
        found: u32,
        /// The newest version that can be opened.
        known: u32,
    },
    /// The pool uses features that this version does not know. With unknown `read-only` bits it can still
    /// be opened to read.
    #[error("unknown {kind} feature bits {bits:#x}: {}", advice(kind))]
    UnknownFeature {
        /// Which set: `must` or `read-only`.
        kind: &'static str,
        /// The unknown bits.
        bits: u64,
    },
    /// The pool holds a tenant of a kind that the program does not know, and so cannot keep when it gives
    /// space back. The pool can be opened to read.
    #[error(
        "the tenant {name:?} is a {kind:?}, a kind that is unknown here: only a read-only opening is possible; \
         use a program that knows the kind to change the pool"
    )]
    UnknownTenant {
        /// Its kind.
        kind: String,
        /// Its name.
        name: String,
    },
    /// A later version of the software wrote this tenant. The pool can be opened to read what else it holds.
    #[error(
        "the tenant {name:?} has format version {found} of {kind:?}, newer than {known}: \
         only a read-only opening of what else the pool holds is possible; use a newer version to change it"
    )]
    NewerTenant {
        /// Its kind.
        kind: String,
        /// Its name.
        name: String,
        /// The version on media.
        found: u32,
        /// The newest version that its kind can open here.
        known: u32,
    },
    /// A tenant's format has features that its kind does not know here. The pool can be opened to read: the tenant too,
    /// if the bits are `read-only`.
    #[error(
        "the tenant {name:?} has unknown {kind} feature bits {bits:#x}: only a read-only opening is possible; \
         use a newer version to change the pool"
    )]
    UnknownTenantFeature {
        /// The tenant's name.
        name: String,
        /// Which set: `must` or `read-only`.
        kind: &'static str,
        /// The unknown bits.
        bits: u64,
    },
    /// A line of the table of tenants contradicts its checksum, or holds what cannot be.
    #[error("damaged superblock: line {slot} of the table of tenants: {what}; restore a backup")]
    DamagedTenant {
        /// Which line.
        slot: usize,
        /// What is wrong with it.
        what: &'static str,
    },
    /// There is a tenant of that name. Nothing has changed: choose another.
    #[error("the pool has a tenant {name:?} already: use another name")]
    TenantExists {
        /// The name.
        name: String,
    },
    /// The pool has no such tenant: [`Pool::tenants`](crate::Pool::tenants) lists those that it has.
    #[error("the pool has no tenant {name:?}: `tenants` lists those that it has")]
    NoSuchTenant {
        /// Its name, or its place in the table.
        name: String,
    },
    /// Nothing has changed: a pool has at most [`TENANT_COUNT`](crate::TENANT_COUNT) tenants.
    #[error("no place for another tenant, a pool has at most {max}: use another pool")]
    TooManyTenants {
        /// The most possible.
        max: usize,
    },
    /// Nothing has changed: a tenant's name has 1 to 32 bytes and no zero byte.
    #[error(
        "a tenant's name of {size} bytes is not possible: use 1 to 32 bytes, none of them zero"
    )]
    TenantName {
        /// Bytes in the name.
        size: usize,
    },
    /// Something else than what was asked for holds the tenant in this process: use that.
    #[error("the tenant {name:?} is open in this process as something else: use that")]
    TenantInUse {
        /// Its name.
        name: String,
    },
    /// A sweep or check needs each tenant, and this one is not open: see
    /// [`Pool::open_tenants`](crate::Pool::open_tenants).
    #[error("the tenant {name:?} is not open: open all tenants first, as `open_tenants` does")]
    TenantNotOpen {
        /// Its name.
        name: String,
    },
    /// An operation in the tenant is under way. Try again when it has ended.
    #[error("an operation in the tenant {name:?} is under way: try again when it has ended")]
    TenantBusy {
        /// Its name.
        name: String,
    },
    /// A sweep was to end before all tenants were marked. It has freed nothing.
    #[error(
        "the tenant {name:?} was not marked, or not settled: begin another sweep, and do both before it ends"
    )]
    TenantNotMarked {
        /// Its name.
        name: String,
    },
    /// What a tenant says of itself.
    #[error("the tenant {name:?}: {source}")]
    Tenant {
        /// Its name.
        name: String,
        /// What is wrong.
        source: crate::TenantError,
    },
    /// The fixed part of the superblock is damaged.
    #[error(
        "superblock checksum {computed:#010x} where {stored:#010x} is recorded: restore a backup"
    )]
    Checksum {
        /// What the superblock records.
        stored: u32,
        /// What its bytes give.
        computed: u32,
    },
    /// The region is shorter than the pool in it.
    #[error(
        "truncated: the pool has {recorded} bytes, the region {actual}; copy it again if it is a copy, or restore a backup"
    )]
    Truncated {
        /// The pool's size, in bytes.
        recorded: u64,
        /// The region's size, in bytes.
        actual: u64,
    },
    /// The chunk or node size is not possible, or does not fit the region.
    #[error(
        "bad geometry (chunks of {chunk_size}, nodes of {node_size} bytes): {reason}; \
         use other sizes for a new pool, restore a backup of an old one"
    )]
    BadGeometry {
        /// Bytes in a chunk.
        chunk_size: u32,
        /// Bytes in a node.
        node_size: u32,
        /// What is wrong with it.
        reason: &'static str,
    },
    /// A sealed word of the superblock contradicts its own seal, or the other words.
    #[error("damaged superblock: {field} reads {word:#018x}; restore a backup")]
    Damaged {
        /// Which word.
        field: &'static str,
        /// Its content.
        word: u64,
    },
    /// No space is left and the pool cannot grow.
    #[error(
        "pool full: no room for {size} bytes{} free some, or raise `size_max`",
        if *recovering { ", a sweep is still to finish: wait for it," } else { ":" }
    )]
    PoolFull {
        /// The bytes asked for.
        size: u64,
        /// A sweep is owed or running: when it has finished there may be room.
        recovering: bool,
    },
    /// No object can be so large.
    #[error("an object of {size} bytes is larger than {max}: lay it out as several")]
    TooLarge {
        /// The bytes asked for.
        size: u64,
        /// The most possible.
        max: u64,
    },
    /// There are only [`ROOT_COUNT`](crate::ROOT_COUNT) root words.
    #[error("no root {slot}: use one below {}", crate::ROOT_COUNT)]
    NoSuchRoot {
        /// The root asked for.
        slot: usize,
    },
    /// An object that lies outside the space that was ever handed out.
    #[error(
        "object {bits:#x} lies outside the data area, which ends at {end:#x}: check the pool, restore a backup if it is damaged"
    )]
    OutOfBounds {
        /// The object, see [`Object::to_bits`](crate::Object::to_bits).
        bits: u64,
        /// Where the data area ends, in bytes.
        end: u64,
    },
    /// An object whose class does not exist or that does not lie where its class is placed.
    #[error(
        "object {bits:#x} cannot lie there: {reason}; check the pool, restore a backup if it is damaged"
    )]
    Misplaced {
        /// The object, see [`Object::to_bits`](crate::Object::to_bits).
        bits: u64,
        /// What is wrong with it.
        reason: &'static str,
    },
    /// An operation was to change a word that does not exist, or is none of an object or a root.
    #[error(
        "no operation can change a word at {offset:#x}: check the pool, restore a backup if it is damaged"
    )]
    NoSuchWord {
        /// Where, in bytes.
        offset: u64,
    },
    /// Two objects claim the same space, or two classes the same chunk.
    #[error("object {bits:#x} overlaps another: check the pool, restore a backup if it is damaged")]
    Overlap {
        /// The object marked later, see [`Object::to_bits`](crate::Object::to_bits).
        bits: u64,
    },
    /// Objects are reachable that are not allocated: their space may be given to others.
    #[error(
        "{objects} objects are reachable but not allocated: save what can be read, and restore a backup"
    )]
    Dangling {
        /// How many.
        objects: u64,
    },
    /// An operation has more to note than a lane of the pool's log can hold. Make it smaller, or the chunks of a new pool
    /// larger.
    #[error(
        "an operation notes {words} words, and a lane of the pool's log holds {max}: make it smaller"
    )]
    OperationTooLarge {
        /// Words that it would note.
        words: u64,
        /// The most that fit.
        max: u64,
    },
    /// As many operations are under way as the pool's log has lanes. Try again when one has ended.
    #[error(
        "all {lanes} lanes of the pool's log are in use: try again when an operation has ended"
    )]
    LogBusy {
        /// How many lanes there are.
        lanes: u64,
    },
    /// Only one sweep runs at a time: try again when it has ended.
    #[error("a sweep is running: try again when it has ended")]
    SweepRunning,
    /// The marking for a sweep was stopped by the program. The sweep has freed nothing.
    #[error("the sweep was stopped: begin another one later")]
    Stopped,
    /// The closure that formatted a pool in memory has kept a clone of it.
    #[error(
        "the pool is still in use by what formatted it: drop each clone of it before the format ends"
    )]
    Kept,
    /// The pool has been opened as often as a pool can be.
    #[error("all generations of this pool are used up: restore a backup into a new pool")]
    GenerationsExhausted,
}

fn advice(kind: &str) -> &'static str {
    if kind == "read-only" {
        "only a read-only opening is possible; use a newer version to change it"
    } else {
        "use a newer version"
    }
}

impl From<Fault> for Error {
    fn from(fault: Fault) -> Self {
        Error::Region(fault.into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each variant with fields; one that is not listed does not compile.
    macro_rules! all {
        ($($variant:ident { $($field:tt)* })*) => {{
            let _ = |error: &Error| match error {
                $(Error::$variant { .. } => {})*
            };
            [$(Error::$variant { $($field)* }),*]
        }};
    }

    /// Whether a part of the text begins with a word that asks for something.
    fn advises(text: &str) -> bool {
        let words = [
            "ask", "begin", "check", "close", "copy", "drop", "free", "give", "hold", "lay",
            "make", "mark", "move", "open", "put", "raise", "read", "remove", "restore", "save",
            "start", "stay", "try", "unlink", "use", "wait",
        ];
        let first = |part: &str| part.split_whitespace().next().unwrap_or_default().to_owned();
        let mut parts = text.split([':', ';']).skip(1);
        parts.any(|part| words.contains(&first(part).as_str()) || part.contains("` lists "))
    }

    #[test]
    fn each_text_says_what_to_do() {
        let name = || String::from("a");
        let (bits, kind) = (1, "must");
        let errors = all! {
            Region { 0: tembo_pmem::Error::Oversize { size: 2, size_max: 1 } }
            NotAPool { found: 1 }
            NewerVersion { found: 2, known: 1 }
            UnknownFeature { kind: "read-only", bits }
            UnknownTenant { kind: name(), name: name() }
            NewerTenant { kind: name(), name: name(), found: 2, known: 1 }
            UnknownTenantFeature { name: name(), kind, bits }
            DamagedTenant { slot: 1, what: "?" }
            TenantExists { name: name() }
            NoSuchTenant { name: name() }
            TooManyTenants { max: 1 }
            TenantName { size: 33 }
            TenantInUse { name: name() }
            TenantNotOpen { name: name() }
            TenantBusy { name: name() }
            TenantNotMarked { name: name() }
            Tenant { name: name(), source: Error::SweepRunning.into() }
            Checksum { stored: 1, computed: 2 }
            Truncated { recorded: 2, actual: 1 }
            BadGeometry { chunk_size: 1, node_size: 1, reason: "?" }
            Damaged { field: "log", word: 1 }
            PoolFull { size: 1, recovering: false }
            TooLarge { size: 2, max: 1 }
            NoSuchRoot { slot: 8 }
            OutOfBounds { bits, end: 1 }
            Misplaced { bits, reason: "?" }
            NoSuchWord { offset: 1 }
            Overlap { bits }
            Dangling { objects: 1 }
            OperationTooLarge { words: 2, max: 1 }
            LogBusy { lanes: 1 }
            SweepRunning {}
            Stopped {}
            Kept {}
            GenerationsExhausted {}
        };
        let silent = errors.iter().map(|error| error.to_string());
        let silent: Vec<_> = silent.filter(|text| !advises(text) || text.contains('\n')).collect();
        assert!(silent.is_empty(), "{silent:#?}");
    }
}
