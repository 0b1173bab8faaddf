//! Publishing: which clients subscribe to what, and the way of a message to the replies of its subscribers.
//!
//! A message is appended to the replies of its subscribers in the turn in which it was published: it leaves with them, after
//! the turn is synced, and is taken back with them if the turn fails.

mod message;
mod topics;

use std::collections::BTreeSet;

use crate::clients::Clients;
use crate::pubsub::message::{Message, confirm};
use crate::pubsub::topics::Topics;
use crate::reply::Reply;
use crate::session::{Replies, Session, Subscriptions, Topic};
use crate::token::Token;

/// All subscriptions, and the clients that MONITOR.
#[derive(Default)]
pub(crate) struct PubSub {
    channels: Topics,
    patterns: Topics,
    shards: Topics,
    monitors: BTreeSet<Token>,
    /// Messages for clients whose command is executed: their replies are not at hand meanwhile.
    own: Vec<(Token, Message)>,
    /// Clients whose replies got the turn's first message.
    touched: Vec<Token>,
    /// Bytes of messages since they were last asked for.
    bytes: usize,
}

impl PubSub {
    fn topics(&mut self, topic: Topic) -> &mut Topics {
        match topic {
            Topic::Channel => &mut self.channels,
            Topic::Pattern => &mut self.patterns,
            Topic::Shard => &mut self.shards,
        }
    }

    /// The client subscribes.
    pub(crate) fn subscribe(&mut self, session: &mut Session, topic: Topic, name: &[u8]) {
        if session.subscriptions.insert(topic, name) {
            self.topics(topic).add(name, session.token);
        }
    }

    /// The client subscribes no more.
    pub(crate) fn unsubscribe(&mut self, session: &mut Session, topic: Topic, name: &[u8]) {
        if session.subscriptions.remove(topic, name) {
            self.topics(topic).remove(name, session.token);
        }
    }

    /// Confirms a change of the client's subscriptions: its kind, the name if there is one, how many are left. It is sent
    /// even if the client wants no replies.
    pub(crate) fn confirm(
        &mut self,
        session: &Session,
        reply: &mut Reply,
        (kind, name): (&str, Option<&[u8]>),
        topic: Topic,
    ) {
        let count = session.subscriptions.count_with(topic);
        if session.replies == Replies::On {
            confirm(reply, kind, name, count);
        } else {
            let message = Message::confirmation(kind, name, count);
            self.own.push((session.token, message));
        }
    }

    /// The client subscribes to nothing any more, and does not monitor.
    pub(crate) fn forget(&mut self, session: &mut Session) {
        for topic in Topic::ALL {
            for name in session.subscriptions.of(topic) {
                self.topics(topic).remove(name, session.token);
            }
        }
        session.subscriptions = Subscriptions::default();
        if std::mem::take(&mut session.monitors) {
            self.monitors.remove(&session.token);
        }
    }

    /// The client sees all commands from now on.
    pub(crate) fn monitor(&mut self, session: &mut Session) {
        session.monitors = true;
        self.monitors.insert(session.token);
    }

    /// Whether a client sees all commands.
    #[inline]
    pub(crate) fn is_monitored(&self) -> bool {
        !self.monitors.is_empty()
    }

    /// The names subscribed to that match the pattern.
    pub(crate) fn names(&self, topic: Topic, pattern: &[u8]) -> Vec<&[u8]> {
        match topic {
            Topic::Channel => self.channels.matching(pattern),
            Topic::Pattern => self.patterns.matching(pattern),
            Topic::Shard => self.shards.matching(pattern),
        }
    }

    /// How many patterns are subscribed to.
    pub(crate) fn pattern_count(&self) -> usize {
        self.patterns.len()
    }

    /// How many clients subscribe to the name.
    pub(crate) fn subscriber_count(&self, topic: Topic, name: &[u8]) -> usize {
        match topic {
            Topic::Channel => self.channels.subscribers(name).count(),
            Topic::Pattern => self.patterns.subscribers(name).count(),
            Topic::Shard => self.shards.subscribers(name).count(),
        }
    }

    /// Sends a message to all subscribers of a channel and of patterns that match it; how often it was sent. Leaves the
    /// process with the turn.
    pub(crate) fn publish(&mut self, clients: &mut Clients, channel: &[u8], text: &[u8]) -> usize {
        let mut count = 0;
        if self.channels.len() > 0 {
            let message = Message::new("message", &[channel, text]);
            let to: Vec<Token> = self.channels.subscribers(channel).collect();
            count += self.send(clients, &message, &to);
        }
        if self.patterns.len() > 0 {
            for (pattern, to) in self.patterns.matched_by(channel) {
                let message = Message::new("pmessage", &[&pattern, channel, text]);
                count += self.send(clients, &message, &to);
            }
        }
        count
    }

    /// Sends a message to all subscribers of a shard's channel; how often it was sent. Leaves the process with the turn.
    pub(crate) fn publish_to_shard(
        &mut self,
        clients: &mut Clients,
        channel: &[u8],
        text: &[u8],
    ) -> usize {
        let to: Vec<Token> = self.shards.subscribers(channel).collect();
        self.send(clients, &Message::new("smessage", &[channel, text]), &to)
    }

    /// Shows a line to all clients that monitor.
    pub(crate) fn show(&mut self, clients: &mut Clients, line: &[u8]) {
        let to: Vec<Token> = self.monitors.iter().copied().collect();
        self.send(clients, &Message::line(line), &to);
    }

    fn send(&mut self, clients: &mut Clients, message: &Message, to: &[Token]) -> usize {
        let early_commits = clients.early_commits;
        for &token in to {
            let Some(connection) = clients.get_mut(token) else {
                self.own.push((token, message.clone()));
                continue;
            };
            if connection.turn.is_none() {
                self.touched.push(token);
            }
            connection.begin_turn(early_commits);
            connection.has_message = true;
            let bytes = message.bytes(connection.session.resp3);
            connection.reply.raw(bytes);
            self.bytes += bytes.len();
        }
        to.len()
    }

    /// Puts the messages for the client that has executed a command before the reply, which begins at `mark`; behind it, if
    /// the command was EXEC, which may have subscribed first.
    #[inline]
    pub(crate) fn deliver_own(&mut self, session: &Session, reply: &mut Reply, mark: usize) {
        if self.own.is_empty() {
            return;
        }
        let mut bytes = Vec::new();
        for (_, message) in self.own.extract_if(.., |(token, _)| *token == session.token) {
            bytes.extend_from_slice(message.bytes(session.resp3));
        }
        self.bytes += bytes.len();
        if session.last_command == Some("exec") {
            reply.raw(&bytes);
        } else {
            reply.insert(mark, &bytes);
        }
    }

    /// The clients whose replies got messages in this turn, and that executed nothing before.
    pub(crate) fn take_touched(&mut self) -> Vec<Token> {
        std::mem::take(&mut self.touched)
    }

    /// The client's replies got something in this turn, and it executed nothing before.
    pub(crate) fn touch(&mut self, token: Token) {
        self.touched.push(token);
    }

    /// Bytes of messages since the last call.
    #[inline]
    pub(crate) fn take_bytes(&mut self) -> usize {
        std::mem::take(&mut self.bytes)
    }
}
