//! Counts, destruction, and what only the program holds.

use tembo_heap::{Error, Heap, Persist, Ptr};

use crate::{after_a_crash, objects, volatile};

#[derive(Persist)]
pub(crate) struct Node<'h> {
    pub(crate) value: u64,
    pub(crate) next: Option<Ptr<'h, Node<'h>>>,
}

#[derive(Persist)]
struct Root<'h> {
    list: Option<Ptr<'h, Node<'h>>>,
    many: [Option<Ptr<'h, Node<'h>>>; 40],
}

fn none<'h>() -> Root<'h> {
    Root { list: None, many: std::array::from_fn(|_| None) }
}

fn push<'h>(heap: Heap<'h>, root: &Ptr<'h, Root<'h>>, value: u64) {
    let push = heap.atomic(|tx| {
        let next = tx.get(root, Root::LIST)?;
        let node = tx.alloc(Node { value, next })?;
        tx.set(root, Root::LIST, Some(node))
    });
    push.unwrap();
}

#[test]
fn a_list_of_any_length_is_destroyed_in_bounded_steps() {
    let file = volatile();
    file.enter(|heap| {
        let root = heap.root_or::<_, Error>(|_| Ok(none())).unwrap();
        (0..20_000).for_each(|value| push(heap, &root, value));
        heap.atomic(|tx| tx.set(&root, Root::LIST, None)).unwrap();
    });
    // A process that is ended in the midst leaves the rest to the next.
    let again = after_a_crash(&file);
    assert_eq!(objects(&file), 1);
    again.enter(|heap| heap.sweep()).unwrap();
    assert_eq!(objects(&again), 1);
}

#[test]
fn an_object_of_many_pointers_is_taken_apart_piece_by_piece() {
    let file = volatile();
    file.enter(|heap| {
        let made = heap.atomic(|tx| {
            let mut root = none();
            for (value, place) in root.many.iter_mut().enumerate() {
                *place = Some(tx.alloc(Node { value: value as u64, next: None })?);
            }
            root.list = root.many[3].clone();
            let root = tx.alloc(root)?;
            tx.set_root(&root)
        });
        made.unwrap();
    });
    assert_eq!(objects(&file), 41);
    file.enter(|heap| {
        let other = heap.atomic(|tx| {
            let other = tx.alloc(7_u64)?;
            tx.set_root(&other)
        });
        other.unwrap();
    });
    assert_eq!(objects(&file), 1);
}

#[test]
fn what_only_the_program_holds_lives_as_long_and_not_in_the_next_process() {
    let file = volatile();
    file.enter(|heap| {
        let held: Vec<_> = (0..100)
            .map(|value| heap.atomic(|tx| tx.alloc(Node { value, next: None })).unwrap())
            .collect();
        assert_eq!(objects(&file), 100);
        let again = after_a_crash(&file);
        again.enter(|heap| heap.sweep()).unwrap();
        assert_eq!(objects(&again), 0, "dead on open");
        // One of them is linked, and kept; the others go.
        let first = heap.atomic(|tx| tx.set_root(&held[5]));
        first.unwrap();
        let value = |node: &Ptr<'_, Node<'_>>| node.offset();
        let kept = value(&held[5]);
        drop(held);
        assert_eq!(objects(&file), 1);
        assert_eq!(heap.root::<Node<'_>>().unwrap().unwrap().offset(), kept);
    });
}

#[test]
fn a_pointer_that_was_forgotten_keeps_its_object_until_the_next_opening() {
    let file = volatile();
    file.enter(|heap| {
        std::mem::forget(heap.atomic(|tx| tx.alloc(1_u64)).unwrap());
    });
    assert_eq!(objects(&file), 1);
    let again = after_a_crash(&file);
    again.enter(|heap| heap.sweep()).unwrap();
    assert_eq!(objects(&again), 0);
}

#[test]
fn a_slice_of_pointers_is_destroyed_from_its_end() {
    let file = volatile();
    file.enter(|heap| {
        let made = heap.atomic(|tx| {
            let slice = tx.alloc_slice::<Option<Ptr<'_, Node<'_>>>>(100)?;
            for value in 0..100 {
                let node = tx.alloc(Node { value, next: None })?;
                tx.set_cell(&slice, value, Some(node))?;
            }
            assert!(matches!(
                tx.cell(&slice, 100),
                Err(Error::NoSuchElement { index: 100, len: 100 })
            ));
            tx.alloc((slice, 1_u64))
        });
        let made = made.unwrap();
        assert_eq!(objects(&file), 102);
        drop(made);
    });
    assert_eq!(objects(&file), 0);
}

#[test]
fn neighbours_that_die_together_are_destroyed_whole() {
    let file = volatile();
    file.enter(|heap| {
        for value in 0..10 {
            let pair = heap.atomic(|tx| {
                let inner = tx.alloc(value)?;
                tx.alloc((inner, 0_u64))
            });
            drop::<Ptr<'_, (Ptr<'_, u64>, u64)>>(pair.unwrap());
            heap.settle().unwrap();
        }
    });
    assert_eq!(objects(&file), 0);
}

