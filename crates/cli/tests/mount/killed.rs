//! The process that serves a mount, and programs in transactions, killed at random under load: what was closed is whole.
//!
//! `TEMBO_MOUNT_KILLS` is how often, `TEMBO_SEED` where the random numbers begin. `cargo xtask torture` kills it more often.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use crate::mounted::{Mounted, TEMBO, tembo, text};
use crate::random::Random;

/// How often it is killed unless another number is given.
const KILLS: u64 = 4;

/// Threads that write, each in a folder of its own.
const WRITERS: u64 = 3;

/// Files of a writer, which it makes, replaces and removes, and of a transaction.
const FILES: u64 = 12;
const TOGETHER: u64 = 5;

fn number(name: &str, otherwise: u64) -> u64 {
    std::env::var(name).map_or(otherwise, |number| number.parse().unwrap())
}

/// The bytes that a change writes: of its number, and so many that they are of several pieces mostly.
fn content(change: u64) -> Vec<u8> {
    let len = change.wrapping_mul(7919) % 40_000 + 8;
    let rest = (0..len).map(|at| (change.wrapping_mul(31).wrapping_add(at / 7)) as u8);
    change.to_le_bytes().into_iter().chain(rest).collect()
}

/// What a writer knows of its files: the change that each has from, if it is there; and what was under way.
#[derive(Default)]
struct Writer {
    files: BTreeMap<u64, u64>,
    under_way: Option<(u64, Option<u64>)>,
    changes: u64,
}

/// Makes `path` what a change writes, as an editor does, or as a program that makes a file. It is durable then.
fn write(folder: &Path, file: u64, change: u64) -> std::io::Result<()> {
    let (path, beside) = (folder.join(format!("{file}")), folder.join("beside"));
    fs::write(&beside, content(change))?;
    fs::rename(beside, path)?;
    // A rename is durable with a later close.
    fs::File::open(folder)?.sync_all()
}

impl Writer {
    /// Writes until the mount is gone.
    fn run(&mut self, folder: &Path, random: &mut Random, changes: &AtomicU64) {
        loop {
            let file = random.below(FILES);
            let is_removal = self.files.contains_key(&file) && random.once_in(4);
            let change = changes.fetch_add(1, Ordering::Relaxed);
            let becomes = (!is_removal).then_some(change);
            self.under_way = Some((file, becomes));
            let done = match becomes {
                Some(change) => write(folder, file, change),
                None => fs::remove_file(folder.join(format!("{file}")))
                    .and_then(|()| fs::File::open(folder)?.sync_all()),
            };
            if done.is_err() {
                return;
            }
            self.know(file, becomes);
            self.under_way = None;
            self.changes += 1;
        }
    }

    fn know(&mut self, file: u64, becomes: Option<u64>) {
        match becomes {
            Some(change) => drop(self.files.insert(file, change)),
            None => drop(self.files.remove(&file)),
        }
    }

    /// That all files are whole: those of what was under way as before or after it.
    fn compare(&mut self, folder: &Path) {
        for file in 0..FILES {
            let found = fs::read(folder.join(format!("{file}"))).ok();
            let known = self.files.get(&file).copied();
            let change = |bytes: &Vec<u8>| u64::from_le_bytes(*bytes.first_chunk().unwrap());
            let was = found.as_ref().map(change);
            let under_way = self.under_way.filter(|(other, _)| *other == file);
            let is_known = was == known || under_way.is_some_and(|(_, becomes)| was == becomes);
            assert!(is_known, "{folder:?}/{file}: {was:?}, not {known:?} or {under_way:?}");
            assert!(found == was.map(content), "{folder:?}/{file} is not whole");
            self.know(file, was);
        }
        self.under_way = None;
    }
}

/// A transaction that writes some files; `sleep` gives the one that kills it time.
fn transaction(at: &Path, change: u64) -> std::io::Result<Child> {
    let script = format!("for i in 1 2 3 4 5; do echo {change} > together/$i; done; sleep 0.02");
    let mut command = Command::new(TEMBO);
    command.arg("txn").arg(at).args(["--", "sh", "-c", &script]).current_dir(at);
    command.stdout(Stdio::null()).stderr(Stdio::null()).spawn()
}

