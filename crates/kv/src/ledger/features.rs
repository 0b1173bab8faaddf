//! Feature bits of the store's line in the pool's table: what a program that does not know them must not open, or not write.
//!
//! A bit is durable before the first store of what it announces. Most stay for good. That of removed ranges goes when no
//! version has one that could be read, in a life of the process that has not removed one: so a store that removes a
//! range now and then pays one fence a life, not one each time.

use tembo_pool::TenantFeatures;

use crate::Error;
use crate::media::FEATURES_RANGES;
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
