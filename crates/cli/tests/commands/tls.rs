//! TLS, as clients use it: `redis-cli`, and one that sends what no client should.

use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::PathBuf;
use std::process::{Command, Output};
use std::sync::Arc;
use std::time::Duration;

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore};

use crate::resp::{Client, Reply};
use crate::server::{Server, Setup};
use crate::text;

/// How long a test waits for what the server is to do.
const PATIENCE: Duration = Duration::from_secs(60);
/// Exit code of wrong usage.
const USAGE: i32 = 2;

/// Certificates, and pools beside them.
struct Folder {
    folder: tempfile::TempDir,
}

impl Folder {
    /// Makes an authority, and certificates that it signs; and a client's that another authority signs. None: openssl is not
    /// installed.
    fn new() -> Option<Folder> {
        let folder = Folder { folder: tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap() };
        let key = "ec -pkeyopt ec_paramgen_curve:prime256v1";
        for authority in ["ca", "other"] {
            let request = format!("req -x509 -newkey {key} -nodes -days 2 -subj /CN={authority}");
            if !folder.openssl(&format!("{request} -keyout {authority}.key -out {authority}.crt")) {
                println!("SKIPPED: openssl is not installed, so there are no certificates");
                return None;
            }
        }
        std::fs::write(folder.path("extensions"), "subjectAltName=IP:127.0.0.1\n").unwrap();
        for (name, authority) in
            [("server", "ca"), ("renewed", "ca"), ("client", "ca"), ("stranger", "other")]
        {
            let request = format!("req -newkey {key} -nodes -subj /CN={name}");
            folder.openssl(&format!("{request} -keyout {name}.key -out {name}.csr"));
            let sign =
                format!("x509 -req -in {name}.csr -CA {authority}.crt -CAkey {authority}.key");
            let rest = "-CAcreateserial -days 2 -extfile extensions";
            folder.openssl(&format!("{sign} {rest} -out {name}.crt"));
        }
        Some(folder)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// False: it is not installed.
    fn openssl(&self, words: &str) -> bool {
        let mut command = Command::new("openssl");
        let Ok(made) = command.args(words.split(' ')).current_dir(&self.folder).output() else {
            return false;
        };
        assert!(made.status.success(), "openssl {words}: {made:?}");
        true
    }

    /// The words of a server that asks clients for certificates in this way.
    fn words(&self, clients: &str) -> Vec<String> {
        let mut words: Vec<String> =
            ["--tls-port", "0", "--tls-auth-clients", clients].map(str::to_owned).to_vec();
        for (option, file) in [
            ("--tls-cert-file", "server.crt"),
            ("--tls-key-file", "server.key"),
            ("--tls-ca-cert-file", "ca.crt"),
        ] {
            words.extend([option.to_owned(), text(&self.path(file)).to_owned()]);
        }
        words
    }

    fn start(&self, clients: &str) -> Server {
        let words = self.words(clients);
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        Setup::new(&self.path(&format!("{clients}.pool")), &words).start()
    }

    /// redis-cli over TLS; none if it is not installed.
    fn cli(&self, port: u16, words: &[&str]) -> Option<Output> {
        let mut command = Command::new("redis-cli");
        command.current_dir(&self.folder);
        command.args(["-p", &port.to_string(), "--tls", "--cacert", "ca.crt"]);
        let output = command.args(words).output().ok();
        if output.is_none() {
            println!("SKIPPED: redis-cli is not installed");
        }
        output
    }

    /// A client that trusts the authority and has no certificate.
    fn client(&self) -> ClientConnection {
        let mut roots = RootCertStore::empty();
        roots.add(CertificateDer::from_pem_file(self.path("ca.crt")).unwrap()).unwrap();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(roots)
            .with_no_client_auth();
        let name = ServerName::try_from("127.0.0.1").unwrap();
        ClientConnection::new(Arc::new(config), name).unwrap()
    }
}

/// The place for TLS in the line that says that the server is ready.
fn tls_address(server: &Server) -> SocketAddr {
    let words: Vec<&str> = server.ready.split(' ').collect();
    let at = words.iter().position(|word| word.starts_with("(TLS)")).unwrap();
    words[at - 1].parse().unwrap()
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).trim().to_owned()
}

fn connect(address: SocketAddr) -> TcpStream {
    let socket = TcpStream::connect(address).unwrap();
    socket.set_nodelay(true).unwrap();
    socket.set_read_timeout(Some(PATIENCE)).unwrap();
    socket
}

/// Everything until the server ends the connection; panics if it does not.
fn until_end(socket: &mut TcpStream) -> Vec<u8> {
    let mut bytes = Vec::new();
    match socket.read_to_end(&mut bytes) {
        Ok(_) => {}
        Err(error) if error.kind() == ErrorKind::ConnectionReset => {}
        Err(error) => panic!("the server does not end the connection: {error}"),
    }
    bytes
}

