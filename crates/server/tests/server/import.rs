//! Coming from Redis, beside Redis.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use tembo_server::{ImportError, Imported, Source, import_file, import_folder, import_live};

use crate::client::{Client, Random, Running, wait_until};
use crate::differential::Redis;

const PATIENCE: Duration = Duration::from_secs(60);

/// A random change of a key of any type, in one of two databases.
fn change(random: &mut Random, client: &mut Client) {
    let (key, number) = (random.below(80), random.below(900));
    let value = "v".repeat(1 + random.below(400));
    let command = match random.below(16) {
        0 => "SELECT 0".to_owned(),
        1 => "SELECT 3".to_owned(),
        2..=4 => format!("SET k{key} {value}"),
        5 => format!("SET k{key} {number} EX 100000"),
        6 => format!("RPUSH l{key} {value} {number} x"),
        7 => format!("LPOP l{key}"),
        8 => format!("HSET h{key} f{number} {value}"),
        9 => format!("HINCRBYFLOAT g{key} f{number} 1.5"),
        10 => format!("SADD s{key} {number}"),
        11 => format!("SADD t{key} m{number} {value}"),
        12 => format!("ZADD z{key} {number}.25 m{number}"),
        13 => format!("DEL k{key} h{key} z{key}"),
        14 => format!("EXPIRE z{key} 5000"),
        _ => format!("HSET big{} f{number} {value} g{number} {number}", key % 3),
    };
    client.call(&command);
}

/// All of a server, each collection in an order of its own.
fn contents(client: &mut Client) -> Vec<String> {
    let mut all = Vec::new();
    for db in [0, 3] {
        client.call(&format!("SELECT {db}"));
        let words = |reply: String| -> Vec<String> {
            reply.lines().filter(|line| !line.starts_with(['*', '$'])).map(str::to_owned).collect()
        };
        let mut keys = words(client.call("KEYS *"));
        keys.sort_unstable();
        for key in keys {
            let command = match key.as_bytes()[0] {
                b'l' => format!("LRANGE {key} 0 -1"),
                b'h' | b'g' | b'b' => format!("HGETALL {key}"),
                b's' | b't' => format!("SMEMBERS {key}"),
                b'z' => format!("ZRANGE {key} 0 -1 WITHSCORES"),
                _ => format!("GET {key}"),
            };
            let mut parts = words(client.call(&command));
            match key.as_bytes()[0] {
                b'h' | b'g' | b'b' => {
                    let mut pairs: Vec<_> = parts.chunks(2).map(<[String]>::concat).collect();
                    pairs.sort_unstable();
                    parts = pairs;
                }
                b's' | b't' => parts.sort_unstable(),
                _ => {}
            }
            let expiry = client.call(&format!("PEXPIRETIME {key}"));
            all.push(format!("{db} {key} {expiry:?} {}", parts.join(",")));
        }
    }
    all
}

fn assert_same(redis: &mut Client, tembo: &mut Client) {
    let (wanted, found) = (contents(redis), contents(tembo));
    let differs = wanted.iter().zip(&found).find(|(wanted, found)| wanted != found);
    assert!(differs.is_none() && wanted.len() == found.len(), "{differs:?}");
    assert!(wanted.len() > 100, "{}", wanted.len());
}

fn target(server: &Running) -> tembo_server::Client {
    tembo_server::Client::connect(server.address, PATIENCE).unwrap()
}

#[test]
fn a_redis_that_runs_is_taken_over_while_it_changes() {
    let Some(redis) = Redis::start() else { return };
    let server = Running::start();
    let (mut old, mut new) = (Client::connect(redis.address), server.client());
    let mut random = Random(0x5eed_0011);
    (0..3000).for_each(|_| change(&mut random, &mut old));
    let (stop, reached) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
    let (target, address) = (target(&server), redis.address);
    let (stopped, seen) = (stop.clone(), reached.clone());
    let importing = std::thread::spawn(move || {
        let source = Source::connect(address, None, stopped)?;
        let mut until = |state: &Imported| {
            seen.store(state.offset, Ordering::SeqCst);
            false
        };
        import_live(source, target, &mut |_| {}, &mut until)
    });
    (0..3000).for_each(|_| change(&mut random, &mut old));
    // It may be online, or have failed: then it says why.
    let connected = || (old.call("INFO replication"), importing.is_finished());
    wait_until("the importer", connected, |(info, ended)| *ended || info.contains("state=online"));
    if importing.is_finished() {
        panic!("{:?}", importing.join().unwrap());
    }
    (0..1000).for_each(|_| change(&mut random, &mut old));
    let info = old.call("INFO replication");
    let goal = info.lines().find_map(|line| line.strip_prefix("master_repl_offset:"));
    let goal: u64 = goal.unwrap().parse().unwrap();
    wait_until("the offset", || reached.load(Ordering::SeqCst), |offset| *offset >= goal);
    stop.store(true, Ordering::SeqCst);
    let imported: Result<Imported, ImportError> = importing.join().unwrap();
    let imported = imported.unwrap();
    assert!(imported.is_loaded && imported.keys > 100 && imported.commands > 500, "{imported:?}");
    assert_eq!(imported.first_refusal, None);
    assert_same(&mut old, &mut new);
}

