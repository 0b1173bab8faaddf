//! A child of the process that opened a pool is refused, whatever it tries, and changes nothing.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, unsafe_code)]

use std::path::{Path, PathBuf};

use tembo_pmem::{DomainRequest, Error, HEADER_SIZE, Region, RegionOptions};

fn put(region: &Region, line: u64, value: u64) -> Result<(), Error> {
    let _section = region.reserve(1)?;
    let at = HEADER_SIZE + line * 64;
    region.store(&region.words(at, 1)?[0], value);
    region.flush("test.flush", at, 8);
    region.fence("test.fence");
    region.sync()
}

fn get(region: &Region, line: u64) -> u64 {
    region.words(HEADER_SIZE + line * 64, 1).unwrap()[0].load()
}

fn is_forked<T>(result: Result<T, Error>) -> bool {
    matches!(result, Err(Error::Forked { .. }))
}

/// What the child tries; the number of the first thing that is not as it should be.
fn child(region: Region, path: &Path, options: &RegionOptions) -> i32 {
    let record = vec![1; 128 << 10];
    let tried = [
        region.is_forked(),
        is_forked(put(&region, 1, 9)),
        is_forked(region.reserve(1).map(drop)),
        is_forked(region.sync()),
        is_forked(region.checkpoint()),
        is_forked(region.grow(4 << 20)),
        options.domain != DomainRequest::Logged
            || is_forked(region.write("test.write_beside", 1 << 20, &[&record])),
        get(&region, 0) == 1,
    ];
    region.fence("test.fence_in_child");
    let _ = region.report();
    drop(region);
    // It may have pools of its own, and its children are refused these.
    let own = path.with_extension("child");
    let own = Region::create(&own, 1 << 20, options, |_| Ok::<(), Error>(())).unwrap();
    let works = put(&own, 1, 1).is_ok() && !own.is_forked();
    drop(own);
    // The parent has it.
    let held = Region::open(path, options);
    let held = matches!(held, Err(Error::Held { .. }));
    let tried = tried.into_iter().chain([works, held]);
    tried.take_while(|is_so| *is_so).count() as i32
}

const TRIED: i32 = 10;

fn files(path: &Path) -> Vec<Option<Vec<u8>>> {
    let log = PathBuf::from(format!("{}.log", path.display()));
    [path, &log].map(|file| std::fs::read(file).ok()).into()
}

#[test]
fn a_child_of_the_opener_changes_nothing() {
    for domain in [DomainRequest::Logged, DomainRequest::Flush] {
        let dir = std::env::temp_dir().join(format!("tembo-fork-{}", std::process::id()));
        std::fs::create_dir_all(&dir).unwrap();
        let path = dir.join("pool");
        let options = RegionOptions {
            domain,
            log_size: 1 << 20,
            size_max: 1 << 30,
            ..RegionOptions::default()
        };
        let region = Region::create(&path, 2 << 20, &options, |_| Ok::<(), Error>(())).unwrap();
        put(&region, 0, 1).unwrap();
        let before = files(&path);
        // SAFETY: the child calls nothing that waits for a thread that it does not have, and ends by `_exit`.
        let pid = unsafe { libc::fork() };
        assert!(pid >= 0);
        if pid == 0 {
            let tried = child(region, &path, &options);
            // SAFETY: ends the child.
            unsafe { libc::_exit(tried) };
        }
        let mut status = 0;
        // SAFETY: waits for the child that was just made.
        assert_eq!(unsafe { libc::waitpid(pid, &mut status, 0) }, pid);
        assert!(libc::WIFEXITED(status), "{domain:?}: {status:#x}");
        assert_eq!(libc::WEXITSTATUS(status), TRIED, "{domain:?}");
        assert!(files(&path) == before, "{domain:?}");
        assert!(!region.is_forked());
        put(&region, 2, 3).unwrap();
        region.close().unwrap();
        let region = Region::open(&path, &options).unwrap();
        assert_eq!([get(&region, 0), get(&region, 1), get(&region, 2)], [1, 0, 3]);
        drop(region);
        std::fs::remove_dir_all(dir).unwrap();
    }
}

/// As between the fork and the exec of a child that another thread starts. The child ends at once in some turns: between an attempt
/// to lock and the look for the one that holds the lock.
#[test]
fn a_pool_that_was_closed_opens_though_a_child_has_not_let_go_of_it_yet() {
    let dir = std::env::temp_dir().join(format!("tembo-fork-late-{}", std::process::id()));
    std::fs::create_dir_all(&dir).unwrap();
    let path = dir.join("pool");
    let options =
        RegionOptions { log_size: 1 << 20, size_max: 1 << 30, ..RegionOptions::default() };
    let mut region = Region::create(&path, 2 << 20, &options, |_| Ok::<(), Error>(())).unwrap();
    for turn in 0..300 {
        // SAFETY: the child calls what is safe after a fork, and ends by `_exit`.
        let pid = unsafe { libc::fork() };
        assert!(pid >= 0);
        if pid == 0 {
            // SAFETY: as above.
            unsafe {
                libc::usleep(if turn == 0 { 20_000 } else { turn * 50 % 3_000 });
                libc::_exit(0);
            }
        }
        region.close().unwrap();
        let opened = Region::open(&path, &options);
        // SAFETY: waits for the child that was just made.
        assert_eq!(unsafe { libc::waitpid(pid, std::ptr::null_mut(), 0) }, pid);
        region = opened.unwrap();
    }
    drop(region);
    std::fs::remove_dir_all(dir).unwrap();
}

/// The child lives on with its descriptors, as one does that another thread has forked and that waits for a processor: the pool is
/// another process's at once, or this one's.
#[test]
fn a_lock_ends_with_the_region_though_a_child_has_its_descriptors() {
    let dir = std::env::temp_dir().join(format!("tembo-fork-lock-{}", std::process::id()));
    std::fs::create_dir_all(&dir).unwrap();
    let path = dir.join("pool");
    let options =
        RegionOptions { log_size: 1 << 20, size_max: 1 << 30, ..RegionOptions::default() };
    let mut region = Region::create(&path, 2 << 20, &options, |_| Ok::<(), Error>(())).unwrap();
    for _ in ["created", "opened"] {
        // SAFETY: the child calls what is safe after a fork, until it is killed.
        let pid = unsafe { libc::fork() };
        assert!(pid >= 0);
        if pid == 0 {
            loop {
                // SAFETY: as above.
                unsafe { libc::pause() };
            }
        }
        region.close().unwrap();
        let file = std::fs::File::open(&path).unwrap();
        let is_free = file.try_lock().is_ok();
        drop(file);
        let opened = Region::open(&path, &options);
        // SAFETY: ends and waits for the child that was just made.
        unsafe {
            assert_eq!(libc::kill(pid, libc::SIGKILL), 0);
            assert_eq!(libc::waitpid(pid, std::ptr::null_mut(), 0), pid);
        }
        assert!(is_free);
        region = opened.unwrap();
    }
    drop(region);
    std::fs::remove_dir_all(dir).unwrap();
}
