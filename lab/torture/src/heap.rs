//! A heap under torture: a doubly linked list of items that share counted values, with weak links back.

mod aged;
mod content;
mod layers;
mod library;
mod top;

use std::path::Path;

use tembo_heap::{Error, Heap, HeapFile};
use tembo_pmem::Region;
use tembo_pool::{Geometry, Kinds, Pool, PoolOptions};
use tembo_sim::Random;

use crate::judge::{expect, text};
use crate::pooled::{expect_accounted, formatted_of};
use crate::stacked::{Found, Stacked, is_missing};
use crate::subject::{Script, Subject, elsewhere};

use content::Content;
use top::WIDE;

const SIZE: u64 = 96 << 10;
const SIZE_MAX: u64 = 160 << 10;
const NAME: &str = "heap";

/// The heap, alone in its pool.
pub(crate) struct Heaps;

/// Something that is done to a heap.
#[derive(Clone, Debug)]
pub(crate) enum Op {
    /// An item more, at the front.
    Push,
    /// The same, by another thread.
    PushElsewhere,
    /// An item less.
    Remove(usize),
    /// An item gets the value of another.
    Share(usize, usize),
    /// Two items change names.
    Swap(usize, usize),
    /// Unlinks all items at once.
    Clear,
    /// Two words of one object.
    Label,
    /// The same, by another thread.
    LabelElsewhere,
    /// More words than a lane of the log holds.
    Wide,
    /// More new objects than an entry has checksums of.
    Many,
    /// Unlinks those.
    Few,
    /// New objects that fill more than a chunk, in the place of others.
    Heavy,
    /// Most of them go, so that chunks are sparse.
    Light,
    /// An item is made in one transaction, and linked in another.
    Orphan,
    /// An item is made, and dropped.
    Dropped,
    /// Changes that are taken back.
    Abort(usize),
    /// A ring of items, which is cut off: a cycle that nothing refers to, that refers to a value of the list.
    Ring,
    /// Collects cycles, in small parts.
    Collect,
    /// One such part: what follows changes the heap while cycles are searched for.
    Part,
    /// An item more and the label, in the layer SAFE.
    SafePush,
    /// An item less, in the layer SAFE.
    SafeRemove(usize),
    /// The label, in the layer BASE.
    BaseLabel,
    /// Many new objects in the place of others, which are freed by hand.
    BaseMany,
    /// The same, in space that was freed by hand.
    BaseReuse,
    /// An item is freed by hand.
    BaseRemove(usize),
    /// A transaction that does nothing.
    Nothing,
    /// Finds out what is free.
    Sweep,
    /// Objects are moved out of chunks that few of them share, in small parts.
    Compact,
    /// One such part: what follows changes the heap while it is compacted.
    Move,
    /// An element more in each collection of the library.
    Put,
    /// An element less in each.
    Take,
    /// None in any.
    Empty,
    /// An object of an older version of its type.
    Age,
    /// It becomes one of the newer version.
    Renew,
}

/// What an operation comes to: that it was done, or that there was no room.
fn done(made: Result<(), Error>) -> Result<bool, String> {
    match made {
        Ok(()) => Ok(true),
        Err(Error::Pool(tembo_pool::Error::PoolFull { .. })) => Ok(false),
        Err(error) => Err(text(error)),
    }
}

