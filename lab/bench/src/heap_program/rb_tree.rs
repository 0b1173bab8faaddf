//! RBTree: a red-black tree of integers. A key that is there is removed, another inserted.
//!
//! Without pointers to parents: the way down is kept while a change is made. (Cormen et al., chapter 13.)

use super::hash_table::KEY;
use super::keyed::toggle;
use super::memory::{Form, Keyed, Memory, Program, Work, scattered};
use crate::keys::Random;

/// A tree, of which half the keys are there when it is filled.
pub(crate) struct RbTree {
    pub(crate) keys: u64,
}

/// One insertion or removal.
pub(crate) struct RbToggle {
    pub(super) key: u64,
}

const ROOT: usize = 0;
const KEY_WORD: usize = 0;
const COLOUR: usize = 1;
const BLACK: u64 = 0;
const RED: u64 = 1;

/// Nodes on the way down, each with the side that it went on.
type Way<Link> = Vec<(Link, usize)>;

/// A tree in a memory.
struct Tree<'m, M>(&'m mut M);

impl<M: Memory<2, 2>> Tree<'_, M> {
    fn is_red(&mut self, node: &Option<M::Link>) -> Result<bool, M::Fault> {
        match node {
            Some(node) => Ok(self.0.word(node, COLOUR)? == RED),
            None => Ok(false),
        }
    }

    fn paint(&mut self, node: &M::Link, colour: u64) -> Result<(), M::Fault> {
        self.0.set_word(node, COLOUR, colour)
    }

    /// Puts a node where the first `depth` steps of the way lead.
    fn hang(
        &mut self,
        way: &Way<M::Link>,
        depth: usize,
        node: Option<M::Link>,
    ) -> Result<(), M::Fault> {
        match depth.checked_sub(1).and_then(|last| way.get(last)) {
            Some((parent, side)) => self.0.set_link(parent, *side, node),
            None => self.0.set_head(ROOT, node),
        }
    }

    /// Lets a node go down on a side: the child `top` of the other side goes up, and is to be hung up.
    fn rotate(&mut self, node: &M::Link, side: usize, top: &M::Link) -> Result<(), M::Fault> {
        let inner = self.0.link(top, side)?;
        self.0.set_link(node, 1 - side, inner)?;
        self.0.set_link(top, side, Some(node.clone()))
    }

    fn toggle(&mut self, key: u64) -> Result<u64, M::Fault> {
        let side = |[here, _]: &[u64; 2]| (*here != key).then(|| usize::from(key > *here));
        let (way, found) = self.0.way(ROOT, side)?;
        if let Some(node) = found {
            self.remove(way, node)?;
            return Ok(0);
        }
        let node = self.0.make([key, RED], [None, None])?;
        self.hang(&way, way.len(), Some(node))?;
        self.mend_red(&way)?;
        Ok(1)
    }

    /// A red node hangs at the end of the way.
    fn mend_red(&mut self, way: &Way<M::Link>) -> Result<(), M::Fault> {
        let mut depth = way.len();
        while depth >= 2 {
            let ((parent, inner), (grand, side)) = (&way[depth - 1], &way[depth - 2]);
            if self.0.word(parent, COLOUR)? == BLACK {
                return Ok(());
            }
            let uncle = self.0.link(grand, 1 - side)?;
            if let Some(uncle) = uncle
                && self.0.word(&uncle, COLOUR)? == RED
            {
                self.paint(parent, BLACK)?;
                self.paint(&uncle, BLACK)?;
                self.paint(grand, RED)?;
                depth -= 2;
                continue;
            }
            let mut top = parent.clone();
            if inner != side
                && let Some(child) = self.0.link(parent, *inner)?
            {
                self.rotate(parent, *side, &child)?;
                self.0.set_link(grand, *side, Some(child.clone()))?;
                top = child;
            }
            self.paint(&top, BLACK)?;
            self.paint(grand, RED)?;
            self.rotate(grand, 1 - side, &top)?;
            return self.hang(way, depth - 2, Some(top));
        }
        if depth == 0
            && let Some(root) = self.0.head(ROOT)?
            && self.0.word(&root, COLOUR)? == RED
        {
            self.paint(&root, BLACK)?;
        }
        Ok(())
    }

    /// Removes the node to which the way leads.
    fn remove(&mut self, mut way: Way<M::Link>, node: M::Link) -> Result<(), M::Fault> {
        let (left, right) = (self.0.link(&node, 0)?, self.0.link(&node, 1)?);
        let (gone, child) = match (left, right) {
            (Some(_), Some(right)) => {
                // Its successor goes in its place, and has no left child.
                way.push((node.clone(), 1));
                let mut least = right;
                while let Some(left) = self.0.link(&least, 0)? {
                    way.push((least, 0));
                    least = left;
                }
                let key = self.0.word(&least, KEY_WORD)?;
                self.0.set_word(&node, KEY_WORD, key)?;
                let child = self.0.link(&least, 1)?;
                (least, child)
            }
            (left, right) => (node, left.or(right)),
        };
        let was_black = self.0.word(&gone, COLOUR)? == BLACK;
        self.hang(&way, way.len(), child.clone())?;
        self.0.free(gone)?;
        match child {
            Some(child) if was_black => self.paint(&child, BLACK),
            None if was_black => self.mend_black(way),
            _ => Ok(()),
        }
    }

    /// Where the way leads a black node is missing.
    fn mend_black(&mut self, mut way: Way<M::Link>) -> Result<(), M::Fault> {
        let mut depth = way.len();
        while depth > 0 {
            let (parent, side) = way[depth - 1].clone();
            let Some(mut sibling) = self.0.link(&parent, 1 - side)? else { return Ok(()) };
            if self.0.word(&sibling, COLOUR)? == RED {
                self.paint(&sibling, BLACK)?;
                self.paint(&parent, RED)?;
                self.rotate(&parent, side, &sibling)?;
                self.hang(&way, depth - 1, Some(sibling.clone()))?;
                way.truncate(depth - 1);
                way.extend([(sibling, side), (parent.clone(), side)]);
                depth += 1;
                let Some(next) = self.0.link(&parent, 1 - side)? else { return Ok(()) };
                sibling = next;
            }
            let (near, mut far) = (self.0.link(&sibling, side)?, self.0.link(&sibling, 1 - side)?);
            if !self.is_red(&near)? && !self.is_red(&far)? {
                self.paint(&sibling, RED)?;
                if self.0.word(&parent, COLOUR)? == RED {
                    return self.paint(&parent, BLACK);
                }
                depth -= 1;
                continue;
            }
            if !self.is_red(&far)?
                && let Some(near) = near
            {
                self.paint(&near, BLACK)?;
                self.paint(&sibling, RED)?;
                self.rotate(&sibling, 1 - side, &near)?;
                self.0.set_link(&parent, 1 - side, Some(near.clone()))?;
                far = Some(std::mem::replace(&mut sibling, near));
            }
            let colour = self.0.word(&parent, COLOUR)?;
            self.paint(&sibling, colour)?;
            self.paint(&parent, BLACK)?;
            if let Some(far) = far {
                self.paint(&far, BLACK)?;
            }
            self.rotate(&parent, side, &sibling)?;
            return self.hang(&way, depth - 1, Some(sibling));
        }
        Ok(())
    }
}

