//! What the faces of memcached keep beside the items: counters, the last CAS value, a flush that is to come.

/// Hits and misses of one kind of command.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Tally {
    /// The item was there.
    pub(crate) hits: u64,
    /// It was not.
    pub(crate) misses: u64,
}

impl Tally {
    /// Counts one.
    pub(crate) fn count(&mut self, is_hit: bool) {
        let count = if is_hit { &mut self.hits } else { &mut self.misses };
        *count += 1;
    }
}

/// What `stats` shows.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct ItemStats {
    pub(crate) get: Tally,
    pub(crate) touch: Tally,
    pub(crate) delete: Tally,
    pub(crate) incr: Tally,
    pub(crate) decr: Tally,
    pub(crate) cas: Tally,
    /// A CAS value that was not the item's.
    pub(crate) cas_badval: u64,
    pub(crate) set: u64,
    pub(crate) flush: u64,
    pub(crate) meta: u64,
    /// Items stored.
    pub(crate) stored: u64,
    pub(crate) too_large: u64,
    pub(crate) no_memory: u64,
    /// Items removed because the data took more than `maxmemory`.
    pub(crate) evictions: u64,
    pub(crate) auth: u64,
    pub(crate) auth_errors: u64,
}

/// What is kept beside the items. Nothing of it is durable.
#[derive(Default)]
pub(crate) struct ItemState {
    /// See [`ItemStats`].
    pub(crate) stats: ItemStats,
    /// Largest item, with its key and what memcached adds to it.
    pub(crate) size_max: usize,
    /// All items are removed at this time, in milliseconds since 1970.
    pub(crate) flush_at_ms: Option<u64>,
    last_cas: u64,
}

impl ItemState {
    /// A CAS value that no item of the store has had: above those of all versions up to `visible`.
    pub(crate) fn next_cas(&mut self, visible: u64) -> u64 {
        self.last_cas = (self.last_cas + 1).max((visible + 1) << 16);
        self.last_cas
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cas_values_rise_also_over_a_restart() {
        let mut state = ItemState::default();
        let first = state.next_cas(7);
        let second = state.next_cas(7);
        assert!(second > first);
        // The turn of both became version 8.
        let mut after = ItemState::default();
        assert!(after.next_cas(8) > second);
    }
}
