//! Bytes as what a client sends, to a server over a store in memory.

mod running;
mod words;

use std::io::{self, ErrorKind};

use tembo_kv::{Options, PoolOptions, RegionOptions, Store};

use super::{Face, Fate};
pub(super) use running::{End, Running, converse};
pub(super) use words::case;

/// Bytes of the store in memory.
const STORE_SIZE_MAX: u64 = 8 << 20;
/// Cases after which the server is given an empty store.
const CASES_MAX: u32 = 512;

/// A server, and what is sent to it.
pub struct TalkFace {
    running: Running,
    cases: u32,
}

impl TalkFace {
    /// Starts a server.
    ///
    /// # Errors
    /// Of the store, of the network.
    pub fn new() -> io::Result<TalkFace> {
        Ok(TalkFace { running: Running::over(empty()?)?, cases: 0 })
    }

    /// Ends the server and starts another; what the first one died of, if it did.
    fn renew(&mut self) -> Result<(), String> {
        self.cases = 0;
        let next = empty()
            .and_then(Running::over)
            .map_err(|error| format!("starting a server: {error}"))?;
        std::mem::replace(&mut self.running, next).stop().map_err(|end| match end {
            End::Error(error) => format!("the server ended: {error}"),
            End::Panic => "the server panicked".into(),
        })
    }
}

impl Face for TalkFace {
    fn offer(&mut self, bytes: &[u8]) -> Fate {
        self.cases += 1;
        let answered = match converse(self.running.address, bytes) {
            Ok(answered) => answered,
            Err(error) if matches!(error.kind(), ErrorKind::TimedOut | ErrorKind::WouldBlock) => {
                return Fate::Wrong(format!("the server neither answers nor closes: {error}"));
            }
            Err(_) => 0,
        };
        // A password, a limit of clients, a shutdown: each is legal, and needs another server.
        let alive = converse(self.running.address, b"*1\r\n$4\r\nPING\r\n");
        let usable = alive.is_ok_and(|size| size == b"+PONG\r\n".len());
        if (!usable || self.cases > CASES_MAX)
            && let Err(what) = self.renew()
        {
            return Fate::Wrong(what);
        }
        if answered == 0 { Fate::Refused } else { Fate::Sound }
    }
}

/// An empty store in memory.
fn empty() -> io::Result<Store> {
    let region = RegionOptions { size_max: STORE_SIZE_MAX, ..RegionOptions::default() };
    let pool = PoolOptions { size: 1 << 20, region, ..PoolOptions::default() };
    Store::volatile(&Options::new().pool(pool).background(false)).map_err(io::Error::other)
}
