//! All that a snapshot shows.

use std::collections::BTreeMap;

use tembo_kv::Snapshot;

use crate::map::{Map, all};

/// Keyspaces by name.
pub(crate) type State = BTreeMap<String, Map>;

pub(crate) fn state(snapshot: &Snapshot) -> State {
    let spaces = snapshot.keyspaces().unwrap().into_iter();
    spaces.map(|(name, space)| (name, all(snapshot, space))).collect()
}