fn act(
    file: &HeapFile,
    heap: Heap<'_>,
    op: &Op,
    state: &Content,
    serial: u64,
) -> Result<bool, String> {
    let len = state.items.len();
    let at = |index: usize| index % len.max(1);
    let made = match *op {
        Op::Push => content::push(heap, serial),
        Op::PushElsewhere => elsewhere(|| content::push(heap, serial))?,
        Op::Remove(_) | Op::Share(..) | Op::Swap(..) if len == 0 => return Ok(false),
        Op::SafeRemove(_) | Op::BaseRemove(_) if len == 0 => return Ok(false),
        Op::Remove(index) => content::remove(heap, at(index)),
        Op::Share(to, from) => content::share(heap, at(to), at(from)),
        Op::Swap(one, two) => content::swap(heap, at(one), at(two)),
        Op::Clear => content::clear(heap),
        Op::Label => content::label(heap, serial),
        Op::LabelElsewhere => elsewhere(|| content::label(heap, serial))?,
        Op::Wide => content::wide(heap, serial),
        Op::Many => content::many(heap, serial),
        Op::Few => content::few(heap),
        Op::Heavy => content::heavy(heap, serial),
        Op::Light => content::light(heap),
        Op::Orphan => content::orphan(heap, serial),
        Op::Dropped => content::dropped(heap, serial),
        Op::Abort(index) => content::abort(heap, at(index)),
        Op::Ring => content::ring(heap, serial),
        Op::Collect => content::collect(heap),
        Op::Part => heap.collect_cycles(1).map(drop),
        Op::SafePush => layers::push(heap, serial),
        Op::SafeRemove(index) => layers::remove(heap, at(index)),
        Op::BaseLabel => layers::label(file, serial),
        Op::BaseMany => layers::many(file, serial),
        Op::BaseReuse => layers::reuse(file, serial),
        Op::BaseRemove(index) => layers::take(file, at(index)),
        Op::Nothing => heap.atomic(|_| Ok(())),
        Op::Sweep => heap.sweep().map(drop),
        Op::Compact => content::compact(heap),
        Op::Move => heap.compact(3).map(drop),
        Op::Put => library::put(heap, serial),
        Op::Take => library::take(heap),
        Op::Empty => library::clear(heap),
        Op::Age => aged::age(heap, serial),
        Op::Renew => aged::renew(heap),
    };
    done(made)
}

impl Content {
    /// What an operation that was done makes of it.
    fn apply(&mut self, op: &Op, serial: u64) {
        let len = self.items.len().max(1);
        match *op {
            Op::Push | Op::PushElsewhere | Op::Orphan | Op::SafePush => {
                self.items.insert(0, (serial, self.values.len()));
                self.values.push(serial);
                if matches!(op, Op::SafePush) {
                    self.label = serial;
                }
            }
            Op::Remove(index) | Op::SafeRemove(index) | Op::BaseRemove(index) => {
                self.items.remove(index % len);
            }
            Op::Share(to, from) => self.items[to % len].1 = self.items[from % len].1,
            Op::Swap(one, two) => {
                let (one, two) = (one % len, two % len);
                let names = (self.items[one].0, self.items[two].0);
                (self.items[two].0, self.items[one].0) = names;
            }
            Op::Clear => self.items.clear(),
            Op::Label | Op::LabelElsewhere | Op::BaseLabel => self.label = serial,
            Op::Wide => self.wide = serial,
            Op::Many | Op::BaseMany | Op::BaseReuse => self.many = serial,
            Op::Few => self.many = 0,
            Op::Heavy => self.heavy = (serial, content::HEAVY),
            Op::Light if self.heavy.1 == 0 => {}
            Op::Light => self.heavy.1 = content::LIGHT.len() as u64,
            Op::Put => self.held.put(serial),
            Op::Take => self.held.take(),
            Op::Empty => self.held.clear(),
            Op::Age => self.age = (serial, 1),
            Op::Renew if self.age.1 == 1 => self.age.1 = 2,
            Op::Renew | Op::Dropped | Op::Abort(_) | Op::Ring => {}
            Op::Collect | Op::Part | Op::Nothing | Op::Sweep | Op::Compact | Op::Move => {}
        }
        self.number();
    }
}

fn kinds() -> Kinds {
    tembo_heap::kinds(Kinds::default())
}

impl Subject for Heaps {
    type Op = Op;
    type State = Content;
    type Live = HeapFile;

    fn size(&self) -> (u64, u64) {
        (SIZE, SIZE_MAX)
    }

    fn empty(&self) -> Content {
        Content::default()
    }

