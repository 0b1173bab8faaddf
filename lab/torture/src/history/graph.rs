//! Which transaction depends on which: Adya's direct serialisation graph of the transactions that committed.
//!
//! *wr*: one read what the other wrote. *ww*: one wrote the version of a key that follows the other's.
//! *rw*, the anti-dependency: one read a version of a key, and the other wrote the next one. A range has
//! read each key in it, also those that were not there, and so a phantom is an *rw* edge like any other
//! (Adya, Liskov and O'Neil, ICDE 2000).
//!
//! A value names its writer, since no other transaction writes that value. That a key was *not* there does not:
//! a key may be put and removed, and be absent as before. A read that found it absent may have been in either
//! absence ([`Absence`]). The order of the versions of a key is the order of the transactions' versions.

use super::broken::{Broken, Dependency, Edge};
use super::database::{Key, Value};
use super::record::{ABSENT, Action, History};
use super::versions::{Versions, Write, WriteSet};

/// Which absence of a key it is that a transaction has found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Absence {
    /// The one in its snapshot.
    AtSnapshot,
    /// The one in which it committed; if the key was there then, the one in its snapshot.
    AtCommit,
}

/// The edges, by the transaction from which they lead.
pub(super) struct Graph {
    starts: Vec<u32>,
    edges: Vec<Edge>,
}

impl Graph {
    /// # Errors
    /// A transaction read what was never committed.
    pub(super) fn of(history: &History, absence: Absence) -> Result<Graph, Broken> {
        let versions = Versions::of(history);
        let mut edges = Vec::new();
        for key in 0..versions.key_end() {
            for pair in versions.of_key(key).windows(2) {
                let (from, to) = (pair[0].writer, pair[1].writer);
                edges.push(Edge { from, to, key, dependency: Dependency::Ww });
            }
        }
        for (reader, transaction) in history.transactions.iter().enumerate() {
            if transaction.version().is_some() {
                let edges = &mut edges;
                let mut reads = Reads { history, versions: &versions, absence, reader, edges };
                reads.add()?;
            }
        }
        edges.retain(|edge| edge.from != edge.to);
        edges.sort_unstable_by_key(|edge| (edge.from, edge.to, edge.dependency));
        edges.dedup_by_key(|edge| (edge.from, edge.to, edge.dependency));
        let mut starts = vec![0; history.transactions.len() + 1];
        for edge in &edges {
            starts[edge.from + 1] += 1;
        }
        for at in 1..starts.len() {
            starts[at] += starts[at - 1];
        }
        Ok(Graph { starts, edges })
    }

    pub(super) fn node_count(&self) -> usize {
        self.starts.len() - 1
    }

    /// The edges that lead from there.
    pub(super) fn from(&self, node: usize) -> &[Edge] {
        &self.edges[self.starts[node] as usize..self.starts[node + 1] as usize]
    }
}

/// What one transaction read.
struct Reads<'g> {
    history: &'g History,
    versions: &'g Versions,
    absence: Absence,
    reader: usize,
    edges: &'g mut Vec<Edge>,
}

impl Reads<'_> {
    fn add(&mut self) -> Result<(), Broken> {
        let history = self.history;
        let mut own = WriteSet::default();
        let mut actions = history.actions(self.reader).iter();
        while let Some(&action) = actions.next() {
            own.note(action);
            match action {
                Action::Get { key, value } => self.read(&own, key, value)?,
                Action::Range { from, to, count, .. } => {
                    let entries = &actions.as_slice()[..count as usize];
                    let mut found = entries
                        .iter()
                        .filter_map(|entry| match *entry {
                            Action::Entry { key, value } => Some((key, value)),
                            _ => None,
                        })
                        .collect::<Vec<_>>();
                    found.sort_unstable();
                    let mut found = found.into_iter().peekable();
                    for key in from..=to {
                        let entry = found.next_if(|entry| entry.0 == key);
                        self.read(&own, key, entry.map_or(ABSENT, |entry| entry.1))?;
                    }
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// The edges of having found `value` under `key`. Its own writes are no dependency.
    fn read(&mut self, own: &WriteSet, key: Key, value: Value) -> Result<(), Broken> {
        let (reader, versions) = (self.reader, self.versions);
        if own.get(key).is_some() {
            return Ok(());
        }
        let read: Option<Write> = match self.claimed(key, value) {
            Some(write) if write.value == value => Some(write),
            None if value == ABSENT => None,
            // The claim is wrong, which is for the other checker to say, and it may be any absence.
            _ if value == ABSENT => return Ok(()),
            _ => match versions.writer_of(key, value) {
                Some(write) => Some(write),
                None => return Err(Broken::DirtyRead { reader, key, found: value }),
            },
        };
        if let Some(Write { writer, .. }) = read {
            self.edges.push(Edge { from: writer, to: reader, key, dependency: Dependency::Wr });
        }
        let next = versions.after(key, read.map_or(0, |write| write.version));
        if let Some(Write { writer, .. }) = next {
            self.edges.push(Edge { from: reader, to: writer, key, dependency: Dependency::Rw });
        }
        Ok(())
    }

    /// What it should have found.
    fn claimed(&self, key: Key, value: Value) -> Option<Write> {
        let transaction = &self.history.transactions[self.reader];
        if value == ABSENT && self.absence == Absence::AtCommit {
            // Its own write is not what it has found.
            let before = transaction.version().map_or(0, |version| version.saturating_sub(1));
            let claimed = self.versions.at(key, before.max(transaction.snapshot));
            if claimed.is_none_or(|write| write.value == ABSENT) {
                return claimed;
            }
        }
        self.versions.at(key, transaction.snapshot)
    }
}
