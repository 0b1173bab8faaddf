//! A heap whose process is killed at random (thesis 4.3.7): threads change it in transactions, then one of them in the layers SAFE and BASE, and
//! so on. What each thread does follows from its number and the number of its transaction, so that the audit knows what has to be there: a
//! transaction that was reported is there, at most one more, and nothing in part. `TEMBO_KILL_ROUNDS` is the number of rounds; `cargo xtask
//! torture` does more.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::print_stdout)]

mod chance;
mod content;
mod part;
mod work;

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use tembo_heap::{HeapFile, PoolOptions};
use tembo_pmem::DomainRequest;

use chance::Random;
use content::show;
use part::{Reported, expect, text};

const POOL: &str = "TEMBO_HEAP_POOL";
const DOMAIN: &str = "TEMBO_HEAP_DOMAIN";
const THREADS: usize = 3;

fn domain(name: &str) -> DomainRequest {
    if name == "flush" { DomainRequest::Flush } else { DomainRequest::Logged }
}

/// The other process: does nothing in a run of the tests.
#[test]
fn works_until_it_is_killed() {
    let (Ok(pool), Ok(name)) = (std::env::var(POOL), std::env::var(DOMAIN)) else { return };
    // It fails when the pipe is closed.
    let report = |part: &str, number: u64| {
        std::io::stdout().lock().write_all(format!("= {number} {part}\n").as_bytes()).is_ok()
    };
    if let Err(what) = serve(Path::new(&pool), domain(&name), THREADS, &report) {
        eprintln!("{what}");
        std::process::exit(1);
    }
}

fn killed(name: &str, folder: &Path, rounds: u64) {
    std::fs::create_dir(folder).unwrap();
    let pool = folder.join("pool");
    let (mut random, mut reported, mut last) = (Random::new(1), Reported::new(), 0);
    for round in 0..rounds {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "works_until_it_is_killed", "--nocapture", "--test-threads=1"])
            .env(POOL, &pool)
            .env(DOMAIN, name)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let output = BufReader::new(child.stdout.take().unwrap());
        let reader = std::thread::spawn(move || output.lines().map_while(Result::ok).collect());
        let most = if round == 1 { 20 } else { 300 };
        std::thread::sleep(Duration::from_millis(random.below(most) as u64));
        let ended = child.try_wait().unwrap();
        assert!(ended.is_none(), "round {round}: it has ended by itself: {ended:?}");
        child.kill().unwrap();
        child.wait().unwrap();
        let lines: Vec<String> = reader.join().unwrap();
        for line in lines.iter().filter_map(|line| line.split_once("= ")) {
            let (number, part) = line.1.split_once(' ').unwrap();
            reported.insert(part.to_owned(), number.parse().unwrap());
        }
        last = audit(&pool, domain(name), &mut reported).unwrap_or_else(|what| {
            panic!("round {round}: {what}; kept: {}", folder.display());
        });
    }
    println!("{rounds} rounds, {last} transactions and checkpoints");
    assert!(rounds < 5 || last > 100, "too little was done: {last}");
    std::fs::remove_dir_all(folder).unwrap();
}

fn rounds() -> u64 {
    std::env::var("TEMBO_KILL_ROUNDS").map_or(6, |rounds| rounds.parse().unwrap())
}

#[test]
fn a_heap_survives_a_process_of_several_threads_that_is_killed() {
    let shm = Path::new("/dev/shm");
    if !shm.is_dir() {
        println!("SKIPPED: there is no /dev/shm");
        return;
    }
    killed("flush", &shm.join(format!("tembo-heap-{}", std::process::id())), rounds());
}

#[test]
fn a_heap_on_a_disk_survives_it_too() {
    let folder = tempfile::tempdir().unwrap();
    killed("logged", &folder.path().join("heap"), rounds().div_ceil(2));
}

/// Bytes of the pool at first, and at most: it can be full until what a killed process has left is swept.
const SIZE: (u64, u64) = (1 << 20, 4 << 20);

fn options(domain: DomainRequest) -> PoolOptions {
    let mut options = PoolOptions { size: SIZE.0, ..PoolOptions::default() };
    (options.region.domain, options.region.size_max) = (domain, SIZE.1);
    options.region.log_size = 1 << 20;
    options
}

/// Changes the heap at `path`, which is made if there is none, by so many threads (8 at most), until the process is killed or `report` returns
/// false. `report` gets the last number that a part has made durable, also when the pool is full and it can make no other.
///
/// # Errors
/// What went wrong.
fn serve(
    path: &Path,
    domain: DomainRequest,
    threads: usize,
    report: &(dyn Fn(&str, u64) -> bool + Sync),
) -> Result<(), String> {
    let file = HeapFile::open_or_create(path, &options(domain)).map_err(text)?;
    work::serve(&file, threads, report).map_err(text)
}

/// Opens what is left and compares it with what was reported, and notes what is there; how many transactions and checkpoints it has seen.
///
/// # Errors
/// What is wrong.
fn audit(path: &Path, domain: DomainRequest, reported: &mut Reported) -> Result<u64, String> {
    let file = match HeapFile::open(path, &options(domain)) {
        Ok(file) => file,
        // The process was killed while it made the pool.
        Err(_) if reported.is_empty() && !path.exists() => return Ok(0),
        Err(error) => return Err(text(error)),
    };
    let Some(content) = file.enter(show)? else {
        expect(reported.is_empty(), "the root is gone")?;
        return Ok(0);
    };
    content.compare(reported)?;
    file.enter(|heap| {
        heap.sweep()?;
        while !heap.collect_cycles(16)? {}
        while !heap.compact(16)?.is_done {}
        heap.settle()
    })
    .map_err(text)?;
    expect(
        file.enter(show)?.as_ref() == Some(&content),
        "a sweep or a compaction has changed what is there",
    )?;
    let check = file.check().map_err(text)?;
    let account = check.account;
    expect(account.accounted_bytes() == account.total, "bytes that are not accounted for")?;
    let lost = (account.leaked, account.dangling);
    expect(lost == (0, 0), &format!("leaked or dangling objects: {account:?}"))?;
    let counts = &check.tenants[0].1.counts;
    let wanted = content.objects();
    expect(counts[0].1 == wanted, &format!("{} objects, and {wanted} were expected", counts[0].1))?;
    expect(counts[2].1 == 0, "counts are larger than the pointers")?;
    content.note(reported);
    Ok(content.total())
}
