//! Backups: what comes back is what there was, whatever happens to the file and to the process.
#![allow(clippy::unwrap_used, clippy::print_stdout)]

use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use tembo_kv::backup::{restore, verify};
use tembo_kv::{
    BackupError, Durability, Error, IndexKind, Options, Retention, SaveOptions, Since, Store,
};
use tembo_pmem::{DomainRequest, RegionOptions};
use tembo_pool::PoolOptions;

#[path = "driver/directory.rs"]
mod directory;
#[path = "driver/map.rs"]
mod map;
#[path = "driver/state.rs"]
mod state;

use directory::Directory;
use state::{State, state};

fn go_on(_: u64) -> ControlFlow<()> {
    ControlFlow::Continue(())
}

fn options(index: IndexKind) -> Options {
    let (domain, size_max, log_size) = (DomainRequest::Logged, 1 << 30, 4 << 20);
    let region = RegionOptions { domain, size_max, log_size, ..RegionOptions::default() };
    let pool = PoolOptions { size: 8 << 20, region, ..PoolOptions::default() };
    Options::new().pool(pool).index(index)
}

fn now(store: &Store) -> State {
    state(&store.snapshot().unwrap())
}

/// Changes keys from `from` on: some are put, some removed.
fn change(store: &Store, name: &str, numbers: std::ops::Range<u64>, mark: u8) {
    let space = store.keyspace(name).unwrap();
    for number in numbers {
        let key = format!("{number:06}-{}", "k".repeat((number % 13) as usize)).into_bytes();
        if number % 5 == u64::from(mark % 5) {
            store.remove(space, &key, Durability::Buffered).unwrap();
        } else {
            let value = vec![mark; (number % 700) as usize];
            store.put(space, &key, &value, Durability::Buffered).unwrap();
        }
    }
}

fn full() -> SaveOptions {
    SaveOptions { since: None, keep: Some("last".into()) }
}

fn since(version: u64) -> SaveOptions {
    SaveOptions { since: Some(Since::Version(version)), ..full() }
}

fn restored(backups: &[&Path], pool: &Path, index: IndexKind) -> State {
    restore(backups, pool, &options(index), &mut |_| ()).unwrap();
    let store = Store::open(pool, &options(index)).unwrap();
    let state = now(&store);
    assert_eq!(store.check().unwrap().leaked, 0);
    state
}

#[test]
fn a_row_of_backups_brings_back_each_of_its_versions() {
    let (cdds, nvtree, hash) = (IndexKind::Cdds, IndexKind::Nvtree, IndexKind::Hash);
    for (index, other) in [(nvtree, cdds), (cdds, nvtree), (hash, nvtree), (nvtree, hash)] {
        let directory = Directory::new("row");
        let store = Store::create(&directory.file("a.pool"), &options(index)).unwrap();
        change(&store, "a", 0..3000, 7);
        change(&store, "b", 0..10, 1);
        let mut states = vec![now(&store)];
        let files: Vec<PathBuf> =
            (0..4).map(|number| directory.file(&format!("{number}.bak"))).collect();
        let first = store.save(&files[0], &full(), &mut go_on).unwrap();
        let mut last = first.until;
        for (number, file) in files.iter().enumerate().skip(1) {
            change(&store, "a", number as u64 * 500..number as u64 * 700, number as u8);
            if number == 2 {
                let space = store.keyspace("b").unwrap();
                let mut tx = store.exclusive().unwrap();
                tx.clear(space).unwrap();
                tx.put(space, b"again", b"1").unwrap();
                tx.commit(Durability::Strict).unwrap();
                change(&store, "c", 0..100, 3);
            }
            let info = store.save(file, &since(last), &mut go_on).unwrap();
            assert_eq!(info.since, Some(last));
            assert!(info.until <= store.visible());
            assert!(info.bytes < first.bytes / 2, "{info:?}");
            assert_eq!(verify(file, &mut |_| ()).unwrap(), info);
            states.push(now(&store));
            last = info.until;
        }
        assert_eq!(store.snapshots(), [("last".to_owned(), last)]);
        for (number, state) in states.iter().enumerate() {
            let row: Vec<&Path> = files[..=number].iter().map(PathBuf::as_path).collect();
            let pool = directory.file(&format!("{number}.pool"));
            assert!(restored(&row, &pool, other) == *state, "{number}");
        }
        let row: Vec<&Path> = [&files[0], &files[2]].iter().map(|file| file.as_path()).collect();
        let pool = directory.file("gap.pool");
        let gap = restore(&row, &pool, &options(index), &mut |_| ()).unwrap_err();
        assert!(matches!(gap, BackupError::NotInARow { found, expected, .. }
            if expected == first.until && found > expected));
        assert!(!pool.exists());
    }
}

