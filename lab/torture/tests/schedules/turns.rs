//! Threads that take turns.

use std::sync::{Arc, Mutex};

use shuttle::scheduler::{PctScheduler, RandomScheduler, Scheduler};
use shuttle::sync::atomic::{AtomicBool, Ordering};
use shuttle::{Config, FailurePersistence, MaxSteps, Runner, current, thread};
use tembo_pmem::thread::set_yield;
use tembo_pmem::{Observer, Stored};
use tembo_sim::Recorder;
use tembo_torture::threads::{Execution, Plan, Run, Start};

/// Schedules of a plan in which each turn is given by chance, ...
const BY_CHANCE: usize = 8;
/// ... and in which few are taken away from the thread that goes first (PCT).
const FEW: usize = 8;
/// Turns that are taken away.
const DEPTH: usize = 3;

const STACK: usize = 1 << 20;
const STEPS_MAX: usize = 200_000;

/// Notifies the recorder, and gives turns away before each step.
struct Turns {
    recorder: Arc<Recorder>,
    turn: AtomicBool,
}

fn task() -> u64 {
    current::try_get_current_task().map_or(0, |task| usize::from(task) as u64)
}

/// A thread that waits gives its turn away.
fn yield_turn() -> bool {
    let scheduled = current::try_get_current_task().is_some();
    if scheduled {
        thread::yield_now();
    }
    scheduled
}

impl Turns {
    fn turn(&self) {
        // Shuttle's scheduler is asked before each use of its atomics.
        self.turn.load(Ordering::SeqCst);
    }
}

impl Observer for Turns {
    fn load(&self, offset: u64, len: u64) {
        self.turn();
        self.recorder.load(offset, len);
    }

    fn store(&self, stored: Stored<'_>, perform: &mut dyn FnMut()) {
        self.turn();
        self.recorder.store(stored, perform);
    }

    fn flush(&self, name: &'static str, offset: u64, len: u64) {
        self.turn();
        self.recorder.flush(name, offset, len);
    }

    fn fence(&self, name: &'static str) {
        self.turn();
        self.recorder.fence(name);
    }

    fn shares_threads(&self) -> bool {
        true
    }

    fn sync(&self) {
        self.recorder.sync();
    }

    fn resize(&self, size: u64) {
        self.recorder.resize(size);
    }
}

type Performed = Result<Execution, String>;

/// The plan under several schedules, the same for the same seed.
pub(crate) fn performances(plan: &Plan, seed: u64) -> Vec<Performed> {
    assert!(set_yield(yield_turn));
    let start = Start::of(plan).unwrap();
    let mut all = run(plan, &start, RandomScheduler::new_from_seed(seed, BY_CHANCE));
    all.extend(run(plan, &start, PctScheduler::new_from_seed(seed, DEPTH, FEW)));
    all
}

fn run(plan: &Plan, start: &Start, scheduler: impl Scheduler + 'static) -> Vec<Performed> {
    let mut config = Config::new();
    config.stack_size = STACK;
    // The seed says it all.
    config.failure_persistence = FailurePersistence::None;
    config.max_steps = MaxSteps::FailAfter(STEPS_MAX);
    let all = Arc::new(Mutex::new(Vec::new()));
    let (plan, start, out) = (plan.clone(), start.clone(), all.clone());
    Runner::new(scheduler, config).run(move || {
        let performed = perform(&plan, &start);
        out.lock().unwrap().push(performed);
    });
    std::mem::take(&mut *all.lock().unwrap())
}

fn perform(plan: &Plan, start: &Start) -> Performed {
    let recorder = Recorder::asking(task);
    let turns = Arc::new(Turns { recorder: recorder.clone(), turn: AtomicBool::new(false) });
    let run = Arc::new(Run::new(plan, start, turns, recorder)?);
    let threads: Vec<_> = (0..plan.threads.len())
        .map(|number| {
            let run = run.clone();
            thread::spawn(move || run.act(number))
        })
        .collect();
    threads.into_iter().for_each(|thread| thread.join().unwrap());
    let run = Arc::into_inner(run).ok_or("a thread that has not ended")?;
    run.end()
}
