//! Space: a full pool has ways out, for clients.

use tembo_kv::{IndexKind, Options, Store};
use tembo_server::Config;

use crate::client::{Client, Running, wait_until};

fn full(index: IndexKind) -> (Running, Client, usize) {
    let options = Options::new().index(index).size(4 << 20).size_max(4 << 20);
    let server = Running::over(Store::volatile(&options).unwrap(), Config::default());
    let mut client = server.client();
    let count = fill(&mut client);
    (server, client, count)
}

/// Sets keys until there is no room; how many fit.
fn fill(client: &mut Client) -> usize {
    let value = "v".repeat(1000);
    let refused = (0..).find(|i| client.call(&format!("SET key:{i} {value}")) != "+OK\r\n");
    refused.unwrap()
}

#[test]
fn a_full_pool_that_save_keeps_is_emptied() {
    for index in IndexKind::ORDERED {
        for ways in ["FLUSHALL SAVE", "FLUSHALL BGSAVE", "SNAPSHOT FLUSHALL", "FLUSHDB SNAPSHOT"] {
            let (_server, mut client, count) = full(index);
            assert!(count > 500, "{count}");
            assert_eq!(client.call("SAVE"), "+OK\r\n");
            for i in 0..20 {
                assert_eq!(client.call(&format!("DEL key:{i}")), ":1\r\n", "{index:?} {i}");
            }
            for way in ways.split(' ') {
                let (command, reply) = match way {
                    "SNAPSHOT" => ("TEMBO.SNAPSHOT DROP save", ":1\r\n"),
                    "BGSAVE" => ("BGSAVE", "+Background saving started\r\n"),
                    way => (way, "+OK\r\n"),
                };
                assert_eq!(client.call(command), reply, "{index:?} {ways}");
            }
            assert_eq!(client.call("DBSIZE"), ":0\r\n");
            // What is given back may come a moment later.
            let what = format!("{index:?} {ways}: room for {count} values");
            let again = || {
                let again = fill(&mut client);
                client.call("FLUSHALL");
                again
            };
            wait_until(&what, again, |&again| again * 10 >= count * 9);
        }
    }
}

/// There is room enough that a turn goes without precautions, and not for the element: the turn's other commands are done, and it
/// stays.
#[test]
fn a_long_element_for_which_there_is_no_room_stays_where_it_is() {
    let options = Options::new().size(96 << 20).size_max(96 << 20);
    let server = Running::over(Store::volatile(&options).unwrap(), Config::default());
    let mut client = server.client();
    let value = "v".repeat(1 << 20);
    (0..30).for_each(|number| {
        assert_eq!(client.call(&format!("SET key:{number} {value}")), "+OK\r\n")
    });
    let element = "e".repeat(40 << 20);
    assert_eq!(client.call(&format!("RPUSH a {element}")), ":1\r\n");
    for number in 0..5 {
        client.send(format!("SET small {number}\r\nLMOVE a b LEFT LEFT\r\n").as_bytes());
        let (set, moved) = (client.reply(), client.reply());
        assert_eq!(set, "+OK\r\n");
        assert!(moved.starts_with("-OOM"), "{moved:.100}");
        assert_eq!(client.call("GET small"), format!("$1\r\n{number}\r\n"));
    }
    assert_eq!(client.call("LLEN b"), ":0\r\n");
    assert_eq!(client.call("LINDEX a 0").len(), element.len() + 13);
}

