//! Listens at a socket, with a thread for each client.

use std::fs;
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use rustix::net::{Shutdown, shutdown};

use crate::file_id::FileId;
use crate::process::Inherited;
use crate::socket::{self, Stream};
use crate::thread;

/// Clients at a time; one more finds the connection closed.
const CLIENTS_MAX: usize = 256;

/// How long it waits after the system has refused a client.
const PAUSE: Duration = Duration::from_millis(50);

/// What a thread does with a client.
type Serve = dyn Fn(Stream) + Send + Sync;

/// A socket that is listened at, until it is dropped.
pub(crate) struct Listener {
    path: PathBuf,
    /// The socket at the path.
    file: Option<FileId>,
    shared: Arc<Shared>,
}

struct Shared {
    /// Forgotten before it is closed.
    _inherited: Inherited,
    socket: UnixListener,
    is_stopped: AtomicBool,
    clients: AtomicUsize,
    serve: Box<Serve>,
}

/// A place among the clients.
struct Seat(Arc<Shared>);

impl Listener {
    /// Listens at `path`. A socket that lies there is of an owner that was killed: the caller holds the lock of the pool.
    pub(crate) fn new(path: &Path, serve: Box<Serve>) -> io::Result<Listener> {
        match fs::symlink_metadata(path) {
            Ok(found) if found.file_type().is_socket() => fs::remove_file(path)?,
            Ok(_) => return Err(io::ErrorKind::AlreadyExists.into()),
            Err(_) => {}
        }
        let socket = socket::bind(path)?;
        fs::set_permissions(path, fs::Permissions::from_mode(0o600))?;
        let (is_stopped, clients) = (AtomicBool::new(false), AtomicUsize::new(0));
        let _inherited = Inherited::new(socket.as_raw_fd());
        let shared = Arc::new(Shared { _inherited, socket, is_stopped, clients, serve });
        let accepting = shared.clone();
        let listener = Listener { path: path.to_owned(), file: FileId::at(path), shared };
        thread::start("tembo-owner", move || accept_all(&accepting))?;
        Ok(listener)
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        self.shared.is_stopped.store(true, Ordering::SeqCst);
        // The path may be gone, or another owner's, and the thread may have ended: that is what is wanted.
        if self.file == FileId::at(&self.path) {
            let _ = fs::remove_file(&self.path);
        }
        let _ = shutdown(&self.shared.socket, Shutdown::Both);
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        self.0.clients.fetch_sub(1, Ordering::SeqCst);
    }
}

fn accept_all(shared: &Arc<Shared>) {
    loop {
        let accepted = shared.socket.accept();
        if shared.is_stopped.load(Ordering::SeqCst) {
            return;
        }
        match accepted {
            // A child closes it from here on.
            Ok((stream, _)) => begin(shared, Stream::new(stream)),
            Err(_) => std::thread::sleep(PAUSE),
        }
    }
}

fn begin(shared: &Arc<Shared>, stream: Stream) {
    shared.clients.fetch_add(1, Ordering::SeqCst);
    let seat = Seat(shared.clone());
    if shared.clients.load(Ordering::SeqCst) > CLIENTS_MAX {
        return;
    }
    // Without a thread the client finds its connection closed.
    let _ = thread::start("tembo-client", move || (seat.0.serve)(stream));
}
