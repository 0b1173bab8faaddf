//! Servers of Redis as replicas: what they hold, how they go on after a cut, and what they are sent.

use std::io::{BufRead, ErrorKind, Read};

use tembo_server::Config;

use crate::client::{Client, Random, Running, encode, wait_until};
use crate::differential::{Redis, Script};
use crate::stream_script::StreamScript;

/// Databases that the scripts use.
const DATABASES: [u32; 5] = [0, 1, 2, 3, 15];

fn info(client: &mut Client, section: &str, field: &str) -> String {
    let text = client.call(&format!("INFO {section}"));
    let prefix = format!("{field}:");
    let line = text.lines().find_map(|line| line.strip_prefix(&prefix));
    line.unwrap_or_default().to_owned()
}

fn follow(redis: &mut Client, tembo: &Running) {
    let address = tembo.address;
    let command = format!("REPLICAOF {} {}", address.ip(), address.port());
    assert_eq!(redis.call(&command), "+OK\r\n");
}

fn linked(redis: &mut Client) {
    let status = || redis.call("INFO replication");
    wait_until("the link", status, |info| info.contains("master_link_status:up"));
}

/// Waits until the replica has executed all that was executed before.
fn settled(control: &mut Client) {
    assert_eq!(control.call("WAIT 1 60000"), ":1\r\n");
}

/// The words of a reply, in order where the order is not the value's.
fn words(reply: &str, pairs: Option<usize>) -> String {
    let words: Vec<&str> =
        reply.split("\r\n").filter(|word| !word.starts_with(['*', '$', '%', '~'])).collect();
    let Some(size) = pairs else { return words.join(",") };
    let mut groups: Vec<String> = words.chunks(size).map(|group| group.join("=")).collect();
    groups.sort_unstable();
    groups.join(",")
}

/// All of a server, by database and key.
fn contents(client: &mut Client) -> Vec<String> {
    let mut all = Vec::new();
    for db in DATABASES {
        client.call(&format!("SELECT {db}"));
        let keys = client.call("KEYS *");
        let mut keys: Vec<&str> =
            keys.split("\r\n").filter(|word| !word.starts_with(['*', '$'])).collect();
        keys.sort_unstable();
        for key in keys.into_iter().filter(|key| !key.is_empty()) {
            let kind = client.call(&format!("TYPE {key}"));
            let value = match kind.trim() {
                "+list" => words(&client.call(&format!("LRANGE {key} 0 -1")), None),
                "+hash" => words(&client.call(&format!("HGETALL {key}")), Some(2)),
                "+set" => words(&client.call(&format!("SMEMBERS {key}")), Some(1)),
                "+zset" => words(&client.call(&format!("ZRANGE {key} 0 -1 WITHSCORES")), None),
                "+stream" => stream(client, key),
                _ => client.call(&format!("GET {key}")),
            };
            let expiry = client.call(&format!("PEXPIRETIME {key}"));
            all.push(format!("{db} {key} {} {} {value}", kind.trim(), expiry.trim()));
        }
    }
    all
}

/// Entries, and groups with what is pending for their consumers.
fn stream(client: &mut Client, key: &str) -> String {
    let mut parts = vec![words(&client.call(&format!("XRANGE {key} - +")), None)];
    let groups = client.call(&format!("XINFO GROUPS {key}"));
    let groups: Vec<&str> = groups.split("\r\n").collect();
    let names = groups.windows(3).filter(|lines| lines[0] == "name").map(|lines| lines[2]);
    for name in names {
        parts.push(name.to_owned());
        parts.push(words(&client.call(&format!("XPENDING {key} {name}")), None));
    }
    let last = groups.windows(3).filter(|lines| lines[0] == "last-delivered-id");
    parts.extend(last.map(|lines| lines[2].to_owned()));
    parts.join(";")
}

/// The first value that differs, cut.
fn difference(tembo: &mut Client, redis: &mut Client) -> Option<(String, String)> {
    let (wanted, found) = (contents(tembo), contents(redis));
    let cut =
        |text: Option<&String>| text.map_or("nothing", |text| text).chars().take(400).collect();
    let most = wanted.len().max(found.len());
    let differs = (0..most).find(|&at| wanted.get(at) != found.get(at))?;
    Some((cut(wanted.get(differs)), cut(found.get(differs))))
}

