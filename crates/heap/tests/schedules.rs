//! Threads on the counts and the ownership records of a heap, under schedules chosen by `shuttle`; what they return is what some order of
//! their calls, one after another, returns.
//!
//! The sources of both are built here with shuttle's locks and atomics, so that a thread can lose its turn before each use of one.
//! Shuttle knows sequential consistency only: what weaker orders allow is not seen here.
//!
//! `TEMBO_SCHEDULES` is a factor for the number of programs, `TEMBO_SCHEDULE_SEED` where chance begins; a failure prints the seed.
#![allow(clippy::unwrap_used, clippy::panic, clippy::print_stdout, dead_code)]

#[path = "../src/handles.rs"]
mod handles;
#[path = "schedules/model.rs"]
mod model;
#[path = "../src/ownership.rs"]
mod ownership;

mod sync {
    pub(crate) use shuttle::sync::{Mutex, atomic};

    pub(crate) const PLACES: usize = 1 << 12;

    pub(crate) fn lock<T>(mutex: &Mutex<T>) -> shuttle::sync::MutexGuard<'_, T> {
        mutex.lock().unwrap()
    }
}

use std::collections::HashSet;
use std::sync::Arc;

use shuttle::scheduler::{PctScheduler, RandomScheduler, Scheduler};
use shuttle::{Config, FailurePersistence, Runner, thread};

use handles::Handles;
use model::{Answer, Call, Program, is_explained};
use ownership::Ownership;
use sync::atomic::{AtomicU64, Ordering, fence};

/// Schedules of a program in which each turn is given by chance, and in which few are taken away (PCT).
const BY_CHANCE: usize = 20;
const FEW: usize = 20;
const DEPTH: usize = 3;

fn number(name: &str, default: u64) -> u64 {
    std::env::var(name).map_or(default, |text| text.parse().unwrap())
}

fn run(scheduler: impl Scheduler + 'static, body: impl Fn() + Send + Sync + 'static) {
    let mut config = Config::new();
    config.failure_persistence = FailurePersistence::None;
    Runner::new(scheduler, config).run(body);
}

/// Under several schedules, the same for the same seed.
fn under_schedules(seed: u64, body: impl Fn() + Send + Sync + 'static) {
    let body = Arc::new(body);
    let again = body.clone();
    run(RandomScheduler::new_from_seed(seed, BY_CHANCE), move || body());
    run(PctScheduler::new_from_seed(seed, DEPTH, FEW), move || again());
}

fn call(handles: &Handles, objects: [u64; 2], call: Call) -> Answer {
    let bits = |object: usize| objects[object];
    match call {
        Call::Acquire(object) => Answer::Is(handles.acquire(bits(object))),
        Call::Release(object) => match handles.release(bits(object)) {
            handles::Released::Nothing => Answer::Nothing,
            handles::Released::Orphan => Answer::Orphan,
            handles::Released::Void => Answer::Void,
        },
        Call::Doom(object) => Answer::Is(handles.doom(bits(object))),
        Call::EndDoom(object, is_made) => {
            handles.end_doom(bits(object), is_made);
            Answer::Nothing
        }
        Call::SetSlot(object, slot) => Answer::Is(handles.set_slot(bits(object), slot)),
        Call::IsHeld(object) => Answer::Is(handles.is_held(bits(object))),
    }
}

/// Two objects of one place.
fn neighbours() -> [u64; 2] {
    let place = |bits: u64| bits.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 52;
    let first = 3 << 40 | 1000;
    let second = (first + 1..).find(|bits| place(*bits) == place(first)).unwrap();
    [first, second]
}

/// A thread does its calls; it releases only what it has acquired, and ends a doom only if there is one.
fn perform(handles: &Handles, objects: [u64; 2], calls: &[Call]) -> Vec<(Call, Answer)> {
    let (mut has, mut is_doomed) = ([0; 2], [false; 2]);
    let mut done = Vec::new();
    for &each in calls {
        match each {
            Call::Release(object) if has[object] == 0 => continue,
            Call::EndDoom(object, _) if !is_doomed[object] => continue,
            _ => {}
        }
        let answer = call(handles, objects, each);
        match each {
            Call::Acquire(object) => has[object] += u64::from(answer == Answer::Is(true)),
            Call::Release(object) => has[object] -= 1,
            Call::Doom(object) => is_doomed[object] = answer == Answer::Is(true),
            Call::EndDoom(object, _) => is_doomed[object] = false,
            Call::SetSlot(..) | Call::IsHeld(_) => {}
        }
        done.push((each, answer));
    }
    done
}