impl Work<2, 2> for RbToggle {
    fn run<M: Memory<2, 2>>(&mut self, memory: &mut M) -> Result<u64, M::Fault> {
        Tree(memory).toggle(self.key)
    }

    fn run_keyed<K: Keyed>(&mut self, entries: &mut K) -> Result<u64, K::Fault> {
        toggle(entries, self.key)
    }
}

impl Program<2, 2> for RbTree {
    type Work = RbToggle;

    fn name(&self) -> &'static str {
        "RBTree"
    }

    fn form(&self) -> Form {
        Form { cells: 0, heads: 1, objects: self.keys as usize }
    }

    fn payload(&self) -> u64 {
        self.keys / 2 * KEY
    }

    fn filling(&self) -> usize {
        self.keys as usize / 2
    }

    fn fill(&self, number: usize) -> RbToggle {
        RbToggle { key: scattered(number as u64, self.keys) }
    }

    fn work(&self, _number: u64, random: &mut Random) -> RbToggle {
        RbToggle { key: random.below(self.keys) }
    }
}

/// What is asserted of a tree in tests.
#[cfg(test)]
pub(super) struct RbCheck {
    /// Its keys, in their order.
    pub(super) keys: Vec<u64>,
}

#[cfg(test)]
impl Work<2, 2> for RbCheck {
    fn run<M: Memory<2, 2>>(&mut self, memory: &mut M) -> Result<u64, M::Fault> {
        let mut tree = Tree(memory);
        let root = tree.0.head(ROOT)?;
        assert!(!tree.is_red(&root)?, "the root is black");
        self.keys.clear();
        tree.check(&root, &mut self.keys)
    }

    fn run_keyed<K: Keyed>(&mut self, _entries: &mut K) -> Result<u64, K::Fault> {
        Ok(0)
    }
}

#[cfg(test)]
impl<M: Memory<2, 2>> Tree<'_, M> {
    /// Black nodes on each way down, which is the same on all; no red node has a red child.
    fn check(&mut self, node: &Option<M::Link>, keys: &mut Vec<u64>) -> Result<u64, M::Fault> {
        let Some(node) = node else { return Ok(1) };
        let [key, colour] = self.0.data(node)?;
        let (left, right) = (self.0.link(node, 0)?, self.0.link(node, 1)?);
        let has_red_child = self.is_red(&left)? || self.is_red(&right)?;
        assert!(colour == BLACK || !has_red_child);
        let of_left = self.check(&left, keys)?;
        keys.push(key);
        let of_right = self.check(&right, keys)?;
        assert_eq!(of_left, of_right);
        Ok(of_left + u64::from(colour == BLACK))
    }
}