/// Sends what the client has to send, in pieces of that size.
fn send(client: &mut ClientConnection, socket: &mut TcpStream, size: usize) {
    let mut bytes = Vec::new();
    while client.wants_write() {
        client.write_tls(&mut bytes).unwrap();
    }
    for piece in bytes.chunks(size) {
        socket.write_all(piece).unwrap();
    }
}

/// Reads until that much plaintext has come.
fn receive(client: &mut ClientConnection, socket: &mut TcpStream, count: usize) -> Vec<u8> {
    let mut plaintext = Vec::new();
    while plaintext.len() < count {
        assert!(client.read_tls(socket).unwrap() > 0, "the server has closed the connection");
        client.process_new_packets().unwrap();
        match client.reader().read_to_end(&mut plaintext) {
            Ok(_) => {}
            Err(error) => assert_eq!(error.kind(), ErrorKind::WouldBlock),
        }
    }
    plaintext
}

/// The handshake, in pieces of that size.
fn shake_hands(client: &mut ClientConnection, socket: &mut TcpStream, size: usize) {
    while client.is_handshaking() {
        send(client, socket, size);
        if client.is_handshaking() {
            assert!(client.read_tls(socket).unwrap() > 0, "the server has closed the connection");
            client.process_new_packets().unwrap();
        }
    }
    send(client, socket, size);
}

#[test]
fn clients_connect_by_tls_with_a_certificate_or_without() {
    let Some(folder) = Folder::new() else { return };
    let certificate = ["--cert", "client.crt", "--key", "client.key"];
    let strange = ["--cert", "stranger.crt", "--key", "stranger.key"];
    for (clients, without_is_taken) in [("yes", false), ("optional", true), ("no", true)] {
        let server = folder.start(clients);
        let port = tls_address(&server).port();
        let set = [&certificate[..], &["SET", "a", clients]].concat();
        let Some(answer) = folder.cli(port, &set) else { return };
        assert_eq!(said(&answer), "OK", "{clients}: {answer:?}");
        let without = folder.cli(port, &["GET", "a"]).unwrap();
        assert_eq!(said(&without) == clients, without_is_taken, "{clients}: {without:?}");
        // One that is shown must be signed by the authority, unless none is asked for.
        let stranger = folder.cli(port, &[&strange[..], &["GET", "a"]].concat()).unwrap();
        assert_eq!(said(&stranger) == clients, clients == "no", "{clients}: {stranger:?}");
        // The port for plain text is another one.
        assert_eq!(server.client().call(&[b"GET", b"a"]).unwrap(), Reply::Bulk(clients.into()));
        assert!(server.stop().success());
    }
}

#[test]
fn values_and_replies_larger_than_any_buffer_pass() {
    let Some(folder) = Folder::new() else { return };
    let server = folder.start("no");
    let port = tls_address(&server).port();
    let large: String = (0..400_000).map(|number| format!("{number:08}")).collect();
    std::fs::write(folder.path("large"), &large).unwrap();
    let script = "redis-cli --tls --cacert ca.crt -p \"$0\" -x SET large < large";
    let mut shell = Command::new("sh");
    shell.current_dir(&folder.folder).args(["-c", script, &port.to_string()]);
    let set = shell.output().unwrap();
    if !set.status.success() {
        println!("SKIPPED: redis-cli is not installed");
        return;
    }
    assert_eq!(said(&set), "OK");
    let got = folder.cli(port, &["GET", "large"]).unwrap();
    assert!(said(&got) == large, "{} bytes", got.stdout.len());
    // A client that sends a hundred requests and reads no reply until then is paused, and loses nothing.
    let (mut client, mut socket) = (folder.client(), connect(tls_address(&server)));
    shake_hands(&mut client, &mut socket, usize::MAX);
    for _ in 0..20 {
        client.writer().write_all(b"GET large\r\n").unwrap();
        send(&mut client, &mut socket, usize::MAX);
    }
    let size = format!("${}\r\n{large}\r\n", large.len()).len();
    let replies = receive(&mut client, &mut socket, 20 * size);
    assert_eq!(replies.len(), 20 * size);
    assert!(replies.chunks(size).all(|reply| reply[..10] == replies[..10]));
    assert!(server.stop().success());
}

