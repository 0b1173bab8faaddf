//! Names and the clients that subscribe to them.

use std::collections::{BTreeMap, BTreeSet};

use crate::glob;
use crate::token::Token;

/// Names and the clients that subscribe to them.
#[derive(Default)]
pub(super) struct Topics(BTreeMap<Vec<u8>, BTreeSet<Token>>);

impl Topics {
    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    pub(super) fn add(&mut self, name: &[u8], token: Token) {
        self.0.entry(name.to_vec()).or_default().insert(token);
    }

    pub(super) fn remove(&mut self, name: &[u8], token: Token) {
        if let Some(tokens) = self.0.get_mut(name) {
            tokens.remove(&token);
            if tokens.is_empty() {
                self.0.remove(name);
            }
        }
    }

    pub(super) fn subscribers(&self, name: &[u8]) -> impl Iterator<Item = Token> + '_ {
        self.0.get(name).into_iter().flatten().copied()
    }

    /// The names that match a pattern.
    pub(super) fn matching(&self, pattern: &[u8]) -> Vec<&[u8]> {
        let names = self.0.keys().map(Vec::as_slice);
        names.filter(|name| glob::matches(pattern, name, false)).collect()
    }

    /// The names that, taken as patterns, match the channel, with their subscribers.
    pub(super) fn matched_by(&self, channel: &[u8]) -> Vec<(Vec<u8>, Vec<Token>)> {
        let matching = self.0.iter().filter(|(pattern, _)| glob::matches(pattern, channel, false));
        matching.map(|(name, to)| (name.clone(), to.iter().copied().collect())).collect()
    }
}
