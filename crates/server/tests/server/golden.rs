//! Values of every kind, as a program with version 7 of the server's values has left them: they are read in full, and changed
//! further. See ../images/README.md. `TEMBO_WRITE_IMAGES=1` writes the image anew.

use std::path::{Path, PathBuf};

use tembo_kv::{DomainRequest, Options, Store};
use tembo_server::format::{ORDER_KEY, ORDER_KEYSPACE, Value, data_keyspace, level_of};
use tembo_server::{Local, check_collections};

use crate::sparse;

const SIZE: u64 = 2 << 20;
const DATABASES: usize = 5;
const NOW: u64 = 1_700_000_000_000;
/// When fields and keys expire, in ms since 1970.
const LATER: &str = "4000000000000";

struct Folder(PathBuf);

impl Folder {
    fn new(test: &str) -> Folder {
        let folder =
            std::env::temp_dir().join(format!("tembo-values-{}-{test}", std::process::id()));
        // What an earlier run of the same process number left.
        let _ = std::fs::remove_dir_all(&folder);
        std::fs::create_dir_all(&folder).unwrap();
        Folder(folder)
    }

    fn pool(&self) -> PathBuf {
        self.0.join("pool")
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // A test that failed has said why already.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn options() -> Options {
    let options = Options::new().background(false).size(SIZE).size_max(2 * SIZE);
    options.domain(DomainRequest::Logged).log_size(8 << 20)
}

fn image() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/images/values_7.txt")
}

/// The words of a reply, one behind another; an absent one is `nil`.
fn words(reply: &[u8]) -> Vec<String> {
    let (mut words, mut rest) = (Vec::new(), reply);
    while !rest.is_empty() {
        let end = rest.windows(2).position(|bytes| bytes == b"\r\n").unwrap();
        let (line, behind) = (std::str::from_utf8(&rest[..end]).unwrap(), &rest[end + 2..]);
        rest = behind;
        match line.split_at(1) {
            ("*", _) => {}
            ("$", "-1") => words.push("nil".into()),
            ("$", size) => {
                let size: usize = size.parse().unwrap();
                words.push(rest[..size].escape_ascii().to_string());
                rest = &rest[size + 2..];
            }
            (_, word) => words.push(word.into()),
        }
    }
    words
}

fn call(local: &mut Local, args: &[&[u8]]) -> Vec<String> {
    let request = args.iter().map(|word| word.to_vec()).collect();
    words(&local.turn(NOW, &[request]).unwrap())
}

/// A command of words without spaces. What has no order is sorted.
fn line(local: &mut Local, line: &str) -> Vec<String> {
    let args: Vec<&[u8]> = line.split(' ').map(str::as_bytes).collect();
    let mut found = call(local, &args);
    match line.split(' ').next() {
        Some("SMEMBERS") => found.sort(),
        Some("HGETALL") => {
            let mut pairs: Vec<_> = found.chunks(2).map(<[String]>::to_vec).collect();
            pairs.sort();
            found = pairs.concat();
        }
        _ => {}
    }
    found
}

fn done(local: &mut Local, text: &str) {
    let replies = line(local, text);
    assert!(
        !replies[0].starts_with("ERR") && !replies[0].starts_with("WRONG"),
        "{text}: {replies:?}"
    );
}

const LARGE: u64 = 260;
const LIBRARY: &[u8] =
    b"#!lua name=golden\nredis.register_function('told', function() return 'by an image' end)";

/// Members of which two stand on level 2 of a large sorted set, or above.
fn members() -> Vec<String> {
    let high = |n: &u64| level_of(format!("high{n}").as_bytes()) >= 2;
    let high = (0..).filter(high).take(2).map(|n| format!("high{n}"));
    (0..LARGE).map(|n| format!("m{n:03}")).chain(high).collect()
}

fn score(member: &str) -> f64 {
    f64::from(member.bytes().map(u32::from).sum::<u32>() % 17) / 4.0 - 2.0
}

