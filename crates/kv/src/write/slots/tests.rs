#![allow(clippy::unwrap_used)]
use std::sync::atomic::AtomicBool;

use super::*;
use crate::write::Engine;
use crate::{Durability, IndexKind, Isolation, Keyspace, Options, Progress, Store};

fn store(index: IndexKind) -> (Store, Keyspace) {
    let options = Options::new().index(index).background(false);
    let store = Store::volatile(&options).unwrap();
    while store.maintain(64).unwrap() == Progress::More {}
    let space = store.keyspace("x").unwrap();
    (store, space)
}

fn engine(store: &Store) -> &Engine {
    store.handle()
}

fn put(store: &Store, space: Keyspace, key: u64) -> bool {
    store.put(space, &key.to_be_bytes(), &key.to_be_bytes(), Durability::Strict).unwrap()
}

fn enter(store: &Store) -> Result<Entered<'_>, Refused> {
    engine(store).slots.enter(&engine(store).shared.versions.pins.visible)
}

/// Lets others go on for a while.
fn pause() {
    (0..1000).for_each(|_| std::thread::yield_now());
}

#[test]
fn nothing_is_visible_or_acknowledged_while_something_before_it_is_in_flight() {
    let (store, space) = store(IndexKind::Nvtree);
    let (versions, returned) = (&engine(&store).shared.versions, AtomicBool::new(false));
    let before = store.visible();
    let slot = enter(&store).ok().unwrap();
    let ticket = versions
        .clock
        .ticket_of(versions.pins.visible.below(slot.number.unwrap()), versions.clock.last());
    let first = ticket.draw();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            put(&store, space, 1);
            returned.store(true, Ordering::SeqCst);
        });
        while versions.clock.last() == first {
            std::thread::yield_now();
        }
        pause();
        assert_eq!((store.visible(), returned.load(Ordering::SeqCst)), (before, false));
        drop(ticket);
        versions.land(slot.number, first);
        assert!(store.visible() >= first);
        drop(slot);
    });
    assert_eq!(store.visible(), first + 1);
}

#[test]
fn the_writer_waits_for_a_thread_in_a_slot_and_none_comes_in_after_it() {
    let (store, space) = store(IndexKind::Nvtree);
    let has_begun = AtomicBool::new(false);
    let slot = enter(&store).ok().unwrap();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut writer = store.exclusive().unwrap();
            has_begun.store(true, Ordering::SeqCst);
            writer.put(space, b"by the writer", b"1").unwrap();
            let last = engine(&store).shared.versions.clock.last();
            scope.spawn(|| put(&store, space, 2));
            pause();
            assert_eq!(
                engine(&store).shared.versions.clock.last(),
                last,
                "a change beside the writer"
            );
            writer.commit(Durability::Strict).unwrap();
        });
        pause();
        assert!(!has_begun.load(Ordering::SeqCst));
        drop(slot);
    });
    assert_eq!(store.exclusive().unwrap().count(space), Some(2));
}

#[test]
fn a_thread_that_joins_while_slots_are_being_closed_has_joined_when_they_are_open() {
    let (slots, visible) = (WriteSlots::new(), Visible::new(1));
    slots.open(u64::MAX, false);
    let mut both = [0, 1].map(|number| slots.slots[number].0.lock());
    for (number, state) in both.iter_mut().enumerate() {
        slots.join(number);
        state.has_joined = true;
    }
    drop(both);
    let (mut taken, mut next) = (0, None);
    slots.close(&visible, |_| {
        taken += 1;
        if taken == 2 {
            let state = slots.slots[0].0.try_lock().unwrap();
            slots.join(0);
            next = Some(state);
        }
    });
    slots.open(u64::MAX, false);
    let entered = slots.admit(&visible, 0, next.unwrap()).ok().unwrap();
    assert_eq!(slots.joined.load(Ordering::SeqCst), 1, "a slot that the writer does not know of");
    drop(entered);
}

