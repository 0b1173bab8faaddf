//! `--metrics-port`: what Prometheus reads, by a strict parser of its text format, and what else is sent there.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use crate::resp::Reply;
use crate::server::{Server, Setup};

/// How long a test waits for what the server is to do.
const PATIENCE: Duration = Duration::from_secs(60);

fn start(folder: &tempfile::TempDir, words: &[&str]) -> Server {
    let words = [&["--metrics-port", "0", "--domain", "logged"], words].concat();
    Setup::new(&folder.path().join("a.pool"), &words).start()
}

fn place(server: &Server) -> SocketAddr {
    let at = server.ready.split("metrics at http://").nth(1).unwrap();
    at.split('/').next().unwrap().parse().unwrap()
}

/// Sends bytes and reads until the server ends the connection.
fn exchange(address: SocketAddr, request: &[u8]) -> String {
    let mut socket = TcpStream::connect(address).unwrap();
    socket.set_read_timeout(Some(PATIENCE)).unwrap();
    // The server may end the connection before it has taken everything.
    let _ = socket.write_all(request);
    let mut response = Vec::new();
    match socket.read_to_end(&mut response) {
        Ok(_) => {}
        Err(error) if error.kind() == ErrorKind::ConnectionReset => {}
        Err(error) => panic!("the server does not end the connection: {error}"),
    }
    String::from_utf8(response).unwrap()
}

fn metrics(address: SocketAddr) -> Metrics {
    let response = exchange(address, b"GET /metrics HTTP/1.1\r\nHost: a\r\n\r\n");
    let (head, body) = response.split_once("\r\n\r\n").unwrap();
    assert!(head.starts_with("HTTP/1.1 200 OK\r\n"), "{head}");
    assert!(head.contains("\r\nContent-Type: text/plain; version=0.0.4; charset=utf-8"), "{head}");
    assert!(head.contains(&format!("\r\nContent-Length: {}", body.len())), "{head}");
    Metrics::parse(body)
}

fn is_name(name: &str) -> bool {
    let mut bytes = name.bytes();
    let is_first = |byte: u8| byte.is_ascii_alphabetic() || byte == b'_' || byte == b':';
    bytes.next().is_some_and(is_first) && bytes.all(|byte| is_first(byte) || byte.is_ascii_digit())
}

type Labels = BTreeMap<String, String>;

/// All samples, by the name of the series and its labels.
struct Metrics(BTreeMap<(String, Labels), f64>);

impl Metrics {
    /// Panics where Prometheus would refuse the text, or a convention is not kept.
    fn parse(text: &str) -> Metrics {
        assert!(text.ends_with('\n'));
        let (mut samples, mut families) = (BTreeMap::new(), BTreeSet::new());
        let (mut family, mut kind, mut help) = (String::new(), String::new(), String::new());
        for line in text.lines() {
            if let Some(rest) = line.strip_prefix("# HELP ") {
                help = rest.split_once(' ').unwrap().0.to_owned();
            } else if let Some(rest) = line.strip_prefix("# TYPE ") {
                let (name, of) = rest.split_once(' ').unwrap();
                (family, kind) = (name.to_owned(), of.to_owned());
                assert_eq!(family, help, "help and type stand together");
                assert!(is_name(&family) && families.insert(family.clone()), "{line}");
                assert!(["counter", "gauge", "histogram"].contains(&of), "{line}");
            } else {
                let (name, labels, value) = sample(line);
                let suffix =
                    name.strip_prefix(&family).unwrap_or_else(|| panic!("{line} in {family}"));
                match &kind[..] {
                    "histogram" => {
                        assert!(["_bucket", "_sum", "_count"].contains(&suffix), "{line}")
                    }
                    _ => assert_eq!(suffix, "", "{line}"),
                }
                assert!(kind != "counter" || value >= 0.0, "{line}");
                assert!(samples.insert((name, labels), value).is_none(), "twice: {line}");
            }
        }
        let metrics = Metrics(samples);
        metrics.check_histograms();
        metrics
    }

