//! BTree: a B-tree of integers. A key that is there is removed, another inserted.
//!
//! A node has up to 15 keys, and 7 at least but for the root. A way down splits full nodes, or fills sparse ones, before it
//! enters them, so that nothing goes back up. (Cormen et al., chapter 18, with t = 8.) It begins at the last node of which what is above
//! stays as it is; that one is sought before, by a way that only reads.

use super::hash_table::KEY;
use super::keyed::toggle;
use super::memory::{Form, Keyed, Memory, Onward, Program, Work, scattered};
use crate::keys::Random;

/// A tree, of which half the keys are there when it is filled.
pub(crate) struct Btree {
    pub(crate) keys: u64,
}

/// One insertion or removal.
pub(crate) struct BtreeToggle {
    pub(super) key: u64,
}

/// Keys of a node at most.
const FULL: usize = 15;

/// Keys of a node that is no root, at least.
const SPARSE: usize = 7;

/// Words of a node: its length and kind, and its keys.
const WORDS: usize = FULL + 1;

/// Links of a node.
const LINKS: usize = FULL + 1;

const LEAF: u64 = 1 << 32;

const ROOT: usize = 0;

/// The words of a node.
#[derive(Clone, Copy)]
struct Node {
    data: [u64; WORDS],
}

impl Node {
    fn new(is_leaf: bool, keys: &[u64]) -> Node {
        let mut node = Node { data: [0; WORDS] };
        node.data[0] = if is_leaf { LEAF } else { 0 };
        node.data[1..=keys.len()].copy_from_slice(keys);
        node.data[0] += keys.len() as u64;
        node
    }

    fn is_leaf(&self) -> bool {
        self.data[0] & LEAF != 0
    }

    fn keys(&self) -> &[u64] {
        &self.data[1..=(self.data[0] & !LEAF) as usize]
    }

    fn len(&self) -> usize {
        self.keys().len()
    }

    fn insert(&mut self, at: usize, key: u64) {
        let len = self.len();
        self.data.copy_within(at + 1..=len, at + 2);
        self.data[at + 1] = key;
        self.data[0] += 1;
    }

    fn remove(&mut self, at: usize) -> u64 {
        let (key, len) = (self.data[at + 1], self.len());
        self.data.copy_within(at + 2..=len, at + 1);
        self.data[len] = 0;
        self.data[0] -= 1;
        key
    }

    /// Where a key is, or would be.
    fn place(&self, key: u64) -> (usize, bool) {
        let at = self.keys().iter().take_while(|here| **here < key).count();
        (at, self.keys().get(at) == Some(&key))
    }
}

/// What is found on the way to a key.
#[derive(Default)]
struct Descent {
    /// Nodes that were passed.
    depth: usize,
    /// The last one that has room for a key more, and the last one up to the key's that can do without one; the root, if none does.
    spacious: usize,
    rich: usize,
    is_there: bool,
}

impl Descent {
    fn pass(&mut self, node: &Node, key: u64) -> Onward {
        if node.len() < FULL {
            self.spacious = self.depth;
        }
        if node.len() > SPARSE {
            self.rich = self.depth;
        }
        self.depth += 1;
        let (place, is_here) = node.place(key);
        self.is_there = is_here;
        match node.is_leaf() {
            _ if is_here => Onward::Found(self.rich),
            true => Onward::Found(self.spacious),
            false => Onward::Link(place),
        }
    }
}

/// A tree in a memory.
struct Tree<'m, M>(&'m mut M);

/// A node and what it is.
type Opened<M> = (<M as Memory<WORDS, LINKS>>::Link, Node);

