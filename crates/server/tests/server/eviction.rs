//! Eviction: the data stays below `maxmemory`, by each policy.

use tembo_server::Config;

use crate::client::{Client, Running, wait_until};

/// A field of INFO.
fn info(client: &mut Client, name: &str) -> u64 {
    let text = client.call("INFO everything");
    let line = text.lines().find_map(|line| line.strip_prefix(&format!("{name}:")));
    line.unwrap().trim_end().parse().unwrap()
}

/// A client of a server whose store has recovered: before, what the pool has in use is not known, and no limit holds.
fn connected(server: &Running) -> Client {
    let mut client = server.client();
    wait_until("recovery", || info(&mut client, "tembo_recovering"), |recovering| *recovering == 0);
    client
}

fn count(client: &mut Client) -> u64 {
    client.call("DBSIZE").trim_start_matches(':').trim_end().parse().unwrap()
}

fn set_policy(client: &mut Client, policy: &str, more: u64) -> u64 {
    let limit = info(client, "used_memory") + more;
    assert_eq!(client.call(&format!("CONFIG SET maxmemory-policy {policy}")), "+OK\r\n");
    assert_eq!(client.call(&format!("CONFIG SET maxmemory {limit}")), "+OK\r\n");
    limit
}

#[test]
fn each_policy_keeps_the_data_below_the_limit() {
    for policy in [
        "allkeys-random",
        "allkeys-lru",
        "allkeys-lfu",
        "volatile-lru",
        "volatile-lfu",
        "volatile-random",
        "volatile-ttl",
    ] {
        let server = Running::start();
        let mut client = connected(&server);
        for i in 0..200 {
            client.call(&format!("SET kept:{i} {}", "v".repeat(100)));
        }
        let limit = set_policy(&mut client, policy, 200 << 10);
        let value = "v".repeat(500);
        for i in 0..2000 {
            let reply = client.call(&format!("SET key:{i} {value} EX 10000"));
            assert_eq!(reply, "+OK\r\n", "{policy} {i}");
        }
        let used = info(&mut client, "used_memory");
        assert!(used < limit + (16 << 10), "{policy}: {used} of {limit}");
        let (left, evicted) = (count(&mut client), info(&mut client, "evicted_keys"));
        assert_eq!(left + evicted, 2200, "{policy}");
        // Not everything goes while the store has yet to collect what went.
        assert!(left > 150, "{policy}: {left} keys are left");
        if policy.starts_with("volatile") {
            let kept = (0..200).map(|i| format!("kept:{i}")).collect::<Vec<_>>().join(" ");
            assert_eq!(client.call(&format!("EXISTS {kept}")), ":200\r\n", "{policy}");
        }
        if policy == "volatile-ttl" {
            // They expire in the order in which they came.
            assert_eq!(client.call("EXISTS key:0 key:1 key:2 key:1998 key:1999"), ":2\r\n");
        }
    }
}

#[test]
fn without_a_policy_writes_are_refused_and_reads_go_on() {
    let server = Running::start();
    let mut client = connected(&server);
    client.call("SET a 1");
    for policy in ["noeviction", "volatile-lru", "volatile-ttl"] {
        client.call(&format!("CONFIG SET maxmemory-policy {policy} maxmemory 1"));
        assert!(client.call("SET b 1").starts_with("-OOM "), "{policy}");
        let reply = client.call("EVAL return(redis.call('set','b','1')) 0");
        assert!(reply.contains("OOM "), "{policy}: {reply}");
        assert_eq!(client.call("GET a"), "$1\r\n1\r\n");
        client.call("MULTI");
        assert!(client.call("SET b 1").starts_with("-OOM "), "{policy}");
        assert!(client.call("EXEC").starts_with("-EXECABORT"), "{policy}");
    }
    assert_eq!(client.call("DEL a"), ":1\r\n");
    assert_eq!(info(&mut client, "evicted_keys"), 0);
    assert!(client.call("CONFIG SET maxmemory-policy no").contains("allkeys-random, noeviction"));
}

