//! What the operator chooses when the server starts.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;

use crate::config_file::Directive;
use crate::error::Error;
use crate::tls::TlsConfig;

/// Databases a server has at most: SELECT 0–15.
pub const DATABASES_MAX: usize = 16;

/// What the operator chooses when the server starts.
#[derive(Clone, Debug)]
pub struct Config {
    /// Addresses to listen at.
    pub bind: Vec<IpAddr>,
    /// Addresses to listen at too, where the machine has them.
    pub bind_optional: Vec<IpAddr>,
    /// The port; 0 takes any that is free.
    pub port: u16,
    /// Listen at the port; false: only at other places.
    pub tcp: bool,
    /// A port for TLS, at the same addresses.
    pub tls: Option<TlsConfig>,
    /// The path of a Unix socket to listen at.
    pub unixsocket: Option<PathBuf>,
    /// The permissions of that path; `None`: as the process's mask leaves them.
    pub unixsocketperm: Option<u32>,
    /// The password that clients have to give.
    pub requirepass: Option<String>,
    /// Refuse to listen beyond loopback without a password.
    pub protected: bool,
    /// Most clients at a time.
    pub maxclients: usize,
    /// Seconds after which an idle client is disconnected; 0 never.
    pub timeout_s: u64,
    /// Seconds of the past that stay readable; 0 none.
    pub retain_s: u64,
    /// Databases, at most [`DATABASES_MAX`].
    pub databases: usize,
    /// Most bytes of replies that may wait for one client. A client is not read from while more
    /// than 1 MiB waits for it, so that only one huge reply reaches this.
    pub output_size_max: usize,
    /// Seconds after which a client with waiting replies that takes none of them is disconnected.
    pub output_stall_s: u64,
    /// The folder for backups that clients ask for; `None`: they are refused.
    pub backup_dir: Option<PathBuf>,
    /// Host and port of the primary to follow. It is obeyed where it differs from that of the last start: else the server
    /// goes on as what it was, also if REPLICAOF has changed that.
    pub replicaof: Option<(String, u16)>,
    /// The password of the primary; `None`: the same as `requirepass`.
    pub masterauth: Option<String>,
    /// DEBUG is allowed, as tests need it.
    pub debug: bool,
    /// The port for memcached's protocols; 0 takes any that is free, `None`: they are not spoken.
    pub memcached_port: Option<u16>,
    /// Bytes of the largest item of memcached, with its key and some for what memcached adds.
    pub memcached_item_size: usize,
    /// The port at which Prometheus asks for metrics; 0 takes any that is free, `None`: there is none.
    pub metrics_port: Option<u16>,
    /// The addresses with that port.
    pub metrics_bind: Vec<IpAddr>,
    /// Where the pool lies, for CONFIG GET dir and dbfilename.
    pub pool: Option<PathBuf>,
    /// The configuration file, for CONFIG REWRITE.
    pub file: Option<PathBuf>,
    /// Its directives `user`.
    pub users: Vec<Directive>,
    /// A file of users.
    pub aclfile: Option<PathBuf>,
    /// Directives of it that CONFIG SET knows too.
    pub directives: Vec<Directive>,
}

impl Default for Config {
    fn default() -> Config {
        Config {
            bind: vec![IpAddr::V4(Ipv4Addr::LOCALHOST)],
            bind_optional: Vec::new(),
            port: 6379,
            tcp: true,
            tls: None,
            unixsocket: None,
            unixsocketperm: None,
            requirepass: None,
            protected: true,
            maxclients: 10_000,
            timeout_s: 0,
            retain_s: 0,
            databases: DATABASES_MAX,
            output_size_max: 1 << 30,
            output_stall_s: 60,
            backup_dir: None,
            replicaof: None,
            masterauth: None,
            debug: false,
            memcached_port: None,
            memcached_item_size: 1 << 20,
            metrics_port: None,
            metrics_bind: vec![IpAddr::V4(Ipv4Addr::LOCALHOST)],
            pool: None,
            file: None,
            users: Vec::new(),
            aclfile: None,
            directives: Vec::new(),
        }
    }
}

impl Config {
    /// An address beyond loopback that is listened at, if there is one.
    pub(crate) fn exposed(&self) -> Option<IpAddr> {
        let mut all = self.bind.iter().chain(&self.bind_optional);
        let is_tcp = self.tcp || self.tls.is_some();
        all.find(|address| is_tcp && !address.is_loopback()).copied()
    }

    /// Refuses parameters that are not valid or are dangerous.
    pub(crate) fn validate(&self) -> Result<(), Error> {
        if self.bind.is_empty() && self.bind_optional.is_empty() {
            return Err(Error::Config("no address to listen at".to_owned()));
        }
        if !self.tcp && self.unixsocket.is_none() && self.tls.is_none() {
            return Err(Error::Config(
                "neither a TCP port nor a Unix socket to listen at".to_owned(),
            ));
        }
        if !(1..=DATABASES_MAX).contains(&self.databases) {
            return Err(Error::Config(format!("databases must be between 1 and {DATABASES_MAX}")));
        }
        if self.maxclients == 0 {
            return Err(Error::Config("maxclients must be at least 1".to_owned()));
        }
        if let Some(folder) = self.backup_dir.as_ref().filter(|folder| !folder.is_dir()) {
            let what = format!("the folder for backups is none: {}", folder.display());
            return Err(Error::Config(what));
        }
        Ok(())
    }

    /// Refuses to listen beyond loopback while every program that reaches the server could read and write.
    pub(crate) fn check_protection(&self, is_open: bool) -> Result<(), Error> {
        match self.exposed() {
            Some(address) if is_open && self.protected => {
                Err(Error::Unprotected { address: SocketAddr::new(address, self.port) })
            }
            _ => Ok(()),
        }
    }
}
