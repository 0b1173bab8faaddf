//! Thesis, chapter 3: what lies between a program and bytes that survive. Also section 5.2, flushing.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;
use std::time::Instant;

use tembo_kv::{DomainRequest, RegionOptions};
use tembo_pmem::{Emulation, FlushInstruction, HEADER_SIZE, Region};

use super::context::{Context, rotated};
use crate::Error;
use crate::file_system::LoopDevice;
use crate::finding::{Finding, Shape, times};
use crate::keys::Random;
use crate::rival::{Medium, failed};
use crate::sheet::{Labels, Sheet};

pub(super) const TITLE: &str = "Direct mapping against system calls";
pub(super) const TITLE_FLUSH: &str = "How fast lines can be flushed";

/// Bytes that are written to and fro.
const AREA: u64 = 64 << 20;

/// Bytes of a loop device: room for a file system around the area.
const LOOP_SIZE: u64 = 2 * AREA;

/// Bytes of an update.
const SIZES: [usize; 8] = [2, 64, 512, 2048, 4096, 16 << 10, 64 << 10, 128 << 10];

fn broken(source: io::Error) -> Error {
    failed("a file")(Box::new(source))
}

/// Where updates go.
enum Target {
    /// Stores into a mapping, without and with a flush and a fence of each update.
    Mapped(Box<Region>),
    /// `pwrite`.
    File(File),
}

/// A place in the stack, by name.
struct Layer {
    name: &'static str,
    target: Target,
    /// Smallest write that it takes.
    least: usize,
    /// Writes and their buffers are aligned to this, for O_DIRECT.
    is_direct: bool,
}

/// A block of memory, aligned as O_DIRECT wants it.
fn aligned(bytes: &mut Vec<u8>) -> &[u8] {
    const PAGE: usize = 4096;
    bytes.resize(SIZES[SIZES.len() - 1] + PAGE, 7);
    let from = bytes.as_ptr().align_offset(PAGE);
    &bytes[from..from + SIZES[SIZES.len() - 1]]
}

impl Layer {
    /// Writes the area from front to end, in updates of `size` bytes; so many of them. Megabytes a
    /// second.
    fn write(&self, size: usize, count: u64) -> Result<f64, Error> {
        let mut block = Vec::new();
        let bytes = &aligned(&mut block)[..size];
        let room = AREA - HEADER_SIZE - size as u64;
        let start = Instant::now();
        let mut offset = 0;
        for _ in 0..count {
            match &self.target {
                Target::Mapped(region) => {
                    region.write("bench.stack.write", HEADER_SIZE + offset, &[bytes])?;
                }
                Target::File(file) => file.write_all_at(bytes, offset).map_err(broken)?,
            }
            offset = if offset + size as u64 > room { 0 } else { offset + size as u64 };
        }
        if let Target::Mapped(region) = &self.target {
            // ORDER: all updates are durable before the time is taken.
            region.fence("bench.stack.written");
        }
        Ok((size as u64 * count) as f64 / start.elapsed().as_secs_f64() / 1e6)
    }

    /// Nanoseconds of an update of a line somewhere, and of making it durable.
    fn persist(&self, count: u64, random: &mut Random) -> Result<f64, Error> {
        let mut block = Vec::new();
        let size = if self.is_direct { self.least } else { 64 };
        let bytes = &aligned(&mut block)[..size];
        let places = (AREA - HEADER_SIZE) / size as u64;
        let start = Instant::now();
        for _ in 0..count {
            let offset = random.below(places) * size as u64;
            match &self.target {
                Target::Mapped(region) => {
                    region.write("bench.stack.line", HEADER_SIZE + offset, &[bytes])?;
                    // ORDER: the line is durable before the next update.
                    region.fence("bench.stack.line_fence");
                }
                Target::File(file) => {
                    file.write_all_at(bytes, offset).map_err(broken)?;
                    file.sync_data().map_err(broken)?;
                }
            }
        }
        Ok(start.elapsed().as_nanos() as f64 / count as f64)
    }
}

fn mapped(folder: &Path, name: &str, domain: DomainRequest) -> Result<Region, Error> {
    let options = RegionOptions { domain, size_max: AREA, ..RegionOptions::default() };
    let path = folder.join(name);
    let region = Region::create(&path, AREA, &options, |_| Ok::<(), tembo_pmem::Error>(()))?;
    region.prefault(HEADER_SIZE, AREA - HEADER_SIZE);
    Ok(region)
}

fn file(path: &Path) -> Result<File, Error> {
    let file = OpenOptions::new().read(true).write(true).create(true).truncate(false).open(path);
    let file = file.map_err(broken)?;
    let zeros = vec![0; 1 << 20];
    for offset in (0..AREA).step_by(1 << 20) {
        file.write_all_at(&zeros, offset).map_err(broken)?;
    }
    Ok(file)
}

