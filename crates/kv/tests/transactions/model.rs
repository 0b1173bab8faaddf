//! Transactions against a model: any number of them open, one step of one of them at a time.

use super::super::*;
use crate::random::Random;

type Map = BTreeMap<Vec<u8>, Vec<u8>>;

/// An end of a range.
type End = Bound<Vec<u8>>;

impl Random {
    /// The place of one of so many.
    fn place(&mut self, count: usize) -> usize {
        self.below(count as u64) as usize
    }

    fn key(&mut self) -> Vec<u8> {
        match self.below(40) {
            n @ 0..25 => vec![n as u8],
            n => format!("a longer key, the {n}th").into_bytes(),
        }
    }

    fn value(&mut self) -> Vec<u8> {
        vec![self.below(256) as u8; [0, 3, 8, 30, 120][self.place(5)]]
    }
}

/// A transaction, and what it should see.
struct Open {
    tx: Transaction,
    isolation: Isolation,
    is_ordered: bool,
    map: Map,
    written: BTreeSet<Vec<u8>>,
    read: BTreeSet<Vec<u8>>,
    ranges: Vec<(End, End)>,
    saved: Vec<(tembo_kv::Savepoint, Map, BTreeSet<Vec<u8>>)>,
}

/// All that was committed.
struct History {
    map: Map,
    /// When each key was last written, whatever became of it.
    last: BTreeMap<Vec<u8>, u64>,
    /// The state that each transaction began with.
    before: BTreeMap<u64, Map>,
}

impl Open {
    fn begin(store: &Store, history: &mut History, isolation: Isolation) -> Open {
        let tx = store.transaction(isolation).unwrap();
        let map = history.map.clone();
        history.before.insert(tx.version(), map.clone());
        let (written, read) = (BTreeSet::new(), BTreeSet::new());
        let is_ordered = store.is_ordered();
        Open {
            tx,
            isolation,
            is_ordered,
            map,
            written,
            read,
            ranges: Vec::new(),
            saved: Vec::new(),
        }
    }

    fn step(&mut self, space: Keyspace, random: &mut Random) -> Result<(), Error> {
        let key = random.key();
        match random.below(12) {
            0..4 => {
                let value = random.value();
                self.tx.put(space, &key, &value)?;
                self.map.insert(key.clone(), value);
                self.written.insert(key);
            }
            4..6 => {
                self.tx.remove(space, &key)?;
                self.map.remove(&key);
                self.written.insert(key);
            }
            6..9 => {
                let found = self.tx.get(space, &key)?;
                assert_eq!(found.as_ref(), self.map.get(&key), "{key:?}");
                if !self.written.contains(&key) {
                    self.read.insert(key);
                }
            }
            9 if self.is_ordered => self.range(space, random)?,
            9 => {
                let none = self.tx.range::<[u8]>(space, ..).map(drop);
                assert!(matches!(none, Err(Error::Unordered)), "{none:?}");
            }
            10 => {
                let saved = self.tx.savepoint();
                self.saved.push((saved, self.map.clone(), self.written.clone()));
            }
            _ => {
                if !self.saved.is_empty() {
                    let at = random.place(self.saved.len());
                    let dropped = self.saved.split_off(at + 1);
                    let (saved, map, written) = &self.saved[at];
                    self.tx.rollback_to(saved)?;
                    (self.map, self.written) = (map.clone(), written.clone());
                    for (dropped, ..) in dropped {
                        let refused = self.tx.rollback_to(&dropped);
                        assert!(matches!(refused, Err(Error::NoSuchSavepoint)));
                    }
                }
            }
        }
        Ok(())
    }

