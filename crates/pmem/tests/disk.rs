//! The `logged` domain on a disk that fails, fills up and loses power. That the power may go at
//! every step, and that every step is needed, is explored in `torture`.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::path::{Path, PathBuf};
use std::sync::Arc;

use tembo_pmem::{DomainRequest, Error, HEADER_SIZE, Region, RegionOptions, SyncPolicy};
use tembo_sim::{Chooser, Failure, Fault, Random, Rest, SimDisk};

const SIZE: u64 = 512 << 10;
/// Small words live in the first part, large records in the second.
const WORDS: u64 = 16 << 10;
const LARGE: u64 = 256 << 10;
const LARGE_LEN: usize = 70_000;

/// The process is gone.
fn killed(disk: &SimDisk) -> SimDisk {
    disk.snapshot().after_kill()
}

/// The power is lost, and is back; chance says what it leaves.
fn unpowered(disk: &SimDisk, seed: u64) -> SimDisk {
    disk.snapshot().after_power_loss(Chooser::new(Rest::Random(Random::new(seed))))
}

fn path() -> PathBuf {
    PathBuf::from("/disk/pool")
}

fn options(disk: &SimDisk, sync: SyncPolicy) -> RegionOptions {
    RegionOptions {
        domain: DomainRequest::Logged,
        sync,
        size_max: 4 << 20,
        log_size: 64 << 10,
        disk: Arc::new(disk.clone()),
        background: false,
        ..RegionOptions::default()
    }
}

fn create(disk: &SimDisk, sync: SyncPolicy) -> Result<Region, Error> {
    Region::create(&path(), SIZE, &options(disk, sync), |region| {
        region.store(&region.words(HEADER_SIZE, 1)?[0], 1);
        region.flush("test.format", HEADER_SIZE, 8);
        region.fence("test.format_fence");
        Ok::<(), Error>(())
    })
}

/// All words, and what the large record holds if it is linked.
#[derive(Clone, PartialEq, Eq)]
struct Image {
    words: Vec<u64>,
    large: Option<u8>,
}

fn image(region: &Region) -> Image {
    let words: Vec<u64> =
        region.words(HEADER_SIZE, (WORDS / 8) as usize).unwrap().iter().map(|w| w.load()).collect();
    let linked = words[1];
    let large = (linked != 0).then(|| {
        let bytes = region.media_bytes(LARGE, LARGE_LEN as u64).unwrap().to_vec();
        assert!(bytes.iter().all(|byte| *byte == bytes[0]), "a linked record is whole");
        assert_eq!(u64::from(bytes[0]), linked, "a linked record is the one that was linked");
        bytes[0]
    });
    Image { words, large }
}

/// What was fenced, in order, and how much of it was synced.
#[derive(Clone)]
struct History {
    images: Vec<Image>,
    synced: usize,
}

impl History {
    fn new(region: &Region) -> History {
        History { images: vec![image(region)], synced: 0 }
    }

    fn fence(&mut self, region: &Region) {
        region.fence("test.fence");
        self.images.push(image(region));
    }

    fn sync(&mut self, region: &Region) -> Result<(), Error> {
        let last = self.images.len() - 1;
        region.sync()?;
        self.synced = last;
        Ok(())
    }

    fn check(&self, found: &Image, context: &str) {
        let legal = self.images[self.synced..].iter().any(|image| image == found);
        assert!(legal, "{context}: not a state at or after the last sync");
    }
}

fn put(region: &Region, offset: u64, value: u64) -> Result<(), Error> {
    region.store(&region.words(offset, 1)?[0], value);
    region.flush("test.put", offset, 8);
    Ok(())
}

/// A large record, unlinked before its space is written again.
fn replace_large(region: &Region, history: &mut History, value: u8) -> Result<(), Error> {
    put(region, HEADER_SIZE + 8, 0)?;
    history.fence(region);
    // Small lines in the freed space, as another user of it would leave them.
    for line in 0..4 {
        put(region, LARGE + line * 4096 + 640, 0xdead)?;
    }
    history.fence(region);
    let record = vec![value; LARGE_LEN];
    region.write("test.large", LARGE, &[&record[..1000], &record[1000..]])?;
    history.fence(region);
    put(region, HEADER_SIZE + 8, u64::from(value))?;
    history.fence(region);
    Ok(())
}

