//! What all threads of a store share and change without the writer's lock.

use std::ops::Bound;
use std::sync::Arc;

use tembo_index::{Forest, Index, IndexKind, Range, Value, ValueRoom, View};
use tembo_pmem::Region;
use tembo_pool::{Error as PoolError, Pool, TenantEntry};

use crate::background::{Status, Wake};
use crate::held::{HeldKeys, Holding};
use crate::media::Root;
use crate::tombstones::{Tombstones, masked_has};
use crate::trees::{Catalogue, Indexes, PrivateTrees, Published};
use crate::version::{Names, Reading, Versions};
use crate::{Access, Durability, Error, Keyspace};

/// Number of versions after which the writer looks again for versions that were given up.
pub(crate) const LOOK_STEP: u64 = 1000;

/// The parts of a store that have locks of their own, or none.
pub(crate) struct Shared {
    /// The store's place in its pool.
    pub(crate) tenant: TenantEntry,
    pub(crate) forest: Arc<Forest>,
    pub(crate) root: Root,
    /// The indexes of the trees of keyspaces.
    pub(crate) indexes: Indexes,
    pub(crate) catalogue: Catalogue,
    pub(crate) versions: Versions,
    /// The last version that was committed before the store was opened.
    pub(crate) found: u64,
    pub(crate) published: Published,
    pub(crate) names: Names,
    pub(crate) held: HeldKeys,
    pub(crate) tombstones: Tombstones,
    /// Trees of transactions that have outgrown memory.
    pub(crate) private: PrivateTrees,
    pub(crate) wake: Arc<Wake>,
    pub(crate) status: Status,
}

impl Shared {
    pub(crate) fn region(&self) -> &Region {
        self.forest.pool().region()
    }

    pub(crate) fn pool(&self) -> &Pool {
        self.forest.pool()
    }

    /// Lets the other tenants of the pool end what they have begun. One of them may drive a sweep of all tenants by calls of
    /// a thread that does not go on before this call has ended.
    ///
    /// # Errors
    /// Those of the pool.
    pub(crate) fn settle_others(&self) -> Result<(), Error> {
        let pool = self.forest.pool();
        let tenants = pool.open_tenants()?;
        for (entry, tenant) in pool.tenants()?.into_iter().zip(tenants) {
            if entry.id != self.tenant.id {
                let failed = |source| PoolError::Tenant { name: entry.name, source };
                tenant.settle().map_err(failed)?;
            }
        }
        Ok(())
    }

    /// # Errors
    /// [`Error::ReadOnly`].
    pub(crate) fn check_writable(&self) -> Result<(), Error> {
        if self.region().is_read_only() { Err(Error::ReadOnly) } else { Ok(()) }
    }

    pub(crate) fn kind(&self) -> IndexKind {
        self.catalogue.kind()
    }

    /// Checks that a range of keys can be read.
    ///
    /// # Errors
    /// [`Error::Unordered`] if keys have no order, and these are not all keys.
    pub(crate) fn check_range(&self, bounds: (Bound<&[u8]>, Bound<&[u8]>)) -> Result<(), Error> {
        match bounds {
            (Bound::Unbounded, Bound::Unbounded) => Ok(()),
            _ => self.check_order(),
        }
    }

    /// Checks that keys have an order, for a caller that needs one.
    ///
    /// # Errors
    /// [`Error::Unordered`] if there is none.
    pub(crate) fn check_order(&self) -> Result<(), Error> {
        if self.kind().is_ordered() { Ok(()) } else { Err(Error::Unordered) }
    }

    /// Makes everything that is visible as durable as `durability` says.
    #[inline]
    pub(crate) fn make_durable(&self, asked: Durability) -> Result<(), Error> {
        // Without a log nothing is left to do behind a fence.
        if self.versions.needs_sync() { self.make_logged_durable(asked) } else { Ok(()) }
    }

    #[inline(never)]
    fn make_logged_durable(&self, asked: Durability) -> Result<(), Error> {
        match asked {
            Durability::Strict => self.versions.sync(self.region()),
            Durability::Written => self.versions.write_out(self.region()),
            Durability::Buffered => Ok(()),
        }
    }

