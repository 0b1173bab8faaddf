//! Fields of hashes that expire, by a clock that the test owns.

use tembo_kv::{Options, Store};
use tembo_server::{Local, check_collections};

const NOW: u64 = 1_000_000;

struct Clocked {
    local: Local,
    now_ms: u64,
}

impl Clocked {
    fn new() -> Clocked {
        let store = Store::volatile(&Options::default()).unwrap();
        Clocked { local: Local::open(store, 2).unwrap(), now_ms: NOW }
    }

    /// The replies in RESP2 of the lines, on one line.
    fn call(&mut self, lines: &str) -> String {
        let words = |line: &str| line.split(' ').map(|word| word.as_bytes().to_vec()).collect();
        let requests: Vec<Vec<Vec<u8>>> = lines.split(';').map(words).collect();
        let replies = self.local.turn(self.now_ms, &requests).unwrap();
        let snapshot = self.local.store().snapshot().unwrap();
        for db in 0..2 {
            check_collections(&snapshot, db, &mut |what| panic!("after {lines}: {what}")).unwrap();
        }
        String::from_utf8(replies).unwrap().replace("\r\n", " ").trim_end().to_owned()
    }

    fn expect(&mut self, lines: &str, replies: &str) {
        assert_eq!(self.call(lines), replies, "{lines}");
    }
}

#[test]
fn replies_are_those_of_redis() {
    let mut server = Clocked::new();
    server.expect("HSET h a 1 b 2 c 3", ":3");
    server.expect("HEXPIRE h 10 FIELDS 2 a x", "*2 :1 :-2");
    server.expect("HTTL h FIELDS 3 a b x", "*3 :10 :-1 :-2");
    server.expect("HPTTL h FIELDS 1 a;HEXPIRETIME h FIELDS 1 a", "*1 :10000 *1 :1010");
    server.expect("HPEXPIRETIME h FIELDS 1 a", "*1 :1010000");
    server.expect("HEXPIRE h 20 NX FIELDS 2 a b", "*2 :0 :1");
    server.expect("HEXPIRE h 15 GT FIELDS 3 a b c", "*3 :1 :0 :0");
    server.expect("HEXPIRE h 5 LT FIELDS 3 a b c", "*3 :1 :1 :1");
    server.expect("HPEXPIRE h 7000 XX FIELDS 1 a;HTTL h FIELDS 1 a", "*1 :1 *1 :7");
    server.expect("HPERSIST h FIELDS 3 a x b", "*3 :1 :-2 :1");
    server.expect("HPERSIST h FIELDS 1 a", "*1 :-1");
    server.expect("HPEXPIREAT h 500 FIELDS 1 a;HEXISTS h a;HLEN h", "*1 :2 :0 :2");
    server.expect("HEXPIREAT h 0 FIELDS 2 b c;EXISTS h", "*2 :2 :2 :0");
    server.expect("HEXPIRE none 1 FIELDS 2 a b;HTTL none FIELDS 1 a", "*2 :-2 :-2 *1 :-2");
    server.expect("HPERSIST none FIELDS 1 a;EXISTS none", "*1 :-2 :0");
    for (line, error) in [
        ("HEXPIRE h 10 FIELDS 2 a", "The `numfields` parameter must match the number of arguments"),
        ("HEXPIRE h 10 FIELDS 0 a", "Parameter `numFields` should be greater than 0"),
        (
            "HEXPIRE h 10 YY 1 a b",
            "Mandatory argument FIELDS is missing or not at the right position",
        ),
        ("HEXPIRE h -1 FIELDS 1 a", "invalid expire time, must be >= 0"),
        ("HPEXPIRE h 70368744177664 FIELDS 1 a", "invalid expire time in 'hpexpire' command"),
        ("HEXPIRE h x FIELDS 1 a", "value is not an integer or out of range"),
    ] {
        server.expect(line, &format!("-ERR {error}"));
    }
    server.call("SET s 1");
    let wrong = "-WRONGTYPE Operation against a key holding the wrong kind of value";
    for line in ["HEXPIRE s 1 FIELDS 1 a", "HTTL s FIELDS 1 a", "HPERSIST s FIELDS 1 a"] {
        server.expect(line, wrong);
    }
}

