//! Objects that fill pages, written together: how often their bytes are touched, and what is left to be written one by one.
#![allow(clippy::unwrap_used)]

use std::path::{Path, PathBuf};

use tembo_pmem::{Disk, DomainRequest, Error, OsDisk, Region, RegionOptions, WholeObject};

const SIZE: u64 = 8 << 20;
const PAGE: u64 = 4096;
const OBJECTS: u64 = 1 << 20;
/// Where one line says which objects there are.
const LINK: u64 = 512 << 10;

struct Fixture {
    path: PathBuf,
    options: RegionOptions,
    region: Region,
}

fn log(path: &Path) -> PathBuf {
    PathBuf::from(format!("{}.log", path.display()))
}

impl Fixture {
    fn new(name: &str) -> Fixture {
        Fixture::with_memory(name, None)
    }

    fn with_memory(name: &str, memory: Option<u64>) -> Fixture {
        let name = format!("tembo-together-{name}-{}", std::process::id());
        let path = std::env::temp_dir().join(name);
        for left in [path.clone(), log(&path)] {
            // It is of a process that was killed.
            let _ = std::fs::remove_file(left);
        }
        let options = RegionOptions {
            domain: DomainRequest::Logged,
            size_max: SIZE,
            log_size: 4 << 20,
            background: false,
            memory,
            ..RegionOptions::default()
        };
        let region = Region::create(&path, SIZE, &options, |_| Ok::<(), Error>(())).unwrap();
        Fixture { path, options, region }
    }

    /// The process ends without a clean stop, and another opens the pool.
    fn reopen(self) -> Fixture {
        let Fixture { path, options, region } = self;
        drop(region);
        let region = Region::open(&path, &options).unwrap();
        Fixture { path, options, region }
    }

    fn put(&self, value: u64) {
        let _section = self.region.reserve(1).unwrap();
        self.region.store(&self.region.words(LINK, 1).unwrap()[0], value);
        self.region.flush("test.put", LINK, 8);
        self.region.fence("test.fence");
    }