    fn make(&self, region: Region, made: &mut dyn FnMut()) -> Result<HeapFile, String> {
        Pool::format(&region, Geometry::TINY).map_err(text)?;
        let pool = Pool::from_region_of(region, kinds()).map_err(text)?;
        let file = HeapFile::add_to(&pool.into(), NAME).map_err(text)?;
        made();
        Ok(file)
    }

    fn open(&self, region: Region) -> Result<Option<HeapFile>, String> {
        let Some(pool) = formatted_of(region, kinds())? else { return Ok(None) };
        if pool.tenants().map_err(text)?.is_empty() {
            return Ok(None);
        }
        HeapFile::of(&pool.into(), NAME).map(Some).map_err(text)
    }

    fn show(&self, live: &mut HeapFile) -> Result<Content, String> {
        live.enter(content::show)
    }

    fn run(
        &self,
        live: &mut HeapFile,
        state: &Content,
        op: &Op,
        serial: u64,
    ) -> Result<Content, String> {
        let mut next = state.clone();
        if live.enter(|heap| act(live, heap, op, state, serial))? {
            next.apply(op, serial);
        }
        Ok(next)
    }

    fn settle(&self, live: &mut HeapFile) -> Result<(), String> {
        live.enter(|heap| {
            heap.settle()?;
            if heap.pool().usage().recovering { heap.sweep().map(drop) } else { Ok(()) }
        })
        .map_err(text)
    }

    fn check(&self, live: &mut HeapFile, state: &Content) -> Result<(), String> {
        live.enter(|heap| {
            // The first of them ends a collection that had begun before the last rings were cut off.
            content::collect(heap)?;
            content::collect(heap)?;
            heap.settle()
        })
        .map_err(text)?;
        let check = live.check().map_err(text)?;
        expect_accounted(&check.account, live.pool().region().size())?;
        let lost = (check.account.leaked, check.account.dangling);
        expect(lost == (0, 0) && !check.account.recovering, "leaked or dangling objects")?;
        let found = &check.tenants[0].1;
        let root = u64::from(live.enter(content::has_root)?);
        let many = if state.many == 0 { 0 } else { 1 + content::MANY };
        let heavy = if state.heavy.1 == 0 { 0 } else { 1 + state.heavy.1 };
        let kept = state.held.objects() + aged::objects(state.age);
        let objects = root + many + heavy + kept + (state.items.len() + state.values.len()) as u64;
        expect(found.counts[0].1 == objects, "objects are not counted right")?;
        expect(found.counts[2].1 == 0, "counts are larger than the pointers")?;
        expect(found.pending == 0, "objects that were not destroyed")?;
        expect(check.account.objects - found.objects <= 1, "beside them there is only the log")
    }

    fn recovery(&self) -> Vec<Op> {
        vec![Op::LabelElsewhere, Op::Sweep]
    }

    fn random_op(&self, random: &mut Random) -> Op {
        let (one, two) = (random.below(5), random.below(5));
        match random.below(48) {
            0..=3 => Op::Push,
            4 => Op::PushElsewhere,
            5..=6 => Op::Remove(one),
            7..=8 => Op::Share(one, two),
            9 => Op::Swap(one, two),
            10 => Op::Clear,
            11 => Op::Label,
            12 => Op::LabelElsewhere,
            13 => Op::Wide,
            14 => Op::Many,
            15 => Op::Few,
            16 => Op::Orphan,
            17 => Op::Dropped,
            18 => Op::Abort(one),
            19 => Op::Ring,
            20 => Op::Collect,
            21..=22 => Op::Part,
            23..=24 => Op::SafePush,
            25 => Op::SafeRemove(one),
            26 => Op::BaseLabel,
            27 => Op::BaseMany,
            28 => Op::BaseReuse,
            29..=30 => Op::BaseRemove(one),
            31..=32 => Op::Compact,
            33..=35 => Op::Move,
            36..=37 => Op::Heavy,
            38..=39 => Op::Light,
            40..=41 => Op::Put,
            42 => Op::Take,
            43 => Op::Empty,
            44..=45 => Op::Age,
            46 => Op::Renew,
            _ => Op::Sweep,
        }
    }

