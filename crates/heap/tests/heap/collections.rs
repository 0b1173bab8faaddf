//! The library's types, beside those of the standard library.

use std::collections::{BTreeMap, VecDeque};

use tembo_heap::{
    Error, PBox, PDeque, PHashMap, PList, PMap, PString, PVec, Persist, Persistent, Ptr,
    Transaction,
};

use crate::{after_a_crash, objects, volatile};

#[derive(Persist)]
struct All<'h> {
    vec: PVec<'h, u64>,
    texts: PVec<'h, PString<'h>>,
    deque: PDeque<'h, u64>,
    list: PList<'h, u64>,
    map: PMap<'h, u64>,
    hash: PHashMap<'h, u64>,
    cell: Persistent<u64>,
    boxed: Option<PBox<'h, u64>>,
}

fn all<'h>() -> All<'h> {
    All {
        vec: PVec::new(),
        texts: PVec::new(),
        deque: PDeque::new(),
        list: PList::new(),
        map: PMap::new(),
        hash: PHashMap::new(),
        cell: Persistent::new(1),
        boxed: None,
    }
}

/// The same numbers in each run.
fn numbers() -> impl Iterator<Item = u64> {
    let mut state = 7_u64;
    std::iter::repeat_with(move || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        state >> 33
    })
}

#[test]
fn they_do_what_those_of_the_standard_library_do() {
    let file = volatile();
    file.enter(|heap| {
        let root = heap.root_or::<_, Error>(|_| Ok(all())).unwrap();
        let (vec, deque) = (root.field(All::VEC), root.field(All::DEQUE));
        let (map, hash) = (root.field(All::MAP), root.field(All::HASH));
        let (mut vec_model, mut deque_model) = (Vec::new(), VecDeque::new());
        let mut map_model: BTreeMap<Vec<u8>, u64> = BTreeMap::new();
        for number in numbers().take(2000) {
            let key = format!("{}", number / 7 % 200).into_bytes();
            heap.atomic(|tx| {
                match number % 7 {
                    0..3 => {
                        vec.push(tx, number)?;
                        deque.push_back(tx, number)?;
                        let before = map.insert(tx, &key, number)?;
                        assert_eq!(before, map_model.get(&key).copied());
                        assert_eq!(hash.insert(tx, &key, number)?, before);
                    }
                    3 => deque.push_front(tx, number)?,
                    4 => {
                        assert_eq!(vec.pop(tx)?, vec_model.last().copied());
                        assert_eq!(deque.pop_front(tx)?, deque_model.front().copied());
                    }
                    5 => assert_eq!(deque.pop_back(tx)?, deque_model.back().copied()),
                    _ => {
                        let removed = map.remove(tx, &key)?;
                        assert_eq!(removed, map_model.get(&key).copied());
                        assert_eq!(hash.remove(tx, &key)?, removed);
                    }
                }
                assert_eq!(map.get(tx, b"17")?, hash.get(tx, b"17")?);
                Ok::<_, Error>(())
            })
            .unwrap();
            match number % 7 {
                0..3 => {
                    vec_model.push(number);
                    deque_model.push_back(number);
                    map_model.insert(key, number);
                }
                3 => deque_model.push_front(number),
                4 => drop((vec_model.pop(), deque_model.pop_front())),
                5 => drop(deque_model.pop_back()),
                _ => drop(map_model.remove(&key)),
            }
        }
        let (found, sorted, len) = heap
            .atomic(|tx| Ok::<_, Error>((vec.to_vec(tx)?, map.to_vec(tx)?, hash.len(tx)?)))
            .unwrap();
        assert_eq!(found, vec_model);
        assert_eq!(len, map_model.len() as u64);
        assert_eq!(sorted, map_model.into_iter().collect::<Vec<_>>());
    });
    let count = objects(&file);
    assert_eq!(objects(&after_a_crash(&file)), count);
    file.enter(|heap| heap.root_or::<All<'_>, Error>(|_| Ok(all())).map(drop)).unwrap();
    file.enter(|heap| {
        let root = heap.root::<All<'_>>().unwrap().unwrap();
        heap.atomic(|tx| tx.write(&root, all())).unwrap();
    });
    assert_eq!(objects(&file), 1, "nothing is left behind");
}

#[test]
fn texts_boxes_lists_and_cells() {
    let file = volatile();
    file.enter(|heap| {
        let root = heap.root_or::<_, Error>(|_| Ok(all())).unwrap();
        let (texts, list) = (root.field(All::TEXTS), root.field(All::LIST));
        heap.atomic(|tx| {
            for text in ["", "one", "nine letters"] {
                let text = PString::new(tx, text)?;
                texts.push(tx, text)?;
            }
            let boxed = PBox::new(tx, 5)?;
            boxed.write(tx, 6)?;
            tx.set(&root, All::BOXED, Some(boxed))?;
            list.push_back(tx, 2)?;
            list.push_front(tx, 1)?;
            list.push_back(tx, 3)
        })
        .unwrap();
        heap.atomic(|tx| {
            let found: Result<Vec<String>, Error> =
                texts.to_vec(tx)?.iter().map(|text| text.to_text(tx)).collect();
            assert_eq!(found?, ["", "one", "nine letters"]);
            assert_eq!(tx.get(&root, All::BOXED)?.unwrap().read(tx)?, 6);
            assert_eq!(list.pop_front(tx)?, Some(1));
            assert_eq!(list.to_vec(tx)?, [2, 3]);
            Ok::<_, Error>(())
        })
        .unwrap();
        let cell = root.field(All::CELL);
        cell.store(9).unwrap();
        assert_eq!(cell.load().unwrap(), 9);
    });
    assert_eq!(file.report().unwrap().iter().map(|one| one.objects).sum::<u64>(), 7);
    let mut lines = Vec::new();
    file.objects(&mut |object| {
        lines.push(object.json);
        Ok::<_, Error>(())
    })
    .unwrap();
    assert!(lines.iter().any(|line| line == "\"nine letters\""), "{lines:?}");
}

/// Both maps have what the model has.
fn check_maps<'h>(
    tx: &mut Transaction<'h>,
    root: &Ptr<'h, All<'h>>,
    model: &BTreeMap<Vec<u8>, u64>,
) -> Result<(), Error> {
    let (map, hash) = (root.field(All::MAP), root.field(All::HASH));
    for (key, number) in model {
        assert_eq!((map.get(tx, key)?, hash.get(tx, key)?), (Some(*number), Some(*number)));
    }
    assert_eq!(map.to_vec(tx)?, model.clone().into_iter().collect::<Vec<_>>());
    assert_eq!((map.get(tx, [9; 3])?, hash.get(tx, [9; 3])?), (None, None));
    Ok(())
}

