//! A sweep beside another tenant of the pool, for which it waits.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use tembo_heap::{Bytes, Error, Heap, HeapFile, Persist, PoolOptions, Ptr, Slice};
use tembo_pmem::Region;
use tembo_pool::{
    Error as PoolError, Kind, Kinds, KnownKind, Marker, Marking, NewTenant, Object, Pool, Still,
    Tenant, TenantCheck, TenantEntry, TenantError, TenantFeatures, TenantKind, TenantStat,
};

const KIND: Kind = Kind::new("toy");
const FEATURES: TenantFeatures = TenantFeatures { may: 0, must: 0, read_only: 0 };

/// How often a sweep looks whether it may go on, where it is to wait for something.
const PATIENCE: usize = 10_000;

/// Where a sweep waits for the toy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Part {
    Marking,
    Settling,
}

/// What a sweep waits for.
struct Scene {
    part: Part,
    /// After so many looks it goes on by itself.
    patience: usize,
    looks: AtomicUsize,
    is_over: AtomicBool,
}

impl Scene {
    fn new(part: Part, patience: usize) -> Arc<Scene> {
        let (looks, is_over) = (AtomicUsize::new(0), AtomicBool::new(false));
        Arc::new(Scene { part, patience, looks, is_over })
    }

    /// Whether the sweep may go on.
    fn look(&self) -> bool {
        let looks = self.looks.fetch_add(1, Ordering::SeqCst) + 1;
        std::thread::sleep(Duration::from_millis(1));
        self.is_over.load(Ordering::SeqCst) || looks.is_multiple_of(self.patience)
    }

    /// Returns when a sweep has come there.
    fn await_sweep(&self) {
        while self.looks.load(Ordering::SeqCst) == 0 {
            std::thread::yield_now();
        }
    }

    fn end(&self) {
        self.is_over.store(true, Ordering::SeqCst);
    }

    /// Whether the sweep went on because it was allowed to.
    fn was_ended(&self) -> bool {
        self.looks.load(Ordering::SeqCst) < self.patience
    }
}

/// Its tenants are opened by the test alone.
struct ToyKind;

impl TenantKind for ToyKind {
    fn known(&self) -> KnownKind {
        KnownKind { kind: KIND, version: 1, features: FEATURES }
    }

    fn open(&self, _: &Arc<Pool>, entry: &TenantEntry) -> Result<Arc<dyn Tenant>, TenantError> {
        Err(PoolError::TenantInUse { name: entry.name.clone() }.into())
    }
}

struct Toy {
    root: Object,
    scene: Arc<Scene>,
}

impl Tenant for Toy {
    fn quiesce(&self) -> Option<Box<dyn Still + '_>> {
        Some(Box::new(Stopped(self)))
    }

    fn stat(&self) -> TenantStat {
        TenantStat { name: "toy".into(), kind: KIND, under_way: String::new() }
    }
}

struct Stopped<'t>(&'t Toy);

impl Still for Stopped<'_> {
    fn begin(&mut self, _: Arc<dyn Tenant>) -> Result<Box<dyn Marking>, TenantError> {
        Ok(Box::new(Waiting { root: self.0.root, scene: self.0.scene.clone() }))
    }

    fn check(&mut self, marker: &mut dyn Marker) -> Result<TenantCheck, TenantError> {
        marker.mark(self.0.root)?;
        Ok(TenantCheck { objects: 1, ..TenantCheck::default() })
    }
}

struct Waiting {
    root: Object,
    scene: Arc<Scene>,
}

impl Marking for Waiting {
    fn mark(&mut self, marker: &mut dyn Marker) -> Result<(), TenantError> {
        marker.mark(self.root)?;
        while self.scene.part == Part::Marking && !self.scene.look() {}
        Ok(())
    }

    fn settle(&mut self) -> Result<bool, TenantError> {
        Ok(self.scene.part == Part::Marking || self.scene.look())
    }
}

fn kinds() -> Kinds {
    tembo_heap::kinds(Kinds::default()).with(Arc::new(ToyKind))
}

