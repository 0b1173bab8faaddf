//! Which versions are read, and so retained.

use std::collections::BTreeMap;
use std::sync::atomic::{Ordering, fence};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tembo_index::Retained;
use tembo_pmem::thread::{Apart, EventCount, LatchGuard};

use super::past::Past;
use super::read_slots::{Reading, Slots};
use super::visible::Visible;
use crate::Error;
use crate::trees::Current;

/// The visible version and the pinned ones.
pub(crate) struct Pins {
    pub(crate) visible: Visible,
    /// Pins that last.
    table: Apart<Mutex<Table>>,
    /// Pins that last for one read.
    slots: Slots,
    /// Wakes those that wait for what is visible.
    pub(crate) published: EventCount,
}

/// What a pin is held for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PinKind {
    Snapshot,
    Transaction,
    Name,
    Marking,
    Tombstone,
}

/// How many pins there are of each kind, in the order of [`PinKind`].
type Counts = [usize; 5];

struct Table {
    /// How many hold each version.
    pins: BTreeMap<u64, usize>,
    /// How many of those are tombstones: they keep what they need of a version, not the version.
    tombstones: BTreeMap<u64, usize>,
    counts: Counts,
    past: Past,
    cached: Option<Arc<Retained>>,
}

impl Pins {
    pub(crate) fn new(visible: u64) -> Pins {
        let table = Table {
            pins: BTreeMap::new(),
            tombstones: BTreeMap::new(),
            counts: Counts::default(),
            past: Past::since_open(visible),
            cached: None,
        };
        let (visible, published) = (Visible::new(visible), EventCount::default());
        Pins { visible, table: Apart(Mutex::new(table)), slots: Slots::new(), published }
    }

    fn table(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn visible(&self) -> u64 {
        self.visible.load()
    }

    /// Every version up to `version` is fenced. By the writer, or by a thread that is alone in its slot.
    pub(crate) fn publish(&self, version: u64) {
        self.visible.store(version);
        self.published.notify();
    }

    /// Pins the visible version and returns it.
    pub(crate) fn pin_visible(&self, kind: PinKind) -> u64 {
        let mut table = self.table();
        let version = self.visible();
        table.add(version, kind);
        version
    }

    /// Pins a version that is pinned already, not by tombstones alone, that is visible, or that lies in the window.
    pub(crate) fn pin_retained(&self, version: u64, kind: PinKind) -> bool {
        let mut table = self.table();
        let visible = self.visible();
        let window = table.past.since(visible)..=visible;
        let retained = window.contains(&version) || table.is_held(version);
        if retained {
            table.add(version, kind);
        }
        retained
    }

    /// Pins a version that is pinned already, if it is sure that no rollback has taken it away. Of rollbacks by earlier processes only the
    /// hull is known, but what they took away has lost its names: `is_named` says that it has one.
    ///
    /// # Errors
    /// [`Error::RolledBack`].
    pub(crate) fn pin_happened(
        &self,
        version: u64,
        kind: PinKind,
        is_named: bool,
    ) -> Result<(), Error> {
        let mut table = self.table();
        let past = &table.past;
        let to = if is_named { past.rollback_of(version) } else { past.rollback_before(version) };
        if let Some(to) = to {
            return Err(Error::RolledBack { version, to });
        }
        table.add(version, kind);
        Ok(())
    }

    /// Looks at, or changes, since when everything is retained, given the visible version.
    pub(crate) fn with_past<T>(&self, with: impl FnOnce(&mut Past, u64) -> T) -> T {
        let mut table = self.table();
        let visible = self.visible();
        with(&mut table.past, visible)
    }

    /// How many hold each version, and which are read by brief reads.
    pub(crate) fn holders(&self) -> (BTreeMap<u64, usize>, Vec<u64>) {
        let table = self.table();
        (table.pins.clone(), self.slots.versions().collect())
    }

    /// Pins a version that is retained whatever happens meanwhile.
    pub(crate) fn pin(&self, version: u64, kind: PinKind) {
        self.table().add(version, kind);
    }

    /// How many pins there are of a kind.
    pub(crate) fn count(&self, kind: PinKind) -> usize {
        self.table().counts[kind as usize]
    }

    pub(crate) fn unpin(&self, version: u64, kind: PinKind) {
        let mut table = self.table();
        table.counts[kind as usize] -= 1;
        if kind == PinKind::Tombstone {
            take_one(&mut table.tombstones, version);
        }
        if take_one(&mut table.pins, version) {
            table.cached = None;
        }
    }

    /// Whether a version in `[from, until)` can be read: `own` pins at each version do not count. Called again, it does
    /// not become true.
    pub(crate) fn needs(&self, from: u64, until: u64, own: impl Fn(u64) -> usize) -> bool {
        let table = self.table();
        let visible = self.visible();
        // Behind the last change of `visible`, before the slots: see `read_slots.rs`.
        fence(Ordering::SeqCst);
        let mut pins = table.pins.range(from..until);
        until > table.past.since(visible)
            || pins.any(|(&pin, &count)| count > own(pin))
            || self.slots.versions().any(|read| (from..until).contains(&read))
    }

    /// The pinned versions above `version`, and how many hold each. While the slots are closed.
    pub(crate) fn above(&self, version: u64) -> BTreeMap<u64, usize> {
        // Behind the closing of the slots: see `read_slots.rs`.
        fence(Ordering::SeqCst);
        let table = self.table();
        let mut above: BTreeMap<u64, usize> =
            table.pins.range(version + 1..).map(|(&pin, &count)| (pin, count)).collect();
        for read in self.slots.versions().filter(|&read| read > version) {
            *above.entry(read).or_default() += 1;
        }
        above
    }

    /// The visible version, pinned for one read; `None`: that takes a snapshot.
    #[inline]
    pub(crate) fn read_visible(&self) -> Option<Reading<'_>> {
        self.slots.begin(&self.visible)
    }

