//! Replicas: what they hold, how they go on after cuts, restarts and failovers, and what clients see of them.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use tembo_kv::{Options, Store};
use tembo_server::Config;

use crate::client::{Client, Random, Running, encode, wait_until};

/// A line of INFO replication, or of another section.
fn info(client: &mut Client, section: &str, field: &str) -> String {
    let text = client.call(&format!("INFO {section}"));
    let prefix = format!("{field}:");
    let line = text.lines().find_map(|line| line.strip_prefix(&prefix));
    line.unwrap_or_default().to_owned()
}

fn number(client: &mut Client, section: &str, field: &str) -> u64 {
    info(client, section, field).parse().unwrap_or(0)
}

fn follow(replica: &mut Client, primary: SocketAddr) {
    let command = format!("REPLICAOF {} {}", primary.ip(), primary.port());
    assert_eq!(replica.call(&command), "+OK\r\n");
}

fn linked(replica: &mut Client) {
    let status = || info(replica, "replication", "master_link_status");
    wait_until("the link", status, |status| status == "up");
}

/// Waits until so many replicas hold what the primary holds.
fn settled(primary: &mut Client, replicas: usize) {
    let reached = primary.call(&format!("WAIT {replicas} 60000"));
    assert_eq!(reached, format!(":{replicas}\r\n"));
}

type Contents = BTreeMap<(String, Vec<u8>), Vec<u8>>;

/// Everything that is replicated.
fn contents(store: &Store) -> Contents {
    let snapshot = store.snapshot().unwrap();
    let mut all = Contents::new();
    for (name, space) in snapshot.keyspaces().unwrap() {
        for entry in snapshot.range::<[u8]>(space, ..).unwrap().filter(|_| name != "replication") {
            let (key, value) = entry.unwrap();
            all.insert((name.clone(), key), value);
        }
    }
    all
}

fn assert_same(primary: &Store, replica: &Store) {
    let (wanted, found) = (contents(primary), contents(replica));
    let differs = wanted.iter().find(|(key, value)| found.get(*key) != Some(value));
    assert!(differs.is_none(), "lacks {:?}", differs.map(|(key, _)| key));
    let extra = found.keys().find(|key| !wanted.contains_key(*key));
    assert!(extra.is_none(), "has {extra:?}");
}

/// A random change of a few keys of every kind.
fn change(random: &mut Random, client: &mut Client) {
    let key = format!("k{}", random.below(60));
    let value = "v".repeat(1 + random.below(300));
    let number = random.below(40);
    let command = match random.below(18) {
        0..=3 => format!("SET {key} {value}"),
        4 => format!("SET {key} {value} PX 86400000"),
        5 => format!("DEL {key}"),
        6 => format!("RPUSH l{key} {value} {number}"),
        7 => format!("LPOP l{key}"),
        8..=9 => format!("HSET h{key} f{number} {value}"),
        10 => format!("HDEL h{key} f{number}"),
        11..=12 => format!("ZADD z{key} {number} m{number}"),
        13 => format!("SADD s{key} {number} {value}"),
        14 => format!("DEL h{key} z{key} l{key} s{key}"),
        15 => format!("RENAME {key} k{number}"),
        16 => format!("EXPIRE {key} 1000"),
        _ if random.below(30) == 0 => "FLUSHDB".to_owned(),
        _ => format!("SETRANGE {key} {number} {value}"),
    };
    client.call(&command);
}

/// What takes several turns: a hash and a string that are large, and a removal of many elements.
fn fill(client: &mut Client) {
    for part in 0..40 {
        let mut words = vec![b"HSET".to_vec(), b"large".to_vec()];
        for field in 0..250 {
            words.extend([format!("f{part}.{field}").into_bytes(), vec![b'x'; 400]]);
        }
        let words: Vec<&[u8]> = words.iter().map(|word| &word[..]).collect();
        client.call_args(&words);
    }
    client.call_args(&[b"SET", b"string", &vec![7; 11 << 20]]);
}

