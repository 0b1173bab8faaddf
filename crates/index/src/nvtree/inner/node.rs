//! One inner node: words that readers load while a writer may change them, and the sequence that
//! shows readers whether one did.
//!
//! ```text
//!   line 0     sequence, shape | first heads of blocks 1 to 7
//!   line 1, 2  block 0: eight heads | their children and the leaves whose low keys the separators are
//!   line 3, 4  block 1, ...
//! ```
//! A search reads three lines: the first, which says in which block to look, and the two of that block, both at once.

use std::cmp::Ordering as Order;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};

use tembo_pmem::prefetch;
use tembo_pmem::thread::wait;
use zerocopy::FromZeros;

use super::content::{Content, Entry};
use super::low::{LeafId, Lows};
use crate::Error;
use crate::head::head;
use crate::key::KeyBytes;
use crate::simd::{Count, OneByOne};

/// Most children of a node.
pub(super) const WIDTH: usize = 64;
const BLOCK: usize = 8;
const BLOCKS: usize = WIDTH / BLOCK;
const PREFIX_WORDS: usize = 8;
/// Bytes of the prefix that lie in the node. The rest of a longer prefix is read from separator 1.
const PREFIX_INLINE: usize = 8 * PREFIX_WORDS;
/// What a search looks for in a node.
#[derive(Clone, Copy)]
pub(super) enum Sought<'k> {
    /// The last separator that is not above the key.
    At(&'k [u8]),
    /// The last separator below the key.
    Below(&'k [u8]),
    /// The last separator.
    Last,
}

impl Sought<'_> {
    /// The head to look for in a node without a prefix.
    #[inline]
    pub(super) fn head(self) -> u64 {
        match self {
            Sought::At(key) | Sought::Below(key) => head(key, 0),
            Sought::Last => u64::MAX,
        }
    }
}

/// Eight heads in order, in one line.
#[derive(FromZeros)]
#[repr(align(64))]
struct Heads([AtomicU64; BLOCK]);

/// The line that a search reads first. The first word has the sequence (32 bits, odd while the node changes) and above
/// it the packed [`Shape`]. Word `n` is the first head of block `n`.
#[derive(FromZeros)]
#[repr(align(64))]
struct Front([AtomicU64; BLOCKS]);

/// A node's sequence and its shape, as one load found them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct State(u64);

impl State {
    const ODD: u64 = 1;
    const SEQUENCE: u64 = 0xffff_ffff;
    const LEVEL_SHIFT: u32 = 40;
    const PREFIX_SHIFT: u32 = 48;

    /// Whether no writer changes the node, and it has no prefix, so that heads are the first bytes of separators.
    #[inline]
    pub(super) fn is_simple(self) -> bool {
        self.0 & (State::ODD | u64::MAX << State::PREFIX_SHIFT) == 0
    }

    /// Levels below the node; 0 if the children are leaves.
    #[inline]
    pub(super) fn level(self) -> u8 {
        (self.0 >> State::LEVEL_SHIFT) as u8
    }

    #[inline]
    fn prefix_len(self) -> usize {
        (self.0 >> State::PREFIX_SHIFT) as usize
    }

    #[inline]
    fn shape(self) -> Shape {
        Shape::unpack((self.0 >> 32) as u32)
    }

    /// The state as a number, from which it can be made again.
    #[inline]
    pub(super) fn to_bits(self) -> u64 {
        self.0
    }

    /// The state of that number.
    #[inline]
    pub(super) fn from_bits(bits: u64) -> State {
        State(bits)
    }

    fn with_shape(self, shape: &Shape) -> State {
        State(self.0 & State::SEQUENCE | u64::from(shape.pack()) << 32)
    }

    fn next(self) -> State {
        State(self.0 & !State::SEQUENCE | u64::from((self.0 as u32).wrapping_add(1)))
    }
}

#[derive(FromZeros)]
struct Block {
    heads: Heads,
    children: [AtomicU32; BLOCK],
    /// The leaves whose low keys the separators are.
    lows: [AtomicU32; BLOCK],
}

impl Block {
    #[inline]
    fn entry(&self, at: usize) -> Entry {
        Entry {
            head: self.heads.0[at].load(Ordering::Relaxed),
            child: self.children[at].load(Ordering::Relaxed),
            low: self.lows[at].load(Ordering::Relaxed),
        }
    }

