//! A server over memory, for measurements: `serve_volatile [PORT]`.

use std::sync::atomic::AtomicBool;

use tembo_kv::{Options, Store};
use tembo_server::{Config, Server};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let port = std::env::args().nth(1).map_or(Ok(0), |port| port.parse())?;
    let store = Store::volatile(&Options::default())?;
    let mut server = Server::bind(store, Config { port, ..Config::default() })?;
    eprintln!("listening at {}", server.local_addr());
    server.run(&AtomicBool::new(false))?;
    Ok(())
}
