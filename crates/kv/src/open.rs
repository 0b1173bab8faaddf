//! Opening is recovery: constant work, whatever the size. What was in flight becomes a dead
//! interval, versions go on above the durable limit, and a marking in the background finds out what
//! is free, how many keys there are, and which nodes carry dead stamps.
//!
//! # The life of an open
//! ```text
//!  pool open, root found and sound
//!     │
//!     ▼   in flight: stamps above the commit word ──► dead table      fence
//!     ▼   limit raised above all that was ever drawn                  fence
//!     │   (a replica goes on above its last commit: what was in flight it is given again)
//!     ▼   catalogue: the keyspaces of the last version
//!     ▼   keys that prepared transactions hold
//!     ▼   names whose versions are dead are forgotten; the others are pinned
//!     ▼   sync ──► the store serves
//!     └─► background: Owed (`background/machine.rs`)
//! ```
//! An open that was interrupted is the same as one that never began.

mod rollback;

pub(crate) use rollback::roll_back;

use std::collections::BTreeMap;
use std::sync::Arc;

use tembo_index::{
    DeadInterval, DeadIntervals, Forest, Index, IndexKind, Period, Records, Stamp, View,
};
use tembo_pmem::Domain;
use tembo_pool::{Error as PoolError, Kind, NewTenant, Pool, TenantEntry, TenantFeatures};

use crate::background::{Status, Wake};
use crate::held::HeldKeys;
use crate::ledger::{Features, Ledger};
use crate::media::{
    CommitWord, DeadTable, FEATURES_HASH, LANE, Limit, NameTable, Root, WindowWords, grouped,
};
use crate::shared::Shared;
use crate::tombstones::{Tombstone, Tombstones};
use crate::trees::{Catalogue, Directory, Indexes, PrivateTrees, Published};
use crate::version::{Names, PinKind, Pins, Versions, Window};
use crate::write::Engine;
use crate::{Error, prepared};

/// The name of the store of a pool that was made for it.
pub(crate) const MAIN: &str = "main";

/// A store, as a tenant to be added to a pool.
pub(crate) const NEW_TENANT: NewTenant<'_> = NewTenant {
    kind: Kind::STORE,
    name: MAIN,
    version: 1,
    features: TenantFeatures { may: 0, must: 0, read_only: 0 },
};

/// Opens the store that is a tenant of a pool.
pub(crate) fn open(pool: &Arc<Pool>, tenant: &TenantEntry) -> Result<Engine, Error> {
    let size_max = pool.region().report().size_max;
    let forest = Arc::new(Forest::new(pool.clone(), size_max.max(pool.region().size()))?);
    let root = Root::open(pool.clone(), tenant.root)?;
    let region = pool.region();
    let section = region.reserve(64)?;
    let pending_dead = note_in_flight(&root)?;
    let used = Limit(&root).load()?;
    let dead = DeadTable(&root).intervals()?.into_iter().chain(pending_dead).collect();
    let dead = Arc::new(DeadIntervals::new(dead));
    forest.set_dead(dead.clone());
    let is_logged = region.domain() == Domain::Logged;
    let (mut versions, mut named) = retained_at(&root, used, &dead, is_logged)?;
    // Behind the pins: what no retained version needs may lie in space that has been given to others.
    forest.set_retained(versions.pins.retained());
    let names = Index::open(forest.clone(), root.catalogue()?, 1)?;
    let kind = match tenant.features.must & FEATURES_HASH.must {
        0 => names.kind(),
        _ => IndexKind::Hash,
    };
    let catalogue = Catalogue::new(names, kind);
    let is_replica = catalogue.is_replica(View { version: used, dead: &dead })?;
    let found = last_committed(&root, &dead)?;
    let (before, limit) = match is_replica {
        true => (found, used),
        false => (used, Limit(&root).raise(used + 1)?),
    };
    drop(section);
    if is_replica {
        (versions, named) = retained_at(&root, before, &dead, is_logged)?;
    }
    let (from, retention) = WindowWords(&root).load()?;
    forest.set_retained(versions.pins.retained());
    let view = View { version: before, dead: &dead };
    let indexes = Indexes::new(forest.clone());
    let trees = Directory::open(&indexes, &catalogue, view)?;
    let held = HeldKeys::default();
    held.replace(prepared::load(&catalogue, view, &trees)?);
    let tombstones = Tombstones::new(tombstones(&catalogue, &versions.pins, view)?);
    // The catalogue was read without the pins of its tombstones.
    forest.set_retained_at_open(versions.pins.retained());
    region.sync()?;
    let published = Published::new(trees.known(), before);
    let window = Window::found(from, retention, before);
    let removed = tombstones.load();
    let inherited = named.values().copied().chain(removed.iter().map(|one| one.version)).collect();
    let mut ledger = Ledger::new(limit, (dead, pending_dead), trees, inherited, window);
    ledger.is_replica = is_replica;
    ledger.features = Features::found(tenant.features);
    let (names, wake) = (Names::new(named), Arc::<Wake>::default());
    let status = Status::default();
    status.note(ledger.machine.is_recovering(), 0, 0);
    let shared = Shared {
        tenant: tenant.clone(),
        forest,
        root,
        indexes,
        catalogue,
        versions,
        found,
        published,
        names,
        held,
        tombstones,
        private: PrivateTrees::default(),
        wake,
        status,
    };
    Ok(Engine::new(shared, ledger))
}