/// Begins transactions, and kills some, until the mount is gone; the last change that was committed, and what was under way.
fn transactions(at: &Path, random: &mut Random, (mut last, mut change): (u64, u64)) -> (u64, u64) {
    loop {
        change += 1;
        // It begins in the mount, which may be gone.
        let Ok(mut child) = transaction(at, change) else { return (last, change) };
        if random.once_in(3) {
            thread::sleep(Duration::from_millis(random.below(60)));
            child.kill().unwrap();
        }
        if child.wait().unwrap().success() {
            last = change;
        }
        // What the kernel has in its cache it goes on to show.
        if fs::read_dir(at).is_err() {
            return (last, change);
        }
    }
}

/// Verifies that the files of transactions are all of one transaction: the last one that was committed, or one whose commit
/// could not be reported. Returns which.
fn compare_together(at: &Path, (last, under_way): (u64, u64)) -> u64 {
    let read = |i: u64| fs::read_to_string(at.join(format!("together/{i}"))).ok();
    let all: Vec<u64> = (1..=TOGETHER)
        .map(|i| read(i).map_or(0, |text| text.trim().parse().unwrap_or(u64::MAX)))
        .collect();
    assert!(all.iter().all(|&one| one == all[0]), "a part of a transaction: {all:?}");
    assert!((last..=under_way).contains(&all[0]), "{all:?}, not {last} to {under_way}");
    all[0]
}

fn folders(at: &Path) -> Vec<PathBuf> {
    (0..WRITERS).map(|writer| at.join(format!("writer{writer}"))).collect()
}

#[test]
fn what_was_closed_is_whole_after_kills_at_random() {
    let (kills, seed) = (number("TEMBO_MOUNT_KILLS", KILLS), number("TEMBO_SEED", 19));
    eprintln!("TEMBO_MOUNT_KILLS={kills} TEMBO_SEED={seed}");
    let Some(mut mounted) = Mounted::new() else { return };
    let (at, mut random) = (mounted.at(), Random::new(seed));
    let (folders, changes) = (folders(&at), AtomicU64::new(1));
    folders.iter().for_each(|folder| fs::create_dir(folder).unwrap());
    fs::create_dir(at.join("together")).unwrap();
    fs::File::open(&at).unwrap().sync_all().unwrap();
    let mut writers: Vec<Writer> = folders.iter().map(|_| Writer::default()).collect();
    let mut together = (0, 0);
    for kill in 0..kills {
        thread::scope(|scope| {
            for (writer, folder) in writers.iter_mut().zip(&folders) {
                let mut random = Random::new(random.next());
                let changes = &changes;
                scope.spawn(move || writer.run(folder, &mut random, changes));
            }
            let (mut of_transactions, at, before) = (Random::new(random.next()), &at, together);
            let begun = scope.spawn(move || transactions(at, &mut of_transactions, before));
            thread::sleep(Duration::from_millis(100 + random.below(900)));
            mounted.kill();
            together = begun.join().unwrap();
        });
        let unmounted = tembo(&["umount", text(&at)]);
        assert!(unmounted.status.success(), "{unmounted:?}");
        for words in [&["fs", "check"][..], &["check"]] {
            let checked = tembo(&[words, &[text(&mounted.pool())]].concat());
            assert!(checked.status.success(), "kill {kill}: {checked:?}");
        }
        mounted.mount_again();
        for (writer, folder) in writers.iter_mut().zip(&folders) {
            writer.compare(folder);
        }
        let found = compare_together(&at, together);
        together = (found, together.1);
    }
    let changes: u64 = writers.iter().map(|writer| writer.changes).sum();
    eprintln!("{changes} changes were durable, {} transactions begun", together.1);
    assert!(changes > 0);
    mounted.end();
}