/// Both hold the same, as soon as keys that are about to expire have done so.
fn assert_same(tembo: &mut Client, redis: &mut Client) {
    wait_until("the same contents", || difference(tembo, redis), Option::is_none);
}

/// Commands that do not do the same twice.
fn unlike(random: &mut Random) -> String {
    let (key, number) = (random.below(6), random.below(40));
    match random.below(29) {
        0 => format!("SADD us{key} {number} a{number} b{number}"),
        1 => format!("SPOP us{key}"),
        2 => format!("SPOP us{key} {}", number % 5),
        3 => format!("RPUSH ul{key} {number} x y z"),
        4 => format!("BLPOP nosuch ul{key} 0.001"),
        5 => format!("LMPOP 2 nosuch ul{key} RIGHT COUNT 2"),
        6 => format!("BLMOVE ul{key} ul{} LEFT RIGHT 0.001", (key + 1) % 6),
        7 => format!("BRPOPLPUSH ul{key} ul{} 0.001", (key + 1) % 6),
        8 => format!("ZADD uz{key} {number}.5 m{number} 3 n{number}"),
        9 => format!("ZMPOP 2 nosuch uz{key} MAX COUNT 2"),
        10 => format!("BZPOPMIN nosuch uz{key} 0.001"),
        11 => format!("SET uk{key} {number} EX 100000"),
        12 => format!("GETEX uk{key} PX 200000000"),
        13 => format!("GETEX uk{key} PERSIST"),
        14 => format!("INCRBYFLOAT uk{key} 0.1"),
        15 => format!("HINCRBYFLOAT uh{key} f{number} 1.25"),
        16 => format!("HEXPIRE uh{key} 1 FIELDS 1 f{number}"),
        17 => format!("EXPIRE uh{key} {}", 100_000 + number),
        18 => format!("PEXPIRE ul{key} {}", 3 + number),
        19 => format!("SET ux{key} {number} PX {}", 1 + number % 3),
        20 => format!("INCR ux{key}"),
        21 => format!("SORT ul{key} ALPHA DESC STORE ut{key}"),
        22 => format!("SUNIONSTORE uu{key} us{key} us{}", (key + 1) % 6),
        23 => format!("GETDEL uk{key}"),
        24 => format!("PFADD up{key} {number}"),
        25 => "SWAPDB 1 2".to_owned(),
        26 => format!("COPY uk{key} uk{key} DB 2 REPLACE"),
        27 => {
            let script = "return{redis.call('spop',KEYS[1]),redis.call('incr',KEYS[2])}";
            format!("EVAL {script} 2 us{key} un{key}")
        }
        _ => format!("GEOADD ug{key} {number}.5 {number}.25 m{number}"),
    }
}

/// Some of each script.
fn change(client: &mut Client, (script, streams): (&mut Script, &mut StreamScript), count: usize) {
    for _ in 0..count {
        let args = |words: Vec<String>, client: &mut Client| {
            let words: Vec<&[u8]> = words.iter().map(String::as_bytes).collect();
            client.call_args(&words)
        };
        match script.0.below(3) {
            0 => args(script.command(), client),
            1 => args(streams.command(true), client),
            _ => client.call(&unlike(&mut script.0)),
        };
    }
}

/// Large values of all types, and what else a file has.
fn fill(client: &mut Client) {
    client.call("SELECT 3");
    let piece = "0123456789abcdef".repeat(1 << 16);
    for _ in 0..5 {
        client.call(&format!("APPEND string {piece}"));
    }
    let long = "x".repeat(100);
    for number in 0..1500 {
        client.call(&format!("RPUSH list {number} {long}{number}"));
        client.call(&format!("HSET hash f{number} {number}"));
        client.call(&format!("SADD set m{number}"));
        client.call(&format!("ZADD sorted {}.75 m{number}", number % 100));
        client.call(&format!("XADD stream {number}-1 field {number}"));
        client.call(&format!("SET k{number} {number} PXAT {}", 99_999_999_999_000_u64 + number));
    }
    client.call("HEXPIRE hash 1000 FIELDS 1 f7");
    client.call("XGROUP CREATE stream group 0");
    client.call("XREADGROUP GROUP group one COUNT 200 STREAMS stream >");
    client.call("XREADGROUP GROUP group two COUNT 100 STREAMS stream >");
    client.call("XACK stream group 3-1 250-1");
    client.call("XDEL stream 7-1 9-1");
    client.call("RPUSH small a b c");
    client.call("ZADD few 1 a -2.5 b");
    client.call("HSET little a 1 b two");
    client.call_args(&[
        b"FUNCTION",
        b"LOAD",
        b"#!lua name=lib\nredis.register_function('one', function() return 1 end)",
    ]);
}