#[test]
fn a_replica_holds_what_its_primary_holds() {
    let (primary, replica) = (Running::start(), Running::start());
    let (mut to_primary, mut to_replica) = (primary.client(), replica.client());
    let mut random = Random(0x5eed_0001);
    to_replica.call("SET own value");
    fill(&mut to_primary);
    (0..300).for_each(|_| change(&mut random, &mut to_primary));
    follow(&mut to_replica, primary.address);
    // While the snapshot is given.
    (0..300).for_each(|_| change(&mut random, &mut to_primary));
    linked(&mut to_replica);
    to_primary.call("COPY large other");
    to_primary.call("DEL large string");
    (0..300).for_each(|_| change(&mut random, &mut to_primary));
    fill(&mut to_primary);
    settled(&mut to_primary, 1);
    assert_eq!(to_replica.call("GET own"), "$-1\r\n");
    assert_eq!(to_replica.call("HLEN large"), ":10000\r\n");
    assert_eq!(number(&mut to_primary, "stats", "sync_full"), 1);
    let offset = number(&mut to_primary, "replication", "master_repl_offset");
    let reached = || number(&mut to_replica, "replication", "slave_repl_offset");
    wait_until("the offset", reached, |reached| *reached >= offset);
    let ((primary, _), (replica, _)) = (primary.stop(), replica.stop());
    assert_same(&primary, &replica);
    replica.check().unwrap();
}

#[test]
fn a_replica_is_read_only_and_hides_what_has_expired() {
    let (primary, replica) = (Running::start(), Running::start());
    let (mut to_primary, mut to_replica) = (primary.client(), replica.client());
    follow(&mut to_replica, primary.address);
    linked(&mut to_replica);
    let refused = "-READONLY You can't write against a read only replica.\r\n";
    assert_eq!(to_replica.call("SET a 1"), refused);
    to_replica.call("MULTI");
    assert_eq!(to_replica.call("SET a 1"), refused);
    assert!(to_replica.call("EXEC").starts_with("-EXECABORT"));
    to_primary.call("SET key value");
    to_primary.call("SET due value PX 1");
    to_primary.call("SADD set member");
    settled(&mut to_primary, 1);
    assert_eq!(to_replica.call("GET key"), "$5\r\nvalue\r\n");
    assert_eq!(to_replica.call("SISMEMBER set member"), ":1\r\n");
    wait_until("the expiry", || to_replica.call("GET due"), |reply| reply == "$-1\r\n");
    assert!(to_replica.call("ROLE").contains("slave"));
    let role = to_primary.call("ROLE");
    assert!(
        role.contains("master") && role.contains(&replica.address.port().to_string()),
        "{role}"
    );
    let same = format!("REPLICAOF 127.0.0.1 {}", primary.address.port());
    assert_eq!(to_replica.call(&same), "+OK Already connected to specified master\r\n");
    let clients = to_primary.call("CLIENT LIST TYPE replica");
    assert!(clients.contains("flags=S"), "{clients}");
    assert_eq!(to_replica.call("REPLICAOF NO ONE"), "+OK\r\n");
    assert_eq!(to_replica.call("SET a 1"), "+OK\r\n");
    assert_eq!(info(&mut to_replica, "replication", "role"), "master");
    let connected = || info(&mut to_primary, "replication", "connected_slaves");
    wait_until("the end of the replica", connected, |count| count == "0");
    assert_eq!(to_replica.call("REPLICAOF localhost x"), "-ERR Invalid master port\r\n");
}

