//! Commands that store what large collections make: they gather it in later turns.

use super::joins::{add, answer, answer_at_once, before_pong, begin, memory, random_numbers};
use super::sorting::{each, turns};
use super::*;

use crate::access::Access;
use crate::element_listing::READ_AT_ONCE;

/// Commands that store under `to`, and so many elements that they read.
const COMMANDS: [(&str, usize); 9] = [
    ("SUNIONSTORE to a b", 12_000),
    ("SINTERSTORE to a b", 6000),
    ("SDIFFSTORE to b a", 6000),
    ("ZUNIONSTORE to 2 za a WEIGHTS 2 3 AGGREGATE MAX", 12_000),
    ("ZINTERSTORE to 2 za zb", 6000),
    ("ZDIFFSTORE to 2 zb za", 6000),
    ("SORT a ALPHA DESC GET # GET # STORE to", 6000),
    ("SORT zb BY nosort LIMIT 10 5000 STORE to", 5000),
    ("SORT za ALPHA LIMIT 10 5 STORE to", 6000),
];

/// Sets and sorted sets with members in common.
fn make(event_loop: &mut EventLoop<'_>, client: &mut TcpStream) {
    add(event_loop, client, "a", 0..6000);
    add(event_loop, client, "b", 3000..9000);
    each(event_loop, client, 0..6000, |number| {
        let score = number * 7919 % 6000;
        format!("ZADD za {score} e{number:06}\r\nZADD zb {score} e{:06}", number + 3000)
    });
}

/// A digest of what is under a key.
fn digest(event_loop: &mut EventLoop<'_>, client: &mut TcpStream, key: &str) -> String {
    answer(event_loop, client, &format!("TYPE {key}\r\nDEBUG DIGEST-VALUE {key}"))
}

/// What the command replies and leaves under `to` if it is executed at once.
fn whole(
    event_loop: &mut EventLoop<'_>,
    client: &mut TcpStream,
    command: &str,
) -> (String, String) {
    let reply = answer_at_once(event_loop, client, command);
    (reply, digest(event_loop, client, "to"))
}

/// Whether no key is watched.
fn nothing_is_watched(event_loop: &EventLoop<'_>) -> bool {
    (0..16).all(|db| event_loop.turns.data.watches.keys(db).is_empty())
}

/// All other clients waited for what was stored to be gathered.
#[test]
fn what_is_stored_is_gathered_beside_other_clients() {
    with_loop(|event_loop, address| {
        let [mut client, mut other] = clients(event_loop, address);
        make(event_loop, &mut other);
        for (command, count) in COMMANDS {
            let (reply, expected) = whole(event_loop, &mut client, command);
            answer(event_loop, &mut client, "DEL to\r\nRPUSH to before");
            begin(event_loop, &mut client, command);
            let turns = turns(event_loop, |event_loop, _| {
                // Until it is stored nothing of it is seen.
                begin(event_loop, &mut other, "LINDEX to 0");
                let is_stored = memory(event_loop).is_none();
                let text = before_pong(event_loop, &mut other);
                assert!(is_stored || text == "$6\r\nbefore\r\n", "{command}: {text}");
            });
            assert!(2 * turns >= count / READ_AT_ONCE, "{command}: {turns}");
            assert_eq!(before_pong(event_loop, &mut client), reply, "{command}");
            assert_eq!(digest(event_loop, &mut client, "to"), expected, "{command}");
            assert!(nothing_is_watched(event_loop));
        }
        // What is looked up beside the source is not watched.
        for command in ["SORT a BY w* STORE to", "SORT a ALPHA GET w* STORE to"] {
            begin(event_loop, &mut client, command);
            assert_eq!(memory(event_loop), None, "{command}");
            assert_eq!(before_pong(event_loop, &mut client), ":6000\r\n");
        }
    });
}

