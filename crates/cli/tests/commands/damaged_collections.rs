//! `tembo check` sees a collection whose elements do not fit each other, or its value.

use std::path::Path;

use tembo_kv::{Durability, Options, Store};
use tembo_server::format::{
    ConsumerRecord, GroupRecord, Header, Part, StreamHead, StreamId, Value, element_prefix,
    score_order,
};

use super::resp::Reply;
use super::server::Setup;
use super::{run, text};

/// Each key, the words that add to it, and elements enough that it is a large one.
const ADDED: [(&str, &str, usize); 4] =
    [("list", "RPUSH", 1), ("hash", "HSET", 2), ("set", "SADD", 1), ("sorted", "ZADD", 2)];
const COUNT: usize = 1200;

fn fill(pool: &Path) {
    let server = Setup::new(pool, &[]).start();
    let mut client = server.client();
    for (key, command, width) in ADDED {
        let mut words = vec![command.to_owned(), key.to_owned()];
        words.extend((0..COUNT * width).map(|number| (number / width).to_string()));
        let words: Vec<&[u8]> = words.iter().map(|word| word.as_bytes()).collect();
        assert_eq!(client.call(&words).unwrap(), Reply::Integer(COUNT as i64));
    }
    for line in [
        "XADD stream 1-1 field value",
        "XADD stream 2-1 field value",
        "XADD stream 3-1 field value",
        "XGROUP CREATE stream group 0",
        "XREADGROUP GROUP group consumer COUNT 2 STREAMS stream >",
        "SADD small a b c",
    ] {
        let words: Vec<&[u8]> = line.split(' ').map(str::as_bytes).collect();
        let reply = client.call(&words).unwrap();
        assert!(!matches!(reply, Reply::Error(_)), "{line}: {reply:?}");
    }
    assert!(server.stop().success());
}

/// A store of the server, and the id of the elements of a key.
struct Damaged {
    store: Store,
    id: u64,
}

impl Damaged {
    fn open(pool: &Path, key: &str) -> Damaged {
        let store = Store::open(pool, &Options::new()).unwrap();
        let bytes = {
            let snapshot = store.snapshot().unwrap();
            let data = store.keyspace("db0").unwrap();
            snapshot.get(data, key.as_bytes()).unwrap().unwrap().to_vec()
        };
        let id = Value::decode(bytes[..].into()).unwrap().spread().unwrap().map_or(0, |it| it.id);
        Damaged { store, id }
    }

    fn change(self, keyspace: &str, key: &[u8], value: Option<&[u8]>) {
        let space = self.store.keyspace(keyspace).unwrap();
        match value {
            Some(value) => self.store.put(space, key, value, Durability::Strict).map(drop),
            None => self.store.remove(space, key, Durability::Strict).map(drop),
        }
        .unwrap();
        self.store.close().unwrap();
    }

    fn element(self, part: Part, rest: &[u8], value: Option<&[u8]>) {
        let key = [&element_prefix(self.id, part)[..], rest].concat();
        self.change("db0.elements", &key, value);
    }

    /// Changes the head of the stream.
    fn head(self, change: impl FnOnce(&mut StreamHead)) {
        let data = self.store.keyspace("db0").unwrap();
        let bytes = self.store.snapshot().unwrap().get(data, b"stream").unwrap().unwrap().to_vec();
        let value = Value::decode(bytes[..].into()).unwrap();
        let mut head = StreamHead::decode(value.payload).unwrap();
        change(&mut head);
        let bytes = [Header::new(value.of, None).as_bytes(), &head.encode()].concat();
        self.change("db0", b"stream", Some(&bytes));
    }
}

/// The check finds that text after the damage, and nothing before it.
fn finds(what: &str, key: &str, damage: impl FnOnce(Damaged)) {
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let pool = folder.path().join("a.pool");
    fill(&pool);
    let sound = run(&["check", text(&pool)]);
    assert!(sound.status.success(), "{sound:?}");
    damage(Damaged::open(&pool, key));
    let found = run(&["check", text(&pool)]);
    let said = String::from_utf8_lossy(&found.stdout);
    assert!(!found.status.success() && said.contains(what), "`{what}` is not in {found:?}");
}

