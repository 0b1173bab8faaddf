//! Golden scripts: what two or three transactions, step by step, get as answers in each isolation.
//!
//! ```text
//! # Comment.
//! setup a=1 b=1          committed first, by a transaction of its own
//! t1 begin
//! t1 get a -> 1
//! t1 put a 2 -> ok
//! t1 range a c -> a=2 b=1
//! t1 commit -> ok
//! t2 commit -> snapshot: ok, serialisable: conflict on a
//! final -> a=2 b=1
//! judge -> serialisable
//! ```
//!
//! Further steps: `remove K`, `savepoint`, `rollback N`, `drop`. Keys are single letters, values numbers
//! above zero that no other step puts under the same key. What is behind the arrow is expected; where
//! it depends on the isolation, it is given for both. `judge` asks the checkers about all that was done.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use super::broken::{Broken, Dependency, Edge};
use super::cycle::check_cycles;
use super::database::{Database, Failure, Isolation, Key, Value};
use super::record::{ABSENT, Clock, History, Outcome, Recorded, Recorder};
use super::snapshots::check_snapshots;

/// A script.
pub struct Script {
    lines: Vec<Line>,
}

/// A line of a script.
enum Line {
    /// A comment, or nothing.
    Text(String),
    Step {
        command: String,
        /// The expected outcome in each isolation.
        expected: [String; 2],
    },
}

const LEVELS: [&str; 2] = ["snapshot: ", ", serialisable: "];

impl Script {
    /// Reads a script.
    pub fn read(text: &str) -> Script {
        let line = |line: &str| {
            if line.trim().is_empty() || line.starts_with('#') {
                return Line::Text(line.to_owned());
            }
            let (command, expected) = line.split_once("->").unwrap_or((line, ""));
            let expected = expected.trim();
            let both = expected.strip_prefix(LEVELS[0]).and_then(|rest| rest.split_once(LEVELS[1]));
            let (one, other) = both.unwrap_or((expected, expected));
            let expected = [one.to_owned(), other.to_owned()];
            Line::Step { command: command.trim().to_owned(), expected }
        };
        Script { lines: text.lines().map(line).collect() }
    }

    /// Runs it in both isolations, each on a database that `make` has just made.
    ///
    /// # Errors
    /// The script as it should read to describe what happened, if that is not what it says; or a step
    /// that makes no sense.
    pub fn run<D: Database>(&self, make: impl Fn() -> D) -> Result<(), String> {
        let mut happened = Vec::new();
        for isolation in Isolation::ALL {
            happened.push(self.run_in(isolation, &make())?);
        }
        let (mut text, mut differs, mut step) = (String::new(), false, 0);
        for line in &self.lines {
            // Writing to a string does not fail.
            let _ = match line {
                Line::Text(line) => writeln!(text, "{line}"),
                Line::Step { command, expected } => {
                    let answers = [&happened[0][step], &happened[1][step]];
                    differs |= *answers[0] != expected[0] || *answers[1] != expected[1];
                    step += 1;
                    match answers {
                        [one, other] if one != other => {
                            writeln!(text, "{command} -> {}{one}{}{other}", LEVELS[0], LEVELS[1])
                        }
                        [one, _] if one.is_empty() => writeln!(text, "{command}"),
                        [one, _] => writeln!(text, "{command} -> {one}"),
                    }
                }
            };
        }
        if differs { Err(text) } else { Ok(()) }
    }

    fn steps(&self) -> impl Iterator<Item = &str> {
        self.lines.iter().filter_map(|line| match line {
            Line::Step { command, .. } => Some(command.as_str()),
            Line::Text(_) => None,
        })
    }

    /// The answer to each step.
    fn run_in<D: Database>(
        &self,
        isolation: Isolation,
        database: &D,
    ) -> Result<Vec<String>, String> {
        let clock = Clock::default();
        // A recorder for each transaction, so that all of them may be open at a time.
        let mut recorders: BTreeMap<&str, Recorder<'_>> = BTreeMap::new();
        for name in self.steps().filter_map(|command| command.split(' ').next()) {
            let number = recorders.len() as u16;
            recorders.entry(name).or_insert_with(|| Recorder::new(&clock, number));
        }
        let idle = recorders.iter_mut().map(|(&name, recorder)| (name, recorder)).collect();
        let mut stage = Stage { isolation, database, idle, open: BTreeMap::new() };
        let mut answers = Vec::new();
        for command in self.steps() {
            let step = stage.step(command);
            answers.push(step.ok_or_else(|| format!("`{command}` makes no sense"))?);
        }
        if let Some(name) = stage.open.keys().next() {
            return Err(format!("{name} never ends"));
        }
        drop(stage);
        let (mut names, mut histories) = (Vec::new(), Vec::new());
        for (name, recorder) in recorders {
            let history = recorder.finish();
            names.extend(history.transactions.iter().map(|_| name));
            histories.push(history);
        }
        let history = History::of(histories);
        for (answers, command) in answers.iter_mut().zip(self.steps()) {
            if command == "judge" {
                *answers = verdict(&history, &names);
            }
        }
        Ok(answers)
    }
}

/// Where a script is played.
struct Stage<'s, 'c, D: Database> {
    isolation: Isolation,
    database: &'s D,
    /// Transactions that have not begun.
    idle: BTreeMap<&'s str, &'s mut Recorder<'c>>,
    /// Transactions that have begun and not ended.
    open: BTreeMap<&'s str, Recorded<'s, 'c, D::Transaction<'s>>>,
}

