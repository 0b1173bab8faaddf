//! `tembo serve`: the server.

use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::time::Instant;

use crate::exit::{Exit, refuse};
use crate::store::StoreArgs;
use crate::{password, signals};

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The pool, created if there is none
    #[arg(long, default_value = "./tembo.pool")]
    pool: PathBuf,
    /// The address to listen at
    #[arg(long, default_value = "127.0.0.1")]
    bind: IpAddr,
    /// The port to listen at; 0 for any that is free
    #[arg(long, default_value_t = 6379)]
    port: u16,
    /// A file with the password that clients must give (or set TEMBO_REQUIREPASS)
    #[arg(long, value_name = "FILE")]
    requirepass_file: Option<PathBuf>,
    /// Listen to the network without a password
    #[arg(long)]
    unprotected: bool,
    /// The most clients at one time
    #[arg(long, default_value_t = 10_000)]
    maxclients: usize,
    /// Seconds after which an idle client is closed; 0 for never
    #[arg(long, default_value_t = 0)]
    timeout: u64,
    #[command(flatten)]
    store: StoreArgs,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<Exit> {
    let start = Instant::now();
    let password = password::read(args.requirepass_file.as_deref())?;
    if !args.bind.is_loopback() && password.is_none() && !args.unprotected {
        let what = format!("{} is open to the network, and there is no password", args.bind);
        return refuse(Exit::Unprotected, what);
    }
    let store = args.store.open_or_create(&args.pool)?;
    let address = SocketAddr::new(args.bind, args.port);
    let _ = (start, address, args.maxclients, args.timeout);
    signals::watch(|| {})?;
    store.close()?;
    Ok(Exit::Done)
}
