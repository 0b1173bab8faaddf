//! An ordered map from bytes.

use std::cmp::Ordering;

use crate::{Access, Bytes, Error, Layer, Persist, Place, Ptr, hash, mix};

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
        let mut at = tx.at(&self.field(PMap::ROOT))?;
        while let Some(node) = at {
            at = match wanted.as_ref().cmp(&key(tx, &node)?) {
                Ordering::Less => tx.get(&node, MapNode::LEFT)?,
                Ordering::Greater => tx.get(&node, MapNode::RIGHT)?,
                Ordering::Equal => return tx.get(&node, MapNode::VALUE).map(Some),
            };
        }
        Ok(None)
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
        let PMap { len, root } = tx.at(self)?;
        let (root, before) = insert(tx, root, key.as_ref(), value, 0)?;
        let len = len + u64::from(before.is_none());
        tx.put(self, PMap { len, root: Some(root) })?;
        Ok(before)
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
        let PMap { len, root } = tx.at(self)?;
        let (root, before) = remove(tx, root, key.as_ref(), 0)?;
        if before.is_some() {
            tx.put(self, PMap { len: len.saturating_sub(1), root })?;
        }
        Ok(before)
    }

    /// Copies of all keys and values, in the order of the keys.
    ///
    /// # Errors
    /// As [`Access::read`].
    pub fn to_vec<L: Layer>(&self, tx: &mut Access<'h, L>) -> Result<Vec<(Vec<u8>, V)>, Error> {
        let (mut all, mut path) = (Vec::new(), Vec::new());
        let mut at = tx.at(&self.field(PMap::ROOT))?;
        loop {
            while let Some(node) = at {
                at = tx.get(&node, MapNode::LEFT)?;
                path.push(node);
            }
            let Some(node) = path.pop() else { return Ok(all) };
            let name = key(tx, &node)?;
            all.push((name, tx.get(&node, MapNode::VALUE)?));
            at = tx.get(&node, MapNode::RIGHT)?;
        }
    }
}

type Node<'h, V> = Ptr<'h, MapNode<'h, V>>;

/// How deep a tree can be. The expected depth of 2⁶⁴ keys is below 200; only a damaged tree, or keys that are made for it, are
/// deeper, and would take all of the thread's stack.
const DEPTH_MAX: u32 = 1024;

fn deeper<V>(depth: u32, at: &Node<'_, V>) -> Result<u32, Error> {
    let damaged = Error::Damaged { what: "the depth of a map", offset: at.offset() };
    if depth < DEPTH_MAX { Ok(depth + 1) } else { Err(damaged) }
}

fn insert<'h, V: Persist<'h>, L: Layer>(
    tx: &mut Access<'h, L>,
    at: Link<'h, V>,
    wanted: &[u8],
    value: V,
    depth: u32,
) -> Result<(Node<'h, V>, Option<V>), Error> {
    let Some(node) = at else {
        let key = tx.alloc_bytes(wanted)?;
        return Ok((tx.alloc(MapNode { key, value, left: None, right: None })?, None));
    };
    let own = key(tx, &node)?;
    let (side, other) = match wanted.cmp(&own) {
        Ordering::Equal => {
            let before = tx.get(&node, MapNode::VALUE)?;
            tx.set(&node, MapNode::VALUE, value)?;
            return Ok((node, Some(before)));
        }
        Ordering::Less => (MapNode::LEFT, MapNode::RIGHT),
        Ordering::Greater => (MapNode::RIGHT, MapNode::LEFT),
    };
    let child = tx.get(&node, side)?;
    let (child, before) = insert(tx, child, wanted, value, deeper(depth, &node)?)?;
    if priority(&key(tx, &child)?) > priority(&own) {
        let inner = tx.get(&child, other)?;
        tx.set(&node, side, inner)?;
        tx.set(&child, other, Some(node))?;
        return Ok((child, before));
    }
    tx.set(&node, side, Some(child))?;
    Ok((node, before))
}

#[allow(clippy::type_complexity)]
fn remove<'h, V: Persist<'h>, L: Layer>(
    tx: &mut Access<'h, L>,
    at: Link<'h, V>,
    wanted: &[u8],
    depth: u32,
) -> Result<(Link<'h, V>, Option<V>), Error> {
    let Some(node) = at else { return Ok((None, None)) };
    let side = match wanted.cmp(&key(tx, &node)?) {
        Ordering::Equal => {
            let MapNode { value, left, right, .. } = tx.read(&node)?;
            return Ok((merge(tx, left, right, depth)?, Some(value)));
        }
        Ordering::Less => MapNode::LEFT,
        Ordering::Greater => MapNode::RIGHT,
    };
    let child = tx.get(&node, side)?;
    let (child, before) = remove(tx, child, wanted, deeper(depth, &node)?)?;
    if before.is_some() {
        tx.set(&node, side, child)?;
    }
    Ok((Some(node), before))
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
        let merged = merge(tx, inner, right.clone(), deeper(depth, one)?)?;
        tx.set(one, MapNode::RIGHT, merged)?;
        Ok(left)
    } else {
        let inner = tx.get(two, MapNode::LEFT)?;
        let merged = merge(tx, left.clone(), inner, deeper(depth, two)?)?;
        tx.set(two, MapNode::LEFT, merged)?;
        Ok(right)
    }
}
