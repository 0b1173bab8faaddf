//! ACL LOG: what was denied lately.

use std::collections::VecDeque;

/// Entries that are like each other are one if they are no further apart.
const GROUPED_MS: u64 = 60_000;
/// So many of the latest entries are compared with a new one.
const COMPARED: usize = 10;

/// Something that was denied.
#[derive(Clone, Debug)]
pub(crate) struct Denial {
    /// How often.
    pub(crate) count: u64,
    /// What was missing: `command`, `key`, `channel`, `auth`.
    pub(crate) reason: &'static str,
    /// Where: `toplevel`, `multi`, `lua`.
    pub(crate) context: &'static str,
    /// The command, key or channel.
    pub(crate) object: Vec<u8>,
    /// The user's name.
    pub(crate) user: Vec<u8>,
    /// When, for the last time, by the server's clock.
    pub(crate) at_ms: u64,
    /// The client, as CLIENT LIST shows it.
    pub(crate) client: String,
}

impl Denial {
    fn is_like(&self, other: &Denial) -> bool {
        self.reason == other.reason
            && self.context == other.context
            && self.at_ms.abs_diff(other.at_ms) <= GROUPED_MS
            && self.object == other.object
            && self.user == other.user
    }
}

/// What was denied lately, the latest first.
#[derive(Default)]
pub(crate) struct Denials(VecDeque<Denial>);

impl Denials {
    /// Notes one; so many are kept.
    pub(crate) fn add(&mut self, denial: Denial, len_max: usize) {
        let like = self.0.iter().take(COMPARED).position(|known| known.is_like(&denial));
        match like.and_then(|at| self.0.remove(at)) {
            Some(known) => self.0.push_front(Denial { count: known.count + 1, ..denial }),
            None => {
                self.0.push_front(denial);
                self.0.truncate(len_max);
            }
        }
    }

    /// All of them, the latest first.
    pub(crate) fn iter(&self) -> impl ExactSizeIterator<Item = &Denial> {
        self.0.iter()
    }

    /// Forgets all.
    pub(crate) fn clear(&mut self) {
        self.0.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn denial(object: &str, at_ms: u64) -> Denial {
        Denial {
            count: 1,
            reason: "key",
            context: "toplevel",
            object: object.as_bytes().to_vec(),
            user: b"u".to_vec(),
            at_ms,
            client: at_ms.to_string(),
        }
    }

    #[test]
    fn what_is_alike_and_near_is_counted_together() {
        let mut denials = Denials::default();
        for (object, at_ms) in [("a", 0), ("b", 1), ("a", 60_000), ("a", 120_001)] {
            denials.add(denial(object, at_ms), 3);
        }
        let seen: Vec<(u64, &str)> =
            denials.iter().map(|one| (one.count, one.client.as_str())).collect();
        assert_eq!(seen, [(1, "120001"), (2, "60000"), (1, "1")]);
        denials.add(denial("c", 0), 3);
        assert_eq!(denials.iter().len(), 3);
    }
}
