//! Expiry: at once for readers, in the turn's step for the store, across restarts, seen by WATCH.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::sleep;
use std::time::{Duration, SystemTime};

use tembo_kv::{Options, Store};
use tembo_server::Config;

use crate::client::{Client, Running, encode, wait_until};

/// Lets a time run out, which no machine is too slow for.
fn pass(millis: u64) {
    sleep(Duration::from_millis(millis));
}

fn expired(client: &mut Client) -> String {
    let info = client.call("INFO stats");
    info.lines().find(|line| line.starts_with("expired_keys:")).unwrap().to_owned()
}

#[test]
fn a_key_expires_for_readers_and_leaves_the_store() {
    let server = Running::start();
    let mut client = server.client();
    client.call("SET a 1 PX 100000");
    client.call("SET b 1 PX 100000");
    client.call("SET c 1");
    assert_eq!(client.call("GET a"), "$1\r\n1\r\n");
    client.call("PEXPIRE a 1");
    pass(10);
    assert_eq!(client.call("GET a"), "$-1\r\n");
    assert_eq!(client.call("EXISTS a"), ":0\r\n");
    assert_eq!(client.call("TTL a"), ":-2\r\n");
    wait_until("the removal", || client.call("DBSIZE"), |size| size == ":2\r\n");
    assert_eq!(expired(&mut client), "expired_keys:1");
}

#[test]
fn many_keys_expire_and_the_index_is_left_empty() {
    let server = Running::start();
    let mut client = server.client();
    for number in 0..1000 {
        let set = format!("SET key:{number} v PX {}", 20 + number % 30);
        client.call(&set);
        if number % 3 == 0 {
            client.call(&format!("SET key:{number} v"));
        } else if number % 7 == 0 {
            // It may have expired meanwhile.
            while client.call(&format!("PEXPIRE key:{number} 1000000")) == ":0\r\n" {
                client.call(&set);
            }
        }
    }
    let left = (0..1000).filter(|number| number % 3 == 0 || number % 7 == 0).count();
    let kept = (0..1000).filter(|number| number % 3 != 0 && number % 7 == 0).count();
    let all = format!(":{left}\r\n");
    wait_until("the removals", || client.call("DBSIZE"), |size| *size == all);
    let info = client.call("INFO keyspace");
    assert!(info.contains(&format!("keys={left},expires={kept},")), "{info}");
    client.call("FLUSHDB");
    assert!(!client.call("INFO keyspace").contains("db0"));
}

/// A field of INFO.
fn info(client: &mut Client, name: &str) -> u64 {
    let text = client.call("INFO everything");
    let line = text.lines().find_map(|line| line.strip_prefix(&format!("{name}:")));
    line.unwrap().trim_end().parse().unwrap()
}

fn now_ms() -> u64 {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap().as_millis() as u64
}

/// Sets so many keys, all of which expire in the second before `due_ms`.
fn set_keys(client: &mut Client, count: u64, due_ms: u64) {
    const TOGETHER: u64 = 1000;
    for first in (0..count).step_by(TOGETHER as usize) {
        let numbers = first..count.min(first + TOGETHER);
        let mut bytes = Vec::new();
        for number in numbers.clone() {
            let (key, due_ms) = (format!("key:{number}"), (due_ms - number % 1000).to_string());
            bytes.extend(encode(&[b"SET", key.as_bytes(), b"value", b"PXAT", due_ms.as_bytes()]));
        }
        client.send(&bytes);
        numbers.for_each(|number| assert_eq!(client.reply(), "+OK\r\n", "{number}"));
    }
}

/// A client that asks one thing after another until it is to stop: how many replies it got.
fn ask(mut client: Client, name: &str, is_over: &AtomicBool) -> u64 {
    let mut asked = 0;
    while !is_over.load(Ordering::Relaxed) {
        asked += 1;
        assert_eq!(client.call(&format!("INCR own:{name}")), format!(":{asked}\r\n"));
        assert_eq!(client.call(&format!("GET key:{asked}")), "$-1\r\n");
    }
    2 * asked
}

