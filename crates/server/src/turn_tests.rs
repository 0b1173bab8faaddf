//! Turns stepped by hand: what they cost, and when they fail, what the clients are told and what
//! becomes of the server.

use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::time::{Duration, Instant};

use tembo_kv::{Options, Store};

use super::*;
use crate::backup::Backups;
use crate::config::Config;
use crate::dataset::Spaces;

/// Longer than anything here takes on a machine that is busy with something else.
const PATIENCE: Duration = Duration::from_secs(20);

/// Runs `test` with an event loop that is stepped by hand, and its address.
fn with_loop(test: impl FnOnce(&mut EventLoop<'_>, SocketAddr)) {
    let store = Store::volatile(&Options::default()).unwrap();
    let config = Config::default();
    let spaces = Spaces::open(&store, config.databases).unwrap();
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    listener.set_nonblocking(true).unwrap();
    let address = listener.local_addr().unwrap();
    let listeners = [listener];
    let backups = Backups::new(None).0;
    let event_loop = EventLoop::new(&store, &spaces, &config, &listeners, address, backups);
    test(&mut event_loop.unwrap(), address);
}

fn connect(address: SocketAddr) -> TcpStream {
    let client = TcpStream::connect(address).unwrap();
    client.set_read_timeout(Some(PATIENCE)).unwrap();
    client
}

/// Waits until that many connections have something to read, so that one turn gets it all.
fn arrived(event_loop: &mut EventLoop<'_>, count: usize) {
    let (mut ready, began) = (Vec::new(), Instant::now());
    while ready.len() < count {
        assert!(began.elapsed() < PATIENCE, "{} of {count} have something", ready.len());
        ready.clear();
        event_loop.poll.wait(Duration::from_millis(10), &mut ready).unwrap();
    }
}

/// What the client is sent within some steps, and whether it is disconnected.
fn replies(event_loop: &mut EventLoop<'_>, client: &mut TcpStream) -> (String, bool) {
    for _ in 0..5 {
        event_loop.step().unwrap();
    }
    received(client)
}

fn received(client: &mut TcpStream) -> (String, bool) {
    let mut bytes = [0; 4096];
    let (mut text, mut closed) = (String::new(), false);
    while let Ok(count) = client.read(&mut bytes) {
        text += &String::from_utf8_lossy(&bytes[..count]);
        closed = count == 0;
        if closed || count < bytes.len() {
            break;
        }
    }
    if !closed {
        client.set_read_timeout(Some(Duration::from_millis(20))).unwrap();
        closed = matches!(client.read(&mut bytes), Ok(0));
    }
    (text, closed)
}

/// Waits until the one client's bytes are all there, so that one turn gets them.
fn arrived_whole(event_loop: &mut EventLoop<'_>, size: usize) {
    let (mut bytes, began) = (vec![0; size], Instant::now());
    loop {
        let (_, connection) = event_loop.clients.iter_mut().next().unwrap();
        let count = connection.socket.peek(&mut bytes).unwrap_or(0);
        if count == size {
            return;
        }
        assert!(began.elapsed() < PATIENCE, "{count} of {size} bytes are there");
        std::thread::yield_now();
    }
}

#[test]
fn pipelined_writes_cost_one_commit() {
    with_loop(|event_loop, address| {
        let mut client = connect(address);
        while event_loop.clients.count() == 0 {
            event_loop.step().unwrap();
        }
        let sets = (0..500).map(|number| words(&["SET", &format!("key:{number}"), "v"]));
        let request = sets.collect::<String>();
        for _ in 0..2 {
            client.write_all(request.as_bytes()).unwrap();
            arrived_whole(event_loop, request.len());
            let before = (event_loop.data.store().visible(), event_loop.shared.stats.turns);
            event_loop.step().unwrap();
            let after = (event_loop.data.store().visible(), event_loop.shared.stats.turns);
            assert_eq!(after, (before.0 + 1, before.1 + 1), "500 writes are one turn, one commit");
            let mut answer = vec![0; 5 * 500];
            client.read_exact(&mut answer).unwrap();
            assert_eq!(answer, b"+OK\r\n".repeat(500));
        }
    });
}

#[test]
fn a_failed_commit_is_told_to_everybody_and_leaves_nothing() {
    with_loop(|event_loop, address| {
        let (mut writer, mut selector) = (connect(address), connect(address));
        for _ in 0..3 {
            event_loop.step().unwrap();
        }
        writer.write_all(b"SET a 1\r\nSET b EX\r\nGET a\r\n").unwrap();
        selector.write_all(b"SELECT 3\r\nSET c 1\r\n").unwrap();
        arrived(event_loop, 2);
        event_loop.data.fault = Some(StoreError::KeyTooLong { size: 1 });
        let (text, closed) = replies(event_loop, &mut writer);
        assert_eq!(text.matches("-ERR a key of 1 bytes").count(), 3, "{text}");
        assert_eq!(text.lines().count(), 3, "{text}");
        assert!(!closed);
        let (text, closed) = received(&mut selector);
        assert_eq!(text.matches("-ERR a key of 1 bytes").count(), 2, "{text}");
        assert!(closed, "its database is not what it was told");
        writer.write_all(b"EXISTS a b\r\nSET a 2\r\nGET a\r\n").unwrap();
        assert_eq!(replies(event_loop, &mut writer).0, ":0\r\n+OK\r\n$1\r\n2\r\n");
    });
}

#[test]
fn a_poisoned_store_is_told_and_stops_the_server() {
    with_loop(|event_loop, address| {
        let mut client = connect(address);
        for _ in 0..3 {
            event_loop.step().unwrap();
        }
        client.write_all(b"SET a 1\r\nPING\r\n").unwrap();
        arrived(event_loop, 1);
        event_loop.data.fault = Some(StoreError::Poisoned);
        let stopped = (0..5).find_map(|_| event_loop.step().err());
        assert!(matches!(stopped, Some(Error::Poisoned)));
        let (text, _) = received(&mut client);
        assert_eq!(text.matches("-MISCONF ").count(), 2, "{text}");
        assert!(!text.contains("OK") && !text.contains("PONG"));
    });
}

#[test]
fn a_failure_within_exec_answers_exec_alone() {
    with_loop(|event_loop, address| {
        let mut client = connect(address);
        event_loop.step().unwrap();
        client.write_all(b"MULTI\r\nSET a 1\r\n").unwrap();
        assert_eq!(replies(event_loop, &mut client).0, "+OK\r\n+QUEUED\r\n");
        event_loop.data.fault = Some(StoreError::KeyTooLong { size: 1 });
        client.write_all(b"EXEC\r\n").unwrap();
        // An idle step commits nothing, but takes the fault: EXEC must be there.
        arrived(event_loop, 1);
        let (text, _) = replies(event_loop, &mut client);
        assert!(text.starts_with("-ERR a key of 1 bytes"), "{text}");
        client.write_all(b"EXISTS a\r\n").unwrap();
        assert_eq!(replies(event_loop, &mut client).0, ":0\r\n");
    });
}

#[test]
fn looking_ahead_changes_no_reply() {
    with_loop(|event_loop, address| {
        let mut clients: Vec<_> = (0..3).map(|_| connect(address)).collect();
        let mut expected = Vec::new();
        for (db, client) in clients.iter_mut().enumerate() {
            let mut held = std::collections::HashMap::new();
            let (mut request, mut answer) = (format!("SELECT {db}\r\n"), "+OK\r\n".to_owned());
            // Sets, gets and removals of few keys, so that what is seen ahead is often outdated, and
            // of new ones, so that nodes are replaced meanwhile.
            for step in 0..200 {
                let (old, new) = (format!("k{}", step * 7 % 11), format!("n{step}"));
                let value = format!("{db}-{step}");
                request += &words(&["SET", &new, &value]);
                answer += "+OK\r\n";
                request += &words(&["GET", &old]);
                answer += &bulk(held.get(&old));
                if step % 3 == 0 {
                    request += &words(&["DEL", &old]);
                    answer += if held.remove(&old).is_some() { ":1\r\n" } else { ":0\r\n" };
                } else {
                    request += &words(&["SET", &old, &value]);
                    answer += "+OK\r\n";
                    held.insert(old, value);
                }
                request += &words(&["PING"]);
                answer += "+PONG\r\n";
            }
            client.write_all(request.as_bytes()).unwrap();
            expected.push(answer);
        }
        for _ in 0..10 {
            event_loop.step().unwrap();
        }
        for (client, expected) in clients.iter_mut().zip(expected) {
            let mut answer = vec![0; expected.len()];
            client.read_exact(&mut answer).unwrap();
            assert_eq!(String::from_utf8_lossy(&answer), expected);
        }
    });
}

fn words(words: &[&str]) -> String {
    let parts = words.iter().map(|word| format!("${}\r\n{word}\r\n", word.len()));
    format!("*{}\r\n{}", words.len(), parts.collect::<String>())
}

fn bulk(value: Option<&String>) -> String {
    value.map_or("$-1\r\n".to_owned(), |value| format!("${}\r\n{value}\r\n", value.len()))
}
