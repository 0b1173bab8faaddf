//! Copies between an encrypted socket and a plain one, in a thread of its own: for replication, whose threads read and write
//! sockets. What one side does not take, the other one does not send: nothing more than one read waits here.

use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::thread::Builder;

use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags, Shutdown, shutdown};

use crate::tls::session::{Taken, Tls};

/// Bytes read at once from the plain side.
const READ_SIZE: usize = 64 << 10;

struct Relay {
    tls: Tls,
    socket: OwnedFd,
    plain: OwnedFd,
    /// Decrypted, and from `.1` on not taken by the plain side.
    arrived: (Vec<u8>, usize),
    /// Read from the plain side, and from `.1` on not encrypted.
    leaving: (Vec<u8>, usize),
    /// Nothing more is sent: the plain side has said so. The other side may still send.
    is_finished: bool,
    /// All was sent.
    is_shut: bool,
}

/// Begins to copy. Returns the other end of the plain side; the thread ends when one of the sides does.
///
/// # Errors
/// The system's.
pub(super) fn start(tls: Tls, socket: OwnedFd) -> io::Result<UnixStream> {
    let (end, plain) = UnixStream::pair()?;
    plain.set_nonblocking(true)?;
    rustix::io::ioctl_fionbio(&socket, true)?;
    let nothing = (Vec::new(), 0);
    let (arrived, leaving) = (nothing.clone(), nothing);
    let mut relay = Relay {
        tls,
        socket,
        plain: plain.into(),
        arrived,
        leaving,
        is_finished: false,
        is_shut: false,
    };
    let run = move || {
        // Both sides find that the connection has ended.
        let _ = relay.run();
        if !relay.is_finished {
            relay.tls.close(&relay.socket);
        }
    };
    Builder::new().name("tls".to_owned()).spawn(run)?;
    Ok(end)
}

impl Relay {
    fn run(&mut self) -> Result<(), Errno> {
        let ended = PollFlags::HUP | PollFlags::ERR;
        loop {
            self.encrypt()?;
            self.end_sent();
            self.deliver()?;
            let is_delivered = self.arrived.0.is_empty();
            let is_sent = self.leaving.0.is_empty() && !self.tls.has_ciphertext();
            let mut wanted = [PollFlags::empty(); 2];
            wanted[0].set(PollFlags::IN, is_delivered);
            wanted[0].set(PollFlags::OUT, self.tls.has_ciphertext());
            wanted[1].set(PollFlags::IN, is_sent && !self.is_finished);
            wanted[1].set(PollFlags::OUT, !is_delivered);
            let mut sides =
                [PollFd::new(&self.socket, wanted[0]), PollFd::new(&self.plain, wanted[1])];
            match poll(&mut sides, None) {
                Ok(_) | Err(Errno::INTR) => {}
                Err(error) => return Err(error),
            }
            let ready = sides.map(|side| side.revents());
            for (at, can_read) in [is_delivered, is_sent].into_iter().enumerate() {
                if ready[at].intersects(ended) && !(can_read && ready[at].contains(PollFlags::IN)) {
                    return Ok(());
                }
            }
            if ready[0].contains(PollFlags::IN) && !self.read_encrypted()? {
                return Ok(());
            }
            if ready[1].contains(PollFlags::IN) && !self.read_plain()? {
                self.finish();
            }
        }
    }

    /// Encrypts and sends as much as the socket takes.
    fn encrypt(&mut self) -> Result<(), Errno> {
        let Relay { tls, socket, leaving: (bytes, at), .. } = self;
        tls.flush(socket)?;
        while *at < bytes.len() {
            match tls.send(socket, &bytes[*at..]) {
                Ok(count) => *at += count,
                Err(Errno::AGAIN | Errno::INTR) => return Ok(()),
                Err(error) => return Err(error),
            }
        }
        bytes.clear();
        *at = 0;
        Ok(())
    }

    /// Gives the plain side as much as it takes.
    fn deliver(&mut self) -> Result<(), Errno> {
        let (bytes, at) = &mut self.arrived;
        while *at < bytes.len() {
            match rustix::net::send(&self.plain, &bytes[*at..], SendFlags::NOSIGNAL) {
                Ok(count) => *at += count,
                Err(Errno::AGAIN | Errno::INTR) => return Ok(()),
                Err(error) => return Err(error),
            }
        }
        bytes.clear();
        *at = 0;
        Ok(())
    }

    /// False: the other side has closed the connection.
    fn read_encrypted(&mut self) -> Result<bool, Errno> {
        match self.tls.read(&self.socket, &mut self.arrived.0) {
            Ok(Taken::Closed) => Ok(false),
            Ok(Taken::Plaintext { .. }) | Err(Errno::AGAIN | Errno::INTR) => Ok(true),
            Err(error) => Err(error),
        }
    }

    /// Announces that nothing more comes. All that came was sent before: else the plain side is not read.
    fn finish(&mut self) {
        self.is_finished = true;
        self.tls.close(&self.socket);
    }

    /// Shuts the way out when all is sent, the announcement too: the socket may have taken only a part of it.
    fn end_sent(&mut self) {
        if self.is_finished && !self.is_shut && !self.tls.has_ciphertext() {
            self.is_shut = true;
            let _ = shutdown(&self.socket, Shutdown::Write);
        }
    }

    /// False: the thread that uses it sends nothing more.
    fn read_plain(&mut self) -> Result<bool, Errno> {
        let bytes = &mut self.leaving.0;
        bytes.resize(READ_SIZE, 0);
        let read = rustix::net::recv(&self.plain, &mut bytes[..], RecvFlags::empty());
        let count = match read {
            Ok((_, count)) => count,
            Err(Errno::AGAIN | Errno::INTR) => {
                bytes.clear();
                return Ok(true);
            }
            Err(error) => return Err(error),
        };
        bytes.truncate(count);
        Ok(count > 0)
    }
}
