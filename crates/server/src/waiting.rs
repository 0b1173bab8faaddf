//! Clients that wait for keys: BLPOP and its kin.
//!
//! A command that finds nothing leaves its [`Wait`] in the session, and no reply. The client's later commands stay in its
//! input. Each change of a key that is waited for makes the key *ready*; after the command that did so, the turn executes the commands of those that wait for it again, the longest waiting first, until the collection
//! is used up. So a waiting client is served in the turn, and the commit, of the change that it waited for.

use std::collections::{BTreeSet, HashMap, VecDeque};

use crate::args::Kept;
use crate::format::Kind;
use crate::token::Token;

/// What a client waits for.
pub(crate) struct Wait {
    /// The command, to be executed again.
    pub(crate) command: Kept,
    /// What is to be under one of the keys.
    pub(crate) kind: Kind,
    /// The database.
    pub(crate) db: usize,
    /// The keys.
    pub(crate) keys: Vec<Vec<u8>>,
    /// When it ends, by the server's clock; `None`: not by itself.
    pub(crate) deadline_ms: Option<u64>,
    /// It ends with an error when a key is no longer of the kind.
    pub(crate) needs_key: bool,
}

/// Why a wait ends without what it is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WaitEnd {
    /// Its time is over, or WAIT can count what it has waited for.
    Due,
    /// CLIENT UNBLOCK wants an error.
    Unblocked,
    /// The server has become a replica.
    Demoted,
}

/// Bytes of memory that keep a key that is waited for, beside its own.
const KEY_SIZE: usize = 160;

impl Wait {
    /// Bytes of memory that it takes, here and among those of all clients.
    pub(crate) fn size(&self) -> usize {
        let keys = self.keys.iter().map(|key| KEY_SIZE + 2 * key.len());
        self.command.size() + keys.sum::<usize>()
    }
}

/// The clients that wait for one key, the longest waiting first.
#[derive(Default)]
struct Waiters {
    tokens: VecDeque<Token>,
    /// The key is among those that are ready.
    is_ready: bool,
}

/// All clients that wait, by key.
pub(crate) struct Waiting {
    databases: Vec<HashMap<Vec<u8>, Waiters>>,
    deadlines: BTreeSet<(u64, u64)>,
    /// Keys that became ready, in order.
    ready: VecDeque<(usize, Vec<u8>)>,
    /// Most of the time there is none, and a write looks at this alone.
    count: usize,
}

impl Waiting {
    /// No clients, in so many databases.
    pub(crate) fn new(databases: usize) -> Waiting {
        let databases = (0..databases).map(|_| HashMap::new()).collect();
        Waiting { databases, deadlines: BTreeSet::new(), ready: VecDeque::new(), count: 0 }
    }

    /// How many clients wait.
    pub(crate) fn count(&self) -> usize {
        self.count
    }

    /// How many of them wait until a time.
    pub(crate) fn count_until(&self) -> usize {
        self.deadlines.len()
    }

    /// A client begins to wait.
    pub(crate) fn add(&mut self, token: Token, wait: &Wait) {
        for key in &wait.keys {
            let tokens = &mut self.databases[wait.db].entry(key.clone()).or_default().tokens;
            if !tokens.contains(&token) {
                tokens.push_back(token);
            }
        }
        self.deadlines.extend(wait.deadline_ms.map(|deadline_ms| (deadline_ms, token.to_bits())));
        self.count += 1;
    }

    /// A client waits no longer.
    pub(crate) fn remove(&mut self, token: Token, wait: &Wait) {
        for key in &wait.keys {
            if let Some(waiters) = self.databases[wait.db].get_mut(key) {
                waiters.tokens.retain(|&other| other != token);
                if waiters.tokens.is_empty() {
                    self.databases[wait.db].remove(key);
                }
            }
        }
        if let Some(deadline_ms) = wait.deadline_ms {
            self.deadlines.remove(&(deadline_ms, token.to_bits()));
        }
        self.count -= 1;
    }

    /// All keys of a database were removed.
    pub(crate) fn touch_all(&mut self, db: usize) {
        let keys: Vec<Vec<u8>> = self.databases[db].keys().cloned().collect();
        keys.iter().for_each(|key| self.touch(db, key));
    }

    /// A value was put under a key, or was removed.
    #[inline]
    pub(crate) fn touch(&mut self, db: usize, key: &[u8]) {
        if self.count > 0
            && let Some(waiters) = self.databases[db].get_mut(key)
            && !std::mem::replace(&mut waiters.is_ready, true)
        {
            self.ready.push_back((db, key.to_vec()));
        }
    }

    /// Whether a key is ready.
    #[inline]
    pub(crate) fn has_ready(&self) -> bool {
        !self.ready.is_empty()
    }

    /// The next key that is ready, and the clients that wait for it, the longest waiting first.
    pub(crate) fn next_ready(&mut self) -> Option<(usize, Vec<u8>, Vec<Token>)> {
        let (db, key) = self.ready.pop_front()?;
        let tokens = self.databases[db].get_mut(&key).map(|waiters| {
            waiters.is_ready = false;
            waiters.tokens.iter().copied().collect()
        });
        Some((db, key, tokens.unwrap_or_default()))
    }

    /// Nothing that was changed will be committed.
    pub(crate) fn forget_ready(&mut self) {
        while self.next_ready().is_some() {}
    }

    /// When the first wait ends.
    pub(crate) fn next_deadline_ms(&self) -> Option<u64> {
        self.deadlines.first().map(|&(deadline_ms, _)| deadline_ms)
    }

    /// Clients whose wait has ended at a time.
    pub(crate) fn due(&self, now_ms: u64) -> Vec<Token> {
        let due = self.deadlines.iter().take_while(|&&(deadline_ms, _)| deadline_ms <= now_ms);
        due.map(|&(_, token)| Token::from_bits(token)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::{Args, Span};

    fn wait(keys: &[&str], deadline_ms: Option<u64>) -> Wait {
        let command = Kept::new(Args::new(b"x", &[], &[Span::Input { start: 0, size: 1 }]));
        let keys = keys.iter().map(|key| key.as_bytes().to_vec()).collect();
        Wait { command, kind: Kind::List, db: 0, keys, deadline_ms, needs_key: false }
    }

    #[test]
    fn the_longest_waiting_comes_first_and_a_key_is_ready_once() {
        let (first, second) = (Token::from_bits(1), Token::from_bits(2));
        let (one, two) = (wait(&["a", "a", "b"], Some(50)), wait(&["a"], Some(40)));
        let mut waiting = Waiting::new(1);
        waiting.touch(0, b"a");
        assert!(!waiting.has_ready());
        waiting.add(first, &one);
        waiting.add(second, &two);
        assert_eq!((waiting.count(), waiting.next_deadline_ms()), (2, Some(40)));
        assert_eq!((waiting.due(39), waiting.due(40)), (vec![], vec![second]));
        ["b", "a", "b", "c"].iter().for_each(|key| waiting.touch(0, key.as_bytes()));
        assert_eq!(waiting.next_ready(), Some((0, b"b".to_vec(), vec![first])));
        assert_eq!(waiting.next_ready(), Some((0, b"a".to_vec(), vec![first, second])));
        assert!(!waiting.has_ready());
        waiting.remove(first, &one);
        waiting.touch(0, b"a");
        assert_eq!(waiting.next_ready(), Some((0, b"a".to_vec(), vec![second])));
        waiting.remove(second, &two);
        waiting.touch(0, b"a");
        assert!(!waiting.has_ready() && waiting.next_deadline_ms().is_none());
    }
}
