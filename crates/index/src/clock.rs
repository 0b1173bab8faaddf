//! Where versions come from.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::VERSION_MAX;

/// The last version drawn. The store owns it and sees to it that what is drawn lies below the durable
/// limit of versions.
///
/// A change that commits by itself draws its version while it holds the lock of its leaf: so the
/// versions of one key rise in the order in which its entries are written, whatever the number of
/// writers, and a reader of the newest version needs no more than the greatest.
#[derive(Debug)]
pub struct Clock {
    last: AtomicU64,
}

impl Clock {
    /// A clock that goes on above `last`.
    pub fn new(last: u64) -> Clock {
        Clock { last: AtomicU64::new(last) }
    }

    /// The last version drawn.
    #[inline]
    pub fn last(&self) -> u64 {
        self.last.load(Ordering::Acquire)
    }

    /// Draws the next version, which nobody else gets.
    #[inline]
    pub fn draw(&self) -> u64 {
        let version = self.last.fetch_add(1, Ordering::AcqRel) + 1;
        debug_assert!(version <= VERSION_MAX, "the store has looked before");
        version
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_version_is_drawn_twice_and_those_of_a_thread_rise() {
        let clock = Clock::new(41);
        let draw = || (0..1000).map(|_| clock.draw()).collect::<Vec<_>>();
        let mut drawn = std::thread::scope(|scope| {
            let other = scope.spawn(draw);
            let mine = draw();
            let other = other.join().unwrap_or_default();
            assert!(mine.is_sorted() && other.is_sorted());
            [mine, other].concat()
        });
        drawn.sort_unstable();
        assert!(drawn.into_iter().eq(42..2042));
        assert_eq!(clock.last(), 2041);
    }
}
