//! The run: contenders alternate in each operation, round after round.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use super::candidate::{Candidate, NOTES, Shape};
use super::cell::IN_MEMORY;
use super::counts;
use super::driver::{DriverBuild, LARGE_PAGES, Purpose, RivalSources, has_rtm};
use super::figures::{COUNTED_KEYS, Found, OPERATIONS, Sheets};
use super::plan::{Plan, Source};
use super::process::{Process, Timed, is_one_word};
use super::report::{NotMeasured, RivalLatency, RivalTable, RivalsReport};
use crate::keys::Keys;
use crate::machine::Machine;
use crate::{Error, Operation, Watch, pair};

/// What to measure.
#[derive(Clone, Debug)]
pub struct RivalsConfig {
    /// Checkouts of rivals.
    pub sources: RivalSources,
    /// The contenders; twice is once.
    pub candidates: Vec<Candidate>,
    /// Keys of 8 bytes in each structure, a table each.
    pub keys: Vec<u64>,
    /// Keys of 16 to 32 bytes; 0: no such table.
    pub string_keys: u64,
    /// Rounds, each with structures of its own.
    pub rounds: u32,
    /// Two threads too.
    pub has_pairs: bool,
    /// Instructions too, where there is Valgrind.
    pub has_counts: bool,
    /// Folder for pools, files and keys, which are gone when the run ends. Its path has no space.
    pub folder: PathBuf,
    /// Folder for drivers, which stay.
    pub build: PathBuf,
    /// Where keys and orders come from.
    pub seed: u64,
    /// The binary that has [`rivals_index_cell`](super::rivals_index_cell), and the words before its arguments.
    pub cell: (PathBuf, Vec<String>),
}

impl RivalsConfig {
    fn shapes(&self) -> Vec<(Shape, u64)> {
        let numbers = self.keys.iter().map(|keys| (Shape::Numbers, *keys));
        let strings = (self.string_keys > 0).then_some((Shape::Strings, self.string_keys));
        numbers.chain(strings).collect()
    }

    /// Trials that [`rivals_index`] reports, at most.
    pub fn trials(&self) -> u64 {
        let pairs = if self.has_pairs { pair::OPERATIONS.len() } else { 0 };
        let one = (OPERATIONS.len() + 1 + pairs) as u64 * u64::from(self.rounds);
        let counted = u64::from(self.has_counts);
        self.shapes().len() as u64 * self.candidates.len() as u64 * (one + 1 + counted)
    }

    fn check(&self) -> Result<(), Error> {
        let (keys, rounds) = (self.keys.first().copied().unwrap_or_default(), self.rounds);
        let is_wrong = |(_, keys): &(Shape, u64)| *keys == 0 || *keys > 1 << 40;
        let shapes = self.shapes();
        if rounds == 0 || shapes.is_empty() || shapes.iter().any(is_wrong) {
            return Err(Error::NothingToDo { keys, rounds });
        }
        if !is_one_word(&self.folder) {
            return Err(Error::Absent("a folder without a space in its path"));
        }
        Ok(())
    }
}

/// Compiles the drivers of those rivals that can be had, and measures, until `watch` says that it is enough. What
/// cannot be had, or fails, is in the report with its reason.
///
/// # Errors
/// [`Error::NothingToDo`]; [`Error::Folder`]; [`Error::Wrong`] and [`Error::Process`] of our own contenders.
pub fn rivals_index(config: &RivalsConfig, watch: &mut Watch<'_>) -> Result<RivalsReport, Error> {
    config.check()?;
    let mut run = Run {
        config,
        watch,
        timed: BTreeMap::new(),
        counted: BTreeMap::new(),
        builds: Vec::new(),
        missing: Vec::new(),
        has_rtm: has_rtm(),
    };
    let machine = Machine::this();
    run.build()?;
    let mut tables = Vec::new();
    let mut is_stopped = false;
    for (shape, keys) in config.shapes() {
        match run.table(shape, keys) {
            Ok((table, stopped)) => {
                is_stopped = stopped;
                tables.extend(table);
            }
            Err(Error::Stopped) => is_stopped = true,
            Err(error) => return Err(error),
        }
        if is_stopped {
            break;
        }
    }
    let rivals = run.builds.iter().filter_map(|build| build.candidate.note(run.has_rtm));
    let notes = NOTES.into_iter().chain(rivals).collect();
    Ok(RivalsReport {
        machine,
        folder: config.folder.display().to_string(),
        rounds: config.rounds,
        seed: config.seed,
        notes,
        builds: run.builds,
        missing: run.missing,
        tables,
        stopped: is_stopped,
    })
}

