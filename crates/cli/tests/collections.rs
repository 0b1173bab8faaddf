//! The kill test of collections: SIGKILL at random moments while connections change lists, hashes, sets, sorted sets,
//! streams with a group, and expiries, by single commands, MULTI and scripts. After each restart every acknowledged change
//! is there, what each connection left is a prefix of what it sent, a MULTI and a script are whole or absent, the counts
//! fit the elements, and `tembo check` finds each collection whole.
//!
//! `TEMBO_KILL_ROUNDS` is the number of rounds of each server, `TEMBO_KILL_SEED` where they begin. A failure says both
//! and keeps its folder.

#![allow(clippy::unwrap_used, clippy::panic, clippy::print_stdout, missing_docs, unreachable_pub)]

#[path = "collections/content.rs"]
mod content;
#[path = "collections/load.rs"]
mod load;
#[path = "collections/model.rs"]
mod model;
#[path = "collections/observe.rs"]
mod observe;
#[path = "driver/random.rs"]
mod random;
#[path = "driver/resp.rs"]
mod resp;
#[path = "driver/server.rs"]
mod server;

use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use model::Model;
use random::Random;
use server::{Server, Setup, run};

const ROUNDS: u64 = 3;
const CONNECTIONS: u64 = 3;
const SIGKILL: i32 = 9;
const SIZES: [&str; 4] = ["--size", "256K", "--log-size", "2M"];

#[test]
fn in_memory_over_the_nv_tree() {
    in_memory("nvtree");
}

#[test]
fn in_memory_over_the_b_tree() {
    in_memory("cdds");
}

#[test]
fn in_a_log_over_the_nv_tree() {
    let words = ["--domain", "logged", "--sync", "always", "--index", "nvtree"];
    kill("logged-nvtree", &PathBuf::from(env!("CARGO_TARGET_TMPDIR")), &words);
}

#[test]
fn in_a_log_over_the_b_tree() {
    let words = ["--domain", "logged", "--sync", "os", "--index", "cdds"];
    kill("logged-cdds", &PathBuf::from(env!("CARGO_TARGET_TMPDIR")), &words);
}

fn in_memory(index: &'static str) {
    let shm = Path::new("/dev/shm");
    if !shm.is_dir() {
        println!("SKIPPED: there is no /dev/shm");
        return;
    }
    kill(&format!("flush-{index}"), shm, &["--domain", "flush", "--index", index]);
}

fn variable(name: &str) -> Option<u64> {
    let value = std::env::var(name).ok()?;
    Some(value.parse().unwrap_or_else(|_| panic!("{name}={value} is no number")))
}

fn kill(name: &str, place: &Path, words: &[&str]) {
    let rounds = variable("TEMBO_KILL_ROUNDS").unwrap_or(ROUNDS);
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    let seed = variable("TEMBO_KILL_SEED").unwrap_or(now.as_nanos() as u64 % 1_000_000_007);
    let folder = place.join(format!("tembo-collections-{name}-{}", std::process::id()));
    // What an earlier run of the same process number left.
    let _ = std::fs::remove_dir_all(&folder);
    std::fs::create_dir_all(&folder).unwrap();
    let setup = Setup::new(&folder.join("kill.pool"), &[words, &SIZES].concat());
    let mut random = Random::new(seed);
    let mut models: Vec<Model> = (0..CONNECTIONS).map(|id| Model::new(id, random.next())).collect();
    println!("{name}: {rounds} rounds from seed {seed}");
    for number in 0..rounds {
        if let Err(what) = round(&setup, &mut random, &mut models) {
            panic!(
                "{name}, round {number}: {what}\n  again: TEMBO_KILL_SEED={seed} \
                 TEMBO_KILL_ROUNDS={rounds} cargo test -p tembo-cli --test collections\n  kept: {}",
                folder.display(),
            );
        }
    }
    std::fs::remove_dir_all(&folder).unwrap();
}

fn start(setup: &Setup) -> Result<Server, String> {
    setup.try_start().map_err(|status| format!("no start: {status}\n{}", setup.errors()))
}

/// Load, SIGKILL, start again, compare, end in one way or the other, check.
fn round(setup: &Setup, random: &mut Random, models: &mut [Model]) -> Result<(), String> {
    let server = start(setup)?;
    let (address, millis) = (server.address, [30, 100, 300][random.below(3) as usize]);
    let delay = Duration::from_micros(random.below(millis * 1000));
    let results: Vec<Result<(), String>> = thread::scope(|scope| {
        let threads: Vec<_> =
            models.iter_mut().map(|model| scope.spawn(move || load::run(model, address))).collect();
        thread::sleep(delay);
        let status = server.kill();
        let by_itself = format!("the server ended by itself, with {status}");
        let ended = if status.signal() == Some(SIGKILL) { Ok(()) } else { Err(by_itself) };
        let joined = threads.into_iter().map(|thread| thread.join().unwrap());
        joined.chain(std::iter::once(ended)).collect()
    });
    for result in results {
        result.map_err(|what| format!("{what}\n{}", setup.errors()))?;
    }
    let server = start(setup)?;
    let mut client = server.client();
    for model in models.iter_mut() {
        let found = observe::state(&mut client, model.id)?;
        model.accept(&found)?;
    }
    if random.once_in(2) {
        let status = server.stop();
        if !status.success() {
            return Err(format!("the clean stop ended with {status}"));
        }
    } else {
        server.kill();
    }
    let output = run(&["check", setup.pool.to_str().unwrap()]);
    if output.status.success() { Ok(()) } else { Err(format!("check: {output:?}")) }
}
