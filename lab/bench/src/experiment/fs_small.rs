//! Small files: durable one by one, and as one transaction.

use std::sync::Barrier;
use std::thread;
use std::time::{Duration, Instant};

use super::context::Context;
use super::fs_contenders::{ALL, LIBRARY, LIBRARY_DISK, MOUNT, MOUNT_DISK, each, faster, timed};
use crate::Error;
use crate::file_system::{Cells, Opened, Small, System, in_transaction};
use crate::finding::{Finding, Shape, times};
use crate::sheet::{Labels, Sheet};

pub(super) const TITLE: &str = "Small files: each durable, or all of them in one transaction";

/// Processes, or threads that use the library.
const PROCESSES: [u64; 2] = [1, 8];

const EACH: &str = "fsync of each";
const ONE_CALL: &str = "one commit each";
const TRANSACTION: &str = "one transaction";
const COMMIT: &str = "one commit";

pub(super) fn run(context: &mut Context<'_>) -> Result<Finding, Error> {
    let mut finding = Finding::new("durablefs-small", TITLE, "Tembo's own");
    let count = context.extent(40, 1_000, 10_000);
    let (mut singly, mut wholly) = (Sheet::default(), Sheet::default());
    let mut unable = None;
    each(context, &mut finding, &ALL, |context, opened, system| {
        let mut first = 0;
        for processes in PROCESSES {
            let small = Small { first, count };
            first += count;
            let made = small.parts(processes).iter().map(|part| part.count).sum();
            let rate = rate(made, durable(context, &opened, &small.parts(processes))?);
            singly.push(system.name(), at(processes), rate);
            if processes == 1 {
                wholly.push(system.name(), EACH, rate);
            }
        }
        let mut next = || {
            let small = Small { first, count };
            first += count;
            small
        };
        if let Some(library) = opened.linked() {
            let (small, many, all) = (next(), next(), next());
            let mut push = |at, took| wholly.push(system.name(), at, rate(count, took));
            push(ONE_CALL, timed(|| library.whole(&small))?);
            push(TRANSACTION, timed(|| library.one_transaction(&many))?);
            push(COMMIT, timed(|| library.one_commit(&all))?);
        } else if let (System::Mount(_), Some(point)) = (system, opened.directory()) {
            match in_transaction(context.tembo(), context.lab(), point, next()) {
                Ok(took) => wholly.push(system.name(), TRANSACTION, rate(count, took)),
                // Without namespaces there are no transactions of processes.
                Err(error) => unable = Some(error.reason()),
            }
        }
        Ok(())
    })?;
    if let Some(unable) = unable {
        finding.note(&format!("`tembo txn` is left out: {unable}."));
    }
    let y = "files a second";
    let title = "Create, write 4 KiB, fsync, close, rename";
    let labels = Labels { title, x: "processes, or threads of the library", y };
    finding.charts.push(singly.chart(Shape::LogBars, labels));
    let labels = Labels { title: "Durable one by one, and as a whole", x: "how", y };
    finding.charts.push(wholly.chart(Shape::LogBars, labels));
    judge(&mut finding, &singly, &wholly);
    let gain = |system: System| {
        let name = system.name();
        let ratio = wholly.ratio_between((name, TRANSACTION), (name, EACH));
        ratio.map_or("–".into(), |ratio| format!("{:.2}", ratio.median))
    };
    finding.sentence = format!(
        "All files in one transaction are {} times as fast as an fsync of each by the library on the disk, {} times by a mount there, {} and {} times in memory, where an fsync waits for no disk.",
        gain(LIBRARY_DISK),
        gain(MOUNT_DISK),
        gain(LIBRARY),
        gain(MOUNT)
    );
    finding.note("A file is made under one name, written, synced, closed and given its last name. Processes work in one directory. \"one commit each\" is one strict `Fs::write` that makes a file under its last name with its bytes: that needs no second name. `tembo txn` is measured from its start to its end, with its namespace and its commit.");
    Ok(finding)
}

fn judge(finding: &mut Finding, singly: &Sheet, wholly: &Sheet) {
    for processes in PROCESSES {
        let at = at(processes);
        faster(finding, singly, (MOUNT_DISK, System::Disk), &at, "aim: at least 1");
        faster(finding, singly, (MOUNT_DISK, System::PassThrough), &at, "");
        faster(finding, singly, (MOUNT, System::RamDisk), &at, "");
        faster(finding, singly, (LIBRARY, System::RamDisk), &at, "aim: at least 5");
    }
    let rival = System::RamDisk.name();
    let ratio = wholly.ratio_between((LIBRARY.name(), ONE_CALL), (rival, EACH));
    finding.claim(
        &format!("{}, {ONE_CALL}, to {rival}", LIBRARY.name()),
        "aim: at least 5",
        times(ratio),
    );
    for system in [MOUNT_DISK, MOUNT, LIBRARY_DISK, LIBRARY] {
        let name = system.name();
        let ratio = wholly.ratio_between((name, TRANSACTION), (name, EACH));
        finding.claim(&format!("{name}: {TRANSACTION} to {EACH}"), "more than 1", times(ratio));
    }
    let (name, rival) = (MOUNT_DISK.name(), System::Disk.name());
    let ratio = wholly.ratio_between((name, TRANSACTION), (rival, EACH));
    finding.claim(
        &format!("{name}, {TRANSACTION}, to {rival}, {EACH}"),
        "more than 1",
        times(ratio),
    );
}

fn at(processes: u64) -> String {
    if processes == 1 { "1 process".into() } else { format!("{processes} processes") }
}

fn rate(count: u64, took: Duration) -> f64 {
    count as f64 / took.as_secs_f64()
}

/// Makes all of them, each part by a process, or by a thread with the library.
fn durable(context: &Context<'_>, opened: &Opened, parts: &[Small]) -> Result<Duration, Error> {
    if let Some(point) = opened.directory() {
        return Cells::start(context.lab(), point, parts)?.run();
    }
    let files = opened.files()?;
    let barrier = Barrier::new(parts.len() + 1);
    thread::scope(|scope| {
        let part = |small: Small| {
            barrier.wait();
            small.make(files)
        };
        let threads: Vec<_> = parts.iter().map(|&small| scope.spawn(move || part(small))).collect();
        barrier.wait();
        let begin = Instant::now();
        for thread in threads {
            thread.join().unwrap_or(Err(Error::Panicked))?;
        }
        Ok(begin.elapsed())
    })
}
