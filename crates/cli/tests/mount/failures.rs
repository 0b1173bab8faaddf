//! What programs get of a mount when something is wrong: a full pool, a damaged one, a forged one, hostile names.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::{ErrorKind, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileExt, symlink};
use std::path::Path;

use tembo_fs::{FileKind, Format, Fs, New, ROOT, Time};
use tembo_kv::{Durability, Options, Store};

use crate::mounted::{Mounted, tembo, text};

const NOW: Time = Time { seconds: 1, nanoseconds: 0 };

/// Makes a pool with the files `a`, `b` and `c`, and changes what lies in the store: `forge` gets the inode of `b`.
fn forged(path: &Path, forge: impl FnOnce(&Store, u64)) {
    let store = Store::create(path, &Options::new()).unwrap();
    let root = New { permissions: 0o777, ..Format::default().root };
    let fs = Fs::format(&store, &Format { root, ..Format::default() }, NOW).unwrap();
    let new = New { kind: FileKind::Regular, permissions: 0o666, ..root };
    let mut second = 0;
    for name in [b"a", b"b", b"c"] {
        let write = |tree: &mut tembo_fs::AnyTreeMut<'_, '_>| {
            let inode = tree.create(ROOT, name, &new)?;
            tree.write(inode.number, 0, name)?;
            Ok(inode.number)
        };
        let number = fs.write(NOW, Durability::Strict, write).unwrap();
        if name == b"b" {
            second = number;
        }
    }
    drop(fs);
    forge(&store, second);
    store.close().unwrap();
}

fn names(at: &Path) -> Vec<Vec<u8>> {
    let entries = fs::read_dir(at).unwrap().map(|entry| entry.unwrap().file_name());
    let mut names: Vec<Vec<u8>> = entries.map(|name| name.as_bytes().to_vec()).collect();
    names.sort();
    names
}

#[test]
fn a_write_that_exceeds_the_limit_fails_and_a_close_never() {
    let Some(mounted) = Mounted::with(&["--size-max", "8M"], |_| ()) else { return };
    let at = mounted.at();
    fs::write(at.join("kept"), vec![1; 100_000]).unwrap();
    let file = File::create(at.join("large")).unwrap();
    let mut offset = 0;
    let error = loop {
        match file.write_at(&[7; 65_536], offset) {
            Ok(len) => offset += len as u64,
            Err(error) => break error,
        }
        assert!(offset < 8 << 20, "no limit holds");
    };
    let is_full = |error: &std::io::Error| {
        matches!(error.kind(), ErrorKind::QuotaExceeded | ErrorKind::StorageFull)
    };
    assert!(is_full(&error), "{error}");
    file.sync_all().unwrap();
    drop(file);
    // What was written is there, and reads go on.
    assert_eq!(fs::metadata(at.join("large")).unwrap().len(), offset);
    assert!(fs::read(at.join("large")).unwrap().iter().all(|&byte| byte == 7));
    assert_eq!(fs::read(at.join("kept")).unwrap(), vec![1; 100_000]);
    fs::remove_file(at.join("large")).unwrap();
    mounted.end();
}

#[test]
fn of_a_damaged_file_only_that_file_is_refused() {
    let make = |path: &Path| {
        forged(path, |store, b| {
            let tree = store.keyspace("fs.tree").unwrap();
            let key = [&b"i"[..], &b.to_be_bytes()].concat();
            store.put(tree, &key, b"no inode", Durability::Strict).unwrap();
        });
    };
    let Some(mut mounted) = Mounted::with(&[], make) else { return };
    let at = mounted.at();
    assert_eq!(names(&at), [b"a", b"b", b"c"]);
    let error = fs::read(at.join("b")).unwrap_err();
    assert_eq!(error.raw_os_error(), Some(5), "{error}");
    assert_eq!(fs::read(at.join("a")).unwrap(), b"a");
    assert_eq!(fs::read(at.join("c")).unwrap(), b"c");
    fs::write(at.join("d"), "d").unwrap();
    assert_eq!(fs::read(at.join("d")).unwrap(), b"d");
    mounted.unmount();
    let checked = tembo(&["fs", "check", text(&mounted.pool())]);
    assert!(!checked.status.success(), "{checked:?}");
}

#[test]
fn a_forged_pool_leads_out_of_no_target() {
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let outside = folder.path().join("outside");
    for (number, name) in ["../outside", text(&outside), "..", "d/outside"].iter().enumerate() {
        let pool = folder.path().join(format!("{number}.pool"));
        forged(&pool, |store, b| {
            let tree = store.keyspace("fs.tree").unwrap();
            let cookie = [&b"c"[..], &ROOT.to_be_bytes(), &99_u64.to_be_bytes()].concat();
            let entry = [&b.to_le_bytes()[..], &[0o10, 0, 0, 0, 0, 0, 0, 0], name.as_bytes()];
            store.put(tree, &cookie, &entry.concat(), Durability::Strict).unwrap();
        });
        let target = folder.path().join(format!("target{number}"));
        let exported = tembo(&["fs", "export", text(&pool), "/", text(&target)]);
        assert!(!exported.status.success(), "{name}: {exported:?}");
        assert!(!outside.exists(), "{name}");
        let checked = tembo(&["fs", "check", text(&pool)]);
        assert!(!checked.status.success(), "{name}: {checked:?}");
    }
}

#[test]
fn names_are_any_bytes_and_lead_nowhere_else() {
    let Some(mounted) = Mounted::new() else { return };
    let at = mounted.at();
    let long = [b'x'; 255];
    let some = [&b"\xff\xfe"[..], b"new\nline", b" ", b"-rf", b"...", b"\x01\x1b[2J", &long];
    for name in some {
        fs::write(at.join(OsStr::from_bytes(name)), name).unwrap();
    }
    for name in some {
        assert_eq!(fs::read(at.join(OsStr::from_bytes(name))).unwrap(), name);
    }
    assert_eq!(names(&at).len(), some.len());
    let error = File::create(at.join("y".repeat(256))).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidFilename, "{error}");
    // A link to itself, and one that leads out, are what they are on other file systems.
    symlink("loop", at.join("loop")).unwrap();
    assert_eq!(fs::read(at.join("loop")).unwrap_err().raw_os_error(), Some(40));
    // The control folder is neither made nor replaced nor removed.
    fs::create_dir(at.join("d")).unwrap();
    assert!(fs::rename(at.join("d"), at.join(".tembo")).is_err());
    assert!(fs::remove_dir(at.join(".tembo")).is_err());
    assert!(fs::rename(at.join(".tembo"), at.join("e")).is_err());
    let mut begun = File::options().read(true).write(true).open(at.join(".tembo/begin")).unwrap();
    begun.write_all(b"abort").unwrap();
    drop(begun);
    mounted.end();
}
