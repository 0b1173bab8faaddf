//! DUMP and RESTORE: what Tembo dumps Redis restores, and the reverse.

use crate::client::{Client, Random, Running};
use crate::differential::Redis;

/// The bytes of a bulk.
fn bulk(client: &mut Client, args: &[&[u8]]) -> Vec<u8> {
    client.send(&crate::client::encode(args));
    let reply = client.reply_bytes().unwrap();
    assert_eq!(reply[0], b'$', "{:?}", String::from_utf8_lossy(&reply));
    let from = reply.iter().position(|byte| *byte == b'\n').unwrap() + 1;
    reply[from..reply.len() - 2].to_vec()
}

fn dump(client: &mut Client, key: &str) -> Vec<u8> {
    bulk(client, &[b"DUMP", key.as_bytes()])
}

fn restore(client: &mut Client, key: &str, dump: &[u8]) -> String {
    client.call_args(&[b"RESTORE", key.as_bytes(), b"0", dump, b"REPLACE"])
}

/// Puts values of all types and encodings; returns their keys.
fn fill(client: &mut Client) -> Vec<String> {
    let long = "long ".repeat(300);
    let mut calls: Vec<Vec<String>> = Vec::new();
    let mut call = |words: &[&str]| calls.push(words.iter().map(|word| (*word).into()).collect());
    let numbers = ["0", "-1", "127", "-128", "300", "-30000", "70000", "-2147483648", "2147483648"];
    for (nth, number) in numbers.iter().enumerate() {
        call(&["SET", &format!("string{nth}"), number]);
        call(&["RPUSH", "list", number, "x"]);
        call(&["SADD", &format!("intset{}", nth / 3), number, "5"]);
        call(&["HSET", "hash", number, number]);
        call(&["ZADD", "zset", number, number]);
    }
    for number in ["9223372036854775807", "-9223372036854775808", "12345678", "-12345678"] {
        call(&["RPUSH", "list", number]);
        call(&["SADD", "intset9", number]);
    }
    call(&["SET", "text", "a text"]);
    call(&["SET", "empty", ""]);
    call(&["SET", "leading", "007"]);
    call(&["SET", "compressible", &long]);
    call(&["SET", "large", &"0123456789abcdef".repeat(5000)]);
    call(&["RPUSH", "plain", "small", &"n".repeat(20_000), "last"]);
    call(&["SADD", "members", "a", "b", "", "7"]);
    call(&["HSET", "wide", "field", &long, "other", ""]);
    call(&["ZADD", "scores", "inf", "a", "-inf", "b", "0.1", "c", "-3.75", "d", "1e300", ""]);
    call(&["ZADD", "wide-scores", "0.5", &long]);
    streams(&mut call);
    for nth in 0..700 {
        call(&["RPUSH", "long-list", &nth.to_string(), &format!("element {nth}")]);
        call(&["SADD", "table", &format!("member:{nth}")]);
        call(&["SADD", "numbers", &(nth * 1_000_003).to_string()]);
        call(&["HSET", "many", &format!("field:{nth}"), &nth.to_string()]);
        call(&["ZADD", "ranks", &(f64::from(nth) / 7.0).to_string(), &format!("m{nth}")]);
    }
    let key = |words: &Vec<String>| match words[0].as_str() {
        "XGROUP" => words[2].clone(),
        "XREADGROUP" => "events".to_owned(),
        _ => words[1].clone(),
    };
    let mut keys: Vec<String> = calls.iter().map(key).collect();
    for words in calls {
        let args: Vec<&[u8]> = words.iter().map(String::as_bytes).collect();
        client.call_args(&args);
    }
    keys.sort_unstable();
    keys.dedup();
    keys
}