/// Each byte of the handshake and of the records arrives by itself.
#[test]
fn records_in_pieces_are_put_together() {
    let Some(folder) = Folder::new() else { return };
    let server = folder.start("no");
    let (mut client, mut socket) = (folder.client(), connect(tls_address(&server)));
    shake_hands(&mut client, &mut socket, 1);
    let request = b"*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$5\r\nvalue\r\n";
    for part in request.chunks(7) {
        client.writer().write_all(part).unwrap();
        send(&mut client, &mut socket, 1);
    }
    assert_eq!(receive(&mut client, &mut socket, 5), b"+OK\r\n");
    // The last request and the announcement of the end arrive together: the request is answered, then the server ends too.
    client.writer().write_all(b"GET k\r\n").unwrap();
    client.send_close_notify();
    send(&mut client, &mut socket, usize::MAX);
    assert_eq!(receive(&mut client, &mut socket, 11), b"$5\r\nvalue\r\n");
    until_end(&mut socket);
    assert!(server.stop().success());
}

/// What is no TLS, or damaged, ends its own connection alone; a handshake that does not go on makes no other client wait, and is
/// ended after a time.
#[test]
fn what_is_no_tls_ends_its_own_connection_alone() {
    let Some(folder) = Folder::new() else { return };
    let server = folder.start("no");
    let address = tls_address(&server);
    // A stalled handshake: half of the first message.
    let mut stalled = connect(address);
    let mut hello = Vec::new();
    folder.client().write_tls(&mut hello).unwrap();
    stalled.write_all(&hello[..hello.len() / 2]).unwrap();
    let mut silent = connect(address);
    let (mut good, mut good_socket) = (folder.client(), connect(address));
    shake_hands(&mut good, &mut good_socket, usize::MAX);
    for bytes in [&b"*1\r\n$4\r\nPING\r\n"[..], b"GET / HTTP/1.1\r\n\r\n", &[0xff; 100]] {
        let mut plain = connect(address);
        plain.write_all(bytes).unwrap();
        let answer = until_end(&mut plain);
        assert!(!answer.starts_with(b"+PONG"), "{answer:?}");
    }
    // A damaged record after a good handshake.
    let (mut damaged, mut socket) = (folder.client(), connect(address));
    shake_hands(&mut damaged, &mut socket, usize::MAX);
    damaged.writer().write_all(b"SET damaged 1\r\n").unwrap();
    let mut record = Vec::new();
    damaged.write_tls(&mut record).unwrap();
    *record.last_mut().unwrap() ^= 1;
    socket.write_all(&record).unwrap();
    until_end(&mut socket);
    good.writer().write_all(b"EXISTS damaged\r\n").unwrap();
    send(&mut good, &mut good_socket, usize::MAX);
    assert_eq!(receive(&mut good, &mut good_socket, 4), b":0\r\n");
    // Both are ended for their slowness.
    until_end(&mut stalled);
    until_end(&mut silent);
    good.writer().write_all(b"PING\r\n").unwrap();
    send(&mut good, &mut good_socket, usize::MAX);
    assert_eq!(receive(&mut good, &mut good_socket, 7), b"+PONG\r\n");
    assert!(server.stop().success());
}

fn call(client: &mut Client, line: &str) -> Reply {
    let words: Vec<&[u8]> = line.split(' ').map(str::as_bytes).collect();
    client.call(&words).unwrap()
}

/// A certificate is replaced while the server runs; one that cannot be used changes nothing; the choice is kept.
#[test]
fn certificates_are_replaced_by_config_set_and_kept_by_config_rewrite() {
    let Some(folder) = Folder::new() else { return };
    let file = folder.path("tembo.conf");
    let path = |name: &str| text(&folder.path(name)).to_owned();
    let (certificate, key) = (path("server.crt"), path("server.key"));
    let lines = format!(
        "tls-port 0\ntls-auth-clients no\ntls-cert-file {certificate}\ntls-key-file {key}\n"
    );
    std::fs::write(&file, lines).unwrap();
    let setup = Setup::new(&folder.path("a.pool"), &["--config", text(&file), "--tls-port", "0"]);
    let server = setup.start();
    let address = tls_address(&server);
    let shown = || {
        let (mut client, mut socket) = (folder.client(), connect(address));
        shake_hands(&mut client, &mut socket, usize::MAX);
        client.peer_certificates().unwrap()[0].clone()
    };
    let of_file = |name: &str| CertificateDer::from_pem_file(folder.path(name)).unwrap();
    assert_eq!(shown(), of_file("server.crt"));
    let mut client = server.client();
    // The key of another certificate.
    let refused = call(&mut client, &format!("CONFIG SET tls-key-file {}", path("renewed.key")));
    assert!(
        matches!(&refused, Reply::Error(text) if text.contains("tls-cert-file")),
        "{refused:?}"
    );
    let refused = call(&mut client, "CONFIG SET tls-auth-clients yes");
    assert!(matches!(&refused, Reply::Error(text) if text.contains("tls-ca-cert-file")));
    assert_eq!(shown(), of_file("server.crt"));
    let both = format!(
        "CONFIG SET tls-cert-file {} tls-key-file {}",
        path("renewed.crt"),
        path("renewed.key")
    );
    assert_eq!(call(&mut client, &both), Reply::Simple("OK".into()));
    assert_eq!(shown(), of_file("renewed.crt"));
    assert_eq!(call(&mut client, "CONFIG REWRITE"), Reply::Simple("OK".into()));
    let rewritten = std::fs::read_to_string(&file).unwrap();
    assert!(rewritten.contains(&format!("tls-cert-file {}", path("renewed.crt"))), "{rewritten}");
    let expected = [&b"tls-auth-clients"[..], b"no"].map(|word| Reply::Bulk(word.to_vec()));
    assert_eq!(call(&mut client, "CONFIG GET tls-auth-clients"), Reply::Array(expected.to_vec()));
    assert!(server.stop().success());
}

