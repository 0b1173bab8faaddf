//! Turns stepped by hand, over a disk that loses power or is full, and over a pool that is full.

use std::path::Path;
use std::sync::Arc;

use tembo_kv::pmem::{Counters, DomainRequest, RegionOptions, SyncPolicy};
use tembo_kv::{Geometry, PoolOptions};
use tembo_sim::{Chooser, Failure, Fault, Rest, SimDisk};

use super::*;
use crate::rdb::{self, Writer};
use crate::replication::format::{KEYSPACE, PLACE_KEY, Place};

const POOL: &str = "/disk/pool";

fn options(disk: &SimDisk) -> Options {
    let region = RegionOptions {
        domain: DomainRequest::Logged,
        sync: SyncPolicy::Always,
        size_max: 64 << 20,
        log_size: 16 << 20,
        disk: Arc::new(disk.clone()),
        background: false,
        ..RegionOptions::default()
    };
    let geometry = Geometry::default();
    let pool = PoolOptions { size: 32 << 20, region, geometry, ..PoolOptions::default() };
    Options::new().pool(pool).background(false)
}

pub(super) fn with_disk(test: impl FnOnce(&mut EventLoop<'_>, SocketAddr, &SimDisk)) {
    let disk = SimDisk::default();
    let store = Store::create(Path::new(POOL), &options(&disk)).unwrap();
    with_loop_over(store, |event_loop, address| test(event_loop, address, &disk));
}

/// Whether a database would have the key if the power were lost.
pub(super) fn is_durable(disk: &SimDisk, key: &str) -> bool {
    let disk = disk.snapshot().after_power_loss(Chooser::new(Rest::Old));
    let store = Store::open(Path::new(POOL), &options(&disk)).unwrap();
    let space = store.keyspace("db0").unwrap();
    store.get(space, key.as_bytes()).unwrap().is_some()
}

#[test]
fn replies_that_leave_before_a_long_script_show_what_is_durable() {
    with_disk(|event_loop, address, disk| {
        let [mut first, mut client] = clients(event_loop, address);
        let script = (&mut client, "while true do end");
        // WAIT commits early, and what it has committed is synced later.
        let request = "SET key value\r\nWAIT 0 0\r\n";
        beside_a_script(event_loop, (&mut first, request), script, |first| {
            assert_eq!(read(first, 9), "+OK\r\n:0\r\n");
            assert!(is_durable(disk, "key"));
            first.write_all(b"SCRIPT KILL\r\n").unwrap();
        });
        assert!(replies(event_loop, &mut client, 1).starts_with("-ERR Script killed"));
    });
}

/// The log cannot be written, not even into what it keeps for this case.
pub(super) fn fill(disk: &SimDisk) {
    let steps = vec!["log.write", "log.write_blocks"];
    disk.fail(Fault { failure: Failure::Full, steps, from: 1, count: u64::MAX });
}

/// Sends a request that is executed and whose reply is held.
pub(super) fn held(event_loop: &mut EventLoop<'_>, client: &mut TcpStream, request: &str) {
    client.write_all(request.as_bytes()).unwrap();
    arrived(event_loop, request.len());
    (0..5).for_each(|_| event_loop.step().unwrap());
    client.set_nonblocking(true).unwrap();
    let mut reply = [0; 300];
    let read = client.read(&mut reply).map_err(|error| error.kind());
    let reply = reply.escape_ascii();
    assert_eq!(read, Err(std::io::ErrorKind::WouldBlock), "{request}: {reply}");
    client.set_nonblocking(false).unwrap();
}

pub(super) fn answer(
    event_loop: &mut EventLoop<'_>,
    client: &mut TcpStream,
    request: &str,
) -> String {
    client.write_all(request.as_bytes()).unwrap();
    replies(event_loop, client, 1)
}

/// The server ended.
#[test]
fn a_disk_that_is_full_at_the_sync_holds_what_is_not_durable_and_refuses_writes() {
    with_disk(|event_loop, address, disk| {
        let [mut writer, mut reader, mut other] = clients(event_loop, address);
        fill(disk);
        held(event_loop, &mut writer, &words(&["SET", "key", &"v".repeat(100_000)]));
        assert!(!is_durable(disk, "key"));
        held(event_loop, &mut reader, "STRLEN key\r\n");
        held(event_loop, &mut reader, "SET key 2\r\n");
        // What shows nothing of the data is replied to.
        assert_eq!(answer(event_loop, &mut other, "PING\r\n"), "+PONG\r\n");
        assert!(answer(event_loop, &mut other, "SET other 1\r\n").starts_with("-MISCONF"));
        assert_eq!(answer(event_loop, &mut other, "MULTI\r\n"), "+OK\r\n");
        assert!(answer(event_loop, &mut other, "SET other 1\r\n").starts_with("-MISCONF"));
        assert!(answer(event_loop, &mut other, "EXEC\r\n").starts_with("-EXECABORT"));
        let unfollowed = answer(event_loop, &mut other, "REPLICAOF 127.0.0.1 1\r\n");
        assert!(unfollowed.starts_with("-MISCONF"));
        held(event_loop, &mut other, "EVAL \"return redis.pcall('SET','other','1')\" 0\r\n");
        disk.heal();
        assert_eq!(replies(event_loop, &mut writer, 1), "+OK\r\n");
        assert!(is_durable(disk, "key"));
        let text = replies(event_loop, &mut reader, 2);
        assert!(text.starts_with(":100000\r\n-MISCONF"), "{text}");
        assert!(replies(event_loop, &mut other, 1).starts_with("-MISCONF"));
        assert_eq!(answer(event_loop, &mut other, "SET other 1\r\n"), "+OK\r\n");
        assert!(is_durable(disk, "other"));
    });
}

/// What a client is sent whose wait ends shows what others have removed.
#[test]
fn a_disk_that_is_full_holds_what_ends_a_wait() {
    with_disk(|event_loop, address, disk| {
        let [mut writer, mut reader, mut popper] = clients(event_loop, address);
        let request = "XGROUP CREATE s g $ MKSTREAM\r\nRPUSH q v\r\n";
        executed(event_loop, &mut writer, request, 2);
        let request = "XREADGROUP GROUP g c BLOCK 0 STREAMS s >\r\n";
        reader.write_all(request.as_bytes()).unwrap();
        arrived(event_loop, request.len());
        event_loop.step().unwrap();
        fill(disk);
        let (removal, wait) = ("DEL s q\r\n", "BLPOP q 0.001\r\n");
        writer.write_all(removal.as_bytes()).unwrap();
        arrived(event_loop, removal.len());
        popper.write_all(wait.as_bytes()).unwrap();
        arrived(event_loop, removal.len() + wait.len());
        event_loop.step().unwrap();
        assert!(event_loop.turns.shared.is_disk_full());
        std::thread::sleep(Duration::from_millis(2));
        for client in [&mut writer, &mut reader, &mut popper] {
            held(event_loop, client, "");
        }
        assert_eq!(event_loop.turns.data.waiting.count(), 0);
        disk.heal();
        assert_eq!(replies(event_loop, &mut writer, 1), ":2\r\n");
        let text = replies(event_loop, &mut reader, 1);
        assert_eq!(text, "-UNBLOCKED the stream key no longer exists\r\n");
        assert_eq!(replies(event_loop, &mut popper, 1), "*-1\r\n");
    });
}

/// The event loop kept a processor busy until there was room.
#[test]
fn a_client_whose_replies_are_held_and_that_has_gone_is_disconnected() {
    with_disk(|event_loop, address, disk| {
        let [mut writer, mut reader] = clients(event_loop, address);
        executed(event_loop, &mut writer, &words(&["SET", "large", &"x".repeat(1_200_000)]), 1);
        fill(disk);
        held(event_loop, &mut writer, "SET key value\r\n");
        held(event_loop, &mut reader, "GET large\r\nGET large\r\n");
        sockopt::set_socket_linger(&reader, Some(Duration::ZERO)).unwrap();
        drop(reader);
        let began = Instant::now();
        while event_loop.turns.clients.count() > 1 {
            event_loop.step().unwrap();
            assert!(began.elapsed() < PATIENCE, "it is still there");
        }
        disk.heal();
        assert_eq!(replies(event_loop, &mut writer, 1), "+OK\r\n");
    });
}

/// Steps until a sync has failed, as each does from here on.
fn fail_for_good(event_loop: &mut EventLoop<'_>, disk: &SimDisk) {
    let steps = vec!["log.write", "log.write_blocks", "log.sync"];
    disk.fail(Fault { failure: Failure::Error, steps, from: 1, count: u64::MAX });
    let began = Instant::now();
    while event_loop.step().is_ok() {
        assert!(began.elapsed() < PATIENCE, "it goes on");
    }
}

#[test]
fn replies_that_were_held_are_errors_if_the_sync_fails_for_good() {
    with_disk(|event_loop, address, disk| {
        let [mut writer] = clients(event_loop, address);
        fill(disk);
        held(event_loop, &mut writer, "SET key value\r\nGET key\r\n");
        held(event_loop, &mut writer, "GET key\r\n");
        fail_for_good(event_loop, disk);
        let text = read(&mut writer, 3 * (crate::failure::POISONED.len() + 3));
        assert_eq!(text.matches("-MISCONF Tembo could not").count(), 3, "{text}");
    });
}

#[test]
fn a_command_put_off_that_a_failed_turn_has_ended_is_one_of_those_whose_replies_are_lost() {
    with_disk(|event_loop, address, disk| {
        let [mut writer, mut searcher] = clients(event_loop, address);
        for number in 0..5000 {
            let key = format!("key:{number:05}");
            event_loop.turns.data.put(0, key.as_bytes(), b"v", None).unwrap();
        }
        event_loop.step().unwrap();
        fill(disk);
        held(event_loop, &mut writer, "SET key value\r\n");
        let request = "GET key\r\nKEYS *\r\n";
        searcher.write_all(request.as_bytes()).unwrap();
        arrived(event_loop, request.len());
        // KEYS commits early.
        (event_loop.turns.data.fault_after, event_loop.turns.data.fault) =
            (1, Some(StoreError::KeyTooLong { size: 1 }));
        event_loop.step().unwrap();
        assert!(event_loop.turns.data.fault.is_none());
        fail_for_good(event_loop, disk);
        let text = read(&mut searcher, 2 * (crate::failure::POISONED.len() + 3));
        assert_eq!(text.matches("-MISCONF Tembo could not").count(), 2, "{text}");
    });
}

/// What the server is from then on is durable with the reply.
#[test]
fn a_disk_without_room_for_a_change_of_role_holds_the_reply() {
    with_disk(|event_loop, address, disk| {
        let [mut client] = clients(event_loop, address);
        let place = |disk: &SimDisk| {
            let disk = disk.snapshot().after_power_loss(Chooser::new(Rest::Old));
            let store = Store::open(Path::new(POOL), &options(&disk)).unwrap();
            let space = store.keyspace(KEYSPACE).unwrap();
            let place = store.get(space, PLACE_KEY).unwrap().unwrap();
            Place::decode(&place).ok().unwrap().primary
        };
        // It has been a replica before.
        for request in ["REPLICAOF 127.0.0.1 2\r\n", "REPLICAOF NO ONE\r\n"] {
            assert_eq!(answer(event_loop, &mut client, request), "+OK\r\n");
        }
        for (request, primary) in [
            ("REPLICAOF 127.0.0.1 1\r\n", Some(("127.0.0.1".to_owned(), 1))),
            ("REPLICAOF NO ONE\r\n", None),
        ] {
            fill(disk);
            held(event_loop, &mut client, request);
            disk.heal();
            assert_eq!(replies(event_loop, &mut client, 1), "+OK\r\n", "{request}");
            assert_eq!(place(disk), primary, "{request}");
            assert_eq!(
                event_loop.turns.shared.replication.following().is_some(),
                primary.is_some()
            );
        }
        assert_eq!(answer(event_loop, &mut client, "SET key 1\r\n"), "+OK\r\n");
        assert!(is_durable(disk, "key"));
    });
}

/// The first ones were stored, and there at the next start.
#[test]
fn libraries_that_do_not_all_find_room_are_not_stored() {
    let mut writer = Writer::default();
    for (name, size) in [("a", 0), ("b", 6 << 20)] {
        let (call, rest) = ("redis.register_function", "x".repeat(size));
        let code = format!("#!lua name={name}\n{call}('{name}', function() end) --{rest}");
        writer.function_library(code.as_bytes());
    }
    let mut dump = writer.into_bytes();
    rdb::seal(&mut dump);
    let header = format!("*3\r\n$8\r\nFUNCTION\r\n$7\r\nRESTORE\r\n${}\r\n", dump.len());
    let request = [header.as_bytes(), &dump, b"\r\n"].concat();
    with_loop_over(small_store(IndexKind::Nvtree), |event_loop, address| {
        let [mut client] = clients(event_loop, address);
        client.set_nonblocking(true).unwrap();
        let (mut left, began) = (&request[..], Instant::now());
        while !left.is_empty() {
            match client.write(left) {
                Ok(count) => left = &left[count..],
                Err(error) => assert_eq!(error.kind(), std::io::ErrorKind::WouldBlock),
            }
            event_loop.step().unwrap();
            assert!(began.elapsed() < PATIENCE, "{} bytes are left", left.len());
        }
        let text = replies(event_loop, &mut client, 1);
        assert!(text.starts_with("-OOM"), "{text}");
        event_loop.turns.shared.scripts.libraries.forget();
        assert_eq!(answer(event_loop, &mut client, "FUNCTION LIST\r\n"), "*0\r\n");
    });
}

/// As `with_disk`, of a store that knows how much room there is.
fn with_room(test: impl FnOnce(&mut EventLoop<'_>, SocketAddr)) {
    with_disk(|event_loop, address, _| {
        recover(event_loop);
        test(event_loop, address);
    });
}

fn recover(event_loop: &EventLoop<'_>) {
    let store = event_loop.turns.data.store();
    while store.maintain(64).unwrap() == tembo_kv::Progress::More {}
}

/// Bytes that were written to the log so far, and to the pool file.
fn written(event_loop: &EventLoop<'_>) -> (u64, u64) {
    let log = event_loop.turns.data.store().report().log;
    (log.bytes_written, log.pool_bytes_written)
}

#[test]
fn strings_that_are_set_together_are_written_once() {
    with_room(|event_loop, address| {
        let mut clients: [_; 4] = clients(event_loop, address);
        let value = |key: usize| format!("{key:04}").repeat(256);
        let set = |key: usize| words(&["SET", &format!("key:{key:08}"), &value(key)]);
        // What the pool begins with is not of interest.
        clients[0].write_all(words(&["SET", "first", "value"]).as_bytes()).unwrap();
        assert_eq!(replies(event_loop, &mut clients[0], 1), "+OK\r\n");
        let (before, mut sent) = (written(event_loop), 0);
        for (number, client) in clients.iter_mut().enumerate() {
            let requests: String = (number * 50..number * 50 + 50).map(set).collect();
            client.write_all(requests.as_bytes()).unwrap();
            sent += requests.len();
        }
        arrived(event_loop, sent);
        for client in &mut clients {
            assert_eq!(replies(event_loop, client, 50), "+OK\r\n".repeat(50));
        }
        let after = written(event_loop);
        assert!(after.1 - before.1 >= 150 << 10, "{before:?} {after:?}");
        assert!(after.0 - before.0 <= 128 << 10, "{before:?} {after:?}");
        for key in 0..200 {
            let (value, client) = (value(key), &mut clients[key % 4]);
            client.write_all(words(&["GET", &format!("key:{key:08}")]).as_bytes()).unwrap();
            assert_eq!(replies(event_loop, client, 2), format!("$1024\r\n{value}\r\n"));
        }
    });
}

#[test]
fn strings_that_are_expected_are_written_before_they_are_set() {
    with_room(|event_loop, _| {
        let value = "v".repeat(1024);
        let keys: Vec<String> = (0..100).map(|key| format!("key:{key:08}")).collect();
        let strings: Vec<(&[u8], &[u8])> =
            keys.iter().map(|key| (key.as_bytes(), value.as_bytes())).collect();
        let before = Counters::thread();
        event_loop.turns.data.expect_strings(2, &strings);
        let expected = Counters::thread();
        assert!((expected - before).bytes >= 100 << 10);
        for (key, string) in strings {
            event_loop.turns.data.put(2, key, string, None).unwrap();
        }
        assert!((Counters::thread() - expected).bytes < 50 << 10);
        let found = event_loop.turns.data.get(2, keys[7].as_bytes()).unwrap().unwrap();
        assert_eq!(found.payload.to_vec(), value.as_bytes());
    });
}

/// Of the strings that likely are set some are not, or in another database, or later.
#[test]
fn strings_that_are_expected_and_not_set_leave_nothing_behind() {
    with_room(|event_loop, address| {
        let [mut client, mut other] = clients(event_loop, address);
        let set = |key: usize| words(&["SET", &format!("k{}", key % 40), &"v".repeat(900 + key)]);
        let of = |keys: std::ops::Range<usize>| keys.map(set).collect::<String>();
        let (ok, queued) = ("+OK\r\n", "+QUEUED\r\n");
        let first = of(0..30) + "MULTI\r\n" + &of(30..40) + "DISCARD\r\nSELECT 3\r\n" + &of(40..80);
        let expected = ok.repeat(31) + &queued.repeat(10) + &ok.repeat(42);
        let second = of(80..110) + "MULTI\r\n" + &of(110..140) + "EXEC\r\n";
        let replied = format!("{}{}*30\r\n{}", ok.repeat(31), queued.repeat(30), ok.repeat(30));
        client.write_all(first.as_bytes()).unwrap();
        other.write_all(second.as_bytes()).unwrap();
        arrived(event_loop, first.len() + second.len());
        assert_eq!(replies(event_loop, &mut client, 83), expected);
        assert_eq!(replies(event_loop, &mut other, 92), replied);
        // The last of each key, in the two databases.
        let last = |end: usize, key: usize| (0..end).rev().find(|at| at % 40 == key).unwrap();
        for (client, end) in [(&mut client, 80), (&mut other, 140)] {
            for key in 0..40 {
                client.write_all(words(&["STRLEN", &format!("k{key}")]).as_bytes()).unwrap();
                let len = 900 + last(end, key);
                assert_eq!(replies(event_loop, client, 1), format!(":{len}\r\n"));
            }
        }
        event_loop.turns.data.commit().unwrap();
        recover(event_loop);
        assert_eq!(event_loop.turns.data.store().check().unwrap().leaked, 0);
    });
}
