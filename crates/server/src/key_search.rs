//! KEYS of a large database: searched a few keys a turn in a snapshot, while other clients are served.
//!
//! ```text
//!   KEYS ──► first keys, in the turn itself ──► all found: reply
//!                      │ more
//!                      ▼
//!            commit, snapshot ──► a few keys in each turn ──► reply
//! ```
//! The client's commands behind it wait, as they would for any reply. What is found is of one version, which is synced
//! with the turn in which the search begins.

use std::ops::Bound;

use tembo_kv::{Direction, Keyspace, Snapshot};

use crate::failure::Failure;
use crate::format::Value;
use crate::glob;
use crate::reply::Reply;

/// Keys that are looked at in a turn for one client.
pub(crate) const VISITED_AT_ONCE: usize = 512;

/// A search under way.
pub(crate) struct KeySearch {
    pattern: Vec<u8>,
    /// What it goes on in.
    snapshot: Option<(Snapshot, Keyspace)>,
    /// Keys that had expired when it began are left out.
    now_ms: u64,
    /// The key looked at last.
    last: Vec<u8>,
    /// What may be looked at until it pauses.
    left: usize,
    found: Reply,
    count: usize,
}

impl KeySearch {
    /// A search for the keys that match a pattern, at a time.
    pub(crate) fn new(pattern: &[u8], now_ms: u64) -> KeySearch {
        let (pattern, found) = (pattern.to_vec(), Reply::with_room_for_header());
        let (snapshot, last) = (None, Vec::new());
        KeySearch { pattern, snapshot, now_ms, last, left: 0, found, count: 0 }
    }

    /// Where it begins.
    pub(crate) fn prefix(&self) -> &[u8] {
        glob::literal_prefix(&self.pattern)
    }

    /// Looks at so many keys before it pauses.
    pub(crate) fn allow(&mut self, visits: usize) {
        self.left = visits;
    }

    /// Whether it has paused, and not come to its end.
    pub(crate) fn is_paused(&self) -> bool {
        self.left == 0
    }

    /// Looks at the next key; false: it pauses, or has come to its end.
    pub(crate) fn visit(&mut self, key: &[u8]) -> bool {
        if !key.starts_with(glob::literal_prefix(&self.pattern)) {
            return false;
        }
        if glob::matches(&self.pattern, key, false) {
            self.found.bulk(key);
            self.count += 1;
        }
        self.left -= 1;
        if self.left == 0 {
            key.clone_into(&mut self.last);
        }
        self.left > 0 && !self.found.is_overflown()
    }

    /// Goes on in a snapshot of what it was paused in.
    pub(crate) fn go_on_in(&mut self, snapshot: Snapshot, space: Keyspace) {
        self.snapshot = Some((snapshot, space));
    }

    /// Looks at some more keys; true: it has come to its end.
    ///
    /// # Errors
    /// Damage; a value that another server has written.
    pub(crate) fn advance(&mut self) -> Result<bool, Failure> {
        let Some((snapshot, space)) = self.snapshot.take() else { return Ok(true) };
        let (from, mut is_foreign) = (self.last.clone(), false);
        let now_ms = self.now_ms;
        self.allow(VISITED_AT_ONCE);
        snapshot.range_with::<[u8]>(
            space,
            (Bound::Excluded(&from[..]), Bound::Unbounded),
            Direction::Forward,
            &mut |key, bytes| match Value::decode(bytes) {
                Ok(value) => value.is_expired(now_ms) || self.visit(key),
                Err(_) => {
                    is_foreign = true;
                    false
                }
            },
        )?;
        if is_foreign {
            return Err(Failure::UnknownLayout);
        }
        self.snapshot = Some((snapshot, space));
        Ok(!self.is_paused())
    }

    /// What was found so far.
    pub(crate) fn found(&self) -> &Reply {
        &self.found
    }

    /// Replies with what was found.
    pub(crate) fn reply(self, reply: &mut Reply) {
        reply.array_of(self.count, self.found);
    }
}