    fn range(&mut self, space: Keyspace, random: &mut Random) -> Result<(), Error> {
        let mut bound = || match random.below(4) {
            0 => Bound::Unbounded,
            1 => Bound::Excluded(random.key()),
            _ => Bound::Included(random.key()),
        };
        let (from, to) = (bound(), bound());
        let forward = random.below(2) == 0;
        let most = [1, 4, 1000][random.place(3)];
        let is_in = |key: &[u8]| {
            (match &from {
                Bound::Included(from) => key >= &from[..],
                Bound::Excluded(from) => key > &from[..],
                Bound::Unbounded => true,
            }) && match &to {
                Bound::Included(to) => key <= &to[..],
                Bound::Excluded(to) => key < &to[..],
                Bound::Unbounded => true,
            }
        };
        let inside = self.map.iter().filter(|(key, _)| is_in(key));
        let inside: Vec<_> = inside.map(|(key, value)| (key.clone(), value.clone())).collect();
        let mut expected: Vec<_> = if forward {
            inside.into_iter().take(most).collect()
        } else {
            inside.into_iter().rev().take(most).collect()
        };
        let mut found = Vec::new();
        let direction = if forward { Direction::Forward } else { Direction::Backward };
        let slices = (from.as_ref().map(Vec::as_slice), to.as_ref().map(Vec::as_slice));
        self.tx.range_with::<[u8]>(space, (slices.0, slices.1), direction, &mut |key, value| {
            found.push((key.to_vec(), value.to_vec()));
            found.len() < most
        })?;
        assert_eq!(found, expected, "{from:?} {to:?} {forward} {most}");
        let reached =
            if expected.len() == most { expected.pop().map(|(key, _)| key) } else { None };
        self.ranges.push(match (reached, forward) {
            (Some(key), true) => (from, Bound::Included(key)),
            (Some(key), false) => (Bound::Included(key), to),
            (None, _) => (from, to),
        });
        Ok(())
    }

    /// Whether it may commit; for reads, what came and went is no change.
    fn is_valid(&self, history: &History) -> bool {
        let since = self.tx.version();
        let is_first =
            |key: &Vec<u8>| history.last.get(key).is_none_or(|&version| version <= since);
        if !self.written.iter().all(is_first) {
            return false;
        }
        self.isolation == Isolation::Snapshot || self.written.is_empty() || self.reads_hold(history)
    }

    /// Whether nothing that it has read was changed.
    fn reads_hold(&self, history: &History) -> bool {
        let since = self.tx.version();
        let is_first =
            |key: &Vec<u8>| history.last.get(key).is_none_or(|&version| version <= since);
        let before = &history.before[&since];
        let is_same = |key: &Vec<u8>| {
            is_first(key) || !before.contains_key(key) && !history.map.contains_key(key)
        };
        let in_ranges = history.last.keys().filter(|key| {
            let key = &key[..];
            self.ranges.iter().any(|(from, to)| {
                let above = match from {
                    Bound::Included(from) => key >= &from[..],
                    Bound::Excluded(from) => key > &from[..],
                    Bound::Unbounded => true,
                };
                let below = match to {
                    Bound::Included(to) => key <= &to[..],
                    Bound::Excluded(to) => key < &to[..],
                    Bound::Unbounded => true,
                };
                above && below
            })
        });
        self.read.iter().all(is_same) && in_ranges.into_iter().all(is_same)
    }

    fn commit(self, history: &mut History) {
        let (is_valid, since) = (self.is_valid(history), self.tx.version());
        let nothing = self.written.is_empty();
        // One that is in the pool is judged by its reads even if all that it wrote was taken back.
        let may_be_refused = nothing && !self.saved.is_empty() && !self.reads_hold(history);
        let committed = self.tx.commit(Durability::Buffered);
        if may_be_refused && matches!(committed, Err(Error::Conflict { .. })) {
            return;
        }
        settle_result(committed, is_valid, |version| {
            if nothing {
                assert!(version >= since);
                return;
            }
            for key in &self.written {
                let changes = match self.map.get(key) {
                    Some(value) => {
                        history.map.insert(key.clone(), value.clone());
                        true
                    }
                    // What removes nothing is no write.
                    None => history.map.remove(key).is_some(),
                };
                if changes {
                    history.last.insert(key.clone(), version);
                }
            }
        });
    }
}

fn settle_result(committed: Result<u64, Error>, is_valid: bool, then: impl FnOnce(u64)) {
    match committed {
        Ok(version) => {
            assert!(is_valid, "committed what it should not");
            then(version);
        }
        Err(error) => {
            assert!(matches!(error, Error::Conflict { .. }), "{error}");
            assert!(!is_valid, "refused what it should not");
        }
    }
}

