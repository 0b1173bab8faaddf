//! The run: a process for each contender and cell, one after the other.

use std::io::{self, BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use rustix::fs::statfs;

use super::contender;
use super::dataset::KEY_SIZE;
use super::group::Group;
use super::report::{Bounds, DiskCell, DiskReport};
use super::spec::{Event, Part, Spec};
use crate::machine::Machine;
use crate::{Error, Watch};

/// What to measure.
#[derive(Clone, Debug)]
pub struct DiskConfig {
    /// The folder in which files are made, in a folder of their own that is removed at the end.
    pub folder: PathBuf,
    /// A folder in memory is taken too.
    pub takes_memory: bool,
    /// Bytes of memory that a contender may have.
    pub memory: u64,
    /// The parts that are done.
    pub parts: Vec<Part>,
    /// Sizes of the table, in bytes of keys and values to a byte of memory.
    pub ratios: Vec<f64>,
    /// Sizes of values, in bytes; at least 8.
    pub value_sizes: Vec<usize>,
    /// Names of contenders.
    pub contenders: Vec<String>,
    /// Each with stores of its own.
    pub rounds: u32,
    /// Seconds of a phase.
    pub seconds: f64,
    /// Seconds of a load; what is left is then put in the order of the keys.
    pub load_seconds: f64,
    /// The seed of keys and orders.
    pub seed: u64,
    /// No cell is begun later than this after the start.
    pub within: Option<Duration>,
    /// Whether there are so few records that everything ends in seconds.
    pub quick: bool,
    /// The binary that has [`disk_cell`](super::disk_cell), and the words before its argument.
    pub cell: (PathBuf, Vec<String>),
    /// The command, for the report, without the options that choose a cell.
    pub command: String,
}

/// Records of a quick run.
const QUICK_RECORDS: u64 = 600;

/// Requests of a run of the server at depth 1.
const REQUESTS: u64 = 300_000;

/// The ratio of what is measured at one size only.
const RATIO: f64 = 4.0;

/// The ratio of the churn: files grow.
const CHURN_RATIO: f64 = 2.0;

/// A value of YCSB: ten fields of a hundred bytes.
const YCSB_VALUE_SIZE: usize = 1000;

/// Time that a process may take beyond its phases, in seconds.
const PATIENCE: f64 = 120.0;

/// How long a process goes on writing before it is killed.
const UNTIL_KILLED: Duration = Duration::from_secs(2);

/// A store of one size in one part.
#[derive(Clone, Copy, Debug)]
struct Shape {
    part: Part,
    value_size: usize,
    ratio: f64,
}

impl DiskConfig {
    fn shapes(&self) -> Vec<Shape> {
        let mut shapes = Vec::new();
        let mut parts = self.parts.clone();
        parts.sort_unstable();
        parts.dedup();
        for part in parts {
            let one = |value_size, ratio| vec![Shape { part, value_size, ratio }];
            shapes.extend(match part {
                Part::Table => self.table(),
                Part::Ycsb => one(YCSB_VALUE_SIZE, RATIO),
                Part::Churn => one(1024, CHURN_RATIO),
                Part::Restart => one(1024, RATIO),
                Part::Server => [one(3, 0.0), one(1024, 0.0)].concat(),
            });
        }
        shapes
    }

    fn table(&self) -> Vec<Shape> {
        let with = |&value_size: &usize| {
            let shape = move |&ratio| Shape { part: Part::Table, value_size, ratio };
            self.ratios.iter().map(shape).collect::<Vec<_>>()
        };
        self.value_sizes.iter().flat_map(with).collect()
    }

    /// Contenders that take part, another one first for each shape and round.
    fn contenders(&self, shape: Shape, shift: usize) -> Vec<&str> {
        let is_fit = |name: &&str| contender::is_server(name) == (shape.part == Part::Server);
        let mut all: Vec<&str> =
            self.contenders.iter().map(String::as_str).filter(is_fit).collect();
        let count = all.len().max(1);
        all.rotate_left(shift % count);
        all
    }

    fn records(&self, shape: Shape) -> u64 {
        if shape.part == Part::Server {
            return if self.quick { QUICK_RECORDS } else { REQUESTS };
        }
        let bytes = self.memory as f64 * shape.ratio;
        let records = (bytes / (KEY_SIZE + shape.value_size) as f64) as u64;
        if self.quick { records.min(QUICK_RECORDS) } else { records }.max(1)
    }

    /// Processes that [`disk`] starts, at most.
    pub fn trials(&self) -> u64 {
        let shapes = self.shapes();
        let of = |shape: &Shape| self.contenders(*shape, 0).len() as u64;
        shapes.iter().map(of).sum::<u64>() * u64::from(self.rounds)
    }

    fn check(&self) -> Result<(), Error> {
        const TMPFS: u64 = 0x0102_1994;
        let path = || self.folder.clone();
        let at = statfs(&self.folder);
        let at = at.map_err(|source| Error::Folder { path: path(), source: source.into() })?;
        if at.f_type as u64 == TMPFS && !self.takes_memory {
            return Err(Error::InMemory { path: path() });
        }
        Ok(())
    }
}

/// Measures everything that is not in `done`, until `watch` says that it is enough. What is measured so far is given to
/// `keep` after each cell, so that a run that was interrupted can go on from there.
///
/// # Errors
/// [`Error::InMemory`], and if no folder can be made or no process started. What a contender meets is in its cell.
pub fn disk(
    config: &DiskConfig,
    done: Vec<DiskCell>,
    keep: &mut dyn FnMut(&[DiskCell]),
    watch: &mut Watch<'_>,
) -> Result<DiskReport, Error> {
    config.check()?;
    let made = Group::new(config.memory);
    let limit = match &made {
        Ok(group) => group.name().to_owned(),
        Err(error) => format!(
            "no memory group could be made ({error}): the caches of contenders are limited, the system's cache of pages is not"
        ),
    };
    let mut run = Run {
        config,
        group: made.ok(),
        begun: Instant::now(),
        watch,
        done,
        keep,
        cells: Vec::new(),
        missed: Vec::new(),
    };
    let ended = run.all();
    run.end_all();
    match ended {
        Ok(()) | Err(Error::Stopped) => {}
        Err(error) => return Err(error),
    }
    let time_s = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_secs());
    let DiskConfig { quick, memory, seconds, load_seconds, .. } = *config;
    let bounds = Some(Bounds { seconds, load_seconds });
    let Run { cells, missed, .. } = run;
    Ok(DiskReport { machine: Machine::this(), time_s, quick, memory, limit, bounds, cells, missed })
}

