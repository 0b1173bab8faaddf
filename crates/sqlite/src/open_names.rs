//! The names by which SQLite has databases of ours open in this process: journals of these are not files.

use std::collections::HashMap;

use parking_lot::Mutex;

use crate::process::PerProcess;

static OPEN: PerProcess<Mutex<HashMap<String, usize>>> = PerProcess::new();

/// What SQLite appends to the name of a database.
const APPENDED: [&str; 2] = ["-journal", "-wal"];

/// The name of an open database, until it is closed.
pub(crate) struct OpenName(String);

impl OpenName {
    pub(crate) fn new(name: String) -> OpenName {
        *OPEN.get().lock().entry(name.clone()).or_default() += 1;
        OpenName(name)
    }
}

impl Drop for OpenName {
    fn drop(&mut self) {
        let mut open = OPEN.get().lock();
        if let Some(count) = open.get_mut(&self.0) {
            *count -= 1;
            if *count == 0 {
                open.remove(&self.0);
            }
        }
    }
}

/// The database of a journal or WAL, by its name.
pub(crate) fn database_of(journal: &str) -> Option<&str> {
    APPENDED.iter().find_map(|end| journal.strip_suffix(end))
}

/// Whether a journal or WAL is of a database that is open here.
pub(crate) fn is_of_ours(journal: &str) -> bool {
    database_of(journal).is_some_and(|database| OPEN.get().lock().contains_key(database))
}
