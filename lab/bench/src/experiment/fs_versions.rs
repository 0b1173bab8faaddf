//! Snapshot, clone, rollback and incremental backup of a large tree.

use std::fs;
use std::ops::ControlFlow;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use tembo_fs::{FileKind, Fs, New, ROOT};
use tembo_kv::Durability;
use tembo_kv::backup::{SaveOptions, Since};

use super::context::Context;
use super::fs_contenders::{LIBRARY, LIBRARY_DISK, each, timed};
use crate::Error;
use crate::file_system::{Opened, System, now, run_program};
use crate::finding::{Finding, Shape};
use crate::sheet::{Labels, Sheet};

pub(super) const TITLE: &str =
    "A tree of many files: snapshot, rollback, clone, incremental backup";

const SYSTEMS: [System; 3] = [LIBRARY_DISK, LIBRARY, System::Disk];

/// Files in a folder, which are made as one commit.
const FOLDER: u64 = 100;
const SIZE: usize = 1024;
const CHANGED: u64 = 10;

const FULL: &str = "full backup";
const SNAPSHOT: &str = "snapshot";
const CHANGE: &str = "ten files changed";
const INCREMENT: &str = "incremental backup";
const ROLLBACK: &str = "rollback";
const CLONE: &str = "clone, or cp -a";

fn new(kind: FileKind) -> New {
    New { kind, permissions: 0o755, user: 0, group: 0, device: 0, umask: None }
}

fn fill(fs: &Fs, count: u64) -> Result<(), Error> {
    let tree = fs.write(now(), Durability::Buffered, |tree| {
        tree.create(ROOT, b"tree", &new(FileKind::Directory))
    })?;
    for folder in 0..count.div_ceil(FOLDER) {
        fs.write(now(), Durability::Buffered, |changing| {
            let name = format!("part{folder}");
            let part = changing.create(tree.number, name.as_bytes(), &new(FileKind::Directory))?;
            for number in folder * FOLDER..count.min((folder + 1) * FOLDER) {
                let name = format!("file{number}");
                let file =
                    changing.create(part.number, name.as_bytes(), &new(FileKind::Regular))?;
                changing.write(file.number, 0, &[number as u8; SIZE])?;
            }
            Ok(())
        })?;
    }
    Ok(fs.sync()?)
}

/// Changes ten files, each by a commit of its own, far apart.
fn change(fs: &Fs, count: u64) -> Result<(), Error> {
    for nth in 0..CHANGED.min(count) {
        let number = nth * (count / CHANGED.min(count));
        let path = format!("/tree/part{}/file{number}", number / FOLDER);
        let inode = fs.snapshot()?.resolve(path.as_bytes())?.number;
        fs.write(now(), Durability::Buffered, |tree| tree.write(inode, 0, b"changed"))?;
    }
    Ok(fs.sync()?)
}

/// What a tree of the library takes; each with its place.
fn versions(fs: &Fs, count: u64, folder: &Path) -> Result<Vec<(&'static str, Duration)>, Error> {
    let store = fs.store();
    let save = |file: &str, options: SaveOptions| {
        let path = folder.join(file);
        timed(|| {
            store.save(&path, &options, &mut |_| ControlFlow::Continue(()))?;
            Ok(())
        })
    };
    let (before, after) = ("before".to_owned(), "after".to_owned());
    let full = save("full", SaveOptions { since: None, keep: Some(before.clone()) })?;
    let snapshot = timed(|| Ok(store.save_snapshot(&after)?))?;
    let changed = timed(|| change(fs, count))?;
    let since = Some(Since::Name(before));
    let increment = save("increment", SaveOptions { since, keep: None })?;
    let rollback = timed(|| Ok(fs.rollback_to(&after)?))?;
    let path = format!("/tree/part0/file{}", 0);
    let (mut tree, mut bytes) = (fs.snapshot()?, [1; 7]);
    let inode = tree.resolve(path.as_bytes())?.number;
    tree.read(inode, 0, &mut bytes)?;
    if bytes != [0; 7] {
        let (contender, operation) = ("Tembo library", "a rollback");
        return Err(Error::Wrong { contender, operation, expected: 1, found: 0 });
    }
    Ok(vec![
        (FULL, full),
        (SNAPSHOT, snapshot),
        (CHANGE, changed),
        (INCREMENT, increment),
        (ROLLBACK, rollback),
    ])
}

/// `tembo fs clone`, without a mount.
fn clone(opened: Opened, tembo: &Path) -> Result<Duration, Error> {
    let (_folder, pool) = opened.closed()?;
    let mut command = Command::new(tembo);
    command.args(["fs", "clone"]).arg(pool).args(["/tree", "/copy"]);
    timed(|| run_program(&mut command))
}

/// A copy by `cp`, of a disk's own tree.
fn copy(at: &Path, count: u64) -> Result<Duration, Error> {
    for number in 0..count {
        let folder = at.join(format!("tree/part{}", number / FOLDER));
        if number % FOLDER == 0 {
            fs::create_dir_all(&folder)?;
        }
        fs::write(folder.join(format!("file{number}")), [number as u8; SIZE])?;
    }
    timed(|| {
        run_program(Command::new("cp").arg("-a").arg(at.join("tree")).arg(at.join("copy")))?;
        Ok(rustix::fs::syncfs(fs::File::open(at)?).map_err(std::io::Error::from)?)
    })
}

pub(super) fn run(context: &mut Context<'_>) -> Result<Finding, Error> {
    let mut finding = Finding::new("durablefs-versions", TITLE, "Tembo's own");
    let count = context.extent(200, 10_000, 100_000);
    let mut sheet = Sheet::default();
    each(context, &mut finding, &SYSTEMS, |context, opened, system| {
        let mut push = |at, took: Duration| {
            sheet.push(system.name(), at, took.as_secs_f64() * 1e3);
        };
        if let Some(at) = opened.directory() {
            push(CLONE, copy(at, count)?);
        } else if let Some(library) = opened.linked() {
            fill(&library.fs, count)?;
            let folder = context.folder(system.medium())?;
            for (at, took) in versions(&library.fs, count, folder.path())? {
                push(at, took);
            }
            if context.tembo().is_file() {
                push(CLONE, clone(opened, context.tembo())?);
            }
        }
        Ok(())
    })?;
    let labels = Labels { title: "Less is faster", x: "", y: "milliseconds" };
    finding.charts.push(sheet.chart(Shape::LogBars, labels));
    for system in [LIBRARY_DISK, LIBRARY] {
        for at in [SNAPSHOT, ROLLBACK, INCREMENT, CLONE] {
            let here =
                sheet.spread(system.name(), at).map(|spread| format!("{:.1} ms", spread.median));
            finding.claim(&format!("{at}, {}", system.name()), "aim: milliseconds", here);
        }
    }
    finding.sentence = "A snapshot, a rollback and an incremental backup do not go through the tree; a clone makes each of its files.".into();
    finding.note("The tree has 100,000 files of 1 KiB in folders of 100 (10,000 in a quick run). Each of the ten changed files is a commit, and all are synced. The clone is `tembo fs clone` from its start to its end, with the opening of the pool; for ext4 `cp -a` and a syncfs.");
    Ok(finding)
}
