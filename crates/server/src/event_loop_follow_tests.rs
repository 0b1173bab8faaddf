//! Turns stepped by hand: what a replica makes of what its primary sends, which is a test here.

use std::io::{BufRead as _, BufReader};
use std::net::TcpListener;

use super::*;
use crate::replication::format::{Action, Entry, FrameHeader, FrameKind, HEADER_SIZE, KEYSPACE};

/// The history of the primary.
pub(super) const HISTORY: &str = "0123456789012345678901234567890123456789";

/// A connection of the replica.
pub(super) struct Upstream {
    stream: BufReader<TcpStream>,
    /// What the replica says that it holds.
    held: Vec<String>,
}

impl Upstream {
    /// Steps until the replica asks to be fed.
    pub(super) fn accept(event_loop: &mut EventLoop<'_>, listener: &TcpListener) -> Upstream {
        listener.set_nonblocking(true).unwrap();
        let began = Instant::now();
        let stream = loop {
            event_loop.step().unwrap();
            match listener.accept() {
                Ok((stream, _)) => break stream,
                Err(error) => assert_eq!(error.kind(), std::io::ErrorKind::WouldBlock),
            }
            assert!(began.elapsed() < PATIENCE, "the replica does not connect");
        };
        stream.set_nonblocking(false).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        let mut upstream = Upstream { stream: BufReader::new(stream), held: Vec::new() };
        loop {
            let words = upstream.words();
            if words[0] == "TEMBO.SYNC" {
                upstream.held = words[1..].to_vec();
                return upstream;
            }
            upstream.send(b"+OK\r\n");
        }
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        self.stream.read_line(&mut line).unwrap();
        line.trim_end().to_owned()
    }

    pub(super) fn words(&mut self) -> Vec<String> {
        let count: usize = self.line()[1..].parse().unwrap();
        let word = |_| {
            self.line();
            self.line()
        };
        (0..count).map(word).collect()
    }

    fn send(&mut self, bytes: &[u8]) {
        self.stream.get_mut().write_all(bytes).unwrap();
    }

    pub(super) fn begin(&mut self, how: &str, (history, version): (&str, u64)) {
        self.send(format!("+{how} {history} {version}\r\n").as_bytes());
    }