struct Run<'r, 'w> {
    config: &'r RivalsConfig,
    watch: &'r mut Watch<'w>,
    /// Drivers to time.
    timed: BTreeMap<Candidate, PathBuf>,
    /// Drivers whose instructions are counted.
    counted: BTreeMap<Candidate, PathBuf>,
    builds: Vec<DriverBuild>,
    missing: Vec<NotMeasured>,
    has_rtm: bool,
}

impl Run<'_, '_> {
    fn build(&mut self) -> Result<(), Error> {
        let path = &self.config.build;
        let made = fs::create_dir_all(path).and_then(|()| fs::canonicalize(path));
        let folder = made.map_err(|source| Error::Folder { path: path.clone(), source })?;
        let has_counts = self.config.has_counts && counts::has_valgrind();
        for candidate in self.candidates() {
            if !candidate.is_rival() {
                continue;
            }
            self.begin("drivers", &format!("{} is compiled", candidate.title()))?;
            match self.config.sources.build(candidate, Purpose::Timed, &folder) {
                Ok(build) => {
                    self.timed.insert(candidate, build.program.clone());
                    self.builds.push(build);
                }
                Err(why) => {
                    self.miss(candidate, "", why);
                    continue;
                }
            }
            if has_counts {
                match self.config.sources.build(candidate, Purpose::Counted, &folder) {
                    Ok(build) => drop(self.counted.insert(candidate, build.program)),
                    Err(why) => self.miss(candidate, "instructions", why),
                }
            }
        }
        Ok(())
    }

    /// In the order of tables.
    fn candidates(&self) -> Vec<Candidate> {
        let chosen = &self.config.candidates;
        Candidate::ALL.into_iter().filter(|candidate| chosen.contains(candidate)).collect()
    }

    fn begin(&mut self, label: &str, what: &str) -> Result<(), Error> {
        if (self.watch)(label, what) { Ok(()) } else { Err(Error::Stopped) }
    }

    fn miss(&mut self, candidate: Candidate, what: &str, why: impl Into<String>) {
        let missing = NotMeasured { candidate, what: what.into(), why: why.into() };
        if !self.missing.contains(&missing) {
            self.missing.push(missing);
        }
    }

    /// One table; whether a signal asked for an end in it.
    fn table(&mut self, shape: Shape, keys: u64) -> Result<(Option<RivalTable>, bool), Error> {
        let has_driver =
            |candidate: &Candidate| !candidate.is_rival() || self.timed.contains_key(candidate);
        let mut all = self.candidates();
        all.retain(|candidate| candidate.takes(shape) && has_driver(candidate));
        // A contender that fails with two threads has its part with one.
        let mut in_pairs = if self.has_pairs(shape) { all.clone() } else { Vec::new() };
        let mut sheets = Sheets::default();
        let mut rounds = 0;
        for round in 1..=self.config.rounds {
            match self.round(shape, keys, round, [&mut all, &mut in_pairs]) {
                Ok(found) => {
                    sheets.add(found, keys);
                    rounds = round;
                }
                Err(Error::Stopped) => break,
                Err(error) => return Err(error),
            }
        }
        let is_stopped = rounds < self.config.rounds;
        if rounds == 0 {
            return Ok((None, is_stopped));
        }
        if shape == Shape::Numbers && !is_stopped {
            self.latencies(keys, &mut all, &mut sheets)?;
        }
        if self.config.has_counts && !is_stopped {
            self.counts(shape, keys, &all, &mut sheets)?;
        }
        in_pairs.retain(|candidate| all.contains(candidate));
        Ok((Some(sheets.table(shape, keys, all, &in_pairs)), is_stopped))
    }

    fn has_pairs(&self, shape: Shape) -> bool {
        self.config.has_pairs && shape == Shape::Numbers
    }

