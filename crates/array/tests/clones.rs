//! Clones and snapshots beyond their store and their device: backups, releases before there were marks, devices that are removed.

#![allow(clippy::unwrap_used, clippy::panic)]

use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use tembo_array::{Array, Device, DeviceOptions, Error, Isolation};
use tembo_kv::backup::restore;
use tembo_kv::{Durability, Options, SaveOptions, Store, is_own_name};

/// Where the mark of the first origin lies in the record of a clone.
const MARK: std::ops::Range<usize> = 36..40;

struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Folder {
        let path = std::env::temp_dir().join(format!("tembo-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        Folder(path)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn options() -> Options {
    // Nothing but the test makes versions.
    Options::new().size(4 << 20).background(false)
}

fn created(path: &Path) -> Array {
    Array::open(&Store::create(path, &options()).unwrap()).unwrap()
}

fn opened(path: &Path) -> Array {
    Array::open(&Store::open(path, &options()).unwrap()).unwrap()
}

fn volatile() -> Array {
    Array::open(&Store::volatile(&options()).unwrap()).unwrap()
}

fn close(array: Array) {
    let store = array.store().clone();
    drop(array);
    store.close().unwrap();
}

fn write(array: &Array, device: &Device, byte: u8) {
    array.write(device, 0, &[byte; 4096], Durability::Strict).unwrap();
}

fn first(device: &Device) -> Result<u8, Error> {
    let mut byte = [0xaa];
    device.read_at(0, &mut byte).map(|_| byte[0])
}

/// The names that keep versions for clones.
fn own_names(array: &Array) -> usize {
    array.store().snapshots().iter().filter(|(name, _)| is_own_name(name)).count()
}

/// A pool with a device of threes, and a clone `copy` of it when it had ones; the version of which it is.
fn with_clone(path: &Path) -> (Array, u64) {
    let array = created(path);
    array.create("disk", DeviceOptions::default()).unwrap();
    close(array);
    // Versions go on above a limit after an opening: so a restored pool comes to the same number.
    let array = opened(path);
    let disk = array.device("disk").unwrap();
    (0..200).for_each(|_| write(&array, &disk, 1));
    let then = disk.snapshot().unwrap();
    array.clone_device(&then, "copy").unwrap();
    write(&array, &disk, 3);
    let version = then.version();
    (array, version)
}

/// The pool that a backup of another one makes.
fn restored(array: &Array, folder: &Folder) -> Array {
    let (backup, pool) = (folder.path("backup"), folder.path("restored"));
    let mut goes_on = |_| ControlFlow::Continue(());
    array.store().save(&backup, &SaveOptions::default(), &mut goes_on).unwrap();
    restore(&[&backup], &pool, &options(), &mut |_| {}).unwrap();
    opened(&pool)
}

/// Sets the mark of a clone's origin, as it was before there were marks.
fn unmark(array: &Array, clone: &str) {
    let store = array.store();
    let devices = store.keyspace("tembo-array").unwrap();
    let mut record = store.get(devices, clone.as_bytes()).unwrap().unwrap();
    record[MARK].fill(0);
    store.put(devices, clone.as_bytes(), &record, Durability::Strict).unwrap();
}

fn mark(array: &Array, clone: &str) -> u32 {
    let devices = array.store().keyspace("tembo-array").unwrap();
    let record = array.store().get(devices, clone.as_bytes()).unwrap().unwrap();
    u32::from_le_bytes(record[MARK].try_into().unwrap())
}

/// Brings a store to a version. It is visible then, and so retained.
fn advance(array: &Array, version: u64) {
    let disk = array.device("disk").unwrap();
    assert!(array.store().visible() < version, "it is behind already");
    while array.store().visible() < version {
        write(array, &disk, 3);
    }
    assert_eq!(array.store().visible(), version);
}

/// That the clone is lost, and all else goes on.
fn is_lost(array: &Array, version: u64) {
    let copy = array.device("copy").unwrap();
    let lost = |result: Result<(), Error>| {
        assert!(
            matches!(&result, Err(Error::OriginLost { name, version: found }) if name == "copy" && *found == version),
            "{result:?}"
        );
    };
    lost(first(&copy).map(drop));
    lost(copy.snapshot().map(drop));
    lost(array.write(&copy, 0, b"x", Durability::Strict).map(drop));
    lost(array.detach(&copy).map(drop));
    assert_eq!(array.lost().unwrap(), [("copy".to_owned(), version)]);
    assert_eq!((array.check().unwrap().lost, array.devices().unwrap().len()), (1, 2));
    assert_eq!(copy.len().unwrap(), 4096);
    assert_eq!(first(&array.device("disk").unwrap()).unwrap(), 3);
}

#[test]
fn a_clone_in_a_restored_pool_never_reads_what_has_its_number_there() {
    let folder = Folder::new("restored-clone");
    let (array, version) = with_clone(&folder.path("pool"));
    assert_eq!(
        (first(&array.device("copy").unwrap()).unwrap(), array.lost().unwrap().len()),
        (1, 0)
    );
    let again = restored(&array, &folder);
    is_lost(&again, version);
    // The number means something in this pool, too.
    advance(&again, version);
    is_lost(&again, version);
    // A clone of that version keeps it for itself.
    let disk = again.device("disk").unwrap();
    let mine = again.clone_device(&disk.snapshot().unwrap(), "mine").unwrap();
    assert_eq!(again.lost().unwrap().len(), 1);
    again.remove(&mine).unwrap();
    again.remove(&again.device("copy").unwrap()).unwrap();
    assert_eq!(
        (again.devices().unwrap(), again.check().unwrap().lost),
        (vec!["disk".to_owned()], 0)
    );
    drop((disk, mine));
    close(again);
    close(array);
}

#[test]
fn a_clone_of_a_release_without_marks_is_read_where_it_was_made_and_nowhere_else() {
    let folder = Folder::new("unmarked-clone");
    let (array, version) = with_clone(&folder.path("pool"));
    unmark(&array, "copy");
    let again = restored(&array, &folder);
    assert_eq!(mark(&again, "copy"), u32::MAX, "no name keeps its version");
    advance(&again, version);
    let disk = again.device("disk").unwrap();
    let mine = again.clone_device(&disk.snapshot().unwrap(), "mine").unwrap();
    assert_eq!((again.lost().unwrap().len(), first(&mine).unwrap()), (1, 3));
    drop((disk, mine));
    close(again);
    // To be read only, the pool stays as it is.
    close(array);
    let store = Store::open_read_only(&folder.path("pool")).unwrap();
    let array = Array::open(&store).unwrap();
    assert_eq!((first(&array.device("copy").unwrap()).unwrap(), mark(&array, "copy")), (1, 0));
    drop(array);
    store.close().unwrap();
    let array = opened(&folder.path("pool"));
    assert_eq!(first(&array.device("copy").unwrap()).unwrap(), 1);
    assert!(![0, u32::MAX].contains(&mark(&array, "copy")));
    close(array);
}

#[test]
fn a_clone_that_is_detached_is_whole_in_a_backup() {
    let folder = Folder::new("detached-clone");
    let array = created(&folder.path("pool"));
    for (name, run_blocks) in [("disk", 1), ("runs", 8)] {
        let options = DeviceOptions { len: 1 << 20, run_blocks, ..DeviceOptions::default() };
        let disk = array.create(name, options).unwrap();
        array.write(&disk, 0, &vec![1; 128 << 10], Durability::Strict).unwrap();
        array.write(&disk, 512 << 10, &[2; 5000], Durability::Strict).unwrap();
        let copy = array.clone_device(&disk.snapshot().unwrap(), &format!("{name}2")).unwrap();
        let third = array.clone_device(&copy.snapshot().unwrap(), &format!("{name}3")).unwrap();
        array.write(&disk, 0, &vec![9; 600 << 10], Durability::Strict).unwrap();
        array.write(&third, 4096, &[3; 4096], Durability::Strict).unwrap();
        let mut tx = array.transaction(Isolation::None).unwrap();
        tx.discard(&third, 8192, 8192).unwrap();
        tx.commit(Durability::Strict).unwrap();
    }
    let content = |array: &Array, name: &str| {
        let mut bytes = vec![0xaa; 1 << 20];
        array.device(name).unwrap().read_at(0, &mut bytes).unwrap();
        bytes
    };
    assert_eq!(array.clones().unwrap(), ["disk2", "disk3", "runs2", "runs3"]);
    for name in ["disk3", "disk2", "runs2", "runs3"] {
        let device = array.device(name).unwrap();
        let before = (content(&array, name), device.snapshot().unwrap().stored().unwrap());
        let mut tx = array.transaction(Isolation::None).unwrap();
        tx.write(&device, 0, b"x").unwrap();
        assert!(matches!(array.detach(&device), Err(Error::Busy { pending: 1, .. })));
        drop(tx);
        assert!(array.detach(&device).unwrap() > 100 << 10, "{name}");
        let after = device.snapshot().unwrap();
        assert!(content(&array, name) == before.0, "{name}");
        // A block that was zero over an origin takes no space.
        let stored = |ranges: &[std::ops::Range<u64>]| -> u64 {
            ranges.iter().map(|range| range.end - range.start).sum()
        };
        let hidden = if name.ends_with('3') { 8192 } else { 0 };
        assert_eq!(stored(&after.stored().unwrap()) + hidden, stored(&before.1), "{name}");
        assert!(!after.is_clone() && array.detach(&device).unwrap() == 0);
    }
    assert_eq!((own_names(&array), array.clones().unwrap().len()), (0, 0));
    let again = restored(&array, &folder);
    for name in array.devices().unwrap() {
        assert!(content(&again, &name) == content(&array, &name), "{name}");
    }
    assert_eq!((again.check().unwrap().lost, again.check().unwrap().stray), (0, 0));
    close(again);
    close(array);
}

#[test]
fn a_removed_device_is_read_in_the_snapshots_that_have_it() {
    let array = volatile();
    let store = array.store().clone();
    let disk = array.create("disk", DeviceOptions::default()).unwrap();
    write(&array, &disk, 1);
    store.save_snapshot("monday").unwrap();
    let version = store.visible();
    array.remove(&disk).unwrap();
    let then = |name: &str| {
        let mut bytes = [0; 2];
        let read = array.device_at_name(name, "monday")?.read_at(0, &mut bytes)?;
        Ok((read, bytes))
    };
    assert!(matches!(then("disk"), Ok((2, [1, 1]))));
    assert_eq!(array.device_at("disk", version).unwrap().len(), 4096);
    assert_eq!(array.devices_at_name("monday").unwrap(), ["disk"]);
    assert!(matches!(then("other"), Err(Error::NoSuchDevice { .. })));
    assert!(matches!(then(""), Err(Error::DeviceName { size: 0 })));
    assert!(matches!(
        array.device_at_name("disk", "never"),
        Err(Error::Store(tembo_kv::Error::NoSuchName { .. }))
    ));
    // Another device that has the name.
    let options = DeviceOptions { block_size: 512, len: 700, ..DeviceOptions::default() };
    let second = array.create("disk", options).unwrap();
    assert!(matches!(then("disk"), Ok((2, [1, 1]))));
    let old = second.at_name("monday").unwrap();
    assert_eq!((old.len(), old.block_size(), second.len().unwrap()), (4096, 4096, 700));
    assert_eq!(second.at(version).unwrap().len(), 4096);
    let refused = second.snapshot().unwrap().changed_since(&old);
    assert!(matches!(refused, Err(Error::NotComparable)));
    assert_eq!(second.len().unwrap(), 700);
    array.write(&second, 0, b"z", Durability::Strict).unwrap();
    assert!(matches!(then("disk"), Ok((2, [1, 1]))));
}

#[test]
fn a_removed_clone_is_read_in_the_snapshots_that_have_it() {
    let folder = Folder::new("removed-clone");
    let array = created(&folder.path("pool"));
    let disk = array.create("disk", DeviceOptions::default()).unwrap();
    write(&array, &disk, 1);
    let copy = array.clone_device(&disk.snapshot().unwrap(), "copy").unwrap();
    write(&array, &disk, 2);
    array.store().save_snapshot("monday").unwrap();
    array.remove(&copy).unwrap();
    write(&array, &disk, 3);
    drop((disk, copy));
    close(array);
    let array = opened(&folder.path("pool"));
    let mut byte = [0];
    array.device_at_name("copy", "monday").unwrap().read_at(0, &mut byte).unwrap();
    assert_eq!((byte, own_names(&array)), ([1], 1));
    assert!(array.store().drop_snapshot("monday").unwrap());
    close(array);
    let array = opened(&folder.path("pool"));
    assert_eq!(own_names(&array), 0, "nothing needs the version");
    close(array);
}
