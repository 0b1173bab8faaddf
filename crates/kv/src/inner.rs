//! What the threads of a store share, and what its writer does.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tembo_index::{Cdds, DeadInterval, DeadIntervals, Forest, Writer};
use tembo_pmem::Region;
use tembo_pool::Pool;

use crate::catalogue::Catalogue;
use crate::format::{INDEX_CDDS, KeyspaceEntry};
use crate::ledger::{LANE, Ledger};
use crate::pins::Pins;
use crate::writer::{Recovery, Tree, WriterState};
use crate::{Durability, Error};

/// What the threads of a store share.
pub(crate) struct Inner {
    pub(crate) forest: Arc<Forest>,
    pub(crate) ledger: Ledger,
    pub(crate) catalogue: Catalogue,
    pub(crate) pins: Pins,
    pub(crate) durable: AtomicU64,
    pub(crate) writer: Mutex<WriterState>,
}

impl Inner {
    pub(crate) fn region(&self) -> &Region {
        self.forest.pool().region()
    }

    pub(crate) fn pool(&self) -> &Pool {
        self.forest.pool()
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, WriterState> {
        self.writer.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Makes dead intervals known, durably; the caller is the one writer.
    pub(crate) fn kill(&self, state: &mut WriterState, dead: DeadInterval) -> Result<(), Error> {
        let region = self.region();
        let _section = region.reserve(4)?;
        if !self.ledger.note_dead(region, dead)? {
            self.recover_now(state)?;
            if !self.ledger.note_dead(region, dead)? {
                return Err(Error::Damaged { what: "a table of dead intervals with room" });
            }
        }
        self.forest.set_dead(Arc::new(DeadIntervals::new(self.ledger.dead(region)?)));
        if state.recovery == Recovery::Done {
            state.recovery = Recovery::Owed;
        }
        Ok(())
    }

    /// The next version, below the durable limit.
    pub(crate) fn next_version(&self, state: &mut WriterState) -> Result<u64, Error> {
        let version = state.version + 1;
        if version > state.limit {
            let _section = self.region().reserve(2)?;
            state.limit = self.ledger.raise_limit(self.region(), version)?;
        }
        state.version = version;
        Ok(version)
    }

    /// After a commit: what it unlinked waits for its readers, and what nobody reads is given back.
    pub(crate) fn settle(&self, state: &mut WriterState) {
        let mut unlinked = std::mem::take(&mut state.unlinked);
        state.retired.extend(&mut unlinked);
        state.unlinked = unlinked;
        self.reclaim(state);
    }

    pub(crate) fn reclaim(&self, state: &mut WriterState) {
        if state.recovery == Recovery::Done
            && (!state.cleared.is_empty() || !state.inherited.is_empty())
        {
            let retained = self.pins.retained();
            let before = state.cleared.len() + state.inherited.len();
            state.cleared.retain(|&(start, end)| retained.needs(start, end));
            state.inherited.retain(|pin| retained.pins().contains(pin));
            if state.cleared.len() + state.inherited.len() < before {
                state.recovery = Recovery::Owed;
            }
        }
        // While a survey runs, or nodes wait to be scrubbed, nothing may become something else.
        if matches!(state.recovery, Recovery::Surveying | Recovery::Scrubbing)
            || state.retired.len() == 0
        {
            return;
        }
        let retained = self.pins.retained();
        self.forest.set_retained(retained.clone());
        state.retired.reclaim(&retained, self.pins.changes(), self.pool());
    }

    /// Everything fenced becomes as durable as the policy promises.
    pub(crate) fn sync(&self) -> Result<(), Error> {
        let version = self.pins.visible();
        if version > self.durable.load(Ordering::Acquire) {
            self.region().sync()?;
            self.durable.fetch_max(version, Ordering::AcqRel);
        }
        Ok(())
    }

    pub(crate) fn make_durable(&self, durability: Durability) -> Result<(), Error> {
        match durability {
            Durability::Strict | Durability::Group => self.sync(),
            Durability::Buffered => Ok(()),
        }
    }

    /// A grouped commit of the store's own changes: catalogue entries. Fenced when it returns.
    pub(crate) fn commit_own<T>(
        &self,
        state: &mut WriterState,
        change: impl FnOnce(&mut Writer<'_>) -> Result<T, Error>,
    ) -> Result<T, Error> {
        if state.broken {
            return Err(Error::Damaged { what: "an index, as found by an earlier transaction" });
        }
        let version = self.next_version(state)?;
        let (retained, dead) = (self.pins.retained(), self.forest.dead());
        let mut writer = Writer {
            stamp: Ledger::grouped(version),
            dead: &dead,
            retained: &retained,
            retired: &mut state.unlinked,
        };
        let committed = change(&mut writer).and_then(|changed| {
            let _section = self.region().reserve(2)?;
            self.ledger.commit(self.region(), version)?;
            Ok(changed)
        });
        match committed {
            Ok(_) => {
                self.pins.publish(version);
                self.settle(state);
            }
            Err(_) => abort(self, state, version),
        }
        committed
    }

    /// Names a version; synced when it returns.
    pub(crate) fn name(&self, name: &str, version: u64) -> Result<(), Error> {
        let region = self.region();
        let section = region.reserve(1)?;
        self.ledger.name_snapshot(region, name, version)?;
        drop(section);
        Ok(region.sync()?)
    }

    /// Forgets a name; synced when it returns.
    pub(crate) fn forget_name(&self, name: &str) -> Result<(), Error> {
        let region = self.region();
        let section = region.reserve(1)?;
        self.ledger.forget_snapshot(region, name)?;
        drop(section);
        Ok(region.sync()?)
    }
}

pub(crate) fn create_tree(
    inner: &Inner,
    name: &str,
    id: u64,
    writer: &mut Writer<'_>,
) -> Result<Tree, Error> {
    let _section = inner.pool().reserve(4096, 64)?;
    let (index, cell) = Cdds::create(inner.forest.clone(), writer)?;
    let entry = KeyspaceEntry {
        id: id.into(),
        cell: cell.to_bits().into(),
        birth: writer.stamp.version().into(),
        index: INDEX_CDDS.into(),
    };
    inner.catalogue.put_keyspace(name, entry, writer)?;
    Ok(Tree { name: name.to_owned(), index: Arc::new(index), entry, surveyed: Some(0), delta: 0 })
}

/// Makes an uncommitted version void. If even that fails, no more is written: then the version is
/// still in flight, and the next open makes it void.
pub(crate) fn abort(inner: &Inner, state: &mut WriterState, version: u64) {
    state.unlinked.clear();
    let lane = Some(LANE);
    let dead = DeadInterval { from: version - 1, to: version, lane };
    if inner.kill(state, dead).is_err() {
        state.broken = true;
    }
}
