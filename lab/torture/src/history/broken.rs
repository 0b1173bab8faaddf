//! Violations, and how they are reported to a person.

use std::fmt::Write as _;

use super::call::Call;
use super::database::{Isolation, Key, Value};
use super::record::{ABSENT, Action, History, Outcome};
use super::versions::WriteSet;

/// Operations of one transaction that a report has at most.
const ACTIONS_MAX: usize = 24;

/// How one transaction depends on another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Dependency {
    /// It read what the other wrote.
    Wr,
    /// It overwrote what the other wrote.
    Ww,
    /// It overwrote what the other had read.
    Rw,
}

/// `to` depends on `from`, by `key`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Edge {
    /// The earlier transaction.
    pub from: usize,
    /// The later one.
    pub to: usize,
    /// The key.
    pub key: Key,
    /// How.
    pub dependency: Dependency,
}

/// A promise that a history shows broken. Transactions are named by their place in the history.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the variants say what the fields are")]
pub enum Broken {
    /// A read that is not the state of its snapshot.
    Read { reader: usize, key: Key, found: Value, expected: Value },
    /// A range that is not the state of its snapshot.
    Range {
        reader: usize,
        from: Key,
        to: Key,
        found: Vec<(Key, Value)>,
        expected: Vec<(Key, Value)>,
    },
    /// A read of what was never committed.
    DirtyRead { reader: usize, key: Key, found: Value },
    /// A snapshot without what had been acknowledged before it was taken.
    MissedCommit { earlier: usize, later: usize },
    /// A snapshot with what was committed after it had been taken.
    SawFuture { reader: usize, writer: usize },
    /// Versions that contradict time.
    Reordered { earlier: usize, later: usize },
    /// Two that both wrote the key, and neither saw the other.
    LostUpdate { first: usize, second: usize, key: Key },
    /// Two commits in one version.
    SameVersion { first: usize, second: usize },
    /// A commit whose version is in its own snapshot.
    VersionInSnapshot { transaction: usize },
    /// One that changed nothing and has a version before its snapshot.
    VersionOfReader { transaction: usize },
    /// A conflict with what does not exist.
    NeedlessConflict { refused: usize, key: Key, version: u64 },
    /// Dependencies that lead back to where they began.
    Cycle { isolation: Isolation, edges: Vec<Edge> },
    /// Acknowledged, and not there after the crash.
    Lost { writer: usize, key: Key, found: Value },
    /// Read by one that was acknowledged, and not there after the crash.
    LostAfterRead { reader: usize, writer: usize, key: Key, found: Value },
    /// There in part after the crash.
    Torn { writer: usize, key: Key, found: Value },
    /// There after the crash, and never committed.
    Foreign { key: Key, found: Value },
    /// Single operations on one key that no order explains: the last one, and what was under way.
    NotLinearisable { last: Call, beside: Vec<Call>, states: Vec<Value> },
}

impl Broken {
    /// The violation as a text: what is wrong, and what the transactions that are part of it did.
    pub fn report(&self, history: &History) -> String {
        self.report_with(history, &|key| format!("k{key}"), &|transaction| {
            format!("t{transaction}")
        })
    }

    /// The same, with names of one's own for keys and transactions.
    pub fn report_with(
        &self,
        history: &History,
        key: &dyn Fn(Key) -> String,
        transaction: &dyn Fn(usize) -> String,
    ) -> String {
        let reporter = Reporter { history, key, transaction };
        let mut text = reporter.headline(self);
        let mut mentioned = self.transactions();
        mentioned.sort_unstable();
        mentioned.dedup();
        for one in mentioned {
            text.push_str("\n  ");
            text.push_str(&reporter.transaction(one));
        }
        text
    }

    /// The transactions that are part of it.
    fn transactions(&self) -> Vec<usize> {
        match self {
            Broken::Read { reader, .. }
            | Broken::Range { reader, .. }
            | Broken::DirtyRead { reader, .. } => vec![*reader],
            Broken::MissedCommit { earlier: one, later: other }
            | Broken::SawFuture { reader: one, writer: other }
            | Broken::Reordered { earlier: one, later: other }
            | Broken::LostUpdate { first: one, second: other, .. }
            | Broken::SameVersion { first: one, second: other }
            | Broken::LostAfterRead { reader: one, writer: other, .. } => vec![*one, *other],
            Broken::VersionInSnapshot { transaction: one }
            | Broken::VersionOfReader { transaction: one }
            | Broken::NeedlessConflict { refused: one, .. }
            | Broken::Lost { writer: one, .. }
            | Broken::Torn { writer: one, .. } => vec![*one],
            Broken::Cycle { edges, .. } => edges.iter().map(|edge| edge.from).collect(),
            Broken::Foreign { .. } | Broken::NotLinearisable { .. } => Vec::new(),
        }
    }
}

