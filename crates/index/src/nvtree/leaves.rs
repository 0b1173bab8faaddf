//! The leaves of a tree, how a search finds one, and how the inner nodes come to know all of them.
//!
//! # The idea
//! The inner nodes are made when something first looks for a key: of the first leaf of each page of the hint
//! (`hint.rs`), or, where there is no hint, of the whole list (`leaves/headers.rs`). From then on they are used; that
//! leaves are missing in them means only that a search can end too far to the left. So as long as they are not *whole*, the
//! thread that has found a leaf compares its key with the next leaf's low key. If the key is not below that, the
//! thread gives the inner nodes what the page of the hint has, once for each page, walks right over what the hint
//! did not know, publishes that too, and looks again. The mark, which passes every leaf, makes them whole in the
//! background.
//!
//! # Why a search meanwhile is right
//! A leaf that the inner nodes name is in the list: no leaf is unlinked before they are whole
//! (`upkeep/collect.rs` makes them so first). If the next leaf's low key is above the key, and the leaf's sequence is
//! the same before and after that was read, the leaf covered the key at that time; inner nodes that know
//! more cannot say anything else.
//!
//! # Why nothing stays unknown
//! A split publishes the new leaf to the inner nodes before it lets go of the old one. A leaf that the
//! mark's walk has passed is known, and one that was split off behind the walk was published. One that is
//! linked but not yet published when the walk ends hangs on a leaf that is locked: a reader waits there, and
//! finds then that the inner nodes have changed. Walk and split may both publish the same leaf.

mod asked;
mod directory_memory;
mod hash_directory;
mod headers;
mod opening;
mod prefetch;
mod spot;
mod wanted;

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use tembo_pmem::prefetch;
use tembo_pool::Object;

pub(crate) use self::asked::{Asked, AskedOf, LastAsked};
pub(crate) use self::directory_memory::DirectoryMemory;
use self::hash_directory::{HashDirectory, Listed};
use self::headers::all_leaves;
use self::opening::{FromHint, Opening, Reach, Unread};
pub(crate) use self::spot::{Found, Spot};
pub(crate) use self::wanted::Wanted;
use crate::error::damaged;
use crate::head::head;
use crate::key::KeyBytes;
use crate::nvtree::format::{Line, Sorted, TreeCell};
use crate::nvtree::hint::{Directory, Hinted, hint_directory, hint_page};
use crate::nvtree::image::make;
use crate::nvtree::inner::{Inner, LeafId, Token};
use crate::nvtree::leaf::{Leaf, Moment, Range, line};
use crate::{Error, Forest, Place};

/// Number of neighbouring pages, to each side, whose first leaves can be in the same inner node.
const NEAR: usize = 64;

/// The leaf that a key belongs to, at a moment at which nothing changed it.
#[derive(Clone, Copy)]
pub(crate) struct Reached<'f> {
    pub(crate) leaf: Leaf<'f>,
    pub(crate) lines: &'f [Line],
    pub(crate) moment: Moment,
}

/// The leaves of a tree: their list on media, and the inner nodes through which they are found.
pub(crate) struct Leaves {
    pub(super) forest: Arc<Forest>,
    pub(super) cell_object: Object,
    /// The inner nodes. They are made when some thread first looks for a key.
    inner: OnceLock<Box<Inner>>,
    /// The directory, in a hash index.
    directory: Option<Box<HashDirectory>>,
    opening: Opening,
    pub(super) hinted: Hinted,
    pub(super) asked: LastAsked,
    /// Elements that only old versions needed when leaves were split for them, since the last walk.
    kept: AtomicU64,
}

impl Leaves {
    /// The leaves of the tree whose cell is that object.
    pub(super) fn new(forest: Arc<Forest>, cell_object: Object, sorted: Sorted) -> Leaves {
        let (opening, hinted) = (Opening::default(), Hinted::default());
        let (inner, kept) = (OnceLock::new(), AtomicU64::new(0));
        let asked = LastAsked::default();
        let directory = || Box::new(HashDirectory::new(forest.directory_memory()));
        let directory = (sorted == Sorted::ByHash).then(directory);
        Leaves { forest, cell_object, inner, directory, opening, hinted, asked, kept }
    }