#[test]
fn a_replica_can_be_the_primary_of_others() {
    let servers: Vec<Running> = (0..4).map(|_| Running::start()).collect();
    let mut clients: Vec<Client> = servers.iter().map(Running::client).collect();
    let mut random = Random(0x5eed_0002);
    fill(&mut clients[0]);
    for below in 1..4 {
        follow(&mut clients[below], servers[below - 1].address);
    }
    (0..200).for_each(|_| change(&mut random, &mut clients[0]));
    clients[0].call("SET last 1");
    let last = || clients[3].call("GET last");
    wait_until("the last change", last, |reply| reply == "$1\r\n1\r\n");
    for _ in 0..20 {
        (0..20).for_each(|_| change(&mut random, &mut clients[0]));
        let end = random.next().to_string();
        clients[0].call(&format!("SET last {end}"));
        wait_until("the last change", || clients[3].call("GET last"), |reply| reply.contains(&end));
    }
    let stores: Vec<Store> = servers.into_iter().map(|server| server.stop().0).collect();
    stores[1..].iter().for_each(|store| assert_same(&stores[0], store));
}

#[test]
fn wait_counts_the_replicas_that_hold_it_durably() {
    let (primary, replica) = (Running::start(), Running::start());
    let (mut to_primary, mut to_replica) = (primary.client(), replica.client());
    assert_eq!(to_primary.call("WAIT 0 0"), ":0\r\n");
    assert_eq!(to_primary.call("WAIT 1 10"), ":0\r\n");
    assert!(to_primary.call("WAIT 1 -1").starts_with("-ERR timeout is negative"));
    follow(&mut to_replica, primary.address);
    for round in 0..50 {
        to_primary.call(&format!("SET key {round}"));
        settled(&mut to_primary, 1);
        assert!(to_replica.call("GET key").contains(&round.to_string()));
    }
    assert_eq!(to_primary.call("WAIT 2 10"), ":1\r\n");
    assert_eq!(to_primary.call("WAITAOF 0 1 60000"), "*2\r\n:0\r\n:1\r\n");
    assert!(to_primary.call("WAITAOF 1 1 0").starts_with("-ERR WAITAOF cannot be used"));
    to_primary.call("MULTI");
    to_primary.call("WAIT 1 0");
    assert_eq!(to_primary.call("EXEC"), "*1\r\n:1\r\n");
    let refused = to_replica.call("WAIT 1 0");
    let expected = "-ERR WAIT cannot be used with replica instances. Please also note that since Redis 4.0 if a replica \
                    is configured to be writable (which is not the default) writes to replicas are just local and are \
                    not propagated.\r\n";
    assert_eq!(refused, expected);
    assert!(
        to_replica.call("WAITAOF 0 1 0").starts_with("-ERR WAITAOF cannot be used with replica")
    );
    assert!(to_replica.call("INFO replication").contains("\r\nreplica_announced:1\r\n"));
    to_replica.call("CONFIG SET replica-announced no");
    assert!(to_replica.call("INFO replication").contains("\r\nreplica_announced:0\r\n"));
    // A client that waits without end is let go by CLIENT UNBLOCK, and its next wait is for a key.
    let mut waiting = primary.client();
    let id = waiting.call("CLIENT ID");
    waiting.send(&encode(&[b"WAIT", b"3", b"0"]));
    let blocked = || number(&mut to_primary, "clients", "blocked_clients");
    wait_until("the wait", blocked, |count| *count == 1);
    assert_eq!(to_primary.call(&format!("CLIENT UNBLOCK {}", &id[1..id.len() - 2])), ":1\r\n");
    assert_eq!(waiting.reply(), ":1\r\n");
}

