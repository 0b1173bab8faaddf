//! A program in Rust with rusqlite, which links a SQLite of its own.

#![allow(unsafe_code, clippy::unwrap_used, clippy::panic)]

mod lost_clones;
mod own_names;

use std::ffi::{CStr, c_char, c_int, c_void};
use std::path::Path;
use std::sync::{Mutex, Once};
use std::time::{Duration, Instant};

use rusqlite::{Connection, ErrorCode, TransactionBehavior, ffi};
use tembo_kv::{Options, Store};
use tembo_sqlite::Owner;

type Entry = unsafe extern "C" fn(
    *mut ffi::sqlite3,
    *mut *mut c_char,
    *const ffi::sqlite3_api_routines,
) -> c_int;

/// What the error log of this program got: codes and texts.
static LOG: Mutex<Vec<(c_int, String)>> = Mutex::new(Vec::new());

type Log = unsafe extern "C" fn(*mut c_void, c_int, *const c_char);

/// # Safety
/// SQLite calls it, with a text that ends with a zero.
unsafe extern "C" fn log(_: *mut c_void, code: c_int, text: *const c_char) {
    // SAFETY: SQLite's promise.
    let text = unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned();
    LOG.lock().unwrap().push((code, text));
}

fn connect(pool: &Path, more: &str) -> Connection {
    try_connect(pool, more).unwrap()
}