impl<M: Memory<WORDS, LINKS>> Tree<'_, M> {
    fn node(&mut self, link: &M::Link) -> Result<Node, M::Fault> {
        Ok(Node { data: self.0.data(link)? })
    }

    fn put(&mut self, link: &M::Link, node: Node) -> Result<(), M::Fault> {
        self.0.set_data(link, node.data)
    }

    /// A child, of which an inner node has one more than keys.
    fn child(&mut self, of: &M::Link, at: usize) -> Result<Option<Opened<M>>, M::Fault> {
        let Some(link) = self.0.link(of, at)? else { return Ok(None) };
        let node = self.node(&link)?;
        Ok(Some((link, node)))
    }

    /// Puts a link between others, of which there are `count`.
    fn insert_link(
        &mut self,
        of: &M::Link,
        (at, count): (usize, usize),
        link: Option<M::Link>,
    ) -> Result<(), M::Fault> {
        for from in (at..count).rev() {
            let moved = self.0.link(of, from)?;
            self.0.set_link(of, from + 1, moved)?;
        }
        self.0.set_link(of, at, link)
    }

    /// Takes one of `count` links out.
    fn remove_link(
        &mut self,
        of: &M::Link,
        (at, count): (usize, usize),
    ) -> Result<Option<M::Link>, M::Fault> {
        let taken = self.0.link(of, at)?;
        for to in at..count - 1 {
            let moved = self.0.link(of, to + 1)?;
            self.0.set_link(of, to, moved)?;
        }
        self.0.set_link(of, count - 1, None)?;
        Ok(taken)
    }

    fn toggle(&mut self, key: u64) -> Result<u64, M::Fault> {
        let mut descent = Descent::default();
        let from = self.0.seek(ROOT, |data| descent.pass(&Node { data: *data }, key))?;
        match from {
            Some(from) if descent.is_there => self.remove(from, key).map(|()| 0),
            from => self.insert(from, key).map(|()| 1),
        }
    }

    /// Inserts a key below a node that has room for one more, or is the root; `None`: the tree is empty.
    fn insert(&mut self, from: Option<M::Link>, key: u64) -> Result<(), M::Fault> {
        let Some(root) = from else {
            let root = self.0.make(Node::new(true, &[key]).data, [const { None }; LINKS])?;
            return self.0.set_head(ROOT, Some(root));
        };
        let node = self.node(&root)?;
        let mut at = (root, node);
        if at.1.len() == FULL {
            let mut links = [const { None }; LINKS];
            links[0] = Some(at.0.clone());
            let top = Node::new(false, &[]);
            let above = self.0.make(top.data, links)?;
            self.0.set_head(ROOT, Some(above.clone()))?;
            let mut above = (above, top);
            self.split(&mut above, 0, at)?;
            at = above;
        }
        loop {
            let (link, node) = &mut at;
            let (mut place, _) = node.place(key);
            if node.is_leaf() {
                node.insert(place, key);
                return self.0.set_data(link, node.data);
            }
            let Some(mut child) = self.child(link, place)? else { return Ok(()) };
            if child.1.len() == FULL {
                self.split(&mut at, place, child)?;
                place += usize::from(key > at.1.keys()[place]);
                let Some(half) = self.child(&at.0, place)? else { return Ok(()) };
                child = half;
            }
            at = child;
        }
    }

    /// Splits a full child of a node that is not full.
    fn split(
        &mut self,
        (above, node): &mut Opened<M>,
        at: usize,
        (link, full): Opened<M>,
    ) -> Result<(), M::Fault> {
        let right = Node::new(full.is_leaf(), &full.keys()[SPARSE + 1..]);
        let mut links = [const { None }; LINKS];
        if !full.is_leaf() {
            for (to, moved) in links.iter_mut().take(SPARSE + 1).enumerate() {
                *moved = self.0.link(&link, SPARSE + 1 + to)?;
                self.0.set_link(&link, SPARSE + 1 + to, None)?;
            }
        }
        let made = self.0.make(right.data, links)?;
        self.put(&link, Node::new(full.is_leaf(), &full.keys()[..SPARSE]))?;
        let count = node.len() + 1;
        self.insert_link(above, (at + 1, count), Some(made))?;
        node.insert(at, full.keys()[SPARSE]);
        self.put(above, *node)
    }

    /// Removes a key that is there, below a node that can do without one, or is the root.
    fn remove(&mut self, from: M::Link, mut key: u64) -> Result<(), M::Fault> {
        let node = self.node(&from)?;
        let mut at = (from.clone(), node);
        loop {
            let (link, node) = &mut at;
            let (place, is_here) = node.place(key);
            if node.is_leaf() {
                if is_here {
                    node.remove(place);
                    self.0.set_data(link, node.data)?;
                }
                break;
            }
            let Some(next) = (if is_here {
                self.replace(&mut at, place, &mut key)?
            } else {
                self.fill(&mut at, place)?
            }) else {
                break;
            };
            at = next;
        }
        // A root without keys has one child, or none; no other node comes to that.
        let node = self.node(&from)?;
        if node.len() == 0 {
            let only = self.0.link(&from, 0)?;
            self.0.set_link(&from, 0, None)?;
            self.0.set_head(ROOT, only)?;
            self.0.free(from)?;
        }
        Ok(())
    }

    /// Puts another key in the place of one in an inner node, or moves that one down; the child in which `key` is to be
    /// removed.
    fn replace(
        &mut self,
        at: &mut Opened<M>,
        place: usize,
        key: &mut u64,
    ) -> Result<Option<Opened<M>>, M::Fault> {
        let Some(left) = self.child(&at.0, place)? else { return Ok(None) };
        let Some(right) = self.child(&at.0, place + 1)? else { return Ok(None) };
        if left.1.len() <= SPARSE && right.1.len() <= SPARSE {
            return self.merge(at, place, left, right).map(Some);
        }
        let is_left = left.1.len() > SPARSE;
        let child = if is_left { left } else { right };
        let (mut link, mut node) = child.clone();
        while !node.is_leaf() {
            let at = if is_left { node.len() } else { 0 };
            let Some(next) = self.child(&link, at)? else { return Ok(None) };
            (link, node) = next;
        }
        let nearest = if is_left { node.keys().last() } else { node.keys().first() };
        *key = nearest.copied().unwrap_or_default();
        at.1.data[place + 1] = *key;
        self.put(&at.0, at.1)?;
        Ok(Some(child))
    }

    /// The child at a place, which has more than the fewest keys when this returns.
    fn fill(&mut self, at: &mut Opened<M>, place: usize) -> Result<Option<Opened<M>>, M::Fault> {
        let Some(child) = self.child(&at.0, place)? else { return Ok(None) };
        if child.1.len() > SPARSE {
            return Ok(Some(child));
        }
        let left = match place.checked_sub(1) {
            Some(before) => self.child(&at.0, before)?,
            None => None,
        };
        if let Some(left) = left.clone().filter(|left| left.1.len() > SPARSE) {
            return self.move_right(at, place, left, child).map(Some);
        }
        let right = match place < at.1.len() {
            true => self.child(&at.0, place + 1)?,
            false => None,
        };
        if let Some(right) = right.clone().filter(|right| right.1.len() > SPARSE) {
            return self.move_left(at, place, child, right).map(Some);
        }
        match (left, right) {
            (Some(left), _) => self.merge(at, place - 1, left, child).map(Some),
            (None, Some(right)) => self.merge(at, place, child, right).map(Some),
            (None, None) => Ok(Some(child)),
        }
    }

    /// Gives a child a key of the one on its left.
    fn move_right(
        &mut self,
        (link, node): &mut Opened<M>,
        place: usize,
        (left_link, mut left): Opened<M>,
        (child_link, mut child): Opened<M>,
    ) -> Result<Opened<M>, M::Fault> {
        child.insert(0, node.keys()[place - 1]);
        if !child.is_leaf() {
            let moved = self.remove_link(&left_link, (left.len(), left.len() + 1))?;
            self.insert_link(&child_link, (0, child.len()), moved)?;
        }
        node.data[place] = left.remove(left.len() - 1);
        self.put(&left_link, left)?;
        self.put(&child_link, child)?;
        self.put(link, *node)?;
        Ok((child_link, child))
    }

    /// Gives a child a key of the one on its right.
    fn move_left(
        &mut self,
        (link, node): &mut Opened<M>,
        place: usize,
        (child_link, mut child): Opened<M>,
        (right_link, mut right): Opened<M>,
    ) -> Result<Opened<M>, M::Fault> {
        child.insert(child.len(), node.keys()[place]);
        if !child.is_leaf() {
            let moved = self.remove_link(&right_link, (0, right.len() + 1))?;
            self.0.set_link(&child_link, child.len(), moved)?;
        }
        node.data[place + 1] = right.remove(0);
        self.put(&right_link, right)?;
        self.put(&child_link, child)?;
        self.put(link, *node)?;
        Ok((child_link, child))
    }

    /// Makes one of two children and the key between them.
    fn merge(
        &mut self,
        (link, node): &mut Opened<M>,
        place: usize,
        (left_link, mut left): Opened<M>,
        (right_link, right): Opened<M>,
    ) -> Result<Opened<M>, M::Fault> {
        let count = node.len() + 1;
        self.remove_link(link, (place + 1, count))?;
        left.insert(left.len(), node.remove(place));
        if !left.is_leaf() {
            for from in 0..=right.len() {
                let moved = self.0.link(&right_link, from)?;
                self.0.set_link(&left_link, left.len() + from, moved)?;
            }
        }
        for key in right.keys() {
            left.insert(left.len(), *key);
        }
        self.put(&left_link, left)?;
        self.put(link, *node)?;
        self.0.free(right_link)?;
        Ok((left_link, left))
    }
}

