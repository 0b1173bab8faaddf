//! The thesis's examples: a doubly linked list (figure 4.2), `insert` and `copy_mux` (5.1.2).

use tembo_heap::{Error, Heap, Persist, Ptr, Transaction, Weak};

use crate::{after_a_crash, objects, volatile};

#[derive(Persist)]
pub(crate) struct DList<'h> {
    data: i64,
    next: Option<Ptr<'h, DList<'h>>>,
    prev: Option<Weak<'h, DList<'h>>>,
}

fn insert<'h>(
    tx: &mut Transaction<'h>,
    x: i64,
    xs: Option<Ptr<'h, DList<'h>>>,
) -> Result<Ptr<'h, DList<'h>>, Error> {
    let r = tx.alloc(DList { data: x, next: xs.clone(), prev: None })?;
    if let Some(xs) = xs {
        let back = tx.downgrade(&r)?;
        tx.set(&xs, DList::PREV, Some(back))?;
    }
    Ok(r)
}

/// Copies one of two lists, which may be in different heaps, to a third heap.
fn copy_mux<'x, 'y, 'h>(
    xs: Option<Ptr<'x, DList<'x>>>,
    ys: Option<Ptr<'y, DList<'y>>>,
    h: Heap<'h>,
    flag: bool,
) -> Result<Option<Ptr<'h, DList<'h>>>, Error> {
    let data = if flag { contents(xs)? } else { contents(ys)? };
    h.atomic(|tx| data.iter().try_fold(None, |r, x| insert(tx, *x, r).map(Some)))
}

fn contents<'h>(list: Option<Ptr<'h, DList<'h>>>) -> Result<Vec<i64>, Error> {
    let Some(first) = list else { return Ok(Vec::new()) };
    first.heap().atomic(|tx| {
        let (mut all, mut at) = (Vec::new(), Some(first.clone()));
        while let Some(node) = at {
            let node = tx.read(&node)?;
            all.push(node.data);
            at = node.next;
        }
        Ok(all)
    })
}

#[test]
fn the_lists_of_the_thesis_are_copied_between_heaps() {
    let (one, two, three) = (volatile(), volatile(), volatile());
    one.enter(|one| {
        two.enter(|two| {
            three.enter(|three| {
                let xs = one.atomic(|tx| {
                    let list = insert(tx, 1, None)?;
                    insert(tx, 2, Some(list))
                });
                let ys = two.atomic(|tx| insert(tx, 7, None)).unwrap();
                let copy = copy_mux(Some(xs.unwrap()), Some(ys), three, true).unwrap();
                assert_eq!(contents(copy.clone()).unwrap(), [1, 2]);
                three.atomic(|tx| tx.set_root(copy.as_ref().unwrap())).unwrap();
            });
        });
    });
    // What only the program referred to went with its pointers.
    assert_eq!((objects(&one), objects(&two), objects(&three)), (0, 0, 2));
    let again = after_a_crash(&three);
    again.enter(|heap| {
        let root = heap.root::<DList<'_>>().unwrap();
        assert_eq!(contents(root).unwrap(), [1, 2]);
        assert!(matches!(heap.root::<u64>(), Err(Error::WrongType { .. })));
    });
}

#[test]
fn a_back_link_does_not_keep_its_object() {
    let file = volatile();
    file.enter(|heap| {
        let second = heap
            .atomic(|tx| {
                let second = insert(tx, 2, None)?;
                let first = insert(tx, 1, Some(second.clone()))?;
                tx.set_root(&first)?;
                Ok::<_, Error>(second)
            })
            .unwrap();
        let first = heap.atomic(|tx| {
            let back = tx.get(&second, DList::PREV)?.unwrap();
            tx.upgrade(&back)
        });
        assert_eq!(
            heap.atomic(|tx| tx.get(first.as_ref().unwrap().as_ref().unwrap(), DList::DATA))
                .unwrap(),
            1
        );
        drop(first);
        heap.atomic(|tx| tx.set_root(&second)).unwrap();
        let back = heap.atomic(|tx| {
            let back = tx.get(&second, DList::PREV)?.unwrap();
            tx.upgrade(&back)
        });
        assert!(back.unwrap().is_none());
        heap.atomic(|tx| tx.set(&second, DList::PREV, None)).unwrap();
    });
    assert_eq!(objects(&file), 1);
    let check = file.check().unwrap();
    // The root of the tenant, two types at most, a chunk of the dead-on-open list, the object.
    assert!(check.tenants[0].1.objects <= 5, "the proxy is freed: {check:?}");
}
