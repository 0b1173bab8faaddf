//! Histories by chance: threads that run transactions on few keys, so that they meet.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{scope, yield_now};

use tembo_sim::Random;

use super::call::{Call, Calls, End, Operation};
use super::database::{Database, Failure, Isolation, Key, Registers, Transact, Value};
use super::record::{Clock, History, Recorded, Recorder};

/// Keys that half of all operations go to.
const HOT: Key = 16;

/// Operations of one transaction, at most.
const LONGEST: usize = 12;

/// Widest range, in keys.
const WIDEST: usize = 24;

/// Gets the number of operations so far.
pub type Progress<'p> = dyn Fn(u64) + Sync + 'p;

/// The plan of a history.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    /// The isolation of the transactions.
    pub isolation: Isolation,
    /// How many operations; the transactions that are under way then still end.
    pub operations: u64,
    /// How many threads, at most 64.
    pub threads: u16,
    /// How many keys.
    pub keys: Key,
    /// The seed. It repeats what each thread tries to do, not how the threads run.
    pub seed: u64,
}

/// The state that the threads of a plan share.
struct Shared<'s, D> {
    plan: &'s Plan,
    database: &'s D,
    clock: &'s Clock,
    done: AtomicU64,
    /// A thread has met the end of the store, or something that never happens.
    stop: AtomicBool,
    progress: &'s Progress<'s>,
}

impl Plan {
    /// Runs it with transactions. A store that crashes meanwhile ends it.
    ///
    /// # Errors
    /// What never happens did.
    pub fn run(
        &self,
        database: &impl Database,
        progress: &Progress<'_>,
    ) -> Result<History, String> {
        self.run_by(&Clock::default(), database, progress)
    }

    /// The same, by the caller's clock.
    ///
    /// # Errors
    /// What never happens did.
    pub fn run_by(
        &self,
        clock: &Clock,
        database: &impl Database,
        progress: &Progress<'_>,
    ) -> Result<History, String> {
        let histories = self.spawn((clock, database, progress), |shared, thread| {
            let mut recorder = Recorder::new(shared.clock, thread);
            let mut chance = Chance::new(self, thread);
            let ended = shared.repeat(|| transaction(shared, &mut recorder, &mut chance));
            recorder.forget_unended();
            ended.map(|()| recorder.finish())
        })?;
        Ok(History::of(histories))
    }

    /// Runs it with single operations. Where the database crashes and is there again, it goes on.
    ///
    /// # Errors
    /// What never happens did.
    pub fn run_calls(
        &self,
        database: &impl Registers,
        progress: &Progress<'_>,
    ) -> Result<Calls, String> {
        let clock = Clock::default();
        let calls = self.spawn((&clock, database, progress), |shared, thread| {
            let (mut calls, mut chance) = (Vec::new(), Chance::new(self, thread));
            shared.repeat(|| {
                calls.extend(single(shared, thread, &mut chance)?);
                Ok(1)
            })?;
            Ok(calls)
        })?;
        Ok(calls.into_iter().flatten().collect())
    }

    fn spawn<D: Sync, T: Send>(
        &self,
        (clock, database, progress): (&Clock, &D, &Progress<'_>),
        body: impl Fn(&Shared<'_, D>, u16) -> Result<T, String> + Sync,
    ) -> Result<Vec<T>, String> {
        let shared = Shared {
            plan: self,
            database,
            clock,
            done: AtomicU64::new(0),
            stop: AtomicBool::new(false),
            progress,
        };
        let (shared, body) = (&shared, &body);
        scope(|threads| {
            let spawned: Vec<_> = (0..self.threads)
                .map(|thread| threads.spawn(move || body(shared, thread)))
                .collect();
            let joined = spawned.into_iter().map(|thread| match thread.join() {
                Ok(ended) => ended,
                Err(_) => Err("a thread has panicked".to_owned()),
            });
            joined.collect()
        })
    }
}

impl<D> Shared<'_, D> {
    /// Until there have been enough operations; `body` says how many there were.
    fn repeat(&self, mut body: impl FnMut() -> Result<u64, Failure>) -> Result<(), String> {
        while !self.stop.load(Ordering::Relaxed) {
            match body() {
                Ok(count) => {
                    let done = self.done.fetch_add(count, Ordering::Relaxed) + count;
                    (self.progress)(done);
                    if done >= self.plan.operations {
                        return Ok(());
                    }
                }
                Err(failure) => {
                    self.stop.store(true, Ordering::Relaxed);
                    return match failure {
                        Failure::Crashed => Ok(()),
                        Failure::Conflict { key, version } => {
                            Err(format!("a conflict over {key} in {version} before the commit"))
                        }
                        Failure::Broken(what) => Err(what),
                    };
                }
            }
        }
        Ok(())
    }
}

/// What one thread draws.
struct Chance {
    random: Random,
    keys: Key,
    /// The thread's own values.
    value: Value,
}

impl Chance {
    fn new(plan: &Plan, thread: u16) -> Chance {
        let thread = u64::from(thread);
        let seed = Random::new(plan.seed ^ (thread << 48)).number();
        Chance { random: Random::new(seed), keys: plan.keys.max(1), value: (thread + 1) << 40 }
    }

