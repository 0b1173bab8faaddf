//! The inner nodes: which leaf covers a key. Volatile; rebuilt from the leaves' low keys.
//!
//! A B+-tree whose separators are the low keys of leaves. A node has up to 64 children; child `i`
//! covers the keys at or above separator `i`, and separator 0 equals the separator by which the
//! parent knows the node, so a search that comes to a node never looks at it. (On the leftmost path
//! separator 0 is below every key.)
//!
//! **A node holds no keys, only heads**: the eight bytes of each separator behind the node's prefix,
//! which all separators but the first share. A search that a head cannot decide reads the separator
//! where it lies, in the leaf whose low key it is ([`Lows`]). The prefix is empty until two heads are
//! equal; then it becomes as long as it can be, and shrinks when a separator without it comes.
//!
//! **Readers take no lock** (optimistic lock coupling: Leis, Scheibner, Kemper, Neumann, *The ART of
//! practical synchronization*, DaMoN 2016). Each node has a sequence, odd while it changes. A reader notes it, reads,
//! and believes what it read when the sequence is still the same; before it trusts a child it has
//! read the child's sequence and found the parent unchanged. What it reads meanwhile may be torn, so
//! nothing of it is followed without a check. A node that is unlinked is used again: its sequence
//! goes on, so the thread that is still in it finds out.
//!
//! **Writers** take one lock for the whole tree, for they come once in some twenty inserts into
//! leaves. They compute all nodes that they change beside the tree, where errors leave it as it is,
//! then make all their sequences odd, copy, and make them even: a reader sees every one of
//! these nodes as it was, or every one as it is.
//!
//! **The token** that a search returns is the bottom node and its sequence. A leaf's range changes
//! only with its bottom node: the thread that splits or merges leaves does it while it holds their locks, and
//! publishes it to the inner nodes before it lets go. So a reader that has (1) found a leaf, (2) read the leaf's
//! sequence, even, and (3) found the token [still](Token::still) good, knows that at that sequence the
//! leaf covered the key.
//!
//! # Modules
//! ```text
//!   inner.rs    Inner: the nodes, and the lock of their writers
//!     |
//!   load, change, abreast     made of all leaves; changed by one; searched for many keys
//!     |
//!   nodes       the way down, and the token
//!     |
//!   arena       the memory of nodes
//!   node        one node; content: what is in it, as a value
//!   low         low keys, which separate
//! ```

mod abreast;
mod arena;
mod change;
mod content;
mod load;
mod low;
mod node;
mod nodes;
#[cfg(test)]
mod tests;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tembo_pmem::thread::lock;

pub(crate) use self::arena::Arena;
use self::change::Changer;
pub(crate) use self::low::{LeafId, Lows};
use self::nodes::Nodes;
pub(crate) use self::nodes::Token;
use crate::key::KeyBytes;
use crate::{Error, Place};

/// The volatile part of an NV-Tree above its leaves.
pub(crate) struct Inner {
    nodes: Nodes,
    changer: Mutex<Changer>,
}

impl Drop for Inner {
    /// Gives the nodes back. No thread reads them any more.
    fn drop(&mut self) {
        let changer = self.changer.get_mut().unwrap_or_else(PoisonError::into_inner);
        let mut ids = std::mem::take(&mut changer.free);
        ids.extend(self.nodes.ids());
        self.nodes.arena.give(ids);
    }
}

impl Inner {
    /// The inner nodes of one leaf.
    #[cfg(test)]
    pub(crate) fn new(first: LeafId) -> Result<Inner, Error> {
        let arena = Arc::new(Arena::new(1 << 16, 0)?);
        Inner::load(arena, std::iter::once(Ok((first, [].as_slice()))))
    }

    /// Makes the inner nodes of these leaves, which come with their low keys, in order. The low key of the first leaf
    /// does not matter: that leaf covers all keys below the second's low key.
    ///
    /// # Errors
    /// Those of the iterator; [`Error::Damaged`] if the leaves are not in order or if there is none.
    pub(crate) fn load<'l>(
        arena: Arc<Arena>,
        leaves: impl Iterator<Item = Result<(LeafId, impl Into<KeyBytes<'l>>), Error>>,
    ) -> Result<Inner, Error> {
        let (root, changer) = load::load(&arena, leaves)?;
        Ok(Inner { nodes: Nodes::new(arena, root), changer: Mutex::new(changer) })
    }

    /// The leaf that covers `key`, and the token by which to ask later whether that is still so.
    ///
    /// # Errors
    /// Those of `lows`.
    #[inline]
    pub(crate) fn find(&self, key: &[u8], lows: &impl Lows) -> Result<(LeafId, Token<'_>), Error> {
        self.nodes.find(key, lows)
    }

