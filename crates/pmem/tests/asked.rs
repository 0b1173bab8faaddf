//! What is asked for where pages come from the disk one by one, and what is not.
#![allow(clippy::unwrap_used)]

use std::fs::{self, File};

use rustix::fs::{Advice, fadvise};
use tembo_pmem::{DomainRequest, Error, Region, RegionOptions};

const SIZE: u64 = 8 << 20;
const PAGE: u64 = 4096;
const PAGES: std::ops::Range<u64> = 200..800;

/// Pages that the thread has had read, from disks alone: none of a file in memory.
fn pages_read() -> u64 {
    let io = fs::read_to_string("/proc/thread-self/io").unwrap();
    let bytes = io.lines().find_map(|line| line.strip_prefix("read_bytes: ")).unwrap();
    bytes.parse::<u64>().unwrap() / PAGE
}

#[test]
fn a_page_of_which_the_process_has_a_copy_is_not_read_again() {
    let path = std::env::temp_dir().join(format!("tembo-asked-{}", std::process::id()));
    let options = RegionOptions {
        domain: DomainRequest::Logged,
        size_max: SIZE,
        memory: Some(1 << 20),
        background: false,
        ..RegionOptions::default()
    };
    let region = Region::create(&path, SIZE, &options, |_| Ok::<(), Error>(())).unwrap();
    assert!(region.reads_alone());
    for page in PAGES {
        let _section = region.reserve(1).unwrap();
        region.store(&region.words(page * PAGE, 1).unwrap()[0], page);
        region.flush("test.put", page * PAGE, 8);
    }
    region.fence("test.fence");
    region.checkpoint().unwrap();
    let file = File::open(&path).unwrap();
    file.sync_all().unwrap();
    fadvise(&file, 0, None, Advice::DontNeed).unwrap();
    let before = pages_read();
    PAGES.for_each(|page| region.will_read(page * PAGE, 8));
    let read = pages_read() - before;
    assert!(read < 10, "{read} pages, of which the process has copies");
    drop(region);
    for end in ["", ".log"] {
        fs::remove_file(format!("{}{end}", path.display())).unwrap();
    }
}
