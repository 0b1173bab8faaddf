//! Replay page by page: the first thread that comes finds all that was fenced, and a page that is not touched costs
//! nothing.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::path::{Path, PathBuf};
use std::sync::Barrier;

use tembo_pmem::{DomainRequest, Error, HEADER_SIZE, Region, RegionOptions};
use tembo_sim::Random;

const SIZE: u64 = 8 << 20;
const PAGE: u64 = 4096;
const LINES: u64 = (4 << 20) / 64;
/// Large records lie behind the lines.
const LARGE: u64 = HEADER_SIZE + LINES * 64;
const LARGE_LEN: u64 = 64 << 10;

/// A pool file that is gone when the test is.
struct File(PathBuf);

impl File {
    fn new(name: &str) -> File {
        let name = format!("tembo-replay-{}-{name}", std::process::id());
        let file = File(std::env::temp_dir().join(name));
        file.remove();
        file
    }

    fn log(&self) -> PathBuf {
        let mut name = self.0.clone().into_os_string();
        name.push(".log");
        name.into()
    }

    fn remove(&self) {
        let _ = std::fs::remove_file(&self.0);
        let _ = std::fs::remove_file(self.log());
    }
}

impl Drop for File {
    fn drop(&mut self) {
        self.remove();
    }
}

fn options(log_size: u64, background: bool) -> RegionOptions {
    let domain = DomainRequest::Logged;
    RegionOptions { domain, log_size, background, ..RegionOptions::default() }
}

fn create(path: &Path, options: &RegionOptions) -> Region {
    Region::create(path, SIZE, options, |_| Ok::<(), Error>(())).unwrap()
}

/// What the region should hold: two words of each line, and the large record.
#[derive(Clone)]
struct Model {
    words: Vec<[u64; 2]>,
    large: u8,
}

impl Model {
    fn new() -> Model {
        Model { words: vec![[0; 2]; LINES as usize], large: 0 }
    }

    /// Stores to some lines, and fences.
    fn step(&mut self, region: &Region, random: &mut Random) {
        let count = 1 + random.below(20) as u64;
        let _section = region.reserve(count).unwrap();
        for _ in 0..count {
            // Few pages get many of the stores.
            let span = if random.below(2) == 0 { 300 } else { LINES as usize };
            let (line, word) = (random.below(span), random.below(2));
            let value = random.number();
            self.words[line][word] = value;
            let at = HEADER_SIZE + line as u64 * 64 + word as u64 * 56;
            region.store(&region.words(at, 1).unwrap()[0], value);
            region.flush("test.line", at, 8);
        }
        region.fence("test.fence");
    }

    fn write_large(&mut self, region: &Region, random: &mut Random) {
        self.large = random.number() as u8;
        let lines = region.write_lines(LARGE, LARGE_LEN);
        let _section = region.reserve(lines).unwrap();
        let bytes = vec![self.large; LARGE_LEN as usize];
        region.write("test.large", LARGE, &[&bytes]).unwrap();
        region.fence("test.large_fence");
    }

    fn check_line(&self, region: &Region, line: usize) {
        for (word, expected) in self.words[line].iter().enumerate() {
            let at = HEADER_SIZE + line as u64 * 64 + word as u64 * 56;
            assert_eq!(region.words(at, 1).unwrap()[0].load(), *expected, "line {line}");
        }
    }

    fn check_large(&self, region: &Region) {
        let bytes = region.media_bytes(LARGE, LARGE_LEN).unwrap().to_vec();
        assert!(bytes.iter().all(|byte| *byte == self.large));
    }

    fn check(&self, region: &Region) {
        (0..LINES as usize).for_each(|line| self.check_line(region, line));
        self.check_large(region);
    }
}

/// Generations of one pool: changed, left as by a kill, opened, looked at by several threads in any
/// order while it is changed and checkpointed.
#[test]
fn every_page_has_its_lines_when_it_is_looked_at() {
    for seed in 0..6 {
        let file = File::new(&format!("pages{seed}"));
        let mut random = Random::new(seed);
        let options = options([256 << 10, 1 << 20][seed as usize % 2], seed % 3 != 0);
        // In some, all that a checkpoint has brought into the pool file is given back.
        let options = RegionOptions { private_max: [u64::MAX, 0][seed as usize / 3], ..options };
        let mut model = Model::new();
        let mut region = create(&file.0, &options);
        for _ in 0..8 {
            for _ in 0..random.below(300) {
                match random.below(60) {
                    0 => region.checkpoint().unwrap(),
                    1 => model.write_large(&region, &mut random),
                    _ => model.step(&region, &mut random),
                }
            }
            region.sync().unwrap();
            drop(region);
            region = Region::open(&file.0, &options).unwrap();
            look_from_all_sides(&region, &model, &mut random);
            model.check(&region);
            assert_eq!(region.report().waiting_bytes, 0);
        }
    }
}

