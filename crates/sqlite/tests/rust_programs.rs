//! A program in Rust with rusqlite, which links a SQLite of its own.

#![allow(unsafe_code, clippy::unwrap_used, clippy::panic)]

use std::ffi::{c_char, c_int};
use std::path::Path;

use rusqlite::{Connection, ErrorCode, TransactionBehavior, ffi};

type Entry = unsafe extern "C" fn(
    *mut ffi::sqlite3,
    *mut *mut c_char,
    *const ffi::sqlite3_api_routines,
) -> c_int;

fn connect(pool: &Path, more: &str) -> Connection {
    // SAFETY: the function has these parameters; SQLite's structures are opaque to it.
    let entry = unsafe {
        std::mem::transmute::<*const (), Entry>(tembo_sqlite::auto_extension as *const ())
    };
    // SAFETY: the entry of an extension; a second time it is known already.
    assert_eq!(unsafe { ffi::sqlite3_auto_extension(Some(entry)) }, 0);
    // The VFS is there when some connection has opened.
    drop(Connection::open_in_memory().unwrap());
    Connection::open(format!("file:{}?vfs=tembo{more}", pool.display())).unwrap()
}

fn one(db: &Connection, sql: &str) -> i64 {
    db.query_row(sql, [], |row| row.get(0)).unwrap()
}

#[test]
fn transactions_snapshots_and_threads_work_as_with_a_file() {
    let folder = tempfile::tempdir().unwrap();
    let pool = folder.path().join("app.pool");
    let mut db = connect(&pool, "");
    let mode: String =
        db.pragma_update_and_check(None, "journal_mode", "wal", |row| row.get(0)).unwrap();
    assert_eq!(mode, "wal");
    db.execute_batch("create table t(a integer primary key, b)").unwrap();
    for n in 0..20_i64 {
        let tx = db.transaction_with_behavior(TransactionBehavior::Immediate).unwrap();
        tx.execute("insert into t values(?, ?)", (n, "x".repeat(500))).unwrap();
        if n % 4 == 3 { tx.rollback() } else { tx.commit() }.unwrap();
    }
    assert_eq!(one(&db, "select count(*) from t"), 15);
    let version: String =
        db.pragma_update_and_check(None, "tembo_snapshot", "before", |row| row.get(0)).unwrap();
    assert!(version.parse::<u64>().unwrap() > 0);
    let writers = [0, 1].map(|writer| {
        let pool = pool.clone();
        std::thread::spawn(move || {
            let mut db = connect(&pool, "");
            db.busy_timeout(std::time::Duration::from_secs(60)).unwrap();
            for n in 0..50_i64 {
                let tx = db.transaction_with_behavior(TransactionBehavior::Immediate).unwrap();
                tx.execute("insert into t values(?, '')", [1000 + 2 * n + writer]).unwrap();
                tx.commit().unwrap();
            }
        })
    });
    writers.into_iter().for_each(|writer| writer.join().unwrap());
    assert_eq!(one(&db, "select count(*) from t"), 115);
    let then = connect(&pool, "&snapshot=before");
    assert_eq!(one(&then, "select count(*) from t"), 15);
    let refused = then.execute("delete from t", []).unwrap_err();
    assert_eq!(refused.sqlite_error_code(), Some(ErrorCode::ReadOnly));
    drop((then, db));
    let db = connect(&pool, "");
    assert_eq!(one(&db, "select count(*) from t"), 115);
    let check: String = db.query_row("pragma integrity_check", [], |row| row.get(0)).unwrap();
    assert_eq!(check, "ok");
}

/// The lock that a connection has on its database.
fn lock_state(db: &Connection) -> c_int {
    let mut state: c_int = -1;
    // SAFETY: the connection is open, and with this number SQLite asks for a place for the answer.
    let code = unsafe {
        ffi::sqlite3_file_control(
            db.handle(),
            c"main".as_ptr(),
            ffi::SQLITE_FCNTL_LOCKSTATE,
            (&raw mut state).cast(),
        )
    };
    assert_eq!(code, ffi::SQLITE_OK);
    state
}

#[test]
fn a_connection_says_which_lock_it_has() {
    let folder = tempfile::tempdir().unwrap();
    let db = connect(&folder.path().join("app.pool"), "");
    db.execute_batch("create table t(a)").unwrap();
    assert_eq!(lock_state(&db), 0);
    db.execute_batch("begin; select * from t").unwrap();
    assert_eq!(lock_state(&db), 1);
    db.execute_batch("insert into t values(1)").unwrap();
    assert_eq!(lock_state(&db), 2);
    db.execute_batch("commit").unwrap();
    assert_eq!(lock_state(&db), 0);
}
