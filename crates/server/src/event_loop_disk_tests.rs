//! Turns stepped by hand, over a disk that loses power or is full.

use std::path::Path;
use std::sync::Arc;

use tembo_kv::pmem::{DomainRequest, RegionOptions, SyncPolicy};
use tembo_kv::{Geometry, PoolOptions};
use tembo_sim::{Chooser, Rest, SimDisk};

use super::*;

const POOL: &str = "/disk/pool";

fn options(disk: &SimDisk) -> Options {
    let region = RegionOptions {
        domain: DomainRequest::Logged,
        sync: SyncPolicy::Always,
        size_max: 64 << 20,
        log_size: 16 << 20,
        disk: Arc::new(disk.clone()),
        background: false,
        ..RegionOptions::default()
    };
    let geometry = Geometry::default();
    let pool = PoolOptions { size: 32 << 20, region, geometry, ..PoolOptions::default() };
    Options::new().pool(pool).background(false)
}

fn with_disk(test: impl FnOnce(&mut EventLoop<'_>, SocketAddr, &SimDisk)) {
    let disk = SimDisk::default();
    let store = Store::create(Path::new(POOL), &options(&disk)).unwrap();
    with_loop_over(store, |event_loop, address| test(event_loop, address, &disk));
}

/// Whether a database would have the key if the power were lost.
fn is_durable(disk: &SimDisk, key: &str) -> bool {
    let disk = disk.snapshot().after_power_loss(Chooser::new(Rest::Old));
    let store = Store::open(Path::new(POOL), &options(&disk)).unwrap();
    let space = store.keyspace("db0").unwrap();
    store.get(space, key.as_bytes()).unwrap().is_some()
}

#[test]
fn replies_that_leave_before_a_long_script_show_what_is_durable() {
    with_disk(|event_loop, address, disk| {
        let [mut first, mut client] = clients(event_loop, address);
        let script = (&mut client, "while true do end");
        // WAIT commits early, and what it has committed is synced later.
        let request = "SET key value\r\nWAIT 0 0\r\n";
        beside_a_script(event_loop, (&mut first, request), script, |first| {
            assert_eq!(read(first, 9), "+OK\r\n:0\r\n");
            assert!(is_durable(disk, "key"));
            first.write_all(b"SCRIPT KILL\r\n").unwrap();
        });
        assert!(replies(event_loop, &mut client, 1).starts_with("-ERR Script killed"));
    });
}