    fn write_together(&self, objects: &[WholeObject<'_>]) -> Vec<bool> {
        let _section = self.region.reserve(objects.len() as u64).unwrap();
        self.region.write_together(objects).unwrap()
    }

    fn write_one_by_one(&self, objects: &[WholeObject<'_>]) {
        for object in objects {
            let len = object.bytes.len() as u64;
            let _section =
                self.region.reserve(self.region.write_lines(object.offset, len)).unwrap();
            self.region.write_object("test.object", object.offset, &[object.bytes], len).unwrap();
        }
    }

    fn bytes(&self, at: u64, len: usize) -> Vec<u8> {
        self.region.media_bytes(at, len as u64).unwrap().to_vec()
    }

    /// Bytes that were written into the pool file, and into the log.
    fn written(&self) -> (u64, u64) {
        let report = self.region.report();
        (report.pool_bytes_written, report.log_bytes_written)
    }

    fn remove(self) {
        drop(self.region);
        for path in [&self.path, &log(&self.path)] {
            std::fs::remove_file(path).unwrap();
        }
    }
}

/// Pages that came into the memory of the calling thread without the disk (`minflt` of proc(5)).
fn page_faults() -> u64 {
    let stat = std::fs::read_to_string("/proc/thread-self/stat").unwrap();
    let (_, behind) = stat.rsplit_once(')').unwrap();
    behind.split_whitespace().nth(7).unwrap().parse().unwrap()
}

/// Objects of that size, side by side, each with other bytes.
fn contents(count: u64, size: u64, seed: u8) -> Vec<Vec<u8>> {
    (0..count).map(|number| vec![seed.wrapping_add(number as u8); size as usize]).collect()
}

fn objects(contents: &[Vec<u8>], at: u64) -> Vec<WholeObject<'_>> {
    let mut offset = at;
    contents
        .iter()
        .map(|bytes| {
            offset += bytes.len() as u64;
            WholeObject { offset: offset - bytes.len() as u64, bytes }
        })
        .collect()
}

#[test]
fn objects_written_together_are_written_once_and_no_page_of_theirs_is_touched() {
    let pool = Fixture::new("once");
    let count = 256;
    let contents = contents(count, PAGE, 1);
    let (before, faults) = (pool.written(), page_faults());
    let written = pool.write_together(&objects(&contents, OBJECTS));
    pool.put(1);
    let faults = page_faults() - faults;
    assert!(written.iter().all(|is_written| *is_written));
    pool.region.sync().unwrap();
    let (in_pool, in_log) = (pool.written().0 - before.0, pool.written().1 - before.1);
    assert_eq!(in_pool, count * PAGE);
    assert!(in_log < PAGE, "{in_log} bytes of the log");
    assert!(faults < count / 4, "{faults} page faults for {count} pages");
    // One by one each page of theirs is one that is stored to.
    let faults = page_faults();
    pool.write_one_by_one(&objects(&contents, OBJECTS + (2 << 20)));
    assert!(page_faults() - faults >= count);
    pool.put(2);
    pool.region.sync().unwrap();
    let pool = pool.reopen();
    for at in [OBJECTS, OBJECTS + (2 << 20)] {
        assert_eq!(pool.bytes(at, (count * PAGE) as usize), contents.concat());
    }
    pool.remove();
}

#[test]
fn what_may_not_be_overwritten_yet_is_left_and_its_neighbours_are_not() {
    let pool = Fixture::new("left");
    let (first, second) = (contents(16, PAGE, 1), contents(16, PAGE, 101));
    assert_eq!(pool.write_together(&objects(&first, OBJECTS)), [true; 16]);
    pool.put(1);
    pool.region.sync().unwrap();
    // The last 64 KiB but one are free by a group that no sync has made durable.
    let middle = OBJECTS + 2 * 64 * 1024;
    let third = contents(48, PAGE, 51);
    pool.put(2);
    pool.region.frees().note(middle, 64 << 10);
    let written = pool.write_together(&objects(&third, OBJECTS + 64 * 1024));
    let expected: Vec<bool> = (0..48).map(|number| !(16..32).contains(&number)).collect();
    assert_eq!(written, expected);
    let left: Vec<_> = objects(&third, OBJECTS + 64 * 1024)
        .into_iter()
        .zip(&written)
        .filter_map(|(object, is_written)| (!is_written).then_some(object))
        .collect();
    pool.write_one_by_one(&left);
    pool.put(3);
    pool.region.sync().unwrap();
    // What the first were in is free now, durably, and their group is called durable by a later one that is.
    pool.put(4);
    pool.region.frees().note(OBJECTS, 64 << 10);
    pool.put(5);
    pool.region.sync().unwrap();
    pool.put(6);
    pool.region.sync().unwrap();
    assert_eq!(pool.write_together(&objects(&second, OBJECTS)), [true; 16]);
    pool.put(7);
    pool.region.sync().unwrap();
    let pool = pool.reopen();
    assert_eq!(pool.bytes(OBJECTS, 16 * PAGE as usize), second.concat());
    assert_eq!(pool.bytes(OBJECTS + 64 * 1024, 48 * PAGE as usize), third.concat());
    pool.remove();
}

#[test]
fn small_objects_are_written_where_they_fill_pages_together() {
    let pool = Fixture::new("small");
    // From the middle of a page on: what fills the first and the last in part is left.
    let contents = contents(4 * 16 + 2, 1024, 1);
    let at = OBJECTS + 3 * 1024;
    let expected: Vec<bool> = (0..66).map(|number| (1..65).contains(&number)).collect();
    let (before, _) = pool.written();
    assert_eq!(pool.write_together(&objects(&contents, at)), expected);
    assert_eq!(pool.written().0 - before, 64 * 1024);
    let all = objects(&contents, at);
    pool.write_one_by_one(&[all[0], all[65]]);
    pool.put(1);
    pool.region.sync().unwrap();
    let pool = pool.reopen();
    assert_eq!(pool.bytes(at, 66 * 1024), contents.concat());
    pool.remove();
}

#[test]
fn what_is_little_is_left_to_the_log_which_is_synced_anyway() {
    let is_written = |pages, memory| {
        let pool = Fixture::with_memory("little", memory);
        let contents = contents(pages, PAGE, 1);
        let (before, _) = pool.written();
        let done = pool.write_together(&objects(&contents, OBJECTS));
        assert!(done.iter().all(|one| *one == done[0]));
        let bytes = if done[0] { pages * PAGE } else { 0 };
        assert_eq!(pool.written().0 - before, bytes);
        pool.remove();
        done[0]
    };
    // In memory the log may have more of them: it takes less time than a sync of another file.
    assert!(!is_written(15, None) && is_written(16, None));
    let short = Some(1 << 20);
    assert!(!is_written(3, short) && is_written(4, short));
}

#[test]
fn of_what_was_written_together_and_given_up_in_part_the_rest_is_in_the_log() {
    let pool = Fixture::new("given-up");
    let (first, second) = (contents(16, PAGE, 1), contents(16, PAGE, 101));
    // Lines of the thread, without a fence; nothing refers to them, and the space is taken again.
    pool.write_one_by_one(&objects(&first, OBJECTS));
    pool.region.frees().note_unused(OBJECTS, 16 * PAGE);
    assert_eq!(pool.write_together(&objects(&second, OBJECTS)), [true; 16]);
    pool.put(1);
    pool.region.sync().unwrap();
    let (far, log_before) = (OBJECTS + (2 << 20), pool.written().1);
    assert_eq!(pool.write_together(&objects(&first, far)), [true; 16]);
    // A part of it is free, and may be another thread's at once.
    pool.region.frees().note_unused(far, 12 * PAGE);
    pool.put(2);
    pool.region.sync().unwrap();
    let in_log = pool.written().1 - log_before;
    assert!((4 * PAGE..8 * PAGE).contains(&in_log), "{in_log} bytes of the log");
    let pool = pool.reopen();
    assert_eq!(pool.bytes(OBJECTS, 16 * PAGE as usize), second.concat());
    assert_eq!(pool.bytes(far + 12 * PAGE, 4 * PAGE as usize), first[12..].concat());
    pool.remove();
}

#[test]
fn parts_are_written_one_behind_the_other_however_many() {
    let path = std::env::temp_dir().join(format!("tembo-parts-{}", std::process::id()));
    let file = OsDisk.create("test.create", &path).unwrap();
    let bytes: Vec<u8> = (0..9000_u32).map(|at| (at * at / 11) as u8).collect();
    // More than the system takes at once, and some of them empty.
    let parts: Vec<&[u8]> = (0..3000).map(|n| &bytes[n * 3..n * 3 + n % 4]).collect();
    file.write_parts_at("test.parts", &parts, 5).unwrap();
    let expected = parts.concat();
    let mut found = vec![0; expected.len()];
    file.read_at(&mut found, 5).unwrap();
    assert!(found == expected && file.len().unwrap() == 5 + expected.len() as u64);
    file.write_parts_at("test.parts", &[&[], &[]], 0).unwrap();
    std::fs::remove_file(path).unwrap();
}
