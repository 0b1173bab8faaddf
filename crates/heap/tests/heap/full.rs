//! A full pool: what makes room needs none, or has it in the pool's reserve.

use tembo_heap::{Bytes, Error, Heap, HeapFile, Persist, PoolOptions, Ptr, Slice};
use tembo_pool::{Error as PoolError, Geometry};

use crate::objects;

type Leaves<'h, const N: usize> = [Option<Ptr<'h, u64>>; N];

#[derive(Persist)]
struct Parent<'h> {
    leaves: Leaves<'h, 15>,
}

#[derive(Persist)]
struct Top<'h> {
    leaves: Leaves<'h, 20>,
    parent: Option<Ptr<'h, Parent<'h>>>,
    many: Ptr<'h, Slice<Option<Ptr<'h, u64>>>>,
    /// Keeps the leaves of the others.
    shared: Ptr<'h, Slice<Option<Ptr<'h, u64>>>>,
    filler: Ptr<'h, Slice<Option<Ptr<'h, Bytes>>>>,
    words: Ptr<'h, Slice<u64>>,
}

const MANY: u64 = 300;

/// The top of a heap whose pool has no room for any object.
fn full<'h>(heap: Heap<'h>) -> Ptr<'h, Top<'h>> {
    let top = heap.atomic(|tx| {
        let leaf = tx.alloc(1)?;
        let (many, shared) = (tx.alloc_slice(MANY)?, tx.alloc_slice(MANY)?);
        let (filler, words) = (tx.alloc_slice(20_000)?, tx.alloc_slice(MANY)?);
        let mut leaves = Vec::new();
        for index in 0..MANY {
            let leaf = tx.alloc(index)?;
            tx.set_cell(&shared, index, Some(leaf.clone()))?;
            tx.set_cell(&many, index, Some(leaf.clone()))?;
            leaves.push(Some(leaf));
        }
        let of = |index: usize| leaves[index].clone();
        let parent = Some(tx.alloc(Parent { leaves: std::array::from_fn(of) })?);
        let leaves = std::array::from_fn(of);
        let bytes = tx.alloc_bytes(&[1])?;
        tx.set_cell(&filler, 0, Some(bytes))?;
        drop(leaf);
        let top = tx.alloc(Top { leaves, parent, many, shared, filler, words })?;
        tx.set_root(&top)?;
        Ok::<_, Error>(top)
    });
    let top = top.unwrap();
    let filler = heap.atomic(|tx| tx.get(&top, Top::FILLER)).unwrap();
    let mut filled = 1;
    for size in (8..=4096).rev().step_by(8) {
        let fill = |index: u64| {
            heap.atomic(|tx| {
                let bytes = tx.alloc_bytes(&vec![1; size])?;
                tx.set_cell(&filler, index, Some(bytes))
            })
        };
        let full = loop {
            match fill(filled) {
                Ok(()) => filled += 1,
                Err(error) => break error,
            }
        };
        assert!(matches!(full, Error::Pool(PoolError::PoolFull { .. })), "{full:?}");
    }
    top
}

/// In a full pool of each kind of chunks: `remove` removes, and everything is accounted for.
fn in_a_full_pool(remove: impl for<'h> Fn(Heap<'h>, &Ptr<'h, Top<'h>>) -> Result<(), Error>) {
    for geometry in [Geometry::TINY, Geometry::default()] {
        let mut options = PoolOptions { size: 2 << 20, geometry, ..PoolOptions::default() };
        options.region.size_max = options.size;
        let file = HeapFile::volatile(&options).unwrap();
        file.enter(|heap| {
            let top = full(heap);
            remove(heap, &top).unwrap_or_else(|error| panic!("{geometry:?}: {error:?}"));
        });
        objects(&file);
    }
}

#[test]
fn an_object_is_destroyed_by_the_commit_that_unlinks_it() {
    in_a_full_pool(|heap, top| heap.atomic(|tx| tx.set(top, Top::PARENT, None)));
}