fn try_connect(pool: &Path, more: &str) -> rusqlite::Result<Connection> {
    static CONFIGURED: Once = Once::new();
    CONFIGURED.call_once(|| {
        let nothing: *mut c_void = std::ptr::null_mut();
        // SAFETY: nothing has used SQLite before, and these are the arguments of that option.
        let code = unsafe { ffi::sqlite3_config(ffi::SQLITE_CONFIG_LOG, log as Log, nothing) };
        assert_eq!(code, ffi::SQLITE_OK);
    });
    // SAFETY: the function has these parameters; SQLite's structures are opaque to it.
    let entry = unsafe {
        std::mem::transmute::<*const (), Entry>(tembo_sqlite::auto_extension as *const ())
    };
    // SAFETY: the entry of an extension; a second time it is known already.
    assert_eq!(unsafe { ffi::sqlite3_auto_extension(Some(entry)) }, 0);
    // The VFS is there when some connection has opened.
    drop(Connection::open_in_memory().unwrap());
    Connection::open(format!("file:{}?vfs=tembo{more}", pool.display()))
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
            db.busy_timeout(Duration::from_secs(60)).unwrap();
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

/// A pool that this process owns, and that does not grow.
fn small(pool: &Path) -> Owner {
    of_size(pool, &Options::new(), 4 << 20)
}

fn of_size(pool: &Path, options: &Options, bytes: u64) -> Owner {
    let store = Store::create(pool, &options.clone().size(bytes).size_max(bytes)).unwrap();
    Owner::new(pool, store).unwrap()
}

/// A connection with two databases of a pool.
fn two(pool: &Path, pragmas: &str) -> Connection {
    let db = connect(&pool.join("one"), "");
    let attach = format!("attach 'file:{}/two?vfs=tembo' as two", pool.display());
    let tables = "create table t(x); insert into t values(1); create table two.big(y)";
    let cache = "pragma main.cache_size = -100000; pragma two.cache_size = -100000";
    db.execute_batch(&format!("{attach}; {pragmas}; {cache}; {tables}")).unwrap();
    db
}

#[test]
fn a_transaction_of_two_databases_that_changes_nothing_commits() {
    let folder = tempfile::tempdir().unwrap();
    let pool = folder.path().join("app.pool");
    let owner = small(&pool);
    let db = two(&pool, "");
    for _ in 0..2 {
        db.execute_batch("begin immediate; commit; begin immediate; rollback").unwrap();
        db.execute_batch("begin immediate; update t set x = x; commit").unwrap();
    }
    assert_eq!(one(&db, "select x from t"), 1);
    drop((db, owner));
}

/// Commits more than the pool has space for.
fn overfill(db: &Connection) {
    db.execute_batch("begin; update t set x = 7").unwrap();
    let insert = "insert into two.big values(randomblob(500000))";
    (0..16).for_each(|_| assert_eq!(db.execute(insert, []), Ok(1)));
    let refused = db.execute_batch("commit").unwrap_err();
    assert_eq!(refused.sqlite_error_code(), Some(ErrorCode::DiskFull), "{refused}");
    assert!(db.is_autocommit());
}

/// Changes something in a pool that takes its space back from a transaction that is over.
fn change(db: &Connection, sql: &str) {
    let end = Instant::now() + Duration::from_secs(60);
    while let Err(error) = db.execute_batch(sql) {
        let is_full = error.sqlite_error_code() == Some(ErrorCode::DiskFull);
        assert!(is_full && db.is_autocommit() && Instant::now() < end, "{error}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn is_sound(db: &Connection) {
    for name in ["main", "two"] {
        let check = format!("pragma {name}.integrity_check");
        assert_eq!(db.query_row(&check, [], |row| row.get::<_, String>(0)).unwrap(), "ok");
    }
    assert_eq!(one(db, "select count(*) from two.big"), 0);
}

#[test]
fn a_commit_of_two_databases_that_finds_no_space_leaves_nothing_in_a_cache() {
    for journal in ["delete", "truncate", "persist"] {
        let folder = tempfile::tempdir().unwrap();
        let pool = folder.path().join("app.pool");
        let owner = small(&pool);
        let a = two(&pool, &format!("pragma journal_mode = {journal}"));
        let b = connect(&pool.join("one"), "");
        for n in 0..3 {
            overfill(&a);
            // With it the change counter is what it was in the commit that failed.
            change(&b, "update t set x = x + 99");
            assert_eq!(one(&a, "select x from t"), 100 + 100 * n);
            change(&a, "update t set x = x + 1");
            assert_eq!(one(&b, "select x from t"), 101 + 100 * n);
            is_sound(&a);
        }
        drop((a, b, owner));
    }
}

#[test]
fn a_commit_of_two_databases_of_which_the_second_finds_no_space_leaves_nothing_in_a_cache() {
    let folder = tempfile::tempdir().unwrap();
    let pool = folder.path().join("app.pool");
    // What is written before the commit does not stay in memory, and there is no space to write all of it twice.
    let options = Options::new().transaction_memory(64 << 10);
    let owner = of_size(&pool, &options, 12 << 20);
    let a = two(&pool, "");
    let b = connect(&pool.join("two"), "");
    a.execute_batch("create table two.u(x); insert into u values(1)").unwrap();
    let insert = "insert into two.big values(randomblob(500000))";
    (0..10).for_each(|_| assert_eq!(a.execute(insert, []), Ok(1)));
    for n in 0..3 {
        a.execute_batch("begin; update t set x = 7; update u set x = 7").unwrap();
        // In place, so that nothing else of page 1 differs.
        a.execute_batch("update big set y = randomblob(500000)").unwrap();
        let refused = a.execute_batch("commit").unwrap_err();
        assert_eq!(refused.sqlite_error_code(), Some(ErrorCode::DiskFull), "{refused}");
        change(&b, "update u set x = x + 99");
        assert_eq!(one(&a, "select x from u"), 100 + 100 * n);
        change(&a, "update u set x = x + 1");
        assert_eq!(one(&b, "select x from u"), 101 + 100 * n);
        assert_eq!(one(&a, "select x from t"), 1);
    }
    drop((a, b, owner));
}

#[test]
fn a_commit_of_two_databases_that_fails_leaves_nothing_in_a_cache_that_is_never_dropped() {
    let folder = tempfile::tempdir().unwrap();
    let pool = folder.path().join("app.pool");
    let owner = small(&pool);
    let a = two(&pool, "pragma locking_mode = exclusive");
    for n in 0..3 {
        overfill(&a);
        assert_eq!(one(&a, "select x from t"), 1 + n);
        change(&a, "update t set x = x + 1");
        assert_eq!(one(&connect(&pool.join("one"), ""), "select x from t"), 2 + n);
        is_sound(&a);
    }
    drop((a, owner));
}

#[test]
fn what_one_pool_has_committed_stays_and_is_shown_when_another_one_fails() {
    let folder = tempfile::tempdir().unwrap();
    let (first, second) = (folder.path().join("first.pool"), folder.path().join("second.pool"));
    let owner = small(&second);
    let db = connect(&first, "");
    let attach = format!("attach 'file:{}/two?vfs=tembo' as two", second.display());
    let cache = "pragma two.cache_size = -100000";
    let tables = "create table t(x); insert into t values(1); create table two.big(y)";
    db.execute_batch(&format!("{attach}; {cache}; {tables}")).unwrap();
    overfill(&db);
    for connection in [&db, &connect(&first, "")] {
        assert_eq!(one(connection, "select x from t"), 7);
    }
    assert_eq!(one(&db, "select count(*) from two.big"), 0);
    change(&db, "begin; update t set x = 8; insert into two.big values(8); commit");
    assert_eq!(one(&db, "select x + y from t, two.big"), 16);
    drop((db, owner));
}
