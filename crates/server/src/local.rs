//! The server's turns without sockets, for one client in the same process. For programs that need the
//! commands in the process itself, and for simulations, which own the clock and the requests.

use std::sync::atomic::AtomicBool;
use std::time::Instant;

use tembo_kv::Store;

use crate::acl::Acl;
use crate::args::{Args, Span};
use crate::backup::Backups;
use crate::clients::Clients;
use crate::clock::Clock;
use crate::command::{Context, Table};
use crate::commands::{FAMILIES, catalog};
use crate::commit::{commit, expire};
use crate::config::Config;
use crate::dataset::{Dataset, Spaces};
use crate::dispatch::dispatch;
use crate::error::Error;
use crate::notify::notify_expired;
use crate::permission::admit;
use crate::reply::Reply;
use crate::session::Session;
use crate::settings::Settings;
use crate::shared::Shared;

/// A store that is served to its own process.
pub struct Local {
    store: Store,
    spaces: Spaces,
    session: Session,
    clients: Clients,
    shared: Shared,
    table: Table,
}

impl Local {
    /// Opens the databases in `store`, creating those that are missing.
    ///
    /// # Errors
    /// Those of the store.
    pub fn open(store: Store, databases: usize) -> Result<Local, Error> {
        let config = Config { databases, ..Config::default() };
        config.validate()?;
        let spaces = Spaces::open(&store, databases, false)?;
        let table = Table::new(FAMILIES);
        let acl = Acl::new(catalog(&table), &config)?;
        let mut session = Session::new(1, String::new(), String::new(), 0);
        admit(&acl, &mut session);
        session.may_wait = false;
        let shared =
            Shared::new(Settings::new(&config, 0), acl, Backups::new(None).0, 0, Clock::default());
        let clients = Clients::default();
        Ok(Local { store, spaces, session, clients, shared, table })
    }

    /// The store below.
    pub fn store(&self) -> &Store {
        &self.store
    }

    /// Executes the requests, each a command and its arguments, in one turn at `now_ms` (milliseconds since
    /// 1970; the clock may go back). Returns the replies in RESP2. Durable when it returns. WATCH has no
    /// effect beyond its turn.
    ///
    /// # Errors
    /// The turn could not be committed: nothing of it has happened.
    pub fn turn(&mut self, now_ms: u64, requests: &[Vec<Vec<u8>>]) -> Result<Vec<u8>, Error> {
        let steady_ms = self.shared.clock.steady_ms.max(now_ms);
        self.shared.clock = Clock { wall_us: now_ms.saturating_mul(1000), steady_ms };
        // If the turn before changed them, it was not committed.
        self.shared.scripts.libraries.end_turn(false);
        let mut data = Dataset::new(&self.store, &self.spaces);
        data.load_order()?;
        data.set_clock(self.shared.clock);
        // A clock that stands still: so many keys expire, whatever the machine is at.
        let now = self.shared.started;
        expire(&mut data, &mut self.shared, true, || now)?;
        for expired in data.take_expired() {
            notify_expired(&mut self.shared, &mut self.clients, &expired);
        }
        let mut reply = Reply::new(usize::MAX);
        for request in requests {
            let spans: Vec<Span> =
                (0..request.len()).map(|index| Span::Owned { index: index as u32 }).collect();
            let mut context = Context {
                data: &mut data,
                session: &mut self.session,
                clients: &mut self.clients,
                shared: &mut self.shared,
                table: &self.table,
                shutdown: &AtomicBool::new(false),
            };
            let mark = reply.mark();
            dispatch(&mut context, Args::new(&[], request, &spans), &mut reply)?;
            self.shared.pubsub.deliver_own(&self.session, &mut reply, mark);
        }
        commit(&mut data, &mut self.shared, Instant::now())?;
        Ok(reply.unsent().to_vec())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_turn_is_executed_and_replied_to() {
        let store = Store::volatile(&tembo_kv::Options::default()).unwrap();
        let mut local = Local::open(store, 1).unwrap();
        let request = |text: &str| -> Vec<Vec<u8>> {
            text.split(' ').map(|word| word.as_bytes().to_vec()).collect()
        };
        let requests = ["SET a 1 PX 5", "INCR a", "MULTI", "DEL b", "EXEC"].map(request);
        let replies = local.turn(1000, &requests).unwrap();
        assert_eq!(replies, b"+OK\r\n:2\r\n+OK\r\n+QUEUED\r\n*1\r\n:0\r\n");
        assert_eq!(local.turn(1005, &[request("GET a")]).unwrap(), b"$1\r\n2\r\n");
        assert_eq!(local.turn(1006, &[request("GET a")]).unwrap(), b"$-1\r\n");
    }

    /// The system's clock was an hour ahead for a while: time goes on from where it is set back to, and what expired, or was
    /// put off, meanwhile does not hold up what is due now.
    #[test]
    fn a_clock_that_is_set_back_goes_on() {
        const HOUR: u64 = 3_600_000;
        let store = Store::volatile(&tembo_kv::Options::default()).unwrap();
        let mut local = Local::open(store, 1).unwrap();
        let mut turn = |now_ms, text: &str| {
            let words = text.split(' ').map(|word| word.as_bytes().to_vec()).collect();
            String::from_utf8(local.turn(now_ms, &[words]).unwrap()).unwrap()
        };
        turn(1000, "SET before 1 PX 10000");
        turn(HOUR, "SET ahead 1 PX 10000");
        assert_eq!(turn(HOUR, "GET before"), "$-1\r\n");
        assert_eq!(turn(2000, "TIME"), "*2\r\n$1\r\n2\r\n$1\r\n0\r\n");
        assert_eq!(turn(2000, "SET after 1 PX 10000"), "+OK\r\n");
        assert_eq!(turn(3000, "PTTL after"), ":9000\r\n");
        assert_eq!(turn(3000, "PTTL ahead"), format!(":{}\r\n", HOUR + 7000));
        assert_eq!(turn(12_001, "DBSIZE"), ":1\r\n");
        assert_eq!(turn(12_001, "EXISTS after ahead"), ":1\r\n");
    }
}