fn fill(local: &mut Local) {
    for text in [
        "SET text plain",
        "SET number -42",
        "SETRANGE large 4500000 end",
        "RPUSH list b c",
        "LPUSH list a",
        "HSET hash two 2 one 1",
        "SADD set x y",
        "SADD numbers 3 -1 70000",
        "ZADD sorted 2.5 b -inf a",
        "ZADD sorted 2.5 ba",
        "PEXPIREAT list 4000000000000",
        "SETEX gone 1000 v",
        "SADD shrunk x1",
        "SELECT 3",
        "SET other of-3",
        "HSET moved f v",
        "MOVE moved 2",
        "SELECT 4",
        "SET other of-4",
        "SWAPDB 3 4",
        "SELECT 0",
    ] {
        done(local, text);
    }
    call(local, &[b"SET", b"\0\xff\r\n", b"\r\n\0\x80", b"PXAT", LATER.as_bytes()]);
    call(local, &[b"FUNCTION", b"LOAD", LIBRARY]);
    let joined = |one: fn(u64) -> String| (0..LARGE).map(one).collect::<Vec<_>>().join(" ");
    let pairs = joined(|n| format!("f{n} v{n}"));
    done(local, &format!("RPUSH large-list {}", joined(|n| format!("e{n}"))));
    done(local, &format!("HSET large-hash {pairs}"));
    done(local, &format!("HSET large-expiring {pairs}"));
    done(local, &format!("SADD large-set {}", joined(|n| format!("s{n}"))));
    done(local, &format!("SADD shrunk {}", "x".repeat(65)));
    done(local, &format!("LPUSH large-list {} {}", "long".repeat(50), "short"));
    done(local, &format!("HPEXPIREAT large-expiring {LATER} FIELDS 2 f7 f8"));
    done(local, "HSET expiring a 1 b 2");
    done(local, &format!("HPEXPIREAT expiring {LATER} FIELDS 1 b"));
    done(local, &format!("PEXPIREAT large-set {LATER}"));
    let members = members().into_iter().map(|member| format!("{} {member}", score(&member)));
    done(local, &format!("ZADD large-sorted {}", members.collect::<Vec<_>>().join(" ")));
    done(local, &format!("SREM shrunk {}", "x".repeat(65)));
    fill_streams(local);
}

fn fill_streams(local: &mut Local) {
    for n in 1..=40 {
        done(local, &format!("XADD stream {}-{n} field {}", 10 * n, entry(n)));
    }
    for text in [
        "XDEL stream 70-7",
        "XGROUP CREATE stream readers 100-10",
        "XREADGROUP GROUP readers one COUNT 3 STREAMS stream >",
        "XREADGROUP GROUP readers two COUNT 2 STREAMS stream >",
        "XACK stream readers 120-12",
        "XGROUP CREATE stream others 0",
        "XADD emptied 5-0 f v",
        "XDEL emptied 5-0",
    ] {
        done(local, text);
    }
}

/// The value of a stream's entry, of which one is longer than a block.
fn entry(n: u64) -> String {
    if n == 20 { "long".repeat(300) } else { format!("value-{n}") }
}

