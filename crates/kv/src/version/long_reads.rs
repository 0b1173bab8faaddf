//! Which keyspaces have values that are too long to be copied by a read without a pin, as far as the last read has shown.
//!
//! Such a read would be done twice: once without a pin, which finds the value too long, and once with one. So after a long value
//! a read of the same keyspace pins its version at once, until it finds a short one. A keyspace shares its bit with each 64th one:
//! what a wrong bit costs is a pin, or one try.

use std::sync::atomic::{AtomicU64, Ordering};

use tembo_index::{Value, ValueRoom};

use crate::Keyspace;

/// A bit for each keyspace whose last value was long.
#[derive(Default)]
pub(crate) struct LongReads(AtomicU64);

impl LongReads {
    /// Whether the next value is likely to be long.
    #[inline(always)]
    pub(crate) fn expects(&self, keyspace: Keyspace) -> bool {
        let long = self.0.load(Ordering::Relaxed);
        // The first question is one instruction, and all that most stores ever ask.
        long != 0 && long & bit(keyspace) != 0
    }

    /// A value was read, if there is one.
    #[inline]
    pub(crate) fn note(&self, keyspace: Keyspace, value: Option<&Value<'_>>) {
        let Some(value) = value else { return };
        match (value.len() > ValueRoom::LEN, self.expects(keyspace)) {
            (true, false) => self.0.fetch_or(bit(keyspace), Ordering::Relaxed),
            (false, true) => self.0.fetch_and(!bit(keyspace), Ordering::Relaxed),
            _ => return,
        };
    }
}

#[inline(always)]
fn bit(keyspace: Keyspace) -> u64 {
    1 << (keyspace.id % 64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_keyspace_is_as_its_last_value_and_others_are_as_they_were() {
        let (long, short) = (vec![0; ValueRoom::LEN + 1], vec![0; ValueRoom::LEN]);
        let [one, other] = [3, 4].map(|id| Keyspace { id, incarnation: 1 });
        let reads = LongReads::default();
        reads.note(one, Some(&Value::from(&*long)));
        assert!(reads.expects(one) && !reads.expects(other));
        reads.note(other, Some(&Value::from(&*short)));
        reads.note(one, None);
        assert!(reads.expects(one) && !reads.expects(other));
        reads.note(one, Some(&Value::from(&*short)));
        assert!(!reads.expects(one));
    }
}
