//! Turns stepped by hand: what they cost, and, when they fail, what the clients get and what happens to
//! the server.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::time::Instant;

use rustix::net::sockopt;
use tembo_kv::{Error as StoreError, IndexKind, Options};

use super::*;
use crate::latency::Stage;
use crate::listener::Inherited;
use rustix::net::RecvFlags;

#[path = "event_loop_disk_tests.rs"]
mod disks;
#[path = "event_loop_expiry_tests.rs"]
mod expiries;
#[path = "event_loop_follow_tests.rs"]
mod following;
#[path = "event_loop_join_tests.rs"]
mod joins;
#[path = "event_loop_message_tests.rs"]
mod messages;
#[path = "event_loop_prefetch_tests.rs"]
mod prefetching;
#[path = "event_loop_put_off_tests.rs"]
mod put_off;
#[path = "event_loop_range_tests.rs"]
mod ranges;
#[path = "event_loop_replica_tests.rs"]
mod replicas;
#[path = "event_loop_role_tests.rs"]
mod roles;
#[path = "event_loop_sorted_join_tests.rs"]
mod sorted_joins;
#[path = "event_loop_sort_tests.rs"]
mod sorting;
#[path = "event_loop_store_tests.rs"]
mod storing;

/// Many times what anything here takes on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// Runs `test` with an event loop that is stepped by hand, and its address.
fn with_loop(test: impl FnOnce(&mut EventLoop<'_>, SocketAddr)) {
    with_loop_over(Store::volatile(&Options::new()).unwrap(), test);
}

fn with_loop_over(store: Store, test: impl FnOnce(&mut EventLoop<'_>, SocketAddr)) {
    with_loop_of(store, Config::default(), test);
}

fn with_loop_of(store: Store, config: Config, test: impl FnOnce(&mut EventLoop<'_>, SocketAddr)) {
    let spaces = Spaces::open(&store, config.databases, false).unwrap();
    let inherited = Inherited::default();
    let anywhere = Config { port: 0, ..config.clone() };
    let (listeners, address, _) = Listener::open_all(&anywhere, inherited).unwrap();
    let address = address.unwrap();
    let backups = Backups::new(None).0;
    let shutdown = AtomicBool::new(false);
    let event_loop =
        EventLoop::new(&store, &spaces, &config, (&listeners, &[]), address, backups, &shutdown);
    test(&mut event_loop.unwrap(), address);
}

fn connect(address: SocketAddr) -> TcpStream {
    let client = TcpStream::connect(address).unwrap();
    client.set_read_timeout(Some(PATIENCE)).unwrap();
    client
}

/// So many clients, which the event loop knows.
fn clients<const COUNT: usize>(
    event_loop: &mut EventLoop<'_>,
    address: SocketAddr,
) -> [TcpStream; COUNT] {
    let known = event_loop.turns.clients.count();
    let clients = std::array::from_fn(|_| connect(address));
    let began = Instant::now();
    while event_loop.turns.clients.count() < known + COUNT {
        event_loop.step().unwrap();
        assert!(began.elapsed() < PATIENCE, "not all of {COUNT} clients are known");
    }
    clients
}

/// Waits until what the clients have sent, so many bytes together, is there: so that one turn gets it all.
fn arrived(event_loop: &mut EventLoop<'_>, size: usize) {
    let (mut bytes, began) = (vec![0; size], Instant::now());
    loop {
        let connections = event_loop.turns.clients.iter_mut();
        let counts = connections.map(|(_, one)| {
            rustix::net::recv(&one.socket, &mut bytes[..], RecvFlags::PEEK)
                .map_or(0, |(_, count)| count)
        });
        let count: usize = counts.sum();
        // An acknowledgement of a replica may have come too.
        if count >= size {
            return;
        }
        assert!(began.elapsed() < PATIENCE, "{count} of {size} bytes are there");
        std::thread::yield_now();
    }
}

/// Steps until the client was sent so many line ends; what it was sent.
fn replies(event_loop: &mut EventLoop<'_>, client: &mut TcpStream, line_ends: usize) -> String {
    let (mut text, mut bytes, began) = (String::new(), [0; 4096], Instant::now());
    client.set_nonblocking(true).unwrap();
    while text.matches("\r\n").count() < line_ends {
        event_loop.step().unwrap();
        match client.read(&mut bytes) {
            Ok(0) => panic!("disconnected after {text:?}"),
            Ok(count) => text += &String::from_utf8_lossy(&bytes[..count]),
            Err(error) => assert_eq!(error.kind(), std::io::ErrorKind::WouldBlock),
        }
        assert!(began.elapsed() < PATIENCE, "no more than {text:?}");
    }
    client.set_nonblocking(false).unwrap();
    text
}

/// All that the client is sent until it is disconnected.
fn last_words(client: &mut TcpStream) -> String {
    let mut text = String::new();
    client.read_to_string(&mut text).unwrap();
    text
}

#[test]
fn pipelined_writes_cost_one_commit() {
    with_loop(|event_loop, address| {
        let [mut client] = clients(event_loop, address);
        let sets = (0..500).map(|number| words(&["SET", &format!("key:{number}"), "v"]));
        let request = sets.collect::<String>();
        for _ in 0..2 {
            client.write_all(request.as_bytes()).unwrap();
            arrived(event_loop, request.len());
            let store = event_loop.turns.data.store();
            let mut changes = store.changes(store.visible()).unwrap();
            let turns = event_loop.turns.shared.stats.turns;
            event_loop.step().unwrap();
            assert_eq!(event_loop.turns.shared.stats.turns, turns + 1);
            let committed = std::iter::from_fn(|| changes.next().unwrap());
            // The visible version does not show it: the store's own work may have a version too.
            let versions: Vec<u64> = committed.map(|change| change.version).collect();
            assert_eq!(versions, vec![versions[0]; 500], "500 writes are one commit");
            let mut answer = vec![0; 5 * 500];
            client.read_exact(&mut answer).unwrap();
            assert_eq!(answer, b"+OK\r\n".repeat(500));
        }
    });
}

/// What of a failed turn is in the store is not asked: each server that follows begins anew.
#[test]
fn a_failed_turn_with_effects_ends_the_stream_of_servers_of_redis() {
    with_loop(|event_loop, address| {
        let [mut writer, mut replica] = clients(event_loop, address);
        followed(event_loop, &mut replica);
        let set = b"SET a 1\r\n";
        writer.write_all(set).unwrap();
        arrived(event_loop, set.len());
        event_loop.turns.data.fault = Some(StoreError::KeyTooLong { size: 1 });
        let text = replies(event_loop, &mut writer, 1);
        assert!(text.starts_with("-ERR"), "{text}");
        assert!(!event_loop.turns.shared.propagation.is_on);
        let mut sent = Vec::new();
        replica.read_to_end(&mut sent).unwrap();
        assert!(!sent.windows(3).any(|word| word == b"SET"));
    });
}

/// Steps until a long request was taken and replied to with so many line ends.
fn executed(event_loop: &mut EventLoop<'_>, client: &mut TcpStream, request: &str, ends: usize) {
    let (mut left, began) = (request.as_bytes(), Instant::now());
    client.set_nonblocking(true).unwrap();
    while !left.is_empty() {
        match client.write(left) {
            Ok(count) => left = &left[count..],
            Err(error) => assert_eq!(error.kind(), std::io::ErrorKind::WouldBlock),
        }
        event_loop.step().unwrap();
        assert!(began.elapsed() < PATIENCE, "{} bytes are left", left.len());
    }
    replies(event_loop, client, ends);
}

/// Steps until a server of Redis follows.
fn followed(event_loop: &mut EventLoop<'_>, replica: &mut TcpStream) {
    replica.write_all(b"PSYNC ? -1\r\n").unwrap();
    let began = Instant::now();
    while !event_loop.turns.shared.propagation.is_on {
        event_loop.step().unwrap();
        assert!(began.elapsed() < PATIENCE, "it does not follow");
    }
}

#[test]
fn a_replica_that_does_not_take_its_replies_keeps_no_processor_busy() {
    with_loop(|event_loop, address| {
        let [mut writer, mut replica] = clients(event_loop, address);
        let value = "x".repeat(900_000);
        executed(event_loop, &mut writer, &words(&["SET", "a", &value]), 1);
        let waits = |event_loop: &mut EventLoop<'_>| {
            event_loop.turns.clients.iter_mut().any(|(_, one)| one.waiting() > 0)
        };
        let began = Instant::now();
        while !waits(event_loop) {
            replica.write_all(b"GET a\r\n").unwrap();
            arrived(event_loop, 7);
            event_loop.step().unwrap();
        }
        replica.write_all(b"PSYNC ? -1\r\n").unwrap();
        arrived(event_loop, 12);
        event_loop.step().unwrap();
        assert!(event_loop.turns.shared.replication.has_candidates());
        while event_loop.timeout() == Duration::ZERO {
            event_loop.step().unwrap();
            assert!(began.elapsed() < PATIENCE, "it never waits");
        }
        assert!(!event_loop.turns.shared.propagation.is_on);
        replica.set_nonblocking(true).unwrap();
        while !event_loop.turns.shared.propagation.is_on {
            let _ = replica.read(&mut vec![0; 1 << 20]);
            event_loop.step().unwrap();
            assert!(began.elapsed() < PATIENCE, "it does not follow");
        }
    });
}

#[test]
fn a_failed_commit_is_reported_to_all_its_clients_and_leaves_nothing() {
    with_loop(|event_loop, address| {
        let [mut writer, mut selector] = clients(event_loop, address);
        let written = b"SET a 1\r\nSET b EX\r\nGET a\r\n";
        let selected = b"SELECT 3\r\nSET c 1\r\n";
        writer.write_all(written).unwrap();
        selector.write_all(selected).unwrap();
        arrived(event_loop, written.len() + selected.len());
        event_loop.turns.data.fault = Some(StoreError::KeyTooLong { size: 1 });
        let text = replies(event_loop, &mut writer, 3);
        assert_eq!(text.matches("-ERR a key of 1 bytes").count(), 3, "{text}");
        assert_eq!(text.lines().count(), 3, "{text}");
        // Its database is not the one that SELECT acknowledged: it is disconnected, and no other client.
        let text = last_words(&mut selector);
        assert_eq!(text.matches("-ERR a key of 1 bytes").count(), 2, "{text}");
        assert_eq!(text.lines().count(), 2, "{text}");
        assert_eq!(event_loop.turns.clients.count(), 1);
        writer.write_all(b"EXISTS a b\r\nSET a 2\r\nGET a\r\n").unwrap();
        assert_eq!(replies(event_loop, &mut writer, 4), ":0\r\n+OK\r\n$1\r\n2\r\n");
    });
}

#[test]
fn a_poisoned_store_is_reported_and_stops_the_server() {
    with_loop(|event_loop, address| {
        let [mut client] = clients(event_loop, address);
        let request = b"SET a 1\r\nPING\r\n";
        client.write_all(request).unwrap();
        arrived(event_loop, request.len());
        event_loop.turns.data.fault = Some(StoreError::Poisoned);
        assert!(matches!(event_loop.step(), Err(Error::Poisoned)));
        // As the server does when it stops.
        event_loop.turns.clients = Default::default();
        let text = last_words(&mut client);
        assert_eq!(text.matches("-MISCONF ").count(), 2, "{text}");
        assert!(!text.contains("OK") && !text.contains("PONG"));
    });
}

#[test]
fn a_message_of_a_failed_turn_is_not_sent() {
    with_loop(|event_loop, address| {
        let [mut writer, mut subscriber] = clients(event_loop, address);
        subscriber.write_all(b"SUBSCRIBE news\r\n").unwrap();
        replies(event_loop, &mut subscriber, 6);
        let request = b"SET a 1\r\nPUBLISH news lost\r\n";
        writer.write_all(request).unwrap();
        arrived(event_loop, request.len());
        event_loop.turns.data.fault = Some(StoreError::KeyTooLong { size: 1 });
        assert_eq!(replies(event_loop, &mut writer, 2).matches("-ERR ").count(), 2);
        writer.write_all(b"PUBLISH news kept\r\n").unwrap();
        assert_eq!(replies(event_loop, &mut writer, 1), ":1\r\n");
        let text = replies(event_loop, &mut subscriber, 7);
        assert_eq!(text, "*3\r\n$7\r\nmessage\r\n$4\r\nnews\r\n$4\r\nkept\r\n");
    });
}

#[test]
fn a_failure_within_exec_answers_exec_alone() {
    with_loop(|event_loop, address| {
        let [mut client] = clients(event_loop, address);
        client.write_all(b"MULTI\r\nSET a 1\r\n").unwrap();
        assert_eq!(replies(event_loop, &mut client, 2), "+OK\r\n+QUEUED\r\n");
        client.write_all(b"EXEC\r\n").unwrap();
        // An idle step commits nothing, but takes the fault: EXEC must be there.
        arrived(event_loop, 6);
        event_loop.turns.data.fault = Some(StoreError::KeyTooLong { size: 1 });
        let text = replies(event_loop, &mut client, 1);
        assert!(text.starts_with("-ERR a key of 1 bytes"), "{text}");
        client.write_all(b"EXISTS a\r\n").unwrap();
        assert_eq!(replies(event_loop, &mut client, 1), ":0\r\n");
    });
}

/// A store of 4 MiB that does not grow, and is maintained by the event loop alone: a thread could give space back between
/// two commands.
fn small_store(index: IndexKind) -> Store {
    let options = Options::new().index(index).size(4 << 20).size_max(4 << 20).background(false);
    Store::volatile(&options).unwrap()
}

/// Sets keys with an expiry until the pool is full.
fn fill(event_loop: &mut EventLoop<'_>, client: &mut TcpStream, size: usize) {
    let value = "x".repeat(size);
    let mut count = 0;
    loop {
        let set = |number: usize| words(&["SET", &format!("key:{number}"), &value, "EX", "10000"]);
        let request: String = (count..count + 10).map(set).collect();
        client.write_all(request.as_bytes()).unwrap();
        let text = replies(event_loop, client, 10);
        if text.contains("-OOM ") {
            return;
        }
        count += 10;
    }
}

#[test]
fn a_write_without_room_fails_alone() {
    for index in IndexKind::ORDERED {
        with_loop_over(small_store(index), |event_loop, address| {
            let [mut writer, mut reader, mut selector, mut queuer] = clients(event_loop, address);
            fill(event_loop, &mut writer, 5000);
            let large = "y".repeat(5000);
            let names = |prefix: &str| (0..8).map(|i| format!("{prefix}:{i}")).collect::<Vec<_>>();
            let mset = |first: &str, names: &[String]| {
                let mut mset = vec!["MSET", first, "small"];
                names.iter().for_each(|name| mset.extend([name.as_str(), &large]));
                words(&mset)
            };
            // A command that fails need not mean that there is no room for one that needs less beside its values.
            for number in 0.. {
                let more = mset("more", &names(&format!("big-{number}")));
                writer.write_all(more.as_bytes()).unwrap();
                if replies(event_loop, &mut writer, 1).starts_with("-OOM ") {
                    break;
                }
            }
            let mset = mset("key:0", &names("big"));
            for round in 0..10 {
                let requests = [
                    words(&["STRLEN", "key:0"]) + &mset + &words(&["STRLEN", "key:0"]),
                    words(&["EXISTS", "key:0"]) + &words(&["PING"]),
                    words(&["SELECT", "1"]) + &words(&["SET", "a", &round.to_string()]),
                    words(&["MULTI"]) + &words(&["GET", "none"]) + &words(&["EXEC"]),
                ];
                let mut all = [&mut writer, &mut reader, &mut selector, &mut queuer];
                for (client, request) in all.iter_mut().zip(&requests) {
                    client.write_all(request.as_bytes()).unwrap();
                }
                arrived(event_loop, requests.iter().map(String::len).sum());
                let text = replies(event_loop, &mut writer, 3);
                let (first, rest) = text.split_once("\r\n").unwrap();
                assert!(first == ":5000" && rest.starts_with("-OOM "), "{text}");
                assert!(rest.ends_with("\r\n:5000\r\n"), "{text}");
                assert_eq!(replies(event_loop, &mut reader, 2), ":1\r\n+PONG\r\n");
                let text = replies(event_loop, &mut selector, 2);
                assert!(text == "+OK\r\n+OK\r\n" || text.starts_with("+OK\r\n-OOM "), "{text}");
                let text = replies(event_loop, &mut queuer, 4);
                assert_eq!(text, "+OK\r\n+QUEUED\r\n*1\r\n$-1\r\n");
            }
            assert_eq!(event_loop.turns.shared.stats.failed_turns, 0);
            writer.write_all(words(&["EXISTS", "big:0", "big:1"]).as_bytes()).unwrap();
            assert_eq!(replies(event_loop, &mut writer, 1), ":0\r\n");
            event_loop.turns.data.commit().unwrap();
            event_loop.turns.data.store().check().unwrap();
        });
    }
}

#[test]
fn a_full_pool_is_emptied_whole_or_not_at_all() {
    for (index, size) in
        IndexKind::ORDERED.into_iter().flat_map(|index| [(index, 1000), (index, 5000)])
    {
        for command in ["FLUSHALL", "FLUSHDB"] {
            with_loop_over(small_store(index), |event_loop, address| {
                let [mut client] = clients(event_loop, address);
                fill(event_loop, &mut client, size);
                fill(event_loop, &mut client, 100);
                let mut call = |command: &str| {
                    client.write_all(format!("{command}\r\n").as_bytes()).unwrap();
                    replies(event_loop, &mut client, 1)
                };
                let before = call("DBSIZE");
                let reply = call(command);
                let expected = if reply == "+OK\r\n" { ":0\r\n" } else { &before };
                assert_eq!(call("DBSIZE"), expected, "{index:?} {size} {reply}");
                let lifetime = call("TTL key:0");
                assert_eq!(lifetime == ":-2\r\n", reply == "+OK\r\n", "{lifetime} {reply}");
            });
        }
    }
}

#[test]
fn prefetching_changes_no_reply() {
    with_loop(|event_loop, address| {
        let mut clients = clients::<3>(event_loop, address);
        let (mut expected, mut size) = (Vec::new(), 0);
        for (db, client) in clients.iter_mut().enumerate() {
            let mut held = std::collections::HashMap::new();
            let (mut request, mut answer) = (format!("SELECT {db}\r\n"), "+OK\r\n".to_owned());
            // Sets, gets and removals of few keys, so that what was prefetched is often outdated, and of
            // new keys, so that nodes are replaced meanwhile.
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
            size += request.len();
            expected.push(answer);
        }
        // All at once, so that the commands of several clients are prefetched together.
        arrived(event_loop, size);
        for (client, expected) in clients.iter_mut().zip(expected) {
            let line_ends = expected.matches("\r\n").count();
            assert_eq!(replies(event_loop, client, line_ends), expected);
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

#[test]
fn a_silent_client_is_asked_whether_it_is_there() {
    with_loop(|event_loop, address| {
        let [_first] = clients(event_loop, address);
        event_loop.turns.shared.settings.keepalive_s = 30;
        let [_second] = clients(event_loop, address);
        let connections = event_loop.turns.clients.iter();
        let idle = connections.map(|connection| {
            assert!(sockopt::socket_keepalive(&connection.socket).unwrap());
            sockopt::tcp_keepidle(&connection.socket).unwrap().as_secs()
        });
        assert_eq!(idle.collect::<Vec<_>>(), [300, 30]);
    });
}

/// A monitor that asked after a start held all clients until everything was counted.
#[test]
fn counts_are_asked_for_without_counting() {
    const KEYS: u64 = 30_000;
    let folder = std::env::temp_dir().join(format!("tembo-server-counts-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let (pool, options) = (folder.join("a.pool"), Options::new().background(false));
    let fill = |store: &Store, keys: std::ops::Range<u64>| {
        let space = store.keyspace("db0").unwrap();
        let mut tx = store.exclusive().unwrap();
        for key in keys {
            tx.put(space, &key.to_be_bytes(), &[0, b'v']).unwrap();
        }
        tx.commit(tembo_kv::Durability::Strict).unwrap();
    };
    let store = Store::create(&pool, &options).unwrap();
    fill(&store, 0..KEYS);
    store.close().unwrap();
    let store = Store::open(&pool, &options).unwrap();
    fill(&store, KEYS..KEYS + 10);
    // Not closed: as after a kill.
    drop(store);
    let store = Store::open(&pool, &options).unwrap();
    with_loop_over(store, |event_loop, address| {
        // Before the first turn, since this store's background work is done in turns.
        let counted = event_loop.turns.data.count(0).unwrap();
        assert_eq!(counted, tembo_kv::KeyCount { keys: KEYS, is_exact: false });
        let mut client = connect(address);
        while event_loop.turns.data.store().report().recovering {
            event_loop.step().unwrap();
        }
        client.write_all(b"INFO keyspace\r\nDBSIZE\r\n").unwrap();
        let text = replies(event_loop, &mut client, 5);
        assert!(text.contains("db0:keys=30010,") && text.contains(":30010\r\n"), "{text}");
        assert!(text.contains("tembo_counts_exact:1"), "{text}");
    });
    std::fs::remove_dir_all(&folder).unwrap();
}

/// The cost of an expiry rose with the number of those before it: each search passed all that had been removed.
#[test]
fn a_search_for_expired_keys_begins_behind_those_that_were_removed() {
    const KEYS: usize = 5000;
    let store = Store::volatile(&Options::new().index(IndexKind::Nvtree).background(false));
    with_loop_over(store.unwrap(), |event_loop, _| {
        let data = &mut event_loop.turns.data;
        let at = |wall_ms: u64| Clock { wall_us: wall_ms * 1000, steady_ms: 0 };
        data.set_clock(at(1000));
        for number in 0..KEYS {
            let due_ms = 2000 + number as u64 / 10;
            data.put(0, format!("key:{number:05}").as_bytes(), b"v", Some(due_ms)).unwrap();
        }
        data.set_clock(at(1_000_000));
        let mut rounds = 0;
        let half = |rounds: &mut usize| {
            *rounds += 1;
            *rounds <= KEYS / 2 / 32
        };
        let expired = data.expire(|| half(&mut rounds)).unwrap();
        assert_eq!(expired as usize, KEYS / 2 / 32 * 32);
        data.commit().unwrap();
        // Laid where nothing is searched any more, past the index that knows of it.
        let hidden = [&1500u64.to_be_bytes()[..], b"hidden"].concat();
        let store = data.store();
        let space = store.keyspace("db0.expiry").unwrap();
        store.put(space, &hidden, b"", tembo_kv::Durability::Buffered).unwrap();
        // What is put there by the index is found.
        assert_eq!(data.expire(|| true).unwrap() as usize, KEYS - KEYS / 2 / 32 * 32);
        data.commit().unwrap();
        assert!(store.get(space, &hidden).unwrap().is_some(), "it was passed once more");
        data.set_clock(at(1000));
        data.put(0, b"early", b"v", Some(1200)).unwrap();
        data.set_clock(at(1_000_000));
        assert_eq!(data.expire(|| true).unwrap(), 1);
        data.commit().unwrap();
        assert_eq!(store.range::<[u8]>(space, ..).unwrap().count(), 0);
    });
}

/// A turn with commands spends little time on expiry, one without more, and none a time without bound.
#[test]
fn expiry_has_its_time_in_a_turn() {
    const KEYS: u64 = 4000;
    for (is_idle, rounds) in [(false, 3), (true, 10)] {
        with_loop(|event_loop, _| {
            let turns = &mut event_loop.turns;
            turns.data.set_clock(Clock { wall_us: 1_000_000, steady_ms: 0 });
            for number in 0..KEYS {
                turns.data.put(0, &number.to_be_bytes(), b"v", Some(2000 + number)).unwrap();
            }
            turns.data.set_clock(Clock { wall_us: 1_000_000_000, steady_ms: 0 });
            let (began, looks) = (Instant::now(), std::cell::Cell::new(0));
            // A tenth of a millisecond passes between two looks.
            let now = || {
                looks.set(looks.get() + 1);
                began + Duration::from_micros(100 * looks.get())
            };
            expire(&mut turns.data, &mut turns.shared, is_idle, now).unwrap();
            assert_eq!(turns.shared.stats.expired_keys, rounds * 32);
            // With a clock that stands still the number is bounded.
            expire(&mut turns.data, &mut turns.shared, is_idle, || began).unwrap();
            assert_eq!(turns.shared.stats.expired_keys, (rounds + 32) * 32);
            turns.data.commit().unwrap();
        });
    }
}

#[test]
fn the_disk_s_part_of_a_turn_has_a_time_of_its_own() {
    with_loop(|event_loop, address| {
        let [mut client] = clients(event_loop, address);
        for _ in 0..3 {
            client.write_all(b"SET a 1\r\n").unwrap();
            replies(event_loop, &mut client, 1);
            client.write_all(b"GET a\r\n").unwrap();
            replies(event_loop, &mut client, 2);
        }
        let latency = &mut event_loop.turns.shared.latency;
        let counts = Stage::ALL.map(|stage| latency.of(stage).unwrap().len());
        let [turns, expiries, executions, locks, commits, syncs] = counts;
        // Three commits; what lies in memory is not synced. The clock of the machine decides how many turns
        // the loop takes, and how often it looks for what expires.
        assert_eq!((commits, syncs), (3, 0));
        assert!(turns >= 6 && executions >= 6 && locks >= 3 && expiries >= 1, "{counts:?}");
        latency.reset(Stage::Commit);
        let took = Duration::from_micros(100);
        latency.record(Stage::Commit, took);
        latency.record(Stage::Commit, took);
        client.write_all(b"LATENCY HISTOGRAM tembo.commit tembo.sync nosuch\r\n").unwrap();
        let text = replies(event_loop, &mut client, 10);
        let expected =
            "*2\r\n$12\r\ntembo.commit\r\n*4\r\n$5\r\ncalls\r\n:2\r\n$14\r\nhistogram_usec\r\n";
        assert_eq!(text, format!("{expected}*2\r\n:128\r\n:2\r\n"));
        client.write_all(b"INFO latencystats\r\n").unwrap();
        let text = replies(event_loop, &mut client, 8);
        assert!(text.contains("tembo_latency_usec_commit:p50=100,p99=100,p99.9=100,max=100\r\n"));
        client.write_all(b"LATENCY RESET tembo.commit tembo.sync\r\n").unwrap();
        assert_eq!(replies(event_loop, &mut client, 1), ":1\r\n");
    });
}

/// KEYS of five million held all clients for eight seconds.
#[test]
fn keys_of_a_large_database_are_searched_beside_other_clients() {
    const KEYS: usize = 5000;
    with_loop(|event_loop, address| {
        let [mut searcher, mut other] = clients(event_loop, address);
        for number in 0..KEYS {
            let key = format!("key:{number:05}");
            event_loop.turns.data.put(0, key.as_bytes(), b"v", None).unwrap();
        }
        // What comes before it in its own turn is seen, what others do meanwhile is not; what comes behind it waits.
        searcher.write_all(b"SET key:own v\r\nKEYS key:*\r\nPING\r\n").unwrap();
        assert_eq!(replies(event_loop, &mut searcher, 1), "+OK\r\n");
        let mut turns = 0;
        while event_loop.turns.clients.iter_mut().any(|(_, one)| one.session.put_off.is_some()) {
            other.write_all(format!("SET key:other:{turns} v\r\n").as_bytes()).unwrap();
            assert_eq!(replies(event_loop, &mut other, 1), "+OK\r\n");
            turns += 1;
        }
        assert!(turns >= KEYS / crate::key_search::VISITED_AT_ONCE - 2, "{turns}");
        let text = replies(event_loop, &mut searcher, 2 + 2 * (KEYS + 1));
        let first = format!("*{}\r\n$9\r\nkey:00000\r\n", KEYS + 1);
        assert!(text.starts_with(&first), "{}", &text[..60]);
        assert!(text.ends_with("$7\r\nkey:own\r\n+PONG\r\n") && !text.contains("other"));
        // With a prefix it ends early; in a transaction, and where no reply is wanted, it is not put off.
        searcher.write_all(b"MULTI\r\nKEYS key:0001*\r\nKEYS *\r\nEXEC\r\n").unwrap();
        let text = replies(event_loop, &mut searcher, 4 + 1 + 2 * 10 + 1 + 2 * (KEYS + 1 + turns));
        assert!(text.starts_with("+OK\r\n+QUEUED\r\n+QUEUED\r\n*2\r\n*10\r\n"), "{}", &text[..60]);
        // One whose turn fails has an error for its reply, and no other.
        searcher.write_all(b"KEYS *\r\n").unwrap();
        arrived(event_loop, 8);
        event_loop.turns.data.fault = Some(StoreError::TooManyAborts);
        let text = replies(event_loop, &mut searcher, 1);
        assert!(text.starts_with("-ERR"), "{text}");
        searcher.write_all(b"PING\r\n").unwrap();
        assert_eq!(replies(event_loop, &mut searcher, 1), "+PONG\r\n");
    });
}

#[test]
fn scripts_that_do_not_end_are_ended_when_the_server_is_to_stop() {
    for script in [
        "while true do end",
        "while true do pcall(function() while true do end end) end",
        "while true do redis.pcall('GET', 'other') end",
        "coroutine.wrap(function() while true do end end)()",
        "while true do pcall(function() while true do
            coroutine.wrap(function() while true do end end)() end end) end",
    ] {
        with_loop(|event_loop, address| {
            let [mut client] = clients(event_loop, address);
            let script = format!("redis.call('SET', 'key', 'value') {script}");
            let request = format!(
                "*3\r\n$4\r\nEVAL\r\n${}\r\n{script}\r\n$1\r\n0\r\nGET key\r\n",
                script.len()
            );
            client.write_all(request.as_bytes()).unwrap();
            arrived(event_loop, request.len());
            let shutdown = event_loop.shutdown;
            std::thread::scope(|scope| {
                // Most likely the script runs by then. If it does not, it ends all the same.
                scope.spawn(|| {
                    std::thread::sleep(Duration::from_millis(50));
                    shutdown.store(true, Ordering::Relaxed);
                });
                event_loop.step().unwrap();
            });
            event_loop.run().unwrap();
            let expected = "-ERR Script ended because the server stops...\r\n$5\r\nvalue\r\n";
            let mut reply = vec![0; expected.len()];
            client.read_exact(&mut reply).unwrap();
            assert_eq!(String::from_utf8_lossy(&reply), expected, "{script}");
        });
    }
}

/// Has a turn execute what `first` sends, then a script that does not end, which `other` ends in a thread of its own.
fn beside_a_script(
    event_loop: &mut EventLoop<'_>,
    (first, request): (&mut TcpStream, &str),
    (client, script): (&mut TcpStream, &str),
    other: impl FnOnce(&mut TcpStream) + Send,
) {
    event_loop.turns.shared.settings.busy_reply_ms = 1;
    first.write_all(request.as_bytes()).unwrap();
    arrived(event_loop, request.len());
    let script = words(&["EVAL", script, "0"]);
    client.write_all(script.as_bytes()).unwrap();
    arrived(event_loop, request.len() + script.len());
    std::thread::scope(|scope| {
        scope.spawn(|| other(first));
        event_loop.step().unwrap();
    });
}

/// Reads so many bytes.
fn read(client: &mut TcpStream, size: usize) -> String {
    let mut bytes = vec![0; size];
    client.read_exact(&mut bytes).unwrap();
    String::from_utf8(bytes).unwrap()
}

#[test]
fn replies_to_others_of_its_turn_do_not_wait_for_a_script_that_does_not_end() {
    for (request, expected) in [("SET key value\r\n", "+OK\r\n"), ("GET key\r\n", "$-1\r\n")] {
        with_loop(|event_loop, address| {
            let [mut first, mut client] = clients(event_loop, address);
            let script = (&mut client, "while true do end");
            beside_a_script(event_loop, (&mut first, request), script, |first| {
                assert_eq!(read(first, expected.len()), expected);
                first.write_all(b"PING\r\nSCRIPT KILL\r\n").unwrap();
                let refusal = "-BUSY Redis is busy running a script. You can only call SCRIPT KILL or \
                    SHUTDOWN NOSAVE.\r\n+OK\r\n";
                assert_eq!(read(first, refusal.len()), refusal);
            });
            let killed = replies(event_loop, &mut client, 1);
            assert!(killed.starts_with("-ERR Script killed by user with SCRIPT KILL..."));
            first.write_all(b"PING\r\n").unwrap();
            assert_eq!(replies(event_loop, &mut first, 1), "+PONG\r\n");
        });
    }
}

#[test]
fn a_client_that_wants_no_replies_gets_none_beside_a_script() {
    with_loop(|event_loop, address| {
        let [mut first, mut client] = clients(event_loop, address);
        let script = (&mut client, "while true do end");
        beside_a_script(event_loop, (&mut first, "CLIENT REPLY OFF\r\n"), script, |first| {
            // The script runs.
            let mut other = connect(address);
            other.write_all(b"PING\r\n").unwrap();
            assert_eq!(read(&mut other, 5), "-BUSY");
            first.write_all(b"PING\r\nSCRIPT KILL\r\n").unwrap();
        });
        assert!(replies(event_loop, &mut client, 1).starts_with("-ERR Script killed"));
        first.write_all(b"CLIENT REPLY ON\r\nPING\r\n").unwrap();
        assert_eq!(replies(event_loop, &mut first, 2), "+OK\r\n+PONG\r\n");
    });
}

#[test]
fn what_a_script_has_published_waits_for_its_commit() {
    with_loop(|event_loop, address| {
        let [mut subscriber, mut client] = clients(event_loop, address);
        subscriber.write_all(b"SUBSCRIBE channel\r\n").unwrap();
        replies(event_loop, &mut subscriber, 6);
        let script = "redis.call('SET', 'key', 'value') redis.call('PUBLISH', 'channel', 'text')
            while true do end";
        beside_a_script(event_loop, (&mut subscriber, "PING\r\n"), (&mut client, script), |_| {
            let mut other = connect(address);
            other.write_all(b"PING\r\nSCRIPT KILL\r\nSHUTDOWN NOSAVE\r\n").unwrap();
            let text = last_words(&mut other);
            assert!(text.starts_with("-BUSY") && text.contains("-UNKILLABLE"), "{text}");
        });
        // What the script has written is lost.
        assert!(replies(event_loop, &mut subscriber, 1).starts_with('-'));
    });
}
