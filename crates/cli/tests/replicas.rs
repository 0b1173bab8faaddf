//! A primary and a replica, one of which is killed at random moments of a load, again and again: in the end both hold
//! the same, and both pools are sound. `TEMBO_KILL_ROUNDS` and `TEMBO_KILL_SEED` as in the kill test.

#![allow(clippy::unwrap_used, clippy::panic, clippy::print_stdout, missing_docs, unreachable_pub)]

#[path = "driver/random.rs"]
mod random;
#[path = "driver/resp.rs"]
mod resp;
#[path = "driver/server.rs"]
mod server;

use std::collections::BTreeMap;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use random::Random;
use resp::{Client, Reply};
use server::{Server, Setup, run};

const ROUNDS: u64 = 8;
/// Many times what a replica needs to reach its primary on a busy machine, in seconds.
const PATIENCE_S: u64 = 60;

/// Random changes, pipelined, until enough are sent or the server is gone.
fn load(random: &mut Random, client: &mut Client) -> std::io::Result<()> {
    for _ in 0..1 + random.below(40) {
        let count = 1 + random.below(150);
        for _ in 0..count {
            let key = format!("k{}", random.below(2000));
            let collection = format!("c{}", random.below(20));
            let value = vec![b'v'; 1 + random.below(600) as usize];
            let (key, collection) = (key.as_bytes(), collection.as_bytes());
            match random.below(6) {
                0 | 1 => client.push(&[b"SET", key, &value]),
                2 => client.push(&[b"SET", key, &value, b"EX", b"100000"]),
                3 => client.push(&[b"DEL", key]),
                4 => client.push(&[b"HSET", &[b"h", collection].concat(), key, &value]),
                _ => client.push(&[b"RPUSH", &[b"l", collection].concat(), &value]),
            }
        }
        client.send()?;
        for _ in 0..count {
            client.read()?;
        }
    }
    Ok(())
}

/// Waits until the replica holds durably what the primary holds.
fn settle(primary: &Server, replica: &Server) {
    let began = Instant::now();
    loop {
        let waited = primary.client().call(&[b"WAIT", b"1", b"1000"]).unwrap();
        if waited == Reply::Integer(1) {
            return;
        }
        let info = replica.client().call(&[b"INFO", b"replication"]);
        assert!(began.elapsed().as_secs() < PATIENCE_S, "{waited:?} {info:?}");
    }
}

/// What a server holds.
fn contents(server: &Server) -> BTreeMap<Vec<u8>, Reply> {
    let mut client = server.client();
    let Reply::Array(keys) = client.call(&[b"KEYS", b"*"]).unwrap() else { panic!("no keys") };
    let mut all = BTreeMap::new();
    for key in keys {
        let Reply::Bulk(key) = key else { panic!("{key:?} is no key") };
        let value = match key[0] {
            b'h' => client.call(&[b"HGETALL", &key]),
            b'l' => client.call(&[b"LRANGE", &key, b"0", b"-1"]),
            _ => client.call(&[b"GET", &key]),
        };
        let expiry = client.call(&[b"PEXPIRETIME", &key]).unwrap();
        all.insert(key, Reply::Array(vec![value.unwrap(), expiry]));
    }
    all
}

fn variable(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

#[test]
fn whichever_side_is_killed_both_hold_the_same_in_the_end() {
    let rounds = variable("TEMBO_KILL_ROUNDS").unwrap_or(ROUNDS);
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    let seed = variable("TEMBO_KILL_SEED").unwrap_or(now.as_nanos() as u64 % 1_000_000_007);
    println!("{rounds} rounds; again: TEMBO_KILL_SEED={seed}");
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let mut random = Random::new(seed);
    let words = ["--domain", "logged", "--size", "1M", "--log-size", "2M"];
    let mut one = Setup::new(&folder.path().join("one.pool"), &words);
    let mut primary = one.start();
    one.port = primary.address.port();
    let port = one.port.to_string();
    let words = [&words[..], &["--replicaof", "127.0.0.1", &port]].concat();
    let mut two = Setup::new(&folder.path().join("two.pool"), &words);
    let mut replica = two.start();
    two.port = replica.address.port();
    for round in 0..rounds {
        let mut client = primary.client();
        let loading = std::thread::spawn({
            let mut random = Random::new(random.next());
            // The end of the server ends it.
            move || drop(load(&mut random, &mut client))
        });
        // At any moment of the load.
        for _ in 0..random.below(100) {
            primary.client().call(&[b"PING"]).unwrap();
        }
        if random.once_in(2) {
            replica.kill();
            replica = two.start();
        } else {
            primary.kill();
            primary = one.start();
        }
        loading.join().unwrap();
        if random.once_in(3) || round + 1 == rounds {
            settle(&primary, &replica);
        }
    }
    let (wanted, found) = (contents(&primary), contents(&replica));
    assert!(wanted.len() > 10, "{}", wanted.len());
    for key in wanted.keys().chain(found.keys()) {
        let key_text = String::from_utf8_lossy(key);
        assert!(wanted.get(key) == found.get(key), "seed {seed}: {key_text} differs");
    }
    primary.kill();
    replica.kill();
    for setup in [&one, &two] {
        let checked = run(&["check", setup.pool.to_str().unwrap()]);
        assert!(checked.status.success(), "seed {seed}: {checked:?}");
    }
}
