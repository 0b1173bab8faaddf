//! Commands that were put off go on in a turn.

use tembo_kv::Error as StoreError;

use super::{Turns, count_reply};
use crate::command::Context;
use crate::connection::Connection;
use crate::dispatch::observe_put_off;
use crate::put_off::{PutOffCommand, Waits};
use crate::session::Session;

impl Turns<'_> {
    /// Chooses the clients whose commands go on in this turn.
    pub(super) fn choose_put_off(&mut self) {
        let clients = &self.clients;
        self.shared.put_off.begin_turn(|token| match clients.get(token) {
            Some(client) if client.session.put_off.is_some() && client.queued => Waits::Ready,
            Some(client) if client.session.put_off.is_some() => Waits::Held,
            _ => Waits::Not,
        });
    }

    /// Goes on with the client's command that was put off; false: it goes on in a later turn. An error makes the turn fail.
    pub(super) fn go_on(&mut self, connection: &mut Connection) -> Result<bool, StoreError> {
        connection.session.active_ms = self.shared.clock.steady_ms;
        if !self.shared.put_off.take_chance(connection.session.token) {
            return Ok(false);
        }
        let Some(mut put_off) = connection.session.put_off.take() else { return Ok(true) };
        let began = self.shared.observed.began();
        let advanced = put_off.advance();
        if let Ok(false) = advanced {
            put_off.went_on(self.shared.observed.end_command(began));
            connection.session.put_off = Some(put_off);
            return Ok(false);
        }
        connection.begin_turn(self.clients.early_commits);
        let is_changed = self.release(&put_off);
        if advanced.is_ok() && put_off.sources().is_some() {
            put_off.went_on(self.shared.observed.end_command(began));
            return self.store(connection, *put_off, is_changed);
        }
        let (took_ns, args, failed) = (put_off.took_ns(), put_off.take_args(), advanced.is_err());
        match advanced {
            Ok(_) => put_off.reply(&mut connection.reply),
            Err(failure) => {
                self.shared.stats.errors += 1;
                connection.reply.error(&failure.text());
            }
        }
        count_reply(connection);
        let took_ns = took_ns + self.shared.observed.end_command(began);
        let mut context = Context {
            data: &mut self.data,
            session: &mut connection.session,
            clients: &mut self.clients,
            shared: &mut self.shared,
            table: &self.table,
            shutdown: self.shutdown,
        };
        if let Some(args) = args {
            observe_put_off(&mut context, args.args(), (took_ns, failed));
        }
        Ok(true)
    }

    /// The client's command is executed again, to store what it has found, if what it has read has not changed; false: it goes on
    /// in a later turn.
    fn store(
        &mut self,
        connection: &mut Connection,
        mut put_off: PutOffCommand,
        is_changed: bool,
    ) -> Result<bool, StoreError> {
        let Some(args) = put_off.take_args() else { return Ok(true) };
        if self.shared.pause.holds(self.shared.clock.steady_ms, true) {
            // It writes, and begins anew behind the pause.
            self.shared.paused.push(connection.session.token);
            connection.session.postponed = Some(Box::new(args));
            return Ok(true);
        }
        connection.session.again = Some(Box::new(put_off.again(is_changed)));
        let done = self.execute_kept(connection, args.args());
        connection.session.again = None;
        if connection.session.put_off.is_some() {
            return done.map(|()| false);
        }
        count_reply(connection);
        done.map(|()| true)
    }

    /// What a command that was put off has read is watched no more. Whether it has changed.
    fn release(&mut self, put_off: &PutOffCommand) -> bool {
        let Some(sources) = put_off.sources() else { return false };
        self.data.watches.release(sources) || sources.expiry_ms < self.data.now_ms()
    }

    /// The client's command that was put off is given up. Whether there was one.
    pub(super) fn give_up(&mut self, session: &mut Session) -> bool {
        let put_off = session.put_off.take();
        put_off.map(|put_off| self.release(&put_off)).is_some()
    }
}
