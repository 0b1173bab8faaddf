//! The server as its owner sees it: bind, run, give the store back.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::atomic::AtomicBool;
use std::thread;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tembo_kv::Store;

use crate::acl::Acl;
use crate::backup::Backups;
use crate::command::Table;
use crate::commands::{FAMILIES, catalog};
use crate::config::Config;
use crate::dataset::Spaces;
use crate::error::Error;
use crate::event_loop::EventLoop;
use crate::face_listener::{FaceListener, Port};
use crate::listener::{Inherited, Listener, remove_paths};
use crate::settings::Settings;
use crate::tls::{client_config, server_config};

/// Descriptors needed beside those of the clients.
const DESCRIPTORS_RESERVED: u64 = 64;

/// A server that listens.
pub struct Server {
    store: Store,
    spaces: Spaces,
    config: Config,
    listeners: Vec<Listener>,
    address: SocketAddr,
    faces: Vec<FaceListener>,
    tls_address: Option<SocketAddr>,
}

impl Server {
    /// Finds what is wrong with a configuration, as far as it can be said before a store is opened.
    ///
    /// # Errors
    /// A parameter that is not valid, or is dangerous.
    pub fn check(config: &Config) -> Result<(), Error> {
        config.validate()?;
        Settings::check_directives(config)?;
        if let Some(tls) = &config.tls {
            server_config(tls)?;
            client_config(tls)?;
        }
        let acl = Acl::new(catalog(&Table::new(FAMILIES)), config)?;
        config.check_protection(acl.is_open())
    }

    /// Opens the databases in `store` and listens. Clients are answered from [`Server::run`] on.
    pub fn bind(store: Store, config: Config) -> Result<Server, Error> {
        Server::bind_inherited(store, config, Inherited::default())
    }

    /// As [`Server::bind`], but where there are sockets that another process has opened, the server listens at these alone.
    pub fn bind_inherited(
        store: Store,
        mut config: Config,
        inherited: Inherited,
    ) -> Result<Server, Error> {
        Server::check(&config)?;
        let spaces = Spaces::open(&store, config.databases, config.memcached_port.is_some())?;
        let (listeners, address, tls_address) = Listener::open_all(&config, inherited)?;
        if let (Some(tls), Some(address)) = (&mut config.tls, tls_address) {
            tls.port = address.port();
        }
        let address = address.unwrap_or((Ipv4Addr::UNSPECIFIED, 0).into());
        config.maxclients = raise_descriptor_limit(config.maxclients);
        let faces = FaceListener::open_all(&config)?;
        Ok(Server { store, spaces, config, listeners, address, tls_address, faces })
    }

    /// The first address with a TCP port that is listened at; port 0: there is none.
    pub fn local_addr(&self) -> SocketAddr {
        self.address
    }

    /// The first address at which memcached's protocols are spoken.
    pub fn memcached_addr(&self) -> Option<SocketAddr> {
        self.face_addr(Port::Items)
    }

    /// The first address at which Prometheus can ask for metrics.
    pub fn metrics_addr(&self) -> Option<SocketAddr> {
        self.face_addr(Port::Metrics)
    }

    fn face_addr(&self, port: Port) -> Option<SocketAddr> {
        let face = self.faces.iter().find(|face| face.port == port);
        face.map(|face| face.address)
    }

    /// The first address with a port for TLS.
    pub fn tls_addr(&self) -> Option<SocketAddr> {
        self.tls_address
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
        let Server { store, spaces, config, listeners, address, faces, .. } = &*self;
        let (backups, worker) = Backups::new(config.backup_dir.clone());
        thread::scope(|scope| {
            if config.backup_dir.is_some() {
                let named = thread::Builder::new().name("backup".to_owned());
                let spawned = named.spawn_scoped(scope, move || worker.run(store));
                spawned.map_err(|source| Error::io("starting a thread", source))?;
            }
            // The event loop owns the backups' sender: when it ends, the worker ends.
            let mut event_loop = EventLoop::new(
                store,
                spaces,
                config,
                (listeners, faces),
                *address,
                backups,
                shutdown,
            )?;
            let served = event_loop.run();
            remove_paths(listeners);
            served
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
