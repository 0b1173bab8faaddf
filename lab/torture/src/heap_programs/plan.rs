//! What a program is. It follows from the seed, the thread and its number.

use tembo_sim::Random;

/// Threads that a heap has a place for.
pub(super) const LANES: usize = 8;
pub(super) const ACCOUNTS: usize = 12;
/// Keys that a map can have.
pub(super) const KEYS: usize = 24;

/// Steps of a program, at most, of each sort.
const STEPS: usize = 6;
const LEAF_STEPS: usize = 3;

/// A structure as a whole.
#[derive(Clone, Copy, Debug)]
pub(super) enum Whole {
    Vec,
    Map,
    Hash,
    Deque,
    List,
}

/// Something that is done to a structure, in any layer. Where it has an index or a value these come first and last.
#[derive(Clone, Copy, Debug)]
pub(super) enum Step {
    Push(u64),
    Pop,
    Set(usize, u64),
    Insert(usize, u64),
    Remove(usize),
    HashInsert(usize, u64),
    HashRemove(usize),
    PushBack(u64),
    PushFront(u64),
    PopBack,
    PopFront,
    ListBack(u64),
    ListFront(u64),
    ListPop,
    Box(u64),
    Unbox,
    Clear(Whole),
}

/// Something that is done to leaves, which go by themselves when nothing refers to them.
#[derive(Clone, Copy, Debug)]
pub(super) enum LeafStep {
    /// A leaf more, which refers to the one before.
    Grow(u64),
    /// The last leaf less.
    Drop,
    /// A weak pointer to a leaf, in the place of another.
    Mark(usize),
    Unmark,
    Clear,
    /// Two leaves that refer to each other, and to which nothing else refers.
    Ring(u64),
}

/// What makes a program one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Way {
    /// A transaction beside others.
    Shared,
    /// A transaction alone.
    Alone,
    /// A checkpoint of the layer SAFE.
    Safe,
    /// A checkpoint of the layer BASE.
    Base,
}

/// Steps, one after another.
#[derive(Clone, Debug, Default)]
pub(super) struct Steps {
    pub(super) plain: Vec<Step>,
    pub(super) leaves: Vec<LeafStep>,
}

/// Money that moves between two accounts.
#[derive(Clone, Copy, Debug)]
pub(super) struct Transfer {
    pub(super) from: usize,
    pub(super) to: usize,
    pub(super) amount: i64,
}

/// What a thread does at once.
#[derive(Clone, Debug)]
pub(super) struct Program {
    pub(super) lane: usize,
    /// From 1 on.
    pub(super) number: u64,
    pub(super) way: Way,
    /// What is done before, and taken back.
    pub(super) aborted: Option<Steps>,
    pub(super) steps: Steps,
    /// A leaf that only the program refers to until it is linked: made by a transaction before.
    pub(super) orphan: Option<u64>,
    pub(super) transfer: Transfer,
    /// Its number is entered in the map of all threads.
    pub(super) is_entered: bool,
}

/// Chance, and the values that a program stores: no two of a heap are the same.
struct Choice {
    random: Random,
    value: u64,
}

impl Program {
    pub(super) fn of(seed: u64, lane: usize, number: u64) -> Program {
        let own = number << 4 | lane as u64;
        let random = Random::new(seed.wrapping_mul(0x2545_f491_4f6c_dd1d) ^ own);
        let mut choice = Choice { random, value: own << 6 };
        let way = match choice.random.below(16) {
            0..=9 => Way::Shared,
            10..=11 => Way::Alone,
            12..=14 => Way::Safe,
            _ => Way::Base,
        };
        let aborted = (choice.random.below(5) == 0).then(|| choice.steps(true));
        let steps = choice.steps(way != Way::Base);
        let is_transaction = matches!(way, Way::Shared | Way::Alone);
        let is_made_before = is_transaction && choice.random.below(8) == 0;
        let orphan = is_made_before.then(|| choice.value());
        let (from, step) = (choice.random.below(ACCOUNTS), choice.random.below(ACCOUNTS - 1));
        let amount = choice.random.below(50) as i64;
        let transfer = Transfer { from, to: (from + 1 + step) % ACCOUNTS, amount };
        let is_entered = is_entered(number);
        Program { lane, number, way, aborted, steps, orphan, transfer, is_entered }
    }
}

/// Whether the program of that number is entered in the map of all threads.
pub(super) fn is_entered(number: u64) -> bool {
    number.is_multiple_of(4)
}

impl Choice {
    fn value(&mut self) -> u64 {
        self.value += 1;
        self.value
    }

    fn steps(&mut self, with_leaves: bool) -> Steps {
        let (count, leaves) = (self.random.below(STEPS + 1), self.random.below(LEAF_STEPS + 1));
        let plain = (0..count).map(|_| self.step()).collect();
        let leaves = if with_leaves { leaves } else { 0 };
        Steps { plain, leaves: (0..leaves).map(|_| self.leaf_step()).collect() }
    }

    fn step(&mut self) -> Step {
        let (value, key) = (self.value(), self.random.below(KEYS));
        match self.random.below(40) {
            0..=5 => Step::Push(value),
            6..=8 => Step::Pop,
            9..=10 => Step::Set(self.random.below(1 << 16), value),
            11..=14 => Step::Insert(key, value),
            15..=17 => Step::Remove(key),
            18..=21 => Step::HashInsert(key, value),
            22..=24 => Step::HashRemove(key),
            25..=26 => Step::PushBack(value),
            27 => Step::PushFront(value),
            28 => Step::PopBack,
            29..=30 => Step::PopFront,
            31..=32 => Step::ListBack(value),
            33 => Step::ListFront(value),
            34..=35 => Step::ListPop,
            36..=37 => Step::Box(value),
            38 => Step::Unbox,
            _ => Step::Clear(match self.random.below(5) {
                0 => Whole::Vec,
                1 => Whole::Map,
                2 => Whole::Hash,
                3 => Whole::Deque,
                _ => Whole::List,
            }),
        }
    }

    fn leaf_step(&mut self) -> LeafStep {
        let value = self.value();
        match self.random.below(20) {
            0..=9 => LeafStep::Grow(value),
            10..=13 => LeafStep::Drop,
            14..=15 => LeafStep::Mark(self.random.below(1 << 16)),
            16 => LeafStep::Unmark,
            17..=18 => LeafStep::Ring(value),
            _ => LeafStep::Clear,
        }
    }
}
