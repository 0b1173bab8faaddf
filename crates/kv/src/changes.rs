//! What happened after a version, in the order of versions: for replicas, caches, and other followers.
//!
//! An index finds what happened in a period by key, not by version; so it is sorted here, within a
//! *budget* of memory. One pass over the trees keeps the changes of the earliest versions, as many as
//! the budget holds; what comes later is left for the next pass. With b bytes of changes waiting that is
//! ⌈b / budget⌉ passes, of each of which an NV-Tree reads but the leaves that have changed since; and
//! sorting, n log n. The changes of one version are always given out together, so a transaction larger than
//! the budget takes the memory that it takes. So are those of a commit that has several versions, if it was made since the
//! store was opened: else it is not known which versions are of one commit.
//!
//! As long as a [`Changes`] lives, everything after what it has given out is retained. It gives out only what is
//! durable: that will not be lost by a crash. A rollback can take it back; then it says so.
//!
//! A follower that has got everything waits: a thread sleeps in [`Changes::wait`], an event loop waits for the
//! descriptor of [`Changes::readiness`]. A commit that no follower waits for pays a load (`EventCount` in `pmem`).

use std::collections::{BTreeMap, VecDeque};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, RawFd};
use std::sync::Arc;
use std::time::Duration;

use tembo_index::{Direction, Period, Range, View};
use tembo_pmem::thread::EventFd;

use crate::error::InKeyspace;
use crate::opened::Handle;
use crate::tombstones::{Tombstone, masked_range};
use crate::trees::{TreeLifetime, lifetimes};
use crate::version::{Commits, Rollbacks};
use crate::{Error, Snapshot};

/// Memory for changes that wait to be given out, in bytes.
const BUDGET: usize = 16 << 20;

/// Something that happened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// The version in which it did: changes of one version were committed together.
    pub version: u64,
    /// The name of the keyspace to which it did.
    pub keyspace: Arc<str>,
    /// What it was.
    pub event: Event,
}

/// What happened to a keyspace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// It was made.
    Created,
    /// Every key was removed.
    Cleared,
    /// A value was put: it may be the one that was there.
    Put {
        /// The key.
        key: Vec<u8>,
        /// The value.
        value: Vec<u8>,
    },
    /// A key was removed: it may be one that was not there.
    Removed {
        /// The key.
        key: Vec<u8>,
    },
}

impl Change {
    /// What it takes in memory, about.
    fn size(&self) -> usize {
        let bytes = match &self.event {
            Event::Created | Event::Cleared => 0,
            Event::Put { key, value } => key.len() + value.len(),
            Event::Removed { key } => key.len(),
        };
        bytes + size_of::<Change>()
    }
}

/// Everything that happens after a version. See [`Store::changes`](crate::Store::changes).
///
/// It owns what it needs: it can be sent to another thread, and may outlive the [`Store`](crate::Store) that it came
/// from, which stays open until then.
pub struct Changes {
    handle: Handle,
    /// Everything up to it was given out; everything after it is retained.
    after: u64,
    /// It knows of these rollbacks.
    known: Rollbacks,
    /// What waits is of versions up to this one: all of them.
    until: u64,
    waiting: VecDeque<Change>,
    budget: usize,
    readiness: Option<Readiness>,
}

/// A file descriptor for event loops, readable while a follower may have something to give out. It is for `poll` and
/// its like only: not to be read or written.
#[derive(Clone, Debug)]
pub struct Readiness(EventFd);

impl AsFd for Readiness {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

impl AsRawFd for Readiness {
    fn as_raw_fd(&self) -> RawFd {
        self.0.as_raw_fd()
    }
}

/// The changes of the earliest commits.
struct Earliest {
    /// The commits of the period that have several versions.
    commits: Commits,
    /// By the last version of their commit.
    by_commit: BTreeMap<u64, Vec<Change>>,
    /// Changes up to this version are kept.
    until: u64,
    size: usize,
    budget: usize,
}

impl Earliest {
    fn add(&mut self, version: u64, keyspace: &Arc<str>, event: Event) {
        if version > self.until {
            return;
        }
        let change = Change { version, keyspace: keyspace.clone(), event };
        self.size += change.size();
        let last = self.commits.last_of(version);
        self.by_commit.entry(last).or_default().push(change);
        while self.size > self.budget && self.by_commit.len() > 1 {
            let Some((_, changes)) = self.by_commit.pop_last() else { break };
            self.size -= changes.iter().map(Change::size).sum::<usize>();
            // A version that happened: a follower that begins there again must find it.
            self.until = self.by_commit.last_key_value().map_or(self.until, |(last, _)| *last);
        }
    }