#[test]
fn a_redis_that_follows_holds_what_its_primary_holds() {
    let Some(redis) = Redis::start() else { return };
    let tembo = Running::start();
    let (mut client, mut control) = (tembo.client(), tembo.client());
    fill(&mut client);
    let seed = std::env::var("TEMBO_SEED").ok().and_then(|seed| seed.parse().ok());
    let seed = seed.unwrap_or(0x5eed_0017_u64);
    println!("TEMBO_SEED={seed}");
    let mut script = Script(Random(seed));
    let mut streams = StreamScript::new(seed + 1);
    change(&mut client, (&mut script, &mut streams), 1500);
    let mut replica = Client::connect(redis.address);
    follow(&mut replica, &tembo);
    change(&mut client, (&mut script, &mut streams), 1500);
    linked(&mut replica);
    change(&mut client, (&mut script, &mut streams), 1500);
    client.call("DISCARD");
    settled(&mut control);
    assert_same(&mut client, &mut replica);
    assert!(control.call("INFO replication").contains("connected_slaves:1\r\nslave0:ip=127.0.0.1"));
    let full = info(&mut control, "stats", "sync_full");

    // After a cut it goes on where it was.
    control.call("CLIENT KILL TYPE replica");
    change(&mut client, (&mut script, &mut streams), 300);
    let partial = || info(&mut control, "stats", "sync_partial_ok");
    wait_until("it to come back", partial, |count| count != "0");
    assert_eq!(info(&mut control, "stats", "sync_full"), full);
    linked(&mut replica);
    client.call("DISCARD");
    settled(&mut control);
    assert_same(&mut client, &mut replica);

    // Back at Redis: it is a primary, and has everything.
    assert_eq!(replica.call("REPLICAOF NO ONE"), "+OK\r\n");
    assert_eq!(replica.call("FCALL one 0"), ":1\r\n");
    assert_same(&mut client, &mut replica);
}

/// A client that has asked for the stream as old servers do.
struct Attached(Client);

fn pass(millis: u64) {
    std::thread::sleep(std::time::Duration::from_millis(millis));
}

impl Attached {
    fn new(server: &Running) -> Attached {
        let mut client = server.client();
        client.call("CONFIG SET repl-ping-replica-period 3600");
        client.send(b"SYNC\r\n");
        let mut line = Vec::new();
        while line.first() != Some(&b'$') {
            line.clear();
            client.stream.read_until(b'\n', &mut line).unwrap();
        }
        let size: usize = String::from_utf8_lossy(&line[1..]).trim().parse().unwrap();
        let mut file = vec![0; size];
        client.stream.read_exact(&mut file).unwrap();
        assert!(file.starts_with(b"REDIS0010"));
        Attached(client)
    }

    /// The next commands are these; `*` stands for any word.
    fn expect(&mut self, commands: &[&str]) {
        for wanted in commands {
            let found = self.0.reply();
            let found: Vec<&str> =
                found.split("\r\n").filter(|word| !word.starts_with(['*', '$'])).collect();
            let found = &found[..found.len() - 1];
            let is_it = |(wanted, found): (&str, &&str)| wanted == "*" || wanted == *found;
            let wanted_words = wanted.split(' ');
            let is_same =
                wanted_words.clone().count() == found.len() && wanted_words.zip(found).all(is_it);
            assert!(is_same, "{wanted:?} is {found:?}");
        }
    }
}

