//! How many transactions users have in progress: each takes memory of the process that serves, and keeps a version of all files.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use fuser::Errno;

/// The user that may do all.
const ROOT_USER: u32 = 0;

/// Transactions that a user has at a time, and all users together, but for root and the user that has mounted.
const OF_USER_MAX: usize = 32;
const OF_ALL_MAX: usize = 128;

/// The transactions of users.
#[derive(Clone)]
pub(crate) struct Quota {
    /// The user that has mounted.
    owner: u32,
    users: Arc<Mutex<BTreeMap<u32, usize>>>,
}

/// Counts a transaction of a user while it lives.
pub(crate) struct Counted {
    quota: Quota,
    user: u32,
}

impl Quota {
    pub(crate) fn new(owner: u32) -> Quota {
        Quota { owner, users: Arc::default() }
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<u32, usize>> {
        // A panic leaves each count whole.
        self.users.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A user begins a transaction. `None`: those of this user are not counted.
    ///
    /// # Errors
    /// `EMFILE`: it has as many as it may have, or all users together have.
    pub(crate) fn add(&self, user: u32) -> Result<Option<Counted>, Errno> {
        if user == ROOT_USER || user == self.owner {
            return Ok(None);
        }
        let mut users = self.lock();
        let all: usize = users.values().sum();
        if users.get(&user).is_some_and(|count| *count >= OF_USER_MAX) || all >= OF_ALL_MAX {
            return Err(Errno::EMFILE);
        }
        *users.entry(user).or_default() += 1;
        Ok(Some(Counted { quota: self.clone(), user }))
    }

    /// Transactions that a user has.
    #[cfg(test)]
    pub(crate) fn count(&self, user: u32) -> usize {
        self.lock().get(&user).copied().unwrap_or(0)
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        let mut users = self.quota.lock();
        match users.get_mut(&self.user) {
            Some(count) if *count > 1 => *count -= 1,
            _ => drop(users.remove(&self.user)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_user_has_so_many_transactions_and_others_too_until_all_have_too_many() {
        let quota = Quota::new(7);
        let add = |user| quota.add(user).map_err(|error| error.code());
        let full = Some(Errno::EMFILE.code());
        let mut counted: Vec<_> = (0..OF_USER_MAX).map(|_| add(8).unwrap()).collect();
        assert_eq!(add(8).err(), full);
        counted.pop();
        counted.push(add(8).unwrap());
        for user in 9..12 {
            counted.extend((0..OF_USER_MAX).map(|_| add(user).unwrap()));
        }
        assert_eq!(counted.len(), OF_ALL_MAX);
        assert_eq!(add(20).err(), full);
        assert!(!quota.lock().contains_key(&20), "a user that has none takes no memory");
        // Root, and the user that has mounted.
        assert!(
            (0..2 * OF_ALL_MAX).all(|_| add(0).unwrap().is_none() && add(7).unwrap().is_none())
        );
        drop(counted);
        drop(add(8).unwrap());
        assert!(quota.lock().is_empty());
    }
}
