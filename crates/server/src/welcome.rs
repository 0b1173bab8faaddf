//! A client that has connected is taken in.

use std::os::fd::{AsRawFd, OwnedFd};
use std::time::Duration;

use rustix::net::{SendFlags, sockopt};

use crate::clients::Clients;
use crate::connection::Connection;
use crate::face::Face;
use crate::listener::Arrived;
use crate::permission::admit;
use crate::poll::Poll;
use crate::session::Session;
use crate::shared::Shared;
use crate::tls::Tls;

/// Tokens from this one on are listeners.
pub(crate) const LISTENER: u64 = u64::MAX - 1024;

/// What a client beyond loopback is answered while every client could read and write.
const PROTECTED: &[u8] =
    b"-DENIED Tembo is running in protected mode, and no password is set for the default user: connections are only \
    accepted from the same machine. Set a password (requirepass, or ACL SETUSER default), or turn protected mode off \
    (CONFIG SET protected-mode no) from there.\r\n";

/// Takes in a client that speaks this, or refuses it if there are too many.
pub(crate) fn welcome(
    arrived: Arrived,
    face: Face,
    (clients, shared, poll): (&mut Clients, &mut Shared, &Poll),
) {
    shared.stats.connections += 1;
    if clients.count() >= shared.settings.maxclients {
        shared.stats.rejected += 1;
        refuse(&arrived, b"-ERR max number of clients reached\r\n");
        return;
    }
    // At the port for metrics there are no data, and its addresses were chosen apart.
    if face != Face::Metrics
        && shared.settings.protected
        && shared.acl.is_open()
        && !arrived.is_local()
    {
        shared.stats.rejected += 1;
        refuse(&arrived, PROTECTED);
        return;
    }
    // If this fails, a client that has vanished is noticed later.
    if arrived.ip.is_some() {
        let _ = keep_alive(&arrived.socket, shared.settings.keepalive_s);
    }
    let tls = match shared.tls.as_ref().filter(|_| arrived.is_encrypted).map(Tls::accept) {
        Some(Ok(tls)) => Some(tls),
        None if !arrived.is_encrypted => None,
        _ => return,
    };
    shared.clients_seen += 1;
    let now_ms = shared.clock.steady_ms;
    let mut session = Session::new(shared.clients_seen, arrived.peer, arrived.local, now_ms);
    session.ip = arrived.ip;
    session.descriptor = arrived.socket.as_raw_fd();
    session.can_wait = true;
    admit(&shared.acl, &mut session);
    let mut connection = Connection::new(arrived.socket, session, usize::MAX);
    connection.reply.set_limit(shared.settings.normal_output.hard);
    connection.face = face;
    connection.tls = tls;
    let token = clients.insert(Box::new(connection));
    if let Some(connection) = clients.take(token) {
        if poll.add(&connection.socket, token.to_bits()).is_ok() {
            clients.give_back(token, connection);
        } else {
            clients.discard(token);
        }
    }
}

/// Sends an error to a client that is not taken in. It may have gone already.
fn refuse(arrived: &Arrived, text: &[u8]) {
    if !arrived.is_encrypted {
        let _ = rustix::net::send(&arrived.socket, text, SendFlags::NOSIGNAL);
    }
}

/// Has the system ask a client that is silent for `idle_s` seconds whether it is there; 0: never. The
/// intervals are those of Redis: three questions, a third of the time apart.
fn keep_alive(socket: &OwnedFd, idle_s: u64) -> std::io::Result<()> {
    if idle_s == 0 {
        return Ok(());
    }
    // The largest value that the system takes.
    let idle_s = idle_s.min(32_767);
    sockopt::set_socket_keepalive(socket, true)?;
    sockopt::set_tcp_keepidle(socket, Duration::from_secs(idle_s))?;
    sockopt::set_tcp_keepintvl(socket, Duration::from_secs((idle_s / 3).max(1)))?;
    sockopt::set_tcp_keepcnt(socket, 3)?;
    Ok(())
}
