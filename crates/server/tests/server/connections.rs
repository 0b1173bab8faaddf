//! Connections: passwords, limits, addresses to listen at, disconnection.

use std::net::{IpAddr, Ipv4Addr};
use std::time::Duration;

use tembo_kv::{DomainRequest, Options, Store, SyncPolicy};
use tembo_server::{Config, Error, Server};

use crate::client::{Client, Running, encode, wait_until};

/// Bytes that wait to be sent to each client.
fn outputs(list: &str) -> Vec<usize> {
    let outputs = list.split(" omem=").skip(1);
    outputs.map(|rest| rest.split(' ').next().unwrap().parse().unwrap()).collect()
}

#[test]
fn a_password_is_asked_for() {
    let server = Running::with(Config { requirepass: Some("secret".into()), ..Config::default() });
    let mut client = server.client();
    assert_eq!(client.call("GET a"), "-NOAUTH Authentication required.\r\n");
    let wrong = "-WRONGPASS invalid username-password pair or user is disabled.\r\n";
    for attempt in ["AUTH secre", "AUTH secret1", "AUTH other secret", "HELLO 3 AUTH default x"] {
        assert_eq!(client.call(attempt), wrong);
    }
    assert!(client.call("HELLO 3").starts_with("-NOAUTH HELLO must"));
    assert_eq!(client.call("AUTH secret"), "+OK\r\n");
    assert_eq!(client.call("GET a"), "$-1\r\n");
    assert_eq!(client.call("RESET"), "+RESET\r\n");
    assert_eq!(client.call("GET a"), "-NOAUTH Authentication required.\r\n");
    assert!(client.call("HELLO 3 AUTH default secret SETNAME me").starts_with("%7\r\n"));
    assert_eq!(client.call("GET a"), "_\r\n");
    assert_eq!(client.call("CLIENT GETNAME"), "$2\r\nme\r\n");
    let mut client = server.client();
    client.send(b"*11\r\n");
    assert_eq!(client.reply(), "-ERR Protocol error: unauthenticated multibulk length\r\n");
    let mut client = server.client();
    client.send(b"*1\r\n$20000\r\n");
    assert_eq!(client.reply(), "-ERR Protocol error: unauthenticated bulk length\r\n");
}

#[test]
fn listening_beyond_loopback_needs_a_password() {
    let everywhere = vec![IpAddr::V4(Ipv4Addr::UNSPECIFIED)];
    let config = Config { bind: everywhere, port: 0, ..Config::default() };
    let bind = |config| Server::bind(Store::volatile(&Options::new()).unwrap(), config);
    assert!(matches!(bind(config.clone()), Err(Error::Unprotected { .. })));
    let with_password = Config { requirepass: Some("x".into()), ..config };
    assert!(with_password.protected);
    let server = Running::start();
    let taken = Config { port: server.address.port(), ..Config::default() };
    assert!(matches!(bind(taken), Err(Error::Bind { .. })));
}

#[test]
fn maxclients() {
    let server = Running::with(Config { maxclients: 3, ..Config::default() });
    let mut clients: Vec<_> = (0..3).map(|_| server.client()).collect();
    for client in &mut clients {
        assert_eq!(client.call("PING"), "+PONG\r\n");
    }
    let mut refused = server.client();
    assert_eq!(refused.reply(), "-ERR max number of clients reached\r\n");
    assert!(refused.is_closed());
    clients.pop();
    let info = || clients[0].call("INFO clients");
    wait_until("a place", info, |info| info.contains("connected_clients:2\r\n"));
    assert_eq!(server.client().call("PING"), "+PONG\r\n");
}

#[test]
fn idle_clients_are_disconnected() {
    let server = Running::start();
    let mut client = server.client();
    // A client that is slow to send this was not idle before.
    assert_eq!(client.call("CONFIG SET timeout 1"), "+OK\r\n");
    assert!(client.is_closed());
    let server = Running::with(Config { timeout_s: 1, ..Config::default() });
    assert!(server.client().is_closed());
}

#[test]
fn one_reply_beyond_the_limit_disconnects() {
    let server = Running::with(Config { output_size_max: 3 << 20, ..Config::default() });
    let mut client = server.client();
    let value = vec![b'x'; 1 << 20];
    assert_eq!(client.call_args(&[b"SET", b"a", &value]), "+OK\r\n");
    let big = client.call("MGET a a");
    assert!(big.len() > 2 << 20);
    client.send(&encode(&[b"MGET", b"a", b"a", b"a", b"a", b"a"]));
    assert!(client.is_closed());
    let info = server.client().call("INFO stats");
    assert!(info.contains("client_output_buffer_limit_disconnections:1"), "{info}");
}

