//! A pool that a store and a toy heap share survives SIGKILL at random moments: what was reported is there, the heap is whole, and
//! every byte is accounted for. `TEMBO_KILL_ROUNDS` is the number of rounds; `cargo xtask torture` runs more.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::print_stdout)]

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use tembo_torture::Random;
use tembo_torture::shared::{Reported, audit, serve};

const POOL: &str = "TEMBO_SHARED_POOL";
const FROM: &str = "TEMBO_SHARED_FROM";

/// The other process: does nothing in a run of the tests.
#[test]
fn changes_until_it_is_killed() {
    let (Ok(pool), Ok(from)) = (std::env::var(POOL), std::env::var(FROM)) else { return };
    let report = |thread: &str, number: u64| {
        // It fails when the pipe is closed.
        let line = format!("= {number} {thread}\n");
        if std::io::stdout().lock().write_all(line.as_bytes()).is_err() {
            std::process::exit(1);
        }
    };
    if let Err(what) = serve(Path::new(&pool), from.parse().unwrap(), &report) {
        eprintln!("{what}");
        std::process::exit(1);
    }
}

#[test]
fn a_store_and_a_heap_survive_a_process_that_is_killed() {
    let shm = Path::new("/dev/shm");
    if !shm.is_dir() {
        println!("SKIPPED: there is no /dev/shm");
        return;
    }
    let rounds = std::env::var("TEMBO_KILL_ROUNDS").map_or(6, |rounds| rounds.parse().unwrap());
    let folder = shm.join(format!("tembo-shared-{}", std::process::id()));
    std::fs::create_dir(&folder).unwrap();
    let pool = folder.join("pool");
    let (mut random, mut reported, mut last) = (Random::new(1), Reported::new(), 0);
    for round in 0..rounds {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "changes_until_it_is_killed", "--nocapture", "--test-threads=1"])
            .env(POOL, &pool)
            .env(FROM, (last + 1).to_string())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let output = BufReader::new(child.stdout.take().unwrap());
        let reader = std::thread::spawn(move || output.lines().map_while(Result::ok).collect());
        std::thread::sleep(Duration::from_millis(
            random.below(if round == 0 { 20 } else { 300 }) as u64
        ));
        let ended = child.try_wait().unwrap();
        assert!(ended.is_none(), "round {round}: it has ended by itself: {ended:?}");
        child.kill().unwrap();
        child.wait().unwrap();
        let lines: Vec<String> = reader.join().unwrap();
        for line in lines.iter().filter_map(|line| line.split_once("= ")) {
            let (number, thread) = line.1.split_once(' ').unwrap();
            reported.insert(thread.to_owned(), number.parse().unwrap());
        }
        last = audit(&pool, &reported).unwrap_or_else(|what| {
            panic!("round {round}: {what}; kept: {}", folder.display());
        });
    }
    println!("{rounds} rounds, up to number {last}");
    assert!(rounds < 5 || last > 100, "too little was done: {last}");
    std::fs::remove_dir_all(&folder).unwrap();
}