fn work(
    region: &Region,
    history: &mut History,
    random: &mut Random,
    ops: u64,
) -> Result<(), Error> {
    for op in 0..ops {
        let section = region.reserve(24)?;
        if random.below(12) == 0 {
            replace_large(region, history, 1 + random.below(200) as u8)?;
        } else {
            for _ in 0..=random.below(16) {
                let word = 2 + random.number() % (WORDS / 8 - 2);
                put(region, HEADER_SIZE + word * 8, random.number())?;
            }
            history.fence(region);
        }
        drop(section);
        if random.below(3) == 0 {
            history.sync(region)?;
        }
        if random.below(30) == 0 && op > 0 {
            region.checkpoint()?;
        }
    }
    Ok(())
}

fn reopen(disk: &SimDisk) -> Region {
    Region::open(&path(), &options(disk, SyncPolicy::Always))
        .unwrap_or_else(|error| panic!("open: {error}"))
}

#[test]
fn a_torn_tail_is_a_prefix_and_damage_before_it_is_an_error() {
    let disk = SimDisk::default();
    let region = create(&disk, SyncPolicy::Always).unwrap();
    let mut history = History::new(&region);
    let mut ends = vec![region.report().log_used];
    for round in 0..8 {
        put(&region, HEADER_SIZE + 512 * round, round + 5).unwrap();
        put(&region, HEADER_SIZE + 512 * round + 64, round + 6).unwrap();
        history.fence(&region);
        history.sync(&region).unwrap();
        ends.push(region.report().log_used);
    }
    drop(region);
    let log_path = Path::new("/disk/pool.log");
    let log = killed(&disk).content(log_path).unwrap();
    let (last_start, last_end) = (ends[7] as usize, ends[8] as usize);

    for cut in (last_start..last_end).step_by(64) {
        let torn = killed(&disk);
        let mut bytes = log.clone();
        bytes[4096 + cut..].fill(0);
        torn.put(log_path, &bytes);
        history.synced = 7;
        history.check(&image(&reopen(&torn)), &format!("cut at {cut}"));
    }
    // Each byte of the groups that later groups know to be durable.
    for at in 0..last_start {
        let bad = killed(&disk);
        let mut bytes = log.clone();
        bytes[4096 + at] ^= 1 << (at % 8);
        bad.put(log_path, &bytes);
        let options = options(&bad, SyncPolicy::Always);
        match Region::open(&path(), &options).err() {
            Some(Error::LogDamaged { .. }) => {}
            other => panic!("byte {at}: {other:?}"),
        }
    }
    // Headers: one slot may be bad, and both bad is damage.
    for slot in [&[0][..], &[2048], &[0, 2048]] {
        let bad = killed(&disk);
        let mut bytes = log.clone();
        slot.iter().for_each(|at| bytes[at + 100] ^= 4);
        bad.put(log_path, &bytes);
        let opened = Region::open(&path(), &options(&bad, SyncPolicy::Always));
        match (slot, opened.err()) {
            ([_, _], Some(Error::LogDamaged { .. })) | ([_], None) => {}
            // The valid slot is not written yet in a young log.
            ([_], Some(Error::LogDamaged { .. })) => {}
            (_, other) => panic!("{slot:?}: {other:?}"),
        }
    }
}

#[test]
fn a_failed_sync_of_the_log_poisons_and_the_next_opening_works() {
    let disk = SimDisk::default();
    let region = create(&disk, SyncPolicy::Always).unwrap();
    let mut history = History::new(&region);
    work(&region, &mut history, &mut Random::new(3), 20).unwrap();
    history.sync(&region).unwrap();
    put(&region, HEADER_SIZE + 64, 1).unwrap();
    history.fence(&region);
    disk.fail(Fault::once(Failure::Error, "log.sync", 1));
    assert!(matches!(region.sync(), Err(Error::Poisoned { .. })));
    disk.heal();
    assert!(matches!(region.sync(), Err(Error::Poisoned { .. })), "for good");
    assert!(matches!(region.reserve(1).err(), Some(Error::Poisoned { .. })));
    assert!(region.report().poisoned);
    region.fence("test.fence");
    drop(region);
    history.check(&image(&reopen(&killed(&disk))), "kill");
    for seed in 0..20 {
        let after = unpowered(&disk, seed);
        history.check(&image(&reopen(&after)), "power");
    }
}