    /// Returns true one time in `of`.
    fn once_in(&mut self, of: usize) -> bool {
        self.random.below(of) == 0
    }

    fn key(&mut self) -> Key {
        let among = if self.once_in(2) { HOT.min(self.keys) } else { self.keys };
        self.random.below(among as usize) as Key
    }

    /// A value that was never written before.
    fn value(&mut self) -> Value {
        self.value += 1;
        self.value
    }

    /// Lets others run, now and then, also where there are fewer processors than threads.
    fn breathe(&mut self) {
        if self.once_in(4) {
            yield_now();
        }
    }
}

/// Runs one transaction; how many operations it had.
fn transaction<D: Database>(
    shared: &Shared<'_, D>,
    recorder: &mut Recorder<'_>,
    chance: &mut Chance,
) -> Result<u64, Failure> {
    let mut transaction = recorder.begin(|| shared.database.begin(shared.plan.isolation))?;
    let only_reads = chance.once_in(4);
    let length = 1 + chance.random.below(LONGEST);
    let mut savepoints = 0;
    for _ in 0..length {
        chance.breathe();
        match chance.random.below(if only_reads { 5 } else { 12 }) {
            0 if shared.database.has_ranges() => range(&mut transaction, chance)?,
            0..5 => {
                transaction.get(chance.key())?;
            }
            5..8 => transaction.put(chance.key(), chance.value())?,
            8 | 9 => {
                // What is read and then written is where updates get lost.
                let key = chance.key();
                transaction.get(key)?;
                transaction.put(key, chance.value())?;
            }
            10 => transaction.remove(chance.key())?,
            _ if savepoints > 0 && chance.once_in(2) => {
                let savepoint = chance.random.below(savepoints);
                transaction.roll_back(savepoint)?;
                savepoints = savepoint + 1;
            }
            _ => savepoints = transaction.savepoint() + 1,
        }
    }
    chance.breathe();
    if chance.once_in(20) {
        transaction.abandon();
    } else {
        transaction.commit()?;
    }
    Ok(length as u64)
}

fn range<T: Transact>(
    transaction: &mut Recorded<'_, '_, T>,
    chance: &mut Chance,
) -> Result<(), Failure> {
    let from = chance.key();
    let to = from.saturating_add(chance.random.below(WIDEST) as Key).min(chance.keys - 1);
    let limit = if chance.once_in(3) { 1 + chance.random.below(4) } else { usize::MAX };
    transaction.range(from, to, chance.once_in(2), limit).map(drop)
}

/// Runs one operation on one key; none if it was a read without an answer.
fn single<D: Registers>(
    shared: &Shared<'_, D>,
    thread: u16,
    chance: &mut Chance,
) -> Result<Option<Call>, Failure> {
    let (key, value) = (chance.key(), chance.value());
    let which = chance.random.below(8);
    chance.breathe();
    let called = shared.clock.tick();
    let database = shared.database;
    let result = match which {
        0..4 => database.get(key).map(|found| Operation::Get { found }),
        4..7 => {
            let put = |existed| Operation::Put { value, existed: Some(existed) };
            database.put(key, value).map(put)
        }
        _ => database.remove(key).map(|existed| Operation::Remove { existed }),
    };
    let time = shared.clock.tick();
    let call = |operation, end| Call { key, thread, operation, called, end };
    match result {
        Ok(operation) => Ok(Some(call(operation, End::Returned(time)))),
        Err(Failure::Crashed) if database.is_there_again() => {
            let lost = match which {
                0..4 => return Ok(None),
                4..7 => Operation::Put { value, existed: None },
                _ => Operation::Remove { existed: false },
            };
            Ok(Some(call(lost, End::Lost(time))))
        }
        Err(failure) => Err(failure),
    }
}