#[test]
fn a_transaction_takes_no_commands_over_the_limit() {
    const REFUSED: &str = "-OOM command not allowed when used memory > 'maxmemory'.\r\n";
    const FAILED: &str = "-EXECABORT Transaction discarded because of previous errors.\r\n";
    const ABORTED: &str = "-EXECABORT Transaction discarded because of: OOM command not allowed when used memory > 'maxmemory'.\r\n";
    let server = Running::start();
    let (mut client, mut other) = (connected(&server), server.client());
    client.call("SET a 1");
    for queued in ["GET a", "PING", "DEL a", "SET b 1", "WATCH a", "MULTI", "LATENCY RESET"] {
        assert_eq!(client.call("MULTI"), "+OK\r\n");
        assert_eq!(other.call("CONFIG SET maxmemory 1"), "+OK\r\n");
        assert_eq!(client.call(queued), REFUSED, "{queued}");
        assert_eq!(client.call("EXEC"), FAILED, "{queued}");
        assert_eq!(other.call("CONFIG SET maxmemory 0"), "+OK\r\n");
    }
    for (queued, reply) in [("GET a", "*1\r\n$1\r\n1\r\n"), ("SET b 1", ABORTED)] {
        client.call("MULTI");
        assert_eq!(client.call(queued), "+QUEUED\r\n");
        other.call("CONFIG SET maxmemory 1");
        assert_eq!(client.call("EXEC"), reply, "{queued}");
        other.call("CONFIG SET maxmemory 0");
    }
    // What comes behind an error is not kept, so that EXEC need not be refused for it.
    for (commands, reply) in [(["NOSUCH", "SET b 1"], FAILED), (["SET b 1", "NOSUCH"], ABORTED)] {
        client.call("MULTI");
        commands.iter().for_each(|command| drop(client.call(command)));
        other.call("CONFIG SET maxmemory 1");
        assert_eq!(client.call("EXEC"), reply, "{commands:?}");
        assert_eq!(client.call("MULTI") + &client.call("DISCARD"), "+OK\r\n+OK\r\n");
        other.call("CONFIG SET maxmemory 0");
    }
    assert_eq!(client.call("EXISTS a b"), ":1\r\n");
}

/// Sets so many keys of which every second one was used long ago and seldom.
fn set_hot_and_cold(client: &mut Client, count: usize, (option, hot, cold): (&str, &str, &str)) {
    client.call(&format!("SET model {}", "v".repeat(300)));
    let model = {
        client.send(b"DUMP model\r\n");
        client.stream_bulk()
    };
    for i in 0..count {
        let key = format!("key:{i}");
        let often = if i % 2 == 0 { hot } else { cold };
        let reply = client.call_args(&[
            b"RESTORE",
            key.as_bytes(),
            b"0",
            &model,
            option.as_bytes(),
            often.as_bytes(),
        ]);
        assert_eq!(reply, "+OK\r\n");
    }
    client.call("DEL model");
}

#[test]
fn what_is_used_stays() {
    const COUNT: usize = 1200;
    for (policy, use_of) in
        [("allkeys-lru", ("IDLETIME", "0", "100000")), ("allkeys-lfu", ("FREQ", "200", "1"))]
    {
        let server = Running::start();
        let mut client = connected(&server);
        // The uses are noted from here on.
        client.call("CONFIG SET maxmemory 1gb");
        client.call(&format!("CONFIG SET maxmemory-policy {policy}"));
        set_hot_and_cold(&mut client, COUNT, use_of);
        let mut evicted = 0;
        for i in 0.. {
            let used = info(&mut client, "used_memory");
            client.call(&format!("CONFIG SET maxmemory {}", used - 2000));
            assert_eq!(client.call(&format!("SET more:{i} 1")), "+OK\r\n");
            evicted = info(&mut client, "evicted_keys");
            if evicted > COUNT as u64 / 8 {
                break;
            }
        }
        let mut left = [0; 2];
        for i in 0..COUNT {
            let is_there = client.call(&format!("EXISTS key:{i}")) == ":1\r\n";
            left[i % 2] += usize::from(is_there);
        }
        let [hot, cold] = left;
        assert!(
            hot >= COUNT / 2 - COUNT / 50,
            "{policy}: {hot} hot, {cold} cold, {evicted} evicted"
        );
        assert!(cold < COUNT / 2 - COUNT / 16, "{policy}: {hot} hot, {cold} cold");
    }
}