    #[inline]
    fn set(&self, at: usize, entry: Entry) {
        self.heads.0[at].store(entry.head, Ordering::Relaxed);
        self.children[at].store(entry.child, Ordering::Relaxed);
        self.lows[at].store(entry.low, Ordering::Relaxed);
    }

    /// Inserts an entry at a place. Returns the last entry, for which there is no more room.
    #[inline]
    fn push(&self, place: usize, entry: Entry) -> Entry {
        let last = self.entry(BLOCK - 1);
        for at in (1..BLOCK).rev().take_while(|&at| at > place) {
            self.set(at, self.entry(at - 1));
        }
        self.set(place % BLOCK, entry);
        last
    }
}

/// A node of the tree.
#[derive(FromZeros)]
pub(super) struct Node {
    front: Front,
    prefix: [AtomicU64; PREFIX_WORDS],
    blocks: [Block; BLOCKS],
}

const _: () = assert!(size_of::<Node>() == 64 * (2 + 2 * BLOCKS));

struct Shape {
    count: u8,
    level: u8,
    prefix_len: u16,
}

impl Shape {
    fn unpack(word: u32) -> Shape {
        let [count, level, low, high] = word.to_le_bytes();
        Shape { count, level, prefix_len: u16::from_le_bytes([low, high]) }
    }

    fn pack(&self) -> u32 {
        let [low, high] = self.prefix_len.to_le_bytes();
        u32::from_le_bytes([self.count, self.level, low, high])
    }
}

impl Front {
    /// The last block whose first head is not above `wanted`. Block 0 counts as such in any case.
    #[inline(always)]
    fn last_not_above(&self, wanted: u64, count: impl Count) -> usize {
        count.not_above(&self.0, wanted) % BLOCKS
    }

    fn sample(&self, block: usize, head: u64) {
        if block > 0 {
            self.0[block % BLOCKS].store(head, Ordering::Relaxed);
        }
    }
}

impl Heads {
    /// The place of the last head that is not above `wanted`. The first counts as such in any case.
    #[inline(always)]
    fn last_not_above(&self, wanted: u64, count: impl Count) -> usize {
        count.not_above(&self.0, wanted) % BLOCK
    }
}

impl Node {
    /// Asks the processor for the line that a search reads first.
    #[inline]
    pub(super) fn prefetch(&self) {
        prefetch(&self.front);
    }

    /// The state at which reading begins. Waits while a writer changes the node.
    #[inline]
    pub(super) fn begin(&self) -> State {
        let state = self.state(Ordering::Acquire);
        if state.0 & State::ODD == 0 { state } else { self.wait() }
    }

    /// As `begin`, without waiting. `None`: a writer changes the node.
    #[inline(always)]
    pub(super) fn begin_now(&self) -> Option<State> {
        Some(self.state(Ordering::Acquire)).filter(|state| state.0 & State::ODD == 0)
    }

    #[inline]
    fn state(&self, order: Ordering) -> State {
        State(self.front.0[0].load(order))
    }

    #[cold]
    fn wait(&self) -> State {
        for round in 0.. {
            wait(round);
            let state = self.state(Ordering::Acquire);
            if state.0 & State::ODD == 0 {
                return state;
            }
        }
        State(0)
    }

    /// Whether the node has not changed since `state` was read, so that everything loaded since is sound. (Two thousand
    /// million changes during one read would go unnoticed.)
    #[inline]
    pub(super) fn still(&self, state: State) -> bool {
        fence(Ordering::Acquire);
        self.state(Ordering::Relaxed) == state
    }

    /// Levels below this one; 0 if the children are leaves. For writers.
    pub(super) fn level(&self) -> u8 {
        self.state(Ordering::Relaxed).level()
    }

    fn shape(&self) -> Shape {
        self.state(Ordering::Relaxed).shape()
    }

    #[inline]
    fn block(&self, place: usize) -> &Block {
        &self.blocks[place / BLOCK % BLOCKS]
    }

    #[inline]
    fn head(&self, place: usize) -> u64 {
        self.block(place).heads.0[place % BLOCK].load(Ordering::Relaxed)
    }

    /// The child at `place`: a node, or on level 0 a leaf.
    #[inline]
    pub(super) fn child(&self, place: usize) -> u32 {
        self.block(place).children[place % BLOCK].load(Ordering::Relaxed)
    }