    /// What fails of a rival ends its part in the tables of `all`; what fails of ours ends the run. `what` was
    /// measured; empty: all of it.
    fn judge<T>(
        &mut self,
        candidate: Candidate,
        all: &mut Vec<Candidate>,
        what: &str,
        result: Result<T, Error>,
    ) -> Result<Option<T>, Error> {
        match result {
            Ok(done) => Ok(Some(done)),
            Err(Error::Stopped) => Err(Error::Stopped),
            Err(error) if candidate.is_rival() => {
                self.miss(candidate, what, error.reason());
                all.retain(|other| *other != candidate);
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }

    /// What a round finds; an error leaves nothing of the round but the list of what failed.
    fn round(
        &mut self,
        shape: Shape,
        keys: u64,
        round: u32,
        [all, in_pairs]: [&mut Vec<Candidate>; 2],
    ) -> Result<Found, Error> {
        let folder = self.folder()?;
        let of_keys = Keys { count: keys, seed: self.config.seed.wrapping_add(round.into()) };
        let source = Source::new(of_keys, shape, folder.path());
        let mut found = Found::default();
        let mut alive = BTreeMap::new();
        for candidate in all.clone() {
            let started = self.start(candidate, &source, folder.path());
            if let Some(process) = self.judge(candidate, all, "", started)? {
                alive.insert(candidate, process);
            }
        }
        for operation in OPERATIONS {
            let plan = source.plan(operation, round)?;
            for candidate in rotated(all, round) {
                if !candidate.offers(operation) {
                    continue;
                }
                self.begin_trial(&source, round, operation, candidate)?;
                let Some(process) = alive.get_mut(&candidate) else { continue };
                let timed = process.trial(operation, &plan);
                let timed =
                    timed.and_then(|timed| timed.judged(candidate, operation, plan.expected));
                if operation == Operation::Insert
                    && let Ok(bytes) = process.space()
                {
                    found.spaces.push((candidate, bytes, process.large_pages()));
                }
                let timed = match (timed, operation) {
                    (Ok(timed), Operation::Scan) => {
                        scanned(candidate, process, &source, &plan, round).map(|()| timed)
                    }
                    (timed, _) => timed,
                };
                if let Some(timed) = self.judge(candidate, all, "", timed)? {
                    found.timed.push((candidate, operation, timed));
                }
            }
        }
        self.after_removal(&source, round, all, &mut alive)?;
        drop(alive);
        found.timed.extend(self.sequential(&source, round, all)?);
        in_pairs.retain(|candidate| all.contains(candidate));
        self.pairs(&source, round, in_pairs, &mut found)?;
        Ok(found)
    }

    /// Not measured: nothing that was removed is there any more.
    fn after_removal(
        &mut self,
        source: &Source<'_>,
        round: u32,
        all: &mut Vec<Candidate>,
        alive: &mut BTreeMap<Candidate, Process>,
    ) -> Result<(), Error> {
        let removed = source.plan(Operation::Remove, round)?;
        for candidate in all.clone() {
            if !candidate.offers(Operation::MissingLookup) {
                continue;
            }
            let Some(process) = alive.get_mut(&candidate) else { continue };
            let timed = process.trial(Operation::MissingLookup, &removed);
            let right = timed
                .and_then(|timed| timed.judged(candidate, Operation::Remove, removed.expected));
            self.judge(candidate, all, "", right)?;
        }
        Ok(())
    }

    /// Ascending keys into empty structures, one after the other; then, not measured, all of them are looked up.
    fn sequential(
        &mut self,
        source: &Source<'_>,
        round: u32,
        all: &mut Vec<Candidate>,
    ) -> Result<Vec<(Candidate, Operation, Timed)>, Error> {
        let operation = Operation::SequentialInsert;
        let plan = source.plan(operation, round)?;
        let mut next = Vec::new();
        for candidate in rotated(all, round) {
            self.begin_trial(source, round, operation, candidate)?;
            let folder = self.folder()?;
            let timed = self.start(candidate, source, folder.path()).and_then(|mut process| {
                let timed = process.trial(operation, &plan)?;
                let timed = timed.judged(candidate, operation, plan.expected)?;
                if candidate.offers(Operation::Lookup) {
                    let found = process.trial(Operation::Lookup, &plan)?;
                    found.judged(candidate, operation, plan.count)?;
                }
                Ok(timed)
            });
            if let Some(timed) = self.judge(candidate, all, "", timed)? {
                next.push((candidate, operation, timed));
            }
        }
        Ok(next)
    }

    /// Two threads on one structure, and two processes with a structure each.
    fn pairs(
        &mut self,
        source: &Source<'_>,
        round: u32,
        in_pairs: &mut Vec<Candidate>,
        found: &mut Found,
    ) -> Result<(), Error> {
        for candidate in rotated(in_pairs, round) {
            if let Some(why) = candidate.one_thread(self.has_rtm) {
                self.miss(candidate, "two threads", why);
                in_pairs.retain(|other| *other != candidate);
                continue;
            }
            let pairs = self.pair(source, round, candidate);
            let pairs = self.judge(candidate, in_pairs, "two threads", pairs)?;
            found.pairs.extend(pairs.into_iter().flatten());
        }
        Ok(())
    }

    /// Millions a second on the wall, together and apart, by the same loop. Another one is first in each round.
    fn pair(
        &mut self,
        source: &Source<'_>,
        round: u32,
        candidate: Candidate,
    ) -> Result<Vec<(Candidate, Operation, [f64; 2])>, Error> {
        let folders = [self.folder()?, self.folder()?, self.folder()?];
        let start = |at: usize| self.start(candidate, source, folders[at].path());
        let (mut both, mut one, mut other) = (start(0)?, start(1)?, start(2)?);
        let mut figures = Vec::new();
        for operation in pair::OPERATIONS {
            if !candidate.offers(operation) {
                continue;
            }
            self.begin_trial(source, round, operation, candidate)?;
            let plans = source.pair(operation, round)?;
            let (count, expected) =
                (plans[0].count + plans[1].count, plans[0].expected + plans[1].expected);
            // Values are changed by the last operation only: here a rival has to find those of the insertion, and ours the
            // keys.
            let mut together = || -> Result<Duration, Error> {
                let timed = both.pair(operation, &plans)?;
                Ok(timed.judged(candidate, operation, expected)?.elapsed.wall)
            };
            let mut apart = || {
                let mut processes = [(&mut one, &plans[0]), (&mut other, &plans[1])];
                if round.is_multiple_of(2) {
                    processes.reverse();
                }
                at_once(candidate, operation, processes)
            };
            let times = if round.is_multiple_of(2) {
                let apart = apart()?;
                [together()?, apart]
            } else {
                [together()?, apart()?]
            };
            let rate = |time: Duration| count as f64 / time.as_secs_f64().max(1e-9) / 1e6;
            figures.push((candidate, operation, times.map(rate)));
        }
        Ok(figures)
    }

    /// One more insertion into an empty structure, in which a clock is read after each key.
    fn latencies(
        &mut self,
        keys: u64,
        all: &mut Vec<Candidate>,
        sheets: &mut Sheets,
    ) -> Result<(), Error> {
        let folder = self.folder()?;
        let of_keys = Keys { count: keys, seed: self.config.seed };
        let source = Source::new(of_keys, Shape::Numbers, folder.path());
        let plan = source.plan(Operation::Insert, 1)?;
        for candidate in all.clone() {
            self.begin("single insertions", candidate.title())?;
            let started = self.start(candidate, &source, folder.path());
            let latencies = started.and_then(|mut process| process.latencies(&plan));
            if let Some([median_ns, p999_ns, max_ns]) = self.judge(candidate, all, "", latencies)? {
                sheets.latencies.push(RivalLatency { candidate, median_ns, p999_ns, max_ns });
            }
        }
        Ok(())
    }

    fn counts(
        &mut self,
        shape: Shape,
        keys: u64,
        all: &[Candidate],
        sheets: &mut Sheets,
    ) -> Result<(), Error> {
        if !counts::has_valgrind() {
            all.iter().for_each(|candidate| self.miss(*candidate, "instructions", "no valgrind"));
            return Ok(());
        }
        let of_keys = Keys { count: keys.min(COUNTED_KEYS), seed: self.config.seed };
        for &candidate in all {
            // A loop around one store is not worth a count.
            if candidate == Candidate::Wall {
                continue;
            }
            self.begin("instructions", candidate.title())?;
            let folder = self.folder()?;
            let source = Source::new(of_keys, shape, folder.path());
            let Some(command) = self.command(candidate, &source, folder.path(), Purpose::Counted)
            else {
                continue;
            };
            match counts::counted(candidate, &command, &source, &OPERATIONS, folder.path()) {
                Ok(counts) => {
                    let counts = counts.into_iter();
                    sheets
                        .counts
                        .extend(counts.map(|(operation, count)| (candidate, operation, count)));
                }
                Err(error @ Error::Wrong { .. }) if !candidate.is_rival() => return Err(error),
                Err(error) => self.miss(candidate, "instructions", error.reason()),
            }
        }
        Ok(())
    }

    fn begin_trial(
        &mut self,
        source: &Source<'_>,
        round: u32,
        operation: Operation,
        candidate: Candidate,
    ) -> Result<(), Error> {
        let label = format!("round {round}: {} keys, {}", source.keys(), source.shape().word());
        self.begin(&label, &format!("{}, {}", operation.name(), candidate.title()))
    }

    fn start(
        &self,
        candidate: Candidate,
        source: &Source<'_>,
        folder: &Path,
    ) -> Result<Process, Error> {
        let command = self.command(candidate, source, folder, Purpose::Timed);
        let command = command.ok_or(Error::Absent("a driver"))?;
        Process::start(candidate.name(), command)
    }

    fn command(
        &self,
        candidate: Candidate,
        source: &Source<'_>,
        folder: &Path,
        purpose: Purpose,
    ) -> Option<Command> {
        let (word, keys) = (source.shape().word(), source.keys().to_string());
        if candidate.is_rival() {
            let all = if purpose == Purpose::Timed { &self.timed } else { &self.counted };
            let mut command = Command::new(all.get(&candidate)?);
            let (variable, value) = LARGE_PAGES;
            command.env(variable, value);
            command.arg(word).arg(folder.join(format!("pool-{}", candidate.name()))).arg(keys);
            return Some(command);
        }
        let (program, words) = &self.config.cell;
        let mut command = Command::new(program);
        let own = folder.join(candidate.name());
        // It may be there; what else is wrong with it the process will meet.
        let _ = fs::create_dir(&own);
        command.args(words).arg(candidate.name()).arg(word).arg(own).arg(keys);
        if purpose == Purpose::Counted {
            command.arg(IN_MEMORY);
        }
        Some(command)
    }

    fn folder(&self) -> Result<tempfile::TempDir, Error> {
        let path = &self.config.folder;
        let made = tempfile::Builder::new().prefix("tembo-bench-").tempdir_in(path);
        made.map_err(|source| Error::Folder { path: path.clone(), source })
    }
}

/// Another one first in each round.
fn rotated(all: &[Candidate], round: u32) -> Vec<Candidate> {
    let mut rotated = all.to_vec();
    let count = rotated.len().max(1);
    rotated.rotate_left(round as usize % count);
    rotated
}

/// Two processes with a plan each, which both have read before either begins: the longer time on the wall.
fn at_once(
    candidate: Candidate,
    operation: Operation,
    mut processes: [(&mut Process, &Plan); 2],
) -> Result<Duration, Error> {
    for (process, plan) in &mut processes {
        process.ready(operation, plan)?;
    }
    for (process, _) in &mut processes {
        process.go()?;
    }
    let mut longest = Duration::ZERO;
    for (process, plan) in processes {
        let timed = process.end(plan.count)?.judged(candidate, operation, plan.expected)?;
        longest = longest.max(timed.elapsed.wall);
    }
    Ok(longest)
}

/// Not measured: scans visit the right keys. Of our own contenders, those of strings can say so.
fn scanned(
    candidate: Candidate,
    process: &mut Process,
    source: &Source<'_>,
    plan: &Plan,
    round: u32,
) -> Result<(), Error> {
    if !candidate.is_rival() && source.shape() == Shape::Numbers {
        return Ok(());
    }
    let (expected, found) = (source.scan_sum(round), process.scan_sum(plan)?);
    if found == expected {
        return Ok(());
    }
    let contender = candidate.name();
    Err(Error::Wrong { contender, operation: "sum of a scan's keys", expected, found })
}
