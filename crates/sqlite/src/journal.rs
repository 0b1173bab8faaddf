//! Journals: bytes in memory. After a crash there is none, and none is needed. And super-journals, whose removal is the commit
//! of several databases.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;

use crate::code::Code;
use crate::open_file::{OpenFile, commit_all};
use crate::process::PerProcess;

/// Bytes for which a journal makes room when it begins: what a transaction of two pages needs.
const RESERVED: usize = 16 << 10;

/// A file in memory.
#[derive(Default)]
pub(crate) struct Journal(Vec<u8>);

impl Journal {
    pub(crate) fn read(&self, offset: u64, to: &mut [u8]) -> usize {
        let from = usize::try_from(offset).unwrap_or(usize::MAX).min(self.0.len());
        let part = &self.0[from..self.0.len().min(from.saturating_add(to.len()))];
        to[..part.len()].copy_from_slice(part);
        part.len()
    }

    pub(crate) fn write(&mut self, offset: u64, bytes: &[u8]) -> Result<(), Code> {
        let from = usize::try_from(offset).map_err(|_| Code::FULL)?;
        let end = from.checked_add(bytes.len()).ok_or(Code::FULL)?;
        if from == self.0.len() {
            // SQLite writes from the begin on, and mostly not much.
            let more = if from == 0 { bytes.len().max(RESERVED) } else { bytes.len() };
            self.0.try_reserve(more).map_err(|_| Code::FULL)?;
            self.0.extend_from_slice(bytes);
            return Ok(());
        }
        if end > self.0.len() {
            let more = end - self.0.len();
            self.0.try_reserve(more).map_err(|_| Code::FULL)?;
            self.0.resize(end, 0);
        }
        self.0[from..end].copy_from_slice(bytes);
        Ok(())
    }

    pub(crate) fn truncate(&mut self, len: u64) {
        self.0.truncate(usize::try_from(len).unwrap_or(usize::MAX));
    }

    pub(crate) fn len(&self) -> u64 {
        self.0.len() as u64
    }
}

/// The databases whose transactions commit together.
type Members = Vec<Arc<Mutex<OpenFile>>>;

#[derive(Default)]
struct SuperJournal {
    content: Arc<Mutex<Journal>>,
    members: Members,
}

static SUPER_JOURNALS: PerProcess<Mutex<HashMap<String, SuperJournal>>> = PerProcess::new();

/// The super-journal of that name, made if there is none.
pub(crate) fn super_journal(name: &str) -> Arc<Mutex<Journal>> {
    SUPER_JOURNALS.get().lock().entry(name.to_owned()).or_default().content.clone()
}

/// Whether there is a super-journal of that name.
pub(crate) fn is_super_journal(name: &str) -> bool {
    SUPER_JOURNALS.get().lock().contains_key(name)
}

/// The transaction of a database is to commit when that super-journal is removed. One that is another VFS's, because the main
/// database is, is not known here: then databases commit one by one.
pub(crate) fn join(name: &str, file: &Arc<Mutex<OpenFile>>) -> Result<(), Code> {
    let mut all = SUPER_JOURNALS.get().lock();
    let Some(journal) = all.get_mut(name) else { return Ok(()) };
    if !journal.members.iter().any(|member| Arc::ptr_eq(member, file)) {
        journal.members.push(file.clone());
    }
    drop(all);
    file.lock().join(name)
}

/// Removes a super-journal. If that is how SQLite commits, the transactions of its databases are committed: those of one pool
/// together.
pub(crate) fn remove_super_journal(name: &str, commits: bool) -> Result<(), Code> {
    let Some(journal) = SUPER_JOURNALS.get().lock().remove(name) else { return Ok(()) };
    let mut members = journal.members;
    members.retain(|member| commits && member.lock().is_in(name));
    while let Some(first) = members.first().cloned() {
        let shares = |member: &Arc<Mutex<OpenFile>>| {
            Arc::ptr_eq(member, &first) || member.lock().shares_pool(&first.lock())
        };
        let (group, rest): (Members, Members) = members.into_iter().partition(shares);
        members = rest;
        commit_all(&group)?;
    }
    Ok(())
}

/// A database closes: it commits with no other any more.
pub(crate) fn leave(file: &Arc<Mutex<OpenFile>>) {
    for journal in SUPER_JOURNALS.get().lock().values_mut() {
        journal.members.retain(|member| !Arc::ptr_eq(member, file));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_journal_holds_what_was_written_at_its_end_over_it_and_behind_it() {
        let mut journal = Journal::default();
        journal.write(0, &[1; 20_000]).unwrap();
        journal.write(20_000, &[2; 4]).unwrap();
        journal.write(19_999, &[3; 6]).unwrap();
        journal.write(20_007, &[4]).unwrap();
        assert_eq!(journal.len(), 20_008);
        let mut read = [9; 12];
        assert_eq!(journal.read(19_998, &mut read), 10);
        assert_eq!(read, [1, 3, 3, 3, 3, 3, 3, 0, 0, 4, 9, 9]);
        journal.truncate(0);
        journal.write(0, b"x").unwrap();
        assert_eq!(journal.len(), 1);
    }
}
