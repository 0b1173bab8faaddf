//! Retention by the clock: the store knows versions only, so the server notes when each was visible.

use std::collections::VecDeque;

use tembo_kv::{Error as StoreError, Retention, Store};

/// Moments noted at most in the time that is kept.
const MOMENTS: u64 = 256;

/// Which version was visible when.
#[derive(Default)]
pub(crate) struct Moments {
    /// Milliseconds and version, from the oldest on.
    noted: VecDeque<(u64, u64)>,
}

impl Moments {
    /// Keeps readable what was visible in the last `retain_s` seconds, at least; 0 ends what an earlier
    /// call began. Called about once a second, outside of transactions. After a restart no version is given
    /// up before `retain_s` seconds have passed.
    ///
    /// # Errors
    /// Those of the store.
    pub(crate) fn tick(
        &mut self,
        store: &Store,
        now_ms: u64,
        retain_s: u64,
    ) -> Result<(), StoreError> {
        let retention = store.retention();
        if retain_s == 0 {
            self.noted.clear();
            // A window that is not moved would keep everything for ever.
            if let Retention::Since(_) = retention {
                store.retain(Retention::Nothing)?;
            }
            return Ok(());
        }
        if !matches!(retention, Retention::Since(_)) {
            store.retain(Retention::Since(store.oldest()))?;
        }
        let retain_ms = retain_s.saturating_mul(1000);
        let last_ms = self.noted.back().map_or(0, |last| last.0);
        if now_ms >= last_ms + (retain_ms / MOMENTS).max(1000) {
            self.noted.push_back((now_ms, store.visible()));
        }
        let is_over = |moment: &(u64, u64)| moment.0 + retain_ms <= now_ms;
        let mut since = None;
        while self.noted.front().is_some_and(is_over) {
            since = self.noted.pop_front();
        }
        match since {
            Some((_, version)) if version > store.oldest() => {
                store.retain(Retention::Since(version)).map(drop)
            }
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tembo_kv::{Durability, Options};

    #[test]
    fn as_many_seconds_as_wanted_can_be_read() {
        let store = Store::volatile(&Options::default()).unwrap();
        let space = store.keyspace("a").unwrap();
        let mut moments = Moments::default();
        let mut versions = Vec::new();
        for second in 0..100u64 {
            moments.tick(&store, second * 1000, 20).unwrap();
            for _ in 0..3 {
                store.put(space, b"key", &second.to_le_bytes(), Durability::Strict).unwrap();
            }
            versions.push(store.visible());
            let kept = versions.iter().rev().take_while(|version| **version >= store.oldest());
            let kept = kept.count() as u64;
            assert!((20..=22).contains(&kept) || kept == second + 1, "{second}: {kept}");
            let then = store.snapshot_at(versions[second.saturating_sub(19) as usize]).unwrap();
            let value = then.get(space, b"key").unwrap().unwrap();
            assert_eq!(value, second.saturating_sub(19).to_le_bytes());
        }
        moments.tick(&store, 101_000, 0).unwrap();
        assert_eq!(store.retention(), Retention::Nothing);
        store.retain(Retention::Versions(5)).unwrap();
        moments.tick(&store, 102_000, 0).unwrap();
        assert_eq!(store.retention(), Retention::Versions(5), "that is another's");
    }
}
