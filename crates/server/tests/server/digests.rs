//! DEBUG DIGEST and what else of DEBUG is about the data: as Redis has them.

use tembo_server::Config;

use crate::client::{Client, Random, Running};
use crate::differential::{Redis, Script};

fn start() -> Running {
    Running::with(Config { debug: true, ..Config::default() })
}

/// Commands that leave a value of each type.
const DATA: [&str; 11] = [
    "SET string 12",
    "SET text hello",
    "SET expiring hello EXAT 99999999999",
    "RPUSH list a b 12 a",
    "SADD set a b c",
    "SADD numbers 3 1 2",
    "ZADD sorted 1 a 3.3 b -inf c 1e300 d 0.1 12",
    "HSET hash f v g 12",
    "XADD stream 1-1 f v g 12",
    "XADD stream 2-5 f w",
    "XGROUP CREATE stream group 0",
];

#[test]
fn digests_are_those_of_redis() {
    let server = start();
    let mut client = server.client();
    let zero = format!("+{}\r\n", "0".repeat(40));
    assert_eq!(client.call("DEBUG DIGEST"), zero);
    for command in DATA {
        assert!(!client.call(command).starts_with('-'), "{command}");
    }
    for (key, digest) in [
        ("string", "655ac46b180ad2f61a3cee25f0b1780fa2ec879a"),
        ("text", "36b23a1456b2dce2c3ed252c456761301dba8060"),
        ("expiring", "d037c4eb8a8b36b602fbced4000daeab0714c1e3"),
        ("list", "a69aaee86a6455db7cb5e4062e14f1023dfb4ece"),
        ("set", "593c2414786d75446e97f4ea5d4b731f3313da72"),
        ("numbers", "2a462a3f51a1db89738ebbeef0c47ce1bbc85246"),
        ("sorted", "09037a38aca690d301db165d0c418a2507762690"),
        ("hash", "8530acc75d5274eb0fc0da86f28ed5533274a6d4"),
        ("stream", "2945c96f1e4c7a356f6b05a36cdb5785981d8e9c"),
    ] {
        let found = client.call(&format!("DEBUG DIGEST-VALUE {key} nosuch"));
        assert_eq!(found, format!("*2\r\n+{digest}\r\n{zero}"), "{key}");
    }
    let mut all = |digest: &str| {
        assert_eq!(client.call("DEBUG DIGEST"), format!("+{digest}\r\n"));
        client.call("SELECT 3");
        client.call("SET text hello");
    };
    all("30eea517d8957ec691ba5f86f928b7a892e57c2a");
    all("a087957202b0cc9c35a45aa72c755dc1cba34c78");
    client.call("SWAPDB 0 3");
    let swapped = "+67f2d922f3b82d8683c0e1de4f7fe98c322509be\r\n";
    assert_eq!(client.call("DEBUG DIGEST"), swapped);
    client.call("FLUSHALL");
    assert_eq!(client.call("DEBUG DIGEST"), zero);
}

#[test]
fn a_database_is_populated_beside_what_it_holds() {
    let server = start();
    let mut client = server.client();
    client.call("SET key:1 kept");
    for command in ["POPULATE 3", "populate 2 short 3", "POPULATE 2 long 9", "POPULATE 0"] {
        assert_eq!(client.call(&format!("DEBUG {command}")), "+OK\r\n");
    }
    assert_eq!(client.call("DBSIZE"), ":7\r\n");
    let values =
        "*5\r\n$7\r\nvalue:0\r\n$4\r\nkept\r\n$7\r\nvalue:2\r\n$3\r\nval\r\n$9\r\nvalue:1\0\0\r\n";
    assert_eq!(client.call("MGET key:0 key:1 key:2 short:1 long:1"), values);
    assert_eq!(client.call("DEBUG DIGEST"), "+be71df904d0a16918a3fdbdfd35518cc1e7ce014\r\n");
    for refused in ["x", "-1", "1 p -1", "1 p x"] {
        let text = client.call(&format!("DEBUG POPULATE {refused}"));
        assert_eq!(text, "-ERR value is out of range, must be positive\r\n", "{refused}");
    }
    for refused in ["POPULATE", "POPULATE 1 p 1 1", "DIGEST x"] {
        let text = client.call(&format!("DEBUG {refused}"));
        let is_right = text.starts_with("-ERR unknown subcommand or wrong number of arguments");
        assert!(is_right, "{refused}: {text}");
    }
}

