//! Replies that are made in several turns, and the clients that wait for them.
//!
//! Some of them go on in each turn, so that the other clients need not wait, and each as often as any other, however many there
//! are and however many such commands a client has sent.

use std::collections::VecDeque;

use crate::args::{Args, Kept};
use crate::element_listing::ElementListing;
use crate::failure::Failure;
use crate::join_listing::JoinListing;
use crate::key_search::KeySearch;
use crate::reply::Reply;
use crate::sort_run::Run;
use crate::sorting::Sorting;
use crate::sources::Sources;
use crate::strip_listing::StripListing;
use crate::token::Token;

/// Clients that go on in one turn.
const TOGETHER_MAX: usize = 2;

/// A command that is put off.
pub(crate) struct PutOffCommand {
    work: PutOff,
    /// What it has to have read unchanged to store what it finds; `None`: it replies with that.
    sources: Option<Sources>,
    /// It was put off before, and its sources have changed.
    is_second: bool,
    args: Option<Kept>,
    took_ns: u64,
}

/// A command that has gone on in later turns is executed again, to store what it has found.
pub(crate) struct Again {
    /// What that is; `None`: what it has read has changed, or it has taken it.
    pub(crate) found: Option<Run>,
    /// It may be put off once more.
    pub(crate) may_put_off: bool,
    /// How long it was executed so far, in nanoseconds.
    pub(crate) took_ns: u64,
}

impl PutOffCommand {
    /// The command that goes on with this.
    pub(crate) fn new(work: PutOff, sources: Option<Sources>, is_second: bool) -> PutOffCommand {
        PutOffCommand { work, sources, is_second, args: None, took_ns: 0 }
    }

    /// What it watches.
    pub(crate) fn sources(&self) -> Option<&Sources> {
        self.sources.as_ref()
    }

    /// How it is executed again, if its sources have changed or not.
    pub(crate) fn again(self, is_changed: bool) -> Again {
        let found = if is_changed { None } else { self.work.into_found() };
        Again { found, may_put_off: !self.is_second, took_ns: self.took_ns }
    }

    /// The turn in which it began has executed it for so long.
    pub(crate) fn began(&mut self, args: Args<'_>, took_ns: u64) {
        self.args = Some(Kept::new(args));
        self.took_ns = took_ns;
    }

    /// See [`PutOff::advance`].
    pub(crate) fn advance(&mut self) -> Result<bool, Failure> {
        self.work.advance()
    }

    /// A later turn has executed it for so long.
    pub(crate) fn went_on(&mut self, took_ns: u64) {
        self.took_ns += took_ns;
    }

    /// How long it was executed so far, in nanoseconds: in all of its turns, not between them.
    pub(crate) fn took_ns(&self) -> u64 {
        self.took_ns
    }

    /// Takes its arguments, if they are known.
    pub(crate) fn take_args(&mut self) -> Option<Kept> {
        self.args.take()
    }

    /// Replies with what was found.
    pub(crate) fn reply(self, reply: &mut Reply) {
        self.work.reply(reply);
    }

    /// The memory that it takes, in bytes.
    pub(crate) fn memory(&self) -> usize {
        let args = self.args.as_ref().map_or(0, Kept::size);
        let sources = self.sources.as_ref().map_or(0, Sources::memory);
        size_of::<PutOffCommand>() + args + sources + self.work.memory()
    }
}

/// What is under way for a client.
pub(crate) enum PutOff {
    /// KEYS.
    Keys(KeySearch),
    /// The elements of a large collection.
    Elements(ElementListing),
    /// The elements of a large list.
    Strips(StripListing),
    /// What several large sets make.
    Sets(JoinListing),
    /// SORT of many elements.
    Sorting(Sorting),
}

impl PutOff {
    /// Does some more of it; true: it has come to its end.
    ///
    /// # Errors
    /// Damage; what another server has written.
    fn advance(&mut self) -> Result<bool, Failure> {
        match self {
            PutOff::Keys(search) => search.advance(),
            PutOff::Elements(listing) => listing.advance(),
            PutOff::Strips(listing) => listing.advance(),
            PutOff::Sets(join) => join.advance(),
            PutOff::Sorting(sorting) => sorting.advance(),
        }
    }

    /// What was found, if it is to be stored.
    fn into_found(self) -> Option<Run> {
        match self {
            PutOff::Sets(join) => join.into_kept(),
            PutOff::Sorting(sorting) => sorting.into_kept(),
            PutOff::Keys(_) | PutOff::Elements(_) | PutOff::Strips(_) => None,
        }
    }

    /// Replies with what was found.
    fn reply(self, reply: &mut Reply) {
        match self {
            PutOff::Keys(search) => search.reply(reply),
            PutOff::Elements(listing) => listing.reply(reply),
            PutOff::Strips(listing) => listing.reply(reply),
            PutOff::Sets(join) => join.reply(reply),
            PutOff::Sorting(sorting) => sorting.reply(reply),
        }
    }

    /// The memory of what was found, and of what is held to find more, in bytes.
    fn memory(&self) -> usize {
        match self {
            PutOff::Keys(search) => search.found().memory(),
            PutOff::Elements(listing) => listing.found().memory(),
            PutOff::Strips(listing) => listing.found().memory(),
            PutOff::Sets(join) => join.memory(),
            PutOff::Sorting(sorting) => sorting.memory(),
        }
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

struct Chosen {
    token: Token,
    has_gone_on: bool,
}

/// The clients of which a command is put off.
#[derive(Default)]
pub(crate) struct PutOffClients {
    /// In the order in which they go on. Of some the command may have ended since.
    order: VecDeque<Token>,
    /// Those that go on in this turn.
    now: Vec<Chosen>,
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
        for chosen in self.now.drain(..).filter(|chosen| chosen.has_gone_on) {
            self.order.retain(|token| *token != chosen.token);
            self.order.push_back(chosen.token);
        }
        let now = &mut self.now;
        self.order.retain(|&token| {
            if now.len() == TOGETHER_MAX {
                return true;
            }
            let waits = waits(token);
            if waits == Waits::Ready {
                now.push(Chosen { token, has_gone_on: false });
            }
            waits != Waits::Not
        });
    }

    /// Whether the client goes on in this turn, which it does once; then all others come before it. One that the turn does not
    /// come to keeps its place.
    pub(crate) fn take_chance(&mut self, token: Token) -> bool {
        let mut waiting = self.now.iter_mut().filter(|chosen| !chosen.has_gone_on);
        let chosen = waiting.find(|chosen| chosen.token == token);
        chosen.map(|chosen| chosen.has_gone_on = true).is_some()
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
    /// A turn that has nothing left to spend does not come to them: they lost their place, and in step with other clients that use up
    /// every second turn two of four never went on.
    #[test]
    fn a_client_that_a_turn_does_not_come_to_keeps_its_place() {
        let mut clients = PutOffClients::default();
        let mut times = [0; 4];
        (0..4).for_each(|slot| clients.add(token(slot)));
        for round in 0..40 {
            clients.begin_turn(|_| Waits::Ready);
            for slot in (0..4).filter(|_| round % 2 == 0) {
                times[slot as usize] += u32::from(clients.take_chance(token(slot)));
            }
        }
        assert_eq!(times, [10; 4]);
    }
}
