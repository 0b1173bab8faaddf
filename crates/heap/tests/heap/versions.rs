//! Types that have got another layout, and heaps that an earlier release has written: see images/README.md.

use std::path::Path;

use tembo_heap::{Bytes, Error, Heap, HeapFile, Persist, Persistent, PoolOptions, Ptr, Weak};
use tembo_pmem::{Region, RegionOptions};
use tembo_pool::{Geometry, Kinds, Pool};

use crate::{after_a_crash, objects, open_image};

const SIZE: u64 = 128 << 10;

#[derive(Persist)]
#[persist(name = "golden.node", version = 1)]
struct First<'h> {
    value: u32,
    is_marked: bool,
    next: Option<Ptr<'h, Node<'h>>>,
}

#[derive(Persist)]
#[persist(name = "golden.node", version = 2, from = First<'h>)]
struct Second<'h> {
    next: Option<Ptr<'h, Node<'h>>>,
    value: i64,
}

/// The one of today.
#[derive(Persist)]
#[persist(name = "golden.node", version = 3, from = Second<'h>)]
struct Node<'h> {
    value: i64,
    next: Option<Ptr<'h, Node<'h>>>,
    before: Option<Weak<'h, Node<'h>>>,
    tag: u8,
}

/// One that is too large for the places of the first.
#[derive(Persist)]
#[persist(name = "golden.node", version = 4, from = First<'h>)]
struct Large<'h> {
    next: Option<Ptr<'h, Node<'h>>>,
    words: [u64; 40],
}

impl<'h> From<First<'h>> for Second<'h> {
    fn from(old: First<'h>) -> Self {
        let value = if old.is_marked { -i64::from(old.value) } else { old.value.into() };
        Second { next: old.next, value }
    }
}

impl<'h> From<Second<'h>> for Node<'h> {
    fn from(old: Second<'h>) -> Self {
        Node { value: old.value, next: old.next, before: None, tag: 7 }
    }
}

impl<'h> From<First<'h>> for Large<'h> {
    fn from(old: First<'h>) -> Self {
        Large { next: old.next, words: [1; 40] }
    }
}

#[derive(Persist)]
#[persist(name = "golden.root")]
struct Root<'h> {
    list: Ptr<'h, Node<'h>>,
    watched: Weak<'h, Node<'h>>,
    title: Ptr<'h, Bytes>,
    numbers: [f64; 2],
}

/// The same, of the program that had the first version.
#[derive(Persist)]
#[persist(name = "golden.root")]
struct FirstRoot<'h> {
    list: Ptr<'h, First<'h>>,
    watched: Weak<'h, First<'h>>,
    title: Ptr<'h, Bytes>,
    numbers: [f64; 2],
}

fn tiny() -> HeapFile {
    let region = Region::volatile(SIZE, &RegionOptions::default()).unwrap();
    Pool::format(&region, Geometry::TINY).unwrap();
    let pool = Pool::from_region_of(region, tembo_heap::kinds(Kinds::default())).unwrap();
    HeapFile::add_to(&pool.into(), "heap").unwrap()
}

/// What the image was made by, in the program that had the first version.
fn fill(heap: Heap<'_>) {
    heap.atomic(|tx| {
        let second = tx.alloc(First { value: 2, is_marked: true, next: None })?;
        let watched = tx.downgrade(&second)?;
        let list = tx.alloc(First { value: 1, is_marked: false, next: None })?;
        let title = tx.alloc_bytes(b"golden")?;
        let root = tx.alloc(FirstRoot { list, watched, title, numbers: [0.5, -1.0] })?;
        tx.set_root(&root)
    })
    .unwrap();
}

/// Reads everything with the types of today.
fn holds_all(file: &HeapFile) {
    file.enter(|heap| {
        let root = heap.root::<Root<'_>>().unwrap().unwrap();
        let Root { list, watched, title, numbers } = heap.atomic(|tx| tx.read(&root)).unwrap();
        assert_eq!(heap.atomic(|tx| tx.bytes(&title)).unwrap(), b"golden");
        assert_eq!(numbers, [0.5, -1.0]);
        let first = heap.atomic(|tx| tx.read(&list)).unwrap();
        assert_eq!((first.value, first.tag, first.before.is_none()), (1, 7, true));
        assert!(first.next.is_none());
        // Nothing but the weak pointer refers to the other.
        assert!(heap.atomic(|tx| tx.upgrade(&watched)).unwrap().is_none());
    });
    assert_eq!(objects(file), 3);
}

#[test]
fn a_heap_of_version_1_opens_with_all_that_it_holds() {
    let image = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/images/heap_1.image");
    let mut bytes = std::fs::read(image).unwrap();
    bytes.resize(SIZE as usize, 0);
    holds_all(&open_image(&bytes).unwrap());
}

