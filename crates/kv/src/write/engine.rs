//! The engine of a store: what is shared, the write slots, and the ledger under the writer's lock.

use std::ops::{Deref, DerefMut};
use std::sync::Arc;
use std::time::Duration;

use tembo_index::{Forest, IndexKind};
use tembo_pool::Error as PoolError;

use super::beside::{Beside, Loan};
use super::lock::{Guard, OwnedGuard, WriterLock};
use super::slots::{Entered, Refused, WriteSlots};
use crate::Error;
use crate::background::Phase;
use crate::ledger::{Ledger, add_up, end_foreign, give_back_now, recover_now};
use crate::shared::Shared;

/// Greatest size of a pool in which a writer marks before the pool grows: the marking does not take long.
const HURRY_MAX: u64 = 64 << 20;

/// How often a writer that needs space tries to mark while another tenant of the pool is busy, before the pool grows.
const TRIES: u32 = 1000;

/// How often it looks whether the sweep of another tenant has ended, in a pool that cannot grow.
const TRIES_FOREIGN: u32 = 200;

/// The pause between two steps of the background.
pub(crate) const PAUSE: Duration = Duration::from_micros(50);

/// Attempts to find a write slot open before a change goes by the writer's lock.
const ATTEMPTS: usize = 4;

/// The engine of an open store.
pub(crate) struct Engine {
    pub(crate) shared: Shared,
    pub(super) slots: WriteSlots,
    beside: Beside,
    writer: WriterLock,
}

/// The writer, for one call.
pub(crate) type Locked<'e> = Writing<&'e Engine, Guard<'e>>;

/// The writer, for a handle that has a share of the engine.
pub(crate) type Owned<E> = Writing<E, OwnedGuard>;

/// The ledger, by the writer: while it lives no other thread changes anything, and the write slots are closed.
pub(crate) struct Writing<E, G>
where
    E: Deref<Target = Engine>,
    G: DerefMut<Target = Ledger>,
{
    engine: E,
    ledger: G,
    is_owned: bool,
}

impl Engine {
    pub(crate) fn new(shared: Shared, ledger: Ledger) -> Engine {
        let (slots, beside, writer) =
            (WriteSlots::new(), Beside::default(), WriterLock::new(ledger));
        Engine { shared, slots, beside, writer }
    }

    /// Gives the forest back, when no handle is left.
    pub(crate) fn into_forest(self) -> Arc<Forest> {
        let Engine { shared: Shared { forest, .. }, .. } = self;
        forest
    }

