//! What is asked for where pages come from the disk one by one, and what is not.
#![allow(clippy::unwrap_used)]

use std::fs::{self, File};
use std::path::PathBuf;

use rustix::fs::{Advice, fadvise};
use tembo_pmem::{DomainRequest, Error, Region, RegionOptions};

const SIZE: u64 = 8 << 20;
const PAGE: u64 = 4096;

/// Some that do not lie beside each other, for each to be read alone.
fn pages() -> impl Iterator<Item = u64> {
    (100..2000).step_by(5)
}

/// Pages that the thread has had read, from disks alone: none of a file in memory.
fn pages_read() -> u64 {
    let io = fs::read_to_string("/proc/thread-self/io").unwrap();
    let bytes = io.lines().find_map(|line| line.strip_prefix("read_bytes: ")).unwrap();
    bytes.parse::<u64>().unwrap() / PAGE
}

/// How often the thread has waited for something.
fn waits() -> u64 {
    let status = fs::read_to_string("/proc/thread-self/status").unwrap();
    let count = status.lines().find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"));
    count.unwrap().trim().parse().unwrap()
}

/// A pool larger than its memory, of which the process has copies of [`pages`], and the system has nothing in its cache.
struct Pool {
    path: PathBuf,
    region: Region,
}

impl Pool {
    fn create(name: &str) -> Pool {
        let path = std::env::temp_dir().join(format!("tembo-{name}-{}", std::process::id()));
        let options = RegionOptions {
            domain: DomainRequest::Logged,
            size_max: SIZE,
            memory: Some(1 << 20),
            background: false,
            ..RegionOptions::default()
        };
        let region = Region::create(&path, SIZE, &options, |_| Ok::<(), Error>(())).unwrap();
        assert!(region.reads_alone());
        let pool = Pool { path, region };
        pool.change(1);
        pool.region.checkpoint().unwrap();
        let file = File::open(&pool.path).unwrap();
        file.sync_all().unwrap();
        fadvise(&file, 0, None, Advice::DontNeed).unwrap();
        pool
    }

    /// Stores to a line of each page.
    fn change(&self, value: u64) {
        for page in pages() {
            let _section = self.region.reserve(1).unwrap();
            self.region.store(&self.region.words(page * PAGE, 1).unwrap()[0], value);
            self.region.flush("test.put", page * PAGE, 8);
        }
        self.region.fence("test.fence");
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        for end in ["", ".log"] {
            let _ = fs::remove_file(format!("{}{end}", self.path.display()));
        }
    }
}

#[test]
fn a_page_of_which_the_process_has_a_copy_is_not_read_again() {
    let pool = Pool::create("asked");
    let before = pages_read();
    pages().for_each(|page| pool.region.will_read(page * PAGE, 8));
    let read = pages_read() - before;
    assert!(read < 10, "{read} pages, of which the process has copies");
}

#[test]
fn a_checkpoint_waits_for_many_pages_of_the_file_together() {
    let pool = Pool::create("asked-checkpoint");
    pool.change(2);
    let before = waits();
    pool.region.checkpoint().unwrap();
    let (waits, pages) = (waits() - before, pages().count() as u64);
    assert!(waits < pages / 2, "waited {waits} times for {pages} pages");
}
