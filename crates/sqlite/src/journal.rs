//! Journals: bytes in memory. After a crash there is none, and none is needed. And super-journals, whose removal is the commit
//! of several databases.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;
use tembo_array::Transaction;
use tembo_kv::Durability;

use crate::code::Code;
use crate::main_file::MainFile;

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
type Members = Vec<Arc<Mutex<MainFile>>>;

#[derive(Default)]
struct SuperJournal {
    content: Arc<Mutex<Journal>>,
    members: Members,
}

static SUPER_JOURNALS: Mutex<Option<HashMap<String, SuperJournal>>> = Mutex::new(None);

/// The super-journal of that name, made if there is none.
pub(crate) fn super_journal(name: &str) -> Arc<Mutex<Journal>> {
    let mut all = SUPER_JOURNALS.lock();
    all.get_or_insert_default().entry(name.to_owned()).or_default().content.clone()
}

/// Whether there is a super-journal of that name.
pub(crate) fn is_super_journal(name: &str) -> bool {
    SUPER_JOURNALS.lock().as_ref().is_some_and(|all| all.contains_key(name))
}

/// The transaction of a database is to commit when that super-journal is removed. One that is another VFS's, because the main
/// database is, is not known here: then databases commit one by one.
pub(crate) fn join(name: &str, file: &Arc<Mutex<MainFile>>) {
    let mut all = SUPER_JOURNALS.lock();
    let Some(journal) = all.as_mut().and_then(|all| all.get_mut(name)) else { return };
    if !journal.members.iter().any(|member| Arc::ptr_eq(member, file)) {
        journal.members.push(file.clone());
    }
    drop(all);
    file.lock().join(name);
}

/// Removes a super-journal. If that is how SQLite commits, the transactions of its databases are committed: those of one pool
/// together.
pub(crate) fn remove_super_journal(name: &str, commits: bool) -> Result<(), Code> {
    let Some(journal) = SUPER_JOURNALS.lock().as_mut().and_then(|all| all.remove(name)) else {
        return Ok(());
    };
    let mut members = journal.members;
    members.retain(|member| commits && member.lock().is_in(name));
    while let Some(first) = members.first().cloned() {
        let database = first.lock().database().clone();
        let (group, rest) =
            members.into_iter().partition(|member| member.lock().database().shares_pool(&database));
        members = rest;
        commit(&group)?;
    }
    Ok(())
}

fn commit(group: &Members) -> Result<(), Code> {
    let (mut all, mut durability) = (Vec::new(), Durability::Buffered);
    for member in group {
        let (tx, wanted) = member.lock().give();
        all.extend(tx);
        if wanted == Durability::Strict {
            durability = wanted;
        }
    }
    if all.is_empty() {
        return Ok(());
    }
    let version = Transaction::commit_all(all, durability)?.version();
    group.iter().try_for_each(|member| member.lock().was_committed(version))
}

/// A database closes: it commits with no other any more.
pub(crate) fn leave(file: &Arc<Mutex<MainFile>>) {
    if let Some(all) = SUPER_JOURNALS.lock().as_mut() {
        for journal in all.values_mut() {
            journal.members.retain(|member| !Arc::ptr_eq(member, file));
        }
    }
}
