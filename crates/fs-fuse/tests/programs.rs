//! What programs find that work beside each other, and beside transactions.
//!
//! Where FUSE is not permitted, the tests say so and do nothing.

#![allow(clippy::unwrap_used, clippy::panic, clippy::print_stderr)]

#[path = "mounted/served.rs"]
mod mounted;

use std::fs::{self, File, FileTimes, OpenOptions};
use std::io::{ErrorKind, Read, Write};
use std::os::unix::fs::{FileExt, MetadataExt, symlink};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant, UNIX_EPOCH};

use rustix::io::Errno;
use tembo_fs::Fs;

use mounted::Served;

/// Begins a transaction: the file by which it is committed, and its tree.
fn begin(served: &Served) -> (File, PathBuf) {
    let control = served.at(".tembo");
    let mut begun = OpenOptions::new().read(true).write(true).open(control.join("begin")).unwrap();
    let mut number = [0; 32];
    let len = begun.read(&mut number).unwrap();
    let number = str::from_utf8(&number[..len]).unwrap().trim();
    (begun, control.join("transactions").join(number))
}

/// That all parts of the file system fit to each other. Nothing has a file open.
fn is_sound(served: &Served) {
    let check = Fs::open(&served.store).unwrap().snapshot().unwrap().check().unwrap();
    assert_eq!(check.findings, []);
}

fn append(path: &Path) -> File {
    OpenOptions::new().append(true).create(true).open(path).unwrap()
}

/// Appends in a transaction, which is committed.
fn append_as_one(served: &Served, name: &str, bytes: &[u8]) {
    let (mut begun, view) = begin(served);
    append(&view.join(name)).write_all(bytes).unwrap();
    begun.write_all(b"commit").unwrap();
}