    fn alphabet(&self) -> Vec<Op> {
        vec![
            Op::Push,
            Op::PushElsewhere,
            Op::Remove(0),
            Op::Remove(1),
            Op::Share(0, 1),
            Op::Swap(0, 1),
            Op::Clear,
            Op::Label,
            Op::LabelElsewhere,
            Op::Wide,
            Op::Many,
            Op::Orphan,
            Op::Dropped,
            Op::Abort(0),
            Op::Ring,
            Op::Collect,
            Op::Part,
            Op::SafePush,
            Op::SafeRemove(0),
            Op::BaseMany,
            Op::BaseReuse,
            Op::BaseRemove(0),
            Op::Sweep,
            Op::Compact,
            Op::Move,
            Op::Put,
            Op::Age,
            Op::Renew,
        ]
    }

    fn starts(&self) -> Vec<Vec<Op>> {
        vec![
            vec![],
            vec![Op::Sweep],
            vec![Op::Push, Op::Push, Op::Push],
            vec![Op::Push, Op::Push, Op::PushElsewhere, Op::Push, Op::Share(0, 2), Op::Remove(1)],
            vec![Op::Sweep, Op::Heavy, Op::Light],
        ]
    }

    fn scripts(&self) -> Vec<Script<Op>> {
        let mut list = vec![
            Script::new("making", 0, vec![Op::Push, Op::Nothing, Op::Label]),
            Script::new("elsewhere", 2, vec![Op::Remove(0), Op::LabelElsewhere, Op::Label]),
            Script::new("cleared", 3, vec![Op::Clear, Op::PushElsewhere, Op::Clear, Op::Label]),
            Script::new(
                "many",
                2,
                vec![Op::Many, Op::LabelElsewhere, Op::Many, Op::Few, Op::Label],
            ),
            Script::new("wide", 2, vec![Op::Wide, Op::LabelElsewhere, Op::Wide]),
            Script::new("rings", 2, vec![Op::Ring, Op::Collect, Op::Ring, Op::Sweep, Op::Label]),
            Script::new(
                "parts",
                3,
                vec![
                    Op::Ring,
                    Op::Part,
                    Op::Share(0, 2),
                    Op::Part,
                    Op::Remove(1),
                    Op::Part,
                    Op::Ring,
                    Op::Part,
                    Op::Part,
                    Op::Clear,
                    Op::Part,
                    Op::Push,
                ],
            ),
            Script::new(
                "safe",
                2,
                vec![Op::SafePush, Op::SafeRemove(1), Op::SafePush, Op::LabelElsewhere, Op::Sweep],
            ),
            Script::new(
                "base",
                3,
                vec![
                    Op::BaseMany,
                    Op::BaseRemove(1),
                    Op::BaseReuse,
                    Op::BaseLabel,
                    Op::BaseRemove(0),
                    Op::LabelElsewhere,
                    Op::Few,
                    Op::BaseMany,
                ],
            ),
            Script::new("orphans", 2, vec![Op::Orphan, Op::Dropped, Op::Sweep]),
        ];
        list.extend(kept());
        list.extend(compacted());
        list.extend(interrupted());
        list
    }
}

/// Collections of the library, and versions of a type.
fn kept() -> Vec<Script<Op>> {
    let (put, take) = ([const { Op::Put }; 5], [const { Op::Take }; 5]);
    let collections =
        [&put[..], &take, &[Op::Put, Op::Put, Op::LabelElsewhere, Op::Empty], &put[..2]];
    let versions =
        vec![Op::Age, Op::Renew, Op::Renew, Op::Age, Op::Age, Op::Sweep, Op::Renew, Op::Label];
    vec![Script::new("collections", 0, collections.concat()), Script::new("versions", 2, versions)]
}

