//! Replies that are made in several turns, and the clients that wait for them.
//!
//! Some of them go on in each turn, so that the other clients need not wait, and each as often as any other, however many there
//! are and however many such commands a client has sent.

use std::collections::VecDeque;

use crate::element_listing::ElementListing;
use crate::failure::Failure;
use crate::key_search::KeySearch;
use crate::reply::Reply;
use crate::token::Token;

/// Clients that go on in one turn.
const TOGETHER_MAX: usize = 2;

/// What is under way for a client.
pub(crate) enum PutOff {
    /// KEYS.
    Keys(KeySearch),
    /// The elements of a large collection.
    Elements(ElementListing),
}

impl PutOff {
    /// Does some more of it; true: it has come to its end.
    ///
    /// # Errors
    /// Damage; what another server has written.
    pub(crate) fn advance(&mut self) -> Result<bool, Failure> {
        match self {
            PutOff::Keys(search) => search.advance(),
            PutOff::Elements(listing) => listing.advance(),
        }
    }

    /// Replies with what was found.
    pub(crate) fn reply(self, reply: &mut Reply) {
        match self {
            PutOff::Keys(search) => search.reply(reply),
            PutOff::Elements(listing) => listing.reply(reply),
        }
    }
    /// The memory that it takes, in bytes.
    pub(crate) fn memory(&self) -> usize {
        let found = match self {
            PutOff::Keys(search) => search.found(),
            PutOff::Elements(listing) => listing.found(),
        };
        let buffer = found.buffer();
        size_of::<PutOff>() + buffer.used + buffer.free
    }
}

/// What a client waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Waits {
    /// For nothing, or it has left.
    Not,
    /// For its reply, and cannot go on in this turn: its output is not taken.
    Held,
    /// For its reply.
    Ready,
}

/// The clients of which a command is put off.
#[derive(Default)]
pub(crate) struct PutOffClients {
    /// In the order in which they go on. Of some the command may have ended since.
    order: VecDeque<Token>,
    /// Those that go on in this turn.
    now: Vec<Token>,
}

impl PutOffClients {
    /// A command of the client is put off.
    pub(crate) fn add(&mut self, token: Token) {
        if !self.order.contains(&token) {
            self.order.push_back(token);
        }
    }

    /// Chooses those that go on in a turn.
    pub(crate) fn begin_turn(&mut self, waits: impl Fn(Token) -> Waits) {
        self.now.clear();
        for _ in 0..self.order.len() {
            let Some(token) = self.order.pop_front() else { break };
            match waits(token) {
                Waits::Not => continue,
                Waits::Held => {}
                Waits::Ready => self.now.push(token),
            }
            self.order.push_back(token);
            if self.now.len() == TOGETHER_MAX {
                break;
            }
        }
    }

    /// Whether the client goes on in this turn, which it does once.
    pub(crate) fn take_chance(&mut self, token: Token) -> bool {
        let at = self.now.iter().position(|chosen| *chosen == token);
        at.map(|at| self.now.swap_remove(at)).is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn token(slot: u32) -> Token {
        Token { slot, generation: 0 }
    }

    #[test]
    fn each_client_goes_on_as_often_as_any_other() {
        let mut clients = PutOffClients::default();
        let mut times = [0; 7];
        for round in 0..70 {
            // They begin one after another, and again and again.
            (0..7.min(round + 1)).for_each(|slot| clients.add(token(slot)));
            clients.begin_turn(|token| match token.slot {
                5 => Waits::Not,
                6 => Waits::Held,
                _ => Waits::Ready,
            });
            for slot in 0..7 {
                times[slot as usize] += u32::from(clients.take_chance(token(slot)));
                assert!(!clients.take_chance(token(slot)));
            }
        }
        assert_eq!(times[5..], [0, 0]);
        assert!(times[..5].iter().all(|times| (25..32).contains(times)), "{times:?}");
        assert!(clients.order.len() <= 7);
        clients.begin_turn(|_| Waits::Not);
        assert!(clients.order.is_empty() && !clients.take_chance(token(0)));
    }
}
