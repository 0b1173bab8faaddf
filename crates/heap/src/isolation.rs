//! What keeps transactions apart that run side by side: each sees one state of the heap, and owns what it changes.

use tembo_pool::Object;

use crate::Error;
use crate::access::{Access, Company};
use crate::handles::Released;
use crate::layer::Layer;
use crate::ownership::Ownership;

impl<L: Layer> Access<'_, L> {
    /// Before words of an object are read: the version that they have.
    #[inline]
    pub(crate) fn look(&mut self, bits: u64) -> Result<Option<u64>, Error> {
        if self.company == Company::Alone {
            return Ok(None);
        }
        let index = Ownership::index(bits);
        if self.notes.owned.contains(index) || self.notes.change.is_fresh(bits) {
            return Ok(None);
        }
        let Some(version) = self.arena.ownership.version(index) else { return self.conflict() };
        if version > self.start {
            self.extend()?;
        }
        Ok(Some(version))
    }

    /// After they were read.
    #[inline]
    pub(crate) fn look_again(&mut self, bits: u64, version: Option<u64>) -> Result<(), Error> {
        let Some(version) = version else { return Ok(()) };
        let index = Ownership::index(bits);
        if !self.arena.ownership.is_still(index, version) {
            return self.conflict();
        }
        self.notes.read.insert(index, version);
        Ok(())
    }

    /// The transaction sees a newer version of the heap, in which all that it has read is the same.
    pub(crate) fn extend(&mut self) -> Result<(), Error> {
        let now = self.arena.ownership.now();
        self.validate()?;
        self.start = now;
        // In the space of what it has seen and dropped there may be objects of another version of their type.
        self.notes.known.clear();
        Ok(())
    }

    /// What it has read is the same.
    pub(crate) fn validate(&mut self) -> Result<(), Error> {
        let (read, owned) = (&self.notes.read, &self.notes.owned);
        // A record that it owns had a version then that the transaction could see: so it was the one that was read.
        let is_valid = read
            .iter()
            .filter(|(index, _)| !owned.contains(*index))
            .all(|(index, version)| self.arena.ownership.version(index) == Some(version));
        if is_valid { Ok(()) } else { self.conflict() }
    }

    /// Validates, if another has committed since the transaction began, or since it did so last. The caller has locked the ledger, so
    /// that none does. Then the clock says that this one begins: see [`view`](crate::view).
    pub(crate) fn validate_last(&mut self) -> Result<(), Error> {
        if self.arena.ownership.now() != self.start {
            self.validate()?;
        }
        self.arena.ownership.next();
        Ok(())
    }

    /// Owns an object that it will change, and keeps it.
    pub(crate) fn own(&mut self, bits: u64) -> Result<(), Error> {
        self.check_whole(bits)?;
        if self.notes.change.is_fresh(bits) {
            return Ok(());
        }
        if bits != self.arena.root() {
            self.keep(bits);
        }
        let index = Ownership::index(bits);
        if self.company == Company::Alone || self.notes.owned.contains(index) {
            return Ok(());
        }
        let Some(version) = self.arena.ownership.version(index) else { return self.conflict() };
        if version > self.start {
            self.extend()?;
        }
        if !self.arena.ownership.take(index, version) {
            return self.conflict();
        }
        self.notes.owned.insert(index, version);
        Ok(())
    }

    /// Nothing destroys an object before the commit.
    pub(crate) fn keep(&mut self, bits: u64) {
        // One that it makes is kept by that.
        if !L::COUNTS || self.notes.change.is_fresh(bits) {
            return;
        }
        if self.notes.kept.insert(bits) && !self.arena.handles.acquire(bits) {
            self.notes.kept.remove(&bits);
        }
    }

    pub(crate) fn release_kept(&mut self) {
        let arena = self.arena;
        // Draining writes all of the set's table, if it is empty too.
        if !self.notes.kept.is_empty() {
            self.notes.kept.drain().for_each(|bits| arena.release(bits));
        }
    }

    /// Nothing of what it would change is made.
    pub(crate) fn take_back(&mut self) {
        self.release_kept();
        for (index, version) in self.notes.owned.iter() {
            self.arena.ownership.give(index, version);
        }
        self.notes.owned.clear();
        let mut made = std::mem::take(&mut self.notes.made);
        if L::COUNTS {
            for &bits in &made {
                if self.arena.handles.settle(bits, false) == Released::Void {
                    self.arena.pool.free_unused(Object::from_bits(bits));
                }
            }
        } else {
            self.hand.take_back(&made);
        }
        made.clear();
        self.notes.made = made;
    }
}
