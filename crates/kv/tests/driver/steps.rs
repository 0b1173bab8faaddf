//! Changes of a store in numbered steps, and what it holds after each: for images, which say by what they hold of which step they
//! are.

use tembo_kv::{Durability, Isolation, Retention, Store};

use crate::map::Map;
use crate::state::State;

const STRICT: Durability = Durability::Strict;
/// The name of a snapshot, beside "first".
pub(crate) const SECOND_NAME: &str = "the second, of höchstens 48 bytes";
/// The last step, and the one that is rolled back.
pub(crate) const LAST: u32 = 9;
pub(crate) const VOID: u32 = 6;
/// What removes a range; where the window begins, and the second snapshot is named.
pub(crate) const RANGE: u32 = 8;
pub(crate) const WINDOW: u32 = 2;
pub(crate) const SECOND: u32 = 5;
/// The key of which steps put their number.
const STEP: &[u8] = b"step";

pub(crate) enum Act {
    Put(&'static str, Vec<u8>, Vec<u8>),
    Remove(&'static str, Vec<u8>),
    RemoveRange(&'static str, Vec<u8>, Vec<u8>),
    Clear(&'static str),
}

pub(crate) fn key(number: u32) -> Vec<u8> {
    let tail = if number.is_multiple_of(3) { "-and-a-tail-beyond-eight-bytes" } else { "" };
    format!("k{number:03}{tail}").into_bytes()
}

/// What a step changes. Each puts its number, but the one that removes a range, which would have several versions then.
fn acts(step: u32) -> Vec<Act> {
    use Act::{Clear, Put, Remove, RemoveRange};
    let value = |number: u32| format!("{step}: value of {number}").into_bytes();
    let put = |space, number| Put(space, key(number), value(number));
    let mut acts = match step {
        0 => (0..40).map(|n| put("a", n)).chain((0..10).map(|n| put("b", n))).collect(),
        1 => vec![put("a", 3), put("a", 100), Put("b", vec![], vec![])],
        2 => vec![],
        3 => vec![Remove("a", key(1)), Remove("a", key(3)), Remove("b", vec![]), put("b", 0)],
        4 => vec![Clear("b"), put("b", 7), put("b", 50)],
        5 => vec![Put("a", vec![b'l'; 900], vec![step as u8; 3000]), put("a", 100)],
        6 => vec![put("a", 100), put("a", 101), Remove("a", key(2)), Clear("b")],
        7 => vec![put("a", 1), put("c", 1)],
        8 => return vec![RemoveRange("a", key(10), key(30))],
        _ => vec![put("a", 12)],
    };
    acts.push(Put("a", STEP.to_vec(), step.to_string().into_bytes()));
    acts
}

pub(crate) fn change(state: &mut State, act: Act) {
    let (Act::Put(name, ..) | Act::Remove(name, _) | Act::RemoveRange(name, ..) | Act::Clear(name)) =
        act;
    let space = state.entry(name.to_owned()).or_default();
    match act {
        Act::Put(_, key, value) => drop(space.insert(key, value)),
        Act::Remove(_, key) => drop(space.remove(&key)),
        Act::RemoveRange(_, from, to) => space.retain(|key, _| *key < from || *key >= to),
        Act::Clear(_) => space.clear(),
    }
}

/// What a store holds after a step.
pub(crate) fn after(step: u32) -> State {
    let mut state = ["a", "b", "c"].map(|name| (name.to_owned(), Map::new())).into();
    for step in (0..=step).filter(|&step| step != VOID) {
        acts(step).into_iter().for_each(|act| change(&mut state, act));
    }
    state
}

/// One step, as one version.
pub(crate) fn perform(store: &Store, step: u32) {
    let space = |name: &str| store.keyspace(name).unwrap();
    if step == 2 {
        store.put(space("a"), STEP, b"2", STRICT).unwrap();
        return;
    }
    if let [Act::RemoveRange(name, from, to)] = &acts(step)[..] {
        store.remove_range(space(name), from.as_slice()..to.as_slice(), STRICT).unwrap();
        return;
    }
    if step == 3 {
        let mut tx = store.transaction(Isolation::Serialisable).unwrap();
        for act in acts(step) {
            match act {
                Act::Put(name, key, value) => tx.put(space(name), &key, &value).unwrap(),
                Act::Remove(name, key) => tx.remove(space(name), &key).unwrap(),
                _ => panic!("a transaction clears nothing"),
            }
        }
        tx.commit(STRICT).unwrap();
        return;
    }
    let mut tx = store.exclusive().unwrap();
    for act in acts(step) {
        match act {
            Act::Put(name, key, value) => drop(tx.put(space(name), &key, &value).unwrap()),
            Act::Remove(name, key) => drop(tx.remove(space(name), &key).unwrap()),
            Act::RemoveRange(..) => panic!("it has a version of its own"),
            Act::Clear(name) => tx.clear(space(name)).unwrap(),
        }
    }
    tx.commit(STRICT).unwrap();
}

pub(crate) fn make_spaces(store: &Store) {
    for name in ["a", "b", "c"] {
        store.keyspace(name).unwrap();
    }
}

/// The steps before the range is removed, with snapshots, a window and a rollback between them.
pub(crate) fn fill(store: &Store) {
    make_spaces(store);
    for step in 0..RANGE {
        perform(store, step);
        match step {
            1 => drop(store.save_snapshot("first").unwrap()),
            WINDOW => drop(store.retain(Retention::Since(store.visible())).unwrap()),
            SECOND => drop(store.save_snapshot(SECOND_NAME).unwrap()),
            VOID => drop(store.rollback_to(SECOND_NAME).unwrap()),
            _ => {}
        }
    }
    let mut aborted = store.exclusive().unwrap();
    aborted.put(store.keyspace("a").unwrap(), b"aborted", b"?").unwrap();
    drop(aborted);
}

/// The last step that is to be seen.
pub(crate) fn step_of(state: &State) -> u32 {
    let step = std::str::from_utf8(&state["a"][STEP]).unwrap().parse().unwrap();
    if step == RANGE - 1 && !state["a"].contains_key(&key(11)) { RANGE } else { step }
}
