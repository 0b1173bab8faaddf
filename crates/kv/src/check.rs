//! Whether a store is sound: everything that a retained version reaches, and every byte of the pool.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use tembo_index::{CheckReport, TreeMarker, VersionedIndex, View};
use tembo_pool::{Account, Census, Error as PoolError, Marker, Object, PoolCheck, TenantCheck};

use crate::error::InKeyspace;
use crate::ledger::{Ledger, reclaim};
use crate::maintain::step;
use crate::shared::Shared;
use crate::trees::{open_tree, retained_trees};
use crate::write::{Engine, Locked, PAUSE};
use crate::{Error, Progress};

/// What a check found: every byte accounted for.
#[derive(Clone, Debug, Default)]
pub struct Check {
    /// Each keyspace of the visible version.
    pub keyspaces: Vec<(String, CheckReport)>,
    /// Where the pool's bytes are. They add up to its size.
    pub account: Account,
    /// Unlinked, but still seen by a retained version or not yet given back.
    pub retired: u64,
    /// What the other tenants of the pool say, by their names. None of them if one is of an unknown kind, and
    /// the store is open to be read only: then their bytes count as free.
    pub tenants: Vec<(String, TenantCheck)>,
    /// Taken, but not reachable. Always 0 once recovery has ended and nothing was aborted.
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

/// So often a tenant that is busy, or has not swept what it has given up, is asked again before a check gives up.
const ATTEMPTS: usize = 10_000;

/// See [`Store::check`](crate::Store::check).
pub(crate) fn check(engine: &Engine) -> Result<Check, Error> {
    let shared = &engine.shared;
    // Kept open meanwhile.
    let tenants = match shared.forest.pool().open_tenants() {
        Err(_) if shared.region().is_read_only() => None,
        tenants => Some(tenants?),
    };
    if tenants.is_some() {
        // What a rollback of theirs has left unreachable is not leaked.
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
            // What another tenant has given up meanwhile, and not swept yet, is not leaked.
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

/// The writer's lock of a store that has recovered.
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
            // Another tenant sweeps.
            engine.shared.settle_others()?;
            std::thread::sleep(PAUSE);
        }
    }
}

/// A check without the other tenants of the pool.
fn alone<T>(
    shared: &Shared,
    own: impl FnOnce(&mut Census) -> Result<T, Error>,
) -> Result<(T, PoolCheck), Error> {
    let mut census = shared.pool().census();
    let found = own(&mut census)?;
    Ok((found, PoolCheck { account: census.account(), tenants: Vec::new() }))
}

/// Verifies and marks everything that a retained version reaches, and what waits to be freed; the keyspaces, and how
/// many objects there are.
pub(crate) fn mark_checked(
    shared: &Shared,
    ledger: &Ledger,
    census: &mut dyn Marker,
) -> Result<(Vec<(String, CheckReport)>, u64), Error> {
    let (dead, retained) = (shared.forest.dead(), shared.versions.pins.retained());
    // A replica is one on media from its first change on.
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
            // Also of a tree that was cleared since: its readers would find the damage.
            Entry::Vacant(vacant) => {
                let tree = open_tree(&shared.forest, &entry)?;
                tree.mark(&retained, &dead, &mut counter)?;
                *vacant.insert(tree.check(&retained, &dead).in_keyspace(&name)?)
            }
        };
        if version == retained.visible() && !keyspaces.iter().any(|(known, _)| *known == name) {
            keyspaces.push((name, report));
        }
    }
    // What belongs to a transaction is not leaked.
    for (_, tree) in shared.private.all() {
        tree.mark(&retained, &dead, &mut counter)?;
    }
    // What waits for its readers is not leaked; some of it is reachable, and marked, already.
    let objects = counter.objects;
    ledger.retired.objects().try_for_each(|object| census.mark(object).map(drop))?;
    Ok((keyspaces, objects))
}
