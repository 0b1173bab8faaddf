//! The names by which clones keep what they read are not a program's to see, to give or to drop.

#![allow(unsafe_code, clippy::unwrap_used, clippy::panic)]

use std::ffi::{c_char, c_int};
use std::path::Path;

use rusqlite::{Connection, ErrorCode, ffi};
use tembo_array::Array;
use tembo_kv::{Options, Store};

type Entry = unsafe extern "C" fn(
    *mut ffi::sqlite3,
    *mut *mut c_char,
    *const ffi::sqlite3_api_routines,
) -> c_int;

fn connect(pool: &Path) -> Connection {
    // SAFETY: the function has these parameters; SQLite's structures are opaque to it.
    let entry = unsafe {
        std::mem::transmute::<*const (), Entry>(tembo_sqlite::auto_extension as *const ())
    };
    // SAFETY: the entry of an extension; a second time it is known already.
    assert_eq!(unsafe { ffi::sqlite3_auto_extension(Some(entry)) }, 0);
    drop(Connection::open_in_memory().unwrap());
    Connection::open(format!("file:{}?vfs=tembo", pool.display())).unwrap()
}

fn text(db: &Connection, sql: &str) -> rusqlite::Result<String> {
    db.query_row(sql, [], |row| row.get(0))
}

/// Makes a clone of the database; the names that there are then.
fn clone(pool: &Path) -> Vec<(String, u64)> {
    let store = Store::open(pool, &Options::new()).unwrap();
    let array = Array::open(&store).unwrap();
    let main = array.device("main").unwrap().snapshot().unwrap();
    array.clone_device(&main, "copy").unwrap();
    let names = store.snapshots();
    drop((array, main));
    store.close().unwrap();
    names
}

#[test]
fn names_that_keep_clones_readable_are_neither_shown_nor_given_nor_dropped() {
    let folder = tempfile::tempdir().unwrap();
    let pool = folder.path().join("app.pool");
    connect(&pool).execute_batch("create table t(a); insert into t values(1)").unwrap();
    let names = clone(&pool);
    assert_eq!(names.len(), 1);
    let db = connect(&pool);
    db.execute_batch("update t set a = 3").unwrap();
    assert_eq!(text(&db, "pragma tembo_snapshots").unwrap(), "");
    let own = &names[0].0;
    let asked = [
        format!("pragma tembo_drop_snapshot = '{own}'"),
        format!("pragma tembo_snapshot = '{own}'"),
        "pragma tembo_snapshot = 'tembo-array@mine'".to_owned(),
    ];
    for sql in asked {
        let refused = text(&db, &sql).unwrap_err();
        assert_eq!(refused.sqlite_error_code(), Some(ErrorCode::PermissionDenied), "{sql}");
    }
    assert!(text(&db, "pragma tembo_snapshot = 'mine'").is_ok());
    assert!(text(&db, "pragma tembo_snapshots").unwrap().starts_with("mine|"));
    let copy = connect(&pool.join("copy"));
    assert_eq!(copy.query_row("select a from t", [], |row| row.get(0)), Ok(1));
    drop((db, copy));
    let store = Store::open(&pool, &Options::new()).unwrap();
    assert!(store.snapshots().contains(&names[0]));
    store.close().unwrap();
}
