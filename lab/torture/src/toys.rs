//! A toy heap under torture: a doubly linked list of nodes that share counted values. It stands for structures without
//! versions, and uses the pool's log in all three ways.

mod list;
mod tenant;

use std::sync::Arc;

use tembo_pmem::Region;
use tembo_pool::{Geometry, Pool};
use tembo_sim::Random;

use crate::judge::{expect, text};
use crate::pooled::{expect_accounted, formatted_of};
use crate::subject::{Script, Subject, elsewhere};

pub(crate) use list::{Content, List};
pub(crate) use tenant::{add, beside, kinds, open};

const SIZE: u64 = 64 << 10;
const SIZE_MAX: u64 = 128 << 10;

/// The toy heap, alone in its pool.
pub(crate) struct Toys;

/// Something that is done to a heap.
#[derive(Clone, Debug)]
pub(crate) enum Op {
    /// A node more, at the front or at the back: words changed in place.
    Push(bool),
    /// The same, by another thread.
    PushElsewhere(bool),
    /// A node less: words stored by the commit.
    Remove(usize),
    /// A node gets the value of another: counts change both ways.
    Share(usize, usize),
    /// Two nodes change places.
    Swap(usize, usize),
    /// Two nodes change places, in place, and one gets another value by the commit.
    Both(usize, usize),
    /// All nodes are unlinked at once, and taken apart afterwards: an intent.
    Clear,
    /// The label is stored after the commit: an intent.
    Label,
    /// The label is stored by the commit, by another thread.
    LabelElsewhere,
    /// The label is stored by words that are committed together.
    LabelByWords,
    /// A node less, by words that are committed together, of which some are its own; a sweep frees it.
    Lose(usize),
    /// An object is made whose content is durable by a checksum in the log, unless there is one.
    Keep,
    /// Its content becomes the other one of two, by words that are committed together.
    Alter,
    /// It is unlinked, and its space free at once.
    Discard,
    /// Several changes that are taken back.
    Abort(usize),
    /// Two operations beside each other that are taken back.
    Nested,
    /// An operation that does nothing.
    Nothing,
    /// Finds out what is free.
    Sweep,
}

/// A heap, open.
pub(crate) struct Live {
    pub(crate) pool: Arc<Pool>,
    pub(crate) list: Arc<List>,
}

impl Live {
    pub(crate) fn of(pool: Arc<Pool>) -> Result<Live, String> {
        let list = open(&pool)?;
        Ok(Live { pool, list })
    }
}

/// Does `op` to a list that holds `state`.
pub(crate) fn run(
    list: &Arc<List>,
    state: &Content,
    op: &Op,
    serial: u64,
) -> Result<Content, String> {
    let mut next = state.clone();
    let at = |index: usize| (!state.nodes.is_empty()).then(|| index % state.nodes.len().max(1));
    let there = |one: usize, two: usize| Some((at(one)?, at(two)?));
    let is_done = match *op {
        Op::Push(is_front) => list.push(is_front, serial)?,
        Op::PushElsewhere(is_front) => elsewhere(|| list.push(is_front, serial))??,
        Op::Remove(index) => at(index).map_or(Ok(false), |index| list.remove(index))?,
        Op::Share(to, from) => there(to, from).map_or(Ok(false), |(a, b)| list.share(a, b))?,
        Op::Swap(one, two) => there(one, two).map_or(Ok(false), |(a, b)| list.swap(a, b))?,
        Op::Both(one, two) => {
            there(one, two).map_or(Ok(false), |(a, b)| list.swap_and_set(a, b, serial))?
        }
        Op::Clear => list.clear()?,
        Op::Label => list.label_later(serial)?,
        Op::LabelElsewhere => elsewhere(|| list.label(serial))??,
        Op::LabelByWords => list.label_by_words(serial)?,
        Op::Lose(index) => at(index).map_or(Ok(false), |index| list.lose(index, serial))?,
        Op::Keep => state.kept.is_none() && list.keep(serial)?,
        Op::Alter => state.kept.is_some() && list.alter(serial)?,
        Op::Discard => state.kept.is_some() && list.discard(serial)?,
        Op::Abort(index) => list.abort(index).map(|()| false)?,
        Op::Nested => list.nested().map(|()| false)?,
        Op::Nothing => list.nothing().map(|()| false)?,
        Op::Sweep => list.sweep().map(|()| false)?,
    };
    if is_done {
        next.apply(op, serial);
    }
    Ok(next)
}