#[test]
fn what_depends_on_time_chance_or_others_is_sent_as_its_effect() {
    let tembo = Running::start();
    let mut client = tembo.client();
    let mut attached = Attached::new(&tembo);
    for command in
        ["SET a 1 EX 90000", "SETEX a 90000 2", "SET a 3 EXAT 99999999999 NX", "GETSET a 4"]
    {
        client.call(command);
    }
    attached.expect(&["SELECT 0", "SET a 1 PXAT *", "SET a 2 PXAT *", "SET a 4"]);
    for command in
        ["EXPIRE a 90000", "GETEX a", "GETEX a PERSIST", "GETEX a EX 90000", "EXPIRE a -1"]
    {
        client.call(command);
    }
    attached.expect(&["PEXPIREAT a *", "PERSIST a", "PEXPIREAT a *", "DEL a"]);
    for command in
        ["SET a 1", "GETEX a EXAT 99999999999", "GETEX a EXAT 99999999999", "EXPIREAT a 1"]
    {
        client.call(command);
    }
    attached.expect(&["SET a 1", "PEXPIREAT a *", "PEXPIREAT a *", "DEL a"]);
    for command in ["INCRBYFLOAT a 1.5", "HINCRBYFLOAT h f 2", "GETDEL a", "GETDEL a"] {
        client.call(command);
    }
    attached.expect(&["SET a 1.5 KEEPTTL", "HSET h f 2", "DEL a"]);
    for command in ["SADD s a b c", "SPOP s", "SPOP s 1", "SPOP s 9", "SPOP s"] {
        client.call(command);
    }
    attached.expect(&["SADD s a b c", "SREM s *", "SREM s *", "DEL s"]);
    for command in ["RPUSH l 1 2 3 4", "BLPOP x l 0", "LMPOP 2 x l RIGHT COUNT 9", "LMPOP 1 l LEFT"]
    {
        client.call(command);
    }
    attached.expect(&["RPUSH l 1 2 3 4", "LPOP l", "RPOP l 3"]);
    for command in ["ZADD z 1 a 2 b 3 c", "BZPOPMAX x z 0", "ZMPOP 1 z MIN COUNT 9"] {
        client.call(command);
    }
    attached.expect(&["ZADD z 1 a 2 b 3 c", "ZPOPMAX z", "ZPOPMIN z 2"]);
    for command in ["XADD x * f v", "XADD x MAXLEN ~ 1 LIMIT 5 * f v", "XGROUP CREATE x g 0"] {
        client.call(command);
    }
    attached.expect(&["XADD x * f v", "XADD x MAXLEN = 2 * f v", "XGROUP CREATE x g 0"]);
    client.call("XREADGROUP GROUP g one COUNT 1 STREAMS x >");
    attached.expect(&["XCLAIM x g one 0 * TIME * RETRYCOUNT 1 FORCE JUSTID LASTID *"]);
    client.call("XREADGROUP GROUP g two NOACK STREAMS x >");
    attached.expect(&[
        "MULTI",
        "XGROUP CREATECONSUMER x g two",
        "XGROUP SETID x g * ENTRIESREAD 2",
        "EXEC",
    ]);
    client.call("XAUTOCLAIM x g two 0 0");
    attached.expect(&["XCLAIM x g two 0 * TIME * RETRYCOUNT 2 FORCE JUSTID LASTID *"]);
    client.call("HEXPIRE h 0 FIELDS 1 f");
    client.call("PUBLISH channel message");
    attached.expect(&["HDEL h f", "PUBLISH channel message"]);
}

#[test]
fn transactions_and_scripts_are_sent_as_their_effects() {
    let tembo = Running::start();
    let mut client = tembo.client();
    let mut attached = Attached::new(&tembo);
    for command in ["MULTI", "SET a 1", "GET a", "EXEC", "MULTI", "DEL x", "EXEC", "MULTI", "EXEC"]
    {
        client.call(command);
    }
    attached.expect(&["SELECT 0", "SET a 1"]);
    for command in ["MULTI", "SELECT 1", "SET b 1", "SELECT 2", "SET b 2", "EXEC", "SELECT 0"] {
        client.call(command);
    }
    attached.expect(&["SELECT 1", "MULTI", "SET b 1", "SELECT 2", "SET b 2", "EXEC"]);
    let script =
        b"redis.call('set', KEYS[1], 1) redis.call('expire', KEYS[1], 9) redis.call('get', 'x')";
    client.call_args(&[b"EVAL", script, b"1", b"c"]);
    attached.expect(&["SELECT 0", "MULTI", "set c 1", "PEXPIREAT c *", "EXEC"]);
}

