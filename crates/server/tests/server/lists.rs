//! Large collections that many commands of one turn change: beside Redis, and checked afterwards; lists as earlier
//! releases have laid them out.

use std::ops::Bound;

use tembo_kv::{Direction, Durability, Options, Store};
use tembo_server::format::{
    Header, Kind, Part, Spread, Type, Value, data_keyspace, element_prefix, elements_keyspace,
    position_order,
};
use tembo_server::{Local, check_collections};

use crate::client::{Client, Random, Running, encode};
use crate::collection_script;
use crate::differential::Redis;

fn check(store: &Store) {
    let snapshot = store.snapshot().unwrap();
    check_collections(&snapshot, 0, &mut |what| panic!("{what}")).unwrap();
}

fn words(text: &str) -> Vec<String> {
    text.split(' ').map(str::to_owned).collect()
}

/// An element at the limits of a strip.
fn element(random: &mut Random) -> String {
    let size = [1, 3, 10, 63, 64, 65, 200][random.below(7)];
    format!("{}{}", random.below(10), "e".repeat(size - 1))
}

/// A command on one of two lists, which grow and shrink around the limits of Redis's encodings and of strips.
fn list_command(random: &mut Random) -> Vec<String> {
    let key = format!("l{}", random.below(2));
    let (index, other) = (random.below(300) as i64 - 150, random.below(300) as i64 - 150);
    let end = |random: &mut Random| random.pick(&["LEFT", "RIGHT"]);
    match random.below(20) {
        0 | 1 => {
            let mut command = words(&format!("{} {key}", random.pick(&["LPUSH", "RPUSH"])));
            let count = [1, 31, 32, 33, 127, 128, 129][random.below(7)];
            command.extend((0..count).map(|_| element(random)));
            command
        }
        2..7 => {
            let push = random.pick(&["LPUSH", "RPUSH"]);
            words(&format!("{push} {key} {}", element(random)))
        }
        7 | 8 => words(&format!("{} {key}", random.pick(&["LPOP", "RPOP"]))),
        9 => {
            let count = [1, 2, 32, 100][random.below(4)];
            words(&format!("{} {key} {count}", random.pick(&["LPOP", "RPOP"])))
        }
        10 => words(&format!("LINDEX {key} {index}")),
        11 => words(&format!("LSET {key} {index} {}", element(random))),
        12 => {
            let place = random.pick(&["BEFORE", "AFTER"]);
            words(&format!("LINSERT {key} {place} {} {}", element(random), element(random)))
        }
        13 => words(&format!("LREM {key} {} {}", random.below(5) as i64 - 2, element(random))),
        14 if random.below(4) == 0 => {
            let range = [(1, -2), (0, 40), (-70, -1), (40, 200)][random.below(4)];
            words(&format!("LTRIM {key} {} {}", range.0, range.1))
        }
        14 | 15 => words(&format!("LRANGE {key} {index} {other}")),
        16 => words(&format!("LPOS {key} {} RANK -1 COUNT 3", element(random))),
        17 => words(&format!("LMOVE {key} l{} {} {}", random.below(2), end(random), end(random))),
        18 => words(&format!("LLEN {key}")),
        _ => words(&format!("LRANGE {key} 0 -1")),
    }
}

/// A command on any collection, small or large; none whose reply has no order.
fn any_command(random: &mut Random) -> Vec<String> {
    if random.below(3) == 0 {
        return list_command(random);
    }
    loop {
        let command = collection_script::command(random);
        let waits = command[0].starts_with('B');
        // Scores that are no places lie equally far away.
        let has_ties = command[0].starts_with("GEO") && !command[1].starts_with("geo");
        if !waits && !has_ties && !collection_script::is_unordered(&command[0]) {
            return command;
        }
    }
}

fn turns_are_those_of_redis(make: fn(&mut Random) -> Vec<String>) {
    let Some(redis) = Redis::start() else { return };
    for seed in 1..=6 {
        let (mut random, tembo) = (Random(seed * 0x9e37_79b9), Running::start());
        let (mut theirs, mut ours) = (Client::connect(redis.address), tembo.client());
        theirs.call("FLUSHALL");
        for turn in 0..40 {
            let commands: Vec<Vec<String>> = (0..40).map(|_| make(&mut random)).collect();
            let bytes: Vec<u8> = commands
                .iter()
                .flat_map(|command| {
                    encode(&command.iter().map(String::as_bytes).collect::<Vec<_>>())
                })
                .collect();
            theirs.send(&bytes);
            ours.send(&bytes);
            for (step, command) in commands.iter().enumerate() {
                let (theirs, ours) = (theirs.reply(), ours.reply());
                assert_eq!(theirs, ours, "seed {seed}, turn {turn}, step {step}: {command:?}");
            }
        }
        check(&tembo.stop().0);
    }
}

#[test]
fn lists_that_many_commands_of_a_turn_change_are_those_of_redis() {
    turns_are_those_of_redis(list_command);
}

#[test]
fn collections_that_many_commands_of_a_turn_change_are_those_of_redis() {
    turns_are_those_of_redis(any_command);
}