/// Commands, and what they reply of what [`fill`] has written.
fn expected() -> Vec<(String, Vec<String>)> {
    let mut all: Vec<(String, Vec<String>)> = Vec::new();
    let mut add = |command: &str, reply: &str| {
        all.push((command.into(), reply.split_whitespace().map(str::to_owned).collect()));
    };
    for (command, reply) in [
        ("DBSIZE", "19"),
        ("GET text", "plain"),
        ("GET number", "-42"),
        ("STRLEN large", "4500003"),
        ("GETRANGE large 4500000 -1", "end"),
        ("LRANGE list 0 -1", "a b c"),
        ("PEXPIRETIME list", LATER),
        ("PEXPIRETIME text", "-1"),
        ("HGETALL hash", "one 1 two 2"),
        ("SMEMBERS set", "x y"),
        ("SMEMBERS numbers", "-1 3 70000"),
        ("OBJECT ENCODING numbers", "intset"),
        ("ZRANGE sorted 0 -1 WITHSCORES", "a -inf b 2.5 ba 2.5"),
        ("PEXPIRETIME gone", "1700001000000"),
        ("SMEMBERS shrunk", "x1"),
        ("OBJECT ENCODING shrunk", "hashtable"),
        ("HGETALL expiring", "a 1 b 2"),
        ("HPEXPIRETIME expiring FIELDS 2 a b", &format!("-1 {LATER}")),
        ("HPEXPIRETIME large-expiring FIELDS 3 f7 f8 f9", &format!("{LATER} {LATER} -1")),
        ("PEXPIRETIME large-set", LATER),
        ("TYPE stream", "stream"),
        ("XPENDING stream readers - + 10 one", "110-11 one 0 1 130-13 one 0 1"),
        ("XPENDING stream readers - + 10 two", "140-14 two 0 1 150-15 two 0 1"),
        (
            "XINFO GROUPS stream",
            "name others consumers 0 pending 0 last-delivered-id 0-0 entries-read nil lag nil \
             name readers consumers 2 pending 4 last-delivered-id 150-15 entries-read nil lag nil",
        ),
        ("XLEN emptied", "0"),
        ("XADD emptied 5-0 f v", "ERR_smaller"),
        ("FCALL told 0", "by_an_image"),
        ("SELECT 3", "OK"),
        ("GET other", "of-4"),
        ("DBSIZE", "1"),
        ("SELECT 4", "OK"),
        ("GET other", "of-3"),
        ("DBSIZE", "1"),
        ("SELECT 2", "OK"),
        ("HGETALL moved", "f v"),
        ("SELECT 1", "OK"),
        ("DBSIZE", "0"),
        ("SELECT 0", "OK"),
    ] {
        add(command, reply);
    }
    let pairs = || (0..LARGE).map(|n| vec![format!("f{n}"), format!("v{n}")]);
    let sorted = |mut all: Vec<Vec<String>>| {
        all.sort();
        all.concat()
    };
    all.push(("HGETALL large-hash".into(), sorted(pairs().collect())));
    all.push(("HGETALL large-expiring".into(), sorted(pairs().collect())));
    let members = (0..LARGE).map(|n| vec![format!("s{n}")]).collect();
    all.push(("SMEMBERS large-set".into(), sorted(members)));
    let first = ["short".to_owned(), "long".repeat(50)].into_iter();
    let list = first.chain((0..LARGE).map(|n| format!("e{n}"))).collect();
    all.push(("LRANGE large-list 0 -1".into(), list));
    all.extend(expected_order());
    let entries = (1..=40).filter(|&n| n != 7);
    let entries = entries.flat_map(|n| [format!("{}-{n}", 10 * n), "field".into(), entry(n)]);
    all.push(("XRANGE stream - +".into(), entries.collect()));
    all
}

/// The large sorted set, by score and by rank.
fn expected_order() -> Vec<(String, Vec<String>)> {
    let mut order: Vec<_> = members().into_iter().map(|member| (score(&member), member)).collect();
    order.sort_by(|one, other| one.partial_cmp(other).unwrap());
    let ranks = order.iter().enumerate().map(|(rank, (_, member))| {
        (format!("ZRANK large-sorted {member}"), vec![rank.to_string()])
    });
    let mut all: Vec<_> = ranks.collect();
    let pairs = order.iter().flat_map(|(score, member)| [member.clone(), score.to_string()]);
    all.push(("ZRANGE large-sorted 0 -1 WITHSCORES".into(), pairs.collect()));
    all
}

fn holds_all(local: &mut Local) {
    for (command, expected) in expected() {
        let mut found = line(local, &command);
        if command.starts_with("XADD emptied") {
            assert!(found[0].contains("equal or smaller"), "{found:?}");
            continue;
        }
        if command.starts_with("FCALL") {
            found[0] = found[0].replace(' ', "_");
        }
        assert_eq!(found, expected, "{command}");
    }
    let odd: [&[u8]; 2] = [b"GET", b"\0\xff\r\n"];
    assert_eq!(call(local, &odd), [r"\r\n\x00\x80"]);
    assert_eq!(call(local, &[b"PEXPIRETIME", odd[1]]), [LATER]);
    let middle = call(local, &[b"GETRANGE", b"large", b"4499990", b"4499999"]);
    assert_eq!(middle, [r"\x00".repeat(10)]);
    is_whole(local.store());
}