#[test]
fn a_backup_is_of_one_version_whatever_others_write() {
    let directory = Directory::new("online");
    let store = Store::create(&directory.file("a.pool"), &options(IndexKind::Nvtree)).unwrap();
    let space = store.keyspace("sums").unwrap();
    // Every transaction moves an amount from one key to another.
    let accounts = 2000u64;
    for account in 0..accounts {
        store
            .put(space, &account.to_be_bytes(), &100u64.to_le_bytes(), Durability::Buffered)
            .unwrap();
    }
    let stop = AtomicBool::new(false);
    let file = directory.file("a.bak");
    let transfers = std::thread::scope(|scope| {
        let transfer = || {
            let mut round = 0u64;
            while !stop.load(Ordering::Relaxed) {
                round += 1;
                let (from, to) = (round * 7919 % accounts, round * 104_729 % accounts);
                if from == to {
                    continue;
                }
                let mut tx = store.exclusive().unwrap();
                let mut add = |account: u64, amount: i64| {
                    let before = tx.get(space, &account.to_be_bytes()).unwrap().unwrap();
                    let before = u64::from_le_bytes(before.array(0).unwrap());
                    let after = before.wrapping_add_signed(amount).to_le_bytes();
                    tx.put(space, &account.to_be_bytes(), &after).unwrap();
                };
                add(from, -1);
                add(to, 1);
                tx.commit(Durability::Buffered).unwrap();
            }
            round
        };
        let writer = scope.spawn(transfer);
        for number in 0..10 {
            let _ = std::fs::remove_file(&file);
            store.save(&file, &SaveOptions::default(), &mut go_on).unwrap();
            let pool = directory.file(&format!("{number}.pool"));
            let state = restored(&[&file], &pool, IndexKind::Nvtree);
            let value = |bytes: &Vec<u8>| u64::from_le_bytes(bytes.as_slice().try_into().unwrap());
            assert_eq!(
                state["sums"].values().map(value).fold(0, u64::wrapping_add),
                accounts * 100
            );
        }
        stop.store(true, Ordering::Relaxed);
        writer.join().unwrap()
    });
    assert!(transfers > 100);
    assert!(store.snapshots().is_empty(), "no name is left");
}

