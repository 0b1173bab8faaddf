//! Recovery in three passes, and the undo of one record, which a rollback does too.

use std::collections::BTreeMap;

use crate::Error;
use crate::aries::buffer_pool::BufferPool;
use crate::aries::format::{Active, Body, HEAD_SIZE, Lsn, Record};
use crate::aries::log::Log;
use crate::host::Host;

/// What the passes work on.
pub(crate) struct Passes<'a> {
    pub(crate) host: &'a mut Host,
    pub(crate) log: &'a mut Log,
    pub(crate) pool: &'a mut BufferPool,
}

/// What a recovery has done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Undone {
    /// Records whose change a page did not have.
    pub redone: u64,
    /// Transactions that had not committed.
    pub losers: u64,
    /// Records of them that were undone.
    pub undone: u64,
    /// The greatest number of a transaction that the log has.
    pub(crate) greatest: u64,
}

/// What analysis finds.
#[derive(Default)]
struct Analysis {
    active: BTreeMap<u64, Active>,
    /// Transactions that have committed and not ended.
    committed: Vec<u64>,
    dirty: BTreeMap<u64, Lsn>,
    greatest: u64,
}

impl Analysis {
    fn of(records: &[Record], checkpoint: Lsn) -> Analysis {
        let mut found = Analysis::default();
        for record in records {
            found.greatest = found.greatest.max(record.transaction);
            if record.lsn >= checkpoint {
                found.take(record);
            }
        }
        found
    }

    fn take(&mut self, record: &Record) {
        let Record { lsn, transaction, ref body, .. } = *record;
        let undo_next = match body {
            Body::Checkpoint { active, dirty } => {
                self.active = active.iter().map(|row| (row.transaction, *row)).collect();
                self.dirty = dirty.iter().copied().collect();
                let numbers = active.iter().map(|row| row.transaction);
                self.greatest = numbers.fold(self.greatest, u64::max);
                return;
            }
            Body::Commit => {
                self.active.remove(&transaction);
                return self.committed.push(transaction);
            }
            Body::End => {
                self.active.remove(&transaction);
                return self.committed.retain(|other| *other != transaction);
            }
            Body::Update { page, .. } => {
                self.dirty.entry(*page).or_insert(lsn);
                lsn
            }
            Body::Compensation { page, undo_next, .. } => {
                self.dirty.entry(*page).or_insert(lsn);
                *undo_next
            }
        };
        let begun = Active { transaction, last: lsn, undo_next, first: lsn };
        let row = self.active.entry(transaction).or_insert(begun);
        (row.last, row.undo_next) = (lsn, undo_next);
    }
}

/// Brings the pages to what all committed transactions, and no others, have made of them.
pub(crate) fn recover(passes: &mut Passes<'_>, records: &[Record]) -> Result<Undone, Error> {
    let mut found = Analysis::of(records, passes.log.checkpoint());
    let mut undone =
        Undone { losers: found.active.len() as u64, greatest: found.greatest, ..Undone::default() };
    for record in records {
        let (Body::Update { page, offset, after, .. }
        | Body::Compensation { page, offset, after, .. }) = &record.body
        else {
            continue;
        };
        if found.dirty.get(page).is_none_or(|since| record.lsn < *since) {
            continue;
        }
        let (_, page_lsn) = passes.pool.page(passes.host, passes.log, *page)?;
        if page_lsn < record.lsn {
            let change = (*page, *offset, &after[..], record.lsn);
            passes.pool.change(passes.host, passes.log, change)?;
            undone.redone += 1;
        }
    }
    for transaction in found.committed {
        passes.log.append(transaction, 0, Body::End);
    }
    // All losers together, the latest record first.
    while let Some(row) = found.active.values_mut().max_by_key(|row| row.undo_next) {
        if row.undo_next == 0 {
            passes.log.append(row.transaction, row.last, Body::End);
            let transaction = row.transaction;
            found.active.remove(&transaction);
            continue;
        }
        undone.undone += u64::from(undo_one(passes, row)? > 0);
    }
    Ok(undone)
}

/// Undoes the next record of a transaction: its change is taken back, and a compensation record says so. Bytes of that
/// record; 0: there was nothing to take back.
pub(crate) fn undo_one(passes: &mut Passes<'_>, row: &mut Active) -> Result<u64, Error> {
    let record = passes.log.record(passes.host, row.undo_next)?;
    match record.body {
        Body::Update { page, offset, before, .. } => {
            let undo_next = record.previous;
            let after = before.clone();
            let body = Body::Compensation { page, offset, after, undo_next };
            row.last = passes.log.append(row.transaction, row.last, body);
            row.undo_next = undo_next;
            let change = (page, offset, &before[..], row.last);
            passes.pool.change(passes.host, passes.log, change)?;
            Ok((HEAD_SIZE + before.len()) as u64)
        }
        Body::Compensation { undo_next, .. } => {
            row.undo_next = undo_next;
            Ok(0)
        }
        _ => Err(Error::Damaged { controller: 0, what: "a record that cannot be undone" }),
    }
}
