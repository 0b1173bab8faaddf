//! The names by which clones keep what they read are not a program's to see, to give or to drop.

use std::path::Path;

use rusqlite::{Connection, ErrorCode};
use tembo_array::Array;
use tembo_kv::{Options, Store};

use super::connect;

fn text(db: &Connection, sql: &str) -> rusqlite::Result<String> {
    db.query_row(sql, [], |row| row.get(0))
}

/// Makes a clone of the database; the names that there are then.
pub(super) fn clone(pool: &Path) -> Vec<(String, u64)> {
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
    connect(&pool, "").execute_batch("create table t(a); insert into t values(1)").unwrap();
    let names = clone(&pool);
    assert_eq!(names.len(), 1);
    let db = connect(&pool, "");
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
        let said = refused.to_string();
        assert!(said.contains("keeps what clones read: use another name"), "{said}");
    }
    assert!(text(&db, "pragma tembo_snapshot = 'mine'").is_ok());
    assert!(text(&db, "pragma tembo_snapshots").unwrap().starts_with("mine|"));
    let long = text(&db, &format!("pragma tembo_snapshot = '{}'", "x".repeat(80))).unwrap_err();
    assert!(long.to_string().contains("drop one, or use a shorter one"), "{long}");
    let copy = connect(&pool.join("copy"), "");
    assert_eq!(copy.query_row("select a from t", [], |row| row.get(0)), Ok(1));
    drop((db, copy));
    let store = Store::open(&pool, &Options::new()).unwrap();
    assert!(store.snapshots().contains(&names[0]));
    store.close().unwrap();
}