fn waits_for(mut holds: impl FnMut() -> bool) {
    let patience = Instant::now() + Duration::from_secs(10);
    while !holds() {
        assert!(Instant::now() < patience, "it does not come");
        thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn an_append_comes_behind_what_a_transaction_has_appended() {
    let Some(served) = Served::new() else { return };
    let log = served.at("log");
    let mut appending = append(&log);
    appending.write_all(b"a\n").unwrap();
    append_as_one(&served, "log", b"bbbb\n");
    appending.write_all(b"c\n").unwrap();
    assert_eq!(fs::read(&log).unwrap(), b"a\nbbbb\nc\n");
    appending.write_all(b"d\n").unwrap();
    assert_eq!(fs::read(&log).unwrap(), b"a\nbbbb\nc\nd\n");
    // One that has cut it.
    let (mut begun, view) = begin(&served);
    fs::write(view.join("log"), b"e\n").unwrap();
    begun.write_all(b"commit").unwrap();
    appending.write_all(b"f\n").unwrap();
    assert_eq!(fs::read(&log).unwrap(), b"e\nf\n");
    drop(appending);
    is_sound(&served);
}

#[test]
fn whole_pages_that_are_appended_are_read_where_they_are() {
    let Some(served) = Served::new() else { return };
    let log = served.at("log");
    let mut appending = append(&log);
    let reading = File::open(&log).unwrap();
    let page = |byte| [byte; 4096];
    appending.write_all(&page(b'a')).unwrap();
    append_as_one(&served, "log", &page(b'b'));
    // The kernel has these bytes in its cache at the place that it believes them at.
    appending.write_all(&page(b'c')).unwrap();
    let at = |page: u64| {
        let mut bytes = [0; 4096];
        reading.read_exact_at(&mut bytes, page * 4096).is_ok().then_some(bytes)
    };
    waits_for(|| at(1) == Some(page(b'b')));
    assert_eq!(at(0), Some(page(b'a')));
    waits_for(|| at(2) == Some(page(b'c')));
    assert_eq!(fs::metadata(&log).unwrap().len(), 3 * 4096);
}

#[test]
fn a_file_of_a_snapshot_is_copied_and_not_linked() {
    let Some(served) = Served::new() else { return };
    let content: Vec<u8> = (0..200_000).map(|at| (at / 7) as u8).collect();
    fs::write(served.at("a"), &content).unwrap();
    fs::create_dir(served.at(".tembo/snapshots/before")).unwrap();
    fs::write(served.at("a"), "changed").unwrap();
    let old = served.at(".tembo/snapshots/before/a");
    // What is there is cut before the copy.
    fs::write(served.at("copied"), "kept").unwrap();
    fs::copy(&old, served.at("copied")).unwrap();
    assert!(fs::read(served.at("copied")).unwrap() == content);
    let linked = fs::hard_link(&old, served.at("linked")).unwrap_err();
    assert_eq!(linked.kind(), ErrorKind::CrossesDevices, "{linked}");
    // Into a transaction too.
    let (mut begun, view) = begin(&served);
    fs::copy(&old, view.join("copied again")).unwrap();
    begun.write_all(b"commit").unwrap();
    assert!(fs::read(served.at("copied again")).unwrap() == content);
    is_sound(&served);
}

/// Replaces a name so often, while another thread looks at it.
fn looked_at_while_replaced(
    served: &Served,
    make: impl Fn(&Path) + Sync,
    look: impl Fn(&Path) -> std::io::Result<()>,
) {
    const ROUNDS: usize = 3000;
    let (name, next, is_over) = (served.at("name"), served.at("next"), AtomicBool::new(false));
    make(&name);
    thread::scope(|scope| {
        scope.spawn(|| {
            for _ in 0..ROUNDS {
                make(&next);
                fs::rename(&next, &name).unwrap();
            }
            is_over.store(true, Ordering::Relaxed);
        });
        let mut errors = Vec::new();
        while !is_over.load(Ordering::Relaxed) {
            errors.extend(look(&name).err().map(|error| error.to_string()));
        }
        assert!(errors.is_empty(), "{}: {:?}", errors.len(), errors.first());
    });
}

#[test]
fn a_file_that_is_replaced_is_there_at_each_moment() {
    let Some(served) = Served::new() else { return };
    let make = |path: &Path| fs::write(path, "content").unwrap();
    looked_at_while_replaced(&served, make, |path| {
        let read = fs::read(path)?;
        assert_eq!(read, b"content");
        Ok(())
    });
    looked_at_while_replaced(&served, make, |path| {
        assert_eq!(fs::metadata(path)?.len(), 7);
        Ok(())
    });
}

#[test]
fn a_symbolic_link_that_is_replaced_is_there_at_each_moment() {
    let Some(served) = Served::new() else { return };
    let make = |path: &Path| symlink("to/what/ever", path).unwrap();
    looked_at_while_replaced(&served, make, |path| {
        assert_eq!(fs::read_link(path)?, Path::new("to/what/ever"));
        Ok(())
    });
}

#[test]
fn a_directory_that_is_removed_under_a_program_is_not_there() {
    let Some(served) = Served::new() else { return };
    let remove = |path: &Path| fs::remove_dir(path).unwrap();
    let replace = |path: &Path| {
        fs::create_dir(path.with_extension("other")).unwrap();
        fs::rename(path.with_extension("other"), path).unwrap();
    };
    let ways: [&dyn Fn(&Path); 2] = [&replace, &remove];
    for end in ways {
        let _ = fs::create_dir(served.at("d"));
        let path = rustix::fs::OFlags::PATH | rustix::fs::OFlags::DIRECTORY;
        let held = rustix::fs::open(served.at("d"), path, rustix::fs::Mode::empty()).unwrap();
        end(&served.at("d"));
        let listed =
            rustix::fs::openat(&held, ".", rustix::fs::OFlags::RDONLY, rustix::fs::Mode::empty());
        assert_eq!(listed.err(), Some(Errno::NOENT));
        let seen = rustix::fs::statat(&held, ".", rustix::fs::AtFlags::empty());
        assert_eq!(seen.err(), Some(Errno::NOENT));
    }
    assert_eq!(fs::metadata(served.at("d")).unwrap_err().kind(), ErrorKind::NotFound);
}

#[test]
fn what_the_mount_shows_of_itself_cannot_be_removed() {
    let Some(served) = Served::new() else { return };
    for name in [".tembo", ".tembo/snapshots", ".tembo/transactions"] {
        let removed = rustix::fs::unlink(served.at(name)).unwrap_err();
        assert!([Errno::ROFS, Errno::PERM, Errno::ISDIR].contains(&removed), "{name}: {removed}");
        let removed = rustix::fs::rmdir(served.at(name)).unwrap_err();
        assert!([Errno::ROFS, Errno::BUSY].contains(&removed), "{name}: {removed}");
    }
}

#[test]
fn times_before_1970_are_kept_to_the_nanosecond() {
    let Some(served) = Served::new() else { return };
    let file = File::create(served.at("a")).unwrap();
    let before = |nanoseconds: u64| UNIX_EPOCH - Duration::from_nanos(nanoseconds);
    for nanoseconds in [200_000_000, 1, 1_500_000_000, 3_000_000_000, 999_999_999] {
        let time = before(nanoseconds);
        file.set_times(FileTimes::new().set_modified(time).set_accessed(time)).unwrap();
        let metadata = fs::metadata(served.at("a")).unwrap();
        assert_eq!(metadata.modified().unwrap(), time, "{nanoseconds}");
        assert_eq!(metadata.accessed().unwrap(), time, "{nanoseconds}");
    }
    assert_eq!(fs::metadata(served.at("a")).unwrap().mtime(), -1);
}