impl Work<WORDS, LINKS> for BtreeToggle {
    fn run<M: Memory<WORDS, LINKS>>(&mut self, memory: &mut M) -> Result<u64, M::Fault> {
        Tree(memory).toggle(self.key)
    }

    fn run_keyed<K: Keyed>(&mut self, entries: &mut K) -> Result<u64, K::Fault> {
        toggle(entries, self.key)
    }
}

impl Program<WORDS, LINKS> for Btree {
    type Work = BtreeToggle;

    fn name(&self) -> &'static str {
        "BTree"
    }

    fn form(&self) -> Form {
        // Nodes are half full at least.
        Form { cells: 0, heads: 1, objects: self.keys as usize / SPARSE + 1 }
    }

    fn payload(&self) -> u64 {
        self.keys / 2 * KEY
    }

    fn filling(&self) -> usize {
        self.keys as usize / 2
    }

    fn fill(&self, number: usize) -> BtreeToggle {
        BtreeToggle { key: scattered(number as u64, self.keys) }
    }

    fn work(&self, _number: u64, random: &mut Random) -> BtreeToggle {
        BtreeToggle { key: random.below(self.keys) }
    }
}

/// What is asserted of a tree in tests.
#[cfg(test)]
pub(super) struct BtreeCheck {
    /// Its keys, in their order.
    pub(super) keys: Vec<u64>,
}

