//! Each benchmark is right over each memory: what is in it afterwards is what sets and maps of the standard library say.
#![allow(clippy::unwrap_used)]

use std::collections::BTreeMap;
use std::collections::BTreeSet;
use std::sync::{Mutex, PoisonError};

use super::btree::{Btree, BtreeCheck, BtreeToggle};
use super::rb_tree::{RbCheck, RbToggle, RbTree};
use super::*;
use crate::Error;
use crate::heap_bed::HeapBed;
use crate::keys::Random;

/// Entries in memory, as Berkeley DB has them in a file.
#[derive(Default)]
struct Entries(Mutex<BTreeMap<u64, Vec<u8>>>);

impl Keyed for BTreeMap<u64, Vec<u8>> {
    type Fault = Error;

    fn get(&mut self, key: u64, _changes: bool, out: &mut Vec<u8>) -> Result<bool, Error> {
        let value = BTreeMap::get(self, &key);
        out.extend(value.into_iter().flatten());
        Ok(value.is_some())
    }

    fn put(&mut self, key: u64, value: &[u8]) -> Result<(), Error> {
        self.insert(key, value.to_vec());
        Ok(())
    }

    fn remove(&mut self, key: u64) -> Result<(), Error> {
        BTreeMap::remove(self, &key);
        Ok(())
    }
}

