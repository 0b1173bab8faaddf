//! Publish and subscribe, keyspace notifications and MONITOR, beside Redis.

use std::net::SocketAddr;

use crate::client::{Client, Random, Running, encode, wait_until};
use crate::collection_script;
use crate::differential::Redis;

/// A client that publishes and changes keys, and three that subscribe.
struct Group(Vec<Client>);

impl Group {
    fn new(address: SocketAddr) -> Group {
        let mut clients: Vec<Client> = (0..4).map(|_| Client::connect(address)).collect();
        clients[2].call("HELLO 3");
        clients[3].call("HELLO 3");
        clients[0].call("FLUSHALL");
        clients[0].call("CONFIG SET notify-keyspace-events KEA");
        Group(clients)
    }

    /// Executes a command, and gathers what all clients are sent, in any order of the messages.
    fn step(&mut self, client: usize, command: &[&str], mark: &str) -> Vec<Vec<String>> {
        let args: Vec<&[u8]> = command.iter().map(|word| word.as_bytes()).collect();
        self.0[client].send(&encode(&args));
        let mut sent: Vec<Vec<String>> = (0..4).map(|_| Vec::new()).collect();
        // What the command's own client is sent comes first: then all messages are on their way.
        for at in [client].into_iter().chain((0..4).filter(|&at| at != client)) {
            self.0[at].send(&encode(&[b"PING", mark.as_bytes()]));
            loop {
                let reply = self.0[at].reply();
                if reply.contains(mark) {
                    break;
                }
                // Of all names that are left at once, Redis does not promise the order.
                let leaves_all = command.len() == 1 && command[0].contains("UNSUBSCRIBE");
                let cut = if leaves_all { reply.rfind(':').unwrap_or(0) } else { reply.len() };
                sent[at].push(reply[..cut].to_owned());
            }
            sent[at].sort_unstable();
        }
        sent
    }
}

fn publisher(random: &mut Random) -> Vec<&'static str> {
    let commands: [&[&str]; 32] = [
        &["PUBLISH", "c1", "hello"],
        &["PUBLISH", "c2", ""],
        &["SPUBLISH", "c1", "to the shard"],
        &["PUBSUB", "NUMSUB", "c1", "c2", "none"],
        &["PUBSUB", "NUMPAT"],
        &["PUBSUB", "SHARDNUMSUB", "c1"],
        &["PUBSUB", "CHANNELS", "none*"],
        &["PUBSUB", "CHANNELS", "a", "b"],
        &["PUBSUB", "NUMSUB"],
        &["PUBSUB", "x"],
        &["MULTI"],
        &["EXEC"],
        &["SET", "a", "1"],
        &["SET", "b", "x", "EX", "1000"],
        &["APPEND", "a", "2"],
        &["INCR", "a"],
        &["INCRBYFLOAT", "a", "1.5"],
        &["SETRANGE", "b", "1", "y"],
        &["SETBIT", "a", "1", "1"],
        &["BITFIELD", "b", "SET", "u8", "0", "7"],
        &["BITOP", "NOT", "c", "a"],
        &["PFADD", "h", "x"],
        &["PFMERGE", "h", "h"],
        &["DEL", "a", "b", "none"],
        &["RENAME", "a", "b"],
        &["COPY", "b", "a", "REPLACE"],
        &["MOVE", "b", "1"],
        &["EXPIRE", "a", "1000"],
        &["EXPIRE", "a", "-1"],
        &["PERSIST", "a"],
        &["GETEX", "a", "PERSIST"],
        &["MSET", "a", "1", "b", "2"],
    ];
    commands[random.below(commands.len())].to_vec()
}

fn subscriber(random: &mut Random) -> Vec<&'static str> {
    let commands: [&[&str]; 20] = [
        &["SUBSCRIBE", "c1"],
        &["SUBSCRIBE", "c1", "c2"],
        &["SUBSCRIBE"],
        &["UNSUBSCRIBE", "c1"],
        &["UNSUBSCRIBE", "c2", "none"],
        &["UNSUBSCRIBE"],
        &["PSUBSCRIBE", "c*", "?1"],
        &["PSUBSCRIBE", "__key*__:*"],
        &["PUNSUBSCRIBE", "c*"],
        &["PUNSUBSCRIBE"],
        &["SSUBSCRIBE", "c1"],
        &["SUNSUBSCRIBE"],
        &["SUNSUBSCRIBE", "c2"],
        &["SUBSCRIBE", "__keyevent@0__:del", "__keyspace@0__:a"],
        &["PUBLISH", "c1", "from a subscriber"],
        &["GET", "none"],
        &["PING"],
        &["PING", "x"],
        &["RESET"],
        &["MULTI", "x"],
    ];
    commands[random.below(commands.len())].to_vec()
}