#[test]
fn what_is_reported_as_removed_is_visibly_removed() {
    let (store, space) = store(IndexKind::Nvtree);
    put(&store, space, 1);
    let (versions, returned) = (&engine(&store).shared.versions, AtomicBool::new(false));
    let remove = || store.remove(space, &1_u64.to_be_bytes(), Durability::Strict).unwrap();
    let slot = enter(&store).ok().unwrap();
    let ticket = versions
        .clock
        .ticket_of(versions.pins.visible.below(slot.number.unwrap()), versions.clock.last());
    let first = ticket.draw();
    std::thread::scope(|scope| {
        scope.spawn(|| assert!(remove()));
        while versions.clock.last() == first {
            std::thread::yield_now();
        }
        scope.spawn(|| {
            assert!(!remove());
            let found = store.get(space, &1_u64.to_be_bytes()).unwrap();
            assert_eq!(found, None, "it was removed before");
            returned.store(true, Ordering::SeqCst);
        });
        pause();
        assert!(!returned.load(Ordering::SeqCst), "what was read can still be lost");
        drop(ticket);
        drop(slot);
    });
}

#[test]
fn a_slot_is_biased_to_a_thread_that_uses_it_much_until_the_writer_takes_it_back() {
    let own = Latch::of(thread::number(), ());
    drop(own.bias(own.lock()));
    let can_be_biased = own.enter().is_some();
    let (store, space) = store(IndexKind::Nvtree);
    let slots = &engine(&store).slots;
    let (few, many) = (u64::from(CHANGES_BEFORE_BIAS), u64::from(CHANGES_WORTH_BIAS));
    // Where it was revoked soon it is biased later, until it was worth it.
    for (before, changes) in [(few, 2 * few), (2 * few, 4 * few), (4 * few, many), (few, 2 * few)] {
        for change in 0..changes {
            let is_biased = can_be_biased && change > before;
            assert_eq!(slots.reenter().is_some(), is_biased, "{before}: {change}");
            put(&store, space, change);
        }
        drop(store.exclusive().unwrap());
        assert!(slots.reenter().is_none());
    }
    for change in 0..many {
        put(&store, space, change);
    }
    drop(store.exclusive().unwrap());
    // A thread that is inside does not get in again.
    for key in 0..2 * u64::from(CHANGES_BEFORE_BIAS) {
        put(&store, space, key);
    }
    let first = slots.reenter();
    assert_eq!(first.is_some(), can_be_biased);
    assert!(slots.reenter().is_none());
}

#[test]
fn slots_are_barred_to_a_tree_for_one_writer_and_while_something_is_dead() {
    let (one, space) = store(IndexKind::Cdds);
    put(&one, space, 1);
    assert!(matches!(enter(&one), Err(Refused::Barred)));
    let (many, space) = store(IndexKind::Nvtree);
    assert!(enter(&many).is_ok());
    let mut given_up = many.exclusive().unwrap();
    given_up.put(space, b"key", b"value").unwrap();
    assert!(matches!(enter(&many), Err(Refused::ForNow)));
    drop(given_up);
    assert!(matches!(enter(&many), Err(Refused::Barred)));
    put(&many, space, 1);
    while many.maintain(64).unwrap() == Progress::More {}
    assert!(enter(&many).is_ok());
}

#[test]
fn counts_removals_and_conflicts_are_as_if_there_were_one_thread() {
    const KEYS: u64 = 3000;
    let (store, space) = store(IndexKind::Nvtree);
    std::thread::scope(|scope| {
        for thread in 0..4u64 {
            let store = &store;
            scope.spawn(move || {
                let mut tx = store.transaction(Isolation::Snapshot).unwrap();
                for key in (0..KEYS).map(|key| key * 4 + thread) {
                    assert!(!put(store, space, key));
                    assert!(put(store, space, key));
                    let removed = || store.remove(space, &key.to_be_bytes(), Durability::Strict);
                    assert!(key % 3 != 0 || removed().unwrap() && !removed().unwrap());
                }
                tx.put(space, &(thread + 3 * 4).to_be_bytes(), b"too late").unwrap();
                assert!(tx.commit(Durability::Strict).is_err());
            });
        }
    });
    let left = (0..4 * KEYS).filter(|key| key % 3 != 0);
    assert_eq!(store.exclusive().unwrap().count(space), Some(left.clone().count() as u64));
    for key in left {
        let value = store.get(space, &key.to_be_bytes()).unwrap();
        assert_eq!(value.as_deref(), Some(&key.to_be_bytes()[..]));
    }
    assert_eq!(store.check().unwrap().keyspaces.len(), 1);
}
