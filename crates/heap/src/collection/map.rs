//! An ordered map from bytes.

mod node;
mod range;

use std::ops::Bound;

use crate::{Access, Error, Field, Layer, Persist, Place, Ptr, View, hash, mix};
use node::{Link, MapNode, NodeRef, deeper, without_key};
use range::Pairs;

pub use range::KeyRange;

/// A map from bytes, or texts, in their order. (A treap, Seidel and Aragon 1996, whose priorities are hashes of the keys: the same keys
/// always make the same tree.) An operation needs about 2 · log₂ of the number of its keys steps.
///
/// ```
/// # use tembo_heap::{Error, HeapFile, PMap, Persist};
/// #[derive(Persist)]
/// struct Prices<'h> {
///     of: PMap<'h, u64>,
/// }
/// # let file = HeapFile::volatile(&Default::default())?;
/// # file.enter(|heap| {
/// let prices = heap.root_or::<_, Error>(|_| Ok(Prices { of: PMap::new() }))?.field(Prices::OF);
/// heap.atomic(|tx| {
///     for (fruit, price) in [("cherry", 9), ("apple", 3), ("banana", 4), ("date", 7)] {
///         prices.insert(tx, fruit, price)?;
///     }
///     assert_eq!(prices.first(tx)?, Some((b"apple".to_vec(), 3)));
///     assert_eq!(prices.last(tx)?, Some((b"date".to_vec(), 7)));
///     assert!(prices.contains_key(tx, "banana")? && !prices.contains_key(tx, "plum")?);
///     // What is found is a copy, and an error of its own: another transaction may have changed what was read.
///     let mut sum = 0;
///     for pair in prices.range(tx, "b".."d")? {
///         let (_fruit, price) = pair?;
///         sum += price;
///     }
///     assert_eq!(sum, 13);
///     let dear = prices.iter(tx)?.rev().find(|pair| !matches!(pair, Ok((_, ..=4))));
///     assert_eq!(dear.transpose()?, Some((b"date".to_vec(), 7)));
///     prices.clear(tx)?;
///     assert!(prices.is_empty(tx)?);
///     Ok::<_, Error>(())
/// })?;
/// # Ok::<(), Error>(()) })?;
/// # Ok::<(), Error>(())
/// ```
#[derive(Persist)]
#[persist(name = "tembo.PMap")]
pub struct PMap<'h, V> {
    len: u64,
    root: Link<'h, V>,
}

impl<V> PMap<'_, V> {
    /// An empty map.
    pub const fn new() -> Self {
        PMap { len: 0, root: None }
    }
}

impl<V> Default for PMap<'_, V> {
    fn default() -> Self {
        PMap::new()
    }
}

/// The priority of a key in the tree.
fn priority(key: &[u8]) -> u64 {
    key.iter().fold(hash(0, "priority"), |hash, byte| mix(hash, u64::from(*byte)))
}

fn key<'h, V: Persist<'h>, L: Layer>(
    tx: &mut Access<'h, L>,
    node: &Ptr<'h, MapNode<'h, V>>,
) -> Result<Vec<u8>, Error> {
    let key = tx.get(node, MapNode::KEY)?;
    tx.bytes(&key)
}

impl<'h, V: Persist<'h>> Place<'h, PMap<'h, V>> {
    /// How many keys it has.
    ///
    /// # Errors
    /// As [`Access::read`].
    pub fn len<L: Layer>(&self, tx: &mut Access<'h, L>) -> Result<u64, Error> {
        tx.at(&self.field(PMap::LEN))
    }

    /// Whether it has no key.
    ///
    /// # Errors
    /// As [`Access::read`].
    pub fn is_empty<L: Layer>(&self, tx: &mut Access<'h, L>) -> Result<bool, Error> {
        Ok(self.len(tx)? == 0)
    }

    /// The value of a key.
    ///
    /// # Errors
    /// As [`Access::read`].
    pub fn get<L: Layer>(
        &self,
        tx: &mut Access<'h, L>,
        wanted: impl AsRef<[u8]>,
    ) -> Result<Option<V>, Error> {
        let mut view = tx.view();
        let node = self.find(&mut view, wanted.as_ref(), &mut |_, _| ())?;
        node.map(|node| view.get(node, MapNode::VALUE)).transpose()
    }

    /// Whether it has a key.
    ///
    /// # Errors
    /// As [`Access::read`].
    pub fn contains_key<L: Layer>(
        &self,
        tx: &mut Access<'h, L>,
        wanted: impl AsRef<[u8]>,
    ) -> Result<bool, Error> {
        Ok(self.find(&mut tx.view(), wanted.as_ref(), &mut |_, _| ())?.is_some())
    }