struct Run<'r, 'w> {
    config: &'r DiskConfig,
    group: Option<Group>,
    begun: Instant,
    watch: &'r mut Watch<'w>,
    /// Cells of a run that was interrupted.
    done: Vec<DiskCell>,
    keep: &'r mut dyn FnMut(&[DiskCell]),
    cells: Vec<DiskCell>,
    /// Measurements that were asked for and are in no cell, and why.
    missed: Vec<String>,
}

impl Run<'_, '_> {
    fn all(&mut self) -> Result<(), Error> {
        let config = self.config;
        for round in 0..config.rounds {
            for (number, shape) in config.shapes().into_iter().enumerate() {
                for name in config.contenders(shape, round as usize + number) {
                    self.one(self.empty(shape, name, round + 1))?;
                }
            }
        }
        Ok(())
    }

    /// Measures a cell, unless that was done before, or it is too late.
    fn one(&mut self, mut cell: DiskCell) -> Result<(), Error> {
        if let Some(done) = self.done.iter().find(|done| done.replaces(&cell)) {
            self.cells.push(done.clone());
            return Ok(());
        }
        if self.config.within.is_some_and(|within| self.begun.elapsed() >= within) {
            self.miss(format!("{}: the time of the run was over", label(&cell)));
            return Ok(());
        }
        match self.measure(&mut cell) {
            Err(Error::Stopped) => return Err(Error::Stopped),
            Err(error) => cell.failure = Some(error.reason()),
            Ok(()) => {}
        }
        if cell.failure.as_deref() == Some(ABSENT) {
            self.miss(format!("{}: this build does not have it", cell.title));
        } else {
            self.cells.push(cell);
            (self.keep)(&self.cells);
        }
        Ok(())
    }

    fn miss(&mut self, what: String) {
        if !self.missed.contains(&what) {
            self.missed.push(what);
        }
    }

    fn empty(&self, shape: Shape, name: &str, round: u32) -> DiskCell {
        let Shape { part, value_size, ratio } = shape;
        let mut command = format!("{} --parts {}", self.config.command, part.name());
        if part == Part::Table {
            command += &format!(" --ratios {ratio} --values {value_size}");
        }
        DiskCell {
            part,
            contender: name.into(),
            title: contender::title(name).into(),
            value_size,
            ratio,
            records: self.config.records(shape),
            round,
            command,
            settings: Vec::new(),
            phases: Vec::new(),
            figures: Vec::new(),
            failure: None,
        }
    }