/// A million keys that were due together held clients for most of a second. They leave a thousand a turn at most, and what has
/// arrived is executed in each turn. `TEMBO_EXPIRING`: so many keys.
#[test]
fn keys_that_expire_together_leave_beside_clients_and_give_their_space_back() {
    const CLIENTS: u64 = 4;
    let wanted = std::env::var("TEMBO_EXPIRING").ok().and_then(|count| count.parse().ok());
    let count: u64 = wanted.unwrap_or(20_000);
    let config = Config { debug: true, ..Config::default() };
    let server = Running::with(config);
    let mut client = server.client();
    wait_until("recovery", || info(&mut client, "tembo_recovering"), |recovering| *recovering == 0);
    assert_eq!(client.call("DEBUG SET-ACTIVE-EXPIRE 0"), "+OK\r\n");
    let before = info(&mut client, "tembo_used_bytes");
    let due_ms = now_ms() + 10_000 + count / 10;
    set_keys(&mut client, count, due_ms);
    let full = info(&mut client, "tembo_used_bytes");
    assert!(now_ms() + 1000 < due_ms, "keys were due before all were there");
    pass(due_ms + 1 - now_ms());
    assert_eq!(info(&mut client, "expired_keys"), 0);
    let is_over = AtomicBool::new(false);
    let replies: u64 = std::thread::scope(|scope| {
        let asking: Vec<_> = (0..CLIENTS)
            .map(|number| {
                let (client, is_over) = (server.client(), &is_over);
                scope.spawn(move || ask(client, &number.to_string(), is_over))
            })
            .collect();
        assert_eq!(client.call("DEBUG SET-ACTIVE-EXPIRE 1"), "+OK\r\n");
        while info(&mut client, "expired_keys") < count {
            pass(1);
        }
        is_over.store(true, Ordering::Relaxed);
        asking.into_iter().map(|asking| asking.join().unwrap()).sum()
    });
    // Of a turn that removes a thousand at most each client can be answered once; most turns remove fewer.
    println!("{count} keys have expired beside {replies} replies to others");
    assert!(replies >= count / 10_000, "{replies} replies beside {count} keys");
    assert_eq!(client.call("DBSIZE"), format!(":{CLIENTS}\r\n"));
    // An index keeps some of the nodes that it had.
    let is_given_back = |used: &u64| used - before < (full - before) / 10;
    wait_until("the space", || info(&mut client, "tembo_used_bytes").max(before), is_given_back);
}

#[test]
fn expiry_survives_a_restart() {
    let server = Running::start();
    let mut client = server.client();
    client.call("SET a 1 PX 50");
    client.call("SET b 1 PXAT 99999999999999");
    drop(client);
    let (store, result) = server.stop();
    result.unwrap();
    pass(80);
    let server = Running::over(store, Default::default());
    let mut client = server.client();
    assert_eq!(client.call("GET a"), "$-1\r\n");
    assert_eq!(client.call("PEXPIRETIME b"), ":99999999999999\r\n");
    wait_until("the removal", || client.call("DBSIZE"), |size| size == ":1\r\n");
}

#[test]
fn rename_copy_and_move_carry_the_expiry() {
    let server = Running::start();
    let mut client = server.client();
    client.call("SET a 1 PXAT 99999999999999");
    client.call("SET b 2 PX 100");
    client.call("RENAME a b");
    client.call("COPY b c");
    client.call("MOVE b 3");
    assert_eq!(client.call("PEXPIRETIME c"), ":99999999999999\r\n");
    client.call("SELECT 3");
    assert_eq!(client.call("PEXPIRETIME b"), ":99999999999999\r\n");
    pass(200);
    assert_eq!(client.call("GET b"), "$1\r\n1\r\n");
}

#[test]
fn watch_sees_expiry_and_changes_by_others() {
    let server = Running::over(Store::volatile(&Options::default()).unwrap(), Default::default());
    let (mut client, mut other) = (server.client(), server.client());
    let exec = |client: &mut Client| {
        client.call("MULTI");
        client.call("SET x 1");
        client.call("EXEC")
    };
    // Watches a key that is still there.
    let watch = |client: &mut Client| loop {
        client.call("UNWATCH");
        client.call("SET a 1 PX 40");
        client.call("WATCH a");
        if client.call("EXISTS a") == ":1\r\n" {
            break;
        }
    };
    watch(&mut client);
    pass(50);
    assert_eq!(exec(&mut client), "*-1\r\n", "expired, removed or not");
    watch(&mut client);
    wait_until("the removal", || other.call("DBSIZE"), |size| size == ":0\r\n");
    assert_eq!(exec(&mut client), "*-1\r\n", "expired and removed");
    client.call("WATCH a b");
    other.call("SET b 1");
    assert_eq!(exec(&mut client), "*-1\r\n");
    client.call("WATCH a b");
    other.call("GET b");
    assert_eq!(exec(&mut client), "*1\r\n+OK\r\n");
    client.call("WATCH b");
    other.call("FLUSHALL");
    assert_eq!(exec(&mut client), "*-1\r\n");
    client.call("WATCH b");
    other.call("FLUSHALL");
    assert_eq!(exec(&mut client), "*1\r\n+OK\r\n", "flushed, but it was not there");
    client.call("WATCH b");
    other.call("SET b 2");
    client.call("UNWATCH");
    assert_eq!(exec(&mut client), "*1\r\n+OK\r\n");
    client.call("WATCH b");
    client.call("SELECT 1");
    client.call("SET b 1");
    assert_eq!(exec(&mut client), "*1\r\n+OK\r\n", "another database");
}
