//! Where clients come from: TCP ports and a Unix socket.

use std::fs::Permissions;
use std::io::{self, ErrorKind};
use std::net::{IpAddr, SocketAddr, TcpListener};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};

use crate::config::Config;
use crate::error::Error;

/// Listeners, and the first addresses of a TCP port and of one for TLS.
pub(crate) type Opened = (Vec<Listener>, Option<SocketAddr>, Option<SocketAddr>);

/// One place to listen at. None of them blocks.
pub(crate) enum Listener {
    /// A TCP port.
    Tcp(TcpListener),
    /// A TCP port for TLS.
    Tls(TcpListener),
    /// A Unix socket, its path, and which file the server has made there; `None`: it has not made it.
    Unix(UnixListener, PathBuf, Option<FileId>),
}

/// A file of the system: its device, and its number there.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct FileId(u64, u64);

impl FileId {
    /// What lies at a path.
    fn at(path: &Path) -> Option<FileId> {
        let found = std::fs::symlink_metadata(path).ok()?;
        Some(FileId(found.dev(), found.ino()))
    }
}

/// Sockets that another process has opened for the server, as systemd does.
#[derive(Default)]
pub struct Inherited {
    /// TCP listeners.
    pub tcp: Vec<TcpListener>,
    /// Listeners of Unix sockets.
    pub unix: Vec<UnixListener>,
}

impl Inherited {
    /// Whether there are none.
    fn is_empty(&self) -> bool {
        self.tcp.is_empty() && self.unix.is_empty()
    }
}

/// A client that has just come.
pub(crate) struct Arrived {
    /// Its socket.
    pub(crate) socket: OwnedFd,
    /// Its address, as CLIENT LIST shows it.
    pub(crate) peer: String,
    /// The server's address, likewise.
    pub(crate) local: String,
    /// Its IP address; none if it came through a Unix socket.
    pub(crate) ip: Option<IpAddr>,
    /// It speaks TLS.
    pub(crate) is_encrypted: bool,
}

impl Arrived {
    /// Whether it is a process of the same machine, as far as its address says.
    pub(crate) fn is_local(&self) -> bool {
        self.ip.is_none_or(|ip| ip.to_canonical().is_loopback())
    }
}

impl Listener {
    /// All listeners that the operator has chosen, or those that were inherited.
    ///
    /// # Errors
    /// An address or a path that cannot be listened at.
    pub(crate) fn open_all(config: &Config, inherited: Inherited) -> Result<Opened, Error> {
        if !inherited.is_empty() {
            return Listener::take_over(inherited);
        }
        let (mut listeners, mut first, mut first_tls) = (Vec::new(), None, None);
        if config.tcp {
            let add = |listener| listeners.push(Listener::Tcp(listener));
            first = listen_at_all(config, config.port, add)?;
        }
        if let Some(tls) = &config.tls {
            let add = |listener| listeners.push(Listener::Tls(listener));
            first_tls = listen_at_all(config, tls.port, add)?;
        }
        if let Some(path) = &config.unixsocket {
            let bound = bind_unix(path, config.unixsocketperm);
            let listener =
                bound.map_err(|source| Error::UnixSocket { path: path.clone(), source })?;
            listeners.push(Listener::Unix(listener, path.clone(), FileId::at(path)));
        }
        Ok((listeners, first, first_tls))
    }

    fn take_over(inherited: Inherited) -> Result<Opened, Error> {
        let failed = |source| Error::Io { what: "a listener that was inherited", source };
        let (mut listeners, mut first) = (Vec::new(), None);
        for listener in inherited.tcp {
            listener.set_nonblocking(true).map_err(failed)?;
            first = first.or(Some(listener.local_addr().map_err(failed)?));
            listeners.push(Listener::Tcp(listener));
        }
        for listener in inherited.unix {
            listener.set_nonblocking(true).map_err(failed)?;
            let address = listener.local_addr().map_err(failed)?;
            let path = address.as_pathname().map(Path::to_path_buf).unwrap_or_default();
            listeners.push(Listener::Unix(listener, path, None));
        }
        Ok((listeners, first, None))
    }

    /// The same place, by another descriptor.
    ///
    /// # Errors
    /// The system's.
    pub(crate) fn try_clone(&self) -> io::Result<Listener> {
        Ok(match self {
            Listener::Tcp(listener) => Listener::Tcp(listener.try_clone()?),
            Listener::Tls(listener) => Listener::Tls(listener.try_clone()?),
            Listener::Unix(listener, path, made) => {
                Listener::Unix(listener.try_clone()?, path.clone(), *made)
            }
        })
    }

