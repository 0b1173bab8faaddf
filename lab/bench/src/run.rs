//! The run: contenders alternate in each operation, round after round.

use std::path::{Path, PathBuf};

use tempfile::TempDir;

use crate::contender::Size;
use crate::drive::Driven;
use crate::keys::{Keys, Zipf};
use crate::nvtree_paper::Rebuilds;
use crate::operation::THETA;
use crate::outcome::Trials;
use crate::pair::{self, Structures};
use crate::{Cost, Error, Kind, Latency, Operation, Outcome, Pair, Space, Watch};

/// What to run.
#[derive(Clone, Debug)]
pub struct Config {
    /// Keys in each structure.
    pub keys: u64,
    /// Rounds, each with structures of its own.
    pub rounds: u32,
    /// The contenders; twice is once.
    pub contenders: Vec<Kind>,
    /// Folder for the pools, which are gone when the run ends.
    pub folder: PathBuf,
    /// Where keys and orders come from.
    pub seed: u64,
    /// Bytes in a node of every tree in a pool: the size of a class of the pool.
    pub node_size: u32,
}

impl Config {
    /// Trials that [`run()`] reports.
    pub fn trials(&self) -> u64 {
        let round = (Operation::ALL.len() + pair::OPERATIONS.len()) as u64;
        (round * u64::from(self.rounds) + TIMED.len() as u64) * self.contenders.len() as u64
    }
}

/// Insertions each of which is also timed by itself.
const TIMED: [Operation; 2] = [Operation::Insert, Operation::SequentialInsert];

/// A contender in its folder, which goes with it.
struct Entrant {
    contender: Box<dyn Driven>,
    _folder: TempDir,
}

impl Entrant {
    fn new(kind: Kind, parent: &Path, size: Size) -> Result<Entrant, Error> {
        let folder = tempfile::Builder::new().prefix("tembo-bench-").tempdir_in(parent);
        let folder = folder.map_err(|source| Error::Folder { path: parent.to_owned(), source })?;
        let contender = kind.make(folder.path(), size)?;
        Ok(Entrant { contender, _folder: folder })
    }
}

/// Runs everything on the calling thread. When `watch` says that it is enough, the run ends with what was
/// done so far.
///
/// # Errors
/// [`Error::NothingToDo`]; [`Error::Wrong`] if a contender answers wrongly; what a contender met.
pub fn run(config: &Config, watch: &mut Watch<'_>) -> Result<Outcome, Error> {
    let Config { keys, rounds, .. } = *config;
    if keys == 0 || rounds == 0 || keys > 1 << 40 {
        return Err(Error::NothingToDo { keys, rounds });
    }
    let mut contenders = config.contenders.clone();
    let mut seen = Vec::new();
    contenders.retain(|kind| !seen.contains(kind) && (seen.push(*kind), true).1);
    let zipf = Zipf::new(keys, THETA);
    let mut all: Vec<Trials> = Vec::new();
    for operation in Operation::ALL {
        let trials = |&contender: &Kind| Trials { operation, contender, trials: Vec::new() };
        all.extend(contenders.iter().map(trials));
    }
    let (costs, pairs) = (Vec::new(), Vec::new());
    let mut run = Run { config, zipf, contenders, all, costs, pairs, watch };
    let mut finished = true;
    for round in 1..=rounds {
        finished = finished && run.round(round)? && run.pairs(round)?;
    }
    finished = finished && run.timed()?;
    let cells = run.all.iter().filter_map(|trials| trials.cell(&run.all)).collect();
    let pairs = run.finished_pairs();
    Ok(Outcome {
        keys,
        rounds,
        seed: config.seed,
        node_size: config.node_size,
        contenders: run.contenders,
        cells,
        pairs,
        costs: run.costs,
        stopped: !finished,
    })
}

struct Run<'r> {
    config: &'r Config,
    zipf: Zipf,
    contenders: Vec<Kind>,
    all: Vec<Trials>,
    costs: Vec<Cost>,
    /// What two threads did, trial by trial.
    pairs: Vec<(Operation, Kind, pair::Trial)>,
    watch: &'r mut Watch<'r>,
}