    /// The children from that place on.
    pub(super) fn children_from(&self, place: usize) -> impl Iterator<Item = u32> + '_ {
        (place..usize::from(self.shape().count).min(WIDTH)).map(|place| self.child(place))
    }

    #[inline]
    fn low(&self, place: usize) -> LeafId {
        self.block(place).lows[place % BLOCK].load(Ordering::Relaxed)
    }

    /// The place of the separator that is sought in a simple node, if heads can decide: `wanted` is the head of
    /// what is sought. Separator 0 is taken to be at or below it.
    #[inline(always)]
    pub(super) fn place_by_heads(&self, wanted: u64, count: impl Count) -> Option<usize> {
        let place = self.place_of_head(wanted, count);
        // If the heads are equal, the search may mean the entry behind the last child, or keys have to decide.
        (self.head(place) != wanted).then_some(place)
    }

    /// The head of a key in the node. `None`: the key does not have the node's prefix, or the node does not hold all of the
    /// prefix.
    #[inline(never)]
    pub(super) fn head_of(&self, state: State, key: &[u8]) -> Option<u64> {
        let len = state.prefix_len();
        if len > PREFIX_INLINE || len > key.len() {
            return None;
        }
        let (whole, rest) = (len / 8, len % 8);
        let mut differing = 0;
        for (index, word) in self.prefix.iter().enumerate().take(whole) {
            differing |= head(key, 8 * index) ^ word.load(Ordering::Relaxed);
        }
        if rest > 0 {
            let word = self.prefix.get(whole)?.load(Ordering::Relaxed);
            differing |= (head(key, 8 * whole) ^ word) >> (u64::BITS - 8 * rest as u32);
        }
        (differing == 0).then(|| head(key, len))
    }

    /// The last place whose head is not above `wanted`, whether a child is there or not.
    #[inline(always)]
    fn place_of_head(&self, wanted: u64, count: impl Count) -> usize {
        let number = self.front.last_not_above(wanted, count);
        let block = &self.blocks[number];
        prefetch(&block.children);
        number * BLOCK + block.heads.last_not_above(wanted, count)
    }

    /// The place of the separator that is sought. Separator 0 is taken to be at or below it.
    ///
    /// # Errors
    /// Those of `lows`, of which a reader has to ask whether the node is still as it was.
    #[inline(never)]
    pub(super) fn place(&self, sought: Sought<'_>, lows: &impl Lows) -> Result<usize, Error> {
        let Shape { count, prefix_len, .. } = self.shape();
        let last = usize::from(count).saturating_sub(1);
        let (Sought::At(key) | Sought::Below(key)) = sought else { return Ok(last) };
        let prefix_len = usize::from(prefix_len);
        if prefix_len > 0 {
            match self.compare_with_prefix(key, prefix_len, lows)? {
                Order::Less => return Ok(0),
                Order::Equal => {}
                Order::Greater => return Ok(last),
            }
        }
        let wanted = head(key, prefix_len);
        let place = self.place_of_head(wanted, OneByOne).min(last);
        if place > 0 && self.head(place) == wanted {
            return self.place_among_equals(place, wanted, sought, lows);
        }
        Ok(place)
    }

    /// The place that is sought, among separators whose head is `wanted`; `last` is the last one. Their keys are compared.
    #[inline(never)]
    fn place_among_equals(
        &self,
        last: usize,
        wanted: u64,
        sought: Sought<'_>,
        lows: &impl Lows,
    ) -> Result<usize, Error> {
        let equals = (1..=last).rev().take_while(|&place| self.head(place) == wanted).count();
        let (mut from, mut to) = (last + 1 - equals, last + 1);
        while from < to {
            let middle = usize::midpoint(from, to);
            let low = lows.low(self.low(middle))?;
            let is_passed = match sought {
                Sought::At(key) => low.compare(key).is_le(),
                Sought::Below(key) => low.compare(key).is_lt(),
                Sought::Last => true,
            };
            (from, to) = if is_passed { (middle + 1, to) } else { (from, middle) };
        }
        Ok(from - 1)
    }

    /// Compares `key` with all keys that begin with the prefix.
    #[inline]
    fn compare_with_prefix(
        &self,
        key: &[u8],
        len: usize,
        lows: &impl Lows,
    ) -> Result<Order, Error> {
        for (index, word) in self.prefix.iter().enumerate().take(len.div_ceil(8)) {
            let bytes_left = (len - 8 * index).min(8) as u32;
            let mask = u64::MAX << (u64::BITS - 8 * bytes_left);
            match (head(key, 8 * index) & mask).cmp(&word.load(Ordering::Relaxed)) {
                Order::Equal => {}
                unequal => return Ok(unequal),
            }
        }
        if len > PREFIX_INLINE {
            let low = lows.low(self.low(1))?;
            let rest = low.slice(PREFIX_INLINE..len).unwrap_or(KeyBytes::EMPTY);
            let end = len.min(key.len());
            match rest.compare(key.get(PREFIX_INLINE..end).unwrap_or_default()).reverse() {
                Order::Equal => {}
                unequal => return Ok(unequal),
            }
        }
        // The key may also end within the prefix, where the prefix goes on with zeros. Then its head is the lowest, and
        // the keys of separators with that head are compared.
        Ok(Order::Equal)
    }

    /// The content of the node. For writers.
    ///
    /// # Errors
    /// Those of `lows`.
    pub(super) fn content(&self, lows: &impl Lows) -> Result<Content, Error> {
        let Shape { count, level, prefix_len } = self.shape();
        let len = usize::from(prefix_len);
        let prefix = if len > PREFIX_INLINE {
            lows.low(self.low(1))?.slice(0..len).unwrap_or(KeyBytes::EMPTY).to_vec()
        } else {
            let words = self.prefix.iter().map(|word| word.load(Ordering::Relaxed));
            words.flat_map(u64::to_be_bytes).take(len).collect()
        };
        let entry = |place| Entry {
            head: self.head(place),
            child: self.child(place),
            low: self.low(place),
        };
        let mut entries = Vec::with_capacity(WIDTH + 1);
        entries.extend((0..usize::from(count)).map(entry));
        Ok(Content { level, prefix, entries })
    }

    /// Stores to the node's memory without changing it.
    pub(super) fn touch(&self) {
        // The processor stores whether the exchange succeeds or not.
        let _ = self.front.0[0].compare_exchange(0, 0, Ordering::Relaxed, Ordering::Relaxed);
    }

    /// Keeps readers out. For the one writer.
    pub(super) fn close(&self) {
        self.front.0[0].store(self.state(Ordering::Relaxed).next().0, Ordering::Relaxed);
        fence(Ordering::Release);
    }

    /// Lets readers in again. For the one writer.
    pub(super) fn open(&self) {
        self.front.0[0].store(self.state(Ordering::Relaxed).next().0, Ordering::Release);
    }

    /// Inserts a leaf into a node on level 0, at `place`, which is not the first. Its low key has the node's prefix, and
    /// no other separator has its head. Returns false if there is no room. For writers.
    pub(super) fn insert(&self, place: usize, head: u64, leaf: LeafId) -> bool {
        let shape = self.shape();
        let count = usize::from(shape.count);
        if count >= WIDTH || place > count || head == 0 {
            return false;
        }
        self.close();
        let (mut pushed, mut at) = (Entry { head, child: leaf, low: leaf }, place % BLOCK);
        let blocks = self.blocks.iter().enumerate();
        for (number, block) in blocks.take(count / BLOCK + 1).skip(place / BLOCK) {
            pushed = block.push(at, pushed);
            self.front.sample(number, block.heads.0[0].load(Ordering::Relaxed));
            at = 0;
        }
        let state =
            self.state(Ordering::Relaxed).with_shape(&Shape { count: shape.count + 1, ..shape });
        self.front.0[0].store(state.0, Ordering::Relaxed);
        self.open();
        true
    }

    fn set(&self, place: usize, entry: Entry) {
        let (block, at) = (self.block(place), place % BLOCK);
        block.set(at, entry);
        if at == 0 {
            self.front.sample(place / BLOCK, entry.head);
        }
    }

    /// Replaces the content of the node, which is closed.
    pub(super) fn store(&self, content: &Content) {
        let Content { level, prefix, entries } = content;
        // The first separator alone defines no prefix.
        let prefix = if entries.len() > 1 { prefix.as_slice() } else { &[] };
        let (count, prefix_len) = (entries.len() as u8, prefix.len() as u16);
        let shape = Shape { count, level: *level, prefix_len };
        let state = self.state(Ordering::Relaxed).with_shape(&shape);
        self.front.0[0].store(state.0, Ordering::Relaxed);
        for (index, word) in self.prefix.iter().enumerate() {
            let inline = &prefix[..prefix.len().min(PREFIX_INLINE)];
            word.store(head(inline, 8 * index), Ordering::Relaxed);
        }
        for place in 0..WIDTH {
            self.set(place, entries.get(place).copied().unwrap_or(Entry::NONE));
        }
    }
}
