//! Devices that an earlier release has written still open, with all that they hold: see images/README.md.

#![allow(clippy::unwrap_used)]

use std::path::Path;

use tembo_array::{Array, DeviceOptions, Isolation};
use tembo_kv::{DomainRequest, Durability, Options, Store};

const SIZE: usize = 1 << 20;

fn options() -> Options {
    Options::new().size(SIZE as u64).background(false).domain(DomainRequest::Logged)
}

/// What the image was made by.
fn fill(array: &Array) {
    let disk = array.create("disk", DeviceOptions { len: 1 << 30, ..DeviceOptions::default() });
    let disk = disk.unwrap();
    let small = DeviceOptions { block_size: 512, len: 5000, grows: false, run_blocks: 1 };
    array.create("small", small).unwrap();
    let mut tx = array.transaction(Isolation::FirstCommitter).unwrap();
    tx.write(&disk, 4090, b"over the end of a block").unwrap();
    tx.write(&disk, (1 << 30) - 4, b"last").unwrap();
    tx.write(&disk, 1 << 20, &[7; 4096]).unwrap();
    tx.set_tag(&disk, 0x1_0000_0005).unwrap();
    tx.commit(Durability::Strict).unwrap();
    array.clone_device(&disk.snapshot().unwrap(), "clone").unwrap();
    let mut tx = array.transaction(Isolation::None).unwrap();
    tx.discard(&array.device("clone").unwrap(), 1 << 20, 4096).unwrap();
    tx.discard(&disk, 1 << 20, 4096).unwrap();
    tx.write(&disk, 4090, b"OVER").unwrap();
    tx.commit(Durability::Strict).unwrap();
    array.store().save_snapshot("named").unwrap();
}

fn holds_all(array: &Array) {
    assert_eq!(array.devices().unwrap(), ["clone", "disk", "small"]);
    let show = |name: &str, offset: u64, len: usize| {
        let mut bytes = vec![0xaa; len];
        array.device(name).unwrap().read_at(offset, &mut bytes).unwrap();
        bytes
    };
    assert_eq!(show("disk", 4090, 23), b"OVER the end of a block");
    assert_eq!(show("clone", 4090, 23), b"over the end of a block");
    assert_eq!(show("clone", (1 << 30) - 4, 4), b"last");
    assert_eq!(show("clone", 1 << 20, 4096), [0; 4096]);
    let disk = array.device("disk").unwrap().at_name("named").unwrap();
    assert_eq!((disk.len(), disk.tag(), disk.is_clone()), (1 << 30, 0x1_0000_0005, false));
    assert_eq!(disk.stored().unwrap(), [0..8192, (1 << 30) - 4096..1 << 30]);
    let clone = array.device("clone").unwrap().snapshot().unwrap();
    assert!(clone.is_clone() && clone.tag() == disk.tag());
    let small = array.device("small").unwrap().snapshot().unwrap();
    assert_eq!((small.block_size(), small.len(), small.grows()), (512, 5000, false));
    let check = array.check().unwrap();
    assert_eq!((check.devices, check.stray), (3, 0));
}

/// What the image of a device with runs was made by.
fn fill_runs(array: &Array) {
    let options = DeviceOptions { len: 1 << 20, run_blocks: 8, ..DeviceOptions::default() };
    let disk = array.create("runs", options).unwrap();
    let run = 8 * 4096;
    array.write(&disk, 0, &vec![1; 4 * run], Durability::Strict).unwrap();
    // A block over a run, a run that is broken by a discard, and one that shows nothing of itself any more.
    array.write(&disk, 3 * 4096, &[2; 4096], Durability::Strict).unwrap();
    let mut tx = array.transaction(Isolation::None).unwrap();
    tx.discard(&disk, run as u64 + 4096, 4096).unwrap();
    tx.write(&disk, 2 * run as u64, &vec![3; run]).unwrap();
    tx.commit(Durability::Strict).unwrap();
    array.clone_device(&disk.snapshot().unwrap(), "clone").unwrap();
    array
        .write(&array.device("clone").unwrap(), 3 * run as u64, &vec![4; run], Durability::Strict)
        .unwrap();
}

fn holds_runs(array: &Array) {
    let run = 8 * 4096;
    let mut expected = vec![1; 4 * run];
    expected[3 * 4096..4 * 4096].fill(2);
    expected[run + 4096..run + 8192].fill(0);
    expected[2 * run..3 * run].fill(3);
    let shows = |name: &str, expected: &[u8]| {
        let mut bytes = vec![9; 1 << 20];
        array.device(name).unwrap().read_at(0, &mut bytes).unwrap();
        assert!(
            bytes[..4 * run] == *expected && bytes[4 * run..].iter().all(|byte| *byte == 0),
            "{name}"
        );
    };
    shows("runs", &expected);
    expected[3 * run..].fill(4);
    shows("clone", &expected);
    let disk = array.device("runs").unwrap().snapshot().unwrap();
    assert_eq!(disk.stored().unwrap(), [0..run as u64 + 4096, run as u64 + 8192..4 * run as u64]);
    let check = array.check().unwrap();
    assert_eq!((check.devices, check.stray), (2, 0));
}

/// Opens an image, of which `holds` asserts what it has.
fn with_image(name: &str, holds: impl FnOnce(&Array)) {
    let image = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/images/{name}.image"));
    let mut bytes = std::fs::read(image).unwrap();
    bytes.resize(SIZE, 0);
    let folder = std::env::temp_dir().join(format!("tembo-{name}-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::write(folder.join("pool"), bytes).unwrap();
    let store = Store::open(&folder.join("pool"), &options()).unwrap();
    holds(&Array::open(&store).unwrap());
    drop(store);
    std::fs::remove_dir_all(&folder).unwrap();
}

#[test]
fn devices_of_version_1_open_with_all_that_they_hold() {
    with_image("array_1", holds_all);
}

#[test]
fn devices_with_runs_open_with_all_that_they_hold() {
    with_image("array_2", |array| {
        holds_runs(array);
        // What an earlier release has written is gone on with.
        let disk = array.device("runs").unwrap();
        array.write(&disk, 4096, &[5; 3 * 4096], Durability::Strict).unwrap();
        array.write(&disk, 0, &[6; 16 * 4096], Durability::Strict).unwrap();
        let mut bytes = vec![0; 17 * 4096];
        disk.read_at(0, &mut bytes).unwrap();
        assert!(bytes[..16 * 4096].iter().all(|byte| *byte == 6) && bytes[16 * 4096] == 3);
        assert_eq!(array.check().unwrap().stray, 0);
    });
}

#[test]
fn devices_of_today_hold_the_same() {
    for (fill, holds) in [(fill as fn(&Array), holds_all as fn(&Array)), (fill_runs, holds_runs)] {
        let store = Store::volatile(&options()).unwrap();
        let array = Array::open(&store).unwrap();
        fill(&array);
        drop(array);
        holds(&Array::open(&store).unwrap());
    }
}