    /// Whether the keys are scattered.
    pub(super) fn is_scattered(&self) -> bool {
        self.directory.is_some()
    }

    pub(super) fn cell_offset(&self) -> u64 {
        self.cell_object.offset()
    }

    pub(super) fn cell(&self) -> Result<&TreeCell, Error> {
        Ok(self.forest.region().get(self.cell_offset())?)
    }

    /// The first leaf of the list.
    pub(super) fn first(&self) -> Result<Object, Error> {
        Ok(Object::from_bits(self.cell()?.first.load()))
    }

    #[inline]
    pub(super) fn inner(&self) -> Result<&Inner, Error> {
        match self.inner.get() {
            Some(inner) => Ok(inner),
            None => self.make_inner(),
        }
    }

    /// How many leaves the inner nodes know, if they are made.
    pub(super) fn leaf_count_known(&self) -> Option<usize> {
        self.inner.get().map(|inner| inner.leaf_count())
    }

    /// Notes that so many elements of a leaf that is split are needed by old versions only.
    pub(super) fn note_kept(&self, count: usize) {
        self.kept.fetch_add(count as u64, Ordering::Relaxed);
        self.forest.kept.fetch_add(count as u64, Ordering::Relaxed);
    }

    /// Elements that only old versions needed when leaves were split for them, since the last walk.
    pub(super) fn kept(&self) -> u64 {
        self.kept.load(Ordering::Relaxed)
    }

    /// Notes that a walk begins.
    pub(super) fn forget_kept(&self) {
        let kept = self.kept.swap(0, Ordering::Relaxed);
        self.forest.kept.fetch_sub(kept, Ordering::Relaxed);
    }

    /// The inner nodes, if they know all leaves.
    #[inline(always)]
    fn whole_inner(&self) -> Option<&Inner> {
        self.inner.get().filter(|_| self.opening.is_whole()).map(|inner| &**inner)
    }