impl<'s, D: Database> Stage<'s, '_, D> {
    /// The answer to one step; `None` if it makes no sense.
    fn step(&mut self, command: &'s str) -> Option<String> {
        let words: Vec<&str> = command.split_whitespace().collect();
        match words[..] {
            ["setup", ref entries @ ..] => self.set_up(entries),
            ["final"] => self.read_all(),
            // The verdict is on all of it, and comes when all of it is there.
            ["judge"] => Some(String::new()),
            [_, "begin"] => {
                let name = command.split_whitespace().next()?;
                let (recorder, database, isolation) =
                    (self.idle.remove(name)?, self.database, self.isolation);
                let begun = recorder.begin(|| database.begin(isolation)).ok()?;
                self.open.insert(name, begun);
                Some(String::new())
            }
            [name, "commit"] => Some(show_outcome(self.open.remove(name)?.commit())),
            [name, "drop"] => {
                self.open.remove(name)?.abandon();
                Some(String::new())
            }
            [name, ref words @ ..] => step(self.open.get_mut(name)?, words),
            [] => None,
        }
    }

    /// Writes what there is at first.
    fn set_up(&mut self, entries: &[&str]) -> Option<String> {
        let (recorder, database) = (self.idle.remove("setup")?, self.database);
        let mut transaction = recorder.begin(|| database.begin(self.isolation)).ok()?;
        for entry in entries {
            let (word, value) = entry.split_once('=')?;
            transaction.put(key(word)?, value.parse().ok()?).ok()?;
        }
        transaction.commit().ok().map(|_| String::new())
    }

    /// Reads what there is at last.
    fn read_all(&mut self) -> Option<String> {
        let (recorder, database) = (self.idle.remove("final")?, self.database);
        let mut transaction = recorder.begin(|| database.begin(self.isolation)).ok()?;
        let entries = transaction.range(0, 25, false, usize::MAX).ok()?;
        transaction.commit().ok()?;
        Some(show_entries(&entries))
    }
}

/// What the checkers say to the history, in which `names` are those of the transactions.
fn verdict(history: &History, names: &[&str]) -> String {
    let name = |transaction: usize| names[transaction].to_owned();
    let show = |broken: &Broken| match broken {
        Broken::Cycle { edges, .. } => show_cycle(edges, names),
        other => other.report_with(history, &letter, &name),
    };
    let snapshot =
        check_snapshots(history).and_then(|()| check_cycles(history, Isolation::Snapshot));
    if let Err(broken) = snapshot {
        return format!("forbidden: {}", show(&broken));
    }
    match check_cycles(history, Isolation::Serialisable) {
        Ok(()) => "serialisable".to_owned(),
        Err(broken) => format!("not serialisable: {}", show(&broken)),
    }
}

fn show_cycle(edges: &[Edge], names: &[&str]) -> String {
    let mut answers = String::new();
    // The cycle begins with the name that comes first, so that it reads the same each time.
    let first = (0..edges.len()).min_by_key(|&at| names[edges[at].from]).unwrap_or(0);
    for at in 0..edges.len() {
        let edge = edges[(first + at) % edges.len()];
        let dependency = match edge.dependency {
            Dependency::Wr => "wr",
            Dependency::Ww => "ww",
            Dependency::Rw => "rw",
        };
        // Writing to a string does not fail.
        let _ = write!(answers, "{} -{dependency} {}-> ", names[edge.from], letter(edge.key));
    }
    answers + edges.first().map_or("", |_| names[edges[first].from])
}

fn letter(key: Key) -> String {
    char::from(b'a' + key as u8).to_string()
}

fn key(word: &str) -> Option<Key> {
    match word.as_bytes() {
        [letter @ b'a'..=b'z'] => Some(Key::from(letter - b'a')),
        _ => None,
    }
}

fn show_value(value: Value) -> String {
    if value == ABSENT { "nothing".to_owned() } else { value.to_string() }
}

fn show_entries(entries: &[(Key, Value)]) -> String {
    if entries.is_empty() {
        return "nothing".to_owned();
    }
    let answers: Vec<String> =
        entries.iter().map(|&(key, value)| format!("{}={value}", letter(key))).collect();
    answers.join(" ")
}

fn show_failure(failure: &Failure) -> String {
    match failure {
        Failure::Conflict { key, .. } => format!("conflict on {}", letter(*key)),
        Failure::Crashed => "crashed".to_owned(),
        Failure::Broken(what) => what.clone(),
    }
}

fn show_outcome(ended: Result<Outcome, Failure>) -> String {
    match ended {
        Ok(Outcome::Committed { .. }) => "ok".to_owned(),
        Ok(Outcome::Conflict { key, .. }) => format!("conflict on {}", letter(key)),
        Ok(other) => format!("{other:?}"),
        Err(failure) => show_failure(&failure),
    }
}

/// One step of an open transaction.
fn step<T: super::Transact>(
    transaction: &mut Recorded<'_, '_, T>,
    words: &[&str],
) -> Option<String> {
    let answer = match *words {
        ["get", word] => transaction.get(key(word)?).map(show_value),
        ["range", from, to] => {
            let entries = transaction.range(key(from)?, key(to)?, false, usize::MAX);
            entries.map(|entries| show_entries(&entries))
        }
        ["put", word, value] => {
            let put = transaction.put(key(word)?, value.parse().ok()?);
            put.map(|()| "ok".to_owned())
        }
        ["remove", word] => transaction.remove(key(word)?).map(|()| "ok".to_owned()),
        ["savepoint"] => Ok(transaction.savepoint().to_string()),
        ["rollback", savepoint] => {
            transaction.roll_back(savepoint.parse().ok()?).map(|()| "ok".to_owned())
        }
        _ => return None,
    };
    Some(answer.unwrap_or_else(|failure| show_failure(&failure)))
}
