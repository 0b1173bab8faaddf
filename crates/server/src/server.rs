//! The server as its owner sees it: bind, run, give the store back.

use std::net::{SocketAddr, TcpListener};
use std::sync::atomic::AtomicBool;
use std::thread;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tembo_kv::Store;

use crate::backup::Backups;
use crate::config::Config;
use crate::dataset::Spaces;
use crate::error::Error;
use crate::event_loop::EventLoop;

/// Descriptors needed beside those of the clients.
const DESCRIPTORS_RESERVED: u64 = 64;

/// A server that listens.
pub struct Server {
    store: Store,
    spaces: Spaces,
    config: Config,
    listeners: Vec<TcpListener>,
    address: SocketAddr,
}

impl Server {
    /// Opens the databases in `store` and listens. Clients are answered from [`Server::run`] on.
    pub fn bind(store: Store, mut config: Config) -> Result<Server, Error> {
        config.validate()?;
        let spaces = Spaces::open(&store, config.databases)?;
        let mut listeners: Vec<TcpListener> = Vec::new();
        let mut first: Option<SocketAddr> = None;
        for &ip in &config.bind {
            // Port 0 means any, but the same one at every address.
            let port = first.map_or(config.port, |first| first.port());
            let address = SocketAddr::new(ip, port);
            let bound = TcpListener::bind(address).and_then(|listener| {
                listener.set_nonblocking(true)?;
                let local = listener.local_addr()?;
                Ok((listener, local))
            });
            let (listener, local) = bound.map_err(|source| Error::Bind { address, source })?;
            first.get_or_insert(local);
            listeners.push(listener);
        }
        let Some(address) = first else {
            return Err(Error::Config("no address to listen at".to_owned()));
        };
        config.maxclients = raise_descriptor_limit(config.maxclients);
        Ok(Server { store, spaces, config, listeners, address })
    }

    /// The first address listened at.
    pub fn local_addr(&self) -> SocketAddr {
        self.address
    }

    /// The store below. To be used only before [`Server::run`] and after it.
    pub fn store(&self) -> &Store {
        &self.store
    }

    /// Serves until `shutdown` is set, a client sends SHUTDOWN, or an error makes it impossible to go
    /// on. `shutdown` is looked at ten times a second, and when a signal interrupts the thread;
    /// a script that runs then ends with an error, and what it has written stays.
    ///
    /// A reply is sent only after everything that it shows is as durable as the store's policy promises.
    pub fn run(&mut self, shutdown: &AtomicBool) -> Result<(), Error> {
        let Server { store, spaces, config, listeners, address } = &*self;
        let (backups, worker) = Backups::new(config.backup_dir.clone());
        thread::scope(|scope| {
            if config.backup_dir.is_some() {
                let named = thread::Builder::new().name("backup".to_owned());
                let spawned = named.spawn_scoped(scope, move || worker.run(store));
                spawned.map_err(|source| Error::io("starting a thread", source))?;
            }
            // The event loop owns the backups' sender: when it ends, the worker ends.
            EventLoop::new(store, spaces, config, listeners, *address, backups, shutdown)?.run()
        })
    }

    /// The store, to close it. Clients can connect no more.
    pub fn into_store(self) -> Store {
        self.store
    }
}

/// Raises the limit of open files as far as so many clients need. Returns for how many it suffices.
fn raise_descriptor_limit(maxclients: usize) -> usize {
    let limit = getrlimit(Resource::Nofile);
    let Some(current) = limit.current else { return maxclients };
    let wanted = maxclients as u64 + DESCRIPTORS_RESERVED;
    if current >= wanted {
        return maxclients;
    }
    let raised = limit.maximum.map_or(wanted, |maximum| maximum.min(wanted)).max(current);
    let new = Rlimit { current: Some(raised), maximum: limit.maximum };
    let got = if setrlimit(Resource::Nofile, new).is_ok() { raised } else { current };
    (got.saturating_sub(DESCRIPTORS_RESERVED).max(1) as usize).min(maxclients)
}
