//! What a snapshot shows of a keyspace, as a map that a test can keep and compare.

use std::collections::BTreeMap;
use std::ops::Bound;

use tembo_kv::{Direction, Keyspace, Snapshot};

pub(crate) type Map = BTreeMap<Vec<u8>, Vec<u8>>;

pub(crate) fn all(snapshot: &Snapshot, space: Keyspace) -> Map {
    let mut map = Map::new();
    let mut visit = |key: &[u8], value: tembo_kv::Value<'_>| {
        assert!(map.insert(key.to_vec(), value.to_vec()).is_none(), "a key is seen twice");
        true
    };
    let (from, to) = (Bound::Unbounded, Bound::Unbounded);
    snapshot.range_with::<[u8]>(space, (from, to), Direction::Forward, &mut visit).unwrap();
    map
}
