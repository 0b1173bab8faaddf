//! The ports beside that of Redis's protocol.

use std::net::{SocketAddr, TcpListener};

use crate::config::Config;
use crate::error::Error;
use crate::face::{Face, ItemsFace};
use crate::listener::Listener;

/// What is spoken at a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Port {
    /// memcached's protocols.
    Items,
    /// HTTP, for what Prometheus asks for.
    Metrics,
}

/// A port beside that of Redis's protocol.
pub(crate) struct FaceListener {
    /// What is spoken.
    pub(crate) port: Port,
    /// Does not block.
    pub(crate) socket: Listener,
    /// Where it listens.
    pub(crate) address: SocketAddr,
}

impl FaceListener {
    /// Listens at all ports that the operator has chosen, each at all of its addresses.
    ///
    /// # Errors
    /// An address that cannot be listened at.
    pub(crate) fn open_all(config: &Config) -> Result<Vec<FaceListener>, Error> {
        let mut opened: Vec<FaceListener> = Vec::new();
        for (port, number, addresses) in [
            (Port::Items, config.memcached_port, &config.bind),
            (Port::Metrics, config.metrics_port, &config.metrics_bind),
        ] {
            let Some(number) = number else { continue };
            let mut chosen = number;
            for &ip in addresses {
                let listener = FaceListener::open(port, SocketAddr::new(ip, chosen))?;
                // Port 0 means any, but the same one at every address.
                chosen = listener.address.port();
                opened.push(listener);
            }
        }
        Ok(opened)
    }

    fn open(port: Port, address: SocketAddr) -> Result<FaceListener, Error> {
        let bound = TcpListener::bind(address).and_then(|socket| {
            socket.set_nonblocking(true)?;
            let address = socket.local_addr()?;
            Ok(FaceListener { port, socket: Listener::Tcp(socket), address })
        });
        bound.map_err(|source| Error::Bind { address, source })
    }

    /// What a connection at this port speaks.
    pub(crate) fn face(&self) -> Face {
        match self.port {
            Port::Items => Face::Items(ItemsFace::default()),
            Port::Metrics => Face::Metrics,
        }
    }
}