/// Any operation.
pub(crate) fn random_op(random: &mut Random) -> Op {
    let (one, two) = (random.below(5), random.below(5));
    match random.below(21) {
        0..=2 => Op::Push(one % 2 == 0),
        3 => Op::PushElsewhere(one % 2 == 0),
        4..=5 => Op::Remove(one),
        6..=7 => Op::Share(one, two),
        8 => Op::Swap(one, two),
        9 => Op::Both(one, two),
        10 => Op::Clear,
        11 => Op::Label,
        12 => Op::LabelElsewhere,
        13 => Op::Abort(one),
        14 => Op::Nested,
        15 => Op::LabelByWords,
        16 => Op::Keep,
        17..=18 => Op::Alter,
        19 => Op::Discard,
        _ => Op::Sweep,
    }
}

impl Content {
    /// What an operation that was done makes of it.
    fn apply(&mut self, op: &Op, serial: u64) {
        let len = self.nodes.len().max(1);
        match *op {
            Op::Push(is_front) | Op::PushElsewhere(is_front) => {
                let at = if is_front { 0 } else { self.nodes.len() };
                self.nodes.insert(at, (serial, self.values.len()));
                self.values.push(serial);
            }
            Op::Remove(index) | Op::Lose(index) => drop(self.nodes.remove(index % len)),
            Op::Share(to, from) => self.nodes[to % len].1 = self.nodes[from % len].1,
            Op::Swap(one, two) => self.swap_names(one % len, two % len),
            Op::Both(one, two) => {
                self.swap_names(one % len, two % len);
                self.values[self.nodes[one % len].1] = serial;
            }
            Op::Clear => self.nodes.clear(),
            Op::Label | Op::LabelElsewhere | Op::LabelByWords => self.label = serial,
            Op::Keep => (self.label, self.kept) = (serial, Some(list::CONTENTS[0])),
            Op::Alter => (self.label, self.kept) = (serial, self.kept.map(list::other)),
            Op::Discard => (self.label, self.kept) = (serial, None),
            Op::Abort(_) | Op::Nested | Op::Nothing | Op::Sweep => {}
        }
        self.number();
    }

    /// Numbers the values as they come first.
    fn number(&mut self) {
        let mut order: Vec<usize> = Vec::new();
        for (_, value) in &mut self.nodes {
            let known = order.iter().position(|other| other == value);
            let number = known.unwrap_or(order.len());
            if number == order.len() {
                order.push(*value);
            }
            *value = number;
        }
        self.values = order.into_iter().map(|old| self.values[old]).collect();
    }

    fn swap_names(&mut self, one: usize, two: usize) {
        let (first, second) = (self.nodes[one].0, self.nodes[two].0);
        (self.nodes[one].0, self.nodes[two].0) = (second, first);
    }
}

impl Subject for Toys {
    type Op = Op;
    type State = Content;
    type Live = Live;

    fn size(&self) -> (u64, u64) {
        (SIZE, SIZE_MAX)
    }

    fn empty(&self) -> Content {
        Content::default()
    }

    fn make(&self, region: Region, made: &mut dyn FnMut()) -> Result<Live, String> {
        Pool::format(&region, Geometry::TINY).map_err(text)?;
        let pool = Arc::new(Pool::from_region_of(region, kinds()).map_err(text)?);
        add(&pool)?;
        made();
        Live::of(pool)
    }

    fn open(&self, region: Region) -> Result<Option<Live>, String> {
        let Some(pool) = formatted_of(region, kinds())? else { return Ok(None) };
        if pool.tenants().map_err(text)?.is_empty() {
            return Ok(None);
        }
        Live::of(Arc::new(pool)).map(Some)
    }

    fn show(&self, live: &mut Live) -> Result<Content, String> {
        live.list.content()
    }

    fn run(
        &self,
        live: &mut Live,
        state: &Content,
        op: &Op,
        serial: u64,
    ) -> Result<Content, String> {
        run(&live.list, state, op, serial)
    }

    fn settle(&self, live: &mut Live) -> Result<(), String> {
        if live.pool.usage().recovering { live.list.sweep() } else { Ok(()) }
    }

    fn check(&self, live: &mut Live, state: &Content) -> Result<(), String> {
        let check = live.pool.check().map_err(text)?;
        expect_accounted(&check.account, live.pool.region().size())?;
        let lost = (check.account.leaked, check.account.dangling);
        expect(lost == (0, 0) && !check.account.recovering, "leaked or dangling objects")?;
        let objects = state.objects();
        let found = &check.tenants[0].1;
        expect(found.objects == objects, "objects are not counted right")?;
        expect(check.account.objects - objects <= 1, "beside them there is only the log")
    }