    /// All of them, in the order of versions.
    fn into_changes(self) -> impl Iterator<Item = Change> {
        self.by_commit.into_values().flat_map(|mut changes| {
            changes.sort_by_key(|change| change.version);
            changes
        })
    }
}

impl Changes {
    /// # Errors
    /// [`Error::HistoryForgotten`], [`Error::RolledBack`].
    pub(crate) fn begin(handle: &Handle, after: u64) -> Result<Changes, Error> {
        let pins = &handle.shared.versions.pins;
        let known = pins.with_past(|past, visible| past.follow(after, visible))?;
        let (handle, waiting) = (handle.clone(), VecDeque::new());
        let (until, budget) = (after, BUDGET);
        Ok(Changes { handle, after, known, until, waiting, budget, readiness: None })
    }

    /// Changes within other bounds of memory, in bytes.
    #[must_use]
    pub fn with_budget(mut self, bytes: usize) -> Changes {
        self.budget = bytes;
        self
    }

    /// Everything up to this version was given out. A follower that has applied it can begin here again.
    pub fn position(&self) -> u64 {
        self.after
    }

    /// Whether a version is known to be the last of its commit, so that the store was once as all changes up to it make it.
    /// Most commits have one version; [savepoints](crate::Exclusive::savepoint) and removed ranges make more. Of
    /// versions before the store was opened it is not known, but for the last of them. Where [`next`](Changes::next) returns
    /// `None`, [`position`](Changes::position) is such a version.
    pub fn is_whole_at(&self, version: u64) -> bool {
        self.handle.shared.versions.pins.with_past(|past, _| past.commits().is_last(version))
    }

    /// The next change; `None`: nothing more is durable yet, ask again later.
    ///
    /// # Errors
    /// [`Error::RolledBack`]; damage.
    #[allow(clippy::should_implement_trait)] // It can end, fail, and go on.
    pub fn next(&mut self) -> Result<Option<Change>, Error> {
        loop {
            if let Some(change) = self.waiting.pop_front() {
                return Ok(Some(change));
            }
            self.advance();
            if !self.has_more() && !self.rearm() {
                return Ok(None);
            }
            self.look()?;
        }
    }

    /// Something after what was given out is durable.
    fn has_more(&self) -> bool {
        self.handle.shared.versions.durable() > self.after
    }

    /// The descriptor waits for what comes; true if something has come.
    fn rearm(&self) -> bool {
        let event = self.handle.shared.versions.durable_event();
        let rearm = |fd: &Readiness| event.rearm(&fd.0, || self.has_more());
        self.readiness.as_ref().is_some_and(rearm)
    }

    /// Sleeps until something after what was given out is durable, at most for `timeout`;
    /// [`Duration::MAX`]: however long that takes. Then [`next`](Changes::next) gives it out, or says that it was rolled
    /// back; or it finds nothing, if a version changed nothing. Returns false if the time is over, or if
    /// [`Store::close`](crate::Store::close) was called meanwhile, which this handle keeps from closing.
    ///
    /// What is committed with [`Durability::Buffered`](crate::Durability) is durable at the next sync. A thread that has an
    /// [`Exclusive`](crate::Exclusive) of the store does not sleep, as it would wait for itself: it gets false if there
    /// is nothing.
    pub fn wait(&mut self, timeout: Duration) -> bool {
        if self.waiting.is_empty() {
            self.advance();
            let timeout = if self.handle.is_own() { Duration::ZERO } else { timeout };
            let event = self.handle.shared.versions.durable_event();
            return event.wait(timeout, || self.has_more());
        }
        true
    }