fn look_from_all_sides(region: &Region, model: &Model, random: &mut Random) {
    let (kind, seed) = (random.below(4), random.number());
    let begin = Barrier::new(4);
    std::thread::scope(|scope| {
        for reader in 0..3 {
            let begin = &begin;
            scope.spawn(move || {
                let mut random = Random::new(seed + reader);
                begin.wait();
                for _ in 0..2000 {
                    match random.below(100) {
                        0 => model.check_large(region),
                        _ => model.check_line(region, random.below(LINES as usize)),
                    }
                }
            });
        }
        begin.wait();
        match kind {
            0 => region.checkpoint().unwrap(),
            1 => region.grow(region.size() + PAGE).unwrap(),
            2 => {
                // A line of this thread alone, on a page of all.
                let at = HEADER_SIZE + LINES * 64 - 16;
                let _section = region.reserve(1).unwrap();
                region.store(&region.words(at, 1).unwrap()[0], 1);
                region.flush("test.line", at, 8);
                region.fence("test.fence");
                region.checkpoint().unwrap();
            }
            _ => {}
        }
    });
}

/// A page that is not touched is not copied, and a checkpoint makes that good.
#[test]
fn opening_touches_no_page_that_is_not_looked_at() {
    let file = File::new("lazy");
    let options = options(1 << 20, false);
    let (mut model, mut random) = (Model::new(), Random::new(1));
    let region = create(&file.0, &options);
    for _ in 0..200 {
        model.step(&region, &mut random);
    }
    region.sync().unwrap();
    drop(region);

    let region = Region::open(&file.0, &options).unwrap();
    let waiting = region.report().waiting_bytes;
    assert!(waiting > 500 * PAGE, "{waiting} bytes of pages wait");
    model.check_line(&region, 0);
    assert_eq!(region.report().waiting_bytes, waiting - PAGE);
    model.check_line(&region, 1);
    assert_eq!(region.report().waiting_bytes, waiting - PAGE, "the same page");
    region.checkpoint().unwrap();
    assert_eq!(region.report().waiting_bytes, 0);
    model.check(&region);
}

/// What waits is neither lost by a second kill, nor by a clean stop, nor by a smaller log.
#[test]
fn what_waits_outlives_the_next_stop() {
    let file = File::new("stops");
    let (mut model, mut random) = (Model::new(), Random::new(2));
    let mut region = create(&file.0, &options(1 << 20, false));
    for round in 0..12 {
        for _ in 0..40 {
            model.step(&region, &mut random);
        }
        region.sync().unwrap();
        drop(region);
        // Opened, hardly looked at, and left again.
        let log_size = [1 << 20, 2 << 20][round % 2];
        let opened = Region::open(&file.0, &options(log_size, false)).unwrap();
        model.check_line(&opened, random.below(LINES as usize));
        if round % 3 == 0 {
            opened.close().unwrap();
        } else {
            drop(opened);
        }
        region = Region::open(&file.0, &options(log_size, round % 2 == 0)).unwrap();
    }
    model.check(&region);
    drop(region);
    let flush = RegionOptions { domain: DomainRequest::Flush, ..RegionOptions::default() };
    model.check(&Region::open(&file.0, &flush).unwrap());
}

/// A log that a larger one has replaced takes room on the disk as long as it is mapped.
#[test]
fn the_log_that_was_replayed_is_let_go_when_every_page_was_looked_at_before() {
    let file = File::new("let-go");
    let (mut random, mut model) = (Random::new(1), Model::new());
    let region = create(&file.0, &options(1 << 20, false));
    (0..100).for_each(|_| model.step(&region, &mut random));
    region.sync().unwrap();
    drop(region);
    let region = Region::open(&file.0, &options(1 << 20, false)).unwrap();
    let log = file.log();
    let is_mapped = || {
        let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
        maps.contains(log.to_str().unwrap())
    };
    assert!(is_mapped());
    model.check(&region);
    region.checkpoint().unwrap();
    assert!(!is_mapped());
    model.check(&region);
}
