//! Streams beside Redis, clients that wait for entries, and what is left after a stop.

use tembo_server::Config;

use crate::client::{Client, Random, Running, encode, wait_until};
use crate::differential::Redis;
use crate::stream_script::{StreamScript, masked};

fn call(client: &mut Client, command: &[String]) -> String {
    let args: Vec<&[u8]> = command.iter().map(String::as_bytes).collect();
    masked(command, &client.call_args(&args))
}

#[test]
fn random_scripts_of_streams() {
    let Some(redis) = Redis::start() else { return };
    let tembo = Running::start();
    let seeds =
        std::env::var("TEMBO_SEEDS").ok().and_then(|seeds| seeds.parse().ok()).unwrap_or(12);
    for seed in 1..=seeds {
        let hello = if seed % 2 == 0 { "HELLO 3" } else { "PING" };
        let mut script = StreamScript::new(seed * 0x9e37_79b9);
        let (mut theirs, mut ours) = (Client::connect(redis.address), tembo.client());
        for client in [&mut theirs, &mut ours] {
            client.call(hello);
            client.call("FLUSHALL");
        }
        let (mut history, mut in_multi) = (Vec::new(), false);
        for step in 0..1500 {
            let command = script.command(in_multi);
            let (left, right) = (call(&mut theirs, &command), call(&mut ours, &command));
            match command[0].as_str() {
                "MULTI" => in_multi = true,
                "EXEC" | "DISCARD" => in_multi = false,
                _ => {}
            }
            history.push(format!("{command:?}\n    redis {left:?}\n    tembo {right:?}"));
            let from = history.len().saturating_sub(40);
            assert_eq!(left, right, "seed {seed}, step {step}\n{}", history[from..].join("\n"));
        }
    }
}

/// The same commands, which end with one that waits; then another client's commands. All replies, first those of the client
/// that waits.
fn waits(client: &mut Client, other: &mut Client, script: &str) -> Vec<String> {
    let mut replies = Vec::new();
    let mut blocked = 0;
    for line in script.lines().map(str::trim).filter(|line| !line.is_empty()) {
        match line.split_once("> ") {
            Some(("wait", command)) => {
                let words: Vec<&[u8]> = command.split(' ').map(str::as_bytes).collect();
                client.send(&encode(&words));
                wait_until(
                    "a client that waits",
                    || other.call("INFO clients"),
                    |info| info.contains("blocked_clients:1\r\n"),
                );
                blocked += 1;
            }
            Some((_, command)) => replies.push(other.call(command)),
            None if line == "reply" => {
                blocked -= 1;
                replies.push(client.reply());
            }
            None => replies.push(client.call(line)),
        }
    }
    assert_eq!(blocked, 0);
    replies
}

/// A line begins with `other> ` where another client sends the command, `wait> ` where it waits; `reply`: its wait has ended.
const WAITS: &[&str] = &[
    "other> XADD s 1-1 a b
         wait> XREAD BLOCK 0 STREAMS s t $ 0
         other> XADD s 1-2 c d
         reply
         wait> XREAD BLOCK 0 COUNT 1 STREAMS s t $ $
         other> XADD t 5-0 e f
         reply
         wait> XREAD BLOCK 0 STREAMS s 7-0
         other> XADD s 2-0 too few
         other> XADD s 8-0 g h
         reply",
    "other> XGROUP CREATE s g $ MKSTREAM
         wait> XREADGROUP GROUP g c BLOCK 0 STREAMS s >
         other> XADD s 1-0 a b
         reply
         other> XPENDING s g
         XREADGROUP GROUP g c STREAMS s 0
         XACK s g 1-0
         wait> XREADGROUP GROUP g d BLOCK 0 NOACK STREAMS s >
         other> XADD s 2-0 a b
         reply
         other> XPENDING s g",
    "other> XGROUP CREATE s g $ MKSTREAM
         wait> XREADGROUP GROUP g c BLOCK 0 STREAMS s >
         other> DEL s
         reply
         other> XGROUP CREATE s g $ MKSTREAM
         wait> XREADGROUP GROUP g c BLOCK 0 STREAMS s >
         other> SET s string
         reply
         other> DEL s
         other> XGROUP CREATE s g $ MKSTREAM
         wait> XREADGROUP GROUP g c BLOCK 0 STREAMS s >
         other> XGROUP DESTROY s g
         reply
         other> XGROUP CREATE s g $ MKSTREAM
         wait> XREADGROUP GROUP g c BLOCK 0 STREAMS s >
         other> FLUSHALL
         reply
         other> XGROUP CREATE s g $ MKSTREAM
         wait> XREADGROUP GROUP g c BLOCK 0 STREAMS s >
         other> PEXPIRE s 1
         reply",
    "wait> XREAD BLOCK 0 STREAMS s 0
         other> MULTI
         other> XADD s 1-0 a b
         other> XDEL s 1-0
         other> EXEC
         reply
         other> DEL s
         wait> XREAD BLOCK 0 STREAMS s 0
         other> MULTI
         other> XADD s 1-0 a b
         other> DEL s
         other> XADD s 1-0 c d
         other> XADD s 2-0 e f
         other> EXEC
         reply
         wait> XREAD BLOCK 0 STREAMS s $
         other> SET s x
         other> DEL s
         other> XADD s 3-0 g h
         reply",
    "other> XADD a 1-0 a b
         other> XADD s 1-0 a b
         wait> XREAD BLOCK 0 STREAMS s 3-0
         other> XADD new 4-0 c d
         other> RENAME new s
         reply
         MULTI
         XREAD BLOCK 0 STREAMS s $
         XREAD BLOCK 0 STREAMS s a 0 0
         EXEC",
];

