//! Stores into a line are what single stores are: seen, counted and durable.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::sync::{Arc, Mutex};

use tembo_pmem::{
    Counters, DomainRequest, Error, HEADER_SIZE, LINE, Observer, Region, RegionOptions, Stored,
};
use tembo_sim::SimDisk;

/// What an observer has seen.
#[derive(Default)]
struct Seen(Mutex<Vec<String>>);

impl Observer for Seen {
    fn load(&self, _: u64, _: u64) {}
    fn store(&self, stored: Stored<'_>, perform: &mut dyn FnMut()) {
        perform();
        let what = format!("{:?} {} {:?}", stored.name, stored.offset, stored.parts);
        self.0.lock().unwrap().push(what);
    }
    fn flush(&self, name: &'static str, offset: u64, len: u64) {
        self.0.lock().unwrap().push(format!("{name} {offset} {len}"));
    }
    fn fence(&self, _: &'static str) {}
    fn sync(&self) {}
    fn resize(&self, _: u64) {}
}

const AT: u64 = HEADER_SIZE + 3 * LINE;

fn store_in_line(region: &Region) -> Counters {
    let before = Counters::thread();
    let words = region.words(AT, 8).unwrap();
    let mut stores = region.line_stores();
    stores.store(&words[1], 11);
    stores.store(&words[2], 12);
    stores.commit("test.commit", &words[7], 13);
    stores.flush("test.flush", &words[7]);
    Counters::thread() - before
}

fn store_one_by_one(region: &Region) -> Counters {
    let before = Counters::thread();
    let words = region.words(AT, 8).unwrap();
    region.store(&words[1], 11);
    region.store(&words[2], 12);
    region.commit("test.commit", &words[7], 13);
    region.flush("test.flush", AT, LINE);
    Counters::thread() - before
}

#[test]
fn an_observer_and_the_counters_see_what_they_see_of_single_stores() {
    let run = |store: fn(&Region) -> Counters| {
        let seen = Arc::new(Seen::default());
        let options = RegionOptions { observer: Some(seen.clone()), ..RegionOptions::default() };
        let region = Region::volatile(1 << 20, &options).unwrap();
        let counts = store(&region);
        let values =
            region.words(AT, 8).unwrap().iter().map(|word| word.load()).collect::<Vec<_>>();
        (counts, values, std::mem::take(&mut *seen.0.lock().unwrap()))
    };
    let together = run(store_in_line);
    assert_eq!(together.2.len(), 4);
    assert_eq!(together, run(store_one_by_one));
}

#[test]
fn in_a_log_they_are_durable_after_a_sync() {
    let disk = SimDisk::default();
    let options = |disk: SimDisk| RegionOptions {
        domain: DomainRequest::Logged,
        log_size: 64 << 10,
        disk: Arc::new(disk),
        background: false,
        ..RegionOptions::default()
    };
    let path = std::path::Path::new("/disk/pool");
    let format = |_: &Region| Ok::<(), Error>(());
    let region = Region::create(path, 128 << 10, &options(disk.clone()), format).unwrap();
    let section = region.reserve(1).unwrap();
    store_in_line(&region);
    region.fence("test.fence");
    drop(section);
    region.sync().unwrap();
    let found = disk.snapshot().after_kill();
    drop(region);
    let region = Region::open(path, &options(found)).unwrap();
    let values = region.words(AT, 8).unwrap().iter().map(|word| word.load()).collect::<Vec<_>>();
    assert_eq!(values, [0, 11, 12, 0, 0, 0, 0, 13]);
}