impl KeyedFile for Entries {
    fn atomic(
        &self,
        body: &mut dyn FnMut(&mut dyn Keyed<Fault = Error>) -> Result<u64, Error>,
    ) -> Result<u64, Error> {
        body(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn filled(&self) -> Result<(), Error> {
        Ok(())
    }

    fn size(&self) -> Result<u64, Error> {
        Ok(0)
    }
}

fn extent(threads: u32, works: u64) -> Extent {
    Extent { threads, works, seed: 7 }
}

/// All memories give the same answers as the one without durability.
fn agree<const D: usize, const L: usize>(program: &impl Program<D, L>, works: u64) {
    let volatile = Volatile::<D, L>::new(program.form());
    let expected = measured(program, &volatile, extent(1, works), &|| Ok(0)).unwrap();
    let entries = Entries::default();
    let keyed = measured(program, &KeyedStore(&entries), extent(1, works), &|| Ok(0)).unwrap();
    assert_eq!(keyed.answers, expected.answers, "{} by keys", program.name());
    for layer in HeapLayer::ALL {
        let bed = HeapBed::volatile(64 << 20).unwrap();
        let found = with_heap(&bed, layer, program, extent(1, works)).unwrap();
        assert_eq!(found.answers, expected.answers, "{} over {}", program.name(), layer.name());
        let check = bed.check().unwrap();
        assert_eq!((check.account.leaked, check.account.dangling), (0, 0));
    }
}

#[test]
fn all_memories_give_the_same_answers() {
    agree(&Sps { cells: 256 }, 500);
    agree(&HashTable { keys: 256 }, 1_000);
    agree(&RbTree { keys: 256 }, 1_000);
    agree(&Btree { keys: 1024 }, 2_000);
    agree(&SixDegrees { vertices: 64, edges: 100 }, 400);
    agree(&Ssca { scale: 5, edges: 100 }, 40);
}

#[test]
fn two_threads_on_a_heap_lose_nothing() {
    for layer in HeapLayer::ALL {
        let program = RbTree { keys: 256 };
        let bed = HeapBed::volatile(64 << 20).unwrap();
        with_heap(&bed, layer, &program, extent(2, 2_000)).unwrap();
        let check = bed.check().unwrap();
        assert_eq!((check.account.leaked, check.account.dangling), (0, 0));
    }
}

/// Keys that toggles leave, by the standard library.
struct Oracle(BTreeSet<u64>);

impl Oracle {
    fn toggle(&mut self, key: u64) -> u64 {
        let is_new = self.0.insert(key);
        if !is_new {
            self.0.remove(&key);
        }
        u64::from(is_new)
    }
}

#[test]
fn trees_hold_what_was_inserted_in_order_and_stay_balanced() {
    let (rb, btree) = (Volatile::<2, 2>::new(form()), Volatile::<16, 16>::new(form()));
    let (mut random, mut oracle) = (Random::new(3), Oracle(BTreeSet::new()));
    // Growing, level, and shrinking to nothing.
    let mut keys: Vec<u64> = (0..6_000).map(|n| random.below(400 + n % 3 * 800)).collect();
    let mut left = Oracle(BTreeSet::new());
    for key in &keys {
        left.toggle(*key);
    }
    keys.extend(&left.0);
    for (number, key) in keys.into_iter().enumerate() {
        let expected = oracle.toggle(key);
        assert_eq!(rb.atomic(&mut RbToggle { key }).unwrap(), expected);
        assert_eq!(btree.atomic(&mut BtreeToggle { key }).unwrap(), expected);
        if number % 20 != 0 && oracle.0.len() > 4 {
            continue;
        }
        let expected: Vec<u64> = oracle.0.iter().copied().collect();
        let mut check = RbCheck { keys: Vec::new() };
        rb.atomic(&mut check).unwrap();
        assert_eq!(check.keys, expected);
        let mut check = BtreeCheck { keys: Vec::new() };
        btree.atomic(&mut check).unwrap();
        assert_eq!(check.keys, expected);
    }
    assert!(oracle.0.is_empty());
}

fn form() -> Form {
    Form { cells: 0, heads: 1, objects: 0 }
}

#[test]
fn a_swap_leaves_every_integer_in_the_array() {
    let program = Sps { cells: 100 };
    let volatile = Volatile::<0, 0>::new(program.form());
    measured(&program, &volatile, extent(2, 1_000), &|| Ok(0)).unwrap();
    struct Collect(Vec<u64>);
    impl Work<0, 0> for Collect {
        fn run<M: Memory<0, 0>>(&mut self, memory: &mut M) -> Result<u64, M::Fault> {
            for at in 0..100 {
                self.0.push(memory.cell(at)?);
            }
            Ok(0)
        }

        fn run_keyed<K: Keyed>(&mut self, _entries: &mut K) -> Result<u64, K::Fault> {
            Ok(0)
        }
    }
    let mut found = Collect(Vec::new());
    volatile.atomic(&mut found).unwrap();
    assert!(!found.0.is_sorted());
    found.0.sort_unstable();
    assert_eq!(found.0, (0..100).collect::<Vec<u64>>());
}

/// Fences of a work over a heap.
fn fences<const D: usize, const L: usize>(program: &impl Program<D, L>, works: u64) -> f64 {
    let bed = HeapBed::volatile(64 << 20).unwrap();
    with_heap(&bed, HeapLayer::Ctx, program, extent(1, works)).unwrap().fences
}

#[test]
fn fences_of_a_work_are_as_stated() {
    // A commit takes one, whatever it changes.
    assert_eq!(fences(&Sps { cells: 256 }, 500), 1.0);
    // A source without neighbours changes nothing.
    assert!(fences(&Ssca { scale: 5, edges: 100 }, 40) <= 1.0);
    // An insertion takes one, a removal two: what goes is settled by a second fence.
    for found in [
        fences(&HashTable { keys: 256 }, 1_000),
        fences(&RbTree { keys: 256 }, 1_000),
        fences(&Btree { keys: 1024 }, 2_000),
    ] {
        assert!((1.0..=1.6).contains(&found), "{found}");
    }
}

/// libpmemobj and Berkeley DB answer as memory does, and take back what fails.
#[cfg(feature = "rivals-debian")]
#[test]
fn rivals_give_the_same_answers() {
    fn rivals<const D: usize, const L: usize>(program: &impl Program<D, L>, works: u64) {
        use crate::rival::{berkeley_keys, on_pmemobj};
        let volatile = Volatile::<D, L>::new(program.form());
        let expected = measured(program, &volatile, extent(1, works), &|| Ok(0)).unwrap();
        let folder = tempfile::tempdir_in("/dev/shm").unwrap();
        let found = on_pmemobj(folder.path(), program, extent(1, works)).unwrap().unwrap();
        assert_eq!(found.answers, expected.answers, "{} over libpmemobj", program.name());
        let file = berkeley_keys(folder.path(), program.is_hashed()).unwrap().unwrap();
        let found =
            measured(program, &KeyedStore(&*file), extent(1, works), &|| file.size()).unwrap();
        assert_eq!(found.answers, expected.answers, "{} over Berkeley DB", program.name());
        assert!(found.bytes > 0);
    }
    rivals(&Sps { cells: 256 }, 500);
    rivals(&HashTable { keys: 256 }, 1_000);
    rivals(&RbTree { keys: 256 }, 1_000);
    rivals(&Btree { keys: 1024 }, 2_000);
    rivals(&SixDegrees { vertices: 64, edges: 100 }, 400);
    rivals(&Ssca { scale: 5, edges: 100 }, 40);
}