    /// Takes the writer's lock.
    ///
    /// # Errors
    /// [`Error::WouldDeadlock`].
    pub(crate) fn lock(&self) -> Result<Locked<'_>, Error> {
        Ok(Writing::begin(self, self.writer.lock()?, false))
    }

    /// Takes the writer's lock, if it is free.
    pub(crate) fn try_lock(&self) -> Option<Locked<'_>> {
        Some(Writing::begin(self, self.writer.try_lock()?, false))
    }

    /// Takes the writer's lock, to change something. If a small pool would have to grow though the marking
    /// that is owed since the open may find room, this marks first: otherwise a process that is killed again
    /// and again before its marking has ended would make the pool grow each time. A large pool grows, since
    /// a writer should not wait so long.
    ///
    /// # Errors
    /// [`Error::ReadOnly`], [`Error::WouldDeadlock`].
    pub(crate) fn lock_to_write(&self) -> Result<Locked<'_>, Error> {
        self.relieved(|| self.lock())
    }

    /// As [`lock_to_write`](Engine::lock_to_write), for a handle.
    pub(crate) fn own_to_write<E>(handle: &E) -> Result<Owned<E>, Error>
    where
        E: Deref<Target = Engine> + Clone,
    {
        handle.relieved(|| Engine::own(handle))
    }

    /// Takes the writer's lock for a handle.
    ///
    /// # Errors
    /// [`Error::WouldDeadlock`].
    pub(crate) fn own<E>(handle: &E) -> Result<Owned<E>, Error>
    where
        E: Deref<Target = Engine> + Clone,
    {
        let guard = handle.writer.lock_owned()?;
        Ok(Writing::begin(handle.clone(), guard, true))
    }

    /// Whether a handle has the writer's lock.
    pub(crate) fn is_owned(&self) -> bool {
        self.writer.has_holder()
    }

    /// # Errors
    /// [`Error::ReadOnly`]; [`Error::WouldDeadlock`] if the calling thread would wait for the writer's lock, which it has
    /// itself.
    pub(crate) fn check_wait(&self) -> Result<(), Error> {
        self.shared.check_writable()?;
        self.writer.check()
    }

    /// Whether the calling thread has the writer's lock by a handle. If it waited for a commit of another thread, it might
    /// wait for itself.
    pub(crate) fn is_own(&self) -> bool {
        self.writer.check().is_err()
    }

    fn relieved<E, G>(
        &self,
        lock: impl Fn() -> Result<Writing<E, G>, Error>,
    ) -> Result<Writing<E, G>, Error>
    where
        E: Deref<Target = Engine>,
        G: DerefMut<Target = Ledger>,
    {
        self.shared.check_writable()?;
        let mut writing = lock()?;
        if self.shared.private.has_given_up() && self.shared.pool().is_low() {
            give_back_now(&self.shared, &mut writing);
        }
        let mut tries = TRIES;
        while self.is_in_need(&writing) {
            end_foreign(&self.shared, &mut writing);
            let is_foreign = writing.is_marked_by_another();
            // The sweep of another tenant may go on only when this thread returns to it, so the pool grows. If it cannot
            // grow, this waits for the sweep, but not for ever.
            if is_foreign && (tries <= TRIES - TRIES_FOREIGN || !self.is_out_of_space()) {
                break;
            }
            if is_foreign || matches!(writing.machine.phase(), Phase::Marking) {
                tries -= u32::from(is_foreign);
                drop(writing);
                std::thread::sleep(PAUSE);
                writing = lock()?;
                continue;
            }
            let is_full = !self.can_grow();
            match recover_now(&self.shared, &mut writing) {
                // Another tenant of the pool is busy and will end that, or has not settled.
                Err(error) if tries > 0 && is_of_another(&error, is_full) => {
                    tries -= 1;
                    drop(writing);
                    std::thread::sleep(PAUSE);
                    writing = lock()?;
                }
                // The next change tries again.
                Err(error) if is_full && is_of_another(&error, is_full) => break,
                // Damage is reported by the thread that meets it; here the pool grows.
                _ => {
                    writing.machine.hurry();
                }
            }
        }
        Ok(writing)
    }

    /// Whether only a sweep can make room.
    fn is_out_of_space(&self) -> bool {
        !self.can_grow() && self.shared.pool().is_exhausted()
    }

    fn can_grow(&self) -> bool {
        let region = self.shared.region();
        region.size() < region.report().size_max
    }

    /// Whether a small pool would have to grow before the marking that is owed since the open.
    fn is_in_need(&self, ledger: &Ledger) -> bool {
        let (machine, pool) = (&ledger.machine, self.shared.pool());
        !machine.is_done()
            && !machine.has_hurried()
            && pool.region().size() <= HURRY_MAX
            && pool.is_short()
    }

    /// A write slot for the thread. `None`: the change needs the writer's lock.
    #[inline]
    pub(crate) fn enter_slot(&self) -> Option<Entered<'_>> {
        self.slots.reenter().or_else(|| self.find_slot())
    }

    #[inline(never)]
    fn find_slot(&self) -> Option<Entered<'_>> {
        for _ in 0..ATTEMPTS {
            match self.slots.enter(&self.shared.versions.pins.visible) {
                Ok(slot) => return Some(slot),
                Err(Refused::ForNow) if self.slots.open_soon() => {}
                // The change meets an error again at the writer's lock.
                Err(Refused::ForNow) => self.writer.pass().ok()?,
                Err(Refused::Barred) => return None,
            }
        }
        None
    }

    /// Closes the slots, and takes what their threads have left.
    fn close_slots(&self, ledger: &mut Ledger) {
        self.slots.close(&self.shared.versions.pins.visible, |slot| {
            // An older answer counts entries that were written in slots as needed.
            ledger.retained_uses = 0;
            ledger.retired.extend(&mut slot.unlinked);
            add_up(&self.shared, ledger, &mut slot.tally);
            slot.reset();
        });
        if std::mem::take(&mut ledger.is_on_loan) {
            self.take_back(ledger);
        }
    }

    /// Takes back the collection that is on loan, and what was unlinked.
    #[inline(never)]
    fn take_back(&self, ledger: &mut Ledger) {
        let (loan, mut retired) = self.beside.take_back();
        match loan {
            Loan::Nothing => {}
            Loan::Going(collection, _) => ledger.machine.collected_beside(Some(collection)),
            Loan::Over => ledger.machine.collected_beside(None),
        }
        ledger.owes_version |= !retired.is_empty();
        ledger.retired.extend(&mut retired);
    }

    /// Takes a batch of a collection beside changes in the slots, if one is on loan. Returns false if the writer's lock is
    /// needed for the next step.
    pub(crate) fn collect_beside(&self) -> bool {
        self.beside.batch(&self.shared)
    }

    /// Lets batches be taken beside changes again, as a step of the background has the writer's lock.
    pub(crate) fn allow_beside(&self) {
        self.beside.allow();
    }

    /// Opens the slots, if changes can be made there.
    fn open_slots(&self, ledger: &mut Ledger) {
        let takes_one = self.shared.kind() == IndexKind::Cdds;
        let (is_read_only, has_dead) =
            (self.shared.region().is_read_only(), self.shared.forest.has_dead());
        let is_barred = takes_one
            || is_read_only
            || has_dead
            || ledger.is_broken
            || ledger.is_replica
            || self.shared.tombstones.has_pending()
            || !self.shared.held.is_empty();
        if !is_barred
            && let Phase::Collecting(collection) = ledger.machine.phase()
            && let Some(tree) = ledger.trees.by_cell(collection.cell())
        {
            self.beside.lend(collection.clone(), tree.index().clone());
            ledger.is_on_loan = true;
        }
        self.slots.open(ledger.limit(), is_barred);
    }
}

