//! A heap is the same wherever its file is mapped: pointers on media are no addresses.
#![forbid(unsafe_code)]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::path::Path;

use tembo_heap::{
    Error, HeapFile, PBox, PDeque, PHashMap, PList, PMap, PString, PVec, Persist, PoolOptions, Ptr,
    Weak,
};
use tembo_pmem::DomainRequest;

#[derive(Persist)]
struct Top<'h> {
    first: Option<Ptr<'h, Node<'h>>>,
    last: Option<Weak<'h, Node<'h>>>,
    /// To what is destroyed.
    dead: Option<Weak<'h, Node<'h>>>,
    name: PString<'h>,
    boxed: Option<PBox<'h, u64>>,
    vec: PVec<'h, Ptr<'h, Node<'h>>>,
    deque: PDeque<'h, u64>,
    list: PList<'h, PString<'h>>,
    map: PMap<'h, Weak<'h, Node<'h>>>,
    hash: PHashMap<'h, u64>,
}

#[derive(Persist)]
struct Node<'h> {
    value: u64,
    next: Option<Ptr<'h, Node<'h>>>,
}

const NODES: u64 = 40;

fn options(domain: DomainRequest) -> PoolOptions {
    let mut options = PoolOptions { size: 4 << 20, ..PoolOptions::default() };
    options.region.size_max = 16 << 20;
    options.region.domain = domain;
    options
}

/// Where the heap is mapped.
fn base(file: &HeapFile) -> usize {
    std::ptr::from_ref(&file.pool().region().words(0, 1).unwrap()[0]).addr()
}

/// Nodes in a row, from the last to the first, and all that refers to them.
fn fill(file: &HeapFile) {
    let filled = file.enter(|heap| {
        heap.atomic(|tx| {
            let top = Top {
                first: None,
                last: None,
                dead: None,
                name: PString::new(tx, "somewhere")?,
                boxed: Some(PBox::new(tx, 5)?),
                vec: PVec::new(),
                deque: PDeque::new(),
                list: PList::new(),
                map: PMap::new(),
                hash: PHashMap::new(),
            };
            let top = tx.alloc(top)?;
            tx.set_root(&top)?;
            let dead = tx.alloc(Node { value: 0, next: None })?;
            let dead = tx.downgrade(&dead)?;
            tx.set(&top, Top::DEAD, Some(dead))?;
            let mut next = None;
            for value in (0..NODES).rev() {
                let node = tx.alloc(Node { value, next })?;
                let weak = tx.downgrade(&node)?;
                let name = format!("{value:02}");
                if value == NODES - 1 {
                    tx.set(&top, Top::LAST, Some(weak.clone()))?;
                }
                top.field(Top::VEC).push(tx, node.clone())?;
                top.field(Top::DEQUE).push_front(tx, value)?;
                top.field(Top::MAP).insert(tx, &name, weak)?;
                top.field(Top::HASH).insert(tx, &name, value)?;
                let name = PString::new(tx, name)?;
                top.field(Top::LIST).push_front(tx, name)?;
                next = Some(node);
            }
            tx.set(&top, Top::FIRST, next)
        })
    });
    filled.unwrap();
}

/// All of it is read, by pointers, weak pointers, collections and views; `more` is added to each node's value.
fn read(file: &HeapFile, more: u64) {
    let read = file.enter(|heap| {
        let top = heap.root::<Top<'_>>()?.ok_or(Error::NoRoot)?;
        heap.atomic(|tx| {
            let values: Vec<u64> = (0..NODES).map(|value| value + more).collect();
            let (mut at, mut found) = (tx.get(&top, Top::FIRST)?, Vec::new());
            while let Some(node) = at {
                let node = tx.read(&node)?;
                found.push(node.value);
                at = node.next;
            }
            assert_eq!(found, values);
            let mut view = tx.view();
            let root = view.root::<Top<'_>>()?.ok_or(Error::NoRoot)?;
            let first = view.follow(root, Top::FIRST)?.ok_or(Error::NoRoot)?;
            assert_eq!(view.get(first, Node::VALUE)?, more);
            let last = tx.get(&top, Top::LAST)?.ok_or(Error::NoRoot)?;
            let last = tx.upgrade(&last)?.ok_or(Error::NoRoot)?;
            assert_eq!(tx.get(&last, Node::VALUE)?, NODES - 1 + more);
            let dead = tx.get(&top, Top::DEAD)?.ok_or(Error::NoRoot)?;
            assert!(tx.upgrade(&dead)?.is_none());
            assert_eq!(tx.get(&top, Top::NAME)?.to_text(tx)?, "somewhere");
            assert_eq!(tx.get(&top, Top::BOXED)?.map(|boxed| boxed.read(tx)).transpose()?, Some(5));
            for (value, node) in (0..NODES).rev().zip(top.field(Top::VEC).to_vec(tx)?) {
                assert_eq!(tx.get(&node, Node::VALUE)?, value + more);
            }
            assert_eq!(top.field(Top::DEQUE).to_vec(tx)?, (0..NODES).collect::<Vec<_>>());
            for (value, text) in (0..NODES).zip(top.field(Top::LIST).to_vec(tx)?) {
                assert_eq!(text.to_text(tx)?, format!("{value:02}"));
            }
            for (value, (key, node)) in (0..NODES).zip(top.field(Top::MAP).to_vec(tx)?) {
                let node = tx.upgrade(&node)?.ok_or(Error::NoRoot)?;
                let found = (key, tx.get(&node, Node::VALUE)?);
                assert_eq!(found, (format!("{value:02}").into_bytes(), value + more));
                let key = format!("{value:02}");
                assert_eq!(top.field(Top::HASH).get(tx, key)?, Some(value));
            }
            Ok::<_, Error>(())
        })
    });
    read.unwrap();
}