#[test]
fn a_few_pointers_are_emptied() {
    in_a_full_pool(|heap, top| {
        heap.atomic(|tx| tx.set(top, Top::LEAVES, std::array::from_fn(|_| None)))
    });
}

#[test]
fn more_pointers_are_emptied_than_a_lane_of_the_log_holds() {
    in_a_full_pool(|heap, top| {
        heap.atomic(|tx| {
            let many = tx.get(top, Top::MANY)?;
            (0..MANY).try_for_each(|index| tx.set_cell(&many, index, None))
        })
    });
}

#[test]
fn objects_that_the_program_holds_are_unlinked() {
    in_a_full_pool(|heap, top| {
        let held = heap.atomic(|tx| {
            let (many, shared) = (tx.get(top, Top::MANY)?, tx.get(top, Top::SHARED)?);
            tx.set(top, Top::PARENT, None)?;
            tx.set(top, Top::LEAVES, std::array::from_fn(|_| None))?;
            let mut held = Vec::new();
            for index in 0..MANY {
                held.push(tx.cell(&many, index)?);
                tx.set_cell(&many, index, None)?;
                tx.set_cell(&shared, index, None)?;
            }
            Ok::<_, Error>(held)
        })?;
        let last = held.last().cloned().flatten().ok_or(Error::NoRoot)?;
        drop(held);
        assert_eq!(heap.atomic(|tx| tx.read(&last))?, MANY - 1);
        Ok(())
    });
}

/// A commit that made objects and removed none took the reserve for the words that the log's lane does not hold.
#[test]
fn what_takes_room_leaves_the_reserve_to_others() {
    in_a_full_pool(|heap, top| {
        // Room for one.
        heap.atomic(|tx| tx.set(top, Top::PARENT, None))?;
        let words = heap.atomic(|tx| tx.get(top, Top::WORDS))?;
        let grown = heap.atomic(|tx| {
            (0..MANY).try_for_each(|index| tx.set_cell(&words, index, 1))?;
            let parent = tx.alloc(Parent { leaves: std::array::from_fn(|_| None) })?;
            tx.set(top, Top::PARENT, Some(parent))
        });
        assert!(matches!(grown, Err(Error::Pool(PoolError::PoolFull { .. }))), "{grown:?}");
        // What changes in place takes room for a time only.
        heap.atomic(|tx| (0..MANY).try_for_each(|index| tx.set_cell(&words, index, 2)))?;
        assert_eq!(heap.atomic(|tx| tx.cell(&words, MANY - 1))?, 2);
        Ok(())
    });
}

/// What is destroyed behind a commit waited for one, and without room there was none.
#[test]
fn what_is_dead_makes_room_for_the_transaction_that_needs_it() {
    in_a_full_pool(|heap, top| {
        let parent = heap.atomic(|tx| tx.get(top, Top::PARENT))?;
        heap.atomic(|tx| tx.set(top, Top::PARENT, None))?;
        drop(parent);
        heap.atomic(|tx| {
            let parent = tx.alloc(Parent { leaves: std::array::from_fn(|_| None) })?;
            tx.set(top, Top::PARENT, Some(parent))
        })
    });
}

#[derive(Persist)]
struct Unknown {
    words: [u64; 3],
}

/// Objects that are dead when what they were linked by, and the program, have dropped them.
fn leave_dead<'h>(heap: Heap<'h>, top: &Ptr<'h, Top<'h>>) -> Result<(), Error> {
    let held = heap.atomic(|tx| {
        let filler = tx.get(top, Top::FILLER)?;
        let mut held = Vec::new();
        for index in 1..40 {
            held.push(tx.cell(&filler, index)?);
            tx.set_cell(&filler, index, None)?;
        }
        Ok::<_, Error>(held)
    });
    held.map(drop)
}

#[test]
fn what_is_dead_makes_room_for_what_uses_the_heap_alone() {
    in_a_full_pool(|heap, top| {
        leave_dead(heap, top)?;
        heap.exclusive(|tx| tx.alloc_bytes(&[2; 3000]).map(drop))
    });
    in_a_full_pool(|heap, top| {
        leave_dead(heap, top)?;
        heap.safe(|heap| {
            let filler = heap.get(top, Top::FILLER)?;
            for index in 1..9 {
                let bytes = heap.alloc_bytes(&[3; 3000])?;
                heap.set_cell(&filler, index, Some(bytes))?;
            }
            heap.checkpoint()
        })
    });
}