#[test]
fn keys_of_maps_that_begin_alike_stay_apart() {
    // Around whole words, with zeroes at the end, and with bytes of which the order is not that of words.
    let mut keys: Vec<Vec<u8>> = vec![vec![]];
    for byte in [0, 1, 0x7f, 0x80, 0xff] {
        for len in [1, 7, 8, 9, 15, 16, 17, 40] {
            keys.push(vec![byte; len]);
            keys.push([vec![byte; len], vec![0]].concat());
            keys.push([vec![byte; len], vec![byte ^ 0x80, 3]].concat());
        }
    }
    let model: BTreeMap<Vec<u8>, u64> = keys.iter().cloned().zip(0..).collect();
    let file = volatile();
    file.enter(|heap| {
        let root = heap.root_or::<_, Error>(|_| Ok(all())).unwrap();
        let (map, hash) = (root.field(All::MAP), root.field(All::HASH));
        heap.atomic(|tx| {
            for (key, number) in keys.iter().zip(0..) {
                map.insert(tx, key, number)?;
                hash.insert(tx, key, number)?;
            }
            // As the transaction that made them sees them, and as another one.
            check_maps(tx, &root, &model)
        })
        .unwrap();
        heap.atomic(|tx| check_maps(tx, &root, &model)).unwrap();
        for key in model.keys() {
            let removed =
                heap.atomic(|tx| Ok::<_, Error>((map.remove(tx, key)?, hash.remove(tx, key)?)));
            let expected = model.get(key).copied();
            assert_eq!(removed.unwrap(), (expected, expected));
        }
        heap.atomic(|tx| {
            assert_eq!((map.len(tx)?, hash.len(tx)?), (0, 0));
            tx.write(&root, all())
        })
        .unwrap();
    });
    assert_eq!(objects(&file), 1, "nothing is left behind");
}

/// A program's own types, which are called as others of the standard library are.
mod own {
    use tembo_heap::Persist;

    #[derive(Persist)]
    pub(super) struct Cell {
        pub(super) alive: bool,
    }

    #[derive(Persist)]
    pub(super) struct Vec<T>(pub(super) T);

    #[derive(Persist)]
    pub(super) struct LinkedList<'h, T> {
        pub(super) first: Option<tembo_heap::Ptr<'h, T>>,
    }
}

#[derive(Persist)]
struct Board<'h> {
    cells: [own::Cell; 2],
    boards: own::LinkedList<'h, Board<'h>>,
    more: Option<own::Vec<u64>>,
}

#[test]
fn own_types_with_names_of_the_standard_library_live_in_a_heap() {
    let file = volatile();
    file.enter(|heap| {
        let board = |first| Board {
            cells: [own::Cell { alive: true }, own::Cell { alive: false }],
            boards: own::LinkedList { first },
            more: Some(own::Vec(7)),
        };
        let made = heap.atomic(|tx| {
            let inner = tx.alloc(board(None))?;
            let outer = tx.alloc(board(Some(inner)))?;
            tx.set_root(&outer)
        });
        made.unwrap();
        let found = heap.atomic(|tx| {
            let outer = tx.root::<Board<'_>>()?.unwrap();
            let inner = tx.get(&outer, Board::BOARDS)?.first.unwrap();
            let Board { cells, more, .. } = tx.read(&inner)?;
            Ok::<_, Error>((cells.map(|cell| cell.alive), more.map(|more| more.0)))
        });
        assert_eq!(found.unwrap(), ([true, false], Some(7)));
    });
    assert_eq!(objects(&file), 2);
}
