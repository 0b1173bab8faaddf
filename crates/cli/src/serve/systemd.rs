//! systemd: it is notified when the server is ready and when it stops, and the server listens at the sockets that it has opened.

use std::io;
use std::net::TcpListener;
use std::os::fd::OwnedFd;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram, UnixListener};

use anyhow::Context;
use rustix::net::{AddressFamily, SocketType, sockopt};
use rustix::process::{PidfdFlags, PidfdGetfdFlags, getpid, pidfd_getfd, pidfd_open};
use tembo_server::Inherited;

use crate::exit::{Exit, refuse};

/// The first descriptor that is passed.
const FIRST: i32 = 3;

/// Says how the server is, if `NOTIFY_SOCKET` says where. It is no error if that fails: the server serves
/// all the same.
pub(super) fn notify(state: &str) {
    if let Some(socket) = std::env::var_os("NOTIFY_SOCKET").filter(|name| !name.is_empty())
        && let Err(error) = send(socket.as_encoded_bytes(), state)
    {
        eprintln!("tembo: NOTIFY_SOCKET: {error}");
    }
}

fn send(name: &[u8], state: &str) -> io::Result<()> {
    let address = match name {
        [b'@', name @ ..] => SocketAddr::from_abstract_name(name)?,
        name => SocketAddr::from_pathname(String::from_utf8_lossy(name).as_ref())?,
    };
    UnixDatagram::unbound()?.send_to_addr(state.as_bytes(), &address)?;
    Ok(())
}

/// The sockets that were passed to this process (`LISTEN_PID`, `LISTEN_FDS`); none if there are none.
pub(super) fn inherited() -> anyhow::Result<Inherited> {
    let number = |name: &str| std::env::var(name).ok().and_then(|text| text.parse::<i32>().ok());
    let mut inherited = Inherited::default();
    if number("LISTEN_PID") != Some(getpid().as_raw_pid()) {
        return Ok(inherited);
    }
    let myself = pidfd_open(getpid(), PidfdFlags::empty()).context("LISTEN_FDS")?;
    for at in FIRST..FIRST + number("LISTEN_FDS").unwrap_or(0).clamp(0, 1024) {
        let what = || format!("LISTEN_FDS: descriptor {at}");
        // A copy of it, since a bare number proves nothing of its owner.
        let copied = pidfd_getfd(&myself, at, PidfdGetfdFlags::empty()).with_context(what)?;
        add(&mut inherited, copied).with_context(what)?;
    }
    Ok(inherited)
}

fn add(inherited: &mut Inherited, socket: OwnedFd) -> anyhow::Result<()> {
    let is_listener = sockopt::socket_acceptconn(&socket)?;
    if sockopt::socket_type(&socket)? != SocketType::STREAM || !is_listener {
        return refuse(Exit::Usage, "it is no stream socket that listens");
    }
    match sockopt::socket_domain(&socket)? {
        AddressFamily::INET | AddressFamily::INET6 => inherited.tcp.push(TcpListener::from(socket)),
        AddressFamily::UNIX => inherited.unix.push(UnixListener::from(socket)),
        _ => return refuse(Exit::Usage, "it is neither a TCP nor a Unix socket"),
    }
    Ok(())
}