    /// Buckets grow with their bounds, and the last one is the count.
    fn check_histograms(&self) {
        let mut buckets: BTreeMap<(String, Labels), Vec<(f64, f64)>> = BTreeMap::new();
        for ((name, labels), value) in &self.0 {
            if let Some(name) = name.strip_suffix("_bucket") {
                let mut labels = labels.clone();
                let bound = labels.remove("le").unwrap();
                let bound = if bound == "+Inf" { f64::INFINITY } else { bound.parse().unwrap() };
                buckets.entry((name.to_owned(), labels)).or_default().push((bound, *value));
            }
        }
        assert!(buckets.len() >= 5, "{buckets:?}");
        for ((name, labels), mut counts) in buckets {
            counts.sort_by(|a, b| a.0.total_cmp(&b.0));
            assert!(counts.is_sorted_by_key(|(_, count)| *count), "{name} {labels:?} {counts:?}");
            let (last, count) = counts.last().unwrap();
            assert!(last.is_infinite());
            assert_eq!(self.0[&(format!("{name}_count"), labels)], *count);
        }
    }

    fn value(&self, name: &str, labels: &[(&str, &str)]) -> f64 {
        let labels = labels.iter().map(|(name, text)| ((*name).to_owned(), (*text).to_owned()));
        let key = (name.to_owned(), labels.collect());
        *self.0.get(&key).unwrap_or_else(|| panic!("there is no {key:?}"))
    }
}

/// `name{label="text",…} value`
fn sample(line: &str) -> (String, Labels, f64) {
    let end = line.find(['{', ' ']).unwrap();
    let (name, mut rest) = line.split_at(end);
    assert!(is_name(name), "{line}");
    let mut labels = Labels::new();
    if let Some(inner) = rest.strip_prefix('{') {
        rest = inner;
        loop {
            let (label, behind) = rest.split_once("=\"").unwrap();
            assert!(is_name(label) && !label.contains(':'), "{line}");
            let (mut text, mut letters) = (String::new(), behind.char_indices());
            let at = loop {
                match letters.next().unwrap() {
                    (at, '"') => break at,
                    (_, '\\') => match letters.next().unwrap().1 {
                        'n' => text.push('\n'),
                        letter @ ('\\' | '"') => text.push(letter),
                        other => panic!("\\{other} in {line}"),
                    },
                    (_, letter) => text.push(letter),
                }
            };
            assert!(labels.insert(label.to_owned(), text).is_none(), "{line}");
            rest = &behind[at + 1..];
            match rest.strip_prefix(',') {
                Some(more) => rest = more,
                None => break,
            }
        }
        rest = rest.strip_prefix('}').unwrap();
    }
    let value = rest.strip_prefix(' ').unwrap().parse().unwrap();
    (name.to_owned(), labels, value)
}

