//! Whether a store is sound: everything that a retained version reaches, and every byte of the pool.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use tembo_index::{CheckReport, TreeMarker, VersionedIndex, View};
use tembo_pool::{Account, Census, Error as PoolError, Marker, Object, PoolCheck, TenantCheck};

use crate::error::InKeyspace;
use crate::ledger::{Ledger, reclaim};
use crate::maintain::step;
use crate::shared::Shared;
use crate::trees::retained_trees;
use crate::write::{Engine, Locked, PAUSE};
use crate::{Error, Progress};

/// The result of a check: every byte of the pool is accounted for.
#[derive(Clone, Debug, Default)]
pub struct Check {
    /// Each keyspace of the visible version.
    pub keyspaces: Vec<(String, CheckReport)>,
    /// The uses of the pool's bytes. They add up to its size.
    pub account: Account,
    /// Objects that are unlinked, but that a retained version still sees or that were not yet given back.
    pub retired: u64,
    /// The results of the other tenants of the pool, by their names. It is empty if one is of an unknown kind and
    /// the store is open to be read only: then the bytes of the others count as free.
    pub tenants: Vec<(String, TenantCheck)>,
    /// Objects that are taken but not reachable. There are none once recovery has ended, if nothing was aborted.
    pub leaked: u64,
}

struct Counter<'c> {
    census: &'c mut dyn Marker,
    objects: u64,
}

impl TreeMarker for Counter<'_> {
    fn reachable(&mut self, object: Object) -> Result<bool, tembo_index::Error> {
        let is_first = self.census.mark(object)?;
        self.objects += u64::from(is_first);
        Ok(is_first)
    }

    fn unclean(&mut self, _node: Object) {}

    fn live_entry(&mut self) {}
}

/// How often a check asks a tenant again that is busy or has not swept what it has given up, before the check gives up.
const ATTEMPTS: usize = 10_000;

/// See [`Store::check`](crate::Store::check).
pub(crate) fn check(engine: &Engine) -> Result<Check, Error> {
    let shared = &engine.shared;
    // The tenants stay open during the check.
    let tenants = match shared.forest.pool().open_tenants() {
        Err(_) if shared.region().is_read_only() => None,
        tenants => Some(tenants?),
    };
    if tenants.is_some() {
        // Objects that a rollback of another tenant has made unreachable are not leaked.
        shared.settle_others()?;
    }
    let mut attempts = 0;
    loop {
        let writing = recovered(engine)?;
        let own = |census: &mut Census| mark_checked(shared, &writing, census);
        let checked = match tenants {
            Some(_) => shared.pool().check_by(shared.tenant.id, own),
            None => alone(shared, own),
        };
        let retired = writing.retired.len() as u64;
        drop(writing);
        match checked {
            Err(Error::Pool(PoolError::TenantBusy { .. })) if attempts < ATTEMPTS => {
                attempts += 1;
                std::thread::sleep(PAUSE);
            }
            // Objects that another tenant has given up meanwhile, and not swept yet, are not leaked.
            Ok((_, found)) if found.account.leaked > 0 && owes_sweep(&found).is_some() => {
                if attempts == ATTEMPTS {
                    let name = owes_sweep(&found).unwrap_or_default().to_owned();
                    return Err(PoolError::TenantBusy { name }.into());
                }
                attempts += 1;
                shared.settle_others()?;
            }
            checked => {
                let ((keyspaces, _), PoolCheck { account, tenants }) = checked?;
                return Ok(Check { keyspaces, leaked: account.leaked, account, retired, tenants });
            }
        }
    }
}

/// A tenant that has not swept what it has given up.
fn owes_sweep(found: &PoolCheck) -> Option<&str> {
    found.tenants.iter().find(|(_, tenant)| tenant.owes_sweep).map(|(name, _)| &**name)
}

/// Takes the writer's lock, once the store has recovered.
fn recovered(engine: &Engine) -> Result<Locked<'_>, Error> {
    loop {
        let mut writing = engine.lock()?;
        let (shared, ledger) = writing.parts();
        reclaim(shared, ledger);
        if ledger.machine.is_done() {
            return Ok(writing);
        }
        let (is_foreign, is_unlocked) =
            (ledger.is_marked_by_another(), ledger.machine.is_unlocked());
        drop(writing);
        if is_foreign {
            engine.shared.settle_others()?;
        }
        if is_unlocked {
            std::thread::yield_now();
        } else if step(engine)? == Progress::Idle {
            // Another tenant sweeps, and has to end that.
            engine.shared.settle_others()?;
            std::thread::sleep(PAUSE);
        }
    }
}

/// Performs a check without the other tenants of the pool.
fn alone<T>(
    shared: &Shared,
    own: impl FnOnce(&mut Census) -> Result<T, Error>,
) -> Result<(T, PoolCheck), Error> {
    let mut census = shared.pool().census();
    let found = own(&mut census)?;
    Ok((found, PoolCheck { account: census.account(), tenants: Vec::new() }))
}

/// Verifies and marks everything that a retained version reaches, and what waits to be freed. Returns the keyspaces, and
/// how many objects are reachable.
pub(crate) fn mark_checked(
    shared: &Shared,
    ledger: &Ledger,
    census: &mut dyn Marker,
) -> Result<(Vec<(String, CheckReport)>, u64), Error> {
    let (dead, retained) = (shared.forest.dead(), shared.versions.pins.retained());
    // A store is a replica on media from its first change on.
    let now = View { version: retained.visible(), dead: &dead };
    ledger.features.check(shared, shared.catalogue.is_replica(now)?)?;
    census.mark(shared.root.object())?;
    let mut counter = Counter { census, objects: 1 };
    let mut keyspaces = Vec::new();
    let catalogue = shared.catalogue.tree();
    catalogue.mark(&retained, &dead, &mut counter)?;
    catalogue.check(&retained, &dead)?;
    let mut reports: BTreeMap<u64, CheckReport> = BTreeMap::new();
    for (version, name, entry) in retained_trees(&shared.catalogue, &retained, &dead)? {
        if entry.birth.get() > version {
            return Err(Error::Damaged { what: "keyspaces born before they are seen" });
        }
        let report = match reports.entry(entry.cell.get()) {
            Entry::Occupied(known) => *known.get(),
            // This includes trees that were cleared since: readers of old versions would find their damage.
            Entry::Vacant(vacant) => {
                let tree = shared.indexes.open(&entry)?;
                tree.mark(&retained, &dead, &mut counter)?;
                *vacant.insert(tree.check(&retained, &dead).in_keyspace(&name)?)
            }
        };
        if version == retained.visible() && !keyspaces.iter().any(|(known, _)| *known == name) {
            keyspaces.push((name, report));
        }
    }
    // The objects of a transaction's private trees are not leaked.
    for (_, tree) in shared.private.all() {
        tree.mark(&retained, &dead, &mut counter)?;
    }
    // Retired objects are not leaked. Some of them are reachable, and already marked.
    let objects = counter.objects;
    ledger.retired.objects().try_for_each(|object| census.mark(object).map(drop))?;
    Ok((keyspaces, objects))
}