/// An entry behind a long one costs what it takes itself.
#[test]
fn a_short_entry_behind_a_long_one_needs_little_room() {
    let options = Options::new().size(24 << 20).size_max(24 << 20);
    let server = Running::over(Store::volatile(&options).unwrap(), Config::default());
    let mut client = server.client();
    let long = "e".repeat(8 << 20);
    assert!(client.call(&format!("XADD s 1-1 field {long}")).starts_with('$'));
    let value = "v".repeat(100_000);
    let full = (0..).find(|number| client.call(&format!("SET key:{number} {value}")) != "+OK\r\n");
    (0..full.unwrap().min(10)).for_each(|number| drop(client.call(&format!("DEL key:{number}"))));
    let added = || client.call("XADD s * field short");
    wait_until("room for a short entry", added, |added| added.starts_with('$'));
    assert_eq!(client.call("XDEL s 1-7"), ":0\r\n");
    assert_eq!(client.call("XLEN s"), ":2\r\n");
}

#[test]
fn snapshots_are_listed_and_dropped() {
    let server = Running::start();
    let mut client = server.client();
    assert_eq!(client.call("TEMBO.SNAPSHOT LIST"), "*0\r\n");
    client.call("SET a 1");
    client.call("SAVE");
    let listed = client.call("TEMBO.SNAPSHOT LIST");
    assert!(listed.starts_with("*2\r\n$4\r\nsave\r\n:"), "{listed}");
    client.call("SET a 2");
    client.call("SAVE");
    assert_ne!(client.call("TEMBO.SNAPSHOT LIST"), listed);
    assert_eq!(client.call("TEMBO.SNAPSHOT DROP nosuch save save"), ":1\r\n");
    assert_eq!(client.call("TEMBO.SNAPSHOT LIST"), "*0\r\n");
    assert!(client.call("TEMBO.SNAPSHOT DROP").starts_with("-ERR wrong number"));
    assert!(client.call("TEMBO.SNAPSHOT HELP").starts_with("*8\r\n"));
    client.call("MULTI");
    assert!(client.call("TEMBO.SNAPSHOT DROP save").starts_with("-ERR"));
}

/// What clones of devices read is kept by names that are neither listed nor dropped.
#[test]
fn names_of_tembos_own_are_not_shown_and_stay() {
    let store = Store::volatile(&Options::new()).unwrap();
    let version = store.save_snapshot("tembo-array@1").unwrap();
    let server = Running::over(store, Config::default());
    let mut client = server.client();
    client.call("SAVE");
    let listed = client.call("TEMBO.SNAPSHOT LIST");
    assert!(listed.starts_with("*2\r\n$4\r\nsave\r\n:"), "{listed}");
    let refused = client.call("TEMBO.SNAPSHOT DROP save tembo-array@1");
    assert!(refused.starts_with("-ERR") && refused.contains("remove the clones"), "{refused}");
    assert_eq!(client.call("TEMBO.SNAPSHOT DROP save"), ":1\r\n");
    let (store, _) = server.stop();
    assert_eq!(store.snapshots(), [("tembo-array@1".to_owned(), version)]);
}

/// However many snapshots backups keep, SAVE has a name left.
#[test]
fn backups_leave_a_name_for_save() {
    let folder = std::env::temp_dir().join(format!("tembo-server-kept-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let config = Config { backup_dir: Some(folder.clone()), ..Config::default() };
    let server = Running::with(config);
    let mut client = server.client();
    let mut kept = 0;
    let refusal = loop {
        let reply = client.call(&format!("TEMBO.BACKUP START b{kept} KEEP k{kept}"));
        if reply != "+OK\r\n" {
            break reply;
        }
        let is_done = |status: &String| status.contains("done") || status.contains("failed");
        wait_until("a backup", || client.call("TEMBO.BACKUP STATUS"), is_done);
        let status = client.call("TEMBO.BACKUP STATUS");
        assert!(status.contains("done"), "{kept}: {status}");
        kept += 1;
    };
    std::fs::remove_dir_all(&folder).unwrap();
    assert!(kept == 62 && refusal.starts_with("-FULL"), "{kept}: {refusal}");
    assert_eq!(client.call("SAVE"), "+OK\r\n");
    assert_eq!(client.call("TEMBO.SNAPSHOT DROP k0 k1"), ":2\r\n");
}
