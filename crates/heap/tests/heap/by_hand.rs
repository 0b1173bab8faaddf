//! What a program that frees by hand, or goes on after an error, cannot bring a heap to.

use tembo_heap::{Access, Base, Error, HeapFile, Persist, Ptr, Weak};
use tembo_pool::Error as PoolError;

use crate::{after_a_crash, objects, volatile};

#[derive(Persist)]
struct Pair<'h> {
    word: u64,
    link: Option<Ptr<'h, Pair<'h>>>,
    other: Option<Ptr<'h, Pair<'h>>>,
    back: Option<Weak<'h, Pair<'h>>>,
}

fn pair<'h>(word: u64) -> Pair<'h> {
    Pair { word, link: None, other: None, back: None }
}

/// A heap with a root, and one object that it refers to.
fn begun() -> HeapFile {
    let file = volatile();
    file.enter(|heap| {
        let root = heap.root_or::<_, Error>(|_| Ok(pair(0))).unwrap();
        heap.atomic(|tx| {
            let linked = tx.alloc(pair(1))?;
            tx.set(&root, Pair::LINK, Some(linked))
        })
        .unwrap();
    });
    file
}

fn base(
    file: &HeapFile,
    body: impl for<'h> FnOnce(&mut Access<'h, Base>, Ptr<'h, Pair<'h>>) -> Result<(), Error>,
) {
    file.base(|heap| {
        let root = heap.root::<Pair<'_>>()?.ok_or(Error::NoRoot)?;
        body(heap, root)
    })
    .unwrap();
}

fn linked_word(file: &HeapFile) -> u64 {
    file.enter(|heap| {
        heap.atomic(|tx| {
            let root = tx.root::<Pair<'_>>()?.ok_or(Error::NoRoot)?;
            let linked = tx.get(&root, Pair::LINK)?.ok_or(Error::NoRoot)?;
            tx.get(&linked, Pair::WORD)
        })
        .unwrap()
    })
}

#[test]
fn nothing_is_destroyed_that_a_bare_pointer_may_name() {
    for settles in [false, true] {
        let file = begun();
        file.enter(|outer| {
            // Only the program holds it; it refers to what the root refers to.
            let orphan = outer
                .atomic(|tx| {
                    let root = tx.root::<Pair<'_>>()?.ok_or(Error::NoRoot)?;
                    let link = tx.get(&root, Pair::LINK)?;
                    tx.alloc(Pair { link, ..pair(2) })
                })
                .unwrap();
            base(&file, |heap, root| {
                let linked = heap.get(&root, Pair::LINK)?.unwrap();
                heap.set(&root, Pair::LINK, None)?;
                heap.checkpoint()?;
                drop(orphan);
                heap.set(&root, Pair::WORD, 5)?;
                heap.checkpoint()?;
                if settles {
                    outer.settle()?;
                    root.heap().settle()?;
                    file.clone().close()?;
                }
                // It would get the space of what was destroyed.
                let other = heap.alloc([7_u64; 6])?;
                heap.set(&root, Pair::LINK, Some(linked))?;
                heap.checkpoint()?;
                heap.free(other)?;
                heap.checkpoint()
            });
        });
        assert_eq!(objects(&file), 2, "the orphan goes when the use has ended");
        assert_eq!(linked_word(&file), 1);
    }
}

#[test]
fn what_is_owed_before_is_destroyed_first() {
    let file = begun();
    file.enter(|heap| {
        let orphan = heap.atomic(|tx| {
            let root = tx.root::<Pair<'_>>()?.ok_or(Error::NoRoot)?;
            let link = tx.get(&root, Pair::LINK)?;
            tx.alloc(Pair { link, ..pair(2) })
        });
        // No commit follows that would destroy it.
        drop(orphan.unwrap());
    });
    base(&file, |heap, root| {
        let linked = heap.get(&root, Pair::LINK)?.unwrap();
        heap.set(&root, Pair::LINK, None)?;
        heap.free(linked)?;
        heap.checkpoint()
    });
    assert_eq!(objects(&file), 1);
}