    /// The trees that the thread knows and the visible version, which is not pinned.
    #[inline]
    pub(crate) fn peek_visible(&self) -> Option<(LatchGuard<'_, Current>, u64)> {
        let known = self.slots.enter()?;
        Some((known, self.visible.load()))
    }

    /// No read of one key begins while what it returns lives.
    pub(crate) fn close_slots(&self) -> Closed<'_> {
        self.slots.close();
        Closed { slots: &self.slots }
    }

    /// What reads of one key know of the trees is outdated.
    pub(crate) fn forget_trees(&self) {
        self.slots.forget_trees();
    }

    /// What is retained now.
    pub(crate) fn retained(&self) -> Arc<Retained> {
        let mut table = self.table();
        let visible = self.visible();
        // Behind the last change of `visible`, before the slots: see `read_slots.rs`.
        fence(Ordering::SeqCst);
        let mut read = self.slots.versions().peekable();
        match &table.cached {
            Some(cached)
                if (cached.visible(), cached.window()) == (visible, table.past.since(visible))
                    && read.peek().is_none() =>
            {
                cached.clone()
            }
            _ => {
                let brief = read.peek().is_some();
                let pins = table.pins.keys().copied().chain(read).collect();
                let since = table.past.since(visible);
                let retained = Arc::new(Retained::new(visible, pins).since(since));
                table.cached = (!brief).then(|| retained.clone());
                retained
            }
        }
    }

    /// Makes of `retained` what is retained now.
    pub(crate) fn renew(&self, retained: &mut Retained) {
        let table = self.table();
        let visible = self.visible();
        // Behind the last change of `visible`, before the slots: see `read_slots.rs`.
        fence(Ordering::SeqCst);
        let pins = table.pins.keys().copied().chain(self.slots.versions());
        retained.renew(visible, table.past.since(visible), pins);
    }
}

/// Reads of one key take snapshots.
pub(crate) struct Closed<'p> {
    slots: &'p Slots,
}

impl Drop for Closed<'_> {
    fn drop(&mut self) {
        self.slots.open();
    }
}

