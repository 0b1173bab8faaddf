//! Opening: inner nodes that do not know all leaves yet, and how they come to know them.
//!
//! # The idea
//! The inner nodes are made when something first looks for a key: of the first leaf of each page of the hint
//! (`hint.rs`), or, where there is no hint, of the whole list (`headers.rs`). From then on they are used; that leaves are
//! missing means only that a search can end too far to the left. So as long as they are
//! not *whole*, the thread that has found a leaf asks the next leaf's low key whether that leaf covers its key
//! too. If so, it tells the inner nodes what the page of the hint has, once for each page, walks right
//! over what the hint did not know, telling that too, and looks again. The mark, which
//! passes every leaf, makes them whole in the background.
//!
//! # Why a search meanwhile is right
//! A leaf that the inner nodes name is in the list: no leaf is unlinked before they are whole
//! (`collect.rs` makes them so first). If the next leaf's low key is above the key, and the leaf's sequence is
//! the same before and after that was read, the leaf covered the key at that time; inner nodes that know
//! more cannot say anything else.
//!
//! # Why nothing stays unknown
//! A split tells the inner nodes of the new leaf before it lets go of the old one. A leaf that the
//! mark's walk has passed is known, and one that was split off behind the walk has been told. One that is
//! linked but not yet told when the walk ends hangs on a leaf that is locked: a reader waits there, and
//! finds then that the inner nodes have changed. Walk and split may both tell of the same leaf.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard};

use tembo_pmem::thread::lock;

use super::NvTree;
use super::headers::all_leaves;
use super::hint::Directory;
use super::inner::{Inner, LeafId, Lows, Token};
use super::leaf::Leaf;
use super::side::Moment;
use crate::error::damaged;
use crate::key::KeyBytes;
use crate::{Error, Forest};

/// Pages to the left and to the right whose first leaves can be in the same inner node.
const NEAR: usize = 64;

/// How far the inner nodes know the leaves.
#[derive(Default)]
pub(crate) struct Opening {
    is_whole: AtomicBool,
    /// The hint, as long as they do not know all of it.
    hint: Mutex<Option<Unread>>,
}

/// A hint of which not all pages were read.
struct Unread {
    directory: Directory,
    /// By page.
    read: Vec<bool>,
}

/// What a search wants the last of: leaves with low keys...
#[derive(Clone, Copy)]
pub(super) enum Reach<'k> {
    /// not above the key.
    At(&'k [u8]),
    /// below the key.
    Below(&'k [u8]),
    /// at all.
    End,
}

impl Reach<'_> {
    fn is_passed(self, low: KeyBytes<'_>) -> bool {
        match self {
            Reach::At(key) => low.compare(key).is_le(),
            Reach::Below(key) => low.compare(key).is_lt(),
            Reach::End => true,
        }
    }
}

impl Opening {
    /// Whether the inner nodes know every leaf: to be asked before they are.
    #[inline]
    pub(super) fn is_whole(&self) -> bool {
        self.is_whole.load(Ordering::Acquire)
    }

    fn lock(&self) -> MutexGuard<'_, Option<Unread>> {
        lock(&self.hint)
    }

    fn set_whole(&self, hint: &mut Option<Unread>) {
        *hint = None;
        self.is_whole.store(true, Ordering::Release);
    }
}

impl NvTree {
    /// Makes the inner nodes, of the hint if there is one.
    #[cold]
    pub(super) fn make_inner(&self) -> Result<&Inner, Error> {
        let mut hint = self.opening.lock();
        if let Some(inner) = self.inner.get() {
            return Ok(inner);
        }
        let first = Leaf::of(&self.forest, self.first()?)?;
        if !first.low()?.is_empty() {
            // A walk to the left ends at the first leaf by its low key, which is empty.
            return damaged(first.offset(), "a first leaf without a low key");
        }
        let begins_so = |hinted: &Directory| hinted.firsts.iter().next() == Some((first.id, &[]));
        let directory = self.hint_directory()?.filter(begins_so);
        let inner = match directory {
            Some(directory) => {
                let inner =
                    Inner::load(self.forest.nodes.clone(), directory.firsts.iter().map(Ok))?;
                self.hinted.set(directory.leaf_count as usize);
                self.forest.expect_leaves(directory.leaf_count as usize);
                let read = vec![false; directory.pages.len()];
                *hint = Some(Unread { directory, read });
                inner
            }
            None => {
                let inner =
                    Inner::load(self.forest.nodes.clone(), all_leaves(&self.forest, first.id)?)?;
                self.forest.expect_leaves(inner.leaf_count());
                self.opening.set_whole(&mut hint);
                inner
            }
        };
        Ok(self.inner.get_or_init(|| Box::new(inner)))
    }

    /// Tells the inner nodes of a leaf, which a walk may have done before.
    pub(super) fn publish(&self, low: &[u8], leaf: LeafId) -> Result<(), Error> {
        self.inner()?.insert(low, leaf, &*self.forest)
    }

    /// Whether a leaf that was found for the key covers it; else the inner nodes know more on return. To
    /// be asked if the inner nodes were not whole before the leaf was found.
    #[cold]
    pub(super) fn covers(
        &self,
        leaf: &Leaf<'_>,
        moment: Moment,
        key: &[u8],
    ) -> Result<bool, Error> {
        let reach = Reach::At(key);
        match leaf.high() {
            Ok(high) if !high.is_some_and(|high| reach.is_passed(high)) => {
                return Ok(leaf.side.still(moment));
            }
            Err(error) if leaf.side.still(moment) => return Err(error),
            _ => {}
        }
        self.reach_out(leaf, reach)?;
        Ok(false)
    }

