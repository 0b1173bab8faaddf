//! Readiness of sockets: epoll, level-triggered.

use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

use rustix::buffer::spare_capacity;
use rustix::event::{Timespec, epoll};
use rustix::io::Errno;

/// One socket's readiness.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ready {
    /// What it was registered with.
    pub(crate) token: u64,
    /// It can be read, or has ended.
    pub(crate) readable: bool,
    /// It takes bytes.
    pub(crate) writable: bool,
    /// It has ended in both directions.
    pub(crate) ended: bool,
}

/// The sockets waited for.
pub(crate) struct Poll {
    epoll: OwnedFd,
    events: Vec<epoll::Event>,
}

impl Poll {
    /// Waits for nothing yet.
    pub(crate) fn new() -> Result<Poll, Errno> {
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        Ok(Poll { epoll, events: Vec::with_capacity(1024) })
    }

    /// The same sockets, waited for by another one.
    pub(crate) fn share(&self) -> std::io::Result<Poll> {
        Ok(Poll { epoll: self.epoll.try_clone()?, events: Vec::with_capacity(64) })
    }

    /// Waits for the socket to become readable from now on.
    pub(crate) fn add(&self, socket: impl AsFd, token: u64) -> Result<(), Errno> {
        let data = epoll::EventData::new_u64(token);
        epoll::add(&self.epoll, socket, data, epoll::EventFlags::IN)
    }

    /// Waits for this of the socket from now on.
    pub(crate) fn modify(
        &self,
        socket: impl AsFd,
        token: u64,
        (readable, writable): (bool, bool),
    ) -> Result<(), Errno> {
        let mut flags = epoll::EventFlags::empty();
        flags.set(epoll::EventFlags::IN, readable);
        flags.set(epoll::EventFlags::OUT, writable);
        epoll::modify(&self.epoll, socket, epoll::EventData::new_u64(token), flags)
    }

    /// Does not wait for the socket any more.
    pub(crate) fn remove(&self, socket: impl AsFd) -> Result<(), Errno> {
        epoll::delete(&self.epoll, socket)
    }

    /// Waits until something is ready or the time is over, and appends what is to `ready`.
    pub(crate) fn wait(&mut self, timeout: Duration, ready: &mut Vec<Ready>) -> Result<(), Errno> {
        let timeout = Timespec {
            tv_sec: timeout.as_secs() as i64,
            tv_nsec: i64::from(timeout.subsec_nanos()),
        };
        self.events.clear();
        match epoll::wait(&self.epoll, spare_capacity(&mut self.events), Some(&timeout)) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => return Err(error),
        }
        ready.extend(self.events.iter().map(|event| {
            let (flags, data) = (event.flags, event.data);
            let ended = epoll::EventFlags::ERR | epoll::EventFlags::HUP;
            Ready {
                token: data.u64(),
                readable: flags.intersects(epoll::EventFlags::IN | ended),
                writable: flags.intersects(epoll::EventFlags::OUT | ended),
                ended: flags.intersects(ended),
            }
        }));
        Ok(())
    }
}