/// The header that an opening finds may be in the system's memory alone, after a sync that failed, and the one before it the only one
/// on the disk. The opening writes its own in the place of that one, and the power goes while it does.
#[test]
fn a_header_of_the_log_that_is_torn_by_an_opening_leaves_another_one() {
    const LOG: &str = "/disk/pool.log";
    const SLOTS: [usize; 2] = [0, 2048];
    let content = |disk: SimDisk| disk.content(Path::new(LOG)).unwrap();
    let mut torn = 0;
    for nth in 1..12 {
        let disk = SimDisk::default();
        let region = create(&disk, SyncPolicy::Always).unwrap();
        let mut history = History::new(&region);
        disk.fail(Fault::once(Failure::Error, "log.trim_sync", nth));
        let mut random = Random::new(nth);
        let failed = (0..2000).any(|_| work(&region, &mut history, &mut random, 1).is_err());
        assert!(failed, "trim {nth}");
        drop(region);
        let next = killed(&disk);
        next.record();
        drop(reopen(&next));
        let points = next.points();
        for (at, point) in points.iter().enumerate() {
            if point.step != "log.resume_next_sync" {
                continue;
            }
            // What is being written has changed in the step before.
            let (before, now) = (&points[at - 1].snapshot, &point.snapshot);
            let (before, now) = (content(before.after_kill()), content(now.after_kill()));
            let slot = SLOTS.into_iter().find(|at| before[*at..at + 512] != now[*at..at + 512]);
            let Some(slot) = slot else { continue };
            let after = point.snapshot.after_power_loss(Chooser::new(Rest::Old));
            let mut bytes = after.content(Path::new(LOG)).unwrap();
            bytes[slot..slot + 256].copy_from_slice(&now[slot..slot + 256]);
            bytes[slot + 256..slot + 512].fill(0);
            after.put(Path::new(LOG), &bytes);
            history.check(&image(&reopen(&after)), &format!("trim {nth}"));
            torn += 1;
        }
    }
    assert!(torn >= 11, "{torn}");
}

/// The same where a pool was closed, whose log holds nothing that counts: the opening begins it anew, in the same file.
#[test]
fn a_crash_at_any_step_of_opening_a_closed_pool_leaves_one_that_opens() {
    for nth in 1..=5 {
        let disk = SimDisk::default();
        let region = create(&disk, SyncPolicy::Always).unwrap();
        work(&region, &mut History::new(&region), &mut Random::new(nth), 20).unwrap();
        let closed = image(&region);
        region.close().unwrap();
        disk.fail(Fault::once(Failure::Error, "log.recycle_sync", nth));
        let has_failed = (0..nth).any(|_| {
            let opened = Region::open(&path(), &options(&disk, SyncPolicy::Always));
            opened.map(|region| region.close().unwrap()).is_err()
        });
        assert!(has_failed, "sync {nth}");
        let next = killed(&disk);
        next.record();
        drop(reopen(&next));
        for (number, point) in next.points().iter().enumerate() {
            for rest in [Rest::Old, Rest::New, Rest::Torn] {
                let context = format!("sync {nth}, before {} ({number}), {rest:?}", point.step);
                let after = point.snapshot.after_power_loss(Chooser::new(rest));
                let opened = Region::open(&path(), &options(&after, SyncPolicy::Always));
                let region = opened.unwrap_or_else(|error| panic!("{context}: {error}"));
                assert!(image(&region) == closed, "{context}");
            }
        }
    }
}