    fn recovery(&self) -> Vec<Op> {
        // The log is used again over what an interrupted operation has left in its lane.
        vec![Op::Label, Op::Sweep]
    }

    fn random_op(&self, random: &mut Random) -> Op {
        random_op(random)
    }

    fn alphabet(&self) -> Vec<Op> {
        vec![
            Op::Push(true),
            Op::Push(false),
            Op::PushElsewhere(false),
            Op::Remove(0),
            Op::Remove(1),
            Op::Share(0, 1),
            Op::Swap(0, 1),
            Op::Both(0, 1),
            Op::Clear,
            Op::Label,
            Op::LabelElsewhere,
            Op::LabelByWords,
            Op::Keep,
            Op::Alter,
            Op::Discard,
            Op::Abort(0),
            Op::Nested,
            Op::Sweep,
        ]
    }

    fn starts(&self) -> Vec<Vec<Op>> {
        let push = Op::Push;
        vec![
            vec![],
            vec![Op::Sweep],
            vec![push(false), push(false), push(true)],
            vec![push(false), push(false), push(true), push(false), Op::Share(0, 2), Op::Remove(1)],
            vec![Op::LabelByWords, Op::Keep, Op::Alter],
        ]
    }

    fn scripts(&self) -> Vec<Script<Op>> {
        let mut list = vec![
            Script::new("making", 0, vec![Op::Push(true), Op::Label]),
            // The log is made by one thread and used by another.
            Script::new("made-elsewhere", 1, vec![Op::Nothing, Op::LabelElsewhere]),
            Script::new("done-elsewhere", 2, vec![Op::Label, Op::LabelElsewhere, Op::Clear]),
            Script::new("aborted-elsewhere", 2, vec![Op::Abort(0), Op::PushElsewhere(true)]),
            // The words that were stored last are flushed by an operation of another kind.
            Script::new("by-words", 2, vec![Op::LabelByWords, Op::LabelByWords, Op::Push(true)]),
            Script::new("cleared", 3, vec![Op::Clear, Op::Push(true), Op::Clear]),
        ];
        // The first operation of a process: a crash leaves its entries without the lane's new number, and the next
        // process must not take that number.
        let first = [Op::Remove(0), Op::Push(true), Op::Swap(0, 1), Op::Both(0, 1), Op::Clear];
        for (number, op) in first.into_iter().enumerate() {
            let script = Script::new(format!("residue-{number}"), 3, vec![op]);
            list.push(Script { recovers_each: true, ..script });
        }
        list.extend(there_and_back());
        // Opened after operations that were under way, in each state of theirs.
        let interrupted = [
            (Op::Push(true), "pool.log.state"),
            (Op::Remove(1), "pool.log.state"),
            (Op::Both(0, 1), "pool.log.state"),
            (Op::Clear, "pool.log.state"),
            (Op::Clear, "pool.log.done.fence"),
            (Op::Label, "pool.log.done.fence"),
            (Op::Nested, "torture.toys.nested"),
            (Op::Push(true), "pool.log.publish"),
        ];
        for (number, (op, step)) in interrupted.into_iter().enumerate() {
            let leads = vec![(vec![op], Some(step))];
            let ops = vec![Op::LabelElsewhere, Op::PushElsewhere(true), Op::Clear, Op::Sweep];
            let start = if step == "pool.log.publish" { 1 } else { 3 };
            list.push(Script { leads, ..Script::new(format!("interrupted-{number}"), start, ops) });
        }
        list
    }
}

/// The content that an entry has the checksum of is changed by one process, and changed back by another: the entry, void in between, must
/// not be true again. Neither process takes the lane of that entry but for it.
fn there_and_back() -> Vec<Script<Op>> {
    let there = || vec![Op::LabelByWords, Op::Keep, Op::Alter];
    let back = || vec![Op::Alter, Op::LabelByWords, Op::Alter, Op::Alter];
    let scripts = [
        ("there-and-back", vec![(there(), None)], back()),
        // Two processes come between.
        ("there-and-back-later", vec![(there(), None), (vec![], None), (vec![], None)], back()),
        // The change is sealed, and not in place.
        ("there-sealed-and-back", vec![(there(), Some("pool.log.seal.fence"))], back()),
        ("there-and-back-and-gone", vec![(there(), None)], vec![Op::Alter, Op::Discard, Op::Keep]),
    ];
    let script = |(name, leads, ops)| Script { leads, ..Script::new(name, 2, ops) };
    scripts.into_iter().map(script).collect()
}
