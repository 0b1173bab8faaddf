//! Feature bits of the store's line in the pool's table: what a program that does not know them must not open, or not write.
//!
//! A bit is durable before the first store of what it announces. Most stay for good. That of removed ranges goes when no
//! version has one that could be read, in a life of the process that has not removed one: so a store that removes a
//! range now and then pays one fence a life, not one each time.

use tembo_pool::TenantFeatures;

use crate::Error;
use crate::media::{FEATURES_PREPARED, FEATURES_RANGES, FEATURES_REPLICA};
use crate::shared::Shared;

/// The bits of a store.
#[derive(Default)]
pub(crate) struct Features {
    /// Set on media.
    set: TenantFeatures,
    /// Needed in this life of the process.
    needed: TenantFeatures,
}

impl Features {
    /// Those of a store that is opened.
    pub(crate) fn found(set: TenantFeatures) -> Features {
        Features { set, needed: TenantFeatures::default() }
    }

    /// Sees to it that programs that do not know these features keep away. One fence, the first time in the life of a
    /// store (of a pool of format version 1: some more).
    ///
    /// # Errors
    /// Those of the pool: nothing may be stored that the bits announce.
    pub(crate) fn announce(
        &mut self,
        shared: &Shared,
        features: TenantFeatures,
    ) -> Result<(), Error> {
        if !contains(self.set, features) {
            self.store(shared, union(self.set, features))?;
        }
        self.needed = union(self.needed, features);
        Ok(())
    }

    /// Takes back the bit of removed ranges if there is none left: an older program may open the store again.
    ///
    /// # Errors
    /// Those of the pool: the bit stays.
    pub(crate) fn retract_ranges(&mut self, shared: &Shared) -> Result<(), Error> {
        let is_needed = contains(self.needed, FEATURES_RANGES) || shared.tombstones.has_any();
        if is_needed || !contains(self.set, FEATURES_RANGES) {
            return Ok(());
        }
        let must = self.set.must & !FEATURES_RANGES.must;
        self.store(shared, TenantFeatures { must, ..self.set })
    }

    /// # Errors
    /// [`Error::Damaged`] if the store has a removed range or a prepared transaction, or is a replica, and no bit announces it:
    /// an older program would not keep away.
    pub(crate) fn check(&self, shared: &Shared, is_replica: bool) -> Result<(), Error> {
        let expect =
            |is_there: bool, features, what| match is_there && !contains(self.set, features) {
                true => Err(Error::Damaged { what }),
                false => Ok(()),
            };
        let has_ranges = shared.tombstones.has_any();
        expect(has_ranges, FEATURES_RANGES, "the feature bit of removed ranges, which is not set")?;
        let has_prepared = !shared.held.is_empty();
        expect(
            has_prepared,
            FEATURES_PREPARED,
            "the feature bit of prepared transactions, which is not set",
        )?;
        expect(is_replica, FEATURES_REPLICA, "the feature bit of replicas, which is not set")
    }

    fn store(&mut self, shared: &Shared, features: TenantFeatures) -> Result<(), Error> {
        shared.pool().set_tenant_features(shared.tenant.id, features)?;
        self.set = features;
        Ok(())
    }
}

fn union(a: TenantFeatures, b: TenantFeatures) -> TenantFeatures {
    TenantFeatures {
        may: a.may | b.may,
        must: a.must | b.must,
        read_only: a.read_only | b.read_only,
    }
}

fn contains(all: TenantFeatures, some: TenantFeatures) -> bool {
    union(all, some) == all
}
