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

#[test]
fn devices_of_version_1_open_with_all_that_they_hold() {
    let image = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/images/array_1.image");
    let mut bytes = std::fs::read(image).unwrap();
    bytes.resize(SIZE, 0);
    let folder = std::env::temp_dir().join(format!("tembo-array-golden-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::write(folder.join("pool"), bytes).unwrap();
    let store = Store::open(&folder.join("pool"), &options()).unwrap();
    let array = Array::open(&store).unwrap();
    holds_all(&array);
    drop((array, store));
    std::fs::remove_dir_all(&folder).unwrap();
}

#[test]
fn devices_of_today_hold_the_same() {
    let store = Store::volatile(&options()).unwrap();
    let array = Array::open(&store).unwrap();
    fill(&array);
    drop(array);
    holds_all(&Array::open(&store).unwrap());
}
