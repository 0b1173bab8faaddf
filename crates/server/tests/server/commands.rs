//! Commands whose replies Redis does not determine byte for byte.

use std::collections::HashSet;

use crate::client::{Client, Random, Running};

/// Scans to the end; the keys, and how many calls it took.
fn scan(client: &mut Client, options: &str, mut each: impl FnMut(usize)) -> (Vec<String>, usize) {
    let (mut cursor, mut keys, mut calls) = ("0".to_owned(), Vec::new(), 0);
    loop {
        let reply = client.call(format!("SCAN {cursor} {options}").trim_end());
        let lines: Vec<&str> = reply.lines().collect();
        assert_eq!(lines[0], "*2", "{reply}");
        cursor = lines[2].to_owned();
        keys.extend(lines[4..].iter().skip(1).step_by(2).map(|key| (*key).to_owned()));
        calls += 1;
        if cursor == "0" {
            return (keys, calls);
        }
        each(calls);
    }
}

#[test]
fn a_scan_finds_every_key_once() {
    let server = Running::start();
    let mut client = server.client();
    for number in 0..1000 {
        client.call(&format!("SET user:{number} v"));
        client.call(&format!("SET other:{number} v"));
    }
    let (keys, calls) = scan(&mut client, "", |_| {});
    assert_eq!((keys.len(), keys.iter().collect::<HashSet<_>>().len()), (2000, 2000));
    assert_eq!(calls, 200);
    let (keys, calls) = scan(&mut client, "MATCH user:1* COUNT 100", |_| {});
    assert_eq!((keys.len(), calls), (111, 2));
    assert_eq!(scan(&mut client, "TYPE hash COUNT 1000", |_| {}).0.len(), 0);
    assert_eq!(
        scan(&mut client, "TYPE string COUNT 5000", |_| {}),
        (scan(&mut client, "", |_| {}).0, 1)
    );
    assert_eq!(client.call("SCAN x"), "-ERR invalid cursor\r\n");
    assert!(client.call("SCAN -1").starts_with("*2\r\n"), "a cursor may have a sign");
    assert!(client.call("SCAN 123456789").starts_with("*2\r\n"), "an unknown cursor starts over");
}

#[test]
fn a_scan_finds_what_stays_while_others_come_and_go() {
    let server = Running::start();
    let (mut client, mut other) = (server.client(), server.client());
    for number in 0..500 {
        client.call(&format!("SET stays:{number} v"));
        client.call(&format!("SET goes:{number} v"));
    }
    let mut random = Random(99);
    let (keys, _) = scan(&mut client, "COUNT 7", |_| {
        for _ in 0..10 {
            other.call(&format!("DEL goes:{}", random.below(500)));
            other.call(&format!("SET comes:{} v", random.below(100_000)));
        }
    });
    let found: HashSet<String> = keys.into_iter().collect();
    for number in 0..500 {
        assert!(found.contains(&format!("stays:{number}")), "{number}");
    }
}

#[test]
fn random_keys_exist_and_vary() {
    let server = Running::start();
    let mut client = server.client();
    assert_eq!(client.call("RANDOMKEY"), "$-1\r\n");
    for number in 0..100 {
        client.call(&format!("SET key:{number} v"));
    }
    let mut seen = HashSet::new();
    for _ in 0..300 {
        let reply = client.call("RANDOMKEY");
        let key = reply.lines().nth(1).unwrap().to_owned();
        assert_eq!(client.call(&format!("EXISTS {key}")), ":1\r\n");
        seen.insert(key);
    }
    assert!(seen.len() > 20, "{}", seen.len());
}

/// A key before a wide gap was hardly ever given.
#[test]
fn of_few_keys_each_is_given_as_often_as_the_others() {
    let server = Running::start();
    let mut client = server.client();
    for keys in [&["bar", "foo"][..], &["a", "b", "zzzz"]] {
        client.call("FLUSHDB");
        keys.iter().for_each(|key| drop(client.call(&format!("SET {key} v"))));
        let mut counts = vec![0; keys.len()];
        for _ in 0..900 {
            let reply = client.call("RANDOMKEY");
            let given = keys.iter().position(|key| reply.lines().nth(1) == Some(key)).unwrap();
            counts[given] += 1;
        }
        let fair = 900 / keys.len();
        assert!(counts.iter().all(|&count| count > fair * 2 / 3), "{keys:?}: {counts:?}");
    }
}

#[test]
fn info_has_what_clients_read() {
    let server = Running::start();
    let mut client = server.client();
    client.call("SET a 1");
    let info = client.call("INFO");
    for field in [
        "redis_version:7",
        "redis_mode:standalone",
        "connected_clients:1",
        "used_memory_rss:",
        "loading:0",
        "aof_enabled:0",
        "rdb_last_bgsave_status:ok",
        "tembo_domain:volatile",
        "tembo_index:",
        "tembo_sync_policy:",
        "tembo_version_visible:",
        "tembo_version_durable:",
        "tembo_last_recovery_us:",
        "tembo_private_bytes:",
        "role:master",
        "used_cpu_user:",
        "total_commands_processed:",
        "db0:keys=1,expires=0,",
    ] {
        assert!(info.contains(field), "{field} in {info}");
    }
    client.call("SAVE");
    assert!(client.call("INFO persistence").contains("\r\nrdb_saves:1\r\n"));
    assert!(!client.call("INFO server").contains("# Stats"));
    client.call("MULTI");
    client.call("SET b 1");
    client.call("INFO persistence");
    client.call("SET c 1");
    assert!(client.call("EXEC").starts_with("*3\r\n+OK\r\n$"));
}

