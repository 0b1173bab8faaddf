//! A clone in a pool that came from a backup: why it is not opened.

use std::ops::ControlFlow;

use rusqlite::ErrorCode;
use tembo_kv::backup::restore;
use tembo_kv::{Options, SaveOptions, Store};

use super::own_names::clone;
use super::{LOG, connect, one, try_connect};

#[test]
fn the_error_log_says_why_a_lost_clone_is_not_opened() {
    let folder = tempfile::tempdir().unwrap();
    let [pool, backup, restored] =
        ["app.pool", "saved", "restored.pool"].map(|name| folder.path().join(name));
    connect(&pool, "").execute_batch("create table t(a); insert into t values(1)").unwrap();
    clone(&pool);
    let store = Store::open(&pool, &Options::new()).unwrap();
    store.save(&backup, &SaveOptions::default(), &mut |_| ControlFlow::Continue(())).unwrap();
    store.close().unwrap();
    restore(&[&backup], &restored, &Options::new(), &mut |_| {}).unwrap();
    let db = connect(&restored, "");
    db.query_row("pragma tembo_snapshot = 'monday'", [], |_| Ok(())).unwrap();
    let why = || {
        let is_why = |(code, text): &(i32, String)| {
            let says =
                text.contains("\"copy\" is a clone of version") && text.contains("remove it here");
            *code == rusqlite::ffi::SQLITE_CANTOPEN && says
        };
        LOG.lock().unwrap().iter().filter(|entry| is_why(entry)).count()
    };
    for (more, times) in [("", 1), ("&snapshot=monday", 2)] {
        let refused = try_connect(&restored.join("copy"), more).unwrap_err();
        assert_eq!(refused.sqlite_error_code(), Some(ErrorCode::CannotOpen), "{refused}");
        assert_eq!(why(), times, "{more}");
    }
    assert_eq!(one(&db, "select a from t"), 1);
}