/// A server with a client that has asked for much and reads nothing, and another client.
fn with_a_client_that_does_not_read(output_stall_s: u64) -> (Running, Client, Client) {
    let config = Config { output_size_max: 16 << 20, output_stall_s, ..Config::default() };
    let server = Running::with(config);
    let (mut client, mut other) = (server.client(), server.client());
    other.call_args(&[b"SET", b"a", &vec![b'x'; 1 << 20]]);
    for _ in 0..200 {
        client.send(&encode(&[b"GET", b"a"]));
    }
    (server, client, other)
}

#[test]
fn a_client_that_does_not_read_is_not_read_from() {
    let (_server, _client, mut other) = with_a_client_that_does_not_read(1 << 30);
    let mut worst = || outputs(&other.call("CLIENT LIST")).into_iter().max().unwrap();
    wait_until("replies that wait", &mut worst, |&worst| worst > 1 << 20);
    // Each look is a turn, in which the server could have read on.
    for _ in 0..100 {
        let worst = worst();
        assert!(worst < 4 << 20, "{worst}");
    }
}

#[test]
fn a_client_that_does_not_read_is_disconnected() {
    let (_server, _client, mut other) = with_a_client_that_does_not_read(1);
    let clients = || outputs(&other.call("CLIENT LIST")).len();
    wait_until("its end", clients, |&clients| clients == 1);
    let info = other.call("INFO stats");
    assert!(info.contains("client_output_buffer_limit_disconnections:1"), "{info}");
}

#[test]
fn a_slow_reader_gets_everything() {
    let server = Running::start();
    let mut client = server.client();
    let value = vec![b'x'; 300_000];
    client.call_args(&[b"SET", b"a", &value]);
    let mut bytes = Vec::new();
    for _ in 0..300 {
        bytes.extend(encode(&[b"GET", b"a"]));
    }
    bytes.extend(encode(&[b"ECHO", b"end"]));
    client.send(&bytes);
    let mut other = server.client();
    let list = || outputs(&other.call("CLIENT LIST"));
    wait_until("replies that wait", list, |outputs| outputs.iter().any(|&output| output > 0));
    for _ in 0..300 {
        assert_eq!(client.reply_bytes().unwrap().len(), 300_000 + 9 + 2);
    }
    assert_eq!(client.reply(), "$3\r\nend\r\n");
}

#[test]
fn kill_list_reply_quit() {
    let server = Running::start();
    let (mut client, mut victim) = (server.client(), server.client());
    let id = victim.call("CLIENT ID").trim().trim_start_matches(':').to_owned();
    assert!(client.call("CLIENT LIST").contains(&format!("id={id} ")));
    assert_eq!(client.call(&format!("CLIENT KILL ID {id}")), ":1\r\n");
    assert!(victim.is_closed());
    assert_eq!(client.call("CLIENT KILL 1.2.3.4:5"), "-ERR No such client\r\n");
    let bytes = [
        encode(&[b"CLIENT", b"REPLY", b"SKIP"]),
        encode(&[b"PING"]),
        encode(&[b"ECHO", b"a"]),
        encode(&[b"CLIENT", b"REPLY", b"OFF"]),
        encode(&[b"PING"]),
        encode(&[b"CLIENT", b"REPLY", b"ON"]),
        encode(&[b"ECHO", b"b"]),
        encode(&[b"QUIT"]),
        encode(&[b"SET", b"after", b"quit"]),
    ];
    client.send(&bytes.concat());
    let replies: String = (0..4).map(|_| client.reply()).collect();
    assert_eq!(replies, "$1\r\na\r\n+OK\r\n$1\r\nb\r\n+OK\r\n");
    assert!(client.is_closed());
    assert_eq!(server.client().call("EXISTS after"), ":0\r\n");
}

#[test]
fn shutdown_stops_the_server() {
    let server = Running::start();
    let mut client = server.client();
    assert_eq!(client.call("SHUTDOWN WHAT"), "-ERR syntax error\r\n");
    client.send(&encode(&[b"SHUTDOWN", b"NOSAVE"]));
    assert!(client.is_closed());
    server.join().unwrap();
}

