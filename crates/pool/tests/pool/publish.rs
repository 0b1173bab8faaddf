//! Publication: what it costs, in which order it happens, and what a failure leaves.

use std::sync::{Arc, Mutex};

use tembo_pmem::{Counters, Observer, RegionOptions, Stored};
use tembo_pool::{Error, Geometry, Pool, PoolOptions};

use crate::image;

#[test]
fn alloc_into_costs_two_fences_and_one_line_beside_the_content() {
    let pool = image::tiny();
    let slot = pool.root(0).unwrap();
    // The first takes a chunk and may raise the frontier.
    pool.alloc(192).unwrap();
    for _ in 0..15 {
        let before = Counters::thread();
        let object = pool
            .alloc_into::<Error>(slot, 192, |region, object| {
                region.write("test.content", object.offset(), &[&[7; 192]])?;
                Ok(())
            })
            .unwrap();
        let cost = Counters::thread() - before;
        assert_eq!((cost.fences, cost.lines), (2, 3 + 1));
        assert_eq!(slot.load(), object.to_bits());
        assert_eq!(pool.region().media_bytes(object.offset(), 192).unwrap().to_vec(), [7; 192]);
    }
}

#[test]
fn what_init_refuses_is_not_allocated_and_not_published() {
    let pool = image::tiny();
    let slot = pool.root(0).unwrap();
    let result = pool.alloc_into(slot, 192, |_, _| Err(Error::NoSuchRoot { slot: 99 }));
    assert!(matches!(result, Err(Error::NoSuchRoot { slot: 99 })));
    assert_eq!((slot.load(), pool.usage().objects), (0, 0));
}

#[test]
fn allocating_and_freeing_costs_nothing_below_the_waist_but_the_frontier() {
    let pool = image::pool(64 << 20, Geometry::default());
    let before = Counters::thread();
    let nodes: Vec<_> = (0..32_000).map(|_| pool.alloc(1024).unwrap()).collect();
    for node in nodes {
        pool.free(node);
    }
    let cost = Counters::thread() - before;
    // 32,000 KiB: six steps from 64 KiB on, each twice as high as the one before, then steps of 4 MiB (a
    // sixteenth of the pool).
    assert_eq!((cost.fences, cost.lines), (13, 13));
}

/// Writes down the names of what passes the waist.
#[derive(Default)]
struct Trace(Mutex<Vec<&'static str>>);

impl Trace {
    fn take(&self) -> Vec<&'static str> {
        std::mem::take(&mut self.0.lock().unwrap())
    }

    fn note(&self, name: &'static str) {
        self.0.lock().unwrap().push(name);
    }
}

impl Observer for Trace {
    fn load(&self, _: u64, _: u64) {}
    fn store(&self, stored: Stored<'_>, perform: &mut dyn FnMut()) {
        stored.name.into_iter().for_each(|name| self.note(name));
        perform();
    }
    fn flush(&self, name: &'static str, _: u64, _: u64) {
        self.note(name);
    }
    fn fence(&self, name: &'static str) {
        self.note(name);
    }
    fn sync(&self) {}
    fn resize(&self, _: u64) {}
}

#[test]
fn steps_towards_durability_come_in_order() {
    let trace = Arc::new(Trace::default());
    let region = RegionOptions { observer: Some(trace.clone()), ..RegionOptions::default() };
    let options =
        PoolOptions { size: 128 << 10, geometry: Geometry::TINY, region, ..PoolOptions::default() };
    let pool = Pool::volatile(&options).unwrap();
    let steps = [
        "pool.format.words",
        "pool.format.words.fence",
        "pool.format.magic",
        "pool.format.label",
        "pool.format.fence",
        "pool.adopt.generation",
        "pool.adopt.flush",
        "pool.adopt.fence",
    ];
    assert_eq!(trace.take(), steps);
    let slot = pool.root(0).unwrap();
    pool.alloc_into::<Error>(slot, 64, |region, object| {
        region.write("test.content", object.offset(), &[&[1; 64]])?;
        Ok(())
    })
    .unwrap();
    let steps = [
        "pool.frontier.raise",
        "pool.frontier.flush",
        "pool.frontier.fence",
        "test.content",
        "pool.alloc_into.content",
        "pool.alloc_into.publish",
        "pool.alloc_into.flush",
        "pool.alloc_into.fence",
    ];
    assert_eq!(trace.take(), steps);
}
