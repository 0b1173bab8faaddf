//! A stray store ends a process whose region is protected, and no other; stores in sections are as without protection.
#![allow(clippy::unwrap_used, clippy::panic, clippy::print_stdout, unsafe_code)]

use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::Command;
use std::sync::{Mutex, MutexGuard, PoisonError};

use tembo_pmem::{DomainRequest, Error, HEADER_SIZE, Region, RegionOptions, SyncPolicy};

const CHILD: &str = "TEMBO_TEST_STRAY_STORE";
const FOLDER: &str = "TEMBO_TEST_STRAY_FOLDER";
const SIGSEGV: i32 = 11;

fn options(domain: DomainRequest, protect: bool) -> RegionOptions {
    RegionOptions {
        domain,
        sync: SyncPolicy::Os,
        log_size: 1 << 20,
        size_max: 16 << 20,
        protect,
        ..RegionOptions::default()
    }
}

fn put(region: &Region, at: u64, value: u64) {
    let _section = region.reserve(1).unwrap();
    region.store(&region.words(at, 1).unwrap()[0], value);
    region.flush("test.flush", at, 8);
    region.fence("test.fence");
}

fn get(region: &Region, at: u64) -> u64 {
    region.words(at, 1).unwrap()[0].load()
}

/// One test at a time: a child has the files of all until it is another program.
fn turn() -> MutexGuard<'static, ()> {
    static TURN: Mutex<()> = Mutex::new(());
    TURN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Where the pools of a test lie, or of the test of which this process is a child.
fn folder() -> PathBuf {
    let own = || std::env::temp_dir().join(format!("tembo-protection-{}", std::process::id()));
    std::env::var(FOLDER).map_or_else(|_| own(), PathBuf::from)
}

/// Where a pool of a test lies.
fn path(name: &str) -> PathBuf {
    let folder = folder().join(name);
    // What an earlier one has left.
    let _ = std::fs::remove_dir_all(&folder);
    std::fs::create_dir_all(&folder).unwrap();
    folder.join("pool")
}

fn region(name: &str, domain: DomainRequest, protect: bool) -> Region {
    let format = |_: &Region| Ok::<(), Error>(());
    let options = options(domain, protect);
    match name {
        "memory" => Region::volatile(1 << 20, &options).unwrap(),
        _ => Region::create(&path(name), 1 << 20, &options, format).unwrap(),
    }
}

const KINDS: [(&str, DomainRequest); 3] = [
    ("memory", DomainRequest::Auto),
    ("logged", DomainRequest::Logged),
    ("flush", DomainRequest::Flush),
];

/// What the child does: stores a byte by a pointer that is not the region's to give.
fn stray(kind: &str) {
    let (name, protect) = kind.split_once('-').unwrap();
    let (_, domain) = KINDS.into_iter().find(|(one, _)| *one == name).unwrap();
    let region = region(name, domain, protect == "protected");
    put(&region, HEADER_SIZE, 1);
    let word = &region.words(HEADER_SIZE + 4096, 1).unwrap()[0];
    let at = std::ptr::from_ref(word).cast_mut().cast::<u8>();
    // SAFETY: a word of the region may change at any time, and no other thread stores to it. That the region has not
    // stored this byte is what the test is about.
    unsafe { at.write_volatile(7) };
    assert_eq!(get(&region, HEADER_SIZE + 4096), 7);
    println!("stored");
}

#[test]
fn a_stray_store_ends_a_process_that_is_protected_and_no_other() {
    if let Ok(kind) = std::env::var(CHILD) {
        return stray(&kind);
    }
    let _turn = turn();
    for (name, _) in KINDS {
        for protection in ["protected", "open"] {
            let child = Command::new(std::env::current_exe().unwrap())
                .args(["--exact", "a_stray_store_ends_a_process_that_is_protected_and_no_other"])
                .arg("--nocapture")
                .env(CHILD, format!("{name}-{protection}"))
                .env(FOLDER, folder())
                .output()
                .unwrap();
            let said = String::from_utf8_lossy(&child.stdout);
            let (signal, has_stored) = (child.status.signal(), said.contains("stored"));
            let wanted =
                if protection == "protected" { (Some(SIGSEGV), false) } else { (None, true) };
            assert_eq!((signal, has_stored), wanted, "{name}, {protection}: {child:?}");
        }
    }
    std::fs::remove_dir_all(folder()).unwrap();
}

#[test]
fn sections_store_side_by_side_in_a_region_that_grows() {
    let _turn = turn();
    for (name, domain) in KINDS {
        let name = format!("{name}-grown");
        let region = match name.as_str() {
            "memory-grown" => region("memory", domain, true),
            _ => region(&name, domain, true),
        };
        std::thread::scope(|scope| {
            let region = &region;
            for thread in 0..4 {
                scope.spawn(move || {
                    for round in 1..=200 {
                        put(region, HEADER_SIZE + 64 * thread, round);
                    }
                });
            }
            region.grow(2 << 20).unwrap();
            let _section = region.reserve(1).unwrap();
            region.grow(3 << 20).unwrap();
        });
        for thread in 0..4 {
            assert_eq!(get(&region, HEADER_SIZE + 64 * thread), 200);
        }
        put(&region, (2 << 20) - 8, 1);
        put(&region, (3 << 20) - 8, 2);
        let calls = region.report().protection_calls;
        // Two for each section that was open alone.
        assert!((4..=2 * 803).contains(&calls) && calls % 2 == 0, "{calls}");
    }
    std::fs::remove_dir_all(folder()).unwrap();
}

#[test]
fn a_page_gets_its_lines_of_the_log_while_it_is_protected() {
    let _turn = turn();
    let path = path("replayed");
    let options = options(DomainRequest::Logged, true);
    let format = |_: &Region| Ok::<(), Error>(());
    let region = Region::create(&path, 1 << 20, &options, format).unwrap();
    for page in 1..40 {
        put(&region, HEADER_SIZE + 4096 * page, page);
    }
    region.sync().unwrap();
    // As by a crash.
    drop(region);
    let region = Region::open(&path, &options).unwrap();
    for page in 1..40 {
        assert_eq!(get(&region, HEADER_SIZE + 4096 * page), page);
    }
    region.close().unwrap();
    std::fs::remove_dir_all(folder()).unwrap();
}
