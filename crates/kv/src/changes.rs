//! What happened after a version, in the order of versions: for replicas, caches, whoever follows.
//!
//! An index finds what happened in a period by key, not by version; so it is sorted here, within a
//! *budget* of memory. One pass over the trees keeps the changes of the earliest versions, as many as
//! the budget holds; what comes later is left for the next pass. With b bytes of changes waiting that is
//! ⌈b / budget⌉ passes, of each of which an NV-Tree reads but the leaves that have changed since; and
//! sorting, n log n. The changes of one version are always told together, so a transaction larger than
//! the budget takes the memory that it takes.
//!
//! As long as a [`Changes`] lives, everything after what it has told is retained. It tells only what is
//! durable: what it has told will not be lost by a crash. A rollback can take it back; then it says so.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use tembo_index::Period;

use crate::inner::Inner;
use crate::lineage::Reign;
use crate::past::Heard;
use crate::{Error, Snapshot, Store};

/// Memory for changes that wait to be told, in bytes.
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

/// Everything that happens after a version. See [`Store::changes`].
pub struct Changes<'s> {
    inner: &'s Inner,
    /// Everything up to it was told; everything after it is retained.
    after: u64,
    /// It knows of these rollbacks.
    heard: Heard,
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
            // A version that happened: whoever begins there again must find it.
            self.until = self.by_version.last_key_value().map_or(self.until, |(last, _)| *last);
        }
    }
}

impl<'s> Changes<'s> {
    /// Changes within other bounds of memory, in bytes.
    #[must_use]
    pub fn with_budget(mut self, bytes: usize) -> Changes<'s> {
        self.budget = bytes;
        self
    }

    /// Everything up to this version was told. Whoever has applied it can begin here again.
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
            if self.inner.durable() <= self.after {
                return Ok(None);
            }
            self.look()?;
        }
    }

    /// What waited was told.
    fn advance(&mut self) {
        if self.until > self.after {
            let (from, to) = (self.after, self.until);
            self.inner.pins.with_past(|past, _| past.advance(from, to));
            self.after = to;
        }
    }

    /// One pass over the trees.
    fn look(&mut self) -> Result<(), Error> {
        let inner = self.inner;
        // While it lives there is no rollback to before what is being read.
        let snapshot = Snapshot::of(inner, inner.durable())?;
        self.heard = inner.pins.with_past(|past, _| past.hear(self.heard, self.after))?;
        let (until, budget) = (snapshot.version(), self.budget);
        let mut earliest = Earliest { by_version: BTreeMap::new(), until, size: 0, budget };
        let period = Period { after: self.after, until, dead: snapshot.dead() };
        let reigns = inner.reigns(period)?;
        let entries: Vec<_> = reigns.iter().map(|reign| reign.entry).collect();
        for (reign, index) in reigns.iter().zip(inner.indexes(&entries)?) {
            if let Some(version) = reign.since {
                let event = if reign.is_second { Event::Cleared } else { Event::Created };
                earliest.add(version, &reign.name, event);
            }
            gather(&index, reign, period, &mut earliest)?;
        }
        self.until = earliest.until;
        self.waiting.extend(earliest.by_version.into_values().flatten());
        Ok(())
    }
}

fn gather(
    index: &tembo_index::Index,
    reign: &Reign,
    period: Period<'_>,
    earliest: &mut Earliest,
) -> Result<(), Error> {
    index.changes(period, &[], &mut |changed| {
        let key = || changed.key.to_vec();
        // What the version did that took the tree away was taken away with it.
        if changed.version < reign.until && changed.version <= earliest.until {
            let event = match changed.value {
                Some(value) => Event::Put { key: key(), value: value.to_vec() },
                None => Event::Removed { key: key() },
            };
            earliest.add(changed.version, &reign.name, event);
        }
        true
    })?;
    Ok(())
}

impl Drop for Changes<'_> {
    fn drop(&mut self) {
        self.inner.pins.with_past(|past, _| past.unfollow(self.after));
    }
}

impl Store {
    /// Everything that happens after a version, in the order of versions, as far as it is durable: of
    /// [`Store::oldest`] and any later version, or one after which somebody else follows the changes.
    /// Whoever applies it to what the store was at `after` has what the store is at
    /// [`Changes::position`].
    ///
    /// # Errors
    /// [`Error::HistoryGone`], [`Error::RolledBack`].
    pub fn changes(&self, after: u64) -> Result<Changes<'_>, Error> {
        let inner = &*self.inner;
        let heard = inner.pins.with_past(|past, visible| past.follow(after, visible))?;
        let waiting = VecDeque::new();
        Ok(Changes { inner, after, heard, until: after, waiting, budget: BUDGET })
    }
}
