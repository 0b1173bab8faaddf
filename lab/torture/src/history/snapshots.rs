//! Snapshot isolation, checked against the versions that the store itself reports.
//!
//! **What it decides.** The store says of each transaction the version of its snapshot *s*, and of each
//! that committed its own version *v*. Those two numbers are a complete account of what the store claims
//! to have done, and so the question is not whether *some* order would explain the history (which is
//! NP-complete; Biswas and Enea, OOPSLA 2019) but whether *this* one does. It does if and only if
//!
//! 1. each read and each range, of transactions that were refused or dropped too, shows the transaction's
//!    own writes over the state at *s*: for each key the write of the greatest version up to *s*, of a
//!    transaction that was acknowledged;
//! 2. of two transactions that wrote the same key, neither has its version between the other's snapshot
//!    and version: the first committer wins, no update is lost;
//! 3. a writer's version is above its snapshot, and no other writer's;
//! 4. time is kept: what had returned before a begin was called is in its snapshot; what was called after
//!    the begin had returned is not; of two commits of which one had returned before the other was
//!    called, the versions stand in that order;
//! 5. a refused transaction was refused for a reason: another one wrote the key that the conflict names,
//!    and committed after the snapshot and by the version that it names.
//!
//! To remove what is not there is no write: it has no version, and conflicts with nothing.
//!
//! 1 and 2 are the axioms of Berenson et al. (SIGMOD 1995) in the form of Cerone and Gotsman (JACM 2018),
//! INT, EXT, SESSION and NOCONFLICT, with the versions as the commit order; with 4 it is their *strong*
//! snapshot isolation, which is what a store on one machine owes: nothing that was acknowledged is missed.
//!
//! **How long it takes.** O(n log n) for n operations: all writes are sorted by key and version, and each
//! read is a binary search. A range of k keys is k reads. Rule 4 is a sweep over sorted times.

use super::broken::Broken;
use super::database::{Key, Value};
use super::record::{ABSENT, Action, History, Outcome};
use super::versions::{Versions, WriteSet};

/// Whether the history is what the versions in it claim.
///
/// # Errors
/// The first violation that it finds.
pub fn check_snapshots(history: &History) -> Result<(), Broken> {
    let versions = Versions::of(history);
    check_versions(history, &versions)?;
    check_time(history, &versions)?;
    for transaction in 0..history.transactions.len() {
        check_reads(history, &versions, transaction)?;
        check_end(history, &versions, transaction)?;
    }
    Ok(())
}

/// Rule 3.
fn check_versions(history: &History, versions: &Versions) -> Result<(), Broken> {
    let mut all: Vec<(u64, usize)> = Vec::new();
    for (at, transaction) in history.transactions.iter().enumerate() {
        let Some(version) = transaction.version() else { continue };
        if versions.is_writer(at) {
            if version <= transaction.snapshot {
                return Err(Broken::VersionInSnapshot { transaction: at });
            }
            all.push((version, at));
        } else if version < transaction.snapshot {
            return Err(Broken::VersionOfReader { transaction: at });
        }
    }
    all.sort_unstable();
    match all.windows(2).find(|pair| pair[0].0 == pair[1].0) {
        Some(pair) => Err(Broken::SameVersion { first: pair[0].1, second: pair[1].1 }),
        None => Ok(()),
    }
}

/// Of a committed writer: when its commit was called and returned, its version, and its place.
struct Commit {
    called: u64,
    returned: u64,
    version: u64,
    transaction: usize,
}