#[test]
fn what_is_dead_makes_room_for_a_type() {
    in_a_full_pool(|heap, top| {
        leave_dead(heap, top)?;
        heap.exclusive(|tx| tx.alloc(Unknown { words: [1; 3] }).map(drop))
    });
}

/// What is free is not known after a crash, before a sweep.
#[test]
fn what_a_sweep_finds_makes_room_for_what_uses_the_heap_alone() {
    type Use = for<'h> fn(Heap<'h>) -> Result<(), Error>;
    let uses: [Use; 2] = [
        |heap| heap.exclusive(|tx| tx.alloc(Unknown { words: [1; 3] }).map(drop)),
        |heap| {
            heap.safe(|heap| {
                heap.alloc(Unknown { words: [1; 3] })?;
                heap.checkpoint()
            })
        },
    ];
    for uses in uses {
        let mut options = PoolOptions { size: 2 << 20, ..PoolOptions::default() };
        options.region.size_max = options.size;
        let file = HeapFile::volatile(&options).unwrap();
        file.enter(|heap| {
            let top = full(heap);
            leave_dead(heap, &top).unwrap();
            heap.settle().unwrap();
        });
        let region = file.pool().region();
        let image = region.media_bytes(0, region.size()).unwrap().to_vec();
        let region = tembo_pmem::Region::from_image(&image, &options.region).unwrap();
        let kinds = tembo_heap::kinds(tembo_pool::Kinds::default());
        let pool = tembo_pool::Pool::from_region_of(region, kinds).unwrap();
        let again = HeapFile::of(&std::sync::Arc::new(pool), "heap").unwrap();
        assert!(again.pool().usage().recovering);
        again.enter(uses).unwrap();
        objects(&again);
    }
}

#[test]
fn what_makes_room_waits_for_what_walks_the_heap_alone() {
    let mut options = PoolOptions { size: 4 << 20, ..PoolOptions::default() };
    options.region.size_max = options.size;
    let file = HeapFile::volatile(&options).unwrap();
    let (full, is_full) = std::sync::mpsc::channel();
    file.enter(|heap| {
        let top = full_of_orphans(heap);
        std::thread::scope(|scope| {
            scope.spawn(move || {
                let filled = heap.atomic(|tx| {
                    let filled = tx.alloc_slice::<u64>(400_000).map(drop);
                    let _ = full.send(());
                    // The other thread waits by now until no transaction is under way.
                    std::thread::sleep(std::time::Duration::from_millis(100));
                    filled
                });
                assert!(matches!(filled, Err(Error::Pool(PoolError::PoolFull { .. }))));
            });
            is_full.recv().unwrap();
            let mut is_first = true;
            file.objects::<Error>(&mut |_| {
                if std::mem::take(&mut is_first) {
                    let before = file.pool().usage().objects;
                    std::thread::sleep(std::time::Duration::from_millis(200));
                    assert_eq!(file.pool().usage().objects, before);
                }
                Ok(())
            })
            .unwrap();
        });
        drop(top);
    });
    objects(&file);
}

/// A root, and beside it many objects that only a slice refers to which nothing refers to any more.
fn full_of_orphans(heap: Heap<'_>) -> Ptr<'_, u64> {
    let made = heap.atomic(|tx| {
        let root = tx.alloc(1_u64)?;
        tx.set_root(&root)?;
        let orphans = tx.alloc_slice::<Option<Ptr<'_, u64>>>(20_000)?;
        for index in 0..20_000 {
            let leaf = tx.alloc(index)?;
            tx.set_cell(&orphans, index, Some(leaf))?;
        }
        Ok::<_, Error>((root, orphans))
    });
    let (root, orphans) = made.unwrap();
    drop(orphans);
    root
}