#[test]
fn collections_that_do_not_count_their_elements_are_found() {
    finds("the hash hash: it says 1200 fields, and has 1199", "hash", |damaged| {
        damaged.element(Part::Main, b"17", None);
    });
    finds("the set set: it says 1200 members, and has 1201", "set", |damaged| {
        damaged.element(Part::Main, b"more", Some(b""));
    });
    finds("the list list: a strip is not where the one before it ends", "list", |damaged| {
        let strip = tembo_server::format::position_order(7);
        damaged.element(Part::Strip, &strip, None);
    });
    finds("the list list: a strip has not as many elements as positions", "list", |damaged| {
        let strip = tembo_server::format::position_order(7);
        damaged.element(Part::Strip, &strip, Some(b"\x01a"));
    });
    finds("the set small: a name is there twice", "small", |damaged| {
        damaged.change("db0", b"small", Some(b"\x02\x01a\x01b\x01a"));
    });
    finds("elements of no value", "set", |damaged| damaged.change("db0", b"set", None));
}

#[test]
fn a_sorted_set_whose_orders_or_levels_differ_is_found() {
    finds("the zset sorted: its two orders differ", "sorted", |damaged| {
        damaged.element(Part::Main, b"17", Some(&score_order(18.0)));
    });
    finds("the zset sorted: a level counts members wrongly", "sorted", |damaged| {
        let key = [&score_order(599.0)[..], b"599"].concat();
        damaged.element(Part::Order, &key, None);
    });
    finds("the zset sorted: a level counts members wrongly", "sorted", |damaged| {
        damaged.element(Part::Level(2), b"", Some(&3_u64.to_be_bytes()));
    });
    finds("the zset sorted: a level has too many entries", "sorted", |damaged| {
        damaged.element(Part::Level(1), b"", Some(&3_u64.to_be_bytes()));
    });
}

#[test]
fn a_stream_that_does_not_fit_its_head_or_its_groups_is_found() {
    finds("the stream stream: it says 4 entries, and has 3", "stream", |damaged| {
        damaged.head(|head| head.count += 1);
    });
    finds("the stream stream: its head does not name its first entry", "stream", |damaged| {
        damaged.head(|head| head.first = StreamId { ms: 2, seq: 1 });
    });
    finds("the stream stream: an entry is behind the last one", "stream", |damaged| {
        damaged.head(|head| head.last = StreamId { ms: 3, seq: 0 });
    });
    let first = StreamId { ms: 1, seq: 1 }.encode();
    finds("the stream stream: a block is cut", "stream", |damaged| {
        damaged.element(Part::Main, &first, Some(b"\x00"));
    });
    finds("the stream stream: a block is behind the last one", "stream", |damaged| {
        let entry = b"\x00\x00\x04\x01f\x01v";
        damaged.element(Part::Main, &StreamId { ms: 2, seq: 0 }.encode(), Some(entry));
    });
    finds("the stream stream: it says 2 groups, and has 1", "stream", |damaged| {
        damaged.head(|head| (head.groups, head.group_numbers) = (2, 2));
    });
    let (one, id) = (1_u64.to_be_bytes(), StreamId { ms: 1, seq: 1 }.encode());
    finds("a pending entry is not among its consumer's", "stream", |damaged| {
        damaged.element(Part::Owned, &[&one[..], &one, &id].concat(), None);
    });
    finds("it says 2 pending entries of a group, and has 1", "stream", |damaged| {
        damaged.element(Part::Pending, &[&one[..], &id].concat(), None);
    });
    finds("it says 7 pending entries of a consumer, and has 2", "stream", |damaged| {
        let record = ConsumerRecord { seen_ms: 1, pending: 7 };
        let value = [&record.encode()[..], b"consumer"].concat();
        damaged.element(Part::Consumer, &[one, one].concat(), Some(&value));
    });
    finds("it says 2 consumers of a group, and has 1", "stream", |damaged| {
        let record = GroupRecord {
            number: 1,
            pending: 2,
            consumers: 2,
            consumer_numbers: 2,
            ..GroupRecord::default()
        };
        damaged.element(Part::Group, b"group", Some(&record.encode()));
    });
}
