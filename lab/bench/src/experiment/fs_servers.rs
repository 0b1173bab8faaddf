//! DurableFS, figure 3.8: fio, and Filebench's fileserver and webserver, by loops with their parameters.

use std::thread;

use super::context::Context;
use super::fs_contenders::{ALL, LIBRARY, MOUNT, MOUNT_DISK, each, faster, timed};
use crate::Error;
use crate::file_system::{Files, System};
use crate::finding::{Finding, Shape, percent_more};
use crate::keys::Random;
use crate::sheet::{Labels, Sheet};

pub(super) const TITLE: &str = "fio, fileserver and webserver";

/// Of the document, in each of the three.
const THREADS: u64 = 10;
const IO: usize = 4096;

const FIO: &str = "random 4 KiB, 1:1";
const FILESERVER: &str = "fileserver";
const WEBSERVER: &str = "webserver";

/// How much is done.
#[derive(Clone, Copy)]
struct Extent {
    /// Files of a thread.
    files: u64,
    /// Rounds of a thread through the operations of a server.
    loops: u64,
    /// Bytes of a file for random operations, of which there is one for each thread.
    large: u64,
    /// Random operations of a thread.
    random: u64,
}

pub(super) fn run(context: &mut Context<'_>) -> Result<Finding, Error> {
    let mut finding = Finding::new("durablefs-3.8", TITLE, "DurableFS, figure 3.8");
    let extent = context.extent(
        Extent { files: 2, loops: 2, large: 64 << 10, random: 10 },
        Extent { files: 20, loops: 20, large: 8 << 20, random: 1_000 },
        Extent { files: 100, loops: 200, large: 64 << 20, random: 20_000 },
    );
    let mut sheet = Sheet::default();
    let systems = [&ALL[..], &[System::LibraryVolatile]].concat();
    each(context, &mut finding, &systems, |context, opened, system| {
        let (files, seed) = (opened.files()?, context.seed());
        let mut push = |at: &str, operations: u64, took: std::time::Duration| {
            let rate = (operations * THREADS) as f64 / took.as_secs_f64() / 1e3;
            sheet.push(system.name(), at, rate);
        };
        let each = |work: &(dyn Fn(u64, Random) -> Result<(), Error> + Sync)| {
            timed(|| threads(seed, work))
        };
        each(&|thread, _| files.fill(&format!("large{thread}"), extent.large, 1 << 20))?;
        push(FIO, extent.random, each(&|thread, random| fio(files, extent, thread, random))?);
        each(&|thread, _| {
            (0..extent.files).try_for_each(|n| files.fill(&name(thread, n), FILE, IO))
        })?;
        let took = each(&|thread, random| fileserver(files, extent, thread, random))?;
        push(FILESERVER, extent.loops * FILESERVER_CALLS, took);
        each(&|thread, _| {
            (0..extent.files).try_for_each(|n| files.fill(&page(thread, n), PAGE, IO))
        })?;
        each(&|thread, _| files.fill(&format!("log{thread}"), PAGE, IO))?;
        let took = each(&|thread, random| webserver(files, extent, thread, random))?;
        push(WEBSERVER, extent.loops * WEBSERVER_CALLS, took);
        Ok(())
    })?;
    let labels = Labels { title: "Ten threads", x: "", y: "thousand operations a second" };
    finding.charts.push(sheet.chart(Shape::LogBars, labels));
    for at in [FIO, FILESERVER, WEBSERVER] {
        faster(&mut finding, &sheet, (MOUNT_DISK, System::PassThrough), at, "");
        faster(&mut finding, &sheet, (System::MountFsync, System::Disk), at, "");
        faster(&mut finding, &sheet, (MOUNT, System::RamDisk), at, "");
        faster(&mut finding, &sheet, (LIBRARY, System::RamDisk), at, "");
    }
    // The document holds its durable file system against its own without flushes, and against NOVA, which has none.
    for (at, document) in [(FIO, "−11.14 %"), (FILESERVER, "−9.25 %"), (WEBSERVER, "−2.26 %")]
    {
        let ratio = sheet.ratio(LIBRARY.name(), System::LibraryVolatile.name(), at);
        let what = format!("{at}: {} to the same without durability", LIBRARY.name());
        finding.claim(&what, document, percent_more(ratio));
    }
    finding.sentence = sentence(&sheet);
    finding.note("Of the three only fio's ends with a sync; in the others ext4 and tmpfs have the bytes in memory when a close returns, a mount as it comes on the disk. The document compares with NOVA, which makes nothing durable; here the same library without durability stands in its place.");
    finding.note("Neither Filebench, which Debian has not, nor fio runs here: loops with the document's parameters do, ten threads and 4 KiB a call. fio: ten files of 256 MiB, here of 64 MiB in a full run and 8 MiB in a quick one, a thread each, buffered reads and writes 1:1, fsync at the end. fileserver: 1000 files of 128 KiB; delete, create and write whole, append 16 KiB, read whole, stat. webserver: 1000 files of 64 KiB; ten opened and read whole, 16 KiB appended to a log. A thread has files and a log of its own; in a quick run there are 200 of each.");
    Ok(finding)
}

