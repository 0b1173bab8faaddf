//! Clients that come through a Unix socket.

use std::io::{Read, Write};
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::PathBuf;

use tembo_kv::{Options, Store};
use tembo_server::{Config, Error, Inherited, Server};

use crate::client::Running;

/// A path that nothing has, in a folder of its own.
fn path(name: &str) -> PathBuf {
    let folder = std::env::temp_dir().join(format!("tembo-unix-{}-{name}", std::process::id()));
    let _ = std::fs::remove_dir_all(&folder);
    std::fs::create_dir(&folder).unwrap();
    folder.join("server.sock")
}

/// Sends inline commands, and QUIT; all replies.
fn ask(path: &PathBuf, commands: &str) -> String {
    let mut socket = UnixStream::connect(path).unwrap();
    socket.write_all(format!("{commands}QUIT\r\n").as_bytes()).unwrap();
    let mut text = String::new();
    socket.read_to_string(&mut text).unwrap();
    text
}

#[test]
fn a_unix_socket_serves_beside_the_port() {
    let path = path("beside");
    // What a server that was killed has left is replaced.
    drop(UnixListener::bind(&path).unwrap());
    let config =
        Config { unixsocket: Some(path.clone()), unixsocketperm: Some(0o700), ..Config::default() };
    let server = Running::with(config.clone());
    assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o700);
    assert_eq!(ask(&path, "SET a 1\r\nINCR a\r\n"), "+OK\r\n:2\r\n+OK\r\n");
    assert_eq!(server.client().call("GET a"), "$1\r\n2\r\n");
    let info = ask(&path, "CLIENT INFO\r\n");
    let shown = path.display();
    assert!(info.contains(&format!(" addr={shown}:0 laddr={shown}:0 ")), "{info}");
    assert!(info.contains(" flags=U "), "{info}");
    let asked = server.client().call("CONFIG GET unixsocket*");
    assert!(asked.contains("$3\r\n700\r\n") && asked.contains(path.to_str().unwrap()), "{asked}");

    // A server that answers there keeps it.
    let second =
        Server::bind(Store::volatile(&Options::new()).unwrap(), Config { port: 0, ..config });
    assert!(matches!(second, Err(Error::UnixSocket { .. })));
    server.stop().1.unwrap();
    assert!(!path.exists());
}

#[test]
fn a_unix_socket_can_be_all() {
    let path = path("alone");
    let config = Config { tcp: false, unixsocket: Some(path.clone()), ..Config::default() };
    let server = Running::with(config);
    assert_eq!(server.address.port(), 0);
    assert_eq!(ask(&path, "PING\r\n"), "+PONG\r\n+OK\r\n");
    drop(server);
    let nowhere = Config { tcp: false, ..Config::default() };
    let bound = Server::bind(Store::volatile(&Options::new()).unwrap(), nowhere);
    assert!(matches!(bound, Err(Error::Config(_))));
}

#[test]
fn a_file_in_the_way_of_a_unix_socket_stays() {
    let path = path("file");
    std::fs::write(&path, "precious").unwrap();
    let config = Config { port: 0, unixsocket: Some(path.clone()), ..Config::default() };
    let bound = Server::bind(Store::volatile(&Options::new()).unwrap(), config);
    assert!(matches!(bound, Err(Error::UnixSocket { .. })));
    assert_eq!(std::fs::read_to_string(&path).unwrap(), "precious");
    assert!(!std::fs::metadata(&path).unwrap().file_type().is_socket());
}

#[test]
fn a_server_removes_nothing_that_another_has_put_at_its_path() {
    let path = path("moved");
    let config = Config { tcp: false, unixsocket: Some(path.clone()), ..Config::default() };
    let server = Running::with(config);
    std::fs::remove_file(&path).unwrap();
    std::fs::write(&path, "precious").unwrap();
    server.stop().1.unwrap();
    assert_eq!(std::fs::read_to_string(&path).unwrap(), "precious");
}

#[test]
fn sockets_that_were_opened_before_are_taken_over() {
    let path = path("inherited");
    let tcp = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = tcp.local_addr().unwrap();
    let inherited = Inherited { tcp: vec![tcp], unix: vec![UnixListener::bind(&path).unwrap()] };
    let store = Store::volatile(&Options::new()).unwrap();
    let server = Server::bind_inherited(store, Config::default(), inherited).unwrap();
    assert_eq!(server.local_addr(), address);
    let server = Running::of(server);
    assert_eq!(server.client().call("PING"), "+PONG\r\n");
    assert_eq!(ask(&path, "PING\r\n"), "+PONG\r\n+OK\r\n");
    drop(server);
    // It is not the server's.
    assert!(path.exists());
}
