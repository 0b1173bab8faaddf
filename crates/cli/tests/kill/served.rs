//! The answers of a server to clients on connections of their own, judged by linearisability.

use std::net::Ipv4Addr;
use std::path::Path;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use std::thread::{scope, sleep};
use std::time::{Duration, Instant};

use tembo_torture::history::{
    Broken, Calls, End, History, Isolation, Plan, Served, check_registers,
};

use crate::server::Setup;

const PLAN: Plan =
    Plan { isolation: Isolation::Snapshot, operations: 20_000, threads: 8, keys: 32, seed: 1 };

/// How long a killed server may be gone.
const ABSENCE: Duration = Duration::from_secs(60);
const PAUSE: Duration = Duration::from_micros(100);

fn judge(calls: &Calls) {
    let judged = check_registers(calls);
    judged.unwrap_or_else(|broken| panic!("{}", broken.report(&History::default())));
}

fn setup(folder: &Path, words: &[&str]) -> Setup {
    let sizes = ["--size", "1M", "--log-size", "2M"];
    Setup::new(&folder.join("a.pool"), &[&sizes, words].concat())
}

#[test]
fn the_answers_of_a_server_are_linearisable() {
    for words in [&["--domain", "volatile"][..], &["--sync", "os", "--index", "cdds"]] {
        let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
        let server = setup(folder.path(), words).start();
        let served = Served::new(server.address, Duration::ZERO);
        let calls = PLAN.run_calls(&served, &|_| {}).unwrap();
        assert!(calls.len() >= PLAN.operations as usize);
        judge(&calls);
        assert!(server.stop().success());
    }
}

/// An address of this machine that no other test listens at: while a server is down, no other process takes its
/// port.
fn own_address() -> String {
    static COUNT: AtomicU8 = AtomicU8::new(1);
    let [_, high, middle, low] = std::process::id().to_be_bytes();
    let count = COUNT.fetch_add(1, Ordering::Relaxed);
    Ipv4Addr::new(127, count << 6 | high & 63, middle, low.max(1)).to_string()
}

/// Kills the server so many times while clients call, and calls `meanwhile` before each start.
fn run_and_kill(mut setup: Setup, kills: u64, meanwhile: impl Fn(&Setup)) -> Calls {
    setup.words.extend(["--bind".to_owned(), own_address()]);
    let first = setup.start();
    setup.port = first.address.port();
    let served = Served::new(first.address, ABSENCE);
    let (done, killed) = (AtomicU64::new(0), AtomicU64::new(0));
    let advance = |count| {
        done.fetch_max(count, Ordering::Relaxed);
        // Half way to the kill after it, a kill that is late is waited for.
        let is_early = || {
            let killed = killed.load(Ordering::Relaxed);
            killed < kills && count > PLAN.operations * (2 * killed + 3) / (2 * (kills + 1))
        };
        let began = Instant::now();
        while is_early() && began.elapsed() < ABSENCE {
            sleep(PAUSE);
        }
    };
    let (calls, last) = scope(|threads| {
        let mut server = first;
        let running = threads.spawn(|| PLAN.run_calls(&served, &advance));
        for kill in 1..=kills {
            while done.load(Ordering::Relaxed) < PLAN.operations * kill / (kills + 1) {
                assert!(!running.is_finished(), "it has ended before kill {kill}");
                sleep(PAUSE);
            }
            server.kill();
            killed.store(kill, Ordering::Relaxed);
            meanwhile(&setup);
            server = setup.start();
        }
        (running.join().unwrap().unwrap(), server)
    });
    assert!(last.stop().success());
    calls
}

/// What the system has survives the process: that is enough here, and lets more be done in the time.
#[test]
fn answered_calls_survive_and_unanswered_ones_are_settled() {
    for words in [&["--sync", "os"][..], &["--sync", "os", "--index", "cdds"]] {
        let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
        let calls = run_and_kill(setup(folder.path(), words), 5, |_| ());
        let lost = calls.iter().filter(|call| matches!(call.end, End::Lost(_))).count();
        assert!(lost > 0, "no kill met a write");
        assert!(calls.len() > PLAN.operations as usize * 9 / 10, "{}", calls.len());
        judge(&calls);
    }
}

#[test]
fn a_server_that_goes_back_to_an_earlier_state_is_found_out() {
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let calls = run_and_kill(setup(folder.path(), &["--sync", "os"]), 1, |setup| {
        std::fs::remove_file(&setup.pool).unwrap();
        std::fs::remove_file(setup.pool.with_extension("pool.log")).unwrap();
    });
    assert!(matches!(check_registers(&calls), Err(Broken::NotLinearisable { .. })));
}