/// What a mount loses to ext4, and what of it is left where all lies in memory.
fn sentence(sheet: &Sheet) -> String {
    let to = |own: System, rival: System| {
        let at = [FIO, FILESERVER, WEBSERVER];
        let [fio, fileserver, webserver] = at.map(|at| {
            let ratio = sheet.ratio(own.name(), rival.name(), at);
            ratio.map_or("–".into(), |ratio| format!("{:.2}", ratio.median))
        });
        format!("{fio}, {fileserver} and {webserver}")
    };
    format!(
        "In the three, one after the other, a mount has {} of ext4's speed on the disk and {} of its speed on a ram disk; the library in memory has {} of the latter.",
        to(System::MountFsync, System::Disk),
        to(MOUNT, System::RamDisk),
        to(LIBRARY, System::RamDisk)
    )
}

/// Each thread's part, with a sequence of its own.
fn threads(
    seed: u64,
    work: &(dyn Fn(u64, Random) -> Result<(), Error> + Sync),
) -> Result<(), Error> {
    thread::scope(|scope| {
        let part = |thread| scope.spawn(move || work(thread, Random::new(seed << 8 | thread)));
        let threads: Vec<_> = (0..THREADS).map(part).collect();
        let mut joined = threads.into_iter().map(|thread| thread.join());
        joined.try_for_each(|ended| ended.unwrap_or(Err(Error::Panicked)))
    })
}

fn name(thread: u64, number: u64) -> String {
    format!("file{thread}.{number}")
}

fn page(thread: u64, number: u64) -> String {
    format!("page{thread}.{number}")
}

fn fio(files: &dyn Files, extent: Extent, thread: u64, mut random: Random) -> Result<(), Error> {
    let file = files.open(&format!("large{thread}"))?;
    let mut bytes = [7; IO];
    for _ in 0..extent.random {
        let offset = random.below(extent.large / IO as u64) * IO as u64;
        if random.below(2) == 0 {
            file.read_at(&mut bytes, offset)?;
        } else {
            file.write_at(&bytes, offset)?;
        }
    }
    file.sync()
}

/// Bytes of a file of the fileserver.
const FILE: u64 = 128 << 10;

/// What is appended.
const APPENDED: [u8; 16 << 10] = [3; 16 << 10];

/// Delete; create, write, close; open, append, close; open, read, close; stat.
const FILESERVER_CALLS: u64 = 11;

fn fileserver(
    files: &dyn Files,
    extent: Extent,
    thread: u64,
    mut random: Random,
) -> Result<(), Error> {
    let mut bytes = [0; IO];
    let mut any = || name(thread, random.below(extent.files));
    for _ in 0..extent.loops {
        let anew = any();
        files.remove(&anew)?;
        files.fill(&anew, FILE, IO)?;
        files.append(&any(), &APPENDED)?;
        files.read_all(&any(), &mut bytes)?;
        files.size(&any())?;
    }
    Ok(())
}

/// Bytes of a file of the webserver.
const PAGE: u64 = 64 << 10;

/// Ten times open, read, close; open, append, close.
const WEBSERVER_CALLS: u64 = 33;

fn webserver(
    files: &dyn Files,
    extent: Extent,
    thread: u64,
    mut random: Random,
) -> Result<(), Error> {
    let mut bytes = [0; IO];
    for _ in 0..extent.loops {
        for _ in 0..10 {
            files.read_all(&page(thread, random.below(extent.files)), &mut bytes)?;
        }
        files.append(&format!("log{thread}"), &APPENDED)?;
    }
    Ok(())
}