/// What single changes and the exclusive writer do meanwhile.
fn other(store: &Store, space: Keyspace, history: &mut History, random: &mut Random) {
    let key = random.key();
    match random.below(4) {
        0 | 1 => {
            let value = random.value();
            store.put(space, &key, &value, Durability::Buffered).unwrap();
            history.last.insert(key.clone(), store.visible());
            history.map.insert(key, value);
        }
        2 => {
            // What changes nothing is no write.
            if store.remove(space, &key, Durability::Buffered).unwrap() {
                history.last.insert(key.clone(), store.visible());
                history.map.remove(&key);
            }
        }
        _ => {
            let mut tx = store.exclusive().unwrap();
            tx.put_parts(space, &key, &[b"by the ", b"exclusive writer"]).unwrap();
            if random.below(3) > 0 {
                let version = tx.commit(Durability::Buffered).unwrap();
                history.map.insert(key.clone(), b"by the exclusive writer".to_vec());
                history.last.insert(key, version);
            }
        }
    }
}

fn history() -> History {
    History { map: Map::new(), last: BTreeMap::new(), before: BTreeMap::new() }
}

fn compare(store: &Store, space: Keyspace, history: &History) {
    assert_eq!(committed(store, space), history.map);
    settle(store);
    let check = store.check().unwrap();
    assert_eq!((check.leaked, check.keyspaces[0].1.entry_count), (0, history.map.len() as u64));
    assert_eq!(store.exclusive().unwrap().count(space), Some(history.map.len() as u64));
}

#[test]
fn open_transactions_see_and_leave_what_the_model_says() {
    for kind in IndexKind::ALL {
        for seed in 1..=12u64 {
            let (store, space) = store(kind, 1 << 20);
            let (mut random, mut history) = (Random(seed * 0x9e37_79b9), history());
            let mut open: Vec<Open> = Vec::new();
            for _ in 0..2500 {
                match random.below(20) {
                    0..3 if open.len() < 6 => {
                        let isolation = ISOLATIONS[random.place(2)];
                        open.push(Open::begin(&store, &mut history, isolation));
                    }
                    3 => other(&store, space, &mut history, &mut random),
                    4 if !open.is_empty() => drop(open.swap_remove(random.place(open.len()))),
                    5..7 if !open.is_empty() => {
                        open.swap_remove(random.place(open.len())).commit(&mut history);
                    }
                    7 => {
                        store.maintain(1).unwrap();
                    }
                    _ if !open.is_empty() => {
                        let at = random.place(open.len());
                        open[at].step(space, &mut random).unwrap();
                    }
                    _ => {}
                }
            }
            drop(open);
            compare(&store, space, &history);
        }
    }
}

/// With no memory for writes: each goes into the pool at once, and no other transaction commits.
#[test]
fn a_transaction_that_outgrows_memory_sees_and_leaves_what_the_model_says() {
    for kind in IndexKind::ALL {
        for (seed, memory) in (1..=12u64).zip([0, 400, 1500].into_iter().cycle()) {
            let (store, space) = store(kind, memory);
            let (mut random, mut history) = (Random(seed * 0x51_7cc1), history());
            for _ in 0..120 {
                let isolation = ISOLATIONS[random.place(2)];
                let mut open = Open::begin(&store, &mut history, isolation);
                for _ in 0..random.below(4) {
                    other(&store, space, &mut history, &mut random);
                }
                let steps = random.below(30);
                let mut stepped = Ok(());
                for _ in 0..steps {
                    stepped = stepped.and_then(|()| open.step(space, &mut random));
                }
                match stepped {
                    // That a commit would be refused is reported as soon as it is known.
                    Err(Error::Conflict { key, version, .. }) => {
                        let last = history.last[&key];
                        let since = open.tx.version();
                        let what = format!("{kind:?} {seed} {since} {last} {version} {key:?}");
                        assert!(since < last && last <= version, "{what}");
                        // Over the other a version by which it was changed.
                        assert!(last == version || kind == IndexKind::Cdds, "{what}");
                        drop(open);
                    }
                    Err(error) => panic!("{error}"),
                    Ok(()) if random.below(4) == 0 => drop(open),
                    Ok(()) => open.commit(&mut history),
                }
                if random.below(8) == 0 {
                    store.maintain(1).unwrap();
                }
            }
            compare(&store, space, &history);
        }
    }
}