/// The value of a field of INFO replication.
fn of_replication(server: &Server, field: &str) -> String {
    let Reply::Bulk(text) = call(&mut server.client(), "INFO replication") else {
        panic!("no INFO")
    };
    let text = String::from_utf8(text).unwrap();
    let found = text.lines().find_map(|line| line.strip_prefix(field)?.strip_prefix(':'));
    found.unwrap_or_default().to_owned()
}

fn wait_until(what: &str, is_so: impl Fn() -> bool) {
    let began = std::time::Instant::now();
    while !is_so() {
        assert!(began.elapsed() < PATIENCE, "{what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// A full synchronisation of what exceeds all buffers, then changes; WAIT counts the replica. After the primary has started
/// again, the replica goes on. One that does not know the authority does not follow.
#[test]
fn a_replica_follows_by_tls() {
    let Some(folder) = Folder::new() else { return };
    let setup = |name: &str, more: &[&str]| {
        let mut words = folder.words("yes");
        words.extend(more.iter().map(|&word| word.to_owned()));
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        Setup::new(&folder.path(name), &words)
    };
    let primary = setup("primary.pool", &[]).start();
    let large = "x".repeat(1 << 20);
    let mut client = primary.client();
    for number in 0..8 {
        assert_eq!(
            call(&mut client, &format!("SET k{number} {large}")),
            Reply::Simple("OK".into())
        );
    }
    let port = tls_address(&primary).port().to_string();
    let follow = ["--tls-replication", "--replicaof", "127.0.0.1", &port];
    let replica = setup("replica.pool", &follow).start();
    let expected = Reply::Bulk(large.clone().into_bytes());
    wait_until("the replica has everything", || call(&mut replica.client(), "GET k7") == expected);
    call(&mut client, "SET later 1");
    wait_until("WAIT counts the replica", || {
        call(&mut primary.client(), "WAIT 1 1000") == Reply::Integer(1)
    });
    assert_eq!(call(&mut replica.client(), "GET later"), Reply::Bulk(b"1".into()));
    assert_eq!(of_replication(&replica, "master_link_status"), "up");
    let expected = [&b"tls-replication"[..], b"yes"].map(|word| Reply::Bulk(word.to_vec()));
    assert_eq!(
        call(&mut replica.client(), "CONFIG GET tls-replication"),
        Reply::Array(expected.to_vec())
    );
    // The authority is another one.
    let other = text(&folder.path("other.crt")).to_owned();
    let stranger =
        setup("stranger.pool", &[&follow[..], &["--tls-ca-cert-file", &other]].concat()).start();
    wait_until("the certificate is refused", || {
        of_replication(&stranger, "tembo_link_error").contains("invalid peer certificate")
    });
    // Without TLS it is not understood.
    let plain =
        Setup::new(&folder.path("plain.pool"), &["--replicaof", "127.0.0.1", &port]).start();
    wait_until("a plain connection ends", || {
        !of_replication(&plain, "tembo_link_error").is_empty()
    });
    // After a cut it goes on.
    primary.kill();
    let mut again = setup("primary.pool", &["--tls-port", &port]);
    again.port = 0;
    let primary = again.start();
    call(&mut primary.client(), "SET last 1");
    wait_until("the replica goes on", || {
        call(&mut replica.client(), "GET last") == Reply::Bulk(b"1".into())
    });
    for server in [primary, replica, stranger, plain] {
        assert!(server.stop().success());
    }
}

#[test]
fn a_port_for_tls_without_its_files_is_refused() {
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let pool = folder.path().join("a.pool");
    for words in [
        vec!["--tls-port", "0"],
        vec!["--tls-replication"],
        vec!["--tls-port", "0", "--tls-cert-file", "/nowhere", "--tls-key-file", "/nowhere"],
    ] {
        let setup = Setup::new(&pool, &words);
        let status = setup.try_start().unwrap_err();
        assert_eq!(status.code(), Some(USAGE), "{words:?}: {}", setup.errors());
    }
    assert!(!pool.exists());
}