#[test]
fn messages_are_those_of_redis() {
    let Some(redis) = Redis::start() else { return };
    let tembo = Running::start();
    let seeds = std::env::var("TEMBO_SEEDS").ok().and_then(|seeds| seeds.parse().ok()).unwrap_or(4);
    for seed in 1..=seeds {
        let mut random = Random(seed * 0x9e37_79b9);
        let (mut theirs, mut ours) = (Group::new(redis.address), Group::new(tembo.address));
        let mut history = Vec::new();
        for step in 0..400 {
            let client = random.below(5) % 4;
            let make = if client == 0 { publisher } else { subscriber };
            let command = make(&mut random);
            let mark = format!("mark {step}.");
            // A queued PING is a reply of EXEC.
            let skip = command[0] == "MULTI" && client == 0;
            if skip {
                continue;
            }
            let redis = theirs.step(client, &command, &mark);
            let tembo = ours.step(client, &command, &mark);
            history.push(format!("{client}: {command:?}"));
            let from = history.len().saturating_sub(20);
            assert_eq!(redis, tembo, "seed {seed}, step {step}\n{}", history[from..].join("\n"));
        }
    }
}

#[test]
fn messages_of_a_transaction_arrive_when_it_is_executed() {
    let server = Running::start();
    let (mut publisher, mut subscriber) = (server.client(), server.client());
    subscriber.call("SUBSCRIBE a");
    for command in ["MULTI", "PUBLISH a 1", "SUBSCRIBE b", "PUBLISH b 2"] {
        publisher.call(command);
    }
    publisher.send(&encode(&[b"EXEC"]));
    assert_eq!(subscriber.reply(), "*3\r\n$7\r\nmessage\r\n$1\r\na\r\n$1\r\n1\r\n");
    assert_eq!(publisher.reply(), "*3\r\n:1\r\n*3\r\n$9\r\nsubscribe\r\n$1\r\nb\r\n:1\r\n:1\r\n");
    assert_eq!(publisher.reply(), "*3\r\n$7\r\nmessage\r\n$1\r\nb\r\n$1\r\n2\r\n");
}

#[test]
fn a_key_that_expires_is_published() {
    let server = Running::start();
    let (mut client, mut subscriber) = (server.client(), server.client());
    assert_eq!(client.call("CONFIG SET notify-keyspace-events Ex"), "+OK\r\n");
    subscriber.call("SUBSCRIBE __keyevent@0__:expired");
    client.call("SET a 1 PX 10");
    let message = "*3\r\n$7\r\nmessage\r\n$22\r\n__keyevent@0__:expired\r\n$1\r\na\r\n";
    assert_eq!(subscriber.reply(), message);
    assert!(
        client.call("CONFIG SET notify-keyspace-events q").starts_with("-ERR CONFIG SET failed")
    );
    assert!(client.call("CONFIG GET notify-keyspace-events").ends_with("$2\r\nxE\r\n"));
}

#[test]
fn a_subscriber_that_does_not_read_is_disconnected() {
    let server = Running::start();
    let (mut client, mut subscriber) = (server.client(), server.client());
    let limit: [&[u8]; 4] =
        [b"CONFIG", b"SET", b"client-output-buffer-limit", b"pubsub 200000 0 0"];
    assert_eq!(client.call_args(&limit), "+OK\r\n");
    subscriber.call("SUBSCRIBE a");
    let message = vec![b'x'; 100_000];
    wait_until(
        "the end of the subscription",
        || client.call_args(&[b"PUBLISH", b"a", &message]),
        |count| count == ":0\r\n",
    );
    assert!(client.call("INFO stats").contains("client_output_buffer_limit_disconnections:1\r\n"));
}