/// Whether a marking by the writer has to wait for another tenant. It waits for one that has not settled only if the pool
/// cannot grow.
fn is_of_another(error: &Error, is_full: bool) -> bool {
    match error {
        Error::Pool(PoolError::SweepRunning | PoolError::TenantBusy { .. }) => true,
        Error::TooManyAborts => is_full,
        _ => false,
    }
}

impl<E, G> Writing<E, G>
where
    E: Deref<Target = Engine>,
    G: DerefMut<Target = Ledger>,
{
    fn begin(engine: E, mut ledger: G, is_owned: bool) -> Writing<E, G> {
        engine.close_slots(&mut ledger);
        Writing { engine, ledger, is_owned }
    }

    /// What is shared, and the ledger.
    #[inline]
    pub(crate) fn parts(&mut self) -> (&Shared, &mut Ledger) {
        (&self.engine.shared, &mut self.ledger)
    }
}

impl<E: Deref<Target = Engine>> Owned<E> {
    /// Notes that the calling thread uses the handle.
    #[inline]
    pub(crate) fn note_thread(&self) {
        self.engine.writer.note_holder();
    }

    #[inline]
    pub(crate) fn shared(&self) -> &Shared {
        &self.engine.shared
    }

    /// The handle's share.
    pub(crate) fn engine(&self) -> &E {
        &self.engine
    }
}

impl<E, G> Deref for Writing<E, G>
where
    E: Deref<Target = Engine>,
    G: DerefMut<Target = Ledger>,
{
    type Target = Ledger;

    #[inline]
    fn deref(&self) -> &Ledger {
        &self.ledger
    }
}

impl<E, G> DerefMut for Writing<E, G>
where
    E: Deref<Target = Engine>,
    G: DerefMut<Target = Ledger>,
{
    #[inline]
    fn deref_mut(&mut self) -> &mut Ledger {
        &mut self.ledger
    }
}

impl<E, G> Drop for Writing<E, G>
where
    E: Deref<Target = Engine>,
    G: DerefMut<Target = Ledger>,
{
    fn drop(&mut self) {
        let (engine, ledger) = (&*self.engine, &mut *self.ledger);
        let machine = &ledger.machine;
        let retired = ledger.retired.len() as u64;
        engine.shared.status.note(machine.is_recovering(), retired, machine.collections());
        // From here on another thread may free space that this one has written and given up without a fence.
        engine.shared.region().hand_over();
        // ORDER: what a group has erased that does not commit is durably empty before another thread makes changes, which
        // finds it so in memory.
        engine.shared.region().fence_flushed("kv.writer.fence");
        if self.is_owned {
            engine.writer.forget_holder();
        }
        engine.open_slots(ledger);
        engine.writer.release();
    }
}