#[test]
fn what_a_counted_pointer_keeps_goes_with_it() {
    let file = begun();
    file.enter(|outer| {
        let kept = outer
            .atomic(|tx| {
                let root = tx.root::<Pair<'_>>()?.ok_or(Error::NoRoot)?;
                tx.get(&root, Pair::LINK)
            })
            .unwrap();
        base(&file, |heap, root| {
            heap.set(&root, Pair::LINK, None)?;
            heap.checkpoint()
        });
        assert_eq!(objects(&after_a_crash(&file)), 1, "an opening destroys it");
        assert_eq!(outer.atomic(|tx| tx.get(kept.as_ref().unwrap(), Pair::WORD)).unwrap(), 1);
    });
    let check = || file.check().unwrap().tenants[0].1.counts[0].1;
    assert_eq!((objects(&file), check()), (1, 1));
}

#[derive(Persist)]
#[persist(name = "by_hand.old", version = 1)]
struct Old<'h> {
    link: Option<Ptr<'h, Pair<'h>>>,
    word: u64,
}

/// The fields in another order.
#[derive(Persist)]
#[persist(name = "by_hand.old", version = 2, from = Old<'h>)]
struct New<'h> {
    word: u64,
    link: Option<Ptr<'h, Pair<'h>>>,
}

impl<'h> From<Old<'h>> for New<'h> {
    fn from(old: Old<'h>) -> Self {
        New { word: old.word, link: old.link }
    }
}

#[test]
fn an_object_of_an_older_version_is_freed_with_what_it_has() {
    let file = volatile();
    file.base(|heap| {
        let kept = heap.alloc(pair(1))?;
        let old = heap.alloc(Old { link: Some(kept.clone()), word: 4096 })?;
        let root = heap.alloc((Some(old), Some(kept)))?;
        heap.set_root(&root)?;
        heap.checkpoint()
    })
    .unwrap();
    type Root<'h> = (Option<Ptr<'h, New<'h>>>, Option<Ptr<'h, Pair<'h>>>);
    file.base(|heap| {
        let root = heap.root::<Root<'_>>()?.ok_or(Error::NoRoot)?;
        let (old, kept) = heap.read(&root)?;
        heap.write(&root, (None, kept))?;
        heap.free(old.unwrap())?;
        heap.checkpoint()?;
        let (_, kept) = heap.read(&root)?;
        heap.write(&root, (None, None))?;
        heap.free(kept.unwrap())?;
        heap.checkpoint()
    })
    .unwrap();
    assert_eq!(objects(&file), 1);
}

#[test]
fn an_object_that_was_refused_leaves_no_count() {
    let file = begun();
    base(&file, |heap, root| {
        let freed = heap.get(&root, Pair::LINK)?.unwrap();
        heap.set(&root, Pair::LINK, None)?;
        heap.free(freed.clone())?;
        let refused = heap.alloc(Pair { link: Some(freed.clone()), ..pair(2) });
        assert!(matches!(refused.map(drop), Err(Error::Freed)));
        heap.checkpoint()?;
        let refused = heap.alloc(Pair { link: Some(freed.clone()), ..pair(2) });
        assert!(matches!(refused.map(drop), Err(Error::Freed)));
        heap.set(&root, Pair::WORD, 5)?;
        heap.checkpoint()?;
        // Its space gets an object that only the root refers to.
        let again = heap.alloc(pair(3))?;
        assert!(again.is(&freed));
        heap.set(&root, Pair::LINK, Some(again))?;
        heap.checkpoint()
    });
    assert_eq!((objects(&file), linked_word(&file)), (2, 3));
    file.enter(|heap| {
        heap.safe(|heap| {
            let root = heap.root::<Pair<'_>>()?.ok_or(Error::NoRoot)?;
            let void = heap.alloc(pair(4))?;
            heap.revert();
            let refused = heap.alloc(Pair { link: Some(void), ..pair(5) });
            assert!(matches!(refused.map(drop), Err(Error::NotCommitted)));
            heap.set(&root, Pair::WORD, 6)?;
            heap.checkpoint()
        })
        .unwrap();
    });
    assert_eq!(objects(&file), 2);
}

