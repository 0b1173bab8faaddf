//! Transactions of programs: each is a tree of its own below `.tembo/transactions`.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use fuser::Errno;
use tembo_fs::{Error, Fs, FsTransaction};

use crate::errors::errno;
use crate::place::VIEW_MAX;
use crate::quota::Counted;

/// The user that may do all.
const ROOT_USER: u32 = 0;

/// A transaction; `None`: it has ended while a call was waiting for it.
type View = Arc<Mutex<Option<FsTransaction>>>;

/// The transactions whose `begin` is open, by their numbers. One that has ended keeps its number until then: what is said by that file
/// is meant for no other.
#[derive(Default)]
pub(crate) struct Views(Mutex<Table>);

#[derive(Default)]
struct Table {
    /// The number that the next one gets.
    next: u64,
    open: BTreeMap<u64, Begun>,
}

struct Begun {
    /// The user that has begun it.
    owner: u32,
    has_ended: bool,
    _counted: Option<Counted>,
    view: View,
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // A panic in a call leaves a transaction as it was before or after it: a part of it makes it broken.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Views {
    /// Begins one of a user, which may be counted until its file is closed; returns its number.
    ///
    /// # Errors
    /// `EMFILE`: all numbers are in use. Those of the store.
    pub(crate) fn begin(
        &self,
        fs: &Fs,
        (owner, counted): (u32, Option<Counted>),
    ) -> Result<u64, Errno> {
        let transaction = fs.transaction().map_err(|error| errno(&error))?;
        let mut table = locked(&self.0);
        if table.open.len() as u64 >= VIEW_MAX {
            return Err(Errno::EMFILE);
        }
        while table.open.contains_key(&table.next) {
            table.next = (table.next + 1) % VIEW_MAX;
        }
        let number = table.next;
        // The kernel may still know the files of one that has ended: its number is not given again soon.
        table.next = (number + 1) % VIEW_MAX;
        let view = Arc::new(Mutex::new(Some(transaction)));
        table.open.insert(number, Begun { owner, has_ended: false, _counted: counted, view });
        Ok(number)
    }

    /// Whether it has begun and not ended, and a user may enter it: the one that has begun it, or root.
    pub(crate) fn may_enter(&self, number: u64, user: u32) -> bool {
        let table = locked(&self.0);
        let may_enter = |begun: &Begun| user == begun.owner || user == ROOT_USER;
        table.open.get(&number).is_some_and(|begun| !begun.has_ended && may_enter(begun))
    }

    /// Does something in a transaction.
    ///
    /// # Errors
    /// `ESTALE`: it has ended. Those of `work`.
    pub(crate) fn with<T>(
        &self,
        number: u64,
        work: impl FnOnce(&mut FsTransaction) -> Result<T, Error>,
    ) -> Result<T, Errno> {
        let view = locked(&self.0).open.get(&number).map(|begun| begun.view.clone());
        let view = view.ok_or(Errno::ESTALE)?;
        let mut view = locked(&view);
        let transaction = view.as_mut().ok_or(Errno::ESTALE)?;
        work(transaction).map_err(|error| errno(&error))
    }

    /// Ends one, after the call that it may be in. To drop it leaves nothing.
    pub(crate) fn take(&self, number: u64) -> Option<FsTransaction> {
        let view = {
            let mut table = locked(&self.0);
            let begun = table.open.get_mut(&number)?;
            begun.has_ended = true;
            begun.view.clone()
        };
        let mut view = locked(&view);
        view.take()
    }

    /// The file that has begun it is closed: its number may be given again.
    pub(crate) fn forget(&self, number: u64) {
        locked(&self.0).open.remove(&number);
    }
}

#[cfg(test)]
mod tests {
    use tembo_fs::{Format, Time};
    use tembo_kv::{Options, Store};

    use super::*;
    use crate::quota::Quota;

    #[test]
    fn the_number_of_a_transaction_is_given_again_when_its_file_is_closed() {
        let store = Store::volatile(&Options::new()).unwrap();
        let fs = Fs::format(&store, &Format::default(), Time::default()).unwrap();
        let views = Views::default();
        let first = views.begin(&fs, (7, None)).unwrap();
        assert!(
            views.may_enter(first, 7) && views.may_enter(first, 0) && !views.may_enter(first, 8)
        );
        drop(views.take(first).unwrap());
        assert!(!views.may_enter(first, 7) && views.take(first).is_none());
        // All numbers were given since.
        locked(&views.0).next = first;
        let quota = Quota::new(0);
        let counted = |user| (user, quota.add(user).unwrap());
        let second = views.begin(&fs, counted(8)).unwrap();
        assert_ne!(second, first);
        // What the file of the first one says ends no other.
        assert!(views.take(first).is_none());
        assert!(views.may_enter(second, 8));
        // It counts as long as its number is not given again.
        drop(views.take(second).unwrap());
        assert_eq!(quota.count(8), 1);
        views.forget(second);
        assert_eq!(quota.count(8), 0);
        views.forget(first);
        locked(&views.0).next = first;
        assert_eq!(views.begin(&fs, (9, None)).unwrap(), first);
    }
}
