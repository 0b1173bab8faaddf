//! Where versions come from.

use std::cell::Cell;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::VERSION_MAX;

/// The last version drawn. The store owns it and sees to it that what is drawn lies below the durable
/// limit of versions.
///
/// A change that commits by itself draws its version while it holds the lock of its leaf: so the
/// versions of one key rise in the order in which its entries are written, whatever the number of
/// writers, and a reader of the newest version needs no more than the greatest.
///
/// It has cache lines of its own: each draw by one thread takes the line from the other threads.
#[derive(Debug)]
#[repr(align(128))]
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

    /// Draws the next version, which no other thread gets.
    #[inline]
    pub fn draw(&self) -> u64 {
        let version = self.last.fetch_add(1, Ordering::AcqRel) + 1;
        debug_assert!(version <= VERSION_MAX, "the store has looked before");
        version
    }

    /// Goes on above `version`; those in between are not drawn. Only the writer calls this, while no other thread draws.
    pub fn skip_to(&self, version: u64) {
        debug_assert!(version <= VERSION_MAX, "the store has looked before");
        self.last.fetch_max(version, Ordering::AcqRel);
    }

    /// As `draw`, while no other thread draws: it takes no atomic exchange, which would wait for the fences
    /// before it.
    #[inline]
    fn draw_alone(&self) -> u64 {
        let version = self.last.load(Ordering::Relaxed) + 1;
        debug_assert!(version <= VERSION_MAX, "the store has looked before");
        self.last.store(version, Ordering::Release);
        version
    }

    /// A ticket for one change of the one writer. No other thread draws before the ticket is dropped.
    #[inline]
    pub fn ticket(&self) -> Ticket<'_> {
        Ticket { clock: self, below: None, seen: self.last(), drawn: Cell::new(0) }
    }

    /// A ticket for one change of one of several writers. The word `below` says which versions are in flight. `seen` was
    /// the last version drawn, some time ago.
    #[inline]
    pub fn ticket_of<'c>(&'c self, below: &'c AtomicU64, seen: u64) -> Ticket<'c> {
        Ticket { clock: self, below: Some(below), seen, drawn: Cell::new(0) }
    }
}

/// The right of one change that commits by itself to draw its version. The ticket announces that before it draws.
///
/// What is drawn is *in flight* until the ticket is dropped. Of several writers each has a word, in which
/// stands [`AT_REST`] or a version below those in flight. It is written before the version is drawn; so
/// the thread that loads the [last](Clock::last) version and then the words of all writers knows that every
/// version up to the least of them all was drawn and is not in flight any more.
pub struct Ticket<'c> {
    clock: &'c Clock,
    below: Option<&'c AtomicU64>,
    seen: u64,
    drawn: Cell<u64>,
}

/// A writer's word while nothing is in flight.
pub const AT_REST: u64 = u64::MAX;

impl Ticket<'_> {
    /// The last version that any thread has drawn.
    #[inline]
    pub fn last(&self) -> u64 {
        self.clock.last()
    }

    /// The last version that any thread had drawn when the ticket was made, or before. The call does not take the clock's
    /// line from a thread that draws.
    #[inline]
    pub fn seen(&self) -> u64 {
        self.seen
    }

    /// Draws the next version, which no other thread gets. What was drawn before by the same ticket is not used.
    #[inline(always)]
    pub fn draw(&self) -> u64 {
        let version = match self.below {
            None => self.clock.draw_alone(),
            Some(below) => self.draw_in_flight(below),
        };
        self.drawn.set(version);
        version
    }

    fn draw_in_flight(&self, below: &AtomicU64) -> u64 {
        if self.drawn.get() != 0 {
            return self.clock.draw();
        }
        // Before the version is drawn, whose drawing releases it. And a thread that finds it in the place of `AT_REST`
        // has to see what came to rest before. An old version is below the one that is drawn too, and keeps others waiting
        // for no longer than the drawing takes.
        below.store(self.seen, Ordering::Release);
        let version = self.clock.draw();
        // Others may have drawn in between: they need not wait.
        below.store(version - 1, Ordering::Release);
        version
    }

    /// The last version drawn by this ticket; 0: none.
    #[inline]
    pub fn drawn(&self) -> u64 {
        self.drawn.get()
    }
}

impl Drop for Ticket<'_> {
    #[inline]
    fn drop(&mut self) {
        if let Some(below) = self.below
            && self.drawn.get() != 0
        {
            below.store(AT_REST, Ordering::Release);
        }
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

    #[test]
    fn what_is_in_flight_is_above_the_least_word() {
        let (clock, done) = (Clock::new(0), AtomicU64::new(0));
        let words = [AtomicU64::new(AT_REST), AtomicU64::new(AT_REST)];
        let flown: Vec<AtomicU64> = (0..=4000).map(|_| AtomicU64::new(0)).collect();
        let fly = |word: &AtomicU64| {
            for tickets in 0..1000 {
                let ticket = clock.ticket_of(word, clock.last());
                for _ in 0..tickets % 3 {
                    flown[ticket.draw() as usize].store(1, Ordering::Relaxed);
                }
                assert!(ticket.drawn() <= ticket.last());
            }
            done.fetch_add(1, Ordering::Relaxed);
        };
        std::thread::scope(|scope| {
            words.iter().for_each(|word| drop(scope.spawn(|| fly(word))));
            let mut known = 0;
            while done.load(Ordering::Relaxed) < 2 {
                let last = clock.last();
                let least = words.iter().map(|word| word.load(Ordering::Acquire)).min();
                let landed = least.map_or(last, |least| least.min(last));
                for version in known + 1..=landed {
                    assert_eq!(flown[version as usize].load(Ordering::Relaxed), 1, "{version}");
                }
                known = known.max(landed);
            }
        });
        assert!(words.iter().all(|word| word.load(Ordering::Relaxed) == AT_REST));
    }
}
