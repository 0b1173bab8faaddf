//! The categories of commands, in Redis's order.

/// Their names, without `@`; a category is the place of its name.
pub(crate) const CATEGORIES: [&str; 21] = [
    "keyspace",
    "read",
    "write",
    "set",
    "sortedset",
    "list",
    "hash",
    "string",
    "bitmap",
    "hyperloglog",
    "geo",
    "stream",
    "pubsub",
    "admin",
    "fast",
    "slow",
    "blocking",
    "dangerous",
    "connection",
    "transaction",
    "scripting",
];

/// The category of that name, in any case.
pub(crate) fn category(name: &[u8]) -> Option<usize> {
    CATEGORIES.iter().position(|known| name.eq_ignore_ascii_case(known.as_bytes()))
}

/// A set of categories, from their names, each with or without `@`.
pub(crate) fn category_set<'a>(names: impl Iterator<Item = &'a str>) -> u32 {
    let of = |name: &str| category(name.trim_start_matches('@').as_bytes());
    names.filter_map(of).fold(0, |set, at| set | 1 << at)
}