/// A pool with a toy and an empty heap.
fn with_toy(options: PoolOptions) -> HeapFile {
    let pool = Arc::new(Pool::volatile(&PoolOptions { kinds: kinds(), ..options }).unwrap());
    let new = NewTenant { kind: KIND, name: "toy", version: 1, features: FEATURES };
    let section = pool.reserve(64, 2).unwrap();
    let write = |region: &Region, root: Object| {
        region.write("test.root", root.offset(), &[b"a root"])?;
        Ok(())
    };
    pool.add_tenant::<PoolError>(&new, 64, write).unwrap();
    drop(section);
    HeapFile::add_to(&pool, "heap").unwrap()
}

/// Opens the toy, for as long as what is returned lives.
fn toy(pool: &Arc<Pool>, scene: &Arc<Scene>) -> Arc<Toy> {
    let entry = pool.tenant("toy").unwrap();
    let toy = Arc::new(Toy { root: entry.root, scene: scene.clone() });
    pool.open_tenant::<_, PoolError>(&entry, || Ok(toy)).unwrap()
}

fn check(file: &HeapFile) {
    let check = file.check().unwrap();
    assert_eq!((check.account.leaked, check.account.dangling), (0, 0));
}

/// A writer of another tenant may keep that from settling until it has made its changes of the heap.
#[test]
fn transactions_go_on_while_a_sweep_waits_for_another_tenant() {
    for part in [Part::Marking, Part::Settling] {
        let (file, scene) = (with_toy(PoolOptions::default()), Scene::new(part, PATIENCE));
        let _toy = toy(file.pool(), &scene);
        file.enter(|heap| {
            std::thread::scope(|scope| {
                scope.spawn(move || assert!(heap.sweep().unwrap()));
                scene.await_sweep();
                heap.atomic(|tx| {
                    let root = tx.alloc(7_u64)?;
                    tx.set_root(&root)
                })
                .unwrap();
                heap.exclusive(|tx| tx.alloc(8_u64).map(drop)).unwrap();
                heap.settle().unwrap();
                scene.end();
            });
            let root = heap.root::<u64>().unwrap().unwrap();
            assert_eq!(heap.atomic(|tx| tx.read(&root)).unwrap(), 7);
        });
        assert!(scene.was_ended(), "a transaction has waited: {part:?}");
        check(&file);
    }
}

#[derive(Persist)]
struct Rack<'h> {
    cells: Ptr<'h, Slice<Option<Ptr<'h, Bytes>>>>,
}

/// A heap in a pool without room, of which a sweep finds much.
fn owed() -> HeapFile {
    let mut options = PoolOptions { size: 2 << 20, ..PoolOptions::default() };
    options.region.size_max = options.size;
    let file = with_toy(options.clone());
    let _toy = toy(file.pool(), &Scene::new(Part::Marking, 1));
    file.enter(|heap| {
        let rack = heap.root_or::<_, Error>(|tx| Ok(Rack { cells: tx.alloc_slice(2000)? }));
        let rack = rack.unwrap();
        let cells = heap.atomic(|tx| tx.get(&rack, Rack::CELLS)).unwrap();
        let fill = |index| {
            heap.atomic(|tx| {
                let bytes = tx.alloc_bytes(&[1; 3000])?;
                tx.set_cell(&cells, index, Some(bytes))
            })
        };
        let filled = (0..2000).find(|index| fill(*index).is_err()).unwrap();
        let empty = |index| heap.atomic(|tx| tx.set_cell(&cells, index, None));
        (0..filled).try_for_each(empty).unwrap();
        heap.settle().unwrap();
    });
    let region = file.pool().region();
    let image = region.media_bytes(0, region.size()).unwrap().to_vec();
    let region = Region::from_image(&image, &options.region).unwrap();
    let pool = Arc::new(Pool::from_region_of(region, kinds()).unwrap());
    assert!(pool.usage().recovering);
    HeapFile::of(&pool, "heap").unwrap()
}

/// Puts bytes into the heap, and lets a sweep go on when that was tried once, or now.
type Use = for<'h> fn(Heap<'h>, &Scene) -> Result<(), Error>;

const USES: [Use; 2] = [
    |heap, scene| {
        heap.atomic(|tx| {
            let made = tx.alloc_bytes(&[2; 3000]).map(drop);
            scene.end();
            made
        })
    },
    |heap, _| heap.exclusive(|tx| tx.alloc_bytes(&[2; 3000]).map(drop)),
];

