//! Large sorted sets and streams as earlier releases have laid them out: they are used as they are, and what commands reply is what
//! they reply to those that this release has made.

use std::collections::BTreeSet;

use tembo_kv::{Durability, Keyspace, Options, Store};
use tembo_server::format::{
    Header, ID_KEY, Kind, LEVEL_MAX, Part, Spread, StreamHead, StreamId, Type, Value,
    data_keyspace, element_prefix, elements_keyspace, level_of, push_entry, score_order,
};
use tembo_server::{Local, check_collections};

use crate::client::Random;

fn check(store: &Store) {
    let snapshot = store.snapshot().unwrap();
    check_collections(&snapshot, 0, &mut |what| panic!("{what}")).unwrap();
}

/// A store with the value of the key `old`, and the keyspace of its elements, which have the id 1.
fn store_with(of: Type, payload: &[u8]) -> (Store, Keyspace) {
    let store = Store::volatile(&Options::default()).unwrap();
    let value = [Header::new(of, None).as_bytes(), payload].concat();
    put(&store, store.keyspace(&data_keyspace(0)).unwrap(), b"old", &value);
    let elements = store.keyspace(&elements_keyspace(0)).unwrap();
    put(&store, elements, &ID_KEY, &1_u64.to_be_bytes());
    (store, elements)
}

fn put(store: &Store, space: Keyspace, key: &[u8], value: &[u8]) {
    store.put(space, key, value, Durability::Buffered).unwrap();
}

fn call(local: &mut Local, line: &str) -> Vec<u8> {
    let requests = [line.split(' ').map(|word| word.as_bytes().to_vec()).collect()];
    local.turn(1_000_000, &requests).unwrap()
}

/// The same command, of both keys; `KEY` stands for the key, in the replies too.
fn call_both(local: &mut Local, line: &str) {
    let [old, new] = ["old", "new"].map(|key| {
        let reply = call(local, &line.replace("KEY", key));
        reply.escape_ascii().to_string().replace(key, "KEY")
    });
    assert_eq!(old, new, "{line}");
}

/// The payload's size, and whether the levels of a sorted set begin with level 2.
fn stored(local: &Local, key: &str) -> (usize, bool) {
    let snapshot = local.store().snapshot().unwrap();
    let spaces = snapshot.keyspaces().unwrap();
    let space = spaces.iter().find(|(name, _)| *name == data_keyspace(0)).unwrap().1;
    let bytes = snapshot.get(space, key.as_bytes()).unwrap().unwrap().to_vec();
    let value = Value::decode(bytes[..].into()).unwrap();
    (value.payload.len(), value.of.levels_from_2)
}

/// The members of a sorted set by score and name, with all their levels.
fn lay_out_with_level_1(members: u64) -> Store {
    let of = Type { is_wide: true, ..Type::new(Kind::SortedSet, true) };
    let spread = Spread { id: 1, count: members, first: 0 };
    let (store, space) = store_with(of, &spread.encode(Kind::SortedSet));
    let names = (0..members).map(|number| (number % 97, format!("m{number}")));
    let ordered: Vec<Vec<u8>> = names
        .collect::<BTreeSet<_>>()
        .into_iter()
        .map(|(score, name)| [&score_order(score as f64)[..], name.as_bytes()].concat())
        .collect();
    let key = |part, rest: &[u8]| [&element_prefix(1, part)[..], rest].concat();
    for order in &ordered {
        put(&store, space, &key(Part::Main, &order[8..]), &order[..8]);
        put(&store, space, &key(Part::Order, order), b"");
    }
    for level in 1..=LEVEL_MAX {
        let mut entries = vec![(Vec::new(), 0_u64)];
        for order in &ordered {
            if level_of(&order[8..]) >= level {
                entries.push((order.clone(), 0));
            }
            entries.last_mut().unwrap().1 += 1;
        }
        if entries.len() > 1 {
            for (rest, members) in entries {
                put(&store, space, &key(Part::Level(level), &rest), &members.to_be_bytes());
            }
        }
    }
    store
}

