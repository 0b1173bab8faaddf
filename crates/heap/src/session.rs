//! Uses of a heap without atomic sections: the layers BASE and SAFE.

use tembo_pmem::thread::lock;

use crate::Error;
use crate::access::{Access, Company};
use crate::arena::Arena;
use crate::layer::{Base, Checkpointed};
use crate::mark::children_of;
use crate::persist::{Expected, Object};
use crate::pointer::Ptr;
use crate::tenant;
use crate::under_way::UnderWay;

/// Lets `body` use a heap alone.
pub(crate) fn enter<'h, L: Checkpointed, R, E: From<Error>>(
    arena: &'h Arena,
    body: impl FnOnce(&mut Access<'h, L>) -> Result<R, E>,
) -> Result<R, E> {
    let _under_way = UnderWay::begin(arena).ok_or(Error::Nested)?;
    tenant::find_room(arena);
    let _alone = arena.alone();
    let _all = (!L::COUNTS).then(|| {
        if !arena.pool.region().is_read_only() {
            // What could not be destroyed is left to the next one, and refers to what it did.
            let _ = crate::upkeep::all(arena, &mut lock(&arena.ledger));
        }
        arena.keep_all()
    });
    Access::within(arena, Company::Alone, body)
}

impl<L: Checkpointed> Access<'_, L> {
    /// Makes all that was changed since the last checkpoint a part of the heap: all of it, or, if it is interrupted, nothing. Fenced
    /// when it returns, and as durable as the pool's sync policy promises. One fence; one more, if objects go or the region [gives pages back](tembo_pmem::Region::gives_pages_back); one more, if there are more than 8 new objects; two
    /// more, if there are more words to be stored than a lane of the pool's log holds; two for each step of destruction, in the layer SAFE, if more than a few
    /// objects go. None, if
    /// nothing was changed. (The first object of a type has the heap note the type, at once, by an operation of its own.)
    ///
    /// # Errors
    /// [`Error::Referred`]: something refers to an object that was [freed](Access::free). Nothing has happened: unlink it, and try again.
    /// [`Error::Pool`] of the commit: what was changed since the last checkpoint is [taken back](Access::revert). Or of the sync behind it: then
    /// the change is made, and may be lost if the system stops; the pool takes no other. [`Error::ReadOnly`].
    pub fn checkpoint(&mut self) -> Result<(), Error> {
        let committed = self.commit();
        if matches!(committed, Err(Error::Referred { .. })) {
            return committed.map(drop);
        }
        self.revert();
        if committed? {
            self.arena.pool.region().sync()?;
        }
        Ok(())
    }

    /// Takes back all that was changed since the last checkpoint. Objects that were made since are none.
    pub fn revert(&mut self) {
        self.take_back();
        self.notes.change.clear();
        self.notes.deltas.clear();
        self.notes.known.clear();
        self.notes.rings.clear();
        self.notes.renewed.clear();
        // A type that was registered stays so.
        (self.is_broken, self.has_conflict) = (false, false);
        (self.is_full, self.has_changed) = (false, false);
    }
}

impl<'h> Access<'h, Base> {
    /// Frees an object: its space is another's from the next checkpoint on. That refuses, with [`Error::Referred`], if something of the heap
    /// refers to the object still. A pointer of the program that is left gives [`Error::Freed`], or, when its place is used again, what is there.
    ///
    /// What the object refers to stays, but loses that pointer. So what a program does not free refers to things still, though nothing
    /// refers to it: cycles that an earlier use has left, until a sweep, and what a collection no longer needs, as the smaller table of a
    /// [`PHashMap`](crate::PHashMap) that has grown. What such objects refer to cannot be freed by hand.
    ///
    /// # Errors
    /// [`Error::Freed`]: it was freed before. [`Error::Damaged`].
    pub fn free<T: Object<'h>>(&mut self, object: Ptr<'h, T>) -> Result<(), Error> {
        let bits = object.anchor().bits();
        let kind = match self.check(bits, Expected::of::<T>()) {
            // It goes as what it is.
            Err(Error::NoRoom { .. }) => self.kind(bits)?,
            kind => kind?,
        };
        let word = |at: u64| self.notes.change.get(self.arena, bits, at as usize);
        for child in children_of(&self.arena.types, bits, kind, &word)? {
            self.count(child, -1);
        }
        self.has_changed = true;
        self.notes.known.clear();
        self.hand.free(bits);
        Ok(())
    }
}
