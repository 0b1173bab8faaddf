//! An ordered map from bytes.

use crate::{Access, Bytes, Error, Field, Layer, Persist, Place, Ptr, Ref, View, hash, mix};

#[derive(Persist)]
#[persist(name = "tembo.PMap.node")]
pub(crate) struct MapNode<'h, V> {
    key: Ptr<'h, Bytes>,
    value: V,
    left: Link<'h, V>,
    right: Link<'h, V>,
}

type Link<'h, V> = Option<Ptr<'h, MapNode<'h, V>>>;

/// A map from bytes, or texts, in their order. (A treap, Seidel and Aragon 1996, whose priorities are hashes of the keys: the same keys
/// always make the same tree.) An operation needs about 2 · log₂ of the number of its keys steps.
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

    /// Copies of all keys and values, in the order of the keys.
    ///
    /// # Errors
    /// As [`Access::read`].
    pub fn to_vec<L: Layer>(&self, tx: &mut Access<'h, L>) -> Result<Vec<(Vec<u8>, V)>, Error> {
        let (mut view, mut all, mut path) = (tx.view(), Vec::new(), Vec::new());
        let mut at = view.look_at(self)?.follow(PMap::ROOT)?;
        loop {
            while let Some(node) = at {
                deeper(path.len() as u32, node.offset())?;
                at = view.follow(node, MapNode::LEFT)?;
                path.push(node);
            }
            let Some(node) = path.pop() else { return Ok(all) };
            let key = view.follow(node, MapNode::KEY)?.ok_or_else(|| without_key(node))?;
            let name = view.bytes(key)?;
            all.push((name, view.get(node, MapNode::VALUE)?));
            at = view.follow(node, MapNode::RIGHT)?;
        }
    }
}

type Node<'h, V> = Ptr<'h, MapNode<'h, V>>;

type NodeRef<'v, 'h, V> = Ref<'v, 'h, MapNode<'h, V>>;

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

/// How deep a tree can be. The expected depth of 2⁶⁴ keys is below 200; only a damaged tree, or keys that are made for it, are
/// deeper, and would take all of the thread's stack.
const DEPTH_MAX: u32 = 1024;

/// Nodes on a way, about.
const WAY: usize = 32;

fn deeper(depth: u32, offset: u64) -> Result<u32, Error> {
    let damaged = Error::Damaged { what: "the depth of a map", offset };
    if depth < DEPTH_MAX { Ok(depth + 1) } else { Err(damaged) }
}

fn without_key<V>(node: NodeRef<'_, '_, V>) -> Error {
    Error::Damaged { what: "a key", offset: node.offset() }
}

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