fn counts() {
    let first = number("TEMBO_SCHEDULE_SEED", 1);
    let all = Arc::new(std::sync::Mutex::new((HashSet::new(), 0_u64)));
    for seed in first..first + 60 * number("TEMBO_SCHEDULES", 1) {
        let program = Program::random(seed);
        let found = all.clone();
        under_schedules(seed, move || {
            let (handles, objects) = (Arc::new(Handles::new()), neighbours());
            let threads: Vec<_> = program
                .threads
                .iter()
                .map(|calls| {
                    let (handles, calls) = (handles.clone(), calls.clone());
                    thread::spawn(move || perform(&handles, objects, &calls))
                })
                .collect();
            let mut history: Vec<_> =
                threads.into_iter().map(|thread| thread.join().unwrap()).collect();
            // What is there at the end, behind all of them.
            let held = [Call::IsHeld(0), Call::IsHeld(1)];
            let end = held.map(|held| (held, call(&handles, objects, held))).to_vec();
            assert!(is_explained(&history, &end), "seed {seed}: {history:?}, at the end {end:?}");
            history.push(end);
            let mut found = found.lock().unwrap();
            found.0.insert(format!("{history:?}"));
            found.1 += 1;
        });
    }
    let (histories, schedules) = &*all.lock().unwrap();
    println!("counts: {schedules} schedules, {} histories", histories.len());
    assert!(histories.len() > 150 && *schedules > 2000);
}

/// Two words that are changed together, as a transaction of the layer C-TX changes objects: see isolation.rs and commit.rs.
struct Pair {
    ownership: Ownership,
    words: [AtomicU64; 2],
    /// Commits come one after another.
    ledger: sync::Mutex<()>,
}

/// The records of the two words.
const RECORDS: [usize; 2] = [7, 9];

impl Pair {
    /// Reads a word in the state of `start`, or finds that it cannot; the version that was read.
    fn read(&self, at: usize, start: u64, is_checked: bool) -> Option<(u64, u64)> {
        let version = self.ownership.version(RECORDS[at]).filter(|version| *version <= start)?;
        let word = self.words[at].load(Ordering::Acquire);
        (!is_checked || self.ownership.is_still(RECORDS[at], version)).then_some((word, version))
    }

    /// Both words, of one state; `None`: a conflict.
    fn look(&self, is_checked: bool) -> Option<[u64; 2]> {
        let start = self.ownership.now();
        let one = self.read(0, start, is_checked)?;
        let two = self.read(1, start, is_checked)?;
        Some([one.0, two.0])
    }

    /// Adds to both; whether it has.
    fn add(&self) -> bool {
        let start = self.ownership.now();
        let mut owned = Vec::new();
        for &record in &RECORDS {
            let version = self.ownership.version(record).filter(|version| *version <= start);
            if !version.is_some_and(|version| self.ownership.take(record, version)) {
                owned.into_iter().for_each(|record| self.ownership.give_back(record));
                return false;
            }
            owned.push(record);
        }
        let before = [0, 1].map(|at: usize| self.words[at].load(Ordering::Acquire));
        let _ledger = sync::lock(&self.ledger);
        self.ownership.next();
        fence(Ordering::Release);
        (0..2).for_each(|at| self.words[at].store(before[at] + 1, Ordering::Release));
        let version = self.ownership.next();
        owned.into_iter().for_each(|record| self.ownership.give(record, version));
        true
    }
}

/// Whether a reader has seen two states at a time, in some schedule of many.
fn sees_two_states(is_checked: bool) -> bool {
    let seen = Arc::new(std::sync::Mutex::new((false, 0, 0)));
    for seed in 0..20 * number("TEMBO_SCHEDULES", 1) {
        let found = seen.clone();
        under_schedules(seed, move || {
            let words = [AtomicU64::new(0), AtomicU64::new(0)];
            let pair = Pair { ownership: Ownership::new(), words, ledger: sync::Mutex::default() };
            let pair = Arc::new(pair);
            let writers: Vec<_> = (0..2)
                .map(|_| {
                    let pair = pair.clone();
                    thread::spawn(move || (0..2).filter(|_| pair.add()).count() as u64)
                })
                .collect();
            let reader = pair.clone();
            let reader = thread::spawn(move || {
                (0..3).filter_map(|_| reader.look(is_checked)).collect::<Vec<_>>()
            });
            let made: u64 = writers.into_iter().map(|writer| writer.join().unwrap()).sum();
            let looks = reader.join().unwrap();
            assert_eq!(pair.look(true), Some([made, made]), "seed {seed}: an addition is lost");
            let mut found = found.lock().unwrap();
            found.0 |= looks.iter().any(|[one, two]| one != two);
            found.1 += made;
            found.2 += looks.len();
        });
    }
    let (has_seen, made, looks) = *seen.lock().unwrap();
    println!("records: {made} additions, {looks} looks, two states at a time: {has_seen}");
    assert!(made > 500 && looks > 500);
    has_seen
}

fn main() {
    counts();
    assert!(!sees_two_states(true));
    assert!(sees_two_states(false), "a reader that does not look again is caught");
}
