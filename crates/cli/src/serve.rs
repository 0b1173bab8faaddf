//! `tembo serve`: the server.

mod address;
mod file;
mod systemd;

use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::time::Instant;

use anyhow::Context;
use serde::Serialize;
use tembo_server::{ClientCertificates, Config, DATABASES_MAX, Server, TlsConfig};

use crate::exit::{Exit, refuse};
use crate::output::print_line;
use crate::store::{Domain, StoreArgs, StoreName};
use crate::{bytes, password, signals};

use address::Addresses;

#[derive(Debug, clap::Args)]
#[command(args_override_self = true)]
pub(crate) struct Args {
    /// The pool, created if there is none
    #[arg(long, default_value = "./tembo.pool")]
    pool: PathBuf,
    /// A configuration file in Redis's syntax. What this command line says goes before it
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// The addresses to listen at, separated by commas; one that begins with - is left out where the machine does not have it
    #[arg(long, default_value = "127.0.0.1", allow_hyphen_values = true, value_parser = Addresses::parse)]
    bind: Addresses,
    /// The port to listen at; 0 for any that is free
    #[arg(long, default_value_t = 6379)]
    port: u16,
    /// Listen at no TCP port
    #[arg(long)]
    no_tcp: bool,
    /// The path of a Unix socket to listen at
    #[arg(long, value_name = "PATH")]
    unixsocket: Option<PathBuf>,
    /// The permissions of that path, such as 770
    #[arg(long, value_name = "OCTAL", value_parser = address::permissions)]
    unixsocketperm: Option<u32>,
    /// Speak memcached's protocols at this port too; 0 for any that is free. The items are kept beside the databases
    #[arg(long, value_name = "PORT")]
    memcached_port: Option<u16>,
    /// The largest item of memcached
    #[arg(long, default_value = "1M", value_parser = bytes::parse, value_name = "SIZE")]
    memcached_item_size: u64,
    /// Answer Prometheus at http://127.0.0.1:PORT/metrics; 0 for any port that is free
    #[arg(long, value_name = "PORT")]
    metrics_port: Option<u16>,
    /// Other addresses for that port, separated by commas: there is no password
    #[arg(long, value_name = "ADDRESSES", default_value = "127.0.0.1", value_delimiter = ',')]
    metrics_bind: Vec<IpAddr>,
    /// A file with the password that clients must give (or set TEMBO_REQUIREPASS)
    #[arg(long, value_name = "FILE")]
    requirepass_file: Option<PathBuf>,
    /// A port for TLS, at the same addresses; 0 for any that is free
    #[arg(long, value_name = "PORT")]
    tls_port: Option<u16>,
    /// The certificate of the server, with those that it is signed with, in PEM
    #[arg(long, value_name = "FILE")]
    tls_cert_file: Option<PathBuf>,
    /// The key of that certificate, in PEM, not encrypted
    #[arg(long, value_name = "FILE")]
    tls_key_file: Option<PathBuf>,
    /// The authorities that sign clients' certificates, in PEM
    #[arg(long, value_name = "FILE")]
    tls_ca_cert_file: Option<PathBuf>,
    /// Whether clients have to show a certificate
    #[arg(long, value_enum, default_value_t)]
    tls_auth_clients: AuthClients,
    /// Encrypt the connection to the primary, and show it the same certificate; its own must name its host
    #[arg(long)]
    tls_replication: bool,
    /// A file of users, as ACL SAVE writes it
    #[arg(long, value_name = "FILE")]
    aclfile: Option<PathBuf>,
    /// Listen to the network without a password
    #[arg(long)]
    unprotected: bool,
    /// The most clients at one time
    #[arg(long, default_value_t = 10_000)]
    maxclients: usize,
    /// Seconds after which an idle client is closed; 0 for never
    #[arg(long, default_value_t = 0, value_name = "SECONDS")]
    timeout: u64,
    /// Seconds of the past of which all versions are kept, as `tembo backup --since VERSION` needs; 0 for none
    #[arg(long, default_value_t = 0, value_name = "SECONDS")]
    retain_seconds: u64,
    /// A folder that is there, into which clients may have backups written (see `tembo backup --server`)
    #[arg(long, value_name = "DIR")]
    backup_dir: Option<PathBuf>,
    /// Follow this primary, a Tembo server, as REPLICAOF does. Obeyed where it differs from the last start: else the server goes
    /// on as what it was, so that a replica that was promoted stays a primary
    #[arg(long, num_args = 2, value_names = ["HOST", "PORT"], conflicts_with = "read_only")]
    replicaof: Option<Vec<String>>,
    /// A file with the password of the primary; without it, that of this server
    #[arg(long, value_name = "FILE")]
    masterauth_file: Option<PathBuf>,
    /// Never change the pool: writes are refused, expired keys only hidden. Several servers may read a pool so, none beside
    /// one that writes
    #[arg(long, conflicts_with_all = ["retain_seconds"])]
    read_only: bool,
    /// Allow DEBUG, as tests need it: clients can stop the server for a while
    #[arg(long)]
    enable_debug_command: bool,
    #[command(flatten)]
    name: StoreName,
    #[command(flatten)]
    store: StoreArgs,
    /// Print the line that says that the server is ready as JSON
    #[arg(long)]
    json: bool,
}