fn small() -> HeapFile {
    let region = tembo_pmem::RegionOptions { size_max: 1 << 20, ..Default::default() };
    let options = tembo_heap::PoolOptions { size: 1 << 20, region, ..Default::default() };
    HeapFile::volatile(&options).unwrap()
}

#[test]
fn an_object_without_room_leaves_no_count() {
    let file = small();
    file.enter(|heap| {
        heap.safe(|heap| {
            let root = heap.alloc(pair(0))?;
            heap.set_root(&root)?;
            heap.checkpoint()?;
            let linked = heap.alloc(pair(1))?;
            let mut filler = Vec::new();
            let full = loop {
                match heap.alloc(Pair { link: Some(linked.clone()), ..pair(2) }) {
                    Ok(object) => filler.push(object),
                    Err(error) => break error,
                }
            };
            assert!(matches!(full, Error::Pool(PoolError::PoolFull { .. })));
            heap.set(&root, Pair::LINK, Some(linked))?;
            drop(filler);
            heap.checkpoint()
        })
        .unwrap();
        let link = heap.atomic(|tx| {
            let root = tx.root::<Pair<'_>>()?.ok_or(Error::NoRoot)?;
            tx.set(&root, Pair::LINK, None)
        });
        link.unwrap();
    });
    assert_eq!(objects(&file), 1);
}

#[test]
fn a_checkpoint_without_room_leaves_the_list_of_orphans_as_it_was() {
    let file = small();
    file.enter(|outer| {
        let held = outer.safe(|heap| {
            let slice = heap.alloc_slice::<u64>(40_000)?;
            let links = heap.alloc_slice::<Option<Ptr<'_, Pair<'_>>>>(100)?;
            let mut held = Vec::new();
            for index in 0..100 {
                let object = heap.alloc(pair(index))?;
                heap.set_cell(&links, index, Some(object.clone()))?;
                held.push(object);
            }
            let root = heap.alloc((slice.clone(), links.clone()))?;
            heap.set_root(&root)?;
            heap.checkpoint()?;
            for index in 0..40_000 {
                heap.set_cell(&slice, index, index + 1)?;
            }
            for index in 0..100 {
                heap.clear_cell(&links, index)?;
            }
            let full = heap.checkpoint();
            let is_full = matches!(full, Err(Error::Pool(PoolError::PoolFull { .. })));
            assert!(is_full, "{full:?}");
            assert_eq!(heap.cell(&slice, 7)?, 0, "it is taken back");
            assert!(heap.cell(&links, 99)?.is_some());
            Ok::<_, Error>(held)
        });
        let held = held.unwrap();
        assert!(outer.sweep().unwrap());
        // What the checkpoint had taken holds objects now.
        let words = outer.atomic(|tx| {
            let all = (0..400).map(|_| tx.alloc([9_u64; 30]));
            all.collect::<Result<Vec<_>, Error>>()
        });
        let words = words.unwrap();
        let orphans = outer.atomic(|tx| {
            let all = (0..300).map(|word| tx.alloc(pair(word)));
            all.collect::<Result<Vec<_>, Error>>()
        });
        for object in &words {
            assert_eq!(outer.atomic(|tx| tx.read(object)).unwrap(), [9; 30]);
        }
        assert_eq!(objects(&after_a_crash(&file)), 103, "an opening finds all orphans");
        drop((held, orphans, words));
    });
    assert_eq!(objects(&file), 103);
}

