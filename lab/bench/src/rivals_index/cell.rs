//! The process of one of our own contenders: the commands and loops of a driver, in Rust.

use std::io::{BufRead, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::candidate::{Candidate, Shape};
use super::named_store::NamedStore;
use super::plan;
use super::process::{Timed, process_cpu};
use crate::clock::{Elapsed, Stopwatch};
use crate::contender::Size;
use crate::drive::Driven;
use crate::guard::guarded;
use crate::run::memory_bytes;
use crate::{Error, Operation, pair};

/// Bytes in a node: those of the other experiments.
const NODE_SIZE: u32 = 1024;

/// The structure of this process.
enum Structure {
    Numbers(Box<dyn Driven>),
    Strings(NamedStore),
}

/// Serves the commands of `input` with one of our contenders until the input ends: `words` are its name, `numbers`
/// or `strings`, a folder for its pool, the number of keys, and `in-memory` if it is to have no file.
///
/// # Errors
/// [`Error::Absent`] for words and commands that are not known; what a contender meets.
pub fn rivals_index_cell(
    words: &[String],
    input: &mut dyn BufRead,
    output: &mut dyn Write,
) -> Result<(), Error> {
    let io = |source| Error::Process { contender: "a cell".into(), source };
    let (candidate, structure) = made(words)?;
    let is_counted = words.iter().any(|word| word == IN_MEMORY);
    let memory = memory_bytes();
    let mut cell = Cell { candidate, structure, is_counted, ready: None, memory };
    writeln!(output, "@ 0 0 0 0").and_then(|()| output.flush()).map_err(io)?;
    let mut line = String::new();
    loop {
        line.clear();
        if input.read_line(&mut line).map_err(io)? == 0 {
            return Ok(());
        }
        let command: Vec<&str> = line.split_whitespace().collect();
        let [one, two, three, four] = cell.command(&command)?;
        let written = writeln!(output, "@ {one} {two} {three} {four}");
        written.and_then(|()| output.flush()).map_err(io)?;
    }
}

fn made(words: &[String]) -> Result<(Candidate, Structure), Error> {
    let unknown = Error::Absent("such a cell");
    let [name, shape, folder, keys, rest @ ..] = words else { return Err(unknown) };
    let (Some(candidate), Ok(keys)) = (Candidate::named(name), keys.parse::<u64>()) else {
        return Err(unknown);
    };
    let is_in_memory = rest.iter().any(|word| word == IN_MEMORY);
    let (folder, size) = (Path::new(folder), Size::prepared(keys, NODE_SIZE));
    let structure = match (candidate.kind(), shape == Shape::Strings.word()) {
        (None, _) => return Err(unknown),
        (_, true) if is_in_memory => Structure::Strings(NamedStore::in_memory(keys)?),
        (_, true) => Structure::Strings(NamedStore::new(folder, keys)?),
        (Some(kind), _) if is_in_memory => Structure::Numbers(kind.in_memory(size, None)?),
        (Some(kind), _) => Structure::Numbers(kind.make(folder, size)?),
    };
    Ok((candidate, structure))
}

/// The word for a structure without a file.
pub(super) const IN_MEMORY: &str = "in-memory";

struct Cell {
    candidate: Candidate,
    structure: Structure,
    /// Instructions are counted, and no time.
    is_counted: bool,
    /// What `go` begins.
    ready: Option<(Operation, Vec<u64>)>,
    /// Bytes of memory before anything was put.
    memory: u64,
}

impl Cell {
    fn command(&mut self, words: &[&str]) -> Result<[u64; 4], Error> {
        let unknown = || Error::Absent("such a command");
        let operation = |word: &str| Operation::of_word(word).ok_or_else(unknown);
        match *words {
            ["trial", word, _, path] => {
                let timed = self.trial(operation(word)?, &PathBuf::from(path))?;
                Ok(figures(&timed))
            }
            ["pair", word, _, one, _, other] => {
                let timed = self.pair(operation(word)?, Path::new(one), Path::new(other))?;
                Ok(figures(&timed))
            }
            ["latencies", _, path] => {
                let Structure::Numbers(driven) = &mut self.structure else { return Err(unknown()) };
                let histogram = driven.timed_inserts(&plan::numbers(Path::new(path))?)?;
                let [median, p999, max] = [0.5, 0.999, 1.0].map(|q| histogram.value_at_quantile(q));
                Ok([median, p999, max, 0])
            }
            ["space"] => {
                let pool = match &self.structure {
                    Structure::Numbers(driven) => driven.used_bytes(),
                    Structure::Strings(store) => store.used_bytes(),
                };
                Ok([pool, memory_bytes().saturating_sub(self.memory), 0, 0])
            }
            ["ready", word, _, path] => {
                self.ready = Some((operation(word)?, plan::numbers(Path::new(path))?));
                Ok([0; 4])
            }
            ["go"] => {
                let (operation, plan) = self.ready.take().ok_or_else(unknown)?;
                Ok(figures(&self.alone(operation, &plan)?))
            }
            ["scan-sum", _, path] => {
                let Structure::Strings(store) = &self.structure else { return Err(unknown()) };
                Ok([store.scan_sum(&plan::names(Path::new(path))?)?, 0, 0, 0])
            }
            _ => Err(unknown()),
        }
    }

    fn trial(&mut self, operation: Operation, path: &Path) -> Result<Timed, Error> {
        let mut timed = None;
        // Callgrind does not survive the clock that is asked here.
        let is_counted = self.is_counted;
        let counted = |right, operations: usize| Timed {
            operations: operations as u64,
            elapsed: Elapsed::default(),
            process: Duration::ZERO,
            right,
        };
        match &mut self.structure {
            Structure::Numbers(driven) => {
                let plan = plan::numbers(path)?;
                guarded(&mut || {
                    timed = Some(if is_counted {
                        counted(driven.untimed(operation, &plan)?, plan.len())
                    } else {
                        let began = process_cpu();
                        let trial = driven.trial(operation, &plan)?;
                        let process = process_cpu().saturating_sub(began);
                        let (elapsed, right) = (trial.elapsed, trial.right);
                        Timed { operations: trial.operations, elapsed, process, right }
                    });
                    Ok(())
                })?;
            }
            Structure::Strings(store) => {
                let plan = plan::names(path)?;
                guarded(&mut || {
                    timed = Some(if is_counted {
                        counted(store.act(operation, &plan)?, plan.len())
                    } else {
                        store.trial(operation, &plan)?
                    });
                    Ok(())
                })?;
            }
        }
        timed.ok_or(Error::Absent("a trial"))
    }

    fn pair(&self, operation: Operation, one: &Path, other: &Path) -> Result<Timed, Error> {
        let absent = Error::Absent("two threads");
        let Structure::Numbers(driven) = &self.structure else { return Err(absent) };
        let (Some(shared), Some(kind)) = (driven.shared(), self.candidate.kind()) else {
            return Err(absent);
        };
        let plans = [plan::numbers(one)?, plan::numbers(other)?];
        let operations = plans.iter().map(|plan| plan.len() as u64).sum();
        let began = process_cpu();
        let elapsed = pair::threads(kind, [shared, shared], operation, &plans)?;
        let process = process_cpu().saturating_sub(began);
        Ok(Timed { operations, elapsed, process, right: operations })
    }

    /// The loop of [`pair`](Cell::pair), in one thread.
    fn alone(&self, operation: Operation, plan: &[u64]) -> Result<Timed, Error> {
        let absent = || Error::Absent("two threads");
        let Structure::Numbers(driven) = &self.structure else { return Err(absent()) };
        let shared = driven.shared().ok_or_else(absent)?;
        let (began, watch) = (process_cpu(), Stopwatch::start());
        let right = pair::act(shared, operation, plan)?;
        let elapsed = watch.elapsed();
        let process = process_cpu().saturating_sub(began);
        Ok(Timed { operations: plan.len() as u64, elapsed, process, right })
    }
}

fn figures(timed: &Timed) -> [u64; 4] {
    let nanoseconds = |time: Duration| time.as_nanos() as u64;
    let elapsed = timed.elapsed;
    [nanoseconds(elapsed.cpu), nanoseconds(elapsed.wall), timed.right, nanoseconds(timed.process)]
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::super::plan::Source;
    use super::*;
    use crate::keys::Keys;

    const OPERATIONS: [Operation; 7] = [
        Operation::Insert,
        Operation::Lookup,
        Operation::MissingLookup,
        Operation::Update,
        Operation::Scan,
        Operation::ZipfLookup,
        Operation::Remove,
    ];

    /// With a file each trial says its time; without one no clock is asked.
    #[test]
    fn a_cell_answers_rightly_and_has_times_only_with_a_file() {
        let all = [
            (Candidate::Bare, Shape::Numbers),
            (Candidate::Store, Shape::Numbers),
            (Candidate::Store, Shape::Strings),
        ];
        for (candidate, shape) in all {
            for is_in_memory in [false, true] {
                let folder = tempfile::tempdir().unwrap();
                let source = Source::new(Keys { count: 500, seed: 9 }, shape, folder.path());
                let plans = OPERATIONS.map(|operation| source.plan(operation, 1).unwrap());
                let commands = OPERATIONS.iter().zip(&plans).map(|(operation, plan)| {
                    let path = plan.path.display();
                    format!("trial {} {} {path}\n", operation.word(), plan.count)
                });
                let commands: String = commands.collect();
                let place = folder.path().to_str().unwrap();
                let mut words = vec![candidate.name(), shape.word(), place, "500"];
                words.extend(is_in_memory.then_some(IN_MEMORY));
                let words: Vec<String> = words.into_iter().map(str::to_owned).collect();
                let mut output = Vec::new();
                rivals_index_cell(&words, &mut commands.as_bytes(), &mut output).unwrap();
                let text = String::from_utf8(output).unwrap();
                let replies: Vec<&str> = text.lines().skip(1).collect();
                assert_eq!(replies.len(), plans.len());
                for (reply, plan) in replies.iter().zip(&plans) {
                    let figures: Vec<u64> =
                        reply.split(' ').skip(1).map(|figure| figure.parse().unwrap()).collect();
                    assert_eq!(figures[2], plan.expected, "{candidate:?}, {reply}");
                    let has_no_time = [figures[1] == 0, figures[3] == 0];
                    assert_eq!(has_no_time, [is_in_memory; 2], "{candidate:?}, {reply}");
                }
            }
        }
    }

    /// One loop in two steps, as a driver has it, with half of the keys each time.
    #[test]
    fn what_is_ready_begins_with_go() {
        for candidate in [Candidate::Bare, Candidate::Store] {
            let folder = tempfile::tempdir().unwrap();
            let keys = Keys { count: 500, seed: 9 };
            let source = Source::new(keys, Shape::Numbers, folder.path());
            let [one, other] = source.pair(Operation::Insert, 1).unwrap();
            let mut commands = String::new();
            for operation in pair::OPERATIONS {
                for plan in [&one, &other] {
                    let (word, path) = (operation.word(), plan.path.display());
                    commands += &format!("ready {word} {} {path}\ngo\n", plan.count);
                }
            }
            let place = folder.path().to_str().unwrap();
            let words = [candidate.name(), Shape::Numbers.word(), place, "500"].map(str::to_owned);
            let mut output = Vec::new();
            rivals_index_cell(&words, &mut commands.as_bytes(), &mut output).unwrap();
            let text = String::from_utf8(output).unwrap();
            let replies: Vec<&str> = text.lines().skip(1).collect();
            assert_eq!(replies.len(), 4 * pair::OPERATIONS.len());
            for [ready, done] in replies.as_chunks().0 {
                assert_eq!(*ready, "@ 0 0 0 0");
                assert_eq!(done.split(' ').nth(3), Some("250"), "{candidate:?}");
            }
        }
    }

    #[test]
    fn scans_of_strings_visit_the_keys_that_are_expected() {
        let folder = tempfile::tempdir().unwrap();
        let source = Source::new(Keys { count: 500, seed: 9 }, Shape::Strings, folder.path());
        let store = NamedStore::in_memory(500).unwrap();
        let names = |operation| plan::names(&source.plan(operation, 1).unwrap().path).unwrap();
        store.act(Operation::Insert, &names(Operation::Insert)).unwrap();
        assert_eq!(store.scan_sum(&names(Operation::Scan)).unwrap(), source.scan_sum(1));
        store.act(Operation::Remove, &names(Operation::Remove)).unwrap();
        assert_ne!(store.scan_sum(&names(Operation::Scan)).unwrap(), source.scan_sum(1));
    }
}
