//! `tembo device serve`: the devices of a pool for NBD clients.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tembo_array::Array;
use tembo_nbd::{Exports, Listen, Server};

use crate::exit::{Exit, refuse};
use crate::output::line;
use crate::signals;
use crate::store::{MAIN, StoreArgs};

/// How often the server looks whether it is to end.
const POLL: Duration = Duration::from_millis(50);

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The pool, which no other process holds
    pool: PathBuf,
    /// Serve only this device, also to clients that name none
    name: Option<String>,
    /// Listen at a socket of this path
    #[arg(long, value_name = "PATH", conflicts_with_all = ["port", "bind"])]
    socket: Option<PathBuf>,
    /// Listen at this TCP port; 0 is a free one
    #[arg(long, default_value_t = 10809)]
    port: u16,
    /// Listen at this address
    #[arg(long, default_value_t = IpAddr::V4(Ipv4Addr::LOCALHOST))]
    bind: IpAddr,
    /// Listen to the network, where every client may read and write the devices
    #[arg(long)]
    unprotected: bool,
    /// Change nothing: all exports are read only
    #[arg(long)]
    read_only: bool,
    #[command(flatten)]
    store: StoreArgs,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<Exit> {
    let listen = match &args.socket {
        Some(path) => Listen::Unix(path.clone()),
        None => Listen::Tcp(SocketAddr::new(args.bind, args.port)),
    };
    if args.socket.is_none() && !args.bind.is_loopback() && !args.unprotected {
        let what = format!("NBD knows no password: {} is of the network", args.bind);
        return refuse(Exit::Unprotected, what);
    }
    let store = match args.read_only {
        true => args.store.open_to_read(&args.pool, MAIN)?,
        false => args.store.open(&args.pool)?,
    };
    if args.read_only && !Array::is_in(&store) {
        return refuse(Exit::NoDevice, "there is no device");
    }
    let array = Array::open(&store)?;
    if let Some(name) = &args.name {
        array.device(name)?;
    }
    let exports = Exports::new(&array, args.name.as_deref(), args.read_only);
    let server = Server::bind(&listen, exports)?;
    let (stopped, stopper) = (signals::stopped()?, server.stopper());
    std::thread::Builder::new().name("stop".into()).spawn(move || {
        while !stopped.load(Ordering::Relaxed) {
            std::thread::sleep(POLL);
        }
        stopper.stop();
    })?;
    let uri = server.uri(args.name.as_deref().unwrap_or_default())?;
    line(format_args!("{} is served at {uri}", args.pool.display()))?;
    server.run()?;
    drop(array);
    store.sync()?;
    store.close()?;
    Ok(Exit::Done)
}