    /// A descriptor for an event loop: readable as long as [`next`](Changes::next) may have something, until that has
    /// returned `None`. It stays the same for the life of the handle.
    ///
    /// # Errors
    /// [`Error::Descriptor`]: too many files are open.
    pub fn readiness(&mut self) -> Result<Readiness, Error> {
        if let Some(readiness) = &self.readiness {
            return Ok(readiness.clone());
        }
        let subscribed = self.handle.shared.versions.durable_event().subscribe();
        Ok(self.readiness.insert(Readiness(subscribed.map_err(Error::Descriptor)?)).clone())
    }

    /// What waited was given out.
    fn advance(&mut self) {
        if self.until > self.after {
            let (from, to) = (self.after, self.until);
            self.handle.shared.versions.pins.with_past(|past, _| past.advance(from, to));
            self.after = to;
        }
    }

    /// One pass over the trees.
    fn look(&mut self) -> Result<(), Error> {
        let shared = &self.handle.shared;
        let versions = &shared.versions;
        // While it lives there is no rollback to before what is being read.
        let snapshot = Snapshot::of(&self.handle, versions.durable())?;
        self.known = versions.pins.with_past(|past, _| past.check(self.known, self.after))?;
        let (until, budget) = (snapshot.version(), self.budget);
        let commits = versions.pins.with_past(|past, _| past.commits().between(self.after, until));
        let mut earliest = Earliest { commits, by_commit: BTreeMap::new(), until, size: 0, budget };
        let period = Period { after: self.after, until, dead: snapshot.dead() };
        let removed = shared.catalogue.tombstones_of(period)?;
        for tree in lifetimes(&shared.catalogue, period)? {
            if let Some(version) = tree.since {
                let event = if tree.is_second { Event::Cleared } else { Event::Created };
                earliest.add(version, &tree.name, event);
            }
            let index = shared.indexes.open(&tree.entry)?;
            gather(&index, &tree, period, &mut earliest)?;
            for one in removed.iter().filter(|one| one.cell == tree.entry.cell.get()) {
                gather_range(&snapshot, &index, (&tree, one), &mut earliest)?;
            }
        }
        self.until = earliest.until;
        self.waiting.extend(earliest.into_changes());
        Ok(())
    }
}

fn gather(
    index: &tembo_index::Index,
    tree: &TreeLifetime,
    period: Period<'_>,
    earliest: &mut Earliest,
) -> Result<(), Error> {
    index
        .changes(period, &[], &mut |changed| {
            let key = || changed.key.to_vec();
            // What the version did that took the tree away was taken away with it.
            if changed.version < tree.until && changed.version <= earliest.until {
                let event = match changed.value {
                    Some(value) => Event::Put { key: key(), value: value.to_vec() },
                    None => Event::Removed { key: key() },
                };
                earliest.add(changed.version, &tree.name, event);
            }
            true
        })
        .in_keyspace(&tree.name)
}

/// The keys that a range tombstone has removed, each as a removal in its version.
fn gather_range(
    snapshot: &Snapshot,
    index: &tembo_index::Index,
    (tree, removed): (&TreeLifetime, &Tombstone),
    earliest: &mut Earliest,
) -> Result<(), Error> {
    if removed.version >= tree.until || removed.version > earliest.until {
        return Ok(());
    }
    // What it has removed is what was there the moment before, older tombstones considered.
    let view = View { version: removed.version - 1, dead: snapshot.dead() };
    let (from, to) = removed.range.bounds();
    let range = Range { from, to, direction: Direction::Forward };
    masked_range(snapshot.tombstones(), index, range, view, &mut |key, _| {
        earliest.add(removed.version, &tree.name, Event::Removed { key: key.to_vec() });
        removed.version <= earliest.until
    })
}

impl Drop for Changes {
    fn drop(&mut self) {
        self.handle.shared.versions.pins.with_past(|past, _| past.unfollow(self.after));
    }
}
