//! Servers as processes of their own, reached over the loopback interface.

use std::io;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use super::memcached::Text;
use super::opened::{Client, Medium, Place, Rival, failed};
use super::resp::Resp;
use crate::Error;

/// How Redis keeps its append-only file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RedisLog {
    /// Synced before a reply.
    Always,
    /// Synced each second.
    EverySecond,
    /// There is none.
    None,
}

impl RedisLog {
    /// Arguments that its server gets beside its place.
    const fn settings(self) -> &'static [&'static str] {
        match self {
            Self::Always => &["--appendonly", "yes", "--appendfsync", "always", "--save", ""],
            Self::EverySecond => {
                &["--appendonly", "yes", "--appendfsync", "everysec", "--save", ""]
            }
            Self::None => &["--appendonly", "no", "--save", ""],
        }
    }
}

/// Memory enough for every experiment; one thread, as Redis and Tembo have; no other user to become.
const MEMCACHED: [&str; 8] = ["-m", "8192", "-t", "1", "-U", "0", "-u", "root"];

/// With which settings the other servers are started, for the page.
pub(crate) fn server_settings() -> String {
    let line = |settings: &[&str]| {
        let quoted = settings.iter().map(|word| if word.is_empty() { "''" } else { *word });
        quoted.collect::<Vec<_>>().join(" ")
    };
    let [always, everysec, none] =
        [RedisLog::Always, RedisLog::EverySecond, RedisLog::None].map(|log| line(log.settings()));
    format!(
        "Redis is started with “{always}”, with “{everysec}” or, without a log, with “{none}”; memcached with “{}”.",
        line(&MEMCACHED)
    )
}

/// How Tembo's server is started.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TemboServer {
    /// As it comes: `flush` in memory, `logged` and `always` on a disk.
    Durable,
    /// The same with the CDDS B-Tree.
    Cdds,
}

/// Until a server answers.
const PATIENCE: Duration = Duration::from_secs(20);

#[derive(Clone, Copy)]
enum Protocol {
    Resp,
    Text,
}

/// A process that ends with this.
struct Server {
    child: Child,
    address: SocketAddr,
    protocol: Protocol,
}

impl Drop for Server {
    fn drop(&mut self) {
        // Its files are removed next; it has nothing to save.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Server {
    fn start(command: &mut Command, port: u16, protocol: Protocol) -> Result<Server, Error> {
        let start = |source: io::Error| failed("a server")(Box::new(source));
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let child = command.spawn().map_err(start)?;
        let mut server =
            Server { child, address: SocketAddr::from(([127, 0, 0, 1], port)), protocol };
        let begun = Instant::now();
        while TcpStream::connect(server.address).is_err() {
            let ended = server.child.try_wait().map_err(start)?;
            if ended.is_some() || begun.elapsed() > PATIENCE {
                return Err(start(io::Error::other(format!("{command:?} does not answer"))));
            }
            sleep(Duration::from_millis(5));
        }
        Ok(server)
    }
}

impl Rival for Server {
    fn server(&self) -> Option<(u32, SocketAddr)> {
        Some((self.child.id(), self.address))
    }

    fn client(&self) -> Result<Box<dyn Client + '_>, Error> {
        let stream = TcpStream::connect(self.address);
        let stream = stream.map_err(|source| failed("a server")(Box::new(source)))?;
        Ok(match self.protocol {
            Protocol::Resp => Box::new(Resp::new(stream)?),
            Protocol::Text => Box::new(Text::new(stream)?),
        })
    }
}

/// Tembo's own server.
pub(super) fn tembo(place: Place<'_>, kind: TemboServer) -> Result<Option<Box<dyn Rival>>, Error> {
    let port = free_port()?;
    let mut command = Command::new(place.tembo);
    command.arg("serve").arg("--pool").arg(place.folder.join("tembo.pool"));
    command.arg("--port").arg(port.to_string());
    command.arg("--domain").arg(match place.medium {
        Medium::Memory => "flush",
        Medium::Disk => "logged",
    });
    if kind == TemboServer::Cdds {
        command.args(["--index", "cdds"]);
    }
    Ok(Some(Box::new(Server::start(&mut command, port, Protocol::Resp)?)))
}

/// Redis, if it is installed.
pub(super) fn redis(folder: &Path, log: RedisLog) -> Result<Option<Box<dyn Rival>>, Error> {
    // Debian has one program under both names.
    let Some(program) = installed("redis-server").or_else(|| installed("redis-check-rdb")) else {
        return Ok(None);
    };
    let port = free_port()?;
    let mut command = Command::new(program);
    command.args(log.settings()).args(["--bind", "127.0.0.1"]);
    command.arg("--dir").arg(folder).arg("--port").arg(port.to_string());
    // Debian's program takes its second name for what it is; the name says which one is meant.
    std::os::unix::process::CommandExt::arg0(&mut command, "redis-server");
    Ok(Some(Box::new(Server::start(&mut command, port, Protocol::Resp)?)))
}

/// memcached, if it is installed.
pub(super) fn memcached() -> Result<Option<Box<dyn Rival>>, Error> {
    let Some(program) = installed("memcached") else { return Ok(None) };
    let port = free_port()?;
    let mut command = Command::new(program);
    command.args(MEMCACHED).args(["-l", "127.0.0.1", "-p"]).arg(port.to_string());
    Ok(Some(Box::new(Server::start(&mut command, port, Protocol::Text)?)))
}

fn installed(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).map(|folder| folder.join(name)).find(|program| program.is_file())
}

/// Another program may take it before the server does; then the server ends, and that is said.
fn free_port() -> Result<u16, Error> {
    let port = TcpListener::bind(("127.0.0.1", 0)).and_then(|listener| listener.local_addr());
    port.map(|address| address.port()).map_err(|source| failed("a server")(Box::new(source)))
}
