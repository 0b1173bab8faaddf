//! What a turn promises: one commit, order, replies after the sync.

use std::collections::BTreeSet;

use crate::client::{Client, Running, encode};

/// The version that INFO shows. INFO itself writes nothing.
fn visible(client: &mut Client) -> u64 {
    let info = client.call("INFO persistence");
    let line = info.lines().find(|line| line.starts_with("tembo_version_visible:")).unwrap();
    line.split(':').nth(1).unwrap().parse().unwrap()
}

fn turns(client: &mut Client) -> u64 {
    let info = client.call("INFO stats");
    let line = info.lines().find(|line| line.starts_with("tembo_turns:")).unwrap();
    line.split(':').nth(1).unwrap().parse().unwrap()
}

/// A server whose store remembers all its versions.
fn remembering() -> Running {
    Running::with(tembo_server::Config { retain_s: 1000, ..Default::default() })
}

/// Versions after `since` in which something was put. (The store's own work may have versions too.)
fn commits(store: &tembo_kv::Store, since: u64) -> BTreeSet<u64> {
    let mut changes = store.changes(since).unwrap();
    let all = std::iter::from_fn(|| changes.next().unwrap());
    let puts = all.filter(|change| matches!(change.event, tembo_kv::Event::Put { .. }));
    puts.map(|change| change.version).collect()
}

/// The network decides how the bytes fall into turns; that a turn costs one commit is the server's promise.
#[test]
fn a_turn_costs_at_most_one_commit() {
    let server = remembering();
    let mut client = server.client();
    assert_eq!(client.call("PING"), "+PONG\r\n");
    let mut bytes = Vec::new();
    for number in 0..500 {
        let key = format!("key:{number}");
        bytes.extend(encode(&[b"SET", key.as_bytes(), b"v"]));
    }
    let (before, turns_before) = (visible(&mut client), turns(&mut client));
    client.send(&bytes);
    for _ in 0..500 {
        assert_eq!(client.reply(), "+OK\r\n");
    }
    // Of the turns counted between, one only showed the counter.
    let turns = turns(&mut client) - turns_before - 1;
    let (store, result) = server.stop();
    result.unwrap();
    let commits = commits(&store, before).len() as u64;
    assert!((1..=turns).contains(&commits), "{commits} commits in {turns} turns");
    assert_eq!(store.durable(), store.visible());
}

#[test]
fn reads_commit_nothing() {
    let server = remembering();
    let mut client = server.client();
    let before = visible(&mut client);
    client.call("SET a 1");
    for _ in 0..10 {
        assert_eq!(client.call("GET a"), "$1\r\n1\r\n");
    }
    let (store, result) = server.stop();
    result.unwrap();
    assert_eq!(commits(&store, before).len(), 1);
}

#[test]
fn a_turn_is_bounded_and_order_is_kept() {
    let server = Running::start();
    let mut client = server.client();
    let mut bytes = Vec::new();
    for _ in 0..35_000 {
        bytes.extend(encode(&[b"INCR", b"n"]));
    }
    let mut other = server.client();
    let writer = std::thread::spawn(move || {
        client.send(&bytes);
        for number in 1..=35_000 {
            assert_eq!(client.reply(), format!(":{number}\r\n"));
        }
    });
    for _ in 0..100 {
        assert_eq!(other.call("PING"), "+PONG\r\n");
    }
    writer.join().unwrap();
}

#[test]
fn a_client_sees_its_own_writes_within_a_turn() {
    let server = Running::start();
    let mut client = server.client();
    let bytes =
        [encode(&[b"SET", b"a", b"1"]), encode(&[b"INCR", b"a"]), encode(&[b"GET", b"a"])].concat();
    client.send(&bytes);
    assert_eq!(client.reply() + &client.reply() + &client.reply(), "+OK\r\n:2\r\n$1\r\n2\r\n");
}

#[test]
fn large_values_come_back_whole() {
    let server = Running::start();
    let mut client = server.client();
    for size in [65_536, 65_537, 200_000, 3 << 20, 20 << 20] {
        let value: Vec<u8> = (0..size).map(|at| (at * 7 % 251) as u8).collect();
        // A short command before and behind, so that the long bulk begins and ends within a read.
        let bytes = [
            encode(&[b"SET", b"small", b"1"]),
            encode(&[b"SET", b"big", &value]),
            encode(&[b"GET", b"small"]),
        ]
        .concat();
        client.send(&bytes);
        assert_eq!(client.reply() + &client.reply() + &client.reply(), "+OK\r\n+OK\r\n$1\r\n1\r\n");
        client.send(&encode(&[b"GET", b"big"]));
        let reply = client.reply_bytes().unwrap();
        let header = format!("${size}\r\n").len();
        assert!(reply[header..reply.len() - 2] == value, "{size}");
    }
}

#[test]
fn a_client_that_half_closes_gets_all_its_replies() {
    let server = Running::start();
    let mut client = server.client();
    let mut bytes = Vec::new();
    for _ in 0..25_000 {
        bytes.extend(encode(&[b"INCR", b"n"]));
    }
    client.send(&bytes);
    client.stream.get_mut().shutdown(std::net::Shutdown::Write).unwrap();
    for number in 1..=25_000 {
        assert_eq!(client.reply(), format!(":{number}\r\n"));
    }
    assert!(client.is_closed());
}

#[test]
fn a_full_pool_refuses_writes_and_serves_reads() {
    let options = tembo_kv::Options::new().size(4 << 20).size_max(8 << 20);
    let server = Running::over(tembo_kv::Store::volatile(&options).unwrap(), Default::default());
    let mut client = server.client();
    assert_eq!(client.call("SET first 1"), "+OK\r\n");
    let value = [b'x'; 5000];
    let mut kept = 0;
    let refused = loop {
        let reply = client.call_args(&[b"SET", format!("key:{kept}").as_bytes(), &value]);
        if reply != "+OK\r\n" {
            break reply;
        }
        kept += 1;
        assert!(kept < 100_000, "the pool never fills");
    };
    assert!(refused.starts_with("-OOM command not allowed"), "{refused}");
    assert!(kept > 100, "{kept}");
    assert_eq!(client.call("GET first"), "$1\r\n1\r\n");
    for number in 0..kept {
        assert_eq!(client.call(&format!("STRLEN key:{number}")), ":5000\r\n");
    }
    // What is refused half-way is refused whole.
    let value = vec![b'y'; 40_000];
    let mut args: Vec<&[u8]> = vec![b"MSET", b"small", b"1"];
    let names: Vec<String> = (0..300).map(|number| format!("big:{number}")).collect();
    for name in &names {
        args.extend([name.as_bytes(), &value]);
    }
    let reply = client.call_args(&args);
    assert!(reply.starts_with("-OOM"), "{reply}");
    assert_eq!(client.call("EXISTS small big:0"), ":0\r\n");
    assert_eq!(client.call("GET first"), "$1\r\n1\r\n");
}
