//! Windows in which the pages of a mapping can be stored to, while they are protected from stray stores.
//!
//! A store by a wrong pointer, of unsafe code anywhere in the process, changes memory that is persistent. Protected pages can only be read
//! but while a window is open: a store outside ends the process by SIGSEGV. Each section of a region is a window. They are counted, so
//! that threads have theirs side by side; the first that opens and the last that closes each cost a system call.

use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

/// The windows of a mapping.
#[derive(Debug, Default)]
pub(crate) struct Windows {
    is_on: AtomicBool,
    state: Mutex<State>,
    changes: AtomicU64,
}

#[derive(Debug, Default)]
struct State {
    /// Windows that are open.
    open: u64,
    /// Bytes of the mapping that are mapped.
    end: u64,
}

impl Windows {
    #[inline]
    pub(crate) fn are_on(&self) -> bool {
        self.is_on.load(Ordering::Acquire)
    }

    /// How often pages were protected or opened.
    pub(crate) fn changes(&self) -> u64 {
        self.changes.load(Ordering::Relaxed)
    }

    fn change<R>(&self, change: impl FnOnce(&mut State) -> R) -> R {
        change(&mut self.state.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// From here on pages are protected, all before `end`. `set` says from where to where pages can be stored to, or cannot.
    pub(crate) fn begin(
        &self,
        end: u64,
        set: impl FnOnce(u64, u64, bool) -> io::Result<()>,
    ) -> io::Result<()> {
        self.change(|state| {
            state.end = end;
            set(0, end, false)?;
            self.is_on.store(true, Ordering::Release);
            Ok(())
        })
    }

    /// A window is open from here on. After an error it is not.
    pub(crate) fn open(
        &self,
        set: impl FnOnce(u64, u64, bool) -> io::Result<()>,
    ) -> io::Result<()> {
        self.change(|state| {
            if state.open == 0 {
                set(0, state.end, true)?;
                self.changes.fetch_add(1, Ordering::Relaxed);
            }
            state.open += 1;
            Ok(())
        })
    }

    /// It is closed.
    pub(crate) fn close(&self, set: impl FnOnce(u64, u64, bool) -> io::Result<()>) {
        self.change(|state| {
            state.open = state.open.saturating_sub(1);
            if state.open == 0 {
                // What cannot be protected can be stored to, as without protection.
                let _ = set(0, state.end, false);
                self.changes.fetch_add(1, Ordering::Relaxed);
            }
        });
    }

    /// More was mapped, which can be stored to.
    pub(crate) fn grown(
        &self,
        from: u64,
        to: u64,
        set: impl FnOnce(u64, u64, bool) -> io::Result<()>,
    ) {
        if self.are_on() {
            self.change(|state| {
                state.end = state.end.max(to);
                if state.open == 0 {
                    // As above.
                    let _ = set(from, to, false);
                }
            });
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::cell::RefCell;

    use super::*;

    #[test]
    fn the_first_window_opens_the_pages_and_the_last_closes_them() {
        let (windows, calls) = (Windows::default(), RefCell::new(Vec::new()));
        let set = |from, to, can_store| {
            calls.borrow_mut().push((from, to, can_store));
            Ok(())
        };
        windows.grown(0, 4, set);
        assert!(!windows.are_on() && calls.borrow().is_empty());
        windows.begin(4, set).unwrap();
        windows.open(set).unwrap();
        windows.open(set).unwrap();
        windows.grown(4, 6, set);
        windows.close(set);
        windows.close(set);
        windows.grown(6, 9, set);
        windows.open(set).unwrap();
        let wanted = [(0, 4, false), (0, 4, true), (0, 6, false), (6, 9, false), (0, 9, true)];
        assert_eq!((&calls.borrow()[..], windows.changes()), (&wanted[..], 3));
        windows.close(set);
        // What cannot be opened is no window.
        windows.open(|_, _, _| Err(io::ErrorKind::OutOfMemory.into())).unwrap_err();
        windows.open(set).unwrap();
        assert_eq!(calls.borrow().last(), Some(&(0, 9, true)));
    }
}