    /// As `make_durable`, for a visible version: if it was synced meanwhile, nothing is synced again.
    pub(crate) fn make_version_durable(
        &self,
        asked: Durability,
        version: u64,
    ) -> Result<(), Error> {
        if version > self.versions.durable() { self.make_durable(asked) } else { Ok(()) }
    }

    /// Checks for the writer whether a change of a key may be made. `own`: the prepared transaction whose change it is.
    ///
    /// # Errors
    /// [`Error::Conflict`]: another prepared one holds the key.
    #[inline]
    pub(crate) fn check_held(
        &self,
        keyspace: Keyspace,
        key: &[u8],
        own: Option<&[u8]>,
    ) -> Result<(), Error> {
        if self.held.is_empty() {
            return Ok(());
        }
        self.not_held(
            keyspace,
            Access::Write,
            self.held.holder((keyspace, key), Access::Write, own),
        )
    }

    /// Checks for the writer whether a key may be held against writers.
    ///
    /// # Errors
    /// [`Error::Conflict`]: a prepared transaction is to write it.
    pub(crate) fn check_held_read(&self, keyspace: Keyspace, key: &[u8]) -> Result<(), Error> {
        self.not_held(keyspace, Access::Read, self.held.holder((keyspace, key), Access::Read, None))
    }

    /// As [`check_held`](Shared::check_held), for an access to every key of a range.
    pub(crate) fn check_held_range(
        &self,
        keyspace: Keyspace,
        range: Range<'_>,
        access: Access,
    ) -> Result<(), Error> {
        if self.held.is_empty() {
            return Ok(());
        }
        self.not_held(keyspace, access, self.held.holder_in(keyspace, range, access, None))
    }

    #[cold]
    fn not_held(
        &self,
        keyspace: Keyspace,
        access: Access,
        holding: Option<Holding>,
    ) -> Result<(), Error> {
        let Some(Holding { id, version, key }) = holding else { return Ok(()) };
        let current = self.published.load();
        let keyspace = current.find(keyspace).map(|known| known.name.to_string());
        let (keyspace, held_by) = (keyspace.unwrap_or_default(), Some(id.to_vec()));
        Err(Error::Conflict { keyspace, key, access, version, held_by })
    }

    /// Notes that a handle has given up a version. If it was an old one, the background looks what can be given back.
    pub(crate) fn let_go(&self, version: u64) {
        if version + LOOK_STEP < self.versions.pins.visible() || self.tombstones.has_any() {
            self.wake.want();
        }
    }

    /// Pins the visible version for one read, with its trees. `None`: the read needs a snapshot.
    #[inline(always)]
    pub(crate) fn begin_reading(&self) -> Option<Reading<'_>> {
        let mut reading = self.versions.pins.read_visible()?;
        if self.forest.has_dead() || self.tombstones.has_any() {
            return None;
        }
        if !self.published.is_current(&reading.known) {
            self.published.renew(&mut reading.known);
        }
        // The published trees may be those of a version that is not visible yet.
        (reading.known.since <= reading.version).then_some(reading)
    }

    /// Whether the view's entry of the key, if there is one, is covered by no tombstone or was put later.
    #[inline]
    pub(crate) fn sees(&self, index: &Index, key: &[u8], view: View<'_>) -> Result<bool, Error> {
        if !self.tombstones.has_any() {
            return Ok(true);
        }
        masked_has(&self.tombstones.load(), index, key, view)
    }

    /// The value under a key in the visible version, copied. `None`: the read needs a pin.
    #[inline(always)]
    pub(crate) fn get_unpinned<'r>(
        &self,
        keyspace: Keyspace,
        key: &[u8],
        room: &'r mut ValueRoom,
    ) -> Option<Option<Value<'r>>> {
        let (known, version) = self.versions.pins.peek_visible()?;
        // These are read after the version, in this order: see `version/read_slots.rs`.
        let hides_entries = self.forest.has_dead() || self.tombstones.has_any();
        if hides_entries || !self.published.is_current(&known) || known.since > version {
            return None;
        }
        let value = known.find(keyspace)?.index.get_unpinned(key, version, room)?;
        self.published.is_current(&known).then_some(value)
    }
}