    fn spec(&self, cell: &DiskCell, folder: &Path) -> Spec {
        let DiskConfig { memory, seconds, load_seconds, seed, .. } = *self.config;
        Spec {
            part: cell.part,
            contender: cell.contender.clone(),
            folder: folder.to_owned(),
            group: self.group.as_ref().map(|group| group.path().to_owned()),
            memory,
            records: cell.records,
            value_size: cell.value_size,
            seconds,
            load_seconds,
            seed: seed.wrapping_add(cell.round.into()),
            is_reopened: false,
        }
    }

    fn measure(&mut self, cell: &mut DiskCell) -> Result<(), Error> {
        let path = self.config.folder.clone();
        let folder = tempfile::Builder::new().prefix("tembo-bench-").tempdir_in(&path);
        let folder = folder.map_err(|source| Error::Folder { path, source })?;
        let spec = self.spec(cell, folder.path());
        self.process(&spec, cell)?;
        self.end_all();
        if cell.part == Part::Restart && cell.failure.is_none() {
            if let Some(group) = &self.group {
                group.drop_pages();
            }
            self.process(&Spec { is_reopened: true, ..spec }, cell)?;
        }
        Ok(())
    }

    /// Ends what a process that was killed has left: a server, say.
    fn end_all(&self) {
        if let Some(group) = &self.group {
            group.kill_all();
        }
    }

    /// Runs one process to its end, or until it is killed.
    fn process(&mut self, spec: &Spec, cell: &mut DiskCell) -> Result<(), Error> {
        let contender = cell.contender.clone();
        let failed = |source| Error::Process { contender: contender.clone(), source };
        let mut process = Process::start(self.config, self.group.as_ref(), spec).map_err(failed)?;
        let limit = PATIENCE + 8.0 * spec.load_seconds + 24.0 * spec.seconds;
        let begun = Instant::now();
        let mut doing = "start".to_owned();
        loop {
            if !(self.watch)(&label(cell), &doing) {
                return Err(Error::Stopped);
            }
            match process.events.recv_timeout(Duration::from_millis(500)) {
                Ok(Event::Begun(what)) => doing = what,
                Ok(Event::Settings(settings)) => cell.settings = settings,
                Ok(Event::Phase(phase)) => cell.phases.push(phase),
                Ok(Event::Figure(figure)) => cell.figures.push(figure),
                Ok(Event::Failed(why)) => cell.failure = Some(why),
                Ok(Event::Absent) => cell.failure = Some(ABSENT.into()),
                Ok(Event::Ready) => {
                    thread::sleep(UNTIL_KILLED);
                    return Ok(());
                }
                Err(RecvTimeoutError::Timeout) if begun.elapsed().as_secs_f64() > limit => {
                    cell.failure = Some(format!("killed after {limit} s, in {doing}"));
                    return Ok(());
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => {
                    // A signal from a terminal goes to both.
                    if !(self.watch)(&label(cell), &doing) {
                        return Err(Error::Stopped);
                    }
                    let status = process.child.wait().map_err(failed)?;
                    if !status.success() && cell.failure.is_none() {
                        cell.failure = Some(format!("ended with {status}, in {doing}"));
                    }
                    return Ok(());
                }
            }
        }
    }
}

/// The label of a cell in progress messages.
fn label(cell: &DiskCell) -> String {
    let DiskCell { part, value_size, ratio, round, title, .. } = cell;
    format!("round {round}: {}, {value_size} B × {ratio}, {title}", part.name())
}

/// The failure of what this build does not have.
const ABSENT: &str = "absent";

/// A process that measures; killed when this is dropped.
struct Process {
    child: Child,
    events: Receiver<Event>,
}

impl Process {
    fn start(config: &DiskConfig, group: Option<&Group>, spec: &Spec) -> io::Result<Process> {
        let (program, words) = &config.cell;
        let mut command = match group {
            Some(group) => group.command(program),
            None => Command::new(program),
        };
        command.args(words).arg(serde_json::to_string(spec)?);
        command.stdin(Stdio::null()).stdout(Stdio::piped());
        let mut child = command.spawn()?;
        let out = child.stdout.take().ok_or_else(|| io::Error::other("no standard output"))?;
        Ok(Process { child, events: listen(out) })
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // It has ended, or its files are removed next.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Receives the messages of a process, as they come, until it ends.
fn listen(out: ChildStdout) -> Receiver<Event> {
    let (sender, receiver) = channel();
    thread::spawn(move || {
        for line in BufReader::new(out).lines().map_while(Result::ok) {
            let event = serde_json::from_str(&line)
                .unwrap_or_else(|error| Event::Failed(format!("{error}: {line}")));
            if sender.send(event).is_err() {
                break;
            }
        }
    });
    receiver
}
