//! SWAPDB, and what goes from one server to another: MIGRATE, FAILOVER.

use tembo_kv::{Options, Store};
use tembo_server::Config;

use crate::client::{Client, Running, wait_until};

#[test]
fn databases_are_exchanged_with_all_that_is_in_them() {
    let options = Options::new().size(16 << 20);
    let server = Running::over(Store::volatile(&options).unwrap(), Config::default());
    let (mut client, mut other) = (server.client(), server.client());
    client.call("SET a zero");
    client.call("SET due 1 PX 10000000");
    client.call("SELECT 3");
    client.call("SET a three");
    let members = (0..2000).map(|i| format!("member:{i}")).collect::<Vec<_>>().join(" ");
    client.call(&format!("SADD large {members}"));
    assert_eq!(other.call("SWAPDB 0 3"), "+OK\r\n");
    assert_eq!(client.call("GET a"), "$4\r\nzero\r\n", "clients see the other one at once");
    assert!(client.call("TTL due").len() > ":1\r\n".len());
    assert_eq!(other.call("GET a"), "$5\r\nthree\r\n");
    assert_eq!(other.call("SCARD large"), ":2000\r\n");
    assert_eq!(other.call("SISMEMBER large member:1999"), ":1\r\n");
    other.call("SADD large one:more");
    assert_eq!(other.call("SWAPDB 0 0"), "+OK\r\n");
    // As Redis refuses it.
    assert_eq!(other.call("SWAPDB 44 55"), "-ERR DB index is out of range\r\n");
    assert_eq!(other.call("SWAPDB x 0"), "-ERR invalid first DB index\r\n");
    assert_eq!(other.call("SWAPDB 0 x"), "-ERR invalid second DB index\r\n");
    // It is durable, and the databases stay as they are when it is undone.
    let (store, _) = server.stop();
    let server = Running::over(store, Config::default());
    let mut client = server.client();
    assert_eq!(client.call("GET a"), "$5\r\nthree\r\n");
    assert_eq!(client.call("SCARD large"), ":2001\r\n");
    client.call("MULTI");
    client.call("SWAPDB 3 0");
    client.call("GET a");
    assert_eq!(client.call("EXEC"), "*2\r\n+OK\r\n$4\r\nzero\r\n");
    assert_eq!(client.call("FLUSHDB"), "+OK\r\n");
    client.call("SELECT 3");
    assert_eq!(client.call("SCARD large"), ":2001\r\n");
}

#[test]
fn an_exchange_touches_watched_keys_and_serves_clients_that_wait() {
    let server = Running::start();
    let (mut client, mut waiting, mut watching) =
        (server.client(), server.client(), server.client());
    client.call("SELECT 7");
    client.call("RPUSH list a");
    waiting.send(b"BLPOP list 0\r\n");
    watching.call("WATCH list nothing");
    let blocked = |client: &mut Client| client.call("INFO clients").contains("blocked_clients:1");
    wait_until("BLPOP", || blocked(&mut client), |&is_blocked| is_blocked);
    client.call("SWAPDB 7 0");
    assert_eq!(waiting.reply(), "*2\r\n$4\r\nlist\r\n$1\r\na\r\n");
    watching.call("MULTI");
    assert_eq!(watching.call("EXEC"), "*-1\r\n");
    watching.call("WATCH nothing");
    client.call("SWAPDB 7 0");
    watching.call("MULTI");
    assert_eq!(watching.call("EXEC"), "*0\r\n");
}

/// A replica of the server, which holds what it has.
fn replica_of(primary: &Running) -> (Running, Client) {
    let replica = Running::start();
    let mut client = replica.client();
    let port = primary.address.port();
    assert_eq!(client.call(&format!("REPLICAOF 127.0.0.1 {port}")), "+OK\r\n");
    let up = || client.call("INFO replication").contains("master_link_status:up");
    wait_until("the link", up, |&is_up| is_up);
    (replica, client)
}

