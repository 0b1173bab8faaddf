//! Pages that are written whole again and again: what of them goes into the log, and that nothing is missing there.
#![allow(clippy::unwrap_used)]

use std::path::{Path, PathBuf};
use std::sync::mpsc::channel;

use tembo_pmem::{DomainRequest, Error, Region, RegionOptions, WholeObject};

const SIZE: u64 = 2 << 20;
const PAGE: u64 = 4096;
const OBJECTS: u64 = 1 << 20;
/// Pages that are enough to be written beside the log.
const COUNT: u64 = 4;
/// Where one line says which objects there are.
const LINK: u64 = 512 << 10;

struct Fixture {
    path: PathBuf,
    region: Region,
}

fn log(path: &Path) -> PathBuf {
    PathBuf::from(format!("{}.log", path.display()))
}

fn options() -> RegionOptions {
    RegionOptions {
        domain: DomainRequest::Logged,
        size_max: SIZE,
        // Less than the pool, so that few pages of a fence are enough to be written beside the log.
        memory: Some(SIZE / 2),
        background: false,
        ..RegionOptions::default()
    }
}

impl Fixture {
    fn new(name: &str) -> Fixture {
        let name = format!("tembo-hot-pages-{name}-{}", std::process::id());
        let path = std::env::temp_dir().join(name);
        for left in [path.clone(), log(&path)] {
            // It is of a process that was killed.
            let _ = std::fs::remove_file(left);
        }
        let region = Region::create(&path, SIZE, &options(), |_| Ok::<(), Error>(())).unwrap();
        Fixture { path, region }
    }

    /// The process ends without a clean stop, and another opens the pool.
    fn reopen(self) -> Fixture {
        let Fixture { path, region } = self;
        drop(region);
        let region = Region::open(&path, &options()).unwrap();
        Fixture { path, region }
    }

    /// Names what there is, durably.
    fn link(&self, value: u64) {
        let _section = self.region.reserve(1).unwrap();
        self.region.store(&self.region.words(LINK, 1).unwrap()[0], value);
        self.region.flush("test.put", LINK, 8);
        self.region.fence("test.fence");
        self.region.sync().unwrap();
    }

    /// Unlinks the pages, and says that their space is free.
    fn unlink(&self) {
        self.link(0);
        self.region.frees().note(OBJECTS, COUNT * PAGE);
    }

    fn write(&self, bytes: &[u8]) {
        let len = bytes.len() as u64;
        let _section = self.region.reserve(self.region.write_lines(OBJECTS, len)).unwrap();
        self.region.write_object("test.object", OBJECTS, &[bytes], len).unwrap();
        self.region.fence("test.fence");
    }

    fn bytes(&self) -> Vec<u8> {
        self.region.media_bytes(OBJECTS, PAGE).unwrap().to_vec()
    }

    fn log_bytes(&self) -> u64 {
        self.region.report().log_bytes_written
    }

    fn remove(self) {
        drop(self.region);
        for path in [&self.path, &log(&self.path)] {
            std::fs::remove_file(path).unwrap();
        }
    }
}

/// A page to which rows were added, from its end on.
fn rows(count: usize) -> Vec<u8> {
    let mut page = vec![0; PAGE as usize];
    page[0] = count as u8;
    page[PAGE as usize - 100 * count..].fill(count as u8 + 1);
    for row in 1..=count {
        page[PAGE as usize - 100 * row..][..100].fill(row as u8);
    }
    page
}

#[test]
fn a_page_with_one_more_row_costs_the_log_the_lines_of_that_row() {
    let mut pool = Fixture::new("rows");
    for count in 1..=30 {
        pool.unlink();
        let before = pool.log_bytes();
        pool.write(&rows(count));
        pool.link(count as u64);
        let taken = pool.log_bytes() - before;
        match count % 10 {
            // It is known from the second time on, and not after an opening.
            1 | 2 => assert!(taken > PAGE, "{taken} bytes of the log"),
            _ => assert!(taken <= 1024, "{taken} bytes of the log for a row of 100"),
        }
        match count % 10 {
            5 => pool.region.checkpoint().unwrap(),
            0 => pool = pool.reopen(),
            _ => {}
        }
        assert_eq!(pool.bytes(), rows(count));
    }
    pool.remove();
}

