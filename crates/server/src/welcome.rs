//! A client that has connected is taken in.

use std::io::Write;
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use rustix::net::sockopt;

use crate::clients::Clients;
use crate::connection::Connection;
use crate::poll::Poll;
use crate::session::Session;
use crate::shared::Shared;

/// Tokens from this one on are listeners.
pub(crate) const LISTENER: u64 = u64::MAX - 1024;

/// Takes in a client, or refuses it if there are too many. At most `output_size_max` bytes may wait for it.
pub(crate) fn welcome(
    (mut socket, peer): (TcpStream, SocketAddr),
    (clients, shared, poll): (&mut Clients, &mut Shared, &Poll),
    output_size_max: usize,
) {
    shared.stats.connections += 1;
    if socket.set_nonblocking(true).is_err() {
        return;
    }
    if clients.count() >= shared.settings.maxclients {
        shared.stats.rejected += 1;
        let _ = socket.write(b"-ERR max number of clients reached\r\n");
        return;
    }
    let _ = socket.set_nodelay(true);
    // If this fails, a client that has vanished is noticed later.
    let _ = keep_alive(&socket, shared.settings.keepalive_s);
    let local = socket.local_addr().map(|local| local.to_string()).unwrap_or_default();
    shared.clients_seen += 1;
    let now_ms = shared.clock.steady_ms;
    let mut session = Session::new(shared.clients_seen, peer.to_string(), local, now_ms);
    session.can_wait = true;
    session.authenticated = shared.settings.requirepass.is_empty();
    let token = clients.insert(Box::new(Connection::new(socket, session, output_size_max)));
    if let Some(connection) = clients.take(token) {
        if poll.add(&connection.socket, token.to_bits()).is_ok() {
            clients.give_back(token, connection);
        } else {
            clients.discard(token);
        }
    }
}

/// Has the system ask a client that is silent for `idle_s` seconds whether it is there; 0: never. The
/// intervals are those of Redis: three questions, a third of the time apart.
fn keep_alive(socket: &TcpStream, idle_s: u64) -> std::io::Result<()> {
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
