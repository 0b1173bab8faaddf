//! One encrypted connection, by rustls.

use std::io::{self, ErrorKind, Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;

use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags, Shutdown, shutdown};
use rustls::{ClientConnection, Connection, ServerConfig, ServerConnection};

/// Bytes of ciphertext read at once: a record of the largest size and some more.
const CIPHERTEXT_SIZE: usize = 20 << 10;

/// An encrypted connection.
pub(crate) struct Tls(Box<Connection>);

/// The socket, as rustls writes to it.
struct Socket<'a>(&'a OwnedFd);

impl Write for Socket<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        Ok(rustix::net::send(self.0.as_fd(), bytes, SendFlags::NOSIGNAL)?)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl From<ServerConnection> for Tls {
    fn from(side: ServerConnection) -> Tls {
        Tls(Box::new(side.into()))
    }
}

impl From<ClientConnection> for Tls {
    fn from(side: ClientConnection) -> Tls {
        Tls(Box::new(side.into()))
    }
}

impl Tls {
    /// A client that has connected; its handshake is still to come.
    ///
    /// # Errors
    /// Those of rustls.
    pub(crate) fn accept(config: &Arc<ServerConfig>) -> Result<Tls, rustls::Error> {
        Ok(ServerConnection::new(config.clone())?.into())
    }

    /// Reads once from the socket, and appends all plaintext that this gives to `input`.
    ///
    /// # Errors
    /// `AGAIN`: the socket has nothing. `PROTO`: what was read is no TLS, or the client's certificate is not accepted; the
    /// client is sent an alert.
    pub(crate) fn read(&mut self, socket: &OwnedFd, input: &mut Vec<u8>) -> Result<Taken, Errno> {
        let mut ciphertext = [0; CIPHERTEXT_SIZE];
        let (_, count) = rustix::net::recv(socket, &mut ciphertext[..], RecvFlags::empty())?;
        if count == 0 {
            return Ok(Taken::Closed);
        }
        let before = input.len();
        let decrypted = self.decrypt(&ciphertext[..count], input);
        // The next part of the handshake, or the alert that says why it ends.
        let sent = self.flush(socket);
        let has_ended = decrypted?;
        sent?;
        if has_ended {
            // The poll reports this as the end of the connection, after what was read before is executed.
            let _ = shutdown(socket, Shutdown::Read);
        }
        let size = input.len() - before;
        Ok(Taken::Plaintext { size, has_more: count == CIPHERTEXT_SIZE })
    }

    /// Appends the plaintext. True: the client has announced that nothing more comes.
    fn decrypt(&mut self, mut ciphertext: &[u8], input: &mut Vec<u8>) -> Result<bool, Errno> {
        while !ciphertext.is_empty() {
            let taken = self.0.read_tls(&mut ciphertext).map_err(|error| errno(&error))?;
            let state = self.0.process_new_packets().map_err(|_| Errno::PROTO)?;
            input.try_reserve(state.plaintext_bytes_to_read()).map_err(|_| Errno::NOMEM)?;
            match self.0.reader().read_to_end(input) {
                Ok(_) => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                Err(error) => return Err(errno(&error)),
            }
            if state.peer_has_closed() {
                return Ok(true);
            }
            if taken == 0 {
                // There is room for no more, though everything was decrypted.
                return Err(Errno::PROTO);
            }
        }
        Ok(false)
    }

    /// Encrypts as much of `bytes` as there is room for, and sends what the socket takes. How much was encrypted: at least one
    /// byte.
    ///
    /// # Errors
    /// `AGAIN`: there is no room until the socket takes something.
    pub(crate) fn send(&mut self, socket: &OwnedFd, bytes: &[u8]) -> Result<usize, Errno> {
        self.flush(socket)?;
        if self.has_ciphertext() {
            return Err(Errno::AGAIN);
        }
        let count = self.0.writer().write(bytes).map_err(|error| errno(&error))?;
        self.flush(socket)?;
        if count == 0 { Err(Errno::AGAIN) } else { Ok(count) }
    }

    /// Sends ciphertext that waits, as far as the socket takes it.
    ///
    /// # Errors
    /// The system's, but not that the socket takes no more.
    pub(crate) fn flush(&mut self, socket: &OwnedFd) -> Result<(), Errno> {
        while self.0.wants_write() {
            match self.0.write_tls(&mut Socket(socket)) {
                Ok(_) => {}
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
                Err(error) => return Err(errno(&error)),
            }
        }
        Ok(())
    }

    /// Whether ciphertext waits for the socket.
    pub(crate) fn has_ciphertext(&self) -> bool {
        self.0.wants_write()
    }

    /// Whether the handshake is not finished.
    pub(crate) fn is_handshaking(&self) -> bool {
        self.0.is_handshaking()
    }

    /// Announces that nothing more comes, if the socket takes that.
    pub(crate) fn close(&mut self, socket: &OwnedFd) {
        self.0.send_close_notify();
        // The client may have disconnected.
        let _ = self.flush(socket);
    }
}

/// What a read has found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Taken {
    /// Plaintext.
    Plaintext {
        /// Bytes of it; 0: a record, or a message of the handshake, is not whole yet.
        size: usize,
        /// The socket may have more.
        has_more: bool,
    },
    /// The client has closed the connection.
    Closed,
}

fn errno(error: &io::Error) -> Errno {
    match error.kind() {
        ErrorKind::WouldBlock => Errno::AGAIN,
        ErrorKind::Interrupted => Errno::INTR,
        _ => error.raw_os_error().map_or(Errno::PROTO, Errno::from_raw_os_error),
    }
}