#[test]
fn saves_are_snapshots() {
    let server = Running::start();
    let mut client = server.client();
    client.call("SET a 1");
    assert_eq!(client.call("SAVE"), "+OK\r\n");
    assert_eq!(client.call("BGSAVE"), "+Background saving started\r\n");
    assert!(client.call("LASTSAVE").starts_with(":1"));
    let (store, _) = server.stop();
    assert!(store.drop_snapshot("save").unwrap());
}

#[test]
fn settings() {
    let server = Running::start();
    let mut client = server.client();
    assert_eq!(client.call("CONFIG GET save"), "*2\r\n$4\r\nsave\r\n$0\r\n\r\n");
    assert_eq!(client.call("CONFIG GET maxmem*").lines().next(), Some("*10"));
    assert_eq!(client.call("CONFIG SET timeout 5000 maxclients 7"), "+OK\r\n");
    assert_eq!(client.call("CONFIG GET timeout"), "*2\r\n$7\r\ntimeout\r\n$4\r\n5000\r\n");
    assert_eq!(
        client.call("CONFIG SET nosuch 1"),
        "-ERR Unknown option or number of arguments for CONFIG SET - 'nosuch'\r\n"
    );
    assert_eq!(
        client.call("CONFIG SET timeout 9 port 1"),
        "-ERR CONFIG SET failed (possibly related to argument 'port') - can't set immutable config\r\n"
    );
    assert_eq!(client.call("CONFIG GET timeout"), "*2\r\n$7\r\ntimeout\r\n$4\r\n5000\r\n");
    client.call("CONFIG SET requirepass secret");
    assert!(server.client().call("PING").starts_with("-NOAUTH"));
    assert_eq!(client.call("PING"), "+PONG\r\n");
}

#[test]
fn transactions() {
    let server = Running::start();
    let mut client = server.client();
    client.call("MULTI");
    assert_eq!(client.call("SET a 1"), "+QUEUED\r\n");
    assert_eq!(client.call("INCR a"), "+QUEUED\r\n");
    assert_eq!(client.call("INCR a b"), "-ERR wrong number of arguments for 'incr' command\r\n");
    assert!(client.call("EXEC").starts_with("-EXECABORT"));
    assert_eq!(client.call("EXISTS a"), ":0\r\n");
    client.call("MULTI");
    client.call("SET a x");
    client.call("INCR a");
    client.call("GET a");
    let replies = "*3\r\n+OK\r\n-ERR value is not an integer or out of range\r\n$1\r\nx\r\n";
    assert_eq!(client.call("EXEC"), replies);
    client.call("HELLO 3");
    client.call("MULTI");
    client.call("CONFIG GET save");
    client.call("GET nosuch");
    assert_eq!(client.call("EXEC"), "*2\r\n%1\r\n$4\r\nsave\r\n$0\r\n\r\n_\r\n");
}

#[test]
fn an_exec_that_is_refused_ends_its_transaction() {
    let server = Running::start();
    let mut client = server.client();
    let wrong = "-EXECABORT Transaction discarded because of: wrong number of arguments for 'exec' \
                 command\r\n";
    assert_eq!(client.call("EXEC foo"), wrong);
    for queued in ["SET a 1", "NOSUCH"] {
        client.call("WATCH a");
        client.call("SET a 0");
        assert_eq!(client.call("MULTI"), "+OK\r\n");
        client.call(queued);
        assert_eq!(client.call("EXEC foo"), wrong);
        assert_eq!(client.call("EXEC"), "-ERR EXEC without MULTI\r\n");
        assert_eq!(client.call("GET a"), "$1\r\n0\r\n");
        // Nothing is watched any more.
        assert_eq!(client.call("MULTI") + &client.call("PING"), "+OK\r\n+QUEUED\r\n");
        assert_eq!(client.call("EXEC"), "*1\r\n+PONG\r\n");
    }
    client.call("CONFIG SET requirepass secret");
    let refused =
        "-EXECABORT Transaction discarded because of: NOAUTH Authentication required.\r\n";
    assert_eq!(server.client().call("EXEC"), refused);
}

/// With a time that grows with the square of their number it would take minutes.
#[test]
fn a_hundred_thousand_keys_are_watched() {
    let server = Running::start();
    let (mut client, mut other) = (server.client(), server.client());
    let names: Vec<String> = (0..100_000).map(|number| format!("key:{number}")).collect();
    let mut watch: Vec<&[u8]> = vec![b"WATCH"];
    watch.extend(names.iter().map(|name| name.as_bytes()));
    for touched in [false, true] {
        assert_eq!(client.call_args(&watch), "+OK\r\n");
        assert_eq!(client.call_args(&watch), "+OK\r\n");
        if touched {
            other.call("SET key:99999 1");
        }
        assert_eq!(client.call("MULTI") + &client.call("PING"), "+OK\r\n+QUEUED\r\n");
        let expected = if touched { "*-1\r\n" } else { "*1\r\n+PONG\r\n" };
        assert_eq!(client.call("EXEC"), expected);
    }
}

#[test]
fn every_container_has_help() {
    let server = Running::start();
    let mut client = server.client();
    for container in ["CLIENT", "COMMAND", "CONFIG", "MEMORY", "OBJECT", "TEMBO.BACKUP"] {
        let help = client.call(&format!("{container} HELP"));
        assert!(help.contains(&format!("+{container} <subcommand> [<arg>")), "{help}");
    }
}