    /// Takes in a client, if one waits. Its socket does not block.
    ///
    /// # Errors
    /// The system's; `WouldBlock` if no client waits.
    pub(crate) fn accept(&self) -> io::Result<Arrived> {
        match self {
            Listener::Tcp(listener) | Listener::Tls(listener) => {
                let (socket, peer) = listener.accept()?;
                socket.set_nonblocking(true)?;
                let _ = socket.set_nodelay(true);
                let local = socket.local_addr().map(|local| local.to_string()).unwrap_or_default();
                Ok(Arrived {
                    socket: socket.into(),
                    peer: peer.to_string(),
                    local,
                    ip: Some(peer.ip()),
                    is_encrypted: matches!(self, Listener::Tls(_)),
                })
            }
            Listener::Unix(listener, path, _) => {
                let (socket, _) = listener.accept()?;
                socket.set_nonblocking(true)?;
                let name = format!("{}:0", path.display());
                Ok(Arrived {
                    socket: socket.into(),
                    peer: name.clone(),
                    local: name,
                    ip: None,
                    is_encrypted: false,
                })
            }
        }
    }
}

impl AsFd for Listener {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Listener::Tcp(listener) | Listener::Tls(listener) => listener.as_fd(),
            Listener::Unix(listener, ..) => listener.as_fd(),
        }
    }
}

/// Listens at a port of all addresses; port 0 means any, but the same one at every address. Returns the first address.
fn listen_at_all(
    config: &Config,
    port: u16,
    mut add: impl FnMut(TcpListener),
) -> Result<Option<SocketAddr>, Error> {
    let mut first: Option<SocketAddr> = None;
    let required = config.bind.iter().map(|ip| (*ip, true));
    for (ip, is_required) in required.chain(config.bind_optional.iter().map(|ip| (*ip, false))) {
        let port = first.map_or(port, |first| first.port());
        let address = SocketAddr::new(ip, port);
        let bound = TcpListener::bind(address).and_then(|listener| {
            listener.set_nonblocking(true)?;
            let local = listener.local_addr()?;
            Ok((listener, local))
        });
        match bound {
            Ok((listener, local)) => {
                first.get_or_insert(local);
                add(listener);
            }
            Err(source) if is_required || !is_unavailable(&source) => {
                return Err(Error::Bind { address, source });
            }
            // The machine has no such address.
            Err(_) => {}
        }
    }
    Ok(first)
}

fn is_unavailable(error: &io::Error) -> bool {
    use rustix::io::Errno;
    error.kind() == ErrorKind::AddrNotAvailable
        || [Errno::AFNOSUPPORT, Errno::PROTONOSUPPORT]
            .iter()
            .any(|errno| error.raw_os_error() == Some(errno.raw_os_error()))
}

/// Listens at a path. A socket that a server has left there, and that does not answer, is replaced; anything else stays.
fn bind_unix(path: &Path, mode: Option<u32>) -> io::Result<UnixListener> {
    match std::fs::symlink_metadata(path) {
        Ok(found) if found.file_type().is_socket() => {
            let is_left = UnixStream::connect(path)
                .is_err_and(|error| error.kind() == ErrorKind::ConnectionRefused);
            if !is_left {
                return Err(ErrorKind::AddrInUse.into());
            }
            std::fs::remove_file(path)?;
        }
        Ok(_) => return Err(io::Error::new(ErrorKind::AlreadyExists, "it is no socket")),
        Err(error) if error.kind() == ErrorKind::NotFound => {}
        Err(error) => return Err(error),
    }
    let listener = UnixListener::bind(path)?;
    listener.set_nonblocking(true)?;
    if let Some(mode) = mode {
        std::fs::set_permissions(path, Permissions::from_mode(mode))?;
    }
    Ok(listener)
}

/// Removes the Unix sockets that the server has made, as it ends. What another has put at their paths since stays.
pub(crate) fn remove_paths(listeners: &[Listener]) {
    for listener in listeners {
        if let Listener::Unix(_, path, made) = listener
            && made.is_some()
            && *made == FileId::at(path)
        {
            // Another start finds that nothing answers there, and replaces it.
            let _ = std::fs::remove_file(path);
        }
    }
}
