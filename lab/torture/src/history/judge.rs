//! One verdict of all checkers that look at a level of isolation.

use super::broken::Broken;
use super::cycle::check_cycles;
use super::database::Isolation;
use super::record::{History, Outcome};
use super::snapshots::check_snapshots;

/// What was judged, so that one sees that there was something to judge.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct Checked {
    /// Reads, writes and ranges.
    pub operations: u64,
    /// Transactions.
    pub transactions: u64,
    /// Those that were acknowledged.
    pub committed: u64,
    /// Those that were refused.
    pub conflicts: u64,
    /// Those that began before another ended, and ended after it.
    pub overlapping: u64,
}

impl Checked {
    /// Of that history.
    pub fn of(history: &History) -> Checked {
        let mut checked = Checked { operations: history.operation_count(), ..Checked::default() };
        let mut ends: Vec<u64> = history.transactions.iter().map(|one| one.ended.0).collect();
        ends.sort_unstable();
        for transaction in &history.transactions {
            checked.transactions += 1;
            match transaction.outcome {
                Outcome::Committed { .. } => checked.committed += 1,
                Outcome::Conflict { .. } => checked.conflicts += 1,
                Outcome::Dropped | Outcome::Unknown => {}
            }
            let ended_by = |time| ends.partition_point(|&end| end < time);
            let within = ended_by(transaction.ended.0) - ended_by(transaction.began.1);
            checked.overlapping += u64::from(within > 0);
        }
        checked
    }
}

/// Judges the history of a store that promised that isolation. A stronger isolation keeps the weaker one too.
///
/// # Errors
/// The first promise that is broken.
pub fn judge(history: &History, isolation: Isolation) -> Result<Checked, Broken> {
    check_snapshots(history)?;
    check_cycles(history, Isolation::Snapshot)?;
    if isolation == Isolation::Serialisable {
        check_cycles(history, isolation)?;
    }
    Ok(Checked::of(history))
}
