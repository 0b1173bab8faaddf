//! Bytes as what a client sends, to a server over a store in memory.

mod words;

use std::io::{self, ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use tembo_kv::{Options, PoolOptions, RegionOptions, Store};
use tembo_server::{Config, Server};

use super::{Face, Fate};
pub(super) use words::case;

/// A server that takes longer to answer hangs.
const PATIENCE: Duration = Duration::from_secs(60);
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
        Ok(TalkFace { running: Running::start()?, cases: 0 })
    }

    /// Ends the server and starts another; what the first one died of, if it did.
    fn renew(&mut self) -> Result<(), String> {
        self.cases = 0;
        let next = Running::start().map_err(|error| format!("starting a server: {error}"))?;
        std::mem::replace(&mut self.running, next).stop()
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

/// Sends all, says that there is no more, and reads until the server closes: bytes of its answer.
fn converse(address: SocketAddr, bytes: &[u8]) -> io::Result<usize> {
    let mut stream = TcpStream::connect(address)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    // Whoever sends nonsense is told so and cut off: it may not take the rest.
    let _ = stream.write_all(bytes);
    let _ = stream.shutdown(Shutdown::Write);
    let (mut piece, mut size) = (vec![0; 64 << 10], 0);
    loop {
        match stream.read(&mut piece) {
            Ok(0) => return Ok(size),
            Ok(count) => size += count,
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) if error.kind() == ErrorKind::ConnectionReset => return Ok(size),
            Err(error) => return Err(error),
        }
    }
}

/// A server in a thread.
struct Running {
    address: SocketAddr,
    shutdown: Arc<AtomicBool>,
    thread: JoinHandle<Result<(), tembo_server::Error>>,
}

impl Running {
    fn start() -> io::Result<Running> {
        let region = RegionOptions { size_max: STORE_SIZE_MAX, ..RegionOptions::default() };
        let pool = PoolOptions { size: 1 << 20, region, ..PoolOptions::default() };
        let options = Options { pool, background: false };
        let store = Store::volatile(&options).map_err(io::Error::other)?;
        let config = Config { port: 0, ..Config::default() };
        let mut server = Server::bind(store, config).map_err(io::Error::other)?;
        let (address, shutdown) = (server.local_addr(), Arc::new(AtomicBool::new(false)));
        let stop = shutdown.clone();
        let thread = std::thread::Builder::new()
            .name("fuzzed server".into())
            .spawn(move || server.run(&stop))?;
        Ok(Running { address, shutdown, thread })
    }

    fn stop(self) -> Result<(), String> {
        self.shutdown.store(true, Ordering::Relaxed);
        match self.thread.join() {
            Ok(Ok(())) => Ok(()),
            Ok(Err(error)) => Err(format!("the server ended: {error}")),
            Err(_) => Err("the server panicked".into()),
        }
    }
}
