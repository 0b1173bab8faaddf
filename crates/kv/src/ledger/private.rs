//! Gives back the space of private trees whose transactions have ended, and of large trees that were cleared.

use std::collections::HashSet;

use tembo_index::Retired;
use tembo_pool::Object;

use super::space::reclaim;
use super::state::Ledger;
use super::tree_objects::tree_objects;
use crate::shared::Shared;
use crate::trees::PRIVATE_VERSION;

/// More objects are left to a sweep.
const OBJECTS_MAX: usize = 1 << 16;

/// Collects what the trees consist of that are given up, and are changed no more. Needs no lock.
pub(crate) fn collect_private(shared: &Shared) {
    shared.private.collect(|index| tree_objects(shared, index, OBJECTS_MAX));
}

/// Gives back what is given up, while the caller holds the writer's lock: it needs the space. That of trees for which another thread
/// waits for the lock too.
#[cold]
pub(crate) fn give_back_now(shared: &Shared, ledger: &mut Ledger) {
    collect_private(shared);
    free_private(shared, ledger);
}

/// Gives the space of the trees back whose objects are collected: at once, or when a marking that has seen them ends.
pub(crate) fn free_private(shared: &Shared, ledger: &mut Ledger) {
    // What was unlinked waits already, and may be reachable still.
    let waiting: HashSet<u64> = ledger.retired.objects().map(Object::to_bits).collect();
    for objects in shared.private.take_collected() {
        match objects {
            Some(objects) => {
                let (start, end) = (PRIVATE_VERSION, PRIVATE_VERSION);
                let retired = |object: Object| Retired { object, start, end };
                let others =
                    objects.into_iter().filter(|object| !waiting.contains(&object.to_bits()));
                ledger.retired.extend(&mut others.map(retired).collect());
            }
            None => ledger.unlisted.lose(),
        }
    }
    reclaim(shared, ledger);
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::{Durability, Error, IndexKind, Isolation, Options, Progress, Store, Transaction};

    fn store(index: IndexKind) -> Store {
        let options = Options::new().index(index).background(false).transaction_memory(1000);
        let store = Store::volatile(&options.size(1 << 20).size_max(1 << 20)).unwrap();
        idle(&store);
        store
    }

    fn idle(store: &Store) {
        while store.maintain(64).unwrap() == Progress::More {}
    }

    /// A transaction that has outgrown its memory, and how it ended.
    fn spilled(store: &Store, count: u32) -> (Transaction, Result<(), Error>) {
        let space = store.keyspace("x").unwrap();
        let mut tx = store.transaction(Isolation::Snapshot).unwrap();
        let filled = (0..count).try_for_each(|key| tx.put(space, &key.to_be_bytes(), &[1; 300]));
        (tx, filled)
    }

    /// The other thread, as the background, is between its look at the trees and the writer's lock.
    #[test]
    fn the_writer_has_the_space_for_which_another_thread_waits_to_give_it_back() {
        for index in IndexKind::ALL {
            let store = store(index);
            let space = store.keyspace("x").unwrap();
            let (tx, filled) = spilled(&store, 10_000);
            assert!(matches!(filled, Err(Error::Full(_))), "{filled:?}");
            drop(tx);
            collect_private(&store.handle().shared);
            for key in 0..1000u32 {
                store.put(space, &key.to_be_bytes(), &[2; 300], Durability::Buffered).unwrap();
            }
            // It has the lock now, and finds nothing to do.
            let mut writing = store.handle().lock().unwrap();
            let (shared, ledger) = writing.parts();
            assert!(!shared.private.is_giving_back() && !shared.private.has_given_up());
            free_private(shared, ledger);
            drop(writing);
            assert_eq!(store.get(space, &7u32.to_be_bytes()).unwrap(), Some(vec![2; 300]));
            idle(&store);
            assert_eq!(store.check().unwrap().leaked, 0);
        }
    }

    #[test]
    fn what_is_given_up_while_another_waits_to_be_given_back_is_not_forgotten() {
        for index in IndexKind::ALL {
            let store = store(index);
            let used = store.report().used_bytes;
            let (first, second) = (spilled(&store, 50), spilled(&store, 50));
            assert!(first.1.is_ok() && second.1.is_ok());
            drop(first);
            let mut writing = store.handle().lock().unwrap();
            let (shared, ledger) = writing.parts();
            collect_private(shared);
            drop(second);
            free_private(shared, ledger);
            assert!(shared.private.is_giving_back() && shared.private.has_given_up());
            give_back_now(shared, ledger);
            assert!(!shared.private.is_giving_back() && !shared.private.has_given_up());
            drop(writing);
            // The keyspace is there.
            assert!(store.report().used_bytes < used + (16 << 10));
        }
    }
}