#[test]
fn a_key_that_has_expired_is_removed_before_a_command_that_would_see_it() {
    let tembo = Running::with(Config { debug: true, ..Config::default() });
    let mut client = tembo.client();
    client.call("DEBUG SET-ACTIVE-EXPIRE 0");
    let mut attached = Attached::new(&tembo);
    for command in ["SET a 5 PX 1", "SADD s m", "SADD s m", "PEXPIRE s 1"] {
        client.call(command);
    }
    attached.expect(&["SELECT 0", "SET a 5 PXAT *", "SADD s m", "PEXPIREAT s *"]);
    // A command that reads them would remove them.
    pass(20);
    client.call("INCR a");
    client.call("SUNIONSTORE u s");
    attached.expect(&["MULTI", "DEL a", "INCR a", "EXEC", "DEL s"]);
    for command in ["HSET h f 1 g 1", "HPEXPIRE h 1 FIELDS 1 f", "SELECT 1", "SET a 5 PX 1"] {
        client.call(command);
    }
    attached.expect(&["HSET h f 1 g 1", "SELECT 1", "SET a 5 PXAT *"]);
    pass(20);
    client.call("SELECT 0");
    wait_until("the field to expire", || client.call("HEXISTS h f"), |reply| reply == ":0\r\n");
    client.call("HSETNX h f 2");
    client.call("MOVE a 1");
    attached.expect(&["SELECT 0", "MULTI", "HDEL h f", "HSETNX h f 2", "EXEC"]);
    attached.expect(&["SELECT 1", "MULTI", "DEL a", "SELECT 0", "MOVE a 1", "EXEC"]);
}

#[test]
fn a_key_that_has_expired_is_removed_when_a_client_waits_for_it_or_reads_it() {
    let tembo = Running::with(Config { debug: true, ..Config::default() });
    let (mut client, mut waiting) = (tembo.client(), tembo.client());
    client.call("DEBUG SET-ACTIVE-EXPIRE 0");
    let mut attached = Attached::new(&tembo);
    waiting.send(&encode(&[b"BRPOP", b"k", b"0"]));
    let is_blocked = |info: &String| info.contains("blocked_clients:1");
    wait_until("the client to wait", || client.call("INFO clients"), is_blocked);
    for command in ["MULTI", "RPUSH k hello", "PEXPIRE k 10", "DEBUG SLEEP 0.03", "EXEC"] {
        client.call(command);
    }
    attached.expect(&["SELECT 0", "MULTI", "RPUSH k hello", "PEXPIREAT k *", "EXEC", "DEL k"]);
    assert_eq!(client.call("DBSIZE"), ":0\r\n");
    client.call("RPUSH k 1");
    assert_eq!(waiting.reply(), "*2\r\n$1\r\nk\r\n$1\r\n1\r\n");
    client.call("SET a 1 PX 1");
    pass(20);
    assert_eq!(client.call("DBSIZE"), ":1\r\n");
    assert_eq!(client.call("MGET b a"), "*2\r\n$-1\r\n$-1\r\n");
    assert_eq!(client.call("DBSIZE"), ":0\r\n");
    attached.expect(&["RPUSH k 1", "RPOP k", "SET a 1 PXAT *", "DEL a"]);
}

#[test]
fn what_expires_or_is_evicted_is_sent_as_removed() {
    let tembo = Running::start();
    let mut client = tembo.client();
    let mut attached = Attached::new(&tembo);
    client.call("SET a 5 PX 1");
    attached.expect(&["SELECT 0", "SET a 5 PXAT *", "DEL a"]);
    for command in ["HSET h f 1 g 1", "HPEXPIRE h 1 FIELDS 1 f"] {
        client.call(command);
    }
    attached.expect(&["HSET h f 1 g 1", "HDEL h f"]);
    client.call("DEL h");
    client.call("SELECT 1");
    client.call("SET b 1");
    attached.expect(&["DEL h", "SELECT 1", "SET b 1"]);
    client.call("CONFIG SET maxmemory-policy allkeys-random maxmemory 1");
    client.call("PING");
    attached.expect(&["DEL b"]);
}

#[test]
fn a_server_of_redis_counts_for_wait_and_not_for_what_must_be_durable() {
    let Some(redis) = Redis::start() else { return };
    let tembo = Running::start();
    let (mut client, mut replica) = (tembo.client(), Client::connect(redis.address));
    follow(&mut replica, &tembo);
    linked(&mut replica);
    client.call("SET a 1");
    assert_eq!(client.call("WAIT 1 60000"), ":1\r\n");
    assert_eq!(client.call("WAITAOF 0 1 1"), "*2\r\n:0\r\n:0\r\n");
    assert_eq!(replica.call("GET a"), "$1\r\n1\r\n");
    assert!(client.call("ROLE").starts_with("*3\r\n$6\r\nmaster\r\n:"));
}