#[test]
fn what_cannot_be_destroyed_is_unlinked_and_left_as_it_was() {
    let file = volatile();
    let at = file.enter(|heap| {
        let root = heap.root_or::<_, Error>(|_| Ok(none())).unwrap();
        (0..3).for_each(|value| push(heap, &root, value));
        heap.atomic(|tx| Ok::<_, Error>(tx.get(&root, Root::LIST)?.unwrap().offset())).unwrap()
    });
    let region = file.pool().region();
    let mut image = region.media_bytes(0, region.size()).unwrap().to_vec();
    let word = |at: u64| at as usize..at as usize + 8;
    // The second of the list is counted 0 times: its count cannot be lowered.
    let second: [u8; 8] = image[word(at + 24)].try_into().unwrap();
    let head = word((u64::from_le_bytes(second) & ((1 << 40) - 1)) * 16);
    assert_eq!(image[head.clone()][0], 1);
    image[head.clone()][0] = 0;
    let again = crate::open_image(&image).unwrap();
    again.enter(|heap| {
        let root = heap.root::<Root<'_>>().unwrap().unwrap();
        heap.atomic(|tx| tx.set(&root, Root::LIST, None)).unwrap();
        assert!(matches!(heap.settle(), Err(Error::Damaged { what: "a count", .. })));
        push(heap, &root, 7);
        heap.atomic(|tx| tx.set(&root, Root::LIST, None)).unwrap();
    });
    let region = again.pool().region();
    let second = region.media_bytes(head.start as u64, 8).unwrap().to_vec();
    assert_eq!(second, image[head], "no part of it was done");
}

#[test]
fn space_of_what_was_destroyed_last_is_there_when_the_pool_is_full() {
    let region = tembo_pmem::RegionOptions { size_max: 1 << 20, ..Default::default() };
    let options = tembo_heap::PoolOptions { size: 1 << 20, region, ..Default::default() };
    let file = tembo_heap::HeapFile::volatile(&options).unwrap();
    file.enter(|heap| {
        type Large = [u64; 200];
        let root = heap
            .root_or::<_, Error>(|tx| Ok((tx.alloc_slice::<Option<Ptr<'_, Large>>>(1000)?, 0_u64)));
        let slice = heap.atomic(|tx| tx.read(root.as_ref().unwrap())).unwrap().0;
        let fill = |at: u64| {
            heap.atomic(|tx| {
                let large = tx.alloc([at; 200])?;
                tx.set_cell(&slice, at, Some(large))
            })
        };
        let count = (0..1000).take_while(|at| fill(*at).is_ok()).count() as u64;
        assert!(count > 100);
        for at in [3, 9, count - 1] {
            heap.atomic(|tx| tx.clear_cell(&slice, at)).unwrap();
            fill(at).unwrap();
            assert!(fill(count).is_err());
        }
        heap.safe(|heap| {
            heap.clear_cell(&slice, 5)?;
            heap.checkpoint()?;
            let large = heap.alloc([5; 200])?;
            heap.set_cell(&slice, 5, Some(large))?;
            heap.checkpoint()
        })
        .unwrap();
    });
}
