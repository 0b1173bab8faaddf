//! What an operator asks of a store: how it is, and whether it is sound.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use tembo_index::{CheckReport, IndexKind, Surveyor, VersionedIndex};
use tembo_pmem::Domain;
use tembo_pool::{Account, Marker, Object};

use crate::catalogue::open_tree;
use crate::inner::Inner;
use crate::writer::{Recovery, WriterState};
use crate::{Error, Horizon, Store};

/// How a store is.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// The index of every keyspace.
    pub index: IndexKind,
    /// The persistence domain.
    pub domain: String,
    /// The sync policy of the `logged` domain.
    pub sync_policy: String,
    /// Every version up to it is fenced.
    pub visible: u64,
    /// Every version up to it is synced.
    pub durable: u64,
    /// How long opening took below the store, in µs.
    pub recovery_us: u64,
    /// A survey or scrub after opening (or after a rollback) is still under way.
    pub recovering: bool,
    /// Private copies of the pool's pages, in bytes (`logged` domain).
    pub private_bytes: u64,
    /// Size of the pool, in bytes.
    pub pool_bytes: u64,
    /// Bytes of it in objects.
    pub used_bytes: u64,
    /// `fdatasync`s of log and pool so far.
    pub fdatasyncs: u64,
    /// Objects that wait for the versions that see them.
    pub retired: u64,
    /// Who holds versions that are not visible any more.
    pub horizon: Horizon,
    /// Times that a keyspace was walked since the open to give back what was removed.
    pub collections: u64,
}

/// What a check found: every byte accounted for.
#[derive(Clone, Debug, Default)]
pub struct Check {
    /// Each keyspace of the visible version.
    pub keyspaces: Vec<(String, CheckReport)>,
    /// Where the pool's bytes are. They add up to its size.
    pub account: Account,
    /// Unlinked, but still seen by a retained version or not yet given back.
    pub retired: u64,
    /// Taken, but reachable by nobody. Always 0 once recovery has ended and nothing was aborted.
    pub leaked: u64,
}

struct Counter<'c> {
    census: &'c mut dyn Marker,
    objects: u64,
}

impl Surveyor for Counter<'_> {
    fn reachable(&mut self, object: Object) -> Result<bool, tembo_index::Error> {
        let is_first = self.census.mark(object)?;
        self.objects += u64::from(is_first);
        Ok(is_first)
    }

    fn unclean(&mut self, _node: Object) {}

    fn live_entry(&mut self) {}
}

impl Store {
    /// How the store is.
    pub fn report(&self) -> Report {
        let inner = &self.inner;
        let (retired, recovering, collections) = {
            let state = inner.lock();
            let recovering = !matches!(state.recovery, Recovery::Done | Recovery::Preparing);
            (state.retired.len() as u64, recovering, state.collecting.passes)
        };
        let region = inner.region().report();
        let usage = inner.pool().usage();
        Report {
            index: inner.catalogue.tree().kind(),
            domain: domain_name(region.domain).into(),
            sync_policy: policy_name(region.sync).into(),
            visible: self.visible(),
            durable: self.durable(),
            recovery_us: region.recovery.as_micros() as u64,
            recovering,
            private_bytes: region.private_bytes,
            pool_bytes: usage.size,
            used_bytes: usage.allocated_bytes,
            fdatasyncs: region.log_syncs + region.pool_syncs,
            retired,
            horizon: self.horizon(),
            collections,
        }
    }

    /// Waits for recovery, then walks everything that a retained version reaches, verifies it, and
    /// accounts for every byte of the pool.
    ///
    /// # Errors
    /// The first damage found.
    pub fn check(&self) -> Result<Check, Error> {
        let inner = &self.inner;
        let state = loop {
            let mut state = inner.lock();
            inner.reclaim(&mut state);
            if state.recovery == Recovery::Done {
                break state;
            }
            let owed = !state.recovery.is_under_way();
            drop(state);
            if owed {
                inner.recovery_step()?;
            } else {
                std::thread::yield_now();
            }
        };
        let own = |census: &mut tembo_pool::Census| inner.check_marking(&state, census);
        let ((keyspaces, _), check) = inner.pool().check_by(inner.tenant.id, own)?;
        let (retired, account) = (state.retired.len() as u64, check.account);
        Ok(Check { keyspaces, leaked: account.leaked, account, retired })
    }
}

impl Inner {
    /// Verifies and marks everything that a retained version reaches, and what waits to be freed; the keyspaces, and how
    /// many objects there are.
    pub(crate) fn check_marking(
        &self,
        state: &WriterState,
        census: &mut dyn Marker,
    ) -> Result<(Vec<(String, CheckReport)>, u64), Error> {
        let (dead, retained) = (self.forest.dead(), self.pins.retained());
        census.mark(self.ledger.root())?;
        let mut counter = Counter { census, objects: 1 };
        let mut keyspaces = Vec::new();
        let catalogue = self.catalogue.tree();
        catalogue.survey(&retained, &dead, &mut counter)?;
        catalogue.check(&retained, &dead)?;
        let mut reports: BTreeMap<u64, CheckReport> = BTreeMap::new();
        for (version, name, entry) in self.retained_trees(&retained, &dead)? {
            if entry.birth.get() > version {
                return Err(Error::Damaged { what: "keyspaces born before they are seen" });
            }
            let report = match reports.entry(entry.cell.get()) {
                Entry::Occupied(known) => *known.get(),
                // Also of a tree that was cleared since: its readers would find the damage.
                Entry::Vacant(vacant) => {
                    let tree = open_tree(&self.forest, &entry)?;
                    tree.survey(&retained, &dead, &mut counter)?;
                    *vacant.insert(tree.check(&retained, &dead)?)
                }
            };
            if version == retained.visible() && !keyspaces.iter().any(|(known, _)| *known == name) {
                keyspaces.push((name, report));
            }
        }
        // What waits for its readers is not leaked; some of it is reachable, and marked, already.
        let objects = counter.objects;
        state.retired.objects().try_for_each(|object| census.mark(object).map(drop))?;
        Ok((keyspaces, objects))
    }
}

fn domain_name(domain: Domain) -> &'static str {
    match domain {
        Domain::Flush => "flush",
        Domain::Eadr => "eadr",
        Domain::Logged => "logged",
        Domain::Volatile => "volatile",
    }
}

fn policy_name(policy: tembo_pmem::SyncPolicy) -> &'static str {
    match policy {
        tembo_pmem::SyncPolicy::Always => "always",
        tembo_pmem::SyncPolicy::Interval(_) => "interval",
        tembo_pmem::SyncPolicy::Os => "os",
    }
}