#[test]
fn an_interrupted_backup_goes_on_at_its_version() {
    let kinds = [IndexKind::Cdds, IndexKind::Nvtree, IndexKind::Hash];
    for (index, is_part) in kinds.into_iter().flat_map(|kind| [(kind, false), (kind, true)]) {
        let directory = Directory::new("resumed");
        let path = directory.file("a.pool");
        let mut store = Store::create(&path, &options(index)).unwrap();
        store.retain(Retention::Since(store.visible())).unwrap();
        change(&store, "a", 0..3000, 1);
        change(&store, "b", 0..3000, 2);
        let before = store.visible();
        change(&store, "a", 1000..3000, 8);
        change(&store, "b", 1000..2500, 9);
        let wanted = now(&store);
        let wants = SaveOptions { since: is_part.then_some(Since::Version(before)), keep: None };
        let file = directory.file("a.bak");
        let info = store.save(&file, &wants, &mut go_on).unwrap();
        let whole = std::fs::read(&file).unwrap();
        // As an interruption leaves it: a name, and what was written so far.
        let partial = directory.file("a.bak.partial");
        for cut in
            (0..8).map(|n| whole.len() * n / 8).chain([10, 64, 70, whole.len() - 3, whole.len()])
        {
            std::fs::remove_file(&file).unwrap();
            std::fs::write(&partial, &whole[..cut]).unwrap();
            let snapshot = store.snapshot_at(info.until).unwrap();
            store.name_snapshot("(backup under way)", &snapshot).unwrap();
            drop(snapshot);
            change(&store, "a", 0..10, cut as u8);
            let mut written = Vec::new();
            let again = store
                .save(&file, &wants, &mut |bytes| {
                    written.push(bytes);
                    go_on(bytes)
                })
                .unwrap();
            assert!(!partial.exists());
            if cut >= 64 {
                assert_eq!(again, info);
                assert_eq!(std::fs::read(&file).unwrap(), whole, "cut at {cut}");
                assert!(written[0] + (300 << 10) > cut as u64, "{cut} {written:?}");
            } else {
                assert!(again.until > info.until, "begun anew");
            }
            if cut == whole.len() / 2 {
                store.close().unwrap();
                store = Store::open(&path, &options(index)).unwrap();
            }
        }
        if !is_part {
            assert!(restored(&[&file], &directory.file("b.pool"), index) == wanted);
        }
    }
}