/// Streams with and without entries, groups and what is pending.
fn streams(call: &mut dyn FnMut(&[&str])) {
    for nth in 1..250 {
        let number = (nth * 1000 - 9).to_string();
        call(&[
            "XADD",
            "events",
            &format!("{}-{}", nth / 3, nth),
            "name",
            &number,
            "text",
            "a text",
        ]);
    }
    call(&["XADD", "events", "9000000000000-18446744073709551615", "other", "-5", "", "x"]);
    call(&["XADD", "events", "9000000000001-0", "name", &"long ".repeat(2000), "text", ""]);
    call(&["XDEL", "events", "1-3", "7-21"]);
    call(&["XGROUP", "CREATE", "events", "group", "0"]);
    call(&["XGROUP", "CREATE", "events", "other", "5-17", "ENTRIESREAD", "16"]);
    call(&["XREADGROUP", "GROUP", "group", "one", "COUNT", "5", "STREAMS", "events", ">"]);
    call(&["XREADGROUP", "GROUP", "group", "two", "COUNT", "7", "STREAMS", "events", ">"]);
    call(&["XREADGROUP", "GROUP", "group", "one", "COUNT", "2", "STREAMS", "events", ">"]);
    call(&["XACK", "events", "group", "1-5", "2-8"]);
    call(&["XGROUP", "CREATECONSUMER", "events", "other", "idle"]);
    call(&["XTRIM", "events", "MAXLEN", "240"]);
    call(&["XGROUP", "CREATE", "none", "group", "$", "MKSTREAM"]);
    call(&["XADD", "emptied", "5-5", "a", "b"]);
    call(&["XDEL", "emptied", "5-5"]);
}

/// What a stream says of itself, but for what Redis alone has.
fn stream(client: &mut Client, key: &str) -> String {
    let info = client.call(&format!("XINFO STREAM {key} FULL COUNT 0"));
    let lines: Vec<&str> = info.split("\r\n").collect();
    let is_own = |at: usize| at > 0 && lines[at - 1].starts_with("radix-tree");
    let kept = lines.iter().enumerate().filter(|(at, _)| !is_own(*at));
    kept.map(|(_, line)| format!("{line}\r\n")).collect()
}

/// The value, with what has no order put in order.
fn content(client: &mut Client, key: &str) -> Vec<String> {
    let kind = client.call(&format!("TYPE {key}"));
    let reply = match kind.trim_end() {
        "+string" => client.call(&format!("GET {key}")),
        "+list" => client.call(&format!("LRANGE {key} 0 -1")),
        "+zset" => client.call(&format!("ZRANGE {key} 0 -1 WITHSCORES")),
        "+set" => client.call(&format!("SMEMBERS {key}")),
        "+hash" => client.call(&format!("HGETALL {key}")),
        "+stream" => stream(client, key),
        kind => panic!("{key}: {kind}"),
    };
    let mut lines: Vec<String> = reply.split("\r\n").map(str::to_owned).collect();
    match kind.trim_end() {
        "+set" => lines[1..].sort_unstable(),
        "+hash" => {
            // A field, its size, its value and that one's size.
            let mut fields: Vec<_> = lines[1..].chunks(4).map(<[String]>::to_vec).collect();
            fields.sort_unstable();
            lines.truncate(1);
            lines.extend(fields.into_iter().flatten());
        }
        _ => {}
    }
    lines.insert(0, kind);
    lines
}

/// Carries all values over and compares.
fn carry(from: &mut Client, to: &mut Client) {
    from.call("FLUSHALL");
    to.call("FLUSHALL");
    for key in fill(from) {
        let dump = dump(from, &key);
        assert_eq!(restore(to, &key, &dump), "+OK\r\n", "{key}: {dump:?}");
        assert_eq!(content(from, &key), content(to, &key), "{key}");
    }
}

#[test]
fn values_go_from_tembo_to_redis_and_back() {
    let tembo = Running::start();
    let (mut ours, mut again) = (tembo.client(), tembo.client());
    again.call("SELECT 1");
    for key in fill(&mut ours) {
        let dump = dump(&mut ours, &key);
        assert_eq!(restore(&mut again, &key, &dump), "+OK\r\n");
        assert_eq!(content(&mut ours, &key), content(&mut again, &key));
    }
    let Some(redis) = Redis::start() else { return };
    let mut theirs = Client::connect(redis.address);
    carry(&mut theirs, &mut ours);
    carry(&mut ours, &mut theirs);
}

