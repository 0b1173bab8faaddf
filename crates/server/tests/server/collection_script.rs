//! Random commands on collections, over few keys and members: small and large ones, right and wrong types.

use crate::client::Random;

/// Commands whose replies have no order, or one that Redis does not promise.
pub fn is_unordered(command: &str) -> bool {
    let unordered = [
        "KEYS",
        "SMEMBERS",
        "SINTER",
        "SUNION",
        "SDIFF",
        "HGETALL",
        "HKEYS",
        "HVALS",
        "HSCAN",
        "SSCAN",
        "SRANDMEMBER",
        "HRANDFIELD",
        "SPOP",
        "ZSCAN",
    ];
    unordered.iter().any(|other| other.eq_ignore_ascii_case(command))
}

/// A key of that type most of the time, or of another one.
fn key(random: &mut Random, of: &str) -> String {
    let of = if random.below(12) == 0 { random.pick(&["k", "h", "s", "l", "z"]) } else { of };
    format!("{of}{}", random.below(4))
}

fn member(random: &mut Random) -> String {
    match random.below(10) {
        0..4 => random.below(30).to_string(),
        4..8 => format!("member:{}", random.below(60)),
        8 => format!("{}{}", random.below(10), "m".repeat(70)),
        _ => random.pick(&["", "-5", "007", "9223372036854775807", "a b", "3.5"]).to_owned(),
    }
}

fn value(random: &mut Random) -> String {
    match random.below(8) {
        0..3 => random.below(100).to_string(),
        3 => "v".repeat(40 + random.below(60)),
        _ => random
            .pick(&["", "-7", "3.25", "hello", "9223372036854775807", "1e3", "x y", "0.1"])
            .to_owned(),
    }
}

fn number(random: &mut Random) -> String {
    random
        .pick(&["0", "1", "-1", "2", "5", "-3", "100", "x", "9223372036854775807", "1.5"])
        .to_owned()
}

fn words(words: &[&str]) -> Vec<String> {
    words.iter().map(|word| (*word).to_owned()).collect()
}

/// The words, and behind them up to so many that `more` makes.
fn with(
    random: &mut Random,
    first: &[&str],
    most: usize,
    more: impl Fn(&mut Random) -> String,
) -> Vec<String> {
    let mut command = words(first);
    for _ in 0..=random.below(most) {
        command.push(more(random));
    }
    command
}

/// A command on any collection.
pub fn command(random: &mut Random) -> Vec<String> {
    match random.below(10) {
        0..4 => hash(random),
        4..8 => set(random),
        _ => keys(random),
    }
}

fn hash(random: &mut Random) -> Vec<String> {
    let (key, field, value) = (key(random, "h"), member(random), value(random));
    let number = number(random);
    match random.below(20) {
        0..4 => with(random, &["HSET", &key, &field, &value], 12, |random| {
            if random.below(2) == 0 { member(random) } else { self::value(random) }
        }),
        4 => with(random, &["HMSET", &key, &field, &value], 4, member),
        5 => words(&["HSETNX", &key, &field, &value]),
        6 => words(&["HGET", &key, &field]),
        7 => with(random, &["HMGET", &key], 5, member),
        8 => words(&["HGETALL", &key]),
        9 => words(&[random.pick(&["HKEYS", "HVALS", "HLEN"]), &key]),
        10 => words(&[random.pick(&["HEXISTS", "HSTRLEN"]), &key, &field]),
        11 | 12 => with(random, &["HDEL", &key], 5, member),
        13 => words(&["HINCRBY", &key, &field, &number]),
        14 => words(&["HINCRBYFLOAT", &key, &field, random.pick(&["0.5", "-3", "x", "1e2"])]),
        15 => words(&["HSCAN", &key, "0", "COUNT", "1000"]),
        16 => words(&["HSCAN", &key, "0", "MATCH", "member:1*", "COUNT", "1000"]),
        17 => words(&["HRANDFIELD", &key, "1000"]),
        18 => words(&["HRANDFIELD", &key, "1000", random.pick(&["WITHVALUES", "BOGUS"])]),
        _ => words(&[
            "HSCAN",
            &key,
            random.pick(&["0", "x"]),
            "COUNT",
            random.pick(&["0", "x", "-1"]),
        ]),
    }
}

fn set(random: &mut Random) -> Vec<String> {
    let (key, other, third) = (key(random, "s"), key(random, "s"), key(random, "s"));
    let (member, number) = (member(random), number(random));
    match random.below(20) {
        0..4 => with(random, &["SADD", &key], 20, self::member),
        4 => with(random, &["SADD", &key], 20, |random| random.below(900).to_string()),
        5 | 6 => with(random, &["SREM", &key], 5, self::member),
        7 => words(&["SMOVE", &key, &other, &member]),
        8 => words(&["SISMEMBER", &key, &member]),
        9 => with(random, &["SMISMEMBER", &key], 5, self::member),
        10 => words(&[random.pick(&["SMEMBERS", "SCARD", "SMEMBERS"]), &key]),
        11 => words(&["SPOP", &key, random.pick(&["1000", "0", "-1", "x"])]),
        12 => words(&["SRANDMEMBER", &key, random.pick(&["1000", "0", "x"])]),
        13 => words(&[random.pick(&["SINTER", "SUNION", "SDIFF"]), &key, &other, &third]),
        14 | 15 => {
            let store = random.pick(&["SINTERSTORE", "SUNIONSTORE", "SDIFFSTORE"]);
            words(&[store, &key, &other, &third])
        }
        16 => words(&["SINTERCARD", "2", &key, &other, "LIMIT", &number]),
        17 => words(&["SINTERCARD", &number, &key, &other]),
        18 => words(&["SSCAN", &key, "0", "COUNT", "1000"]),
        _ => words(&["SSCAN", &key, "0", "MATCH", "*1*", "COUNT", "1000"]),
    }
}

/// Commands on keys, which are of all types.
fn keys(random: &mut Random) -> Vec<String> {
    let of = random.pick(&["h", "s", "l", "z"]);
    let (key, other) = (key(random, of), key(random, of));
    match random.below(16) {
        0 => words(&["TYPE", &key]),
        1 => words(&["OBJECT", "ENCODING", &key]),
        2 => words(&["RENAME", &key, &other]),
        3 => words(&["RENAMENX", &key, &other]),
        4 => words(&["COPY", &key, &other]),
        5 => words(&["COPY", &key, &other, "REPLACE"]),
        6 => words(&["MOVE", &key, "1"]),
        7 => words(&["COPY", &key, &other, "DB", "1", "REPLACE"]),
        8 => words(&["PEXPIREAT", &key, random.pick(&["99999999999123", "1"])]),
        9 => words(&["PERSIST", &key]),
        10 => words(&["PEXPIRETIME", &key]),
        11 => words(&["EXISTS", &key, &other]),
        12 => words(&["SET", &key, "string"]),
        13 => words(&["DEL", &key]),
        14 => words(&[random.pick(&["GET", "STRLEN", "INCR", "GETDEL"]), &key]),
        _ => words(&["MGET", &key, &other]),
    }
}