/// The largest item that can be chosen: the protocol announces sizes of 31 bits.
const ITEM_SIZE_MAX: u64 = 512 << 20;
/// Whether clients of TLS have to show a certificate.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
enum AuthClients {
    #[default]
    Yes,
    Optional,
    No,
}

/// What is said when clients may come.
#[derive(Serialize)]
struct Ready {
    /// The first TCP port that is listened at.
    address: Option<SocketAddr>,
    /// The first port for TLS.
    tls: Option<SocketAddr>,
    unixsocket: Option<String>,
    /// Where memcached's protocols are spoken.
    #[serde(skip_serializing_if = "Option::is_none")]
    memcached: Option<SocketAddr>,
    /// Where Prometheus can ask.
    #[serde(skip_serializing_if = "Option::is_none")]
    metrics: Option<SocketAddr>,
    pool: Option<String>,
    domain: String,
    /// Persistent memory is only pretended.
    emulated: bool,
    /// The domain, with what must be known of its medium.
    #[serde(skip)]
    domain_on_medium: String,
    index: &'static str,
    sync: String,
    read_only: bool,
    /// The newest version in the store.
    version: u64,
    recovery_us: u64,
    /// From the start of the process, nearly.
    start_us: u64,
    program: &'static str,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<Exit> {
    let start = Instant::now();
    match &args.config {
        Some(path) => {
            let (args, chosen) = file::read(path)?;
            serve(&args, chosen, start)
        }
        None => serve(args, file::Chosen::default(), start),
    }
}

/// Serves with the options of the command line and of the configuration file.
fn serve(args: &Args, chosen: file::Chosen, start: Instant) -> anyhow::Result<Exit> {
    let config = config(args, chosen)?;
    // Before a pool is made.
    Server::check(&config)?;
    // Before the store is opened, so that a signal finds its handler while recovery runs.
    let stop = signals::stopped().context("watching signals")?;

    let name = &args.name.store_name;
    let store = if args.read_only {
        if args.store.has_no_file().is_some() {
            return refuse(
                Exit::Usage,
                "a volatile pool has nothing to read: leave --read-only out",
            );
        }
        args.store.open_to_read(&args.pool, name)?
    } else {
        args.store.open_or_create_ordered(&args.pool, name, "a server")?
    };
    let mut server = Server::bind_inherited(store, config, systemd::inherited()?)?;
    let ready = ready(args, &server, start);
    print_line(args.json, &ready, &ready.line())?;

    systemd::notify(&format!("READY=1\nSTATUS={}", ready.line()));
    let served = server.run(&stop);
    systemd::notify("STOPPING=1");
    // After a failed sync nothing must be written any more.
    served?;
    server.into_store().close().with_context(|| format!("closing {}", args.pool.display()))?;
    Ok(Exit::Done)
}