/// The range tombstones of all versions that can be read, each pinned.
fn tombstones(catalogue: &Catalogue, pins: &Pins, now: View<'_>) -> Result<Vec<Tombstone>, Error> {
    let mut found: BTreeMap<u64, Tombstone> = BTreeMap::new();
    let retained = pins.retained();
    let (after, until) = (retained.window(), now.version);
    let mut ended = Vec::new();
    for version in retained.pins().iter().copied().chain([after]) {
        ended.extend(catalogue.tombstones(View { version, ..now })?);
    }
    if after < until {
        ended.extend(catalogue.tombstones_of(Period { after, until, dead: now.dead })?);
    }
    // When they were erased is not asked: nothing is covered in any later version.
    for one in ended {
        found.insert(one.version, Tombstone { until, ..one });
    }
    for one in catalogue.tombstones(now)? {
        found.insert(one.version, one);
    }
    found.keys().for_each(|&version| pins.pin(version, PinKind::Tombstone));
    Ok(found.into_values().collect())
}

/// The last version of a store in which every change is committed with a group, or that of its last rollback.
fn last_committed(root: &Root, dead: &DeadIntervals) -> Result<u64, Error> {
    let noted = dead.intervals().iter().filter(|dead| dead.lane.is_none()).map(|dead| dead.to);
    let rolled_back = WindowWords(root).void()?.map(|(_, to)| to).into_iter().chain(noted).max();
    Ok(CommitWord(root).load()?.max(rolled_back.map_or(0, |to| to + 1)))
}

/// The versions of a store that is opened at one of them: the named ones are pinned, and the window is known.
fn retained_at(
    root: &Root,
    visible: u64,
    dead: &DeadIntervals,
    is_logged: bool,
) -> Result<(Versions, BTreeMap<String, u64>), Error> {
    let versions = Versions::new(visible, is_logged);
    let named = names(root, &versions.pins, dead)?;
    let (window, _) = WindowWords(root).load()?;
    remember(&versions.pins, window, WindowWords(root).void()?, dead);
    Ok((versions, named))
}

/// The named versions, each pinned.
fn names(root: &Root, pins: &Pins, dead: &DeadIntervals) -> Result<BTreeMap<String, u64>, Error> {
    let is_void = |&(_, version): &(String, u64)| dead.contains(Stamp::single(version, LANE));
    let (void, named): (Vec<_>, Vec<_>) = NameTable(root).all()?.into_iter().partition(is_void);
    // An interrupted rollback has not come to these.
    for (name, _) in void {
        let _section = root.region().reserve(1)?;
        NameTable(root).forget(&name)?;
    }
    named.iter().for_each(|(_, version)| pins.pin(*version, PinKind::Name));
    Ok(named.into_iter().collect())
}

/// What is known of the past: since when it is kept, and what of it was rolled back.
fn remember(pins: &Pins, window: Option<u64>, void: Option<(u64, u64)>, dead: &DeadIntervals) {
    // Of those that no scrub has come to only the table says it.
    let unscrubbed = dead.intervals().iter().filter(|dead| dead.lane.is_none());
    pins.with_past(|past, _| {
        past.set_window(window);
        past.rolled_back_earlier(void);
        unscrubbed.for_each(|dead| past.rolled_back(dead.from, dead.to));
    });
}

/// Makes durably dead what was in flight; returns what there was no place for.
fn note_in_flight(root: &Root) -> Result<Option<DeadInterval>, Error> {
    let mut pending = None;
    for dead in CommitWord(root).in_flight()? {
        if !DeadTable(root).note(dead)? {
            // After many crashes in a row the table may be full. Then the first commit notes it, when
            // the scrub has made room; until then it is in flight as before.
            pending = Some(dead);
        }
    }
    Ok(pending)
}

/// Makes an empty store of a name that no other tenant of the pool has; its root is published in one step.
pub(crate) fn format(
    pool: &Pool,
    name: &str,
    (kind, records): (IndexKind, Records),
) -> Result<TenantEntry, Error> {
    let _section = pool.reserve(64 << 10, 256)?;
    // The catalogue is read by ranges.
    let (catalogue, features) = match kind.is_ordered() {
        true => (kind, NEW_TENANT.features),
        false => (IndexKind::Nvtree, FEATURES_HASH),
    };
    let new = NewTenant { name, features, ..NEW_TENANT };
    pool.add_tenant(&new, Root::SIZE, |region, root| {
        let cell = Index::format(pool, catalogue, records, grouped(1))?;
        Root::format(region, root, cell)
    })
}

/// The store of a pool that was made for it.
///
/// # Errors
/// [`Error::NoSuchStore`]: the pool holds others only. [`Error::Damaged`]: it holds nothing.
pub(crate) fn find(pool: &Pool) -> Result<TenantEntry, Error> {
    match pool.tenant(NEW_TENANT.name) {
        Ok(entry) if entry.kind == NEW_TENANT.kind => Ok(entry),
        Ok(_) => Err(Error::NoSuchStore { name: MAIN.to_owned() }),
        // An interrupted creation leaves nothing; and of a root that is damaged nothing may be left.
        Err(PoolError::NoSuchTenant { .. }) if pool.tenants()?.is_empty() => {
            Err(Error::Damaged { what: "a store's root" })
        }
        Err(PoolError::NoSuchTenant { name }) => Err(Error::NoSuchStore { name }),
        Err(error) => Err(error.into()),
    }
}
