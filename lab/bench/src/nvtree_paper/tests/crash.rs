//! The adversary: images that the power's failure could leave, and proof that every step is missed.

use std::collections::BTreeSet;
use std::hash::{DefaultHasher, Hash, Hasher};

use tembo_sim::{Bounds, Broken, Cache, Crash, Explorer, History, Oracle, Reader, Recorder};

use super::*;

const BOUNDS: Bounds = Bounds { all: 400, corners: 100, chance: 100, seed: 1 };

#[derive(Clone, Copy, Debug)]
enum Op {
    Insert(u64, u64),
    Update(u64, u64),
    Remove(u64),
    /// A clean stop, and the opening after it.
    Restart,
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
    let options = PoolOptions { size: 256 << 10, geometry, ..PoolOptions::default() };
    let pool = Arc::new(Pool::volatile(&options).unwrap());
    image(&NvTree::create(pool, &TINY).unwrap())
}

impl Recorded {
    fn of(ops: &[Op]) -> Recorded {
        let (recorder, image) = (Recorder::new(), empty());
        let pool = observed(&image, recorder.clone());
        let (mut tree, _) = NvTree::open(pool.clone(), &TINY).unwrap();
        tree.sweep().unwrap();
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
                    assert_eq!(tree.remove(key).unwrap(), map.remove(&key).is_some())
                }
                Op::Restart => {
                    tree.stop().unwrap();
                    (tree, _) = NvTree::open(pool.clone(), &TINY).unwrap();
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
        names.filter(|name| name.starts_with("nvtree_paper.")).collect()
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
        let (mut tree, _) = NvTree::open(observed(image, reader.clone()), &TINY).map_err(text)?;
        tree.sweep().map_err(text)?;
        let show = |tree: &NvTree| {
            let mut map = Map::new();
            let mut visit = |key, value| map.insert(key, value).is_none();
            tree.scan(0, &mut visit).map_err(text)?;
            Ok::<Map, String>(map)
        };
        let mut map = show(&tree)?;
        let shown = digest(&map);
        for key in 0..40 {
            if tree.get(key).map_err(text)? != map.get(&key).copied() {
                return Err(format!("a search for {key} and a scan differ"));
            }
            tree.insert(key, 99).map_err(text)?;
            map.insert(key, 99);
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

/// Insertions until leaves split, updates and removals until they are replaced and merged, some of it
/// across parents, and restarts between.
fn scripts() -> Vec<Vec<Op>> {
    let rising = (0..14).map(|key| Op::Insert(key, key));
    let inserts: Vec<Op> = (0..30).map(|at| Op::Insert(at * 7 % 31, at)).collect();
    let updates = (0..4).flat_map(|round| (0..6).map(move |key| Op::Update(key, 50 + round)));
    let emptied = (0..14).map(Op::Remove).chain((0..9).map(|key| Op::Insert(key, 1)));
    let thinned = (0..14).filter(|key| key % 4 != 0).map(Op::Remove);
    let churned = (0..8).map(|round| Op::Update(4 * (round % 4), round));
    vec![
        inserts,
        rising.clone().chain(updates).collect(),
        rising.clone().chain(emptied).collect(),
        rising.clone().chain([Op::Restart]).chain(thinned).chain(churned).collect(),
        [Op::Restart, Op::Insert(1, 1), Op::Restart, Op::Update(1, 2), Op::Restart].to_vec(),
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

/// What may be left out: without the flag of a clean stop the next opening takes longer, and the first
/// change after an opening has a fence before it touches the block.
const NOT_NEEDED: [&str; 4] = [
    "nvtree_paper.open.fence",
    "nvtree_paper.stop.flag",
    "nvtree_paper.stop.flag_fence",
    "nvtree_paper.stop.flag_flush",
];

/// Commits that say that they come after something.
const AFTER: [&str; 4] = [
    "nvtree_paper.append.count",
    "nvtree_paper.create_new_tree.head",
    "nvtree_paper.link.publish",
    "nvtree_paper.stop.flag",
];

/// Each flush, fence and commit that the scripts reach is left out in turn, and commits come early.
#[test]
fn a_step_that_is_left_out_or_comes_early_is_missed() {
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
    let early: Vec<&str> =
        AFTER.into_iter().filter(|step| !is_missed(Broken::Early(step))).collect();
    assert_eq!((kept, early), (NOT_NEEDED.to_vec(), Vec::new()));
}
