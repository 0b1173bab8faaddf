//! A heap as a tenant of its pool.

use std::any::Any;
use std::sync::{Arc, RwLockWriteGuard};
use std::time::Duration;

use tembo_pool::{
    Kind, Kinds, KnownKind, Marker, Marking, NewTenant, Object, Pool, Still, Tenant, TenantCheck,
    TenantEntry, TenantError, TenantFeatures, TenantKind, TenantStat,
};

use tembo_pmem::thread::lock;

use crate::Error;
use crate::arena::Arena;
use crate::format::{MAGIC, Root, VERSION};
use crate::mark::Content;

/// The kind of heaps.
const KIND: Kind = Kind::new("heap");

const FEATURES: TenantFeatures = TenantFeatures { may: 0, must: 0, read_only: 0 };

/// How often a thread that needs room looks whether a sweep has ended that marks no more, and the pause between.
const TRIES: u32 = 200;
const PAUSE: Duration = Duration::from_micros(50);

/// The kinds of tenants that a pool with heaps is opened with, beside `others`.
pub fn kinds(others: Kinds) -> Kinds {
    others.with(Arc::new(HeapKind))
}

struct HeapKind;

impl TenantKind for HeapKind {
    fn known(&self) -> KnownKind {
        KnownKind { kind: KIND, version: VERSION, features: FEATURES }
    }

    fn open(&self, pool: &Arc<Pool>, entry: &TenantEntry) -> Result<Arc<dyn Tenant>, TenantError> {
        Ok(open(pool, entry)?)
    }
}

/// Adds an empty heap to a pool. Durable at the next sync.
pub(crate) fn add(pool: &Pool, name: &str) -> Result<TenantEntry, Error> {
    let size = size_of::<Root>() as u64;
    let _section = pool.reserve(size, 2)?;
    let new = NewTenant { kind: KIND, name, version: VERSION, features: FEATURES };
    pool.add_tenant::<Error>(&new, size, |region, root| {
        let mut words = [[0; 8]; size_of::<Root>() / 8];
        words[0] = MAGIC.to_le_bytes();
        // ORDER: the empty root is durable before the table of tenants names it: the pool fences it.
        region.write("heap.root.write", root.offset(), &[words.as_flattened()])?;
        Ok(())
    })
}

/// The heap of a pool's tenant.
pub(crate) fn open(pool: &Arc<Pool>, entry: &TenantEntry) -> Result<Arc<Arena>, Error> {
    pool.open_tenant::<Arena, Error>(entry, || Ok(Arc::new(Arena::open(pool, entry)?)))
}

/// Whether a tenant is a heap.
pub(crate) fn is_heap(entry: &TenantEntry) -> bool {
    entry.kind == KIND
}

impl Tenant for Arena {
    fn quiesce(&self) -> Option<Box<dyn Still + '_>> {
        Some(Box::new(Stopped { arena: self, _alone: self.try_alone()? }))
    }

    fn make_way(&self) {
        Arena::make_way(self);
    }

    fn settle(&self) -> Result<(), TenantError> {
        let Some(_alone) = self.try_alone() else { return Ok(()) };
        if self.pool.region().is_read_only() {
            return Ok(());
        }
        Ok(crate::upkeep::all(self, &mut lock(&self.ledger))?)
    }

    fn stat(&self) -> TenantStat {
        let TenantEntry { name, kind, .. } = self.entry.clone();
        TenantStat { name, kind, under_way: String::new() }
    }
}

struct Stopped<'a> {
    arena: &'a Arena,
    _alone: RwLockWriteGuard<'a, ()>,
}

impl Still for Stopped<'_> {
    fn begin(&mut self, tenant: Arc<dyn Tenant>) -> Result<Box<dyn Marking>, TenantError> {
        let tenant: Arc<dyn Any + Send + Sync> = tenant;
        drop(tenant);
        // It has no versions: what is reachable now is noted now.
        let content = Content::of(self.arena)?;
        content.let_cycles_go(self.arena, &mut lock(&self.arena.ledger))?;
        Ok(Box::new(Noted(content.all(self.arena))))
    }

    fn check(&mut self, marker: &mut dyn Marker) -> Result<TenantCheck, TenantError> {
        let content = Content::of(self.arena)?;
        content.check(self.arena)?;
        content.mark(self.arena, marker)
    }
}

struct Noted(Vec<u64>);

impl Marking for Noted {
    fn mark(&mut self, marker: &mut dyn Marker) -> Result<(), TenantError> {
        for bits in &self.0 {
            marker.mark(Object::from_bits(*bits))?;
        }
        Ok(())
    }
}

/// What an attempt to sweep came to.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Swept {
    /// It is known what is free.
    All,
    /// Another sweep is under way.
    ByAnother,
    /// Another tenant is busy.
    Nothing,
}

/// Finds out what is free in the pool of a heap; whether it did: another tenant may be at it.
pub(crate) fn sweep(arena: &Arena) -> Result<bool, Error> {
    Ok(try_sweep(arena)? == Swept::All)
}

/// The same, for a thread that needs room: it waits for a sweep that is under way, for a while.
pub(crate) fn sweep_or_wait(arena: &Arena) -> Result<bool, Error> {
    Ok(match try_sweep(arena)? {
        Swept::All => true,
        Swept::ByAnother => has_ended(arena),
        Swept::Nothing => false,
    })
}

/// Waits for the end of a sweep; whether it has come. It may come only when this thread returns to what it has of another tenant.
fn has_ended(arena: &Arena) -> bool {
    drop(lock(&arena.marking));
    (0..TRIES).any(|_| {
        let is_known = !arena.pool.usage().recovering;
        if !is_known {
            std::thread::sleep(PAUSE);
        }
        is_known
    })
}

/// Nothing changes the heap until it is noted what there is: no object moves then before the sweep has ended. Transactions
/// go on while other tenants are marked and settle, since what these wait for may wait for the heap.
fn try_sweep(arena: &Arena) -> Result<Swept, Error> {
    let _tenants = arena.pool.open_tenants()?;
    let alone = arena.alone();
    let mut sweep = match arena.pool.begin_sweep_by(arena.entry.id) {
        Err(tembo_pool::Error::SweepRunning) => return Ok(Swept::ByAnother),
        Err(tembo_pool::Error::TenantBusy { .. }) => return Ok(Swept::Nothing),
        begun => begun?,
    };
    let marking = lock(&arena.marking);
    let content = Content::of(arena)?;
    for bits in content.all(arena) {
        sweep.mark(Object::from_bits(bits))?;
    }
    content.let_cycles_go(arena, &mut lock(&arena.ledger))?;
    drop(alone);
    sweep.mark_others(&|| true)?;
    drop(marking);
    while !sweep.settle_others()? {
        std::thread::yield_now();
    }
    sweep.finish([])?;
    Ok(Swept::All)
}

/// Before the heap is used alone, which is not done again if the pool is full meanwhile: where little space is left of a pool that
/// cannot grow finds what an earlier process has freed. The caller has not locked the heap.
pub(crate) fn find_room(arena: &Arena) {
    let region = arena.pool.region();
    let can_grow = region.size() < region.report().size_max;
    if !region.is_read_only() && !can_grow && arena.pool.is_short() {
        // What keeps a sweep from being made does not keep the heap from being used.
        let _ = sweep_or_wait(arena);
    }
}
