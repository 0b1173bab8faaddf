//! Clients that wait go on, or their wait ends.

use tembo_kv::Error as StoreError;

use super::{Turns, count_command};
use crate::args::Args;
use crate::connection::Connection;
use crate::dispatch::execute_queued;
use crate::failure::DEMOTED;
use crate::notify::expire_key;
use crate::reply::Reply;
use crate::session::{Replies, Session};
use crate::token::Token;
use crate::waiting::{Wait, WaitEnd};

impl Turns<'_> {
    /// Whether the last command has made what others wait for, or has ended a wait.
    #[inline]
    pub(super) fn is_awaited(&self) -> bool {
        self.data.waiting.has_ready() || !self.shared.released.is_empty()
    }

    /// Executes the commands that have waited for what the last command has made, and ends the waits that it has ended.
    pub(super) fn serve_waiting(&mut self) -> Result<(), StoreError> {
        for (token, end) in std::mem::take(&mut self.shared.released) {
            self.end_wait(token, end);
        }
        while let Some((db, key, tokens)) = self.data.waiting.next_ready() {
            if self.data.kind(db, &key)?.is_none() {
                // What follows would see it otherwise, as long as nothing removes it.
                expire_key(&mut self.data, &mut self.shared, &mut self.clients, (db, &key));
            }
            for token in tokens {
                let Some(mut connection) = self.clients.take(token) else { continue };
                let served = self.serve_one(token, &mut connection, (db, &key));
                self.clients.give_back(token, connection);
                served?;
            }
        }
        Ok(())
    }

    /// Executes the command that a client has waited with, if the key is of the right kind.
    fn serve_one(
        &mut self,
        token: Token,
        connection: &mut Connection,
        (db, key): (usize, &[u8]),
    ) -> Result<(), StoreError> {
        if connection.session.closing {
            // It was killed, and its wait ends with it.
            return Ok(());
        }
        let found = self.data.kind(db, key)?;
        let wants = |wait: &Wait| wait.needs_key || found == Some(wait.kind);
        let Some(wait) = connection.session.waits_for.take_if(|wait| wants(wait)) else {
            return Ok(());
        };
        connection.begin_turn(self.clients.early_commits);
        if found != Some(wait.kind) {
            connection.session.shows_data = true;
            let text = b"UNBLOCKED the stream key no longer exists";
            reply_if_wanted(connection, |reply| reply.error(text));
            self.data.waiting.remove(token, &wait);
            self.resume(token, connection);
            return Ok(());
        }
        self.shared.observed.begin();
        connection.session.served = Some(key.to_vec());
        let done = self.execute_kept(connection, wait.command.args());
        connection.session.served = None;
        if connection.session.waits_for.is_some() {
            connection.session.waits_for = Some(wait);
            return done;
        }
        self.data.waiting.remove(token, &wait);
        self.resume(token, connection);
        done
    }

    /// Executes a command that was kept, of a client that waits for its reply.
    pub(super) fn execute_kept(
        &mut self,
        connection: &mut Connection,
        args: Args<'_>,
    ) -> Result<(), StoreError> {
        let Connection { session, reply, .. } = connection;
        self.execute_by((session, reply), |context, reply| execute_queued(context, args, reply))
    }

    /// The client was replied to, and its next commands can be executed.
    fn resume(&mut self, token: Token, connection: &mut Connection) {
        count_command(connection);
        connection.stopped = connection.has_more();
        self.served.push(token);
    }

    /// Replies to the clients whose time to wait is over.
    pub(super) fn end_due_waits(&mut self) {
        for token in self.data.waiting.due(self.shared.clock.steady_ms) {
            self.end_wait(token, WaitEnd::Due);
        }
    }

    /// This server has become a replica: what clients wait for, another server gives them. As Redis does, it disconnects them.
    pub(super) fn end_waits_of_primary(&mut self) {
        let waits_for_key = |session: &Session| {
            session.waits_for.as_ref().is_some_and(|wait| !wait.keys.is_empty())
        };
        let connections = self.clients.iter().filter(|one| waits_for_key(&one.session));
        let tokens: Vec<Token> = connections.map(|one| one.session.token).collect();
        tokens.into_iter().for_each(|token| self.end_wait(token, WaitEnd::Demoted));
    }

    /// Ends a client's wait.
    fn end_wait(&mut self, token: Token, end: WaitEnd) {
        let Some(mut connection) = self.clients.take(token) else { return };
        if let Some(wait) = connection.session.waits_for.take() {
            self.data.waiting.remove(token, &wait);
            self.end_delay(&mut connection);
            connection.begin_turn(self.clients.early_commits);
            // That nothing has come, or what the server has become.
            connection.session.shows_data = true;
            self.shared.replication.end_wait(token);
            match end {
                WaitEnd::Due if wait.keys.is_empty() => {
                    self.end_wait_for_replicas(&mut connection, &wait);
                }
                WaitEnd::Due => reply_if_wanted(&mut connection, Reply::null_array),
                WaitEnd::Unblocked => {
                    let text = b"UNBLOCKED client unblocked via CLIENT UNBLOCK";
                    reply_if_wanted(&mut connection, |reply| reply.error(text));
                }
                WaitEnd::Demoted => {
                    reply_if_wanted(&mut connection, |reply| reply.error(DEMOTED.as_bytes()));
                    connection.session.closing = true;
                }
            }
            self.resume(token, &mut connection);
        }
        self.clients.give_back(token, connection);
    }

    /// The client's AUTH is delayed no longer.
    pub(super) fn end_delay(&mut self, connection: &mut Connection) {
        if std::mem::take(&mut connection.session.is_delayed) {
            self.shared.acl.guesses.release(connection.session.ip);
        }
    }

    /// Executes again what has waited for no key: WAIT replies how far replicas have come, AUTH was delayed.
    fn end_wait_for_replicas(&mut self, connection: &mut Connection, wait: &Wait) {
        connection.session.served = Some(Vec::new());
        // The command only counts, and writes nothing.
        let _ = self.execute_kept(connection, wait.command.args());
        connection.session.served = None;
    }
}

/// Replies to a command that has waited, unless the client wants no reply.
fn reply_if_wanted(connection: &mut Connection, reply: impl FnOnce(&mut Reply)) {
    if connection.session.replies == Replies::On {
        reply(&mut connection.reply);
    }
}