#[test]
fn clients_that_wait_are_served_as_by_redis() {
    let Some(redis) = Redis::start() else { return };
    let tembo = Running::start();
    for (at, script) in WAITS.iter().enumerate() {
        for hello in ["PING", "HELLO 3"] {
            let replies = [redis.address, tembo.address].map(|address| {
                let (mut client, mut other) = (Client::connect(address), Client::connect(address));
                client.call(hello);
                other.call("FLUSHALL");
                waits(&mut client, &mut other, script)
            });
            assert_eq!(replies[0], replies[1], "script {at} after {hello}");
        }
    }
}

/// Several clients of a group each get entries that no other gets; each reader gets all.
#[test]
fn entries_go_to_one_consumer_of_a_group_and_to_each_reader() {
    let tembo = Running::start();
    let mut other = tembo.client();
    other.call("XGROUP CREATE s g $ MKSTREAM");
    let mut clients: Vec<Client> = (0..4).map(|_| tembo.client()).collect();
    for (at, client) in clients.iter_mut().enumerate() {
        let consumer = format!("c{at}");
        let words: Vec<&[u8]> = if at < 2 {
            vec![
                b"XREADGROUP",
                b"GROUP",
                b"g",
                consumer.as_bytes(),
                b"BLOCK",
                b"0",
                b"STREAMS",
                b"s",
                b">",
            ]
        } else {
            vec![b"XREAD", b"BLOCK", b"0", b"STREAMS", b"s", b"$"]
        };
        client.send(&encode(&words));
        let line = format!("blocked_clients:{}\r\n", at + 1);
        wait_until("waiting", || other.call("INFO clients"), |info| info.contains(&line));
    }
    other.call("XADD s 1-0 a b");
    let entry = |id: &str| {
        format!("*1\r\n*2\r\n$1\r\ns\r\n*1\r\n*2\r\n$3\r\n{id}\r\n*2\r\n$1\r\na\r\n$1\r\nb\r\n")
    };
    for at in [0, 2, 3] {
        assert_eq!(clients[at].reply(), entry("1-0"));
    }
    other.call("XADD s 2-0 a b");
    assert_eq!(clients[1].reply(), entry("2-0"));
    assert_eq!(
        other.call("XPENDING s g"),
        "*4\r\n:2\r\n$3\r\n1-0\r\n$3\r\n2-0\r\n*2\r\n*2\r\n$2\r\nc0\r\n$1\r\n1\r\n*2\r\n$2\r\nc1\r\n$1\r\n1\r\n"
    );
}