#[test]
fn reload_leaves_what_is_there_and_refuses_to_load_over_it() {
    let server = start();
    let mut client = server.client();
    assert_eq!(client.call("DEBUG RELOAD NOFLUSH"), "+OK\r\n", "nothing is there");
    DATA.iter().for_each(|command| drop(client.call(command)));
    let digest = client.call("DEBUG DIGEST");
    for command in ["RELOAD", "RELOAD NOSAVE", "RELOAD NOSAVE NOFLUSH MERGE", "LOADAOF"] {
        assert_eq!(client.call(&format!("DEBUG {command}")), "+OK\r\n", "{command}");
        assert_eq!(client.call("DEBUG DIGEST"), digest, "{command}");
    }
    let refused = client.call("DEBUG RELOAD NOFLUSH");
    assert!(refused.starts_with("-ERR Error trying to load the RDB"), "{refused}");
    assert!(client.call("DEBUG RELOAD SOMEHOW").contains("MERGE, NOFLUSH and NOSAVE"));
    client.call("FLUSHALL");
    let library = b"#!lua name=l\nredis.register_function('f', function() return 1 end)";
    client.call_args(&[b"FUNCTION", b"LOAD", library]);
    assert_eq!(client.call("DEBUG RELOAD NOFLUSH"), refused, "a library is there");
}

#[test]
fn scripts_call_debug_if_that_is_allowed() {
    let server = start();
    let mut client = server.client();
    let mut call = |words: &str| {
        let script = format!("redis.setresp(3); return redis.call({words})");
        client.call_args(&[b"EVAL", script.as_bytes(), b"0"])
    };
    assert!(call("'debug', 'protocol', 'integer'").contains("not allowed from script"));
    server.client().call("DEBUG SET-DISABLE-DENY-SCRIPTS 1");
    assert_eq!(call("'debug', 'protocol', 'integer'"), ":12345\r\n");
    let attributes = call("'debug', 'protocol', 'attrib'");
    assert_eq!(attributes, "$39\r\nSome real reply following the attribute\r\n");
    assert_eq!(call("'debug', 'sleep', '0'"), "+OK\r\n");
    for refused in ["'debug', 'reload'", "'debug'", "'shutdown'", "'subscribe', 'x'"] {
        assert!(call(refused).starts_with('-'), "{refused}");
    }
    let script = b"redis.call('set', 'k', 'v', 'px', '1') redis.call('debug', 'sleep', '0.01') \
        return redis.call('exists', 'k')";
    let there = server.client().call_args(&[b"EVAL", script, b"0"]);
    assert_eq!(there, ":1\r\n", "time stands in a script");
    server.client().call("DEBUG SET-DISABLE-DENY-SCRIPTS 0");
    assert!(call("'debug', 'protocol', 'integer'").contains("not allowed from script"));
}

#[test]
fn debug_object_names_the_encoding() {
    let server = start();
    let mut client = server.client();
    DATA.iter().for_each(|command| drop(client.call(command)));
    client.call(&format!("SET long {}", "x".repeat(45)));
    client.call("SADD numbers2 1 a");
    client.call(&format!("ZADD sorted2 1 {}", "x".repeat(65)));
    let keys = ["string", "text", "long", "list", "set", "numbers", "numbers2", "sorted"];
    for key in keys.into_iter().chain(["sorted2", "hash", "stream"]) {
        let encoding = client.call(&format!("OBJECT ENCODING {key}"));
        let encoding = encoding.lines().nth(1).unwrap();
        let shown = client.call(&format!("DEBUG OBJECT {key}"));
        assert!(shown.contains(&format!(" encoding:{encoding} ")), "{key}: {shown}");
    }
}

/// A command of a stream, whose ids rise with the step.
fn stream_command(random: &mut Random, step: usize) -> Vec<String> {
    let key = format!("x{}", random.below(4));
    let (field, value) = (random.below(5), random.below(1000));
    let line = match random.below(6) {
        0 => format!("XDEL {key} {}-1 {}-1", step / 2, step / 3),
        1 => format!("XTRIM {key} MAXLEN 30"),
        _ => format!("XADD {key} {step}-1 {field} {value} more {value}"),
    };
    line.split(' ').map(str::to_owned).collect()
}

#[test]
fn random_scripts_leave_what_redis_has() {
    let Some(redis) = Redis::start() else { return };
    let server = start();
    let mut clients = [Client::connect(redis.address), server.client()];
    // The clients of the script may be within MULTI.
    let mut asking = [Client::connect(redis.address), server.client()];
    for seed in 1..=6 {
        let mut script = Script(Random(seed * 0x9e37_79b9));
        asking.iter_mut().for_each(|client| drop(client.call("FLUSHALL")));
        for step in 1..=1500 {
            let command = match script.0.below(5) {
                0 => stream_command(&mut script.0, step),
                _ => script.command(),
            };
            let words: Vec<&[u8]> = command.iter().map(String::as_bytes).collect();
            clients.iter_mut().for_each(|client| drop(client.call_args(&words)));
            if step % 50 == 0 {
                let [theirs, ours] = asking.each_mut().map(|client| client.call("DEBUG DIGEST"));
                assert_eq!(theirs, ours, "seed {seed}, step {step}");
                assert_eq!(ours.len(), 43, "{ours}");
            }
        }
    }
}