/// Rule 4: three sweeps along time, each with the extreme version of what is on one side of it.
fn check_time(history: &History, versions: &Versions) -> Result<(), Broken> {
    let mut commits = Vec::new();
    for (at, transaction) in history.transactions.iter().enumerate() {
        if let Some(version) = transaction.version().filter(|_| versions.is_writer(at)) {
            let (called, returned) = transaction.ended;
            commits.push(Commit { called, returned, version, transaction: at });
        }
    }
    let mut begins: Vec<usize> = (0..history.transactions.len()).collect();
    commits.sort_unstable_by_key(|commit| commit.returned);
    begins.sort_unstable_by_key(|&at| history.transactions[at].began.0);
    let mut newest = Newest { commits: &commits, taken: 0, found: None };
    for &later in &begins {
        let transaction = &history.transactions[later];
        if let Some((version, earlier)) = newest.returned_before(transaction.began.0)
            && version > transaction.snapshot
        {
            return Err(Broken::MissedCommit { earlier, later });
        }
    }
    let mut by_call: Vec<&Commit> = commits.iter().collect();
    by_call.sort_unstable_by_key(|commit| commit.called);
    let mut newest = Newest { commits: &commits, taken: 0, found: None };
    for commit in &by_call {
        if let Some((version, earlier)) = newest.returned_before(commit.called)
            && version > commit.version
        {
            return Err(Broken::Reordered { earlier, later: commit.transaction });
        }
    }
    // From the last to the first: the least version of what was called after a begin had returned.
    begins.sort_unstable_by_key(|&at| history.transactions[at].began.1);
    let (mut rest, mut least) = (by_call.as_slice(), None);
    for &reader in begins.iter().rev() {
        let transaction = &history.transactions[reader];
        while let [before @ .., last] = rest
            && last.called > transaction.began.1
        {
            let found = (last.version, last.transaction);
            least = Some(least.map_or(found, |least: (u64, usize)| least.min(found)));
            rest = before;
        }
        if let Some((version, writer)) = least
            && version <= transaction.snapshot
        {
            return Err(Broken::SawFuture { reader, writer });
        }
    }
    Ok(())
}

/// Commits in the order in which they returned, and the newest version of those taken so far.
struct Newest<'c> {
    commits: &'c [Commit],
    taken: usize,
    found: Option<(u64, usize)>,
}

impl Newest<'_> {
    fn returned_before(&mut self, time: u64) -> Option<(u64, usize)> {
        while let Some(commit) = self.commits.get(self.taken).filter(|next| next.returned < time) {
            self.found = self.found.max(Some((commit.version, commit.transaction)));
            self.taken += 1;
        }
        self.found
    }
}

/// Rule 1.
fn check_reads(history: &History, versions: &Versions, reader: usize) -> Result<(), Broken> {
    let snapshot = history.transactions[reader].snapshot;
    let mut own = WriteSet::default();
    let state =
        |own: &WriteSet, key| own.get(key).unwrap_or_else(|| versions.value_at(key, snapshot));
    let mut actions = history.actions(reader).iter();
    while let Some(&action) = actions.next() {
        own.note(action);
        match action {
            Action::Get { key, value } => {
                let expected = state(&own, key);
                if expected != value {
                    return Err(Broken::Read { reader, key, found: value, expected });
                }
            }
            Action::Range { from, to, count, backwards } => {
                let entries = actions.as_slice();
                let found: Vec<(Key, Value)> =
                    entries[..count as usize].iter().filter_map(entry).collect();
                let mut expected: Vec<(Key, Value)> = (from..=to)
                    .map(|key| (key, state(&own, key)))
                    .filter(|&(_, value)| value != ABSENT)
                    .collect();
                if backwards {
                    expected.reverse();
                }
                if found != expected {
                    return Err(Broken::Range { reader, from, to, found, expected });
                }
            }
            _ => {}
        }
    }
    Ok(())
}

fn entry(action: &Action) -> Option<(Key, Value)> {
    match *action {
        Action::Entry { key, value } => Some((key, value)),
        _ => None,
    }
}

/// Rules 2 and 5.
fn check_end(history: &History, versions: &Versions, second: usize) -> Result<(), Broken> {
    let transaction = &history.transactions[second];
    match transaction.outcome {
        Outcome::Committed { version } => {
            for (key, _) in WriteSet::of(history.actions(second)) {
                let is_effect = versions.at(key, version).is_some_and(|at| at.writer == second);
                let Some(first) = versions.after(key, transaction.snapshot) else { continue };
                if is_effect && first.version < version {
                    return Err(Broken::LostUpdate { first: first.writer, second, key });
                }
            }
        }
        Outcome::Conflict { key, version } => {
            let first = versions.after(key, transaction.snapshot);
            if first.is_none_or(|first| first.version > version) {
                return Err(Broken::NeedlessConflict { refused: second, key, version });
            }
        }
        Outcome::Dropped | Outcome::Unknown => {}
    }
    Ok(())
}