    /// The node of a key. The others on the way there are passed to `each`, with where it goes on: to the right?
    fn find<'v, L: Layer>(
        &'v self,
        view: &mut View<'v, 'h, L>,
        wanted: &[u8],
        each: &mut dyn FnMut(NodeRef<'v, 'h, V>, bool),
    ) -> Result<Option<NodeRef<'v, 'h, V>>, Error> {
        let (mut at, mut depth) = (view.look_at(self)?.follow(PMap::ROOT)?, 0);
        while let Some(node) = at {
            depth = deeper(depth, node.offset())?;
            let seen = view.look(node)?;
            let (left, right) = (seen.follow(MapNode::LEFT)?, seen.follow(MapNode::RIGHT)?);
            let key = seen.follow(MapNode::KEY)?.ok_or_else(|| without_key(node))?;
            let order = view.compare(key, wanted)?;
            if order.is_eq() {
                break;
            }
            each(node, order.is_lt());
            at = if order.is_lt() { right } else { left };
        }
        Ok(at)
    }

    /// Where a key is, or what changes when it is inserted.
    fn spot<L: Layer>(&self, tx: &mut Access<'h, L>, wanted: &[u8]) -> Result<Spot<'h, V>, Error> {
        let (mut view, mut passed) = (tx.view(), Vec::with_capacity(WAY));
        let found = self.find(&mut view, wanted, &mut |node, side| passed.push((node, side)))?;
        let mut top = passed.len();
        if found.is_none() {
            let own = priority(wanted);
            while let Some(at) = top.checked_sub(1) {
                let node = passed[at].0;
                let key = view.follow(node, MapNode::KEY)?.ok_or_else(|| without_key(node))?;
                if priority(&view.bytes(key)?) >= own {
                    break;
                }
                top = at;
            }
        }
        let found = found.map(|node| view.keep(node)).transpose()?;
        let above = match top.checked_sub(1).map(|at| passed[at]) {
            Some((node, side)) => Some((view.keep(node)?, side)),
            None => None,
        };
        let mut below = Vec::with_capacity(passed.len() - top);
        for (node, side) in passed.drain(top..) {
            below.push((view.keep(node)?, side));
        }
        Ok(Spot { found, above, below, depth: top as u32 })
    }

    /// Puts a node below another one, or at the root.
    fn hang<L: Layer>(
        &self,
        tx: &mut Access<'h, L>,
        above: &Option<(Node<'h, V>, bool)>,
        node: Link<'h, V>,
    ) -> Result<(), Error> {
        match above {
            Some((above, is_right)) => tx.set(above, side(*is_right), node),
            None => tx.put(&self.field(PMap::ROOT), node),
        }
    }

    /// Gives a key a value; the one before.
    ///
    /// # Errors
    /// As [`Access::alloc`].
    pub fn insert<L: Layer>(
        &self,
        tx: &mut Access<'h, L>,
        key: impl AsRef<[u8]>,
        value: V,
    ) -> Result<Option<V>, Error> {
        let wanted = key.as_ref();
        let Spot { found, above, below, .. } = self.spot(tx, wanted)?;
        if let Some(node) = found {
            let before = tx.get(&node, MapNode::VALUE)?;
            tx.set(&node, MapNode::VALUE, value)?;
            return Ok(Some(before));
        }
        // From these on what was passed goes below the new node: what is less to its left, the rest to its right.
        let first = |is_less: bool| {
            let first = below.iter().find(|(_, is_right)| *is_right == is_less);
            first.map(|(node, _)| node.clone())
        };
        let key = tx.alloc_bytes(wanted)?;
        let (left, right) = (first(true), first(false));
        let node = tx.alloc(MapNode { key, value, left, right })?;
        for (at, (node, is_right)) in below.iter().enumerate() {
            let behind = &below[at + 1..];
            let next = behind.iter().position(|(_, other)| other == is_right);
            // The next one that was passed hangs there, and behind the last one nothing.
            if next.is_some_and(|next| next > 0) || (next.is_none() && !behind.is_empty()) {
                let next = next.map(|next| behind[next].0.clone());
                tx.set(node, side(*is_right), next)?;
            }
        }
        self.hang(tx, &above, Some(node))?;
        let len = self.len(tx)?;
        tx.put(&self.field(PMap::LEN), len.saturating_add(1))?;
        Ok(None)
    }

    /// Removes a key; its value.
    ///
    /// # Errors
    /// As [`Access::read`].
    pub fn remove<L: Layer>(
        &self,
        tx: &mut Access<'h, L>,
        key: impl AsRef<[u8]>,
    ) -> Result<Option<V>, Error> {
        let Spot { found: Some(node), above, depth, .. } = self.spot(tx, key.as_ref())? else {
            return Ok(None);
        };
        let MapNode { value, left, right, .. } = tx.read(&node)?;
        let merged = merge(tx, left, right, depth)?;
        self.hang(tx, &above, merged)?;
        let len = self.len(tx)?;
        tx.put(&self.field(PMap::LEN), len.saturating_sub(1))?;
        Ok(Some(value))
    }

    /// All keys and values, in the order of the keys, and from its end (`rev`) in the other.
    ///
    /// # Errors
    /// As [`Access::read`], also of each of them; behind an error there are no more.
    pub fn iter<'v, L: Layer>(
        &'v self,
        tx: &'v mut Access<'h, L>,
    ) -> Result<impl DoubleEndedIterator<Item = Result<(Vec<u8>, V), Error>>, Error> {
        self.pairs(tx, (..).key_bounds())
    }

    /// The keys of a range and their values, in the order of the keys, and from its end (`rev`) in the other. A range that ends before
    /// it begins is empty.
    ///
    /// # Errors
    /// As [`iter`](Place::iter).
    pub fn range<'v, L: Layer>(
        &'v self,
        tx: &'v mut Access<'h, L>,
        keys: impl KeyRange,
    ) -> Result<impl DoubleEndedIterator<Item = Result<(Vec<u8>, V), Error>>, Error> {
        self.pairs(tx, keys.key_bounds())
    }

    fn pairs<'v, L: Layer>(
        &'v self,
        tx: &'v mut Access<'h, L>,
        bounds: (Bound<&[u8]>, Bound<&[u8]>),
    ) -> Result<Pairs<'v, 'h, V, L>, Error> {
        let mut view = tx.view();
        let mut seen = view.look_at(self)?;
        let tree = (seen.follow(PMap::ROOT)?, seen.get(PMap::LEN)?);
        Ok(Pairs::new(view, tree, bounds))
    }

    /// The least key, and its value.
    ///
    /// # Errors
    /// As [`Access::read`].
    pub fn first<L: Layer>(&self, tx: &mut Access<'h, L>) -> Result<Option<(Vec<u8>, V)>, Error> {
        self.iter(tx)?.next().transpose()
    }

    /// The greatest key, and its value.
    ///
    /// # Errors
    /// As [`Access::read`].
    pub fn last<L: Layer>(&self, tx: &mut Access<'h, L>) -> Result<Option<(Vec<u8>, V)>, Error> {
        self.iter(tx)?.next_back().transpose()
    }

    /// Copies of all keys and values, in the order of the keys.
    ///
    /// # Errors
    /// As [`Access::read`].
    pub fn to_vec<L: Layer>(&self, tx: &mut Access<'h, L>) -> Result<Vec<(Vec<u8>, V)>, Error> {
        self.iter(tx)?.collect()
    }

    /// Removes all keys.
    ///
    /// # Errors
    /// As [`Access::read`].
    pub fn clear<L: Layer>(&self, tx: &mut Access<'h, L>) -> Result<(), Error> {
        tx.put(self, PMap::new())
    }
}

