//! What a store shows: of each version that can be read.

use std::collections::BTreeMap;
use std::ops::Bound;

use tembo_kv::{Change, Direction, Error, Event, Keyspace, Retention, Snapshot, Store};

use crate::judge::{expect, text};

pub(crate) type Map = BTreeMap<Vec<u8>, Vec<u8>>;
pub(crate) type Spaces = BTreeMap<String, Map>;

/// What can be known of the past.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Past {
    /// What there was at each version of the window at which that changed; `None`: there is no window.
    /// Nothing, if the window begins in what was rolled back, or between two rollbacks.
    pub(crate) window: Option<Vec<(u64, Spaces)>>,
    /// How many versions it is to have; 0: it does not move.
    pub(crate) count: u64,
    pub(crate) rolled_back: Option<(u64, u64)>,
}

impl Past {
    /// What the store knows: its changes, and what is read at their versions.
    pub(super) fn of(store: &Store) -> Result<Past, String> {
        let rolled_back = store.rolled_back();
        let count = match store.retention() {
            Retention::Nothing => return Ok(Past { window: None, count: 0, rolled_back }),
            Retention::Versions(count) => count,
            Retention::Since(_) => 0,
        };
        let oldest = store.oldest();
        let mut changes = match store.changes(oldest) {
            Err(Error::RolledBack { .. }) => {
                return Ok(Past { window: Some(Vec::new()), count, rolled_back });
            }
            changes => changes.map_err(text)?.with_budget(200),
        };
        let mut now = spaces(store, &store.snapshot_at(oldest).map_err(text)?)?;
        let mut window = vec![(oldest, now.clone())];
        while let Some(Change { version, keyspace, event }) = changes.next().map_err(text)? {
            expect(window.last().is_some_and(|then| then.0 <= version), "changes in order")?;
            let map = now.entry(keyspace.to_string()).or_default();
            match event {
                Event::Created | Event::Cleared => map.clear(),
                Event::Put { key, value } => drop(map.insert(key, value)),
                Event::Removed { key } => drop(map.remove(&key)),
            }
            window.retain(|then| then.0 != version);
            window.push((version, now.clone()));
        }
        for (version, then) in &window {
            let read = spaces(store, &store.snapshot_at(*version).map_err(text)?)?;
            expect(read == *then, "what was read is what was told")?;
        }
        // Between two rollbacks the process that has seen both knows what happened; another one knows the hull only.
        if rolled_back.is_some_and(|(from, to)| from < oldest && oldest <= to) {
            window.clear();
        }
        window.dedup_by(|after, before| after.1 == before.1);
        Ok(Past { window: Some(window), count, rolled_back })
    }
}

/// In which order a store visits its keys.
#[derive(Clone, Copy)]
enum Order {
    OfBytes,
    Any,
}

impl Order {
    fn of(store: &Store) -> Order {
        if store.is_ordered() { Order::OfBytes } else { Order::Any }
    }

    fn is_of(self, list: &[(Vec<u8>, Vec<u8>)]) -> bool {
        matches!(self, Order::Any) || list.is_sorted_by(|a, b| a.0 < b.0)
    }
}

pub(super) fn spaces(store: &Store, snapshot: &Snapshot) -> Result<Spaces, String> {
    let keyspaces = snapshot.keyspaces().map_err(text)?;
    let order = Order::of(store);
    keyspaces.into_iter().map(|(name, space)| Ok((name, map(snapshot, space, order)?))).collect()
}

fn map(snapshot: &Snapshot, space: Keyspace, order: Order) -> Result<Map, String> {
    let list = |direction| {
        let mut list = Vec::new();
        let (from, to) = (Bound::Unbounded, Bound::Unbounded);
        let mut visit = |key: &[u8], value: tembo_kv::Value<'_>| {
            list.push((key.to_vec(), value.to_vec()));
            list.len() < 10_000
        };
        snapshot
            .range_with::<[u8]>(space, (from, to), direction, &mut visit)
            .map(|()| list)
            .map_err(text)
    };
    let (up, mut down) = (list(Direction::Forward)?, list(Direction::Backward)?);
    down.reverse();
    if up != down || !order.is_of(&up) {
        return Err("a range depends on its direction, or is not in order".into());
    }
    for (key, value) in &up {
        if snapshot.get(space, key).map_err(text)?.is_none_or(|found| found != *value) {
            return Err("get and range disagree".into());
        }
    }
    let count = up.len();
    let map: Map = up.into_iter().collect();
    expect(map.len() == count, "a key is visited once")?;
    Ok(map)
}
