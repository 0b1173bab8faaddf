//! The adversary: images that the power's failure could leave, and proof that every step is missed.

use std::collections::BTreeSet;
use std::collections::btree_map::Entry;
use std::hash::{DefaultHasher, Hash, Hasher};

use tembo_sim::{Bounds, Broken, Cache, Crash, Explorer, History, Oracle, Reader, Recorder};

use super::*;

const BOUNDS: Bounds = Bounds { all: 16, corners: 8, chance: 4, seed: 1 };

#[derive(Clone, Copy, Debug)]
enum Op {
    Insert(u64, u64),
    Update(u64, u64),
    Remove(u64),
}

/// A history, and what may be shown before and after each operation.
struct Recorded {
    history: History,
    shown: Vec<(u64, u64)>,
}

fn digest(map: &Map) -> u64 {
    let mut hasher = DefaultHasher::new();
    map.hash(&mut hasher);
    hasher.finish()
}

fn observed(image: &[u8], observer: Arc<dyn tembo_pmem::Observer>) -> Arc<Pool> {
    let options =
        RegionOptions { observer: Some(observer), size_max: 4 << 20, ..RegionOptions::default() };
    let region = Region::from_image(image, &options).unwrap();
    Arc::new(Pool::from_region(region).unwrap())
}

fn empty() -> Vec<u8> {
    let geometry = Geometry { chunk_size: 4096, node_size: 64 };
    let options = PoolOptions { size: 128 << 10, geometry, ..PoolOptions::default() };
    let pool = Arc::new(Pool::volatile(&options).unwrap());
    let tree = CddsTree::create(pool, LeafOrder::Sorted, TINY).unwrap();
    let region = tree.pool().region();
    region.media_bytes(0, region.size()).unwrap().to_vec()
}

impl Recorded {
    fn of(ops: &[Op]) -> Recorded {
        let (recorder, image) = (Recorder::new(), empty());
        let mut tree =
            CddsTree::open(observed(&image, recorder.clone()), LeafOrder::Sorted).unwrap();
        let (mut map, mut shown, mut ends) = (Map::new(), Vec::new(), Vec::new());
        for &op in ops {
            let before = digest(&map);
            match op {
                Op::Insert(key, value) => {
                    tree.insert(key, value).unwrap();
                    map.insert(key, value);
                }
                Op::Update(key, value) => {
                    assert!(tree.update(key, value).unwrap());
                    map.insert(key, value);
                }
                Op::Remove(key) => {
                    assert_eq!(tree.remove(key).unwrap(), map.remove(&key).is_some());
                }
            }
            shown.push((before, digest(&map)));
            ends.push(recorder.len());
            recorder.begin_operation();
        }
        let events = recorder.take();
        let (mut crashes, mut from) = (Vec::new(), 0);
        for (operation, &to) in ends.iter().enumerate() {
            let points = (from..to).filter(|&at| events[at].is_crash_point());
            crashes.extend(points.map(|at| Crash { at, operation, after: false }));
            crashes.push(Crash { at: to, operation, after: true });
            from = to;
        }
        Recorded { history: History { image, events, crashes }, shown }
    }

    fn steps(&self) -> BTreeSet<&'static str> {
        let names = self.history.events.iter().filter_map(tembo_sim::Event::name);
        names.filter(|name| name.starts_with("bench.cdds.")).collect()
    }

    fn explore(&self, broken: Option<Broken<'_>>) -> Result<u64, String> {
        let wrong = |wrong: tembo_sim::Wrong| format!("crash {}: {}", wrong.crash, wrong.what);
        Explorer::new(&self.history, Cache::Flush, self).explore(broken, BOUNDS).map_err(wrong)
    }
}