/// Reports on one history.
struct Reporter<'t> {
    history: &'t History,
    key: &'t dyn Fn(Key) -> String,
    transaction: &'t dyn Fn(usize) -> String,
}

fn value(value: Value) -> String {
    if value == ABSENT { "nothing".to_owned() } else { value.to_string() }
}

impl Reporter<'_> {
    fn headline(&self, broken: &Broken) -> String {
        let (key, name) = (self.key, self.transaction);
        match broken {
            Broken::Read { reader, key: k, found, expected } => format!(
                "{} read {} = {}{}; in its snapshot it is {}{}",
                name(*reader),
                key(*k),
                value(*found),
                self.whose(*k, *found),
                value(*expected),
                self.whose(*k, *expected),
            ),
            Broken::Range { reader, from, to, found, expected } => {
                self.range(*reader, (*from, *to), found, expected)
            }
            Broken::DirtyRead { reader, key: k, found } => format!(
                "{} read {} = {}{}, which was never committed",
                name(*reader),
                key(*k),
                value(*found),
                self.whose(*k, *found),
            ),
            Broken::MissedCommit { earlier, later } => format!(
                "{} was acknowledged before {} began, and is not in its snapshot",
                name(*earlier),
                name(*later),
            ),
            Broken::SawFuture { reader, writer } => format!(
                "the snapshot of {} holds the version of {}, which was not yet called",
                name(*reader),
                name(*writer),
            ),
            Broken::Reordered { earlier, later } => format!(
                "{} was acknowledged before the commit of {} was called, and has the later version",
                name(*earlier),
                name(*later),
            ),
            Broken::LostUpdate { first, second, key: k } => format!(
                "{} and {} both wrote {}, and neither saw the other: an update is lost",
                name(*first),
                name(*second),
                key(*k),
            ),
            Broken::SameVersion { first, second } => {
                format!("{} and {} have the same version", name(*first), name(*second))
            }
            Broken::VersionInSnapshot { transaction } => {
                format!("{} committed in a version of its own snapshot", name(*transaction))
            }
            Broken::VersionOfReader { transaction } => {
                format!("{} committed in a version before its snapshot", name(*transaction))
            }
            Broken::NeedlessConflict { refused, key: k, version } => format!(
                "{} was refused because of {} in version {version}, which is no reason",
                name(*refused),
                key(*k),
            ),
            Broken::Cycle { isolation, edges } => self.cycle(*isolation, edges),
            _ => self.headline_of_loss(broken),
        }
    }

    fn headline_of_loss(&self, broken: &Broken) -> String {
        let (key, name) = (self.key, self.transaction);
        match broken {
            Broken::Lost { writer, key: k, found } => format!(
                "{} was acknowledged and is lost: after the crash {} is {}{}",
                name(*writer),
                key(*k),
                value(*found),
                self.whose(*k, *found),
            ),
            Broken::LostAfterRead { reader, writer, key: k, found } => format!(
                "{} read what {} wrote and was acknowledged; after the crash {} is {}{}",
                name(*reader),
                name(*writer),
                key(*k),
                value(*found),
                self.whose(*k, *found),
            ),
            Broken::Torn { writer, key: k, found } => format!(
                "{} is there in part: after the crash {} is {}{}",
                name(*writer),
                key(*k),
                value(*found),
                self.whose(*k, *found),
            ),
            Broken::Foreign { key: k, found } => format!(
                "after the crash {} is {}{}, which was never committed",
                key(*k),
                value(*found),
                self.whose(*k, *found),
            ),
            Broken::NotLinearisable { last, beside, states } => {
                let states: Vec<String> = states.iter().map(|&state| value(state)).collect();
                let mut text = format!(
                    "no order explains the operations on {}: it was {} until\n  {}",
                    key(last.key),
                    states.join(" or "),
                    last.report(),
                );
                for call in beside {
                    // Writing to a string does not fail.
                    let _ = write!(text, "\n  beside {}", call.report());
                }
                text
            }
            other => format!("{other:?}"),
        }
    }

    /// " (by t4)", if the history knows.
    fn whose(&self, key: Key, value: Value) -> String {
        if value == ABSENT {
            return String::new();
        }
        let put = Action::Put { key, value };
        let Some(at) = self.history.actions.iter().position(|&action| action == put) else {
            return String::new();
        };
        let holds = |one: &super::Transaction| one.actions.contains(&at);
        match self.history.transactions.iter().position(holds) {
            Some(writer) => format!(" (by {})", (self.transaction)(writer)),
            None => String::new(),
        }
    }

    fn range(
        &self,
        reader: usize,
        (from, to): (Key, Key),
        found: &[(Key, Value)],
        expected: &[(Key, Value)],
    ) -> String {
        let (key, name) = (self.key, self.transaction);
        let mut text = format!("{} read {} to {}", name(reader), key(from), key(to));
        let find = |entries: &[(Key, Value)], k: Key| {
            entries.iter().find(|entry| entry.0 == k).map_or(ABSENT, |entry| entry.1)
        };
        let wrong = (from..=to).find(|&k| find(found, k) != find(expected, k));
        // Writing to a string does not fail.
        let _ = match wrong {
            Some(k) => {
                let (is, should) = (find(found, k), find(expected, k));
                write!(
                    text,
                    " and found {} = {}{}; in its snapshot it is {}{}",
                    key(k),
                    value(is),
                    self.whose(k, is),
                    value(should),
                    self.whose(k, should),
                )
            }
            None => write!(text, " and found its entries in a wrong order, or twice"),
        };
        text
    }

    fn cycle(&self, isolation: Isolation, edges: &[Edge]) -> String {
        let (key, name) = (self.key, self.transaction);
        let mut text = format!("a cycle that {isolation} isolation forbids:");
        if isolation == Isolation::Serialisable {
            text = "no serial order explains this:".to_owned();
        }
        for &Edge { from, to, key: k, dependency } in edges {
            let wrote = |one: usize| {
                let set = WriteSet::of(self.history.actions(one));
                let found = set.iter().find(|write| write.0 == k);
                found.map_or("?".to_owned(), |write| value(write.1))
            };
            let (f, t, k) = (name(from), name(to), key(k));
            // Writing to a string does not fail.
            let _ = match dependency {
                Dependency::Wr => {
                    write!(text, "\n  wr: {f} wrote {k} = {}, which {t} read", wrote(from))
                }
                Dependency::Ww => write!(
                    text,
                    "\n  ww: {f} wrote {k} = {}, which {t} overwrote with {}",
                    wrote(from),
                    wrote(to)
                ),
                Dependency::Rw => {
                    write!(text, "\n  rw: {f} read {k} before {t} wrote {}", wrote(to))
                }
            };
        }
        text
    }

    /// One transaction on one line.
    fn transaction(&self, one: usize) -> String {
        let transaction = &self.history.transactions[one];
        let (began, ended) = (transaction.began.0, transaction.ended.1);
        let mut actions: Vec<String> = self
            .history
            .actions(one)
            .iter()
            .take(ACTIONS_MAX)
            .map(|action| self.action(action))
            .collect();
        if self.history.actions(one).len() > ACTIONS_MAX {
            actions.push("…".to_owned());
        }
        let outcome = match transaction.outcome {
            Outcome::Committed { version } => format!("committed as {version}"),
            Outcome::Conflict { key, version } => {
                format!("refused: {} in {version}", (self.key)(key))
            }
            Outcome::Dropped => "dropped".to_owned(),
            Outcome::Unknown => "its end unknown".to_owned(),
        };
        format!(
            "{} (thread {}, time {began} to {ended}, snapshot {}): {}; {outcome}",
            (self.transaction)(one),
            transaction.thread,
            transaction.snapshot,
            actions.join(", "),
        )
    }

    fn action(&self, action: &Action) -> String {
        let key = self.key;
        match *action {
            Action::Get { key: k, value: v } => format!("get {} = {}", key(k), value(v)),
            Action::Put { key: k, value: v } => format!("put {} = {}", key(k), value(v)),
            Action::Remove { key: k } => format!("remove {}", key(k)),
            Action::Range { from, to, count, backwards } => {
                let way = if backwards { "backwards " } else { "" };
                format!("range {way}{} to {}: {count}", key(from), key(to))
            }
            Action::Entry { key: k, value: v } => format!("{} = {}", key(k), value(v)),
            Action::Savepoint => "savepoint".to_owned(),
            Action::RollBack { savepoint } => format!("back to savepoint {savepoint}"),
        }
    }
}