#[test]
fn replicas_exchange_databases_as_their_primary_does() {
    let primary = Running::start();
    let mut client = primary.client();
    client.call("SET a zero");
    let (_replica, mut reader) = replica_of(&primary);
    client.call("SWAPDB 0 5");
    client.call("SET a five");
    client.call("WAIT 1 0");
    assert_eq!(reader.call("GET a"), "$4\r\nfive\r\n");
    reader.call("SELECT 5");
    assert_eq!(reader.call("GET a"), "$4\r\nzero\r\n");
    // One that begins with everything has the order, too; and keeps it when it is promoted.
    let (_late, mut reader) = replica_of(&primary);
    assert_eq!(reader.call("GET a"), "$4\r\nfive\r\n");
    assert_eq!(reader.call("REPLICAOF NO ONE"), "+OK\r\n");
    assert_eq!(reader.call("GET a"), "$4\r\nfive\r\n");
}

#[test]
fn keys_migrate_to_another_server() {
    let (from, to) = (Running::start(), Running::start());
    let (mut client, mut target) = (from.client(), to.client());
    let port = to.address.port();
    client.call("SET a 1 PX 10000000");
    client.call("RPUSH list x y z");
    client.call("SET kept 1");
    let migrate =
        |client: &mut Client, rest: &str| client.call(&format!("MIGRATE 127.0.0.1 {port} {rest}"));
    assert_eq!(migrate(&mut client, "nothing 9 5000"), "+NOKEY\r\n");
    assert_eq!(migrate(&mut client, "a 9 5000"), "+OK\r\n");
    assert_eq!(client.call("EXISTS a"), ":0\r\n");
    assert_eq!(migrate(&mut client, "kept 9 5000 COPY"), "+OK\r\n");
    assert_eq!(client.call("EXISTS kept"), ":1\r\n");
    let busy =
        "-ERR Target instance replied with error: BUSYKEY Target key name already exists.\r\n";
    assert_eq!(migrate(&mut client, "kept 9 5000"), busy);
    client.send(
        format!("MIGRATE 127.0.0.1 {port} \"\" 9 5000 REPLACE KEYS kept list\r\n").as_bytes(),
    );
    assert_eq!(client.reply(), "+OK\r\n");
    assert_eq!(client.call("DBSIZE"), ":0\r\n");
    target.call("SELECT 9");
    assert_eq!(target.call("LRANGE list 0 -1"), "*3\r\n$1\r\nx\r\n$1\r\ny\r\n$1\r\nz\r\n");
    assert!(target.call("PTTL a").len() > ":100000\r\n".len());
    assert_eq!(target.call("TTL kept"), ":-1\r\n");
    // A password; a server that is not there.
    target.call("CONFIG SET requirepass secret");
    client.call("SET a 1");
    assert!(migrate(&mut client, "a 9 5000").contains("replied with error: NOAUTH"));
    assert!(migrate(&mut client, "a 9 5000 AUTH wrong").contains("replied with error: WRONGPASS"));
    assert_eq!(migrate(&mut client, "a 9 5000 REPLACE AUTH2 default secret"), "+OK\r\n");
    client.call("SET a 1");
    drop(target);
    drop(to);
    let gone = migrate(&mut client, "a 9 5000");
    assert_eq!(gone, "-IOERR error or timeout connecting to the client\r\n");
    assert_eq!(client.call("GET a"), "$1\r\n1\r\n");
}