#[test]
fn a_sorted_set_with_a_stored_level_1_is_used_as_it_is() {
    const MEMBERS: u64 = 3000;
    let mut local = Local::open(lay_out_with_level_1(MEMBERS), 1).unwrap();
    check(local.store());
    for number in 0..MEMBERS {
        call(&mut local, &format!("ZADD new {} m{number}", number % 97));
    }
    let mut random = Random(11);
    for step in 0..4000 {
        let (member, score) = (random.below(4000), random.below(200));
        match random.below(8) {
            0..3 => call_both(&mut local, &format!("ZADD KEY {score} m{member}")),
            3 => call_both(&mut local, &format!("ZREM KEY m{member}")),
            4 => call_both(&mut local, &format!("ZRANK KEY m{member}")),
            5 => call_both(&mut local, &format!("ZRANGE KEY {member} {}", member + 3)),
            6 => call_both(&mut local, &format!("ZCOUNT KEY {score} {}", score + 40)),
            _ => call_both(&mut local, "ZPOPMIN KEY"),
        }
        if step % 500 == 0 {
            check(local.store());
        }
    }
    call_both(&mut local, "ZRANGE KEY 0 -1 WITHSCORES");
    assert_eq!((stored(&local, "old").1, stored(&local, "new").1), (false, true));
    check(local.store());
}

fn lay_out_without_blocks(entries: u64) -> Store {
    let id = |ms| StreamId { ms, seq: 0 };
    let head = StreamHead {
        id: 1,
        count: entries,
        last: id(entries),
        first: id(1),
        added: entries,
        ..StreamHead::default()
    };
    let (store, space) = store_with(Type::STREAM, &head.encode());
    for ms in 1..=entries {
        let mut packed = Vec::new();
        push_entry(&mut packed, b"field");
        push_entry(&mut packed, format!("value {ms}").as_bytes());
        let key = [&element_prefix(1, Part::Main)[..], &id(ms).encode()].concat();
        put(&store, space, &key, &packed);
    }
    store
}

#[test]
fn a_stream_without_blocks_is_used_as_it_is() {
    const ENTRIES: u64 = 300;
    let mut local = Local::open(lay_out_without_blocks(ENTRIES), 1).unwrap();
    check(local.store());
    for ms in 1..=ENTRIES {
        let words = ["XADD", "new", &format!("{ms}-0"), "field", &format!("value {ms}")];
        let request = words.iter().map(|word| word.as_bytes().to_vec()).collect();
        local.turn(1_000_000, &[request]).unwrap();
    }
    call_both(&mut local, "XGROUP CREATE KEY group 0");
    let (mut random, mut next) = (Random(12), ENTRIES as usize + 1);
    for step in 0..3000 {
        let (id, more) = (random.below(next + 20), random.below(60));
        match random.below(11) {
            0..3 => {
                // Blocks have 1,024 bytes; some entries are longer.
                let value = "v".repeat([3, 60, 500, 1100][random.below(4)]);
                call_both(&mut local, &format!("XADD KEY {next}-{more} field {value}"));
                next += 1 + usize::from(more % 7 == 0);
            }
            3 => call_both(&mut local, &format!("XDEL KEY {id}-0 {}-{more}", id + 1)),
            4 => call_both(&mut local, &format!("XRANGE KEY {id} {} COUNT 7", id + more)),
            5 => call_both(&mut local, &format!("XREVRANGE KEY {} {id} COUNT 7", id + more)),
            6 => call_both(&mut local, &format!("XREAD COUNT 3 STREAMS KEY {id}-0")),
            7 => call_both(&mut local, "XREADGROUP GROUP group consumer COUNT 2 STREAMS KEY >"),
            8 => call_both(
                &mut local,
                &format!("XREADGROUP GROUP group consumer COUNT 2 STREAMS KEY {id}"),
            ),
            9 if more < 5 => call_both(&mut local, &format!("XTRIM KEY MAXLEN {}", 100 + more)),
            9 => call_both(&mut local, &format!("XTRIM KEY MINID {}", id / 2)),
            _ => call_both(&mut local, "XLEN KEY"),
        }
        if step % 300 == 0 {
            check(local.store());
        }
    }
    call_both(&mut local, "XRANGE KEY - +");
    assert_eq!((stored(&local, "old").0, stored(&local, "new").0), (88, 104));
    check(local.store());
    // What is empty goes on; the id of its last block is behind the one that XSETID gives.
    for line in ["XTRIM KEY MAXLEN 0", "XSETID KEY 9000-0", "XADD KEY 9000-1 f v", "XRANGE KEY - +"]
    {
        call_both(&mut local, line);
    }
    check(local.store());
    call_both(&mut local, "XDEL KEY 9000-1");
    for line in ["XSETID KEY 50-0", "XADD KEY 60-0 f v", "XADD KEY 61-0 f v", "XREVRANGE KEY + -"] {
        call_both(&mut local, line);
    }
    check(local.store());
}
