//! The tenants of a pool that are open in this process.

use std::sync::{Arc, Mutex, MutexGuard, TryLockError, Weak};

use tembo_pmem::thread::lock;

use super::entry::{TenantEntry, TenantId};
use super::live::Tenant;
use crate::Error;

/// The open tenants of a pool. It keeps none of them open.
#[derive(Default)]
pub(crate) struct Registry {
    live: Mutex<Vec<(TenantId, Weak<dyn Tenant>)>>,
    /// Held while a tenant is added or opened, and while a sweep begins. So a sweep begins with all tenants, and none of them
    /// is half open.
    changing: Mutex<()>,
}

/// An open tenant, and what the superblock says of it.
pub(crate) struct Live {
    pub(crate) entry: TenantEntry,
    pub(crate) tenant: Arc<dyn Tenant>,
}

impl Registry {
    /// The lock that a thread holds while it adds or opens a tenant.
    pub(crate) fn change(&self) -> MutexGuard<'_, ()> {
        lock(&self.changing)
    }

    /// The same lock, if no tenant is being added or opened.
    pub(crate) fn try_change(&self) -> Option<MutexGuard<'_, ()>> {
        match self.changing.try_lock() {
            Ok(guard) => Some(guard),
            Err(TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        }
    }

    pub(crate) fn find(&self, id: TenantId) -> Option<Arc<dyn Tenant>> {
        lock(&self.live).iter().find(|(other, _)| *other == id)?.1.upgrade()
    }

    pub(crate) fn insert(&self, id: TenantId, tenant: Weak<dyn Tenant>) {
        let mut live = lock(&self.live);
        live.retain(|(other, _)| *other != id);
        live.push((id, tenant));
    }

    /// All of these, except `driver`.
    ///
    /// # Errors
    /// [`Error::TenantNotOpen`].
    pub(crate) fn all(
        &self,
        entries: Vec<TenantEntry>,
        driver: Option<TenantId>,
    ) -> Result<Vec<Live>, Error> {
        let others = entries.into_iter().filter(|entry| Some(entry.id) != driver);
        others
            .map(|entry| match self.find(entry.id) {
                Some(tenant) => Ok(Live { entry, tenant }),
                None => Err(Error::TenantNotOpen { name: entry.name }),
            })
            .collect()
    }

    /// Notifies all that are open.
    pub(crate) fn sweep_ended(&self) {
        let live: Vec<Arc<dyn Tenant>> =
            lock(&self.live).iter().filter_map(|(_, tenant)| tenant.upgrade()).collect();
        live.iter().for_each(|tenant| tenant.sweep_ended());
    }
}
