//! Malformed requests: the connection fails, the server never.

use std::io::Write;

use crate::client::{Random, Running, encode};

#[test]
fn protocol_errors_are_reported_and_close() {
    let server = Running::start();
    for (bytes, text) in [
        ("*9223372036854775808\r\n", "invalid multibulk length"),
        ("*-9223372036854775809\r\n", "invalid multibulk length"),
        ("*1048577\r\n", "invalid multibulk length"),
        ("*abc\r\n", "invalid multibulk length"),
        ("*1\r\n$-5\r\n", "invalid bulk length"),
        ("*1\r\n$9223372036854775807\r\n", "invalid bulk length"),
        ("*1\r\n$536870913\r\n", "invalid bulk length"),
        ("*1\r\nPING\r\n", "expected '$', got 'P'"),
        ("SET \"a\r\n", "unbalanced quotes in request"),
    ] {
        let mut client = server.client();
        client.send(bytes.as_bytes());
        assert_eq!(client.reply(), format!("-ERR Protocol error: {text}\r\n"), "{bytes:?}");
        assert!(client.is_closed(), "{bytes:?}");
    }
    for (first, text) in [
        ("*", "too big mbulk count string"),
        ("*1\r\n$", "too big bulk count string"),
        ("x", "too big inline request"),
    ] {
        let mut client = server.client();
        let long = [first.as_bytes(), &[b'1'; 70_000]].concat();
        let _ = client.stream.get_mut().write_all(&long);
        assert_eq!(client.reply(), format!("-ERR Protocol error: {text}\r\n"));
    }
    assert_eq!(server.client().call("PING"), "+PONG\r\n");
}

#[test]
fn what_came_before_an_error_is_executed() {
    let server = Running::start();
    let mut client = server.client();
    let bytes = [encode(&[b"SET", b"a", b"1"]), b"*x\r\n".to_vec()].concat();
    client.send(&bytes);
    assert_eq!(client.reply(), "+OK\r\n");
    assert_eq!(client.reply(), "-ERR Protocol error: invalid multibulk length\r\n");
    assert_eq!(server.client().call("GET a"), "$1\r\n1\r\n");
}

#[test]
fn every_truncation_then_goodbye() {
    let server = Running::start();
    let bytes = [encode(&[b"SET", b"key", b"value"]), b"PING \"a b\"\r\n".to_vec()].concat();
    for size in 0..bytes.len() {
        server.client().send(&bytes[..size]);
    }
    let mut client = server.client();
    for &byte in &bytes {
        client.send(&[byte]);
    }
    assert_eq!(client.reply() + &client.reply(), "+OK\r\n$3\r\na b\r\n");
}

#[test]
fn random_bytes() {
    let server = Running::start();
    let mut random = Random(0x1234_5678_9abc_def1);
    let pieces: [&[u8]; 14] = [
        b"*1\r\n",
        b"*3\r\n",
        b"$3\r\n",
        b"$",
        b"*",
        b"\r\n",
        b"SET",
        b"GET",
        b"-1",
        b"99999999999",
        b"\"",
        b"\0",
        b"EXEC\r\n",
        b"MULTI\r\n",
    ];
    for _ in 0..400 {
        let mut client = server.client();
        let mut bytes = Vec::new();
        for _ in 0..random.below(30) {
            match random.below(4) {
                0 => bytes.push(random.next() as u8),
                _ => bytes.extend_from_slice(random.pick(&pieces)),
            }
        }
        let _ = client.stream.get_mut().write_all(&bytes);
    }
    assert_eq!(server.client().call("PING"), "+PONG\r\n");
}

#[test]
fn a_huge_announcement_costs_nothing() {
    let server = Running::start();
    let mut clients: Vec<_> = (0..200).map(|_| server.client()).collect();
    for client in &mut clients {
        client.send(b"*2\r\n$536870912\r\nabc");
    }
    let info = server.client().call("INFO memory");
    let line = info.lines().find(|line| line.starts_with("used_memory_rss:")).unwrap();
    let resident: u64 = line.split(':').nth(1).unwrap().parse().unwrap();
    assert!(resident < 4 << 30, "{resident}");
}

#[test]
fn inline_commands() {
    let server = Running::start();
    let mut client = server.client();
    client.send(b"\r\n\r\nSET 'a b' \"\\x41\\n\"\r\nGET \"a b\"\n");
    assert_eq!(client.reply() + &client.reply(), "+OK\r\n$2\r\nA\n\r\n");
    client.send(b"POST / HTTP/1.1\r\nHost: x\r\n\r\nSET a 1\r\n");
    assert!(client.is_closed());
    assert_eq!(server.client().call("EXISTS a"), ":0\r\n");
}

#[test]
fn oversized_keys_are_refused() {
    let server = Running::start();
    let mut client = server.client();
    let key = vec![b'k'; 70_000];
    let reply = client.call_args(&[b"SET", &key, b"1"]);
    assert!(reply.starts_with("-ERR a key is longer than"), "{reply}");
    assert_eq!(client.call_args(&[b"GET", &key]), "$-1\r\n");
    assert_eq!(client.call_args(&[b"DEL", &key]), ":0\r\n");
    let longest = vec![b'k'; tembo_kv::KEY_SIZE_MAX - 8];
    assert_eq!(client.call_args(&[b"SET", &longest, b"1", b"EX", b"100"]), "+OK\r\n");
    assert_eq!(client.call_args(&[b"GET", &longest]), "$1\r\n1\r\n");
}
