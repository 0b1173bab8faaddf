//! A server in a thread, and a conversation with it.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use tembo_kv::Store;
use tembo_server::{Config, Server};

/// A server that takes longer to answer hangs.
const PATIENCE: Duration = Duration::from_secs(60);

/// Sends all, says that there is no more, and reads until the server closes: bytes of its answer.
pub(in crate::fuzz) fn converse(address: SocketAddr, bytes: &[u8]) -> io::Result<usize> {
    let mut stream = TcpStream::connect(address)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    // A client that sends nonsense gets an error and is cut off: it may not take the rest.
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
pub(in crate::fuzz) struct Running {
    /// The address at which it listens.
    pub(in crate::fuzz) address: SocketAddr,
    shutdown: Arc<AtomicBool>,
    thread: JoinHandle<Result<(), tembo_server::Error>>,
}

/// How a server ended that should not have.
pub(in crate::fuzz) enum End {
    /// By an error, which it reported.
    Error(tembo_server::Error),
    Panic,
}

impl Running {
    /// A server with two databases in `store`.
    pub(in crate::fuzz) fn over(store: Store) -> io::Result<Running> {
        let config = Config { port: 0, databases: 2, ..Config::default() };
        let mut server = Server::bind(store, config).map_err(io::Error::other)?;
        let (address, shutdown) = (server.local_addr(), Arc::new(AtomicBool::new(false)));
        let stop = shutdown.clone();
        let thread = std::thread::Builder::new()
            .name("fuzzed server".into())
            .spawn(move || server.run(&stop))?;
        Ok(Running { address, shutdown, thread })
    }

    /// Stops it, if it has not ended by itself.
    pub(in crate::fuzz) fn stop(self) -> Result<(), End> {
        self.shutdown.store(true, Ordering::Relaxed);
        // It looks ten times a second, and at once when it is spoken to, if it still listens.
        let _ = TcpStream::connect(self.address);
        match self.thread.join() {
            Ok(ended) => ended.map_err(End::Error),
            Err(_) => Err(End::Panic),
        }
    }
}