    /// The leaf that the key belongs to.
    #[inline(always)]
    pub(crate) fn leaf_of(&self, wanted: Wanted<'_>) -> Result<Reached<'_>, Error> {
        match self.leaf_at_once(wanted) {
            Some(found) => Ok(found),
            None => self.leaf_in_time(wanted.key, wanted.hash),
        }
    }

    /// As `leaf_of`, by the fast way only. `None`: a writer, or inner nodes that are not whole, are in that way.
    #[inline(always)]
    pub(crate) fn leaf_at_once(&self, wanted: Wanted<'_>) -> Option<Reached<'_>> {
        let inner = self.whole_inner()?;
        self.reach(inner.find_by_heads(wanted.key, wanted.head)?, wanted)
    }

    /// As `leaf_at_once`, at the place that a search has found before. `None`: it is not known, or outdated.
    #[inline(always)]
    pub(crate) fn leaf_at(&self, place: Place, wanted: Wanted<'_>) -> Option<Reached<'_>> {
        self.reach(self.inner.get()?.found(place)?, wanted)
    }

    /// The leaf, at a moment at which it is the one that the token's search has found.
    #[inline(always)]
    fn reach(&self, (id, token): (LeafId, Token<'_>), wanted: Wanted<'_>) -> Option<Reached<'_>> {
        let leaf = Leaf::at(&self.forest, id).ok()?;
        let lines = leaf.all_lines().ok()?;
        prefetch(lines.as_ptr().wrapping_add(line(wanted.hash, lines.len())));
        let moment = leaf.side.begin_now(self.forest.dead_epoch())?;
        token.still().then_some(Reached { leaf, lines, moment })
    }

    /// The leaf that the key belongs to, by the fastest way: for scattered keys by the directory. `None`: that way does not
    /// lead there at this moment.
    #[inline(always)]
    pub(crate) fn leaf_fast<const SCATTERED: bool>(
        &self,
        wanted: Wanted<'_>,
    ) -> Option<Reached<'_>> {
        if !SCATTERED {
            return self.leaf_at_once(wanted);
        }
        let directory = self.directory.as_deref()?;
        match directory.find(wanted.head) {
            Listed::Leaf(id, entry) => {
                let leaf = Leaf::at(&self.forest, id).ok()?;
                let lines = leaf.all_lines().ok()?;
                prefetch(lines.as_ptr().wrapping_add(line(wanted.hash, lines.len())));
                let moment = leaf.side.begin_now(self.forest.dead_epoch())?;
                entry.still().then_some(Reached { leaf, lines, moment })
            }
            Listed::Shared => self.leaf_at_once(wanted),
            Listed::Unknown => {
                self.list(directory, wanted);
                None
            }
        }
    }

    /// The leaf that the directory names for keys with this beginning, and the least and the greatest of these keys.
    #[cfg(test)]
    pub(crate) fn listed(&self, head: u64) -> Option<(LeafId, std::ops::RangeInclusive<u64>)> {
        self.directory.as_deref()?.listed(head)
    }

    /// Lists the leaf that the key belongs to in the directory, unless a writer holds its lock.
    #[cold]
    #[inline(never)]
    fn list(&self, directory: &HashDirectory, wanted: Wanted<'_>) {
        if self.inherit(directory, wanted).is_some() || directory.says(wanted.head) {
            return;
        }
        let (Ok(Reached { leaf, moment, .. }), Ok(inner)) = (self.leaf_of(wanted), self.inner())
        else {
            // An error is reported by the search that follows.
            return;
        };
        directory.reach(inner.leaf_count());
        // The sequence goes on when the lock is released, as `HashDirectory` requires.
        let Some(_guard) = leaf.side.lock_at(moment) else { return };
        if let Ok(range) = leaf.range() {
            directory.list(leaf.id, range.low, range.high);
            directory.share(wanted.head);
        }
    }

    /// Lists the leaf of the key in the directory as the table before has it. `None`: it has none, or a writer holds the lock.
    fn inherit(&self, directory: &HashDirectory, wanted: Wanted<'_>) -> Option<()> {
        let heritage = directory.heritage(wanted.head)?;
        let leaf = Leaf::at(&self.forest, heritage.leaf).ok()?;
        let moment = leaf.side.begin_now(self.forest.dead_epoch())?;
        if !heritage.still() {
            return None;
        }
        // The sequence goes on when the lock is released, as `HashDirectory` requires.
        let _guard = leaf.side.lock_at(moment)?;
        heritage.take();
        Some(())
    }

    /// The leaves of some keys, looked for side by side, and the places of the keys. The leaves are a hint, which may be outdated.
    pub(crate) fn leaves_abreast(&self, keys: &[&[u8]]) -> Result<Vec<(LeafId, Place)>, Error> {
        let inner = self.inner()?;
        let Some(directory) = &self.directory else {
            let was_whole = self.opening.is_whole();
            let mut found = Vec::with_capacity(keys.len());
            inner.find_abreast(keys, &*self.forest, &mut found)?;
            let place = |(leaf, token)| match was_whole {
                true => (leaf, inner.place(leaf, token)),
                false => (leaf, Place::default()),
            };
            return Ok(found.into_iter().map(place).collect());
        };
        keys.iter().for_each(|key| directory.prefetch(head(key, 0)));
        let leaf = |key: &&[u8]| match directory.find(head(key, 0)) {
            Listed::Leaf(leaf, _) => Ok((leaf, Place::default())),
            Listed::Shared | Listed::Unknown => {
                Ok((inner.find(key, &*self.forest)?.0, Place::default()))
            }
        };
        keys.iter().map(leaf).collect()
    }

    /// Reaches the leaves of some keys side by side, and prefetches what a search of them reads first. Adds one leaf for each
    /// key, or `None` where a writer, or inner nodes that are not whole, are in the way.
    pub(crate) fn reach_abreast<'f, const SCATTERED: bool>(
        &'f self,
        wanted: &[Wanted<'_>],
        reached: &mut Vec<Option<Reached<'f>>>,
    ) {
        if SCATTERED && let Some(directory) = self.directory.as_deref() {
            wanted.iter().for_each(|wanted| directory.prefetch(wanted.head));
            for wanted in wanted {
                if let Listed::Leaf(id, _) = directory.find(wanted.head) {
                    self.begin_look(id, wanted.hash);
                }
            }
            reached.extend(wanted.iter().map(|&wanted| self.leaf_fast::<true>(wanted)));
            return;
        }
        let keys: Vec<&[u8]> = wanted.iter().map(|wanted| wanted.key).collect();
        let (all, mut found) = (reached.len() + keys.len(), Vec::with_capacity(keys.len()));
        if let Some(inner) = self.whole_inner()
            && inner.find_abreast(&keys, &*self.forest, &mut found).is_ok()
        {
            let looks: Vec<_> = found
                .into_iter()
                .zip(wanted)
                .map(|((id, token), wanted)| (self.begin_look(id, wanted.hash), token))
                .collect();
            reached.extend(looks.into_iter().map(|(look, token)| {
                let (leaf, lines) = look?;
                let moment = leaf.side.begin_now(self.forest.dead_epoch())?;
                token.still().then_some(Reached { leaf, lines, moment })
            }));
        }
        // Each key is then looked for alone, and that search reports the error.
        reached.resize(all, None);
    }

    /// Prefetches what a search of a leaf reads first.
    #[inline(always)]
    fn begin_look(&self, id: LeafId, hash: u64) -> Option<(Leaf<'_>, &[Line])> {
        let leaf = Leaf::at(&self.forest, id).ok()?;
        let lines = leaf.all_lines().ok()?;
        leaf.will_read();
        leaf.side.prefetch_first();
        prefetch(lines.as_ptr().wrapping_add(line(hash, lines.len())));
        Some((leaf, lines))
    }

    #[inline(never)]
    fn leaf_in_time(&self, key: &[u8], hash: u64) -> Result<Reached<'_>, Error> {
        let inner = self.inner()?;
        loop {
            let was_whole = self.opening.is_whole();
            let (id, token) = inner.find(key, &*self.forest)?;
            let leaf = Leaf::at(&self.forest, id)?;
            leaf.prefetch_line(line(hash, leaf.lines()));
            let Some(moment) = leaf.side.begin(self.forest.dead_epoch()) else {
                make(&leaf)?;
                continue;
            };
            if token.still() && (was_whole || self.covers(&leaf, moment, key)?) {
                return Ok(Reached { lines: leaf.all_lines()?, leaf, moment });
            }
        }
    }

    /// As `leaf_of`, with the content of the side-car.
    #[inline]
    pub(crate) fn spot<'f, 'k>(&'f self, wanted: Wanted<'k>) -> Result<Spot<'f, 'k>, Error> {
        self.spot_at(wanted, None)
    }

    /// As `spot`, for a search that may have reached the leaf before.
    #[inline]
    pub(crate) fn spot_at<'f, 'k>(
        &'f self,
        wanted: Wanted<'k>,
        mut before: Option<Reached<'f>>,
    ) -> Result<Spot<'f, 'k>, Error> {
        let Wanted { key, hash, .. } = wanted;
        loop {
            let reached = match before.take() {
                Some(reached) => reached,
                None => self.leaf_of(wanted)?,
            };
            let Reached { leaf, moment, .. } = reached;
            let (prints, traits) = leaf.side.prints();
            match leaf.place(key, traits) {
                Ok(placed) => return Ok(Spot { leaf, moment, prints, traits, placed, hash }),
                Err(error) if leaf.side.still(moment) => return Err(error),
                Err(_) => {}
            }
        }
    }

    /// Makes the inner nodes, from the hint if there is one.
    #[cold]
    fn make_inner(&self) -> Result<&Inner, Error> {
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
        let directory = hint_directory(&self.forest, self.cell()?)?.filter(begins_so);
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

    /// Publishes a leaf to the inner nodes, which a walk may have done before.
    pub(super) fn publish(&self, low: &[u8], leaf: LeafId) -> Result<(), Error> {
        self.inner()?.insert(low, leaf, &*self.forest)
    }

    /// Publishes the leaf that takes over what `leaf` has from `low` on, below `high`. The caller holds both locks.
    pub(super) fn publish_split(
        &self,
        leaf: &Leaf<'_>,
        (low, right): (&[u8], LeafId),
        high: Option<KeyBytes<'_>>,
    ) -> Result<(), Error> {
        let Some(directory) = &self.directory else { return self.publish(low, right) };
        let first = leaf.low()?;
        self.publish(low, right)?;
        directory.reach(self.inner()?.leaf_count());
        directory.list(right, low.into(), high);
        directory.list(leaf.id, first, Some(low.into()));
        Ok(())
    }

    /// Removes from the inner nodes and the directory a leaf that was merged into `leaf`, whose range is given. The caller
    /// holds both locks.
    pub(super) fn publish_merge(
        &self,
        range: Range<'_>,
        (low, right): (&[u8], LeafId),
    ) -> Result<(), Error> {
        if let Some(directory) = &self.directory {
            directory.merge(range.low, low.into(), range.high);
        }
        self.inner()?.remove(low, right, &*self.forest)
    }

    /// Whether a leaf that was found for the key covers it. If not, the inner nodes know more leaves on return. The caller
    /// has to ask if the inner nodes were not whole before the leaf was found.
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

    /// Publishes to the inner nodes the leaves from `leaf` up to what `reach` asks for: first those in the page of the
    /// hint, then those in the list. Returns whether there were any.
    fn reach_out(&self, leaf: &Leaf<'_>, reach: Reach<'_>) -> Result<bool, Error> {
        let mut hint = self.opening.lock();
        if self.opening.is_whole() {
            // From here on merges may unlink leaves, also this one.
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

    /// The last leaf that the inner nodes know up to what `reach` asks for.
    fn seek(&self, reach: Reach<'_>) -> Result<Option<(LeafId, Token<'_>)>, Error> {
        let (inner, lows) = (self.inner()?, &*self.forest);
        match reach {
            Reach::At(key) => inner.find(key, lows).map(Some),
            Reach::Below(key) => inner.before(key, lows),
            Reach::End => inner.last(lows).map(Some),
        }
    }

    /// Reads the page of the hint that has what `reach` asks for. Returns false if it was read before.
    fn read_page_of(&self, unread: &mut Unread, reach: Reach<'_>) -> Result<bool, Error> {
        let passed = unread.directory.firsts.count_passed(|low| reach.is_passed(low.into()));
        self.read_page(unread, passed.saturating_sub(1))
    }

    fn read_page(&self, unread: &mut Unread, at: usize) -> Result<bool, Error> {
        if std::mem::replace(&mut unread.read[at], true) {
            return Ok(false);
        }
        let firsts = &unread.directory.firsts;
        let Some(page) = hint_page(&self.forest, &unread.directory.pages[at])? else {
            return Ok(true);
        };
        let upper = (at + 1 < firsts.len()).then(|| firsts.low(at + 1));
        let is_between = |low: &[u8]| low > firsts.low(at) && upper.is_none_or(|upper| low < upper);
        // The leaves include those that may be neighbours in the inner nodes.
        let near = firsts.iter().skip(at.saturating_sub(NEAR)).take(2 * NEAR + 1);
        let known = page.iter().chain(near).collect();
        let lows = FromHint { known, forest: &self.forest };
        let inner = self.inner()?;
        for (leaf, low) in page.iter().filter(|(_, low)| is_between(low)) {
            inner.learn(low, leaf, &lows)?;
        }
        Ok(true)
    }

    /// Makes the inner nodes whole.
    pub(super) fn complete(&self) -> Result<(), Error> {
        self.inner()?;
        self.read_pages()?;
        let hint = self.opening.lock();
        if self.opening.is_whole() {
            return Ok(());
        }
        // While the lock is held no leaf is unlinked.
        let mut leaf = Leaf::of(&self.forest, self.first()?)?;
        while let Some(next) = leaf.following()? {
            self.pass(&next)?;
            leaf = next;
        }
        drop(hint);
        self.all_passed();
        Ok(())
    }

    /// Reads the pages of the hint that were not read before.
    fn read_pages(&self) -> Result<(), Error> {
        self.inner()?;
        for at in 0.. {
            let mut hint = self.opening.lock();
            let Some(unread) = hint.as_mut().filter(|unread| at < unread.read.len()) else { break };
            self.read_page(unread, at)?;
        }
        Ok(())
    }

    /// Publishes a leaf to which a walk of the whole list has come. No leaf is unlinked during that walk.
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

    /// Notes that such a walk has ended: the inner nodes know every leaf.
    pub(super) fn all_passed(&self) {
        self.opening.set_whole(&mut self.opening.lock());
    }
}
