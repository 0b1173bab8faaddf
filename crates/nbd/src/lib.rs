//! Devices of an [`Array`](tembo_array::Array) as network block devices.
//!
//! ```text
//!   server        a thread for each connection;  listener  where they come from
//!     │
//!   connection    reads requests and executes them in their order ──► flusher   syncs, for all that wait
//!     │                                                                  │
//!   handshake     which export, which extensions                       replies  whole replies on the socket
//!     │
//!   export        a device, or a snapshot of one
//!     │
//!   wire          the numbers of the protocol;  stream  TCP or a socket of the system
//! ```
//!
//! **What a client can rely on.** A WRITE is one commit: a crash leaves all of it or nothing, whatever its size and wherever it
//! lies. Writes are durable in their order, so that a crash leaves those up to some point, and this point is not before
//! the last FLUSH or FUA that was answered. That holds over all connections, since one commit comes after another: a client may
//! use several at a time. A snapshot is an export that is read only.
//!
//! **Why a server of our own, and not a plugin of nbdkit.** A person starts one program, which the devices, their snapshots and
//! the pool's owner are in; nothing is to be installed beside it. A plugin would be a library in another program's process, which
//! would then own the pool. The protocol is small and does not change.
//!
//! Source: <https://github.com/NetworkBlockDevice/nbd/blob/master/doc/proto.md>: fixed newstyle handshake, structured replies,
//! `base:allocation`. Not there: TLS, extended headers, resizing.

mod connection;
mod export;
mod flusher;
mod handshake;
mod listener;
mod replies;
mod server;
mod stream;
mod wire;

pub use connection::Timeouts;
pub use export::Exports;
pub use listener::Listen;
pub use server::{Error, Server, Stopper};