    pub(super) fn frame(&mut self, kind: FrameKind, version: u64, changes: &[Entry<'_>]) {
        let mut entries = Vec::new();
        changes.iter().for_each(|change| change.push(&mut entries));
        self.send(&FrameHeader { kind, size: entries.len() as u32, version }.encode());
        self.send(&entries);
    }
}

/// A string is put.
pub(super) fn put<'a>(key: &'a str, value: &'a [u8]) -> Entry<'a> {
    Entry { action: Action::Put, keyspace: "db0", key: key.as_bytes(), value }
}

/// The value of a string that is kept.
pub(super) fn string(text: &str) -> Vec<u8> {
    let header = crate::format::Header::string(None);
    [header.as_bytes(), text.as_bytes()].concat()
}

/// Steps until the replica has reached a version.
pub(super) fn reached(event_loop: &mut EventLoop<'_>, version: u64) {
    let began = Instant::now();
    while {
        let following = event_loop.turns.shared.replication.following().unwrap();
        following.place().version != version
    } {
        event_loop.step().unwrap();
        assert!(began.elapsed() < PATIENCE, "version {version} is not reached");
    }
}

/// A client, the primary, and its connection: the replica holds `a` and version 10.
pub(super) fn follow(
    event_loop: &mut EventLoop<'_>,
    address: SocketAddr,
) -> (TcpStream, TcpListener, Upstream) {
    let [mut client] = clients(event_loop, address);
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    executed(event_loop, &mut client, &format!("REPLICAOF 127.0.0.1 {port}\r\n"), 1);
    let mut upstream = Upstream::accept(event_loop, &listener);
    upstream.begin("FULL", (HISTORY, 10));
    upstream.frame(FrameKind::Whole, 10, &[put("a", &string("one"))]);
    reached(event_loop, 10);
    (client, listener, upstream)
}

#[test]
fn a_change_whose_commit_has_failed_is_asked_for_again() {
    with_loop(|event_loop, address| {
        let (_client, listener, mut upstream) = follow(event_loop, address);
        upstream.frame(FrameKind::Whole, 11, &[put("a", &string("two"))]);
        let began = Instant::now();
        while event_loop.turns.shared.replication.following().unwrap().lost.is_none() {
            // A turn before the frame comes takes it too.
            event_loop.turns.data.fault = Some(StoreError::KeyTooLong { size: 1 });
            event_loop.step().unwrap();
            assert!(began.elapsed() < PATIENCE, "the frame does not come");
        }
        event_loop.turns.data.fault = None;
        let upstream = Upstream::accept(event_loop, &listener);
        assert_eq!(upstream.held, [HISTORY, "10"]);
    });
}

/// A primary that is opened again may know only of the last version with a change.
#[test]
fn a_replica_names_the_version_of_the_last_change_too() {
    with_loop(|event_loop, address| {
        let (_client, listener, mut upstream) = follow(event_loop, address);
        upstream.frame(FrameKind::Whole, 15, &[]);
        reached(event_loop, 15);
        drop(upstream);
        let upstream = Upstream::accept(event_loop, &listener);
        assert_eq!(upstream.held, [HISTORY, "15", HISTORY, "10"]);
    });
}

pub(super) fn get(event_loop: &mut EventLoop<'_>, client: &mut TcpStream, key: &str) -> String {
    let request = words(&["GET", key]);
    client.write_all(request.as_bytes()).unwrap();
    arrived(event_loop, request.len());
    let reply = replies(event_loop, client, 1);
    if reply.starts_with("$-1") || !reply.starts_with('$') || reply.matches("\r\n").count() > 1 {
        return reply;
    }
    reply + &replies(event_loop, client, 1)
}

/// The primary sends some of a change that is more than a turn takes; steps until a part of it is applied.
pub(super) fn tear(event_loop: &mut EventLoop<'_>, upstream: &mut Upstream) {
    upstream.frame(FrameKind::Part, 11, &[put("a", &string("two")), put("b", &string("two"))]);
    for part in 0..9 {
        let (key, value) = (format!("part:{part}"), string(&"x".repeat(1 << 20)));
        upstream.frame(FrameKind::Part, 11, &[put(&key, &value)]);
    }
    let began = Instant::now();
    while event_loop.turns.data.access() != Access::Loading {
        event_loop.step().unwrap();
        assert!(began.elapsed() < PATIENCE, "nothing is applied");
    }
}

#[test]
fn a_promotion_within_a_large_change_keeps_what_was_before_it() {
    with_loop(|event_loop, address| {
        let (mut client, _listener, mut upstream) = follow(event_loop, address);
        tear(event_loop, &mut upstream);
        // It does not acknowledge what it would not keep.
        assert_eq!(event_loop.turns.shared.replication.offset(0), 10);
        executed(event_loop, &mut client, "REPLICAOF NO ONE\r\n", 1);
        assert_eq!(get(event_loop, &mut client, "a"), "$3\r\none\r\n");
        assert_eq!(get(event_loop, &mut client, "b"), "$-1\r\n");
        executed(event_loop, &mut client, "SET b three\r\n", 1);
        assert!(event_loop.turns.data.store().snapshots().is_empty());
    });
}

#[test]
fn so_does_a_promotion_after_a_restart() {
    let store = Store::volatile(&Options::new()).unwrap();
    with_loop_over(store.clone(), |event_loop, address| {
        let (_client, _listener, mut upstream) = follow(event_loop, address);
        tear(event_loop, &mut upstream);
    });
    with_loop_over(store.clone(), |event_loop, address| {
        let [mut client] = clients(event_loop, address);
        assert!(get(event_loop, &mut client, "a").starts_with("-LOADING"));
        executed(event_loop, &mut client, "REPLICAOF NO ONE\r\n", 1);
        assert_eq!(get(event_loop, &mut client, "a"), "$3\r\none\r\n");
    });
    assert!(store.snapshots().is_empty());
}

/// Steps until the replica acknowledges a version.
fn acknowledged(event_loop: &mut EventLoop<'_>, upstream: &mut Upstream) -> String {
    upstream.stream.get_ref().set_nonblocking(true).unwrap();
    let began = Instant::now();
    while let Err(error) = upstream.stream.fill_buf() {
        assert_eq!(error.kind(), std::io::ErrorKind::WouldBlock);
        event_loop.step().unwrap();
        assert!(began.elapsed() < PATIENCE, "nothing is acknowledged");
    }
    upstream.stream.get_ref().set_nonblocking(false).unwrap();
    let words = upstream.words();
    assert_eq!(words[..2], ["REPLCONF", "ACK"]);
    words[2].clone()
}

#[test]
fn a_replica_that_is_started_within_a_large_change_acknowledges_what_was_before_it() {
    for has_reached in [None, Some("20")] {
        let (store, mut kept) = (Store::volatile(&Options::new()).unwrap(), None);
        with_loop_over(store.clone(), |event_loop, address| {
            let (_client, listener, mut upstream) = follow(event_loop, address);
            // Without a change: nothing but the first part of the next one notes it.
            upstream.frame(FrameKind::Whole, 15, &[]);
            reached(event_loop, 15);
            tear(event_loop, &mut upstream);
            if has_reached.is_some() {
                upstream.frame(FrameKind::Incomplete, 20, &[put("c", &string("two"))]);
                reached(event_loop, 20);
            }
            kept = Some(listener);
        });
        with_loop_over(store, |event_loop, _| {
            assert_eq!(event_loop.turns.shared.replication.offset(0), 15);
            let mut upstream = Upstream::accept(event_loop, kept.as_ref().unwrap());
            let held = has_reached.unwrap_or("15");
            assert_eq!(upstream.held, [HISTORY, held]);
            upstream.begin("CONTINUE", (HISTORY, held.parse().unwrap()));
            assert_eq!(acknowledged(event_loop, &mut upstream), "15");
            assert_eq!(event_loop.turns.data.access(), Access::Loading);
            upstream.frame(FrameKind::Whole, 21, &[put("a", &string("two"))]);
            while acknowledged(event_loop, &mut upstream) != "21" {}
        });
    }
}

#[test]
fn a_replica_acknowledges_nothing_while_it_begins_anew() {
    with_loop(|event_loop, address| {
        let (_client, listener, mut upstream) = follow(event_loop, address);
        tear(event_loop, &mut upstream);
        upstream.frame(FrameKind::Whole, 11, &[]);
        reached(event_loop, 11);
        drop(upstream);
        // Another store, whose versions are less.
        let mut upstream = Upstream::accept(event_loop, &listener);
        upstream.begin("FULL", (&"f".repeat(40), 7));
        upstream.frame(FrameKind::Part, 7, &[put("a", &string("two"))]);
        assert_eq!(acknowledged(event_loop, &mut upstream), "0");
        upstream.frame(FrameKind::Whole, 7, &[]);
        while acknowledged(event_loop, &mut upstream) != "7" {}
    });
}

/// Steps a primary and its replica in turns, until something is so of the replica.
fn together(
    primary: &mut EventLoop<'_>,
    replica: &mut EventLoop<'_>,
    is_done: impl Fn(&EventLoop<'_>) -> bool,
) {
    let began = Instant::now();
    while !is_done(replica) {
        primary.step().unwrap();
        replica.step().unwrap();
        assert!(began.elapsed() < PATIENCE, "it does not come");
    }
}

fn is_connected(event_loop: &EventLoop<'_>) -> bool {
    let following = event_loop.turns.shared.replication.following();
    following.is_some_and(|following| following.stage == crate::replication::Stage::Connected)
}

/// Steps until a primary has so many replicas.
pub(super) fn has_replicas(event_loop: &mut EventLoop<'_>, count: usize) {
    let began = Instant::now();
    while event_loop.turns.shared.replication.replicas.iter().count() != count {
        event_loop.step().unwrap();
        assert!(began.elapsed() < PATIENCE, "not {count} replicas");
    }
}

#[test]
fn a_wait_counts_a_replica_that_is_started_within_a_later_change() {
    with_loop(|primary, address| {
        let [mut writer, mut other, mut second] = clients(primary, address);
        let replicaof = Some(("127.0.0.1".to_owned(), address.port()));
        let config = Config { replicaof, ..Config::default() };
        let (store, mut version) = (Store::volatile(&Options::new()).unwrap(), 0);
        let is_torn = |replica: &EventLoop<'_>| replica.turns.data.access() == Access::Loading;
        with_loop_of(store.clone(), config.clone(), |replica, _| {
            together(primary, replica, is_connected);
            let request = b"SET a 1\r\nWAIT 2 0\r\n";
            writer.write_all(request).unwrap();
            arrived(primary, request.len());
            assert_eq!(replies(primary, &mut writer, 1), "+OK\r\n");
            version = primary.turns.data.store().visible();
            let place = |replica: &EventLoop<'_>| replica.turns.shared.replication.offset(0);
            together(primary, replica, |replica| place(replica) >= version);
            // More than a replica takes in a turn, and than the sockets hold.
            let value = "x".repeat(1 << 20);
            let sets = (0..24).map(|number| words(&["SET", &format!("part:{number}"), &value]));
            let request = format!("MULTI\r\n{}EXEC\r\n", sets.collect::<String>());
            executed(primary, &mut other, &request, 1 + 24 + 1 + 24);
            together(primary, replica, is_torn);
        });
        has_replicas(primary, 0);
        with_loop_of(store, config, |replica, _| {
            together(primary, replica, is_connected);
            // Until it is stepped again it holds no more than before.
            assert!(is_torn(replica));
            second.write_all(b"TEMBO.SYNC\r\n").unwrap();
            has_replicas(primary, 2);
            second.write_all(words(&["REPLCONF", "ACK", &version.to_string()]).as_bytes()).unwrap();
            assert_eq!(replies(primary, &mut writer, 1), ":2\r\n");
            writer.write_all(b"WAIT 2 1\r\n").unwrap();
            assert_eq!(replies(primary, &mut writer, 1), ":0\r\n");
        });
    });
}

#[test]
fn a_replica_counts_from_its_first_acknowledgement_on() {
    with_loop(|event_loop, address| {
        let [mut writer] = clients(event_loop, address);
        executed(event_loop, &mut writer, "SET a 1\r\n", 1);
        let first = answered(event_loop, address, &[]);
        has_replicas(event_loop, 0);
        // It may hold a part of a change behind which it goes on.
        let [mut replica] = clients(event_loop, address);
        replica.write_all(words(&["TEMBO.SYNC", &first[1], &first[2]]).as_bytes()).unwrap();
        replies(event_loop, &mut replica, 1);
        assert_eq!(event_loop.turns.shared.replication.replicas.partial_syncs, 1);
        writer.write_all(b"WAIT 1 1\r\n").unwrap();
        assert_eq!(replies(event_loop, &mut writer, 1), ":0\r\n");
        replica.write_all(words(&["REPLCONF", "ACK", "1000000000"]).as_bytes()).unwrap();
        writer.write_all(b"WAIT 1 0\r\n").unwrap();
        assert_eq!(replies(event_loop, &mut writer, 1), ":1\r\n");
    });
}

#[test]
fn a_part_of_a_change_is_not_shown_after_a_start_with_another_primary() {
    let store = Store::volatile(&Options::new()).unwrap();
    with_loop_over(store.clone(), |event_loop, address| {
        let (_client, _listener, mut upstream) = follow(event_loop, address);
        tear(event_loop, &mut upstream);
    });
    // No server listens there.
    let replicaof = Some(("127.0.0.1".to_owned(), 1));
    with_loop_of(store, Config { replicaof, ..Config::default() }, |event_loop, address| {
        let [mut client] = clients(event_loop, address);
        assert!(get(event_loop, &mut client, "a").starts_with("-LOADING"));
        executed(event_loop, &mut client, "REPLICAOF NO ONE\r\n", 1);
        assert_eq!(get(event_loop, &mut client, "a"), "$3\r\none\r\n");
    });
}

/// A server with fewer databases than by default.
fn with_few(store: &Store, test: impl FnOnce(&mut EventLoop<'_>, SocketAddr)) {
    with_loop_of(store.clone(), Config { databases: 4, ..Config::default() }, test);
}

#[test]
fn databases_that_are_added_within_a_large_change_are_there_after_going_back() {
    let store = Store::volatile(&Options::new()).unwrap();
    with_few(&store, |event_loop, address| {
        let (_client, _listener, mut upstream) = follow(event_loop, address);
        tear(event_loop, &mut upstream);
    });
    with_loop_over(store.clone(), |event_loop, address| {
        let [mut client] = clients(event_loop, address);
        let request = b"REPLICAOF NO ONE\r\nSELECT 10\r\nSET b two\r\nRPUSH c x y\r\n";
        client.write_all(request).unwrap();
        assert_eq!(replies(event_loop, &mut client, 4), "+OK\r\n+OK\r\n+OK\r\n:2\r\n");
        assert_eq!(get(event_loop, &mut client, "b"), "$3\r\ntwo\r\n");
        executed(event_loop, &mut client, "SELECT 0\r\n", 1);
        assert_eq!(get(event_loop, &mut client, "a"), "$3\r\none\r\n");
        // Keys of all databases expire in one step.
        executed(event_loop, &mut client, "SET d x PX 1\r\n", 1);
        let began = Instant::now();
        while event_loop.turns.shared.stats.expired_keys == 0 {
            event_loop.step().unwrap();
            assert!(began.elapsed() < PATIENCE, "nothing expires");
        }
    });
    with_loop_over(store.clone(), |event_loop, address| {
        let [mut client] = clients(event_loop, address);
        executed(event_loop, &mut client, "SELECT 10\r\n", 1);
        assert_eq!(get(event_loop, &mut client, "b"), "$3\r\ntwo\r\n");
    });
}

#[test]
fn a_replica_that_goes_back_serves_the_databases_that_were_added_since() {
    let (store, mut kept) = (Store::volatile(&Options::new()).unwrap(), None);
    with_few(&store, |event_loop, address| {
        let (_client, listener, mut upstream) = follow(event_loop, address);
        tear(event_loop, &mut upstream);
        kept = Some(listener);
    });
    let other = "f".repeat(40);
    with_loop_over(store.clone(), |event_loop, address| {
        let listener = kept.as_ref().unwrap();
        let [mut client] = clients(event_loop, address);
        let mut upstream = Upstream::accept(event_loop, listener);
        upstream.begin("CONTINUE", (&other, 5));
        let mut upstream = Upstream::accept(event_loop, listener);
        upstream.begin("CONTINUE", (&other, 5));
        let value = string("two");
        let made = |keyspace| Entry { action: Action::Create, keyspace, key: b"", value: b"" };
        let put = Entry { keyspace: "db10", ..put("b", &value) };
        upstream.frame(FrameKind::Whole, 6, &[made("db10"), made("db40"), put]);
        reached(event_loop, 6);
        executed(event_loop, &mut client, "SELECT 10\r\n", 1);
        assert_eq!(get(event_loop, &mut client, "b"), "$3\r\ntwo\r\n");
    });
}

#[test]
fn functions_of_before_a_synchronisation_are_gone_after_it() {
    with_loop(|event_loop, address| {
        let [mut client] = clients(event_loop, address);
        let code = "#!lua name=own\nredis.register_function('f', function() return 1 end)";
        executed(event_loop, &mut client, &words(&["FUNCTION", "LOAD", code]), 2);
        let (_client, _listener, _upstream) = follow(event_loop, address);
        executed(event_loop, &mut client, "REPLICAOF NO ONE\r\n", 1);
        client.write_all(b"FCALL f 0\r\n").unwrap();
        assert!(replies(event_loop, &mut client, 1).starts_with("-ERR Function not found"));
    });
}

#[test]
fn a_history_that_was_named_within_a_large_change_is_named_again_after_going_back() {
    let (store, mut held) = (Store::volatile(&Options::new()).unwrap(), Vec::new());
    with_loop_over(store.clone(), |event_loop, address| {
        let (mut client, _listener, mut upstream) = follow(event_loop, address);
        tear(event_loop, &mut upstream);
        held = answered(event_loop, address, &[]);
        executed(event_loop, &mut client, "REPLICAOF NO ONE\r\n", 1);
        let then = answered(event_loop, address, &[]);
        assert_eq!((&*then[0], &then[1]), ("+FULL", &held[1]));
        held = then;
    });
    with_loop_over(store, |event_loop, address| {
        let answer = answered(event_loop, address, &[&held[1], &held[2]]);
        assert_eq!((&*answer[0], &answer[2]), ("+CONTINUE", &held[2]));
    });
}

/// What kind of frame ends all that a replica is given that holds nothing.
fn given(event_loop: &mut EventLoop<'_>, address: SocketAddr) -> FrameKind {
    let [mut client] = clients(event_loop, address);
    client.write_all(b"TEMBO.SYNC\r\n").unwrap();
    client.set_nonblocking(true).unwrap();
    let (mut all, mut bytes, began) = (Vec::new(), vec![0; 1 << 20], Instant::now());
    let end = |all: &[u8]| {
        let line = all.iter().position(|byte| *byte == b'\n')?;
        let mut rest = &all[line + 1..];
        loop {
            let header = FrameHeader::decode(*rest.first_chunk()?).unwrap();
            if header.kind != FrameKind::Part {
                return Some(header.kind);
            }
            rest = rest.get(HEADER_SIZE + header.size as usize..)?;
        }
    };
    loop {
        if let Some(kind) = end(&all) {
            return kind;
        }
        event_loop.step().unwrap();
        match client.read(&mut bytes) {
            Ok(count) => all.extend_from_slice(&bytes[..count]),
            Err(error) => assert_eq!(error.kind(), std::io::ErrorKind::WouldBlock),
        }
        assert!(began.elapsed() < PATIENCE, "no end after {} bytes", all.len());
    }
}

#[test]
fn replicas_of_a_replica_that_is_started_within_a_large_change_learn_that_it_is_not_whole() {
    let (store, mut kept) = (Store::volatile(&Options::new()).unwrap(), None);
    with_loop_over(store.clone(), |event_loop, address| {
        let (_client, listener, mut upstream) = follow(event_loop, address);
        assert_eq!(given(event_loop, address), FrameKind::Whole);
        tear(event_loop, &mut upstream);
        assert_eq!(given(event_loop, address), FrameKind::Incomplete);
        kept = Some(listener);
    });
    with_loop_over(store, |event_loop, address| {
        assert_eq!(given(event_loop, address), FrameKind::Incomplete);
        let mut upstream = Upstream::accept(event_loop, kept.as_ref().unwrap());
        upstream.begin("CONTINUE", (HISTORY, 10));
        upstream.frame(FrameKind::Whole, 11, &[put("a", &string("two"))]);
        reached(event_loop, 11);
        assert_eq!(given(event_loop, address), FrameKind::Whole);
    });
}

/// Each turn failed, and no deadline ended it.
#[test]
fn a_failover_that_finds_no_room_leaves_the_primary_as_it_was() {
    with_loop_over(small_store(IndexKind::Nvtree), |event_loop, address| {
        let [mut client, mut replica] = clients(event_loop, address);
        replica.write_all(b"TEMBO.SYNC\r\n").unwrap();
        has_replicas(event_loop, 1);
        fill(event_loop, &mut client, 1000);
        // Nor is there room for what the server notes of its role.
        let store = event_loop.turns.data.store();
        let space = store.keyspace(KEYSPACE).unwrap();
        for size in [68, 50] {
            let put = |number| {
                let (key, value) = (format!("{size}:{number}"), vec![0; size]);
                store.put(space, key.as_bytes(), &value, tembo_kv::Durability::Buffered)
            };
            assert!((0..).map(put).take_while(Result::is_ok).count() < 1_000_000);
        }
        replica.write_all(words(&["REPLCONF", "ACK", "1000000000"]).as_bytes()).unwrap();
        executed(event_loop, &mut client, "FAILOVER\r\n", 1);
        let began = Instant::now();
        while event_loop.turns.shared.replication.is_failing_over() {
            event_loop.step().unwrap();
            assert!(event_loop.turns.shared.replication.following().is_none());
            assert!(began.elapsed() < PATIENCE, "it does not end");
        }
        assert_eq!(get(event_loop, &mut client, "missing"), "$-1\r\n");
        client.write_all(b"DEL key:0\r\n").unwrap();
        assert_eq!(replies(event_loop, &mut client, 1), ":1\r\n");
    });
}

/// The server ended.
#[test]
fn a_primary_whose_failover_was_refused_goes_on_when_that_finds_room() {
    with_loop(|event_loop, address| {
        let [mut client, mut replica] = clients(event_loop, address);
        // No server listens there.
        executed(event_loop, &mut replica, "REPLCONF LISTENING-PORT 1\r\n", 1);
        replica.write_all(b"TEMBO.SYNC\r\n").unwrap();
        has_replicas(event_loop, 1);
        replica.write_all(words(&["REPLCONF", "ACK", "1000000000"]).as_bytes()).unwrap();
        client.write_all(b"FAILOVER\r\n").unwrap();
        let began = Instant::now();
        while event_loop.turns.shared.replication.following().is_none() {
            event_loop.step().unwrap();
            assert!(began.elapsed() < PATIENCE, "it does not follow");
        }
        while event_loop.turns.shared.replication.following().unwrap().lost.is_none() {
            event_loop.turns.data.fault = Some(StoreError::KeyTooLong { size: 1 });
            event_loop.step().unwrap();
            assert!(began.elapsed() < PATIENCE, "it is not refused");
        }
        assert!(event_loop.turns.shared.replication.is_failing_over());
        event_loop.turns.data.fault = None;
        while event_loop.turns.shared.replication.is_failing_over() {
            event_loop.step().unwrap();
            assert!(began.elapsed() < PATIENCE, "it does not end");
        }
        client.write_all(b"SET a 1\r\n").unwrap();
        assert_eq!(replies(event_loop, &mut client, 2), "+OK\r\n+OK\r\n");
    });
}

/// What a store has that holds nothing but a stream `s` with an entry.
fn stream() -> Vec<(Vec<u8>, Vec<u8>)> {
    let store = Store::volatile(&Options::new()).unwrap();
    with_loop_over(store.clone(), |event_loop, address| {
        let [mut client] = clients(event_loop, address);
        executed(event_loop, &mut client, &words(&["XADD", "s", "*", "f", "v"]), 2);
    });
    let (snapshot, space) = (store.snapshot().unwrap(), store.keyspace("db0").unwrap());
    let mut all = Vec::new();
    let range = (std::ops::Bound::Unbounded, std::ops::Bound::Unbounded);
    let mut note = |key: &[u8], value: tembo_kv::Value<'_>| {
        all.push((key.to_vec(), value.to_vec()));
        true
    };
    snapshot.range_with::<[u8]>(space, range, tembo_kv::Direction::Forward, &mut note).unwrap();
    all
}

/// The change is committed; what follows it is given up.
#[test]
fn a_client_that_waits_on_a_replica_sees_a_change_though_the_next_message_is_a_fault() {
    with_loop(|event_loop, address| {
        let (mut client, _listener, mut upstream) = follow(event_loop, address);
        let wait = "XREAD BLOCK 0 STREAMS s $\r\n";
        client.write_all(wait.as_bytes()).unwrap();
        arrived(event_loop, wait.len());
        event_loop.step().unwrap();
        assert_eq!(event_loop.turns.data.waiting.count(), 1);
        let stream = stream();
        let entry = |(key, value)| Entry { action: Action::Put, keyspace: "db0", key, value };
        let pairs = stream.iter().map(|(key, value)| (&key[..], &value[..]));
        upstream.frame(FrameKind::Whole, 11, &pairs.map(entry).collect::<Vec<_>>());
        let nowhere = Entry { keyspace: "nowhere", ..put("b", b"") };
        upstream.frame(FrameKind::Whole, 12, &[nowhere]);
        // Both are read before the first one is applied.
        std::thread::sleep(Duration::from_millis(50));
        assert!(replies(event_loop, &mut client, 1).starts_with('*'));
    });
}

#[test]
fn a_large_change_that_is_whole_needs_no_way_back() {
    with_loop(|event_loop, address| {
        let (mut client, listener, mut upstream) = follow(event_loop, address);
        tear(event_loop, &mut upstream);
        drop(upstream);
        let mut upstream = Upstream::accept(event_loop, &listener);
        assert_eq!(upstream.held, [HISTORY, "10"]);
        upstream.begin("CONTINUE", (HISTORY, 10));
        upstream.frame(FrameKind::Whole, 11, &[put("a", &string("two"))]);
        reached(event_loop, 11);
        assert_eq!(get(event_loop, &mut client, "a"), "$3\r\ntwo\r\n");
        assert!(event_loop.turns.data.store().snapshots().is_empty());
        // A full synchronisation that is not whole is no state that was acknowledged.
        drop(upstream);
        let mut upstream = Upstream::accept(event_loop, &listener);
        upstream.begin("FULL", (HISTORY, 12));
        tear(event_loop, &mut upstream);
        executed(event_loop, &mut client, "REPLICAOF NO ONE\r\n", 1);
        assert_eq!(get(event_loop, &mut client, "a"), "$-1\r\n");
    });
}

#[test]
fn a_torn_replica_does_not_go_on_with_another_history() {
    let other = "f".repeat(40);
    with_loop(|event_loop, address| {
        let (mut client, listener, mut upstream) = follow(event_loop, address);
        tear(event_loop, &mut upstream);
        drop(upstream);
        let mut upstream = Upstream::accept(event_loop, &listener);
        // It never had version 11 of the first one.
        upstream.begin("CONTINUE", (&other, 5));
        upstream.frame(FrameKind::Whole, 6, &[put("c", &string("three"))]);
        let mut upstream = Upstream::accept(event_loop, &listener);
        assert_eq!(upstream.held, [HISTORY, "10"]);
        upstream.begin("CONTINUE", (&other, 5));
        upstream.frame(FrameKind::Whole, 6, &[put("c", &string("three"))]);
        reached(event_loop, 6);
        assert_eq!(get(event_loop, &mut client, "a"), "$3\r\none\r\n");
        assert_eq!(get(event_loop, &mut client, "b"), "$-1\r\n");
        assert_eq!(get(event_loop, &mut client, "c"), "$5\r\nthree\r\n");
    });
}

#[test]
fn a_replica_that_cannot_be_promoted_is_a_replica() {
    with_loop(|event_loop, address| {
        let (mut client, _listener, mut upstream) = follow(event_loop, address);
        tear(event_loop, &mut upstream);
        // It keeps the store from going back.
        let snapshot = event_loop.turns.data.store().snapshot().unwrap();
        let request = "REPLICAOF NO ONE\r\n";
        client.write_all(request.as_bytes()).unwrap();
        arrived(event_loop, request.len());
        assert!(replies(event_loop, &mut client, 1).starts_with("-ERR"));
        let following = event_loop.turns.shared.replication.following();
        assert!(following.is_some_and(|following| following.place().primary.is_some()));
        assert!(get(event_loop, &mut client, "a").starts_with("-LOADING"));
        drop(snapshot);
        executed(event_loop, &mut client, request, 1);
        assert_eq!(get(event_loop, &mut client, "a"), "$3\r\none\r\n");
    });
}

#[test]
fn an_order_of_a_turn_that_has_failed_is_withdrawn() {
    with_loop(|event_loop, address| {
        let (mut client, _listener, _upstream) = follow(event_loop, address);
        event_loop.turns.data.fault = Some(StoreError::KeyTooLong { size: 1 });
        let request = "REPLICAOF NO ONE\r\n";
        client.write_all(request.as_bytes()).unwrap();
        arrived(event_loop, request.len());
        assert!(replies(event_loop, &mut client, 1).starts_with("-ERR"));
        executed(event_loop, &mut client, "PING\r\n", 1);
        assert!(event_loop.turns.shared.replication.following().is_some());
        executed(event_loop, &mut client, request, 1);
        event_loop.turns.data.fault = Some(StoreError::KeyTooLong { size: 1 });
        let request = "REPLICAOF 127.0.0.1 1\r\n";
        client.write_all(request.as_bytes()).unwrap();
        arrived(event_loop, request.len());
        assert!(replies(event_loop, &mut client, 1).starts_with("-ERR"));
        executed(event_loop, &mut client, "SET a 1\r\n", 1);
        assert!(event_loop.turns.shared.replication.following().is_none());
    });
}

/// Without a count of keys there is no message; a null stands for all keys.
const ALL_INVALID: &str = ">2\r\n$10\r\ninvalidate\r\n_\r\n";

#[test]
fn clients_of_a_replica_learn_that_a_database_was_cleared() {
    with_loop(|event_loop, address| {
        let (_client, listener, mut upstream) = follow(event_loop, address);
        let [mut tracking, mut watching] = clients(event_loop, address);
        executed(event_loop, &mut tracking, "HELLO 3\r\nCLIENT TRACKING ON\r\n", 8);
        get(event_loop, &mut tracking, "a");
        let clear = Entry { action: Action::Clear, keyspace: "db0", key: b"", value: b"" };
        upstream.frame(FrameKind::Whole, 11, &[clear]);
        assert_eq!(replies(event_loop, &mut tracking, 4), ALL_INVALID);
        get(event_loop, &mut tracking, "b");
        executed(event_loop, &mut watching, "WATCH b\r\n", 1);
        drop(upstream);
        let mut upstream = Upstream::accept(event_loop, &listener);
        upstream.begin("FULL", (HISTORY, 12));
        upstream.frame(FrameKind::Whole, 12, &[]);
        reached(event_loop, 12);
        assert_eq!(replies(event_loop, &mut tracking, 4), ALL_INVALID);
        watching.write_all(b"MULTI\r\nGET b\r\nEXEC\r\n").unwrap();
        arrived(event_loop, 20);
        assert!(replies(event_loop, &mut watching, 3).ends_with("*-1\r\n"));
    });
}

/// What a replica is answered that holds this.
fn answered(event_loop: &mut EventLoop<'_>, address: SocketAddr, held: &[&str]) -> Vec<String> {
    let [mut client] = clients(event_loop, address);
    client.write_all(words(&[&["TEMBO.SYNC"], held].concat()).as_bytes()).unwrap();
    client.set_nonblocking(true).unwrap();
    let (mut text, mut bytes, began) = (String::new(), [0; 4096], Instant::now());
    // Frames follow behind the line.
    loop {
        if let Some((line, _)) = text.split_once("\r\n") {
            return line.split(' ').map(str::to_owned).collect();
        }
        event_loop.step().unwrap();
        match client.read(&mut bytes) {
            Ok(count) => text += &String::from_utf8_lossy(&bytes[..count]),
            Err(error) => assert_eq!(error.kind(), std::io::ErrorKind::WouldBlock),
        }
        assert!(began.elapsed() < PATIENCE, "no answer but {text:?}");
    }
}

/// What was synced after the copy was made stands for what a crash can lose.
#[test]
fn a_replica_that_holds_what_was_lost_begins_anew() {
    let folder = std::env::temp_dir().join(format!("tembo-lost-{}", std::process::id()));
    let copy = folder.with_extension("copy");
    let copy_all = |from: &std::path::Path, to: &std::path::Path| {
        std::fs::create_dir_all(to).unwrap();
        for file in std::fs::read_dir(from).unwrap().map(|file| file.unwrap()) {
            std::fs::copy(file.path(), to.join(file.file_name())).unwrap();
        }
    };
    std::fs::create_dir_all(&folder).unwrap();
    let (path, options) = (folder.join("a.pool"), Options::new().background(false));
    let store = Store::create(&path, &options).unwrap();
    let (mut kept, mut lost) = (Vec::new(), Vec::new());
    with_loop_over(store.clone(), |event_loop, address| {
        let [mut client] = clients(event_loop, address);
        executed(event_loop, &mut client, "SET a 1\r\n", 1);
        kept = answered(event_loop, address, &[]);
        assert_eq!(kept[0], "+FULL");
        copy_all(&folder, &copy);
        executed(event_loop, &mut client, "SET a 2\r\n", 1);
        let version = event_loop.turns.data.store().visible().to_string();
        lost = vec![kept[1].clone(), version];
    });
    store.close().unwrap();
    let ask = |path: &std::path::Path, held: &[String]| {
        let store = Store::open(path, &options).unwrap();
        let mut answer = Vec::new();
        with_loop_over(store.clone(), |event_loop, address| {
            let held: Vec<&str> = held.iter().map(|word| &**word).collect();
            answer = answered(event_loop, address, &held);
        });
        store.close().unwrap();
        answer
    };
    // Where nothing is lost it goes on, in each later run too.
    let answer = ask(&path, &lost);
    assert_eq!((&*answer[0], &answer[2]), ("+CONTINUE", &lost[1]));
    for held in [&lost[..], &answer[1..]] {
        assert_eq!(ask(&path, held)[0], "+CONTINUE");
    }
    let path = copy.join("a.pool");
    assert_eq!(ask(&path, &lost)[0], "+FULL");
    assert_eq!(ask(&path, &kept[1..])[0], "+CONTINUE");
    [folder, copy].iter().for_each(|folder| std::fs::remove_dir_all(folder).unwrap());
}