/// What was stored was not what there was at any one time, if it was gathered before a change and stored behind it.
#[test]
fn a_source_that_changes_meanwhile_is_read_again() {
    let changes = [
        "SREM a e000001\r\nZREM za e000001\r\nSADD b x\r\nZADD zb 1 x",
        // The number of members stays as it is.
        "ZADD za 5.5 e000002\r\nZADD zb 5.5 e004000\r\nSMOVE a b e000003",
        "DEL a za\r\nRENAME b a\r\nRENAME zb za",
        "SWAPDB 0 1",
        "FLUSHDB",
        "DEL a b za zb\r\nSET a x\r\nSET b x\r\nSET za x\r\nSET zb x",
        "PEXPIRE a 1\r\nPEXPIRE za 1\r\nPEXPIRE b 1\r\nPEXPIRE zb 1",
    ];
    with_loop(|event_loop, address| {
        let [mut client, mut other] = clients(event_loop, address);
        for (command, _) in COMMANDS {
            for change in changes {
                answer(event_loop, &mut other, "FLUSHALL");
                make(event_loop, &mut other);
                answer(event_loop, &mut other, "SADD to before");
                begin(event_loop, &mut client, command);
                assert!(memory(event_loop).is_some());
                begin(event_loop, &mut other, change);
                before_pong(event_loop, &mut other);
                std::thread::sleep(Duration::from_millis(if change.contains("EXP") {
                    5
                } else {
                    0
                }));
                let reply = before_pong(event_loop, &mut client);
                let found = digest(event_loop, &mut client, "to");
                let expected = whole(event_loop, &mut client, command);
                assert_eq!((reply, found), expected, "{command} {change}");
                assert!(nothing_is_watched(event_loop));
            }
        }
    });
}

/// A command that is put off again and again would never end.
#[test]
fn a_source_that_never_rests_is_read_at_once_in_the_end() {
    with_loop(|event_loop, address| {
        let [mut client, mut other] = clients(event_loop, address);
        make(event_loop, &mut other);
        for (command, count) in COMMANDS {
            begin(event_loop, &mut client, command);
            let changed = turns(event_loop, |event_loop, turn| {
                let change = format!(
                    "SADD a x{turn}\r\nSADD b x{turn}\r\nZADD za 1 x{turn}\r\nZADD zb 1 x{turn}\r\n"
                );
                other.write_all(change.as_bytes()).unwrap();
                arrived(event_loop, change.len());
                replies(event_loop, &mut other, 4);
            });
            assert!((2..50).contains(&changed), "{command}: {changed} {count}");
            let reply = before_pong(event_loop, &mut client);
            let found = digest(event_loop, &mut client, "to");
            assert_eq!((reply, found), whole(event_loop, &mut client, command), "{command}");
            assert!(nothing_is_watched(event_loop));
        }
    });
}

#[test]
fn what_is_gathered_and_stored_is_what_is_stored_at_once() {
    let (seed, mut random) = random_numbers();
    with_loop(|event_loop, address| {
        let [mut client, mut other] = clients(event_loop, address);
        let keys = ["a", "b", "za", "zb", "small", "to", "nosuch"];
        let mut put_off = 0;
        for round in 0..60 {
            if round % 10 == 0 {
                answer(event_loop, &mut client, "FLUSHALL");
                make(event_loop, &mut client);
                add(event_loop, &mut client, "small", 2990..3010);
            }
            let count = 1 + random(3) as usize;
            let chosen: Vec<&str> = (0..count).map(|_| keys[random(7) as usize]).collect();
            let (first, names) = (chosen[0], chosen.join(" "));
            let command = match random(8) {
                0 => format!("SUNIONSTORE to {names}"),
                1 => format!("SINTERSTORE to {names}"),
                2 => format!("SDIFFSTORE to {names}"),
                3 => format!("ZUNIONSTORE to {count} {names}"),
                4 => format!("ZINTERSTORE to {count} {names} AGGREGATE MIN"),
                5 => format!("ZDIFFSTORE to {count} {names}"),
                6 => format!("SORT {first} ALPHA DESC LIMIT {} 4000 STORE to", random(9000)),
                _ => format!("SORT {first} BY nosort STORE to"),
            };
            // In a transaction of another database, with a copy of all.
            answer(event_loop, &mut other, "SELECT 1\r\nFLUSHDB\r\nSELECT 0");
            for key in keys {
                answer(event_loop, &mut other, &format!("COPY {key} {key} DB 1"));
            }
            answer(event_loop, &mut other, "SELECT 1");
            let (reply, expected) = whole(event_loop, &mut other, &command);
            begin(event_loop, &mut client, &command);
            put_off += usize::from(memory(event_loop).is_some());
            let case = format!("TEMBO_SEED={seed} {round} {command}");
            assert_eq!(before_pong(event_loop, &mut client), reply, "{case}");
            assert_eq!(digest(event_loop, &mut client, "to"), expected, "{case}");
        }
        assert!(put_off > 15, "TEMBO_SEED={seed}: {put_off}");
    });
}