/// Many entries and pending ones: each trim, group and stream that is removed leaves nothing behind.
#[test]
fn what_is_removed_leaves_no_element_behind() {
    let tembo = Running::start();
    let mut client = tembo.client();
    for n in 1..=2000 {
        client.call(&format!("XADD s {n}-0 field {n}"));
    }
    client.call("XGROUP CREATE s g 0");
    client.call("XGROUP CREATE s h 0");
    for name in ["a", "b"] {
        client.call(&format!("XREADGROUP GROUP g {name} COUNT 700 STREAMS s >"));
        client.call(&format!("XREADGROUP GROUP h {name} COUNT 3 STREAMS s >"));
    }
    assert_eq!(client.call("XTRIM s MAXLEN 1000"), ":1000\r\n");
    assert!(client.call("XRANGE s - + COUNT 1").contains("1001-0"));
    assert_eq!(client.call("XADD s MAXLEN ~ 950 2001-0 a b"), "$6\r\n2001-0\r\n");
    assert_eq!(client.call("XLEN s"), ":1001\r\n");
    assert_eq!(client.call("XTRIM s MAXLEN ~ 900"), ":100\r\n");
    assert_eq!(client.call("XGROUP DELCONSUMER s g a"), ":700\r\n");
    assert!(
        client.call("XPENDING s g").starts_with("*4\r\n:700\r\n$5\r\n701-0\r\n$6\r\n1400-0\r\n")
    );
    assert_eq!(client.call("XGROUP DESTROY s g"), ":1\r\n");
    client.call("COPY s t");
    for key in ["s", "t"] {
        assert!(client.call(&format!("XPENDING {key} h")).starts_with("*4\r\n:6\r\n"));
        assert_eq!(client.call(&format!("XACK {key} h 1-0 2-0")), ":2\r\n");
        assert_eq!(client.call(&format!("DEL {key}")), ":1\r\n");
    }
    let (store, _) = tembo.stop();
    let snapshot = store.snapshot().unwrap();
    let elements = snapshot.keyspaces().unwrap();
    let (_, space) = elements.into_iter().find(|(name, _)| name == "db0.elements").unwrap();
    let mut left = Vec::new();
    let all = (std::ops::Bound::Unbounded, std::ops::Bound::Unbounded);
    let mut visit = |key: &[u8], _: tembo_kv::Value<'_>| {
        left.push(key.to_vec());
        true
    };
    snapshot.range_with::<[u8]>(space, all, tembo_kv::Direction::Forward, &mut visit).unwrap();
    // The last id that was given.
    assert_eq!(left, [vec![0; 8]]);
}

#[test]
fn groups_are_there_after_a_start() {
    let tembo = Running::start();
    let mut client = tembo.client();
    for n in 1..=20 {
        client.call(&format!("XADD s {n}-0 field {n}"));
    }
    client.call("XGROUP CREATE s g 0");
    client.call("XREADGROUP GROUP g a COUNT 8 STREAMS s >");
    client.call("XREADGROUP GROUP g b COUNT 4 STREAMS s >");
    client.call("XACK s g 2-0 9-0");
    client.call("XDEL s 20-0");
    let commands = ["XINFO GROUPS s", "XINFO STREAM s FULL", "XPENDING s g", "XRANGE s - +"];
    let before = commands.map(|command| client.call(command));
    let tembo = Running::over(tembo.stop().0, Config::default());
    let mut client = tembo.client();
    assert_eq!(commands.map(|command| client.call(command)), before);
    assert!(client.call("XREADGROUP GROUP g a COUNT 1 STREAMS s >").contains("13-0"));
}

#[test]
fn changes_of_streams_are_published() {
    let Some(redis) = Redis::start() else { return };
    let tembo = Running::start();
    let commands = "XADD s MAXLEN 1 1-0 a b|XADD s MAXLEN 1 2-0 a b|XGROUP CREATE s g 0|XGROUP SETID s g 0|\
                    XREADGROUP GROUP g c STREAMS s >|XGROUP CREATECONSUMER s g d|XGROUP CREATECONSUMER s g d|\
                    XCLAIM s g e 0 2-0|XAUTOCLAIM s g f 0 0|XGROUP DELCONSUMER s g f|XDEL s 2-0|XDEL s 2-0|\
                    XSETID s 9-0|XTRIM s MAXLEN 0|XGROUP DESTROY s g|XGROUP DESTROY s g|DEL s";
    let events = [redis.address, tembo.address].map(|address| {
        let (mut client, mut listener) = (Client::connect(address), Client::connect(address));
        client.call("CONFIG SET notify-keyspace-events KEA");
        listener.call("PSUBSCRIBE __key*__:*");
        for command in commands.split('|') {
            client.call(command);
        }
        client.call("PUBLISH __keyend__:x end");
        let mut events = Vec::new();
        loop {
            let event = listener.reply();
            if event.contains("__keyend__") {
                return events;
            }
            events.push(event);
        }
    });
    assert_eq!(events[0], events[1]);
}

