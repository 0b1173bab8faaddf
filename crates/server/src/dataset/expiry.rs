//! The turn's expiry step: what is due is removed, a bounded number at a time.

use std::ops::Bound;

use tembo_kv::Direction;

use super::Dataset;
use crate::failure::Failure;
use crate::format;

/// What one expiry step did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Expired {
    /// Keys removed.
    pub(crate) keys: u64,
    /// More may be due.
    pub(crate) more: bool,
}

impl Dataset<'_> {
    /// When the next key expires; `u64::MAX` if none does. May be too early, never too late.
    pub(crate) fn next_due_ms(&self) -> u64 {
        self.due_ms.iter().copied().min().unwrap_or(u64::MAX)
    }

    /// Removes keys that have expired, at most about `limit` of them.
    pub(crate) fn expire(&mut self, limit: usize) -> Result<Expired, Failure> {
        let mut done = Expired::default();
        let mut left = limit;
        for db in 0..self.databases() {
            if self.due_ms[db] >= self.now_ms {
                continue;
            }
            if left == 0 {
                done.more = true;
                break;
            }
            let (entries, next_ms) = self.due_entries(db, left)?;
            left -= entries.len();
            for entry in &entries {
                done.keys += u64::from(self.expire_entry(db, entry)?);
            }
            self.due_ms[db] = next_ms;
            done.more |= next_ms < self.now_ms;
        }
        Ok(done)
    }

    /// Up to `limit` entries of the index that are due, and when the first one after them is.
    fn due_entries(&mut self, db: usize, limit: usize) -> Result<(Vec<Vec<u8>>, u64), Failure> {
        let (space, now_ms) = (self.spaces.expiry[db], self.now_ms);
        let mut entries = Vec::new();
        let mut next_ms = u64::MAX;
        self.begin()?.range(
            space,
            Bound::Unbounded,
            Bound::Unbounded,
            Direction::Forward,
            &mut |entry, _| {
                let due_ms = format::decode_expiry_entry(entry).map_or(0, |(due_ms, _)| due_ms);
                if due_ms >= now_ms || entries.len() == limit {
                    next_ms = due_ms;
                    return false;
                }
                entries.push(entry.to_vec());
                true
            },
        )?;
        Ok((entries, next_ms))
    }

    /// Removes the entry, and its key if that has expired indeed; whether it had.
    fn expire_entry(&mut self, db: usize, entry: &[u8]) -> Result<bool, Failure> {
        let (data, index) = (self.spaces.data[db], self.spaces.expiry[db]);
        let mut expired = false;
        if let Some((due_ms, key)) = format::decode_expiry_entry(entry) {
            let found = self.get_raw(db, key)?.and_then(|value| value.expiry_ms);
            if found == Some(due_ms) {
                self.begin()?.remove(data, key)?;
                self.watches.touch_expired(db, key);
                expired = true;
            }
        }
        self.begin()?.remove(index, entry)?;
        self.written.changes += 1;
        Ok(expired)
    }

    /// Tries again to expire keys, not before `at_ms`: the store had no room.
    pub(crate) fn postpone_expiry(&mut self, at_ms: u64) {
        for due_ms in &mut self.due_ms {
            if *due_ms != u64::MAX {
                *due_ms = (*due_ms).max(at_ms);
            }
        }
    }
}