    /// As `find`, for a key whose first eight bytes are `front`. `None`: a writer changes a node on the way, or heads alone
    /// do not decide.
    #[inline(always)]
    pub(crate) fn find_by_heads(&self, key: &[u8], front: u64) -> Option<(LeafId, Token<'_>)> {
        self.nodes.find_by_heads(key, front)
    }

    /// As `find_by_heads`; also `None` if the first eight bytes do not decide at each node.
    #[inline(always)]
    pub(crate) fn find_by_front(&self, front: u64) -> Option<(LeafId, Token<'_>)> {
        self.nodes.find_by_front(front)
    }

    /// Appends to `found` what [`find`](Self::find) says of each of the `keys`, which are looked for side
    /// by side.
    ///
    /// # Errors
    /// Those of `lows`.
    pub(crate) fn find_abreast<'t>(
        &'t self,
        keys: &[&[u8]],
        lows: &impl Lows,
        found: &mut Vec<(LeafId, Token<'t>)>,
    ) -> Result<(), Error> {
        abreast::find_abreast(&self.nodes, keys, lows, found)
    }

    /// The place that a search has found.
    #[inline]
    pub(crate) fn place(&self, leaf: LeafId, token: Token<'_>) -> Place {
        self.nodes.place(leaf, token)
    }

    /// The leaf of a place, and the token of the search that has found it. `None`: the place names none.
    #[inline]
    pub(crate) fn found(&self, place: Place) -> Option<(LeafId, Token<'_>)> {
        self.nodes.found(place)
    }

    /// Some of the leaves behind the one that covers `key`, as far as the same node knows them: a hint, which may be
    /// outdated.
    pub(crate) fn behind<const COUNT: usize>(
        &self,
        key: &[u8],
        lows: &impl Lows,
    ) -> [Option<LeafId>; COUNT] {
        self.nodes.behind(key, lows)
    }

    /// The last leaf whose low key is below `key`. It comes next in a backward scan that has read
    /// the leaf with the low key `key`.
    ///
    /// # Errors
    /// Those of `lows`.
    pub(crate) fn before(
        &self,
        key: &[u8],
        lows: &impl Lows,
    ) -> Result<Option<(LeafId, Token<'_>)>, Error> {
        self.nodes.before(key, lows)
    }

    /// The last leaf.
    ///
    /// # Errors
    /// Those of `lows`.
    pub(crate) fn last(&self, lows: &impl Lows) -> Result<(LeafId, Token<'_>), Error> {
        self.nodes.last(lows)
    }

    /// Publishes that `leaf`, whose low key is `low`, covers the upper part of the range of the leaf before it.
    /// The caller holds the lock of that leaf, and `lows` knows the new one. Readers see it on return.
    /// Does nothing if that was said before.
    ///
    /// # Errors
    /// Those of `lows`; [`Error::Damaged`] if there is another leaf of that low key, and [`Error::Pool`] if
    /// there cannot be so many nodes. Nothing has changed then.
    pub(crate) fn insert(&self, low: &[u8], leaf: LeafId, lows: &impl Lows) -> Result<(), Error> {
        self.changer().insert(&self.nodes, (low, leaf), lows)
    }

    /// As `insert`, for leaves that were there before and are published in the order of their low keys.
    ///
    /// # Errors
    /// As of `insert`.
    pub(crate) fn learn(&self, low: &[u8], leaf: LeafId, lows: &impl Lows) -> Result<(), Error> {
        self.changer().learn(&self.nodes, (low, leaf), lows)
    }

    /// Publishes that `leaf`, whose low key is `low` and which is not the first, was merged: the leaf before it
    /// covers its range. The caller holds the locks of both. Readers see it on return.
    ///
    /// # Errors
    /// Those of `lows`, and [`Error::Damaged`] if there is no such leaf. Nothing has changed then.
    pub(crate) fn remove(&self, low: &[u8], leaf: LeafId, lows: &impl Lows) -> Result<(), Error> {
        self.changer().remove(&self.nodes, (low, leaf), lows)
    }

    /// How many leaves there are.
    pub(crate) fn leaf_count(&self) -> usize {
        self.changer().leaves
    }

    /// How many inner nodes there are.
    pub(crate) fn node_count(&self) -> usize {
        self.changer().nodes
    }

    /// Levels of inner nodes, at least one.
    pub(crate) fn height(&self) -> usize {
        let _changer = self.changer();
        self.nodes.height()
    }

    fn changer(&self) -> MutexGuard<'_, Changer> {
        // Poison is ignored: no code panics between closing nodes and opening them.
        lock(&self.changer)
    }
}