#[test]
fn no_thread_hangs_when_the_log_fails_under_load() {
    for at in [1, 3, 10, 40, 150] {
        let disk = SimDisk::default();
        let options = RegionOptions { background: true, ..options(&disk, SyncPolicy::Always) };
        drop(create(&disk, SyncPolicy::Always).unwrap());
        let region = Region::open(&path(), &options).unwrap();
        disk.fail(Fault::dying(at));
        std::thread::scope(|scope| {
            for thread in 0..4 {
                let region = &region;
                scope.spawn(move || {
                    let work = |round: u64| -> Result<(), Error> {
                        let section = region.reserve(8)?;
                        for line in 0..8 {
                            put(region, HEADER_SIZE + (thread * 16 + line) * 64, round)?;
                        }
                        drop(section);
                        region.fence("test.fence");
                        region.sync()
                    };
                    assert!((0..2000).any(|round| work(round).is_err()));
                    region.fence("test.fence");
                    assert!(region.sync().is_err() || region.report().log_used == 0);
                });
            }
        });
        assert!(region.close().is_err());
    }
}

#[test]
fn a_full_disk_refuses_writes_and_goes_on_afterwards() {
    for step in ["pool.checkpoint_write", "log.write"] {
        let disk = SimDisk::default();
        let region = create(&disk, SyncPolicy::Always).unwrap();
        let mut history = History::new(&region);
        let (failure, steps) = (Failure::Full, vec![step]);
        disk.fail(Fault { failure, steps, from: 1, count: u64::MAX });
        let mut random = Random::new(5);
        let mut refused = 0;
        for _ in 0..400 {
            match work(&region, &mut history, &mut random, 1) {
                Ok(()) => {}
                Err(Error::DiskFull { .. }) => refused += 1,
                Err(other) => panic!("{step}: {other}"),
            }
        }
        assert!(refused > 0, "{step}");
        assert_eq!(region.words(HEADER_SIZE, 1).unwrap()[0].load(), 1, "reads go on");
        disk.heal();
        region.fence("test.settle");
        history = History::new(&region);
        work(&region, &mut history, &mut random, 100).unwrap();
        history.sync(&region).unwrap();
        drop(region);
        let after = unpowered(&disk, 1);
        history.check(&image(&reopen(&after)), step);
    }
}

#[test]
fn an_opening_that_is_refused_changes_nothing() {
    let disk = SimDisk::default();
    let region = create(&disk, SyncPolicy::Always).unwrap();
    let mut history = History::new(&region);
    work(&region, &mut history, &mut Random::new(3), 20).unwrap();
    history.sync(&region).unwrap();
    drop(region);
    let names = ["/disk/pool", "/disk/pool.log", "/disk/pool.log.new", "/disk/pool.tmp"];
    let contents = |disk: &SimDisk| names.map(|name| disk.content(Path::new(name)));
    for domain in [DomainRequest::Logged, DomainRequest::Auto] {
        let after = killed(&disk);
        let before = contents(&after);
        let options = RegionOptions { domain, ..options(&after, SyncPolicy::Always) };
        let refused = Region::open_checked(&path(), &options, |region| {
            history.check(&image(region), "what the check sees");
            Err(Error::NotAPool { path: path() })
        });
        assert!(matches!(refused, Err(Error::NotAPool { .. })));
        assert!(contents(&after) == before);
    }
}

#[test]
fn an_opening_that_has_no_room_for_a_larger_log_serves_with_the_one_that_is_there() {
    let disk = SimDisk::default();
    let region = create(&disk, SyncPolicy::Always).unwrap();
    let mut history = History::new(&region);
    work(&region, &mut history, &mut Random::new(3), 20).unwrap();
    history.sync(&region).unwrap();
    let capacity = region.report().log_capacity;
    drop(region);
    let after = killed(&disk);
    after.fail(Fault::once(Failure::Full, "log.allocate", 1));
    let larger = RegionOptions { log_size: 1 << 20, ..options(&after, SyncPolicy::Always) };
    let region = Region::open(&path(), &larger).unwrap();
    assert_eq!(region.report().log_capacity, capacity);
    history.check(&image(&region), "with the log that is there");
    assert_eq!(after.content(Path::new("/disk/pool.log.new")), None, "an unfinished log stays");
}