#[test]
fn a_heap_of_today_holds_the_same() {
    let file = tiny();
    file.enter(fill);
    if let Some(path) = std::env::var_os("TEMBO_HEAP_IMAGE") {
        let mut bytes = file.pool().region().media_bytes(0, SIZE).unwrap().to_vec();
        bytes.truncate(bytes.iter().rposition(|byte| *byte != 0).unwrap() + 1);
        std::fs::write(path, bytes).unwrap();
    }
    holds_all(&file);
}

#[test]
fn an_object_gets_the_newer_version_when_it_is_used() {
    let file = tiny();
    file.enter(fill);
    let file = after_a_crash(&file);
    let versions = || {
        let reports = file.report().unwrap().into_iter();
        let of_nodes = reports.filter(|report| report.name == "golden.node");
        of_nodes.map(|report| (report.version, report.objects)).collect::<Vec<_>>()
    };
    objects(&file);
    assert_eq!(versions(), [(1, 1)]);
    file.enter(|heap| {
        let root = heap.root::<Root<'_>>().unwrap().unwrap();
        let list = heap.atomic(|tx| tx.get(&root, Root::LIST)).unwrap();
        // A transaction that fails leaves it as it was; one that commits does not.
        let failed = heap.atomic(|tx| {
            assert_eq!(tx.get(&list, Node::VALUE)?, 1);
            Err::<(), _>(Error::NoRoot)
        });
        assert!(failed.is_err());
        assert_eq!(versions(), [(1, 1), (3, 0)]);
        heap.atomic(|tx| {
            let next = tx.alloc(Node { value: 9, next: None, before: None, tag: 1 })?;
            let back = tx.downgrade(&list)?;
            tx.set(&next, Node::BEFORE, Some(back))?;
            tx.set(&list, Node::NEXT, Some(next))
        })
        .unwrap();
        assert_eq!(versions(), [(1, 0), (3, 2)]);
        assert_eq!(heap.atomic(|tx| tx.get(&list, Node::TAG)).unwrap(), 7);
    });
    assert_eq!(objects(&file), 4);
    assert_eq!(objects(&after_a_crash(&file)), 4);
}

#[test]
fn an_older_program_and_an_object_without_room_get_errors() {
    let file = tiny();
    file.enter(|heap| {
        let made = heap.atomic(|tx| {
            let first = tx.alloc(First { value: 3, is_marked: true, next: None })?;
            tx.set_root(&first)?;
            Ok::<_, Error>(first)
        });
        let first = made.unwrap();
        let large = heap.root::<Large<'_>>().map(drop);
        assert!(matches!(large, Err(Error::NoRoom { room: 48, size: 344 })), "{large:?}");
        assert_eq!(heap.atomic(|tx| tx.get(&first, First::VALUE)).unwrap(), 3, "as it was");
        let node = heap.root::<Node<'_>>().unwrap().unwrap();
        assert_eq!(heap.atomic(|tx| tx.get(&node, Node::VALUE)).unwrap(), -3);
        let old = heap.atomic(|tx| tx.get(&first, First::VALUE));
        assert!(matches!(old, Err(Error::WrongType { .. })), "the older program is refused");
    });
    assert_eq!(objects(&file), 1);
}

#[test]
fn an_object_without_room_for_its_newer_version_is_freed_by_hand() {
    let file = tiny();
    file.base(|heap| {
        let next = heap.alloc(Node { value: 1, next: None, before: None, tag: 0 })?;
        let first = heap.alloc(First { value: 3, is_marked: true, next: Some(next.clone()) })?;
        let root = heap.alloc((Some(first), Some(next)))?;
        heap.set_root(&root)?;
        heap.checkpoint()
    })
    .unwrap();
    type Root<'h> = (Option<Ptr<'h, Large<'h>>>, Option<Ptr<'h, Node<'h>>>);
    file.base(|heap| {
        let root = heap.root::<Root<'_>>()?.ok_or(Error::NoRoot)?;
        let (large, next) = heap.read(&root)?;
        heap.write(&root, (None, None))?;
        let large = large.ok_or(Error::NoRoot)?;
        assert!(matches!(heap.get(&large, Large::WORDS), Err(Error::NoRoom { .. })));
        heap.free(large.clone())?;
        heap.free(next.ok_or(Error::NoRoot)?)?;
        heap.checkpoint()?;
        assert!(matches!(heap.free(large), Err(Error::Freed)));
        Ok::<_, Error>(())
    })
    .unwrap();
    assert_eq!(objects(&file), 1);
}

#[derive(Persist)]
#[persist(name = "place", version = 1)]
struct Narrow {
    one: u64,
    // The objects get room for one word more.
    spare: (u64, u64),
}

/// The field stands behind another one.
#[derive(Persist)]
#[persist(name = "place", version = 2, from = Narrow)]
struct Wide {
    zero: u64,
    one: u64,
    two: Persistent<u64>,
}

impl From<Narrow> for Wide {
    fn from(old: Narrow) -> Self {
        Wide { zero: 0, one: old.one, two: Persistent::new(2) }
    }
}