/// The words of a command, of which some are numbers.
fn words(line: &str) -> Vec<String> {
    line.split(' ').map(str::to_owned).collect()
}

/// One entry after another is delivered, as by Redis, whatever is added, removed and claimed meanwhile: many are in a block, and
/// there are many blocks.
#[test]
fn entries_read_one_by_one_are_those_that_are_there() {
    let Some(redis) = Redis::start() else { return };
    let tembo = Running::start();
    for seed in 1..=4 {
        let mut random = Random(seed * 77);
        let (mut theirs, mut ours) = (Client::connect(redis.address), tembo.client());
        let mut history = Vec::new();
        let mut both = |line: String| {
            let command = words(&line);
            let (left, right) = (call(&mut theirs, &command), call(&mut ours, &command));
            history.push(format!("{line}\n    redis {left:?}\n    tembo {right:?}"));
            let from = history.len().saturating_sub(30);
            assert_eq!(left, right, "seed {seed}\n{}", history[from..].join("\n"));
        };
        both("FLUSHALL".to_owned());
        both("XGROUP CREATE s g 0 MKSTREAM".to_owned());
        both("XGROUP CREATE s h 0".to_owned());
        let mut last = 1;
        for _ in 0..400 {
            last += 1 + random.below(3);
            both(format!("XADD s {last}-{} field value:{last}", random.below(3)));
        }
        for _ in 0..2500 {
            let group = random.pick(&["g", "h"]);
            let consumer = random.pick(&["a", "b"]);
            let id = random.below(last + 2);
            both(match random.below(24) {
                0..14 => format!("XREADGROUP GROUP {group} {consumer} COUNT 1 STREAMS s >"),
                14 => format!("XREADGROUP GROUP {group} {consumer} COUNT 2 NOACK STREAMS s >"),
                15 => format!("XREADGROUP GROUP {group} {consumer} COUNT 3 STREAMS s {id}"),
                16 => format!("XREAD COUNT 2 STREAMS s {id}"),
                17 => format!("XDEL s {id}-0 {id}-1 {id}-2"),
                18 => format!("XTRIM s MINID {}", id / 8),
                19 => format!("XGROUP SETID s {group} {id}"),
                20 => format!("XCLAIM s {group} {consumer} 0 {id}-0 {id}-1 FORCE JUSTID"),
                21 => format!("XACK s {group} {id}-0 {id}-1"),
                22 => format!("XRANGE s {id} + COUNT 1"),
                _ => {
                    last += 1 + random.below(3);
                    format!("XADD s {last}-{} field value:{last}", random.below(3))
                }
            });
        }
        for group in ["g", "h"] {
            both(format!("XPENDING s {group} - + 10000"));
        }
        both("XRANGE s - +".to_owned());
    }
}

/// An error means that nothing has happened: entries that were removed stayed in the counts of their group.
#[test]
fn entries_that_a_consumer_of_too_long_a_name_claims_stay_as_they_are() {
    let server = Running::start();
    let mut client = server.client();
    for id in ["1-1", "2-2"] {
        client.call(&format!("XADD s {id} f v"));
    }
    client.call("XGROUP CREATE s g 0");
    client.call("XREADGROUP GROUP g a STREAMS s >");
    client.call("XDEL s 1-1");
    let before = client.call("XPENDING s g - + 10 a").matches("$3").count();
    let long = "n".repeat(65_000);
    for command in [format!("XCLAIM s g {long} 0 1-1 2-2"), format!("XAUTOCLAIM s g {long} 0 0")] {
        let reply = client.call(&command);
        assert!(reply.starts_with("-ERR the name of a"), "{}", &reply[..reply.len().min(90)]);
        assert_eq!(client.call("XPENDING s g - + 10 a").matches("$3").count(), before);
        assert!(client.call("XPENDING s g").starts_with("*4\r\n:2\r\n"));
    }
}
