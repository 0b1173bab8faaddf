//! Commits that have several versions are followed as a whole: no position lies within one.
#![allow(clippy::unwrap_used)]

use std::collections::BTreeSet;

use tembo_kv::{Durability, IndexKind, Options, Retention, Store};

fn options(index: IndexKind) -> Options {
    Options::new().index(index).background(false).size(8 << 20)
}

/// Commits of several versions and of one, and the versions that were visible.
fn commits(store: &Store) -> BTreeSet<u64> {
    let space = store.keyspace("x").unwrap();
    let mut visible = BTreeSet::from([store.visible()]);
    for round in 0..40u64 {
        let mut tx = store.exclusive().unwrap();
        for part in 0..round % 5 {
            let key = [round, part].map(u64::to_be_bytes).concat();
            tx.put(space, &key, &[1; 100]).unwrap();
            if part % 2 == 0 {
                tx.savepoint();
            }
            tx.put(space, &key[8..], &[2; 100]).unwrap();
        }
        if round % 7 == 0 && store.is_ordered() {
            tx.remove_range(space, round.to_be_bytes().to_vec()..).unwrap();
        }
        tx.commit(Durability::Buffered).unwrap();
        visible.insert(store.visible());
        store.put(space, b"single", &round.to_le_bytes(), Durability::Buffered).unwrap();
        visible.insert(store.visible());
    }
    store.sync().unwrap();
    visible
}

#[test]
fn a_follower_is_never_within_a_commit() {
    for index in IndexKind::ALL {
        for budget in [1, 300, 2000, 1 << 20] {
            let store = Store::volatile(&options(index)).unwrap();
            let after = store.visible();
            store.retain(Retention::Since(after)).unwrap();
            // One that follows from the begin, and one that comes later.
            let visible = commits(&store);
            let mut changes = store.changes(after).unwrap().with_budget(budget);
            let (mut last, mut count) = (after, 0);
            while let Some(change) = changes.next().unwrap() {
                let position = changes.position();
                assert!(position == after || visible.contains(&position), "{index:?} {position}");
                assert!(change.version >= last && change.version > position);
                last = change.version;
                count += 1;
            }
            assert!(count > 100 && visible.contains(&changes.position()));
        }
    }
}

/// A rollback can go back into a commit: what is left of it ends there.
#[test]
fn a_follower_is_at_versions_that_it_can_go_on_behind_after_a_rollback_into_a_commit() {
    for index in IndexKind::ALL {
        let store = Store::volatile(&options(index)).unwrap();
        let space = store.keyspace("x").unwrap();
        let after = store.visible();
        store.retain(Retention::Since(after)).unwrap();
        for round in 0..10u64 {
            let mut tx = store.exclusive().unwrap();
            for part in 0..6u64 {
                tx.put(space, &[round, part].map(u64::to_be_bytes).concat(), b"value").unwrap();
                tx.savepoint();
            }
            let last = tx.commit(Durability::Strict).unwrap();
            if round % 2 == 0 {
                store.rollback(last - 1 - round / 2).unwrap();
            }
        }
        let mut changes = store.changes(after).unwrap().with_budget(1);
        let mut positions = BTreeSet::new();
        while changes.next().unwrap().is_some() {
            positions.insert(changes.position());
        }
        assert!(positions.len() > 5, "{positions:?}");
        for position in positions {
            assert!(store.changes(position).is_ok(), "{index:?} {position}");
        }
    }
}
