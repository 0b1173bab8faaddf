//! Clones and backups, devices that are removed, and the names by which clones keep what they read.

use std::fs;

use tembo_array::{Array, DeviceOptions};
use tembo_kv::{Durability, Options, Store, is_own_name};

use crate::{Folder, same};

/// Does something with the devices of a pool.
fn with<T>(folder: &Folder, pool: &str, work: impl FnOnce(&Array) -> T) -> T {
    let store = Store::open(&folder.path(pool), &Options::new()).unwrap();
    let array = Array::open(&store).unwrap();
    let done = work(&array);
    drop(array);
    store.close().unwrap();
    done
}

fn fill(folder: &Folder, pool: &str, device: &str, byte: u8) {
    with(folder, pool, |array| {
        let device = array.open_or_create(device, DeviceOptions::default()).unwrap();
        array.write(&device, 0, &[byte; 8192], Durability::Strict).unwrap();
    });
}

/// `a.pool` with a device of threes, and a clone `copy` of it when it had ones.
fn cloned() -> Folder {
    let folder = Folder::new();
    folder.done("device create a.pool disk");
    fill(&folder, "a.pool", "disk", 1);
    folder.done("device clone a.pool disk copy");
    fill(&folder, "a.pool", "disk", 3);
    folder
}

fn holds(folder: &Folder, file: &str, byte: u8) {
    assert!(fs::read(folder.path(file)).unwrap() == [byte; 8192], "{file}");
}

#[test]
fn a_backup_of_a_pool_with_a_clone_says_what_it_would_lose() {
    let folder = cloned();
    folder.refused("backup a.pool saved", 2, "tembo device detach a.pool copy");
    folder.refused("backup a.pool saved --read-only", 2, "--lose-clones");
    assert!(!folder.path("saved").exists());
    folder.done("backup a.pool whole --lose-clones --keep whole");
    folder.done("restore lost.pool whole");

    let done = &folder.json("device detach a.pool copy")[0];
    assert_eq!((&done["device"], &done["bytes"]), (&"copy".into(), &8192.into()));
    folder.done("backup a.pool saved");
    folder.done("backup a.pool part --since whole");
    folder.done("restore b.pool saved");
    folder.done("restore c.pool whole part");
    for pool in ["a", "b", "c"] {
        folder.done(&format!("device export {pool}.pool copy {pool}.copy"));
        holds(&folder, &format!("{pool}.copy"), 1);
        folder.done(&format!("device export {pool}.pool disk {pool}.disk"));
        holds(&folder, &format!("{pool}.disk"), 3);
        folder.done(&format!("device check {pool}.pool"));
    }
}

#[test]
fn a_clone_that_a_backup_has_lost_is_named_and_removed_and_the_rest_goes_on() {
    let folder = cloned();
    folder.done("backup a.pool saved --lose-clones");
    folder.done("restore b.pool saved");
    folder.refused("device export b.pool copy out", 29, "device \"copy\" is a clone of version");
    assert!(!folder.path("out").exists());
    folder.refused("device detach b.pool copy", 29, "remove it here");
    let listed = folder.json("device list b.pool");
    let lost = listed.iter().find(|one| one["name"] == "copy").unwrap();
    assert_eq!((&lost["len"], lost["lost"].is_u64()), (&8192.into(), true));
    assert!(listed.iter().any(|one| one["name"] == "disk" && one["stored"] == 8192));
    assert!(folder.done("device list b.pool").contains("copy: a clone of version"));
    assert!(folder.done("sqlite list b.pool").contains("copy: a clone of version"));
    for check in ["device check b.pool", "sqlite check b.pool"] {
        let output = folder.tembo(check);
        let printed = String::from_utf8(output.stdout).unwrap();
        assert_eq!(output.status.code(), Some(17), "{printed}");
        assert!(printed.contains("copy: "), "{printed}");
    }
    folder.done("device snapshot b.pool monday");
    let then = "device list b.pool --snapshot monday";
    let listed = folder.json(then);
    let lost: Vec<_> = listed.iter().map(|one| (&one["name"], one["lost"].is_u64())).collect();
    assert_eq!(lost, [(&"copy".into(), true), (&"disk".into(), false)]);
    assert!(folder.done(then).contains("copy: a clone of version"));
    // Of this pool a backup loses nothing.
    folder.done("backup b.pool again");
    folder.done("device remove b.pool copy");
    folder.done("device check b.pool");
    assert_eq!(folder.json("device list b.pool").len(), 1);
    assert_eq!(folder.json(then).len(), 2);
    folder.done("device export b.pool disk out");
    holds(&folder, "out", 3);
}

#[test]
fn a_removed_device_is_read_by_its_snapshots() {
    let folder = cloned();
    folder.done("device snapshot a.pool monday");
    folder.done("device remove a.pool disk");
    folder.done("device remove a.pool copy");
    let then = folder.json("device list a.pool --snapshot monday");
    assert_eq!(
        (then.len(), &then[1]["name"], &then[0]["is_clone"]),
        (2, &"disk".into(), &true.into())
    );
    assert_eq!(folder.json("device stat a.pool disk --snapshot monday")[0]["len"], 8192);
    folder.refused("device export a.pool disk out", 39, "disk");
    folder.refused("device list a.pool --snapshot never", 29, "never");
    folder.done("device export a.pool disk out --snapshot monday");
    folder.done("device export a.pool copy copied --snapshot monday");
    folder.done("device clone a.pool disk back --snapshot monday");
    fill(&folder, "a.pool", "disk", 5);
    folder.done("device export a.pool disk again --snapshot monday");
    folder.done("device export a.pool back back");
    for file in ["out", "again", "back"] {
        holds(&folder, file, 3);
    }
    holds(&folder, "copied", 1);
    assert!(same(&folder.path("out"), &folder.path("again")));
}

#[test]
fn names_that_keep_clones_readable_are_neither_shown_nor_given_nor_dropped() {
    let folder = cloned();
    folder.done("device snapshot a.pool monday");
    let names = |folder: &Folder| with(folder, "a.pool", |array| array.store().snapshots());
    let before = names(&folder);
    let own = before.iter().map(|(name, _)| name).find(|name| is_own_name(name)).unwrap();
    let listed = &folder.json("snapshots a.pool")[0]["snapshots"];
    assert_eq!((listed.as_array().unwrap().len(), &listed[0][0]), (1, &"monday".into()));
    for words in [
        format!("snapshots a.pool --drop {own}"),
        format!("snapshots a.pool --drop monday --drop {own}"),
        format!("device snapshot a.pool {own}"),
        "sqlite snapshot a.pool tembo-array@mine".to_owned(),
        "backup a.pool saved --lose-clones --keep tembo-array@mine".to_owned(),
        "fs snapshot a.pool tembo-array@mine".to_owned(),
    ] {
        folder.refused(&words, 2, "keeps what clones read");
    }
    for words in ["snapshots a.pool --drop", "backup a.pool saved --lose-clones --keep"] {
        let words = format!("{words} tembo-replication@base");
        folder.refused(&words, 2, "keeps what a replica goes back to");
    }
    assert_eq!(names(&folder), before);
    folder.done("snapshots a.pool --drop monday");
    folder.done("device export a.pool copy copied");
    holds(&folder, "copied", 1);
}