#[cfg(test)]
impl Work<WORDS, LINKS> for BtreeCheck {
    fn run<M: Memory<WORDS, LINKS>>(&mut self, memory: &mut M) -> Result<u64, M::Fault> {
        self.keys.clear();
        match memory.head(ROOT)? {
            Some(root) => Tree(memory).check(&root, true, &mut self.keys),
            None => Ok(0),
        }
    }

    fn run_keyed<K: Keyed>(&mut self, _entries: &mut K) -> Result<u64, K::Fault> {
        Ok(0)
    }
}

#[cfg(test)]
impl<M: Memory<WORDS, LINKS>> Tree<'_, M> {
    /// The height, which is the same on each way down.
    fn check(
        &mut self,
        link: &M::Link,
        is_root: bool,
        keys: &mut Vec<u64>,
    ) -> Result<u64, M::Fault> {
        let node = self.node(link)?;
        assert!(is_root || node.len() >= SPARSE);
        if node.is_leaf() {
            keys.extend(node.keys());
            return Ok(1);
        }
        let mut heights = Vec::new();
        for at in 0..=node.len() {
            let child = self.0.link(link, at)?;
            heights.push(self.check(&child.unwrap(), false, keys)?);
            keys.extend(node.keys().get(at));
        }
        for at in node.len() + 1..LINKS {
            assert!(self.0.link(link, at)?.is_none(), "nothing refers to what is gone");
        }
        assert!(heights.iter().all(|height| *height == heights[0]));
        Ok(heights[0] + 1)
    }
}