fn layers(
    folder: &Path,
    disk: &Path,
    loops: &[Option<LoopDevice>; 2],
) -> Result<Vec<Layer>, Error> {
    // Both are files on one tmpfs: what differs is flushes, and not the memory.
    let unflushed = mapped(folder, "mapped", DomainRequest::Eadr)?;
    let flushed = mapped(folder, "flushed", DomainRequest::Flush)?;
    let plain = |name, target| Layer { name, target, least: 1, is_direct: false };
    let mut layers = vec![
        plain("mapping", Target::Mapped(Box::new(unflushed))),
        plain("mapping, flushed", Target::Mapped(Box::new(flushed))),
        plain("tmpfs", Target::File(file(&folder.join("tmpfs"))?)),
        plain("ext4 on the disk", Target::File(file(&disk.join("ext4"))?)),
    ];
    let [device, system] = loops;
    if let Some(device) = device {
        let direct = rustix::fs::OFlags::DIRECT.bits() as i32;
        let opened = OpenOptions::new().write(true).custom_flags(direct).open(device.device());
        let target = Target::File(opened.map_err(broken)?);
        let name = "loop block device, O_DIRECT";
        layers.push(Layer { name, target, least: 512, is_direct: true });
    }
    if let Some(point) = system.as_ref().and_then(LoopDevice::mounted) {
        layers.push(plain("ext4 on a loop device", Target::File(file(&point.join("file"))?)));
    }
    Ok(layers)
}

pub(super) fn layers_of_stack(context: &mut Context<'_>) -> Result<Finding, Error> {
    let mut finding = Finding::new("thesis-3", TITLE, "Thesis, chapter 3");
    let (folder, disk) = (context.folder(Medium::Memory)?, context.folder(Medium::Disk)?);
    let device = LoopDevice::attach(folder.path(), "device", LOOP_SIZE);
    let system =
        LoopDevice::attach(folder.path(), "system", LOOP_SIZE).and_then(|l| l.mount(folder.path()));
    let loops = [device, system];
    let layers = layers(folder.path(), disk.path(), &loops)?;
    let places: Vec<usize> = (0..layers.len()).collect();
    let (mut bandwidth, mut latency) = (Sheet::default(), Sheet::default());
    for round in 0..context.rounds() {
        for layer in rotated(&places, round).into_iter().map(|place| &layers[place]) {
            context.trial(&format!("round {}: {}", round + 1, layer.name))?;
            for size in SIZES.into_iter().filter(|size| *size >= layer.least) {
                let bytes = context.pick(8 << 20, AREA);
                let count = (bytes / size as u64).clamp(100, context.pick(4_000, 100_000));
                bandwidth.push(layer.name, size, layer.write(size, count)?);
            }
            let synced = matches!(layer.target, Target::File(_));
            let count = if synced { context.pick(100, 1_000) } else { 20_000 };
            let mut random = Random::new(round.into());
            latency.push(layer.name, "a line, durable", layer.persist(count, &mut random)?);
        }
    }
    drop(layers);
    judge(&mut finding, &bandwidth, &latency);
    calls(&mut finding, folder.path(), disk.path());
    Ok(finding)
}

fn judge(finding: &mut Finding, bandwidth: &Sheet, latency: &Sheet) {
    let labels =
        Labels { title: "Serial updates (3.2, 3.3)", x: "bytes of an update", y: "MB a second" };
    finding.charts.push(bandwidth.chart(Shape::LogLines, labels));
    let labels = Labels { title: "A line, written and made durable (3.4)", x: "", y: "ns" };
    finding.charts.push(latency.chart(Shape::LogBars, labels));
    let ratio = |below, size: usize| times(bandwidth.ratio("mapping", below, size));
    finding.claim("mapping to tmpfs, 64 B", "65×", ratio("tmpfs", 64));
    finding.claim("mapping to tmpfs, 4 KiB", "1.2×", ratio("tmpfs", 4096));
    let device = "loop block device, O_DIRECT";
    finding.claim("mapping to a block device in memory, 512 B", "32×", ratio(device, 512));
    finding.claim("mapping to a block device in memory, 128 KiB", "1.3×", ratio(device, 128 << 10));
    let line = |name| latency.spread(name, "a line, durable");
    let here = line("mapping, flushed").map(|ns| format!("{:.0} ns", ns.median));
    finding.claim("update and flush of a line", "about 280 ns", here);
    let slower = |name| times(latency.ratio(name, "mapping, flushed", "a line, durable"));
    finding.claim("tmpfs with fsync to that", "19.5×", slower("tmpfs"));
    finding.claim("a block device with fsync to that", "32×", slower(device));
    let small = bandwidth.ratio("mapping", "tmpfs", 64).map_or(0.0, |ratio| ratio.median);
    finding.sentence = format!(
        "Updates of 64 bytes are {small:.0} times as fast through a mapping as through tmpfs; the thesis says 65."
    );
    finding.note("Both mappings are files on one tmpfs: the one that is not flushed is in the domain eadr. Updates of a line or more go past the caches in both, so that only smaller ones differ.");
    finding.note("tmpfs's fsync does nothing here; the thesis had changed its kernel so that it flushed. The loop device stands in for the block RAM device and takes O_DIRECT's way; its bytes lie on a tmpfs.");
}

