//! CLIENT TRACKING: which clients keep which keys in a cache of their own, and get a message when those change.
//!
//! A key that a client has read is noted until it changes; with BCAST a client names prefixes of keys, and gets messages for all of
//! them. The messages leave with the turn that makes the change.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use crate::token::Token;

/// What a client asks for.
#[derive(Clone, Debug, Default)]
pub(crate) struct Tracked {
    /// All keys with one of the prefixes are meant, not those that are read.
    pub(crate) broadcast: bool,
    /// Keys are noted only after CLIENT CACHING YES.
    pub(crate) opt_in: bool,
    /// Keys are noted except after CLIENT CACHING NO.
    pub(crate) opt_out: bool,
    /// The client's own changes are not meant.
    pub(crate) no_loop: bool,
    /// CLIENT CACHING, for the next command.
    pub(crate) caching: Option<bool>,
    /// The client that gets the messages instead: its number, and its connection.
    pub(crate) redirect: Option<(u64, Token)>,
    /// That client has gone.
    pub(crate) is_broken: bool,
    /// See `broadcast`.
    pub(crate) prefixes: BTreeSet<Vec<u8>>,
}

/// The clients that track keys, and the keys.
#[derive(Default)]
pub(crate) struct Tracking {
    clients: BTreeSet<Token>,
    keys: HashMap<Vec<u8>, BTreeSet<Token>>,
    prefixes: BTreeMap<Vec<u8>, BTreeSet<Token>>,
    /// Keys that the transaction or script which is being executed has changed, and the clients that had read them.
    held: (Vec<Vec<u8>>, Invalid),
}

/// Keys of which clients are to be notified.
pub(crate) type Invalid = Vec<(Token, Vec<Vec<u8>>)>;

impl Tracking {
    /// Whether a client tracks keys.
    #[inline]
    pub(crate) fn is_on(&self) -> bool {
        !self.clients.is_empty()
    }

    /// How many clients track, how many keys are noted, for how many clients together, and how many prefixes there are.
    pub(crate) fn counts(&self) -> [usize; 4] {
        let items = self.keys.values().map(BTreeSet::len).sum();
        [self.clients.len(), self.keys.len(), items, self.prefixes.len()]
    }

    /// A client tracks keys, or these prefixes too.
    pub(crate) fn add(&mut self, token: Token, prefixes: &BTreeSet<Vec<u8>>) {
        self.clients.insert(token);
        for prefix in prefixes {
            self.prefixes.entry(prefix.clone()).or_default().insert(token);
        }
    }

    /// A client tracks no keys any more. Those that are noted for it are forgotten when they change.
    pub(crate) fn remove(&mut self, token: Token, prefixes: &BTreeSet<Vec<u8>>) {
        self.clients.remove(&token);
        for prefix in prefixes {
            if let Some(tokens) = self.prefixes.get_mut(prefix) {
                tokens.remove(&token);
                if tokens.is_empty() {
                    self.prefixes.remove(prefix);
                }
            }
        }
        if self.clients.is_empty() {
            self.keys.clear();
            // Else the clients of a later time would be notified of what changed before.
            self.held = Default::default();
        }
    }

    /// A client has read a key.
    pub(crate) fn note(&mut self, token: Token, key: &[u8]) {
        match self.keys.get_mut(key) {
            Some(tokens) => drop(tokens.insert(token)),
            None => drop(self.keys.insert(key.to_vec(), BTreeSet::from([token]))),
        }
    }

    /// The clients that are to be notified of these keys, which are forgotten: one by one those that have read them, together
    /// those that named a prefix.
    pub(crate) fn changed(&mut self, keys: Vec<Vec<u8>>) -> (Invalid, Invalid) {
        self.hold(keys);
        let (keys, read) = std::mem::take(&mut self.held);
        let mut named: BTreeMap<(Token, Vec<u8>), BTreeSet<Vec<u8>>> = BTreeMap::new();
        for key in keys {
            for (prefix, tokens) in
                self.prefixes.iter().filter(|(prefix, _)| key.starts_with(prefix))
            {
                for &token in tokens {
                    named.entry((token, prefix.clone())).or_default().insert(key.clone());
                }
            }
        }
        let named = named.into_iter().map(|((token, _), keys)| (token, keys.into_iter().collect()));
        (read, named.collect())
    }

    /// A part of a transaction or script has changed these keys. Their clients are notified when it ends; one that reads them in
    /// a later part has read what there is, and is not notified of that change.
    pub(crate) fn hold(&mut self, keys: Vec<Vec<u8>>) {
        for key in &keys {
            for token in self.keys.remove(key).into_iter().flatten() {
                self.held.1.push((token, vec![key.clone()]));
            }
        }
        self.held.0.extend(keys);
    }

    /// Whether clients are to be notified of what a transaction or script has changed.
    pub(crate) fn has_held(&self) -> bool {
        !self.held.0.is_empty()
    }

    /// Forgets keys until no more than so many are noted; their clients are to be notified.
    pub(crate) fn forget_above(&mut self, count_max: usize) -> Invalid {
        let mut forgotten = Invalid::new();
        while count_max > 0 && self.keys.len() > count_max {
            let Some(key) = self.keys.keys().next().cloned() else { break };
            for token in self.keys.remove(&key).into_iter().flatten() {
                forgotten.push((token, vec![key.clone()]));
            }
        }
        forgotten
    }

    /// All keys have changed: returns the clients, all of which are to be notified.
    pub(crate) fn all_changed(&mut self) -> Vec<Token> {
        self.keys.clear();
        self.clients.iter().copied().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn token(slot: u32) -> Token {
        Token { slot, generation: 0 }
    }

    fn keys(names: &[&str]) -> Vec<Vec<u8>> {
        names.iter().map(|name| name.as_bytes().to_vec()).collect()
    }

    #[test]
    fn a_key_is_reported_once_until_it_is_read_again() {
        let mut tracking = Tracking::default();
        assert!(!tracking.is_on());
        tracking.add(token(1), &BTreeSet::new());
        tracking.add(token(2), &BTreeSet::from([b"a:".to_vec()]));
        tracking.note(token(1), b"a:1");
        assert_eq!(tracking.counts(), [2, 1, 1, 1]);
        let (read, named) = tracking.changed(keys(&["a:1", "b", "a:2"]));
        assert_eq!(read, [(token(1), keys(&["a:1"]))]);
        assert_eq!(named, [(token(2), keys(&["a:1", "a:2"]))]);
        assert!(tracking.changed(keys(&["a:1"])).0.is_empty());
        for number in 0..5 {
            tracking.note(token(1), format!("k{number}").as_bytes());
        }
        assert_eq!(tracking.forget_above(2).len(), 3);
        tracking.remove(token(2), &BTreeSet::from([b"a:".to_vec()]));
        assert_eq!(tracking.counts(), [1, 2, 2, 0]);
        tracking.remove(token(1), &BTreeSet::new());
        assert_eq!(tracking.counts(), [0; 4]);
    }
}
