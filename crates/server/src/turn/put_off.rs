//! Commands that were put off go on in a turn.

use super::{Turns, count_reply};
use crate::command::Context;
use crate::connection::Connection;
use crate::dispatch::observe_put_off;
use crate::put_off::Waits;

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

    /// Goes on with the client's command that was put off; false: it goes on in a later turn.
    pub(super) fn go_on(&mut self, connection: &mut Connection) -> bool {
        connection.session.active_ms = self.shared.clock.steady_ms;
        if !self.shared.put_off.take_chance(connection.session.token) {
            return false;
        }
        let Some(mut put_off) = connection.session.put_off.take() else { return true };
        let began = self.shared.observed.began();
        let advanced = put_off.advance();
        if let Ok(false) = advanced {
            put_off.went_on(self.shared.observed.end_command(began));
            connection.session.put_off = Some(put_off);
            return false;
        }
        connection.begin_turn();
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
        true
    }
}
