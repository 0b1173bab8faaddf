//! SQLite: one table without row ids, prepared statements, `synchronous=FULL`.

use std::path::{Path, PathBuf};
use std::time::Duration;

use rusqlite::{Connection, OptionalExtension};

use super::opened::{Change, Client, Rival, Share, failed, touch};
use crate::Error;

const UPSERT: &str = "INSERT INTO bench VALUES (?1, ?2) ON CONFLICT (k) DO UPDATE SET v = ?2";
const DELETE: &str = "DELETE FROM bench WHERE k = ?1";

/// How SQLite keeps its promises.
#[derive(Clone, Copy)]
pub(super) enum Journal {
    /// A write-ahead log.
    Wal,
    /// A rollback journal, truncated at each commit.
    Rollback,
}

/// A file, and how connections are set up.
pub(super) struct Sqlite {
    path: PathBuf,
    journal: Journal,
    cache_kib: u64,
}

fn error(source: rusqlite::Error) -> Error {
    failed("SQLite")(Box::new(source))
}

impl Sqlite {
    pub(super) fn new(
        folder: &Path,
        journal: Journal,
        share: Option<Share>,
    ) -> Result<Sqlite, Error> {
        let cache_kib = share.map_or(1_000_000, |share| share.memory / 2 / 1024);
        let sqlite = Sqlite { path: folder.join("sqlite"), journal, cache_kib };
        let table =
            "CREATE TABLE IF NOT EXISTS bench (k BLOB PRIMARY KEY, v BLOB NOT NULL) WITHOUT ROWID";
        sqlite.connect()?.execute_batch(table).map_err(error)?;
        Ok(sqlite)
    }

    fn connect(&self) -> Result<Connection, Error> {
        let connection = Connection::open(&self.path).map_err(error)?;
        connection.busy_timeout(Duration::from_secs(60)).map_err(error)?;
        let setup: String =
            self.pragmas().iter().map(|pragma| format!("PRAGMA {pragma};")).collect();
        connection.execute_batch(&setup).map_err(error)?;
        Ok(connection)
    }

    fn pragmas(&self) -> Vec<String> {
        let mode = match self.journal {
            Journal::Wal => "WAL",
            Journal::Rollback => "TRUNCATE",
        };
        let cache = format!("cache_size=-{}", self.cache_kib);
        vec![format!("journal_mode={mode}"), "synchronous=FULL".into(), cache]
    }
}

impl Rival for Sqlite {
    fn settings(&self) -> Vec<String> {
        self.pragmas()
    }

    fn client(&self) -> Result<Box<dyn Client + '_>, Error> {
        Ok(Box::new(self.connect()?))
    }
}

impl Client for Connection {
    fn put(&mut self, key: &[u8], value: &[u8]) -> Result<(), Error> {
        let mut statement = self.prepare_cached(UPSERT).map_err(error)?;
        statement.execute((key, value)).map(drop).map_err(error)
    }

    fn get(&mut self, key: &[u8], out: &mut Vec<u8>) -> Result<bool, Error> {
        let mut statement =
            self.prepare_cached("SELECT v FROM bench WHERE k = ?1").map_err(error)?;
        out.clear();
        let copy = |row: &rusqlite::Row<'_>| {
            out.extend_from_slice(row.get_ref(0)?.as_blob()?);
            Ok(())
        };
        Ok(statement.query_row((key,), copy).optional().map_err(error)?.is_some())
    }

    fn remove(&mut self, key: &[u8]) -> Result<bool, Error> {
        let mut statement = self.prepare_cached(DELETE).map_err(error)?;
        Ok(statement.execute((key,)).map_err(error)? > 0)
    }

    fn write(&mut self, changes: &[Change<'_>]) -> Result<(), Error> {
        let transaction = self.transaction().map_err(error)?;
        {
            let mut put = transaction.prepare_cached(UPSERT).map_err(error)?;
            let mut remove = transaction.prepare_cached(DELETE).map_err(error)?;
            for change in changes {
                match *change {
                    Change::Put { key, value } => put.execute((key, value)),
                    Change::Remove { key } => remove.execute((key,)),
                }
                .map_err(error)?;
            }
        }
        transaction.commit().map_err(error)
    }

    fn scan(&mut self, key: &[u8], len: usize) -> Result<Option<usize>, Error> {
        let text = "SELECT k, v FROM bench WHERE k >= ?1 ORDER BY k LIMIT ?2";
        let mut statement = self.prepare_cached(text).map_err(error)?;
        let mut rows = statement.query((key, len as i64)).map_err(error)?;
        let mut count = 0;
        while let Some(row) = rows.next().map_err(error)? {
            std::hint::black_box(row.get_ref(0).map_err(error)?);
            touch(row.get_ref(1).map_err(error)?.as_blob().unwrap_or_default());
            count += 1;
        }
        Ok(Some(count))
    }
}