#[test]
fn restore_replies_as_redis_does() {
    let Some(redis) = Redis::start() else { return };
    let tembo = Running::start();
    let (mut theirs, mut ours) = (Client::connect(redis.address), tembo.client());
    theirs.call("SET key value");
    let mut dump = dump(&mut theirs, "key");
    let mut both = |args: &[&[u8]]| {
        let replies = (theirs.call_args(args), ours.call_args(args));
        assert_eq!(
            replies.0,
            replies.1,
            "{:?}",
            args.iter().map(|arg| arg.escape_ascii().to_string()).collect::<Vec<_>>()
        );
    };
    both(&[b"SET", b"key", b"value"]);
    both(&[b"DUMP", b"nosuch"]);
    both(&[b"DUMP", b"key"]);
    let options: &[&[&[u8]]] = &[
        &[b"key", b"0"],
        &[b"new", b"0"],
        &[b"new", b"-1"],
        &[b"other", b"-1"],
        &[b"other", b"x"],
    ];
    for words in options {
        both(&[b"RESTORE", words[0], words[1], &dump]);
    }
    let more: &[&[&[u8]]] = &[
        &[b"BOGUS"],
        &[b"REPLACE", b"IDLETIME", b"-1"],
        &[b"REPLACE", b"IDLETIME", b"x"],
        &[b"REPLACE", b"FREQ", b"256"],
        &[b"replace", b"FREQ", b"7"],
        &[b"REPLACE", b"IDLETIME", b"7", b"FREQ", b"7"],
        &[b"REPLACE", b"FREQ"],
    ];
    for words in more {
        let mut args: Vec<&[u8]> = vec![b"RESTORE", b"key", b"0", &dump];
        args.extend(*words);
        both(&args);
    }
    both(&[b"RESTORE", b"timed", b"99999999999123", &dump, b"ABSTTL"]);
    both(&[b"PEXPIRETIME", b"timed"]);
    both(&[b"RESTORE", b"timed", b"1", &dump, b"ABSTTL", b"REPLACE"]);
    both(&[b"EXISTS", b"timed"]);
    both(&[b"RESTORE", b"bad", b"0", b"short"]);
    dump[1] ^= 1;
    both(&[b"RESTORE", b"bad", b"0", &dump]);
    both(&[b"EXISTS", b"bad", b"key", b"new"]);
}

/// The checksum of a DUMP.
fn crc64(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0, |crc, byte| {
        (0..8).fold(crc ^ u64::from(*byte), |crc, _| {
            if crc & 1 == 1 { (crc >> 1) ^ 0x95ac_9329_ac4b_c9b5 } else { crc >> 1 }
        })
    })
}

#[test]
fn what_restore_refuses_leaves_all_as_it_was() {
    let tembo = Running::start();
    let mut client = tembo.client();
    let keys = fill(&mut client);
    client.call("SET target kept");
    let (mut random, mut refused) = (Random(11), 0);
    for _ in 0..1500 {
        let mut bytes = dump(&mut client, keys[random.below(keys.len())].as_str());
        bytes.truncate(bytes.len().min(400));
        for _ in 0..=random.below(3) {
            let at = random.below(bytes.len() - 10);
            bytes[at] = random.next() as u8;
        }
        let cut = 8 + if random.below(4) == 0 { random.below(9) } else { 0 };
        bytes.truncate(bytes.len().saturating_sub(cut).max(3));
        let at = bytes.len() - 2;
        bytes[at..].copy_from_slice(&[10, 0]);
        let checksum = crc64(&bytes);
        bytes.extend(checksum.to_le_bytes());
        let reply = restore(&mut client, "target", &bytes);
        if reply == "+OK\r\n" {
            client.call("DEL target");
            client.call("SET target kept");
            continue;
        }
        assert!(reply.starts_with("-ERR Bad data format"), "{reply}");
        assert_eq!(client.call("GET target"), "$4\r\nkept\r\n");
        refused += 1;
    }
    assert!(refused > 500, "{refused}");
}

fn libraries(client: &mut Client) -> String {
    client.call("FUNCTION LIST WITHCODE")
}