/// Compactions, and changes between their parts.
fn compacted() -> Vec<Script<Op>> {
    vec![
        Script::new(
            "compacted",
            2,
            vec![
                Op::Sweep,
                Op::Heavy,
                Op::Light,
                Op::Compact,
                Op::LabelElsewhere,
                Op::Heavy,
                Op::Light,
                Op::Compact,
            ],
        ),
        Script::new(
            "moving",
            3,
            vec![
                Op::Sweep,
                Op::Heavy,
                Op::Light,
                Op::Move,
                Op::Remove(0),
                Op::Move,
                Op::Move,
                Op::Move,
                Op::Move,
                Op::LabelElsewhere,
                Op::Move,
                Op::Move,
                Op::Move,
                Op::Heavy,
                Op::Move,
            ],
        ),
    ]
}

/// Openings after operations that were under way.
fn interrupted() -> Vec<Script<Op>> {
    let mut list = Vec::new();
    // Opened after transactions that were under way, in each state of theirs.
    let interrupted = [
        (Op::Push, "pool.log.seal.fence"),
        (Op::Clear, "pool.log.seal.fence"),
        (Op::Clear, "pool.log.settle.fence"),
        (Op::Remove(0), "pool.log.seal.fence"),
        (Op::Remove(0), "pool.log.settle.fence"),
        (Op::Orphan, "pool.log.seal.fence"),
        (Op::Many, "pool.log.seal.fence"),
        (Op::Wide, "pool.log.void.fence"),
        (Op::SafePush, "pool.log.seal.fence"),
        (Op::BaseMany, "pool.log.seal.fence"),
        (Op::BaseReuse, "pool.log.settle.fence"),
        (Op::BaseRemove(0), "pool.log.settle.fence"),
        (Op::Put, "pool.log.seal.fence"),
        (Op::Age, "pool.log.seal.fence"),
    ];
    for (number, (op, step)) in interrupted.into_iter().enumerate() {
        let leads = vec![(vec![op], Some(step))];
        let ops = vec![Op::LabelElsewhere, Op::PushElsewhere, Op::Clear, Op::Sweep];
        list.push(Script { leads, ..Script::new(format!("interrupted-{number}"), 3, ops) });
    }
    // While objects are moved.
    for (number, step) in ["pool.log.seal.fence", "pool.log.settle.fence"].into_iter().enumerate() {
        let leads = vec![(vec![Op::Compact], Some(step))];
        let ops = vec![Op::LabelElsewhere, Op::Compact, Op::Heavy, Op::Clear, Op::Sweep];
        list.push(Script { leads, ..Script::new(format!("half-moved-{number}"), 4, ops) });
    }
    list
}

impl Stacked for Heaps {
    fn create_at(&self, path: &Path, options: &PoolOptions) -> Result<HeapFile, String> {
        HeapFile::create(path, options).map_err(text)
    }

    fn open_at(&self, path: &Path, options: &PoolOptions) -> Result<Found<HeapFile>, String> {
        match HeapFile::open(path, options) {
            Err(Error::Pool(tembo_pool::Error::Region(error))) if is_missing(&error) => {
                Ok(Found::Nothing)
            }
            opened => opened.map(Found::Live).map_err(text),
        }
    }

    fn sync(&self, live: &HeapFile) -> Result<(), String> {
        live.pool().region().sync().map_err(text)
    }

    fn close(&self, live: HeapFile) -> Result<(), String> {
        live.close().map_err(text)
    }

    fn leaked(&self, live: &HeapFile) -> Result<u64, String> {
        Ok(live.check().map_err(text)?.account.leaked)
    }

    fn first_op(&self) -> Option<Op> {
        None
    }

    fn check_over(&self, live: &mut HeapFile) -> Result<(), String> {
        let state = self.show(live)?;
        self.check(live, &state)
    }
}

const _: () = assert!(WIDE > 23, "more than a lane holds");