#[test]
fn a_failed_checkpoint_is_tried_again_from_the_log() {
    for nth in 1..12 {
        let disk = SimDisk::default();
        let region = create(&disk, SyncPolicy::Always).unwrap();
        let mut history = History::new(&region);
        let steps = vec!["pool.checkpoint_write", "pool.checkpoint_sync"];
        disk.fail(Fault { failure: Failure::Error, steps, from: nth, count: 1 });
        let mut random = Random::new(nth);
        for _ in 0..150 {
            // Errors of reserving and of the explicit checkpoint are what is expected.
            let _ = work(&region, &mut history, &mut random, 1);
        }
        region.fence("test.settle");
        history = History::new(&region);
        history.sync(&region).unwrap();
        drop(region);
        for seed in 0..3 {
            let after = unpowered(&disk, seed);
            history.check(&image(&reopen(&after)), &format!("failure {nth}"));
        }
    }
}

#[test]
fn the_ring_goes_round_and_reopening_equals_the_model() {
    for seed in 0..4 {
        let mut disk = SimDisk::default();
        let mut region = create(&disk, SyncPolicy::Os).unwrap();
        let mut random = Random::new(seed);
        for round in 0..12 {
            let mut history = History::new(&region);
            work(&region, &mut history, &mut random, 200).unwrap();
            history.sync(&region).unwrap();
            let report = region.report();
            assert!(
                report.checkpoints > 1 && report.log_bytes_written > report.log_capacity,
                "{report:?}"
            );
            drop(region);
            disk = killed(&disk);
            region = reopen(&disk);
            history.check(&image(&region), &format!("seed {seed} round {round}"));
        }
    }
}

#[test]
fn no_bytes_make_opening_panic() {
    let disk = SimDisk::default();
    let region = create(&disk, SyncPolicy::Always).unwrap();
    let mut history = History::new(&region);
    work(&region, &mut history, &mut Random::new(1), 10).unwrap();
    drop(region);
    let base = killed(&disk);
    let mut random = Random::new(2);
    for round in 0..2000 {
        let disk = killed(&base);
        for name in ["/disk/pool", "/disk/pool.log"] {
            let mut bytes = disk.content(Path::new(name)).unwrap();
            match random.below(4) {
                0 => continue,
                1 => (0..1 + random.below(40)).for_each(|_| {
                    let at = random.below(8192);
                    bytes[at] = random.number() as u8;
                }),
                2 => bytes.truncate(random.below(9000)),
                _ => bytes[..4096 + 4096 * (round % 2)]
                    .iter_mut()
                    .for_each(|b| *b = random.number() as u8),
            }
            disk.put(Path::new(name), &bytes);
        }
        for domain in [DomainRequest::Logged, DomainRequest::Auto] {
            let options = RegionOptions { domain, ..options(&disk, SyncPolicy::Always) };
            drop(Region::open(&path(), &options));
        }
    }
}

#[test]
fn a_full_disk_that_copies_makes_durable_what_was_begun_and_refuses_the_rest() {
    let disk = SimDisk::default();
    let region = create(&disk, SyncPolicy::Always).unwrap();
    let mut history = History::new(&region);
    let mut random = Random::new(11);
    // The ring has gone round: each of its blocks was written.
    work(&region, &mut history, &mut random, 300).unwrap();
    history.sync(&region).unwrap();
    disk.copy_on_write(true);
    for round in 0..3 {
        disk.leave_room(Some(0));
        let mut done = 0;
        let refused = loop {
            match work(&region, &mut history, &mut random, 1) {
                Ok(()) => {}
                Err(error) => break error,
            }
            history.sync(&region).expect("what was begun");
            // Another process takes what was given up.
            disk.leave_room(Some(0));
            done += 1;
        };
        assert!(matches!(refused, Error::DiskFull { .. }), "{refused}");
        assert!(done > 0 && done < 100, "round {round}: {done}");
        assert_eq!(region.words(HEADER_SIZE, 1).unwrap()[0].load(), 1, "reads go on");
        assert!(!region.report().poisoned);
        disk.leave_room(None);
        work(&region, &mut history, &mut random, 1).unwrap();
    }
    work(&region, &mut history, &mut random, 100).unwrap();
    history.sync(&region).unwrap();
    drop(region);
    let after = unpowered(&disk, 1);
    history.check(&image(&reopen(&after)), "after three times");
}
