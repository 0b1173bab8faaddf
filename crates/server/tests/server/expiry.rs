//! Expiry: at once for readers, in the turn's step for the store, across restarts, seen by WATCH.

use std::thread::sleep;
use std::time::Duration;

use tembo_kv::{Options, Store};

use crate::client::{Client, Running, wait_until};

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
