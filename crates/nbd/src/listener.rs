//! Where clients come from: a TCP address, or a socket at a path.

use std::fs;
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};

use crate::stream::Stream;

/// Where a server listens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Listen {
    /// A TCP address; with port 0 a free one.
    Tcp(SocketAddr),
    /// A socket at a path. One that a server has left there is replaced; anything else stays, and is an error.
    Unix(PathBuf),
}

/// A socket that is listened at.
pub(crate) enum Listener {
    Tcp(TcpListener),
    /// Its path, and which file it is there.
    Unix(UnixListener, PathBuf, Option<FileId>),
}

/// A file of the system: its device, and its number there.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct FileId(u64, u64);

impl FileId {
    /// What lies at a path.
    fn at(path: &Path) -> Option<FileId> {
        let found = fs::symlink_metadata(path).ok()?;
        Some(FileId(found.dev(), found.ino()))
    }
}

impl Listener {
    /// Listens. No accept waits.
    pub(crate) fn bind(listen: &Listen) -> io::Result<Listener> {
        match listen {
            Listen::Tcp(address) => {
                let listener = TcpListener::bind(address)?;
                listener.set_nonblocking(true)?;
                Ok(Listener::Tcp(listener))
            }
            Listen::Unix(path) => {
                remove_left(path)?;
                let listener = UnixListener::bind(path)?;
                listener.set_nonblocking(true)?;
                Ok(Listener::Unix(listener, path.clone(), FileId::at(path)))
            }
        }
    }

    /// Takes in a client.
    ///
    /// # Errors
    /// The system's; `WouldBlock` if none waits.
    pub(crate) fn accept(&self) -> io::Result<Stream> {
        match self {
            Listener::Tcp(listener) => {
                let (stream, _) = listener.accept()?;
                stream.set_nonblocking(false)?;
                stream.set_nodelay(true)?;
                Ok(Stream::Tcp(stream))
            }
            Listener::Unix(listener, ..) => {
                let (stream, _) = listener.accept()?;
                stream.set_nonblocking(false)?;
                Ok(Stream::Unix(stream))
            }
        }
    }

    /// The URI of an export, as clients take it.
    pub(crate) fn uri(&self, export: &str) -> io::Result<String> {
        Ok(match self {
            Listener::Tcp(listener) => format!("nbd://{}/{export}", listener.local_addr()?),
            Listener::Unix(_, path, _) => {
                format!("nbd+unix:///{export}?socket={}", path.display())
            }
        })
    }

    /// Removes the socket that it has made, if it still lies at its path.
    pub(crate) fn remove_path(&self) {
        if let Listener::Unix(_, path, made) = self
            && made.is_some()
            && *made == FileId::at(path)
        {
            // Another start finds that nothing answers there, and replaces it.
            let _ = fs::remove_file(path);
        }
    }
}

impl AsFd for Listener {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Listener::Tcp(listener) => listener.as_fd(),
            Listener::Unix(listener, ..) => listener.as_fd(),
        }
    }
}

/// Removes a socket that a server has left at a path, and that does not answer.
fn remove_left(path: &Path) -> io::Result<()> {
    let found = match fs::symlink_metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        found => found?,
    };
    if !found.file_type().is_socket() {
        let what = "something else than a socket lies there: give another path, or move it away";
        return Err(io::Error::new(io::ErrorKind::AlreadyExists, what));
    }
    match UnixStream::connect(path) {
        Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => fs::remove_file(path),
        _ => Err(io::ErrorKind::AddrInUse.into()),
    }
}
