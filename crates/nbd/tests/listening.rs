//! Where a server listens: what it replaces, and what it removes.

#![allow(clippy::unwrap_used, clippy::panic)]

use std::io::{self, Read};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::thread::JoinHandle;

use tembo_array::{Array, DeviceOptions};
use tembo_kv::{Options, Store};
use tembo_nbd::{Error, Exports, Listen, Server, Stopper};

fn bind(path: &Path) -> Result<Server, Error> {
    let store = Store::volatile(&Options::new().size(8 << 20)).unwrap();
    let array = Array::open(&store).unwrap();
    array.create("disk", DeviceOptions::default()).unwrap();
    Server::bind(&Listen::Unix(path.to_owned()), Exports::new(&array, None, false))
}

fn run(server: Server) -> (Stopper, JoinHandle<()>) {
    (server.stopper(), std::thread::spawn(move || server.run().unwrap()))
}

fn stop((stopper, thread): (Stopper, JoinHandle<()>)) {
    stopper.stop();
    thread.join().unwrap();
}

/// Whether a server greets its clients there.
fn is_served(path: &Path) -> bool {
    UnixStream::connect(path).is_ok_and(|mut client| client.read_exact(&mut [0; 18]).is_ok())
}

fn refused(path: &Path) -> io::ErrorKind {
    match bind(path) {
        Err(Error::Bind { source, .. }) => source.kind(),
        Err(error) => panic!("{error:?}"),
        Ok(_) => panic!("it listens"),
    }
}

#[test]
fn a_file_in_the_way_of_a_socket_stays() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("precious");
    std::fs::write(&path, "precious").unwrap();
    assert_eq!(refused(&path), io::ErrorKind::AlreadyExists);
    assert_eq!(std::fs::read_to_string(&path).unwrap(), "precious");
    // Nor does a link lead to what it names.
    let link = folder.path().join("link");
    std::os::unix::fs::symlink(&path, &link).unwrap();
    assert_eq!(refused(&link), io::ErrorKind::AlreadyExists);
    assert!(std::fs::symlink_metadata(&link).unwrap().is_symlink() && path.exists());
}

#[test]
fn a_socket_that_a_server_has_left_is_replaced_and_one_that_answers_stays() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("socket");
    drop(UnixListener::bind(&path).unwrap());
    let running = run(bind(&path).unwrap());
    assert!(is_served(&path));
    assert_eq!(refused(&path), io::ErrorKind::AddrInUse);
    assert!(is_served(&path));
    stop(running);
    assert!(!path.exists());
}

#[test]
fn a_server_removes_nothing_that_another_has_put_at_its_path() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("socket");
    let first = run(bind(&path).unwrap());
    std::fs::rename(&path, folder.path().join("moved")).unwrap();
    let second = run(bind(&path).unwrap());
    stop(first);
    assert!(is_served(&path));
    std::fs::remove_file(&path).unwrap();
    std::fs::write(&path, "precious").unwrap();
    stop(second);
    assert_eq!(std::fs::read_to_string(&path).unwrap(), "precious");
}