#[test]
fn subscriptions_are_confirmed_to_a_client_that_wants_no_replies() {
    let Some(redis) = Redis::start() else { return };
    let tembo = Running::start();
    for hello in ["HELLO 2", "HELLO 3"] {
        let sent = |address: SocketAddr| {
            let (mut client, mut other) = (Client::connect(address), Client::connect(address));
            client.call(hello);
            let mut sent = Vec::new();
            for silence in ["CLIENT REPLY OFF", "CLIENT REPLY SKIP"] {
                client.send(format!("{silence}\r\nSUBSCRIBE a b\r\n").as_bytes());
                sent.extend([client.reply(), client.reply()]);
                client.send(b"CLIENT REPLY OFF\r\nPSUBSCRIBE p*\r\nSUBSCRIBE\r\nPING\r\n");
                sent.push(client.reply());
                other.call("PUBLISH a text");
                client.send(b"UNSUBSCRIBE a\r\nUNSUBSCRIBE b\r\nPUNSUBSCRIBE\r\nSUNSUBSCRIBE\r\n");
                sent.extend((0..5).map(|_| client.reply()));
                client.send(b"CLIENT REPLY ON\r\n");
                sent.push(client.reply());
            }
            sent
        };
        assert_eq!(sent(redis.address), sent(tembo.address), "{hello}");
    }
}

#[test]
fn commands_are_shown_as_redis_shows_them() {
    let Some(redis) = Redis::start() else { return };
    let tembo = Running::start();
    let shown = |address: SocketAddr| {
        let (mut monitor, mut client) = (Client::connect(address), Client::connect(address));
        assert_eq!(monitor.call("MONITOR"), "+OK\r\n");
        let commands: [&[&[u8]]; 13] = [
            &[b"SELECT", b"3"],
            &[b"EVAL", b"redis.call('SELECT', 2) redis.call('set', KEYS[1], 1)", b"1", b"k"],
            &[b"set", b"a", b"q\"\\\n\r\t\x07\x08\x01\xff x"],
            &[b"MULTI"],
            &[b"INCR", b"n"],
            &[b"EXEC"],
            &[b"NOSUCH"],
            &[b"GET"],
            &[b"CONFIG", b"GET", b"port"],
            &[b"AUTH", b"secret"],
            &[b"HELLO", b"3", b"AUTH", b"default", b"secret"],
            &[b"PUBLISH", b"a", b"b"],
            &[b"PING", b"last"],
        ];
        commands.iter().for_each(|command| drop(client.call_args(command)));
        let mut lines = Vec::new();
        while !lines.last().is_some_and(|line: &String| line.contains("last")) {
            let line = monitor.reply();
            let (time, rest) = line.split_once(" [").unwrap();
            assert!(time.starts_with('+') && time.rsplit_once('.').unwrap().1.len() == 6);
            let (client, args) = rest.split_once("] ").unwrap();
            let (db, peer) = client.split_once(' ').unwrap();
            lines.push(format!("{db} {} {args}", if peer == "lua" { peer } else { "client" }));
        }
        lines
    };
    assert_eq!(shown(redis.address), shown(tembo.address));
}

/// Executes a command, and gathers what a subscriber of all events is sent.
fn events(client: &mut Client, subscriber: &mut Client, command: &[String]) -> Vec<String> {
    let args: Vec<&[u8]> = command.iter().map(String::as_bytes).collect();
    let is_error = client.call_args(&args).starts_with('-');
    client.call("PUBLISH end end");
    let mut events = Vec::new();
    loop {
        let reply = subscriber.reply();
        if reply.ends_with("$3\r\nend\r\n") {
            // It looks for the keys of a set in any order.
            if command[0].starts_with("SORT") {
                events.sort_unstable();
            }
            return events;
        }
        // Of a command that fails, Redis publishes the misses of keys that it read before it found out.
        if !(is_error && reply.contains("keymiss")) {
            events.push(reply);
        }
    }
}

#[test]
fn events_of_collections_are_those_of_redis_in_their_order() {
    let Some(redis) = Redis::start() else { return };
    let tembo = Running::start();
    let mut pairs = [redis.address, tembo.address].map(|address| {
        let (mut client, mut subscriber) = (Client::connect(address), Client::connect(address));
        client.call("CONFIG SET notify-keyspace-events KEAnm");
        subscriber.call("SUBSCRIBE end");
        subscriber.call("PSUBSCRIBE __key*__:*");
        (client, subscriber)
    });
    let mut random = Random(0x9e37_79b9);
    let mut history = Vec::new();
    for step in 0..6000 {
        let command = collection_script::command(&mut random);
        let [theirs, ours] =
            pairs.each_mut().map(|pair| events(&mut pair.0, &mut pair.1, &command));
        history.push(format!("{command:?}"));
        let from = history.len().saturating_sub(12);
        assert_eq!(theirs, ours, "step {step}\n{}", history[from..].join("\n"));
    }
}
