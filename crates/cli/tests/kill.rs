//! The kill test: SIGKILL at random moments under pipelined load from several connections, also
//! during creation, growth, checkpoint and recovery. Afterwards every acknowledged write is there,
//! each connection's writes are a prefix of what it sent, a MULTI is whole or absent, and the check
//! is clean.
//!
//! A process that is killed leaves the system's page cache behind, so that this cannot see a missing
//! flush or `fdatasync`; and it loses nothing under `--sync interval` either.
//!
//! `TEMBO_KILL_ROUNDS` is the number of rounds in each domain, `TEMBO_KILL_SEED` where they begin.
//! A failure says both and keeps its folder. `cargo xtask torture` runs 200.

#![allow(clippy::unwrap_used, clippy::panic, clippy::print_stdout, missing_docs, unreachable_pub)]

#[path = "kill/load.rs"]
mod load;
#[path = "kill/model.rs"]
mod model;
#[path = "driver/random.rs"]
mod random;
#[path = "driver/resp.rs"]
mod resp;
#[path = "kill/round.rs"]
mod round;
#[path = "kill/served.rs"]
mod served;
#[path = "driver/server.rs"]
mod server;

use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use round::{Scene, Tally};

const ROUNDS: u64 = 4;

/// Small at first, so that the pool grows under the load.
const SIZE: [&str; 2] = ["--size", "256K"];
/// Small, so that checkpoints never end, and pages are given back.
const LOG_SIZE: [&str; 4] = ["--log-size", "2M", "--private-max", "1M"];

#[test]
fn flush() {
    let shm = Path::new("/dev/shm");
    if !shm.is_dir() {
        println!("SKIPPED: there is no /dev/shm");
        return;
    }
    kill("flush", shm, &["--domain", "flush"]);
}

#[test]
fn logged_always() {
    kill("logged-always", &disk(), &["--domain", "logged", "--sync", "always"]);
}

#[test]
fn logged_interval() {
    kill("logged-interval", &disk(), &["--domain", "logged", "--sync", "interval"]);
}

fn disk() -> PathBuf {
    PathBuf::from(env!("CARGO_TARGET_TMPDIR"))
}

fn kill(name: &str, place: &Path, words: &[&'static str]) {
    let rounds = variable("TEMBO_KILL_ROUNDS").unwrap_or(ROUNDS);
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    let seed = variable("TEMBO_KILL_SEED").unwrap_or(now.as_nanos() as u64 % 1_000_000_007);
    let folder = place.join(format!("tembo-kill-{name}-{}", std::process::id()));
    let words = [words, &SIZE, &LOG_SIZE].concat();
    let mut scene = Scene::new(&folder, &words, seed);
    let mut tally = Tally::default();
    println!("{name}: {rounds} rounds from seed {seed}");
    for number in 0..rounds {
        if let Err(what) = scene.round(number, &mut tally) {
            panic!(
                "{name}, round {number}: {what}\n  again: TEMBO_KILL_SEED={seed} \
                 TEMBO_KILL_ROUNDS={rounds} cargo test -p tembo-cli --test kill\n  kept: {}\n  {tally:?}",
                folder.display(),
            );
        }
    }
    println!("{name}: {rounds} rounds, {tally:?}");
    scene.clean_up();
}

fn variable(name: &str) -> Option<u64> {
    let value = std::env::var(name).ok()?;
    Some(value.parse().unwrap_or_else(|_| panic!("{name}={value} is no number")))
}