#[test]
fn a_replica_takes_the_place_of_its_primary() {
    let primary = Running::start();
    let mut client = primary.client();
    assert_eq!(client.call("FAILOVER"), "-ERR FAILOVER requires connected replicas.\r\n");
    let (replica, mut reader) = replica_of(&primary);
    let (third, mut follower) = replica_of(&primary);
    assert!(reader.call("FAILOVER").starts_with("-ERR FAILOVER is not valid when server is"));
    assert_eq!(client.call("FAILOVER ABORT"), "-ERR No failover in progress.\r\n");
    let port = replica.address.port();
    assert!(client.call("FAILOVER TO 127.0.0.1 1").contains("is not a replica"));
    assert!(client.call(&format!("FAILOVER TO 127.0.0.1 {port} FORCE")).contains("requires both"));
    for i in 0..100 {
        client.call(&format!("SET key:{i} {i}"));
    }
    assert_eq!(client.call(&format!("FAILOVER TO 127.0.0.1 {port} TIMEOUT 60000")), "+OK\r\n");
    // Held, and then refused: what is written after this cannot be lost.
    assert!(client.call("SET key:0 late").starts_with("-READONLY"));
    let state = || client.call("INFO replication");
    let is_over = |text: &String| {
        text.contains("role:slave")
            && text.contains("master_link_status:up")
            && text.contains("master_failover_state:no-failover")
    };
    wait_until("the failover", state, is_over);
    assert!(reader.call("INFO replication").contains("role:master"));
    assert_eq!(reader.call("DBSIZE"), ":100\r\n");
    assert_eq!(reader.call("SET key:0 new"), "+OK\r\n");
    assert_eq!(reader.call("WAIT 1 0"), ":1\r\n");
    assert_eq!(client.call("GET key:0"), "$3\r\nnew\r\n");
    // Its other replica follows it further, and so the new primary.
    wait_until("the third", || follower.call("GET key:0"), |text| text == "$3\r\nnew\r\n");
    drop(third);
}

#[test]
fn a_failover_that_is_given_up_leaves_the_primary_as_it_was() {
    let primary = Running::start();
    let mut client = primary.client();
    let (replica, _reader) = replica_of(&primary);
    let port = replica.address.port();
    client.call("SET a 1");
    let is_online = |text: &String| text.contains("state=online");
    wait_until("the replica", || client.call("INFO replication"), is_online);
    // The replica refuses to be promoted.
    let mut admin = replica.client();
    admin.call("ACL SETUSER default -replicaof");
    assert_eq!(client.call(&format!("FAILOVER TO 127.0.0.1 {port}")), "+OK\r\n");
    let state = || client.call("INFO replication");
    let is_over = |text: &String| {
        text.contains("role:master") && text.contains("master_failover_state:no-failover")
    };
    wait_until("the end of the failover", state, is_over);
    assert_eq!(client.call("SET a 2"), "+OK\r\n");
}

/// What is remembered of large collections, which have the same numbers in both databases, goes with them.
#[test]
fn large_sorted_sets_are_whole_after_databases_were_exchanged() {
    let server = Running::start();
    let mut client = server.client();
    let members = |from: u32| -> String {
        (from..from + 3000).map(|score| format!(" {score} m{score}")).collect()
    };
    client.call(&format!("ZADD z{}", members(10_000)));
    client.call("ZPOPMIN z");
    client.call("SELECT 1");
    client.call(&format!("ZADD y{}", members(1)));
    client.call("ZPOPMAX y");
    assert_eq!(client.call("SWAPDB 0 1"), "+OK\r\n");
    assert_eq!(client.call("ZCARD z"), ":2999\r\n");
    assert_eq!(client.call("ZRANK z m10001"), ":0\r\n");
    client.call("SELECT 0");
    assert_eq!(client.call("ZRANGE y 0 0"), "*1\r\n$2\r\nm1\r\n");
    assert_eq!(client.call("ZRANK y m2999"), ":2998\r\n");
    for score in 1..=200 {
        assert_eq!(client.call(&format!("ZREM y m{score}")), ":1\r\n");
        assert_eq!(client.call(&format!("ZADD y {score} n{score}")), ":1\r\n");
    }
    assert_eq!(client.call("ZRANK y m2999"), ":2998\r\n");
    assert_eq!(client.call("ZRANGE y 100 100"), "*1\r\n$4\r\nn101\r\n");
    assert_eq!(client.call("ZPOPMIN y"), "*2\r\n$2\r\nn1\r\n$1\r\n1\r\n");
}

/// A primary that was to follow another and no longer is takes writes.
#[test]
fn an_order_to_follow_that_is_withdrawn_leaves_a_primary() {
    let server = Running::start();
    let mut client = server.client();
    client.call("MULTI");
    client.call("REPLICAOF 127.0.0.1 1");
    client.call("REPLICAOF NO ONE");
    assert_eq!(client.call("EXEC"), "*2\r\n+OK\r\n+OK\r\n");
    assert_eq!(client.call("SET a 1"), "+OK\r\n");
}
