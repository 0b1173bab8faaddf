//! What was there at which time.
#![allow(clippy::unwrap_used, clippy::panic)]

use tembo_fs::{Error, FileKind, Format, Fs, New, ROOT, Time};
use tembo_kv::{DomainRequest, Durability, Options, Retention, Store};
use tembo_sim::Random;

/// Milliseconds since a begin.
fn at(milliseconds: i64) -> Time {
    let (seconds, rest) = (milliseconds.div_euclid(1000), milliseconds.rem_euclid(1000));
    Time { seconds: 1_700_000_000 + seconds, nanoseconds: rest as u32 * 1_000_000 }
}

/// A file whose content is a number.
fn set(fs: &Fs, now: Time, number: u64) {
    fs.write(now, Durability::Buffered, |tree| {
        let file = match tree.tree().resolve(b"n") {
            Ok(file) => file,
            Err(_) => {
                let (kind, permissions, umask) = (FileKind::Regular, 0o644, None);
                let new = New { kind, permissions, user: 0, group: 0, device: 0, umask };
                tree.create(ROOT, b"n", &new)?
            }
        };
        tree.write(file.number, 0, &number.to_le_bytes())
    })
    .unwrap();
}

/// The number that the file has, or had at a time.
fn shown(fs: &Fs, time: Time) -> Option<u64> {
    let snapshot = match fs.snapshot_at(time) {
        Err(Error::NotKept { .. }) => return None,
        found => found.unwrap(),
    };
    let (mut tree, mut bytes) = (fs.tree(snapshot), [0; 8]);
    let file = tree.resolve(b"n").ok()?;
    tree.read(file.number, 0, &mut bytes).unwrap();
    Some(u64::from_le_bytes(bytes))
}

fn made(window: u64) -> Fs {
    let store = Store::volatile(&Options::new().background(false)).unwrap();
    let fs = Fs::format(&store, &Format::default(), at(0)).unwrap();
    store.retain(Retention::Versions(window)).unwrap();
    fs
}

#[test]
fn what_was_there_at_the_begin_of_each_second_is_known() {
    let fs = made(1_000_000);
    let mut random = Random::new(19);
    let (mut now, mut changes) = (100, Vec::new());
    for number in 0..500 {
        set(&fs, at(now), number);
        changes.push((now, number));
        now += [0, 1, 20, 300, 1000, 7000][random.below(6)];
    }
    let before = |time: i64| changes.iter().rfind(|change| change.0 <= time);
    for second in 1..=now / 1000 + 5 {
        let expected = before(second * 1000).map(|change| change.1);
        assert_eq!(shown(&fs, at(second * 1000)), expected, "{second}");
    }
    // In between, never what was done later, and always what the second before had left.
    for time in (0..now).step_by(37) {
        let (least, most) = (before(time / 1000 * 1000), before(time));
        let found = shown(&fs, at(time));
        assert!(found >= least.map(|change| change.1) && found <= most.map(|change| change.1));
    }
    assert_eq!(shown(&fs, at(99)), None);
    assert_eq!(fs.snapshot().unwrap().check().unwrap().findings, []);
}

#[test]
fn points_that_are_too_many_are_thinned_and_what_is_lost_goes() {
    let fs = made(1_000_000);
    for number in 0..3000 {
        set(&fs, at(number as i64 * 1000), number);
    }
    let points = fs.points().unwrap();
    assert!((400..=1100).contains(&points.len()), "{}", points.len());
    assert!(points.is_sorted_by(|a, b| a.time < b.time && a.version < b.version));
    for second in 0..3000 {
        let Some(found) = shown(&fs, at(second * 1000)) else {
            assert!(second < 3, "{second}");
            continue;
        };
        let (found, second) = (found as i64, second);
        assert!(found <= second && (second < 2700 || found == second), "{second}: {found}");
    }
    // With a window of a few versions the older points lead nowhere.
    let fs = made(100);
    for number in 0..1500 {
        set(&fs, at(number as i64 * 1000), number);
    }
    assert_eq!(shown(&fs, at(1_000_000)), None);
    assert_eq!(shown(&fs, at(1_450_000)), Some(1450));
    assert!(fs.points().unwrap().len() < 500);
}

#[test]
fn a_later_process_and_a_rollback_know_what_was_there() {
    let folder = std::env::temp_dir().join(format!("tembo-timeline-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let (path, options) = (folder.join("a.pool"), Options::new().domain(DomainRequest::Logged));
    let store = Store::create(&path, &options).unwrap();
    let fs = Fs::format(&store, &Format::default(), at(0)).unwrap();
    set(&fs, at(500), 1);
    // Without a window nothing is noted.
    fs.note_time(at(600)).unwrap();
    assert_eq!(fs.points().unwrap(), []);
    store.retain(Retention::Versions(1000)).unwrap();
    set(&fs, at(1500), 2);
    set(&fs, at(2500), 3);
    fs.note_time(at(9000)).unwrap();
    drop(fs);
    store.close().unwrap();
    let store = Store::open(&path, &options).unwrap();
    let fs = Fs::open(&store).unwrap();
    fs.note_time(at(60_000)).unwrap();
    let all = |fs: &Fs| [1400, 2000, 3000, 59_000, 60_000, 62_000].map(|time| shown(fs, at(time)));
    assert_eq!(all(&fs), [Some(1), Some(2), Some(3), Some(3), Some(3), Some(3)]);
    set(&fs, at(61_000), 4);
    assert_eq!(all(&fs), [Some(1), Some(2), Some(3), Some(3), Some(3), Some(4)]);
    // A transaction is there from its commit on.
    let mut tx = fs.transaction().unwrap();
    tx.change(at(62_000), |tree| {
        let file = tree.tree().resolve(b"n")?;
        tree.write(file.number, 0, &5_u64.to_le_bytes())
    })
    .unwrap();
    tx.commit_touched(at(64_500), Durability::Strict).0.unwrap();
    assert_eq!([64_000, 65_000].map(|time| shown(&fs, at(time))), [Some(4), Some(5)]);
    let version = fs.snapshot_at(at(3000)).unwrap().version();
    fs.rollback(version).unwrap();
    assert_eq!([2000, 70_000].map(|time| shown(&fs, at(time))), [Some(2), Some(2)]);
    fs.note_time(at(71_000)).unwrap();
    assert_eq!([2000, 71_000].map(|time| shown(&fs, at(time))), [Some(2), Some(3)]);
    drop(fs);
    store.close().unwrap();
    std::fs::remove_dir_all(folder).unwrap();
}