#[test]
fn prometheus_reads_what_the_server_counts() {
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let server = start(&folder, &[]);
    let address = place(&server);
    let mut client = server.client();
    for line in [
        "SET a 1",
        "SET b 2",
        "EXPIRE b 1000",
        "GET a",
        "GET c",
        "LPUSH a x",
        "SELECT 3",
        "SET d 1",
    ] {
        let words: Vec<&[u8]> = line.split(' ').map(str::as_bytes).collect();
        client.call(&words).unwrap();
    }
    let before = metrics(address);
    assert_eq!(before.value("redis_up", &[]), 1.0);
    assert_eq!(before.value("redis_db_keys", &[("db", "db0")]), 2.0);
    assert_eq!(before.value("redis_db_keys_expiring", &[("db", "db0")]), 1.0);
    assert_eq!(before.value("redis_db_keys", &[("db", "db3")]), 1.0);
    assert_eq!(before.value("redis_commands_total", &[("cmd", "set")]), 3.0);
    assert_eq!(before.value("redis_commands_failed_calls_total", &[("cmd", "lpush")]), 1.0);
    assert_eq!(before.value("redis_errors_total", &[("err", "WRONGTYPE")]), 1.0);
    assert_eq!(before.value("redis_keyspace_hits_total", &[]), 1.0);
    assert_eq!(before.value("redis_keyspace_misses_total", &[]), 1.0);
    // The client, and the one that asks.
    assert_eq!(before.value("redis_connected_clients", &[]), 2.0);
    assert!(before.value("tembo_syncs_total", &[]) > 0.0);
    assert!(before.value("tembo_log_written_bytes_total", &[]) > 0.0);
    let free = before.value("tembo_pool_free_bytes", &[]);
    let (used, all) =
        (before.value("tembo_pool_used_bytes", &[]), before.value("tembo_pool_bytes", &[]));
    assert_eq!(used + free, all);
    let turns = before.value("tembo_stage_duration_seconds_count", &[("stage", "turn")]);
    for number in 0..100 {
        let number = number.to_string();
        assert_eq!(
            client.call(&[b"SET", number.as_bytes(), b"x"]).unwrap(),
            Reply::Simple("OK".into())
        );
    }
    let after = metrics(address);
    assert_eq!(after.value("redis_commands_total", &[("cmd", "set")]), 103.0);
    assert_eq!(after.value("redis_db_keys", &[("db", "db3")]), 101.0);
    assert!(
        after.value("tembo_stage_duration_seconds_count", &[("stage", "turn")]) >= turns + 100.0
    );
    // The store reports to the event loop some times a second.
    let version = before.value("tembo_version_visible", &[]);
    let end = Instant::now() + PATIENCE;
    while metrics(address).value("tembo_version_visible", &[]) <= version {
        assert!(Instant::now() < end, "the version stays {version}");
        std::thread::sleep(Duration::from_millis(20));
    }
    assert!(server.stop().success());
}

/// Whatever comes, the connection ends with an answer of HTTP or without one, and clients are served.
#[test]
fn any_bytes_at_the_port_for_metrics_end_their_own_connection_alone() {
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let server = start(&folder, &[]);
    let address = place(&server);
    let mut silent = TcpStream::connect(address).unwrap();
    silent.set_read_timeout(Some(PATIENCE)).unwrap();
    silent.write_all(b"GET /metrics HTTP/1.1\r\nHost:").unwrap();
    let long = [b"GET /".as_slice(), &vec![b'a'; 100_000]].concat();
    for (request, expected) in [
        (&b"GET / HTTP/1.1\r\n\r\n"[..], "HTTP/1.1 404 "),
        (b"HEAD /metrics HTTP/1.0\r\n\r\n", "HTTP/1.1 200 "),
        (b"POST /metrics HTTP/1.1\r\nContent-Length: 3\r\n\r\nabc", "HTTP/1.1 405 "),
        (b"GET /metrics HTTP/3\r\n\r\n", "HTTP/1.1 400 "),
        (b"*1\r\n$8\r\nSHUTDOWN\r\n", "HTTP/1.1 400 "),
        (b"\x16\x03\x01\x00\xff\x01\x00\x00", "HTTP/1.1 400 "),
        (b"FLUSHALL\r\n\r\n", "HTTP/1.1 400 "),
        (&long, ""),
    ] {
        let response = exchange(address, request);
        let shown = String::from_utf8_lossy(&request[..request.len().min(40)]).into_owned();
        assert!(response.starts_with(expected), "{shown:?}: {response}");
        if request.starts_with(b"HEAD") {
            assert!(response.ends_with("\r\n\r\n"), "{response}");
        }
    }
    assert_eq!(server.client().call(&[b"PING"]).unwrap(), Reply::Simple("PONG".into()));
    // A request that does not go on is ended after a time.
    let mut rest = Vec::new();
    match silent.read_to_end(&mut rest) {
        Ok(_) => assert!(rest.is_empty()),
        Err(error) => assert_eq!(error.kind(), ErrorKind::ConnectionReset),
    }
    assert!(server.stop().success());
}
