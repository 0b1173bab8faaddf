//! Words that the project does not use any more, each with the word that it uses.

/// Where a word is looked for.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Where {
    /// In the names of files and folders.
    Files,
    /// There, and in identifiers and names of steps, as a whole part of them (`look_ahead`, `LookAhead`).
    Names,
    /// There, and as a whole word in comments and documents.
    Everywhere,
}

/// A word that was abolished.
pub(super) struct Abolished {
    /// Its forms.
    pub(super) forms: &'static [&'static str],
    pub(super) place: Where,
    /// Folders; everywhere if there are none.
    pub(super) folders: &'static [&'static str],
    pub(super) fix: &'static str,
}

const STORE: &[&str] = &["crates/index/", "crates/kv/"];

/// Home words that hid a standard term, or that had two meanings.
pub(super) const ABOLISHED: &[Abolished] = &[
    Abolished {
        forms: &["survey", "surveys", "surveyed", "surveying", "surveyor", "surveyors"],
        place: Where::Everywhere,
        folders: &[],
        fix: "mark, marker (mark and sweep)",
    },
    Abolished {
        forms: &["cleanse", "cleanses", "cleansed", "cleansing"],
        place: Where::Everywhere,
        folders: &[],
        fix: "scrub (erase what dead versions left) or collect (entries that no version needs)",
    },
    Abolished {
        forms: &["walk", "walks", "walked", "walker"],
        place: Where::Names,
        folders: STORE,
        fix: "scrub, collect, mark, scan: what is done on the way",
    },
    Abolished {
        forms: &["reign", "reigns"],
        place: Where::Everywhere,
        folders: &[],
        fix: "lifetime (of a tree)",
    },
    Abolished {
        forms: &["ahead"],
        place: Where::Names,
        folders: &[],
        fix: "prefetch (keys, nodes) or prefault (pages)",
    },
    Abolished {
        forms: &["prepare", "prepares"],
        place: Where::Names,
        folders: &["crates/pmem/", "crates/pool/", "crates/index/"],
        fix: "write_hint (of the NV-Tree) or prefault (memory); prepare is of prepared transactions",
    },
    Abolished {
        forms: &["turn", "turns"],
        place: Where::Names,
        folders: &["lab/bench/", "lab/cli/"],
        fix: "ticket (drawing a version), trial (a measurement); a turn is a round of the server's event loop",
    },
    Abolished {
        forms: &["turn", "turns"],
        place: Where::Everywhere,
        folders: STORE,
        fix: "ticket (drawing a version), trial (a measurement); a turn is a round of the server's event loop",
    },
    Abolished {
        forms: &["lanes"],
        place: Where::Files,
        folders: &["crates/kv/"],
        fix: "write slots; a lane is a commit word on media",
    },
    Abolished { forms: &["usual"], place: Where::Names, folders: &[], fix: "fast (the fast path)" },
    Abolished {
        forms: &["plain"],
        place: Where::Names,
        folders: STORE,
        fix: "fast, sorted, compact: what it is",
    },
    Abolished {
        forms: &["halve", "halves", "halved"],
        place: Where::Names,
        folders: STORE,
        fix: "split_half",
    },
    Abolished {
        forms: &["room"],
        place: Where::Files,
        folders: &["crates/"],
        fix: "reclaim (make_room)",
    },
    Abolished {
        forms: &["contents"],
        place: Where::Files,
        folders: &["crates/"],
        fix: "entries, image",
    },
    Abolished {
        forms: &["draft", "drafts"],
        place: Where::Everywhere,
        folders: &[],
        fix: "builder",
    },
    Abolished {
        forms: &["tell", "tells", "told"],
        place: Where::Everywhere,
        folders: &[],
        fix: "publish, notify, report; distinguish (one from another)",
    },
    Abolished {
        forms: &["shelf", "shelves"],
        place: Where::Everywhere,
        folders: &[],
        fix: "store under test, model",
    },
    Abolished {
        forms: &["story", "stories"],
        place: Where::Everywhere,
        folders: &[],
        fix: "scenario, report",
    },
    Abolished {
        forms: &["ground"],
        place: Where::Everywhere,
        folders: &[],
        fix: "fixture (of a test), basis",
    },
    Abolished { forms: &["lent"], place: Where::Everywhere, folders: &[], fix: "biased (a latch)" },
    Abolished {
        forms: &["vain"],
        place: Where::Names,
        folders: &[],
        fix: "failed, idle: what it is",
    },
    Abolished {
        forms: &["era", "eras"],
        place: Where::Everywhere,
        folders: &[],
        fix: "dead_epoch; a generation is of locks",
    },
    Abolished { forms: &["gone"], place: Where::Names, folders: STORE, fix: "removed (keys)" },
];

/// Threads, programs and callers are things: "it", or their name.
pub(super) const PRONOUNS: &[&str] = &[
    "who",
    "whoever",
    "whom",
    "nobody",
    "somebody",
    "anybody",
    "everybody",
    "he",
    "him",
    "his",
    "she",
    "her",
];
