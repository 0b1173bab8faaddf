//! A pool that several tenants share survives SIGKILL at random moments: what was reported is there, each tenant is whole, and every byte
//! is accounted for. They are a store and a toy heap, or a store and two heaps. `TEMBO_KILL_ROUNDS` is the number of rounds; `cargo xtask
//! torture` runs more.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::print_stdout)]

use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use tembo_kv::DomainRequest;
use tembo_torture::Random;
use tembo_torture::shared::{Reported, audit, serve};
use tembo_torture::tenants::{self, Audit};

const POOL: &str = "TEMBO_SHARED_POOL";
const FROM: &str = "TEMBO_SHARED_FROM";
const DOMAIN: &str = "TEMBO_SHARED_DOMAIN";

/// Prints what is durable. It fails when the pipe is closed.
fn report(part: &str, number: u64) {
    let line = format!("= {number} {part}\n");
    if std::io::stdout().lock().write_all(line.as_bytes()).is_err() {
        std::process::exit(1);
    }
}

fn domain(name: &str) -> DomainRequest {
    if name == "flush" { DomainRequest::Flush } else { DomainRequest::Logged }
}

/// The other process: does nothing in a run of the tests.
#[test]
fn changes_until_it_is_killed() {
    let (Ok(pool), Ok(from)) = (std::env::var(POOL), std::env::var(FROM)) else { return };
    let (pool, from) = (Path::new(&pool), from.parse().unwrap());
    let ended = match std::env::var(DOMAIN) {
        Ok(name) => tenants::serve(pool, domain(&name), from, &report),
        Err(_) => serve(pool, from, &report),
    };
    if let Err(what) = ended {
        eprintln!("{what}");
        std::process::exit(1);
    }
}

/// Starts the process, with these variables, and kills it after less than `most` milliseconds; what it has reported becomes part of `reported`.
fn kill_after(
    most: usize,
    variables: &[(&str, &str)],
    random: &mut Random,
    reported: &mut Reported,
) {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "changes_until_it_is_killed", "--nocapture", "--test-threads=1"])
        .envs(variables.iter().copied())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let output = BufReader::new(child.stdout.take().unwrap());
    let reader = std::thread::spawn(move || output.lines().map_while(Result::ok).collect());
    std::thread::sleep(Duration::from_millis(random.below(most) as u64));
    let ended = child.try_wait().unwrap();
    assert!(ended.is_none(), "it has ended by itself: {ended:?}");
    child.kill().unwrap();
    child.wait().unwrap();
    let lines: Vec<String> = reader.join().unwrap();
    for line in lines.iter().filter_map(|line| line.split_once("= ")) {
        let (number, part) = line.1.split_once(' ').unwrap();
        reported.insert(part.to_owned(), number.parse().unwrap());
    }
}

fn rounds() -> u64 {
    std::env::var("TEMBO_KILL_ROUNDS").map_or(6, |rounds| rounds.parse().unwrap())
}

/// A folder in memory; `None`: there is no such file system.
fn folder_in_memory(name: &str) -> Option<PathBuf> {
    let shm = Path::new("/dev/shm");
    if !shm.is_dir() {
        println!("SKIPPED: there is no /dev/shm");
        return None;
    }
    let folder = shm.join(format!("tembo-{name}-{}", std::process::id()));
    std::fs::create_dir(&folder).unwrap();
    Some(folder)
}

#[test]
fn a_store_and_a_heap_survive_a_process_that_is_killed() {
    let Some(folder) = folder_in_memory("shared") else { return };
    let (rounds, pool) = (rounds(), folder.join("pool"));
    let (mut random, mut reported, mut last) = (Random::new(1), Reported::new(), 0);
    for round in 0..rounds {
        let (from, most) = ((last + 1).to_string(), if round == 0 { 20 } else { 300 });
        let variables = [(POOL, pool.to_str().unwrap()), (FROM, from.as_str())];
        kill_after(most, &variables, &mut random, &mut reported);
        last = audit(&pool, &reported).unwrap_or_else(|what| {
            panic!("round {round}: {what}; kept: {}", folder.display());
        });
    }
    println!("{rounds} rounds, up to number {last}");
    assert!(rounds < 5 || last > 100, "too little was done: {last}");
    std::fs::remove_dir_all(&folder).unwrap();
}

/// A pool of a store and two heaps, below `folder`, in the domain `name`, whose process lives for less than `most` milliseconds.
fn kill_tenants(name: &str, folder: &Path, rounds: u64, most: usize) {
    let pool = folder.join("pool");
    let (mut random, mut audit, mut done) = (Random::new(2), Audit::default(), 0);
    let mut reported = Reported::new();
    for round in 0..rounds {
        let (from, most) = (round.to_string(), if round == 0 { most / 15 } else { most });
        let variables = [(POOL, pool.to_str().unwrap()), (FROM, from.as_str()), (DOMAIN, name)];
        kill_after(most, &variables, &mut random, &mut reported);
        // What begins the sweep in the process, and what in the audit: all pairs come in 16 rounds.
        let seed = round + 1 + round / 4;
        done += audit.follow(&pool, domain(name), seed, &reported).unwrap_or_else(|what| {
            panic!("round {round}: {what}; kept: {}", folder.display());
        });
    }
    println!("{rounds} rounds, {done} changes");
    assert!(rounds < 5 || done > 100, "too little was done: {done}");
}

#[test]
fn a_store_and_two_heaps_in_one_pool_survive_a_process_that_is_killed() {
    let Some(folder) = folder_in_memory("tenants") else { return };
    kill_tenants("flush", &folder, rounds(), 300);
    std::fs::remove_dir_all(&folder).unwrap();
}

#[test]
fn a_store_and_two_heaps_in_one_pool_on_a_disk_survive_it_too() {
    let folder = tempfile::tempdir().unwrap().keep();
    // Each change waits for the disk.
    kill_tenants("logged", &folder, rounds().div_ceil(2), 1500);
    std::fs::remove_dir_all(&folder).unwrap();
}