/// One is added to each node's value, and each collection loses an element, which it gets again.
fn change(file: &HeapFile) {
    let changed = file.enter(|heap| {
        let top = heap.root::<Top<'_>>()?.ok_or(Error::NoRoot)?;
        heap.atomic(|tx| {
            let mut at = tx.get(&top, Top::FIRST)?;
            while let Some(node) = at {
                let value = tx.get(&node, Node::VALUE)?;
                tx.set(&node, Node::VALUE, value + 1)?;
                at = tx.get(&node, Node::NEXT)?;
            }
            let (vec, list) = (top.field(Top::VEC), top.field(Top::LIST));
            let node = vec.pop(tx)?.ok_or(Error::NoRoot)?;
            vec.push(tx, node)?;
            let text = list.pop_front(tx)?.ok_or(Error::NoRoot)?;
            list.push_front(tx, text)?;
            let (map, hash) = (top.field(Top::MAP), top.field(Top::HASH));
            let node = map.remove(tx, "07")?.ok_or(Error::NoRoot)?;
            map.insert(tx, "07", node)?;
            let value = hash.remove(tx, "07")?.ok_or(Error::NoRoot)?;
            hash.insert(tx, "07", value).map(drop)
        })
    });
    changed.unwrap();
}

fn check(file: &HeapFile) {
    file.enter(|heap| heap.settle()).unwrap();
    let check = file.check().unwrap();
    assert_eq!((check.account.leaked, check.account.dangling), (0, 0));
}

/// Opens a heap at another address than `before`: other heaps take that, and stay open as long.
fn open_elsewhere(path: &Path, options: &PoolOptions, before: usize) -> (HeapFile, Vec<HeapFile>) {
    let mut others = Vec::new();
    for number in 0..32 {
        let other = path.with_extension(format!("{before:x}-{number}"));
        others.push(HeapFile::create(&other, options).unwrap());
        let file = HeapFile::open(path, options).unwrap();
        if base(&file) != before {
            return (file, others);
        }
        file.close().unwrap();
    }
    panic!("it is mapped at {before:#x} again and again");
}

#[test]
fn a_file_that_is_mapped_elsewhere_holds_the_same_heap() {
    for domain in [DomainRequest::Logged, DomainRequest::Flush] {
        let (dir, options) = (tempfile::tempdir().unwrap(), options(domain));
        let path = dir.path().join("heap");
        let file = HeapFile::create(&path, &options).unwrap();
        fill(&file);
        let before = base(&file);
        file.close().unwrap();
        let (file, others) = open_elsewhere(&path, &options, before);
        let second = base(&file);
        assert_ne!(second, before);
        read(&file, 0);
        change(&file);
        read(&file, 1);
        check(&file);
        // No clean stop: what is found next was found there by recovery.
        drop(file);
        let (file, more) = open_elsewhere(&path, &options, second);
        assert_ne!(base(&file), second);
        read(&file, 1);
        change(&file);
        read(&file, 2);
        file.enter(|heap| heap.sweep()).unwrap();
        read(&file, 2);
        check(&file);
        drop((others, more));
    }
}

#[test]
fn a_file_and_its_copy_are_two_heaps_at_once() {
    for domain in [DomainRequest::Logged, DomainRequest::Flush] {
        let (dir, options) = (tempfile::tempdir().unwrap(), options(domain));
        let (path, copy) = (dir.path().join("heap"), dir.path().join("copy"));
        let file = HeapFile::create(&path, &options).unwrap();
        fill(&file);
        file.close().unwrap();
        std::fs::copy(&path, &copy).unwrap();
        let (one, two) =
            (HeapFile::open(&path, &options).unwrap(), HeapFile::open(&copy, &options).unwrap());
        // Both are mapped at a time.
        assert_ne!(base(&one), base(&two));
        for (round, changed) in [(0, &one), (1, &two), (2, &one)] {
            read(&one, u64::from(round > 0));
            read(&two, u64::from(round > 1));
            change(changed);
        }
        read(&one, 2);
        read(&two, 1);
        // A transaction of one within one of the other.
        let sums = one.enter(|one| {
            two.enter(|two| {
                let (a, b) = (one.root::<Top<'_>>()?.unwrap(), two.root::<Top<'_>>()?.unwrap());
                one.atomic(|one| {
                    let other = two.atomic(|two| b.field(Top::DEQUE).back(two))?;
                    a.field(Top::DEQUE).push_back(one, other.unwrap() + 1)
                })?;
                let lens = one.atomic(|one| a.field(Top::DEQUE).len(one))?;
                Ok::<_, Error>((lens, two.atomic(|two| b.field(Top::DEQUE).len(two))?))
            })
        });
        assert_eq!(sums.unwrap(), (NODES + 1, NODES));
        check(&one);
        check(&two);
    }
}