/// Counts one less; true if it was the last.
fn take_one(counts: &mut BTreeMap<u64, usize>, version: u64) -> bool {
    let Some(count) = counts.get_mut(&version) else { return false };
    *count -= 1;
    let is_last = *count == 0;
    if is_last {
        counts.remove(&version);
    }
    is_last
}

impl Table {
    /// Whether anything but tombstones holds the version.
    fn is_held(&self, version: u64) -> bool {
        let own = self.tombstones.get(&version).copied().unwrap_or_default();
        self.pins.get(&version).is_some_and(|&count| count > own)
    }

    fn add(&mut self, version: u64, kind: PinKind) {
        self.counts[kind as usize] += 1;
        if kind == PinKind::Tombstone {
            *self.tombstones.entry(version).or_default() += 1;
        }
        let count = self.pins.entry(version).or_default();
        *count += 1;
        if *count == 1 {
            self.cached = None;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Barrier;
    use std::sync::atomic::{AtomicBool, AtomicU64};

    const VERSIONS: u64 = 100_000;

    /// Version `v` has a word of its own, which the writer spoils when no version in `[v, v + 1)` is needed.
    #[test]
    fn nothing_is_given_up_that_a_read_has_pinned() {
        let pins = Pins::new(1);
        let words: Vec<AtomicBool> = (0..=VERSIONS).map(|_| AtomicBool::new(true)).collect();
        let (begin, reads) = (Barrier::new(3), AtomicU64::new(0));
        let read = || {
            begin.wait();
            while pins.visible() < VERSIONS {
                let Some(reading) = pins.read_visible() else { continue };
                let word = &words[reading.version as usize];
                for _ in 0..reading.version % 50 {
                    assert!(word.load(Ordering::Relaxed), "{} was given up", reading.version);
                }
                reads.fetch_add(1, Ordering::Relaxed);
            }
        };
        let write = || {
            let (mut retained, mut kept) = (Retained::default(), Vec::new());
            begin.wait();
            for version in 2..=VERSIONS {
                pins.publish(version);
                kept.push(version - 1);
                if version % 1000 == 0 && version < VERSIONS {
                    // Where there are fewer processors than threads, readers need time to run.
                    let before = reads.load(Ordering::Relaxed);
                    let began = std::time::Instant::now();
                    while reads.load(Ordering::Relaxed) == before {
                        assert!(began.elapsed().as_secs() < 60, "no read begins");
                        std::thread::yield_now();
                    }
                }
                if version % 3 == 0 {
                    pins.renew(&mut retained);
                    kept.retain(|&kept| {
                        let needed = retained.needs(kept, kept + 1);
                        words[kept as usize].fetch_and(needed, Ordering::Relaxed);
                        needed
                    });
                }
            }
            pins.renew(&mut retained);
            kept.into_iter().filter(|&kept| retained.needs(kept, kept + 1)).count()
        };
        let kept = std::thread::scope(|scope| {
            let readers = [scope.spawn(read), scope.spawn(read)];
            let kept = write();
            readers.into_iter().for_each(|reader| reader.join().unwrap());
            kept
        });
        // A reader may be in the middle of a read when the last one is asked for; no more than that.
        assert!(kept <= 2, "{kept}");
        assert_eq!(pins.retained().pins(), []);
    }

    #[test]
    fn a_pin_holds_its_version_in_every_answer() {
        let pins = Pins::new(7);
        let reading = pins.read_visible();
        pins.publish(9);
        let mut renewed = Retained::default();
        for _ in 0..2 {
            pins.renew(&mut renewed);
            for retained in [&renewed, &*pins.retained()] {
                assert!(retained.needs(7, 8) && !retained.needs(8, 9));
            }
        }
        assert_eq!(pins.above(6), BTreeMap::from([(7, 1)]));
        // The thread's slot is taken: another read takes a snapshot.
        assert!(reading.is_some() && pins.read_visible().is_none());
        drop(reading);
        assert!(!pins.retained().needs(7, 8));
        let closed = pins.close_slots();
        assert!(pins.read_visible().is_none());
        drop(closed);
        assert!(pins.read_visible().is_some_and(|reading| reading.version == 9));
    }
}
