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
        "ZRANDMEMBER",
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
    match random.below(12) {
        10 => geo(random),
        11 => sort(random),
        0..2 => hash(random),
        2..4 => set(random),
        4..6 => list(random),
        6..8 => sorted_set(random),
        8 => lexical(random),
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

fn score(random: &mut Random) -> String {
    match random.below(6) {
        0..3 => random.below(20).to_string(),
        3 => format!("{}.5", random.below(10)),
        _ => random.pick(&["-3", "inf", "-inf", "1e20", "0.1", "x", "nan", "3.3"]).to_owned(),
    }
}

fn end(random: &mut Random) -> String {
    match random.below(6) {
        0..2 => score(random),
        2 => format!("({}", score(random)),
        3 => random.pick(&["-inf", "+inf", "(inf", "("]).to_owned(),
        _ => random.below(20).to_string(),
    }
}

fn lex(random: &mut Random) -> String {
    match random.below(4) {
        0 => random.pick(&["-", "+", "x", "["]).to_owned(),
        1 => format!("({}", member(random)),
        _ => format!("[{}", member(random)),
    }
}

fn rank(random: &mut Random) -> String {
    random.pick(&["0", "1", "5", "30", "-1", "-2", "-20", "100", "-100", "x"]).to_owned()
}

/// ZADD of up to so many members, some of them with options.
fn zadd(random: &mut Random, key: &str, most: usize) -> Vec<String> {
    let mut command = words(&["ZADD", key]);
    for _ in 0..random.below(3) {
        command.push(random.pick(&["NX", "XX", "GT", "LT", "CH", "CH", "INCR"]).to_owned());
    }
    for _ in 0..=random.below(most) {
        // Of one bad score nothing is added.
        let score = if random.below(8) == 0 { score(random) } else { random.below(30).to_string() };
        command.extend([score, member(random)]);
    }
    command
}

fn sorted_set(random: &mut Random) -> Vec<String> {
    let (key, other, third) = (key(random, "z"), key(random, "z"), key(random, "s"));
    let member = member(random);
    let limit = [rank(random), rank(random)];
    let mut command = match random.below(26) {
        24 => words(&["BZMPOP", "0.001", "2", &key, &other, random.pick(&["MIN", "MAX", "MID"])]),
        25 => return words(&[random.pick(&["BZPOPMIN", "BZPOPMAX"]), &key, &other, "0.001"]),
        0..4 => return zadd(random, &key, 20),
        4 => return words(&["ZADD", &key, "1", &member, "2", &member]),
        5 => {
            let mut command = words(&["ZADD", &key]);
            for _ in 0..60 {
                command.extend([random.below(50).to_string(), random.below(2000).to_string()]);
            }
            return command;
        }
        6 => return words(&["ZINCRBY", &key, &score(random), &member]),
        7 => return with(random, &["ZREM", &key], 5, self::member),
        8 => return words(&[random.pick(&["ZSCORE", "ZRANK", "ZREVRANK"]), &key, &member]),
        9 => return with(random, &["ZMSCORE", &key], 5, self::member),
        10 => return words(&["ZCARD", &key]),
        11 => return words(&["ZCOUNT", &key, &end(random), &end(random)]),
        12 => {
            let command = random.pick(&["ZREMRANGEBYRANK", "ZREMRANGEBYSCORE"]);
            return words(&[command, &key, &random.below(30).to_string(), &end(random)]);
        }
        13 => return words(&[random.pick(&["ZPOPMIN", "ZPOPMAX"]), &key]),
        14 => {
            let count = random.pick(&["0", "1", "3", "-1", "x", "40"]);
            return words(&[random.pick(&["ZPOPMIN", "ZPOPMAX"]), &key, count]);
        }
        15 => words(&["ZMPOP", "2", &key, &other, random.pick(&["MIN", "MAX", "MID"])]),
        16 => return words(&["ZRANDMEMBER", &key, random.pick(&["1000", "0", "x"])]),
        17 => return words(&["ZSCAN", &key, "0", "COUNT", "1000"]),
        18 => words(&[random.pick(&["ZRANGE", "ZREVRANGE"]), &key, &rank(random), &rank(random)]),
        19 => words(&[
            random.pick(&["ZRANGEBYSCORE", "ZREVRANGEBYSCORE"]),
            &key,
            &end(random),
            &end(random),
        ]),
        20 => words(&["ZRANGE", &key, &end(random), &end(random), "BYSCORE"]),
        21 => words(&["ZRANGESTORE", &other, &key, &end(random), &end(random), "BYSCORE"]),
        22 => {
            let join = random.pick(&["ZUNION", "ZINTER", "ZDIFF", "ZINTERCARD"]);
            words(&[join, random.pick(&["2", "2", "3", "0", "x"]), &key, &other])
        }
        _ => {
            let join = random.pick(&["ZUNIONSTORE", "ZINTERSTORE", "ZDIFFSTORE"]);
            words(&[join, &other, "3", &key, &other, &third])
        }
    };
    match random.below(8) {
        0 => command.push("WITHSCORES".into()),
        1 => command.extend(["LIMIT".to_owned(), limit[0].clone(), limit[1].clone()]),
        2 => command.push("REV".into()),
        3 => command.extend(words(&["WEIGHTS", "2", "3", "0.5"])),
        4 => command.extend(words(&["AGGREGATE", random.pick(&["MIN", "MAX", "SUM", "x"])])),
        5 => command.extend(words(&["COUNT", random.pick(&["1", "3", "0"])])),
        _ => {}
    }
    command
}

/// A number of degrees, up to so many.
fn degrees(random: &mut Random, most: usize) -> String {
    match random.below(40) {
        0 => random.pick(&["x", "1e3", "-190", "", "inf"]).to_owned(),
        1 => random.pick(&["0", "-85.05112878", "85.05112878", "180", "-180", "84.9"]).to_owned(),
        _ => {
            let parts = random.below(2 * most * 100_000);
            (parts as f64 / 100_000.0 - most as f64).to_string()
        }
    }
}

fn length(random: &mut Random) -> [String; 2] {
    let number = match random.below(12) {
        0 => random.pick(&["0", "-1", "x", "1e30"]).to_owned(),
        _ => random.pick(&["1", "100", "5000.5", "2000", "20000", "300000"]).to_owned(),
    };
    [number, random.pick(&["km", "KM", "m", "mi", "ft", "km", "km", "yd"]).to_owned()]
}

/// Places; two sorted sets hold them.
fn geo(random: &mut Random) -> Vec<String> {
    let key = random.pick(&["geo1", "geo2", "geo1", "geo2", "geo1", "z1", "h1"]).to_owned();
    let name = |random: &mut Random| format!("p{}", random.below(40));
    let mut command = match random.below(12) {
        0..4 => {
            let mut command = words(&["GEOADD", &key]);
            if random.below(4) == 0 {
                command.push(random.pick(&["NX", "XX", "CH", "GT"]).to_owned());
            }
            for _ in 0..=random.below(10) {
                let place = [degrees(random, 180), degrees(random, 85), name(random)];
                command.extend(place);
            }
            return command;
        }
        4 => return with(random, &["GEOPOS", &key], 4, name),
        5 => return with(random, &["GEOHASH", &key], 4, name),
        6 => {
            let mut command = words(&["GEODIST", &key, &name(random), &name(random)]);
            command.extend(length(random).into_iter().skip(1).take(random.below(2)));
            return command;
        }
        7 => words(&[
            random.pick(&["GEORADIUS", "GEORADIUS_RO"]),
            &key,
            &degrees(random, 180),
            &degrees(random, 85),
        ]),
        8 => words(&[
            random.pick(&["GEORADIUSBYMEMBER", "GEORADIUSBYMEMBER_RO"]),
            &key,
            &name(random),
        ]),
        9 => words(&["GEOSEARCHSTORE", "geo3", &key]),
        _ => words(&["GEOSEARCH", &key]),
    };
    if command[0].starts_with("GEOSEARCH") {
        if random.below(2) == 0 {
            command.extend(words(&["FROMMEMBER", &name(random)]));
        } else {
            command.extend(["FROMLONLAT".into(), degrees(random, 180), degrees(random, 85)]);
        }
        if random.below(2) == 0 {
            command.push("BYRADIUS".into());
        } else {
            command.extend(["BYBOX".into(), length(random)[0].clone()]);
        }
    }
    command.extend(length(random));
    let most = random.below(5);
    for _ in 0..most {
        match random.below(9) {
            0 => command.push("WITHDIST".into()),
            1 => command.push("WITHHASH".into()),
            2 => command.push("WITHCOORD".into()),
            3 => command.push(random.pick(&["ASC", "desc"]).to_owned()),
            4 => command.extend(words(&["COUNT", random.pick(&["1", "3", "5", "0", "x"])])),
            5 => command.extend(words(&["COUNT", "2", "ANY"])),
            6 => command.push(random.pick(&["STOREDIST", "ANY", "BOGUS"]).to_owned()),
            7 => command.extend(words(&[random.pick(&["STORE", "STOREDIST"]), "geo3"])),
            _ => {}
        }
    }
    command
}

/// SORT, of numbers and texts, by and with what is under other keys.
fn sort(random: &mut Random) -> Vec<String> {
    // Not of sorted sets: Redis gives a small one the encoding of a large one when it sorts it.
    let of = random.pick(&["l", "s", "n", "n", "n"]);
    let key = if of == "n" { "numbers".to_owned() } else { key(random, of) };
    match random.below(10) {
        0 | 1 => {
            return with(random, &["RPUSH", "numbers"], 8, |random| random.below(40).to_string());
        }
        2 => return words(&["LTRIM", "numbers", "0", "20"]),
        3 => {
            let key = format!("w_{}", random.below(40));
            return words(&["SET", &key, &random.below(100).to_string()]);
        }
        4 => {
            let key = format!("h_{}", random.below(40));
            return words(&["HSET", &key, "w", &random.below(100).to_string(), "->", "arrow"]);
        }
        _ => {}
    }
    let mut command = words(&[random.pick(&["SORT", "SORT", "SORT_RO"]), &key]);
    // Elements of one weight have an order only where their own text decides, which it does among numbers.
    let is_alphabetic = random.below(2) == 0;
    for _ in 0..random.below(5) {
        match random.below(9) {
            0 => command.push("DESC".into()),
            1 | 2 if is_alphabetic => command.push("ALPHA".into()),
            1 | 2 => command.extend(words(&["BY", random.pick(&["w_*", "h_*->w"])])),
            3 => command.push("asc".into()),
            4 => {
                let range = [
                    random.pick(&["0", "2", "-1", "100", "x"]),
                    random.pick(&["3", "-1", "0", "100"]),
                ];
                command.extend(words(&["LIMIT", range[0], range[1]]));
            }
            // A set has no order of its own, and may lie under any other name.
            5 if of == "n" && !is_alphabetic => command.extend(words(&["BY", "nosort"])),
            6 => {
                command.extend(words(&["GET", random.pick(&["w_*", "h_*->w", "#", "w_1", "h_*"])]))
            }
            7 => command.extend(words(&["STORE", random.pick(&["sorted", "l3"])])),
            _ => command.push("BOGUS".into()),
        }
    }
    command
}

/// Ranges of members, in a sorted set of one score.
fn lexical(random: &mut Random) -> Vec<String> {
    let (min, max) = (lex(random), lex(random));
    match random.below(8) {
        0..3 => {
            let mut command = words(&["ZADD", "lex"]);
            for _ in 0..=random.below(20) {
                command.extend(["0".to_owned(), member(random)]);
            }
            command
        }
        3 => words(&[random.pick(&["ZRANGEBYLEX", "ZREVRANGEBYLEX"]), "lex", &min, &max]),
        4 => words(&["ZRANGEBYLEX", "lex", &min, &max, "LIMIT", &rank(random), &rank(random)]),
        5 => words(&["ZRANGE", "lex", &min, &max, "BYLEX", random.pick(&["REV", "WITHSCORES"])]),
        6 => words(&["ZLEXCOUNT", "lex", &min, &max]),
        _ => match random.below(4) {
            0 => words(&["ZREMRANGEBYLEX", "lex", &min, &max]),
            _ => words(&["ZREM", "lex", &member(random)]),
        },
    }
}

fn list(random: &mut Random) -> Vec<String> {
    let (key, other) = (key(random, "l"), key(random, "l"));
    let (element, more, number) = (member(random), member(random), number(random));
    let index = (random.below(60) as i64 - 30).to_string();
    let last = (random.below(60) as i64 - 30).to_string();
    let (end, other_end) = (random.pick(&["LEFT", "RIGHT"]), random.pick(&["LEFT", "right", "x"]));
    let (push, push_present) =
        (random.pick(&["LPUSH", "RPUSH"]), random.pick(&["LPUSHX", "RPUSHX"]));
    match random.below(24) {
        0..5 => with(random, &[push, &key], 20, member),
        5 => with(random, &[push_present, &key], 2, member),
        6 => words(&[random.pick(&["LPOP", "RPOP"]), &key]),
        7 => words(&[random.pick(&["LPOP", "RPOP"]), &key, &number]),
        8 => words(&["LLEN", &key]),
        9 => words(&["LINDEX", &key, &index]),
        10 => words(&["LINDEX", &key, &number]),
        11 => words(&["LSET", &key, &index, &element]),
        12 | 13 => {
            words(&["LINSERT", &key, random.pick(&["BEFORE", "AFTER", "x"]), &element, &more])
        }
        14 | 15 => words(&["LRANGE", &key, &index, &last]),
        16 => words(&[
            "LTRIM",
            &key,
            random.pick(&["0", "1", &index]),
            random.pick(&["-1", "-2", &last]),
        ]),
        17 => words(&["LREM", &key, random.pick(&["0", "1", "-1", "2", "-2", "x"]), &element]),
        18 => words(&["LPOS", &key, &element, "RANK", &number]),
        19 => words(&["LPOS", &key, &element, "RANK", &number, "COUNT", &index, "MAXLEN", "20"]),
        20 => words(&["RPOPLPUSH", &key, &other]),
        21 => words(&[random.pick(&["LMOVE", "LMOVE"]), &key, &other, end, other_end]),
        22 => words(&["LMPOP", "2", &key, &other, other_end, "COUNT", &number]),
        _ => words(&["BLMPOP", "0.001", &number, &key, &other, end]),
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
