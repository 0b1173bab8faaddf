//! What systemd does to start a server: the notification socket, and sockets that it has opened.

use std::net::TcpListener;
use std::os::fd::OwnedFd;
use std::os::unix::net::{UnixDatagram, UnixListener};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use crate::resp::{Client, Reply};
use crate::text;

/// Many times what anything here takes.
const PATIENCE: Duration = Duration::from_secs(60);

/// Ends its process when it is forgotten.
struct Ended(Child);

impl Drop for Ended {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// What the server says, up to a message that begins so.
fn wait_for(socket: &UnixDatagram, beginning: &str) -> String {
    let mut bytes = [0; 4096];
    loop {
        let size = socket.recv(&mut bytes).unwrap();
        let message = String::from_utf8_lossy(&bytes[..size]).into_owned();
        if message.starts_with(beginning) {
            return message;
        }
    }
}

#[test]
fn a_server_notifies_and_listens_at_the_sockets_that_it_is_passed() {
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    // The path of a Unix socket is short.
    let short = tempfile::tempdir().unwrap();
    let notified = UnixDatagram::bind(short.path().join("notify")).unwrap();
    notified.set_read_timeout(Some(PATIENCE)).unwrap();
    let tcp = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = tcp.local_addr().unwrap();
    let unix = UnixListener::bind(short.path().join("server")).unwrap();
    let pool = folder.path().join("a.pool");
    let start =
        "LISTEN_PID=$$ LISTEN_FDS=2 exec \"$0\" serve --pool \"$1\" --port 1 3<&0 4<&2 2>/dev/null";
    let mut command = Command::new("sh");
    command.args(["-c", start, env!("CARGO_BIN_EXE_tembo"), text(&pool)]);
    command.env("NOTIFY_SOCKET", short.path().join("notify")).stdout(Stdio::null());
    command.stdin(OwnedFd::from(tcp)).stderr(OwnedFd::from(unix));
    let mut child = Ended(command.spawn().unwrap());
    // What the test itself holds of the listeners is closed.
    drop(command);
    let ready = wait_for(&notified, "READY=1");
    assert!(ready.contains(&format!("ready at {address}")), "{ready}");
    let mut client = Client::connect(address).unwrap();
    assert_eq!(client.call(&[b"PING"]).unwrap(), Reply::Simple("PONG".into()));
    let mut socket = std::os::unix::net::UnixStream::connect(short.path().join("server")).unwrap();
    std::io::Write::write_all(&mut socket, b"QUIT\r\n").unwrap();
    let mut said = String::new();
    std::io::Read::read_to_string(&mut socket, &mut said).unwrap();
    assert_eq!(said, "+OK\r\n");
    let process = rustix::process::Pid::from_child(&child.0);
    rustix::process::kill_process(process, rustix::process::Signal::TERM).unwrap();
    wait_for(&notified, "STOPPING=1");
    assert!(child.0.wait().unwrap().success());
}