#[test]
fn an_rdb_file_is_imported_and_a_damaged_one_refused() {
    let Some(redis) = Redis::start() else { return };
    let server = Running::start();
    let (mut old, mut new) = (Client::connect(redis.address), server.client());
    let folder = std::env::temp_dir().join(format!("tembo-import-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    old.call(&format!("CONFIG SET dir {}", folder.display()));
    let mut random = Random(0x5eed_0012);
    (0..4000).for_each(|_| change(&mut random, &mut old));
    assert_eq!(old.call("SAVE"), "+OK\r\n");
    let file = std::fs::read(folder.join("dump.rdb")).unwrap();
    let _ = std::fs::remove_dir_all(&folder);
    let mut observed = 0;
    let imported =
        import_file(&file[..], target(&server), &mut |state| observed = state.bytes).unwrap();
    assert_eq!((imported.bytes, observed), (file.len() as u64, file.len() as u64));
    assert_eq!(imported.first_refusal, None);
    assert_same(&mut old, &mut new);
    for size in [0, 5, 9, 100, file.len() / 2, file.len() - 1] {
        let refused = import_file(&file[..size], target(&server), &mut |_| {});
        assert!(matches!(refused, Err(ImportError::Damaged { .. })), "{size}: {refused:?}");
    }
    let mut damaged = file.clone();
    let last = damaged.len() - 1;
    damaged[last] ^= 1;
    let refused = import_file(&damaged[..], target(&server), &mut |_| {});
    assert!(matches!(refused, Err(ImportError::Damaged { .. })), "{refused:?}");
    let newer = [b"REDIS9999".as_slice(), &file[9..]].concat();
    let refused = import_file(&newer[..], target(&server), &mut |_| {});
    assert!(matches!(refused, Err(ImportError::Unsupported { .. })), "{refused:?}");
}

fn word(bytes: &mut Vec<u8>, words: &[&str]) {
    let words: Vec<&[u8]> = words.iter().map(|word| word.as_bytes()).collect();
    bytes.extend(crate::client::encode(&words));
}

#[test]
fn an_append_only_file_is_imported_without_its_torn_tail() {
    let mut file = b"#TS:1700000000\r\n".to_vec();
    word(&mut file, &["SELECT", "0"]);
    word(&mut file, &["SET", "a", "1"]);
    word(&mut file, &["INCRBY", "a", "41"]);
    word(&mut file, &["MULTI"]);
    word(&mut file, &["SET", "b", "never answered"]);
    file.extend_from_slice(b"*3\r\n$3\r\nSET\r\n$1\r\nc");
    let server = Running::start();
    let imported = import_file(&file[..], target(&server), &mut |_| {}).unwrap();
    assert_eq!((imported.commands, imported.refused, imported.keys), (5, 0, 0));
    let mut client = server.client();
    assert_eq!(client.call("GET a"), "$2\r\n42\r\n");
    assert_eq!(client.call("EXISTS b c"), ":0\r\n");
    let failed = import_file(&b"*1\r\n+PING\r\n"[..], target(&server), &mut |_| {});
    assert!(matches!(failed, Err(ImportError::Damaged { .. })), "{failed:?}");
}

/// What Redis itself writes: a folder with an RDB file and the commands since.
#[test]
fn an_append_only_folder_of_redis_is_imported() {
    let Some(redis) = Redis::start() else { return };
    let folder = std::env::temp_dir().join(format!("tembo-server-aof-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let mut source = Client::connect(redis.address);
    assert_eq!(source.call(&format!("CONFIG SET dir {}", folder.display())), "+OK\r\n");
    let mut random = Random(0x5eed_a0f0);
    for _ in 0..500 {
        change(&mut random, &mut source);
    }
    assert_eq!(source.call("CONFIG SET appendfsync always appendonly yes"), "+OK\r\n");
    let rewriting = || source.call("INFO persistence");
    wait_until("the rewriting", rewriting, |info| info.contains("aof_rewrite_in_progress:0"));
    for _ in 0..500 {
        change(&mut random, &mut source);
    }
    let expected = contents(&mut source);
    let server = Running::start();
    let folder_of_parts = folder.join("appendonlydir");
    let imported = import_folder(&folder_of_parts, target(&server), &mut |_| {}).unwrap();
    std::fs::remove_dir_all(&folder).unwrap();
    assert!(imported.keys > 0 && imported.commands > 100, "{imported:?}");
    assert_eq!(imported.refused, 0, "{imported:?}");
    assert_eq!(contents(&mut server.client()), expected);
}