#[test]
fn a_place_in_an_object_of_an_older_version_is_one_of_the_newer() {
    let file = tiny();
    file.enter(|heap| {
        heap.atomic(|tx| {
            let narrow = tx.alloc(Narrow { one: 1, spare: (8, 9) })?;
            let root = tx.alloc((narrow, 5_u64))?;
            tx.set_root(&root)
        })
        .unwrap();
        let root = heap.root::<(Ptr<'_, Wide>, u64)>().unwrap().unwrap();
        let (wide, _) = heap.atomic(|tx| tx.read(&root)).unwrap();
        // Nothing has looked at the object but by its places.
        let (one, two) = (wide.field(Wide::ONE), wide.field(Wide::TWO));
        assert_eq!(heap.atomic(|tx| tx.at(&one)).unwrap(), 1);
        heap.atomic(|tx| tx.put(&one, 7)).unwrap();
        assert_eq!(two.load().unwrap(), 2);
        two.store(3).unwrap();
        let Wide { zero, one, .. } = heap.atomic(|tx| tx.read(&wide)).unwrap();
        assert_eq!((zero, one, two.load().unwrap()), (0, 7, 3));
    });
    assert_eq!(objects(&file), 2);
}

#[test]
fn a_pool_that_is_only_read_shows_objects_of_older_versions() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("pool");
    let mut options = PoolOptions { size: 1 << 20, ..PoolOptions::default() };
    let file = HeapFile::create(&path, &options).unwrap();
    file.enter(|heap| {
        heap.atomic(|tx| {
            let first = tx.alloc(First { value: 3, is_marked: true, next: None })?;
            tx.set_root(&first)
        })
        .unwrap();
    });
    file.close().unwrap();
    options.region.read_only = true;
    for _ in 0..2 {
        let file = HeapFile::open(&path, &options).unwrap();
        file.enter(|heap| {
            let values = heap.atomic(|tx| {
                let node = tx.root::<Node<'_>>()?.ok_or(Error::NoRoot)?;
                Ok::<_, Error>((tx.get(&node, Node::VALUE)?, tx.at(&node.field(Node::TAG))?))
            });
            assert_eq!(values.unwrap(), (-3, 7));
            let changed = heap.atomic(|tx| {
                let node = tx.root::<Node<'_>>()?.ok_or(Error::NoRoot)?;
                tx.set(&node, Node::VALUE, 1)
            });
            assert!(matches!(changed, Err(Error::ReadOnly)), "{changed:?}");
            // Large has no room there, and needs none.
            let large = heap.root::<Large<'_>>().unwrap().unwrap();
            assert_eq!(heap.atomic(|tx| tx.get(&large, Large::WORDS)).unwrap(), [1; 40]);
        });
        let report = file.report().unwrap();
        assert_eq!((report[0].version, report[0].objects), (1, 1));
    }
}

#[test]
fn a_pool_that_is_only_read_shows_a_large_object_beside_its_neighbours() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("pool");
    let mut options = PoolOptions { size: 1 << 20, ..PoolOptions::default() };
    let file = HeapFile::create(&path, &options).unwrap();
    file.enter(|heap| {
        heap.atomic(|tx| {
            let before = tx.alloc(First { value: 3, is_marked: true, next: None })?;
            let first = tx.alloc(First { value: 4, is_marked: true, next: None })?;
            let behind = tx.alloc(First { value: 5, is_marked: false, next: None })?;
            let root = tx.alloc((before, first, behind))?;
            tx.set_root(&root)
        })
        .unwrap();
    });
    file.close().unwrap();
    options.region.read_only = true;
    type Root<'h> = (Ptr<'h, Node<'h>>, Ptr<'h, Large<'h>>, Ptr<'h, Node<'h>>);
    let file = HeapFile::open(&path, &options).unwrap();
    file.enter(|heap| {
        heap.atomic(|tx| {
            let root = tx.root::<Root<'_>>()?.ok_or(Error::NoRoot)?;
            let (before, first, behind) = tx.read(&root)?;
            assert_eq!(tx.get(&first, Large::WORDS)?, [1; 40]);
            assert_eq!((tx.get(&before, Node::VALUE)?, tx.get(&before, Node::TAG)?), (-3, 7));
            assert_eq!((tx.get(&behind, Node::VALUE)?, tx.get(&behind, Node::TAG)?), (5, 7));
            assert!(tx.get(&behind, Node::NEXT)?.is_none());
            assert_eq!(tx.get(&first, Large::WORDS)?, [1; 40]);
            Ok::<_, Error>(())
        })
        .unwrap();
        // As the other one of them is read first.
        heap.atomic(|tx| {
            let (_, first, behind) = match tx.root::<Root<'_>>()? {
                Some(root) => tx.read(&root)?,
                None => return Err(Error::NoRoot),
            };
            assert_eq!(tx.get(&behind, Node::VALUE)?, 5);
            assert_eq!(tx.get(&first, Large::WORDS)?, [1; 40]);
            assert_eq!(tx.get(&behind, Node::VALUE)?, 5);
            Ok::<_, Error>(())
        })
        .unwrap();
    });
}