#[test]
fn replies_are_skipped_as_in_redis() {
    let server = Running::start();
    let mut client = server.client();
    for (requests, replies) in [
        (&["CLIENT REPLY SKIP", "CLIENT REPLY ON", "PING"][..], "+OK\r\n+PONG\r\n"),
        (&["CLIENT REPLY SKIP", "CLIENT REPLY SKIP", "PING", "ECHO b"], "$1\r\nb\r\n"),
        (&["CLIENT REPLY SKIP", "PING", "ECHO c"], "$1\r\nc\r\n"),
        (&["CLIENT REPLY OFF", "CLIENT REPLY SKIP", "PING", "PING", "CLIENT REPLY ON"], "+OK\r\n"),
        (&["CLIENT REPLY SKIP", "CLIENT REPLY OFF", "PING", "CLIENT REPLY ON"], "+OK\r\n"),
        (&["CLIENT REPLY NONE"], "-ERR syntax error\r\n"),
    ] {
        for request in requests {
            client.send(format!("{request}\r\n").as_bytes());
        }
        client.send(b"ECHO end\r\n");
        let mut text = String::new();
        while !text.ends_with("$3\r\nend\r\n") {
            text += &client.reply();
        }
        assert_eq!(text, format!("{replies}$3\r\nend\r\n"), "{requests:?}");
    }
}

#[test]
fn any_bytes_may_be_the_password() {
    let server = Running::start();
    let mut client = server.client();
    let password = b"\xff\xfe\0pass";
    assert_eq!(client.call_args(&[b"CONFIG", b"SET", b"requirepass", password]), "+OK\r\n");
    let mut other = server.client();
    assert!(other.call("PING").starts_with("-NOAUTH"));
    assert_eq!(other.call_args(&[b"AUTH", password]), "+OK\r\n");
    assert_eq!(other.call("PING"), "+PONG\r\n");
    other.send(&encode(&[b"CONFIG", b"GET", b"requirepass"]));
    assert!(other.reply_bytes().unwrap().ends_with(b"\r\n\xff\xfe\0pass\r\n"));
}

#[test]
fn the_last_protection_is_not_taken_away() {
    let bind = vec![IpAddr::V4(Ipv4Addr::UNSPECIFIED)];
    let requirepass = Some("secret".to_owned());
    let server = Running::with(Config { bind, requirepass, ..Config::default() });
    let mut client = server.client_at_loopback();
    assert_eq!(client.call("AUTH secret"), "+OK\r\n");
    let refused = client.call_args(&[b"CONFIG", b"SET", b"requirepass", b""]);
    assert!(
        refused.starts_with("-ERR CONFIG SET failed") && refused.contains("loopback"),
        "{refused}"
    );
    assert!(server.client_at_loopback().call("PING").starts_with("-NOAUTH"));
    let both: &[&[u8]] = &[b"CONFIG", b"SET", b"protected-mode", b"no", b"requirepass", b""];
    assert_eq!(client.call_args(both), "+OK\r\n");
    assert_eq!(server.client_at_loopback().call("PING"), "+PONG\r\n");
    let refused = client.call("CONFIG SET protected-mode yes");
    assert!(refused.starts_with("-ERR CONFIG SET failed"), "{refused}");
}

#[test]
fn appendfsync_says_what_is_promised() {
    let server = Running::start();
    let reply = server.client().call("CONFIG GET appendfsync");
    assert_eq!(reply, "*2\r\n$11\r\nappendfsync\r\n$2\r\nno\r\n", "memory promises nothing");
    let refused = server.client().call("CONFIG SET appendonly yes");
    assert!(refused.contains("nothing is durable in the domain volatile"), "{refused}");
    assert_eq!(server.client().call("CONFIG SET appendonly no"), "+OK\r\n");
    let folder = std::env::temp_dir().join(format!("tembo-appendfsync-{}", std::process::id()));
    // What an earlier run of the same process number left.
    let _ = std::fs::remove_dir_all(&folder);
    std::fs::create_dir_all(&folder).unwrap();
    for (number, (sync, expected)) in [
        (SyncPolicy::Always, "always"),
        (SyncPolicy::Interval(Duration::from_secs(1)), "everysec"),
        (SyncPolicy::Os, "no"),
    ]
    .into_iter()
    .enumerate()
    {
        let options = Options::new().sync(sync).domain(DomainRequest::Logged);
        let store = Store::create(&folder.join(format!("{number}.pool")), &options).unwrap();
        let server = Running::over(store, Config::default());
        let reply = server.client().call("CONFIG GET appendfsync");
        assert!(reply.ends_with(&format!("\r\n{expected}\r\n")), "{reply}");
        assert_eq!(server.client().call("CONFIG SET appendonly yes"), "+OK\r\n");
        let reply = server.client().call("CONFIG GET appendonly");
        assert!(reply.ends_with("\r\nyes\r\n"), "{reply}");
    }
    std::fs::remove_dir_all(&folder).unwrap();
}
