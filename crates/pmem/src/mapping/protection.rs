//! Protection of the pages of a mapping from stray stores.
//!
//! A store by a wrong pointer, of unsafe code anywhere in the process, changes memory that is persistent. Protected pages can only be read
//! but while a section of the region is under way: a store outside ends the process by SIGSEGV. Sections are counted, so
//! that threads have theirs side by side; the first that begins and the last that ends each cost a system call.

use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

/// Whether the pages of a mapping are protected, and the sections that can store to them.
#[derive(Debug, Default)]
pub(crate) struct Protection {
    is_on: AtomicBool,
    state: Mutex<State>,
    changes: AtomicU64,
}

#[derive(Debug, Default)]
struct State {
    /// Sections that are under way.
    sections: u64,
    /// Bytes of the mapping that are mapped.
    end: u64,
}

impl Protection {
    #[inline]
    pub(crate) fn is_on(&self) -> bool {
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

    /// A section begins: pages can be stored to from here on. After an error it has not begun.
    pub(crate) fn open(
        &self,
        set: impl FnOnce(u64, u64, bool) -> io::Result<()>,
    ) -> io::Result<()> {
        self.change(|state| {
            if state.sections == 0 {
                set(0, state.end, true)?;
                self.changes.fetch_add(1, Ordering::Relaxed);
            }
            state.sections += 1;
            Ok(())
        })
    }

    /// It ends.
    pub(crate) fn close(&self, set: impl FnOnce(u64, u64, bool) -> io::Result<()>) {
        self.change(|state| {
            state.sections = state.sections.saturating_sub(1);
            if state.sections == 0 {
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
        if self.is_on() {
            self.change(|state| {
                state.end = state.end.max(to);
                if state.sections == 0 {
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
    fn the_first_section_opens_the_pages_and_the_last_closes_them() {
        let (protection, calls) = (Protection::default(), RefCell::new(Vec::new()));
        let set = |from, to, can_store| {
            calls.borrow_mut().push((from, to, can_store));
            Ok(())
        };
        protection.grown(0, 4, set);
        assert!(!protection.is_on() && calls.borrow().is_empty());
        protection.begin(4, set).unwrap();
        protection.open(set).unwrap();
        protection.open(set).unwrap();
        protection.grown(4, 6, set);
        protection.close(set);
        protection.close(set);
        protection.grown(6, 9, set);
        protection.open(set).unwrap();
        let wanted = [(0, 4, false), (0, 4, true), (0, 6, false), (6, 9, false), (0, 9, true)];
        assert_eq!((&calls.borrow()[..], protection.changes()), (&wanted[..], 3));
        protection.close(set);
        // A section that cannot open the pages has not begun.
        protection.open(|_, _, _| Err(io::ErrorKind::OutOfMemory.into())).unwrap_err();
        protection.open(set).unwrap();
        assert_eq!(calls.borrow().last(), Some(&(0, 9, true)));
    }
}