#[test]
fn a_replica_of_tembo_feeds_no_redis() {
    let (primary, middle) = (Running::start(), Running::start());
    let (mut client, mut asking) = (middle.client(), middle.client());
    let mut attached = Attached::new(&middle);
    client.call("SET a 1");
    attached.expect(&["SELECT 0", "SET a 1"]);
    client.send(
        &[
            encode(&[b"MULTI"]),
            encode(&[b"SET", b"a", b"2"]),
            encode(&[b"REPLICAOF", b"127.0.0.1", primary.address.port().to_string().as_bytes()]),
            encode(&[b"EXEC"]),
        ]
        .concat(),
    );
    // What was executed before has happened here, and belongs to what the server holds that follows.
    attached.expect(&["SET a 2"]);
    assert!(attached.0.is_closed());
    asking.send(b"SYNC\r\n");
    assert_eq!(asking.reply(), "-ERR a server of Redis can only follow a primary\r\n");
}

/// A client that asks for the stream as Redis 7 does, and reads no further than the replies.
fn asking(server: &Running) -> (Client, String, String) {
    let mut client = server.client();
    client.call("CONFIG SET repl-ping-replica-period 3600");
    assert_eq!(client.call("REPLCONF capa eof capa psync2"), "+OK\r\n");
    client.send(b"PSYNC ? -1\r\n");
    let mut line = || {
        let mut line = String::new();
        client.stream.read_line(&mut line).unwrap();
        line.trim_end().to_owned()
    };
    let (resync, mark) = (line(), line());
    let id = resync.split(' ').nth(1).unwrap().to_owned();
    (client, id, mark.strip_prefix("$EOF:").unwrap().to_owned())
}

#[test]
fn a_server_that_reads_its_file_while_the_primary_becomes_a_replica_is_disconnected() {
    let (primary, middle) = (Running::start(), Running::start());
    let mut control = middle.client();
    let (mut waiting, ..) = asking(&middle);
    let command = format!("REPLICAOF 127.0.0.1 {}", primary.address.port());
    assert_eq!(control.call(&command), "+OK\r\n");
    // The file, and then the end; the client gives up waiting for it with an error.
    let rest = waiting.stream.read_to_end(&mut Vec::new());
    assert!(rest.is_ok() || rest.is_err_and(|error| error.kind() == ErrorKind::ConnectionReset));
}

#[test]
fn what_ends_the_file_is_no_name_that_clients_know() {
    let tembo = Running::start();
    let (_first, id, mark) = asking(&tembo);
    let (_second, same, other) = asking(&tembo);
    assert_eq!((mark.len(), other.len()), (40, 40));
    assert!(id == same && id != mark && id != other && mark != other);
}

#[test]
fn a_server_of_redis_counts_from_its_first_acknowledgement_on() {
    let tembo = Running::start();
    let mut client = tembo.client();
    let mut attached = Attached::new(&tembo);
    let is_seen = |client: &mut Client, text: &str| {
        let state = || client.call("INFO replication");
        wait_until("the replica to be seen", state, |info| info.contains(text));
    };
    is_seen(&mut client, "state=online");
    assert_eq!(client.call("WAIT 0 1"), ":0\r\n");
    assert_eq!(client.call("WAITAOF 0 0 1"), "*2\r\n:0\r\n:0\r\n");
    attached.0.send(b"REPLCONF ACK 5\r\n");
    is_seen(&mut client, "offset=5");
    assert_eq!(client.call("WAIT 1 60000"), ":1\r\n");
    assert_eq!(client.call("WAITAOF 0 0 1"), "*2\r\n:0\r\n:0\r\n");
    attached.0.send(b"REPLCONF ACK 6 FACK 6\r\n");
    is_seen(&mut client, "offset=6");
    assert_eq!(client.call("WAITAOF 0 1 60000"), "*2\r\n:0\r\n:1\r\n");
}

