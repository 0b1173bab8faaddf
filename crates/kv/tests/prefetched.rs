//! Keys that an exclusive writer has prefetched, in several keyspaces: what it reads and writes is what it would be without.
#![allow(clippy::unwrap_used, clippy::panic)]

use std::collections::BTreeMap;

use tembo_kv::{Durability, IndexKind, Keyspace, Options, Store};

#[path = "driver/random.rs"]
mod random;
use random::Random;

const KEYSPACES: u64 = 3;

/// Short ones and names.
fn key(random: &mut Random) -> Vec<u8> {
    let number = random.below(900);
    match number % 3 {
        0 => number.to_be_bytes().to_vec(),
        1 => format!("name:{number}").into_bytes(),
        _ => [&[b'p'; 20][..], &number.to_be_bytes()].concat(),
    }
}

#[test]
fn prefetched_keys_of_several_keyspaces_are_read_and_written_as_others() {
    for index in IndexKind::ALL {
        let options = Options::new().index(index).background(false).size_max(256 << 20);
        let store = Store::volatile(&options).unwrap();
        let spaces: Vec<Keyspace> =
            (0..KEYSPACES).map(|number| store.keyspace(&format!("s{number}")).unwrap()).collect();
        let mut models = vec![BTreeMap::new(); spaces.len()];
        let mut random = Random(11);
        for round in 0..400_u64 {
            let mut writer = store.exclusive().unwrap();
            let mut known: Vec<(usize, Vec<u8>)> = Vec::new();
            for _ in 0..1 + random.below(6) {
                // The keys of one keyspace, and sometimes of a second and a third.
                let count = 1 + random.below(KEYSPACES) as usize;
                for (at, &space) in spaces.iter().enumerate().take(count) {
                    let keys: Vec<Vec<u8>> =
                        (0..random.below(20)).map(|_| key(&mut random)).collect();
                    let borrowed: Vec<&[u8]> = keys.iter().map(Vec::as_slice).collect();
                    writer.prefetch(space, &borrowed);
                    known.extend(keys.into_iter().map(|key| (at, key)));
                }
                // Mostly in their order, and others between them.
                for (at, known) in known.drain(..) {
                    let key = if random.below(5) == 0 { key(&mut random) } else { known };
                    let (space, model) = (spaces[at], &mut models[at]);
                    match random.below(4) {
                        0 => {
                            let found =
                                writer.get(space, &key).unwrap().map(|value| value.to_vec());
                            assert_eq!(found.as_ref(), model.get(&key), "{index:?}, round {round}");
                        }
                        1 => {
                            let was_there = writer.remove(space, &key).unwrap();
                            assert_eq!(was_there, model.remove(&key).is_some());
                        }
                        _ => {
                            let value = vec![round as u8; random.below(60) as usize];
                            let was_there = writer.put(space, &key, &value).unwrap();
                            assert_eq!(was_there, model.insert(key, value).is_some());
                        }
                    }
                }
            }
            writer.commit(Durability::Buffered).unwrap();
        }
        for (space, model) in spaces.iter().zip(models) {
            for (key, value) in &model {
                assert_eq!(store.get(*space, key).unwrap().as_ref(), Some(value));
            }
            assert_eq!(store.range::<[u8]>(*space, ..).unwrap().count(), model.len());
        }
    }
}