#[test]
fn a_backup_that_has_to_stop_goes_on_later_or_is_forgotten() {
    let directory = Directory::new("stopped");
    let store = Store::create(&directory.file("a.pool"), &options(IndexKind::Nvtree)).unwrap();
    change(&store, "a", 0..5000, 1);
    let (wanted, version) = (now(&store), store.visible());
    let (file, partial) = (directory.file("a.bak"), directory.file("a.bak.partial"));
    let stop_after = |size: u64| {
        let mut total = 0;
        move |bytes| {
            total += bytes;
            if total < size { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
        }
    };
    for size in [300 << 10, 0, 900 << 10] {
        let stopped = store.save(&file, &full(), &mut stop_after(size)).unwrap_err();
        assert!(matches!(stopped, BackupError::Interrupted { path } if path == file));
        assert!(partial.exists() && !file.exists());
        assert!(store.snapshots().iter().any(|(_, kept)| *kept == version));
        change(&store, "a", 0..50, 2);
    }
    let info = store.save(&file, &full(), &mut go_on).unwrap();
    assert_eq!(info.until, version);
    assert!(restored(&[&file], &directory.file("b.pool"), IndexKind::Nvtree) == wanted);

    let (other, partial) = (directory.file("c.bak"), directory.file("c.bak.partial"));
    store.save(&other, &full(), &mut stop_after(300 << 10)).unwrap_err();
    assert!(partial.exists() && store.snapshots().len() == 2);
    for _ in 0..2 {
        store.abandon_save(&other).unwrap();
        assert!(!partial.exists());
        assert_eq!(store.snapshots(), [("last".to_owned(), version)]);
    }
}

#[test]
fn every_damage_is_found_before_anything_is_made() {
    let directory = Directory::new("damage");
    let store = Store::create(&directory.file("a.pool"), &options(IndexKind::Nvtree)).unwrap();
    change(&store, "a", 0..900, 1);
    let file = directory.file("a.bak");
    store.save(&file, &full(), &mut go_on).unwrap();
    let exists = store.save(&file, &full(), &mut go_on).unwrap_err();
    assert!(matches!(exists, BackupError::Exists { path } if path == file));
    let refused = store.save(&directory.file("b.bak"), &since(1), &mut go_on).unwrap_err();
    assert!(matches!(refused, BackupError::Store(Error::NotRetained { version: 1 })));
    let whole = std::fs::read(&file).unwrap();
    let (damaged, pool) = (directory.file("d.bak"), directory.file("d.pool"));
    let mut tried = 0;
    let ends = (0..120).chain(whole.len() - 60..whole.len());
    for at in ends.chain((120..whole.len() - 60).step_by(whole.len() / 40)) {
        for bytes in [&whole[..at], &[&whole[..at], &[!whole[at]], &whole[at + 1..]].concat()] {
            std::fs::write(&damaged, bytes).unwrap();
            let found = restore(&[&damaged], &pool, &options(IndexKind::Cdds), &mut |_| ());
            let is_found = matches!(
                found.unwrap_err(),
                BackupError::Damaged { .. }
                    | BackupError::NotABackup { .. }
                    | BackupError::NewerVersion { .. }
            );
            assert!(is_found && !pool.exists(), "byte {at} of {}", whole.len());
            tried += 1;
        }
    }
    assert!(tried > 400);
    std::fs::write(&damaged, [&whole[..], b"more"].concat()).unwrap();
    assert!(verify(&damaged, &mut |_| ()).is_err());
}

#[test]
fn a_backup_is_read_by_no_more_users_than_its_pool() {
    use std::os::unix::fs::MetadataExt;
    let directory = Directory::new("backup-mode");
    let (pool, file) = (directory.pool(), directory.file("backup"));
    let store = Store::create(&pool, &options(IndexKind::Nvtree)).unwrap();
    change(&store, "x", 0..10, 1);
    store.save(&file, &full(), &mut go_on).unwrap();
    let mode = |path: &Path| std::fs::metadata(path).unwrap().mode() & 0o777;
    assert_eq!((mode(&file), mode(&file) & 0o007), (mode(&pool), 0));
}

/// What was rolled back is in the backup that was taken before: no backup follows that one.
#[test]
fn no_incremental_backup_follows_one_of_a_version_that_was_rolled_back() {
    for index in IndexKind::ALL {
        let directory = Directory::new(&format!("void-{}", index.name()));
        let path = directory.file("a.pool");
        let mut store = Store::create(&path, &options(index)).unwrap();
        change(&store, "a", 0..100, 1);
        let kept = store.visible();
        store.retain(Retention::Since(kept)).unwrap();
        change(&store, "a", 100..200, 2);
        let whole = SaveOptions { since: None, keep: None };
        let info = store.save(&directory.file("whole.bak"), &whole, &mut go_on).unwrap();
        store.rollback(kept).unwrap();
        change(&store, "a", 200..300, 3);
        for life in 0..3 {
            let part = directory.file("part.bak");
            let wants = SaveOptions { since: Some(Since::Version(info.until)), keep: None };
            let refused = store.save(&part, &wants, &mut go_on);
            assert!(
                matches!(refused, Err(BackupError::Store(Error::RolledBack { to, .. })) if to <= kept),
                "{index:?}, life {life}: {refused:?}"
            );
            // It shows what the rollback went back to. Under a name a backup could begin with it.
            let void = store.snapshot_at(info.until).unwrap();
            assert!(state(&void) == state(&store.snapshot_at(kept).unwrap()));
            let refused = store.name_snapshot("void", &void);
            assert!(
                matches!(refused, Err(Error::RolledBack { .. })),
                "{index:?}, life {life}: {refused:?}"
            );
            drop(void);
            // What came later, or before, gets one.
            for version in [kept, store.visible()] {
                store.name_snapshot("there", &store.snapshot_at(version).unwrap()).unwrap();
            }
            store.drop_snapshot("there").unwrap();
            // Of the version that it went back to one can begin, and of one that was named since.
            for since in [Since::Version(kept), Since::Name("later".to_owned())] {
                if life == 0 {
                    store.save_snapshot("later").unwrap();
                }
                let wants = SaveOptions { since: Some(since), keep: None };
                store.save(&part, &wants, &mut go_on).unwrap();
                std::fs::remove_file(&part).unwrap();
            }
            while store.report().recovering {
                std::thread::yield_now();
            }
            store.close().unwrap();
            store = Store::open(&path, &options(index)).unwrap();
            change(&store, "a", 300..320, life);
        }
    }
}

/// Of rollbacks by earlier processes only the hull is known. A version in it that is sure to have happened has a name, and gets others.
#[test]
fn between_two_rollbacks_of_earlier_processes_only_versions_with_a_name_get_one() {
    for index in IndexKind::ALL {
        let directory = Directory::new(&format!("hull-{}", index.name()));
        let path = directory.file("a.pool");
        let mut store = Store::create(&path, &options(index)).unwrap();
        store.retain(Retention::Since(store.visible())).unwrap();
        let mut between = [0; 2];
        for version in &mut between {
            change(&store, "a", 0..50, 1);
            let back = store.visible();
            change(&store, "a", 0..50, 2);
            store.rollback(back).unwrap();
            change(&store, "a", 0..50, 3);
            *version = store.save_snapshot("last").unwrap();
            change(&store, "a", 0..50, 4);
        }
        let [unnamed, last] = between;
        change(&store, "a", 0..50, 5);
        store.rollback(last).unwrap();
        while store.report().recovering {
            std::thread::yield_now();
        }
        for life in 0..2 {
            let name = |name: &str, version| {
                store.name_snapshot(name, &store.snapshot_at(version).unwrap())
            };
            name("again", last).unwrap();
            let named = name("again", unnamed);
            match life {
                0 => named.unwrap(),
                _ => assert!(matches!(named, Err(Error::RolledBack { .. })), "{named:?}"),
            }
            store.drop_snapshot("again").unwrap();
            store.close().unwrap();
            store = Store::open(&path, &options(index)).unwrap();
        }
    }
}

/// A store that is opened again knows less of when a range was erased; the backup goes on as it was begun.
#[test]
fn an_interrupted_backup_goes_on_as_the_kind_that_it_was_begun_as() {
    for index in IndexKind::ORDERED {
        let directory = Directory::new(&format!("kind-{}", index.name()));
        let path = directory.file("a.pool");
        let mut store = Store::create(&path, &options(index)).unwrap();
        store.retain(Retention::Since(store.visible())).unwrap();
        change(&store, "a", 0..4000, 1);
        let before = store.visible();
        change(&store, "a", 1000..3000, 8);
        let space = store.keyspace("a").unwrap();
        store.remove_range(space, b"002800".to_vec().., Durability::Strict).unwrap();
        let count = |store: &Store| store.exclusive().unwrap().count(space);
        while count(&store).is_none() {
            std::thread::yield_now();
        }
        let wanted = now(&store);
        let wants = SaveOptions { since: Some(Since::Version(before)), keep: None };
        let (file, partial) = (directory.file("a.bak"), directory.file("a.bak.partial"));
        let info = store.save(&file, &wants, &mut go_on).unwrap();
        let whole = std::fs::read(&file).unwrap();
        std::fs::rename(&file, directory.file("first.bak")).unwrap();
        std::fs::write(&partial, &whole[..whole.len() * 3 / 4]).unwrap();
        let snapshot = store.snapshot_at(info.until).unwrap();
        store.name_snapshot("(backup under way)", &snapshot).unwrap();
        drop(snapshot);
        change(&store, "a", 0..10, 3);
        store.close().unwrap();
        store = Store::open(&path, &options(index)).unwrap();
        assert_eq!(store.save(&file, &wants, &mut go_on).unwrap(), info);
        assert!(std::fs::read(&file).unwrap() == whole, "{index:?}");
        assert_eq!(wanted.len(), 1);
    }
}
