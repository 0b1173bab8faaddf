//! The run: contenders alternate in each operation, round after round.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::candidate::{Candidate, Shape};
use super::cell::IN_MEMORY;
use super::counts;
use super::driver::{DriverBuild, Purpose, RivalSources, has_rtm};
use super::plan::Source;
use super::process::{Process, Timed, is_one_word};
use super::report::{
    NotMeasured, RivalCell, RivalLatency, RivalPair, RivalRatio, RivalSpace, RivalTable,
    RivalsReport,
};
use crate::keys::Keys;
use crate::machine::Machine;
use crate::sheet::Sheet;
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

/// On one structure, in this order.
const OPERATIONS: [Operation; 7] = [
    Operation::Insert,
    Operation::Lookup,
    Operation::MissingLookup,
    Operation::Update,
    Operation::Scan,
    Operation::ZipfLookup,
    Operation::Remove,
];

/// Keys with which instructions are counted, at most.
const COUNTED_KEYS: u64 = 100_000;

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
    Ok(RivalsReport {
        machine,
        folder: config.folder.display().to_string(),
        rounds: config.rounds,
        seed: config.seed,
        notes: rivals.collect(),
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

/// What a table is made of, round by round.
#[derive(Default)]
struct Sheets {
    cpu: Sheet,
    wall: Sheet,
    together: Sheet,
    apart: Sheet,
    spaces: BTreeMap<Candidate, [f64; 2]>,
    latencies: Vec<RivalLatency>,
    counts: Vec<(Candidate, Operation, f64)>,
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
        let mut sheets = Sheets::default();
        let mut rounds = 0;
        for round in 1..=self.config.rounds {
            match self.round(shape, keys, round, &mut all, &mut sheets) {
                Ok(()) => rounds = round,
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
        Ok((Some(table(shape, keys, all, &sheets)), is_stopped))
    }

    /// What fails of a rival ends its part in the table; what fails of ours ends the run.
    fn judge<T>(
        &mut self,
        candidate: Candidate,
        all: &mut Vec<Candidate>,
        result: Result<T, Error>,
    ) -> Result<Option<T>, Error> {
        match result {
            Ok(done) => Ok(Some(done)),
            Err(error) if candidate.is_rival() => {
                self.miss(candidate, "", error.reason());
                all.retain(|other| *other != candidate);
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }

    fn round(
        &mut self,
        shape: Shape,
        keys: u64,
        round: u32,
        all: &mut Vec<Candidate>,
        sheets: &mut Sheets,
    ) -> Result<(), Error> {
        let folder = self.folder()?;
        let of_keys = Keys { count: keys, seed: self.config.seed.wrapping_add(round.into()) };
        let source = Source::new(of_keys, shape, folder.path());
        // Rounds that are not whole leave nothing.
        let mut next = Vec::new();
        let mut alive = BTreeMap::new();
        for candidate in all.clone() {
            let started = self.start(candidate, &source, folder.path());
            if let Some(process) = self.judge(candidate, all, started)? {
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
                    timed.and_then(|timed| right(candidate, operation, timed, plan.expected));
                let space =
                    if operation == Operation::Insert { Some(process.space()) } else { None };
                if let Some(timed) = self.judge(candidate, all, timed)? {
                    next.push((candidate, operation, timed));
                }
                if let Some(space) = space.and_then(Result::ok) {
                    sheets.spaces.insert(candidate, space.map(|bytes| bytes as f64 / keys as f64));
                }
            }
        }
        self.after_removal(&source, round, all, &mut alive)?;
        drop(alive);
        next.extend(self.sequential(&source, round, all)?);
        if self.config.has_pairs && shape == Shape::Numbers {
            self.pairs(&source, round, all, sheets)?;
        }
        for (candidate, operation, timed) in next {
            let rate = |time: std::time::Duration| {
                timed.operations as f64 / time.as_secs_f64().max(1e-9) / 1e6
            };
            sheets.cpu.push(candidate.name(), operation.word(), rate(timed.elapsed.cpu));
            sheets.wall.push(candidate.name(), operation.word(), rate(timed.elapsed.wall));
        }
        Ok(())
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
                .and_then(|timed| right(candidate, Operation::Remove, timed, removed.expected));
            self.judge(candidate, all, right)?;
        }
        Ok(())
    }

    /// Ascending keys into empty structures, one after the other.
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
                right(candidate, operation, process.trial(operation, &plan)?, plan.expected)
            });
            if let Some(timed) = self.judge(candidate, all, timed)? {
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
        all: &mut Vec<Candidate>,
        sheets: &mut Sheets,
    ) -> Result<(), Error> {
        for candidate in rotated(all, round) {
            if let Some(why) = candidate.one_thread(self.has_rtm) {
                self.miss(candidate, "two threads", why);
                continue;
            }
            let pairs = self.pair(source, round, candidate);
            let Some(pairs) = self.judge(candidate, all, pairs)? else { continue };
            for (operation, together, apart) in pairs {
                sheets.together.push(candidate.name(), operation.word(), together);
                sheets.apart.push(candidate.name(), operation.word(), apart);
            }
        }
        Ok(())
    }

    /// Millions a second on the wall, together and apart.
    fn pair(
        &mut self,
        source: &Source<'_>,
        round: u32,
        candidate: Candidate,
    ) -> Result<Vec<(Operation, f64, f64)>, Error> {
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
            let expected = plans.iter().map(|plan| plan.expected).sum();
            let together = both.pair(operation, &plans)?;
            // A lookup of values that updates of two threads have changed is right if the key is there.
            let together = right(candidate, operation, together, expected)?;
            one.begin(operation, &plans[0])?;
            other.begin(operation, &plans[1])?;
            let (first, second) = (one.end(plans[0].count)?, other.end(plans[1].count)?);
            let wall = first.elapsed.wall.max(second.elapsed.wall);
            let rate = |time: std::time::Duration| {
                together.operations as f64 / time.as_secs_f64().max(1e-9) / 1e6
            };
            figures.push((operation, rate(together.elapsed.wall), rate(wall)));
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
            if let Some([median_ns, p999_ns, max_ns]) = self.judge(candidate, all, latencies)? {
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
            let is_driver = candidate.is_rival();
            let name = candidate.name();
            match counts::counted(name, &command, is_driver, &source, &OPERATIONS, folder.path()) {
                Ok(counts) => {
                    let counts = counts.into_iter();
                    sheets
                        .counts
                        .extend(counts.map(|(operation, count)| (candidate, operation, count)));
                }
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

fn right(
    candidate: Candidate,
    operation: Operation,
    timed: Timed,
    expected: u64,
) -> Result<Timed, Error> {
    if timed.right == expected || candidate == Candidate::Wall {
        return Ok(timed);
    }
    let (contender, operation) = (candidate.name(), operation.name());
    Err(Error::Wrong { contender, operation, expected, found: timed.right })
}

fn table(shape: Shape, keys: u64, candidates: Vec<Candidate>, sheets: &Sheets) -> RivalTable {
    let mut cells = Vec::new();
    let mut ratios = Vec::new();
    let mut pairs = Vec::new();
    let operations = OPERATIONS.into_iter().chain([Operation::SequentialInsert]);
    for operation in operations {
        let of =
            |sheet: &Sheet, candidate: Candidate| sheet.spread(candidate.name(), operation.word());
        for &candidate in &candidates {
            let (Some(cpu), Some(wall)) = (of(&sheets.cpu, candidate), of(&sheets.wall, candidate))
            else {
                continue;
            };
            let mut counts = sheets.counts.iter();
            let count = counts.find(|count| (count.0, count.1) == (candidate, operation));
            let instructions = count.map(|count| count.2);
            cells.push(RivalCell { operation, candidate, cpu, wall, instructions });
        }
        let median =
            |candidate: &Candidate| of(&sheets.cpu, *candidate).map(|spread| spread.median);
        let rivals = candidates.iter().filter(|candidate| candidate.is_rival());
        let best = rivals.filter_map(|rival| Some((median(rival)?, *rival)));
        let best = best.max_by(|one, other| one.0.total_cmp(&other.0)).map(|(_, rival)| rival);
        let wanted = [
            (Candidate::Bare, best),
            (Candidate::Store, best),
            (Candidate::Store, Some(Candidate::Bare)),
        ];
        for (above, below) in wanted {
            let Some(below) = below else { continue };
            let ratio = sheets.cpu.ratio(above.name(), below.name(), operation.word());
            ratios.extend(ratio.map(|ratio| RivalRatio { operation, above, below, ratio }));
        }
        for &candidate in &candidates {
            let (together, apart) = (of(&sheets.together, candidate), of(&sheets.apart, candidate));
            if let (Some(together), Some(apart)) = (together, apart) {
                // Rounds of one sheet are those of the other.
                let name = candidate.name();
                let ratio = sheets.together.ratio_to(&sheets.apart, name, operation.word());
                let ratio = ratio.unwrap_or_default();
                pairs.push(RivalPair { operation, candidate, together, apart, ratio });
            }
        }
    }
    let spaces = candidates.iter().filter_map(|candidate| {
        let [pool, memory] = *sheets.spaces.get(candidate)?;
        (*candidate != Candidate::Wall).then_some(RivalSpace {
            candidate: *candidate,
            pool,
            memory,
        })
    });
    let spaces = spaces.collect();
    let is_strings = shape == Shape::Strings;
    let latencies = sheets.latencies.clone();
    let counted_keys = if sheets.counts.is_empty() { 0 } else { keys.min(COUNTED_KEYS) };
    RivalTable {
        keys,
        is_strings,
        candidates,
        cells,
        ratios,
        pairs,
        spaces,
        latencies,
        counted_keys,
    }
}