fn config(args: &Args, chosen: file::Chosen) -> anyhow::Result<Config> {
    let requirepass = password::read(args.requirepass_file.as_deref())?.or(chosen.requirepass);
    if !args.bind.is_loopback()
        && (!args.no_tcp || args.tls_port.is_some())
        && requirepass.is_none()
        && !args.unprotected
        && args.aclfile.is_none()
        && chosen.users.is_empty()
    {
        let what = format!("{} is open to the network, and there is no password", args.bind);
        return refuse(Exit::Unprotected, what);
    }
    let masterauth = match &args.masterauth_file {
        Some(file) => password::read(Some(file))?,
        None => chosen.masterauth,
    };
    Ok(Config {
        replicaof: args.replicaof.as_deref().map(primary).transpose()?,
        masterauth,
        bind: args.bind.required.clone(),
        bind_optional: args.bind.optional.clone(),
        port: args.port,
        tcp: !args.no_tcp,
        tls: tls(args)?,
        unixsocket: args.unixsocket.clone(),
        unixsocketperm: args.unixsocketperm,
        databases: chosen.databases.unwrap_or(DATABASES_MAX),
        file: chosen.file,
        users: chosen.users,
        aclfile: args.aclfile.clone(),
        directives: chosen.directives,
        requirepass,
        protected: !args.unprotected,
        maxclients: args.maxclients,
        timeout_s: args.timeout,
        retain_s: args.retain_seconds.min(u32::MAX.into()),
        backup_dir: args.backup_dir.clone(),
        debug: args.enable_debug_command,
        memcached_port: args.memcached_port,
        memcached_item_size: args.memcached_item_size.min(ITEM_SIZE_MAX) as usize,
        metrics_port: args.metrics_port,
        metrics_bind: args.metrics_bind.clone(),
        pool: (args.store.domain != Domain::Volatile).then(|| args.pool.clone()),
        ..Config::default()
    })
}

/// What TLS needs, if there is a port for it.
fn tls(args: &Args) -> anyhow::Result<Option<TlsConfig>> {
    let Some(port) = args.tls_port else {
        if args.tls_replication {
            return refuse(Exit::Usage, "--tls-replication needs --tls-port");
        }
        return Ok(None);
    };
    let (Some(certificate), Some(key)) = (args.tls_cert_file.clone(), args.tls_key_file.clone())
    else {
        return refuse(Exit::Usage, "--tls-port needs --tls-cert-file and --tls-key-file");
    };
    let clients = match args.tls_auth_clients {
        AuthClients::Yes => ClientCertificates::Required,
        AuthClients::Optional => ClientCertificates::Optional,
        AuthClients::No => ClientCertificates::None,
    };
    let authorities = args.tls_ca_cert_file.clone();
    let replication = args.tls_replication;
    Ok(Some(TlsConfig { port, certificate, key, authorities, clients, replication }))
}

fn primary(words: &[String]) -> anyhow::Result<(String, u16)> {
    let [host, port] = words else {
        return refuse(Exit::Usage, "--replicaof takes a host and a port");
    };
    match port.parse() {
        Ok(port) => Ok((host.clone(), port)),
        Err(_) => refuse(Exit::Usage, format!("--replicaof: {port:?} is no port")),
    }
}

fn ready(args: &Args, server: &Server, start: Instant) -> Ready {
    let report = server.store().report();
    let pool = (args.store.domain != Domain::Volatile).then(|| args.pool.display().to_string());
    Ready {
        address: Some(server.local_addr()).filter(|address| address.port() > 0),
        tls: server.tls_addr(),
        unixsocket: args.unixsocket.as_ref().map(|path| path.display().to_string()),
        memcached: server.memcached_addr(),
        metrics: server.metrics_addr(),
        pool,
        emulated: report.emulated,
        domain_on_medium: report.domain_on_medium(),
        domain: report.domain,
        index: report.index.name(),
        sync: report.sync_policy,
        read_only: report.read_only,
        version: report.visible,
        recovery_us: report.recovery_us,
        start_us: start.elapsed().as_micros() as u64,
        program: env!("CARGO_PKG_VERSION"),
    }
}

impl Ready {
    /// Where the server listens.
    fn places(&self) -> String {
        let address = self.address.map(|address| address.to_string());
        let tls = self.tls.map(|address| format!("{address} (TLS)"));
        let places = address.into_iter().chain(tls).chain(self.unixsocket.clone());
        let places: Vec<String> = places.collect();
        places.join(", ")
    }

    fn line(&self) -> String {
        format!(
            "tembo {} ready at {}{}{} | pool {}{} | domain {} | index {} | sync {} | version {} | recovered in {:.1} ms",
            self.program,
            self.places(),
            self.memcached.map(|at| format!(" | memcached at {at}")).unwrap_or_default(),
            self.metrics.map(|at| format!(" | metrics at http://{at}/metrics")).unwrap_or_default(),
            self.pool.as_deref().unwrap_or("none"),
            if self.read_only { " (read only)" } else { "" },
            self.domain_on_medium,
            self.index,
            self.sync,
            self.version,
            self.recovery_us as f64 / 1e3,
        )
    }
}