#[test]
fn uses_are_shown() {
    let server = Running::start();
    let mut client = connected(&server);
    client.call("SET a 1");
    client.call("OBJECT IDLETIME a");
    client.send(b"DUMP a\r\n");
    let dumped = client.stream_bulk();
    client.call_args(&[b"RESTORE", b"old", b"0", &dumped, b"IDLETIME", b"1000"]);
    let idle = |client: &mut Client| -> u64 {
        let reply = client.call("OBJECT IDLETIME old");
        reply.trim_start_matches(':').trim_end().parse().unwrap()
    };
    assert!(idle(&mut client) >= 1000);
    client.call("TTL old");
    client.call("TYPE old");
    client.call("EXISTS old");
    assert!(idle(&mut client) >= 1000, "they are no use of the key");
    client.call("TOUCH old");
    assert!(idle(&mut client) < 1000);
    assert!(client.call("OBJECT FREQ old").starts_with("-ERR An LFU maxmemory policy is not"));
    client.call("CONFIG SET maxmemory-policy allkeys-lfu");
    client.call_args(&[b"RESTORE", b"often", b"0", &dumped, b"FREQ", b"100"]);
    assert_eq!(client.call("OBJECT FREQ often"), ":100\r\n");
    assert!(client.call("OBJECT IDLETIME often").starts_with("-ERR An LFU maxmemory policy is "));
}

#[test]
fn evicted_keys_are_published_and_items_are_evicted_too() {
    let config = Config { memcached_port: Some(0), ..Config::default() };
    let server = Running::with(config);
    let (mut client, mut listener) = (server.client(), server.client());
    client.call("CONFIG SET notify-keyspace-events Ee");
    listener.call("PSUBSCRIBE *");
    client.call("SET a 1");
    let mut items = Client::connect(server.memcached.unwrap());
    for i in 0..50 {
        items.send(format!("set item:{i} 0 0 1\r\nx\r\n").as_bytes());
        assert_eq!(items.reply(), "STORED\r\n");
    }
    client.call("CONFIG SET maxmemory-policy allkeys-lru maxmemory 1");
    let message = listener.reply();
    assert!(message.contains("__keyevent@0__:evicted\r\n$1\r\na\r\n"), "{message}");
    let evicted = || info(&mut client, "evicted_keys");
    wait_until("all to be evicted", evicted, |&evicted| evicted == 51);
    items.send(b"set b 0 0 1\r\nx\r\n");
    assert_eq!(items.reply(), "SERVER_ERROR out of memory storing object\r\n");
    items.send(b"get item:7\r\n");
    assert_eq!(items.reply(), "END\r\n");
    items.send(b"stats\r\n");
    let mut lines = std::iter::from_fn(|| Some(items.reply())).take_while(|line| line != "END\r\n");
    assert!(lines.any(|line| line == "STAT evictions 50\r\n"));
}

/// A client that tracks a key hears of its eviction before the reply of the command that the room was made for; also with
/// NOLOOP, since it has not changed the key.
#[test]
fn a_client_hears_of_an_evicted_key_before_the_reply() {
    for options in ["", " NOLOOP"] {
        let server = Running::start();
        let mut client = connected(&server);
        client.call("HELLO 3");
        assert_eq!(client.call(&format!("CLIENT TRACKING ON{options}")), "+OK\r\n");
        client.call("SET a 1");
        client.call("CONFIG SET maxmemory-policy allkeys-random");
        client.call("GET a");
        client.call("CONFIG SET maxmemory 1");
        let invalid = ">2\r\n$10\r\ninvalidate\r\n*1\r\n$1\r\na\r\n";
        assert_eq!(client.call("SET b 1"), invalid, "{options}");
        assert!(client.reply().starts_with("-OOM"), "{options}");
        client.call("CONFIG SET maxmemory 0");
        assert_eq!(client.call("SET b 1"), "+OK\r\n", "without a limit there is room at once");
    }
}