/// A library of one function, which returns the library's name.
fn library(name: &str, function: &str) -> String {
    format!(
        "#!lua name={name}\nredis.register_function('{function}', function() return '{name}' end)"
    )
}

#[test]
fn libraries_go_from_tembo_to_redis_and_back() {
    let Some(redis) = Redis::start() else { return };
    let tembo = Running::start();
    let (mut theirs, mut ours) = (Client::connect(redis.address), tembo.client());
    let empty = bulk(&mut ours, &[b"FUNCTION", b"DUMP"]);
    assert_eq!(empty, bulk(&mut theirs, &[b"FUNCTION", b"DUMP"]));
    ours.call_args(&[b"FUNCTION", b"LOAD", library("one", "f").as_bytes()]);
    let one = bulk(&mut ours, &[b"FUNCTION", b"DUMP"]);
    assert_eq!(theirs.call_args(&[b"FUNCTION", b"RESTORE", &one]), "+OK\r\n");
    assert_eq!(libraries(&mut theirs), libraries(&mut ours));
    theirs.call_args(&[b"FUNCTION", b"LOAD", library("two", "g").as_bytes()]);
    // Redis compresses what is long.
    let long = library("three", "h") + &"-- a comment\n".repeat(100);
    theirs.call_args(&[b"FUNCTION", b"LOAD", long.as_bytes()]);
    let all = bulk(&mut theirs, &[b"FUNCTION", b"DUMP"]);
    let other = bulk(&mut ours, &[b"FUNCTION", b"DUMP"]);
    assert_eq!(ours.call_args(&[b"FUNCTION", b"RESTORE", &all, b"REPLACE"]), "+OK\r\n");
    let mut broken = all.clone();
    broken[3] ^= 1;
    let key = {
        theirs.call("SET key value");
        dump(&mut theirs, "key")
    };
    for (dump, policy) in [
        (&all, "APPEND"),
        (&all, "x"),
        (&broken, "FLUSH"),
        (&key, "FLUSH"),
        (&empty, "append"),
        (&all, "REPLACE"),
        (&other, "replace"),
        (&empty, "FLUSH"),
        (&all, "FLUSH"),
        (&other, "FLUSH"),
    ] {
        let args: [&[u8]; 4] = [b"FUNCTION", b"RESTORE", dump, policy.as_bytes()];
        let (reply, expected) = (ours.call_args(&args), theirs.call_args(&args));
        if policy == "APPEND" {
            // Which of them it names depends on their order.
            assert!(reply.contains(" already exists") && expected.contains(" already exists"));
        } else {
            assert_eq!(reply, expected, "{policy}");
        }
        assert_eq!(ours.call("FUNCTION STATS"), theirs.call("FUNCTION STATS"), "{policy}");
        for call in ["FCALL f 0", "FCALL g 0", "FCALL h 0"] {
            assert_eq!(ours.call(call), theirs.call(call), "{policy} {call}");
        }
    }
}

#[test]
fn libraries_with_a_function_that_is_there_are_refused_and_restored_ones_are_durable() {
    let tembo = Running::start();
    let mut client = tembo.client();
    client.call_args(&[b"FUNCTION", b"LOAD", library("one", "f").as_bytes()]);
    let one = bulk(&mut client, &[b"FUNCTION", b"DUMP"]);
    client.call("FUNCTION FLUSH");
    client.call_args(&[b"FUNCTION", b"LOAD", library("four", "F").as_bytes()]);
    let restored = client.call_args(&[b"FUNCTION", b"RESTORE", &one]);
    assert_eq!(restored, "-ERR Function f already exists\r\n");
    assert_eq!(client.call("FCALL f 0"), "$4\r\nfour\r\n");
    let refused = client.call("FUNCTION RESTORE a b c");
    assert!(refused.contains("number of arguments for 'RESTORE'"), "{refused}");
    assert_eq!(client.call_args(&[b"FUNCTION", b"RESTORE", &one, b"FLUSH"]), "+OK\r\n");
    let (store, ended) = tembo.stop();
    ended.unwrap();
    let tembo = Running::over(store, tembo_server::Config::default());
    assert_eq!(tembo.client().call("FCALL f 0"), "$3\r\none\r\n");
}
