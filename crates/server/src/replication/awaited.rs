//! Clients that wait until replicas are as far as they were themselves.

use crate::goal::Goal;
use crate::token::Token;

/// A client that waits.
struct Awaited {
    token: Token,
    goal: Goal,
    count: usize,
}

/// All of them.
#[derive(Default)]
pub(super) struct AllAwaited(Vec<Awaited>);

impl AllAwaited {
    /// A client waits until so many replicas have reached the goal.
    pub(super) fn add(&mut self, token: Token, goal: Goal, count: usize) {
        self.remove(token);
        self.0.push(Awaited { token, goal, count });
    }

    /// A client waits no longer.
    pub(super) fn remove(&mut self, token: Token) {
        self.0.retain(|wait| wait.token != token);
    }

    /// All of them, which wait no longer.
    pub(super) fn take_all(&mut self) -> Vec<Token> {
        self.0.drain(..).map(|wait| wait.token).collect()
    }

    /// Those whose goal as many replicas have reached as they wait for: they wait no longer.
    pub(super) fn take_met(&mut self, reached: impl Fn(Goal) -> usize) -> Vec<Token> {
        let met = self.0.extract_if(.., |wait| reached(wait.goal) >= wait.count);
        met.map(|wait| wait.token).collect()
    }
}