#[test]
fn what_needs_room_waits_for_a_sweep_that_is_under_way() {
    for uses in USES {
        let (file, scene) = (owed(), Scene::new(Part::Marking, 50));
        let _toy = toy(file.pool(), &scene);
        file.enter(|heap| {
            std::thread::scope(|scope| {
                scope.spawn(move || assert!(heap.sweep().unwrap()));
                scene.await_sweep();
                uses(heap, &scene).unwrap();
            });
        });
        check(&file);
    }
}

/// It may hold what the sweep waits for.
#[test]
fn what_needs_room_does_not_wait_for_ever_for_a_sweep() {
    let (file, scene) = (owed(), Scene::new(Part::Settling, PATIENCE));
    let _toy = toy(file.pool(), &scene);
    file.enter(|heap| {
        std::thread::scope(|scope| {
            scope.spawn(move || assert!(heap.sweep().unwrap()));
            scene.await_sweep();
            let refused = heap.atomic(|tx| tx.alloc_bytes(&[2; 3000]).map(drop));
            assert!(matches!(refused, Err(Error::Pool(PoolError::PoolFull { .. }))), "{refused:?}");
            scene.end();
        });
        heap.atomic(|tx| tx.alloc_bytes(&[2; 3000]).map(drop)).unwrap();
    });
    assert!(scene.was_ended());
    check(&file);
}

#[derive(Persist)]
struct Item<'h> {
    number: u64,
    bytes: Ptr<'h, Bytes>,
    next: Option<Ptr<'h, Item<'h>>>,
}

#[derive(Persist)]
struct List<'h> {
    first: Option<Ptr<'h, Item<'h>>>,
}

fn content(number: u64) -> Vec<u8> {
    vec![number as u8; 8 + number as usize * 37 % 400]
}

/// Pushes and pops until `is_over`; what is popped is what was pushed.
fn push_and_pop<'h>(heap: Heap<'h>, list: &Ptr<'h, List<'h>>, is_over: &AtomicBool) {
    let (mut state, mut pushed, mut number) = (9_u64, Vec::new(), 0);
    while !is_over.load(Ordering::Relaxed) || !pushed.is_empty() {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        if !is_over.load(Ordering::Relaxed) && (pushed.len() < 20 || state >> 63 == 0) {
            number += 1;
            heap.atomic(|tx| {
                let next = tx.get(list, List::FIRST)?;
                let bytes = tx.alloc_bytes(&content(number))?;
                let item = tx.alloc(Item { number, bytes, next })?;
                tx.set(list, List::FIRST, Some(item))
            })
            .unwrap();
            pushed.push(number);
        } else {
            let popped = heap.atomic(|tx| {
                let Some(item) = tx.get(list, List::FIRST)? else { return Ok(None) };
                let Item { number, bytes, next } = tx.read(&item)?;
                tx.set(list, List::FIRST, next)?;
                Ok::<_, Error>(Some((number, tx.bytes(&bytes)?)))
            });
            let expected = pushed.pop().map(|number| (number, content(number)));
            assert_eq!(popped.unwrap(), expected);
        }
    }
}

#[test]
fn sweeps_beside_transactions_and_compactions_take_nothing_that_is_in_use() {
    const SWEEPS: usize = 40;
    let mut options = PoolOptions { size: 4 << 20, ..PoolOptions::default() };
    options.region.size_max = 256 << 20;
    let (file, scene) = (with_toy(options), Scene::new(Part::Settling, 4));
    let _toy = toy(file.pool(), &scene);
    let is_over = AtomicBool::new(false);
    file.enter(|heap| {
        let lists = [(); 2].map(|()| heap.exclusive(|tx| tx.alloc(List { first: None })).unwrap());
        std::thread::scope(|scope| {
            let is_over = &is_over;
            lists.iter().for_each(|list| {
                scope.spawn(move || push_and_pop(heap, list, is_over));
            });
            scope.spawn(move || {
                while !is_over.load(Ordering::Relaxed) {
                    heap.compact(16).unwrap();
                    heap.collect_cycles(16).unwrap();
                    std::thread::yield_now();
                }
            });
            for _ in 0..SWEEPS {
                while !heap.sweep().unwrap() {
                    std::thread::yield_now();
                }
            }
            is_over.store(true, Ordering::Relaxed);
        });
    });
    file.enter(|heap| heap.settle()).unwrap();
    check(&file);
}
