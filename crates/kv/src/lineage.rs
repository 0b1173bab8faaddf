//! Which trees there were: a keyspace gets another one when it is cleared.

use std::collections::BTreeMap;
use std::sync::Arc;

use tembo_index::{DeadIntervals, Index, Period, Retained, View};

use crate::Error;
use crate::catalogue::{decode_keyspace, open_tree};
use crate::format::KeyspaceEntry;
use crate::inner::Inner;

/// A tree that a keyspace had in some versions.
pub(crate) struct Reign {
    pub(crate) name: Arc<str>,
    pub(crate) entry: KeyspaceEntry,
    /// The version in which the keyspace got it; `None`: before those looked at.
    pub(crate) since: Option<u64>,
    /// The version in which it got another one; `u64::MAX`: it has not.
    pub(crate) until: u64,
    /// Whether the keyspace had another one before.
    pub(crate) is_second: bool,
}

impl Inner {
    /// The trees that keyspaces had in the versions of the period and in the one before, by name and age.
    pub(crate) fn reigns(&self, period: Period<'_>) -> Result<Vec<Reign>, Error> {
        let before = View { version: period.after, dead: period.dead };
        let mut by_name: BTreeMap<String, Vec<Reign>> = BTreeMap::new();
        for (name, entry) in self.catalogue.keyspaces(before)? {
            let reign = Reign {
                name: name.as_str().into(),
                entry,
                since: None,
                until: u64::MAX,
                is_second: false,
            };
            by_name.entry(name).or_default().push(reign);
        }
        let mut failed = None;
        self.catalogue.tree().changes(period, &[], &mut |changed| {
            let Some(name) = decode_keyspace(changed.key) else { return true };
            let reigns = by_name.entry(name.clone()).or_default();
            if let Some(last) = reigns.last_mut() {
                last.until = changed.version;
            }
            let Some(value) = changed.value else { return true };
            match crate::catalogue::decode(value) {
                Ok(entry) => reigns.push(Reign {
                    is_second: !reigns.is_empty(),
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
        &self,
        retained: &Retained,
        dead: &DeadIntervals,
    ) -> Result<Vec<(u64, String, KeyspaceEntry)>, Error> {
        let mut found = Vec::new();
        let (window, visible) = (retained.window(), retained.visible());
        if window < visible {
            let period = Period { after: window, until: visible, dead };
            for reign in self.reigns(period)? {
                found.push((reign.since.unwrap_or(window), reign.name.to_string(), reign.entry));
            }
        }
        let older = retained.pins().iter().copied().filter(|&pin| pin < visible);
        for version in older.chain([visible]) {
            let keyspaces = self.catalogue.keyspaces(View { version, dead })?;
            found.extend(keyspaces.into_iter().map(|(name, entry)| (version, name, entry)));
        }
        Ok(found)
    }

    /// The index of each of these trees. What an index knows of its tree beside media all who read the
    /// tree share, as long as it is some keyspace's.
    pub(crate) fn indexes(&self, entries: &[KeyspaceEntry]) -> Result<Vec<Arc<Index>>, Error> {
        let state = self.lock();
        let index = |entry: &KeyspaceEntry| {
            let known = state.trees.iter().find(|tree| tree.entry.cell == entry.cell);
            match known {
                Some(tree) => Ok(tree.index.clone()),
                None => Ok(Arc::new(open_tree(&self.forest, entry)?)),
            }
        };
        entries.iter().map(index).collect()
    }
}
