//! Changes of another store, made at its versions, as operations.

use tembo_kv::{Change, Durability, Error, Event, Store};

use super::model::{State, VERSION_KEY};
use super::op::{At, Op, Write, key, value};
use super::prepared::is_refusal;
use crate::judge::{expect, text};

/// Makes the changes that `op` says to a store that shows `state`.
pub(super) fn run(store: &Store, state: &State, op: &Op, serial: u64) -> Result<(), String> {
    let Op::Apply(at, clears, writes) = op else { return Ok(()) };
    let version = at.version(store.visible());
    let changes = changes(state, (*at, *clears, writes), (version, serial));
    let taken = store.apply_changes(store.visible(), &changes, Durability::Strict);
    let is_taken = matches!(taken, Err(Error::VersionTaken { .. }));
    expect(is_taken, "a version is not made again")?;
    let made = store.apply_changes(version, &changes, Durability::Strict);
    if state.refuses(op) {
        return expect(is_refusal(&made), "what is held is not changed at a version");
    }
    made.map_err(text)?;
    expect(store.visible() == version, "the version is the one that was given")
}

fn changes(
    state: &State,
    (_, clears, writes): (At, bool, &[Write]),
    (version, serial): (u64, u64),
) -> Vec<Change> {
    let mut events = Vec::new();
    match state.spaces.contains_key("x") {
        false => events.push(Event::Created),
        true if clears => events.push(Event::Cleared),
        true => {}
    }
    let noted = version.to_le_bytes().to_vec();
    events.push(Event::Put { key: VERSION_KEY.to_vec(), value: noted });
    events.extend(writes.iter().enumerate().map(|(index, &(n, len))| match len {
        Some(len) => Event::Put { key: key(n), value: value(serial + index as u64, len) },
        None => Event::Removed { key: key(n) },
    }));
    let change = |event| Change { version, keyspace: "x".into(), event };
    events.into_iter().map(change).collect()
}
