//! Which heaps a thread has something under way in.

use std::cell::RefCell;

use crate::arena::Arena;

thread_local! {
    /// The heaps of which a transaction is under way on this thread.
    static UNDER_WAY: RefCell<Vec<usize>> = const { RefCell::new(Vec::new()) };
}

/// A transaction on this thread.
pub(crate) struct UnderWay(usize);

impl UnderWay {
    /// `None`: there is one.
    pub(crate) fn begin(arena: &Arena) -> Option<UnderWay> {
        let address = std::ptr::from_ref(arena).addr();
        UNDER_WAY.with_borrow_mut(|all| {
            if all.contains(&address) {
                return None;
            }
            all.push(address);
            Some(UnderWay(address))
        })
    }
}

impl Drop for UnderWay {
    fn drop(&mut self) {
        UNDER_WAY.with_borrow_mut(|all| all.retain(|address| *address != self.0));
    }
}
