//! What is asked for where pages come from the disk one by one, and what is not.
#![allow(clippy::unwrap_used)]

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;

use rustix::fs::{Advice, fadvise};
use tembo_pmem::{DomainRequest, Error, Region, RegionOptions};

const SIZE: u64 = 8 << 20;
const PAGE: u64 = 4096;

/// Where a test changes the file.
const FAR: u64 = 4 << 20;

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

/// For how many pages it has waited that were not asked for.
fn unasked() -> u64 {
    let stat = fs::read_to_string("/proc/thread-self/stat").unwrap();
    let fields = stat.rsplit(')').next().unwrap();
    fields.split_whitespace().nth(9).unwrap().parse().unwrap()
}

fn options() -> RegionOptions {
    RegionOptions {
        domain: DomainRequest::Logged,
        size_max: SIZE,
        memory: Some(1 << 20),
        background: false,
        ..RegionOptions::default()
    }
}

fn drop_cache(file: &File) {
    file.sync_all().unwrap();
    fadvise(file, 0, None, Advice::DontNeed).unwrap();
}

/// A pool larger than its memory, of which the process has copies of [`pages`], and the system has nothing in its cache.
struct Pool {
    path: PathBuf,
    region: Region,
}

impl Pool {
    fn create(name: &str) -> Pool {
        let path = std::env::temp_dir().join(format!("tembo-{name}-{}", std::process::id()));
        let region = Region::create(&path, SIZE, &options(), |_| Ok::<(), Error>(())).unwrap();
        assert!(region.reads_alone());
        let pool = Pool { path, region };
        pool.change(1);
        pool.region.checkpoint().unwrap();
        drop_cache(&File::open(&pool.path).unwrap());
        pool
    }

    /// Closed, changed in its file, and opened: the process has no copies.
    fn reopened(mut self, change: impl FnOnce(&File) -> io::Result<()>) -> Pool {
        self.region = Region::volatile(SIZE, &RegionOptions::default()).unwrap();
        let file = File::options().write(true).open(&self.path).unwrap();
        change(&file).unwrap();
        drop_cache(&file);
        self.region = Region::open(&self.path, &options()).unwrap();
        self
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
    // A disk that others keep busy may let it wait for each in spite of that, but not again and again.
    let waits = (0..5).map(|round| {
        let pool = Pool::create(&format!("asked-checkpoint-{round}"));
        pool.change(2);
        let before = waits();
        pool.region.checkpoint().unwrap();
        waits() - before
    });
    let pages = pages().count() as u64;
    let seen: Vec<u64> = waits.collect();
    assert!(seen.iter().any(|waits| *waits < pages / 2), "waited {seen:?} times for {pages} pages");
}

#[test]
fn what_a_write_leaves_of_several_pages_comes_together() {
    let pool = Pool::create("asked-write");
    let (count, len) = (50, 5 * PAGE);
    let pool = pool.reopened(|file| file.write_all_at(&vec![1; (count * 8 * PAGE) as usize], FAR));
    let value = vec![3; len as usize];
    let before = unasked();
    for number in 0..count {
        let offset = FAR + number * 8 * PAGE + 100;
        let _section = pool.region.reserve(pool.region.write_lines(offset, len)).unwrap();
        pool.region.write("test.write", offset, &[&value]).unwrap();
        pool.region.fence("test.fence");
    }
    let unasked = unasked() - before;
    assert!(unasked < count, "{unasked} of {} pages had not been asked for", 6 * count);
}