/// Nothing is stored for a client that is killed, or whose turn fails.
#[test]
fn a_command_that_is_given_up_stores_nothing() {
    with_loop(|event_loop, address| {
        let [mut client, mut other] = clients(event_loop, address);
        make(event_loop, &mut other);
        let id = answer(event_loop, &mut client, "CLIENT ID");
        begin(event_loop, &mut client, "SUNIONSTORE to a b");
        assert!(!nothing_is_watched(event_loop));
        begin(event_loop, &mut other, &format!("CLIENT KILL ID {}", id[1..].trim_end()));
        before_pong(event_loop, &mut other);
        let began = Instant::now();
        while event_loop.turns.clients.count() > 1 {
            event_loop.step().unwrap();
            assert!(began.elapsed() < PATIENCE);
        }
        assert!(nothing_is_watched(event_loop));
        assert_eq!(answer(event_loop, &mut other, "EXISTS to"), ":0\r\n");
        let [mut client] = clients(event_loop, address);
        begin(event_loop, &mut client, "ZUNIONSTORE to 2 a b");
        turns(event_loop, |event_loop, _| {
            event_loop.turns.data.fault = Some(StoreError::TooManyAborts);
        });
        event_loop.turns.data.fault = None;
        // PING was in the same turn.
        let text = replies(event_loop, &mut client, 2);
        assert_eq!(text.matches("-ERR ").count(), 2, "{text}");
        assert!(nothing_is_watched(event_loop));
        assert_eq!(answer(event_loop, &mut other, "EXISTS to"), ":0\r\n");
    });
}

/// What a client has sent before it left is executed, as it is if it does not go on in later turns.
#[test]
fn a_command_of_a_client_that_has_left_is_stored() {
    with_loop(|event_loop, address| {
        let [mut client, mut other] = clients(event_loop, address);
        make(event_loop, &mut other);
        begin(event_loop, &mut client, "SUNIONSTORE to a b");
        assert!(memory(event_loop).is_some());
        drop(client);
        let began = Instant::now();
        while event_loop.turns.clients.count() > 1 {
            event_loop.step().unwrap();
            assert!(began.elapsed() < PATIENCE);
        }
        assert_eq!(answer(event_loop, &mut other, "SCARD to"), ":9000\r\n");
        assert!(nothing_is_watched(event_loop));
    });
}

/// A server that has become a replica, or whose clients may not write for a time, stores nothing.
#[test]
fn what_must_not_be_written_at_the_end_is_not_stored() {
    with_loop(|event_loop, address| {
        let [mut client, mut other] = clients(event_loop, address);
        make(event_loop, &mut other);
        for (command, _) in COMMANDS {
            begin(event_loop, &mut client, command);
            event_loop.turns.data.set_access(Access::Replica);
            let text = before_pong(event_loop, &mut client);
            assert!(text.starts_with("-READONLY"), "{command}: {text}");
            event_loop.turns.data.set_access(Access::Open);
            assert_eq!(answer(event_loop, &mut other, "EXISTS to"), ":0\r\n");
            begin(event_loop, &mut client, command);
            begin(event_loop, &mut other, "CLIENT PAUSE 100000 WRITE");
            before_pong(event_loop, &mut other);
            turns(event_loop, |_, _| {});
            (0..5).for_each(|_| event_loop.step().unwrap());
            assert_eq!(answer(event_loop, &mut other, "EXISTS to"), ":0\r\n");
            answer(event_loop, &mut other, "CLIENT UNPAUSE\r\nSADD a x\r\nZADD za 1 x");
            let text = before_pong(event_loop, &mut client);
            let found = digest(event_loop, &mut client, "to");
            assert_eq!((text, found), whole(event_loop, &mut client, command), "{command}");
            answer(event_loop, &mut other, "DEL to");
        }
        for (forbids, allows, refusal) in [
            ("ACL SETUSER default -sunionstore", "ACL SETUSER default +@all", "-NOPERM"),
            (
                "CONFIG SET min-replicas-to-write 1",
                "CONFIG SET min-replicas-to-write 0",
                "-NOREPLICAS",
            ),
        ] {
            begin(event_loop, &mut client, "SUNIONSTORE to a b");
            answer(event_loop, &mut other, forbids);
            let text = before_pong(event_loop, &mut client);
            assert!(text.starts_with(refusal), "{text}");
            answer(event_loop, &mut other, allows);
            assert_eq!(answer(event_loop, &mut other, "EXISTS to"), ":0\r\n");
        }
        assert!(nothing_is_watched(event_loop));
    });
}