/// A page that the groups know, its place free and checkpointed; what the page was.
fn given_up(pool: &Fixture) -> Vec<u8> {
    let page = rows(20);
    for _ in 0..3 {
        pool.unlink();
        pool.write(&page);
        pool.link(1);
    }
    pool.unlink();
    pool.region.checkpoint().unwrap();
    page
}

#[test]
fn a_page_that_was_written_beside_the_log_and_given_up_is_logged_whole() {
    let pool = Fixture::new("given-up");
    let page = given_up(&pool);
    let other = vec![0xee; PAGE as usize];
    let objects: Vec<_> = (0..COUNT)
        .map(|number| WholeObject { offset: OBJECTS + number * PAGE, bytes: &other })
        .collect();
    let section = pool.region.reserve(COUNT).unwrap();
    let written = pool.region.write_together(&objects).unwrap();
    assert!(written.iter().all(|is_written| *is_written));
    drop(section);
    pool.region.frees().note_unused(OBJECTS, COUNT * PAGE);
    pool.write(&page);
    pool.link(2);
    assert_eq!(pool.bytes(), page);
    let pool = pool.reopen();
    assert_eq!(pool.bytes(), page);
    pool.remove();
}

#[test]
fn a_page_that_a_fence_has_written_beside_the_log_is_not_what_the_groups_make_of_it() {
    let pool = Fixture::new("fence");
    let page = given_up(&pool);
    // Smaller objects, which are enough pages together.
    let other = vec![0xee; PAGE as usize];
    let before = pool.log_bytes();
    {
        let lines = COUNT * pool.region.write_lines(OBJECTS, PAGE);
        let _section = pool.region.reserve(lines).unwrap();
        for number in 0..COUNT {
            let at = OBJECTS + number * PAGE;
            pool.region.write_object("test.small", at, &[&other], PAGE).unwrap();
        }
        pool.region.fence("test.fence");
    }
    pool.link(2);
    assert!(pool.log_bytes() - before < PAGE, "they went into the log");
    pool.unlink();
    pool.write(&page);
    pool.link(3);
    assert_eq!(pool.bytes(), page);
    let pool = pool.reopen();
    assert_eq!(pool.bytes(), page);
    pool.remove();
}

/// Two threads have lines of a page that they gave up, and fence them when a third has the space. It has written the page beside the
/// log, and stored to it; the two append what the mapping shows, so the groups make it of the page until the third's extent comes.
#[test]
fn what_is_stored_to_a_page_beside_the_log_is_logged_though_others_have_appended_it() {
    let pool = Fixture::new("others");
    let written_beside = vec![0xee; PAGE as usize];
    let objects: Vec<_> = (0..COUNT)
        .map(|number| WholeObject { offset: OBJECTS + number * PAGE, bytes: &written_beside })
        .collect();
    let line = OBJECTS + 5 * 64;
    std::thread::scope(|scope| {
        let others: Vec<_> = (0..2)
            .map(|number| {
                let (flushed, is_flushed) = channel();
                let (go_on, goes_on) = channel();
                let region = &pool.region;
                let thread = scope.spawn(move || {
                    let _section = region.reserve(PAGE / 64).unwrap();
                    let words = region.words(OBJECTS, PAGE as usize / 8).unwrap();
                    words.iter().for_each(|word| region.store(word, number));
                    region.flush("test.others", OBJECTS, PAGE);
                    flushed.send(()).unwrap();
                    goes_on.recv().unwrap();
                    region.fence("test.fence");
                });
                is_flushed.recv().unwrap();
                (thread, go_on)
            })
            .collect();
        let _section = pool.region.reserve(COUNT + 1).unwrap();
        let written = pool.region.write_together(&objects).unwrap();
        assert!(written.iter().all(|is_written| *is_written));
        pool.region.store(&pool.region.words(line, 1).unwrap()[0], 7);
        for (thread, go_on) in others {
            go_on.send(()).unwrap();
            thread.join().unwrap();
        }
        pool.region.flush("test.store", line, 8);
        pool.region.fence("test.fence");
    });
    pool.link(2);
    let mut expected = written_beside;
    expected[(line - OBJECTS) as usize..][..8].copy_from_slice(&7_u64.to_le_bytes());
    assert!(pool.bytes() == expected);
    let pool = pool.reopen();
    assert!(pool.bytes() == expected, "the store is in the log");
    pool.remove();
}