#[test]
fn a_client_that_waits_at_a_replica_is_served_by_what_the_primary_does() {
    let (primary, replica) = (Running::start(), Running::start());
    let (mut to_primary, mut to_replica) = (primary.client(), replica.client());
    follow(&mut to_replica, primary.address);
    linked(&mut to_replica);
    let mut waiting = replica.client();
    let changes = ["XADD s 1-1 f v", "FLUSHALL;XADD s 2-1 f v", "SET s 1;DEL s;XADD s 3-1 f v"];
    for (nth, commands) in changes.into_iter().enumerate() {
        waiting.send(&encode(&[b"XREAD", b"BLOCK", b"0", b"STREAMS", b"s", b"$"]));
        let blocked = || number(&mut to_replica, "clients", "blocked_clients");
        wait_until("the wait", blocked, |count| *count == 1);
        commands.split(';').for_each(|command| drop(to_primary.call(command)));
        let entry = format!("*2\r\n$3\r\n{}-1\r\n*2\r\n$1\r\nf\r\n$1\r\nv\r\n", nth + 1);
        assert_eq!(waiting.reply(), format!("*1\r\n*2\r\n$1\r\ns\r\n*1\r\n{entry}"));
        settled(&mut to_primary, 1);
    }
    // What takes elements is refused before it waits.
    assert!(waiting.call("BLPOP l 0").starts_with("-READONLY"));
}

/// A store in a file, in a folder that vanishes.
struct Folder(std::path::PathBuf);

