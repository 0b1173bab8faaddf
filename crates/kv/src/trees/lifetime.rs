//! The lifetimes of trees: a keyspace gets another tree when it is cleared.

use std::collections::BTreeMap;
use std::sync::Arc;

use tembo_index::{DeadIntervals, Period, Retained, View};

use super::catalogue::{Catalogue, decode, decode_keyspace};
use crate::Error;
use crate::media::KeyspaceEntry;

/// The versions in which a keyspace had a tree.
pub(crate) struct TreeLifetime {
    pub(crate) name: Arc<str>,
    pub(crate) entry: KeyspaceEntry,
    /// The version in which the keyspace got the tree. `None`: before the period.
    pub(crate) since: Option<u64>,
    /// The version in which the keyspace got another tree. `u64::MAX`: it has not.
    pub(crate) until: u64,
    /// Whether the keyspace had another tree before.
    pub(crate) is_second: bool,
}

/// The trees that keyspaces had in the versions of the period and in the one before, by name and age.
pub(crate) fn lifetimes(
    catalogue: &Catalogue,
    period: Period<'_>,
) -> Result<Vec<TreeLifetime>, Error> {
    let before = View { version: period.after, dead: period.dead };
    let mut by_name: BTreeMap<String, Vec<TreeLifetime>> = BTreeMap::new();
    for (name, entry) in catalogue.keyspaces(before)? {
        let lifetime = TreeLifetime {
            name: name.as_str().into(),
            entry,
            since: None,
            until: u64::MAX,
            is_second: false,
        };
        by_name.entry(name).or_default().push(lifetime);
    }
    let mut failed = None;
    catalogue.tree().changes(period, &[], &mut |changed| {
        let Some(name) = decode_keyspace(changed.key) else { return true };
        let lifetimes = by_name.entry(name.clone()).or_default();
        if let Some(last) = lifetimes.last_mut() {
            last.until = changed.version;
        }
        let Some(value) = changed.value else { return true };
        match decode(value) {
            Ok(entry) => lifetimes.push(TreeLifetime {
                is_second: !lifetimes.is_empty(),
                name: name.as_str().into(),
                entry,
                since: Some(changed.version),
                until: u64::MAX,
            }),
            Err(error) => failed = Some(error),
        }
        failed.is_none()
    })?;
    match failed {
        Some(error) => Err(error),
        None => Ok(by_name.into_values().flatten().collect()),
    }
}

/// Every tree that a retained version knows, each with a version that does: those of the visible
/// version last.
pub(crate) fn retained_trees(
    catalogue: &Catalogue,
    retained: &Retained,
    dead: &DeadIntervals,
) -> Result<Vec<(u64, String, KeyspaceEntry)>, Error> {
    let mut found = Vec::new();
    let (window, visible) = (retained.window(), retained.visible());
    if window < visible {
        let period = Period { after: window, until: visible, dead };
        for tree in lifetimes(catalogue, period)? {
            found.push((tree.since.unwrap_or(window), tree.name.to_string(), tree.entry));
        }
    }
    let older = retained.pins().iter().copied().filter(|&pin| pin < visible);
    for version in older.chain([visible]) {
        let keyspaces = catalogue.keyspaces(View { version, dead })?;
        found.extend(keyspaces.into_iter().map(|(name, entry)| (version, name, entry)));
    }
    Ok(found)
}