impl Oracle for Recorded {
    /// Opened, it shows something; and it goes on, with the space that it finds to be free.
    fn judge(&self, image: &[u8], reader: &Arc<Reader>) -> Result<u64, String> {
        let text = |error: crate::Error| format!("{error:?}");
        let pool = observed(image, reader.clone());
        let mut tree = CddsTree::open(pool, LeafOrder::Sorted).map_err(text)?;
        let show = |tree: &CddsTree| {
            let mut map = Map::new();
            let mut visit = |key, value| map.insert(key, value).is_none();
            tree.scan(0, &mut visit).map_err(text)?;
            Ok::<Map, String>(map)
        };
        let mut map = show(&tree)?;
        let shown = digest(&map);
        for key in (0..40).step_by(3) {
            if tree.get(key).map_err(text)? != map.get(&key).copied() {
                return Err(format!("a search for {key} and a scan differ"));
            }
            if let Entry::Vacant(slot) = map.entry(key) {
                tree.insert(key, 99).map_err(text)?;
                slot.insert(99);
            }
        }
        if show(&tree)? != map {
            return Err("going on, it differs".into());
        }
        Ok(shown)
    }

    fn accept(&self, crash: &Crash, shown: u64) -> Result<(), String> {
        let (before, after) = self.shown[crash.operation];
        if shown == after || (shown == before && !crash.after) {
            return Ok(());
        }
        Err(format!("operation {} (after: {}) shows something else", crash.operation, crash.after))
    }

    fn judged(&self, _: u64, _: Option<&[u8]>, _: u64) -> bool {
        true
    }
}

/// Insertions until nodes split, updates that reuse entries, and removals until nodes take from siblings,
/// merge, and are collected.
fn scripts() -> Vec<Vec<Op>> {
    let rising = (0..26).map(|key| Op::Insert(key, key));
    let inserts: Vec<Op> = (0..23).map(|at| Op::Insert(at * 7 % 23, at)).collect();
    let updates = (0..4).flat_map(|round| (0..6).map(move |key| Op::Update(key, 50 + round)));
    let thinned = (0..26).filter(|key| key % 5 != 0).map(Op::Remove);
    let falling = (0..26).rev().map(Op::Remove);
    vec![
        inserts,
        rising.clone().take(12).chain(updates).collect(),
        rising.clone().chain(thinned).collect(),
        rising.chain(falling).collect(),
    ]
}

#[test]
fn whatever_a_crash_leaves_is_the_tree_before_or_after_the_operation() {
    let mut images = 0;
    for (number, ops) in scripts().iter().enumerate() {
        let explored = Recorded::of(ops).explore(None);
        images += explored.unwrap_or_else(|what| panic!("script {number}: {what}"));
    }
    assert!(images > 500, "{images}");
}

/// Each flush, fence and commit that the scripts reach is left out in turn.
#[test]
fn a_step_that_is_left_out_is_missed() {
    let recorded: Vec<Recorded> = scripts().iter().map(|ops| Recorded::of(ops)).collect();
    let steps: BTreeSet<&str> = recorded.iter().flat_map(Recorded::steps).collect();
    assert!(steps.len() > 15, "{steps:?}");
    let is_missed = |broken: Broken<'_>| {
        recorded.iter().any(|recorded| {
            let explore = || recorded.explore(Some(broken)).is_err();
            // A panic of a broken tree is a violation too.
            std::panic::catch_unwind(std::panic::AssertUnwindSafe(explore)).unwrap_or(true)
        })
    };
    let kept: Vec<&str> =
        steps.into_iter().filter(|step| !is_missed(Broken::Dropped(step))).collect();
    assert_eq!(kept, NOT_NEEDED);
}

/// What may be left out, as far as the scripts see. A slot that was cleared in vain holds an entry twice,
/// which recovery removes. What ends in a node that was replaced is ended for older versions only, and no
/// version is older than the consistent one after a crash; in a sibling it lies beyond the bound. The root
/// lies in the line of the version, whose own flush comes before the operation ends.
const NOT_NEEDED: [&str; 6] = [
    "bench.cdds.clear.fence",
    "bench.cdds.clear.flush",
    "bench.cdds.end_all.fence",
    "bench.cdds.end_all.flush",
    "bench.cdds.root.fence",
    "bench.cdds.root.flush",
];