impl Folder {
    fn new(name: &str) -> Folder {
        let path = std::env::temp_dir().join(format!("tembo-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        Folder(path)
    }

    fn open(&self, name: &str) -> Store {
        Store::open_or_create(&self.0.join(name), &Options::new()).unwrap()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

#[test]
fn a_replica_goes_on_after_a_restart_and_remembers_what_it_is() {
    let folder = Folder::new("replica-restart");
    let primary = Running::start();
    let mut to_primary = primary.client();
    let mut random = Random(0x5eed_0003);
    let mut store = folder.open("replica");
    for round in 0..5 {
        let replica = Running::over(store, Config::default());
        let mut to_replica = replica.client();
        if round == 0 {
            follow(&mut to_replica, primary.address);
        }
        (0..50).for_each(|_| change(&mut random, &mut to_primary));
        linked(&mut to_replica);
        (0..50).for_each(|_| change(&mut random, &mut to_primary));
        if round % 2 == 0 {
            settled(&mut to_primary, 1);
        }
        drop(to_replica);
        store = replica.stop().0;
        // The connection has ended, and what happens now is retained.
        let connected = || info(&mut to_primary, "replication", "connected_slaves");
        wait_until("the end of the replica", connected, |count| count == "0");
        (0..50).for_each(|_| change(&mut random, &mut to_primary));
    }
    assert_eq!(number(&mut to_primary, "stats", "sync_full"), 1);
    assert_eq!(number(&mut to_primary, "stats", "sync_partial_ok"), 4);
    let replica = Running::over(store, Config::default());
    settled(&mut to_primary, 1);
    assert_same(&primary.stop().0, &replica.stop().0);
}

#[test]
fn a_server_follows_what_it_was_started_with_unless_a_command_has_changed_that() {
    let primary = Running::start();
    let asked = ("127.0.0.1".to_owned(), primary.address.port());
    let with = || Config { replicaof: Some(asked.clone()), ..Config::default() };
    let role = |server: &Running| info(&mut server.client(), "replication", "role");
    let replica = Running::with(with());
    assert_eq!(role(&replica), "slave");
    let replica = Running::over(replica.stop().0, with());
    assert_eq!(role(&replica), "slave");
    replica.client().call("REPLICAOF NO ONE");
    let replica = Running::over(replica.stop().0, with());
    assert_eq!(role(&replica), "master");
    let replica = Running::over(replica.stop().0, Config::default());
    assert_eq!(role(&replica), "master");
    let replica = Running::over(replica.stop().0, with());
    assert_eq!(role(&replica), "slave");
}

#[test]
fn after_a_failover_the_other_replica_goes_on_with_the_promoted_one() {
    let servers: Vec<Running> = (0..3).map(|_| Running::start()).collect();
    let mut clients: Vec<Client> = servers.iter().map(Running::client).collect();
    let mut random = Random(0x5eed_0004);
    for replica in [1, 2] {
        follow(&mut clients[replica], servers[0].address);
    }
    for replica in [1, 2] {
        linked(&mut clients[replica]);
    }
    (0..200).for_each(|_| change(&mut random, &mut clients[0]));
    settled(&mut clients[0], 2);
    // What Sentinel sends.
    for command in ["MULTI", "SLAVEOF NO ONE", "CONFIG REWRITE", "CLIENT KILL TYPE normal"] {
        clients[1].call(command);
    }
    assert!(clients[1].call("EXEC").starts_with("*3\r\n+OK\r\n"));
    clients[1].call("SET promoted 1");
    follow(&mut clients[2], servers[1].address);
    linked(&mut clients[2]);
    (0..100).for_each(|_| change(&mut random, &mut clients[1]));
    settled(&mut clients[1], 1);
    assert_eq!(number(&mut clients[1], "stats", "sync_full"), 0);
    assert_eq!(number(&mut clients[1], "stats", "sync_partial_ok"), 1);
    // The old primary has seen nothing that the new one has not.
    follow(&mut clients[0], servers[1].address);
    linked(&mut clients[0]);
    (0..100).for_each(|_| change(&mut random, &mut clients[1]));
    settled(&mut clients[1], 2);
    let stores: Vec<Store> = servers.into_iter().map(|server| server.stop().0).collect();
    assert_same(&stores[1], &stores[0]);
    assert_same(&stores[1], &stores[2]);
}

#[test]
fn a_replica_that_does_not_read_costs_no_memory_and_no_time() {
    let primary = Running::start();
    let mut client = primary.client();
    client.call("SET before 1");
    let mut stuck = primary.client();
    stuck.send(&encode(&[b"TEMBO.SYNC"]));
    let value = vec![b'v'; 1 << 20];
    for round in 0..200 {
        assert_eq!(
            client.call_args(&[b"SET", format!("k{}", round % 4).as_bytes(), &value]),
            "+OK\r\n"
        );
    }
    let listed = client.call("CLIENT LIST TYPE replica");
    assert!(listed.contains("omem=0 "), "{listed}");
    // The server ends although the socket is full.
    assert!(primary.stop().1.is_ok());
}

/// Passes bytes on, and cuts connections after a random number of them.
struct Cutter {
    address: SocketAddr,
    stop: Arc<AtomicBool>,
    cuts: Arc<AtomicU64>,
    thread: Option<JoinHandle<()>>,
}

impl Cutter {
    fn start(to: SocketAddr, seed: u64) -> Cutter {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let (stop, cuts) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
        let (stopped, counted) = (stop.clone(), cuts.clone());
        let thread = std::thread::spawn(move || {
            let mut random = Random(seed);
            let mut pipes = Vec::new();
            while let Ok((inner, _)) = listener.accept() {
                if stopped.load(Ordering::SeqCst) {
                    break;
                }
                let Ok(outer) = TcpStream::connect(to) else { continue };
                let most = 200 + random.below(400_000);
                counted.fetch_add(1, Ordering::SeqCst);
                let (from, back) = (outer.try_clone().unwrap(), inner.try_clone().unwrap());
                pipes.push(std::thread::spawn(move || pipe(inner, outer, usize::MAX)));
                pipes.push(std::thread::spawn(move || pipe(from, back, most)));
            }
            pipes.into_iter().for_each(|pipe| pipe.join().unwrap());
        });
        Cutter { address, stop, cuts, thread: Some(thread) }
    }
}

impl Drop for Cutter {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::SeqCst);
        let _ = TcpStream::connect(self.address);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn pipe(mut from: TcpStream, mut to: TcpStream, most: usize) {
    let (mut passed, mut bytes) = (0, [0; 4096]);
    while let Ok(count @ 1..) = from.read(&mut bytes) {
        let count = count.min(most - passed);
        passed += count;
        if to.write_all(&bytes[..count]).is_err() || passed == most {
            break;
        }
    }
    let _ = from.shutdown(Shutdown::Both);
    let _ = to.shutdown(Shutdown::Both);
}

#[test]
fn a_link_that_is_cut_anywhere_goes_on_where_it_was() {
    let (primary, replica) = (Running::start(), Running::start());
    let (mut to_primary, mut to_replica) = (primary.client(), replica.client());
    let mut random = Random(0x5eed_0005);
    (0..200).for_each(|_| change(&mut random, &mut to_primary));
    let cutter = Cutter::start(primary.address, 0x5eed_0006);
    follow(&mut to_replica, cutter.address);
    while cutter.cuts.load(Ordering::SeqCst) < 6 {
        change(&mut random, &mut to_primary);
        to_primary.call_args(&[b"SET", b"bulk", &vec![b'b'; 20_000 + random.below(1000)]]);
        std::thread::sleep(Duration::from_micros(500));
    }
    // From here on nothing is cut.
    follow(&mut to_replica, primary.address);
    linked(&mut to_replica);
    settled(&mut to_primary, 1);
    drop(cutter);
    assert_same(&primary.stop().0, &replica.stop().0);
}

/// What is queued while the primary is in reach is not executed when it is not.
#[test]
fn a_replica_without_its_primary_can_refuse_to_show_what_may_be_old() {
    const DOWN: &str =
        "MASTERDOWN Link with MASTER is down and replica-serve-stale-data is set to 'no'.\r\n";
    let server = Running::start();
    let (mut client, mut other) = (server.client(), server.client());
    // No server listens there.
    let follow = |client: &mut Client| client.call("REPLICAOF 127.0.0.1 1");
    client.call("SET a 1");
    assert_eq!(follow(&mut other), "+OK\r\n");
    assert_eq!(client.call("GET a"), "$1\r\n1\r\n");
    assert_eq!(client.call("CONFIG SET replica-serve-stale-data no"), "+OK\r\n");
    let down = format!("-{DOWN}");
    for command in ["GET a", "PING", "KEYS *", "WAIT 0 0", "DBSIZE"] {
        assert_eq!(client.call(command), down, "{command}");
    }
    for command in ["SELECT 0", "CLIENT GETNAME", "ROLE", "INFO server", "TEMBO.SNAPSHOT LIST"] {
        let reply = client.call(command);
        assert!(!reply.contains("MASTERDOWN"), "{command}: {reply}");
    }
    assert_eq!(client.call_args(&[b"EVAL", b"return 1", b"0"]), ":1\r\n");
    let script: [&[u8]; 3] = [b"EVAL", b"return redis.call('GET', 'a')", b"0"];
    let reply = client.call_args(&script);
    assert!(reply.contains("Can not execute the command on a stale replica"), "{reply}");
    let script: [&[u8]; 3] = [b"EVAL", b"#!lua\nreturn 1", b"0"];
    assert_eq!(client.call_args(&script), down);
    let script: [&[u8]; 3] = [b"EVAL", b"#!lua flags=allow-stale,no-writes\nreturn 1", b"0"];
    assert_eq!(client.call_args(&script), ":1\r\n");

    for command in ["GET a", "PING"] {
        assert_eq!(other.call("REPLICAOF NO ONE"), "+OK\r\n");
        assert_eq!(client.call("MULTI"), "+OK\r\n");
        assert_eq!(client.call(command), "+QUEUED\r\n");
        follow(&mut other);
        let aborted = format!("-EXECABORT Transaction discarded because of: {DOWN}");
        assert_eq!(client.call("EXEC"), aborted, "{command}");
    }
    assert_eq!(client.call("MULTI"), "+OK\r\n");
    assert_eq!(other.call("REPLICAOF NO ONE"), "+OK\r\n");
    assert_eq!(client.call("GET a"), "+QUEUED\r\n");
    assert_eq!(client.call("EXEC"), "*1\r\n$1\r\n1\r\n");
    // One whose primary is in reach shows what it holds.
    let primary = Running::start();
    primary.client().call("SET a 2");
    client.call(&format!("REPLICAOF 127.0.0.1 {}", primary.address.port()));
    wait_until("the primary's value", || client.call("GET a"), |reply| reply == "$1\r\n2\r\n");
}