impl Run<'_> {
    /// Reports a trial; false: a signal asks for an end. The round after the last times each insert by itself.
    fn begin(&mut self, round: u32, operation: Operation, contender: Kind, threads: u32) -> bool {
        let (operation, contender) = (operation.name(), contender.name());
        (self.watch)(
            "nvtree",
            &format!("round {round}: {operation}, {contender}, threads: {threads}"),
        )
    }

    fn keys(&self) -> Keys {
        Keys { count: self.config.keys, seed: self.config.seed }
    }

    fn entrant(&self, kind: Kind) -> Result<Entrant, Error> {
        let Config { keys, node_size, .. } = *self.config;
        Entrant::new(kind, &self.config.folder, Size::new(keys, node_size))
    }

    /// The contenders in the order of a round: none always follows the same one.
    fn kinds(&self, round: u32) -> Vec<Kind> {
        let mut kinds = self.contenders.clone();
        let count = kinds.len().max(1);
        kinds.rotate_left((round - 1) as usize % count);
        kinds
    }

    /// One round; false: a signal asked for an end, and none of its trials count.
    fn round(&mut self, round: u32) -> Result<bool, Error> {
        let kinds = self.kinds(round);
        let mut entrants: Vec<Entrant> = Vec::new();
        let mut trials = Vec::new();
        for operation in Operation::ALL {
            let plan = operation.plan(self.keys(), &self.zipf, round);
            let expected = operation.expected(self.keys(), &plan);
            if operation.is_fresh() {
                // First the old ones go, so that there is room.
                entrants.clear();
            }
            for (at, &kind) in kinds.iter().enumerate() {
                if !self.begin(round, operation, kind, 1) {
                    return Ok(false);
                }
                let memory = memory_bytes();
                if operation.is_fresh() {
                    entrants.push(self.entrant(kind)?);
                }
                let entrant = &mut entrants[at];
                if !entrant.contender.offers(operation) {
                    continue;
                }
                let trial = entrant.contender.trial(operation, &plan)?;
                if trial.right != expected {
                    let (contender, operation) = (kind.name(), operation.name());
                    let found = trial.right;
                    return Err(Error::Wrong { contender, operation, expected, found });
                }
                trials.push((operation, kind, trial));
                let rebuilds = entrant.contender.rebuilds();
                if round == 1 {
                    let grown = memory_bytes() as f64 - memory as f64;
                    let used = entrant.contender.used_bytes();
                    self.note_cost((kind, operation), (used, grown), rebuilds);
                }
            }
        }
        for (operation, kind, trial) in trials {
            let mut all = self.all.iter_mut();
            if let Some(own) = all.find(|t| t.operation == operation && t.contender == kind) {
                own.trials.push(trial);
            }
        }
        Ok(true)
    }

    /// What two threads do, contender by contender; false: a signal asked for an end.
    fn pairs(&mut self, round: u32) -> Result<bool, Error> {
        let mut trials = Vec::new();
        for kind in self.kinds(round) {
            let mut one = self.entrant(kind)?;
            let (mut other, mut both) = (self.entrant(kind)?, self.entrant(kind)?);
            let is_shared = both.contender.shared().is_some();
            let takes_writers =
                both.contender.shared().is_some_and(|shared| shared.takes_writers());
            for operation in pair::OPERATIONS {
                if !self.begin(round, operation, kind, 2) {
                    return Ok(false);
                }
                if !is_shared {
                    continue;
                }
                let plans = self.keys().halves(u64::from(round) << 8 | operation as u64);
                if operation.is_fresh() && !takes_writers {
                    // By one thread, so that two can read.
                    one.contender.trial(operation, &plans[0])?;
                    other.contender.trial(operation, &plans[1])?;
                    both.contender.trial(operation, &plans.concat())?;
                    continue;
                }
                let apart = [&*one.contender, &*other.contender];
                let structures = Structures { kind, apart, together: &*both.contender };
                let trial = structures.trial(operation, &plans, round.is_multiple_of(2))?;
                trials.extend(trial.map(|trial| (operation, kind, trial)));
            }
        }
        self.pairs.extend(trials);
        Ok(true)
    }

    fn finished_pairs(&self) -> Vec<Pair> {
        let mut finished = Vec::new();
        for operation in pair::OPERATIONS {
            for &kind in &self.contenders {
                let own = self
                    .pairs
                    .iter()
                    .filter(|(op, contender, _)| (*op, *contender) == (operation, kind));
                let trials: Vec<pair::Trial> = own.map(|(_, _, trial)| *trial).collect();
                finished.extend(Pair::of(operation, kind, &trials));
            }
        }
        finished
    }

    /// Notes what a contender that has all keys takes: bytes used in its pool, and by how many its memory has
    /// grown by the operation.
    fn note_cost(
        &mut self,
        (contender, operation): (Kind, Operation),
        (used, grown): (u64, f64),
        rebuilds: Option<Rebuilds>,
    ) {
        let keys = self.config.keys as f64;
        let space = |before: f64| Space {
            pool: used as f64 / keys,
            memory: (before + grown / keys).max(0.0),
        };
        if operation == Operation::Insert {
            return self.costs.push(Cost {
                contender,
                inserted: space(0.0),
                updated: None,
                insert: None,
                sequential_insert: None,
                rebuilds,
                sequential_rebuilds: None,
            });
        }
        let cost = self.costs.iter_mut().find(|cost| cost.contender == contender);
        match (cost, operation) {
            (Some(cost), Operation::Update) => cost.updated = Some(space(cost.inserted.memory)),
            (Some(cost), Operation::SequentialInsert) => cost.sequential_rebuilds = rebuilds,
            _ => {}
        }
    }

    /// Insertions again, each timed by itself; apart, for asking the clock slows them.
    fn timed(&mut self) -> Result<bool, Error> {
        let round = self.config.rounds + 1;
        for operation in TIMED {
            let plan = operation.plan(self.keys(), &self.zipf, round);
            for kind in self.contenders.clone() {
                if !self.begin(round, operation, kind, 1) {
                    return Ok(false);
                }
                let histogram = self.entrant(kind)?.contender.timed_inserts(&plan)?;
                let latency = Some(Latency::of(&histogram));
                let cost = self.costs.iter_mut().find(|cost| cost.contender == kind);
                match (cost, operation) {
                    (Some(cost), Operation::Insert) => cost.insert = latency,
                    (Some(cost), _) => cost.sequential_insert = latency,
                    (None, _) => {}
                }
            }
        }
        Ok(true)
    }
}

/// Bytes of memory that belong to this process alone: not the pools, which are files.
pub(crate) fn memory_bytes() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:"));
    let kilobytes = line.and_then(|line| line.trim().strip_suffix("kB"));
    kilobytes.and_then(|number| number.trim().parse::<u64>().ok()).unwrap_or(0) * 1024
}