#[test]
fn a_field_is_gone_when_its_time_is_over_and_the_key_with_the_last() {
    let mut server = Clocked::new();
    server.expect("HSET h a 1 b 2 c 3;HPEXPIRE h 50 FIELDS 1 a", ":3 *1 :1");
    server.expect("HPEXPIRE h 90 FIELDS 2 b c", "*2 :1 :1");
    server.now_ms = NOW + 50;
    server.expect("HGET h a", "$1 1");
    server.now_ms = NOW + 51;
    server.expect("HGET h a;HLEN h;HKEYS h", "$-1 :2 *2 $1 b $1 c");
    server.expect("HSETNX h a 9;HTTL h FIELDS 1 a;HDEL h a", ":1 *1 :-1 :1");
    server.now_ms = NOW + 91;
    server.expect("EXISTS h;DBSIZE", ":0 :0");
}

#[test]
fn a_value_that_is_set_does_not_expire_and_one_that_is_counted_does() {
    let mut server = Clocked::new();
    server.call("HSET h a 1 b 2 c 3;HPEXPIRE h 50 FIELDS 3 a b c");
    server.expect("HSET h a 5;HPTTL h FIELDS 1 a", ":0 *1 :-1");
    server.expect("HINCRBY h b 5;HPTTL h FIELDS 1 b", ":7 *1 :50");
    server.expect("HINCRBYFLOAT h c 0.5;HPTTL h FIELDS 1 c", "$3 3.5 *1 :50");
    server.now_ms = NOW + 51;
    server.expect("HGETALL h;HINCRBY h b 1", "*2 $1 a $1 5 :1");
}

#[test]
fn fields_expire_under_another_key_and_in_a_copy() {
    let mut server = Clocked::new();
    server.call("HSET h a 1 b 2;HPEXPIRE h 50 FIELDS 1 a;RENAME h moved");
    server.call("COPY moved copied;COPY moved copied DB 1;EXPIRE moved 100;PERSIST moved");
    server.now_ms = NOW + 51;
    // The expiry step has removed them: a clock that goes back does not bring them back.
    server.expect("PING", "+PONG");
    server.now_ms = NOW;
    server.expect("HLEN moved;HLEN copied;SELECT 1;HLEN copied;SELECT 0", ":1 :1 +OK :1 +OK");
}

#[test]
fn many_fields_expire_and_many_stay() {
    let mut server = Clocked::new();
    for part in 0..4 {
        let fields: Vec<String> = (0..300).map(|n| format!("field-{part}-{n}")).collect();
        let pairs: Vec<String> = fields.iter().map(|field| format!("{field} {part}")).collect();
        server.expect(&format!("HSET h {}", pairs.join(" ")), ":300");
        if part < 3 {
            let line = format!("HPEXPIRE h {} FIELDS 300 {}", 50 + part, fields.join(" "));
            assert!(server.call(&line).starts_with("*300 :1 :1"));
        }
    }
    server.now_ms = NOW + 52;
    server.expect("HLEN h;HTTL h FIELDS 2 field-2-7 field-3-7", ":600 *2 :0 :-1");
    server.now_ms = NOW + 60;
    server.expect("HLEN h;HRANDFIELD h 1000", &server_fields());
}

/// What is left, in the order of the elements.
fn server_fields() -> String {
    let mut fields: Vec<String> = (0..300).map(|n| format!("field-3-{n}")).collect();
    fields.sort();
    let shown: Vec<String> =
        fields.iter().map(|field| format!("${} {field}", field.len())).collect();
    format!(":300 *300 {}", shown.join(" "))
}

#[test]
fn expired_fields_are_published() {
    let mut server = Clocked::new();
    server.call("HELLO 3;CONFIG SET notify-keyspace-events KEA;PSUBSCRIBE __keyevent@0__:*");
    let set = server.call("HSET h a 1;HPEXPIRE h 50 FIELDS 1 a");
    assert!(set.contains("__keyevent@0__:hexpire "), "{set}");
    server.now_ms = NOW + 51;
    let expired = server.call("PING");
    assert!(expired.contains("__keyevent@0__:hexpired $1 h"), "{expired}");
    assert!(expired.contains("__keyevent@0__:del $1 h"), "{expired}");
}
