//! What happened after a version, in the order of versions: for replicas, caches, and other followers.
//!
//! An index finds what happened in a period by key, not by version; so it is sorted here, within a
//! *budget* of memory. One pass over the trees keeps the changes of the earliest versions, as many as
//! the budget holds; what comes later is left for the next pass. With b bytes of changes waiting that is
//! ⌈b / budget⌉ passes, of each of which an NV-Tree reads but the leaves that have changed since; and
//! sorting, n log n. The changes of one version are always given out together, so a transaction larger than
//! the budget takes the memory that it takes.
//!
//! As long as a [`Changes`] lives, everything after what it has given out is retained. It gives out only what is
//! durable: that will not be lost by a crash. A rollback can take it back; then it says so.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use tembo_index::Period;

use crate::opened::Handle;
use crate::trees::{TreeLifetime, lifetimes};
use crate::version::Rollbacks;
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
}

/// The changes of the earliest versions.
struct Earliest {
    by_version: BTreeMap<u64, Vec<Change>>,
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
        self.by_version.entry(version).or_default().push(change);
        while self.size > self.budget && self.by_version.len() > 1 {
            let Some((_, changes)) = self.by_version.pop_last() else { break };
            self.size -= changes.iter().map(Change::size).sum::<usize>();
            // A version that happened: a follower that begins there again must find it.
            self.until = self.by_version.last_key_value().map_or(self.until, |(last, _)| *last);
        }
    }
}

impl Changes {
    /// # Errors
    /// [`Error::HistoryGone`], [`Error::RolledBack`].
    pub(crate) fn begin(handle: &Handle, after: u64) -> Result<Changes, Error> {
        let pins = &handle.shared.versions.pins;
        let known = pins.with_past(|past, visible| past.follow(after, visible))?;
        let (handle, waiting) = (handle.clone(), VecDeque::new());
        Ok(Changes { handle, after, known, until: after, waiting, budget: BUDGET })
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
            if self.handle.shared.versions.durable() <= self.after {
                return Ok(None);
            }
            self.look()?;
        }
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
        let mut earliest = Earliest { by_version: BTreeMap::new(), until, size: 0, budget };
        let period = Period { after: self.after, until, dead: snapshot.dead() };
        for tree in lifetimes(&shared.catalogue, period)? {
            if let Some(version) = tree.since {
                let event = if tree.is_second { Event::Cleared } else { Event::Created };
                earliest.add(version, &tree.name, event);
            }
            gather(&*shared.index_of(&tree.entry)?, &tree, period, &mut earliest)?;
        }
        self.until = earliest.until;
        self.waiting.extend(earliest.by_version.into_values().flatten());
        Ok(())
    }
}

fn gather(
    index: &tembo_index::Index,
    tree: &TreeLifetime,
    period: Period<'_>,
    earliest: &mut Earliest,
) -> Result<(), Error> {
    index.changes(period, &[], &mut |changed| {
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
    })?;
    Ok(())
}

impl Drop for Changes {
    fn drop(&mut self) {
        self.handle.shared.versions.pins.with_past(|past, _| past.unfollow(self.after));
    }
}