type Node<'h, V> = Ptr<'h, MapNode<'h, V>>;

/// Where a key is, or would be. Nodes that are passed stand with where the way goes on from them: to the right?
struct Spot<'h, V> {
    found: Link<'h, V>,
    /// Below which node it is; `None`: it is at the root.
    above: Option<(Node<'h, V>, bool)>,
    /// Those that go below a new node.
    below: Vec<(Node<'h, V>, bool)>,
    depth: u32,
}

fn side<'h, V: Persist<'h>>(is_right: bool) -> Field<MapNode<'h, V>, Link<'h, V>> {
    if is_right { MapNode::RIGHT } else { MapNode::LEFT }
}

/// Nodes on a way, about.
const WAY: usize = 32;

/// Two trees as one; all keys of the first come before those of the second.
fn merge<'h, V: Persist<'h>, L: Layer>(
    tx: &mut Access<'h, L>,
    left: Link<'h, V>,
    right: Link<'h, V>,
    depth: u32,
) -> Result<Link<'h, V>, Error> {
    let (Some(one), Some(two)) = (&left, &right) else { return Ok(left.or(right)) };
    if priority(&key(tx, one)?) > priority(&key(tx, two)?) {
        let inner = tx.get(one, MapNode::RIGHT)?;
        let merged = merge(tx, inner, right.clone(), deeper(depth, one.offset())?)?;
        tx.set(one, MapNode::RIGHT, merged)?;
        Ok(left)
    } else {
        let inner = tx.get(two, MapNode::LEFT)?;
        let merged = merge(tx, left.clone(), inner, deeper(depth, two.offset())?)?;
        tx.set(two, MapNode::LEFT, merged)?;
        Ok(right)
    }
}