#[test]
fn a_connection_that_is_sent_more_than_replies_cannot_be_a_replica() {
    let tembo = Running::start();
    let refused = "-ERR the connection cannot be a replica's\r\n";
    for command in ["SUBSCRIBE channel", "CLIENT TRACKING on", "CLIENT TRACKING on bcast"] {
        let mut client = tembo.client();
        client.call("HELLO 3");
        client.call(command);
        for ask in ["SYNC", "PSYNC ? -1", "TEMBO.SYNC"] {
            assert_eq!(client.call(ask), refused, "{ask} after {command}");
        }
    }
    let mut client = tembo.client();
    client.call("MONITOR");
    assert_eq!(client.call("PSYNC ? -1"), refused);
    let mut client = tembo.client();
    client.send(
        b"CLIENT REPLY OFF\r\nPSYNC ? -1\r\nCLIENT REPLY SKIP\r\nSYNC\r\nCLIENT REPLY ON\r\n",
    );
    assert_eq!(client.reply(), "+OK\r\n");
}

#[test]
fn a_replica_is_sent_nothing_but_the_stream() {
    let tembo = Running::start();
    let mut client = tembo.client();
    let mut attached = Attached::new(&tembo);
    attached.0.send(
        b"CLIENT REPLY ON\r\nHELLO 3\r\nMONITOR\r\nSUBSCRIBE a\r\nRESET\r\nGET a\r\nPING\r\n",
    );
    attached.0.send(b"REPLCONF ACK 5\r\n");
    let state = || client.call("INFO replication");
    wait_until("the last of them", state, |info| info.contains("offset=5"));
    client.call("PUBLISH a message");
    client.call("SET a 1");
    attached.expect(&["SELECT 0", "PUBLISH a message", "SET a 1"]);
}

#[test]
fn the_stream_is_kept_no_longer_than_is_asked_for() {
    let tembo = Running::start();
    let mut client = tembo.client();
    client.call("CONFIG SET repl-backlog-size 10mb");
    let attached = Attached::new(&tembo);
    let piece = "x".repeat(20_000);
    for _ in 0..100 {
        client.call(&format!("SET a {piece}"));
    }
    let kept = |client: &mut Client| -> u64 {
        info(client, "replication", "repl_backlog_histlen").parse().unwrap()
    };
    assert!(kept(&mut client) > 2_000_000);
    drop(attached);
    client.call("CONFIG SET repl-backlog-size 100000");
    wait_until("the stream to be cut", || kept(&mut client), |kept| *kept < 200_000);
    client.call("CONFIG SET repl-backlog-ttl 1");
    let active = || info(&mut client, "replication", "repl_backlog_active");
    wait_until("the stream to be given up", active, |active| active == "0");
}

/// Values as Redis 7.2 dumps them: a string, and a set in an encoding that 7.0 does not know.
const OF_7_2: [(&str, &[u8]); 2] = [
    ("text", b"\x00\x01v\x0b\x00\xf8\xd7\x73\xc1\xe4\xa7\x63\x47"),
    (
        "members",
        b"\x14\x0a\x0a\x00\x00\x00\x01\x00\x81\x61\x02\xff\x0b\x00\xf7\xdf\x7f\xdb\x99\xef\x7b\x74",
    ),
];

#[test]
fn what_redis_7_2_has_dumped_reaches_an_older_server() {
    let Some(redis) = Redis::start() else { return };
    let tembo = Running::start();
    let (mut client, mut replica) = (tembo.client(), Client::connect(redis.address));
    follow(&mut replica, &tembo);
    linked(&mut replica);
    for (key, dump) in OF_7_2 {
        let words = [b"RESTORE".as_slice(), key.as_bytes(), b"100000", dump];
        assert_eq!(client.call_args(&words), "+OK\r\n");
    }
    let code = b"#!lua name=lib\nredis.register_function('one', function() return 1 end)";
    let library =
        [&b"\xf5\x40\x46"[..], code, b"\x0b\x00\xb1\xe4\xf0\xaa\x8e\x3a\xb9\xbd"].concat();
    let restored = client.call_args(&[b"FUNCTION", b"RESTORE", &library, b"REPLACE"]);
    assert_eq!(restored, "+OK\r\n");
    settled(&mut client);
    assert_eq!(replica.call("GET text"), "$1\r\nv\r\n");
    assert_eq!(client.call("FUNCTION LIST"), replica.call("FUNCTION LIST"));
    assert_same(&mut client, &mut replica);
}