#[test]
fn a_weak_pointer_that_is_left_names_no_other_object() {
    let file = begun();
    file.enter(|heap| {
        heap.atomic(|tx| {
            let root = tx.root::<Pair<'_>>()?.ok_or(Error::NoRoot)?;
            let weak = tx.downgrade(&root)?;
            tx.set(&root, Pair::BACK, Some(weak))
        })
        .unwrap();
    });
    base(&file, |heap, root| {
        let weak = heap.get(&root, Pair::BACK)?;
        heap.set(&root, Pair::BACK, None)?;
        heap.checkpoint()?;
        // An object of the proxy's size.
        let word = heap.alloc(1_u64)?;
        assert!(matches!(heap.set(&root, Pair::BACK, weak), Err(Error::Freed)));
        heap.free(word)?;
        heap.checkpoint()
    });
    assert_eq!(objects(&file), 2);
}

/// An object as large as a pair.
#[derive(Persist)]
struct Words {
    words: [u64; 4],
}

#[test]
fn a_pointer_that_is_left_is_not_stored_as_one_to_what_is_there_now() {
    let file = begun();
    base(&file, |heap, root| {
        let left = heap.get(&root, Pair::LINK)?.unwrap();
        heap.set(&root, Pair::LINK, None)?;
        heap.free(left.clone())?;
        heap.checkpoint()?;
        let words = heap.alloc(Words { words: [7; 4] })?;
        assert_eq!(words.offset(), left.offset());
        let is_refused = |stored| matches!(stored, Err(Error::WrongType { .. }));
        assert!(is_refused(heap.set(&root, Pair::LINK, Some(left.clone()))));
        let made = heap.alloc(Pair { link: Some(left.clone()), ..pair(2) });
        assert!(is_refused(made.map(drop)));
        assert!(is_refused(heap.set_root(&left)));
        heap.checkpoint()?;
        assert!(is_refused(heap.write(&root, Pair { other: Some(left.clone()), ..pair(3) })));
        // What is of the type may be stored, whatever it was.
        heap.free(words)?;
        heap.checkpoint()?;
        let again = heap.alloc(pair(9))?;
        assert!(again.is(&left));
        heap.set(&root, Pair::LINK, Some(left))?;
        heap.checkpoint()
    });
    assert_eq!((objects(&file), linked_word(&file)), (2, 9));
}

#[test]
fn the_space_of_a_proxy_that_was_freed_is_stored_to_by_no_later_opening() {
    let file = begun();
    file.enter(|heap| {
        heap.atomic(|tx| {
            let root = tx.root::<Pair<'_>>()?.ok_or(Error::NoRoot)?;
            let linked = tx.get(&root, Pair::LINK)?.ok_or(Error::NoRoot)?;
            let weak = tx.downgrade(&linked)?;
            let other = tx.alloc(Pair { back: Some(weak.clone()), ..pair(2) })?;
            tx.set(&root, Pair::OTHER, Some(other))?;
            tx.set(&root, Pair::BACK, Some(weak))
        })
        .unwrap();
    });
    base(&file, |heap, root| {
        let other = heap.get(&root, Pair::OTHER)?.unwrap();
        heap.set(&root, Pair::BACK, None)?;
        heap.checkpoint()?;
        // The last weak pointer ends, and the proxy with it.
        heap.set(&other, Pair::BACK, None)?;
        heap.checkpoint()
    });
    let (pool, region) = (file.pool(), file.pool().region());
    let taken: Vec<_> = (0..100).map(|_| pool.alloc(24).unwrap()).collect();
    for object in &taken {
        region.write("test.taken", object.offset(), &[&[7; 24]]).unwrap();
    }
    region.fence("test.fence");
    let again = after_a_crash(&file);
    for object in taken {
        let found = again.pool().region().media_bytes(object.offset(), 24).unwrap().to_vec();
        assert_eq!(found, [7; 24], "{object:?}");
    }
}