/// Table 3.1: kernel functions in one system call, by ftrace, where the machine allows it.
fn calls(finding: &mut Finding, folder: &Path, disk: &Path) {
    let mut known = false;
    for (name, path, document) in [
        ("tmpfs", folder.join("tmpfs"), "64"),
        ("ext4 on the disk", disk.join("ext4"), "192 (ext2 on BRD)"),
    ] {
        let count = super::ftrace::functions_of_write(&path);
        known |= count.is_some();
        let here = count.map(|count| count.to_string());
        finding.claim(&format!("kernel functions in one write to {name}"), document, here);
    }
    if !known {
        finding.note("Table 3.1 needs the kernel's tracer of functions, which this user or this kernel does not have.");
    }
}

/// Bytes of an object that is flushed at once (section 5.2).
const OBJECTS: [u64; 11] = [
    64,
    256,
    1 << 10,
    4 << 10,
    16 << 10,
    64 << 10,
    256 << 10,
    1 << 20,
    4 << 20,
    16 << 20,
    AREA - HEADER_SIZE,
];

pub(super) fn flushing(context: &mut Context<'_>) -> Result<Finding, Error> {
    let mut finding = Finding::new("thesis-5.2", TITLE_FLUSH, "Thesis 5.2, figures 5.1 and 5.2");
    let folder = context.folder(Medium::Memory)?;
    let best = FlushInstruction::detect().ok_or(Error::Absent("no instruction flushes lines"))?;
    let all = [FlushInstruction::Clflush, FlushInstruction::Clflushopt, FlushInstruction::Clwb];
    let has = |instruction: &FlushInstruction| *instruction as u8 >= best as u8;
    let mut sheet = Sheet::default();
    for instruction in all.into_iter().filter(has) {
        let emulation = Some(Emulation { flush: Some(instruction), ..Emulation::default() });
        let domain = DomainRequest::Flush;
        let options =
            RegionOptions { domain, emulation, size_max: AREA, ..RegionOptions::default() };
        let path = folder.path().join(format!("{instruction:?}"));
        let region = Region::create(&path, AREA, &options, |_| Ok::<(), tembo_pmem::Error>(()))?;
        region.prefault(HEADER_SIZE, AREA - HEADER_SIZE);
        for round in 0..context.rounds() {
            context.trial(&format!("{instruction:?}, round {}", round + 1))?;
            for object in OBJECTS {
                let name = format!("{instruction:?}").to_lowercase();
                sheet.push(&name, bytes(object), flushed(&region, object)?);
            }
        }
    }
    let labels = Labels {
        title: "Lines flushed (5.1)",
        x: "bytes of an object",
        y: "million lines a second",
    };
    finding.charts.push(sheet.chart(Shape::Lines, labels));
    let of = |instruction: &str, object: &str| {
        sheet.spread(instruction, object).map(|lines| format!("{:.1} M/s", lines.median))
    };
    finding.claim("clflush, objects of 64 B", "about 12 M/s", of("clflush", "64 B"));
    finding.claim("clflush, objects of 256 B to 8 MB", "16–20 M/s", of("clflush", "64 KiB"));
    finding.claim("clwb, objects of 64 KiB", "no such instruction", of("clwb", "64 KiB"));
    let gain = sheet.ratio("clwb", "clflush", "64 KiB").map_or(0.0, |gain| gain.median);
    finding.sentence = format!(
        "For objects of 64 KiB clwb flushes {gain:.1} times as many lines a second as clflush."
    );
    finding.note("Each flush of an object ends with a fence. The fall beyond 8 MB that figure 5.2 explains by questions to the second socket cannot be seen with one socket.");
    Ok(finding)
}

fn bytes(size: u64) -> String {
    match size {
        0..1024 => format!("{size} B"),
        1024..0x10_0000 => format!("{} KiB", size >> 10),
        _ => format!("{} MiB", (size + 0x8_0000) >> 20),
    }
}

/// Million lines a second: every line of an object is written, then the object flushed, then the next.
fn flushed(region: &Region, object: u64) -> Result<f64, Error> {
    let objects = (AREA - HEADER_SIZE) / object;
    // At most 16 MiB of small objects: enough to be measured.
    let objects = objects.min(((16 << 20) / object).max(1));
    let start = Instant::now();
    for number in 0..objects {
        let offset = HEADER_SIZE + number * object;
        for word in region.words(offset, (object / 8) as usize)?.iter().step_by(8) {
            region.store(word, number);
        }
        // ORDER: the object is durable before the next is written.
        region.flush("bench.stack.object", offset, object);
        // ORDER: as above.
        region.fence("bench.stack.object_fence");
    }
    Ok((objects * object / 64) as f64 / start.elapsed().as_secs_f64() / 1e6)
}
