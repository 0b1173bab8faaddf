//! How a change becomes the heap's: a commit, or a checkpoint.

use tembo_pmem::thread::lock;
use tembo_pool::Object;

use crate::Error;
use crate::access::{Access, Company};
use crate::format::{HEAD, head, low_of};
use crate::handles::Released;
use crate::layer::{Atomic, Layer};
use crate::ownership::Ownership;
use crate::settlement::Settlement;

impl Access<'_, Atomic> {
    /// A part of the transaction: there is one transaction, however deep they are nested, and if a part fails all of it does.
    ///
    /// # Errors
    /// What the part gives.
    pub fn atomic<R, E: From<Error>>(
        &mut self,
        part: impl FnOnce(&mut Self) -> Result<R, E>,
    ) -> Result<R, E> {
        let was_broken = std::mem::replace(&mut self.is_broken, true);
        let result = part(self)?;
        self.is_broken = was_broken;
        Ok(result)
    }
}

impl<L: Layer> Access<'_, L> {
    /// Commits: fenced when it returns. Whether anything was changed. After [`Error::Referred`] all is as it was before the call; after another
    /// error it is good for nothing but to be dropped, or [taken back](Access::take_back).
    pub(crate) fn commit(&mut self) -> Result<bool, Error> {
        if self.is_broken {
            return Err(Error::Aborted);
        }
        if self.has_conflict {
            return Err(Error::Conflict);
        }
        let is_nothing = self.notes.change.is_empty() && self.notes.deltas.is_empty();
        if is_nothing && self.notes.renewed.is_empty() && self.hand.is_empty() {
            // Whatever it has read was valid together.
            return Ok(false);
        }
        let arena = self.arena;
        if arena.pool.region().is_read_only() {
            // Newer versions of what it has read stay its own.
            return if self.has_changed { Err(Error::ReadOnly) } else { Ok(false) };
        }
        let mut ledger = lock(&arena.ledger);
        self.validate_last()?;
        self.check_freed()?;
        // Nothing is destroyed while the ledger is locked.
        self.release_kept();
        if !self.notes.renewed.is_empty() {
            for (bits, (_, number)) in self.notes.renewed.drain() {
                let word = self.notes.change.get(arena, bits, HEAD)?;
                self.notes.change.set(bits, HEAD, head(number, low_of(word)));
            }
        }
        let makes_room =
            !self.hand.is_empty() || self.notes.deltas.iter().any(|(_, delta)| *delta < 0);
        let change = &mut self.notes.change;
        let mut settlement = match makes_room || change.fresh().next().is_none() {
            true => Settlement::new(arena, &mut ledger, change),
            false => Settlement::growing(arena, &mut ledger, change),
        };
        let settled = match L::COUNTS {
            true => settlement.count(&self.notes.deltas),
            false => settlement.free_by_hand(&self.notes.deltas, &mut self.hand),
        };
        if let Err(error) = settled {
            settlement.give_up();
            return Err(error);
        }
        if L::COUNTS && !arena.keeps_all() {
            settlement.destroy_own();
        }
        settlement.make()?;
        for bits in self.notes.rings.drain(..) {
            if self.notes.change.is_fresh(bits) {
                ledger.candidates.add(bits);
            }
        }
        let version = arena.ownership.next();
        self.settle_made(version);
        for (index, _) in self.notes.owned.iter() {
            arena.ownership.give(index, version);
        }
        self.notes.owned.clear();
        self.hand.settle();
        // The transaction has committed; what could not be destroyed is left to the next one.
        let _ = crate::upkeep::some(arena, &mut ledger);
        Ok(true)
    }

    /// What it has made is the heap's. Before the records of what it has changed are given back: whatever reads a pointer to a new object
    /// under the new version finds it whole. And before it is found whole its record has the version: another transaction may have the pointer
    /// by other ways than by what it reads.
    fn settle_made(&mut self, version: u64) {
        let arena = self.arena;
        for bits in self.notes.made.drain(..).filter(|_| L::COUNTS) {
            let is_made = self.notes.change.is_fresh(bits);
            if is_made && self.company == Company::Others {
                arena.ownership.raise(Ownership::index(bits), version);
            }
            match arena.handles.settle(bits, is_made) {
                Released::Nothing => {}
                Released::Orphan => arena.drop_later(bits),
                Released::Void => arena.pool.free_unused(Object::from_bits(bits)),
            }
        }
    }

    /// Nothing refers to what was freed by hand, when the change is made.
    fn check_freed(&self) -> Result<(), Error> {
        for &bits in self.hand.freed() {
            let count = low_of(self.notes.change.get(self.arena, bits, HEAD)?);
            let delta = self.notes.deltas.get(bits).copied().unwrap_or_default();
            let count = count.saturating_add_signed(delta);
            if count != 0 || self.arena.handles.is_held(bits) {
                let offset = Object::from_bits(bits).offset();
                return Err(Error::Referred { offset, count });
            }
        }
        Ok(())
    }
}