fn is_whole(store: &Store) {
    let snapshot = store.snapshot().unwrap();
    for db in 0..DATABASES {
        check_collections(&snapshot, db, &mut |what| panic!("{what}")).unwrap();
    }
}

/// What each value is laid out as: spread, with R, wide.
fn layouts(store: &Store) -> Vec<(&'static str, bool, bool, bool)> {
    let snapshot = store.snapshot().unwrap();
    let space = store.keyspace(&data_keyspace(0)).unwrap();
    let names = ["text", "large", "list", "shrunk", "expiring", "stream"];
    let large = ["large-list", "large-hash", "large-expiring", "large-set", "large-sorted"];
    let all = names.into_iter().chain(large);
    let layout = |name: &'static str| {
        let bytes = snapshot.get(space, name.as_bytes()).unwrap().unwrap().to_vec();
        let of = Value::decode(bytes[..].into()).unwrap().of;
        (name, of.is_spread, bytes[0] & 0x20 != 0, of.is_wide)
    };
    all.map(layout).collect()
}

fn make(path: &Path) {
    let store = Store::create(path, &options()).unwrap();
    let mut local = Local::open(store.clone(), DATABASES).unwrap();
    fill(&mut local);
    drop(local);
    store.close().unwrap();
}

fn open(path: &Path) -> Local {
    Local::open(Store::open(path, &options()).unwrap(), DATABASES).unwrap()
}

#[test]
fn values_made_today_are_those_of_the_image() {
    let folder = Folder::new("made");
    make(&folder.pool());
    if std::env::var_os("TEMBO_WRITE_IMAGES").is_some() {
        let made = std::fs::read(folder.pool()).unwrap();
        std::fs::write(image(), sparse::to_text(&made)).unwrap();
    }
    holds_all(&mut open(&folder.pool()));
}

#[test]
fn values_of_version_7_are_read_in_full_and_gone_on_with() {
    let folder = Folder::new("image");
    let text = std::fs::read_to_string(image()).unwrap();
    std::fs::write(folder.pool(), sparse::from_text(&text)).unwrap();
    let mut local = open(&folder.pool());
    let layouts = layouts(local.store());
    assert_eq!(
        layouts,
        [
            ("text", false, false, false),
            ("large", true, false, false),
            ("list", false, false, false),
            ("shrunk", false, false, true),
            ("expiring", true, true, false),
            ("stream", true, false, false),
            ("large-list", true, true, false),
            ("large-hash", true, false, false),
            ("large-expiring", true, true, false),
            ("large-set", true, false, true),
            ("large-sorted", true, true, true),
        ]
    );
    let order = local.store().keyspace(ORDER_KEYSPACE).unwrap();
    let order = local.store().get(order, ORDER_KEY).unwrap().unwrap();
    assert_eq!(order, [&[1, 0, 1, 2, 4, 3][..], &(5..16).collect::<Vec<u8>>()].concat());
    holds_all(&mut local);
    // What an earlier release has written is changed.
    for (command, reply) in [
        ("APPEND large x", "4500004"),
        ("LPOP large-list 3", "short LONG e0"),
        ("HDEL large-expiring f7 f9", "2"),
        ("SPOP large-set 100", ""),
        ("ZADD large-sorted 100 last", "1"),
        ("ZRANK large-sorted last", "262"),
        ("XACK stream readers 110-11", "1"),
        ("XADD stream 401-0 f v", "401-0"),
        ("XLEN stream", "40"),
    ] {
        let found = line(&mut local, command).join(" ").replace(&"long".repeat(50), "LONG");
        let is_random = command.starts_with("SPOP") && found.split(' ').count() == 100;
        assert!(found == reply || is_random, "{command}: {found}");
    }
    is_whole(local.store());
    // When their time comes they are gone.
    let request = ["DBSIZE"].map(|word| word.as_bytes().to_vec()).to_vec();
    let late = local.turn(4_000_000_000_001, &[request]).unwrap();
    assert_eq!(words(&late), ["15"]);
    is_whole(local.store());
}
