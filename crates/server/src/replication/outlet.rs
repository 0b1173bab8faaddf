//! The socket of a replica, as the thread writes to it that feeds the replica.

use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::{SendFlags, Shutdown, shutdown};
use tembo_kv::Error;

use crate::format::UnknownLayout;

/// How long the thread waits before it looks whether it is to end.
pub(super) const PATIENCE: Duration = Duration::from_millis(200);

/// Why a thread ends.
pub(super) enum End {
    /// The connection has ended, or is to end.
    Disconnected,
    /// What the thread has met in the store: the replica gets no more of it.
    Store,
}

impl From<Error> for End {
    fn from(_: Error) -> End {
        End::Store
    }
}

impl From<UnknownLayout> for End {
    fn from(_: UnknownLayout) -> End {
        End::Store
    }
}

/// A socket that does not block.
pub(super) struct Outlet {
    socket: OwnedFd,
    /// Is set when the thread is to end.
    stop: Arc<AtomicBool>,
    taken: Arc<AtomicU64>,
}

impl Outlet {
    /// Writes to a duplicate of the socket.
    pub(super) fn new(socket: &OwnedFd, stop: &Arc<AtomicBool>) -> std::io::Result<Outlet> {
        Ok(Outlet { socket: socket.try_clone()?, stop: stop.clone(), taken: Arc::default() })
    }

    /// Where the bytes are counted that the socket has taken.
    pub(super) fn taken(&self) -> Arc<AtomicU64> {
        self.taken.clone()
    }

    /// Fails if the thread is to end.
    pub(super) fn check(&self) -> Result<(), End> {
        if self.stop.load(Ordering::Relaxed) { Err(End::Disconnected) } else { Ok(()) }
    }

    /// Sends all, and waits for the replica to take it.
    pub(super) fn send(&self, mut bytes: &[u8]) -> Result<(), End> {
        while !bytes.is_empty() {
            self.check()?;
            match rustix::net::send(&self.socket, bytes, SendFlags::NOSIGNAL) {
                Ok(count) => {
                    self.taken.fetch_add(count as u64, Ordering::Relaxed);
                    bytes = &bytes[count..];
                }
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => {
                    let mut waits = [PollFd::new(&self.socket, PollFlags::OUT)];
                    let patience =
                        Timespec { tv_sec: 0, tv_nsec: i64::from(PATIENCE.subsec_nanos()) };
                    // Whatever it says, the next attempt finds out.
                    let _ = poll(&mut waits, Some(&patience));
                }
                Err(_) => return Err(End::Disconnected),
            }
        }
        Ok(())
    }

    /// Ends what is sent, not the connection: what the socket has taken reaches the replica, which ends the connection then.
    pub(super) fn finish(&self) {
        let _ = shutdown(&self.socket, Shutdown::Write);
    }

    /// Ends the connection.
    pub(super) fn close(&self) {
        let _ = shutdown(&self.socket, Shutdown::Both);
    }
}