/// What waits for the key is served, and what others learn of the command they learn once.
#[test]
fn what_is_stored_in_the_end_has_all_effects_once() {
    with_loop(|event_loop, address| {
        let [mut client, mut other, mut waiter, mut listener, mut monitor, mut replica] =
            clients(event_loop, address);
        make(event_loop, &mut other);
        answer(event_loop, &mut other, "CONFIG SET notify-keyspace-events KEA");
        answer(event_loop, &mut other, "CONFIG SET slowlog-log-slower-than 0\r\nSLOWLOG RESET");
        followed(event_loop, &mut replica);
        for (name, command, wait, left) in [
            ("zunionstore", "ZUNIONSTORE to 2 za zb", "BZPOPMIN to 0", "zpopmin"),
            ("sortstore", "SORT a ALPHA STORE to", "BLPOP to 0", "lpop"),
        ] {
            answer(event_loop, &mut other, "DEL to\r\nCONFIG RESETSTAT");
            listener.write_all(b"PSUBSCRIBE __keyspace@0__:to\r\n").unwrap();
            replies(event_loop, &mut listener, 6);
            monitor.write_all(b"MONITOR\r\n").unwrap();
            replies(event_loop, &mut monitor, 1);
            waiter.write_all(format!("{wait}\r\nPING\r\n").as_bytes()).unwrap();
            arrived(event_loop, wait.len() + 8);
            event_loop.step().unwrap();
            begin(event_loop, &mut client, command);
            assert!(before_pong(event_loop, &mut client).starts_with(':'));
            let text = before_pong(event_loop, &mut waiter);
            assert!(text.contains("e000000"), "{text}");
            let text = answer(event_loop, &mut other, "INFO commandstats");
            let upper = command.split(' ').next().unwrap();
            let word = upper.to_lowercase();
            assert!(text.contains(&format!("cmdstat_{word}:calls=1,")), "{text}");
            let text = answer(event_loop, &mut other, "SLOWLOG GET 100");
            assert_eq!(text.matches(&format!("\r\n{upper}\r\n")).count(), 1, "{text}");
            listener.write_all(b"PUNSUBSCRIBE\r\nPING\r\n").unwrap();
            let text = before_pong(event_loop, &mut listener);
            for event in [name, left] {
                assert_eq!(text.matches(&format!("\r\n{event}\r\n")).count(), 1, "{event}: {text}");
            }
            monitor.write_all(b"RESET\r\nPING\r\n").unwrap();
            let text = before_pong(event_loop, &mut monitor);
            assert_eq!(text.matches(&format!("\"{upper}\"")).count(), 1, "{text}");
        }
        answer(event_loop, &mut other, "SET last 1");
        let (mut sent, mut bytes, began) = (String::new(), vec![0; 1 << 16], Instant::now());
        replica.set_nonblocking(true).unwrap();
        while !sent.contains("last") {
            event_loop.step().unwrap();
            if let Ok(count) = replica.read(&mut bytes) {
                sent += &String::from_utf8_lossy(&bytes[..count]);
            }
            assert!(began.elapsed() < PATIENCE);
        }
        assert_eq!(sent.matches("ZUNIONSTORE").count(), 1);
    });
}