    /// The last leaf whose low key is below the key, or the last leaf of all.
    pub(super) fn leaf_below(
        &self,
        key: Option<&[u8]>,
    ) -> Result<Option<(LeafId, Token<'_>)>, Error> {
        let reach = key.map_or(Reach::End, Reach::Below);
        self.inner()?;
        loop {
            let was_whole = self.opening.is_whole();
            let found = self.seek(reach)?;
            let Some((id, _)) = found.filter(|_| !was_whole) else { return Ok(found) };
            let leaf = Leaf::at(&self.forest, id)?;
            if !self.reach_out(&leaf, reach)? {
                return Ok(found);
            }
        }
    }

    /// Tells the inner nodes of leaves from `leaf` on, as far as that reaches: of those in the page of the
    /// hint, and then of those in the list. Whether there were any.
    fn reach_out(&self, leaf: &Leaf<'_>, reach: Reach<'_>) -> Result<bool, Error> {
        let mut hint = self.opening.lock();
        if self.opening.is_whole() {
            // Leaves may be unlinked by now, this one among them.
            return Ok(true);
        }
        if let Some(unread) = &mut *hint
            && self.read_page_of(unread, reach)?
        {
            return Ok(true);
        }
        let (mut at, mut any) = (*leaf, false);
        while let Some(next) = at.following()? {
            let low = next.low()?;
            if !reach.is_passed(low) {
                break;
            }
            self.publish(&low.to_vec(), next.id)?;
            (at, any) = (next, true);
        }
        if any && self.seek(reach)?.is_some_and(|(found, _)| found == leaf.id) {
            return damaged(leaf.offset(), "low keys as they were known");
        }
        Ok(any)
    }

    /// What the inner nodes know that reaches so far.
    fn seek(&self, reach: Reach<'_>) -> Result<Option<(LeafId, Token<'_>)>, Error> {
        let (inner, lows) = (self.inner()?, &*self.forest);
        match reach {
            Reach::At(key) => inner.find(key, lows).map(Some),
            Reach::Below(key) => inner.before(key, lows),
            Reach::End => inner.last(lows).map(Some),
        }
    }

    /// Reads the page that reaches so far; false if that was done before.
    fn read_page_of(&self, unread: &mut Unread, reach: Reach<'_>) -> Result<bool, Error> {
        let passed = unread.directory.firsts.count_passed(|low| reach.is_passed(low.into()));
        self.read_page(unread, passed.saturating_sub(1))
    }

    fn read_page(&self, unread: &mut Unread, at: usize) -> Result<bool, Error> {
        if std::mem::replace(&mut unread.read[at], true) {
            return Ok(false);
        }
        let firsts = &unread.directory.firsts;
        let Some(page) = self.hint_page(&unread.directory.pages[at])? else { return Ok(true) };
        let upper = (at + 1 < firsts.len()).then(|| firsts.low(at + 1));
        let is_between = |low: &[u8]| low > firsts.low(at) && upper.is_none_or(|upper| low < upper);
        // Their neighbours in the inner nodes, too.
        let near = firsts.iter().skip(at.saturating_sub(NEAR)).take(2 * NEAR + 1);
        let known = page.iter().chain(near).collect();
        let lows = FromHint { known, forest: &self.forest };
        let inner = self.inner()?;
        for (leaf, low) in page.iter().filter(|(_, low)| is_between(low)) {
            inner.learn(low, leaf, &lows)?;
        }
        Ok(true)
    }

    /// Sees to it that the inner nodes know all leaves.
    pub(super) fn complete(&self) -> Result<(), Error> {
        self.inner()?;
        self.read_pages()?;
        let hint = self.opening.lock();
        if self.opening.is_whole() {
            return Ok(());
        }
        // While the lock is held nothing unlinks a leaf.
        let mut leaf = Leaf::of(&self.forest, self.first()?)?;
        while let Some(next) = leaf.following()? {
            self.pass(&next)?;
            leaf = next;
        }
        drop(hint);
        self.all_passed();
        Ok(())
    }

    /// Reads what is left of the hint.
    fn read_pages(&self) -> Result<(), Error> {
        self.inner()?;
        for at in 0.. {
            let mut hint = self.opening.lock();
            let Some(unread) = hint.as_mut().filter(|unread| at < unread.read.len()) else { break };
            self.read_page(unread, at)?;
        }
        Ok(())
    }

    /// A walk of the whole list, during which no leaf is unlinked, has come to this leaf.
    #[inline]
    pub(super) fn pass(&self, leaf: &Leaf<'_>) -> Result<(), Error> {
        if self.opening.is_whole() {
            return Ok(());
        }
        let (inner, low) = (self.inner()?, leaf.low()?.to_vec());
        if inner.find(&low, &*self.forest)?.0 == leaf.id {
            return Ok(());
        }
        inner.learn(&low, leaf.id, &*self.forest)
    }

    /// Such a walk has ended: the inner nodes know every leaf.
    pub(super) fn all_passed(&self) {
        self.opening.set_whole(&mut self.opening.lock());
    }
}

/// Low keys as a hint tells them: for these no leaf need be read.
struct FromHint<'h> {
    known: HashMap<LeafId, &'h [u8]>,
    forest: &'h Forest,
}

impl Lows for FromHint<'_> {
    fn low(&self, leaf: LeafId) -> Result<KeyBytes<'_>, Error> {
        match self.known.get(&leaf) {
            Some(&low) => Ok(low.into()),
            None => self.forest.low(leaf),
        }
    }
}