/// A list of so many elements as releases without strips have it.
fn lay_out_without_strips(store: &Store, count: u64) {
    let spread = Spread { id: 1, count, first: -5 };
    let head = Header::new(Type::new(Kind::List, true), None);
    let value = [head.as_bytes(), &spread.encode(Kind::List)].concat();
    store
        .put(store.keyspace(&data_keyspace(0)).unwrap(), b"old", &value, Durability::Buffered)
        .unwrap();
    let space = store.keyspace(&elements_keyspace(0)).unwrap();
    store
        .put(space, &tembo_server::format::ID_KEY, &1_u64.to_be_bytes(), Durability::Buffered)
        .unwrap();
    for number in 0..count {
        let key =
            [&element_prefix(1, Part::Main)[..], &position_order(spread.first + number as i64)]
                .concat();
        store
            .put(space, &key, format!("element {number}").as_bytes(), Durability::Buffered)
            .unwrap();
    }
}

#[test]
fn a_list_of_an_earlier_release_is_used_as_it_is() {
    let store = Store::volatile(&Options::default()).unwrap();
    lay_out_without_strips(&store, 300);
    let mut local = Local::open(store, 1).unwrap();
    check(local.store());
    let mut call = |line: &str| {
        let requests = [line.split(' ').map(|word| word.as_bytes().to_vec()).collect()];
        let reply = String::from_utf8(local.turn(1, &requests).unwrap()).unwrap();
        check(local.store());
        reply.replace("\r\n", " ").trim_end().to_owned()
    };
    assert_eq!(call("LLEN old"), ":300");
    assert_eq!(call("LINDEX old 299"), "$11 element 299");
    assert_eq!(call("LPUSH old a b"), ":302");
    assert_eq!(call("RPUSH old c"), ":303");
    assert_eq!(call("LRANGE old 0 2"), "*3 $1 b $1 a $9 element 0");
    assert_eq!(call("RPOP old"), "$1 c");
    assert_eq!(call("LPOP old 2"), "*2 $1 b $1 a");
    assert_eq!(call("LSET old 1 changed"), "+OK");
    assert_eq!(call("LINSERT old AFTER changed d"), ":301");
    assert_eq!(call("LREM old 0 d"), ":1");
    assert_eq!(call("LTRIM old 1 -2"), "+OK");
    assert_eq!(call("LRANGE old 0 0"), "*1 $7 changed");
    assert_eq!(call("COPY old new"), ":1");
    assert_eq!(call("LLEN new"), ":298");
}

/// The value and the elements of the only key.
fn stored(local: &Local) -> (Vec<u8>, usize) {
    let snapshot = local.store().snapshot().unwrap();
    let (data, elements) = {
        let spaces = snapshot.keyspaces().unwrap();
        let find = |name: String| spaces.iter().find(|(other, _)| *other == name).unwrap().1;
        (find(data_keyspace(0)), find(elements_keyspace(0)))
    };
    let all = (Bound::Unbounded, Bound::Unbounded);
    let (mut values, mut count) = (Vec::new(), 0);
    snapshot
        .range_with::<[u8]>(data, all, Direction::Forward, &mut |_, value| {
            values.push(value.to_vec());
            true
        })
        .unwrap();
    snapshot
        .range_with::<[u8]>(elements, all, Direction::Forward, &mut |_, _| {
            count += 1;
            true
        })
        .unwrap();
    assert_eq!(values.len(), 1);
    (values.remove(0), count)
}

#[test]
fn the_elements_of_a_large_list_lie_in_strips_of_32() {
    let store = Store::volatile(&Options::default()).unwrap();
    let mut local = Local::open(store, 1).unwrap();
    let push = |size: usize| vec![b"RPUSH".to_vec(), b"l".to_vec(), vec![b'e'; size]];
    local.turn(1, &vec![push(64); 100]).unwrap();
    let (value, elements) = stored(&local);
    let of = Value::decode(value[..].into()).unwrap().of;
    assert!(of.is_spread && of.in_strips);
    // One holds the last id that was given.
    assert_eq!(elements, 1 + 4);
    local.turn(1, &vec![push(65); 10]).unwrap();
    assert_eq!(stored(&local).1, 1 + 4 + 10);
    check(local.store());
}

/// An error means that nothing has happened: a list that cannot be made, since its key is too long, takes no element away.
#[test]
fn an_element_that_cannot_arrive_stays_where_it_is() {
    let server = Running::start();
    let mut client = server.client();
    let long = "k".repeat(70_000);
    client.call("RPUSH a 1 2");
    for command in [
        format!("LMOVE a {long} LEFT RIGHT"),
        format!("RPOPLPUSH a {long}"),
        format!("RPUSH {long} {}", "x ".repeat(300).trim_end()),
        format!("XADD {long} * f v"),
    ] {
        let reply = client.call(&command);
        assert!(
            reply.starts_with("-ERR a key is longer than"),
            "{}",
            &reply[..reply.len().min(90)]
        );
    }
    assert_eq!(client.call("LRANGE a 0 -1"), "*2\r\n$1\r\n1\r\n$1\r\n2\r\n");
}
